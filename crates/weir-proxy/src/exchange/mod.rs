//! One exchange: reads a request head, finds its route, has it answered and records it.
//! `proxy_request.rs` and `response.rs` do the work with a pool, `local_reply.rs` writes Weir's
//! own responses.

pub(crate) mod announcement;
pub(crate) mod attempt;
pub(crate) mod body_stream;
pub(crate) mod carry_over;
pub(crate) mod client_side;
pub(crate) mod dispatch;
pub(crate) mod error_page;
pub(crate) mod explain;
pub(crate) mod facts;
pub(crate) mod files;
pub(crate) mod grpc;
pub(crate) mod grpc_status;
pub(crate) mod grpc_web;
pub(crate) mod internal_redirect;
pub(crate) mod local_reply;
pub(crate) mod malformed;
pub(crate) mod outcome;
pub(crate) mod passive;
pub(crate) mod preference;
pub(crate) mod proxy_request;
pub(crate) mod pump;
pub(crate) mod reasons;
pub(crate) mod record;
pub(crate) mod request_key;
pub(crate) mod request_limits;
pub(crate) mod response;
pub(crate) mod rewrite;
pub(crate) mod scope;
pub(crate) mod server_name;
pub(crate) mod state;
pub(crate) mod stream_watch;
pub(crate) mod tcp;
#[cfg(test)]
mod tests;
pub(crate) mod throttle;
pub mod trace;
pub(crate) mod tunnel;
pub(crate) mod upload;
pub(crate) mod whole_response;

use std::task::{Context, Poll};
use std::time::Duration;

use tokio::task::yield_now;
use weir_config::model::RequestTimeout;
use weir_stats::{Cause, Template};
use weir_wire::{Framing, Method};

use crate::exchange::client_side::{ClientSide, ConnectionFacts};
use crate::exchange::malformed::keep_malformed;
use crate::exchange::outcome::{Ended, Next, Refusal};
use crate::exchange::scope::Scope;
use crate::exchange::state::Exchange;
use crate::http::client_address::{PeerTrust, allowed, client_address};
use crate::http::{header_names, path};
use crate::limits::LONG_HEAD;
use crate::net::Net;
use crate::routing::route::{CompiledAction, CompiledRespond, CompiledRoute};
use crate::time::deadline_timer::DeadlineTimer;
use crate::time::instant::Instant;
use crate::time::work_time::WorkTime;
use crate::worker::load::HeadReading;
use crate::worker::sessions::{BegunExchange, Session};
use crate::worker::workspace::Heads;

