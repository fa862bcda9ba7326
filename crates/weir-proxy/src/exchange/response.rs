//! Sends an endpoint's response to the client while the rest of the request is still being sent,
//! and decides about the reuse of the endpoint's connection. If the body fails, the client's
//! connection is broken off, so that a client never takes a part of the body for the whole.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use weir_stats::metrics::Yield;
use weir_stats::{Cause, Entry, Micros};
use weir_wire::{Framing, Method};

use crate::exchange::attempt::Attempt;
use crate::exchange::client_side::{
    ClientSide, RelayedResponse, RequestBody, ResponseForm, ResponseStart,
};
use crate::exchange::facts::ExchangeOutcome;
use crate::exchange::outcome::{Ended, Next};
use crate::exchange::pump::{Bounds, Pump, PumpFailure, Waiting};
use crate::exchange::scope::Scope;
use crate::exchange::state::{Exchange, StreamOf};
use crate::exchange::stream_watch::StreamWatch;
use crate::exchange::throttle::throttle;
use crate::exchange::tunnel::{self, Switched};
use crate::exchange::upload::leave_body;
use crate::exchange::whole_response::{self, Written};
use crate::exchange::{explain, grpc_status, grpc_web, record};
use crate::http::client_address::came_over_tls;
use crate::http::cookie::ResponseCookie;
use crate::http::expires::CompiledExpires;
use crate::http::head_writer::{self, DownstreamHead};
use crate::http::trailers;
use crate::limiting::bandwidth::{Throttle, Toward};
use crate::net::buffers::Buffers;
use crate::net::{Net, Socket};
use crate::routing::route::CompiledRoute;
use crate::time::deadline_timer;
use crate::time::instant::Instant;
use crate::time::pace::{MinRate, Pace, TooSlow};
use crate::upstream::idle::{LastUse, UpstreamConnection};
use crate::upstream::{EndpointRef, UpstreamPool};

/// Relays the response whose head is in `heads.response`.
#[expect(clippy::manual_async_fn, reason = "an `async fn` would hold the attempt twice")]
pub(crate) fn relay<'a, 'b, C: ClientSide>(
    exchange: &'a mut Exchange<'b, C>,
    route: &'a CompiledRoute,
    pool: &'a Arc<UpstreamPool>,
    mut attempt: Attempt<'a, StreamOf<C>>,
) -> impl Future<Output = Result<Next, Ended>> + use<'a, 'b, C> {
    async move {
        attempt.upload.forget_replay();
        let form = begin(exchange, route, &attempt);
        let throttle = throttle(exchange, Toward::Client);
        let response = &exchange.heads.response;
        let is_converted = exchange.heads.web_call.is_some();
        let is_streamed = throttle.is_some() || is_converted;
        if is_streamed || !whole_response::is_small(response, &attempt, form.encoder) {
            // In an allocation of its own, so that exchanges that wait do not reserve space for it.
            let start = RelayStart { attempt, form, throttle };
            return Box::pin(stream(exchange, route, pool, start)).await;
        }
        let raw = std::mem::take(&mut attempt.raw);
        let written =
            poll_fn(|context| Poll::Ready(whole_response::write(exchange, context, &raw))).await;
        exchange.scope.worker.buffers.give_back(raw);
        let now = Instant::now();
        let Attempt { upstream, upload, heard, .. } = attempt;
        if let Written::Failed = written {
            exchange.outcome.times.data = now.span_since(heard);
            leave_body(exchange, upload);
            return Err(broken(&mut exchange.outcome, Cause::ClientGone));
        }
        let after =
            if exchange.heads.response.keep_alive { AfterUse::Keep } else { AfterUse::Close };
        release(exchange, pool, upstream, after, now);
        if let Written::Rest(download) = written {
            return Box::pin(deliver_rest(exchange, upload, download, heard, form.next)).await;
        }
        exchange.outcome.times.data = now.span_since(heard);
        exchange.arrival.bytes_received += upload.received();
        exchange.outcome.ended = Some(now);
        Ok(finish(exchange, upload, form.next))
    }
}

/// The parts that the relay of a response begins with.
struct RelayStart<'a, S: Socket> {
    attempt: Attempt<'a, S>,
    form: ResponseForm,
    throttle: Option<Box<Throttle>>,
}

