//! The status as plain values, of which the JSON API, the dashboard, HAProxy's tables and `weir
//! top` are views. `collect.rs` reads it from the live state.

pub(crate) mod collect;
pub(crate) mod history;
pub(crate) mod live;
pub(crate) mod read_model;
pub(crate) mod report;
pub(crate) mod sampler;
pub(crate) mod sources;
pub(crate) mod traffic;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_stats::exposition::{CreditsReport, IncidentReport, LimitsReport};

pub use weir_control::admin_port::Event;

pub use weir_stats::exposition::{EndpointState as State, PoolCounters};

/// The whole status at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// The moment, milliseconds since 1970.
    pub at_ms: u64,
    /// The process.
    pub info: Info,
    /// The listeners, in the configuration's order.
    pub listeners: Vec<ListenerStatus>,
    /// The pools, in the configuration's order.
    pub pools: Vec<PoolStatus>,
    /// The workers, by number.
    pub workers: Vec<WorkerStatus>,
    /// The machine's processor credits, if their books are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credits: Option<CreditsReport>,
    /// The limits on clients and keys, if there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<LimitsReport>,
}

/// The process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Info {
    /// `Weir`.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its process id.
    pub pid: u32,
    /// The machine's name.
    pub host: String,
    /// The start of the process, milliseconds since 1970.
    pub started_ms: u64,
    /// Seconds since the start.
    pub uptime_s: u64,
    /// The number of the configuration that is served, from 1.
    pub generation: u64,
    /// `running` or `stopping`.
    pub state: String,
    /// The number of worker threads.
    pub workers: usize,
    /// The number of open client connections.
    pub connections: usize,
    /// The most client connections allowed.
    pub max_connections: usize,
    /// The number of running requests.
    pub requests_running: usize,
    /// The configuration file, if there is one.
    pub configuration: Option<String>,
    /// The file that keeps runtime changes across restarts, if there is one.
    pub state_file: Option<String>,
    /// The number of settings that differ from the configuration file.
    pub overrides: usize,
    /// The most files open at once.
    pub open_files_limit: u64,
    /// The memory budget.
    #[serde(default)]
    pub memory: MemoryStatus,
    /// Incidents of its workers and of earlier serving processes.
    #[serde(default)]
    pub incidents: IncidentReport,
}

/// The memory budget.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryStatus {
    /// The bytes that the process has allocated.
    pub used: usize,
    /// The most bytes that it may allocate; `null` without a bound.
    pub max: Option<usize>,
    /// The measure in effect because the bound is near: `none`, `close_idle`, `pause_reads` or
    /// `refuse`.
    pub pressure: String,
    /// The number of new connections that were closed because of it.
    pub connections_refused: u64,
    /// The number of requests whose bodies were not read for a while because of it.
    pub reads_paused: u64,
    /// The number of requests that were ended because they held the most memory.
    pub requests_given_up: u64,
}

/// A listener.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListenerStatus {
    /// Its name.
    pub name: String,
    /// The addresses it accepts on, as configured.
    pub addresses: Vec<String>,
    /// Set if clients use TLS.
    pub tls: bool,
    /// The number of open client connections.
    pub connections: usize,
    /// The most connections allowed; `null` if only the limit of the process applies.
    pub max_connections: Option<usize>,
    /// The most connections open at once, since the start or since counters were cleared.
    pub most_connections: usize,
    /// The number of accepted connections.
    pub accepted: u64,
    /// Connections accepted per second, now.
    pub accepted_per_second: f64,
    /// The most connections accepted in one second.
    pub accepted_per_second_max: u64,
    /// The number of idle connections that were closed to make room for others.
    pub idle_closed: u64,
    /// The number of TLS handshakes that made a session, that resumed one, and that failed.
    pub handshakes: [u64; 3],
    /// Its requests.
    pub traffic: Traffic,
}

