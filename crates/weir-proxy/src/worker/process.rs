//! The state that all workers share and that lives as long as the process: counters, caps, the
//! memory budget and the current snapshot. It only holds state; `compile.rs` makes snapshots, and
//! workers run on them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::mpsc;
use weir_stats::metrics::MetricsRegistry;
use weir_stats::{ConnectionCounts, ProcessCounts};

use crate::limiting::client_shares::ClientHasher;
use crate::limiting::idle_board::IdleSignals;
use crate::limiting::room::Room;
use crate::limiting::server_connections::ServerConnections;
use crate::limiting::window_growth::WindowGrowth;
use crate::limits::STOP_IDLE_GRACE;
use crate::snapshot::Snapshot;
use crate::time::instant::Instant;
use crate::upstream::notice::{Notice, Noticed, Notices};
use crate::worker::capture::CapturedMessages;
use crate::worker::incidents::Incidents;
use crate::worker::load::WorkerLoad;
use crate::worker::overload::{MemoryBudget, Pressure};

/// The stage of the process between its start and its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Serving.
    Running,
    /// Accepting no new connections, finishing running exchanges.
    Draining {
        /// The time at which running exchanges are cut off.
        deadline: Instant,
        /// The time until which connections without a running request are kept.
        idle_until: Instant,
    },
    /// Ending now.
    Stopped,
}

impl Stage {
    /// Starts a graceful stop now.
    pub fn draining(patience: Duration) -> Self {
        let now = Instant::now();
        let deadline = now + patience;
        Self::Draining { deadline, idle_until: deadline.min(now + STOP_IDLE_GRACE) }
    }
}

/// The state that lives as long as the process, across configurations.
pub struct Process {
    current: ArcSwap<Snapshot>,
    /// One per worker.
    pub loads: Vec<Arc<WorkerLoad>>,
    /// Room for client connections over all listeners.
    pub connections: Arc<Room>,
    /// The connections to endpoints, and the cap on both sides together.
    pub server_connections: ServerConnections,
    /// The signals between threads about idle client connections.
    pub idle_clients: IdleSignals,
    /// Maps clients to the buckets of their counts.
    pub(crate) client_hasher: ClientHasher,
    /// The number of connections that were closed on arrival, because their clients already had a
    /// large part of the cap.
    pub refused_at_cap: AtomicU64,
    /// The number of requests and handshakes of such clients that were ended in favour of other
    /// clients.
    pub given_up_at_cap: AtomicU64,
    /// The memory budget.
    pub memory: Arc<MemoryBudget>,
    /// The growth of the windows of HTTP/2 towards clients.
    pub(crate) window_growth: Arc<WindowGrowth>,
    /// The same towards endpoints: neither side takes from the other.
    pub(crate) endpoint_window_growth: Arc<WindowGrowth>,
    /// The workers' notices about pools and endpoints for the operator.
    pub notices: Notices,
    /// The counters of all exchanges.
    pub numbers: Arc<MetricsRegistry>,
    /// The latest malformed messages.
    pub captures: CapturedMessages,
    /// The start of the balancers' clock.
    pub epoch: Instant,
    /// The watchdog's settings and counts.
    pub incidents: Incidents,
    /// The number of exchanges that were still running when the process cut them off to end.
    pub cut_off: AtomicUsize,
    /// The number of connects to endpoints that failed for lack of descriptors, ports or memory.
    pub shortages: AtomicU64,
    /// The number of times that a worker was so short of descriptors or memory that all workers
    /// have to close idle connections to endpoints.
    pub(crate) idle_given_up: AtomicU64,
    /// The number of the next client connection, which begins again after 2³².
    connection_numbers: AtomicU32,
    /// The number of the first request of the next block that a worker takes.
    request_numbers: AtomicU64,
    /// Set when the process begins to stop: responses from then on close their connections.
    pub stopping: AtomicBool,
}

impl ProcessCounts for Process {
    fn connections(&self) -> ConnectionCounts {
        let sum = |count: fn(&WorkerLoad) -> &AtomicUsize| -> u64 {
            self.loads.iter().map(|load| count(load).load(Ordering::Relaxed) as u64).sum()
        };
        let busy = sum(|load| &load.busy);
        let handled = self.loads.iter().map(|load| load.handled.load(Ordering::Relaxed)).sum();
        ConnectionCounts {
            open: sum(|load| &load.open),
            busy,
            reading: sum(|load| &load.reading),
            handled,
            refused: self.refused_at_cap.load(Ordering::Relaxed),
            requests: self.numbers.exchanges() + busy,
        }
    }
}

