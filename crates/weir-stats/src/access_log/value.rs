//! The values of variables for one exchange.

use std::net::IpAddr;
use std::sync::LazyLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::access_log::haproxy::HaproxyField;
use crate::access_log::variable::{Definition, Plain, VariableKind};
use crate::access_log::{clock, decoded_path, escape, format, why};
use crate::{
    ClientCertificate, Clock, Entry, Escape, FailedAttempt, GrpcMethod, GrpcWebType, HTTP2,
    Headers, Micros, Setback, Slashes, TCP, Variable, is_grpc,
};

const FORWARDED_FOR: &str = "x-forwarded-for";

/// The status of a request whose connection is closed without a response.
const CLOSED: u16 = 444;

const SECONDS_OF_DAY: u64 = 86_400;

/// A value before it is formatted.
pub(crate) enum VariableValue<'a> {
    /// No value: `-` in logs, nothing elsewhere.
    Absent,
    /// A phase never reached: `-` everywhere.
    Never,
    /// Bytes from outside.
    Bytes(&'a [u8]),
    /// Bytes from outside, written in lower case.
    Lower(&'a [u8]),
    /// A path as received, written decoded.
    DecodedPath(&'a [u8], Slashes),
    /// A decimal number.
    Number(u64),
    /// A number with at least three digits.
    Status(u64),
    /// Milliseconds, written as seconds with a fraction.
    Seconds(u64),
    Address(IpAddr),
    /// A comma-separated list.
    FailedAttempts(&'a [FailedAttempt<'a>]),
    /// The received lines of `X-Forwarded-For`, and the peer after them.
    ForwardedFor(&'a dyn Headers, IpAddr),
    /// The user of `Basic` credentials, still in base64.
    BasicUser(&'a [u8]),
    TimeLocal(SystemTime),
    TimeIso(SystemTime),
    Why(&'a Entry<'a>),
    /// All lines of a header of that name, with this text between them.
    Lines(&'a dyn Headers, &'a str, &'static [u8]),
    HaproxyField(HaproxyField, &'a Entry<'a>),
    /// A time of a certificate, in seconds since 1970.
    CertificateTime(i64),
    /// The value of a variable that the configuration defines.
    Defined(&'a dyn Definition, &'a Entry<'a>),
}

impl VariableValue<'_> {
    pub(crate) fn append(&self, clock: &mut Clock, how: Escape, out: &mut Vec<u8>) {
        match *self {
            Self::Absent if how == Escape::Log => out.push(b'-'),
            Self::Absent => {}
            Self::Never => out.push(b'-'),
            Self::Bytes(bytes) => escape::append(bytes, how, out),
            Self::DecodedPath(path, slashes) => decoded_path::append(path, slashes, how, out),
            Self::Lower(bytes) => {
                let start = out.len();
                escape::append(bytes, how, out);
                // Escapes such as `\xC3` keep their case; only letters of the value itself change.
                if matches!(how, Escape::None | Escape::Header | Escape::Path) || bytes.is_ascii() {
                    out[start..].make_ascii_lowercase();
                }
            }
            Self::Number(number) => format::append(number, out),
            Self::Status(status) => format::append_three(status, out),
            Self::Seconds(milliseconds) => format::append_seconds(milliseconds, out),
            Self::Address(address) => format::append_address(address, out),
            Self::FailedAttempts(attempts) => {
                for (index, attempt) in attempts.iter().enumerate() {
                    out.extend_from_slice(if index == 0 { b"" } else { b"," });
                    append_failed(attempt, how, out);
                }
            }
            Self::ForwardedFor(received, peer) => {
                received.each(FORWARDED_FOR, &mut |line| {
                    if !line.is_empty() {
                        escape::append(line, how, out);
                        out.extend_from_slice(b", ");
                    }
                });
                format::append_address(peer, out);
            }
            Self::BasicUser(encoded) => append_basic_user(encoded, how, out),
            Self::TimeLocal(time) => clock.append_common(time, out),
            Self::TimeIso(time) => clock.append_iso(time, out),
            Self::Why(entry) => why::append(entry, how, out),
            Self::Lines(headers, name, between) => {
                let mut first = true;
                headers.each(name, &mut |line| {
                    out.extend_from_slice(if first { b"" } else { between });
                    first = false;
                    escape::append(line, how, out);
                });
            }
            Self::HaproxyField(field, entry) => field.append(entry, clock, out),
            Self::CertificateTime(seconds) => clock::append_openssl(seconds, out),
            Self::Defined(defined, entry) => defined.append(entry, clock, how, out),
        }
    }
}

/// Appends `app1=connect_failed` or `app1=503`.
pub(crate) fn append_failed(attempt: &FailedAttempt<'_>, how: Escape, out: &mut Vec<u8>) {
    escape::append(attempt.endpoint.as_bytes(), how, out);
    out.push(b'=');
    match attempt.why {
        Setback::Cause(cause) => out.extend_from_slice(cause.as_str().as_bytes()),
        Setback::Status(status) => format::append(status, out),
        Setback::Grpc(status) => {
            out.extend_from_slice(b"grpc-");
            out.extend_from_slice(status.as_str().as_bytes());
        }
    }
}

fn text(text: &str) -> VariableValue<'_> {
    if text.is_empty() { VariableValue::Absent } else { VariableValue::Bytes(text.as_bytes()) }
}

fn filled(bytes: &[u8]) -> VariableValue<'_> {
    if bytes.is_empty() { VariableValue::Absent } else { VariableValue::Bytes(bytes) }
}

fn found(bytes: Option<&[u8]>) -> VariableValue<'_> {
    bytes.map_or(VariableValue::Absent, VariableValue::Bytes)
}

fn micros(span: Micros) -> VariableValue<'static> {
    span.reached().map_or(VariableValue::Never, VariableValue::Number)
}

