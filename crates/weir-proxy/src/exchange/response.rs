//! Sends an endpoint's response to the client while the rest of the request is still being sent,
//! and decides about the reuse of both connections. If the body fails, the client's connection is
//! broken off, so that a client never takes a part of the body for the whole.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use weir_stats::metrics::Yield;
use weir_stats::{Cause, Entry, Micros};
use weir_wire::{Framing, Method, Version};

use crate::exchange::attempt::Attempt;
use crate::exchange::client_connection::Connection;
use crate::exchange::client_side::ClientSide;
use crate::exchange::facts::ExchangeOutcome;
use crate::exchange::outcome::{Ended, Next};
use crate::exchange::pump::{Bounds, Encoder, Pump, PumpFailure, Waiting};
use crate::exchange::scope::Scope;
use crate::exchange::state::Exchange;
use crate::exchange::throttle::throttle;
use crate::exchange::tunnel::{self, Switched};
use crate::exchange::upload::leave_body;
use crate::exchange::{explain, record};
use crate::http::client_address::came_over_tls;
use crate::http::cookie::ResponseCookie;
use crate::http::head_writer::{self, BodyFraming, ConnectionLine, DownstreamHead};
use crate::http::trailers;
use crate::limiting::bandwidth::Toward;
use crate::net::transport::Transport;
use crate::net::{Net, Socket};
use crate::routing::route::CompiledRoute;
use crate::time::deadline_timer;
use crate::time::instant::Instant;
use crate::time::pace::{MinRate, Pace, TooSlow};
use crate::upstream::{EndpointRef, UpstreamPool};
use crate::worker::workspace::Workspace;

/// The framing of the body towards the client, and the persistence of the connection that follows
/// from it.
struct Plan {
    framing: BodyFraming,
    encoder: Encoder,
    keep_alive: bool,
}

/// Relays the response whose head is in `work.response`.
///
/// It is no `async fn`, which would copy the attempt once more.
pub(crate) fn relay<'a, 'b, N: Net>(
    exchange: &'a mut Exchange<'b, N>,
    route: &'a CompiledRoute,
    pool: &'a Arc<UpstreamPool>,
    mut attempt: Attempt<'a, N::Stream>,
) -> impl Future<Output = Result<Next, Ended>> + use<'a, 'b, N> {
    let scope = exchange.scope;
    async move {
        let switching = exchange.work.response.status == 101;
        let plan = begin(exchange, route, &attempt);
        let raw = std::mem::take(&mut attempt.raw);
        let head = std::mem::take(&mut exchange.work.response_out);
        let framing = if switching { Framing::None } else { exchange.work.response.framing };
        let trailers = trailers::of_response(
            &route.trailers.1,
            &exchange.work.request,
            exchange.work.input.bytes(),
            &exchange.work.response,
            &raw,
        );
        let throttle = throttle(exchange, Toward::Client);
        let bounds = Bounds { throttle, trailers, ..Bounds::default() };
        let at = exchange.work.response.head_bytes;
        let mut download = Pump::new(head, framing, plan.encoder, raw, at, bounds);
        let until = if switching { Until::Sent } else { Until::Read };
        let mut relay = Relay { attempt: &mut attempt, download: &mut download, until };
        let mut blocked = Duration::ZERO;
        let at = EndpointRef { pool, index: exchange.placement.endpoint.unwrap_or_default() };
        let mut relayed = relay.run(exchange, at, &mut blocked).await;
        note_blocked(exchange, blocked);
        if switching {
            return switch(exchange, pool, attempt, download, relayed).await;
        }
        let mut now = Instant::now();
        if relayed.is_ok() {
            let clean = attempt.upload.is_finished()
                && exchange.work.response.keep_alive
                && download.surplus().is_empty();
            // The endpoint has done its part, even if the client still reads: its connection is
            // kept or closed, and then its slot is given to the next exchange, in this order, so
            // that the next exchange finds the connection.
            let upstream = attempt.upstream;
            if let Some(endpoint) = exchange.placement.endpoint.filter(|_| clean) {
                let limits = exchange.work.response.keep_alive_limits;
                scope.worker.idle.keep(pool, endpoint, upstream, limits, now);
            } else {
                drop(upstream);
            }
            exchange.placement.finish_slot(now);
            if !download.is_finished() {
                relayed = deliver(scope, exchange.connection, &mut download).await;
                blocked += now.elapsed();
                note_blocked(exchange, blocked);
                now = Instant::now();
            }
        }
        let upload = attempt.upload;
        exchange.outcome.times.data = now.span_since(attempt.heard);
        note_relayed(exchange, upload, &download, relayed)?;
        exchange.outcome.ended = Some(now);
        Ok(finish(exchange, upload, &mut download, plan.keep_alive))
    }
}

