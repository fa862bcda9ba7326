//! The protocols that a route permits a connection to switch to (RFC 9110 section 7.8). Weir does
//! not inspect the bytes after a switch, so only protocols that the configuration names are offered
//! to an endpoint, and the endpoint may switch only to those. `tunnel.rs` transfers the bytes.

use weir_wire::{Framing, Method, RequestHead, ResponseHead};

use crate::http::websocket::WebSocketAccept;

/// The maximum number of protocols that a 101 may name.
const MOST_TAKEN: usize = 8;

/// The names of protocols, each with its version if it has one; case is ignored.
#[derive(Clone, Debug, Default)]
pub struct Protocols(Box<[Box<[u8]>]>);

/// The switch that an endpoint of HTTP/2 would have to make for a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RequestedSwitch {
    /// None.
    Nothing,
    /// To a WebSocket, with this answer to its key.
    WebSocket(WebSocketAccept),
    /// To a protocol that HTTP/2 has no way to ask for.
    Other,
}

impl Protocols {
    /// The protocols of a configuration.
    pub fn new<S: AsRef<str>>(names: &[S]) -> Self {
        Self(names.iter().map(|name| name.as_ref().as_bytes().into()).collect())
    }

    /// Tells whether the client offers one of them.
    pub(crate) fn are_offered(&self, head: &RequestHead, bytes: &[u8]) -> bool {
        head.upgrade && self.offered(head, bytes).next().is_some()
    }

    /// Appends the lines that offer the endpoint those of the client's protocols that are
    /// permitted.
    pub(crate) fn write_offer(&self, head: &RequestHead, bytes: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(b"Connection: Upgrade\r\nUpgrade: ");
        for (number, name) in self.offered(head, bytes).enumerate() {
            if number > 0 {
                out.extend_from_slice(b", ");
            }
            out.extend_from_slice(name);
        }
        out.extend_from_slice(b"\r\n");
    }

    /// Tells whether all protocols that a 101 switches to were offered to the endpoint, and there
    /// is at least one.
    pub(crate) fn may_switch(
        &self,
        request: &RequestHead,
        bytes: &[u8],
        response: &ResponseHead,
        raw: &[u8],
    ) -> bool {
        // Each protocol is searched for among those that the client offers, so their number is
        // limited.
        let count = response.protocols(raw).take(MOST_TAKEN + 1).count();
        let was_offered =
            |name: &[u8]| self.offered(request, bytes).any(|own| own.eq_ignore_ascii_case(name));
        let is_bounded = (1..=MOST_TAKEN).contains(&count);
        request.upgrade && is_bounded && response.protocols(raw).all(was_offered)
    }

    /// The switch that a request asks for which is sent with this method. One for a WebSocket has
    /// no body and one key (RFC 6455 section 4.1).
    pub(crate) fn requested(
        &self,
        head: &RequestHead,
        bytes: &[u8],
        method: Method,
    ) -> RequestedSwitch {
        if !self.are_offered(head, bytes) {
            return RequestedSwitch::Nothing;
        }
        let asks = self.offered(head, bytes).any(|name| name.eq_ignore_ascii_case(b"websocket"));
        let is_bare = matches!(head.framing, Framing::None | Framing::Length(0));
        let is_key = |name: &[u8]| name.eq_ignore_ascii_case(b"sec-websocket-key");
        let mut keys = head.headers.iter().filter(|header| is_key(header.name.of(bytes)));
        match (keys.next(), keys.next()) {
            (Some(key), None) if asks && is_bare && method == Method::Get => {
                RequestedSwitch::WebSocket(WebSocketAccept::to_key(key.value.of(bytes)))
            }
            _ => RequestedSwitch::Other,
        }
    }

    fn offered<'a>(
        &'a self,
        head: &'a RequestHead,
        bytes: &'a [u8],
    ) -> impl Iterator<Item = &'a [u8]> {
        let is_allowed = |name: &&[u8]| self.0.iter().any(|own| own.eq_ignore_ascii_case(name));
        head.protocols(bytes).filter(is_allowed)
    }
}

#[cfg(test)]
mod tests {
    use weir_wire::Method;

