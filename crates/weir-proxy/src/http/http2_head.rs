//! The heads of a stream to an endpoint, of traffic or of a health check: a request's from the
//! HTTP/1 text that is written for any endpoint, a response's as such a text, which `weir-wire`
//! parses as strictly as any other.

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri, Version};

use crate::http::http2_fields::{is_of_connection, lines, write_line};

/// The request whose head is `text`; `None` if HTTP/2 cannot express it.
pub fn request(text: &[u8], scheme: &Scheme) -> Option<Request<()>> {
    let mut lines = lines(text);
    let mut words = lines.next()?.split(|byte| *byte == b' ');
    let method = Method::from_bytes(words.next()?).ok()?;
    if method == Method::CONNECT {
        return None;
    }
    let path = path(words.next()?)?;
    let mut request = Request::new(());
    let mut host = None;
    let fields = request.headers_mut();
    fields.try_reserve(16).ok()?;
    for line in lines {
        let (name, value) = line.split_at(memchr::memchr(b':', line)?);
        let value = value.get(1..).unwrap_or_default().trim_ascii();
        if name.eq_ignore_ascii_case(b"host") {
            host = Some(value);
            continue;
        }
        let name = HeaderName::from_bytes(name).ok()?;
        if !is_of_connection(&name) {
            fields.try_append(name, HeaderValue::from_bytes(value).ok()?).ok()?;
        }
    }
    *request.method_mut() = method;
    let host = host.unwrap_or_default();
    match Authority::from_maybe_shared(Bytes::copy_from_slice(host)) {
        Ok(authority) if !host.is_empty() => {
            let mut parts = http::uri::Parts::default();
            parts.scheme = Some(scheme.clone());
            parts.authority = Some(authority);
            parts.path_and_query = Some(path);
            *request.uri_mut() = Uri::from_parts(parts).ok()?;
        }
        // A host that is none in a URI is passed on as the header that it was (RFC 9113 section
        // 8.3.1); `h2` sends such a request as one that came in HTTP/1.
        _ => {
            request.headers_mut().try_append("host", HeaderValue::from_bytes(host).ok()?).ok()?;
            *request.uri_mut() = Uri::from(path);
            *request.version_mut() = Version::HTTP_11;
        }
    }
    Some(request)
}

/// A request target as `:path`. Bytes that no URI may have, though clients send them, are encoded.
fn path(target: &[u8]) -> Option<PathAndQuery> {
    if let Ok(path) = PathAndQuery::from_maybe_shared(Bytes::copy_from_slice(target)) {
        return Some(path);
    }
    let mut encoded = Vec::with_capacity(target.len() + 16);
    for byte in target {
        match byte {
            b'<'
            | b'>'
            | b'`'
            | b'"'
            | b'{'
            | b'}'
            | b'^'
            | b'|'
            | b'\\'
            | b'#'
            | b' '
            | 0..=31
            | 127.. => encoded.extend_from_slice(format!("%{byte:02X}").as_bytes()),
            _ => encoded.push(*byte),
        }
    }
    PathAndQuery::from_maybe_shared(Bytes::from(encoded)).ok()
}

/// The part of a response after its head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AfterResponseHead {
    /// DATA, trailers, or only the end of the stream.
    Body,
    /// Only the end of the stream, which came with the head.
    Nothing,
    /// Nothing, because the request was HEAD or the response is an interim one.
    NothingEver,
}

/// Appends a response's head as HTTP/1 text.
///
/// # Errors
/// The rule that a field breaks.
pub fn write_response(
    response: &Response<()>,
    after: AfterResponseHead,
    out: &mut Vec<u8>,
) -> Result<(), &'static str> {
    let (status, fields) = (response.status(), response.headers());
    let reason = status.canonical_reason().unwrap_or_default();
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(status.as_str().as_bytes());
    out.push(b' ');
    out.extend_from_slice(reason.as_bytes());
    out.extend_from_slice(b"\r\n");
    for (name, value) in fields {
        if is_of_connection(name) {
            return Err("a header of HTTP/1 connections");
        }
        write_line(name.as_str().as_bytes(), value.as_bytes(), out)?;
    }
    out.extend_from_slice(framing(status, fields, after).as_bytes());
    out.extend_from_slice(b"\r\n");
    Ok(())
}

