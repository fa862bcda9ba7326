//! One compiled configuration, which is replaced as a whole. It only holds state: `compile.rs`
//! makes it, and workers run on it.

pub mod compile;
pub(crate) mod generation;
pub(crate) mod series;

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock, Weak};

use ipnet::IpNet;
use rustls::ServerConfig;
use weir_config::{Config, model};
use weir_files::Root;
use weir_stats::metrics::MetricsRegistry;
use weir_stats::{Clock, Entry, Escape, Line, LogSink, Template, Variable};

use crate::limiting::Limiter;
use crate::limiting::admission::Gate;
use crate::limiting::bandwidth::BandwidthLimiter;
use crate::limiting::client::ClientLimiter;
use crate::limiting::key_limits::KeyLimits;
use crate::net::tls::{ClientVerifier, Tickets};
use crate::routing::file_switch::FileSwitch;
use crate::routing::route::{CompiledRoute, Router};
use crate::snapshot::series::SnapshotSeries;
use crate::upstream::UpstreamPool;
use crate::upstream::endpoint_number::EndpointNumbers;
use crate::upstream::source::{FilesSource, ReadFile};

/// One compiled configuration. It never changes; its live state (places, health, counters) is
/// behind the `Arc`s that its successor takes over.
pub struct Snapshot {
    /// Its number, from 1.
    pub generation: u64,
    /// Listeners, in configuration order.
    pub listeners: Vec<Arc<CompiledListener>>,
    /// Pools, in configuration order.
    pub pools: Vec<Arc<UpstreamPool>>,
    /// Access logs, in configuration order.
    pub logs: Vec<CompiledAccessLog>,
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

/// The conditions that begin to count the servers of a snapshot.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum CountedConditions {
    All,
    /// Those that count none yet.
    New,
}

impl Snapshot {
    /// The counters of its exchanges.
    pub(crate) fn series(&self, numbers: &MetricsRegistry) -> &Arc<SnapshotSeries> {
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
        let is_there = |listener: &Arc<CompiledListener>| Arc::ptr_eq(&listener.gate, gate);
        let likely = gate.position.load(Ordering::Relaxed);
        if self.listeners.get(likely).is_some_and(is_there) {
            return Some(likely);
        }
        self.listeners.iter().position(is_there)
    }

    /// The pool of this name, and its predecessors that still have exchanges, the latest first. The
    /// name need not be configured any more.
    pub(crate) fn line_of(&self, name: &str) -> impl Iterator<Item = Arc<UpstreamPool>> {
        self.pool(name).cloned().into_iter().chain(self.former_of(name))
    }

    /// The previous pools of this name that still have exchanges, the latest first.
    pub(crate) fn former_of(&self, name: &str) -> impl Iterator<Item = Arc<UpstreamPool>> {
        let former = self.former.iter().filter_map(Weak::upgrade);
        former.filter(move |pool| &*pool.name == name)
    }

    /// The files that conditions of routes ask for.
    pub fn file_switches(&self) -> impl Iterator<Item = &Arc<FileSwitch>> {
        self.listeners.iter().flat_map(|listener| listener.router.file_switches())
    }

    /// Lets conditions of routes count the servers of the pools of this snapshot.
    pub(crate) fn count_servers(&self, which: CountedConditions) {
        let all = which == CountedConditions::All;
        let counts = self.listeners.iter().flat_map(|listener| listener.router.pool_counts());
        let mut counts = counts.filter(|count| all || !count.is_watching()).peekable();
        if counts.peek().is_none() {
            return;
        }
        let pools: HashMap<&str, &Arc<UpstreamPool>> =
            self.pools.iter().map(|pool| (&*pool.name, pool)).collect();
        for count in counts {
            if let Some(pool) = pools.get(count.pool()) {
                count.watch(pool);
            }
        }
    }

