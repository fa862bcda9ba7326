//! Locations become routes, in the order that gives nginx's precedence: an exact location first,
//! then the longest prefix if it has `^~`, then the regexes in the order of the file, then the
//! longest prefix.

use std::collections::HashSet;

use weir_config::pattern::PathPattern;
use weir_config::source::SourceSpan;
use weir_config::syntax::lexer::Word;
use weir_config::syntax::tree::Directive;

use super::guards::GUARDED;
use super::logs::log_line;
use super::pools::{PassTarget, UpstreamScheme};
use super::rewriting::{Alternative, AlternativeEnd, RewritePhase, RewrittenBlock};
use super::scope::InheritanceScope;
use super::state::Converter;
use super::statements::StatementId;
use super::targets::ProxyPlace;
use super::values::{KnownVariables, template};
use crate::native::NativeLine;
use crate::pcre;

/// The kind of a location.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Match {
    Exact,
    /// A prefix with `^~`, after which no regex is tried.
    Final,
    Prefix,
    Regex,
    /// `@name`, which only internal redirects reach.
    Named,
}

/// One location: its pattern, and the routes that it becomes.
struct Location {
    id: StatementId,
    kind: Match,
    pattern: String,
    routes: Vec<LocationRoute>,
    /// Set if nginx sends requests for the prefix without its slash to the prefix.
    redirects: bool,
}

/// A route of a location, with a condition besides that of the location.
struct LocationRoute {
    id: StatementId,
    condition: Vec<Word>,
    parts: RouteParts,
}

/// A route without its condition.
#[derive(Clone)]
pub(crate) struct RouteParts {
    pub(crate) target: Vec<Word>,
    pub(crate) block: Vec<Directive>,
}

/// The place of the routes: what a redirect and `$server_name` need to know.
#[derive(Clone, Copy)]
pub(crate) struct RoutePlace<'a> {
    pub(crate) port: Option<u16>,
    pub(crate) tls: bool,
    pub(crate) server_name: &'a str,
}

