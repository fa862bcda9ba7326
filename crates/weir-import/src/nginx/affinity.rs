//! `sticky` and `queue` of an `upstream`.

use std::collections::HashSet;

use weir_config::syntax::tree::Directive;

use super::scope::InheritanceScope;
use super::state::Converter;
use super::statements::StatementId;
use super::values;
use crate::native::NativeLine;

/// The lines of `sticky`.
#[derive(Default)]
pub(crate) struct StickyLines {
    /// The line of the pool.
    pub(crate) line: Option<Directive>,
    /// Those of the routes that lead to it.
    pub(crate) route_lines: Vec<Directive>,
}

impl Converter<'_, '_> {
    /// Converts the affinity of clients: by a cookie that nginx sets, or by the names of servers
    /// that requests have.
    pub(crate) fn sticky(&mut self, upstream: StatementId) -> StickyLines {
        let scope = InheritanceScope::new(self.statements, upstream);
        let Some(id) = self.single(&scope, "sticky") else { return StickyLines::default() };
        let made = match self.statements.word(id, 0) {
            "cookie" => self.sticky_cookie(id).inspect(|_| {
                self.outcomes.differs(id, "the value of the cookie is Weir's own, and servers do not see it; it is sent for all paths where no `path=` is given");
            }).map(|line| StickyLines { line: Some(line), route_lines: Vec::new() }),
            "route" => self.sticky_route(upstream, id).map(|route_lines| StickyLines { line: None, route_lines }),
            "learn" => Err("Weir keeps no table of sessions: write `sticky cookie NAME`, a cookie beside that of the application, or `sticky route` with the part of its cookie that names the server".to_owned()),
            _ => Err("write `sticky cookie NAME`, or `sticky route` with variables that have the `route=` of a server".to_owned()),
        };
        made.unwrap_or_else(|reason| {
            self.outcomes.refuse(id, reason);
            StickyLines::default()
        })
    }

    /// Returns the lines of routes for the variables that name a server.
    fn sticky_route(
        &mut self,
        upstream: StatementId,
        id: StatementId,
    ) -> Result<Vec<Directive>, String> {
        let statements = self.statements;
        let mut routes = HashSet::new();
        for server in statements.named(Some(upstream), "server") {
            let mut words = statements.words(*server).iter();
            let route = words.find_map(|word| word.text.strip_prefix("route="));
            if route.is_some_and(|route| !routes.insert(route)) {
                return Err(
                    "two servers have the same `route=`: give each one of its own".to_owned()
                );
            }
        }
        let (known, span) = (&self.known(), statements.span(id));
        let variables = &statements.words(id)[1..];
        if variables.is_empty() || routes.is_empty() {
            return Err("write variables, and `route=` at servers of the upstream".to_owned());
        }
        let mut lines = Vec::new();
        for word in variables {
            let text = values::template(&word.text, known, false)?;
            let line = NativeLine::new("use_server", span).value(&text);
            lines.push(line.option("if", &text).end());
        }
        self.outcomes.differs(id, "a variable of `0` names no server, and where the server of the first one is down the next one counts, before the policy");
        Ok(lines)
    }

    fn sticky_cookie(&self, id: StatementId) -> Result<Directive, String> {
        let name = self.statements.word(id, 1);
        let is_token =
            |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if !name.bytes().all(is_token) {
            return Err(format!("`{name}` is not the name of a cookie"));
        }
        if name.is_empty() {
            return Err("write the name of the cookie".to_owned());
        }
        let line = NativeLine::new("sticky", self.statements.span(id));
        let mut line = line.keyword("cookie").value(name).keyword("insert");
        for word in self.statements.words(id).iter().skip(2) {
            let (key, value) = word.text.split_once('=').unwrap_or((&word.text, ""));
            line = match key {
                "httponly" | "secure" => line.keyword(key),
                "path" if !value.starts_with('/') => {
                    return Err(format!("`{}` is not a path: it begins with `/`", word.text));
                }
                "domain" | "path" if !value.is_empty() && !value.contains('$') => {
                    line.option(key, value)
                }
                "samesite" if matches!(value, "lax" | "strict" | "none") => {
                    line.option("samesite", value)
                }
                "expires" if value == "max" => line.option("max_age", "3650d"),
                "expires" => match time_above_0(value) {
                    Some(time) => line.option("max_age", &time),
                    None => return Err(format!("`{}` is not a time", word.text)),
                },
                _ => return Err(format!("`{}` has no conversion", word.text)),
            };
        }
        Ok(line.end())
    }

    /// Returns the queue of an upstream whose servers have `max_conns`: none, as in nginx, if it
    /// does not say otherwise.
    pub(crate) fn queue(&mut self, upstream: StatementId, limited: bool) -> Option<Directive> {
        let scope = InheritanceScope::new(self.statements, upstream);
        let Some(id) = self.single(&scope, "queue") else {
            let line = NativeLine::new("queue", self.statements.span(upstream));
            if limited {
                self.default(
                    "max_conns",
                    "a request beyond the limits of all servers gets 503, not 502",
                );
            }
            return limited.then(|| line.keyword("off").end());
        };
        let most = self.statements.word(id, 0);
        let time = match self.statements.word(id, 1) {
            "" => Some("1m".to_owned()),
            text => text.strip_prefix("timeout=").and_then(time_above_0),
        };
        let (true, Some(time)) = (most.parse::<u32>().is_ok_and(|most| most > 0), time) else {
            self.outcomes.refuse(id, "write `queue NUMBER timeout=TIME`");
            return None;
        };
        if limited {
            self.outcomes.honour(id);
        } else {
            self.outcomes.ignore(id, "no server has `max_conns`, so that no request waits");
            return None;
        }
        let line = NativeLine::new("queue", self.statements.span(id));
        let line = line.option("timeout", &time).option("max", most).option("status", "502");
        Some(line.end())
    }
}

/// Returns a time of nginx in Weir's syntax. One of 0 is an error there.
fn time_above_0(text: &str) -> Option<String> {
    values::time(text).filter(|_| text.bytes().any(|byte| matches!(byte, b'1'..=b'9')))
}
