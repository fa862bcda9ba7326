//! WebSockets between versions of HTTP: the request for one is a GET with `Upgrade` over HTTP/1
//! (RFC 6455) and a CONNECT with `:protocol` over HTTP/2 (RFC 8441). It reads no frames of theirs.

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{CONTENT_LENGTH, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY};
use http::{Method, Request, Response};

use crate::http::http2_fields::{is_of_connection, write_line};

/// The text that a server appends to the key of a request (RFC 6455 section 1.3).
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// The value of `Sec-WebSocket-Accept`: the digest of a key, in base64.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct WebSocketAccept([u8; 28]);

impl WebSocketAccept {
    /// The answer to the key of a request.
    pub(crate) fn to_key(key: &[u8]) -> Self {
        let mut text = [0; 28];
        let digest = digest(&SHA1_FOR_LEGACY_USE_ONLY, &[key, GUID].concat());
        // 20 bytes are 28 characters.
        let _ = STANDARD.encode_slice(digest, &mut text);
        Self(text)
    }
}

/// Makes a request as HTTP/1 has it one of HTTP/2. Returns false for a request without
/// `:authority`, which RFC 8441 section 4 wants.
pub(crate) fn ask_over_http2(request: &mut Request<()>) -> bool {
    *request.method_mut() = Method::CONNECT;
    let headers = request.headers_mut();
    headers.remove(SEC_WEBSOCKET_KEY);
    headers.remove(CONTENT_LENGTH);
    request.extensions_mut().insert(h2::ext::Protocol::from_static("websocket"));
    request.uri().authority().is_some()
}

/// Appends the text of the response that switches to a WebSocket, made of one of HTTP/2 with 2xx.
///
/// # Errors
/// The rule that a field breaks.
pub(crate) fn write_switch(
    response: &Response<()>,
    accept: WebSocketAccept,
    out: &mut Vec<u8>,
) -> Result<(), &'static str> {
    out.extend_from_slice(b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\n");
    out.extend_from_slice(b"upgrade: websocket\r\nsec-websocket-accept: ");
    out.extend_from_slice(&accept.0);
    out.extend_from_slice(b"\r\n");
    for (name, value) in response.headers() {
        if is_of_connection(name) {
            return Err("a header of HTTP/1 connections");
        }
        if name != SEC_WEBSOCKET_ACCEPT && name != CONTENT_LENGTH {
            write_line(name.as_str().as_bytes(), value.as_bytes(), out)?;
        }
    }
    out.extend_from_slice(b"\r\n");
    Ok(())
}

#[cfg(test)]
mod tests {
    use http::uri::Scheme;

    use super::*;
    use crate::http::http2_head;

    #[test]
    fn a_websocket_of_http1_becomes_one_of_http2() {
        let head = "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nContent-Length: 0\r\n\
            Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nUpgrade: WebSocket\r\n\
            Sec-WebSocket-Version: 13\r\n\r\n";
        let mut request = http2_head::request(head.as_bytes(), &Scheme::HTTP).unwrap();
        assert!(ask_over_http2(&mut request));
        assert_eq!((request.method(), request.uri().path()), (&Method::CONNECT, "/chat"));
        assert_eq!(request.headers().len(), 1);
        let head = "GET /chat HTTP/1.1\r\nHost: a b\r\n\r\n";
        let mut request = http2_head::request(head.as_bytes(), &Scheme::HTTP).unwrap();
        assert!(!ask_over_http2(&mut request));
    }

    #[test]
    fn a_2xx_of_http2_becomes_a_switch_of_protocols() {
        let response = Response::builder()
            .header("x-a", "1")
            .header("content-length", "0")
            .header("sec-websocket-accept", "x");
        let accept = WebSocketAccept::to_key(b"dGhlIHNhbXBsZSBub25jZQ==");
        let mut out = Vec::new();
        write_switch(&response.body(()).unwrap(), accept, &mut out).unwrap();
        // The example of RFC 6455 section 1.3.
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
             sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nx-a: 1\r\n\r\n"
        );
        for (name, value) in [("upgrade", "x"), ("x-a", " 1")] {
            let response = Response::builder().header(name, value).body(()).unwrap();
            assert!(write_switch(&response, accept, &mut Vec::new()).is_err());
        }
    }
}
