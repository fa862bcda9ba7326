//! Heads as they go on: a request's to an endpoint, a response's to the client. Lines that belong to one connection stay behind
//! (`weir_wire` says which), the configuration's edits are applied, and framing is written from what the body really does.
//!
//! It decides nothing: who is trusted, how a body is framed and whether a connection stays are the caller's words. It allocates only
//! where `out` must grow.

use std::net::SocketAddr;

use weir_config::model::{Forwarded, RequestId};
use weir_stats::Entry;
use weir_wire::{Header, Known, RequestHead, ResponseHead, TargetForm, encode};

use crate::affinity::ResponseCookie;
use crate::client_address::PeerTrust;
use crate::client_headers;
use crate::cookie;
use crate::edits::{Edits, same_name};
use crate::upgrade::Protocols;

/// How the next hop learns where the body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyFraming {
    /// There is no body, and no line about it.
    None,
    /// `Content-Length`.
    Length(u64),
    /// `Transfer-Encoding: chunked`.
    Chunked,
    /// The connection's end. Responses only.
    Close,
    /// No body follows, but the length that the endpoint told is passed on: responses to HEAD, and 304.
    AsReceived,
}

/// What the head says of its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionLine {
    /// Nothing: it stays open, as HTTP/1.1 has it.
    None,
    /// `Connection: close`.
    Close,
    /// `Connection: keep-alive`, for HTTP/1.0 clients.
    KeepAlive,
    /// `Connection: Upgrade`, and the received `Upgrade` line.
    Upgrade,
}

/// What a request head to an endpoint is written from.
#[derive(Clone, Copy)]
pub struct UpstreamHead<'a> {
    /// The head as received.
    pub head: &'a RequestHead,
    /// The bytes its spans lie in.
    pub bytes: &'a [u8],
    /// The client's end of its connection; `None` on a Unix socket.
    pub peer: Option<SocketAddr>,
    /// Whether the client speaks TLS.
    pub tls: bool,
    /// The request id, visible ASCII.
    pub request_id_value: &'a [u8],
    /// The endpoint's address as text.
    pub endpoint_address: &'a str,
    /// The exchange so far; `None` where the edits have no variables, because making it costs more than these lines.
    pub entry: Option<&'a Entry<'a>>,
    /// The listener's forwarding headers.
    pub forwarded: &'a Forwarded,
    /// The listener's request id header.
    pub request_id: &'a RequestId,
    /// The route's changes.
    pub edits: &'a Edits,
    /// Whether the peer's forwarding headers are believed.
    pub trust: PeerTrust,
    /// The pool's sticky cookie, which is between the client and us.
    pub hidden_cookie: Option<&'a [u8]>,
    /// How the body will be sent.
    pub framing: BodyFraming,
    /// What the connection may switch to; `None` where the client offers nothing of that.
    pub upgrade: Option<&'a Protocols>,
    /// Whether the Weirs that it passes are counted.
    pub counts_hops: bool,
}

/// Appends the request head for an endpoint.
///
/// The target goes on as it was received, in origin form. `Host` is the client's, unless it is edited or, from HTTP/1.0, missing: then it
/// is the endpoint's address.
pub fn write_request_head(input: &UpstreamHead<'_>, out: &mut Vec<u8>) {
    let (head, bytes) = (input.head, input.bytes);
    write_request_line(head, bytes, out);
    write_host(input, out);
    let id_header = input.request_id.header.as_deref().unwrap_or_default();
    let mut lines = Lines::new(bytes);
    for header in head.forwarded(bytes) {
        let name = header.name.of(bytes);
        let stays = client_headers::replaces(input, header) || input.edits.drops(name);
        if stays || same_name(name, id_header.as_bytes()) {
            continue;
        }
        match input.hidden_cookie.filter(|_| header.known == Known::Cookie) {
            Some(hidden) if cookie::has(header.value.of(bytes), hidden) => {
                lines.flush(out);
                cookie::write_without(header.value.of(bytes), hidden, out);
            }
            _ => lines.push(header, out),
        }
    }
    lines.flush(out);
    client_headers::write(input, out);
    if !id_header.is_empty() && !input.edits.drops(id_header.as_bytes()) {
        write_sound(id_header.as_bytes(), input.request_id_value, out);
    }
    input.edits.write(input.entry, out);
    match input.framing {
        BodyFraming::Length(length) => encode::content_length(out, length),
        BodyFraming::Chunked => encode::transfer_chunked(out),
        BodyFraming::None | BodyFraming::Close | BodyFraming::AsReceived => {}
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

/// Appends the count of the Weirs that a request has passed, this one included, by which a loop is found out. A count of our own,
/// because `Via` changes what servers answer: nginx compresses nothing for requests that have it.
fn write_hops(passed: u16, out: &mut Vec<u8>) {
    out.extend_from_slice(b"Weir-Hops: ");
    encode::decimal(out, u64::from(passed) + 1);
    out.extend_from_slice(b"\r\n");
}

/// What a response head to the client is written from.
#[derive(Clone, Copy)]
pub struct DownstreamHead<'a> {
    /// The head as received.
    pub head: &'a ResponseHead,
    /// The bytes its spans lie in.
    pub bytes: &'a [u8],
    /// The exchange so far; `None` where the edits have no variables, because making it costs more than these lines.
    pub entry: Option<&'a Entry<'a>>,
    /// The route's changes.
    pub edits: &'a Edits,
    /// What there is to say of the pool's sticky cookie, if it has one.
    pub cookie: Option<ResponseCookie<'a>>,
    /// Header that tells the client the request id, and the id; `None` tells nothing.
    pub request_id: Option<(&'a str, &'a [u8])>,
    /// Header that tells how the request was handled, and what it says; `None` tells nothing.
    pub why: Option<(&'a str, &'a [u8])>,
    /// Lines that tell of limits.
    pub limits: &'a [(&'static str, String)],
    /// Tells the value of `Date`, asked for a response that came without one.
    pub date: &'a dyn Fn() -> [u8; 29],
    /// How the body will be sent.
    pub framing: BodyFraming,
    /// What to say of the client's connection.
    pub connection: ConnectionLine,
}

