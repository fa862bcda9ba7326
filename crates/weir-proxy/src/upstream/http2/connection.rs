//! One HTTP/2 connection to an endpoint: the state that its streams share, and the task that moves
//! its frames, notices that it is dead and ends it.
//!
//! ```text
//!  SETTINGS ─▶ Open ──GOAWAY, age, requests, idle, endpoint removed──▶ Leaving ──no streams──▶ closed
//!               │          no stream begins any more                                            ▲
//!               └───────────── end of the connection, PING not answered ────────────────────────┘
//! ```

use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use h2::Reason;
use h2::client::SendRequest;
use http::uri::Scheme;
use weir_config::model::Keepalive;
use weir_stats::metrics::Http2Excess;

use crate::limiting::http2_windows::{OpenStreams, Pings, ReadCount, ReadCounts, Windows};
use crate::limiting::server_connections::{CountedConnection, HolderCount};
use crate::limiting::window_growth::WindowGrowth;
use crate::limits::{
    HTTP2_ENDPOINT_STREAMS, HTTP2_LAST_WORDS, HTTP2_OWN_RESETS, HTTP2_PING_AFTER, HTTP2_PING_AGAIN,
    HTTP2_PING_PATIENCE, HTTP2_UPSTREAM_WINDOW,
};
use crate::net::Net;
use crate::time::deadline_timer::DeadlineTimer;
use crate::time::instant::Instant;
use crate::upstream::UpstreamEndpoint;
use crate::upstream::http2::Say;
use crate::upstream::http2::stream::StreamPurpose;
use crate::upstream::http2::watched_io::{IoWatch, WatchedIo};
use crate::upstream::idle_count::OfWorker;
use crate::upstream::stream_counts::StreamTally;

/// The state that a connection and its streams share.
pub(crate) struct SharedConnection {
    /// `None` once no stream may begin any more.
    sender: RefCell<Option<SendRequest<Bytes>>>,
    /// The most streams at once.
    limit: Cell<usize>,
    /// The streams of which an exchange has a place.
    streams: Cell<usize>,
    /// The number of streams so far, and what of it was added to the endpoint's.
    tally: Cell<StreamTally>,
    added: Cell<StreamTally>,
    /// The number of streams that were reset from here.
    own_resets: Cell<u64>,
    /// The number of the name that its TLS asked for; 0 for the endpoint's own.
    pub(super) name: u64,
    scheme: Scheme,
    opened: Instant,
    /// The time at which the latest stream ended while no other was open, or the first began.
    changed: Cell<Instant>,
    limits: Cell<ConnectionLimits>,
    /// Set while it is counted among the endpoint's idle connections.
    is_counted_idle: Cell<bool>,
    pub(super) endpoint: Arc<UpstreamEndpoint>,
    worker: OfWorker,
    holder: Arc<HolderCount>,
    /// The bytes of responses that were read.
    reads: Rc<ReadCounts>,
    /// Set while its windows are larger than at first.
    has_grown: Cell<bool>,
    /// The task that moves its frames.
    driver: RefCell<Option<Waker>>,
}

/// The parts of a new connection's shared state.
pub(super) struct ConnectionParts {
    pub(super) sender: SendRequest<Bytes>,
    /// The most streams at once that the endpoint permits.
    pub(super) permitted: usize,
    pub(super) name: u64,
    pub(super) scheme: Scheme,
    pub(super) limits: ConnectionLimits,
    pub(super) endpoint: Arc<UpstreamEndpoint>,
    pub(super) worker: OfWorker,
    pub(super) holder: Arc<HolderCount>,
}

/// The limits of `keepalive`, as of the latest use.
#[derive(Clone, Copy)]
pub(super) struct ConnectionLimits {
    timeout: Duration,
    max_age: Duration,
    max_requests: u64,
    idle: u32,
}

impl From<&Keepalive> for ConnectionLimits {
    fn from(keepalive: &Keepalive) -> Self {
        let Keepalive { timeout, max_age, max_requests, idle, .. } = *keepalive;
        Self { timeout, max_age, max_requests, idle }
    }
}

impl SharedConnection {
    pub(super) fn new(parts: ConnectionParts, now: Instant) -> Rc<Self> {
        let ConnectionParts { sender, permitted, name, scheme, limits, endpoint, worker, holder } =
            parts;
        Rc::new(Self {
            sender: RefCell::new(Some(sender)),
            limit: Cell::new(permitted.min(HTTP2_ENDPOINT_STREAMS)),
            streams: Cell::new(0),
            tally: Cell::default(),
            added: Cell::default(),
            own_resets: Cell::new(0),
            name,
            scheme,
            opened: now,
            changed: Cell::new(now),
            limits: Cell::new(limits),
            is_counted_idle: Cell::new(false),
            endpoint,
            worker,
            holder,
            reads: Rc::default(),
            has_grown: Cell::new(false),
            driver: RefCell::default(),
        })
    }

