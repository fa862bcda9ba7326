//! The target of a run: URLs, the bytes of the requests, and the choice of the n-th request. It
//! opens no connection.

use std::fmt::Write;

use bytes::Bytes;

use crate::service_time::uniform;

/// The parts of a URL that a load generator uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// The URL as given by the user.
    pub text: String,
    /// Set if the scheme is `https`.
    pub tls: bool,
    /// Name or address; an IPv6 address without its brackets.
    pub host: String,
    /// Port; the default of the scheme if none is given.
    pub port: u16,
    /// Path and query, never empty.
    pub path: String,
}

impl Url {
    /// Reads `http://host:port/path?query`.
    ///
    /// # Errors
    /// One sentence about the mistake.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = |reason: &str| format!("`{text}` is not a valid URL: {reason}");
        if text.bytes().any(|byte| !byte.is_ascii_graphic()) {
            return Err(wrong("it contains a space, a control character or a non-ASCII character"));
        }
        let (tls, rest) = match text.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => (false, rest),
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => (true, rest),
            Some((scheme, _)) => {
                return Err(wrong(&format!("`{scheme}` is neither http nor https")));
            }
            None => return Err(wrong(&format!("did you mean `http://{text}`?"))),
        };
        let rest = rest.split('#').next().unwrap_or_default();
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        if authority.contains('@') {
            return Err(wrong("it contains a user name; send it with -H 'Authorization: …'"));
        }
        let (host, port) = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, "")) => (host, None),
            Some((host, port)) => (host, port.strip_prefix(':')),
            None => match authority.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (authority, None),
            },
        };
        let port = match port {
            None => {
                if tls {
                    443
                } else {
                    80
                }
            }
            Some(port) => match port.parse() {
                Ok(port @ 1..) => port,
                _ => return Err(wrong(&format!("`{port}` is not a port"))),
            },
        };
        if host.is_empty() {
            return Err(wrong("it has no host"));
        }
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        Ok(Self { text: text.to_owned(), tls, host: host.to_owned(), port, path })
    }

    /// Host and port in the form of a `Host` line: with the port only if it is not the scheme's
    /// default.
    pub fn authority(&self) -> String {
        let host =
            if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        if self.port == if self.tls { 443 } else { 80 } {
            host
        } else {
            format!("{host}:{}", self.port)
        }
    }
}

/// The parts that all requests have in common.
#[derive(Clone, Debug, Default)]
pub struct Form {
    /// The method; if empty, `GET`, or `POST` with a body.
    pub method: String,
    /// `Name: value` lines as given by the user.
    pub headers: Vec<String>,
    /// The body of each request.
    pub body: Vec<u8>,
    /// Set if each request is the last one of its connection.
    pub close: bool,
    /// Set if the requests are sent over HTTP/2.
    pub http2: bool,
}

/// An encoded request.
#[derive(Clone, Debug)]
pub struct EncodedRequest {
    /// Head and body.
    pub bytes: Vec<u8>,
    /// The method, which determines whether the response has a body.
    pub method: weir_wire::Method,
    /// The request as HTTP/2 has it, if the run speaks that.
    pub(super) http2: Option<Http2Message>,
    /// Share of all requests that are this one or an earlier one in the list, up to 1.
    cumulative: f64,
}

/// A request for a connection of HTTP/2.
#[derive(Clone, Debug)]
pub(super) struct Http2Message {
    pub(super) head: http::Request<()>,
    pub(super) body: Bytes,
}

/// Headers that speak of a connection, which HTTP/2 does not have.
const OF_THE_CONNECTION: [&str; 5] =
    ["connection", "keep-alive", "proxy-connection", "te", "upgrade"];

