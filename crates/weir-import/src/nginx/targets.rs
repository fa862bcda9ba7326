//! `proxy_pass` with a path, `proxy_redirect` and `proxy_cookie_*` become changes of the target and
//! of response headers.

use weir_config::pattern::TextPattern;
use weir_config::source::SourceSpan;
use weir_config::syntax::tree::Directive;

use super::precedence::{Match, literal};
use super::route_parts::RoutePlace;
use super::scope::InheritanceScope;
use super::state::Converter;
use super::statements::StatementId;
use super::values::{KnownVariables, path_template, template, template_with};
use crate::native::NativeLine;
use crate::pcre;

/// The location around a `proxy_pass`.
#[derive(Clone, Copy)]
pub(crate) struct ProxyPlace<'a> {
    pub(crate) kind: Match,
    /// The text of the location, without its modifier.
    pub(crate) pattern: &'a str,
    pub(crate) place: RoutePlace<'a>,
}

impl<'t> Converter<'_, 't> {
    /// Returns the change of the target for the path of a `proxy_pass`, if it needs one.
    pub(crate) fn target_change(
        &mut self,
        pass: StatementId,
        uri: &str,
        location: ProxyPlace<'_>,
        known: &KnownVariables<'_>,
    ) -> Result<Option<Directive>, String> {
        if uri.contains('$') {
            return self.varying_target(pass, uri, location, known);
        }
        let line = NativeLine::new("rewrite", self.statements.span(pass)).keyword("prefix");
        match location.kind {
            _ if uri.is_empty() => Ok(None),
            _ if uri.contains(['?', '#']) => {
                Err("the path of `proxy_pass` cannot have a query: write `rewrite … break`".into())
            }
            Match::Named => Err("nginx allows no path in a named location: leave it out".into()),
            Match::Regex => Err(format!(
                "nginx allows no path in a location with a regex: leave `{uri}` out, or write `rewrite … break`"
            )),
            _ => Ok(Some(line.value(location.pattern).value(uri).end())),
        }
    }

    /// Returns the change for a path with variables, which replaces path and query.
    pub(crate) fn varying_target(
        &mut self,
        pass: StatementId,
        uri: &str,
        location: ProxyPlace<'_>,
        known: &KnownVariables<'_>,
    ) -> Result<Option<Directive>, String> {
        if uri == "$request_uri" {
            return Ok(None);
        }
        let whole = uri.strip_suffix("$request_uri").map(|before| format!("{before}$uri"));
        let kept = uri.strip_suffix("$is_args$args").or(uri.strip_suffix("$is_args$query_string"));
        let kept = whole.as_deref().or(kept);
        let line = NativeLine::new("rewrite", self.statements.span(pass));
        if kept == Some("$uri") {
            return Ok(Some(line.keyword("prefix").value("/").value("/").end()));
        }
        let text = path_template(kept.unwrap_or(uri), known, location.kind == Match::Regex)?;
        if text.contains('#') {
            return Err("a path cannot contain `#`".to_owned());
        }
        self.outcomes.differs(
            pass,
            "in the values of variables, characters that cannot stand in a path are percent-encoded",
        );
        let text = if kept.is_some() { text } else { format!("{text}?") };
        Ok(Some(line.keyword("path").value(&text).end()))
    }

    /// Returns the changes of `Location` in responses; `default` is the one of `proxy_redirect
    /// default`: the server's URL and the path that it stands for.
    pub(crate) fn redirect_changes(
        &mut self,
        scope: &InheritanceScope<'_, 't>,
        location: ProxyPlace<'_>,
        known: &KnownVariables<'_>,
        default: Option<&(String, String)>,
        span: SourceSpan,
    ) -> Vec<Directive> {
        let ids = self.lines_of(scope, "proxy_redirect");
        let mut lines = Vec::new();
        if ids.is_empty()
            && let Some((from, to)) = default
        {
            self.default("proxy_redirect", "default, as in nginx; a `Refresh` is left alone");
            let to = self.location_url(&default_text(to), scope, location.place);
            lines.push(replacement(span, &beginning(from), &to));
        }
        for &id in ids {
            let (from, to) = (self.statements.word(id, 0), self.statements.word(id, 1));
            let span = self.statements.span(id);
            if !from.starts_with('~') && from.contains('$') && self.statements.words(id).len() == 2
            {
                match (template(from, known, false), template(to, known, false)) {
                    (Ok(from), Ok(to)) => {
                        let to = self.location_url(&to, scope, location.place);
                        let line =
                            NativeLine::new("response_header", span).keyword("replace_prefix");
                        lines.push(line.value("Location").value(&from).value(&to).end());
                        self.outcomes.differs(id, "a `Refresh` of the server is left alone");
                    }
                    (Err(reason), _) | (_, Err(reason)) => self.outcomes.refuse(id, reason),
                }
                continue;
            }
            let change = match (from, default, self.statements.words(id).len()) {
                ("off", _, 1) => {
                    self.outcomes.honour(id);
                    break;
                }
                ("default", Some((from, to)), 1) => Ok((beginning(from), default_text(to))),
                ("default", None, 1) => {
                    Err("nginx refuses `default` with variables in `proxy_pass`".to_owned())
                }
                (_, _, 2) => redirect_pattern(from, to, known),
                _ => Err("write `off`, `default`, or two texts".to_owned()),
            };
            match change {
                Ok((pattern, to)) => {
                    let to = self.location_url(&to, scope, location.place);
                    lines.push(replacement(span, &pattern, &to));
                    self.outcomes.differs(id, "a `Refresh` of the server is left alone");
                }
                Err(reason) => self.outcomes.refuse(id, reason),
            }
        }
        lines
    }

    /// Returns the changes of cookies in responses.
    pub(crate) fn cookie_changes(
        &mut self,
        scope: &InheritanceScope<'_, 't>,
        known: &KnownVariables<'_>,
    ) -> Vec<Directive> {
        let mut lines = Vec::new();
        for (name, attribute) in [("proxy_cookie_domain", "domain"), ("proxy_cookie_path", "path")]
        {
            for &id in self.lines_of(scope, name) {
                let (from, to) = (self.statements.word(id, 0), self.statements.word(id, 1));
                if from == "off" && self.statements.words(id).len() == 1 {
                    self.outcomes.honour(id);
                    break;
                }
                if self.statements.words(id).len() != 2 || to.is_empty() {
                    self.outcomes.refuse(id, "write `off`, or two texts");
                    continue;
                }
                if let Some(pattern) = from.strip_prefix('~') {
                    match self.cookie_regex(id, attribute, pattern, known) {
                        Ok(line) => {
                            lines.push(line);
                            self.outcomes.honour(id);
                        }
                        Err(reason) => self.outcomes.refuse(id, reason),
                    }
                    continue;
                }
                match (template(from, known, false), template(to, known, false)) {
                    (Ok(from), Ok(to)) if !from.contains('$') => {
                        let (start, end) = match attribute {
                            // nginx leaves the dot at the start of a domain alone.
                            "domain" => ("\\.?", "(\\s*(?:;.*)?)$"),
                            _ => ("", "(.*)$"),
                        };
                        let case = if attribute == "domain" { "~*" } else { "~" };
                        let text = literal(&from);
                        let pattern =
                            format!("{case}^(.*;\\s*(?i:{attribute})={start}){text}{end}");
                        let line = NativeLine::new("response_header", self.statements.span(id));
                        let line = line.keyword("replace").value("Set-Cookie").value(&pattern);
                        lines.push(line.value(&format!("${{1}}{to}${{2}}")).end());
                        self.outcomes.honour(id);
                    }
                    (Ok(_), Ok(_)) => {
                        self.outcomes.refuse(id, "the first text cannot have variables");
                    }
                    (Err(reason), _) | (_, Err(reason)) => self.outcomes.refuse(id, reason),
                }
            }
        }
        lines.extend(self.cookie_flags(scope));
        lines
    }

    /// Returns the change of an attribute by a regex. That of a domain never minds case.
    fn cookie_regex(
        &self,
        id: StatementId,
        attribute: &str,
        pattern: &str,
        known: &KnownVariables<'_>,
    ) -> Result<Directive, String> {
        let (case, pattern) = match pattern.strip_prefix('*') {
            Some(pattern) => ("~*", pattern),
            None if attribute == "domain" => ("~*", pattern),
            None => ("~", pattern),
        };
        let to = with_groups(self.statements.word(id, 1), pattern, known)?;
        let pattern = format!("{case}{}", pcre::native(pattern)?);
        pattern.parse::<TextPattern>()?;
        let line = NativeLine::new("response_header", self.statements.span(id));
        let line = line.keyword("replace_attribute").value("Set-Cookie").value(attribute);
        Ok(line.value(&pattern).value(&to).end())
    }

    /// Returns the changes of the attributes of cookies: one that a cookie has is taken off, and
    /// then added where it is asked for.
    fn cookie_flags(&mut self, scope: &InheritanceScope<'_, 't>) -> Vec<Directive> {
        let ids = self.lines_of(scope, "proxy_cookie_flags");
        let mut lines = Vec::new();
        for &id in ids {
            let cookie = self.statements.word(id, 0);
            if cookie == "off" && self.statements.words(id).len() == 1 {
                self.outcomes.honour(id);
                break;
            }
            let name = match cookie {
                "~" | "~." | "~.*" if ids.len() == 1 => "[^=]*".to_owned(),
                "" => String::new(),
                _ if cookie.contains(['~', '$']) => String::new(),
                _ => literal(cookie),
            };
            let flags = self.statements.words(id).iter().skip(1);
            let flags: Option<Vec<_>> = flags.map(|word| cookie_flag(&word.text)).collect();
            let Some(flags) = flags.filter(|_| !name.is_empty()) else {
                self.outcomes.refuse(id, "write the name of a cookie, or `~` as the only one, with `secure`, `httponly`, `samesite=…` and their opposites");
                continue;
            };
            self.outcomes.honour(id);
            let line = |pattern: &str, to: &str| {
                let line = NativeLine::new("response_header", self.statements.span(id));
                let line = line.keyword("replace").value("Set-Cookie").value(pattern);
                line.value(to).end()
            };
            for (attribute, added) in flags {
                let had = format!("~^({name}=.*);\\s*(?i:{attribute})\\s*(;.*)?$");
                lines.push(line(&had, "${1}${2}"));
                if !added.is_empty() {
                    lines.push(line(&format!("~^({name}=.*)$"), &format!("${{1}}; {added}")));
                }
            }
        }
        lines
    }
}