/// The line about the body that an HTTP/1 response with this head has. A gRPC response that
/// consists of its head gets no length, which its client might not expect.
fn framing(status: StatusCode, fields: &HeaderMap, after: AfterResponseHead) -> &'static str {
    let is_grpc = || {
        let kind = fields.get(CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
        kind.starts_with(b"application/grpc")
    };
    let never = matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    match after {
        _ if never || fields.contains_key(CONTENT_LENGTH) => "",
        AfterResponseHead::NothingEver => "",
        AfterResponseHead::Nothing if !is_grpc() => "content-length: 0\r\n",
        AfterResponseHead::Nothing | AfterResponseHead::Body => "transfer-encoding: chunked\r\n",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(text: &str) -> Option<Request<()>> {
        request(text.as_bytes(), &Scheme::HTTPS)
    }

    #[test]
    fn a_request_loses_what_belongs_to_a_connection_of_http1() {
        let request = sent(
            "POST /a?b=%20c HTTP/1.1\r\nHost: shop.test:81\r\nX-A: 1\r\nx-a:  2 \r\nTE: trailers\r\n\
             Content-Length: 5\r\nTransfer-Encoding: chunked\r\nConnection: x\r\nUpgrade: h2c\r\n\r\n",
        );
        let request = request.unwrap();
        assert_eq!(request.method(), "POST");
        assert_eq!(request.uri(), "https://shop.test:81/a?b=%20c");
        let fields = request.headers().iter();
        let fields: Vec<_> =
            fields.map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
        assert_eq!(
            fields,
            [("x-a", "1"), ("x-a", "2"), ("te", "trailers"), ("content-length", "5")]
        );
    }

    #[test]
    fn a_host_that_is_no_authority_stays_a_header() {
        for host in ["a b", ""] {
            let request = sent(&format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n")).unwrap();
            assert_eq!((request.uri().authority(), request.version()), (None, Version::HTTP_11));
            assert_eq!(request.headers().get("host").unwrap(), host);
        }
    }

    #[test]
    fn bytes_that_no_uri_has_are_encoded() {
        let path = |target: &str| {
            let request = sent(&format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n")).unwrap();
            request.uri().path_and_query().unwrap().to_string()
        };
        assert_eq!(path("/a<b>`c?d=<e>"), "/a%3Cb%3E%60c?d=%3Ce%3E");
        assert_eq!(path("/a%20b"), "/a%20b");
        let options = sent("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        assert_eq!(options.uri().path(), "*");
        assert!(sent("CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n").is_none());
    }

    fn text(
        status: u16,
        fields: &[(&str, &str)],
        after: AfterResponseHead,
    ) -> Result<String, &'static str> {
        let mut response = Response::builder().status(status);
        for (name, value) in fields {
            response = response.header(*name, *value);
        }
        let mut out = Vec::new();
        write_response(&response.body(()).unwrap(), after, &mut out)?;
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn a_response_says_how_its_body_ends_as_http1_does() {
        let check = |status, fields: &[(&str, &str)], after, framing: &str| {
            let written = text(status, fields, after).unwrap();
            let (_, lines) = written.split_once("\r\n").unwrap();
            let own = fields.iter().flat_map(|(name, value)| [name, ": ", value, "\r\n"]);
            let own: String = own.collect();
            assert_eq!(lines, format!("{own}{framing}\r\n"));
        };
        let (chunked, none) = ("transfer-encoding: chunked\r\n", "content-length: 0\r\n");
        check(200, &[("a", "b")], AfterResponseHead::Body, chunked);
        check(200, &[("content-length", "3")], AfterResponseHead::Body, "");
        check(200, &[], AfterResponseHead::Nothing, none);
        check(
            200,
            &[("content-type", "application/grpc+proto")],
            AfterResponseHead::Nothing,
            chunked,
        );
        check(200, &[], AfterResponseHead::NothingEver, "");
        check(204, &[], AfterResponseHead::Nothing, "");
        check(304, &[], AfterResponseHead::Body, "");
        assert!(text(299, &[], AfterResponseHead::Body).unwrap().starts_with("HTTP/1.1 299 \r\n"));
        assert!(
            text(404, &[], AfterResponseHead::Body)
                .unwrap()
                .starts_with("HTTP/1.1 404 Not Found\r\n")
        );
        assert!(text(200, &[("upgrade", "x")], AfterResponseHead::Body).is_err());
        assert!(text(200, &[("a", " x")], AfterResponseHead::Body).is_err());
    }
}