    /// Takes the place of a stream, if there is one.
    pub(super) fn take(
        self: &Rc<Self>,
        limits: ConnectionLimits,
        now: Instant,
    ) -> Option<SharedPlace> {
        self.limits.set(limits);
        let streams = self.streams.get();
        if !self.is_open() || streams >= self.limit.get() {
            return None;
        }
        let is_over = self.begun() >= limits.max_requests || now >= self.opened + limits.max_age;
        if is_over || !self.takes_streams() {
            self.leave();
            return None;
        }
        if streams == 0 {
            self.changed.set(now);
            self.uncount_idle();
        }
        let sender = RefCell::new(self.sender.borrow().clone());
        self.streams.set(streams + 1);
        self.count(|tally| tally.opened += 1);
        Some(SharedPlace { connection: Rc::clone(self), sender })
    }

    /// The number of streams so far.
    fn begun(&self) -> u64 {
        self.tally.get().opened
    }

    fn count(&self, what: impl FnOnce(&mut StreamTally)) {
        let mut tally = self.tally.get();
        what(&mut tally);
        self.tally.set(tally);
    }

    /// Adds what is new to the endpoint's counts.
    fn add_counts(&self) {
        let now = self.tally.get();
        let before = self.added.replace(now);
        if now != before {
            self.endpoint.streams.add(now, before);
        }
    }

    /// Returns true if streams may begin.
    pub(super) fn is_open(&self) -> bool {
        self.sender.borrow().is_some()
    }

    /// Returns true if the endpoint takes streams: it has sent no GOAWAY.
    fn takes_streams(&self) -> bool {
        // It waits only for a stream that was begun by itself, and streams begin by copies of it.
        let context = &mut Context::from_waker(Waker::noop());
        let mut sender = self.sender.borrow_mut();
        sender
            .as_mut()
            .is_some_and(|sender| matches!(sender.poll_ready(context), Poll::Ready(Ok(()))))
    }

    /// Returns true if the endpoint has said that it takes streams for this purpose (RFC 8441
    /// section 3).
    pub(crate) fn takes(&self, purpose: StreamPurpose) -> bool {
        let sender = self.sender.borrow();
        let takes_websockets =
            || sender.as_ref().is_some_and(SendRequest::is_extended_connect_protocol_enabled);
        matches!(purpose, StreamPurpose::Request) || takes_websockets()
    }

    /// The most streams at once.
    pub(super) fn limit(&self) -> usize {
        self.limit.get()
    }

    /// The time since which it is idle; `None` while it is in use or ends.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        (self.is_open() && self.streams.get() == 0).then(|| self.changed.get())
    }

    /// Lets no stream begin any more; the connection ends with its last one.
    pub(super) fn leave(&self) {
        self.uncount_idle();
        let sender = self.sender.take();
        if sender.is_some() {
            drop(sender);
            self.driver.borrow().iter().for_each(Waker::wake_by_ref);
        }
    }

    /// Counts it among the endpoint's idle connections; without a place there it ends.
    pub(super) fn count_idle(&self) {
        if !self.is_open() || self.is_counted_idle.get() {
            return;
        }
        let limits = self.limits.get();
        if self.endpoint.is_retired() || !self.endpoint.idle.add_below(self.worker, limits.idle) {
            return self.leave();
        }
        self.holder.add_idle();
        self.is_counted_idle.set(true);
    }

    fn uncount_idle(&self) {
        if self.is_counted_idle.replace(false) {
            self.endpoint.idle.remove(self.worker, 1);
            self.holder.remove_idle(1);
        }
    }
}

impl Drop for SharedConnection {
    fn drop(&mut self) {
        self.uncount_idle();
        self.add_counts();
    }
}

/// The side that reset a stream.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ResetBy {
    Here,
    Endpoint,
}

/// The place of a stream on its connection, from before it begins to its end.
pub(crate) struct SharedPlace {
    connection: Rc<SharedConnection>,
    /// Held until the stream begins, which it may do although the connection lets no others begin
    /// meanwhile.
    sender: RefCell<Option<SendRequest<Bytes>>>,
}

impl SharedPlace {
    /// The sender of the stream; `None` once it has begun.
    pub(super) fn sender(&self) -> Option<SendRequest<Bytes>> {
        self.sender.take()
    }

    /// Counts what the stream's reader takes.
    pub(super) fn read_count(&self) -> ReadCount {
        ReadCount::new(Rc::clone(&self.connection.reads))
    }

