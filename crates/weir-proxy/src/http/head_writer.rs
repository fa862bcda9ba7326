//! Writes the heads that are forwarded: a request's to an endpoint, a response's to the client.
//! Hop-by-hop lines are left out (`weir_wire` defines them), the configuration's edits are applied,
//! and framing lines are written according to how the body is really sent.
//!
//! It decides nothing: the caller determines trust, the framing of the body and the persistence of
//! the connection. It allocates only where `out` must grow.

use std::net::SocketAddr;

use weir_config::model::{Forwarded, RequestIdSettings};
use weir_stats::Entry;
use weir_wire::{Header, Known, RequestHead, ResponseHead, TargetForm, encode};

use crate::http::client_address::PeerTrust;
use crate::http::client_headers;
use crate::http::cookie::{self, EndpointCookie, RequestCookie, ResponseCookie};
use crate::http::edits::{Edits, same_name};
use crate::http::expires::ExpiresLines;
use crate::http::upgrade::Protocols;

const CONTENT_TYPE: &[u8] = b"content-type";

/// The framing of a body towards the next hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyFraming {
    /// No body, and no line about it.
    None,
    /// `Content-Length`.
    Length(u64),
    /// `Transfer-Encoding: chunked`.
    Chunked,
    /// The body ends with the connection. Responses only.
    Close,
    /// No body follows, but the length that the endpoint announced is passed on: responses to HEAD,
    /// and 304.
    AsReceived,
}

/// The `Connection` header of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionLine {
    /// No header: the connection is persistent, as is the default of HTTP/1.1.
    None,
    /// `Connection: close`.
    Close,
    /// `Connection: keep-alive`, for HTTP/1.0 clients.
    KeepAlive,
    /// `Connection: Upgrade`, and the received `Upgrade` line.
    Upgrade,
}

/// The data that a request head to an endpoint is written from.
#[derive(Clone, Copy)]
pub struct UpstreamHead<'a> {
    /// The head as received.
    pub head: &'a RequestHead,
    /// The bytes that its spans refer to.
    pub bytes: &'a [u8],
    /// The method that is sent.
    pub method: &'a [u8],
    /// The target, if it was rewritten; else empty.
    pub rewritten: &'a [u8],
    /// The content type that is sent instead of the received one.
    pub content_type: Option<&'a [u8]>,
    /// The address of the client connection's peer; `None` on a Unix socket.
    pub peer: Option<SocketAddr>,
    /// Set if the client uses TLS.
    pub tls: bool,
    /// The request id, visible ASCII.
    pub request_id_value: &'a [u8],
    /// The endpoint's address as text.
    pub endpoint_address: &'a str,
    /// The exchange so far; `None` if the edits have no variables, because building it costs more
    /// than writing these lines.
    pub entry: Option<&'a Entry<'a>>,
    /// The listener's forwarding headers.
    pub forwarded: &'a Forwarded,
    /// The listener's request id header.
    pub request_id: &'a RequestIdSettings,
    /// The route's header edits.
    pub edits: &'a Edits,
    /// The trust in the peer's forwarding headers.
    pub trust: PeerTrust,
    /// The pool's sticky cookie, if the endpoint gets it changed or not at all.
    pub sticky_cookie: Option<RequestCookie<'a>>,
    /// The framing of the body as it will be sent.
    pub framing: BodyFraming,
    /// The protocols that the connection may switch to; `None` if the client offers none of them.
    pub upgrade: Option<&'a Protocols>,
    /// Set if the head tells that trailers are read, as servers of gRPC want it of HTTP/2.
    pub takes_trailers: bool,
    /// Set if the Weirs that the request passes are counted.
    pub counts_hops: bool,
}

