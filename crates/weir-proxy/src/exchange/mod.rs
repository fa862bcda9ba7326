//! One exchange: reads a request head, finds its route, has it answered and records it.
//! `proxy_request.rs` and `response.rs` do the work with a pool, `local_reply.rs` writes Weir's
//! own responses.

pub(crate) mod attempt;
pub(crate) mod carry_over;
pub(crate) mod client_connection;
pub(crate) mod client_side;
pub(crate) mod dispatch;
pub(crate) mod explain;
pub(crate) mod facts;
pub(crate) mod files;
pub(crate) mod local_reply;
pub(crate) mod outcome;
pub(crate) mod passive;
pub(crate) mod proxy_request;
pub(crate) mod pump;
pub(crate) mod reasons;
pub(crate) mod record;
pub(crate) mod request_key;
pub(crate) mod request_limits;
pub(crate) mod response;
pub(crate) mod scope;
pub(crate) mod state;
pub(crate) mod throttle;
pub(crate) mod tunnel;
pub(crate) mod upload;

use std::net::SocketAddr;
use std::task::{Context, Poll};
use std::time::SystemTime;

use tokio::task::yield_now;
use weir_config::model::RequestTimeout;
use weir_stats::Cause;
use weir_wire::{HeadLimits, Located, Method, Scan, Version};

use crate::exchange::client_connection::Connection;
use crate::exchange::outcome::{Ended, Next, Refusal};
use crate::exchange::scope::Scope;
use crate::exchange::state::Exchange;
use crate::http::client_address::{PeerTrust, allowed, client_address};
use crate::http::path;
use crate::limits::LONG_HEAD;
use crate::net::Net;
use crate::routing::route::{CompiledAction, CompiledRoute};
use crate::time::deadline_timer::{DeadlineTimer, Elapsed, before};
use crate::time::instant::Instant;
use crate::time::work_time::WorkTime;
use crate::worker::capture::Malformed;
use crate::worker::sessions::{BegunExchange, Session};
use crate::worker::workspace::Workspace;

/// Serves the request whose first bytes are in `work.input`.
pub(crate) async fn run<N: Net>(
    scope: Scope<'_, N>,
    connection: &mut Connection<N>,
    work: &mut Workspace,
    first_byte: Instant,
) -> Next {
    work.original_line.clear();
    work.input.set_head_limit(scope.listener.limits.head_bytes);
    let session = list_as_running(scope, connection, first_byte);
    let mut exchange = Exchange::new(scope, session.key, connection, work, first_byte);
    let Exchange { connection, arrival, placement, outcome, .. } = &mut exchange;
    outcome.times.handshake = connection.facts.handshake();
    outcome.times.idle = first_byte.span_since(connection.facts.since);
    let mut own = WorkTime::begun(scope.worker.turn.work_begins(first_byte));
    if let Some(waiting) = connection.waiting.take() {
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
        Err(Ended::Broken(cause)) => {
            let Exchange { work, outcome, .. } = &mut exchange;
            outcome.cause = cause;
            if cause == Cause::ClientGone && outcome.status == 0 {
                outcome.status = 499;
            }
            after_break(work.request.version, cause)
        }
        Err(Ended::Silent) => return Next::Close,
        Err(Ended::Parted) => {
            let Workspace { input, request, original_line, .. } = exchange.work;
            path::restore(request, input.bytes_mut(), original_line);
            original_line.clear();
            return Next::Part;
        }
    };
    drop(session);
    let now = exchange.outcome.ended.unwrap_or_else(Instant::now);
    exchange.outcome.times.own = own.until(now);
    record::write(&mut exchange, now);
    let Exchange { connection, work, arrival, .. } = exchange;
    connection.facts.since = now;
    if arrival.has_head {
        work.input.consume(work.request.head_bytes + arrival.body_in_input);
    }
    next
}

/// Lists the exchange among those that run on the worker.
fn list_as_running<'a, N: Net>(
    scope: Scope<'a, N>,
    connection: &Connection<N>,
    first_byte: Instant,
) -> Session<'a> {
    scope.worker.sessions.begin(&BegunExchange {
        at: first_byte,
        peer: connection.facts.peer,
        resident: connection.facts.resident,
        exchanges: connection.facts.served,
        generation: scope.generation,
        listener: scope.number,
    })
}