    /// The listener of this name.
    pub fn listener(&self, name: &str) -> Option<&Arc<CompiledListener>> {
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
pub struct CompiledAccessLog {
    /// The format of a line.
    pub line: Line,
    /// The text on which a line depends; `None` if all are written.
    pub when: Option<Template>,
    /// The sink of the lines.
    pub sink: LogSink,
}

impl CompiledAccessLog {
    /// Returns true if the log has a line for this exchange.
    pub(crate) fn takes(&self, entry: &Entry<'_>, clock: &mut Clock) -> bool {
        let Some(when) = &self.when else { return true };
        let mut text = Vec::new();
        when.append_at(entry, clock, Escape::None, &mut text);
        !matches!(text.as_slice(), b"" | b"0")
    }
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

/// Tells whether the names that TLS clients ask for are read before a TCP connection is dispatched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerNames {
    /// The pool or a limit of a connection depends on the name.
    Read,
    /// Nothing depends on it. A log alone does not make connections wait.
    Unread,
}

/// Tells whether logs show the reasons for a request's handling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogReasons {
    /// At least one log shows them.
    Told,
    /// No log shows them.
    Untold,
}

impl LogReasons {
    pub(crate) fn of(told: bool) -> Self {
        if told { Self::Told } else { Self::Untold }
    }
}

/// Tells whether bodies of requests are kept for texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestBodies {
    Shown,
    Unshown,
}

/// The TLS of a listener.
pub struct CompiledTls {
    /// The configuration of its handshakes.
    pub config: Arc<ServerConfig>,
    /// Verifies the certificates of clients; `None` if they are asked for none.
    pub(crate) clients: Option<Arc<ClientVerifier>>,
}

/// A compiled listener.
pub struct CompiledListener {
    /// Its name.
    pub name: Arc<str>,
    /// Its name in lines of logs.
    pub(crate) log_name: Arc<str>,
    /// The addresses it accepts on, as configured.
    pub addresses: Vec<model::ListenAddress>,
    /// The protocol of its connections.
    pub protocol: model::Protocol,
    /// The peers whose connections begin with a PROXY header.
    pub proxy_protocol: Vec<IpNet>,
    /// HTTP/2.
    pub http2: model::Http2,
    /// gRPC.
    pub grpc: model::Grpc,
    /// The TLS configuration; `None` for plain connections.
    pub tls: Option<CompiledTls>,
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
    /// The rules for header names; `None` if all are passed on.
    pub(crate) header_names: Option<model::HeaderNames>,
    /// The limits on one client: those over all listeners, and those of this listener.
    pub client_limits: Vec<Arc<ClientLimiter>>,
    /// The limits on requests by key.
    pub key_limits: KeyLimits,
    /// The limit on the rate of bodies, for routes without one of their own.
    pub bandwidth: Option<Arc<BandwidthLimiter>>,
    /// Trusted peers and forwarding headers.
    pub forwarded: model::Forwarded,
    /// The request id header.
    pub request_id: model::RequestIdSettings,
    /// The header with the cause in local replies.
    pub cause_header: Option<model::CauseHeader>,
    /// The header that explains, on request, how a request was handled.
    pub explain_header: Option<model::ExplainHeader>,
    /// The rules to allow and deny clients.
    pub access: Vec<model::AccessRule>,
    /// The logs of routes that name none: indices into [`Snapshot::logs`].
    pub logs: Vec<usize>,
    /// Set if a log or a response header uses headers of the endpoint's response.
    pub keeps_response_head: bool,
    /// Tells whether a log or a header shows bodies of requests.
    pub(crate) request_bodies: RequestBodies,
    /// Tells whether a log shows the reasons for a request's handling.
    pub(crate) reasons: LogReasons,
    /// Set if a log shows groups of a route's path regex.
    pub logs_captures: bool,
    /// Tells whether TCP connections wait for the name that the client asks for in its TLS
    /// handshake.
    pub(crate) server_names: ServerNames,
    /// Set if a log, a limit or the key of a pool uses the local address.
    pub shows_local_address: bool,
    /// Tells whether its logs show the number of concurrent exchanges.
    pub(crate) concurrency: LogCounts,
    /// The state that its connections share.
    pub gate: Arc<Gate>,
    /// The maximum number of open connections.
    pub max_connections: Option<usize>,
    /// The source; `None` in a check, which keeps none.
    pub(crate) source: Option<FilesSource<ListenerModel>>,
}

impl CompiledListener {
    /// Returns true if this peer is a trusted proxy. It forwards requests of other clients, and so
    /// has no limits of its own.
    pub(crate) fn trusts(&self, peer: IpAddr) -> bool {
        let trusted = &self.forwarded.trusted;
        !trusted.is_empty() && model::contains(trusted, peer.to_canonical())
    }