/// Appends the request head for an endpoint.
///
/// Unless it was rewritten, the target is forwarded as it is in the parsed head, in origin form.
/// `Host` is the client's, unless it is edited or, in an HTTP/1.0 request, missing: then it is the
/// endpoint's address, or `localhost` for a Unix socket.
pub fn write_request_head(input: &UpstreamHead<'_>, out: &mut Vec<u8>) {
    let (head, bytes) = (input.head, input.bytes);
    match input.rewritten {
        b"" => write_request_line(input, out),
        target => encode::request_line(out, input.method, target),
    }
    write_host(input, out);
    let id_header = input.request_id.header.as_deref().unwrap_or_default();
    let mut lines = Lines::new(bytes);
    for header in head.forwarded(bytes) {
        let name = header.name.of(bytes);
        let stays = client_headers::replaces(input, header)
            || input.edits.drops(name)
            || input.content_type.is_some() && same_name(name, CONTENT_TYPE);
        if stays || same_name(name, id_header.as_bytes()) {
            continue;
        }
        let sticky = input.sticky_cookie.filter(|sticky| {
            header.known == Known::Cookie && cookie::has(header.value.of(bytes), sticky.name)
        });
        if input.edits.replaces_any() {
            lines.flush(out);
            let rest = sticky.map(|sticky| cookie::changed(header.value.of(bytes), sticky));
            let value = rest.as_deref().unwrap_or(header.value.of(bytes));
            if input.edits.replace(name, value, input.entry, out) {
                continue;
            }
        }
        match sticky {
            Some(sticky) => {
                lines.flush(out);
                cookie::write_changed(header.value.of(bytes), sticky, out);
            }
            None => lines.push(header, out),
        }
    }
    lines.flush(out);
    client_headers::write(input, out);
    write_content_type(input.content_type, input.edits, input.entry, out);
    if !id_header.is_empty() && !input.edits.drops(id_header.as_bytes()) {
        write_sound(id_header.as_bytes(), input.request_id_value, out);
    }
    input.edits.write(input.entry, out);
    match input.framing {
        BodyFraming::Length(length) => encode::content_length(out, length),
        BodyFraming::Chunked => encode::transfer_chunked(out),
        BodyFraming::None | BodyFraming::Close | BodyFraming::AsReceived => {}
    }
    if input.takes_trailers {
        out.extend_from_slice(b"TE: trailers\r\n");
    }
    if input.upgrade.is_none() {
        input.edits.write_connection(out);
    }
    match (input.counts_hops, head.hops, input.upgrade) {
        (true, 0, None) => return out.extend_from_slice(b"Weir-Hops: 1\r\n\r\n"),
        (true, passed, _) => write_hops(passed, out),
        (false, ..) => {}
    }
    if let Some(protocols) = input.upgrade {
        protocols.write_offer(head, bytes, out);
    }
    out.extend_from_slice(encode::HEAD_END);
}

/// Appends the number of Weirs that a request has passed, including this one, by which a loop is
/// detected. It is a header of our own, because `Via` changes how servers respond: nginx compresses
/// nothing for requests that have it.
fn write_hops(passed: u16, out: &mut Vec<u8>) {
    out.extend_from_slice(b"Weir-Hops: ");
    encode::decimal(out, u64::from(passed) + 1);
    out.extend_from_slice(b"\r\n");
}

/// The data that a response head to the client is written from.
#[derive(Clone, Copy)]
pub struct DownstreamHead<'a> {
    /// The head as received.
    pub head: &'a ResponseHead,
    /// The bytes that its spans refer to.
    pub bytes: &'a [u8],
    /// The status that is sent instead of the received one.
    pub status: Option<u16>,
    /// The content type that is sent instead of the received one.
    pub content_type: Option<&'a [u8]>,
    /// The exchange so far; `None` if the edits have no variables, because building it costs more
    /// than writing these lines.
    pub entry: Option<&'a Entry<'a>>,
    /// The route's header edits.
    pub edits: &'a Edits,
    /// The lines about the time for which the client may keep it.
    pub expires: Option<ExpiresLines>,
    /// The pool's sticky cookie, if it has one.
    pub cookie: Option<ResponseCookie<'a>>,
    /// The name of the header that tells the client the request id, and the id; `None` sends none.
    pub request_id: Option<(&'a str, &'a [u8])>,
    /// The name and value of the header that explains how the request was handled; `None` sends
    /// none.
    pub why: Option<(&'a str, &'a [u8])>,
    /// Header lines about limits.
    pub limits: &'a [(&'static str, String)],
    /// Lines of a response that was discarded for this one.
    pub kept_lines: &'a [u8],
    /// Returns the value of `Date` for a response that has none.
    pub date: &'a dyn Fn() -> [u8; 29],
    /// The framing of the body as it will be sent.
    pub framing: BodyFraming,
    /// The `Connection` header towards the client.
    pub connection: ConnectionLine,
}

