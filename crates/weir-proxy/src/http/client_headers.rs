//! Headers that tell an endpoint about the client: `X-Forwarded-For`, `-Proto`, `-Host` and
//! `Forwarded` (RFC 7239).
//!
//! A trusted peer's lines are continued. Any other peer's lines are dropped, including those that
//! Weir does not write itself (`X-Forwarded-*`, `X-Real-IP`), because an endpoint must be able to
//! rely on what it receives. Where these headers are switched off, a trusted peer's lines pass
//! unchanged, and with `received=keep` those of any peer.

use std::net::IpAddr;

use weir_config::model::ReceivedForwarded;
use weir_stats::append_address;
use weir_wire::{Header, Known};

use crate::http::client_address::PeerTrust;
use crate::http::edits::same_name;
use crate::http::head_writer::UpstreamHead;

/// Tells whether a received line of this name is dropped or replaced rather than forwarded.
#[inline]
pub(crate) fn replaces(input: &UpstreamHead<'_>, header: &Header) -> bool {
    let forwarded = input.forwarded;
    let keeps = forwarded.received == ReceivedForwarded::Keep;
    let drops = input.trust == PeerTrust::Untrusted && !keeps;
    match header.known {
        Known::XForwardedFor | Known::XForwardedHost | Known::XForwardedProto => {
            drops || forwarded.x_forwarded
        }
        Known::Forwarded => drops || forwarded.forwarded,
        Known::XForwardedPort | Known::XRealIp => drops,
        Known::Other => !keeps && replaces_other(input.trust, header.name.of(input.bytes)),
        _ => false,
    }
}

/// Tells whether a line of an uncommon name is dropped. An `X_Forwarded_For` is dropped from any
/// peer: no honest proxy sends it, and an application that uses CGI's naming could not distinguish
/// it from the real one.
fn replaces_other(trust: PeerTrust, name: &[u8]) -> bool {
    if !matches!(name.first(), Some(b'x' | b'X')) {
        return false;
    }
    let prefix = name.get(..PREFIX.len()).unwrap_or_default();
    let claims = same_name(prefix, PREFIX) || same_name(name, b"x-real-ip");
    claims && (trust == PeerTrust::Untrusted || name.contains(&b'_'))
}

const PREFIX: &[u8] = b"x-forwarded-";

/// Appends the lines that the listener is configured to send.
pub(crate) fn write(input: &UpstreamHead<'_>, out: &mut Vec<u8>) {
    if input.forwarded.x_forwarded {
        write_for(input, out);
        let scheme = if input.tls { b"https".as_slice() } else { b"http" };
        write_kept(input, b"X-Forwarded-Proto: ", Known::XForwardedProto, scheme, out);
        let host = input.head.host.of(input.bytes);
        write_kept(input, b"X-Forwarded-Host: ", Known::XForwardedHost, host, out);
    }
    if input.forwarded.forwarded && !input.edits.drops(b"forwarded") {
        write_forwarded(input, out);
    }
}

/// Writes the list that a trusted peer sent, and the peer's address. A peer without an address adds
/// nothing.
fn write_for(input: &UpstreamHead<'_>, out: &mut Vec<u8>) {
    if input.edits.drops(b"x-forwarded-for") {
        return;
    }
    let start = out.len();
    out.extend_from_slice(b"X-Forwarded-For: ");
    let empty = out.len();
    for value in believed(input, Known::XForwardedFor) {
        out.extend_from_slice(value);
        out.extend_from_slice(b", ");
    }
    match input.peer {
        Some(peer) => append_address(peer.ip(), out),
        None => out.truncate(out.len() - if out.len() > empty { 2 } else { 0 }),
    }
    if out.len() == empty {
        out.truncate(start);
    } else {
        out.extend_from_slice(b"\r\n");
    }
}

/// Writes a line with the value of a trusted peer, else our own value, unless it is empty. The name
/// is given with its colon and space; its constant length makes the copy cheap.
#[inline]
fn write_kept<const LENGTH: usize>(
    input: &UpstreamHead<'_>,
    name: &[u8; LENGTH],
    known: Known,
    ours: &[u8],
    out: &mut Vec<u8>,
) {
    if input.edits.drops(name.get(..LENGTH - 2).unwrap_or_default()) {
        return;
    }
    let value = believed(input, known).next().unwrap_or(ours);
    if !value.is_empty() {
        out.extend_from_slice(name);
        out.extend_from_slice(value);
        out.extend_from_slice(b"\r\n");
    }
}

fn write_forwarded(input: &UpstreamHead<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"Forwarded: ");
    for value in believed(input, Known::Forwarded) {
        out.extend_from_slice(value);
        out.extend_from_slice(b", ");
    }
    match input.peer.map(|peer| peer.ip().to_canonical()) {
        None => out.extend_from_slice(b"for=unknown"),
        Some(IpAddr::V4(address)) => {
            out.extend_from_slice(b"for=");
            append_address(address.into(), out);
        }
        Some(IpAddr::V6(address)) => {
            out.extend_from_slice(b"for=\"[");
            append_address(address.into(), out);
            out.extend_from_slice(b"]\"");
        }
    }
    let host = input.head.host.of(input.bytes);
    if !host.is_empty() {
        out.extend_from_slice(b";host=");
        write_quoted(host, out);
    }
    out.extend_from_slice(if input.tls { b";proto=https\r\n" } else { b";proto=http\r\n" });
}

/// The values of that header if the peer is trusted; otherwise nothing.
fn believed<'a>(input: &'a UpstreamHead<'_>, known: Known) -> impl Iterator<Item = &'a [u8]> {
    let lines = match input.trust {
        PeerTrust::Trusted => input.head.headers.as_slice(),
        PeerTrust::Untrusted => &[],
    };
    let named =
        lines.iter().filter(move |header| header.known == known && !header.value.is_empty());
    named.map(|header| header.value.of(input.bytes))
}

/// Writes a token unchanged, and any other text as a quoted string.
fn write_quoted(text: &[u8], out: &mut Vec<u8>) {
    if text.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-._~!$&'*+".contains(byte)) {
        out.extend_from_slice(text);
        return;
    }
    out.push(b'"');
    for &byte in text {
        if matches!(byte, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(byte);
    }
    out.push(b'"');
}