/// Serves the next request of a client, whose first byte came at `first_byte`.
pub(crate) async fn run<C: ClientSide>(
    scope: Scope<'_, C::Net>,
    client: C,
    heads: &mut Heads,
    first_byte: Instant,
) -> Next {
    heads.clear();
    let session = list_as_running(scope, client.facts(), first_byte);
    let mut exchange = Exchange::new(scope, session.key, client, heads, first_byte);
    let Exchange { client, arrival, placement, outcome, .. } = &mut exchange;
    outcome.times.handshake = client.facts().handshake();
    outcome.times.idle = first_byte.span_since(client.facts().since);
    let mut own = WorkTime::begun(scope.worker.turn.work_begins(first_byte));
    if let Some(waiting) = client.take_waiting() {
        // Work that another process did for the exchange is not counted as ours.
        own = WorkTime::begun(Instant::now());
        placement.queue_position = waiting.queue_position;
        arrival.waiting = Some(waiting);
    }
    let served = {
        // Pinned in place: it is large, and moving it would copy it for every request.
        let mut serving = std::pin::pin!(serve(&mut exchange));
        let mut total = DeadlineTimer::default();
        std::future::poll_fn(|context| {
            if let Some(cause) = scope.ends_now(session.key) {
                return Poll::Ready(Err(cause));
            }
            if let Poll::Ready(outcome) = own.poll(&scope.worker.turn, serving.as_mut(), context) {
                return Poll::Ready(Ok(outcome));
            }
            poll_deadline(scope, context, &mut total).map(|()| Err(Cause::TotalTimeout))
        })
        .await
    };
    let end = served.unwrap_or_else(|cause| Err(cut_short(cause, &exchange)));
    let next = match end {
        Ok(next) => next,
        Err(Ended::Refused(refusal)) => refuse_in_time(&mut exchange, &mut own, refusal).await,
        // Never: `serve` follows it.
        Err(Ended::Redirected) => {
            refuse_in_time(&mut exchange, &mut own, Cause::Internal.into()).await
        }
        Err(Ended::Broken(cause)) => {
            let Exchange { client, heads, outcome, .. } = &mut exchange;
            outcome.cause = cause;
            if cause == Cause::ClientGone && outcome.status == 0 {
                outcome.status = 499;
            }
            client.after_break(&heads.request, cause)
        }
        Err(Ended::Silent) => return Next::Close,
        Err(Ended::Parted) => {
            let Heads { request, original_line, .. } = exchange.heads;
            path::restore(request, exchange.client.head_mut(), original_line);
            original_line.clear();
            return Next::Part;
        }
    };
    drop(session);
    let now = exchange.outcome.ended.unwrap_or_else(Instant::now);
    exchange.outcome.times.own = own.until(now);
    record::write(&mut exchange, now);
    exchange.client.end(now);
    next
}

/// Lists the exchange among those that run on the worker.
fn list_as_running<'a, N: Net>(
    scope: Scope<'a, N>,
    facts: &ConnectionFacts,
    first_byte: Instant,
) -> Session<'a> {
    scope.worker.sessions.begin(&BegunExchange {
        at: first_byte,
        peer: facts.peer,
        resident: facts.resident,
        exchanges: facts.served,
        generation: scope.generation,
        listener: scope.number,
    })
}

/// Sends a refusal within the rest of the exchange's total time, or the send timeout if that is
/// longer.
async fn refuse_in_time<C: ClientSide>(
    exchange: &mut Exchange<'_, C>,
    own: &mut WorkTime,
    refusal: Refusal,
) -> Next {
    let scope = exchange.scope;
    // An endpoint's slot is not held while the client reads our response.
    exchange.placement.slot = None;
    let least = scope.listener.timeouts.send;
    scope.set_deadline(scope.deadline().map(|end| end.max(Instant::now() + least)));
    let scarce = matches!(refusal.cause, Cause::Memory | Cause::ConnectionCap);
    let refusing = local_reply::refuse(exchange, refusal);
    let mut refusing = std::pin::pin!(refusing);
    let mut total = DeadlineTimer::default();
    std::future::poll_fn(|context| {
        let sent = own.poll(&scope.worker.turn, refusing.as_mut(), context);
        if sent.is_ready() {
            return sent;
        }
        if scarce {
            // Other exchanges need its memory or its place: the client gets the response only if
            // its socket takes it at once.
            return Poll::Ready(Next::Close);
        }
        poll_deadline(scope, context, &mut total).map(|()| Next::Close)
    })
    .await
}

/// Ready when the exchange has reached its total time limit.
fn poll_deadline<N: Net>(
    scope: Scope<'_, N>,
    context: &mut Context<'_>,
    timer: &mut DeadlineTimer,
) -> Poll<()> {
    scope.deadline().map_or(Poll::Pending, |deadline| timer.poll(context, deadline))
}

/// The end of an exchange that was ended from outside: if no byte was sent to the client, it still
/// gets a response.
fn cut_short<C: ClientSide>(cause: Cause, exchange: &Exchange<'_, C>) -> Ended {
    match cause {
        Cause::TotalTimeout if !exchange.arrival.has_head => Cause::RequestTimeout.into(),
        _ if exchange.outcome.status == 0 => cause.into(),
        _ => Ended::Broken(cause),
    }
}