    /// The logs of the exchanges of a route, or of those that found none.
    pub(crate) fn logs_of<'a>(&'a self, route: Option<&'a CompiledRoute>) -> &'a [usize] {
        route.and_then(|route| route.logs.as_deref()).unwrap_or(&self.logs)
    }

    /// Returns true if connections of this peer begin with a PROXY header; `None` is the peer of a
    /// Unix socket.
    pub(crate) fn gets_proxy_header(&self, peer: Option<IpAddr>) -> bool {
        let peers = &self.proxy_protocol;
        match peer {
            _ if peers.is_empty() => false,
            Some(peer) => model::contains(peers, peer.to_canonical()),
            None => peers.iter().any(|network| network.prefix_len() == 0),
        }
    }

    /// Returns true if its compilation depends on the contents of files.
    pub fn reads_files(&self) -> bool {
        self.source.as_ref().is_some_and(FilesSource::reads_files)
    }

    /// Returns true if the model that it was compiled from equals this one and no file has changed.
    pub(crate) fn is_still(&self, model: &ListenerModel, read: ReadFile<'_>) -> bool {
        self.source.as_ref().is_some_and(|source| source.is_still(model, read))
    }
}

/// All parts of a configuration that a listener depends on.
#[derive(Debug, PartialEq)]
pub(crate) struct ListenerModel {
    listener: model::Listener,
    /// The pools' names, by the number that routes use for a pool.
    pools: Vec<String>,
    logs: Vec<model::AccessLog>,
    /// The tables of types that its routes use.
    types: Vec<model::TypeTable>,
    keys_of_local_addresses: bool,
    hashes_server_name: bool,
    /// The client limit of the whole configuration.
    client_limit: Option<model::ClientLimit>,
    /// The pools whose settings some of its routes replace in part, by number.
    replaced: Vec<(usize, model::Pool)>,
}

impl ListenerModel {
    fn new(listener: &model::Listener, config: &Config) -> Self {
        Self {
            listener: listener.clone(),
            pools: config.pools.iter().map(|pool| pool.name.clone()).collect(),
            logs: config.logs.clone(),
            types: used_types(listener, config),
            keys_of_local_addresses: keys_of_local_addresses(config),
            hashes_server_name: hashes_server_name(listener, config),
            client_limit: config.client_limit.clone(),
            replaced: replaced_pools(listener, config),
        }
    }
}

fn used_types(listener: &model::Listener, config: &Config) -> Vec<model::TypeTable> {
    let names: Vec<&String> = listener
        .all_routes()
        .filter_map(|route| match &route.action {
            model::Action::Files(files) => files.types.as_ref(),
            _ => None,
        })
        .collect();
    let used = config.types.iter().filter(|table| names.contains(&&table.name));
    used.cloned().collect()
}

fn replaced_pools(listener: &model::Listener, config: &Config) -> Vec<(usize, model::Pool)> {
    let own = listener.all_routes().filter(|route| !route.upstream.is_inherited());
    let numbers = own.filter_map(|route| match &route.action {
        model::Action::Pool(number) => Some(*number),
        _ => None,
    });
    let numbers: BTreeSet<usize> = numbers.collect();
    let pool = |number: usize| Some((number, config.pools.get(number)?.clone()));
    numbers.into_iter().filter_map(pool).collect()
}

/// Returns true if a pool that a listener's routes lead to hashes the name that TLS clients ask
/// for, or asks its servers for it.
pub(crate) fn hashes_server_name(listener: &model::Listener, config: &Config) -> bool {
    let pools = listener.all_routes().flat_map(|route| route.action.pools());
    let mut keys = pools.filter_map(|number| config.pools.get(number)).flat_map(texts_of_requests);
    keys.any(|key| key.variables().any(Variable::is_of_client_hello))
}

/// Returns true if a pool hashes the local address of client connections.
pub(crate) fn keys_of_local_addresses(config: &Config) -> bool {
    let mut keys = config.pools.iter().flat_map(texts_of_requests);
    keys.any(|key| key.variables().any(Variable::is_local_address))
}

/// Returns the texts that a pool has of each request: the key of its policy, and the name that its
/// TLS asks for.
fn texts_of_requests(pool: &model::Pool) -> impl Iterator<Item = &Template> {
    let name = pool.tls.as_ref().and_then(|tls| tls.request_name.as_ref());
    pool.policy.key().into_iter().chain(name)
}