fn seconds(spans: &[Micros]) -> VariableValue<'static> {
    let sum = spans.iter().map(|span| span.reached()).sum::<Option<u64>>();
    sum.map_or(VariableValue::Absent, |microseconds| VariableValue::Seconds(microseconds / 1000))
}

pub(crate) fn of<'a>(variable: &'a Variable, entry: &'a Entry<'a>) -> VariableValue<'a> {
    match &variable.0 {
        VariableKind::Plain(plain) => of_plain(*plain, entry),
        VariableKind::Argument(name) => {
            found(argument(query(current_target(entry)).unwrap_or_default(), name))
        }
        VariableKind::RequestHeader(name) => match &**name {
            // As nginx has them: a proxy before this one may have added a line to that of a client.
            FORWARDED_FOR => lines(entry.request_headers, name, b", "),
            "cookie" => lines(entry.request_headers, name, b"; "),
            _ => found(entry.request_headers.value(name)),
        },
        VariableKind::ResponseHeader(name) => found(entry.response_headers.value(name)),
        VariableKind::Cookie(name) => {
            found(entry.request_headers.find("cookie", &|line| cookie(line, name)))
        }
        VariableKind::RequestHeaderLines(name) => lines(entry.request_headers, name, b", "),
        VariableKind::ResponseHeaderLines(name) => lines(entry.response_headers, name, b", "),
        VariableKind::RequestHeaderRows(name) => lines(entry.request_headers, name, b"\n"),
        VariableKind::ResponseHeaderRows(name) => lines(entry.response_headers, name, b"\n"),
        VariableKind::HaproxyField(field) => VariableValue::HaproxyField(*field, entry),
        VariableKind::Capture(index) => found(entry.captures.get(*index).copied()),
        // Only the values of a map have them, and those know the match.
        VariableKind::Group(_) => VariableValue::Absent,
        VariableKind::Defined(defined) => VariableValue::Defined(&**defined, entry),
    }
}

