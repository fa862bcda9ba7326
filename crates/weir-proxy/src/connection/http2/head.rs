//! Heads of HTTP/2 as HTTP/1 text, and the other way round. A request is refused here if an HTTP/1
//! endpoint could read it differently than Weir; `h2` has already refused what RFC 9113 section 8
//! calls malformed, and `weir-wire` parses the text.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{CONTENT_LENGTH, COOKIE, HOST, SEC_WEBSOCKET_KEY};
use http::request::Parts;
use http::{Method, Response, StatusCode};

use crate::http::http2_fields::{append_field, checked, is_of_connection, lines, write_line};

/// The version in the text of a request's head; [`show_version`] replaces it.
const PARSED_VERSION: &[u8] = b"HTTP/1.1";
/// The version that logs show, of the same length.
const SHOWN_VERSION: &[u8] = b"HTTP/2.0";

/// The part of a request after its head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AfterHead {
    Nothing,
    /// A body, trailers, or only the end of the stream.
    Body,
}

/// The reason for which a request is refused, and the status of the refusal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct HeadFault {
    pub(crate) reason: &'static str,
    pub(crate) status: u16,
}

impl HeadFault {
    const fn malformed(reason: &'static str) -> Self {
        Self { reason, status: 400 }
    }
}

/// Writes a request's head as HTTP/1 text. A WebSocket (RFC 8441) becomes the request that asks an
/// HTTP/1 endpoint for one.
///
/// # Errors
/// The reason why the request is refused.
pub(crate) fn write_request(
    parts: &Parts,
    end: AfterHead,
    out: &mut Vec<u8>,
) -> Result<(), HeadFault> {
    let is_websocket = is_websocket(parts)?;
    let method = if is_websocket { "GET" } else { parts.method.as_str() };
    out.extend_from_slice(method.as_bytes());
    out.push(b' ');
    out.extend_from_slice(target(parts, is_websocket).map_err(HeadFault::malformed)?);
    out.push(b' ');
    out.extend_from_slice(PARSED_VERSION);
    out.extend_from_slice(b"\r\n");
    write_fields(parts, is_websocket, out).map_err(HeadFault::malformed)?;
    if is_websocket {
        write_websocket(out);
    } else if end == AfterHead::Body && !parts.headers.contains_key(CONTENT_LENGTH) {
        out.extend_from_slice(b"transfer-encoding: chunked\r\n");
    }
    out.extend_from_slice(b"\r\n");
    Ok(())
}

/// Returns true if the request asks for a WebSocket.
pub(crate) fn is_websocket(parts: &Parts) -> Result<bool, HeadFault> {
    match parts.extensions.get::<h2::ext::Protocol>() {
        None => Ok(false),
        Some(protocol) if protocol.as_str() == "websocket" => Ok(true),
        Some(_) => Err(HeadFault { reason: "an unknown `:protocol`", status: 501 }),
    }
}

/// Writes the lines that ask for a WebSocket. The key is for the endpoint alone: a client of HTTP/2
/// has none.
fn write_websocket(out: &mut Vec<u8>) {
    let (mut key, mut text) = ([0; 16], [0; 24]);
    fastrand::fill(&mut key);
    // The text has room for the whole key.
    let _ = STANDARD.encode_slice(key, &mut text);
    out.extend_from_slice(b"connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-key: ");
    out.extend_from_slice(&text);
    out.extend_from_slice(b"\r\n");
}

fn write_fields(parts: &Parts, is_websocket: bool, out: &mut Vec<u8>) -> Result<(), &'static str> {
    let authority = parts.uri.authority().map(http::uri::Authority::as_str);
    if let Some(authority) = authority {
        write_line(b"host", authority.as_bytes(), out)?;
    }
    let mut cookies = 0;
    for (name, value) in &parts.headers {
        let value = value.as_bytes();
        match name {
            _ if is_of_connection(name) => return Err("a header of HTTP/1 connections"),
            &CONTENT_LENGTH | &SEC_WEBSOCKET_KEY if is_websocket => {}
            &HOST if authority.is_some_and(|own| !value.eq_ignore_ascii_case(own.as_bytes())) => {
                return Err("`Host` differs from `:authority`");
            }
            &HOST if authority.is_some() => {}
            // The values of one name follow each other.
            &COOKIE if cookies > 0 => {
                checked(value)?;
                out.truncate(out.len() - 2);
                out.extend_from_slice(b"; ");
                out.extend_from_slice(value);
                out.extend_from_slice(b"\r\n");
            }
            name => write_line(name.as_str().as_bytes(), value, out)?,
        }
        cookies += usize::from(name == COOKIE);
    }
    Ok(())
}