/// Sends a refusal within the rest of the exchange's total time, or the send timeout if that is
/// longer.
async fn refuse_in_time<N: Net>(
    exchange: &mut Exchange<'_, N>,
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
fn cut_short<N: Net>(cause: Cause, exchange: &Exchange<'_, N>) -> Ended {
    match cause {
        Cause::TotalTimeout if !exchange.arrival.has_head => Cause::RequestTimeout.into(),
        _ if exchange.outcome.status == 0 => cause.into(),
        _ => Ended::Broken(cause),
    }
}

/// Decides how to close after an exchange that broke off. If bytes of the client are unread,
/// closing at once resets the connection and would lose earlier responses still on their way. The
/// framing tells an HTTP/1.1 client that this response is incomplete.
fn after_break(version: Version, cause: Cause) -> Next {
    match (version, cause) {
        (
            _,
            Cause::ClientGone
            | Cause::ClientSendTimeout
            | Cause::ClientTooSlow
            | Cause::Shutdown
            | Cause::Memory
            | Cause::ConnectionCap
            | Cause::RateLimited
            | Cause::InFlightLimited,
        )
        | (Version::Http10, _) => Next::Close,
        (Version::Http11, _) => Next::Linger,
    }
}

async fn serve<N: Net>(exchange: &mut Exchange<'_, N>) -> Result<Next, Ended> {
    let scope = exchange.scope;
    let total = scope.listener.timeouts.request;
    scope.set_deadline(total.map(|wait| exchange.arrival.first_byte + wait));
    read_head(exchange).await?;
    let is_long = exchange.work.request.head_bytes > LONG_HEAD;
    if is_long {
        yield_now().await;
    }
    normalise_path(exchange).map_err(Ended::Refused)?;
    if is_long {
        yield_now().await;
    }
    let found = find_route(exchange)?;
    exchange.route = Some(found);
    if is_long {
        yield_now().await;
    }
    bound(exchange, found);
    if request_limits::is_limited(scope, found) {
        // In an allocation of its own, so that exchanges without limits do not reserve space for
        // it.
        Box::pin(request_limits::admit(exchange, found)).await?;
    }
    answer(exchange, found).await
}

/// Reads until the head is complete and valid.
async fn read_head<N: Net>(exchange: &mut Exchange<'_, N>) -> Result<(), Ended> {
    let scope = exchange.scope;
    let limits = HeadLimits {
        head_bytes: scope.listener.limits.head_bytes,
        request_line_bytes: scope.listener.limits.request_line_bytes,
        headers: scope.listener.limits.headers,
    };
    let deadline = exchange.arrival.first_byte + scope.listener.timeouts.head;
    let mut scan = Scan::default();
    loop {
        match exchange.work.request.parse(exchange.work.input.bytes(), &mut scan, &limits) {
            Ok(Some(_)) => break,
            Ok(None) => {}
            Err(Located { fault, at }) => {
                let bytes = exchange.work.input.bytes();
                exchange.arrival.bytes_received = bytes.len() as u64;
                let seen_at = scope.worker.wall(exchange.arrival.head_end);
                keep_malformed(
                    scope,
                    exchange.connection.facts.peer,
                    seen_at,
                    fault.reason(),
                    at,
                    bytes,
                );
                request_limits::admit_client(exchange, exchange.connection.facts.peer_ip())?;
                return Err(Ended::Refused(Refusal {
                    cause: Cause::BadRequest,
                    status: fault.status(),
                }));
            }
        }
        exchange.work.input.make_room(limits.head_bytes);
        exchange.holds(0);
        let Connection { client, timer, .. } = exchange.connection;
        let input = &mut exchange.work.input;
        let fill = std::future::poll_fn(|context| {
            match input.poll_fill(client, context, &scope.worker.buffers) {
                Poll::Pending if scope.is_parting() => Poll::Ready(None),
                filled => filled.map(Some),
            }
        });
        match before(timer, deadline, fill).await {
            Ok(None) => return Err(Ended::Parted),
            Ok(Some(Ok(read))) if read > 0 => exchange.arrival.head_end = Instant::now(),
            // A lone line end before the close is no request.
            Ok(_) if exchange.work.input.bytes().iter().all(u8::is_ascii_whitespace) => {
                return Err(Ended::Silent);
            }
            Ok(_) => return Err(Ended::Broken(Cause::ClientGone)),
            Err(Elapsed) => return Err(Cause::RequestTimeout.into()),
        }
    }
    if let Some(waiting) = &exchange.arrival.waiting {
        exchange.arrival.head_end = waiting.head_end;
        // The client was told to continue (100) before the request began to wait.
        exchange.work.request.expect_continue = false;
    }
    exchange.arrival.has_head = true;
    exchange.arrival.bytes_received = exchange.work.request.head_bytes as u64;
    exchange.outcome.times.request =
        exchange.arrival.head_end.span_since(exchange.arrival.first_byte);
    let line = exchange.work.request.request_line.of(exchange.work.input.bytes());
    scope.worker.sessions.asks(exchange.session, exchange.arrival.head_end, line);
    Ok(())
}

/// Normalises the path into the form that rules and endpoints see.
fn normalise_path<N: Net>(exchange: &mut Exchange<'_, N>) -> Result<(), Refusal> {
    let scope = exchange.scope;
    let Workspace { input, request, original_line, .. } = exchange.work;
    let rules = &scope.listener.path;
    path::normalise(request, input.bytes_mut(), rules, original_line).map_err(|fault| {
        let seen_at = scope.worker.wall(exchange.arrival.head_end);
        let at = request.request_line.start as usize;
        keep_malformed(
            scope,
            exchange.connection.facts.peer,
            seen_at,
            fault.reason(),
            at,
            input.bytes(),
        );
        Cause::BadRequest.into()
    })
}

/// Keeps a malformed request for the operator.
fn keep_malformed<N: Net>(
    scope: Scope<'_, N>,
    peer: Option<SocketAddr>,
    seen_at: SystemTime,
    reason: &'static str,
    position: usize,
    bytes: &[u8],
) {
    scope.worker.process.captures.keep(&Malformed {
        listener: &scope.listener.name,
        endpoint: None,
        peer,
        at: seen_at,
        reason,
        position,
        bytes,
    });
}

/// Applies the limits on clients and the access rules, and finds the route.
fn find_route<'a, N: Net>(exchange: &mut Exchange<'a, N>) -> Result<&'a CompiledRoute, Ended> {
    let scope = exchange.scope;
    let listener = scope.listener;
    let peer = exchange.connection.facts.peer_ip();
    exchange.arrival.client = peer;
    exchange.arrival.client =
        client_address(peer, &listener.forwarded.trusted, &exchange.request_view());
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
    if listener.limits.hops.is_some_and(|most| exchange.work.request.hops > most) {
        return Err(Cause::LoopDetected.into());
    }
    if !allowed(&listener.access, client) {
        return Err(Cause::Denied.into());
    }
    let route = listener.router.route(&exchange.request_view()).ok_or(Cause::NoRoute)?;
    if !allowed(&route.access, client) {
        return Err(Cause::Denied.into());
    }
    Ok(route)
}