/// Joins both connections into a tunnel, once the client has the head with the status 101.
async fn switch<N: Net>(
    exchange: &mut Exchange<'_, N>,
    pool: &UpstreamPool,
    attempt: Attempt<'_, N::Stream>,
    download: Pump,
    relayed: Result<(), Cause>,
) -> Result<Next, Ended> {
    let Attempt { upstream, upload, heard, .. } = attempt;
    exchange.outcome.times.data = Instant::now().span_since(heard);
    note_relayed(exchange, upload, &download, relayed)?;
    let throttle = upload.take_throttle();
    let switched = Switched { pool, upstream, download, throttle };
    Ok(tunnel::run(exchange, switched).await)
}

/// Notes the response head and writes it for the client.
fn begin<N: Net>(
    exchange: &mut Exchange<'_, N>,
    route: &CompiledRoute,
    attempt: &Attempt<'_, N::Stream>,
) -> Plan {
    let scope = exchange.scope;
    exchange.respond_with(exchange.work.response.status);
    let work = &mut *exchange.work;
    if scope.listener.keeps_response_head {
        let head = attempt.raw.get(..work.response.head_bytes).unwrap_or_default();
        work.response_bytes.clear();
        work.response_bytes.extend_from_slice(head);
    }
    let plan = plan(exchange, attempt);
    write_head(exchange, route, &plan, &attempt.raw);
    plan
}

/// Notes how long the client took no bytes, if it stopped at all.
fn note_blocked<N: Net>(exchange: &mut Exchange<'_, N>, blocked: Duration) {
    if blocked > Duration::ZERO {
        exchange.outcome.delays.client = Micros::from(blocked);
    }
}

/// Notes the bytes transferred in both directions, and the outcome.
fn note_relayed<N: Net>(
    exchange: &mut Exchange<'_, N>,
    upload: &Pump,
    download: &Pump,
    relayed: Result<(), Cause>,
) -> Result<(), Ended> {
    exchange.outcome.bytes_sent += download.written;
    exchange.outcome.body_bytes_sent = download.body_bytes;
    if let Err(cause) = relayed {
        leave_body(exchange, upload);
        return Err(broken(&mut exchange.outcome, cause, download.written));
    }
    exchange.arrival.bytes_received += upload.received();
    Ok(())
}

/// The end of an exchange whose relay failed: a client that has received no byte of the response
/// still gets an error response, unless the client itself was at fault.
fn broken(outcome: &mut ExchangeOutcome, cause: Cause, written: u64) -> Ended {
    if written > 0 {
        return Ended::Broken(cause);
    }
    outcome.status = 0;
    match cause {
        Cause::ClientGone | Cause::ClientSendTimeout | Cause::ClientTooSlow => Ended::Broken(cause),
        _ => cause.into(),
    }
}

