//! Protection against cross-site requests: a change must be intended by the user of a browser and
//! not come from another page, which could reach a forwarded socket or use a password that the
//! browser remembers. Programs send no origin and are not affected.

use std::net::{IpAddr, Ipv6Addr};

use hyper::header::{self, HeaderMap, HeaderName};

const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Returns true if a request states its origin, as browsers' requests do.
pub(crate) fn is_said(headers: &HeaderMap) -> bool {
    headers.contains_key(header::ORIGIN) || headers.contains_key(SITE)
}

/// The need for a token, which a page of another address does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guarded {
    /// A token is needed.
    ByToken,
    /// No token is needed.
    ByNothing,
}

/// The reason to refuse a change because of the request's origin; `None` if it is allowed.
pub(crate) fn objection(
    headers: &HeaderMap,
    guarded: Guarded,
    own: &OwnNames<'_>,
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
    // A name that foreign DNS resolves to this address is same-origin to a browser (DNS rebinding),
    // but not ours.
    if guarded == Guarded::ByNothing && !own.have(host) {
        return Some(
            "open this page by an address, by localhost or by the machine's own name to change something",
        );
    }
    None
}

/// The reason to refuse a request without credentials because of its `Host`; `None` if it is
/// allowed. With DNS rebinding, a foreign name that resolves to this address is same-origin to a
/// browser that shows a page of that name.
pub(crate) fn misdirected(headers: &HeaderMap, own: &OwnNames<'_>) -> Option<String> {
    let host = headers.get(header::HOST).map(|value| value.to_str().unwrap_or_default())?;
    if !own.have(host) {
        let name = name_of(host);
        return Some(format!(
            "this admin address does not answer to the name `{name}`: ask by an IP address or by \
             localhost, or add `name={name}` to its `admin` line"
        ));
    }
    let origin = headers.get(header::ORIGIN)?.to_str().unwrap_or_default();
    let authority = origin.split_once("://").map_or("", |(_, authority)| authority);
    let foreign = || "a page of another origin is told nothing here".to_owned();
    (!authority.eq_ignore_ascii_case(host)).then(foreign)
}

/// The names that an address answers to, in addition to IP addresses and `localhost`.
pub(crate) struct OwnNames<'a> {
    /// The machine's name.
    pub(crate) host_name: &'a str,
    /// The names in the configuration and in the certificate.
    pub(crate) names: &'a [String],
}

impl OwnNames<'_> {
    /// Returns true if a `Host` certainly means this machine.
    fn have(&self, host: &str) -> bool {
        if let Some(inside) = host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            return inside.0.parse::<Ipv6Addr>().is_ok();
        }
        let name = name_of(host);
        let is = |own: &str| !own.is_empty() && name.eq_ignore_ascii_case(own);
        name.parse::<IpAddr>().is_ok()
            || is("localhost")
            || name.to_ascii_lowercase().ends_with(".localhost")
            || is(self.host_name)
            || self.names.iter().any(|own| is(own) || is_below(name, own))
    }
}

/// Returns true if a name is one label below the domain of a wildcard such as `*.example.com`.
fn is_below(name: &str, wildcard: &str) -> bool {
    let Some(domain) = wildcard.strip_prefix("*.") else { return false };
    name.split_once('.')
        .is_some_and(|(label, rest)| !label.is_empty() && rest.eq_ignore_ascii_case(domain))
}

/// A `Host` without its port and without a trailing dot.
fn name_of(host: &str) -> &str {
    host.split(':').next().unwrap_or_default().trim_end_matches('.')
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
            let own = OwnNames { host_name: "lb1", names: &[] };
            let found = objection(&headers, guarded, &own);
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
        // A name in foreign DNS.
        let rebound = [("host", "evil.example:9900"), ("origin", "http://evil.example:9900")];
        check(&rebound, nothing, Some("open t"));
        check(&rebound, Guarded::ByToken, None);
    }

    #[test]
    fn only_own_names_are_answered_to() {
        let check = |host: &str, origin: Option<&str>, expected: Option<&str>| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, host.parse().unwrap());
            if let Some(origin) = origin {
                headers.insert(header::ORIGIN, origin.parse().unwrap());
            }
            let names = ["metrics.example.com".to_owned(), "*.lb.example.com".to_owned()];
            let own = OwnNames { host_name: "lb1", names: &names };
            let found = misdirected(&headers, &own);
            assert_eq!(found.as_deref().map(|text| &text[..6]), expected, "{host} {origin:?}");
        };
        for host in [
            "127.0.0.1:9900",
            "10.0.0.1",
            "[::1]:9900",
            "localhost:9900",
            "lb1:9900",
            "LB1",
            "Metrics.Example.com:9900",
            "metrics.example.com.",
            "one.lb.example.com",
        ] {
            check(host, None, None);
        }
        for host in
            ["evil.example:9900", "lb1.evil.example", "a.b.lb.example.com", "", "127.0.0.1.evil"]
        {
            check(host, None, Some("this a"));
        }
        check("127.0.0.1:9900", Some("http://127.0.0.1:9900"), None);
        check("127.0.0.1:9900", Some("http://evil.example"), Some("a page"));
        assert_eq!(misdirected(&HeaderMap::new(), &OwnNames { host_name: "", names: &[] }), None);
    }
}
