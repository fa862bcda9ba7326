//! What the admin interface tells, as plain values: the JSON API, the dashboard, HAProxy's tables and `weir top` are views of
//! this and nothing else. It is gathered in `gather.rs`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_stats::exposition::{CreditsReport, IncidentReport, LimitsReport};

pub use weir_stats::exposition::{EndpointState as State, PoolCounters};

/// Everything at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// When, milliseconds since 1970.
    pub at_ms: u64,
    /// The process.
    pub info: Info,
    /// In the configuration's order.
    pub listeners: Vec<ListenerStatus>,
    /// In the configuration's order.
    pub pools: Vec<PoolStatus>,
    /// By number.
    pub workers: Vec<WorkerStatus>,
    /// The machine's processor credits, where books of them are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credits: Option<CreditsReport>,
    /// Limits on clients and keys, where there are any.
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
    /// When it started, milliseconds since 1970.
    pub started_ms: u64,
    /// Seconds since then.
    pub uptime_s: u64,
    /// The number of the configuration that is served, from 1.
    pub generation: u64,
    /// `running` or `stopping`.
    pub state: String,
    /// Worker threads.
    pub workers: usize,
    /// Client connections open now.
    pub connections: usize,
    /// Most that may be.
    pub max_connections: usize,
    /// Requests that run now.
    pub requests_running: usize,
    /// The configuration's file, where there is one.
    pub configuration: Option<String>,
    /// The file that keeps runtime changes over restarts, where there is one.
    pub state_file: Option<String>,
    /// Things that are not as the configuration's file says.
    pub overrides: usize,
    /// Most files open at once.
    pub open_files_limit: u64,
    /// The budget of memory.
    #[serde(default)]
    pub memory: MemoryStatus,
    /// Incidents of its workers and of the processes before it.
    #[serde(default)]
    pub incidents: IncidentReport,
}

/// The budget of memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryStatus {
    /// Bytes that the process has allocated.
    pub used: usize,
    /// Most that it may have; `null`: no bound.
    pub max: Option<usize>,
    /// What is done because it is near: `none`, `close_idle`, `pause_reads` or `refuse`.
    pub pressure: String,
    /// Connections that were closed for it when they came.
    pub connections_refused: u64,
    /// Requests whose bodies were not read on for a while.
    pub reads_paused: u64,
    /// Requests that were given up, because they held most.
    pub requests_given_up: u64,
}

/// A listener.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListenerStatus {
    /// Its name.
    pub name: String,
    /// What it accepts on, as configured.
    pub addresses: Vec<String>,
    /// Whether clients speak TLS.
    pub tls: bool,
    /// Client connections open now.
    pub connections: usize,
    /// Most that may be; `null`: only the process's limit counts.
    pub max_connections: Option<usize>,
    /// Most that were at once, since the start or since counters were cleared.
    pub most_connections: usize,
    /// Connections accepted.
    pub accepted: u64,
    /// How many in a second, now.
    pub accepted_per_second: f64,
    /// Most in a second.
    pub accepted_per_second_max: u64,
    /// Idle connections that were closed to make room for others.
    pub idle_closed: u64,
    /// TLS handshakes that made a session, resumed one, and failed.
    pub handshakes: [u64; 3],
    /// Its requests.
    pub traffic: Traffic,
}

/// Requests that ended, since the start or since counters were cleared.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Traffic {
    /// How many.
    pub requests: u64,
    /// How many in a second, now.
    pub per_second: f64,
    /// Most in a second.
    pub per_second_max: u64,
    /// Seconds since the last one ended; `null`: there was none.
    pub last_s: Option<u64>,
    /// By class of their status: `1xx` to `5xx`.
    pub statuses: BTreeMap<String, u64>,
    /// By status, those that there were; `none` where none was sent.
    pub codes: BTreeMap<String, u64>,
    /// By why they ended, those that there were.
    pub causes: BTreeMap<String, u64>,
    /// Request bytes, heads and bodies.
    pub bytes_received: u64,
    /// Response bytes, heads and bodies.
    pub bytes_sent: u64,
    /// Attempts of all of them.
    pub attempts: u64,
    /// Those with more than one.
    pub retried: u64,
    /// Those whose last attempt went over a connection that was there.
    pub reused: u64,
    /// Those that had to wait in the queue.
    pub queued: u64,
    /// Those that Weir answered as it was told to, without a pool: responses, redirects, files.
    pub answered_here: u64,
    /// How long they took, by phase.
    pub times: Vec<PhaseTimes>,
    /// The last moments that `recent` is of, seconds.
    pub recent_s: u64,
    /// How long those of the last moments took.
    pub recent: Vec<PhaseTimes>,
}