async fn serve<C: ClientSide>(exchange: &mut Exchange<'_, C>) -> Result<Next, Ended> {
    limit_time(exchange);
    read_head(exchange).await?;
    let is_long = exchange.heads.request.head_bytes > LONG_HEAD;
    if is_long {
        yield_now().await;
    }
    normalise_path(exchange).map_err(Ended::Refused)?;
    if is_long {
        yield_now().await;
    }
    let mut end = find_route(exchange);
    if is_long {
        yield_now().await;
    }
    loop {
        // The steps of a round are not a function of their own, because a future within this one
        // would be larger.
        let answered = 'round: {
            let found = match end {
                Ok(found) => found,
                Err(ended) => break 'round Err(ended),
            };
            if request_limits::is_limited(exchange, found) {
                // In an allocation of its own, so that exchanges without limits do not reserve
                // space for it.
                if let Err(ended) = Box::pin(request_limits::admit(exchange, found)).await {
                    break 'round Err(ended);
                }
            }
            if exchange.heads.request.method == Method::Connect {
                // A gateway does not open tunnels to arbitrary hosts, and a 2xx from any action
                // would tell the client that one is open.
                return Err(Ended::Refused(Refusal { cause: Cause::BadRequest, status: 405 }));
            }
            let pool = match pool_of(exchange, found) {
                Ok(pool) => pool,
                Err(ended) => break 'round Err(ended),
            };
            bound(exchange, found, pool);
            answer(exchange, found, pool).await
        };
        let answered = match answered {
            Err(Ended::Refused(refusal))
                if error_page::target_for(exchange, refusal.page_status()).is_some() =>
            {
                Box::pin(error_page::lead(exchange, refusal)).await
            }
            answered => answered,
        };
        if !matches!(answered, Err(Ended::Redirected)) {
            return answered;
        }
        if let Ok(route) = end {
            request_limits::note_counted(exchange, route);
        }
        // The new target may be long, and each route of a chain has its own rules and files.
        yield_now().await;
        limit_time(exchange);
        end = permitted_route(exchange);
    }
}

/// Sets the exchange's total time limit to the listener's.
fn limit_time<C: ClientSide>(exchange: &Exchange<'_, C>) {
    let total = exchange.scope.listener.timeouts.request;
    exchange.scope.set_deadline(total.map(|wait| exchange.arrival.first_byte + wait));
}

/// The pool that the request goes to, by its number, small because it is kept while the request is
/// served; `None` if the route leads to none.
fn pool_of<C: ClientSide>(
    exchange: &mut Exchange<'_, C>,
    route: &CompiledRoute,
) -> Result<Option<u32>, Ended> {
    let key = match &route.action {
        CompiledAction::Pool(pool) => return Ok(Some(*pool as u32)),
        CompiledAction::PoolBy(choice) => Some(&choice.by),
        CompiledAction::Split(split) => split.key.as_ref(),
        CompiledAction::Respond(_)
        | CompiledAction::Redirect(_)
        | CompiledAction::Files(_)
        | CompiledAction::Internal => {
            return Ok(None);
        }
    };
    let mut text = std::mem::take(&mut exchange.heads.key);
    text.clear();
    if let Some(key) = key {
        request_key::fill(exchange, key, &mut text);
    }
    let pool = route.action.pool_for(&text);
    exchange.heads.key = text;
    pool.map(|pool| Some(pool as u32)).ok_or(Ended::from(Cause::NoRoute))
}