impl Form {
    /// The request for a URL.
    ///
    /// # Errors
    /// One sentence if a header or the method cannot be sent as given.
    pub fn request(&self, url: &Url) -> Result<EncodedRequest, String> {
        let method = match self.method.as_str() {
            "" if self.body.is_empty() => "GET",
            "" => "POST",
            method => method,
        };
        let is_token = |text: &str| {
            !text.is_empty()
                && text
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
        };
        if !is_token(method) {
            return Err(format!("`{method}` is not a method"));
        }
        let mut head = format!("{method} {} HTTP/1.1\r\n", url.path);
        let mut has_host = false;
        let mut lines = String::new();
        for header in &self.headers {
            // Without a colon the name is empty, which is refused below.
            let (name, value) = header.split_once(':').unwrap_or_default();
            let value = value.trim();
            if !is_token(name) || value.chars().any(|letter| letter.is_control() && letter != '\t')
            {
                return Err(format!(
                    "`{}` is not a header: write `Name: value`",
                    header.escape_debug()
                ));
            }
            let framing = ["content-length", "transfer-encoding"];
            if framing.iter().any(|own| name.eq_ignore_ascii_case(own)) {
                return Err(format!("`{name}` is determined by the body and cannot be set"));
            }
            has_host |= name.eq_ignore_ascii_case("host");
            let _ = write!(lines, "{name}: {value}\r\n");
        }
        if !has_host {
            let _ = write!(head, "Host: {}\r\n", url.authority());
        }
        head.push_str(&lines);
        if !self.body.is_empty() || method == "POST" || method == "PUT" {
            let _ = write!(head, "Content-Length: {}\r\n", self.body.len());
        }
        if self.close {
            head.push_str("Connection: close\r\n");
        }
        head.push_str("\r\n");
        let kind = weir_wire::Method::of(method.as_bytes());
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(&self.body);
        let http2 = self.http2.then(|| self.message(method, url)).transpose()?;
        Ok(EncodedRequest { bytes, method: kind, http2, cumulative: 1.0 })
    }

    /// The request as HTTP/2 has it: the host is its authority.
    fn message(&self, method: &str, url: &Url) -> Result<Http2Message, String> {
        let lines = || self.headers.iter().filter_map(|header| header.split_once(':'));
        let host = lines().find(|(name, _)| name.eq_ignore_ascii_case("host"));
        let authority = host.map_or_else(|| url.authority(), |(_, host)| host.trim().to_owned());
        let scheme = if url.tls { "https" } else { "http" };
        let mut head = http::Request::builder()
            .version(http::Version::HTTP_2)
            .method(method)
            .uri(format!("{scheme}://{authority}{}", url.path));
        for (name, value) in lines().filter(|(name, _)| !name.eq_ignore_ascii_case("host")) {
            if OF_THE_CONNECTION.iter().any(|own| name.eq_ignore_ascii_case(own)) {
                return Err(format!("`{name}` cannot be sent over HTTP/2"));
            }
            head = head.header(name, value.trim());
        }
        if !self.body.is_empty() || method == "POST" || method == "PUT" {
            head = head.header("content-length", self.body.len());
        }
        let head = head.body(()).map_err(|error| format!("this cannot be requested: {error}"))?;
        Ok(Http2Message { head, body: Bytes::copy_from_slice(&self.body) })
    }
}

/// Several requests, each with a weight.
#[derive(Clone, Debug)]
pub struct Requests(Vec<EncodedRequest>);

impl Requests {
    /// From one or more requests with weights above zero.
    pub fn new(weighted: Vec<(f64, EncodedRequest)>) -> Self {
        let total: f64 = weighted.iter().map(|(weight, _)| weight).sum();
        let mut sum = 0.0;
        let requests = weighted.into_iter().map(|(weight, mut request)| {
            sum += weight / total;
            request.cumulative = sum;
            request
        });
        Self(requests.collect())
    }

    /// The n-th request of the run, determined by the seed and n.
    #[inline]
    pub fn pick(&self, seed: u64, n: u64) -> Option<&EncodedRequest> {
        match self.0.as_slice() {
            [only] => Some(only),
            several => {
                let point = uniform(seed ^ 0x5bd1_e995, n);
                several.iter().find(|request| point < request.cumulative).or(several.last())
            }
        }
    }
}

/// Reads a URL with an optional weight before it: `3*http://host/a`.
///
/// # Errors
/// One sentence about the mistake.
pub fn weighted_url(text: &str) -> Result<(f64, Url), String> {
    let before_scheme = text.split("://").next().unwrap_or_default();
    let Some((weight, _)) = before_scheme.split_once('*') else {
        return Ok((1.0, Url::parse(text)?));
    };
    match weight.parse::<f64>() {
        Ok(number) if number > 0.0 && number.is_finite() => {
            Ok((number, Url::parse(text.get(weight.len() + 1..).unwrap_or_default())?))
        }
        _ => Err(format!("`{weight}` is not a weight: write `3*http://host/path`")),
    }
}