/// How long a phase took.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseTimes {
    /// `request`, `queue`, `connect`, `response`, `data`, `total`, or `own`: Weir's own part.
    pub phase: String,
    /// Samples.
    pub count: u64,
    /// Their mean, microseconds; the others are quantiles.
    pub mean_us: u64,
    /// Half took no longer.
    pub p50_us: u64,
    /// 90 %.
    pub p90_us: u64,
    /// 99 %.
    pub p99_us: u64,
    /// 99.9 %.
    pub p999_us: u64,
    /// 99.99 %.
    pub p9999_us: u64,
    /// 99.9999 %.
    pub p999999_us: u64,
    /// All.
    pub max_us: u64,
}

/// A route.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RouteStatus {
    /// The listener's name.
    pub listener: String,
    /// Its name; empty for what no route took.
    pub route: String,
    /// The pool it leads to; empty without one.
    pub pool: String,
    /// Its requests.
    pub traffic: Traffic,
}

/// A worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerStatus {
    /// Its number, from 0.
    pub number: usize,
    /// Client connections it holds.
    pub connections: usize,
    /// Of them, those with a request that runs.
    pub requests_running: usize,
    /// Bytes that these requests hold in buffers.
    #[serde(default)]
    pub held: usize,
    /// Requests that ended.
    pub requests: u64,
    /// Time that it worked at requests, microseconds.
    pub own_us: u64,
    /// How late it is for its timer.
    pub lag: PhaseTimes,
}

/// A pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PoolStatus {
    /// Its name.
    pub name: String,
    /// How it picks.
    pub policy: String,
    /// `up` while one endpoint can be had, else `down`.
    pub state: String,
    /// Whether probes are ignored because too few endpoints are healthy by them.
    pub panicking: bool,
    /// Endpoints that can be had.
    pub usable: usize,
    /// Requests in flight.
    pub in_flight: u64,
    /// Most that were, as seen once a second and at each endpoint alone.
    pub most_in_flight: u64,
    /// Those who wait; `null`: nobody may.
    pub queue: Option<QueueStatus>,
    /// What was counted.
    pub counters: PoolCounters,
    /// Attempts that were given up to ask the same endpoint again.
    pub repeated: u64,
    /// Attempts that were given up to ask another endpoint.
    pub redispatched: u64,
    /// Its requests.
    pub traffic: Traffic,
    /// In the configuration's order.
    pub endpoints: Vec<EndpointStatus>,
}

/// A pool's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueStatus {
    /// Waiting now.
    pub now: u64,
    /// Most that may.
    pub max: u64,
    /// Most that ever did at once.
    pub longest: u64,
    /// Longest wait, milliseconds.
    pub timeout_ms: u64,
}

