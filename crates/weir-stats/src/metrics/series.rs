//! The counts of one route, endpoint, listener or worker. Each worker has a shard, created at its
//! first use, written by that worker alone and read by any thread.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use super::counter::Counter;
use super::distribution::Distribution;
use super::histogram::{Histogram, PageBudget};
use super::phase::{PhaseDistributions, PhaseHistograms};
use super::recent::RecentRing;
use super::slow::SlowShelf;
use super::stream::{StreamDistributions, StreamHistograms, StreamTime};
use super::tally::{GivenUp, Tally, TallyFigures, TransferredBytes};
use crate::{ExchangeRecord, Micros};

/// The number of routes of a pool that its endpoints count apart; the routes beyond count as one.
pub(crate) const ROUTES: usize = CHUNKS * CHUNK;
const CHUNKS: usize = 32;
const CHUNK: usize = 16;

/// One shard for each worker.
pub(super) type Shards<T> = Box<[OnceLock<Box<T>>]>;

pub(super) fn shards<T>(workers: usize) -> Shards<T> {
    (0..workers).map(|_| OnceLock::new()).collect()
}

#[inline]
pub(super) fn shard<T: Default>(shards: &Shards<T>, worker: usize) -> Option<&T> {
    Some(shards.get(worker)?.get_or_init(Box::default))
}

fn made<T>(shards: &Shards<T>) -> impl Iterator<Item = &T> {
    made_by(shards, WorkerShards::All)
}

/// The workers whose shards are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkerShards {
    /// All workers, to be summed up.
    All,
    /// One worker.
    One(usize),
}

pub(super) fn made_by<T>(shards: &Shards<T>, workers: WorkerShards) -> impl Iterator<Item = &T> {
    let own = match workers {
        WorkerShards::All => &**shards,
        WorkerShards::One(worker) => shards.get(worker..=worker).unwrap_or_default(),
    };
    own.iter().filter_map(|shard| shard.get().map(|shard| &**shard))
}

/// The counts of a route, or of the responses of a listener without a route.
#[derive(Debug)]
pub struct RouteSeries {
    pub(crate) listener: Arc<str>,
    pub(crate) route: Arc<str>,
    /// The pool's name; empty if the route leads to none.
    pub(crate) pool: Arc<str>,
    /// The series' number, unique in the process.
    pub(crate) number: u32,
    /// The route's index in the tables of the pool's endpoints.
    pub(crate) place: usize,
    /// The time of the latest lookup, in turns of the registry.
    pub(crate) turn: AtomicU64,
    pub(crate) budget: Arc<PageBudget>,
    shards: Shards<RouteShard>,
}

#[derive(Debug, Default)]
pub(crate) struct RouteShard {
    pub(crate) phases: PhaseHistograms,
    /// Counters of exchanges for which no endpoint was picked.
    pub(crate) tally: Tally,
    pub(crate) slow: SlowShelf,
    streams: OnceLock<Box<StreamHistograms>>,
}

/// The key of a route series.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RouteKey {
    pub(crate) listener: Arc<str>,
    pub(crate) route: Arc<str>,
    pub(crate) pool: Arc<str>,
}

impl RouteSeries {
    pub(crate) fn new(
        key: RouteKey,
        number: u32,
        place: usize,
        workers: usize,
        budget: &Arc<PageBudget>,
    ) -> Self {
        let RouteKey { listener, route, pool } = key;
        let (turn, budget) = (AtomicU64::new(0), Arc::clone(budget));
        Self { listener, route, pool, number, place, turn, budget, shards: shards(workers) }
    }

    #[inline]
    pub(crate) fn shard(&self, worker: usize) -> Option<&RouteShard> {
        shard(&self.shards, worker)
    }

    pub(crate) fn shards(&self) -> impl Iterator<Item = &RouteShard> {
        made(&self.shards)
    }

    pub(crate) fn phases(&self, workers: WorkerShards) -> PhaseDistributions {
        let mut sum = PhaseDistributions::default();
        made_by(&self.shards, workers).for_each(|shard| shard.phases.read_into(&mut sum));
        sum
    }

