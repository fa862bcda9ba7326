//! HAProxy's `option httplog`, with its fields in its order:
//! `%ci:%cp [%tr] %ft %b/%s %TR/%Tw/%Tc/%Tr/%Ta %ST %B %CC %CS %tsc %ac/%fc/%bc/%sc/%rc %sq/%bq`
//! and ` %hr %hs %{+Q}r`.
//!
//! Nothing is captured, so `%CC %CS` are `- -` and `%hr %hs` print nothing, as in HAProxy 2.6. The
//! fields by themselves are `HaproxyField`.
//!
//! A TCP connection gets the line of `option tcplog`:
//! `%ci:%cp [%t] %ft %b/%s %Tw/%Tc/%Tt %B %ts %ac/%fc/%bc/%sc/%rc %sq/%bq`.

use std::time::{Duration, UNIX_EPOCH};

use crate::access_log::{clock, format, value};
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

/// Appends `%Tw/%Tc/%Tt %B %ts`. In the data phase HAProxy does not tell whether the server has
/// sent anything.
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
    for count in [counts.process, counts.listener, counts.pool, counts.endpoint] {
        format::append(count, out);
        out.push(b'/');
    }
    append_retries(entry, out);
    out.extend_from_slice(b" 0/");
    // HAProxy counts the exchanges ahead; `queue_position` counts from one.
    format::append(entry.queue_position.saturating_sub(1), out);
}

/// Appends spans in milliseconds with a slash after each, -1 for phases not reached.
fn append_spans(spans: &[Micros], out: &mut Vec<u8>) {
    for span in spans {
        append_span(*span, out);
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
    out.extend_from_slice(pool(entry).as_bytes());
    out.push(b'/');
    out.extend_from_slice(endpoint(entry).as_bytes());
    out.push(b' ');
}

fn pool<'a>(entry: &Entry<'a>) -> &'a str {
    if entry.pool.is_empty() { entry.listener } else { entry.pool }
}

fn endpoint<'a>(entry: &Entry<'a>) -> &'a str {
    if entry.endpoint.is_empty() { "<NOSRV>" } else { entry.endpoint }
}

/// Appends the number of retries. HAProxy marks an exchange that was redispatched to another server
/// with a plus.
fn append_retries(entry: &Entry<'_>, out: &mut Vec<u8>) {
    if entry.failed_attempts.iter().any(|attempt| attempt.endpoint != entry.endpoint) {
        out.push(b'+');
    }
    format::append(entry.attempts.saturating_sub(1), out);
}

/// Appends `TR/Tw/Tc/Tr/Ta` in milliseconds, -1 for phases not reached; for a refused head only
/// `Ta` is known.
fn append_times(entry: &Entry<'_>, out: &mut Vec<u8>) {
    let times = &entry.times;
    let spans = [request_span(entry), times.queue, times.connect, times.response];
    append_spans(&if is_refused(entry) { [Micros::NEVER; 4] } else { spans }, out);
    format::append(times.elapsed() / 1000, out);
}

/// The time that the request took; of one that was held back and refused HAProxy tells only that.
fn request_span(entry: &Entry<'_>) -> Micros {
    let is_tarpit =
        entry.cause == Cause::Denied && entry.attempts == 0 && entry.times.queue != Micros::NEVER;
    if is_tarpit { Micros::NEVER } else { entry.times.request }
}

/// Appends a time in milliseconds, -1 if the phase was not reached.
fn append_span(span: Micros, out: &mut Vec<u8>) {
    match span.reached() {
        Some(microseconds) => format::append(microseconds / 1000, out),
        None => out.extend_from_slice(b"-1"),
    }
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

/// A field of HAProxy's log format whose value no other variable has in this form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HaproxyField {
    /// Times in milliseconds.
    Handshake,
    Idle,
    Request,
    Queue,
    Connect,
    Response,
    Data,
    Active,
    Total,
    /// From accept to the end of the request head.
    UntilRequest,
    /// The termination state, of two letters and of four.
    State,
    StateWithCookie,
    ProcessConnections,
    ListenerConnections,
    PoolExchanges,
    EndpointExchanges,
    Retries,
    EndpointQueue,
    PoolQueue,
    Date,
    Status,
    RequestLine,
    Frontend,
    Backend,
    Server,
    /// The beginning in whole seconds, in the local zone and in UTC.
    LocalDate,
    UniversalDate,
    /// The beginning in seconds since 1970, and the milliseconds of that second.
    Seconds,
    Milliseconds,
    /// The address and the port of the endpoint.
    EndpointAddress,
    EndpointPort,
    /// The time that a client sees: all but the idle one.
    ClientTime,
}