/// Sets the exchange's total time limit: the route's, else the shorter one of the listener's and
/// the pool's.
fn bound<N: Net>(exchange: &Exchange<'_, N>, route: &CompiledRoute) {
    let scope = exchange.scope;
    let wait = match (route.request_timeout, &route.action) {
        (RequestTimeout::After(wait), _) => Some(wait),
        (RequestTimeout::Off, _) => None,
        (RequestTimeout::Inherited, CompiledAction::Pool(pool)) => {
            let of_pool = scope.generation.pool(*pool).and_then(|pool| pool.timeouts.request);
            let Some(of_pool) = of_pool else { return };
            let of_listener = scope.listener.timeouts.request;
            Some(of_listener.map_or(of_pool, |own| own.min(of_pool)))
        }
        (RequestTimeout::Inherited, _) => return,
    };
    scope.set_deadline(wait.map(|wait| exchange.arrival.first_byte + wait));
}

async fn answer<N: Net>(
    exchange: &mut Exchange<'_, N>,
    route: &CompiledRoute,
) -> Result<Next, Ended> {
    let scope = exchange.scope;
    if exchange.work.request.method == Method::Connect {
        // A gateway does not open tunnels to arbitrary hosts, and a 2xx from any action would tell
        // the client that one is open.
        return Err(Ended::Refused(Refusal { cause: Cause::BadRequest, status: 405 }));
    }
    scope.worker.sessions.takes(exchange.session, route.number, exchange.arrival.client);
    match &route.action {
        CompiledAction::Pool(pool) => proxy_request::proxy(exchange, route, *pool).await,
        CompiledAction::Respond(respond) => local_reply::respond(exchange, respond).await,
        CompiledAction::Redirect(redirect) => local_reply::redirect(exchange, redirect).await,
        CompiledAction::Files(root) => files::serve(exchange, *root).await,
    }
}
