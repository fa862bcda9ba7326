//! `sticky` and `queue` of an `upstream`.

use weir_config::syntax::tree::Directive;

use super::scope::InheritanceScope;
use super::state::Converter;
use super::statements::StatementId;
use super::values;
use crate::native::NativeLine;

impl Converter<'_, '_> {
    /// Converts the affinity of clients by a cookie that nginx sets.
    pub(crate) fn sticky(&mut self, upstream: StatementId) -> Option<Directive> {
        let scope = InheritanceScope::new(self.statements, upstream);
        let id = self.single(&scope, "sticky")?;
        match self.sticky_cookie(id) {
            Ok(line) => {
                self.outcomes.differs(id, "the value of the cookie is Weir's own, and servers do not see it; it is sent for all paths where no `path=` is given");
                Some(line)
            }
            Err(reason) => {
                self.outcomes.refuse(id, reason);
                None
            }
        }
    }

    fn sticky_cookie(&self, id: StatementId) -> Result<Directive, String> {
        let (kind, name) = (self.statements.word(id, 0), self.statements.word(id, 1));
        let is_token =
            |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if kind == "cookie" && !name.bytes().all(is_token) {
            return Err(format!("`{name}` is not the name of a cookie"));
        }
        if kind != "cookie" || name.is_empty() {
            return Err("of its kinds only `sticky cookie NAME` has a conversion; for `route` and `learn` write `hash` of the cookie".to_owned());
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
