//! The exchange of a TCP connection: finds its route, gets an endpoint of the pool as a request
//! does, and joins both connections into a tunnel, or writes the text of a `respond`. It looks at
//! no byte but the beginning of a TLS handshake, if routes depend on it.

use std::pin::pin;
use std::task::Poll;

use weir_config::model::PassiveCause;
use weir_stats::{Cause, Micros, Times};
use weir_wire::Framing;

use crate::exchange::client_side::ClientSide;
use crate::exchange::dispatch::Dispatch;
use crate::exchange::local_reply::{ResponsePiece, Taking, write_paced};
use crate::exchange::outcome::{Ended, Next, Refusal};
use crate::exchange::proxy_request::enter_pool;
use crate::exchange::pump::{Bounds, Encoder, Pump};
use crate::exchange::request_limits;
use crate::exchange::scope::Scope;
use crate::exchange::state::Exchange;
use crate::exchange::throttle::throttle;
use crate::exchange::tunnel::{self, Switched};
use crate::exchange::{find_route, list_as_running, pool_of, preference, record, request_key};
use crate::limiting::bandwidth::Toward;
use crate::routing::route::{CompiledAction, CompiledRespond};
use crate::time::instant::Instant;
use crate::time::work_time::WorkTime;
use crate::worker::workspace::Heads;

/// The status under which a connection that reached an endpoint, or got a text, is counted and
/// logged, as in nginx's `stream`.
const CONNECTED: u16 = 200;

/// Serves a connection until it ends. One that reached no endpoint lingers: a close with unread
/// bytes would be a reset.
pub(crate) async fn run<C: ClientSide>(scope: Scope<'_, C::Net>, client: C) -> Next {
    let (now, mut heads) = (Instant::now(), Heads::default());
    let session = list_as_running(scope, client.facts(), now);
    let mut exchange = Exchange::new(scope, session.key, client, &mut heads, now);
    let Exchange { client, arrival, outcome, .. } = &mut exchange;
    // The code after this reads a head that is empty but for the host.
    arrival.has_head = true;
    outcome.times.handshake = client.facts().handshake();
    outcome.times.idle = now.span_since(client.facts().since);
    outcome.times.request = Micros::ZERO;
    let mut own = WorkTime::begun(scope.worker.turn.work_begins(now));
    let end = {
        let mut serving = pin!(serve(&mut exchange));
        std::future::poll_fn(|context| {
            if let Some(cause) = scope.ends_now(session.key) {
                return Poll::Ready(Err(cause.into()));
            }
            own.poll(&scope.worker.turn, serving.as_mut(), context)
        })
        .await
    };
    let next = end.unwrap_or_else(|end| refuse(&mut exchange, end));
    drop(session);
    let now = Instant::now();
    if exchange.outcome.status == CONNECTED {
        exchange.outcome.times.data = data_time(&exchange, now);
    }
    exchange.outcome.times.own = own.until(now);
    record::write(&mut exchange, now);
    exchange.client.end(now);
    next
}

/// Notes why the connection reached no endpoint, or was ended from outside.
fn refuse<C: ClientSide>(exchange: &mut Exchange<'_, C>, end: Ended) -> Next {
    let Refusal { cause, status } = match end {
        Ended::Refused(refusal) => refusal,
        Ended::Broken(cause) => cause.into(),
        Ended::Silent | Ended::Parted | Ended::Redirected => Cause::Internal.into(),
    };
    exchange.outcome.cause = cause;
    if exchange.outcome.status != 0 {
        return Next::BreakOff;
    }
    exchange.set_status(status);
    match cause {
        Cause::ClientGone
        | Cause::Shutdown
        | Cause::Memory
        | Cause::ConnectionCap
        | Cause::RateLimited
        | Cause::InFlightLimited => Next::Close,
        _ => Next::Linger,
    }
}