impl Process {
    /// Creates a process with `workers` workers and at most `connection_cap` client connections
    /// that starts with `snapshot`; also returns the receiver of its workers' notices.
    pub fn new(
        snapshot: Arc<Snapshot>,
        workers: usize,
        connection_cap: usize,
    ) -> (Arc<Self>, mpsc::Receiver<Notice>) {
        let (notices, heard) = Notices::new();
        let numbers = MetricsRegistry::new(workers);
        snapshot.series(&numbers);
        let memory = Arc::<MemoryBudget>::default();
        let window_growth = || {
            let memory = Arc::clone(&memory);
            Arc::new(WindowGrowth::new(move || memory.look() == Pressure::None))
        };
        let process = Self {
            window_growth: window_growth(),
            endpoint_window_growth: window_growth(),
            numbers,
            current: ArcSwap::new(snapshot),
            loads: (0..workers).map(|_| Arc::<WorkerLoad>::default()).collect(),
            connections: Arc::new(Room::new(connection_cap)),
            server_connections: ServerConnections::new(workers),
            idle_clients: IdleSignals::new(workers),
            client_hasher: ClientHasher::default(),
            refused_at_cap: AtomicU64::new(0),
            given_up_at_cap: AtomicU64::new(0),
            memory,
            notices,
            captures: CapturedMessages::default(),
            epoch: Instant::now(),
            incidents: Incidents::default(),
            cut_off: AtomicUsize::new(0),
            shortages: AtomicU64::new(0),
            idle_given_up: AtomicU64::new(0),
            connection_numbers: AtomicU32::new(1),
            request_numbers: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
        };
        (Arc::new(process), heard)
    }

    /// The configuration that new exchanges run on. A worker that has not adopted it yet runs on
    /// the previous one for a moment longer.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.current.load_full()
    }

    /// The bytes by which windows of HTTP/2 towards clients have grown.
    pub fn http2_window_growth(&self) -> usize {
        self.window_growth.granted()
    }

    /// The bytes by which windows of HTTP/2 towards endpoints have grown.
    pub fn http2_endpoint_window_growth(&self) -> usize {
        self.endpoint_window_growth.granted()
    }

    pub(crate) fn publish(&self, snapshot: Arc<Snapshot>) {
        snapshot.series(&self.numbers);
        self.current.store(snapshot);
    }

    /// The number of open client connections.
    pub fn open_connections(&self) -> usize {
        self.loads.iter().map(|load| load.open.load(Ordering::Relaxed)).sum()
    }

    /// The number that the next client connection gets.
    pub(crate) fn next_connection(&self) -> u32 {
        self.connection_numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// Takes the numbers of a worker's next requests, and returns the first one.
    pub(crate) fn next_requests(&self, count: u64) -> u64 {
        self.request_numbers.fetch_add(count, Ordering::Relaxed)
    }

    /// Returns true if more connections are open than the cap on both sides allows, those that are
    /// being opened included.
    #[inline]
    pub(crate) fn has_too_many_connections(&self) -> bool {
        let cap = self.server_connections.cap();
        cap.is_some_and(|cap| self.open_connections() + self.server_connections.now() > cap)
    }

    /// Audits the queues of all pools: a request that waits although a slot is free for it is
    /// served now, and the operator is notified. It is to be called about once a second.
    pub fn watch_queues(&self) {
        let now_us = self.balance_clock(Instant::now());
        for pool in &self.snapshot().pools {
            let found = pool.balancer.audit(now_us);
            if found > 0 {
                self.notices
                    .tell(Notice { pool: Arc::clone(pool), what: Noticed::LawBroken { found } });
            }
        }
    }

    /// Converts an instant to the balancers' clock, in microseconds since the process started.
    pub fn balance_clock(&self, now: impl Into<Instant>) -> u64 {
        now.into().micros_since(self.epoch)
    }

    /// Converts an instant to the clock of limits, in nanoseconds since the process started.
    pub fn limit_clock(&self, now: impl Into<Instant>) -> u64 {
        now.into().nanos_since(self.epoch)
    }

    /// Converts a time of the balancers' clock to an instant.
    pub fn instant(&self, at_us: u64) -> Instant {
        self.epoch + Duration::from_micros(at_us)
    }
}