/// The request target in the form of HTTP/1.
fn target(parts: &Parts, is_websocket: bool) -> Result<&[u8], &'static str> {
    if parts.method == Method::CONNECT && !is_websocket {
        let authority = parts.uri.authority().ok_or("CONNECT without `:authority`")?;
        return Ok(authority.as_str().as_bytes());
    }
    let target = parts.uri.path_and_query().ok_or("no `:path`")?.as_str().as_bytes();
    match target {
        b"*" if parts.method == Method::OPTIONS => Ok(target),
        [b'/', rest @ ..] if rest.iter().all(|byte| !matches!(byte, 0..=b' ' | b'#' | 127)) => {
            Ok(target)
        }
        _ => Err("`:path` is no path"),
    }
}

/// Replaces the version in a request line, whose last bytes it is, once the head is parsed.
pub(crate) fn show_version(line: &mut [u8]) {
    let start = line.len().saturating_sub(SHOWN_VERSION.len());
    if let Some(version) = line.get_mut(start..)
        && version == PARSED_VERSION
    {
        version.copy_from_slice(SHOWN_VERSION);
    }
}

/// A response's head.
pub(crate) struct ResponseHeader {
    pub(crate) response: Response<()>,
    /// The bytes of the text that it was read from.
    pub(crate) text_bytes: usize,
    /// The bytes of its frame, if nothing was compressed.
    pub(crate) frame_bytes: u64,
}