/// The lines of a header, of which one is the value itself.
fn lines<'a>(headers: &'a dyn Headers, name: &'a str, between: &'static [u8]) -> VariableValue<'a> {
    let mut count = 0;
    headers.each(name, &mut |_| count += 1);
    if count > 1 {
        VariableValue::Lines(headers, name, between)
    } else {
        found(headers.value(name))
    }
}

fn of_plain<'a>(plain: Plain, entry: &'a Entry<'a>) -> VariableValue<'a> {
    match plain {
        Plain::RemoteAddr => remote_address(entry),
        Plain::RemotePort => remote_port(entry)
            .map_or(VariableValue::Absent, |port| VariableValue::Number(u64::from(port))),
        Plain::RemoteUser => {
            basic_credentials(entry).map_or(VariableValue::Absent, VariableValue::BasicUser)
        }
        Plain::TimeLocal => VariableValue::TimeLocal(written_at(entry)),
        Plain::TimeIso8601 => VariableValue::TimeIso(written_at(entry)),
        Plain::Msec => {
            let since = written_at(entry).duration_since(UNIX_EPOCH).unwrap_or_default();
            VariableValue::Seconds(since.as_millis() as u64)
        }
        Plain::Random => VariableValue::Number(u64::from(random(entry))),
        Plain::Request => filled(entry.request_line),
        Plain::RequestMethod => filled(entry.method),
        Plain::RequestUri => filled(origin_form(entry.target)),
        Plain::Uri => filled(current_path(entry)),
        Plain::DecodedUri => decoded_path_of(entry),
        // nginx treats the empty query of `/?` as none.
        Plain::Args => filled(query(current_target(entry)).unwrap_or_default()),
        Plain::IsArgs => VariableValue::Bytes(question_mark(entry)),
        Plain::ProxyAddXForwardedFor => forwarded_for(entry),
        Plain::Host if entry.host.is_empty() => VariableValue::Absent,
        Plain::Host => VariableValue::Lower(entry.host),
        Plain::Status => VariableValue::Status(u64::from(entry.status)),
        Plain::BodyBytesSent => VariableValue::Number(entry.body_bytes_sent),
        Plain::BytesSent => VariableValue::Number(entry.bytes_sent),
        Plain::RequestLength => VariableValue::Number(entry.bytes_received),
        Plain::RequestTime => VariableValue::Seconds(entry.times.elapsed() / 1000),
        Plain::Scheme => VariableValue::Bytes(if entry.tls.is_some() { b"https" } else { b"http" }),
        Plain::ServerProtocol => text(entry.protocol),
        Plain::ServerPort => entry
            .local
            .map_or(VariableValue::Absent, |local| VariableValue::Number(u64::from(local.port()))),
        Plain::ServerAddr => {
            entry.local.map_or(VariableValue::Absent, |local| VariableValue::Address(local.ip()))
        }
        Plain::RequestId => filled(entry.request_id),
        Plain::RequestNumber => VariableValue::Number(entry.request_number),
        Plain::Connection => VariableValue::Number(entry.connection),
        Plain::ConnectionRequests => VariableValue::Number(entry.connection_requests),
        Plain::RequestBody => filled(entry.request_body),
        Plain::RequestCompletion => VariableValue::Bytes(completion(entry)),
        Plain::RealipRemoteAddr => {
            let peer = entry.peer.map(|peer| peer.ip());
            peer.map_or(VariableValue::Bytes(b"unix:"), VariableValue::Address)
        }
        Plain::RealipRemotePort => entry
            .peer
            .map_or(VariableValue::Absent, |peer| VariableValue::Number(u64::from(peer.port()))),
        Plain::Pid => VariableValue::Number(u64::from(std::process::id())),
        Plain::Hostname => text(hostname()),
        Plain::Listener => text(entry.listener),
        Plain::Route => text(entry.route),
        Plain::Cause => VariableValue::Bytes(entry.cause.as_str().as_bytes()),
        Plain::QueuePosition => VariableValue::Number(u64::from(entry.queue_position)),
        Plain::Worker => VariableValue::Number(entry.worker as u64),
        Plain::ConnectionsActive
        | Plain::ConnectionsReading
        | Plain::ConnectionsWriting
        | Plain::ConnectionsWaiting
        | Plain::ConnectionsAccepted
        | Plain::ConnectionsHandled
        | Plain::ConnectionsRequests => VariableValue::Number(of_process(plain, entry)),
        _ => of_upstream(plain, entry),
    }
}

