//! Applies the limits on clients and on rates to a request: passes, refuses or delays it.

use std::net::IpAddr;
use std::time::Duration;

use weir_stats::Cause;

use crate::exchange::client_side::{ClientSide, wait_with};
use crate::exchange::facts::RequestArrival;
use crate::exchange::outcome::{Ended, Refusal};
use crate::exchange::request_key;
use crate::exchange::scope::Scope;
use crate::exchange::state::Exchange;
use crate::limiting::key_limits::KeyLimits;
use crate::limiting::keyed::KeyedLimit;
use crate::limiting::{Refused, Told};
use crate::net::Net;
use crate::routing::route::CompiledRoute;
use crate::time::deadline_timer::Elapsed;
use crate::time::instant::Instant;

impl Refused {
    /// The end of the exchange that the refusal leads to.
    fn ended(self, arrival: &mut RequestArrival) -> Ended {
        let (cause, status) = (self.cause, self.status);
        let before = arrival.told.take().unwrap_or_default();
        arrival.told = Some(Box::new(Told { counted: before.counted, ..self.told }));
        if self.silent { Ended::Broken(cause) } else { Ended::Refused(Refusal { cause, status }) }
    }
}

/// A time on the table's clock.
fn table_clock<N: Net>(scope: Scope<'_, N>, now: Instant) -> u64 {
    scope.worker.process.limit_clock(now)
}

/// Applies the limits on clients to a request.
pub(crate) fn admit_client<C: ClientSide>(
    exchange: &mut Exchange<'_, C>,
    client: Option<IpAddr>,
) -> Result<(), Ended> {
    let scope = exchange.scope;
    let limits = &scope.listener.client_limits;
    let Some(client) = client.filter(|_| !limits.is_empty()) else { return Ok(()) };
    let now_ns = table_clock(scope, exchange.arrival.head_end);
    for limit in limits {
        // Bytes that are no valid request are charged as one, but are not counted as in flight.
        let places = exchange.arrival.has_head.then_some(&mut exchange.arrival.places);
        if let Err(refused) = limit.begin_request(client, scope.worker.number, now_ns, places) {
            return Err(refused.ended(&mut exchange.arrival));
        }
    }
    Ok(())
}

/// The lists of limits by key that count a request on this route.
fn lists<'a, C: ClientSide>(
    exchange: &Exchange<'a, C>,
    route: &'a CompiledRoute,
) -> impl Iterator<Item = &'a KeyLimits> + use<'a, C> {
    [&exchange.scope.listener.key_limits, &route.key_limits].into_iter()
}

/// Tells whether a request on this route is limited by key.
pub(crate) fn is_limited<'a, C: ClientSide>(
    exchange: &Exchange<'a, C>,
    route: &'a CompiledRoute,
) -> bool {
    lists(exchange, route).any(KeyLimits::is_any)
}

/// Notes the limits that have counted or refused a request which is redirected from this route to
/// another: they do not count it again.
pub(crate) fn note_counted<'a, C: ClientSide>(
    exchange: &mut Exchange<'a, C>,
    route: &'a CompiledRoute,
) {
    let asked = std::mem::take(&mut exchange.arrival.limits_asked);
    if asked > 0 {
        let rates = lists(exchange, route).flat_map(|lists| &lists.rates);
        let in_flight = lists(exchange, route).flat_map(|lists| &lists.in_flight);
        let limits = rates.map(|limit| &limit.keyed).chain(in_flight.map(|limit| &limit.keyed));
        let numbers = limits.map(|limit| limit.number).take(usize::from(asked));
        let told = exchange.arrival.told.get_or_insert_default();
        told.counted.extend(numbers);
    }
}

/// Applies the limits by key of the listener and the route to a request; waits if they delay it.
pub(crate) async fn admit<'a, C: ClientSide>(
    exchange: &mut Exchange<'a, C>,
    route: &'a CompiledRoute,
) -> Result<(), Ended> {
    let scope = exchange.scope;
    let now_ns = table_clock(scope, exchange.arrival.head_end);
    let mut wait_ns = 0;
    for limit in lists(exchange, route).flat_map(|lists| &lists.rates) {
        exchange.arrival.limits_asked = exchange.arrival.limits_asked.saturating_add(1);
        let taken = with_key(exchange, &limit.keyed, |key, exchange| {
            limit.take(key, now_ns, &mut exchange.arrival.told)
        });
        match taken.unwrap_or(Ok(0)) {
            Ok(own_ns) => wait_ns = wait_ns.max(own_ns),
            Err(refused) => return Err(refused.ended(&mut exchange.arrival)),
        }
    }
    if wait_ns > 0 {
        let until = exchange.arrival.head_end + Duration::from_nanos(wait_ns);
        wait(exchange, until).await?;
    }
    // A request that waits for its rate is not in flight yet.
    let now_ns = table_clock(scope, Instant::now());
    for limit in lists(exchange, route).flat_map(|lists| &lists.in_flight) {
        exchange.arrival.limits_asked = exchange.arrival.limits_asked.saturating_add(1);
        let entered = with_key(exchange, &limit.keyed, |key, exchange| {
            let places = &mut exchange.arrival.places;
            limit.enter(key, exchange.scope.worker.number, now_ns, places)
        });
        if let Some(Err(refused)) = entered {
            return Err(refused.ended(&mut exchange.arrival));
        }
    }
    Ok(())
}

/// Calls `then` with the key of a request; not if the key is empty, or if the limit has counted
/// the request already.
fn with_key<'a, C: ClientSide, R>(
    exchange: &mut Exchange<'a, C>,
    limit: &KeyedLimit,
    then: impl FnOnce(&[u8], &mut Exchange<'a, C>) -> R,
) -> Option<R> {
    if exchange.arrival.told.as_ref().is_some_and(|told| told.counted.contains(&limit.number)) {
        return None;
    }
    let mut text = std::mem::take(&mut exchange.heads.key);
    request_key::fill(exchange, &limit.key, &mut text);
    let result = (!text.is_empty()).then(|| then(&text, exchange));
    exchange.heads.key = text;
    result
}

/// Waits until `until`, unless the client closes its connection.
pub(crate) async fn wait<C: ClientSide>(
    exchange: &mut Exchange<'_, C>,
    until: Instant,
) -> Result<(), Ended> {
    let buffers = &exchange.scope.worker.buffers;
    let gone = wait_with(&mut exchange.client, until, |client, context| {
        client.poll_gone(context, buffers)
    });
    match gone.await {
        Ok(()) => Err(Ended::Broken(Cause::ClientGone)),
        Err(Elapsed) => Ok(()),
    }
}