/// The time since the endpoint's first byte, or since it was connected if it has sent none. The
/// times before that follow each other without a gap.
fn data_time<C: ClientSide>(exchange: &Exchange<'_, C>, now: Instant) -> Micros {
    let Times { queue, connect, response, .. } = exchange.outcome.times;
    let before = [queue, connect, response].into_iter().filter_map(Micros::reached).sum();
    let all = now.span_since(exchange.arrival.head_end).reached();
    Micros::from(all.map(|all| all.saturating_sub(before)))
}

async fn serve<C: ClientSide>(exchange: &mut Exchange<'_, C>) -> Result<Next, Ended> {
    let scope = exchange.scope;
    C::read_head(exchange).await?;
    exchange.outcome.times.request =
        exchange.arrival.head_end.span_since(exchange.arrival.first_byte);
    let found = find_route(exchange)?;
    exchange.route = Some(found);
    let pool = pool_of(exchange, found)?;
    if request_limits::is_limited(exchange, found) {
        Box::pin(request_limits::admit(exchange, found)).await?;
    }
    let sessions = &scope.worker.sessions;
    sessions.asks(exchange.session, exchange.arrival.head_end, exchange.client.head());
    sessions.takes(exchange.session, found.number, exchange.arrival.client);
    if let CompiledAction::Respond(respond) = &found.action {
        return Box::pin(write_text(exchange, respond)).await;
    }
    let number = pool.ok_or(Cause::NoRoute)? as usize;
    let pool = scope.generation.pool(number).ok_or(Cause::Internal)?;
    enter_pool(exchange, pool, number)?;
    exchange.placement.key = request_key::of(exchange, pool);
    preference::apply(exchange, pool);
    let (up, down) = (throttle(exchange, Toward::Endpoint), throttle(exchange, Toward::Client));
    // While the connection waits for an endpoint, the client's bytes stay in its socket.
    let (framing, encoder) = (Framing::None, Encoder::Plain);
    let mut nothing = Pump::new(Vec::new(), framing, encoder, Vec::new(), 0, Bounds::default());
    let mut dispatch = Dispatch::new(exchange, pool, number, &nothing);
    let upstream = dispatch.connection(exchange, &mut nothing).await?;
    let at = dispatch.at(exchange.placement.endpoint.unwrap_or_default());
    // Either side may send first, so the endpoint has answered once it is connected.
    scope.slot_answered(exchange.placement.slot.as_mut(), at, dispatch.now);
    exchange.set_status(CONNECTED);
    let timeouts = &at.rules.timeouts;
    let (patience, after_client) = (timeouts.tunnel, timeouts.half_closed);
    let (surplus, silent) = (Vec::new(), Some(at));
    let switched = Switched { patience, after_client, upstream, surplus, up, down, silent };
    let next = tunnel::run(exchange, switched).await;
    // An endpoint that resets after bytes of the client may have been given reason to.
    let Exchange { arrival, outcome, .. } = exchange;
    if outcome.cause == Cause::TunnelUpstreamReset
        && (arrival.bytes_received, outcome.body_bytes_sent) == (0, 0)
    {
        scope.endpoint_failed(at, PassiveCause::Reset);
    }
    Ok(next)
}

/// Writes the text of a `respond`, and ends the connection. Bytes that the client has sent are not
/// read: the connection lingers, so that they take nothing of the text away.
async fn write_text<C: ClientSide>(
    exchange: &mut Exchange<'_, C>,
    respond: &CompiledRespond,
) -> Result<Next, Ended> {
    let scope = exchange.scope;
    let mut scratch = Vec::new();
    let text = record::with_entry(exchange, |entry| respond.body(entry, &mut scratch));
    let text = text.unwrap_or_default();
    exchange.set_status(CONNECTED);
    let taking = &mut Taking::new(scope.client_rate(false));
    let sent = write_paced(scope, &mut exchange.client, text, ResponsePiece::Last, taking).await;
    exchange.outcome.bytes_sent += taking.written();
    exchange.outcome.body_bytes_sent = taking.written();
    sent.map_err(Ended::Broken)?;
    Ok(Next::Linger)
}
