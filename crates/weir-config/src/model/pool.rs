//! Pools and their servers: what is balanced, and what is known of each server before it was ever seen.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_balance::Fault;

use super::{Check, EndpointCheck, Policy, Queue, Retry, Sticky, TcpKeepalive, TlsClient};
use crate::defaults;
use crate::units::{duration, percent, size};

/// A named group of endpoints with one policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pool {
    /// Its name; one made for `-> 127.0.0.1:3000` is named after the address.
    pub name: String,
    /// How it picks.
    #[serde(default = "defaults::policy")]
    pub policy: Policy,
    /// Its servers, in file order.
    pub endpoints: Vec<Endpoint>,
    /// Idle connections kept to its endpoints.
    #[serde(default)]
    pub keepalive: Keepalive,
    /// How its endpoints are probed; `None`: not at all.
    #[serde(default)]
    pub check: Option<Check>,
    /// When an endpoint is ejected for failures seen in traffic.
    #[serde(default)]
    pub passive: Passive,
    /// When an endpoint that does not answer gets nothing more.
    #[serde(default)]
    pub stall: Stall,
    /// Waiting for a place when all endpoints are full; `None`: nobody waits, and full is an answer.
    #[serde(default = "defaults::queue")]
    pub queue: Option<Queue>,
    /// Further attempts after one that failed.
    #[serde(default)]
    pub retry: Retry,
    /// Waits on the upstream side.
    #[serde(default)]
    pub timeouts: UpstreamTimeouts,
    /// How the kernel finds out that the other end of a TCP connection is gone.
    #[serde(default)]
    pub tcp_keepalive: TcpKeepalive,
    /// TLS to the endpoints; `None` is plain.
    #[serde(default)]
    pub tls: Option<TlsClient>,
    /// The cookie that keeps a client at its endpoint; `None`: nothing does.
    #[serde(default)]
    pub sticky: Option<Sticky>,
    /// Read a request's whole body before an endpoint is picked, up to this many bytes; larger ones get 413.
    #[serde(default, with = "size::option")]
    pub buffer_request: Option<u64>,
    /// Bounds on the pool as a whole.
    #[serde(default)]
    pub limits: PoolLimits,
    /// A mistake to be made on purpose, for tests with real programs. No configuration can say it.
    #[doc(hidden)]
    #[serde(skip)]
    pub fault: Fault,
}

/// Bounds on a pool as a whole: a circuit breaker by concurrency. What is beyond is refused at once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PoolLimits {
    /// Requests at its servers and in its queue.
    pub max_in_flight: Option<u32>,
    /// Of them, those that are sent once more.
    pub max_retries: Option<u32>,
}

/// One server address in a pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Endpoint {
    /// Its name, unique in the pool (default: the address as written).
    pub name: String,
    /// Where it is.
    pub address: EndpointAddress,
    /// Its own name, for TLS and probes, where the address has none.
    #[serde(default)]
    pub host: Option<String>,
    /// The domain of the service of whose records it is one, for TLS; no configuration can say it.
    #[serde(skip)]
    pub domain: Option<String>,
    /// Its share, 1..=65535.
    #[serde(default = "defaults::weight")]
    pub weight: u32,
    /// Most exchanges in flight at once, over all workers.
    #[serde(default)]
    pub max_conn: Option<u32>,
    /// Its tier, 0 first: a lower one is used only when no endpoint of a higher one can be.
    #[serde(default)]
    pub priority: u8,
    /// Of the lowest tier, below every `priority`.
    #[serde(default)]
    pub backup: bool,
    /// What the operator lets it take.
    #[serde(default)]
    pub order: Order,
    /// Whether and where it is probed.
    #[serde(default)]
    pub check: EndpointCheck,
}

/// What an endpoint may take, whatever its health.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// What comes.
    #[default]
    Ready,
    /// Only what is bound to it by affinity.
    Draining,
    /// Nothing.
    Maintenance,
}

/// In the balancer's words.
impl From<Order> for weir_balance::Order {
    fn from(order: Order) -> Self {
        match order {
            Order::Ready => Self::Ready,
            Order::Draining => Self::Draining,
            Order::Maintenance => Self::Maintenance,
        }
    }
}

/// Where an endpoint is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndpointAddress {
    /// An IP address and port.
    Socket(SocketAddr),
    /// A name to be resolved, and a port: as many servers as it has addresses.
    Name(String, u16),
    /// The name of a service (RFC 2782): as many servers as it has records, which bring their ports.
    Service(String),
    /// A Unix stream socket.
    Unix(PathBuf),
}

/// Idle keep-alive connections to endpoints, with all four limits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Keepalive {
    /// Most idle connections per endpoint over all workers; 0 closes each after its exchange.
    pub idle: u32,
    /// An idle connection is closed after this.
    #[serde(with = "duration")]
    pub timeout: Duration,
    /// Exchanges over one connection before it is closed.
    pub max_requests: u64,
    /// Age at which a connection is closed instead of kept.
    #[serde(with = "duration")]
    pub max_age: Duration,
}

/// Passive removal after failures seen in traffic.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Passive {
    /// Failures within `window` that eject; 0 never ejects.
    pub errors: u32,
    /// What is a failure.
    pub on: Vec<PassiveCause>,
    /// The window they are counted in.
    #[serde(with = "duration")]
    pub window: Duration,
    /// How long it stays out.
    #[serde(with = "duration")]
    pub eject: Duration,
    /// Share of the pool's endpoints that may be out at once, percent.
    #[serde(rename = "max_ejected", with = "percent")]
    pub max_ejected_percent: u8,
}

/// A failure seen in traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PassiveCause {
    /// No connection, or no TLS on it.
    Connect,
    /// The connection ended before the head of a response.
    Reset,
    /// No head of a response in time.
    Timeout,
    /// A response that speaks of a broken server: 502, 503 or 504.
    Status,
}

/// Endpoints that take exchanges and do not answer while others do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Stall {
    /// How many times longer than 99 of 100 of its answers took an endpoint has to be silent; 0 is never.
    pub factor: u32,
    /// And at least this long.
    #[serde(with = "duration")]
    pub floor: Duration,
}

/// Waits on the upstream side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct UpstreamTimeouts {
    /// Until connected, TLS handshake included.
    #[serde(with = "duration")]
    pub connect: Duration,
    /// Without progress while a request is sent.
    #[serde(with = "duration")]
    pub send: Duration,
    /// From the request sent to the response head.
    #[serde(with = "duration")]
    pub response: Duration,
    /// Between two reads of a response body.
    #[serde(with = "duration")]
    pub read: Duration,
    /// Without a byte either way in a tunnel.
    #[serde(with = "duration")]
    pub tunnel: Duration,
    /// As the listener's `request`; the shorter one holds.
    #[serde(with = "duration::option")]
    pub request: Option<Duration>,
    /// One attempt, from the slot to the head of the response, without the time in which the client's body is waited for.
    #[serde(rename = "try", with = "duration::option")]
    pub attempt: Option<Duration>,
    /// Bytes a second that an endpoint at least sends of a response's body; `None` is any.
    #[serde(with = "size::option")]
    pub min_rate: Option<u64>,
    /// Over how much time of waiting for the endpoint that is measured.
    #[serde(with = "duration")]
    pub after: Duration,
}
