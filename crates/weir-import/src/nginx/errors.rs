//! `error_page` and `proxy_intercept_errors` become lines of routes.

use weir_config::syntax::tree::Directive;

use super::client_certificates::route_to_page;
use super::route_parts::RoutePlace;
use super::scope::InheritanceScope;
use super::state::Converter;
use super::statements::StatementId;
use super::values::{KnownVariables, begins_with_path, path_template, text_template};
use crate::native::NativeLine;

/// nginx's status for requests without TLS at an address with TLS.
const PLAIN: &str = "497";

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
        let known = &self.known_in(scope, place);
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
        rules: PageRules,
    ) -> Result<Option<Directive>, String> {
        let page = self.page_of(id)?;
        let mut codes = Vec::new();
        for &code in &page.codes {
            match code.parse::<u16>() {
                // `certificate_page` has them.
                Ok(495 | 496) if self.statements.has("ssl_verify_client") => {}
                // `plain_requests` has them, for servers with TLS.
                Ok(497) => {}
                // nginx's own for requests that Weir ends in another way.
                Ok(494..=496 | 499) => {
                    self.outcomes.differs(id, format!("Weir has no status {code}"));
                }
                Ok(400..=599) => codes.push(code),
                Ok(300..=399) => {
                    return Err("redirects have no page: leave their status out".into());
                }
                _ => return Err(format!("`{code}` is not a status from 400 to 599")),
            }
        }
        if codes.is_empty() {
            return Ok(None);
        }
        self.page_line(id, &PageWords { codes, ..page }, known, rules).map(Some)
    }

    /// Returns the routes of requests without TLS at an address with TLS, for which a server has a
    /// page. Others get 400 in any case.
    pub(crate) fn plain_requests(
        &mut self,
        server: StatementId,
        scope: &InheritanceScope<'_, 't>,
        place: RoutePlace<'_>,
    ) -> Option<Directive> {
        let place = RoutePlace { tls: false, ..place };
        let page = self.page_of_own_status(PLAIN, PLAIN, scope, place)?;
        let span = self.statements.span(server);
        let condition = NativeLine::new("", span).keyword("variable").option("$scheme", "http");
        let headers = self.response_headers(scope, &self.known_at(place));
        Some(route_to_page(condition, Some(page), headers, span))
    }

    /// Returns the page of a server for requests with one of nginx's own statuses, which clients
    /// get as 400: those without a valid certificate, and those without TLS. Pages for 400 are not
    /// for them.
    pub(crate) fn page_of_own_status(
        &mut self,
        code: &str,
        native: &'static str,
        scope: &InheritanceScope<'_, 't>,
        place: RoutePlace<'_>,
    ) -> Option<Directive> {
        let known = &self.known_at(place);
        let rules = PageRules { intercepts: false, recursive: false };
        for &id in scope.all("error_page") {
            // Others are refused where they are converted.
            let Ok(page) = self.page_of(id) else { continue };
            if !page.codes.contains(&code) {
                continue;
            }
            // That of nginx's own statuses.
            let status = page.status.or(Some("400"));
            let page = PageWords { status, codes: vec![native], ..page };
            return match self.page_line(id, &page, known, rules) {
                Ok(line) => {
                    self.outcomes.honour(id);
                    Some(line)
                }
                Err(reason) => {
                    self.outcomes.refuse(id, reason);
                    None
                }
            };
        }
        None
    }

    /// Returns the parts of an `error_page`.
    fn page_of(&self, id: StatementId) -> Result<PageWords<'t>, String> {
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
        Ok(PageWords { codes: codes.to_vec(), status, uri })
    }

    fn page_line(
        &self,
        id: StatementId,
        page: &PageWords<'_>,
        known: &KnownVariables<'_>,
        rules: PageRules,
    ) -> Result<Directive, String> {
        let PageWords { codes, status, uri } = page;
        let line = NativeLine::new("error_page", self.statements.span(id));
        let mut line = codes.iter().fold(line, |line, code| line.value(code));
        // A text with the path of the request in front is a path.
        let is_path = uri.starts_with('/') || begins_with_path(uri);
        let is_url = !is_path && !uri.starts_with('@');
        line = match *status {
            _ if is_url => line,
            Some("") => line.option("status", "own"),
            Some(status) => line.option("status", status),
            None => line,
        };
        if rules.intercepts {
            line = line.keyword("intercept");
        }
        if rules.recursive && !is_url {
            line = line.keyword("recursive");
        }
        let line = line.keyword("->");
        if uri.starts_with('@') {
            return Ok(line.keyword("internal").value(uri).end());
        }
        if is_path {
            let path = path_template(uri, known, false)?;
            return Ok(line.keyword("internal").value(&format!("{path}?")).end());
        }
        if !(uri.contains("://") || uri.starts_with('$')) {
            return Err("write a path, a named location or a URL".to_owned());
        }
        let redirects = |status: &&str| matches!(*status, "301" | "302" | "303" | "307" | "308");
        let status = status.filter(redirects).unwrap_or("302");
        let url = text_template(uri, known, false)?;
        Ok(line.keyword("redirect").value(status).value(&url).end())
    }
}

/// The words of an `error_page`.
struct PageWords<'t> {
    codes: Vec<&'t str>,
    /// The text behind `=`.
    status: Option<&'t str>,
    uri: &'t str,
}

fn is_status(text: &str) -> bool {
    text.parse::<u16>().is_ok_and(|status| (200..=599).contains(&status))
}