/// Appends the response head for the client: the endpoint's status, reason, `Server` and `Date`, without `Via`.
pub fn write_response_head(input: &DownstreamHead<'_>, out: &mut Vec<u8>) {
    let (head, bytes) = (input.head, input.bytes);
    encode::parsed_status_line(out, bytes, head);
    let (id_header, id) = input.request_id.unwrap_or_default();
    let mut dated = false;
    let mut lines = Lines::new(bytes);
    for header in head.forwarded(bytes) {
        let name = header.name.of(bytes);
        dated |= header.known == Known::Date;
        let stays = input.edits.drops(name) || name.eq_ignore_ascii_case(id_header.as_bytes());
        if !stays && !is_own_cookie(input, header) {
            lines.push(header, out);
        }
    }
    lines.flush(out);
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
    input.edits.write(input.entry, out);
    write_cookie(input, out);
    match (input.framing, head.content_length) {
        (BodyFraming::Length(length), _) | (BodyFraming::AsReceived, Some(length)) => {
            encode::content_length(out, length);
        }
        (BodyFraming::Chunked, _) => encode::transfer_chunked(out),
        _ => {}
    }
    write_connection(input.connection, (bytes, &head.headers), out);
    out.extend_from_slice(encode::HEAD_END);
}

/// Whether the endpoint sets a cookie of the sticky cookie's name.
fn is_own_cookie(input: &DownstreamHead<'_>, header: &Header) -> bool {
    header.known == Known::SetCookie
        && input
            .cookie
            .is_some_and(|sticky| cookie::set_name(header.value.of(input.bytes)) == sticky.name)
}

/// After the edits, so that no `remove Set-Cookie` undoes affinity; and no cache may give one client's cookie to others (what HAProxy
/// calls `nocache`).
fn write_cookie(input: &DownstreamHead<'_>, out: &mut Vec<u8>) {
    let Some(line) = input.cookie.and_then(|sticky| sticky.line) else { return };
    out.extend_from_slice(line);
    let stored_by_none = |header: &Header| {
        header.known == Known::CacheControl
            && !input.edits.drops(header.name.of(input.bytes))
            && forbids_shared_caches(header.value.of(input.bytes))
    };
    if !input.head.forwarded(input.bytes).any(stored_by_none) {
        out.extend_from_slice(b"Cache-Control: private\r\n");
    }
}

/// RFC 9111 section 5.2.2. `private="field"` speaks of that field alone.
fn forbids_shared_caches(value: &[u8]) -> bool {
    value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii).any(|directive| {
        directive.eq_ignore_ascii_case(b"private") || directive.eq_ignore_ascii_case(b"no-store")
    })
}

/// Appends an interim response (1xx other than 101): its own lines, no edits and no framing.
pub fn write_interim_head(head: &ResponseHead, bytes: &[u8], out: &mut Vec<u8>) {
    encode::parsed_status_line(out, bytes, head);
    let mut lines = Lines::new(bytes);
    head.forwarded(bytes).for_each(|header| lines.push(header, out));
    lines.flush(out);
    out.extend_from_slice(encode::HEAD_END);
}

fn write_request_line(head: &RequestHead, bytes: &[u8], out: &mut Vec<u8>) {
    let method = head.method_span.of(bytes);
    if head.form != TargetForm::Absolute {
        encode::request_line(out, method, head.target.of(bytes));
        return;
    }
    out.extend_from_slice(method);
    out.push(b' ');
    // RFC 9112 section 3.2.4: without path and query, OPTIONS asks about the server as a whole.
    match (head.path.is_empty(), head.query) {
        (true, None) if method == b"OPTIONS" => out.push(b'*'),
        _ => out.extend_from_slice(head.path_text(bytes)),
    }
    if let Some(query) = head.query {
        out.push(b'?');
        out.extend_from_slice(query.of(bytes));
    }
    out.extend_from_slice(b" HTTP/1.1\r\n");
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

fn write_connection(line: ConnectionLine, (bytes, headers): (&[u8], &[Header]), out: &mut Vec<u8>) {
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

/// A line whose value is ours or from a parsed head, and so can hold no line end.
pub(crate) fn write_sound(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    debug_assert!(
        !value.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)),
        "a value that ends its line"
    );
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// Copies lines of a parsed head as they came; neighbours go in one piece.
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
        // Two bytes between a value and the next name can only be the line's end.
        if self.end == self.start || start != self.end + 2 {
            self.flush(out);
            self.start = start;
        }
        if header.value.is_empty() {
            // The span of an empty value may lie anywhere, so such a line is written out.
            self.end = self.start.max(start.saturating_sub(2));
            self.flush(out);
            out.extend_from_slice(header.name.of(self.bytes));
            out.extend_from_slice(b":\r\n");
        } else {
            self.end = header.value.end as usize;
        }
    }

    fn flush(&mut self, out: &mut Vec<u8>) {
        if self.end > self.start {
            out.extend_from_slice(self.bytes.get(self.start..self.end).unwrap_or_default());
            out.extend_from_slice(b"\r\n");
        }
        self.start = self.end;
    }
}

#[cfg(test)]
mod tests;