    pub(crate) fn tally(&self, workers: WorkerShards) -> TallyFigures {
        let mut sum = TallyFigures::default();
        made_by(&self.shards, workers).for_each(|shard| shard.tally.read_into(&mut sum));
        sum
    }

    /// Counts bytes of an exchange that goes on, so that those of a long tunnel are seen before its
    /// end; [`Done::counted`](super::Done::counted) tells of them then. Must be called by the
    /// worker's own thread.
    pub fn transferred(
        &self,
        worker: usize,
        endpoint: Option<&EndpointSeries>,
        bytes: TransferredBytes,
    ) {
        let tally = match endpoint.and_then(|endpoint| endpoint.shard(worker)) {
            None => self.shard(worker).map(|shard| &shard.tally),
            Some(endpoint) => endpoint.tally(self.place),
        };
        if let Some(tally) = tally {
            tally.transferred(bytes);
        }
    }

    /// Counts a time of a stream. Must be called by the worker's own thread.
    pub fn note_stream(&self, worker: usize, time: StreamTime) {
        if let Some(shard) = self.shard(worker) {
            shard.streams.get_or_init(Box::default).record(time, &self.budget);
        }
    }

    pub(crate) fn streams(&self, workers: WorkerShards) -> StreamDistributions {
        let mut sum = StreamDistributions::default();
        let streams = made_by(&self.shards, workers).filter_map(|shard| shard.streams.get());
        streams.for_each(|streams| streams.read_into(&mut sum));
        sum
    }

    /// Keeps the complete record of a slow exchange, after [`super::MetricsRegistry::record`] asked
    /// for it.
    pub fn keep(&self, worker: usize, record: ExchangeRecord) {
        if let Some(shard) = self.shard(worker) {
            shard.slow.keep(record);
        }
    }
}

impl Drop for RouteSeries {
    fn drop(&mut self) {
        for shard in self.shards() {
            shard.phases.give_back(&self.budget);
            if let Some(streams) = shard.streams.get() {
                streams.give_back(&self.budget);
            }
        }
    }
}

/// The counts of an endpoint of a pool.
#[derive(Debug)]
pub struct EndpointSeries {
    pub(crate) pool: Arc<str>,
    pub(crate) endpoint: Arc<str>,
    pub(crate) number: u32,
    pub(crate) turn: AtomicU64,
    budget: Arc<PageBudget>,
    shards: Shards<EndpointShard>,
}

type TallyChunk = [OnceLock<Box<Tally>>; CHUNK];

#[derive(Debug, Default)]
pub(crate) struct EndpointShard {
    pub(crate) phases: PhaseHistograms,
    /// Counters by the route's index.
    tallies: [OnceLock<Box<TallyChunk>>; CHUNKS],
    failed_attempts: Counter,
    repeated: Counter,
    redispatched: Counter,
}

/// The next step after an abandoned attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Onward {
    /// The same endpoint was tried again.
    Again,
    /// Another endpoint was tried.
    Elsewhere,
    /// The exchange ended before another attempt began.
    Nowhere,
}

impl EndpointShard {
    /// The counters of exchanges that a route led to this endpoint.
    #[inline]
    pub(crate) fn tally(&self, route: usize) -> Option<&Tally> {
        let chunk = self.tallies.get(route / CHUNK)?.get_or_init(Box::default);
        Some(chunk.get(route % CHUNK)?.get_or_init(Box::default))
    }
}

impl EndpointSeries {
    pub(crate) fn new(
        pool: Arc<str>,
        endpoint: Arc<str>,
        number: u32,
        workers: usize,
        budget: &Arc<PageBudget>,
    ) -> Self {
        let (turn, budget) = (AtomicU64::new(0), Arc::clone(budget));
        Self { pool, endpoint, number, turn, budget, shards: shards(workers) }
    }

    #[inline]
    pub(crate) fn shard(&self, worker: usize) -> Option<&EndpointShard> {
        shard(&self.shards, worker)
    }

    /// Counts an attempt at this endpoint that was abandoned for another one, here or elsewhere.
    pub fn attempt_failed(&self, worker: usize, onward: Onward) {
        let Some(shard) = self.shard(worker) else { return };
        shard.failed_attempts.add(1);
        match onward {
            Onward::Again => shard.repeated.add(1),
            Onward::Elsewhere => shard.redispatched.add(1),
            Onward::Nowhere => {}
        }
    }

