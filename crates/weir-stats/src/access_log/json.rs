//! The `json` log format: one object per line with the fields of [`Entry`]. Times are in
//! microseconds; phases not reached and missing values are `null`.

use std::net::{IpAddr, SocketAddr};

use crate::access_log::{escape, format, value};
use crate::{Clock, Entry, Escape, Reasons, TlsParameters};

pub(crate) fn append(entry: &Entry<'_>, clock: &mut Clock, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"time\":\"");
    clock.append_iso_micros(entry.started, out);
    out.push(b'"');
    append_client(entry, out);
    append_request(entry, out);
    append_upstream(entry, out);
    append_counts(entry, out);
    append_times(entry, out);
    out.push(b'}');
}

fn append_client(entry: &Entry<'_>, out: &mut Vec<u8>) {
    text("listener", entry.listener, out);
    address("client", entry.client.or(entry.peer.map(|peer| peer.ip())), out);
    socket("peer", entry.peer, out);
    socket("local", entry.local, out);
    key("tls", out);
    append_tls(entry.tls, out);
    number("connection_requests", entry.connection_requests, out);
}

fn append_tls(facts: Option<TlsParameters<'_>>, out: &mut Vec<u8>) {
    let Some(facts) = facts else { return out.extend_from_slice(b"null") };
    out.extend_from_slice(if facts.resumed { b"{\"resumed\":true" } else { b"{\"resumed\":false" });
    text("protocol", facts.protocol, out);
    text("cipher", facts.cipher, out);
    text("group", facts.group, out);
    text("server_name", facts.server_name, out);
    out.push(b'}');
}

fn append_request(entry: &Entry<'_>, out: &mut Vec<u8>) {
    bytes("request_id", entry.request_id, out);
    bytes("request", entry.request_line, out);
    bytes("method", entry.method, out);
    bytes("target", entry.target, out);
    text("protocol", entry.protocol, out);
    bytes("host", entry.host, out);
    for (name, header) in [
        ("referer", "referer"),
        ("user_agent", "user-agent"),
        ("x_forwarded_for", "x-forwarded-for"),
    ] {
        bytes(name, entry.request_headers.value(header).unwrap_or_default(), out);
    }
    text("route", entry.route, out);
    list("captures", entry.captures, out, |group, out| escape::append(group, Escape::Json, out));
}

fn append_upstream(entry: &Entry<'_>, out: &mut Vec<u8>) {
    text("pool", entry.pool, out);
    text("endpoint", entry.endpoint, out);
    text("endpoint_address", entry.endpoint_address, out);
    number("attempts", u64::from(entry.attempts), out);
    list("failed_attempts", entry.failed_attempts, out, |attempt, out| {
        value::append_failed(attempt, Escape::Json, out);
    });
    key("reused", out);
    out.extend_from_slice(if entry.reused { b"true" } else { b"false" });
    text("affinity", entry.affinity.as_str(), out);
    number("queue_position", u64::from(entry.queue_position), out);
    append_reasons(entry.reasons.copied().unwrap_or_default(), out);
}

/// Appends an array of strings; `append` writes the contents of one.
fn list<T>(name: &str, texts: &[T], out: &mut Vec<u8>, append: impl Fn(&T, &mut Vec<u8>)) {
    key(name, out);
    out.push(b'[');
    for (index, text) in texts.iter().enumerate() {
        out.extend_from_slice(if index == 0 { b"\"" } else { b",\"" });
        append(text, out);
        out.push(b'"');
    }
    out.push(b']');
}

fn append_reasons(reasons: Reasons<'_>, out: &mut Vec<u8>) {
    text("waited_for", reasons.waited_for.as_str(), out);
    list("ahead", reasons.ahead, out, |id, out| escape::append(id, Escape::Json, out));
    text("chosen_by", reasons.chosen_by.as_str(), out);
    text("runner_up", reasons.runner_up.map_or("", |other| other.endpoint), out);
}

fn append_counts(entry: &Entry<'_>, out: &mut Vec<u8>) {
    optional("status", (entry.status != 0).then_some(u64::from(entry.status)), out);
    text("cause", entry.cause.as_str(), out);
    append_grpc(entry, out);
    number("bytes_received", entry.bytes_received, out);
    number("bytes_sent", entry.bytes_sent, out);
    number("body_bytes_sent", entry.body_bytes_sent, out);
    number("worker", entry.worker as u64, out);
    let counts = entry.concurrency;
    number("process_connections", u64::from(counts.process), out);
    number("listener_connections", u64::from(counts.listener), out);
    number("pool_in_flight", u64::from(counts.pool), out);
    number("endpoint_in_flight", u64::from(counts.endpoint), out);
}

/// Appends the method and the status of a call of gRPC, or `null`.
fn append_grpc(entry: &Entry<'_>, out: &mut Vec<u8>) {
    let Some(method) = value::grpc_method(entry) else { return bytes("grpc", b"", out) };
    key("grpc", out);
    out.extend_from_slice(b"{\"service\":\"");
    escape::append(method.service, Escape::Json, out);
    out.push(b'"');
    bytes("method", method.name, out);
    optional("status", entry.grpc_status.map(|status| u64::from(status.code())), out);
    out.push(b'}');
}

fn append_times(entry: &Entry<'_>, out: &mut Vec<u8>) {
    let times = &entry.times;
    let delays = entry.reasons.map(|reasons| reasons.delays).unwrap_or_default();
    let spans = [
        ("t_handshake", times.handshake),
        ("t_idle", times.idle),
        ("t_request", times.request),
        ("t_queue", times.queue),
        ("t_connect", times.connect),
        ("t_response", times.response),
        ("t_data", times.data),
        ("t_active", times.active()),
        ("t_own", times.own),
        ("t_total", times.total),
        ("t_retry", delays.retry),
        ("t_tls", delays.tls),
        ("t_client", delays.client),
    ];
    for (name, span) in spans {
        optional(name, span.reached(), out);
    }
}

/// Every key follows another field, because the object starts with a field that is always present.
fn key(name: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
}

fn bytes(name: &str, value: &[u8], out: &mut Vec<u8>) {
    key(name, out);
    if value.is_empty() {
        return out.extend_from_slice(b"null");
    }
    out.push(b'"');
    escape::append(value, Escape::Json, out);
    out.push(b'"');
}

fn text(name: &str, value: &str, out: &mut Vec<u8>) {
    bytes(name, value.as_bytes(), out);
}

fn number(name: &str, value: u64, out: &mut Vec<u8>) {
    key(name, out);
    format::append(value, out);
}

fn optional(name: &str, value: Option<u64>, out: &mut Vec<u8>) {
    match value {
        Some(value) => number(name, value, out),
        None => bytes(name, b"", out),
    }
}

fn address(name: &str, value: Option<IpAddr>, out: &mut Vec<u8>) {
    let Some(value) = value else { return bytes(name, b"", out) };
    key(name, out);
    out.push(b'"');
    format::append_address(value, out);
    out.push(b'"');
}

fn socket(name: &str, value: Option<SocketAddr>, out: &mut Vec<u8>) {
    let Some(value) = value else { return bytes(name, b"", out) };
    key(name, out);
    out.push(b'"');
    let address = value.ip().to_canonical();
    let brackets = address.is_ipv6();
    if brackets {
        out.push(b'[');
    }
    format::append_address(address, out);
    out.extend_from_slice(if brackets { b"]:" } else { b":" });
    format::append(value.port(), out);
    out.push(b'"');
}