/// Relays a response while it arrives.
async fn stream<C: ClientSide>(
    exchange: &mut Exchange<'_, C>,
    route: &CompiledRoute,
    pool: &Arc<UpstreamPool>,
    start: RelayStart<'_, StreamOf<C>>,
) -> Result<Next, Ended> {
    let RelayStart { mut attempt, form, throttle } = start;
    let scope = exchange.scope;
    let switching = exchange.heads.response.status == 101;
    let raw = std::mem::take(&mut attempt.raw);
    let head = std::mem::take(&mut exchange.heads.response_out);
    let received = if switching { Framing::None } else { exchange.heads.response.framing };
    // Bytes behind a switch are for the tunnel.
    let has_end = attempt.upstream.transport.is_shared() && !switching;
    let (framing, most) = stream_framing(received, has_end);
    let web = grpc_web::body_form(exchange, &raw);
    let takes = web.is_some() || exchange.heads.request.takes_trailers(exchange.client.head());
    let response = Some(&exchange.heads.response).filter(|_| takes);
    let rules = &route.trailers.1;
    let trailers = response.and_then(|response| trailers::of_response(rules, response, &raw));
    let bounds = Bounds { bytes: most, throttle, trailers, ..Bounds::default() };
    let is_endless = matches!(received, Framing::Chunked | Framing::UntilClose);
    let watch = if is_endless { StreamWatch::begin(exchange, &raw) } else { None };
    let at = exchange.heads.response.head_bytes;
    let mut download = Pump::new(head, framing, form.encoder, raw, at, bounds);
    if let Some(form) = web {
        download.convert_to_web(form);
    }
    let until = if switching { Until::Sent } else { Until::Read };
    let mut relay = Relay { attempt: &mut attempt, download: &mut download, until, watch };
    let mut blocked = Duration::ZERO;
    let index = exchange.placement.endpoint.unwrap_or_default();
    let at = EndpointRef { pool, index, rules: exchange.rules(pool) };
    let mut relayed = relay.run(exchange, at, &mut blocked).await;
    note_blocked(exchange, blocked);
    if switching {
        return Box::pin(switch(exchange, pool, attempt, download, relayed)).await;
    }
    let mut now = Instant::now();
    let Attempt { upstream, upload, heard, .. } = attempt;
    if relayed.is_ok() {
        grpc_status::note_trailers(exchange, at, download.sink_trailers());
        let is_clean = upload.is_finished()
            && exchange.heads.response.keep_alive
            && download.surplus().is_empty();
        release(
            exchange,
            pool,
            upstream,
            if is_clean { AfterUse::Keep } else { AfterUse::Close },
            now,
        );
        if !download.is_finished() {
            relayed = deliver(scope, &mut exchange.client, &mut download).await;
            blocked += now.elapsed();
            note_blocked(exchange, blocked);
            now = Instant::now();
        }
    }
    exchange.outcome.times.data = now.span_since(heard);
    note_relayed(exchange, upload, &download, relayed)?;
    exchange.outcome.ended = Some(now);
    give_back(exchange, &mut download);
    Ok(finish(exchange, upload, form.next))
}

/// The framing of a response's body in the stream, and its most bytes. A stream of HTTP/2 has an
/// end of its own, which is read in any case; `h2` compares the length.
fn stream_framing(received: Framing, has_end: bool) -> (Framing, u64) {
    match received {
        framing if !has_end => (framing, u64::MAX),
        Framing::None => (Framing::UntilClose, 0),
        _ => (Framing::UntilClose, u64::MAX),
    }
}

/// Sends the client the rest of a response that was received completely at `heard`.
async fn deliver_rest<C: ClientSide>(
    exchange: &mut Exchange<'_, C>,
    upload: &mut Pump,
    mut download: Box<Pump>,
    heard: Instant,
    next: Next,
) -> Result<Next, Ended> {
    exchange.holds(upload.held() + download.held());
    let began = Instant::now();
    let relayed = deliver(exchange.scope, &mut exchange.client, &mut download).await;
    let now = Instant::now();
    note_blocked(exchange, now - began);
    exchange.outcome.times.data = now.span_since(heard);
    note_relayed(exchange, upload, &download, relayed)?;
    exchange.outcome.ended = Some(now);
    give_back(exchange, &mut download);
    Ok(finish(exchange, upload, next))
}

/// The fate of an endpoint's connection after an exchange.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AfterUse {
    Keep,
    Close,
}

/// Ends the endpoint's part of an exchange whose response was read completely, even if the client
/// still reads: its connection is kept or closed, and then its slot is given to the next exchange,
/// in this order, so that the next exchange finds the connection.
fn release<C: ClientSide>(
    exchange: &mut Exchange<'_, C>,
    pool: &UpstreamPool,
    upstream: Box<UpstreamConnection<StreamOf<C>>>,
    after: AfterUse,
    now: Instant,
) {
    if let Some(endpoint) = exchange.placement.endpoint.filter(|_| after == AfterUse::Keep) {
        let response = exchange.heads.response.keep_alive_limits;
        let used = LastUse { response, owner: exchange.client.facts().resident.owner(), now };
        exchange.scope.worker.idle.keep(pool, endpoint, upstream, used);
    } else {
        drop(upstream);
    }
    exchange.placement.finish_slot(now);
}

