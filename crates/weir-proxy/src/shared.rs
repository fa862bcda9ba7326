//! The state that all workers share: the process, whose counters and caps live as long as it does,
//! and the snapshot, one compiled configuration that is replaced as a whole. Both only hold state;
//! `compile.rs` makes snapshots, workers run on them.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use rustls::ServerConfig;
use tokio::sync::mpsc;
use weir_config::model;
use weir_files::Root;
use weir_stats::metrics::Numbers;
use weir_stats::{Line, LogSink};

use crate::capture::Captures;
use crate::client_shares::ClientHasher;
use crate::compile::ListenerModel;
use crate::compile::source::Source;
use crate::endpoint_number::EndpointNumbers;
use crate::gate::{Gate, Room};
use crate::idle_clients::IdleSignals;
use crate::incidents::Incidents;
use crate::instant::Instant;
use crate::limiting::Limiter;
use crate::limiting::bandwidth::Bandwidth;
use crate::limiting::client::ClientLimit;
use crate::limiting::rate::RateLimit;
use crate::limits::STOP_IDLE_GRACE;
use crate::notice::{Notice, Noticed, Notices};
use crate::overload::MemoryBudget;
use crate::route::Router;
use crate::series::SnapshotSeries;
use crate::tls::Tickets;
use crate::upstream::UpstreamPool;
use crate::worker::WorkerLoad;

/// The stage of the process's life.
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
    pub memory: MemoryBudget,
    /// The workers' notices about pools and endpoints for the operator.
    pub notices: Notices,
    /// The counters of all exchanges.
    pub numbers: Arc<Numbers>,
    /// The latest malformed messages.
    pub captures: Captures,
    /// The start of the balancers' clock.
    pub epoch: Instant,
    /// The watchdog's settings and counts.
    pub incidents: Incidents,
    /// The number of exchanges that were running when their worker ended.
    pub cut_off: AtomicUsize,
    /// The number of connects to endpoints that failed for lack of descriptors, ports or memory.
    pub shortages: AtomicU64,
    /// The number of times that a worker was so short of descriptors or memory that all workers
    /// have to close idle connections to endpoints.
    pub(crate) idle_given_up: AtomicU64,
    /// Set when the process begins to stop: responses from then on close their connections.
    pub stopping: AtomicBool,
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
        let numbers = Numbers::new(workers);
        snapshot.series(&numbers);
        let process = Self {
            numbers,
            current: ArcSwap::new(snapshot),
            loads: (0..workers).map(|_| Arc::<WorkerLoad>::default()).collect(),
            connections: Arc::new(Room::new(connection_cap)),
            idle_clients: IdleSignals::new(workers),
            client_hasher: ClientHasher::default(),
            refused_at_cap: AtomicU64::new(0),
            given_up_at_cap: AtomicU64::new(0),
            memory: MemoryBudget::default(),
            notices,
            captures: Captures::default(),
            epoch: Instant::now(),
            incidents: Incidents::default(),
            cut_off: AtomicUsize::new(0),
            shortages: AtomicU64::new(0),
            idle_given_up: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
        };
        (Arc::new(process), heard)
    }

    /// The configuration that new exchanges run on. A worker that has not adopted it yet runs on
    /// the previous one for a moment longer.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.current.load_full()
    }

    pub(crate) fn publish(&self, snapshot: Arc<Snapshot>) {
        snapshot.series(&self.numbers);
        self.current.store(snapshot);
    }

    /// The number of open client connections.
    pub fn open_connections(&self) -> usize {
        self.loads.iter().map(|load| load.open.load(Ordering::Relaxed)).sum()
    }

    /// Audits the queues of all pools: a request that waits although a place is free for it is
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

/// One compiled configuration. It never changes; its live state (places, health, counters) is
/// behind the `Arc`s that its successor takes over.
pub struct Snapshot {
    /// Its number, from 1.
    pub generation: u64,
    /// Listeners, in configuration order.
    pub listeners: Vec<Arc<Listener>>,
    /// Pools, in configuration order.
    pub pools: Vec<Arc<UpstreamPool>>,
    /// Access logs, in configuration order.
    pub logs: Vec<AccessLog>,
    /// Pools of earlier snapshots that may still have exchanges, the latest first.
    pub(crate) former: Vec<Weak<UpstreamPool>>,
    pub(crate) numbers: Arc<EndpointNumbers>,
    /// The state that limits of all snapshots share.
    pub limiter: Arc<Limiter>,
    /// The memory of the limit table, bytes.
    pub(crate) limit_table: usize,
    /// The keys of session tickets.
    pub(crate) tickets: Arc<Tickets>,
    /// The counters of its exchanges, once they were looked up.
    pub(crate) series: OnceLock<Arc<SnapshotSeries>>,
}

impl Snapshot {
    /// The counters of its exchanges.
    pub(crate) fn series(&self, numbers: &Numbers) -> &Arc<SnapshotSeries> {
        self.series.get_or_init(|| Arc::new(SnapshotSeries::of(self, numbers)))
    }

    /// The keys of session tickets.
    pub fn tickets(&self) -> &Tickets {
        &self.tickets
    }

    /// The pool of this name.
    pub fn pool(&self, name: &str) -> Option<&Arc<UpstreamPool>> {
        self.pools.iter().find(|pool| &*pool.name == name)
    }