    pub(super) fn scheme(&self) -> &Scheme {
        &self.connection.scheme
    }

    /// Notes that the stream was reset: from here, or by the endpoint or the end of its connection.
    /// Of the former, requests leave a connection after [`HTTP2_OWN_RESETS`].
    pub(super) fn note_reset(&self, by: ResetBy) {
        self.connection.count(|tally| tally.reset += 1);
        if by == ResetBy::Here {
            self.connection.own_resets.set(self.connection.own_resets.get() + 1);
            if self.connection.own_resets.get() >= HTTP2_OWN_RESETS {
                self.connection.leave();
            }
        }
    }

    /// Returns true if its connection had streams before.
    pub(super) fn is_reused(&self) -> bool {
        self.connection.begun() > 1
    }
}

impl Drop for SharedPlace {
    fn drop(&mut self) {
        let left = self.connection.streams.get().saturating_sub(1);
        self.connection.streams.set(left);
        self.connection.count(|tally| tally.ended += 1);
        if left == 0 {
            self.connection.add_counts();
            self.connection.changed.set(Instant::now());
            self.connection.count_idle();
            if self.connection.has_grown.get() {
                self.connection.driver.borrow().iter().for_each(Waker::wake_by_ref);
            }
        }
    }
}

/// The task of a connection.
pub(super) struct Driver<N: Net> {
    http2: h2::client::Connection<WatchedIo<N::Stream>, Bytes>,
    shared: Rc<SharedConnection>,
    watch: Rc<IoWatch>,
    windows: Windows,
    pings: Pings,
    probe: PingProbe,
    timer: DeadlineTimer,
    /// Since when it has had no streams and lets none begin.
    left_since: Option<Instant>,
    reports: ConnectionReports,
}

/// The part of a connection that others see of it.
pub(super) struct ConnectionReports {
    /// Says a sentence to the operator.
    pub(super) say: Say,
    /// The name of the pool that has opened it.
    pub(super) pool: Arc<str>,
    pub(super) _counted: CountedConnection,
}

/// The search for a dead connection. PINGs of one silence are rare, because servers of gRPC end
/// connections whose clients send more than a few without need.
#[derive(Clone, Copy)]
enum PingProbe {
    Quiet,
    /// A PING was sent at this time.
    Sent(Instant),
    /// It was answered at this time, when so many bytes had been received.
    Answered(Instant, u64),
}

/// The next step of a connection's task.
enum DriverStep {
    /// There are frames to send.
    Again,
    /// The connection is broken, or has ended.
    End,
    /// It waits until this time at the latest.
    WaitUntil(Instant),
}

impl<N: Net> Driver<N> {
    pub(super) fn new(
        http2: h2::client::Connection<WatchedIo<N::Stream>, Bytes>,
        shared: Rc<SharedConnection>,
        watch: Rc<IoWatch>,
        growth: Arc<WindowGrowth>,
        reports: ConnectionReports,
    ) -> Self {
        let (first, streams) = (HTTP2_UPSTREAM_WINDOW as usize, HTTP2_ENDPOINT_STREAMS as u32);
        Self {
            http2,
            shared,
            watch,
            windows: Windows::new(growth, first, streams),
            pings: Pings::default(),
            probe: PingProbe::Quiet,
            timer: DeadlineTimer::default(),
            left_since: None,
            reports,
        }
    }

