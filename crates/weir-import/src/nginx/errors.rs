//! `error_page` and `proxy_intercept_errors` become lines of routes.

use weir_config::syntax::tree::Directive;

use super::route_parts::RoutePlace;
use super::scope::InheritanceScope;
use super::state::Converter;
use super::statements::StatementId;
use super::values::{KnownVariables, path_template, template};
use crate::native::NativeLine;

/// The responses of servers that a route may have pages for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Intercepted {
    /// It leads to no server.
    No,
    /// Those of a route to a server, if `proxy_intercept_errors` is on.
    Yes,
}

/// The rules of a block for its error pages.
#[derive(Clone, Copy)]
struct PageRules {
    /// Responses of servers have pages, too.
    intercepts: bool,
    /// The errors of pages have pages.
    recursive: bool,
}

impl<'t> Converter<'_, 't> {
    /// Returns the error pages of the routes of a block.
    pub(crate) fn error_pages(
        &mut self,
        scope: &InheritanceScope<'_, 't>,
        place: RoutePlace<'_>,
        intercepted: Intercepted,
    ) -> Vec<Directive> {
        let intercepts =
            intercepted == Intercepted::Yes && self.switch(scope, "proxy_intercept_errors", false);
        let pages = scope.all("error_page");
        let recursive = self.switch(scope, "recursive_error_pages", false);
        let rules = PageRules { intercepts, recursive };
        let known = &self.known_at(place);
        let mut lines = Vec::new();
        for &id in pages {
            match self.error_page(id, known, rules) {
                Ok(line) => {
                    self.outcomes.honour(id);
                    lines.extend(line);
                }
                Err(reason) => self.outcomes.refuse(id, reason),
            }
        }
        lines
    }

    /// Converts `error_page`; `None` if Weir has none of its statuses.
    fn error_page(
        &mut self,
        id: StatementId,
        known: &KnownVariables<'_>,
        PageRules { intercepts, recursive }: PageRules,
    ) -> Result<Option<Directive>, String> {
        let words: Vec<&str> =
            self.statements.words(id).iter().map(|word| word.text.as_str()).collect();
        let (uri, codes) = match words.as_slice() {
            [codes @ .., uri] if !codes.is_empty() => (*uri, codes),
            _ => return Err("write `error_page STATUS… [=[STATUS]] URI`".to_owned()),
        };
        let (status, codes) = match codes {
            [codes @ .., last] if last.starts_with('=') => (Some(&last[1..]), codes),
            _ => (None, codes),
        };
        if status.is_some_and(|text| !text.is_empty() && !is_status(text)) {
            return Err("write `=` or `=STATUS` with a status from 200 to 599".to_owned());
        }
        let mut line = NativeLine::new("error_page", self.statements.span(id));
        let mut number = 0;
        for code in codes {
            match code.parse::<u16>() {
                // nginx's own for requests that Weir ends in another way.
                Ok(494..=497 | 499) => {
                    self.outcomes.differs(id, format!("Weir has no status {code}"));
                }
                Ok(400..=599) => {
                    line = line.value(code);
                    number += 1;
                }
                Ok(300..=399) => {
                    return Err("redirects have no page: leave their status out".into());
                }
                _ => return Err(format!("`{code}` is not a status from 400 to 599")),
            }
        }
        if number == 0 {
            return Ok(None);
        }
        let is_url = !uri.starts_with(['/', '@']);
        line = match status {
            _ if is_url => line,
            Some("") => line.option("status", "own"),
            Some(status) => line.option("status", status),
            None => line,
        };
        if intercepts {
            line = line.keyword("intercept");
        }
        if recursive && !is_url {
            line = line.keyword("recursive");
        }
        let line = line.keyword("->");
        if uri.starts_with('@') {
            return Ok(Some(line.keyword("internal").value(uri).end()));
        }
        if uri.starts_with('/') {
            let path = path_template(uri, known, false)?;
            return Ok(Some(line.keyword("internal").value(&format!("{path}?")).end()));
        }
        if !(uri.contains("://") || uri.starts_with('$')) {
            return Err("write a path, a named location or a URL".to_owned());
        }
        let redirects = |status: &&str| matches!(*status, "301" | "302" | "303" | "307" | "308");
        let status = status.filter(redirects).unwrap_or("302");
        let url = template(uri, known, false)?;
        Ok(Some(line.keyword("redirect").value(status).value(&url).end()))
    }
}

fn is_status(text: &str) -> bool {
    text.parse::<u16>().is_ok_and(|status| (200..=599).contains(&status))
}
