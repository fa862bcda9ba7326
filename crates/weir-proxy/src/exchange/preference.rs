//! The endpoint (`use_server`) and the method (`request_method`) that a route names for its
//! requests. The balancer gives the slot.

use weir_stats::Entry;

use crate::exchange::client_side::ClientSide;
use crate::exchange::record;
use crate::exchange::state::Exchange;
use crate::upstream::UpstreamPool;
use crate::upstream::preference::PreferredServers;

/// Applies the lines of the route for requests to this pool.
pub(crate) fn apply<'a, C: ClientSide>(exchange: &mut Exchange<'a, C>, pool: &'a UpstreamPool) {
    let rules = exchange.rules(pool);
    if let Some(servers) = &rules.servers {
        name_server(exchange, pool, servers);
    }
    // That of a route before, which an internal redirect left.
    exchange.heads.method.clear();
    if let Some(methods) = &rules.methods {
        let mut method = std::mem::take(&mut exchange.heads.method);
        record::with_entry(exchange, |entry| methods.write(entry, &mut method));
        exchange.heads.method = method;
    }
}

/// Binds the exchange to the endpoint that a line of its route names, if one does.
fn name_server<C: ClientSide>(
    exchange: &mut Exchange<'_, C>,
    pool: &UpstreamPool,
    servers: &PreferredServers,
) {
    let now_us = exchange.scope.worker.balance_clock(exchange.arrival.head_end);
    let is_available = |index| pool.balancer.takes_bound(index, now_us);
    let mut buffer = std::mem::take(&mut exchange.heads.key);
    let find = |entry: &Entry<'_>| servers.find(entry, is_available, &mut buffer);
    let found = record::with_entry(exchange, find);
    exchange.heads.key = buffer;
    if let Some(index) = found {
        exchange.placement.claim = exchange.placement.claim.named(index);
    }
}