/// The counts of the whole process.
fn of_process(plain: Plain, entry: &Entry<'_>) -> u64 {
    let counts = entry.process.connections();
    match plain {
        Plain::ConnectionsReading => counts.reading,
        Plain::ConnectionsWriting => counts.busy.saturating_sub(counts.reading),
        Plain::ConnectionsWaiting => counts.open.saturating_sub(counts.busy),
        Plain::ConnectionsAccepted => counts.handled + counts.refused,
        Plain::ConnectionsHandled => counts.handled,
        Plain::ConnectionsRequests => counts.requests,
        _ => counts.open,
    }
}

fn decoded_path_of<'a>(entry: &Entry<'a>) -> VariableValue<'a> {
    match current_path(entry) {
        b"" => VariableValue::Absent,
        path => VariableValue::DecodedPath(path, entry.slashes),
    }
}

/// The path that routes match, as it is sent.
fn current_path<'a>(entry: &Entry<'a>) -> &'a [u8] {
    if entry.path.is_empty() { path(entry.target) } else { entry.path }
}

/// The method that is called, if the request is a call of gRPC.
pub(crate) fn grpc_method<'a>(entry: &Entry<'a>) -> Option<GrpcMethod<'a>> {
    if entry.method != b"POST" {
        return None;
    }
    let is_call = entry.request_headers.value("content-type").is_some_and(|kind| {
        GrpcWebType::of(kind).is_some() || entry.protocol == HTTP2 && is_grpc(kind)
    });
    is_call.then(|| GrpcMethod::of_path(current_path(entry))).flatten()
}

