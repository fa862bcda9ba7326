//! Whether a change is wanted by whoever sits at a browser, and not by some page that he looks at: with a forwarded socket or a password
//! that his browser remembers, every page could send changes here. Programs say nothing of an origin, and are not concerned.

use std::net::{IpAddr, Ipv6Addr};

use hyper::header::{self, HeaderMap, HeaderName};

const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Whether a request says where it comes from, as those of browsers do.
pub(crate) fn is_said(headers: &HeaderMap) -> bool {
    headers.contains_key(header::ORIGIN) || headers.contains_key(SITE)
}

/// Whether somebody has to show a token, which a page of another address does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guarded {
    /// Yes.
    ByToken,
    /// No.
    ByNothing,
}

/// Why a change is not taken from this request's origin; `None`: it is.
pub(crate) fn objection(
    headers: &HeaderMap,
    guarded: Guarded,
    host_name: &str,
) -> Option<&'static str> {
    let foreign = "a page of another origin may change nothing here";
    let text =
        |name: &HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    if text(&SITE).is_some_and(|site| site != "same-origin") {
        return Some(foreign);
    }
    let origin = text(&header::ORIGIN)?;
    let authority = origin.split_once("://").map_or("", |(_, authority)| authority);
    let host = text(&header::HOST).unwrap_or_default();
    if authority.is_empty() || !authority.eq_ignore_ascii_case(host) {
        return Some(foreign);
    }
    // A name that somebody else's DNS says leads here is same-origin to a browser, and still foreign.
    if guarded == Guarded::ByNothing && !is_own(host, host_name) {
        return Some(
            "open this page by an address, by localhost or by the machine's own name to change something",
        );
    }
    None
}

/// Whether a `Host` is surely this machine: an address, localhost, or the name it has.
fn is_own(host: &str, host_name: &str) -> bool {
    if let Some(inside) = host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return inside.0.parse::<Ipv6Addr>().is_ok();
    }
    let name = host.split(':').next().unwrap_or_default();
    let is = |own: &str| !own.is_empty() && name.eq_ignore_ascii_case(own);
    name.parse::<IpAddr>().is_ok()
        || is("localhost")
        || name.to_ascii_lowercase().ends_with(".localhost")
        || is(host_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_page_from_here_may_change_something() {
        let check = |headers: &[(&'static str, &str)], guarded, expected: Option<&str>| {
            let headers: HeaderMap = headers
                .iter()
                .map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()))
                .collect();
            let found = objection(&headers, guarded, "lb1");
            assert_eq!(found.map(|text| &text[..6]), expected, "{headers:?}");
        };
        let nothing = Guarded::ByNothing;
        check(&[("host", "weir")], nothing, None);
        check(&[("host", "127.0.0.1:9900"), ("origin", "http://127.0.0.1:9900")], nothing, None);
        check(&[("host", "[::1]:9900"), ("origin", "http://[::1]:9900")], nothing, None);
        check(
            &[
                ("host", "localhost:1"),
                ("origin", "http://localhost:1"),
                ("sec-fetch-site", "same-origin"),
            ],
            nothing,
            None,
        );
        check(&[("host", "LB1:9900"), ("origin", "http://lb1:9900")], nothing, None);
        check(
            &[("host", "127.0.0.1:9900"), ("origin", "http://127.0.0.1:9901")],
            nothing,
            Some("a page"),
        );
        check(
            &[("host", "127.0.0.1:9900"), ("origin", "https://example.com")],
            nothing,
            Some("a page"),
        );
        check(&[("host", "127.0.0.1:9900"), ("origin", "null")], nothing, Some("a page"));
        check(&[("host", "localhost"), ("sec-fetch-site", "cross-site")], nothing, Some("a page"));
        check(&[("host", "localhost"), ("sec-fetch-site", "same-site")], nothing, Some("a page"));
        // DNS that somebody else rules.
        let rebound = [("host", "evil.example:9900"), ("origin", "http://evil.example:9900")];
        check(&rebound, nothing, Some("open t"));
        check(&rebound, Guarded::ByToken, None);
    }
}