impl HaproxyField {
    const ALL: [(&'static str, Self); 35] = [
        ("Th", Self::Handshake),
        ("Ti", Self::Idle),
        ("TR", Self::Request),
        ("Tw", Self::Queue),
        ("Tc", Self::Connect),
        ("Tr", Self::Response),
        ("Td", Self::Data),
        ("Ta", Self::Active),
        ("Tt", Self::Total),
        ("Tq", Self::UntilRequest),
        ("ts", Self::State),
        ("tsc", Self::StateWithCookie),
        ("ac", Self::ProcessConnections),
        ("fc", Self::ListenerConnections),
        ("bc", Self::PoolExchanges),
        ("sc", Self::EndpointExchanges),
        ("rc", Self::Retries),
        ("sq", Self::EndpointQueue),
        ("bq", Self::PoolQueue),
        ("tr", Self::Date),
        ("ST", Self::Status),
        ("r", Self::RequestLine),
        ("ft", Self::Frontend),
        ("b", Self::Backend),
        ("s", Self::Server),
        ("t", Self::Date),
        ("trl", Self::LocalDate),
        ("Tl", Self::LocalDate),
        ("trg", Self::UniversalDate),
        ("T", Self::UniversalDate),
        ("Ts", Self::Seconds),
        ("ms", Self::Milliseconds),
        ("si", Self::EndpointAddress),
        ("sp", Self::EndpointPort),
        ("Tu", Self::ClientTime),
    ];

    /// Returns the field with HAProxy's name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, field)| *field)
    }

    pub(crate) fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, field)| *field == self).map_or("", |(name, _)| name)
    }

    /// Returns true if a request has the field's final value as soon as it has arrived.
    pub(crate) fn is_of_arrival(self) -> bool {
        matches!(
            self,
            Self::Handshake
                | Self::Idle
                | Self::Date
                | Self::LocalDate
                | Self::UniversalDate
                | Self::Seconds
                | Self::Milliseconds
                | Self::Frontend
        )
    }

    pub(crate) fn append(self, entry: &Entry<'_>, clock: &mut Clock, out: &mut Vec<u8>) {
        let (times, counts) = (&entry.times, entry.concurrency);
        let span = |span: Micros| if is_refused(entry) { Micros::NEVER } else { span };
        let count = |count: u32, out: &mut Vec<u8>| format::append(count, out);
        match self {
            Self::Handshake => append_span(times.handshake.max(Micros::ZERO), out),
            Self::Idle => append_span(times.idle.max(Micros::ZERO), out),
            Self::Request => append_span(span(request_span(entry)), out),
            Self::Queue => append_span(span(times.queue), out),
            Self::Connect => append_span(span(times.connect), out),
            Self::Response => append_span(span(times.response), out),
            Self::Data => append_span(span(times.data), out),
            Self::Active => format::append(times.elapsed() / 1000, out),
            Self::Total => append_span(times.total, out),
            Self::UntilRequest => append_span(until_request(entry), out),
            Self::State => {
                out.extend_from_slice(&entry.cause.termination(times, entry.attempts));
            }
            Self::StateWithCookie => {
                out.extend_from_slice(&entry.cause.termination(times, entry.attempts));
                out.extend_from_slice(&entry.affinity.termination(times));
            }
            Self::ProcessConnections => count(counts.process, out),
            Self::ListenerConnections => count(counts.listener, out),
            Self::PoolExchanges => count(counts.pool, out),
            Self::EndpointExchanges => count(counts.endpoint, out),
            Self::Retries => append_retries(entry, out),
            Self::EndpointQueue => count(0, out),
            Self::PoolQueue => count(entry.queue_position.saturating_sub(1), out),
            Self::Date => clock.append_haproxy(entry.started, out),
            Self::Status => append_status(entry, out),
            Self::RequestLine => append_request(entry, out),
            Self::Frontend => {
                out.extend_from_slice(entry.listener.as_bytes());
                out.extend_from_slice(if entry.tls.is_some() { b"~" } else { b"" });
            }
            Self::Backend => out.extend_from_slice(pool(entry).as_bytes()),
            Self::Server => out.extend_from_slice(endpoint(entry).as_bytes()),
            Self::LocalDate => clock.append_common(entry.started, out),
            Self::UniversalDate => clock::append_universal(entry.started, out),
            Self::Seconds => format::append(since_epoch(entry).as_secs(), out),
            Self::Milliseconds => {
                format::append_three(u64::from(since_epoch(entry).subsec_millis()), out);
            }
            Self::EndpointAddress => append_or_dash(endpoint_address(entry).0, out),
            Self::EndpointPort => append_or_dash(endpoint_address(entry).1, out),
            Self::ClientTime => {
                let handshake = times.handshake.reached().unwrap_or_default();
                format::append((times.elapsed() + handshake) / 1000, out);
            }
        }
    }
}

fn since_epoch(entry: &Entry<'_>) -> Duration {
    entry.started.duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// The address and the port of the endpoint; both are empty without one, the port on a Unix socket.
fn endpoint_address<'a>(entry: &Entry<'a>) -> (&'a str, &'a str) {
    let text = entry.endpoint_address;
    let (address, port) = text.rsplit_once(':').unwrap_or((text, ""));
    (address.trim_start_matches('[').trim_end_matches(']'), port)
}

fn append_or_dash(text: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(if text.is_empty() { b"-" } else { text.as_bytes() });
}

/// The time from accept, or from the end of the exchange before, to the end of the request head.
fn until_request(entry: &Entry<'_>) -> Micros {
    let times = &entry.times;
    match times.request.reached() {
        Some(request) if !is_refused(entry) => {
            let before =
                [times.handshake, times.idle].map(|span| span.reached().unwrap_or_default());
            Micros::from(Some(request + before.iter().sum::<u64>()))
        }
        _ => Micros::NEVER,
    }
}