/// Returns nginx's `$request_completion`.
fn completion(entry: &Entry<'_>) -> &'static [u8] {
    let is_sent = entry.status != 0 && entry.status != CLOSED && !entry.cause.breaks_response();
    if is_sent { b"OK" } else { b"" }
}

fn of_upstream<'a>(plain: Plain, entry: &'a Entry<'a>) -> VariableValue<'a> {
    let times = &entry.times;
    match plain {
        Plain::Pool => text(entry.pool),
        Plain::Endpoint => text(entry.endpoint),
        Plain::Why => VariableValue::Why(entry),
        Plain::Attempts => VariableValue::Number(u64::from(entry.attempts)),
        Plain::GrpcStatus => {
            let code = entry.grpc_status.map(|status| u64::from(status.code()));
            code.map_or(VariableValue::Absent, VariableValue::Number)
        }
        Plain::GrpcService => found(grpc_method(entry).map(|method| method.service)),
        Plain::GrpcMethod => found(grpc_method(entry).map(|method| method.name)),
        Plain::FailedAttempts if entry.failed_attempts.is_empty() => VariableValue::Absent,
        Plain::FailedAttempts => VariableValue::FailedAttempts(entry.failed_attempts),
        Plain::Affinity => text(entry.affinity.as_str()),
        Plain::UpstreamAddr => text(entry.endpoint_address),
        Plain::UpstreamProtocol => text(entry.upstream_protocol),
        Plain::UpstreamStatus | Plain::UpstreamResponseLength
            if entry.endpoint_address.is_empty() =>
        {
            VariableValue::Absent
        }
        Plain::UpstreamStatus => VariableValue::Status(u64::from(entry.status)),
        Plain::UpstreamResponseLength if times.response.reached().is_none() => {
            VariableValue::Number(0)
        }
        Plain::UpstreamResponseLength => VariableValue::Number(entry.body_bytes_sent),
        Plain::UpstreamUri => filled(entry.upstream_target),
        Plain::ConnectionTime => {
            let before = entry.connection_age.reached().unwrap_or(0);
            let own = times.total.reached().unwrap_or_else(|| times.elapsed());
            VariableValue::Seconds((before + own) / 1000)
        }
        Plain::UpstreamConnectTime => seconds(&[times.connect]),
        Plain::UpstreamHeaderTime => seconds(&[times.connect, times.response]),
        Plain::UpstreamResponseTime => seconds(&[times.connect, times.response, times.data]),
        Plain::SslPrereadProtocol => filled(entry.preread.protocol.as_bytes()),
        Plain::SslPrereadAlpnProtocols => of_hello(entry, entry.preread.alpn_protocols),
        Plain::Handshake => micros(times.handshake),
        Plain::Idle => micros(times.idle),
        Plain::RequestSpan => micros(times.request),
        Plain::Queue => micros(times.queue),
        Plain::Connect => micros(times.connect),
        Plain::Response => micros(times.response),
        Plain::Data => micros(times.data),
        Plain::Active => micros(times.active()),
        Plain::Own => micros(times.own),
        Plain::Total => micros(times.total),
        _ => of_tls(plain, entry),
    }
}

/// A text from the first message of a client whose TLS is passed on; it may be empty.
fn of_hello<'a>(entry: &Entry<'a>, text: &'a [u8]) -> VariableValue<'a> {
    if entry.preread.protocol.is_empty() { filled(text) } else { VariableValue::Bytes(text) }
}

fn of_tls<'a>(plain: Plain, entry: &Entry<'a>) -> VariableValue<'a> {
    let Some(tls) = entry.tls else {
        // The name of a client whose TLS is passed on.
        let is_name = plain == Plain::SslServerName && entry.protocol == TCP;
        return if is_name { of_hello(entry, entry.host) } else { VariableValue::Absent };
    };
    match plain {
        Plain::SslProtocol => text(tls.protocol),
        Plain::SslCipher => text(tls.cipher),
        Plain::SslServerName => text(tls.server_name),
        Plain::SslCurve => text(tls.group),
        Plain::SslSessionReused => VariableValue::Bytes(if tls.resumed { b"r" } else { b"." }),
        Plain::SslClientVerify => text(tls.client.map_or("NONE", |client| client.verify.as_str())),
        _ => match tls.client {
            Some(client) if !client.serial.is_empty() => of_certificate(plain, client, entry),
            _ => VariableValue::Absent,
        },
    }
}

fn of_certificate<'a>(
    plain: Plain,
    client: &'a ClientCertificate,
    entry: &Entry<'_>,
) -> VariableValue<'a> {
    match plain {
        Plain::SslClientSDn => text(&client.subject),
        Plain::SslClientIDn => text(&client.issuer),
        Plain::SslClientSDnLegacy => text(&client.subject_line),
        Plain::SslClientIDnLegacy => text(&client.issuer_line),
        Plain::SslClientSerial => text(&client.serial),
        Plain::SslClientFingerprint => text(&client.fingerprint),
        Plain::SslClientVStart => VariableValue::CertificateTime(client.not_before),
        Plain::SslClientVEnd => VariableValue::CertificateTime(client.not_after),
        Plain::SslClientVRemain => {
            let now = entry.started.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
            let left = client.not_after.saturating_sub(i64::try_from(now).unwrap_or(i64::MAX));
            VariableValue::Number(u64::try_from(left).unwrap_or(0) / SECONDS_OF_DAY)
        }
        Plain::SslClientEscapedCert => text(&client.escaped),
        _ => VariableValue::Absent,
    }
}

