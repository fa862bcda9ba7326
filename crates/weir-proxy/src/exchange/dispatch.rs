//! The dispatch of a request to an endpoint: obtains a slot and a connection, and after a failed
//! attempt further ones, within the limits of the pool's `retry`. It sends no request.

mod connecting;

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use weir_balance::{Arrival, Permit, Rejection, Request, Slot, Ticket, Tried};
use weir_config::model::PassiveCause;
use weir_stats::{Cause, Micros};
use weir_wire::Framing;

use crate::exchange::client_side::{ClientSide, ReadBody, poll_sender_gone, wait_with};
use crate::exchange::dispatch::connecting::Unopened;
use crate::exchange::facts::{SpokenProtocol, Wait};
use crate::exchange::outcome::{Ended, Refusal};
use crate::exchange::pump::Pump;
use crate::exchange::reasons::{about, octets};
use crate::exchange::scope::Scope;
use crate::exchange::server_name::RequestedName;
use crate::exchange::state::{Exchange, StreamOf};
use crate::limiting::pool::BreakerOpen;
use crate::limiting::table::OpenPlace;
use crate::limits::{CARRY_OVERS, HTTP2_REPEATS, SHORTAGE_DOUBLINGS, SHORTAGE_PAUSE};
use crate::net::Net;
use crate::net::buffers::Buffers;
use crate::time::deadline_timer::Elapsed;
use crate::time::instant::Instant;
use crate::upstream::connect_trouble::ConnectFailure;
use crate::upstream::idle::UpstreamConnection;
use crate::upstream::retry::Trouble;
use crate::upstream::rules::UpstreamRules;
use crate::upstream::{EndpointRef, UpstreamPool};
use crate::worker::migration::{GlobalSeniority, WaitingRequest};

/// The dispatch of an exchange, over all its attempts.
pub(crate) struct Dispatch<'a> {
    pub(crate) pool: &'a Arc<UpstreamPool>,
    pub(crate) number: usize,
    /// The settings of the request, the pool's or its route's.
    pub(crate) rules: &'a UpstreamRules,
    /// The name that TLS asks the server for; `None` for the server's own.
    requested: Option<Box<RequestedName>>,
    pub(crate) tried: Tried,
    /// Set if idle connections are skipped, because one turned out to be closed.
    fresh: bool,
    /// The number of times that it went to another connection because it was not processed.
    repeats: u8,
    /// Set if the client has sent this whole request: further bytes belong to the next one.
    at_hand: bool,
    /// Set if chunks of the body were read that are not in the input.
    chunks_read: bool,
    /// The beginning of the dispatch: after the wait for a body.
    began: Instant,
    /// The time at the last look at the clock.
    pub(crate) now: Instant,
    /// The same time on the balancer's clock.
    now_us: u64,
    /// The time spent in the queue.
    waited: Duration,
    /// The number of attempts that were followed by another one.
    retries: u32,
    /// The number of waits before a tried endpoint was tried again.
    backoffs: u32,
    /// The failure of the latest attempt.
    last: Option<Trouble>,
    /// The number of connects that failed for lack of a resource of this process, and the time of
    /// the first.
    shortages: u32,
    short_since: Option<Instant>,
}

impl<'a> Dispatch<'a> {
    /// The number of the name among idle connections; 0 for the server's own.
    fn name_number(&self) -> u64 {
        self.requested.as_ref().map_or(0, |requested| requested.number)
    }

    pub(crate) fn new<C: ClientSide>(
        exchange: &Exchange<'a, C>,
        pool: &'a Arc<UpstreamPool>,
        number: usize,
        upload: &Pump,
    ) -> Self {
        let scope = exchange.scope;
        let now = match (exchange.heads.request.framing, &exchange.arrival.waiting) {
            (Framing::None, None) => exchange.arrival.head_end,
            _ => Instant::now(),
        };
        // A request that waited in another process keeps the time at which that wait began.
        let began = exchange.arrival.waiting.as_ref().map_or(now, |waiting| waiting.since);
        let now_us = scope.worker.balance_clock(now);
        pool.retry_budget.note_request(now_us);
        let rules = exchange.rules(pool);
        Self {
            pool,
            number,
            rules,
            requested: RequestedName::of(exchange, pool),
            tried: Tried::default(),
            fresh: false,
            repeats: 0,
            at_hand: upload.is_whole || upload.is_decoded() && upload.surplus().is_empty(),
            chunks_read: exchange.heads.request.framing == Framing::Chunked && upload.has_read,
            began,
            now,
            now_us,
            waited: now.saturating_duration_since(began),
            retries: 0,
            backoffs: 0,
            last: None,
            shortages: 0,
            short_since: None,
        }
    }