    pub(crate) fn phases(&self, workers: WorkerShards) -> PhaseDistributions {
        let mut sum = PhaseDistributions::default();
        made_by(&self.shards, workers).for_each(|shard| shard.phases.read_into(&mut sum));
        sum
    }

    /// The abandoned attempts at this endpoint: in total, followed by another one here, and
    /// followed by one elsewhere.
    pub(crate) fn given_up(&self, workers: WorkerShards) -> GivenUp {
        let mut sum = GivenUp::default();
        for shard in made_by(&self.shards, workers) {
            sum.attempts += shard.failed_attempts.read();
            sum.repeated += shard.repeated.read();
            sum.redispatched += shard.redispatched.read();
        }
        sum
    }

    /// Counters by the route's index.
    pub(crate) fn tallies(&self, workers: WorkerShards) -> Vec<(usize, TallyFigures)> {
        let mut all: BTreeMap<usize, TallyFigures> = BTreeMap::new();
        for shard in made_by(&self.shards, workers) {
            for (place, tally) in shard.places() {
                tally.read_into(all.entry(place).or_default());
            }
        }
        all.into_iter().collect()
    }
}

impl EndpointShard {
    fn places(&self) -> impl Iterator<Item = (usize, &Tally)> {
        let chunks = self.tallies.iter().enumerate();
        chunks.filter_map(|(number, chunk)| Some((number, chunk.get()?))).flat_map(
            |(number, chunk)| {
                let tallies = chunk.iter().enumerate();
                tallies.filter_map(move |(at, tally)| Some((number * CHUNK + at, &**tally.get()?)))
            },
        )
    }
}

impl Drop for EndpointSeries {
    fn drop(&mut self) {
        made(&self.shards).for_each(|shard| shard.phases.give_back(&self.budget));
    }
}

/// The outcome of a TLS handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handshake {
    /// A new session was created.
    Full,
    /// A session was resumed.
    Resumed,
    /// The handshake failed.
    Failed,
}

/// The reason why an idle client connection was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GivenUpIdle {
    /// The process was near its cap on connections.
    MaxConnections,
    /// The listener was near its cap on connections.
    ListenerMaxConnections,
    /// Memory was short.
    Memory,
}

impl GivenUpIdle {
    /// Every reason and its word, in order of declaration.
    pub const ALL: [(Self, &'static str); 3] = [
        (Self::MaxConnections, "max_connections"),
        (Self::ListenerMaxConnections, "listener_max_connections"),
        (Self::Memory, "memory"),
    ];
}

/// The reason why a connection was closed that had to begin with a header of the PROXY protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyHeaderRefusal {
    /// The connection began with something else.
    Missing,
    /// The header breaks the rules of its version.
    Malformed,
    /// It is too long.
    TooLong,
    /// Its checksum does not fit.
    Checksum,
    /// It was not complete in time.
    Timeout,
    /// The connection ended before it was complete.
    Closed,
}

impl ProxyHeaderRefusal {
    /// Every reason and its word, in order of declaration.
    pub const ALL: [(Self, &'static str); 6] = [
        (Self::Missing, "missing"),
        (Self::Malformed, "malformed"),
        (Self::TooLong, "too_long"),
        (Self::Checksum, "checksum"),
        (Self::Timeout, "timeout"),
        (Self::Closed, "closed"),
    ];
}

/// The reason why an HTTP/2 connection was ended with `ENHANCE_YOUR_CALM`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Http2Excess {
    /// Too many streams that the client opened and reset.
    Resets,
    /// Too many streams that the client made the server reset.
    ProvokedResets,
    /// Too many SETTINGS frames.
    Settings,
    /// Too many PING frames.
    Pings,
    /// Too many PRIORITY frames.
    Priorities,
    /// Too many WINDOW_UPDATE frames for the bytes that were sent.
    WindowUpdates,
    /// Too many DATA frames without data.
    EmptyData,
    /// Too many DATA frames with a few bytes.
    SmallData,
    /// A head in too many pieces, or far larger than the limit.
    Heads,
    /// A head that was not complete in time.
    SlowHead,
    /// Too many requests whose client stopped sending or reading.
    StalledStreams,
    /// Too many frames of other types.
    OtherFrames,
}