/// Returns the regex for an attribute of a cookie, and what is added in its place.
fn cookie_flag(word: &str) -> Option<(&'static str, &'static str)> {
    Some(match word.to_ascii_lowercase().as_str() {
        "secure" => ("secure", "Secure"),
        "nosecure" => ("secure", ""),
        "httponly" => ("httponly", "HttpOnly"),
        "nohttponly" => ("httponly", ""),
        "samesite=strict" => ("samesite=[^;]*", "SameSite=Strict"),
        "samesite=lax" => ("samesite=[^;]*", "SameSite=Lax"),
        "samesite=none" => ("samesite=[^;]*", "SameSite=None"),
        "nosamesite" => ("samesite=[^;]*", ""),
        _ => return None,
    })
}

/// Returns `response_header replace Location` for values that begin with a text.
fn replacement(span: SourceSpan, pattern: &str, to: &str) -> Directive {
    let line = NativeLine::new("response_header", span).keyword("replace");
    line.value("Location").value(pattern).value(to).end()
}

/// Returns the text that stands for `proxy_redirect default`'s beginning of a `Location`.
fn default_text(path: &str) -> String {
    format!("{}${{1}}", path.replace('$', "$$"))
}

/// Returns the regex for values that begin with this text; what follows is its group.
fn beginning(text: &str) -> String {
    format!("~^{}(.*)$", literal(text))
}

