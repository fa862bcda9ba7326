//! The throttle of a body: the limit of its route or listener, with the key of its request.

use crate::exchange::client_side::ClientSide;
use crate::exchange::request_key;
use crate::exchange::state::Exchange;
use crate::limiting::bandwidth::{Throttle, Toward};

/// The throttle of a body, from the route's limit or else the listener's.
pub(crate) fn throttle<C: ClientSide>(
    exchange: &mut Exchange<'_, C>,
    toward: Toward,
) -> Option<Box<Throttle>> {
    let scope = exchange.scope;
    // A route's limit replaces that of its listener.
    let own = exchange.route.and_then(|route| route.bandwidth.as_ref());
    let limit = own.or(scope.listener.bandwidth.as_ref())?;
    if !limit.bounds(toward) {
        return None;
    }
    let mut text = std::mem::take(&mut exchange.heads.key);
    if let Some(key) = limit.key() {
        request_key::fill(exchange, key, &mut text);
    }
    let throttle = limit.throttle(toward, &text, scope.worker.process.epoch);
    exchange.heads.key = text;
    throttle
}
