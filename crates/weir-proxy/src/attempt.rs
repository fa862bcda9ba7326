//! Has a pool answer a request: body prepared, endpoint picked, connection found or opened, request sent, response head read;
//! another endpoint after a failed connect, another connection after a stale one. What the client gets is `response.rs`.

use std::task::Poll;

use tokio::time::Instant;
use weir_balance::{Arrival, Rejection, Request, Tried};
use weir_config::model::PassiveCause;
use weir_stats::{Cause, Micros};
use weir_wire::{Framing, Version};

use crate::alarm::{Elapsed, before};
use crate::connection::{Connection, Scope};
use crate::conversation::{ClientSide, Conversation, Failure, poll_client_left};
use crate::exchange::{Ended, Facts, Next, Workspace};
use crate::forward::{self, BodyFraming, ConnectionLine, UpstreamHead};
use crate::idle::UpstreamConnection;
use crate::local::write_all;
use crate::net::Net;
use crate::passive;
use crate::pump::{Encoder, Pump, PumpFailure};
use crate::record;
use crate::response;
use crate::route::CompiledRoute;
use crate::transport::Transport;
use crate::upstream::{ConnectFailure, UpstreamPool};

const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// Sends the request to pool number `pool` and its response to the client.
pub(crate) async fn proxy<N: Net>(
    scope: Scope<'_, N>,
    connection: &mut Connection<N>,
    work: &mut Workspace,
    facts: &mut Facts,
    (route, number): (&CompiledRoute, usize),
) -> Result<Next, Ended> {
    let pool = scope.worker.shared.pools.get(number).ok_or(Cause::Internal)?;
    facts.pool = Some(number);
    let mut upload = prepare_body(scope, connection, work, facts, pool).await?;
    let framing = match (work.request.framing, pool.buffer_request) {
        (Framing::None, _) => Framing::None,
        (_, Some(_)) => upload.framing_left(),
        (framing, None) => framing,
    };
    let mut search = Search {
        pool,
        number,
        tried: Tried::default(),
        fresh: false,
        at_hand: pool.buffer_request.is_some()
            || upload.is_decoded() && upload.surplus().is_empty(),
        began: match work.request.framing {
            Framing::None => facts.head_end,
            _ => Instant::now(),
        },
        last: Cause::NoEndpoint,
    };
    loop {
        let upstream = search.connection(scope, connection, work, facts).await?;
        write_head(scope, connection, work, facts, (route, framing));
        upload.prepend(std::mem::take(&mut work.request_out));
        let mut conversation = Conversation::new(upstream, upload);
        match conversation.hear(scope, connection, work, pool).await {
            Ok(()) => {
                facts.times.response = Micros::from(conversation.response_time());
                let heard = scope.worker.balance_clock(conversation.heard);
                let place = (number, facts.endpoint.unwrap_or_default());
                scope.worker.shared.endpoint_answered(place, work.response.status);
                if facts.slot.as_mut().is_some_and(|slot| slot.answered(heard).is_some()) {
                    scope.worker.shared.endpoint_answers_again(place);
                }
                return response::relay(scope, connection, work, facts, (route, conversation))
                    .await;
            }
            Err(Failure::Silent) if conversation.may_repeat(work.request.method) => {
                // The endpoint closed an idle connection while our request was on its way to it (row C-07).
                search.fresh = true;
                search.began = Instant::now();
                upload = if pool.buffer_request.is_some() {
                    Pump::whole(conversation.into_upload().into_buffers().1)
                } else {
                    // What stood behind the body was put back for the next request; the body is taken from there anew.
                    let behind = work.request.head_bytes + facts.body_in_input;
                    work.input.remove(behind, conversation.returned);
                    initial_body(scope, work, facts, pool)
                };
            }
            Err(failure) => {
                if let Some(cause) = passive::cause_of(failure) {
                    let place = (number, facts.endpoint.unwrap_or_default());
                    scope.worker.shared.endpoint_failed(place, cause);
                }
                facts.bytes_received += conversation.upload.body_bytes;
                return Err(failure.ended());
            }
        }
    }
}

/// The search for a connection to an endpoint.
struct Search<'a> {
    pool: &'a UpstreamPool,
    number: usize,
    tried: Tried,
    /// Whether idle connections are passed over, because one turned out closed.
    fresh: bool,
    /// Whether the client owes nothing of this request, so that it may be watched for leaving.
    at_hand: bool,
    /// When it began: after a body was waited for, and anew after a stale connection.
    began: Instant,
    /// Why the latest attempt failed.
    last: Cause,
}

