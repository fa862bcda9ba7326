//! Servers and their locations become routes, in the order of `precedence`.

use std::collections::HashSet;
use std::rc::Rc;

use weir_config::pattern::PathPattern;
use weir_config::source::SourceSpan;
use weir_config::syntax::lexer::Word;
use weir_config::syntax::tree::Directive;

use super::body_bounds::unbounded;
use super::errors::Intercepted;
use super::file_types::with_charset;
use super::guards::GUARDED;
use super::headers::UsualHost;
use super::logs::log_line;
use super::pass_url::PassUrl;
use super::pools::PassTarget;
use super::precedence::{Location, LocationEntry, LocationRoute, Match, in_order};
use super::rewriting::{Alternative, AlternativeEnd, RewritePhase, RewrittenBlock};
use super::route_parts::{BODY_BOUND, RouteOf, RouteParts, RoutePlace};
use super::scope::InheritanceScope;
use super::state::{Converter, NamedPool};
use super::statements::StatementId;
use super::status_page::status_page_of;
use super::targets::ProxyPlace;
use super::upstream_protocol::UpstreamProtocol;
use super::values::{KnownVariables, template, text_template};
use crate::native::NativeLine;
use crate::pcre;

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
        self.set = self.variables_of_host(server);
        self.continuations.begin_server();
        self.named_routes.clear();
        let phase = self.rewrite_phase(server, RewrittenBlock::Server, scope, place);
        let (mut routes, passing) = self.continuations_of_server(server, scope, place);
        if phase.end.is_some() {
            // Only a page of an error can be a named location.
            let errors = !scope.all("error_page").is_empty();
            let is_named =
                |id: &StatementId| errors && self.statements.word(*id, 0).starts_with('@');
            let (named, others): (Vec<_>, Vec<_>) = statements.iter().partition(|id| is_named(id));
            for other in others {
                let reason = "`return` of the server answers before it, as in nginx";
                self.outcomes.ignore_all(self.statements, other, reason);
            }
            let mut named = self.level(&named, None, scope, place);
            named.append(&mut self.named_routes);
            for location in named {
                self.push(&mut routes, &[], &location);
            }
            routes.extend(self.before_locations(phase, &[]));
            return routes;
        }
        let mut locations = self.level(statements, None, scope, place);
        locations.append(&mut self.named_routes);
        for location in locations.iter().filter(|location| location.kind == Match::Named) {
            self.push(&mut routes, &[], location);
        }
        let continues = !routes.is_empty() || !passing.is_empty();
        let inside = continues || locations.iter().any(Location::leads_inside);
        let inside = inside || phase.alternatives.iter().any(|one| is_internal(&one.end));
        let outside = outside(&passing, span);
        routes.extend(self.before_locations(phase, if inside { &outside } else { &[] }));
        let Some(entries) = in_order(&locations, self.room()) else {
            self.too_many_routes(server);
            return Vec::new();
        };
        for entry in entries {
            self.entry(&mut routes, &entry, scope, place);
        }
        let all = |location: &Location| location.kind == Match::Prefix && location.pattern == "/";
        if locations.iter().any(all) {
            return routes;
        }
        self.outside_locations(server, scope, place, &mut routes);
        routes
    }

    /// Appends the routes of requests that no location of a server takes.
    fn outside_locations(
        &mut self,
        server: StatementId,
        scope: &InheritanceScope<'_, 't>,
        place: RoutePlace<'_>,
        routes: &mut Vec<Directive>,
    ) {
        let span = self.statements.span(server);
        let root = ProxyPlace { kind: Match::Prefix, pattern: "/", place };
        if let Some(id) = status_page_of(scope) {
            let mut page = self.status_page(id, scope, place);
            page.block.push(self.body_bound(scope, span));
            let others = self.other_methods(id, &page);
            routes.push(written(&[], &others.condition, &others.parts, span));
            routes.push(written(&[], &[], &page, span));
        } else if let Some(mut files) = self.static_files(server, scope, root) {
            files.block.extend(self.request_limits(scope, place, span));
            files.block.push(self.body_bound(scope, span));
            routes.push(written(&[], &[], &files, span));
        } else {
            self.default(
                "location /",
                "where no location matches, nginx looks for a file in its own folder; Weir answers 404",
            );
            let mut missing = self.missing(span, scope, place);
            missing.block.push(self.body_bound(scope, span));
            routes.push(written(&[], &[], &missing, span));
        }
    }

    /// Returns the route of a block without a directory.
    pub(crate) fn missing(
        &mut self,
        span: SourceSpan,
        scope: &InheritanceScope<'_, 't>,
        place: RoutePlace<'_>,
    ) -> RouteParts {
        let mut parts = RouteParts::fixed("404", span);
        parts.block.extend(self.expires(scope));
        parts.block.extend(self.error_pages(scope, place, Intercepted::No));
        parts
    }

    /// Returns the routes of the server's own `rewrite`, `if` and `return`, for requests that meet
    /// the condition `guard`: nginx does not come to them again after a `rewrite`.
    pub(crate) fn before_locations(&self, phase: RewritePhase, guard: &[Word]) -> Vec<Directive> {
        let mut routes = Vec::new();
        // The conditions of `break`, after which the others do not hold.
        let mut before = Vec::new();
        for Alternative { id, condition, end } in phase.alternatives {
            let span = self.statements.span(id);
            let AlternativeEnd::Answer(parts) = end else {
                let line = NativeLine::new("", span).keyword("not").keyword("(").words(condition);
                before.push(line.keyword(")").into_words());
                continue;
            };
            let mut all = Vec::new();
            all.extend(Some(guard.to_vec()).filter(|guard| !guard.is_empty()));
            all.extend(before.iter().cloned());
            all.extend(Some(condition).filter(|condition| !condition.is_empty()));
            let and = NativeLine::new("", span).keyword("and").into_words();
            routes.push(unchecked(&all.join(and.as_slice()), parts, span));
        }
        if let Some((id, answer)) = phase.test.or(phase.end) {
            let span = self.statements.span(id);
            let mut all = vec![guard.to_vec()];
            all.retain(|guard| !guard.is_empty());
            all.append(&mut before);
            let and = NativeLine::new("", span).keyword("and").into_words();
            routes.push(unchecked(&all.join(and.as_slice()), answer, span));
        }
        routes
    }

    /// Converts the locations of a server, or those inside another location.
    fn level(
        &mut self,
        statements: &[StatementId],
        outer: Option<(Match, &str)>,
        scope: &InheritanceScope<'_, 't>,
        place: RoutePlace<'_>,
    ) -> Vec<Location> {
        let mut seen = HashSet::new();
        let mut locations = Vec::new();
        for &id in statements {
            let Some((kind, pattern)) = self.kind(id) else { continue };
            if let Some(refusal) = misplaced(kind, &pattern, outer) {
                self.outcomes.refuse(id, refusal);
                continue;
            }
            if !seen.insert((kind == Match::Regex, kind == Match::Exact, pattern.clone()))
                && kind != Match::Regex
            {
                self.outcomes.refuse(id, "there is a second location of this name");
                continue;
            }
            let own = scope.inner(id);
            let passes = !own.passes().is_empty();
            let redirects = passes
                && matches!(kind, Match::Prefix | Match::Final)
                && pattern.len() > 1
                && pattern.ends_with('/');
            let routes = self.location(id, &own, ProxyPlace { kind, pattern: &pattern, place });
            let text = self.statements.words(id).last().map_or("", |word| &word.text);
            let text = text.trim_start_matches(['~', '*']);
            let around = if kind == Match::Regex { text } else { pattern.as_str() };
            let nested = self.statements.named(Some(id), "location");
            let inner = self.level(nested, Some((kind, around)), &own, place);
            locations.push(Location { id, kind, pattern, routes, redirects, inner });
        }
        locations
    }

    /// Returns the kind and the pattern of a location.
    pub(crate) fn kind(&mut self, id: StatementId) -> Option<(Match, String)> {
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
        let saved = Rc::clone(&self.set);
        if location.kind == Match::Regex {
            let pattern = self.statements.words(id).last().map_or("", |word| &word.text);
            self.set_named_groups(pattern);
        }
        let routes = self.location_routes(id, scope, location);
        self.set = saved;
        routes
    }

    /// Returns the routes of a location.
    fn location_routes(
        &mut self,
        id: StatementId,
        scope: &InheritanceScope<'_, 't>,
        location: ProxyPlace<'_>,
    ) -> Vec<LocationRoute> {
        let span = self.statements.span(id);
        let block = RewrittenBlock::Location { has_groups: location.kind == Match::Regex };
        let phase = self.rewrite_phase(id, block, scope, location.place);
        let mut routes = self.phase_routes(id, phase, scope, location);
        self.continuations_of_location(id, scope, location);
        let lines = self.common_lines(scope, location, span);
        for route in &mut routes {
            route.parts.block.extend(lines.iter().cloned());
        }
        let inside = NativeLine::new("", span).keyword("internal");
        let inside = match (location.kind, scope.all("internal").first()) {
            (Match::Named, internal) => {
                // A named location is one anyway.
                if let Some(id) = internal {
                    self.outcomes.honour(*id);
                }
                inside.value(location.pattern)
            }
            (_, Some(internal)) => {
                self.outcomes.honour(*internal);
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
            let mut refused = self.missing(span, scope, location.place);
            refused.block.push(self.body_bound(scope, span));
            routes.push(LocationRoute { id, condition: Vec::new(), parts: refused });
        }
        routes
    }

    /// Returns the routes of a location's rewrite phase and of its content.
    pub(crate) fn phase_routes(
        &mut self,
        id: StatementId,
        phase: RewritePhase,
        scope: &InheritanceScope<'_, 't>,
        location: ProxyPlace<'_>,
    ) -> Vec<LocationRoute> {
        let span = self.statements.span(id);
        let route = |id, condition, parts| LocationRoute { id, condition, parts };
        let answers = |one: &Alternative| matches!(one.end, AlternativeEnd::Answer(_));
        let elsewhere = phase.end.is_some() || phase.test.is_some();
        let always = elsewhere && phase.alternatives.iter().all(answers);
        let limit = self.method_limit(scope);
        let content = if always && limit.is_none() {
            if phase.test.is_none() {
                self.ignore_behind_return(id);
            }
            RouteParts::fixed("404", span)
        } else {
            let mut content = self.content(id, scope, location);
            if let Some(test) = phase.missing {
                content = self.with_missing(test, content, scope, location);
            }
            content.block.extend(self.request_limits(scope, location.place, span));
            content
        };
        let mut routes = Vec::new();
        // Requests with other methods do not come to the rewrite phase in nginx.
        routes.extend(limit.map(|limit| limit.route(content.clone())));
        for Alternative { id, condition, end } in phase.alternatives {
            match end {
                AlternativeEnd::Answer(parts) => routes.push(route(id, condition, parts)),
                AlternativeEnd::Unchanged => routes.push(route(id, condition, content.clone())),
                AlternativeEnd::Changed(change) => match changed(&content, Some(change)) {
                    Ok(parts) => routes.push(route(id, condition, parts)),
                    Err(reason) => self.outcomes.refuse(id, reason),
                },
            }
        }
        // Of several that hold the last counts.
        for (id, condition) in phase.configured.into_iter().rev() {
            let inner = scope.inner(id);
            let mut parts = self.content(id, &inner, location);
            parts.block.extend(self.request_limits(&inner, location.place, span));
            routes.push(route(id, condition, parts));
        }
        if let Some(id) = status_page_of(scope).filter(|_| !always) {
            routes.push(self.other_methods(id, &content));
        }
        let last = phase.test.or(phase.end).map_or(content, |(_, answer)| answer);
        routes.push(route(id, Vec::new(), last));
        routes
    }

    /// Returns the lines that all routes of a location have.
    pub(crate) fn common_lines(
        &mut self,
        scope: &InheritanceScope<'_, 't>,
        location: ProxyPlace<'_>,
        span: SourceSpan,
    ) -> Vec<Directive> {
        let mut lines = vec![self.body_bound(scope, span)];
        if location.kind == Match::Named
            && let Some(own) = scope.own("client_max_body_size").first()
        {
            self.outcomes.differs(*own, "nginx holds chunked bodies to it only, Weir all");
        }
        let logs = self.access_logs(scope);
        if logs != self.server_logs {
            lines.push(log_line(&logs, span));
        }
        lines
    }

    /// Notes the directives of a location that have no effect behind a `return`.
    fn ignore_behind_return(&mut self, id: StatementId) {
        for other in self.statements.children(id) {
            let name = self.statements.name(*other);
            if ["proxy_", "grpc_", "limit_req", "limit_conn"]
                .iter()
                .any(|start| name.starts_with(start))
            {
                self.outcomes.ignore(*other, "`return` answers before it, as in nginx");
            }
        }
    }

    /// Converts the part of a location that answers.
    pub(crate) fn content(
        &mut self,
        id: StatementId,
        scope: &InheritanceScope<'_, 't>,
        location: ProxyPlace<'_>,
    ) -> RouteParts {
        let span = self.statements.span(id);
        let mut passes = scope.passes();
        if passes.is_empty()
            && self.statements.name(id) == "if"
            && let Some(parent) = self.statements.parent(id)
        {
            passes = self.statements.passes(parent);
        }
        if let Some(id) = status_page_of(scope) {
            return self.status_page(id, scope, location.place);
        }
        let Some(&pass) = passes.first() else {
            if let Some(files) = self.static_files(id, scope, location) {
                return files;
            }
            self.outcomes.differs(id, "nginx looks for a file; Weir answers 404");
            let mut parts = self.missing(span, scope, location.place);
            parts.block.splice(0..0, self.access(scope, false));
            return parts;
        };
        for other in passes.iter().skip(1) {
            let reason = if self.statements.name(*other) == self.statements.name(pass) {
                "nginx refuses a second one in the same block"
            } else {
                "a block has servers of one protocol; nginx takes the last of these: remove the others"
            };
            self.outcomes.refuse(*other, reason);
        }
        let protocol = match self.statements.name(pass) {
            "grpc_pass" => UpstreamProtocol::Grpc,
            _ => UpstreamProtocol::Http,
        };
        let route = match self.proxied(pass, &scope.with_protocol(protocol), location) {
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

    /// Converts `proxy_pass` or `grpc_pass`.
    fn proxied(
        &mut self,
        pass: StatementId,
        scope: &InheritanceScope<'_, 't>,
        location: ProxyPlace<'_>,
    ) -> Result<RouteParts, String> {
        // A path after variables replaces that of the request, whatever values they have.
        let constant = self.with_constants(self.statements.word(pass, 0));
        let url = constant.as_deref().unwrap_or(self.statements.word(pass, 0));
        let span = self.statements.span(pass);
        let of_grpc = scope.protocol() == UpstreamProtocol::Grpc;
        let parts = if of_grpc { self.grpc_url(url)? } else { PassUrl::of(url)? };
        let (shown, port) = if of_grpc { parts.authority() } else { parts.host_and_port() };
        let PassUrl { scheme, host, uri, by_variable } = parts;
        let shown =
            if by_variable { template(host, &self.known(), false)? } else { shown.to_owned() };
        let proxy_host = shown.as_str();
        let place = location.place;
        // The port of a variable is part of its value.
        let proxy_port = Some(port).filter(|_| !by_variable);
        let known = self.known_in(scope, place);
        let known = if of_grpc {
            // The module of gRPC does not have these variables.
            &KnownVariables { proxy_host: Some(""), proxy_port: Some(""), ..known }
        } else {
            &KnownVariables { proxy_host: Some(proxy_host), proxy_port, ..known }
        };
        let change = match &constant {
            _ if !uri.is_empty() && (by_variable || constant.is_some()) => {
                self.varying_target(pass, uri, location, known)?
            }
            _ => self.target_change(pass, uri, location, known)?,
        };
        let (PassTarget { pool, route_lines }, may_be_empty) = if by_variable {
            let NamedPool { by, may_be_empty } = self.pool_variable((scheme, host), pass, scope)?;
            (PassTarget { pool: by, route_lines: Vec::new() }, may_be_empty)
        } else {
            (self.pool((scheme, host), pass, scope)?, None)
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
            _ if by_variable || constant.is_some() || of_grpc => None,
            "" => Some((format!("{url}/"), "/".to_owned())),
            _ if uri.contains('$') => None,
            _ => Some((url.to_owned(), location.pattern.to_owned())),
        };
        let mut block = self.access(scope, false);
        block.extend(change);
        block.extend(self.imposed_method(scope, known, by_variable));
        block.extend(self.request_headers(scope, known, UsualHost { host: proxy_host, span }));
        block.extend(self.usually_hidden(scope, span));
        block.extend(self.hidden_headers(scope));
        block.extend(self.redirect_changes(scope, location, known, default.as_ref(), span));
        block.extend(self.cookie_changes(scope, known));
        block.extend(self.expires(scope));
        block.extend(self.response_headers(scope, known));
        block.extend(self.error_pages(scope, place, Intercepted::Yes));
        block.extend(self.accel_redirects(pass, scope, location));
        block.extend(route_lines);
        let target = NativeLine::new("", span).value(&pool).into_words();
        Ok(RouteParts { target, block, may_be_empty })
    }

    /// Notes the settings of a proxied location that need no line.
    fn proxy_settings(&mut self, scope: &InheritanceScope<'_, 't>) {
        for id in scope.own("default_type") {
            self.outcomes.ignore(*id, "the type of a response is that of the server");
        }
        for name in ["autoindex", "types"] {
            for id in scope.own(name) {
                self.outcomes.ignore(*id, "no file is served here");
            }
        }
        if let Some(id) = self.single(scope, "charset") {
            match self.statements.word(id, 0) {
                "off" => self.outcomes.honour(id),
                _ => self.outcomes.differs(
                    id,
                    "a response of a server has the type that the server gave it, without this",
                ),
            }
        }
        self.note_version(scope);
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
        let known = &self.known_in(scope, place);
        let lone = words.len() == 1 && !first.bytes().all(|byte| byte.is_ascii_digit());
        let (status, text) = if lone { ("302", first) } else { (first, second) };
        let refusal = match (status.parse::<u16>(), words.len()) {
            (Ok(200..=599), 1 | 2) => None,
            _ => Some("write a status from 200 to 599, or a URL"),
        };
        if let Some(refusal) = refusal {
            self.outcomes.refuse(id, refusal);
            return None;
        }
        let text = match text_template(text, known, groups) {
            Ok(text) => text,
            Err(reason) => {
                self.outcomes.refuse(id, reason);
                return None;
            }
        };
        for name in ["root", "alias", "index"] {
            for other in scope.own(name) {
                self.outcomes.honour(*other);
            }
        }
        let mut block = self.access(scope, true);
        if status == "444" {
            self.outcomes.honour(id);
            let target = NativeLine::new("", span).keyword("respond").value(status).into_words();
            return Some(RouteParts::new(target, block));
        }
        block.extend(self.expires(scope));
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
            let has_text = words.len() == 2 || status.starts_with(['2', '3']);
            // Clients get nginx's own statuses as 400.
            let is_own = !has_text && matches!(status, "494" | "495" | "496" | "497");
            let pages = if is_own {
                self.page_of_own_status(status, "400", scope, place).into_iter().collect()
            } else {
                self.error_pages(scope, place, Intercepted::No)
            };
            let status = if is_own { "400" } else { status };
            // Before its text only the size of the body can be an error.
            let is_it = |line: &Directive| line.words.iter().any(|word| word.text == "413");
            block.extend(pages.into_iter().filter(|line| !has_text || is_it(line)));
            let text = if has_text { Some(text) } else { None };
            self.fixed(id, status, text, scope)
        };
        Some(RouteParts::new(target.into_words(), block))
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
                let kind = self.text_type(scope);
                line.value(&text).option("type", if kind.is_empty() { "none" } else { &kind })
            }
            _ if matches!(status, "204" | "304") => {
                self.outcomes.honour(id);
                line
            }
            // nginx has no page for the others.
            _ if !has_page(status) => {
                self.outcomes.honour(id);
                line.value("").option("type", "none")
            }
            _ => {
                self.outcomes.differs(id, "the page of the response is Weir's own");
                line
            }
        }
    }

    /// Returns the type of texts of `return`.
    fn text_type(&mut self, scope: &InheritanceScope<'_, 't>) -> String {
        const DIFFERS: &str =
            "texts of `return` have `default_type`; nginx takes the type of the path's extension";
        let kind = self.single(scope, "default_type");
        let charset = self.charset(scope);
        let blocks = scope.all("types");
        // Without types, as by `types { }`, no extension has one.
        let is_empty = |id: &StatementId| {
            let block = &self.statements.get(*id).directive.block;
            block.as_ref().is_some_and(|block| block.directives.is_empty())
        };
        if let Some(known) = self.type_of_path(scope, blocks) {
            return with_charset(&known, &charset);
        }
        let exact = !blocks.is_empty() && blocks.iter().all(is_empty)
            || scope.location().is_some_and(|id| self.is_exact_location(id));
        for id in blocks.iter().chain(&kind) {
            if exact {
                self.outcomes.honour(*id);
            } else {
                self.outcomes.differs(*id, DIFFERS);
            }
        }
        if kind.is_none() {
            self.default("default_type", "text/plain for texts of `return`, as in nginx");
        }
        with_charset(kind.map_or("text/plain", |kind| self.statements.word(kind, 0)), &charset)
    }

    fn is_exact_location(&mut self, id: StatementId) -> bool {
        self.kind(id).is_some_and(|(kind, _)| kind == Match::Exact)
    }

    /// Returns the type of the extension of a path, where a location is for one path.
    fn type_of_path(
        &mut self,
        scope: &InheritanceScope<'_, 't>,
        blocks: &[StatementId],
    ) -> Option<String> {
        let (kind, path) = self.kind(scope.location()?)?;
        let (before, extension) = path.rsplit_once('/')?.1.rsplit_once('.')?;
        if kind != Match::Exact || before.is_empty() {
            return None;
        }
        let found = self.types_of_blocks(blocks).remove(&extension.to_ascii_lowercase())?;
        for id in blocks {
            self.outcomes.honour(*id);
        }
        Some(found)
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
        let host = self.redirect_host(scope, place);
        if !absolute || !text.starts_with(['/', '$']) {
            return text.to_owned();
        }
        let usual = if place.tls { 443 } else { 80 };
        let server = match place.port.filter(|port| with_port && *port != usual) {
            Some(port) => format!("${{scheme}}://{host}:{port}"),
            None => format!("${{scheme}}://{host}"),
        };
        let begins = |start: &str| text.starts_with(start);
        if ["/", "${decoded_uri}", "${request_uri}", "${uri}"].iter().any(|path| begins(path)) {
            return format!("{server}{text}");
        }
        let has_group = (1..10).any(|group| text.contains(&format!("${{{group}}}")));
        let is_merged = self.switch(scope, "merge_slashes", true);
        if has_group
            && begins("${")
            && !is_merged
            && let Some(id) = self.single(scope, "merge_slashes")
        {
            let reason = "a redirect begins with a group of a regex, which could begin with `//`, the address of another site";
            self.outcomes.refuse(id, reason);
        }
        if has_group || begins("${scheme}:") {
            return text.to_owned();
        }
        self.url_of_text(text, &server, self.redirect_span(scope))
    }

    /// Returns the host of redirects to paths.
    fn redirect_host(&mut self, scope: &InheritanceScope<'_, 't>, place: RoutePlace<'_>) -> String {
        if self.switch(scope, "server_name_in_redirect", false)
            && let Some(id) = self.single(scope, "server_name_in_redirect")
        {
            if place.server_name.is_empty() {
                self.outcomes.refuse(id, "the server has no name: write its address in redirects");
            } else {
                let how = "redirects to folders of files have the host of the request";
                self.outcomes.differs(id, how);
                return place.server_name.replace('$', "$$");
            }
        }
        "${host}".to_owned()
    }

    fn redirect_span(&self, scope: &InheritanceScope<'_, 't>) -> SourceSpan {
        self.statements.span(scope.innermost().unwrap_or(self.statements.top()[0]))
    }

    /// Returns a text that has the server in front where it is a path, which is only known for each
    /// request.
    fn url_of_text(&mut self, text: &str, server: &str, span: SourceSpan) -> String {
        let key = (text.to_owned(), server.to_owned());
        if let Some(known) = self.urls_of_texts.get(&key) {
            return known.clone();
        }
        let number = self.urls_of_texts.len() + 1;
        let variable = self.free_variable(format!("location_{number}"));
        let lines = vec![
            NativeLine::entry("~^/", span).value(&format!("{server}{text}")).end(),
            NativeLine::new("default", span).value(text).end(),
        ];
        let map = NativeLine::new("map", span).value(text).value(&format!("${variable}"));
        self.logs.directives.push(map.block(lines));
        let url = format!("${{{variable}}}");
        self.urls_of_texts.insert(key, url.clone());
        url
    }

    /// Appends the routes of an entry of the list.
    fn entry(
        &mut self,
        routes: &mut Vec<Directive>,
        entry: &LocationEntry<'_>,
        scope: &InheritanceScope<'_, 't>,
        place: RoutePlace<'_>,
    ) {
        let LocationEntry { patterns, location, redirects } = entry;
        if !redirects {
            return self.push(routes, patterns, location);
        }
        let span = self.statements.span(location.id);
        let text = format!("{}$is_args$args", location.pattern.replace('$', "$$"));
        let url = self.location_url(&text, scope, place);
        let target = NativeLine::new("", span).keyword("redirect").value("301").value(&url);
        // Routes with conditions have lines of their `if`.
        let always = location.routes.iter().rfind(|route| route.condition.is_empty());
        let of_location = always.or(location.routes.first()).map(|route| route.parts.block.iter());
        let kept = of_location.into_iter().flatten().filter(|line| concerns_redirects(line));
        let route = RouteParts::new(target.into_words(), kept.cloned().collect());
        routes.push(written(patterns, &[], &route, span));
    }

    /// Appends the routes of a location for paths that all patterns match.
    fn push(&self, routes: &mut Vec<Directive>, patterns: &[String], location: &Location) {
        for LocationRoute { id, condition, parts } in &location.routes {
            let span = self.statements.span(*id);
            if let Some(RouteOf { condition, parts }) = parts.without_pool(condition, span) {
                routes.push(written(patterns, &condition, &parts, span));
            }
            routes.push(written(patterns, condition, parts, span));
        }
    }
}

