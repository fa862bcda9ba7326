//! The status of a call of gRPC in the head or in the trailers of an endpoint's response: it is
//! recorded, counts for the health of the endpoint, and may lead to another attempt.

use weir_stats::GrpcStatus;

use crate::exchange::client_side::ClientSide;
use crate::exchange::grpc::{is_call, may_be_call};
use crate::exchange::passive::JudgedBy;
use crate::exchange::state::Exchange;
use crate::upstream::EndpointRef;
use crate::upstream::retry::Trouble;

/// The part of a response that says if its endpoint succeeded.
pub(crate) fn judged_by<C: ClientSide>(
    exchange: &Exchange<'_, C>,
    at: EndpointRef<'_>,
) -> JudgedBy {
    let is_judged = may_be_call(exchange) && at.pool.counts_calls() && is_call(exchange);
    if is_judged { JudgedBy::GrpcStatus } else { JudgedBy::Status }
}

/// Records the status of a call that the head of a response tells; returns the trouble that it
/// means for the pool's `retry`. The head is at the beginning of `raw`.
pub(crate) fn note_head<C: ClientSide>(
    exchange: &mut Exchange<'_, C>,
    at: EndpointRef<'_>,
    raw: &[u8],
) -> Option<Trouble> {
    if !may_be_call(exchange) || !is_call(exchange) {
        return None;
    }
    let value = exchange.heads.response.header(raw, "grpc-status")?;
    let status = GrpcStatus::of_value(value)?;
    note_status(exchange, at, status);
    at.rules.retry.minds_grpc(status).then_some(Trouble::Grpc(status))
}

/// Records the status of a call that these trailers tell.
pub(crate) fn note_trailers<C: ClientSide>(
    exchange: &mut Exchange<'_, C>,
    at: EndpointRef<'_>,
    trailers: &[u8],
) {
    if !may_be_call(exchange) || trailers.is_empty() || !is_call(exchange) {
        return;
    }
    let values = trailers.split(|byte| *byte == b'\n').filter_map(|line| {
        let colon = memchr::memchr(b':', line)?;
        let (name, value) = line.split_at(colon);
        name.eq_ignore_ascii_case(b"grpc-status").then(|| value.get(1..).unwrap_or_default())
    });
    let status = values.map(<[u8]>::trim_ascii).find_map(GrpcStatus::of_value);
    if let Some(status) = status {
        note_status(exchange, at, status);
    }
}

fn note_status<C: ClientSide>(
    exchange: &mut Exchange<'_, C>,
    at: EndpointRef<'_>,
    status: GrpcStatus,
) {
    exchange.outcome.grpc_status = Some(status);
    exchange.scope.call_ended(at, status);
}