/// Appends the response head for the client: the endpoint's status, reason, `Server` and `Date`,
/// and no `Via`.
pub fn write_response_head(input: &DownstreamHead<'_>, out: &mut Vec<u8>) {
    let (head, bytes) = (input.head, input.bytes);
    match input.status {
        None => encode::parsed_status_line(out, bytes, head),
        Some(status) => encode::status_line(out, status),
    }
    let (id_header, id) = input.request_id.unwrap_or_default();
    let ReceivedLines { dated, sets_cookie } = write_received(input, out);
    write_content_type(input.content_type, input.edits, input.entry, out);
    if !dated && !input.edits.drops(b"date") && head.status >= 200 {
        write_sound(b"Date", &(input.date)(), out);
    }
    if !id_header.is_empty() && !input.edits.drops(id_header.as_bytes()) {
        write_sound(id_header.as_bytes(), id, out);
    }
    if let Some((name, text)) = input.why {
        encode::header(out, name.as_bytes(), text);
    }
    for (name, value) in input.limits {
        if !input.edits.drops(name.as_bytes()) {
            encode::header(out, name.as_bytes(), value.as_bytes());
        }
    }
    write_kept_lines(input.edits, input.expires.as_ref(), input.kept_lines, out);
    if let Some(expires) = &input.expires {
        expires.write(input.edits, out);
    }
    input.edits.write(input.entry, out);
    if !sets_cookie {
        write_cookie(input, out);
    }
    match (input.framing, head.content_length) {
        (BodyFraming::Length(length), _) | (BodyFraming::AsReceived, Some(length)) => {
            encode::content_length(out, length);
        }
        (BodyFraming::Chunked, _) => encode::transfer_chunked(out),
        _ => {}
    }
    write_connection(input.connection, bytes, &head.headers, out);
    out.extend_from_slice(encode::HEAD_END);
}

/// Writes the content type that replaces the received one.
fn write_content_type(
    value: Option<&[u8]>,
    edits: &Edits,
    entry: Option<&Entry<'_>>,
    out: &mut Vec<u8>,
) {
    let Some(value) = value.filter(|_| !edits.drops(CONTENT_TYPE)) else { return };
    if !edits.replaces_any() || !edits.replace(CONTENT_TYPE, value, entry, out) {
        write_sound(b"Content-Type", value, out);
    }
}

/// Writes the lines that were kept of a response that was discarded, without those that lines of
/// `expires` replace.
pub(crate) fn write_kept_lines(
    edits: &Edits,
    expires: Option<&ExpiresLines>,
    lines: &[u8],
    out: &mut Vec<u8>,
) {
    for line in lines.split_inclusive(|&byte| byte == b'\n') {
        let name = line.split(|&byte| byte == b':').next().unwrap_or_default();
        let is_replaced = expires.is_some() && ExpiresLines::replaces(name);
        if !is_replaced && !edits.drops(&name.to_ascii_lowercase()) {
            out.extend_from_slice(line);
        }
    }
}

/// The meaning of the received lines.
#[derive(Default)]
struct ReceivedLines {
    /// There is a `Date`.
    dated: bool,
    /// The endpoint sets the sticky cookie itself.
    sets_cookie: bool,
}