    /// Makes the next connection a new one.
    pub(crate) fn pass_over_idle<N: Net>(&mut self, scope: Scope<'_, N>) {
        self.fresh = true;
        self.look_at_clock(scope);
    }

    /// Tells whether a request that its endpoint has not processed goes to another connection at
    /// once, and counts that.
    #[cold]
    pub(crate) fn repeats<N: Net>(&mut self, scope: Scope<'_, N>) -> bool {
        self.look_at_clock(scope);
        let is_first = self.repeats < HTTP2_REPEATS;
        self.repeats += u8::from(is_first);
        is_first
    }

    fn look_at_clock<N: Net>(&mut self, scope: Scope<'_, N>) {
        self.now = Instant::now();
        self.now_us = scope.worker.balance_clock(self.now);
    }

    /// Obtains a connection to an endpoint; `placement.slot` then has its slot.
    pub(crate) async fn connection<C: ClientSide>(
        &mut self,
        exchange: &mut Exchange<'a, C>,
        upload: &mut Pump,
    ) -> Result<Box<UpstreamConnection<StreamOf<C>>>, Ended> {
        let scope = exchange.scope;
        loop {
            if exchange.placement.slot.is_none() {
                self.take_slot(exchange, upload).await?;
                self.wait_for_endpoint(exchange);
            } else if self.short_since.is_some() {
                self.wait_for_endpoint(exchange);
            }
            let index = exchange.placement.slot.as_ref().map_or(0, Slot::index);
            exchange.set_endpoint(index);
            exchange.placement.attempts += 1;
            if C::SHARES_CONNECTIONS
                && let Some(ready) = self.ready_connection(exchange, index).await
            {
                exchange.outcome.times.connect = self.connect_time(self.now);
                note_connection(exchange, &ready);
                return Ok(ready);
            }
            // In allocations of their own here and below, so that exchanges that wait for their
            // response do not reserve space for the steps that few of them take.
            let opened = Box::pin(self.open(exchange, upload, index)).await;
            self.look_at_clock(scope);
            let trouble = match opened {
                Ok((connection, tls)) => {
                    exchange.outcome.delays.tls = tls.map_or(Micros::NEVER, Micros::from);
                    self.pool.endpoint_connected(index);
                    exchange.outcome.times.connect = self.connect_time(self.now);
                    note_connection(exchange, &connection);
                    return Ok(connection);
                }
                Err(Unopened::ClientGone) => return Err(Ended::Broken(Cause::ClientGone)),
                Err(Unopened::Failed(failure @ ConnectFailure::Shortage(_))) => {
                    let resident = exchange.client.facts().resident;
                    let _ordered = scope.worker.close_for_connect(&failure, resident);
                    scope.connect_failed(self.at(index), failure);
                    Box::pin(self.outlast_shortage(exchange, upload)).await?;
                    continue;
                }
                Err(Unopened::NoWebSockets) => self.note_no_websockets(exchange, index),
                Err(Unopened::Failed(failure)) => {
                    let trouble = failure.trouble();
                    scope.connect_failed(self.at(index), failure);
                    scope.endpoint_failed(self.at(index), PassiveCause::Connect);
                    trouble
                }
            };
            if !self.may_go_on(exchange, trouble) {
                return Err(self.failed(trouble.cause()));
            }
            Box::pin(self.go_on(exchange, upload, trouble)).await?;
        }
    }