    /// The index of the listener with this gate.
    pub(crate) fn position_of(&self, gate: &Arc<Gate>) -> Option<usize> {
        let is_there = |listener: &Arc<Listener>| Arc::ptr_eq(&listener.gate, gate);
        let likely = gate.position.load(Ordering::Relaxed);
        if self.listeners.get(likely).is_some_and(is_there) {
            return Some(likely);
        }
        self.listeners.iter().position(is_there)
    }

    /// The pool of this name, and its predecessors that still have exchanges, the latest first. The
    /// name may not be configured any more.
    pub(crate) fn line_of(&self, name: &str) -> impl Iterator<Item = Arc<UpstreamPool>> {
        self.pool(name).cloned().into_iter().chain(self.former_of(name))
    }

    /// The previous pools of this name that still have exchanges, the latest first.
    pub(crate) fn former_of(&self, name: &str) -> impl Iterator<Item = Arc<UpstreamPool>> {
        let former = self.former.iter().filter_map(Weak::upgrade);
        former.filter(move |pool| &*pool.name == name)
    }

    /// The listener of this name.
    pub fn listener(&self, name: &str) -> Option<&Arc<Listener>> {
        self.listeners.iter().find(|listener| &*listener.name == name)
    }

    /// A pool and the index of an endpoint in it, both by name.
    pub fn endpoint(&self, pool: &str, endpoint: &str) -> Option<(&Arc<UpstreamPool>, usize)> {
        let pool = self.pool(pool)?;
        let index = pool.endpoints.iter().position(|one| &*one.name == endpoint)?;
        Some((pool, index))
    }
}

/// An access log's format and the sink of its batches.
pub struct AccessLog {
    /// The format of a line.
    pub line: Line,
    /// The sink of the lines.
    pub sink: LogSink,
}

/// Tells whether the logs of a listener show the number of concurrent exchanges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogCounts {
    Shown,
    Unshown,
}

impl LogCounts {
    pub(crate) fn of(shown: bool) -> Self {
        if shown { Self::Shown } else { Self::Unshown }
    }
}

/// Tells whether logs show the reasons for a request's handling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogReasons {
    /// At least one log shows them.
    Told,
    /// No log shows them.
    Untold,
}

/// A compiled listener.
pub struct Listener {
    /// Its name in logs.
    pub name: Arc<str>,
    /// The addresses it accepts on, as configured.
    pub addresses: Vec<model::ListenAddress>,
    /// The TLS configuration; `None` for plain connections.
    pub tls: Option<Arc<ServerConfig>>,
    /// The routes of its requests.
    pub router: Router,
    /// Directories that `files` routes serve, by the router's index.
    pub roots: Vec<Arc<Root>>,
    /// The timeouts on the client side.
    pub timeouts: model::ClientTimeouts,
    /// The limits on requests.
    pub limits: model::MessageLimits,
    /// The rules of path normalisation.
    pub path: model::PathRules,
    /// The limits on one client: those over all listeners, and those of this listener.
    pub client_limits: Vec<Arc<ClientLimit>>,
    /// The limits on requests by key.
    pub rate_limits: Vec<Arc<RateLimit>>,
    /// The limit on the rate of bodies, for routes without one of their own.
    pub bandwidth: Option<Arc<Bandwidth>>,
    /// Trusted peers and forwarding headers.
    pub forwarded: model::Forwarded,
    /// The request id header.
    pub request_id: model::RequestId,
    /// The header that tells the cause in Weir's own responses.
    pub cause_header: Option<model::CauseHeader>,
    /// The header that explains, on request, how a request was handled.
    pub explain_header: Option<model::ExplainHeader>,
    /// The rules to allow and deny clients.
    pub access: Vec<model::AccessRule>,
    /// Indices into [`Snapshot::logs`].
    pub logs: Vec<usize>,
    /// Set if a log or a response header uses headers of the endpoint's response.
    pub keeps_response_head: bool,
    /// Tells whether a log shows the reasons for a request's handling.
    pub(crate) reasons: LogReasons,
    /// Set if a log shows groups of a route's path regex.
    pub logs_captures: bool,
    /// Set if a log, a limit or the key of a pool uses the local address.
    pub shows_local_address: bool,
    /// Tells whether its logs show the number of concurrent exchanges.
    pub(crate) concurrency: LogCounts,
    /// The state that its connections share.
    pub gate: Arc<Gate>,
    /// The maximum number of open connections.
    pub max_connections: Option<usize>,
    pub(crate) source: Source<ListenerModel>,
}

impl Listener {
    /// Returns true if this peer speaks for other clients, and so has no limits of its own.
    pub(crate) fn trusts(&self, peer: IpAddr) -> bool {
        let trusted = &self.forwarded.trusted;
        !trusted.is_empty() && model::contains(trusted, peer.to_canonical())
    }

    /// Returns true if its compilation depends on the contents of files.
    pub fn reads_files(&self) -> bool {
        self.source.reads_files()
    }
}

/// The actual address of a bound listening socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BoundAddress {
    /// TCP.
    Socket(SocketAddr),
    /// Unix.
    Unix(std::path::PathBuf),
}
