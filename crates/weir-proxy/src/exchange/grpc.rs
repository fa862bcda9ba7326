//! Calls of gRPC: the deadline that a client sets, and failures of Weir's own, which a client reads
//! from headers instead of a page. Requests over HTTP/1 are calls only in the form of gRPC-Web.
//! `grpc_status.rs` reads the statuses of endpoints, `grpc_web.rs` converts calls of gRPC-Web.

use std::time::Duration;

use weir_stats::metrics::GrpcCall;
use weir_stats::{Cause, GrpcStatus, is_grpc};
use weir_wire::{Method, reason_phrase};

use crate::exchange::client_side::ClientSide;
use crate::exchange::state::Exchange;

/// The headers of a failure.
pub(crate) type FailureHeaders = [(&'static str, String); 2];

/// Returns true if the request may be a call; most over HTTP/1 may not.
pub(crate) fn may_be_call<C: ClientSide>(exchange: &Exchange<'_, C>) -> bool {
    C::SPEAKS_GRPC || exchange.heads.web_call.is_some()
}

/// Returns true if the request is a call.
pub(crate) fn is_call<C: ClientSide>(exchange: &Exchange<'_, C>) -> bool {
    let Exchange { client, heads, arrival, .. } = exchange;
    if heads.web_call.is_some() {
        return true;
    }
    C::SPEAKS_GRPC
        && arrival.has_head
        && heads.request.method == Method::Post
        && heads.request.header(client.head(), "content-type").is_some_and(is_grpc)
}

/// The time after its beginning at which the client gives a call up.
pub(crate) fn timeout<C: ClientSide>(exchange: &Exchange<'_, C>) -> Option<Duration> {
    if !may_be_call(exchange) || !is_call(exchange) {
        return None;
    }
    parse_timeout(exchange.heads.request.header(exchange.client.head(), "grpc-timeout")?)
}

/// Parses the value of `grpc-timeout`: up to eight digits and a unit.
fn parse_timeout(value: &[u8]) -> Option<Duration> {
    let (unit, digits) = value.split_last()?;
    if digits.is_empty() || digits.len() > 8 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number: u64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    match unit {
        b'H' => Some(Duration::from_secs(number * 3_600)),
        b'M' => Some(Duration::from_secs(number * 60)),
        b'S' => Some(Duration::from_secs(number)),
        b'm' => Some(Duration::from_millis(number)),
        b'u' => Some(Duration::from_micros(number)),
        b'n' => Some(Duration::from_nanos(number)),
        _ => None,
    }
}

/// The head of a response of Weir's own to a call.
pub(crate) struct CallFailure {
    pub(crate) content_type: &'static str,
    pub(crate) headers: FailureHeaders,
}

/// The head of a response of Weir's own to a call, if a response of HTTP with this status would be
/// a failure. The status of the call is recorded.
pub(crate) fn failure<C: ClientSide>(
    exchange: &mut Exchange<'_, C>,
    status: u16,
) -> Option<CallFailure> {
    if !may_be_call(exchange) || status < 400 || !is_call(exchange) {
        return None;
    }
    let code = match exchange.outcome.cause {
        Cause::TotalTimeout => GrpcStatus::DEADLINE_EXCEEDED,
        _ => GrpcStatus::of_http(status),
    };
    exchange.outcome.grpc_status = Some(code);
    let message = reason_phrase(status).to_owned();
    let web = exchange.heads.web_call;
    Some(CallFailure {
        content_type: web.map_or("application/grpc", |call| call.response.content_type()),
        headers: [("grpc-status", code.code().to_string()), ("grpc-message", message)],
    })
}

/// Counts a call that has ended, if the listener asks for it.
pub(crate) fn count_call<C: ClientSide>(exchange: &Exchange<'_, C>) {
    if !may_be_call(exchange) || !exchange.scope.listener.grpc.metrics || !is_call(exchange) {
        return;
    }
    let Exchange { scope, placement, outcome, .. } = exchange;
    let is_answered = placement.endpoint.is_some() && outcome.times.response.reached().is_some();
    scope.worker.process.numbers.record_call(
        scope.worker.number,
        &GrpcCall {
            listener: &scope.listener.name,
            path: exchange.request_view().path(),
            status: outcome.grpc_status,
            is_of_server: is_answered,
            elapsed_us: outcome.times.elapsed(),
        },
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_has_up_to_eight_digits_and_a_unit() {
        for (value, expected) in [
            ("1H", Duration::from_hours(1)),
            ("2M", Duration::from_mins(2)),
            ("3S", Duration::from_secs(3)),
            ("250m", Duration::from_millis(250)),
            ("5u", Duration::from_micros(5)),
            ("99999999n", Duration::from_nanos(99_999_999)),
            ("0S", Duration::ZERO),
        ] {
            assert_eq!(parse_timeout(value.as_bytes()), Some(expected), "{value}");
        }
        for value in ["", "S", "1", "1s", "-1S", "+1S", "1.5S", "123456789S", "1 S"] {
            assert_eq!(parse_timeout(value.as_bytes()), None, "{value}");
        }
    }
}
