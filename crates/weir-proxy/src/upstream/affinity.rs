//! Affinity by cookie: finds the endpoint that a request's cookie identifies, and builds the cookie
//! that a response sets. Everything is computed when the configuration is compiled; a request costs
//! one pass over its cookies and one table look-up.
//!
//! A server can have a value of its own. Otherwise the value is an HMAC of the names of pool and
//! endpoint with the operator's secret. It is therefore the same in every instance and after a
//! restart, reveals nothing to a reader, and cannot be forged without the secret; a value that Weir
//! did not issue is not in the table. The balancer, not this file, decides if the endpoint is
//! available.

use std::collections::HashMap;
use std::fmt::Write;

use aws_lc_rs::hmac;
use weir_config::model::{SameSite, Secure, Sticky, StickyMode};
use weir_wire::RequestHead;

use crate::http::cookie::{self, EndpointCookie, PREFIX_END, RequestCookie, ResponseCookie};
use crate::limits::STICKY_COOKIES;

/// 128 bits in base64url without padding.
const VALUE_BYTES: usize = 22;

/// A prefix of the text that is hashed, so that the secret can be used for other purposes too.
const PURPOSE: &[u8] = b"weir sticky cookie 1";

/// The key if the operator gave no secret: the value then hides the names, but can be forged.
const NO_SECRET: &[u8] = b"names only";

type CookieValue = [u8; VALUE_BYTES];

/// The sticky cookie of a pool.
pub struct Affinity {
    name: Box<[u8]>,
    mode: StickyMode,
    /// Set if endpoints see the cookie.
    visible: bool,
    /// Set if a cookie that an endpoint sets replaces Weir's.
    preserve: bool,
    /// Set if only responses to POST set the cookie.
    post_only: bool,
    /// The first endpoint of each cookie value.
    endpoints: HashMap<Box<[u8]>, usize>,
    /// Indexed by endpoint: the next one with the same value. Empty if no value has several.
    next: Box<[Option<usize>]>,
    /// The value of each endpoint, `None` for one that binds no client.
    values: Box<[Option<Box<[u8]>>]>,
    /// Indexed by endpoint.
    lines: Box<[SetCookieLines]>,
    secure: Secure,
}

/// The complete `Set-Cookie` lines of an endpoint, including line ends.
struct SetCookieLines {
    plain: Box<[u8]>,
    over_tls: Box<[u8]>,
}

/// The result of looking for the sticky cookie in a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Claim {
    /// The pool has no sticky cookie.
    #[default]
    None,
    /// The request has no sticky cookie.
    New,
    /// The request has the cookie, but its value identifies no endpoint.
    Unknown,
    /// The cookie identifies this endpoint.
    Bound(usize),
    /// The route names this endpoint, whatever the cookie says.
    Named(usize, SetAside),
}

/// The sticky cookie of a request whose endpoint the route names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SetAside {
    /// The pool has none.
    Nothing,
    /// The client sent none.
    NoCookie,
    Cookie,
}

impl SetAside {
    /// The claim of a request whose endpoint is gone.
    pub(crate) fn claim(self) -> Claim {
        match self {
            Self::Nothing => Claim::None,
            Self::NoCookie => Claim::New,
            Self::Cookie => Claim::Unknown,
        }
    }
}

impl Claim {
    /// The claim of a request whose endpoint the route names.
    pub(crate) fn named(self, endpoint: usize) -> Self {
        let aside = match self {
            Self::None => SetAside::Nothing,
            Self::New => SetAside::NoCookie,
            Self::Unknown | Self::Bound(_) => SetAside::Cookie,
            Self::Named(_, aside) => aside,
        };
        Self::Named(endpoint, aside)
    }

    /// The endpoint that the cookie identifies, or that the route names.
    pub(crate) fn endpoint(self) -> Option<usize> {
        match self {
            Self::Bound(endpoint) | Self::Named(endpoint, _) => Some(endpoint),
            Self::None | Self::New | Self::Unknown => None,
        }
    }

    /// The outcome for the log; `served` is the endpoint that served the request in the end.
    pub(crate) fn outcome(self, served: Option<usize>) -> weir_stats::AffinityOutcome {
        match self {
            Self::None | Self::Named(_, SetAside::Nothing) => weir_stats::AffinityOutcome::None,
            Self::Unknown => weir_stats::AffinityOutcome::Unknown,
            Self::Bound(endpoint) if served == Some(endpoint) => weir_stats::AffinityOutcome::Kept,
            Self::Bound(_) => weir_stats::AffinityOutcome::Moved,
            Self::Named(endpoint, SetAside::Cookie) if served == Some(endpoint) => {
                weir_stats::AffinityOutcome::Unused
            }
            Self::Named(_, SetAside::Cookie) => weir_stats::AffinityOutcome::Replaced,
            Self::Named(endpoint, _) if served == Some(endpoint) => {
                weir_stats::AffinityOutcome::Named
            }
            Self::New | Self::Named(..) => weir_stats::AffinityOutcome::New,
        }
    }
}

