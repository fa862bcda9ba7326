//! Has a pool answer a request: body prepared, endpoint picked, connection found or opened, request sent, response head read;
//! another endpoint after a failed connect, another connection after a stale one. What the client gets is `response.rs`.

use tokio::time::Instant;
use weir_balance::{NoEndpoint, Tried};
use weir_stats::{Cause, Micros};
use weir_wire::{Framing, Version};

use crate::alarm::{Elapsed, before};
use crate::connection::{Connection, Scope};
use crate::conversation::{Conversation, Failure};
use crate::exchange::{Ended, Facts, Next, Workspace};
use crate::forward::{self, BodyFraming, ConnectionLine, UpstreamHead};
use crate::idle::UpstreamConnection;
use crate::local::write_all;
use crate::net::Net;
use crate::pump::{Encoder, Pump, PumpFailure};
use crate::record;
use crate::response;
use crate::route::CompiledRoute;
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
    let framing =
        if pool.buffer_request.is_some() { upload.framing_left() } else { work.request.framing };
    let mut search =
        Search { pool, number, tried: Tried::default(), fresh: false, last: Cause::NoEndpoint };
    loop {
        let upstream = search.connection(scope, connection, facts).await?;
        write_head(scope, connection, work, facts, (route, framing));
        upload.prepend(std::mem::take(&mut work.request_out));
        let mut conversation = Conversation::new(upstream, upload);
        match conversation.hear(scope, connection, work, pool).await {
            Ok(()) => {
                facts.times.response = Micros::from(conversation.response_time());
                return response::relay(scope, connection, work, facts, (route, conversation))
                    .await;
            }
            Err(Failure::Silent) if conversation.may_repeat(work.request.method) => {
                // The endpoint closed an idle connection while our request was on its way to it (row C-07).
                search.fresh = true;
                upload = if pool.buffer_request.is_some() {
                    Pump::whole(conversation.into_upload().into_buffers().1)
                } else {
                    // What stood behind the body was put back for the next request; the body is taken from there anew.
                    let behind = work.request.head_bytes + facts.body_in_input;
                    work.input.remove(behind, conversation.returned);
                    initial_body(scope, work, facts, pool)
                };
            }
            Err(failure) => return Err(failure.ended()),
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
    /// Why the latest attempt failed.
    last: Cause,
}

impl Search<'_> {
    async fn connection<N: Net>(
        &mut self,
        scope: Scope<'_, N>,
        connection: &mut Connection<N>,
        facts: &mut Facts,
    ) -> Result<UpstreamConnection<N::Stream>, Ended> {
        loop {
            let mut now = facts.head_end;
            if facts.slot.is_none() {
                facts.slot = Some(self.pick(scope, facts)?);
                facts.times.queue = Micros::ZERO;
            }
            let index = facts.slot.as_ref().map_or(0, weir_balance::Slot::index);
            facts.endpoint = Some(index);
            facts.attempts += 1;
            if !self.fresh
                && let Some(idle) = scope.worker.idle.take(self.pool, (self.number, index), now)
            {
                facts.times.connect = Micros::ZERO;
                facts.reused = true;
                return Ok(idle);
            }
            now = Instant::now();
            let tls = scope.worker.upstream_tls.get(self.number).and_then(Option::as_ref);
            let attempt = self.pool.connect(&scope.worker.net, index, tls);
            let cause = match before(
                &mut connection.alarm,
                now + self.pool.timeouts.connect,
                attempt,
            )
            .await
            {
                Ok(Ok(transport)) => {
                    let connected = Instant::now();
                    self.pool.balancer.connect_succeeded(index);
                    facts.times.connect = Micros::from(connected - facts.head_end);
                    facts.reused = false;
                    return Ok(UpstreamConnection::fresh(transport, connected));
                }
                Ok(Err(ConnectFailure::Socket)) => Cause::ConnectFailed,
                Ok(Err(ConnectFailure::Tls)) => Cause::UpstreamTls,
                Err(Elapsed) => Cause::ConnectTimeout,
            };
            self.pool.balancer.connect_failed(index, scope.worker.balance_clock(Instant::now()));
            self.tried.insert(index);
            self.last = cause;
            facts.slot = None;
            if facts.attempts > self.pool.redispatch {
                return Err(cause.into());
            }
        }
    }

    fn pick<N: Net>(
        &self,
        scope: Scope<'_, N>,
        facts: &Facts,
    ) -> Result<weir_balance::Slot, Ended> {
        let now = scope.worker.balance_clock(facts.head_end);
        let random = scope.worker.random.borrow_mut().u64(..);
        self.pool.balancer.pick(now, random, &self.tried).map_err(|none| match none {
            // When others were tried before, what happened there says more than that none is left.
            _ if self.last != Cause::NoEndpoint => self.last.into(),
            NoEndpoint::Full => Cause::PoolFull.into(),
            NoEndpoint::Unavailable => Cause::NoEndpoint.into(),
        })
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