impl Search<'_> {
    async fn connection<N: Net>(
        &mut self,
        scope: Scope<'_, N>,
        connection: &mut Connection<N>,
        work: &mut Workspace,
        facts: &mut Facts,
    ) -> Result<UpstreamConnection<N::Stream>, Ended> {
        loop {
            if facts.slot.is_none() {
                facts.slot = Some(self.pick(scope)?);
                facts.times.queue = Micros::ZERO;
                self.sent(scope, facts);
            }
            let index = facts.slot.as_ref().map_or(0, weir_balance::Slot::index);
            facts.endpoint = Some(index);
            facts.attempts += 1;
            if !self.fresh
                && let Some(idle) =
                    scope.worker.idle.take(self.pool, (self.number, index), self.began)
            {
                facts.times.connect = Micros::ZERO;
                facts.reused = true;
                return Ok(idle);
            }
            let cause = match self.open(scope, connection, work, index).await {
                Ok(transport) => {
                    let connected = Instant::now();
                    self.pool.endpoint_connected(index);
                    facts.times.connect = Micros::from(connected - self.began);
                    facts.reused = false;
                    return Ok(UpstreamConnection::fresh(transport, connected));
                }
                Err(Cause::ClientGone) => return Err(Ended::Broken(Cause::ClientGone)),
                Err(cause) => cause,
            };
            scope.worker.shared.endpoint_failed((self.number, index), PassiveCause::Connect);
            self.tried.insert(index);
            self.last = cause;
            facts.slot = None;
            if facts.attempts > self.pool.redispatch {
                return Err(cause.into());
            }
        }
    }

    /// Opens a connection, unless the client leaves first.
    async fn open<N: Net>(
        &self,
        scope: Scope<'_, N>,
        connection: &mut Connection<N>,
        work: &mut Workspace,
        index: usize,
    ) -> Result<Transport<N::Stream>, Cause> {
        let deadline = Instant::now() + self.pool.timeouts.connect;
        let tls = scope.worker.upstream_tls.get(self.number).and_then(Option::as_ref);
        let mut attempt = std::pin::pin!(self.pool.connect(&scope.worker.net, index, tls));
        let Connection { client: stream, alarm, .. } = connection;
        let (input, buffers) = (&mut work.input, &scope.worker.buffers);
        let opened = std::future::poll_fn(|context| {
            if let Poll::Ready(opened) = attempt.as_mut().poll(context) {
                return Poll::Ready(opened.map_err(|failure| match failure {
                    ConnectFailure::Socket => Cause::ConnectFailed,
                    ConnectFailure::Tls => Cause::UpstreamTls,
                }));
            }
            let mut side = ClientSide { stream, input, buffers };
            if self.at_hand && poll_client_left(context, &mut side).is_ready() {
                return Poll::Ready(Err(Cause::ClientGone));
            }
            Poll::Pending
        });
        before(alarm, deadline, opened).await.unwrap_or(Err(Cause::ConnectTimeout))
    }

    /// From now on the endpoint is waited for, and nobody else, if the whole request is at hand.
    fn sent<N: Net>(&self, scope: Scope<'_, N>, facts: &mut Facts) {
        let now = if facts.attempts == 0 { self.began } else { Instant::now() };
        let now_us = scope.worker.balance_clock(now);
        if let Some(slot) = facts.slot.as_mut().filter(|_| self.at_hand) {
            slot.sent(now_us);
        }
        scope.worker.shared.tell_stalls(self.number, now_us);
    }

    fn pick<N: Net>(&self, scope: Scope<'_, N>) -> Result<weir_balance::Slot, Ended> {
        let now = scope.worker.balance_clock(self.began);
        let random = scope.worker.random.borrow_mut().u64(..);
        match self.pool.balancer.arrive(&Request::new(now, random, &self.tried)) {
            Arrival::Dispatched(slot) => Ok(slot),
            // When others were tried before, what happened there says more than that none is left.
            Arrival::Rejected(_) if self.last != Cause::NoEndpoint => Err(self.last.into()),
            Arrival::Rejected(Rejection::Unavailable) => Err(Cause::NoEndpoint.into()),
            // Pools are made without a queue yet.
            Arrival::Rejected(Rejection::Full | Rejection::QueueFull) | Arrival::Queued(_) => {
                Err(Cause::PoolFull.into())
            }
        }
    }
}