impl Http2Excess {
    /// Every reason and its word, in order of declaration.
    pub const ALL: [(Self, &'static str); 12] = [
        (Self::Resets, "resets"),
        (Self::ProvokedResets, "provoked_resets"),
        (Self::Settings, "settings"),
        (Self::Pings, "pings"),
        (Self::Priorities, "priorities"),
        (Self::WindowUpdates, "window_updates"),
        (Self::EmptyData, "empty_data"),
        (Self::SmallData, "small_data"),
        (Self::Heads, "heads"),
        (Self::SlowHead, "slow_head"),
        (Self::StalledStreams, "stalled_streams"),
        (Self::OtherFrames, "other_frames"),
    ];

    /// The word for it in metrics.
    pub fn word(self) -> &'static str {
        Self::ALL.get(self as usize).map_or("", |(_, word)| word)
    }
}

/// The counts of a listener's connections.
#[derive(Debug)]
pub struct ListenerSeries {
    pub(crate) name: Arc<str>,
    /// The series of responses without a route.
    pub(crate) routeless: Arc<RouteSeries>,
    pub(crate) turn: AtomicU64,
    budget: Arc<PageBudget>,
    shards: Shards<ListenerShard>,
}

#[derive(Debug, Default)]
struct ListenerShard {
    accepted: Counter,
    aged: Counter,
    handshakes: [Counter; 3],
    handshake: Histogram,
    /// Connections by reason, in the order of [`GivenUpIdle::ALL`].
    given_up_idle: [Counter; 3],
    /// Connections by reason, in the order of [`ProxyHeaderRefusal::ALL`].
    proxy_headers_refused: [Counter; 6],
    http2_connections: Counter,
    /// HTTP/2 connections by reason, in the order of [`Http2Excess::ALL`].
    http2_ended: [Counter; 12],
}

/// The counts of a listener, as plain values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListenerFigures {
    /// The listener's name.
    pub listener: String,
    /// Connections that a worker took.
    pub accepted: u64,
    /// Connections that were closed after a response because of their age.
    pub aged: u64,
    /// Handshakes that created a new session.
    pub handshakes_full: u64,
    /// Handshakes that resumed a session.
    pub handshakes_resumed: u64,
    /// Handshakes that failed or took too long.
    pub handshakes_failed: u64,
    /// Idle connections that were closed in favour of others, by reason, in the order of
    /// [`GivenUpIdle::ALL`].
    pub given_up_idle: [u64; 3],
    /// Connections that were closed for the PROXY header, by reason, in the order of
    /// [`ProxyHeaderRefusal::ALL`].
    pub proxy_headers_refused: [u64; 6],
    /// HTTP/2 connections.
    pub http2_connections: u64,
    /// HTTP/2 connections that were ended because of what their clients did, by reason, in the
    /// order of [`Http2Excess::ALL`].
    pub http2_ended: [u64; 12],
    /// The durations of the successful handshakes.
    pub handshake: Distribution,
}

impl ListenerFigures {
    /// The difference to `earlier`, a former reading.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let less = |now: u64, then: u64| now.saturating_sub(then);
        Self {
            listener: self.listener.clone(),
            accepted: less(self.accepted, earlier.accepted),
            aged: less(self.aged, earlier.aged),
            handshakes_full: less(self.handshakes_full, earlier.handshakes_full),
            handshakes_resumed: less(self.handshakes_resumed, earlier.handshakes_resumed),
            handshakes_failed: less(self.handshakes_failed, earlier.handshakes_failed),
            given_up_idle: std::array::from_fn(|reason| {
                let of = |one: &Self| one.given_up_idle.get(reason).copied().unwrap_or(0);
                less(of(self), of(earlier))
            }),
            proxy_headers_refused: std::array::from_fn(|reason| {
                let of = |one: &Self| one.proxy_headers_refused.get(reason).copied().unwrap_or(0);
                less(of(self), of(earlier))
            }),
            http2_connections: less(self.http2_connections, earlier.http2_connections),
            http2_ended: std::array::from_fn(|reason| {
                let of = |one: &Self| one.http2_ended.get(reason).copied().unwrap_or(0);
                less(of(self), of(earlier))
            }),
            handshake: self.handshake.since(&earlier.handshake),
        }
    }
}