impl Affinity {
    /// Builds the cookie for the pool `pool` with these endpoints, in the pool's order.
    pub(crate) fn new(
        sticky: &Sticky,
        pool: &str,
        endpoints: &[&str],
        secret: Option<&[u8]>,
    ) -> Self {
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret.unwrap_or(NO_SECRET));
        let values = endpoints.iter().map(|endpoint| Some(value(&key, pool, endpoint)));
        Self::of_values(sticky, values.map(|value| value.map(|value| value[..].into())).collect())
    }

    /// Builds the cookie for endpoints with these values, in the pool's order. Of endpoints with
    /// the same value the first available one has the clients, as in HAProxy.
    pub(crate) fn with_values(sticky: &Sticky, values: &[Option<&str>]) -> Self {
        let values = values.iter().map(|value| value.map(|value| value.as_bytes().into()));
        Self::of_values(sticky, values.collect())
    }

    fn of_values(sticky: &Sticky, values: Box<[Option<Box<[u8]>>]>) -> Self {
        let lines = values.iter().map(|value| {
            let line = |secure| line(sticky, value.as_deref(), secure);
            match sticky.secure {
                Secure::Off => SetCookieLines { plain: line(false), over_tls: line(false) },
                Secure::Auto => SetCookieLines { plain: line(false), over_tls: line(true) },
                Secure::On => SetCookieLines { plain: line(true), over_tls: line(true) },
            }
        });
        let mut endpoints = HashMap::new();
        let mut next = vec![None; values.len()];
        for (index, value) in values.iter().enumerate().rev() {
            if let Some(value) = value
                && let Some(place) = next.get_mut(index)
            {
                *place = endpoints.insert(value.clone(), index);
            }
        }
        if next.iter().all(Option::is_none) {
            next.clear();
        }
        Self {
            name: sticky.cookie.as_bytes().into(),
            mode: sticky.mode,
            visible: sticky.visible,
            preserve: sticky.preserve,
            post_only: sticky.post_only,
            lines: if sticky.mode == StickyMode::Insert { lines.collect() } else { Box::new([]) },
            endpoints,
            next: next.into(),
            values,
            secure: sticky.secure,
        }
    }

    /// The cookie of a request, if endpoints do not get it as it came.
    pub(crate) fn request(&self) -> Option<RequestCookie<'_>> {
        let is_prefixed = self.mode == StickyMode::Prefix;
        let is_hidden = self.mode == StickyMode::Insert && !self.visible;
        (is_prefixed || is_hidden).then_some(RequestCookie { name: &self.name, is_prefixed })
    }

    /// Evaluates the request's cookies. Browsers may send several cookies of the name, for other
    /// paths too: the first value that identifies an endpoint counts, if it is among the first
    /// [`STICKY_COOKIES`]. Of endpoints with the same value, an available one is bound.
    pub(crate) fn claim(
        &self,
        head: &RequestHead,
        bytes: &[u8],
        is_available: impl Fn(usize) -> bool,
    ) -> Claim {
        let mut claim = Claim::New;
        for value in cookie::values(head, bytes, &self.name).take(STICKY_COOKIES) {
            match self.endpoint(cookie::bare(value)) {
                Some(first) if self.next.is_empty() => return Claim::Bound(first),
                Some(first) => {
                    let next = |index: &usize| self.next.get(*index).copied().flatten();
                    let mut all = std::iter::successors(Some(first), next);
                    return Claim::Bound(all.find(|index| is_available(*index)).unwrap_or(first));
                }
                None => claim = Claim::Unknown,
            }
        }
        claim
    }

    fn endpoint(&self, value: &[u8]) -> Option<usize> {
        // HAProxy writes dates behind a bar.
        let end = if self.mode == StickyMode::Prefix { PREFIX_END } else { b'|' };
        let value = value.split(|&byte| byte == end).next()?;
        self.endpoints.get(value).copied()
    }

    /// The sticky cookie in a response of endpoint `served` to a client whose cookie identified
    /// endpoint `bound`.
    pub(crate) fn response(
        &self,
        bound: Option<usize>,
        served: Option<usize>,
        is_post: bool,
        over_tls: impl FnOnce() -> bool,
    ) -> ResponseCookie<'_> {
        let value = served.and_then(|served| self.values.get(served)?.as_deref());
        let of_endpoint = match (self.mode, value) {
            (StickyMode::Insert, _) if !self.preserve => EndpointCookie::Removed,
            (StickyMode::Rewrite, Some(value)) => EndpointCookie::Replaced(value),
            (StickyMode::Prefix, Some(value)) => EndpointCookie::Prefixed(value),
            _ => EndpointCookie::Kept,
        };
        let lines = served
            .filter(|served| bound != Some(*served) && (is_post || !self.post_only))
            .and_then(|served| self.lines.get(served));
        let line = lines.map(|lines| match self.secure {
            Secure::Auto if over_tls() => &*lines.over_tls,
            _ => &*lines.plain,
        });
        ResponseCookie { name: &self.name, of_endpoint, line }
    }
}

