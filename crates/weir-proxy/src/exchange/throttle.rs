//! The throttle of a body: the limit of its route or listener, with the key of its request.

use crate::exchange::client_connection::Connection;
use crate::exchange::facts::Facts;
use crate::exchange::request_key;
use crate::exchange::scope::Scope;
use crate::limiting::bandwidth::{Throttle, Toward};
use crate::net::Net;
use crate::routing::route::CompiledRoute;
use crate::worker::workspace::Workspace;

/// The throttle of a body, from the route's limit or else the listener's.
pub(crate) fn throttle<N: Net>(
    scope: Scope<'_, N>,
    connection: &Connection<N>,
    work: &mut Workspace,
    facts: &Facts,
    route: &CompiledRoute,
    toward: Toward,
) -> Option<Box<Throttle>> {
    // A route's limit replaces that of its listener.
    let limit = route.bandwidth.as_ref().or(scope.listener.bandwidth.as_ref())?;
    if !limit.bounds(toward) {
        return None;
    }
    let mut text = std::mem::take(&mut work.key);
    if let Some(key) = limit.key() {
        request_key::fill(scope, connection, work, (facts, route), (key, &mut text));
    }
    let throttle = limit.throttle(toward, &text, scope.worker.process.epoch);
    work.key = text;
    throttle
}