impl ListenerFigures {
    /// Adds the counts of `other`.
    pub(crate) fn add(&mut self, other: &Self) {
        self.accepted += other.accepted;
        self.aged += other.aged;
        self.handshakes_full += other.handshakes_full;
        self.handshakes_resumed += other.handshakes_resumed;
        self.handshakes_failed += other.handshakes_failed;
        for (own, other) in self.given_up_idle.iter_mut().zip(other.given_up_idle) {
            *own += other;
        }
        let refused = self.proxy_headers_refused.iter_mut().zip(other.proxy_headers_refused);
        refused.for_each(|(own, other)| *own += other);
        self.http2_connections += other.http2_connections;
        let ended = self.http2_ended.iter_mut().zip(other.http2_ended);
        ended.for_each(|(own, other)| *own += other);
        self.handshake.add(&other.handshake);
    }
}

impl ListenerSeries {
    pub(crate) fn new(
        name: Arc<str>,
        routeless: Arc<RouteSeries>,
        workers: usize,
        budget: &Arc<PageBudget>,
    ) -> Self {
        let (turn, budget) = (AtomicU64::new(0), Arc::clone(budget));
        Self { name, routeless, turn, budget, shards: shards(workers) }
    }

    /// The series of this listener's responses without a route.
    pub fn routeless(&self) -> &Arc<RouteSeries> {
        &self.routeless
    }

    /// Counts an accepted connection.
    pub fn accepted(&self, worker: usize) {
        if let Some(shard) = shard(&self.shards, worker) {
            shard.accepted.add(1);
        }
    }

    /// Counts a connection that was closed because of its age.
    pub fn aged(&self, worker: usize) {
        if let Some(shard) = shard(&self.shards, worker) {
            shard.aged.add(1);
        }
    }

    /// Counts a handshake and its duration.
    pub fn handshake(&self, worker: usize, handshake: Handshake, took: Micros) {
        let Some(shard) = shard(&self.shards, worker) else { return };
        if let Some(counter) = shard.handshakes.get(handshake as usize) {
            counter.add(1);
        }
        if let (Some(us), Handshake::Full | Handshake::Resumed) = (took.reached(), handshake) {
            shard.handshake.record(us, &self.budget);
        }
    }

    /// Counts an idle connection that was closed in favour of others.
    pub fn given_up_idle(&self, worker: usize, why: GivenUpIdle) {
        let Some(shard) = shard(&self.shards, worker) else { return };
        if let Some(counter) = shard.given_up_idle.get(why as usize) {
            counter.add(1);
        }
    }

    /// Counts a connection that was closed for its PROXY header.
    pub fn proxy_header_refused(&self, worker: usize, why: ProxyHeaderRefusal) {
        let Some(shard) = shard(&self.shards, worker) else { return };
        if let Some(counter) = shard.proxy_headers_refused.get(why as usize) {
            counter.add(1);
        }
    }

    /// Counts an HTTP/2 connection.
    pub fn http2_began(&self, worker: usize) {
        if let Some(shard) = shard(&self.shards, worker) {
            shard.http2_connections.add(1);
        }
    }

    /// Counts an HTTP/2 connection that was ended because of what its client did.
    pub fn http2_ended(&self, worker: usize, why: Http2Excess) {
        let Some(shard) = shard(&self.shards, worker) else { return };
        if let Some(counter) = shard.http2_ended.get(why as usize) {
            counter.add(1);
        }
    }