/// Computes a cookie value. Names contain no control characters, so two different pairs of names
/// never hash the same text.
fn value(key: &hmac::Key, pool: &str, endpoint: &str) -> CookieValue {
    let mut context = hmac::Context::with_key(key);
    for part in [PURPOSE, b"\0", pool.as_bytes(), b"\0", endpoint.as_bytes()] {
        context.update(part);
    }
    base64url(context.sign().as_ref())
}

/// Encodes the first 128 bits in base64url, six bits per character.
fn base64url(digest: &[u8]) -> CookieValue {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let bits = digest.iter().take(16).fold(0, |bits, byte| bits << 8 | u128::from(*byte));
    std::array::from_fn(|at| {
        let shift = 122_usize.checked_sub(6 * at);
        // The last character has only two bits of data; the other four are zero.
        let six = shift.map_or(bits << 4, |shift| bits >> shift) as usize & 63;
        ALPHABET.get(six).copied().unwrap_or_default()
    })
}

/// Writes the line of an endpoint. One without a value removes the cookie that the client has.
fn line(sticky: &Sticky, value: Option<&[u8]>, secure: bool) -> Box<[u8]> {
    let value = value.map(String::from_utf8_lossy);
    let removal = "; Expires=Thu, 01-Jan-1970 00:00:01 GMT".into();
    let value = value.unwrap_or(removal);
    let mut line = format!("Set-Cookie: {}={value}", sticky.cookie);
    let _ = write!(line, "; Path={}", sticky.path);
    if let Some(domain) = &sticky.domain {
        let _ = write!(line, "; Domain={domain}");
    }
    if let Some(age) = sticky.max_age {
        let _ = write!(line, "; Max-Age={}", age.as_secs());
    }
    if secure {
        line.push_str("; Secure");
    }
    if sticky.http_only {
        line.push_str("; HttpOnly");
    }
    line.push_str(match sticky.same_site {
        Some(SameSite::Lax) => "; SameSite=Lax",
        Some(SameSite::Strict) => "; SameSite=Strict",
        // Browsers discard a cookie with `SameSite=None` and without `Secure`.
        Some(SameSite::None) if secure => "; SameSite=None",
        Some(SameSite::None) | None => "",
    });
    line.push_str("\r\n");
    line.into_bytes().into()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::time::Duration;

    use super::*;
    use crate::http::sample::SampleRequest;

    const SECRET: &[u8] = b"0123456789abcdef";

    fn affinity(secret: Option<&[u8]>) -> Affinity {
        Affinity::new(&Sticky::new("SRV"), "app", &["a", "b", "c"], secret)
    }

    fn value_of(affinity: &Affinity, endpoint: usize) -> String {
        let cookie = affinity.response(None, Some(endpoint), false, || false).line.unwrap();
        let text = std::str::from_utf8(cookie).unwrap();
        text.strip_prefix("Set-Cookie: SRV=").unwrap().split(';').next().unwrap().to_owned()
    }

    fn claim(affinity: &Affinity, cookies: &str) -> Claim {
        let request = SampleRequest::new(&format!("GET / HTTP/1.1\r\nHost: a\r\n{cookies}\r\n"));
        affinity.claim(&request.head, &request.bytes, |_| true)
    }

    #[test]
    fn an_endpoint_that_a_route_named_has_an_outcome_of_its_own() {
        use weir_stats::AffinityOutcome::{New, None as Nothing, Replaced, Unused};
        for (claim, served, elsewhere, gone) in [
            (Claim::None, Nothing, Nothing, Claim::None),
            (Claim::New, weir_stats::AffinityOutcome::Named, New, Claim::New),
            (Claim::Unknown, Unused, Replaced, Claim::Unknown),
            (Claim::Bound(0), Unused, Replaced, Claim::Unknown),
        ] {
            let named = claim.named(1);
            assert_eq!([named.outcome(Some(1)), named.outcome(Some(0))], [served, elsewhere]);
            let Claim::Named(1, aside) = named else { panic!("{named:?}") };
            assert_eq!(aside.claim(), gone);
        }
    }

    /// The expected values are computed in Python:
    ///
    /// ```text
    /// digest = hmac.digest(key, b"weir sticky cookie 1\0app\0b", "sha256")
    /// base64.urlsafe_b64encode(digest[:16]).rstrip(b"=")
    /// ```
    #[test]
    fn values_equal_those_of_another_implementation() {
        assert_eq!(value_of(&affinity(Some(SECRET)), 1), "EsfB0Xk_g0tjzB1apAohVw");
        assert_eq!(value_of(&affinity(None), 1), "JWr62bm2SOqc6dQHfNvDzg");
    }

    #[test]
    fn base64url_is_as_in_rfc_4648() {
        assert_eq!(&base64url(&[0; 32]), b"AAAAAAAAAAAAAAAAAAAAAA");
        assert_eq!(&base64url(&[0xff; 32]), b"_____________________w");
        assert_eq!(&base64url(b"0123456789abcdefXXXX"), b"MDEyMzQ1Njc4OWFiY2RlZg");
    }

    #[test]
    fn a_value_identifies_its_endpoint_wherever_it_stands() {
        let affinity = affinity(None);
        let value = value_of(&affinity, 2);
        for cookies in [
            format!("Cookie: SRV={value}\r\n"),
            format!("Cookie: a=1; SRV=\"{value}\"; b=2\r\n"),
            format!("Cookie: SRV=gone\r\ncookie: SRV={value}\r\n"),
            format!("Cookie: SRV={value}; SRV={}\r\n", value_of(&affinity, 0)),
        ] {
            assert_eq!(claim(&affinity, &cookies), Claim::Bound(2), "{cookies}");
        }
        let behind = |others: usize| {
            let cookies = format!("Cookie: {}SRV={value}\r\n", "SRV=gone;".repeat(others));
            claim(&affinity, &cookies)
        };
        assert_eq!(behind(STICKY_COOKIES - 1), Claim::Bound(2));
        assert_eq!(behind(STICKY_COOKIES), Claim::Unknown);
    }

    #[test]
    fn a_value_that_was_not_issued_identifies_no_endpoint() {
        let affinity = affinity(Some(SECRET));
        let value = value_of(&affinity, 0);
        let forged = value_of(&super::tests::affinity(None), 0);
        let other = Affinity::new(&Sticky::new("SRV"), "web", &["a", "b", "c"], Some(SECRET));
        for cookies in [
            "Cookie: SRV=\r\n".to_owned(),
            "Cookie: SRV=a\r\n".to_owned(),
            format!("Cookie: SRV={forged}\r\n"),
            format!("Cookie: SRV={}\r\n", value_of(&other, 0)),
            format!("Cookie: SRV={value}x\r\n"),
            format!("Cookie: SRV={}\r\n", &value[1..]),
        ] {
            assert_eq!(claim(&affinity, &cookies), Claim::Unknown, "{cookies}");
        }
        for cookies in [
            String::new(),
            format!("X-Cookie: SRV={value}\r\n"),
            format!("Cookie: srv={value}\r\n"),
        ] {
            assert_eq!(claim(&affinity, &cookies), Claim::New, "{cookies}");
        }
        assert_eq!(claim(&affinity, &format!("Cookie: SRV={value}\r\n")), Claim::Bound(0));
    }

    #[test]
    fn every_endpoint_of_every_pool_has_a_value_of_its_own() {
        let pools = [("app", ["a", "b"]), ("app2", ["a", "b"]), ("ap", ["pa", "pb"])];
        let all = [None, Some(SECRET)].into_iter().flat_map(|secret| {
            pools.iter().flat_map(move |(pool, endpoints)| {
                let affinity = Affinity::new(&Sticky::new("SRV"), pool, endpoints, secret);
                [value_of(&affinity, 0), value_of(&affinity, 1)]
            })
        });
        assert_eq!(all.collect::<HashSet<_>>().len(), 12);
    }

    #[test]
    fn the_cookie_is_set_when_another_endpoint_served() {
        let affinity = affinity(None);
        let is_set =
            |bound, served| affinity.response(bound, served, false, || false).line.is_some();
        assert!(is_set(None, Some(0)) && is_set(Some(1), Some(0)));
        assert!(!is_set(Some(1), Some(1)) && !is_set(Some(1), None) && !is_set(None, Some(9)));
    }

    #[test]
    fn values_of_servers_identify_them_in_each_mode() {
        let with = |sticky: Sticky| {
            Affinity::with_values(&sticky, &[Some("one"), Some("two"), None, Some("one")])
        };
        let of_mode = |mode| with(Sticky { mode, ..Sticky::new("SRV") });
        let insert = of_mode(StickyMode::Insert);
        assert_eq!(claim(&insert, "Cookie: SRV=one\r\n"), Claim::Bound(0));
        let request = SampleRequest::new("GET / HTTP/1.1\r\nHost: a\r\nCookie: SRV=one\r\n\r\n");
        let first_of =
            |up: &[usize]| insert.claim(&request.head, &request.bytes, |index| up.contains(&index));
        let found = [&[0, 3][..], &[1, 2, 3], &[1, 2]].map(first_of);
        assert_eq!(found, [Claim::Bound(0), Claim::Bound(3), Claim::Bound(0)]);
        assert_eq!(claim(&insert, "Cookie: SRV=two|abc|def\r\n"), Claim::Bound(1));
        assert_eq!(claim(&insert, "Cookie: SRV=two~x\r\n"), Claim::Unknown);
        assert_eq!(value_of(&insert, 1), "two");
        let removal = insert.response(None, Some(2), false, || false).line.unwrap();
        assert!(removal.starts_with(b"Set-Cookie: SRV=; Expires=Thu, 01-Jan-1970"));
        let prefix = of_mode(StickyMode::Prefix);
        assert_eq!(claim(&prefix, "Cookie: SRV=two~x\r\n"), Claim::Bound(1));
        let given = |affinity: &Affinity, served| {
            let response = affinity.response(None, Some(served), false, || false);
            assert!(response.line.is_none());
            format!("{:?}", response.of_endpoint)
        };
        assert_eq!(given(&prefix, 1), format!("Prefixed({:?})", b"two"));
        assert_eq!(given(&prefix, 2), "Kept");
        let rewrite = of_mode(StickyMode::Rewrite);
        assert_eq!(given(&rewrite, 0), format!("Replaced({:?})", b"one"));
        assert_eq!(given(&of_mode(StickyMode::Follow), 0), "Kept");
        let post = with(Sticky { post_only: true, preserve: true, ..Sticky::new("SRV") });
        assert_eq!(given(&post, 0), "Kept");
        assert!(post.response(None, Some(0), true, || false).line.is_some());
        let hidden = |affinity: &Affinity| affinity.request().map(|cookie| cookie.is_prefixed);
        assert_eq!((hidden(&insert), hidden(&prefix)), (Some(false), Some(true)));
        assert_eq!(hidden(&rewrite), None);
        assert_eq!(hidden(&with(Sticky { visible: true, ..Sticky::new("SRV") })), None);
    }

    #[test]
    fn the_set_cookie_line_has_the_configured_attributes() {
        let check = |sticky: &Sticky, over_tls, expected: &str| {
            let affinity = Affinity::new(sticky, "app", &["a"], None);
            let value = "YvgBG0NBqPXjZ0z-EwYdsg";
            let line = affinity.response(None, Some(0), false, || over_tls).line.unwrap();
            let expected = format!("Set-Cookie: SRV={value}; {expected}\r\n");
            assert_eq!(String::from_utf8_lossy(line), expected);
        };
        let plain = Sticky::new("SRV");
        check(&plain, true, "Path=/");
        let all = Sticky {
            http_only: true,
            secure: Secure::On,
            same_site: Some(SameSite::Strict),
            path: "/app".into(),
            domain: Some("example.com".into()),
            max_age: Some(Duration::from_hours(1)),
            ..plain.clone()
        };
        let expected =
            "Path=/app; Domain=example.com; Max-Age=3600; Secure; HttpOnly; SameSite=Strict";
        check(&all, false, expected);
        let auto =
            Sticky { secure: Secure::Auto, same_site: Some(SameSite::None), ..plain.clone() };
        check(&auto, true, "Path=/; Secure; SameSite=None");
        check(&auto, false, "Path=/");
        check(&Sticky { same_site: Some(SameSite::Lax), ..plain }, false, "Path=/; SameSite=Lax");
    }
}