/// Copies the endpoint's lines, but for those that are left out or changed.
fn write_received(input: &DownstreamHead<'_>, out: &mut Vec<u8>) -> ReceivedLines {
    let (head, bytes) = (input.head, input.bytes);
    let (id_header, _) = input.request_id.unwrap_or_default();
    let mut received = ReceivedLines::default();
    let mut lines = Lines::new(bytes);
    // Names are compared only if lines may have to be left out.
    let compares_names = input.edits.drops_any()
        || input.edits.replaces_any()
        || !id_header.is_empty()
        || input.content_type.is_some()
        || input.expires.is_some();
    for header in head.forwarded(bytes) {
        received.dated |= header.known == Known::Date;
        if compares_names {
            let name = header.name.of(bytes);
            if input.edits.drops(name) || name.eq_ignore_ascii_case(id_header.as_bytes()) {
                continue;
            }
            if input.expires.is_some() && ExpiresLines::replaces(name) {
                continue;
            }
            if input.content_type.is_some() && same_name(name, CONTENT_TYPE) {
                continue;
            }
        }
        let mut changed = None;
        match endpoint_cookie(input, header) {
            None => {}
            Some(EndpointCookie::Removed) => continue,
            Some(EndpointCookie::Kept) => received.sets_cookie = true,
            Some(EndpointCookie::Replaced(value)) => {
                changed = Some(cookie::with_value(header.value.of(bytes), value, false));
            }
            Some(EndpointCookie::Prefixed(value)) => {
                changed = Some(cookie::with_value(header.value.of(bytes), value, true));
            }
        }
        if input.edits.replaces_any() {
            lines.flush(out);
            let name = header.name.of(bytes);
            let value = changed.as_deref().unwrap_or(header.value.of(bytes));
            if input.edits.replace(name, value, input.entry, out) {
                continue;
            }
        }
        match changed {
            Some(value) => {
                lines.flush(out);
                write_sound(header.name.of(bytes), &value, out);
            }
            None => lines.push(header, out),
        }
    }
    lines.flush(out);
    received
}

/// Returns what becomes of a line that sets a cookie of the sticky cookie's name.
fn endpoint_cookie<'a>(input: &DownstreamHead<'a>, header: &Header) -> Option<EndpointCookie<'a>> {
    let sticky = input.cookie.filter(|_| header.known == Known::SetCookie)?;
    (cookie::set_name(header.value.of(input.bytes)) == sticky.name).then_some(sticky.of_endpoint)
}

/// Writes the sticky cookie. It comes after the edits, so that no `remove Set-Cookie` disables
/// affinity. No shared cache may store the response, because it would give one client's cookie to
/// others (HAProxy's `nocache`).
fn write_cookie(input: &DownstreamHead<'_>, out: &mut Vec<u8>) {
    let Some(line) = input.cookie.and_then(|sticky| sticky.line) else { return };
    out.extend_from_slice(line);
    let stored_by_none = |header: &Header| {
        header.known == Known::CacheControl
            && !input.edits.drops(header.name.of(input.bytes))
            && !input.edits.replaces(header.name.of(input.bytes))
            && forbids_shared_caches(header.value.of(input.bytes))
    };
    // Received lines do not count beside those of `expires`.
    let is_received = input.expires.is_none();
    if !is_received || !input.head.forwarded(input.bytes).any(stored_by_none) {
        out.extend_from_slice(b"Cache-Control: private\r\n");
    }
}

/// Tells whether a `Cache-Control` value forbids shared caches (RFC 9111 section 5.2.2).
/// `private="field"` restricts only that field.
fn forbids_shared_caches(value: &[u8]) -> bool {
    value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii).any(|directive| {
        directive.eq_ignore_ascii_case(b"private") || directive.eq_ignore_ascii_case(b"no-store")
    })
}

/// Appends an interim response (1xx other than 101): its own lines but those that the edits of the
/// response remove, and no framing.
pub fn write_interim_head(head: &ResponseHead, bytes: &[u8], edits: &Edits, out: &mut Vec<u8>) {
    encode::parsed_status_line(out, bytes, head);
    let mut lines = Lines::new(bytes);
    for header in head.forwarded(bytes) {
        let name = header.name.of(bytes);
        if !edits.drops(name) || edits.sets(name) {
            lines.push(header, out);
        }
    }
    lines.flush(out);
    out.extend_from_slice(encode::HEAD_END);
}

fn write_request_line(input: &UpstreamHead<'_>, out: &mut Vec<u8>) {
    let UpstreamHead { head, bytes, method, .. } = *input;
    if head.form != TargetForm::Absolute {
        encode::request_line(out, method, head.target.of(bytes));
        return;
    }
    out.extend_from_slice(method);
    out.push(b' ');
    write_target(head, bytes, out);
    out.extend_from_slice(b" HTTP/1.1\r\n");
}