fn plan<N: Net>(exchange: &Exchange<'_, N>, attempt: &Attempt<'_, N::Stream>) -> Plan {
    let Exchange { scope, connection, work, .. } = exchange;
    let modern = work.request.version == Version::Http11;
    let mut keep_alive = work.request.keep_alive
        && attempt.upload.is_finished()
        && connection.facts.may_stay(*scope, attempt.heard);
    let (framing, encoder) = match work.response.framing {
        Framing::None if work.request.method == Method::Head || work.response.status == 304 => {
            (BodyFraming::AsReceived, Encoder::Plain)
        }
        Framing::None => (BodyFraming::None, Encoder::Plain),
        Framing::Length(length) => (BodyFraming::Length(length), Encoder::Plain),
        Framing::Chunked | Framing::UntilClose if modern => {
            (BodyFraming::Chunked, Encoder::Chunked)
        }
        Framing::Chunked | Framing::UntilClose => {
            keep_alive = false;
            (BodyFraming::Close, Encoder::Plain)
        }
    };
    Plan { framing, encoder, keep_alive }
}

fn write_head<N: Net>(
    exchange: &mut Exchange<'_, N>,
    route: &CompiledRoute,
    plan: &Plan,
    raw: &[u8],
) {
    let mut out = std::mem::take(&mut exchange.work.response_out);
    let Exchange { scope, work, arrival, .. } = &*exchange;
    out.clear();
    let respond = scope.listener.request_id.respond;
    let date = || scope.worker.date(arrival.head_end);
    let id_header = scope.listener.request_id.header.as_deref().filter(|_| respond);
    let cookie = response_cookie(exchange);
    let why = explain::on_demand(exchange);
    let mut write = |entry: Option<&Entry<'_>>| {
        let head = DownstreamHead {
            head: &work.response,
            bytes: raw,
            entry,
            edits: &route.response_edits,
            cookie,
            request_id: id_header.map(|header| (header, arrival.request_id.as_bytes())),
            why: why.as_ref().map(|(header, text)| (*header, text.as_slice())),
            limits: arrival.told.as_ref().map_or(&[], |told| &told.headers),
            date: &date,
            framing: plan.framing,
            connection: connection_line(work, plan.keep_alive),
        };
        head_writer::write_response_head(&head, &mut out);
    };
    if route.response_edits.has_variables() {
        let then = |entry: &Entry<'_>| write(Some(entry));
        record::with_entry(exchange, then);
    } else {
        write(None);
    }
    exchange.work.response_out = out;
}

/// The pool's sticky cookie for the response, if it has one.
fn response_cookie<'a, N: Net>(exchange: &Exchange<'a, N>) -> Option<ResponseCookie<'a>> {
    let Exchange { connection, work, arrival, placement, .. } = exchange;
    let pool = placement.pool()?;
    let over_tls = || {
        connection.facts.tls.is_some()
            || came_over_tls(arrival.trust, &work.request, work.input.bytes())
    };
    Some(pool.affinity.as_ref()?.response(placement.claim.endpoint(), placement.endpoint, over_tls))
}

fn connection_line(work: &Workspace, keep_alive: bool) -> ConnectionLine {
    match (work.response.status, keep_alive, work.request.version) {
        (101, _, _) => ConnectionLine::Upgrade,
        (_, false, _) => ConnectionLine::Close,
        (_, true, Version::Http10) => ConnectionLine::KeepAlive,
        (_, true, Version::Http11) => ConnectionLine::None,
    }
}

/// The condition that ends a relay.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Until {
    /// The response was read completely; the rest of it is in our buffer.
    Read,
    /// The response was sent completely, too.
    Sent,
}

/// Both bodies in transfer.
struct Relay<'a, 'c, S: Socket> {
    attempt: &'a mut Attempt<'c, S>,
    download: &'a mut Pump,
    until: Until,
}