/// Waits for the head.
async fn read_head<C: ClientSide>(exchange: &mut Exchange<'_, C>) -> Result<(), Ended> {
    let reading = HeadReading::new(&exchange.scope.worker.load);
    C::read_head(exchange).await?;
    drop(reading);
    if let Some(waiting) = &exchange.arrival.waiting {
        exchange.arrival.head_end = waiting.head_end;
        // The client was told to continue (100) before the request began to wait.
        exchange.heads.request.expect_continue = false;
    }
    exchange.arrival.has_head = true;
    if exchange.scope.listener.grpc.web {
        grpc_web::note_call(exchange);
    }
    exchange.outcome.times.request =
        exchange.arrival.head_end.span_since(exchange.arrival.first_byte);
    let line = exchange.heads.request.request_line.of(exchange.client.head());
    exchange.scope.worker.sessions.asks(exchange.session, exchange.arrival.head_end, line);
    if let Some(rules) = exchange.scope.listener.header_names {
        let headers = &mut exchange.heads.request.headers;
        header_names::apply(rules, headers, exchange.client.head())
            .map_err(|header_names::BadName| Ended::Refused(Cause::BadRequest.into()))?;
    }
    Ok(())
}

/// Normalises the path into the form that rules and endpoints see.
fn normalise_path<C: ClientSide>(exchange: &mut Exchange<'_, C>) -> Result<(), Refusal> {
    let rules = &exchange.scope.listener.path;
    let Heads { request, original_line, .. } = exchange.heads;
    path::normalise(request, exchange.client.head_mut(), rules, original_line).map_err(|fault| {
        let at = exchange.heads.request.request_line.start as usize;
        keep_malformed(exchange, fault.reason(), at);
        Cause::BadRequest.into()
    })
}

/// Applies the limits on clients and the access rules, and finds the route.
fn find_route<'a, C: ClientSide>(
    exchange: &mut Exchange<'a, C>,
) -> Result<&'a CompiledRoute, Ended> {
    let scope = exchange.scope;
    let listener = scope.listener;
    let peer = exchange.client.facts().peer_ip();
    exchange.arrival.client = peer;
    exchange.arrival.client = client_address(peer, &listener.forwarded, &exchange.request_view());
    exchange.arrival.trust = PeerTrust::of(peer, &listener.forwarded.trusted);
    let arrival = &exchange.arrival;
    let header = listener.request_id.header.as_deref();
    let mut ids = scope.worker.request_ids.borrow_mut();
    exchange.arrival.request_id = match &arrival.waiting {
        Some(waiting) => waiting.request_id.clone(),
        None => ids.id_of(arrival.trust, header, &exchange.request_view()),
    };
    drop(ids);
    let client = exchange.arrival.client;
    request_limits::admit_client(exchange, client)?;
    if listener.limits.hops.is_some_and(|most| exchange.heads.request.hops > most) {
        return Err(Cause::LoopDetected.into());
    }
    if !allowed(&listener.access, client) {
        return Err(Cause::Denied.into());
    }
    permitted_route(exchange)
}

/// Finds the route of a request, first or after an internal redirect, and applies its access rules.
fn permitted_route<'a, C: ClientSide>(
    exchange: &mut Exchange<'a, C>,
) -> Result<&'a CompiledRoute, Ended> {
    let router = &exchange.scope.listener.router;
    let fill = |text: &Template, out: &mut Vec<u8>| record::fill(exchange, text, None, out);
    let route = router.route(&exchange.request_view(), &fill);
    exchange.route = route.or(exchange.route);
    // A page for it may be served without TLS, everything else may not.
    if exchange.client.facts().lacks_tls && !exchange.heads.internal.is_any() {
        return Err(Cause::PlainHttp.into());
    }
    let route = route.ok_or(Cause::NoRoute)?;
    check_body(exchange, route)?;
    if !allowed(&route.access, exchange.arrival.client) {
        return Err(Cause::Denied.into());
    }
    Ok(route)
}

/// Refuses a request that announces a larger body than the route takes, unless the body was read
/// before, or an error led to the route: of its body, `upload` checks what is sent on.
fn check_body<C: ClientSide>(
    exchange: &Exchange<'_, C>,
    route: &CompiledRoute,
) -> Result<(), Ended> {
    match exchange.heads.request.framing {
        Framing::Length(length)
            if length > route.body_bytes
                && !exchange.arrival.body_read
                && exchange.heads.internal.error().is_none() =>
        {
            Err(Cause::BodyTooLarge.into())
        }
        _ => Ok(()),
    }
}

