//! Keeps malformed requests for the operator.

use crate::exchange::client_side::ClientSide;
use crate::exchange::state::Exchange;
use crate::worker::capture::Malformed;

/// Keeps a malformed request, whose fault is at `position`, for the operator.
pub(crate) fn keep_malformed<C: ClientSide>(
    exchange: &Exchange<'_, C>,
    reason: &'static str,
    position: usize,
) {
    let Exchange { scope, client, arrival, .. } = exchange;
    scope.worker.process.captures.keep(&Malformed {
        listener: &scope.listener.name,
        endpoint: None,
        peer: client.facts().peer,
        at: scope.worker.wall(arrival.head_end),
        reason,
        position,
        bytes: client.head(),
    });
}
