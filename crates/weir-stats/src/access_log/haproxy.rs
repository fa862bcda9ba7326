//! HAProxy's `option httplog`, with its fields in its order:
//! `%ci:%cp [%tr] %ft %b/%s %TR/%Tw/%Tc/%Tr/%Ta %ST %B %CC %CS %tsc %ac/%fc/%bc/%sc/%rc %sq/%bq`
//! and ` %hr %hs %{+Q}r`.
//!
//! Nothing is captured, so `%CC %CS` are `- -` and `%hr %hs` print nothing, as in HAProxy 2.6.
//!
//! A TCP connection gets the line of `option tcplog`:
//! `%ci:%cp [%t] %ft %b/%s %Tw/%Tc/%Tt %B %ts %ac/%fc/%bc/%sc/%rc %sq/%bq`.

use crate::access_log::{format, value};
use crate::{Cause, Clock, Entry, Micros, TCP, Times};

pub(crate) fn append(entry: &Entry<'_>, clock: &mut Clock, out: &mut Vec<u8>) {
    append_client(entry, out);
    out.extend_from_slice(b" [");
    clock.append_haproxy(entry.started, out);
    out.extend_from_slice(b"] ");
    append_names(entry, out);
    if entry.protocol == TCP {
        append_connection(entry, out);
        append_counts(entry, out);
        return;
    }
    append_times(entry, out);
    out.push(b' ');
    append_status(entry, out);
    out.push(b' ');
    format::append(entry.bytes_sent, out);
    out.extend_from_slice(b" - - ");
    out.extend_from_slice(&entry.cause.termination(&entry.times, entry.attempts));
    out.extend_from_slice(&entry.affinity.termination(&entry.times));
    append_counts(entry, out);
    out.extend_from_slice(b" \"");
    append_request(entry, out);
    out.push(b'"');
}

/// Appends `%Tw/%Tc/%Tt %B %ts`. In the data phase HAProxy does not tell whether the server has sent
/// anything.
fn append_connection(entry: &Entry<'_>, out: &mut Vec<u8>) {
    let times = entry.times;
    append_spans(&[times.queue, times.connect], out);
    format::append(times.total.reached().unwrap_or_else(|| times.elapsed()) / 1000, out);
    out.push(b' ');
    format::append(entry.bytes_sent, out);
    out.push(b' ');
    let connected = times.connect != Micros::NEVER;
    let response = if connected { Micros::ZERO } else { Micros::NEVER };
    let times = Times { response, ..times };
    out.extend_from_slice(&entry.cause.termination(&times, entry.attempts));
}

/// Appends ` %ac/%fc/%bc/%sc/%rc %sq/%bq`.
fn append_counts(entry: &Entry<'_>, out: &mut Vec<u8>) {
    out.push(b' ');
    let counts = entry.concurrency;
    let retries = entry.attempts.saturating_sub(1);
    for count in [counts.process, counts.listener, counts.pool, counts.endpoint] {
        format::append(count, out);
        out.push(b'/');
    }
    // HAProxy marks an exchange that was redispatched to another server with a plus.
    if entry.failed_attempts.iter().any(|attempt| attempt.endpoint != entry.endpoint) {
        out.push(b'+');
    }
    format::append(retries, out);
    out.extend_from_slice(b" 0/");
    // HAProxy counts the exchanges ahead; `queue_position` counts from one.
    format::append(entry.queue_position.saturating_sub(1), out);
}

/// Appends spans in milliseconds with a slash after each, -1 for phases not reached.
fn append_spans(spans: &[Micros], out: &mut Vec<u8>) {
    for span in spans {
        match span.reached() {
            Some(microseconds) => format::append(microseconds / 1000, out),
            None => out.extend_from_slice(b"-1"),
        }
        out.push(b'/');
    }
}

/// Appends `address:port`; for a Unix socket HAProxy's `unix:` and a number.
fn append_client(entry: &Entry<'_>, out: &mut Vec<u8>) {
    match entry.client.or(entry.peer.map(|peer| peer.ip())) {
        Some(address) => format::append_address(address, out),
        None => out.extend_from_slice(b"unix"),
    }
    out.push(b':');
    let missing = u16::from(entry.peer.is_none() && entry.client.is_none());
    format::append(value::remote_port(entry).unwrap_or(missing), out);
}

/// Appends `listener pool/endpoint `: `~` marks TLS; without a pool HAProxy repeats the frontend.
fn append_names(entry: &Entry<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(entry.listener.as_bytes());
    out.extend_from_slice(if entry.tls.is_some() { b"~ " } else { b" " });
    let pool = if entry.pool.is_empty() { entry.listener } else { entry.pool };
    out.extend_from_slice(pool.as_bytes());
    out.push(b'/');
    let endpoint = if entry.endpoint.is_empty() { "<NOSRV>" } else { entry.endpoint };
    out.extend_from_slice(endpoint.as_bytes());
    out.push(b' ');
}

/// Appends `TR/Tw/Tc/Tr/Ta` in milliseconds, -1 for phases not reached; for a refused head only
/// `Ta` is known.
fn append_times(entry: &Entry<'_>, out: &mut Vec<u8>) {
    let times = &entry.times;
    let spans = [times.request, times.queue, times.connect, times.response];
    append_spans(&if is_refused(entry) { [Micros::NEVER; 4] } else { spans }, out);
    format::append(times.elapsed() / 1000, out);
}

/// Appends the status that was sent, or -1. The 499 for a client that left is nginx's convention:
/// nothing was sent.
fn append_status(entry: &Entry<'_>, out: &mut Vec<u8>) {
    let nothing_sent = entry.cause == Cause::ClientGone && entry.status == 499;
    if entry.status == 0 || nothing_sent {
        out.extend_from_slice(b"-1");
    } else {
        format::append(entry.status, out);
    }
}

fn is_refused(entry: &Entry<'_>) -> bool {
    entry.request_line.is_empty()
        || entry.cause == Cause::BadRequest
        || entry.times.request == Micros::NEVER
}

/// Appends the request line with `"`, `#`, control bytes and bytes from 0x7f up as `#XX`.
fn append_request(entry: &Entry<'_>, out: &mut Vec<u8>) {
    if is_refused(entry) {
        out.extend_from_slice(b"<BADREQ>");
        return;
    }
    let mut line = entry.request_line;
    let special = |byte: &u8| !matches!(byte, b' '..=b'~') || matches!(byte, b'"' | b'#');
    while let Some(at) = line.iter().position(special) {
        out.extend_from_slice(&line[..at]);
        out.push(b'#');
        format::append_hex(line[at], out);
        line = &line[at + 1..];
    }
    out.extend_from_slice(line);
}
