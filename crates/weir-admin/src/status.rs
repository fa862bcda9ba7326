//! The status as plain values, of which the JSON API, the dashboard, HAProxy's tables and `weir
//! top` are views. `collect.rs` reads it from the live state.

pub(crate) mod collect;
pub(crate) mod history;
pub(crate) mod limits;
pub(crate) mod live;
pub(crate) mod pool;
pub(crate) mod read_model;
pub(crate) mod sampler;
pub(crate) mod sources;
pub(crate) mod traffic;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_stats::exposition::{CreditsReport, Usage};

pub use weir_control::admin_port::Event;

pub use limits::{LimitStatus, LimitedKeyStatus, LimitsStatus};
pub use pool::{
    EndpointStatus, OperationalState, PoolCounters, PoolStatus, ProbeStatus, QueueStatus,
    StreamFigures, WaitingStatus,
};

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
    /// The process's use of the machine in the last ten seconds.
    #[serde(default)]
    pub machine: Usage,
    /// The machine's processor credits, if their books are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credits: Option<CreditsReport>,
    /// The streams, by the routes that had one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub streams: Vec<StreamStatus>,
    /// The limits on clients and keys, if there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<LimitsStatus>,
    /// The access logs, in the configuration's order; shown by the metrics only.
    #[serde(skip)]
    pub logs: Vec<LogStatus>,
    /// The admin interface; shown by the metrics only.
    #[serde(skip)]
    pub admin: AdminStatus,
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
    /// The largest number of client connections allowed.
    pub max_connections: usize,
    /// The number of running requests.
    pub requests_running: usize,
    /// The configuration file, if there is one.
    pub configuration: Option<String>,
    /// The file that keeps runtime changes across restarts, if there is one.
    pub state_file: Option<String>,
    /// The number of settings that differ from the configuration file.
    pub overrides: usize,
    /// The largest number of files open at once.
    pub open_files_limit: u64,
    /// The memory budget.
    #[serde(default)]
    pub memory: MemoryStatus,
    /// Incidents of its workers and of earlier serving processes.
    #[serde(default)]
    pub incidents: IncidentStatus,
    /// The start of the process, microseconds since 1970; this and the rest are shown by the
    /// metrics only.
    #[serde(skip)]
    pub started_us: u64,
    /// Connects to endpoints that failed for lack of descriptors, ports or memory.
    #[serde(skip)]
    pub shortages: u64,
    /// Connections closed at once because their clients held a large part of the cap.
    #[serde(skip)]
    pub refused_at_cap: u64,
    /// Requests and handshakes of such clients that were aborted in favour of others.
    #[serde(skip)]
    pub given_up_at_cap: u64,
}

/// Incidents of workers, and of the processes before this one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IncidentStatus {
    /// The number of restarts of the serving process after it had died.
    pub restarts: u64,
    /// The duration of the latest restart, from the death to the time at which the next process
    /// served, µs.
    #[serde(default)]
    pub restart_us: Option<u64>,
    /// The number of times that a worker did not respond for a second.
    pub hangs: u64,
    /// Workers that were replaced because they hung.
    pub replaced: u64,
    /// The number of panics of workers, including those after which a worker was not restarted.
    pub panics: u64,
    /// Client connections that ended with a worker.
    pub lost_connections: u64,
    /// Requests that ended with a worker.
    pub lost_requests: u64,
}

/// The memory budget.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryStatus {
    /// The bytes that the process has allocated.
    pub used: usize,
    /// The largest number of bytes that it may allocate; `null` without a bound.
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
    /// The protocol of its connections: `http` or `tcp`.
    pub protocol: String,
    /// Set if clients use TLS.
    pub tls: bool,
    /// The number of open client connections.
    pub connections: usize,
    /// The largest number of connections allowed; `null` if only the limit of the process applies.
    pub max_connections: Option<usize>,
    /// The largest number of connections open at once, since the start or since counters were
    /// cleared.
    pub most_connections: usize,
    /// The number of accepted connections.
    pub accepted: u64,
    /// Connections accepted per second, now.
    pub accepted_per_second: f64,
    /// The largest number of connections accepted in one second.
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
    /// The largest number of requests in one second.
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

/// The streams of a route: responses that came piece by piece.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamStatus {
    /// The listener's name.
    pub listener: String,
    /// The route's name.
    pub route: String,
    /// The pool it leads to.
    pub pool: String,
    /// From the first byte of the request to the first byte of the response's body, as `first`.
    pub first: PhaseTimes,
    /// From one piece of the body to the next, as `gap`.
    pub gap: PhaseTimes,
    /// The same as `first` in the recent window.
    pub recent_first: PhaseTimes,
    /// The same as `gap` in the recent window.
    pub recent_gap: PhaseTimes,
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

/// An access log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogStatus {
    /// Its name.
    pub name: String,
    /// Lines that were not written because the writer could not keep up.
    pub dropped: u64,
}

/// Connections to the admin interface that were closed early.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AdminStatus {
    /// Connections closed to make room for others.
    pub closed: u64,
    /// Connections closed because no request arrived in time.
    pub late: u64,
    /// Connections refused for lack of room.
    pub refused: u64,
}