/// Returns a number that differs from request to request. A request has the same one whenever it is
/// asked for, and a run in virtual time has the same ones again.
fn random(entry: &Entry<'_>) -> u32 {
    let started = entry.started.duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut mixed = started.as_nanos() as u64;
    let port = entry.peer.map_or(0, |peer| u64::from(peer.port()));
    for part in [entry.connection_requests, port << 32 | entry.worker as u64] {
        // The finalizer of SplitMix64.
        mixed = mixed.wrapping_add(part).wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
    }
    (mixed >> 32) as u32
}

/// The time at which the line is written, as nginx stamps it, computed without reading the clock
/// again.
fn written_at(entry: &Entry<'_>) -> SystemTime {
    entry.started + Duration::from_micros(entry.times.elapsed())
}

fn remote_address<'a>(entry: &Entry<'a>) -> VariableValue<'a> {
    let peer = entry.peer.map(|peer| peer.ip());
    entry.client.or(peer).map_or(VariableValue::Bytes(b"unix:"), VariableValue::Address)
}

/// Returns nginx's `$is_args`. nginx treats the empty query of `/?` as none.
fn question_mark(entry: &Entry<'_>) -> &'static [u8] {
    if query(current_target(entry)).is_none_or(<[u8]>::is_empty) { b"" } else { b"?" }
}

/// Returns nginx's `$proxy_add_x_forwarded_for`.
fn forwarded_for<'a>(entry: &'a Entry<'a>) -> VariableValue<'a> {
    match remote_address(entry) {
        VariableValue::Address(peer) => VariableValue::ForwardedFor(entry.request_headers, peer),
        none => none,
    }
}

/// The peer's port, unless a trusted proxy spoke for another client.
pub(crate) fn remote_port(entry: &Entry<'_>) -> Option<u16> {
    let peer = entry.peer?;
    let same = entry.client.is_none_or(|client| client.to_canonical() == peer.ip().to_canonical());
    same.then(|| peer.port())
}

/// The target after the last internal redirect.
fn current_target<'a>(entry: &Entry<'a>) -> &'a [u8] {
    if entry.internal_target.is_empty() { entry.target } else { entry.internal_target }
}

/// The target in origin form: `http://host/path?query` loses scheme and authority.
fn origin_form(target: &[u8]) -> &[u8] {
    if target.first() == Some(&b'/') {
        return target;
    }
    let Some(scheme) = target.windows(3).position(|window| window == b"://") else { return target };
    let after = &target[scheme + 3..];
    let end = after.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(after.len());
    if end == after.len() { b"/" } else { &after[end..] }
}

fn path(target: &[u8]) -> &[u8] {
    let target = origin_form(target);
    let end = target.iter().position(|byte| *byte == b'?').unwrap_or(target.len());
    &target[..end]
}

fn query(target: &[u8]) -> Option<&[u8]> {
    let at = target.iter().position(|byte| *byte == b'?')?;
    target.get(at + 1..)
}

fn argument<'a>(query: &'a [u8], name: &str) -> Option<&'a [u8]> {
    query.split(|byte| *byte == b'&').find_map(|pair| named_pair(pair, name))
}

/// Returns the value of a cookie as nginx finds it: names begin the line or follow a `;` or a `,`,
/// and a value ends with a `;`.
fn cookie<'a>(line: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let mut rest = line;
    loop {
        if let Some(value) = value_of(rest, name) {
            return value.split(|byte| *byte == b';').next();
        }
        let end = rest.iter().position(|byte| matches!(byte, b';' | b','))?;
        rest = after_spaces(&rest[end + 1..]);
    }
}

/// Returns what follows the name and a `=`.
fn value_of<'a>(text: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let (start, after) = text.split_at_checked(name.len())?;
    let value = after_spaces(after).strip_prefix(b"=")?;
    start.eq_ignore_ascii_case(name.as_bytes()).then(|| after_spaces(value))
}