/// Joins both connections into a tunnel, once the client has the head with the status 101.
async fn switch<C: ClientSide>(
    exchange: &mut Exchange<'_, C>,
    pool: &UpstreamPool,
    attempt: Attempt<'_, StreamOf<C>>,
    mut download: Pump,
    relayed: Result<(), Cause>,
) -> Result<Next, Ended> {
    let Attempt { upstream, upload, heard, .. } = attempt;
    exchange.outcome.times.data = Instant::now().span_since(heard);
    note_relayed(exchange, upload, &download, relayed)?;
    let timeouts = &exchange.rules(pool).timeouts;
    let (patience, after_client) = (timeouts.tunnel, timeouts.half_closed);
    let (up, down) = (upload.take_throttle(), download.take_throttle());
    let surplus = download.surplus().to_vec();
    let switched = Switched { patience, after_client, upstream, surplus, up, down, silent: None };
    Ok(tunnel::run(exchange, switched).await)
}

/// Notes the response head and writes it for the client.
fn begin<C: ClientSide>(
    exchange: &mut Exchange<'_, C>,
    route: &CompiledRoute,
    attempt: &Attempt<'_, StreamOf<C>>,
) -> ResponseForm {
    exchange.set_status(imposed_status(exchange).unwrap_or(exchange.heads.response.status));
    record::keep_response_head(exchange, &attempt.raw);
    let form = response_form(exchange, attempt);
    let imposed = status_by_rule(exchange, route).or_else(|| imposed_status(exchange));
    write_head(exchange, route, &form, &attempt.raw, imposed);
    if let Some(status) = imposed {
        exchange.set_status(status);
    }
    exchange.outcome.bytes_sent += exchange.client.begin_response(&mut exchange.heads.response_out);
    form
}

/// The status that the client gets instead of the endpoint's: that of the error that led here.
fn imposed_status<C: ClientSide>(exchange: &Exchange<'_, C>) -> Option<u16> {
    let imposed = exchange.heads.internal.imposed_status()?;
    // These have no body, whatever a client expects of the other status.
    (!matches!(exchange.heads.response.status, 100..200 | 204 | 304)).then_some(imposed)
}

/// The status by the rules of the route, which see that of the endpoint.
fn status_by_rule<C: ClientSide>(exchange: &Exchange<'_, C>, route: &CompiledRoute) -> Option<u16> {
    let rules = route.responses.as_deref()?;
    let status = exchange.heads.response.status;
    if matches!(status, 100..200 | 204 | 304) {
        return None;
    }
    record::with_entry(exchange, |entry| rules.status(&Entry { status, ..*entry }))
}

/// Notes the time for which the client took no bytes, if it stopped taking them.
fn note_blocked<C: ClientSide>(exchange: &mut Exchange<'_, C>, blocked: Duration) {
    if blocked > Duration::ZERO {
        exchange.outcome.delays.client = Micros::from(blocked);
    }
}

/// Notes the bytes transferred in both directions, and the outcome.
fn note_relayed<C: ClientSide>(
    exchange: &mut Exchange<'_, C>,
    upload: &Pump,
    download: &Pump,
    relayed: Result<(), Cause>,
) -> Result<(), Ended> {
    exchange.outcome.bytes_sent += download.written;
    exchange.outcome.body_bytes_sent = download.body_bytes;
    if let Err(cause) = relayed {
        leave_body(exchange, upload);
        return Err(broken(&mut exchange.outcome, cause));
    }
    exchange.arrival.bytes_received += upload.received();
    Ok(())
}

/// The end of an exchange whose relay failed: a client that has received no byte of the response
/// still gets an error response, unless the client itself was at fault.
fn broken(outcome: &mut ExchangeOutcome, cause: Cause) -> Ended {
    if outcome.bytes_sent > 0 {
        return Ended::Broken(cause);
    }
    outcome.status = 0;
    match cause {
        Cause::ClientGone | Cause::ClientSendTimeout | Cause::ClientTooSlow => Ended::Broken(cause),
        _ => cause.into(),
    }
}