/// The pump for a request body of which nothing but what came with the head was read.
fn initial_body<N: Net>(
    scope: Scope<'_, N>,
    work: &Workspace,
    facts: &mut Facts,
    pool: &UpstreamPool,
) -> Pump {
    let framing = work.request.framing;
    let available = work.input.bytes().get(work.request.head_bytes..).unwrap_or_default();
    let take = match framing {
        Framing::None | Framing::UntilClose => 0,
        Framing::Length(length) => {
            available.len().min(usize::try_from(length).unwrap_or(usize::MAX))
        }
        Framing::Chunked => available.len(),
    };
    facts.body_in_input = take;
    let encoder = if framing == Framing::Chunked { Encoder::Chunked } else { Encoder::Plain };
    let mut raw = Vec::new();
    if take > 0 {
        raw = scope.worker.buffers.small();
        raw.extend_from_slice(available.get(..take).unwrap_or_default());
    }
    let own = pool.buffer_request.unwrap_or(u64::MAX);
    let limit = scope.listener.limits.body_bytes.unwrap_or(u64::MAX).min(own);
    Pump::new(Vec::new(), framing, encoder, raw, 0).with_limit(Some(limit))
}

/// Makes sure that the body may come, and that the part of it at hand is sound, before an endpoint is troubled.
async fn prepare_body<N: Net>(
    scope: Scope<'_, N>,
    connection: &mut Connection<N>,
    work: &mut Workspace,
    facts: &mut Facts,
    pool: &UpstreamPool,
) -> Result<Pump, Ended> {
    let mut upload = initial_body(scope, work, facts, pool);
    if work.request.framing == Framing::None {
        return Ok(upload);
    }
    if let Framing::Length(length) = work.request.framing
        && length > upload.limit()
    {
        return Err(Cause::BodyTooLarge.into());
    }
    upload.decode_ahead().map_err(body_failure)?;
    if work.request.expect_continue && work.request.version == Version::Http11 && !upload.has_data()
    {
        write_all(scope, connection, CONTINUE).await.map_err(Ended::Broken)?;
    }
    if pool.buffer_request.is_some() {
        return whole_body(scope, connection, work, upload).await;
    }
    while !upload.has_begun() {
        read_body(scope, connection, &mut upload).await?;
    }
    Ok(upload)
}

/// Reads the whole body, so that a slow sender occupies no endpoint (row Q-20).
async fn whole_body<N: Net>(
    scope: Scope<'_, N>,
    connection: &mut Connection<N>,
    work: &mut Workspace,
    mut upload: Pump,
) -> Result<Pump, Ended> {
    let mut body = Vec::new();
    upload.take_decoded(&mut body);
    while !upload.is_decoded() {
        read_body(scope, connection, &mut upload).await?;
        upload.take_decoded(&mut body);
    }
    work.input.append(upload.surplus());
    Ok(Pump::whole(body))
}

/// Reads and decodes once.
async fn read_body<N: Net>(
    scope: Scope<'_, N>,
    connection: &mut Connection<N>,
    upload: &mut Pump,
) -> Result<(), Ended> {
    let deadline = Instant::now() + scope.listener.timeouts.body;
    let Connection { client, alarm, .. } = connection;
    let fill =
        std::future::poll_fn(|context| upload.poll_fill(context, client, &scope.worker.buffers));
    match before(alarm, deadline, fill).await {
        Ok(filled) => filled.map_err(body_failure)?,
        Err(Elapsed) => return Err(Cause::BodyTimeout.into()),
    }
    upload.decode_ahead().map_err(body_failure)
}

/// What a broken request body means while nothing was answered yet.
pub(crate) fn body_failure(failure: PumpFailure) -> Ended {
    match failure {
        PumpFailure::Malformed => Cause::BadRequestBody.into(),
        PumpFailure::TooLarge => Cause::BodyTooLarge.into(),
        PumpFailure::Truncated | PumpFailure::Read | PumpFailure::Write => {
            Ended::Broken(Cause::ClientGone)
        }
    }
}
fn write_head<N: Net>(
    scope: Scope<'_, N>,
    connection: &Connection<N>,
    work: &mut Workspace,
    facts: &Facts,
    (route, framing): (&CompiledRoute, Framing),
) {
    let mut out = std::mem::take(&mut work.request_out);
    out.clear();
    record::with_entry(scope, connection, work, (facts, Some(route)), |entry| {
        let head = UpstreamHead {
            head: &work.request,
            bytes: work.input.bytes(),
            entry,
            forwarded: &scope.listener.forwarded,
            request_id: &scope.listener.request_id,
            edits: &route.request_edits,
            trust: facts.trust,
            framing: match framing {
                Framing::None | Framing::UntilClose => BodyFraming::None,
                Framing::Length(length) => BodyFraming::Length(length),
                Framing::Chunked => BodyFraming::Chunked,
            },
            connection: if work.request.upgrade {
                ConnectionLine::Upgrade
            } else {
                ConnectionLine::None
            },
        };
        forward::write_request_head(&head, &mut out);
    });
    work.request_out = out;
}