/// Appends the target as an endpoint gets it.
pub(crate) fn write_target(head: &RequestHead, bytes: &[u8], out: &mut Vec<u8>) {
    if head.form != TargetForm::Absolute {
        return out.extend_from_slice(head.target.of(bytes));
    }
    // RFC 9112 section 3.2.4: without path and query, OPTIONS asks about the server as a whole.
    match (head.path.is_empty(), head.query) {
        (true, None) if head.method_span.of(bytes) == b"OPTIONS" => out.push(b'*'),
        _ => out.extend_from_slice(head.path_text(bytes)),
    }
    if let Some(query) = head.query {
        out.push(b'?');
        out.extend_from_slice(query.of(bytes));
    }
}

fn write_host(input: &UpstreamHead<'_>, out: &mut Vec<u8>) {
    if input.edits.write_host(input.entry, out) {
        return;
    }
    let asked = input.head.host.of(input.bytes);
    let endpoint = input.endpoint_address;
    out.extend_from_slice(b"Host: ");
    out.extend_from_slice(match asked {
        b"" if endpoint.is_empty() || endpoint.contains('/') => b"localhost",
        b"" => endpoint.as_bytes(),
        asked => asked,
    });
    out.extend_from_slice(b"\r\n");
}

fn write_connection(line: ConnectionLine, bytes: &[u8], headers: &[Header], out: &mut Vec<u8>) {
    match line {
        ConnectionLine::None => {}
        ConnectionLine::Close => out.extend_from_slice(b"Connection: close\r\n"),
        ConnectionLine::KeepAlive => out.extend_from_slice(b"Connection: keep-alive\r\n"),
        ConnectionLine::Upgrade => {
            out.extend_from_slice(b"Connection: Upgrade\r\n");
            for header in headers.iter().filter(|header| header.known == Known::Upgrade) {
                write_sound(b"Upgrade", header.value.of(bytes), out);
            }
        }
    }
}

/// Appends a line whose value is ours or from a parsed head, and so cannot contain a line end.
pub(crate) fn write_sound(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    debug_assert!(
        !value.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)),
        "a value with a line end or a NUL"
    );
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// Copies lines of a parsed head as received; adjacent lines are copied in one piece.
struct Lines<'a> {
    bytes: &'a [u8],
    start: usize,
    end: usize,
}

impl<'a> Lines<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, start: 0, end: 0 }
    }

    #[inline]
    fn push(&mut self, header: &Header, out: &mut Vec<u8>) {
        let start = header.name.start as usize;
        // Exactly two bytes between a value and the next name can only be a line end.
        if start == self.end + 2 && self.end > self.start && !header.value.is_empty() {
            self.end = header.value.end as usize;
        } else {
            self.push_apart(header, out);
        }
    }

    /// Pushes a line that does not follow those before it, or has no value.
    #[inline(never)]
    fn push_apart(&mut self, header: &Header, out: &mut Vec<u8>) {
        self.flush(out);
        if header.value.is_empty() {
            // The span of an empty value may lie anywhere, so such a line is written separately.
            out.extend_from_slice(header.name.of(self.bytes));
            out.extend_from_slice(b":\r\n");
        } else {
            (self.start, self.end) = (header.name.start as usize, header.value.end as usize);
        }
    }

    #[inline]
    fn flush(&mut self, out: &mut Vec<u8>) {
        if self.end > self.start {
            self.copy(out);
        }
        self.start = self.end;
    }

    fn copy(&self, out: &mut Vec<u8>) {
        let with_end = self.bytes.get(self.start..self.end + 2);
        if let Some(lines) = with_end.filter(|lines| lines.ends_with(b"\r\n")) {
            out.extend_from_slice(lines);
        } else {
            // The last value had spaces after it.
            out.extend_from_slice(self.bytes.get(self.start..self.end).unwrap_or_default());
            out.extend_from_slice(b"\r\n");
        }
    }
}

#[cfg(test)]
mod tests;
