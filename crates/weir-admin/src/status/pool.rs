//! The values of a pool, its queue and its endpoints.

use serde::{Deserialize, Serialize};
use weir_balance::Counters;

use super::Traffic;

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
    /// The largest number of idle connections kept to each endpoint.
    #[serde(default)]
    pub keepalive_idle: u32,
    /// The number of requests in flight.
    pub in_flight: u64,
    /// The largest number of requests in flight, sampled once a second and at each endpoint.
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

/// The counters of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PoolCounters {
    /// Those of its balancer and queue.
    #[serde(flatten)]
    pub balancer: Counters,
    /// Retries that the budget refused.
    pub retries_refused: u64,
}

/// A pool's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueStatus {
    /// The number of waiting requests.
    pub now: u64,
    /// The largest number of requests allowed to wait.
    pub max: u64,
    /// The largest number of requests that have waited at once.
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
    pub state: OperationalState,
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
    /// The largest number of requests in flight at once, since the start or since counters were
    /// cleared.
    pub most_in_flight: u32,
    /// The largest number of requests allowed in flight.
    pub max_conn: Option<u32>,
    /// The limit for now: a slow start or the pool's policy may reduce it.
    pub max_conn_now: Option<u32>,
    /// The number of requests that wait for this endpoint only.
    pub queued: u32,
    /// The largest number of requests that waited for it at once.
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
    /// The number of requests that took over an idle connection of another worker; shown by the
    /// metrics only.
    #[serde(skip)]
    pub idle_taken_over: u64,
    /// The number of requests whose worker had no idle connection and found none to take over,
    /// while another worker had one; shown by the metrics only.
    #[serde(skip)]
    pub idle_elsewhere: u64,
    /// The HTTP/2 streams to it; shown by the metrics only.
    #[serde(skip)]
    pub streams: StreamFigures,
    /// The number of times that it was picked.
    pub picks: u64,
    /// The number of failures in traffic that count for the pool's `passive`.
    pub passive_failures: u64,
    /// The number of its ejections.
    pub ejections: u64,
    /// The number of ejections that were refused because too many other endpoints were ejected;
    /// shown by the metrics only.
    #[serde(skip)]
    pub ejections_refused: u64,
    /// The number of times that it was found stalled.
    pub stalls: u64,
    /// The number of its outages: times that it was down, ejected or stalled.
    pub outages: u64,
    /// The total duration of its outages, seconds.
    pub out_s: u64,
    /// The largest number of idle connections kept to it.
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

/// An endpoint's state: the reason that keeps it from taking requests. The operator's orders take
/// precedence over all other reasons.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OperationalState {
    /// The endpoint takes requests.
    #[default]
    Up,
    /// The operator is draining the endpoint; it takes only requests that are bound to it.
    Draining,
    /// The operator put the endpoint into maintenance; it takes no requests.
    Maintenance,
    /// The endpoint's probes fail.
    Down,
    /// The endpoint is ejected for failures seen in traffic.
    Ejected,
    /// The endpoint does not answer while others do.
    Stalled,
    /// The endpoint's name does not resolve.
    Unresolved,
}

impl OperationalState {
    /// Every state, in order of declaration.
    pub const ALL: [Self; 7] = [
        Self::Up,
        Self::Draining,
        Self::Maintenance,
        Self::Down,
        Self::Ejected,
        Self::Stalled,
        Self::Unresolved,
    ];

    /// The state as one word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Draining => "draining",
            Self::Maintenance => "maintenance",
            Self::Down => "down",
            Self::Ejected => "ejected",
            Self::Stalled => "stalled",
            Self::Unresolved => "unresolved",
        }
    }
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

/// The HTTP/2 streams to an endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamFigures {
    /// Those that are open.
    pub open: u64,
    /// Those that were opened.
    pub opened: u64,
    /// Those that were reset, or ended with their connection.
    pub reset: u64,
    /// The connections that were ended because of the frames that the endpoint sent.
    pub connections_ended: u64,
}