/// An endpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EndpointStatus {
    /// The pool's name.
    pub pool: String,
    /// Its name.
    pub name: String,
    /// Its address, as written.
    pub address: String,
    /// Where its name leads, where it has one and that is known.
    pub resolved: Option<String>,
    /// In one word: `up`, `draining`, `maintenance`, `down`, `ejected`, `stalled`, `unresolved`.
    pub state: State,
    /// Since when, milliseconds since 1970.
    pub since_ms: u64,
    /// What the operator ordered: `ready`, `draining`, `maintenance`.
    pub order: String,
    /// What its probes say: `up`, `down`, or `unchecked` when there are none.
    pub health: String,
    /// Why it is in its state, in one clause; empty when nothing is known.
    pub reason: String,
    /// How the reply to the probe that changed its health began.
    pub excerpt: String,
    /// The latest probe, where there was one.
    pub probe: Option<ProbeStatus>,
    /// When its ejection ends, milliseconds since 1970.
    pub ejected_until_ms: Option<u64>,
    /// Requests in flight.
    pub in_flight: u32,
    /// Most that were at once, since the start or since counters were cleared.
    pub most_in_flight: u32,
    /// Most that may be.
    pub max_conn: Option<u32>,
    /// Requests that wait for it and no other.
    pub queued: u32,
    /// Most that did at once.
    pub most_queued: u32,
    /// Its share.
    pub weight: u32,
    /// Its tier, 0 first.
    pub tier: u8,
    /// Whether it is a backup.
    pub backup: bool,
    /// Idle connections kept to it.
    pub idle_connections: u32,
    /// Connections opened to it.
    pub connections_opened: u64,
    /// Requests that went over a connection that was there.
    pub connections_reused: u64,
    /// Times it was picked.
    pub picks: u64,
    /// Connects that failed.
    pub connect_failures: u64,
    /// Times it was ejected.
    pub ejections: u64,
    /// Times it was found stalled.
    pub stalls: u64,
    /// Times it was out: down, ejected or stalled.
    pub outages: u64,
    /// Seconds that it was, in all.
    pub out_s: u64,
    /// Most idle connections kept to it.
    pub max_idle: u32,
    /// Its requests: those whose last attempt was here.
    pub traffic: Traffic,
    /// Attempts here that were given up for another.
    pub failed_attempts: u64,
    /// Of them, those after which it was asked again.
    pub repeated: u64,
    /// Of them, those after which another endpoint was asked.
    pub redispatched: u64,
    /// What is not as the configuration's file says: `order`, `weight`, `max_conn`, `added`.
    pub overridden: Vec<String>,
}

/// A probe of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeStatus {
    /// `http`, `tcp` or `tls`.
    pub kind: String,
    /// When it ended, milliseconds since 1970.
    pub at_ms: u64,
    /// How long it took, microseconds.
    pub took_us: u64,
    /// Whether it passed.
    pub passed: bool,
    /// Why not, in one clause.
    pub reason: String,
    /// How the reply began, when it did not pass.
    pub excerpt: String,
    /// Probes until now.
    pub probes: u64,
    /// Those of them that failed.
    pub failures: u64,
    /// Successes in a row that make it up again.
    pub rise: u32,
    /// Failures in a row that make it down.
    pub fall: u32,
}

/// One who waits in a pool's queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitingStatus {
    /// How many are before him.
    pub position: u32,
    /// Since when, milliseconds since 1970.
    pub since_ms: u64,
    /// For how long, microseconds.
    pub waited_us: u64,
    /// How much longer he will wait at most, microseconds.
    pub left_us: u64,
    /// The id of his request, as it is in logs and in the request id header.
    pub request_id: String,
    /// His address; empty on a Unix socket without a trusted proxy.
    pub client: String,
    /// What he asks for: method.
    pub method: String,
    /// And target, the first 120 bytes or so of it; one that is longer ends with `…`.
    pub target: String,
    /// The pool he waits for.
    pub pool: String,
    /// The endpoint he waits for, where no other will do.
    pub endpoint: Option<String>,
}

impl WaitingStatus {
    /// What he waits for: any endpoint of the pool, or one.
    pub fn waits_for(&self) -> String {
        format!("{}/{}", self.pool, self.endpoint.as_deref().unwrap_or("any"))
    }
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Its number; later ones are higher.
    pub number: u64,
    /// When, milliseconds since 1970.
    pub at_ms: u64,
    /// `health`, `change`, `reload` or `process`.
    pub kind: String,
    /// The pool, where it is about one.
    pub pool: Option<String>,
    /// The endpoint, where it is about one.
    pub endpoint: Option<String>,
    /// Who did it, where somebody did.
    pub who: Option<String>,
    /// What, in one line.
    pub what: String,
    /// How the reply to the probe began, or the lines that differ.
    pub details: Vec<String>,
}