/// Sends a fixed response that is held back.
async fn late_response<C: ClientSide>(
    exchange: &mut Exchange<'_, C>,
    respond: &CompiledRespond,
) -> Result<Next, Ended> {
    local_reply::hold_back(exchange, respond.delay.unwrap_or_default()).await?;
    match without_text(exchange, respond) {
        Some(end) => end,
        None => local_reply::respond(exchange, respond).await,
    }
}

/// Returns the end of an exchange whose fixed response is none, or a page that a route serves.
fn without_text<C: ClientSide>(
    exchange: &mut Exchange<'_, C>,
    respond: &CompiledRespond,
) -> Option<Result<Next, Ended>> {
    if respond.closes() {
        return Some(Ok(local_reply::close(exchange, respond)));
    }
    if respond.has_body() || error_page::target_for(exchange, respond.status).is_none() {
        return None;
    }
    let cause = if respond.denied { Cause::Denied } else { Cause::Complete };
    Some(Err(Ended::Refused(Refusal { cause, status: respond.status })))
}

/// Sets the exchange's total time limit to the route's, or to the pool's if that is shorter than
/// the listener's, which is in force; for a call of gRPC to the client's if that is shorter.
fn bound<C: ClientSide>(exchange: &Exchange<'_, C>, route: &CompiledRoute, pool: Option<u32>) {
    let scope = exchange.scope;
    let end = |wait: Option<Duration>| wait.map(|wait| exchange.arrival.first_byte + wait);
    match (route.request_timeout, pool) {
        (RequestTimeout::After(wait), _) => scope.set_deadline(end(Some(wait))),
        (RequestTimeout::Off, _) => scope.set_deadline(None),
        (RequestTimeout::Inherited, Some(pool)) => {
            let pool = scope.generation.pool(pool as usize);
            let of_pool = pool.and_then(|pool| pool.rules.timeouts.request);
            if let Some(of_pool) = of_pool {
                let of_listener = scope.listener.timeouts.request;
                let wait = of_listener.map_or(of_pool, |own| own.min(of_pool));
                scope.set_deadline(end(Some(wait)));
            }
        }
        (RequestTimeout::Inherited, None) => {}
    }
    if let Some(end) = end(grpc::timeout(exchange)) {
        scope.set_deadline(Some(scope.deadline().map_or(end, |own| own.min(end))));
    }
}

async fn answer<C: ClientSide>(
    exchange: &mut Exchange<'_, C>,
    route: &CompiledRoute,
    pool: Option<u32>,
) -> Result<Next, Ended> {
    let scope = exchange.scope;
    scope.worker.sessions.takes(exchange.session, route.number, exchange.arrival.client);
    if let Some(pool) = pool {
        return proxy_request::proxy(exchange, route, pool as usize).await;
    }
    // Only another pool needs the body.
    exchange.heads.kept_body = None;
    match &route.action {
        CompiledAction::Pool(_) | CompiledAction::PoolBy(_) | CompiledAction::Split(_) => {
            Err(Cause::NoRoute.into())
        }
        // In an allocation of its own, as few exchanges wait for this.
        CompiledAction::Respond(respond) if respond.delay.is_some() => {
            Box::pin(late_response(exchange, respond)).await
        }
        CompiledAction::Respond(respond) => match without_text(exchange, respond) {
            Some(end) => end,
            None => local_reply::respond(exchange, respond).await,
        },
        CompiledAction::Redirect(redirect) => local_reply::redirect(exchange, redirect).await,
        // In an allocation of its own, so that exchanges that go to a pool do not reserve space for
        // it.
        CompiledAction::Files(root) => Box::pin(files::serve(exchange, route, *root)).await,
        CompiledAction::Internal => Err(internal_redirect::redirect(exchange, route)),
    }
}
