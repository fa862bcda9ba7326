//! What all workers share: the compiled listeners and pools, their live counters, and the stage of the process's life.
//! Built once per configuration by `compile.rs`; it runs nothing.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustls::ServerConfig;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use weir_config::model;
use weir_files::Root;
use weir_stats::{Line, LogSink};

use crate::notice::{Notice, Noticed, Notices};
use crate::route::Router;
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
    },
    /// To end now.
    Stopped,
}

/// What all workers share.
pub struct Shared {
    /// Listeners, in configuration order.
    pub listeners: Vec<Arc<Listener>>,
    /// Pools, in configuration order.
    pub pools: Vec<Arc<UpstreamPool>>,
    /// Access logs, in configuration order.
    pub logs: Vec<AccessLog>,
    /// One per worker.
    pub loads: Vec<Arc<WorkerLoad>>,
    /// Room for client connections over all listeners.
    pub connections: Arc<Semaphore>,
    /// The number of permits `connections` started with.
    pub connection_cap: usize,
    /// What workers tell the operator of pools and endpoints.
    pub notices: Notices,
    /// Start of the balancer's clock.
    pub epoch: Instant,
    /// Exchanges that were running when their worker ended.
    pub cut_off: AtomicUsize,
    /// Set when the process begins to stop: answers from then on end their connections.
    pub stopping: AtomicBool,
}

impl Shared {
    /// Client connections open now.
    pub fn open_connections(&self) -> usize {
        self.loads.iter().map(|load| load.open.load(Ordering::Relaxed)).sum()
    }

    /// The watchdog (row Q-18): whoever waits although a place is free for him is served now, and the operator is told.
    pub(crate) fn watch_queues(&self) {
        let now_us = self.balance_clock(Instant::now());
        for (number, pool) in self.pools.iter().enumerate() {
            let found = pool.balancer.audit(now_us);
            if found > 0 {
                self.notices.tell(Notice { pool: number, what: Noticed::LawBroken { found } });
            }
        }
    }

    /// An instant on the clock of the balancers, in microseconds since the process started.
    pub fn balance_clock(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.epoch).as_micros() as u64
    }
}

/// An access log's format and where its batches go.
pub struct AccessLog {
    /// How a line looks.
    pub line: Line,
    /// Where lines go.
    pub sink: LogSink,
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
    /// Trusted peers and forwarding headers.
    pub forwarded: model::Forwarded,
    /// Request id header.
    pub request_id: model::RequestId,
    /// Allow and deny.
    pub access: Vec<model::AccessRule>,
    /// Indexes into `Shared::logs`.
    pub logs: Vec<usize>,
    /// Whether a log or a response header shows what the endpoint answered.
    pub keeps_response_head: bool,
    /// Whether a log shows groups of a route's path regex.
    pub logs_captures: bool,
    /// Whether a log or the key of a pool shows our own address.
    pub shows_local_address: bool,
    /// Room for client connections here; `None` is without a cap of its own.
    pub connections: Option<Arc<Semaphore>>,
    /// Client connections open here.
    pub open: AtomicUsize,
}

/// Where a listening socket really is, once bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BoundAddress {
    /// TCP.
    Socket(SocketAddr),
    /// Unix.
    Unix(std::path::PathBuf),
}
