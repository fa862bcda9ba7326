//! What all workers share: the process, whose counters and caps live as long as it does, and the snapshot, one compiled
//! configuration that is swapped whole. Both are plain state; `compile.rs` makes snapshots, workers run on them.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use rustls::ServerConfig;
use tokio::sync::mpsc;
use weir_config::model;
use weir_files::Root;
use weir_stats::numbers::Numbers;
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

/// How far the process is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Serving.
    Running,
    /// Accepting nothing new, finishing what runs.
    Draining {
        /// When what still runs is cut off.
        deadline: Instant,
        /// Until when connections are kept on which no request runs.
        idle_until: Instant,
    },
    /// To end now.
    Stopped,
}

impl Stage {
    /// A graceful stop that begins now.
    pub fn draining(patience: Duration) -> Self {
        let now = Instant::now();
        let deadline = now + patience;
        Self::Draining { deadline, idle_until: deadline.min(now + STOP_IDLE_GRACE) }
    }
}

/// What lives as long as the process, whatever configuration it runs on.
pub struct Process {
    current: ArcSwap<Snapshot>,
    /// One per worker.
    pub loads: Vec<Arc<WorkerLoad>>,
    /// Room for client connections over all listeners.
    pub connections: Arc<Room>,
    /// What workers tell each other of idle client connections.
    pub idle_clients: IdleSignals,
    /// Assigns clients to the places of their counts.
    pub(crate) client_hasher: ClientHasher,
    /// Connections that were closed when they came, because their clients had a large part of the cap already.
    pub refused_at_cap: AtomicU64,
    /// Requests and handshakes of such clients that were given up for others.
    pub given_up_at_cap: AtomicU64,
    /// The budget of memory.
    pub memory: MemoryBudget,
    /// What workers tell the operator of pools and endpoints.
    pub notices: Notices,
    /// What is counted of everything that passes.
    pub numbers: Arc<Numbers>,
    /// The latest messages that were no HTTP.
    pub captures: Captures,
    /// Start of the balancer's clock.
    pub epoch: Instant,
    /// What the watchdog is to do, and what it met.
    pub incidents: Incidents,
    /// Exchanges that were running when their worker ended.
    pub cut_off: AtomicUsize,
    /// Connects to endpoints that failed for want of descriptors, ports or memory.
    pub shortages: AtomicU64,
    /// How often a worker was so short of descriptors or memory that all are to close idle connections to endpoints.
    pub(crate) idle_given_up: AtomicU64,
    /// Set when the process begins to stop: answers from then on end their connections.
    pub stopping: AtomicBool,
}

impl Process {
    /// A process of so many workers and client connections at once that begins with `snapshot`; and what its workers will tell of
    /// endpoints.
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

    /// The configuration that new exchanges run on. A worker that has not adopted it yet runs on the one before for a moment longer.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.current.load_full()
    }

    pub(crate) fn publish(&self, snapshot: Arc<Snapshot>) {
        snapshot.series(&self.numbers);
        self.current.store(snapshot);
    }

    /// Client connections open now.
    pub fn open_connections(&self) -> usize {
        self.loads.iter().map(|load| load.open.load(Ordering::Relaxed)).sum()
    }

    /// Audits every pool's queue (row Q-18): a request that waits although a place is free for it
    /// is served now, and the operator is told. To be called about once a second.
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

    /// An instant on the clock of the balancers, in microseconds since the process started.
    pub fn balance_clock(&self, now: impl Into<Instant>) -> u64 {
        now.into().micros_since(self.epoch)
    }

    /// An instant on the clock of limits, in nanoseconds since the process started.
    pub fn limit_clock(&self, now: impl Into<Instant>) -> u64 {
        now.into().nanos_since(self.epoch)
    }

    /// A time of that clock as an instant.
    pub fn instant(&self, at_us: u64) -> Instant {
        self.epoch + Duration::from_micros(at_us)
    }
}

/// One compiled configuration. It never changes; what is live about it (places, health, counters) stands behind the `Arc`s that
/// its successor takes over.
pub struct Snapshot {
    /// Its number, from 1.
    pub generation: u64,
    /// Listeners, in configuration order.
    pub listeners: Vec<Arc<Listener>>,
    /// Pools, in configuration order.
    pub pools: Vec<Arc<UpstreamPool>>,
    /// Access logs, in configuration order.
    pub logs: Vec<AccessLog>,
    /// Pools of earlier ones that may still have exchanges, the latest first.
    pub(crate) former: Vec<Weak<UpstreamPool>>,
    pub(crate) numbers: Arc<EndpointNumbers>,
    /// What limits of all snapshots share.
    pub limiter: Arc<Limiter>,
    /// Memory of its table, bytes.
    pub(crate) limit_table: usize,
    /// Keys of session tickets.
    pub(crate) tickets: Arc<Tickets>,
    /// Where its exchanges are counted, once that was looked up.
    pub(crate) series: OnceLock<Arc<SnapshotSeries>>,
}

impl Snapshot {
    /// Where its exchanges are counted.
    pub(crate) fn series(&self, numbers: &Numbers) -> &Arc<SnapshotSeries> {
        self.series.get_or_init(|| Arc::new(SnapshotSeries::of(self, numbers)))
    }