    use super::*;
    use crate::http::sample::{SampleRequest, response};

    /// Checks the protocols that an endpoint is offered, and if it may switch to `taken`.
    fn check(allowed: &[&str], offered: &str, taken: &str, expected: (Option<&str>, bool)) {
        let protocols = Protocols::new(allowed);
        let request = SampleRequest::new(&format!("GET / HTTP/1.1\r\nHost: a\r\n{offered}\r\n"));
        let mut out = Vec::new();
        if protocols.are_offered(&request.head, &request.bytes) {
            protocols.write_offer(&request.head, &request.bytes, &mut out);
        }
        let text = String::from_utf8(out).unwrap();
        let line = text.strip_prefix("Connection: Upgrade\r\nUpgrade: ");
        assert_eq!(line.map(str::trim_end), expected.0, "{offered}");
        let raw = format!("HTTP/1.1 101 Switching Protocols\r\n{taken}\r\n");
        let head = response(&raw, Method::Get);
        let may_switch = protocols.may_switch(&request.head, &request.bytes, &head, raw.as_bytes());
        assert_eq!(may_switch, expected.1, "{offered} {taken}");
    }

    #[test]
    fn a_websocket_over_http2_has_one_key_and_no_body() {
        let requested = |method: &str, offered: &str| {
            let text = format!("{method} / HTTP/1.1\r\nHost: a\r\n{offered}\r\n");
            let request = SampleRequest::new(&text);
            let method = request.head.method;
            let protocols = Protocols::new(&["websocket", "x"]);
            protocols.requested(&request.head, &request.bytes, method)
        };
        let (websocket, key) =
            ("Connection: upgrade\r\nUpgrade: x, websocket\r\n", "Sec-WebSocket-Key: a\r\n");
        let asked = requested("GET", &format!("{websocket}{key}"));
        assert_eq!(asked, RequestedSwitch::WebSocket(WebSocketAccept::to_key(b"a")));
        for (method, lines) in [
            ("GET", websocket.to_owned()),
            ("GET", format!("{websocket}{key}{key}")),
            ("GET", format!("{websocket}{key}Content-Length: 1\r\n")),
            ("POST", format!("{websocket}{key}")),
            ("GET", format!("Connection: upgrade\r\nUpgrade: x\r\n{key}")),
        ] {
            assert_eq!(requested(method, &lines), RequestedSwitch::Other, "{method} {lines}");
        }
        for lines in ["", key, "Upgrade: websocket\r\n", "Connection: upgrade\r\nUpgrade: y\r\n"] {
            assert_eq!(requested("GET", lines), RequestedSwitch::Nothing, "{lines}");
        }
    }

    #[test]
    fn only_permitted_protocols_are_offered_and_only_offered_ones_are_accepted() {
        let websocket = "Connection: Upgrade\r\nUpgrade: websocket\r\n";
        let both = "Connection: upgrade\r\nUpgrade: h2c, WebSocket\r\n";
        check(&["websocket"], websocket, websocket, (Some("websocket"), true));
        check(&["websocket"], both, "Upgrade: websocket\r\n", (Some("WebSocket"), true));
        check(&["websocket"], both, "Upgrade: h2c\r\n", (Some("WebSocket"), false));
        check(&["websocket"], both, "Upgrade: websocket, h2c\r\n", (Some("WebSocket"), false));
        check(&["websocket"], both, "", (Some("WebSocket"), false));
        let many = format!("Upgrade: {}\r\n", "websocket,".repeat(9));
        check(&["websocket"], both, &many, (Some("WebSocket"), false));
        check(&["websocket", "h2c"], both, "Upgrade: h2c\r\n", (Some("h2c, WebSocket"), true));
        check(&[], websocket, websocket, (None, false));
        check(&["websocket"], "", websocket, (None, false));
        check(&["websocket"], "Upgrade: websocket\r\n", websocket, (None, false));
        check(&["websocket"], "Connection: upgrade\r\n", websocket, (None, false));
        check(&["a/1"], "Connection: upgrade\r\nUpgrade: a\r\n", "Upgrade: a\r\n", (None, false));
    }
}