impl<'t> Converter<'_, 't> {
    /// Returns the routes of a server.
    pub(crate) fn routes(
        &mut self,
        server: StatementId,
        scope: &InheritanceScope<'_, 't>,
        place: RoutePlace<'_>,
    ) -> Vec<Directive> {
        let span = self.statements.span(server);
        let statements = self.statements.named(Some(server), "location");
        if !self.room_for(server, self.most_routes(server, statements)) {
            return Vec::new();
        }
        let phase = self.rewrite_phase(server, RewrittenBlock::Server, scope, place);
        if phase.end.is_some() {
            for other in statements {
                let reason = "`return` of the server answers before it, as in nginx";
                self.outcomes.ignore(*other, reason);
            }
            return self.before_locations(phase, false);
        }
        let mut seen = HashSet::new();
        let mut locations = Vec::new();
        for &id in statements {
            let Some((kind, pattern)) = self.kind(id) else { continue };
            if !seen.insert((kind == Match::Regex, kind == Match::Exact, pattern.clone()))
                && kind != Match::Regex
            {
                self.outcomes.refuse(id, "there is a second location of this name");
                continue;
            }
            let inner = scope.inner(id);
            let passes = !inner.own("proxy_pass").is_empty();
            let redirects = passes
                && matches!(kind, Match::Prefix | Match::Final)
                && pattern.len() > 1
                && pattern.ends_with('/');
            let routes = self.location(id, &inner, ProxyPlace { kind, pattern: &pattern, place });
            locations.push(Location { id, kind, pattern, routes, redirects });
        }
        let mut routes = Vec::new();
        for location in locations.iter().filter(|location| location.kind == Match::Named) {
            self.push(&mut routes, &[], location);
        }
        routes.extend(self.before_locations(phase, locations.iter().any(Location::leads_inside)));
        routes.extend(self.ordered(&locations, scope, place, span));
        let all = |location: &Location| location.kind == Match::Prefix && location.pattern == "/";
        if locations.iter().any(all) {
            return routes;
        }
        let root = ProxyPlace { kind: Match::Prefix, pattern: "/", place };
        if let Some(mut files) = self.static_files(server, scope, root) {
            files.block.extend(self.request_limits(scope, place, span));
            routes.push(written(&[], &[], &files, span));
        } else {
            self.default(
                "location /",
                "where no location matches, nginx looks for a file in its own folder; Weir answers 404",
            );
            routes.push(written(&[], &[], &RouteParts::fixed("404", span), span));
        }
        routes
    }

    /// Returns the routes of the server's own `rewrite`, `if` and `return`. nginx does not come to
    /// them again after an internal redirect.
    fn before_locations(&self, phase: RewritePhase, inside: bool) -> Vec<Directive> {
        let mut routes = Vec::new();
        let inside = inside || phase.alternatives.iter().any(|one| is_internal(&one.end));
        for Alternative { id, condition, end } in phase.alternatives {
            let span = self.statements.span(id);
            let AlternativeEnd::Answer(parts) = end else { continue };
            let mut words = Vec::new();
            if inside {
                words = NativeLine::new("", span).keyword("not").keyword("internal").into_words();
                if !condition.is_empty() {
                    words.extend(NativeLine::new("", span).keyword("and").into_words());
                }
            }
            words.extend(condition);
            routes.push(written(&[], &words, &parts, span));
        }
        if let Some((id, answer)) = phase.end {
            routes.push(written(&[], &[], &answer, self.statements.span(id)));
        }
        routes
    }

    /// Returns the most routes that locations can become: behind a prefix with `^~`, each longer
    /// one has routes for all regexes.
    fn most_routes(&self, server: StatementId, locations: &[StatementId]) -> usize {
        let statements = self.statements;
        let alternatives = |block: StatementId| {
            let rewriting = |id: &&StatementId| matches!(statements.name(**id), "rewrite" | "if");
            let found = statements.children(block).iter().filter(rewriting);
            found.map(|id| 1 + statements.children(*id).len()).sum::<usize>()
        };
        let routes = locations.iter().map(|id| 1 + alternatives(*id)).sum::<usize>();
        let starts = |prefix: &str| {
            let found =
                locations.iter().filter(|id| self.statements.word(**id, 0).starts_with(prefix));
            found.count()
        };
        let regexes = if starts("^~") > 0 { starts("~") } else { 0 };
        routes.saturating_mul(regexes + 2) + alternatives(server)
    }

    /// Returns the kind and the pattern of a location.
    fn kind(&mut self, id: StatementId) -> Option<(Match, String)> {
        let words = self.statements.words(id);
        let (modifier, pattern) = match words {
            [pattern] => {
                let text = pattern.text.as_str();
                let split = ["=", "^~", "~*", "~"].iter().find(|prefix| text.starts_with(**prefix));
                split.map_or(("", text), |prefix| text.split_at(prefix.len()))
            }
            [modifier, pattern] => (modifier.text.as_str(), pattern.text.as_str()),
            _ => return None,
        };
        let kind = match modifier {
            "=" => Match::Exact,
            "^~" => Match::Final,
            "" if pattern.starts_with('@') => return Some((Match::Named, pattern.to_owned())),
            "" => Match::Prefix,
            "~" | "~*" => {
                let regex = match pcre::native(pattern) {
                    Ok(regex) => format!("{modifier}{regex}"),
                    Err(reason) => {
                        self.outcomes.refuse(id, reason);
                        return None;
                    }
                };
                if let Err(message) = regex.parse::<PathPattern>() {
                    self.outcomes.refuse(id, message);
                    return None;
                }
                return Some((Match::Regex, regex));
            }
            _ => return None,
        };
        if !pattern.starts_with('/') {
            self.outcomes.ignore(id, "no path begins like this, so it never matches");
            return None;
        }
        Some((kind, pattern.to_owned()))
    }

    /// Converts the contents of a location.
    fn location(
        &mut self,
        id: StatementId,
        scope: &InheritanceScope<'_, 't>,
        location: ProxyPlace<'_>,
    ) -> Vec<LocationRoute> {
        self.outcomes.honour(id);
        let span = self.statements.span(id);
        let route = |id, condition, parts| LocationRoute { id, condition, parts };
        let block = RewrittenBlock::Location { has_groups: location.kind == Match::Regex };
        let phase = self.rewrite_phase(id, block, scope, location.place);
        let content = if let Some((_, answer)) = phase.end {
            for other in self.statements.children(id) {
                let name = self.statements.name(*other);
                if ["proxy_", "limit_req", "limit_conn"].iter().any(|start| name.starts_with(start))
                {
                    self.outcomes.ignore(*other, "`return` answers before it, as in nginx");
                }
            }
            answer
        } else {
            let mut content = self.content(id, scope, location);
            content.block.extend(self.request_limits(scope, location.place, span));
            content
        };
        let mut routes = Vec::new();
        for Alternative { id, condition, end } in phase.alternatives {
            match end {
                AlternativeEnd::Answer(parts) => routes.push(route(id, condition, parts)),
                AlternativeEnd::Changed(change) => match changed(&content, change) {
                    Ok(parts) => routes.push(route(id, condition, parts)),
                    Err(reason) => self.outcomes.refuse(id, reason),
                },
            }
        }
        routes.push(route(id, Vec::new(), content));
        let logs = self.access_logs(scope);
        if logs != self.server_logs {
            let line = log_line(&logs, span);
            for route in &mut routes {
                route.parts.block.push(line.clone());
            }
        }
        let inside = NativeLine::new("", span).keyword("internal");
        let inside = match (location.kind, scope.own("internal").first()) {
            (Match::Named, _) => inside.value(location.pattern),
            (_, Some(internal)) => {
                self.only_inside(*internal, location);
                inside
            }
            (_, None) => return routes,
        };
        for route in &mut routes {
            let condition = std::mem::replace(&mut route.condition, inside.clone().into_words());
            if !condition.is_empty() {
                route.condition.extend(NativeLine::new("", span).keyword("and").into_words());
                route.condition.extend(condition);
            }
        }
        if location.kind != Match::Named {
            routes.push(route(id, Vec::new(), RouteParts::fixed("404", span)));
        }
        routes
    }

    /// Converts the part of a location that answers.
    fn content(
        &mut self,
        id: StatementId,
        scope: &InheritanceScope<'_, 't>,
        location: ProxyPlace<'_>,
    ) -> RouteParts {
        let span = self.statements.span(id);
        let passes = scope.own("proxy_pass");
        let Some(&pass) = passes.first() else {
            if let Some(files) = self.static_files(id, scope, location) {
                return files;
            }
            self.outcomes.differs(id, "nginx looks for a file; Weir answers 404");
            let block = self.access(scope, false);
            return RouteParts { block, ..RouteParts::fixed("404", span) };
        };
        for other in passes.iter().skip(1) {
            self.outcomes.refuse(*other, "nginx refuses a second one in the same block");
        }
        let route = match self.proxied(pass, scope, location) {
            Ok(route) => route,
            Err(reason) => {
                self.outcomes.refuse(pass, reason);
                RouteParts::fixed("404", span)
            }
        };
        if self.is_guarded(scope) {
            self.outcomes.refuse(id, GUARDED);
            return RouteParts::fixed("403", span);
        }
        route
    }

    /// Converts `proxy_pass`.
    fn proxied(
        &mut self,
        pass: StatementId,
        scope: &InheritanceScope<'_, 't>,
        location: ProxyPlace<'_>,
    ) -> Result<RouteParts, String> {
        let url = self.statements.word(pass, 0);
        let span = self.statements.span(pass);
        let (scheme, address) =
            UpstreamScheme::of(url).ok_or("write `http://ADDRESS` or `https://ADDRESS`")?;
        let by_variable = address.starts_with('$') && !address.contains(['/', '?']);
        let (host, uri) = if by_variable {
            (address, "")
        } else if address.starts_with("unix:") {
            address.rsplit_once(':').filter(|(host, _)| *host != "unix").unwrap_or((address, ""))
        } else {
            address.split_at(address.find(['/', '$', '?']).unwrap_or(address.len()))
        };
        let path_follows = uri.is_empty()
            || uri.starts_with('/')
            || ["$request_uri", "$uri"].iter().any(|start| uri.starts_with(start));
        if host.is_empty() || !path_follows {
            return Err("a target with variables has no conversion: write a route for each".into());
        }
        let shown =
            if by_variable { template(host, self.known(), false)? } else { host.to_owned() };
        let proxy_host = if host.starts_with("unix:") { "localhost" } else { shown.as_str() };
        let place = location.place;
        let known = KnownVariables {
            proxy_host: Some(proxy_host),
            server_name: Some(place.server_name),
            defined: self.statements.defined(),
        };
        let change = self.target_change(pass, uri, location, known)?;
        let PassTarget { pool, route_lines } = if by_variable {
            let pool = self.pool_variable((scheme, host), pass, scope)?;
            PassTarget { pool, route_lines: Vec::new() }
        } else {
            self.pool((scheme, host), pass, scope)?
        };
        if !by_variable
            && !self.pools.is_upstream(host)
            && host.parse::<std::net::SocketAddr>().is_err()
        {
            self.outcomes.differs(pass, "the name is resolved again and again, not only once");
        } else {
            self.outcomes.honour(pass);
        }
        self.proxy_settings(scope);
        let default = match uri {
            _ if by_variable => None,
            "" => Some((format!("{url}/"), "/".to_owned())),
            _ if uri.contains('$') => None,
            _ => Some((url.to_owned(), location.pattern.to_owned())),
        };
        let mut block = self.access(scope, false);
        block.extend(change);
        block.extend(self.request_headers(scope, known, span));
        block.extend(self.hidden_headers(scope));
        block.extend(self.redirect_changes(scope, location, known, default.as_ref(), span));
        block.extend(self.cookie_changes(scope, known));
        block.extend(self.response_headers(scope, known));
        block.extend(route_lines);
        let target = NativeLine::new("", span).value(&pool).into_words();
        Ok(RouteParts { target, block })
    }

    /// Notes the settings of a proxied location that need no line.
    fn proxy_settings(&mut self, scope: &InheritanceScope<'_, 't>) {
        for id in scope.own("default_type") {
            self.outcomes.ignore(*id, "the type of a response is that of the server");
        }
        match self.single(scope, "proxy_http_version") {
            Some(id) if self.statements.word(id, 0) == "1.1" => self.outcomes.honour(id),
            Some(id) => self.outcomes.differs(id, "Weir speaks HTTP/1.1 to servers"),
            None => self.default(
                "proxy_http_version",
                "1.0 with a connection for each request (before nginx 1.29.7); Weir speaks HTTP/1.1",
            ),
        }
    }

    /// Converts `return`.
    pub(crate) fn own_answer(
        &mut self,
        id: StatementId,
        scope: &InheritanceScope<'_, 't>,
        place: RoutePlace<'_>,
        groups: bool,
    ) -> Option<RouteParts> {
        let span = self.statements.span(id);
        let words = self.statements.words(id);
        let (first, second) = (self.statements.word(id, 0), self.statements.word(id, 1));
        let known = KnownVariables {
            proxy_host: None,
            server_name: Some(place.server_name),
            defined: self.statements.defined(),
        };
        let lone = words.len() == 1 && !first.bytes().all(|byte| byte.is_ascii_digit());
        let (status, text) = if lone { ("302", first) } else { (first, second) };
        let refusal = match (status.parse::<u16>(), words.len()) {
            (Ok(444), _) => Some("Weir always sends a response: write a status such as 403"),
            (Ok(200..=599), 1 | 2) => None,
            _ => Some("write a status from 200 to 599, or a URL"),
        };
        if let Some(refusal) = refusal {
            self.outcomes.refuse(id, refusal);
            return None;
        }
        let text = match template(text, known, groups) {
            Ok(text) => text,
            Err(reason) => {
                self.outcomes.refuse(id, reason);
                return None;
            }
        };
        let mut block = self.access(scope, true);
        block.extend(self.response_headers(scope, known));
        let redirect = matches!(status, "301" | "302" | "303" | "307" | "308");
        let target = if redirect {
            let url = self.location_url(&text, scope, place);
            if text.is_empty()
                || !(url.starts_with('$') || url.contains("://") || url.starts_with('/'))
            {
                self.outcomes.refuse(id, "a redirect needs a URL or a path");
                return None;
            }
            self.outcomes.honour(id);
            NativeLine::new("", span).keyword("redirect").value(status).value_at(&url, span)
        } else {
            self.fixed(id, status, (words.len() == 2 || status == "200").then_some(text), scope)
        };
        Some(RouteParts { target: target.into_words(), block })
    }

    /// Returns `respond` for a status and perhaps a text.
    fn fixed(
        &mut self,
        id: StatementId,
        status: &str,
        text: Option<String>,
        scope: &InheritanceScope<'_, 't>,
    ) -> NativeLine {
        let line = NativeLine::new("", self.statements.span(id)).keyword("respond").value(status);
        match text {
            Some(text) if !matches!(status, "204" | "304") => {
                self.outcomes.honour(id);
                let kind = self.single(scope, "default_type");
                if let Some(kind) = kind {
                    self.outcomes.differs(kind, "every text of `return` has this type; nginx takes that of the path's extension, if it has one");
                } else {
                    self.default("default_type", "text/plain for texts of `return`, as in nginx");
                }
                let kind = kind.map_or("text/plain", |kind| self.statements.word(kind, 0));
                line.value(&text).option("type", kind)
            }
            _ => {
                if status == "204" {
                    self.outcomes.honour(id);
                } else {
                    self.outcomes.differs(id, "the page of the response is Weir's own");
                }
                line
            }
        }
    }

    /// Returns the `Location` of a redirect: nginx puts scheme, host and port before a path.
    pub(crate) fn location_url(
        &mut self,
        text: &str,
        scope: &InheritanceScope<'_, 't>,
        place: RoutePlace<'_>,
    ) -> String {
        let absolute = self.switch(scope, "absolute_redirect", true);
        let with_port = self.switch(scope, "port_in_redirect", true);
        if self.switch(scope, "server_name_in_redirect", false)
            && let Some(id) = self.single(scope, "server_name_in_redirect")
        {
            self.outcomes.refuse(id, "redirects have the host of the request");
        }
        if !text.starts_with('/') || !absolute {
            return text.to_owned();
        }
        let usual = if place.tls { 443 } else { 80 };
        match place.port.filter(|port| with_port && *port != usual) {
            Some(port) => format!("${{scheme}}://${{host}}:{port}{text}"),
            None => format!("${{scheme}}://${{host}}{text}"),
        }
    }

    /// Returns the routes in nginx's order of precedence.
    fn ordered(
        &mut self,
        locations: &[Location],
        scope: &InheritanceScope<'_, 't>,
        place: RoutePlace<'_>,
        span: SourceSpan,
    ) -> Vec<Directive> {
        let mut routes = Vec::new();
        let of = |kind: Match| locations.iter().filter(move |location| location.kind == kind);
        let mut whole: HashSet<&str> = HashSet::new();
        for location in of(Match::Exact) {
            whole.insert(&location.pattern);
            self.push(&mut routes, &[exact(&location.pattern)], location);
        }
        let mut prefixes: Vec<&Location> = of(Match::Final).chain(of(Match::Prefix)).collect();
        prefixes.sort_by_key(|location| std::cmp::Reverse(location.pattern.len()));
        let names: HashSet<&str> = prefixes.iter().map(|prefix| prefix.pattern.as_str()).collect();
        for location in prefixes.iter().filter(|location| location.redirects) {
            let name = location.pattern.trim_end_matches('/');
            if location.pattern.len() - name.len() == 1
                && !names.contains(name)
                && whole.insert(name)
            {
                let text = format!("{}$is_args$args", location.pattern.replace('$', "$$"));
                let url = self.location_url(&text, scope, place);
                let target = NativeLine::new("", span).keyword("redirect").value("301").value(&url);
                let route = RouteParts { target: target.into_words(), block: Vec::new() };
                routes.push(written(
                    &[exact(name)],
                    &[],
                    &route,
                    self.statements.span(location.id),
                ));
            }
        }
        let finals: HashSet<&str> = of(Match::Final).map(|found| found.pattern.as_str()).collect();
        let below_final = |location: &Location| {
            let pattern = location.pattern.as_str();
            (1..=pattern.len())
                .filter_map(|end| pattern.get(..end))
                .any(|start| finals.contains(start))
        };
        let (before, after): (Vec<&Location>, Vec<&Location>) =
            prefixes.into_iter().partition(|location| below_final(location));
        for location in before {
            let prefix = prefix(&location.pattern, &whole);
            if location.kind == Match::Prefix {
                for regex in of(Match::Regex) {
                    let patterns = [prefix.clone(), regex.pattern.clone()];
                    self.push(&mut routes, &patterns, regex);
                }
            }
            self.push(&mut routes, &[prefix], location);
        }
        for location in of(Match::Regex) {
            self.push(&mut routes, std::slice::from_ref(&location.pattern), location);
        }
        for location in after {
            let patterns = [prefix(&location.pattern, &whole)];
            let patterns: &[String] = if location.pattern == "/" { &[] } else { &patterns };
            self.push(&mut routes, patterns, location);
        }
        routes
    }

    /// Appends the routes of a location for paths that all patterns match.
    fn push(&self, routes: &mut Vec<Directive>, patterns: &[String], location: &Location) {
        for LocationRoute { id, condition, parts } in &location.routes {
            routes.push(written(patterns, condition, parts, self.statements.span(*id)));
        }
    }
}