    /// Keys of session tickets.
    pub fn tickets(&self) -> &Tickets {
        &self.tickets
    }

    /// The pool of this name.
    pub fn pool(&self, name: &str) -> Option<&Arc<UpstreamPool>> {
        self.pools.iter().find(|pool| &*pool.name == name)
    }

    /// Where the listener stands whose connections come through this gate.
    pub(crate) fn position_of(&self, gate: &Arc<Gate>) -> Option<usize> {
        let is_there = |listener: &Arc<Listener>| Arc::ptr_eq(&listener.gate, gate);
        let likely = gate.position.load(Ordering::Relaxed);
        if self.listeners.get(likely).is_some_and(is_there) {
            return Some(likely);
        }
        self.listeners.iter().position(is_there)
    }

    /// The pool of this name, and those before it that still have exchanges, the latest first. It may not be configured any more.
    pub(crate) fn line_of(&self, name: &str) -> impl Iterator<Item = Arc<UpstreamPool>> {
        self.pool(name).cloned().into_iter().chain(self.former_of(name))
    }

    /// The pools that had this name before, the latest first, as far as they still have exchanges.
    pub(crate) fn former_of(&self, name: &str) -> impl Iterator<Item = Arc<UpstreamPool>> {
        let former = self.former.iter().filter_map(Weak::upgrade);
        former.filter(move |pool| &*pool.name == name)
    }

    /// The listener of this name.
    pub fn listener(&self, name: &str) -> Option<&Arc<Listener>> {
        self.listeners.iter().find(|listener| &*listener.name == name)
    }

    /// A pool and the number of an endpoint in it, both by name.
    pub fn endpoint(&self, pool: &str, endpoint: &str) -> Option<(&Arc<UpstreamPool>, usize)> {
        let pool = self.pool(pool)?;
        let index = pool.endpoints.iter().position(|one| &*one.name == endpoint)?;
        Some((pool, index))
    }
}

/// An access log's format and where its batches go.
pub struct AccessLog {
    /// How a line looks.
    pub line: Line,
    /// Where lines go.
    pub sink: LogSink,
}

/// Use that the logs of a listener make of the number of exchanges beside one.
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

/// What logs tell of why requests went their way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogReasons {
    /// One at least tells it.
    Told,
    /// None does.
    Untold,
}

/// A listener as connections see it.
pub struct Listener {
    /// Its name in logs.
    pub name: Arc<str>,
    /// The addresses it accepts on, as configured.
    pub addresses: Vec<model::ListenAddress>,
    /// TLS, or plain.
    pub tls: Option<Arc<ServerConfig>>,
    /// Where requests lead.
    pub router: Router,
    /// Directories that `files` routes serve, by the router's index.
    pub roots: Vec<Arc<Root>>,
    /// Waits on the client side.
    pub timeouts: model::ClientTimeouts,
    /// Bounds on requests.
    pub limits: model::MessageLimits,
    /// How paths are normalised.
    pub path: model::PathRules,
    /// Bounds on one client: over all listeners, and here.
    pub client_limits: Vec<Arc<ClientLimit>>,
    /// Bounds on requests by key.
    pub rate_limits: Vec<Arc<RateLimit>>,
    /// Bound on the speed of bodies, of routes that have none of their own.
    pub bandwidth: Option<Arc<Bandwidth>>,
    /// Trusted peers and forwarding headers.
    pub forwarded: model::Forwarded,
    /// Request id header.
    pub request_id: model::RequestId,
    /// Where answers of our own tell their cause.
    pub cause_header: Option<model::CauseHeader>,
    /// Where who asks for it is told how his request was handled.
    pub explain_header: Option<model::ExplainHeader>,
    /// Allow and deny.
    pub access: Vec<model::AccessRule>,
    /// Indexes into [`Snapshot::logs`].
    pub logs: Vec<usize>,
    /// Whether a log or a response header shows what the endpoint answered.
    pub keeps_response_head: bool,
    /// Whether a log tells why requests went their way.
    pub(crate) reasons: LogReasons,
    /// Whether a log shows groups of a route's path regex.
    pub logs_captures: bool,
    /// Whether a log or the key of a pool shows our own address.
    pub shows_local_address: bool,
    /// Use that its logs make of the number of exchanges beside one.
    pub(crate) concurrency: LogCounts,
    /// Its connections.
    pub gate: Arc<Gate>,
    /// How many of them may be open at once.
    pub max_connections: Option<usize>,
    pub(crate) source: Source<ListenerModel>,
}

impl Listener {
    /// Whether this peer speaks for others, and is not bounded for itself.
    pub(crate) fn trusts(&self, peer: IpAddr) -> bool {
        let trusted = &self.forwarded.trusted;
        !trusted.is_empty() && model::contains(trusted, peer.to_canonical())
    }

    /// Whether what it is depends on what files hold.
    pub fn reads_files(&self) -> bool {
        self.source.reads_files()
    }
}

/// Where a listening socket really is, once bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BoundAddress {
    /// TCP.
    Socket(SocketAddr),
    /// Unix.
    Unix(std::path::PathBuf),
}