/// The requests that ended since the start or since counters were cleared.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Traffic {
    /// Their number.
    pub requests: u64,
    /// Requests per second, now.
    pub per_second: f64,
    /// The most requests in one second.
    pub per_second_max: u64,
    /// Seconds since the last one ended; `null` if there was none.
    pub last_s: Option<u64>,
    /// Their number by class of status: `1xx` to `5xx`.
    pub statuses: BTreeMap<String, u64>,
    /// Their number by status; `none` if no status was sent. Only statuses that occurred.
    pub codes: BTreeMap<String, u64>,
    /// Their number by the cause of their end. Only causes that occurred.
    pub causes: BTreeMap<String, u64>,
    /// The bytes of requests, heads and bodies.
    pub bytes_received: u64,
    /// The bytes of responses, heads and bodies.
    pub bytes_sent: u64,
    /// The number of their attempts.
    pub attempts: u64,
    /// The number of requests with more than one attempt.
    pub retried: u64,
    /// The number of requests whose last attempt reused a connection.
    pub reused: u64,
    /// The number of requests that waited in the queue.
    pub queued: u64,
    /// The number of requests that Weir answered as configured, without a pool: responses,
    /// redirects, files.
    pub answered_here: u64,
    /// Their durations, by phase.
    pub times: Vec<PhaseTimes>,
    /// The length of the window of `recent`, seconds.
    pub recent_s: u64,
    /// The durations of the requests in the recent window.
    pub recent: Vec<PhaseTimes>,
}

/// The durations of a phase.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseTimes {
    /// The phase: `request`, `queue`, `connect`, `response`, `data`, `total`, or `own` for Weir's
    /// own part.
    pub phase: String,
    /// The number of samples.
    pub count: u64,
    /// The mean, microseconds.
    pub mean_us: u64,
    /// The median, microseconds.
    pub p50_us: u64,
    /// The 90 % quantile, microseconds.
    pub p90_us: u64,
    /// The 99 % quantile, microseconds.
    pub p99_us: u64,
    /// The 99.9 % quantile, microseconds.
    pub p999_us: u64,
    /// The 99.99 % quantile, microseconds.
    pub p9999_us: u64,
    /// The 99.9999 % quantile, microseconds.
    pub p999999_us: u64,
    /// The maximum, microseconds.
    pub max_us: u64,
}

/// A route.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RouteStatus {
    /// The listener's name.
    pub listener: String,
    /// Its name; empty for requests that matched no route.
    pub route: String,
    /// The pool it leads to; empty if there is none.
    pub pool: String,
    /// Its requests.
    pub traffic: Traffic,
}

/// A worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerStatus {
    /// Its number, from 0.
    pub number: usize,
    /// The number of client connections it holds.
    pub connections: usize,
    /// The number of these connections with a running request.
    pub requests_running: usize,
    /// The bytes that these requests hold in buffers.
    #[serde(default)]
    pub held: usize,
    /// The number of requests that ended.
    pub requests: u64,
    /// The time that it spent working on requests, microseconds.
    pub own_us: u64,
    /// The lateness of its timer.
    pub lag: PhaseTimes,
}

/// A pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PoolStatus {
    /// Its name.
    pub name: String,
    /// Its policy for picking endpoints.
    pub policy: String,
    /// `up` while at least one endpoint is usable, else `down`.
    pub state: String,
    /// Set while probes are ignored because too few endpoints are healthy by them.
    pub panicking: bool,
    /// The number of usable endpoints.
    pub usable: usize,
    /// The number of requests in flight.
    pub in_flight: u64,
    /// The most requests in flight, sampled once a second and at each endpoint.
    pub most_in_flight: u64,
    /// Its queue; `null` if there is none.
    pub queue: Option<QueueStatus>,
    /// The counters of its balancer.
    pub counters: PoolCounters,
    /// The number of attempts after which the same endpoint was tried again.
    pub repeated: u64,
    /// The number of attempts after which another endpoint was tried.
    pub redispatched: u64,
    /// Its requests.
    pub traffic: Traffic,
    /// Its endpoints, in the configuration's order.
    pub endpoints: Vec<EndpointStatus>,
}

/// A pool's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueStatus {
    /// The number of waiting requests.
    pub now: u64,
    /// The most requests allowed to wait.
    pub max: u64,
    /// The most requests that have waited at once.
    pub longest: u64,
    /// The longest wait allowed, milliseconds.
    pub timeout_ms: u64,
}