fn response_form<C: ClientSide>(
    exchange: &mut Exchange<'_, C>,
    attempt: &Attempt<'_, StreamOf<C>>,
) -> ResponseForm {
    let web = grpc_web::body_form(exchange, &attempt.raw);
    let Exchange { scope, client, heads, arrival, .. } = exchange;
    let is_left =
        heads.internal.drops_body() && heads.request.framing != Framing::None && !arrival.body_read;
    let body = match attempt.upload.is_finished() {
        _ if is_left => RequestBody::Abandoned,
        true => RequestBody::Received,
        false => RequestBody::Arriving,
    };
    let framing = if web.is_some() { Framing::Chunked } else { heads.response.framing };
    let relayed = Some(RelayedResponse { status: heads.response.status, framing });
    let start = ResponseStart { relayed, body, at: attempt.heard };
    let form = client.response_form(*scope, heads, &start);
    ResponseForm { encoder: grpc_web::encoder(form.encoder, web), ..form }
}

fn write_head<C: ClientSide>(
    exchange: &mut Exchange<'_, C>,
    route: &CompiledRoute,
    form: &ResponseForm,
    raw: &[u8],
    imposed: Option<u16>,
) {
    let mut out = std::mem::take(&mut exchange.heads.response_out);
    let Exchange { scope, heads, arrival, .. } = &*exchange;
    out.clear();
    let respond = scope.listener.request_id.respond;
    let date = || scope.worker.date(arrival.head_end);
    let id_header = scope.listener.request_id.header.as_deref().filter(|_| respond);
    let cookie = response_cookie(exchange);
    let why = explain::on_demand(exchange);
    let content_type = grpc_web::response_type(exchange, raw);
    let mut write = |entry: Option<&Entry<'_>>| {
        let head = DownstreamHead {
            head: &heads.response,
            bytes: raw,
            expires: exchange.expires_lines(imposed.unwrap_or(heads.response.status), entry),
            status: imposed,
            content_type: content_type.as_deref(),
            entry,
            edits: route.response_edits.resolve(entry),
            cookie,
            request_id: id_header.map(|header| (header, arrival.request_id.as_bytes())),
            why: why.as_ref().map(|(header, text)| (*header, text.as_slice())),
            limits: arrival.told.as_ref().map_or(&[], |told| &told.headers),
            kept_lines: heads.internal.kept_lines(),
            date: &date,
            framing: form.framing,
            connection: form.connection,
        };
        head_writer::write_response_head(&head, &mut out);
    };
    let by_response = route.expires.as_ref().is_some_and(CompiledExpires::needs_entry);
    if route.response_edits.has_variables() || by_response {
        let then = |entry: &Entry<'_>| write(Some(entry));
        record::with_entry(exchange, then);
    } else {
        write(None);
    }
    exchange.heads.response_out = out;
}

/// The pool's sticky cookie for the response, if it has one.
fn response_cookie<'a, C: ClientSide>(exchange: &Exchange<'a, C>) -> Option<ResponseCookie<'a>> {
    let Exchange { client, heads, arrival, placement, .. } = exchange;
    let pool = placement.pool()?;
    let over_tls = || {
        client.facts().tls.is_some() || came_over_tls(arrival.trust, &heads.request, client.head())
    };
    let affinity = pool.affinity.as_ref()?;
    let is_post = heads.request.method == Method::Post;
    Some(affinity.response(placement.claim.endpoint(), placement.endpoint, is_post, over_tls))
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
    /// Set for a stream.
    watch: Option<StreamWatch<'a>>,
}

impl<S: Socket> Relay<'_, '_, S> {
    async fn run<C: ClientSide<Net: Net<Stream = S>>>(
        &mut self,
        exchange: &mut Exchange<'_, C>,
        at: EndpointRef<'_>,
        blocked: &mut Duration,
    ) -> Result<(), Cause> {
        let scope = exchange.scope;
        let session = exchange.session;
        let client = &mut exchange.client;
        let mut progress = (0, self.attempt.heard);
        // The time since which the client takes no bytes.
        let mut full: Option<Instant> = None;
        let mut paces = Paces::default();
        poll_fn(|context| {
            let turn = &scope.worker.turn;
            if let Some(since) = full.take() {
                *blocked += turn.began().saturating_duration_since(since);
            }
            let ended = self.poll(context, client, &scope.worker.buffers);
            let held = client.held() + self.attempt.held() + self.download.held();
            scope.holds(session, held);
            if let Some(watch) = &mut self.watch {
                watch.look(self.download.body_bytes, turn.began());
            }
            if ended.is_ready() {
                return ended;
            }
            let moved = self.download.progress() + self.attempt.upload.progress();
            if progress.0 != moved {
                progress = (moved, turn.look_at_end());
            }
            let (patience, cause) = match self.download.waiting {
                Waiting::Read => (at.rules.timeouts.read, Cause::UpstreamReadTimeout),
                Waiting::Turn => {
                    scope.worker.note_yield(Yield::Body);
                    (at.rules.timeouts.read, Cause::UpstreamReadTimeout)
                }
                Waiting::Write => {
                    full = Some(turn.look_at_end());
                    (scope.listener.timeouts.send, Cause::ClientSendTimeout)
                }
            };
            let now = full.unwrap_or(progress.1.max(turn.began()));
            let look = match paces.look(scope, at, &*client, &mut *self, now) {
                Ok(look) => look,
                Err(cause) => return Poll::Ready(Err(cause)),
            };
            let late =
                deadline_timer::poll_either(client.timer(), context, progress.1 + patience, look);
            if late.is_ready() {
                turn.goes_on();
            }
            late.map(|()| Err(cause))
        })
        .await
    }