impl RouteParts {
    fn leads_inside(&self) -> bool {
        self.target.iter().any(|word| word.is("internal") || word.text.starts_with("fallback="))
    }

    /// Returns the route of a location that always answers with this status.
    pub(crate) fn fixed(status: &str, span: SourceSpan) -> Self {
        let target = NativeLine::new("", span).keyword("respond").value(status);
        Self { target: target.into_words(), block: Vec::new() }
    }
}

impl Location {
    /// Returns true if an internal redirect may come from it.
    fn leads_inside(&self) -> bool {
        self.routes.iter().any(|route| route.parts.leads_inside())
    }
}

fn is_internal(end: &AlternativeEnd) -> bool {
    matches!(end, AlternativeEnd::Answer(parts) if parts.leads_inside())
}

/// Returns the content of a location with a change of the target.
fn changed(content: &RouteParts, change: Directive) -> Result<RouteParts, String> {
    let answers = |word: &Word| word.is("respond") || word.is("files");
    if content.target.first().is_some_and(answers) {
        return Err("only a request to a server can be rewritten: write `proxy_pass`".to_owned());
    }
    if content.block.iter().any(|line| line.name.text == "rewrite") {
        return Err("leave the path of `proxy_pass` out, which nginx does not add here".to_owned());
    }
    let mut parts = content.clone();
    parts.block.push(change);
    Ok(parts)
}