/// Returns the pattern and the text of `proxy_redirect FROM TO`.
fn redirect_pattern(
    from: &str,
    to: &str,
    known: &KnownVariables<'_>,
) -> Result<(String, String), String> {
    if let Some(pattern) = from.strip_prefix('~') {
        let (case, pattern) = pattern.strip_prefix('*').map_or(("~", pattern), |own| ("~*", own));
        return Ok((format!("{case}{}", pcre::native(pattern)?), with_groups(to, pattern, known)?));
    }
    let from = template(from, known, false)?;
    if from.contains('$') {
        return Err("the first text cannot have variables here".to_owned());
    }
    Ok((beginning(&from), format!("{}${{1}}", template(to, known, false)?)))
}

/// Returns a text with groups of a regex by number and by name, in which all have numbers.
fn with_groups(text: &str, pattern: &str, known: &KnownVariables<'_>) -> Result<String, String> {
    let names = pcre::group_names(pattern);
    let mut text = template_with(text, known, &names)?;
    for (index, name) in names.iter().enumerate().filter(|(_, name)| !name.is_empty()) {
        if index >= 9 {
            return Err("a regex may have nine groups here".to_owned());
        }
        text = text.replace(&format!("${{{name}}}"), &format!("${{{}}}", index + 1));
    }
    Ok(text)
}