/// Returns true if nginx has a page for an error with this status.
fn has_page(status: &str) -> bool {
    status.parse::<u16>().is_ok_and(
        |status| matches!(status, 400..=406 | 408..=416 | 421 | 429 | 494..=497 | 500..=505 | 507),
    )
}

fn is_internal(end: &AlternativeEnd) -> bool {
    matches!(end, AlternativeEnd::Answer(parts) if parts.leads_inside())
}

/// Returns the reason why nginx refuses a location of this kind inside another.
fn misplaced(kind: Match, pattern: &str, outer: Option<(Match, &str)>) -> Option<String> {
    let (around, name) = outer?;
    match (around, kind) {
        (Match::Exact | Match::Named, _) => {
            Some(format!("nginx allows no location inside `{name}`, which takes one path or name"))
        }
        (_, Match::Named) => Some("nginx allows named locations in a server only".to_owned()),
        (_, Match::Regex) => None,
        _ if pattern.starts_with(name) => None,
        _ => Some(format!("nginx refuses it here, because it does not begin with `{name}`")),
    }
}

/// Returns the content of a location with a change of the target.
pub(crate) fn changed(
    content: &RouteParts,
    change: Option<Directive>,
) -> Result<RouteParts, String> {
    if change.is_some() && content.target.first().is_some_and(|word| word.is("respond")) {
        return Err("only a request to a server or for a file can be rewritten".to_owned());
    }
    let mut parts = content.clone();
    // nginx does not add the path of `proxy_pass` then.
    let is_prefix = |line: &Directive| line.words.first().is_some_and(|word| word.is("prefix"));
    parts.block.retain(|line| line.name.text != "rewrite" || !is_prefix(line));
    if parts.block.iter().any(|line| line.name.text == "rewrite") {
        return Err("leave the variables in the path of `proxy_pass` out".to_owned());
    }
    parts.block.extend(change);
    Ok(parts)
}

/// Returns the condition of requests that do not come from the server's own rewrites, nor from
/// these parts of them.
fn outside(passing: &[String], span: SourceSpan) -> Vec<Word> {
    let line = NativeLine::new("", span).keyword("not").keyword("internal");
    let also = |line: NativeLine, name: &String| {
        line.keyword("and").keyword("not").keyword("internal").value(name)
    };
    passing.iter().fold(line, also).into_words()
}

/// Returns true if a line of a location holds for the redirect to the path with a slash, too.
fn concerns_redirects(line: &Directive) -> bool {
    match line.name.text.as_str() {
        BODY_BOUND | "expires" => true,
        "response_header" => line.words.first().is_some_and(|verb| verb.is("add")),
        _ => false,
    }
}

/// Returns the route of an answer that comes before the bound on bodies is looked at.
pub(crate) fn unchecked(condition: &[Word], mut route: RouteParts, span: SourceSpan) -> Directive {
    route.block.push(unbounded(span));
    written(&[], condition, &route, span)
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