impl<S: Socket> Relay<'_, '_, S> {
    async fn run<N: Net<Stream = S>>(
        &mut self,
        exchange: &mut Exchange<'_, N>,
        at: EndpointRef<'_>,
        blocked: &mut Duration,
    ) -> Result<(), Cause> {
        let scope = exchange.scope;
        let session = exchange.session;
        let (mut side, timer) = exchange.client_side();
        let mut progress = (0, self.attempt.heard);
        // The time since which the client takes no bytes.
        let mut full: Option<Instant> = None;
        let mut paces = Paces::default();
        std::future::poll_fn(|context| {
            let turn = &scope.worker.turn;
            if let Some(since) = full.take() {
                *blocked += turn.began().saturating_duration_since(since);
            }
            let ended = self.poll(context, &mut side);
            let held = side.held() + self.attempt.held() + self.download.held();
            scope.holds(session, held);
            if ended.is_ready() {
                return ended;
            }
            let moved = self.download.progress() + self.attempt.upload.progress();
            if progress.0 != moved {
                progress = (moved, turn.look_at_end());
            }
            let (patience, cause) = match self.download.waiting {
                Waiting::Read => (at.pool.timeouts.read, Cause::UpstreamReadTimeout),
                Waiting::Turn => {
                    scope.worker.note_yield(Yield::Body);
                    (at.pool.timeouts.read, Cause::UpstreamReadTimeout)
                }
                Waiting::Write => {
                    full = Some(turn.look_at_end());
                    (scope.listener.timeouts.send, Cause::ClientSendTimeout)
                }
            };
            let now = full.unwrap_or(progress.1.max(turn.began()));
            let look = match paces.look(scope, at, &*side.stream, &mut *self, now) {
                Ok(look) => look,
                Err(cause) => return Poll::Ready(Err(cause)),
            };
            let late = deadline_timer::poll_either(timer, context, progress.1 + patience, look);
            if late.is_ready() {
                turn.goes_on();
            }
            late.map(|()| Err(cause))
        })
        .await
    }

    fn poll(
        &mut self,
        context: &mut Context<'_>,
        client: &mut ClientSide<'_, S>,
    ) -> Poll<Result<(), Cause>> {
        // The response ends the exchange when it is complete, even if a rest of the request was
        // never read by the endpoint.
        let down = self.download.poll(
            context,
            &mut self.attempt.upstream.transport,
            client.stream,
            client.buffers,
        );
        match down {
            Poll::Ready(Ok(())) => return Poll::Ready(Ok(())),
            Poll::Ready(Err(failure)) => return Poll::Ready(Err(download_cause(failure))),
            Poll::Pending => {}
        }
        if self.until == Until::Read && self.download.waiting == Waiting::Write {
            self.download.read_ahead(context, &mut self.attempt.upstream.transport);
            if self.download.is_read() && self.attempt.upload.is_finished() {
                return Poll::Ready(Ok(()));
            }
        }
        if self.attempt.poll_upload(context, client).is_err() {
            // The client's request body is malformed; the response that it was receiving ends with
            // it.
            return Poll::Ready(Err(Cause::BadRequestBody));
        }
        // No write is pending that could fail: without this check, a silent stream whose client is
        // gone would occupy its endpoint for ever.
        if self.download.waiting == Waiting::Read
            && self.attempt.poll_client_left(context, client).is_ready()
        {
            return Poll::Ready(Err(Cause::ClientGone));
        }
        Poll::Pending
    }
}

/// The paces at which the client receives a response and the endpoint sends it. The pace at which
/// the client sends the rest of its request is still measured in the attempt.
#[derive(Default)]
struct Paces {
    client: Pace,
    upstream: Pace,
}