#[cfg(test)]
mod tests {
    use super::{Form, Requests, Url, weighted_url};

    #[test]
    fn urls_are_taken_apart() {
        let check = |text: &str, tls, host: &str, port, path: &str, authority: &str| {
            let url = Url::parse(text).unwrap();
            assert_eq!(
                (url.tls, url.host.as_str(), url.port, url.path.as_str()),
                (tls, host, port, path),
                "{text}"
            );
            assert_eq!(url.authority(), authority, "{text}");
        };
        check("http://a", false, "a", 80, "/", "a");
        check("https://adc.domain.com:443/", true, "adc.domain.com", 443, "/", "adc.domain.com");
        check("https://127.0.0.1:8443/1k", true, "127.0.0.1", 8443, "/1k", "127.0.0.1:8443");
        check("HTTP://a:8080?x=y#part", false, "a", 8080, "/?x=y", "a:8080");
        check("http://[::1]:81/a/b?c", false, "::1", 81, "/a/b?c", "[::1]:81");
        check("http://[::1]", false, "::1", 80, "/", "[::1]");
        for (wrong, part) in [
            ("127.0.0.1:80/", "did you mean `http://127.0.0.1:80/`?"),
            ("ftp://a", "`ftp`"),
            ("http://", "no host"),
            ("http://:80/", "no host"),
            ("http://a:0/", "not a port"),
            ("http://a:99999/", "not a port"),
            ("http://u:p@a/", "user name"),
            ("http://a/b c", "space"),
            ("http://a/\u{e4}", "ASCII"),
        ] {
            let error = Url::parse(wrong).unwrap_err();
            assert!(error.contains(part), "{wrong}: {error}");
        }
    }

    #[test]
    fn requests_are_written_as_http() {
        let url = Url::parse("http://a:81/b?c").unwrap();
        let check = |form: Form, expected: &str| {
            let request = form.request(&url).unwrap();
            assert_eq!(String::from_utf8(request.bytes).unwrap(), expected);
        };
        check(Form::default(), "GET /b?c HTTP/1.1\r\nHost: a:81\r\n\r\n");
        let form = Form {
            headers: vec!["X-Y:  z ".to_owned(), "host: other".to_owned()],
            body: b"hello".to_vec(),
            close: true,
            ..Form::default()
        };
        check(
            form,
            "POST /b?c HTTP/1.1\r\nX-Y: z\r\nhost: other\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello",
        );
        for header in ["nothing at all", "A\r\nB: c", "A: b\r\nC: d", ": x", "Content-Length: 5"] {
            let form = Form { headers: vec![header.to_owned()], ..Form::default() };
            let found = form.request(&url);
            assert!(found.is_err(), "{header:?}: {found:?}");
        }
        assert!(Form { method: "GE T".to_owned(), ..Form::default() }.request(&url).is_err());
    }

    #[test]
    fn weights_are_shares() {
        let (weight, url) = weighted_url("3*http://a/x*y").unwrap();
        assert_eq!((weight, url.path.as_str()), (3.0, "/x*y"));
        assert_eq!(weighted_url("http://a/2*3").unwrap().1.path, "/2*3");
        for wrong in ["0*http://a", "x*http://a", "-1*http://a"] {
            assert!(weighted_url(wrong).is_err(), "{wrong}");
        }
        let form = Form::default();
        let weighted = ["3*http://a/a", "http://a/b"].map(|text| {
            let (weight, url) = weighted_url(text).unwrap();
            (weight, form.request(&url).unwrap())
        });
        let requests = Requests::new(weighted.into());
        let first = (0..10_000)
            .filter(|n| requests.pick(1, *n).unwrap().bytes.starts_with(b"GET /a"))
            .count();
        // Within 4.5 standard deviations (43) of 7,500.
        assert!((7_300..=7_700).contains(&first), "{first}");
    }
}