    /// Tells the operator that an endpoint takes no WebSockets over HTTP/2, which is no failure of
    /// it: any client can ask for one. Another endpoint may take them.
    #[cold]
    fn note_no_websockets<C: ClientSide>(
        &self,
        exchange: &mut Exchange<'_, C>,
        index: usize,
    ) -> Trouble {
        let worker = exchange.scope.worker;
        if let Some(slot) = &mut exchange.placement.slot {
            slot.not_sent();
        }
        if let Some(endpoint) = self.pool.endpoints.get(index) {
            let sentence = format!(
                "pool {}: server {} takes no WebSockets over HTTP/2 (its SETTINGS lack \
                 ENABLE_CONNECT_PROTOCOL, RFC 8441); `http=1` for it, or `http_version auto` with \
                 `tls`, lets Weir ask for them over HTTP/1.1",
                self.pool.name, endpoint.name
            );
            worker.client_notices.say(&worker.process.incidents, self.now, &sentence);
        }
        Trouble::NoWebSockets
    }

    /// An endpoint of the pool.
    pub(crate) fn at(&self, index: usize) -> EndpointRef<'a> {
        EndpointRef { pool: self.pool, index, rules: self.rules }
    }

    /// Tells whether the attempt with this failure is followed by another one, and counts that one
    /// if so.
    pub(crate) fn may_go_on<C: ClientSide>(
        &mut self,
        exchange: &mut Exchange<'_, C>,
        trouble: Trouble,
    ) -> bool {
        let scope = exchange.scope;
        let policy = &self.rules.retry;
        self.look_at_clock(scope);
        let elapsed = self.now.saturating_duration_since(exchange.arrival.head_end);
        if !policy.covers(trouble, self.retries, elapsed) {
            return false;
        }
        if let Some(index) = exchange.placement.endpoint {
            self.tried.insert(index);
        }
        let goes_somewhere =
            policy.asks_again() || self.pool.balancer.has_untried(self.now_us, &self.tried);
        if !goes_somewhere {
            return false;
        }
        if let Some(limits) =
            self.pool.limits.as_ref().filter(|_| exchange.placement.retry_place.is_none())
        {
            let worker = scope.worker;
            let now_ns = worker.process.limit_clock(self.now);
            let Ok(place) = limits.retry(worker.number, now_ns) else {
                return false;
            };
            exchange.placement.retry_place = place;
        }
        if self.pool.retry_budget.ask(self.now_us) == Permit::Refused {
            return false;
        }
        self.retries += 1;
        true
    }

    /// Ends the attempt, and waits if every endpoint was tried.
    pub(crate) async fn go_on<C: ClientSide>(
        &mut self,
        exchange: &mut Exchange<'_, C>,
        upload: &mut Pump,
        trouble: Trouble,
    ) -> Result<(), Ended> {
        let scope = exchange.scope;
        exchange
            .placement
            .failed
            .extend(exchange.placement.endpoint.map(|index| (index, trouble.setback())));
        exchange.placement.slot = None;
        scope.worker.sessions.set_endpoint(exchange.session, None);
        self.last = Some(trouble);
        self.fresh = false;
        let untried = self.pool.balancer.has_untried(self.now_us, &self.tried);
        if untried || !self.rules.retry.asks_again() {
            return Ok(());
        }
        self.tried.clear();
        let random = scope.worker.random.borrow_mut().u64(..);
        let deadline = self.now + self.rules.retry.backoff(self.backoffs, random);
        self.backoffs += 1;
        self.pause(exchange, upload, deadline).await
    }

    /// Waits until this process has descriptors, ports or memory again, and keeps the slot, though
    /// nothing is sent to its endpoint meanwhile. Neither the endpoint's health nor the pool's
    /// `retry` counts this as a failure.
    ///
    /// # Errors
    /// The connect timeout has passed, or the client has closed its connection.
    #[cold]
    async fn outlast_shortage<C: ClientSide>(
        &mut self,
        exchange: &mut Exchange<'_, C>,
        upload: &mut Pump,
    ) -> Result<(), Ended> {
        let scope = exchange.scope;
        scope.worker.process.shortages.fetch_add(1, Ordering::Relaxed);
        if let Some(slot) = &mut exchange.placement.slot {
            slot.not_sent();
        }
        let since = *self.short_since.get_or_insert(self.now);
        let until = since + self.rules.timeouts.connect;
        if self.now >= until {
            return Err(Cause::NoResources.into());
        }
        exchange.placement.attempts = exchange.placement.attempts.saturating_sub(1);
        let longest = SHORTAGE_PAUSE * (1 << self.shortages.min(SHORTAGE_DOUBLINGS));
        self.shortages += 1;
        // A random share, so that waiting exchanges do not all continue at the same moment.
        let share = scope.worker.random.borrow_mut().u32(500..=1_000);
        let pause = longest * share / 1_000;
        self.pause(exchange, upload, until.min(self.now + pause)).await
    }

    /// Waits until `deadline`.
    ///
    /// # Errors
    /// The client has closed its connection.
    async fn pause<C: ClientSide>(
        &mut self,
        exchange: &mut Exchange<'_, C>,
        upload: &mut Pump,
        deadline: Instant,
    ) -> Result<(), Ended> {
        let buffers = &exchange.scope.worker.buffers;
        let gone = wait_with(&mut exchange.client, deadline, |client, context| {
            self.poll_gone(client, context, buffers, upload)
        });
        match gone.await {
            Ok(()) => return Err(Ended::Broken(Cause::ClientGone)),
            Err(Elapsed) => self.look_at_clock(exchange.scope),
        }
        Ok(())
    }

    /// Ready when the client has gone away.
    fn poll_gone<C: ClientSide>(
        &self,
        client: &mut C,
        context: &mut Context<'_>,
        buffers: &Buffers,
        upload: &mut Pump,
    ) -> Poll<()> {
        // A body that was sent before may have been received whole. The bytes behind it, if it was
        // read together with some, have to be put back before others are read.
        let is_received = upload.has_read && upload.is_decoded() && upload.surplus().is_empty();
        if self.at_hand || is_received {
            client.poll_gone(context, buffers)
        } else {
            poll_sender_gone(client, context, buffers, upload)
        }
    }

    /// Tells whether the part of a request that was read is still available as received, and small
    /// enough to be moved. Decoded chunks are not available as received.
    fn may_leave<C: ClientSide>(&self, client: &C, upload: &Pump) -> bool {
        client.may_leave(upload.raw_bytes()) && (upload.is_whole || !self.chunks_read)
    }

    /// Starts measuring how long the endpoint takes to answer, if the whole request is at hand, so
    /// that only the endpoint can be the cause of a delay; sends notices about stalled endpoints.
    fn wait_for_endpoint<C: ClientSide>(&self, exchange: &mut Exchange<'_, C>) {
        let scope = exchange.scope;
        if let Some(slot) = exchange.placement.slot.as_mut().filter(|_| self.at_hand) {
            slot.sent(self.now_us);
        }
        scope.tell_stalls(self.pool, self.now_us);
    }

    /// Takes a slot, at once or after a wait in the queue, and stores it in `placement.slot`. A
    /// further attempt arrives at the end of the queue: the exchanges in the queue are waiting for
    /// their first attempt.
    async fn take_slot<C: ClientSide>(
        &mut self,
        exchange: &mut Exchange<'a, C>,
        upload: &mut Pump,
    ) -> Result<(), Ended> {
        for _ in 0..CARRY_OVERS {
            let got = match self.arrive(exchange) {
                Arrival::Dispatched(slot) => Ok(slot),
                Arrival::Queued(ticket) => Box::pin(self.wait(exchange, upload, ticket)).await?,
                Arrival::Rejected(rejection) => Err(rejection),
            };
            let slot = match got {
                Ok(slot) => slot,
                Err(Rejection::Unavailable) if self.lost_others() => {
                    self.tried.clear();
                    continue;
                }
                Err(rejection) => return Err(self.turned_away(rejection)),
            };
            let own = slot.is_of(&self.pool.balancer);
            let slot = if own { Some(slot) } else { self.carry_over(exchange, slot) };
            if let Some(slot) = slot {
                exchange.outcome.times.queue = Micros::from(self.waited);
                exchange.placement.slot_since = self.now;
                exchange.placement.decision = slot.decision();
                if self.retries > 0 {
                    exchange.outcome.delays.retry = self.connect_time(self.now);
                }
                exchange.placement.slot = Some(slot);
                return Ok(());
            }
        }
        Err(Cause::NoEndpoint.into())
    }

    /// Asks the balancer for a slot.
    fn arrive<C: ClientSide>(&self, exchange: &mut Exchange<'_, C>) -> Arrival {
        let scope = exchange.scope;
        let random = scope.worker.random.borrow_mut().u64(..);
        let client = octets(exchange.arrival.client.filter(|_| self.pool.queue.is_some()));
        let request = Request {
            bound: exchange.placement.claim.endpoint(),
            key: exchange.placement.key,
            tag: exchange.arrival.request_id.tag(),
            about: about(exchange, &client),
            seniority: seniority(exchange),
            holder: Some(scope.worker.holder()),
            ..Request::new(self.now_us, random, &self.tried)
        };
        let arrival = self.pool.balancer.arrive(&request);
        if let Some(waiting) = &mut exchange.arrival.waiting {
            waiting.turn = None;
        }
        arrival
    }

    /// Waits in the queue until a slot is free, the client closes its connection or the exchange's
    /// waiting time has passed.
    async fn wait<C: ClientSide>(
        &mut self,
        exchange: &mut Exchange<'_, C>,
        upload: &mut Pump,
        mut ticket: Ticket,
    ) -> Result<Result<Slot, Rejection>, Ended> {
        let _place = self.waiting_place(exchange)?;
        let scope = exchange.scope;
        scope.worker.tick_while_waiting(&self.pool.balancer);
        if exchange.placement.queue_position == 0 {
            exchange.placement.queue_position = ticket.position().saturating_add(1);
        }
        if exchange.placement.wait.is_none() {
            // For a request from another process, its position in that queue is known, but not the
            // exchanges that were ahead there.
            let wait = Wait::new(ticket.waits_for(), ticket.ahead());
            exchange.placement.wait = Some(Box::new(wait));
        }
        exchange.holds(upload.held());
        let (session, others) = (exchange.session, exchange.heads.held() + upload.held());
        let began = Instant::now();
        let timeout = self.pool.queue.as_ref().map_or(Duration::ZERO, |queue| queue.timeout);
        let deadline = began + timeout.saturating_sub(self.waited);
        let heads = &exchange.heads;
        // Of a body that is decoded from base64, the received form is gone.
        let movable = exchange.placement.attempts == 0
            && heads.internal.error().is_none()
            && !heads.is_text_call();
        let buffers = &scope.worker.buffers;
        let served = wait_with(&mut exchange.client, deadline, |client, context| {
            if let Poll::Ready(served) = Pin::new(&mut ticket).poll(context) {
                return Poll::Ready(Waited::Served(served));
            }
            if scope.is_parting() && movable && self.may_leave(client, upload) {
                return Poll::Ready(Waited::Parting);
            }
            if scope.worker.sessions.must_shrink(session) {
                client.shrink(buffers);
                scope.holds(session, client.held() + others);
            }
            self.poll_gone(client, context, buffers, upload).map(|()| Waited::ClientGone)
        });
        let served = served.await;
        self.look_at_clock(scope);
        self.waited += self.now - began;
        exchange.outcome.times.queue = Micros::from(self.waited);
        match served {
            Ok(Waited::Served(served)) => Ok(served),
            Ok(Waited::ClientGone) => Err(Ended::Broken(Cause::ClientGone)),
            Ok(Waited::Parting) => {
                let slot = self.part(exchange, upload, ticket);
                slot.map(Ok).ok_or(Ended::Parted)
            }
            Err(Elapsed) => {
                let slot = ticket.time_out();
                slot.map(Ok).ok_or_else(|| self.refused_by_queue(Cause::QueueTimeout))
            }
        }
    }

    /// Leaves the queue so that another process can continue the request; returns a slot if one was
    /// assigned at the same moment.
    #[cold]
    fn part<C: ClientSide>(
        &self,
        exchange: &mut Exchange<'_, C>,
        upload: &mut Pump,
        ticket: Ticket,
    ) -> Option<Slot> {
        let scope = exchange.scope;
        let epoch = scope.worker.process.epoch;
        let seniority = match &exchange.arrival.waiting {
            Some(waiting) => waiting.seniority,
            None => GlobalSeniority::new(epoch, ticket.since_us(), ticket.seq()),
        };
        let number = ticket.seq();
        let slot = ticket.withdraw();
        if slot.is_none() {
            let since = self.now - self.waited;
            let (id, position) =
                (exchange.arrival.request_id.clone(), exchange.placement.queue_position);
            let mut waiting =
                WaitingRequest::new(id, exchange.arrival.head_end, since, position, seniority);
            waiting.number = Some(number);
            let body = ReadBody { raw: &upload.take_raw(), is_whole: upload.is_whole };
            exchange.client.leave(Box::new(waiting), &exchange.heads.request, &body);
        }
        slot
    }

    /// Returns true if endpoints that were not tried yet were removed by a reload: the tried ones
    /// are then tried again.
    fn lost_others(&self) -> bool {
        !self.tried.is_empty() && !self.pool.balancer.is_latest()
    }

    fn turned_away(&self, rejection: Rejection) -> Ended {
        match rejection {
            // If endpoints were tried before, the failure there is more informative than the lack
            // of further ones.
            Rejection::Unavailable => {
                self.failed(self.last.map_or(Cause::NoEndpoint, Trouble::cause))
            }
            Rejection::Full => Cause::PoolFull.into(),
            Rejection::QueueFull => self.refused_by_queue(Cause::QueueFull),
        }
    }

    /// Returns the end of an exchange whose last attempt failed for this reason.
    fn failed(&self, cause: Cause) -> Ended {
        let unconnected =
            matches!(cause, Cause::ConnectFailed | Cause::ConnectTimeout | Cause::UpstreamTls);
        match self.rules.connect_status.filter(|_| unconnected) {
            Some(status) => Ended::Refused(Refusal { cause, status }),
            None => cause.into(),
        }
    }

    /// Takes a place in the count of the client's waiting requests. An exchange that gets none
    /// leaves the queue at once.
    fn waiting_place<C: ClientSide>(
        &self,
        exchange: &Exchange<'_, C>,
    ) -> Result<Option<OpenPlace>, Ended> {
        let scope = exchange.scope;
        let Some(limits) = &self.pool.limits else { return Ok(None) };
        let now_ns = scope.worker.process.limit_clock(self.now);
        let place = limits.wait(exchange.arrival.client, scope.worker.number, now_ns);
        place.map_err(|BreakerOpen| self.refused_by_queue(Cause::QueueFull))
    }

    fn refused_by_queue(&self, cause: Cause) -> Ended {
        let refusal = Refusal::from(cause);
        let status = self.pool.queue.as_ref().map_or(refusal.status, |queue| queue.status);
        Ended::Refused(Refusal { status, ..refusal })
    }

    /// The time from the first slot to the connection of the last attempt: failed attempts are
    /// included, the time in the queue is not.
    fn connect_time(&self, now: Instant) -> Micros {
        (now - self.waited).span_since(self.began)
    }
}

/// Notes the connection that an attempt has.
fn note_connection<C: ClientSide>(
    exchange: &mut Exchange<'_, C>,
    connection: &UpstreamConnection<StreamOf<C>>,
) {
    exchange.placement.reused = connection.reused;
    exchange.placement.spoken =
        C::SHARES_CONNECTIONS.then_some(if connection.transport.is_shared() {
            SpokenProtocol::Http2
        } else {
            SpokenProtocol::Http1
        });
}

/// The place in the order of arrival of a request that waited in another process. A further attempt
/// gets a new place.
fn seniority<C: ClientSide>(exchange: &Exchange<'_, C>) -> Option<weir_balance::Seniority> {
    let scope = exchange.scope;
    let waiting = exchange.arrival.waiting.as_ref().filter(|_| exchange.placement.attempts == 0)?;
    let elsewhere = || waiting.seniority.rank(scope.worker.process.epoch);
    let number = waiting.number.unwrap_or_else(elsewhere);
    Some(weir_balance::Seniority { number, since_us: scope.worker.balance_clock(waiting.since) })
}

/// The event that ended a wait in the queue.
enum Waited {
    Served(Result<Slot, Rejection>),
    ClientGone,
    /// Another process is to continue the request.
    Parting,
}