    pub(crate) fn read(&self, workers: WorkerShards) -> ListenerFigures {
        let mut sum =
            ListenerFigures { listener: self.name.to_string(), ..ListenerFigures::default() };
        for shard in made_by(&self.shards, workers) {
            let [full, resumed, failed] = &shard.handshakes;
            sum.accepted += shard.accepted.read();
            sum.aged += shard.aged.read();
            sum.handshakes_full += full.read();
            sum.handshakes_resumed += resumed.read();
            sum.handshakes_failed += failed.read();
            for (sum, counter) in sum.given_up_idle.iter_mut().zip(&shard.given_up_idle) {
                *sum += counter.read();
            }
            let refused = sum.proxy_headers_refused.iter_mut().zip(&shard.proxy_headers_refused);
            refused.for_each(|(sum, counter)| *sum += counter.read());
            sum.http2_connections += shard.http2_connections.read();
            let ended = sum.http2_ended.iter_mut().zip(&shard.http2_ended);
            ended.for_each(|(sum, counter)| *sum += counter.read());
            shard.handshake.read_into(&mut sum.handshake);
        }
        sum
    }
}

impl Drop for ListenerSeries {
    fn drop(&mut self) {
        made(&self.shards).for_each(|shard| shard.handshake.give_back(&self.budget));
    }
}

/// The counts of a worker.
#[derive(Debug)]
pub(crate) struct WorkerSeries {
    pub(crate) exchanges: Counter,
    pub(crate) own_us: Counter,
    pub(crate) lag: Histogram,
    pub(crate) recent: RecentRing,
    yields: [Counter; Yield::ALL.len()],
}

/// The work of a task that ended its turn on a worker although more was ready, so that other tasks
/// could run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Yield {
    /// A connection whose next request was ready.
    Requests,
    /// A body or a file of which both sides were ready.
    Body,
    /// TLS handshakes of clients, for the rest of a round.
    Handshake,
}

impl Yield {
    /// All kinds, in order of declaration.
    pub const ALL: [Self; 3] = [Self::Requests, Self::Body, Self::Handshake];

    /// The kind as one word for metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Body => "body",
            Self::Handshake => "handshake",
        }
    }
}

/// The counts of a worker, as plain values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerFigures {
    /// Exchanges that ended.
    pub exchanges: u64,
    /// The time in which the worker worked on exchanges, µs, without handshakes and without kernel
    /// work outside its system calls.
    pub own_us: u64,
    /// The delay of the worker's timer, measured once a second: an exchange may have waited that
    /// long for the worker.
    pub lag: Distribution,
    /// Turns that ended although more was ready, in the order of [`Yield::ALL`].
    pub yields: [u64; Yield::ALL.len()],
}

impl WorkerFigures {
    /// The difference to `earlier`, a former reading.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            exchanges: self.exchanges.saturating_sub(earlier.exchanges),
            own_us: self.own_us.saturating_sub(earlier.own_us),
            lag: self.lag.since(&earlier.lag),
            yields: std::array::from_fn(|one| self.yields[one].saturating_sub(earlier.yields[one])),
        }
    }
}

impl WorkerFigures {
    /// Adds the counts of `other`.
    pub(crate) fn add(&mut self, other: &Self) {
        self.exchanges += other.exchanges;
        self.own_us += other.own_us;
        self.lag.add(&other.lag);
        for (own, other) in self.yields.iter_mut().zip(&other.yields) {
            *own += other;
        }
    }
}

impl WorkerSeries {
    pub(crate) fn new() -> Self {
        Self {
            exchanges: Counter::default(),
            own_us: Counter::default(),
            lag: Histogram::default(),
            recent: RecentRing::new(),
            yields: std::array::from_fn(|_| Counter::default()),
        }
    }

    pub(crate) fn note_yield(&self, what: Yield) {
        if let Some(counter) = self.yields.get(what as usize) {
            counter.add(1);
        }
    }

    pub(crate) fn read(&self) -> WorkerFigures {
        let mut lag = Distribution::default();
        self.lag.read_into(&mut lag);
        WorkerFigures {
            exchanges: self.exchanges.read(),
            own_us: self.own_us.read(),
            lag,
            yields: self.yields.each_ref().map(Counter::read),
        }
    }
}

/// Marks a series as looked up in this turn.
pub(crate) fn touch(turn: &AtomicU64, now: u64) {
    turn.store(now, Ordering::Relaxed);
}