impl Paces {
    /// Returns the time of the next check, or the cause if a side is too slow.
    fn look<N: Net>(
        &mut self,
        scope: Scope<'_, N>,
        at: EndpointRef<'_>,
        client: &Transport<N::Stream>,
        relay: &mut Relay<'_, '_, N::Stream>,
        now: Instant,
    ) -> Result<Option<Instant>, Cause> {
        let began = scope.worker.turn.began();
        let Relay { attempt, download, .. } = relay;
        let download = &**download;
        let waits = |is_waited_for: bool| is_waited_for.then_some(now);
        let takes = download.waiting == Waiting::Write;
        // While both sides are silent the endpoint may be waiting for the rest of the request.
        let sends = download.waiting == Waiting::Read && attempt.awaits_client();
        let mut look = None;
        if (takes || sends || self.client.is_waiting() || attempt.pace.is_waiting())
            && let Some(rate) = scope.client_rate(at.has_limit())
        {
            let taken = || client_took(scope, client, download);
            let looked = self.client.look(rate, began, waits(takes), taken);
            look = looked.map_err(|TooSlow| Cause::ClientTooSlow)?;
            // An endpoint that continues its response meanwhile is not delayed by the client.
            let moved = attempt.upload.body_bytes + download.body_bytes;
            let looked = attempt.pace.look(rate, began, waits(sends), || moved);
            look = looked.map_err(|TooSlow| Cause::BodyTooSlow)?.or(look);
        }
        if let Some(bytes) = at.pool.timeouts.min_rate {
            let rate = MinRate { bytes, after: at.pool.timeouts.after };
            let silent = download.waiting == Waiting::Read && !sends;
            let sent = || download.body_bytes;
            let looked = self.upstream.look(rate, began, waits(silent), sent);
            look = looked.map_err(|TooSlow| Cause::UpstreamTooSlow)?.or(look);
        }
        Ok(look)
    }
}

/// The number of response bytes that the client has received from the network.
fn client_took<N: Net>(scope: Scope<'_, N>, client: &Transport<N::Stream>, download: &Pump) -> u64 {
    download.written.saturating_sub(scope.worker.net.unacknowledged(client.socket()))
}

fn download_cause(failure: PumpFailure) -> Cause {
    match failure {
        PumpFailure::Write => Cause::ClientGone,
        PumpFailure::Malformed | PumpFailure::TooLarge => Cause::BadResponse,
        PumpFailure::Truncated | PumpFailure::Read => Cause::UpstreamAborted,
    }
}

/// Sends the client the rest of a response that was read completely.
async fn deliver<N: Net>(
    scope: Scope<'_, N>,
    connection: &mut Connection<N>,
    download: &mut Pump,
) -> Result<(), Cause> {
    let patience = scope.listener.timeouts.send;
    let Connection { client, timer, .. } = connection;
    let mut progress = (download.progress(), Instant::now());
    let mut pace = Pace::default();
    std::future::poll_fn(|context| {
        let nothing = &mut tokio::io::empty();
        if let Poll::Ready(sent) = download.poll(context, nothing, client, &scope.worker.buffers) {
            return Poll::Ready(sent.map_err(download_cause));
        }
        if progress.0 != download.progress() {
            progress = (download.progress(), Instant::now());
        }
        let began = scope.worker.turn.began();
        let waits_from = Some(progress.1.max(began));
        let taken = || client_took(scope, client, download);
        let looked = scope.client_rate(false).map(|rate| pace.look(rate, began, waits_from, taken));
        let Ok(look) = looked.transpose() else {
            return Poll::Ready(Err(Cause::ClientTooSlow));
        };
        let deadline = progress.1 + patience;
        let late = deadline_timer::poll_either(timer, context, deadline, look.flatten());
        late.map(|()| Err(Cause::ClientSendTimeout))
    })
    .await
}

/// Gives the buffers back and returns the fate of the client's connection.
fn finish<N: Net>(
    exchange: &mut Exchange<'_, N>,
    upload: &mut Pump,
    download: &mut Pump,
    keep_alive: bool,
) -> Next {
    let Exchange { scope, work, .. } = exchange;
    let whole = upload.is_finished();
    let buffers = &scope.worker.buffers;
    let (head, raw) = upload.take_buffers();
    work.request_out = head;
    buffers.give_back(raw);
    let (head, raw) = download.take_buffers();
    work.response_out = head;
    work.response_out.clear();
    work.request_out.clear();
    buffers.give_back(raw);
    match (keep_alive, whole) {
        (true, _) => Next::KeepAlive,
        // A client that asked for the close sends nothing more; any other may have sent its next
        // request already.
        (false, true) if !work.request.keep_alive => Next::Close,
        (false, _) => Next::Linger,
    }
}