/// Returns the route with the condition, and that all patterns match.
fn written(
    patterns: &[String],
    condition: &[Word],
    route: &RouteParts,
    span: SourceSpan,
) -> Directive {
    let mut line = NativeLine::new("route", span).words(condition.iter().cloned());
    for (index, pattern) in patterns.iter().enumerate() {
        if index > 0 || !condition.is_empty() {
            line = line.keyword("and");
        }
        line = line.keyword("path").value(pattern);
    }
    let line = line.keyword("->").words(route.target.iter().cloned());
    if route.block.is_empty() { line.end() } else { line.block(route.block.clone()) }
}

/// Returns the native pattern of an exact path.
fn exact(path: &str) -> String {
    if path.contains(['*', '?']) { format!("~^{}$", literal(path)) } else { path.to_owned() }
}

/// Returns the native pattern of a prefix. `/a/*` matches `/a` too, so it is used only if another
/// route takes that path before.
fn prefix(path: &str, whole: &HashSet<&str>) -> String {
    let covered = path.strip_suffix('/').is_none_or(|name| name.is_empty() || whole.contains(name));
    if path.contains(['*', '?']) || !covered {
        return format!("~^{}", literal(path));
    }
    format!("{path}*")
}

/// Returns a regex that matches this text only.
pub(crate) fn literal(text: &str) -> String {
    let mut regex = String::with_capacity(text.len());
    for character in text.chars() {
        if "\\.+*?()|[]{}^$#&-~/".contains(character) && character != '/' {
            regex.push('\\');
        }
        regex.push(character);
    }
    regex
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_match_what_nginx_matches() {
        let whole = HashSet::from(["/a"]);
        let matches = |path: &str, subject: &str| {
            let pattern = prefix(path, &whole).parse::<PathPattern>().unwrap();
            pattern.matches(subject)
        };
        assert!(matches("/a/", "/a/x") && matches("/a/", "/a/"));
        assert!(matches("/b/", "/b/x") && !matches("/b/", "/b") && !matches("/b/", "/bx"));
        assert!(matches("/c", "/cx") && matches("/c", "/c"));
        assert!(matches("/d*", "/d*x") && !matches("/d*", "/dx"));
        assert!(matches("/", "/") && matches("/", "/x"));
        assert!(exact("/e.*").parse::<PathPattern>().unwrap().matches("/e.*"));
        assert!(!exact("/e.*").parse::<PathPattern>().unwrap().matches("/ex"));
    }
}