/// Reads the HTTP/1 text of a response's head at the beginning of `bytes`; `None` if there is none.
pub(crate) fn read_response(bytes: &[u8]) -> Option<ResponseHeader> {
    let text_bytes = memchr::memmem::find(bytes, b"\r\n\r\n")? + 4;
    let mut lines = lines(bytes.get(..text_bytes)?);
    let status = lines.next()?.get(9..12)?;
    let mut response = Response::new(());
    *response.status_mut() = StatusCode::from_bytes(status).ok()?;
    let mut frame_bytes = 9 + 7 + 3;
    let fields = response.headers_mut();
    for line in lines {
        frame_bytes += line.len() as u64;
        append_field(line, fields);
    }
    Some(ResponseHeader { response, text_bytes, frame_bytes })
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    /// The text of a request with this target and these headers.
    fn text(request: http::request::Builder, end: AfterHead) -> Result<String, &'static str> {
        let (parts, ()) = request.body(()).unwrap().into_parts();
        let mut out = Vec::new();
        write_request(&parts, end, &mut out).map_err(|fault| fault.reason)?;
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn a_request_becomes_http1_text() {
        let request = Request::get("https://shop.example/a?b=c")
            .header("cookie", "a=1")
            .header("accept", "*/*")
            .header("cookie", "b=2; c=3")
            .header("accept", "text/html")
            .header("cookie", "d=4");
        assert_eq!(
            text(request, AfterHead::Nothing).unwrap(),
            "GET /a?b=c HTTP/1.1\r\nhost: shop.example\r\ncookie: a=1; b=2; c=3; d=4\r\n\
             accept: */*\r\naccept: text/html\r\n\r\n"
        );
        let request = Request::post("https://shop.example/").header("host", "SHOP.example");
        assert_eq!(
            text(request, AfterHead::Body).unwrap(),
            "POST / HTTP/1.1\r\nhost: shop.example\r\ntransfer-encoding: chunked\r\n\r\n"
        );
        let request = Request::put("/x").header("host", "a").header("content-length", "3");
        assert_eq!(
            text(request, AfterHead::Body).unwrap(),
            "PUT /x HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\n"
        );
        let request = Request::options("*").header("host", "a");
        assert_eq!(
            text(request, AfterHead::Nothing).unwrap(),
            "OPTIONS * HTTP/1.1\r\nhost: a\r\n\r\n"
        );
    }

    #[test]
    fn a_request_that_can_be_read_in_two_ways_is_refused() {
        let get = || Request::get("https://shop.example/");
        for (request, expected) in [
            (get().header("host", "other.example"), "`Host` differs from `:authority`"),
            (get().header("x", " a"), "white space around a value"),
            (get().header("x", "a\t"), "white space around a value"),
            (get().header("cookie", "a").header("cookie", " b"), "white space around a value"),
            (get().header("connection", "close"), "a header of HTTP/1 connections"),
            (get().header("transfer-encoding", "chunked"), "a header of HTTP/1 connections"),
            (get().header("upgrade", "h2c"), "a header of HTTP/1 connections"),
            (get().header("keep-alive", "1"), "a header of HTTP/1 connections"),
            (get().header("proxy-connection", "x"), "a header of HTTP/1 connections"),
            (Request::get("*"), "`:path` is no path"),
            (Request::connect("/"), "CONNECT without `:authority`"),
        ] {
            assert_eq!(text(request, AfterHead::Nothing).unwrap_err(), expected);
        }
    }

    #[test]
    fn a_websocket_is_asked_for_as_in_http1() {
        let request = |protocol: &'static str| {
            let request = Request::connect("https://a/chat").header("sec-websocket-version", "13");
            let request = request.header("content-length", "7").header("sec-websocket-key", "own");
            request.extension(h2::ext::Protocol::from_static(protocol))
        };
        let asked = text(request("websocket"), AfterHead::Body).unwrap();
        let (before, rest) = asked.split_once("sec-websocket-key: ").unwrap();
        assert_eq!(
            before,
            "GET /chat HTTP/1.1\r\nhost: a\r\nsec-websocket-version: 13\r\n\
             connection: upgrade\r\nupgrade: websocket\r\n"
        );
        let key = rest.strip_suffix("\r\n\r\n").unwrap();
        assert!(key.len() == 24 && key.ends_with("=="), "{key}");
        assert!(b"AQgw".contains(&key.as_bytes()[21]), "{key}");
        let (parts, ()) = request("webtransport").body(()).unwrap().into_parts();
        let fault = write_request(&parts, AfterHead::Body, &mut Vec::new()).unwrap_err();
        assert_eq!(fault.status, 501);
    }

    #[test]
    fn the_shown_version_replaces_the_parsed_one() {
        let mut line = *b"GET /HTTP/1.1 HTTP/1.1";
        show_version(&mut line);
        assert_eq!(&line, b"GET /HTTP/1.1 HTTP/2.0");
        let mut short = *b"x";
        show_version(&mut short);
        assert_eq!(&short, b"x");
    }

    #[test]
    fn a_response_has_no_headers_of_a_connection() {
        let text = b"HTTP/1.1 207 Multi-Status\r\nServer: a\r\nConnection: close\r\nX-A:  b: c \r\n\
            Transfer-Encoding: chunked\r\nx-a: d\r\nBad Name: 1\r\nKeep-Alive: 5\r\nEmpty:\r\n\r\nbody";
        let read = read_response(text).unwrap();
        assert_eq!(read.response.status(), 207);
        let fields: Vec<_> = read.response.headers().iter().collect();
        let fields = fields.into_iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
        assert_eq!(
            fields.collect::<Vec<_>>(),
            [("server", &b"a"[..]), ("x-a", b"b: c"), ("x-a", b"d"), ("empty", b"")]
        );
        assert_eq!(&text[read.text_bytes..], b"body");
        assert!(read_response(b"HTTP/1.1 200 OK\r\n").is_none());
        assert!(read_response(b"HTTP/1.1\r\n\r\n").is_none());
    }
}