/// An endpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EndpointStatus {
    /// The pool's name.
    pub pool: String,
    /// Its name.
    pub name: String,
    /// Its address, as configured.
    pub address: String,
    /// The address to which its name resolves, if it has a name that is resolved.
    pub resolved: Option<String>,
    /// Its state: `up`, `draining`, `maintenance`, `down`, `ejected`, `stalled` or `unresolved`.
    pub state: State,
    /// The time since which it is in its state, milliseconds since 1970.
    pub since_ms: u64,
    /// The operator's order: `ready`, `draining` or `maintenance`.
    pub order: String,
    /// The result of its probes: `up`, `down`, or `unchecked` if there are none.
    pub health: String,
    /// The reason of its state, in one clause; empty if none is known.
    pub reason: String,
    /// The beginning of the reply to the probe that changed its health.
    pub excerpt: String,
    /// The latest probe, if there was one.
    pub probe: Option<ProbeStatus>,
    /// The end of its ejection, milliseconds since 1970.
    pub ejected_until_ms: Option<u64>,
    /// The number of requests in flight.
    pub in_flight: u32,
    /// The most requests in flight at once, since the start or since counters were cleared.
    pub most_in_flight: u32,
    /// The most requests allowed in flight.
    pub max_conn: Option<u32>,
    /// The number of requests that wait for this endpoint only.
    pub queued: u32,
    /// The most requests that waited for it at once.
    pub most_queued: u32,
    /// Its weight.
    pub weight: u32,
    /// Its tier; tier 0 is used first.
    pub tier: u8,
    /// Set if it is a backup.
    pub backup: bool,
    /// The number of idle connections kept to it.
    pub idle_connections: u32,
    /// The number of connections opened to it.
    pub connections_opened: u64,
    /// The number of requests sent over a reused connection.
    pub connections_reused: u64,
    /// The number of times that it was picked.
    pub picks: u64,
    /// The number of failures in traffic that count for the pool's `passive`.
    pub passive_failures: u64,
    /// The number of its ejections.
    pub ejections: u64,
    /// The number of times that it was found stalled.
    pub stalls: u64,
    /// The number of its outages: times that it was down, ejected or stalled.
    pub outages: u64,
    /// The total duration of its outages, seconds.
    pub out_s: u64,
    /// The most idle connections kept to it.
    pub max_idle: u32,
    /// The requests whose last attempt was here.
    pub traffic: Traffic,
    /// The number of attempts here that were given up for another attempt.
    pub failed_attempts: u64,
    /// The number of these after which this endpoint was tried again.
    pub repeated: u64,
    /// The number of these after which another endpoint was tried.
    pub redispatched: u64,
    /// The settings that differ from the configuration file: `order`, `weight`, `max_conn`,
    /// `added`.
    pub overridden: Vec<String>,
}

/// A probe of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeStatus {
    /// `http`, `tcp` or `tls`.
    pub kind: String,
    /// The time at which it ended, milliseconds since 1970.
    pub at_ms: u64,
    /// Its duration, microseconds.
    pub took_us: u64,
    /// Set if it passed.
    pub passed: bool,
    /// The reason of its failure, in one clause; empty if it passed.
    pub reason: String,
    /// The beginning of the reply, if it failed.
    pub excerpt: String,
    /// The number of probes so far.
    pub probes: u64,
    /// The number of failed probes so far.
    pub failures: u64,
    /// The successes in a row that make the endpoint up.
    pub rise: u32,
    /// The failures in a row that make the endpoint down.
    pub fall: u32,
}

/// A request that waits in a pool's queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitingStatus {
    /// The number of requests ahead of it.
    pub position: u32,
    /// The time since which it waits, milliseconds since 1970.
    pub since_ms: u64,
    /// The time it has waited, microseconds.
    pub waited_us: u64,
    /// The longest time that it will still wait, microseconds.
    pub left_us: u64,
    /// The request's id, as in logs and in the request id header.
    pub request_id: String,
    /// The client's address; empty on a Unix socket without a trusted proxy.
    pub client: String,
    /// The request's method.
    pub method: String,
    /// The request's target, cut to about 120 bytes; a longer one ends with `…`.
    pub target: String,
    /// The pool it waits for.
    pub pool: String,
    /// The endpoint it waits for, if no other will do.
    pub endpoint: Option<String>,
}

impl WaitingStatus {
    /// The pool and endpoint it waits for; `any` stands for any endpoint.
    pub fn waits_for(&self) -> String {
        format!("{}/{}", self.pool, self.endpoint.as_deref().unwrap_or("any"))
    }
}