    /// Ready once the connection has ended.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.note_waker(context);
        self.watch.begin_turn(Instant::now(), self.shared.begun());
        self.shared.add_counts();
        loop {
            let polled = Pin::new(&mut self.http2).poll(context);
            let limit = self.http2.max_concurrent_send_streams();
            self.shared.limit.set(limit.min(HTTP2_ENDPOINT_STREAMS));
            if let Poll::Ready(ended) = polled {
                self.note_end(ended);
                self.shared.leave();
                return Poll::Ready(());
            }
            let now = Instant::now();
            if self.follow_pings(context, now) {
                continue;
            }
            match self.decide(now) {
                DriverStep::Again => {}
                DriverStep::End => {
                    self.shared.leave();
                    return Poll::Ready(());
                }
                DriverStep::WaitUntil(deadline) => {
                    if self.timer.poll(context, deadline).is_pending() {
                        return Poll::Pending;
                    }
                }
            }
        }
    }

    fn note_waker(&self, context: &Context<'_>) {
        let mut driver = self.shared.driver.borrow_mut();
        match &mut *driver {
            Some(waker) => waker.clone_from(context.waker()),
            None => *driver = Some(context.waker().clone()),
        }
    }

    /// Fits the windows to what the streams' readers take, and notes the answer to a PING. Returns
    /// true if there is a PING to send. The measurements are no burden on servers of gRPC: they
    /// send data meanwhile.
    fn follow_pings(&mut self, context: &mut Context<'_>, now: Instant) -> bool {
        let Self { http2, shared, windows, pings, .. } = self;
        let is_answered = pings.is_answered(context);
        let streams = OpenStreams { reads: &shared.reads, count: shared.streams.get(), now };
        let sent = windows.follow(http2, pings, is_answered, streams);
        self.watch.expect_answers(sent);
        shared.has_grown.set(windows.have_grown());
        if matches!(self.probe, PingProbe::Sent(_)) && !self.pings.is_sent() {
            self.probe = if is_answered {
                PingProbe::Answered(now, self.watch.received())
            } else {
                PingProbe::Quiet
            };
        }
        sent.ping || sent.settings
    }

    fn decide(&mut self, now: Instant) -> DriverStep {
        if let Some(excess) = self.watch.excess(now) {
            self.say_excess(excess, now);
            return DriverStep::End;
        }
        if self.watch.is_worn(self.shared.streams.get()) {
            self.shared.leave();
        }
        let step = self.next_step(now);
        match (step, self.watch.head_deadline()) {
            (DriverStep::WaitUntil(until), Some(head)) => DriverStep::WaitUntil(until.min(head)),
            (step, _) => step,
        }
    }

    /// Reports the end of a connection, if `h2` has ended it because of what the endpoint sends.
    fn note_end(&self, ended: Result<(), h2::Error>) {
        let is_excess = |error: &h2::Error| {
            error.is_library() && error.reason() == Some(Reason::ENHANCE_YOUR_CALM)
        };
        if ended.is_err_and(|error| is_excess(&error)) {
            self.say_excess(self.watch.excess_of_library(), Instant::now());
        }
    }

    /// Counts and reports a connection that ends because of what the endpoint sends.
    #[cold]
    fn say_excess(&self, excess: Http2Excess, now: Instant) {
        let endpoint = &self.shared.endpoint;
        endpoint.streams.connections_ended.fetch_add(1, Ordering::Relaxed);
        let sentence = format!(
            "pool {}: ended the HTTP/2 connection to server {} after {} streams: {}",
            self.reports.pool,
            endpoint.name,
            self.shared.begun(),
            excess.word()
        );
        (self.reports.say)(now, &sentence);
    }

    fn next_step(&mut self, now: Instant) -> DriverStep {
        let shared = Rc::clone(&self.shared);
        let limits = shared.limits.get();
        if shared.is_open() {
            let until = shared.changed.get() + limits.timeout;
            let is_idle = shared.streams.get() == 0;
            let is_retired = shared.endpoint.is_retired() && shared.begun() > 0;
            let is_over = is_idle && (now >= until || is_retired);
            if is_over || !shared.takes_streams() {
                shared.leave();
                return DriverStep::Again;
            }
            // The end of a stream does not wake this task.
            let look = if is_idle { until } else { now + limits.timeout };
            return self.probe(now, look);
        }
        if shared.streams.get() == 0 {
            let end = *self.left_since.get_or_insert(now) + HTTP2_LAST_WORDS;
            return if now >= end { DriverStep::End } else { DriverStep::WaitUntil(end) };
        }
        self.probe(now, now + HTTP2_PING_AFTER)
    }

    /// Sends a PING if streams are open and nothing was received for long.
    fn probe(&mut self, now: Instant, look: Instant) -> DriverStep {
        let (received, bytes) = (self.watch.received_at(), self.watch.received());
        match self.probe {
            PingProbe::Answered(_, then) if then != bytes => self.probe = PingProbe::Quiet,
            PingProbe::Sent(at) => {
                let due = at.max(received) + HTTP2_PING_PATIENCE;
                let is_dead = now >= due;
                return if is_dead {
                    DriverStep::End
                } else {
                    DriverStep::WaitUntil(due.min(look))
                };
            }
            PingProbe::Answered(..) | PingProbe::Quiet => {}
        }
        if self.shared.streams.get() == 0 {
            return DriverStep::WaitUntil(look);
        }
        let due = match self.probe {
            PingProbe::Answered(at, _) => at + HTTP2_PING_AGAIN,
            _ => received.max(self.shared.changed.get()) + HTTP2_PING_AFTER,
        };
        if now < due {
            return DriverStep::WaitUntil(due.min(look));
        }
        let is_new = self.pings.send(&mut self.http2);
        if is_new || self.pings.is_sent() {
            // The one that measures the path has no answer either.
            self.probe = PingProbe::Sent(now);
            return DriverStep::Again;
        }
        DriverStep::WaitUntil(look.max(now + HTTP2_PING_PATIENCE))
    }
}