fn after_spaces(text: &[u8]) -> &[u8] {
    let start = text.iter().position(|byte| *byte != b' ').unwrap_or(text.len());
    &text[start..]
}

/// nginx compares the names of arguments and cookies case-insensitively.
fn named_pair<'a>(pair: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let equals = pair.iter().position(|byte| *byte == b'=')?;
    pair[..equals].eq_ignore_ascii_case(name.as_bytes()).then(|| &pair[equals + 1..])
}

/// The base64 of `Authorization: Basic …`, if it contains a user.
fn basic_credentials<'a>(entry: &Entry<'a>) -> Option<&'a [u8]> {
    let line = entry.request_headers.value("authorization")?;
    let scheme = line.get(..6)?;
    let encoded = line.get(6..)?.trim_ascii();
    let decoded = scheme.eq_ignore_ascii_case(b"basic ") && decode_user(encoded, &mut |_| {});
    decoded.then_some(encoded)
}

fn append_basic_user(encoded: &[u8], how: Escape, out: &mut Vec<u8>) {
    decode_user(encoded, &mut |byte| escape::append(&[byte], how, out));
}

/// Passes each byte before the colon to `take`; returns false if the text is no base64 or has no
/// colon.
fn decode_user(encoded: &[u8], take: &mut dyn FnMut(u8)) -> bool {
    let (mut bits, mut count) = (0_u32, 0_u32);
    for byte in encoded {
        let digit = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return false,
        };
        bits = bits << 6 | u32::from(digit);
        count += 6;
        if count >= 8 {
            count -= 8;
            match (bits >> count) as u8 {
                b':' => return true,
                decoded => take(decoded),
            }
        }
    }
    false
}

fn hostname() -> &'static str {
    static HOSTNAME: LazyLock<String> = LazyLock::new(|| {
        std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned()
    });
    &HOSTNAME
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_taken_apart() {
        let check = |target: &str, expected: (&str, &str, Option<&str>)| {
            let target = target.as_bytes();
            assert_eq!(origin_form(target), expected.0.as_bytes());
            assert_eq!(path(target), expected.1.as_bytes());
            assert_eq!(query(target), expected.2.map(str::as_bytes));
        };
        check("/a?b=c?d", ("/a?b=c?d", "/a", Some("b=c?d")));
        check("/a", ("/a", "/a", None));
        check("/a?", ("/a?", "/a", Some("")));
        check("http://host/a?b", ("/a?b", "/a", Some("b")));
        check("http://host", ("/", "/", None));
        check("*", ("*", "*", None));
        check("/x://y", ("/x://y", "/x://y", None));
    }

    #[test]
    fn arguments_and_cookies_are_found_whole() {
        assert_eq!(argument(b"ab=1&b=2&b=3", "b"), Some(&b"2"[..]));
        assert_eq!(argument(b"b&B=", "b"), Some(&b""[..]));
        assert_eq!(argument(b"", "b"), None);
        assert_eq!(cookie(b"a=1; SRV=s2;x=3", "SRV"), Some(&b"s2"[..]));
        assert_eq!(cookie(b"XSRV=1", "SRV"), None);
        assert_eq!(cookie(b"SRV; srv = a,b=c;SRV=2", "SRV"), Some(&b"a,b=c"[..]));
        assert_eq!(cookie(b"SRV", "SRV"), None);
    }

    #[test]
    fn a_user_needs_base64_and_a_colon() {
        let user = |encoded: &str| {
            let mut out = Vec::new();
            decode_user(encoded.as_bytes(), &mut |byte| out.push(byte))
                .then(|| String::from_utf8(out).unwrap())
        };
        assert_eq!(user("YWxpY2U6c2VjcmV0").as_deref(), Some("alice"));
        assert_eq!(user("Og==").as_deref(), Some(""));
        assert_eq!(user("YWxpY2U="), None);
        assert_eq!(user("!!!!"), None);
    }
}