    fn poll<C: ClientSide>(
        &mut self,
        context: &mut Context<'_>,
        client: &mut C,
        buffers: &Buffers,
    ) -> Poll<Result<(), Cause>> {
        // The response ends the exchange when it is complete, even if a rest of the request was
        // never read by the endpoint.
        let down = self.download.poll(
            context,
            &mut self.attempt.upstream.transport,
            client.stream(),
            buffers,
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
        if self.attempt.poll_upload(context, client, buffers).is_err() {
            // The client's request body is malformed; the response that it was receiving ends with
            // it.
            return Poll::Ready(Err(Cause::BadRequestBody));
        }
        // No write is pending that could fail: without this check, a silent stream whose client is
        // gone would occupy its endpoint for ever.
        if self.download.waiting == Waiting::Read
            && self.attempt.poll_client_gone(context, client, buffers).is_ready()
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
    fn look<C: ClientSide>(
        &mut self,
        scope: Scope<'_, C::Net>,
        at: EndpointRef<'_>,
        client: &C,
        relay: &mut Relay<'_, '_, StreamOf<C>>,
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
        if let Some(bytes) = at.rules.timeouts.min_rate {
            let rate = MinRate { bytes, after: at.rules.timeouts.after };
            let silent = download.waiting == Waiting::Read && !sends;
            let sent = || download.body_bytes;
            let looked = self.upstream.look(rate, began, waits(silent), sent);
            look = looked.map_err(|TooSlow| Cause::UpstreamTooSlow)?.or(look);
        }
        Ok(look)
    }
}

/// The number of response bytes that the client has received from the network.
fn client_took<C: ClientSide>(scope: Scope<'_, C::Net>, client: &C, download: &Pump) -> u64 {
    download.written.saturating_sub(client.unacknowledged(&scope.worker.net))
}

fn download_cause(failure: PumpFailure) -> Cause {
    match failure {
        PumpFailure::Write => Cause::ClientGone,
        PumpFailure::Malformed | PumpFailure::TooLarge => Cause::BadResponse,
        PumpFailure::Truncated | PumpFailure::Read | PumpFailure::Unannounced => {
            Cause::UpstreamAborted
        }
    }
}

/// Sends the client the rest of a response that was read completely.
async fn deliver<C: ClientSide>(
    scope: Scope<'_, C::Net>,
    client: &mut C,
    download: &mut Pump,
) -> Result<(), Cause> {
    let patience = scope.listener.timeouts.send;
    let mut progress = (download.progress(), Instant::now());
    let mut pace = Pace::default();
    poll_fn(|context| {
        let nothing = &mut tokio::io::empty();
        let sent = download.poll(context, nothing, client.stream(), &scope.worker.buffers);
        if let Poll::Ready(sent) = sent {
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
        let late = deadline_timer::poll_either(client.timer(), context, deadline, look.flatten());
        late.map(|()| Err(Cause::ClientSendTimeout))
    })
    .await
}

/// Gives a response's buffers back.
fn give_back<C: ClientSide>(exchange: &mut Exchange<'_, C>, download: &mut Pump) {
    let (head, raw) = download.take_buffers();
    exchange.heads.response_out = head;
    exchange.scope.worker.buffers.give_back(raw);
}

/// Gives the request's buffers back and returns the fate of the client's connection.
fn finish<C: ClientSide>(exchange: &mut Exchange<'_, C>, upload: &mut Pump, next: Next) -> Next {
    let Exchange { scope, heads, .. } = exchange;
    let whole = upload.is_finished();
    let (head, raw) = upload.take_buffers();
    heads.request_out = head;
    heads.response_out.clear();
    heads.request_out.clear();
    scope.worker.buffers.give_back(raw);
    // A client that still sends its request must not be reset.
    if next == Next::Close && !whole { Next::Linger } else { next }
}
