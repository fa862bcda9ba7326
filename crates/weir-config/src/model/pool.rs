//! Pools and their endpoints as configured. No state of an endpoint is here.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use weir_balance::{AdminState, EjectionRule, Fault};
use weir_stats::GrpcStatus;

use super::retry::grpc_failure;
use super::{
    AgentCheck, Check, EndpointAddress, EndpointCheck, Policy, Queue, Retry, Sticky, TcpKeepalive,
    TlsClient,
};
use crate::defaults;
use crate::units::{duration, percent, size};

/// The fate of exchanges at an endpoint whose probes begin to fail, which failures eject or which
/// is put into maintenance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnDown {
    /// They go on.
    #[default]
    Keep,
    /// They end at once.
    Close,
}

/// The fate of exchanges at endpoints of later tiers when an endpoint comes up again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnUp {
    /// They go on.
    #[default]
    Keep,
    /// They end at once.
    CloseBackups,
}

impl OnUp {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    pub(crate) fn is_keep(&self) -> bool {
        *self == Self::Keep
    }
}

/// A named group of endpoints with one policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pool {
    /// The name; a pool that is made for `-> 127.0.0.1:3000` is named after the address.
    pub name: String,
    /// The balancing policy.
    #[serde(default)]
    pub policy: Policy,
    /// The endpoints, in file order.
    pub endpoints: Vec<Endpoint>,
    /// The idle connections kept to the endpoints.
    #[serde(default)]
    pub keepalive: Keepalive,
    /// The active health check; `None` for none.
    #[serde(default)]
    pub check: Option<Check>,
    /// The fate of exchanges at an endpoint that goes down.
    #[serde(default)]
    pub on_down: OnDown,
    /// The fate of exchanges at endpoints of later tiers when an endpoint comes up again.
    #[serde(default, skip_serializing_if = "OnUp::is_keep")]
    pub on_up: OnUp,
    /// The questions to the agents of the endpoints; `None` for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_check: Option<AgentCheck>,
    /// The ejection of endpoints for failures seen in traffic.
    #[serde(default)]
    pub passive: Passive,
    /// The detection of endpoints that take exchanges and do not answer.
    #[serde(default)]
    pub stall: StallDetection,
    /// The queue for exchanges while all endpoints are full; `None` if such exchanges are refused
    /// at once.
    #[serde(default = "Pool::usual_queue")]
    pub queue: Option<Queue>,
    /// The retries after a failed attempt.
    #[serde(default)]
    pub retry: Retry,
    /// The timeouts of the upstream side.
    #[serde(default)]
    pub timeouts: UpstreamTimeouts,
    /// TCP keep-alive of upstream connections.
    #[serde(default)]
    pub tcp_keepalive: TcpKeepalive,
    /// TLS to the endpoints; `None` for plain connections.
    #[serde(default)]
    pub tls: Option<TlsClient>,
    /// TLS of health checks alone, for endpoints that are reached over plain connections.
    #[serde(default)]
    pub check_tls: Option<TlsClient>,
    /// The address of this machine that connections to the endpoints come from; `None` for that of
    /// the kernel's choice. With port 0 the kernel chooses the port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<SocketAddr>,
    /// The version of the PROXY protocol whose header begins each connection; `None` for no header.
    #[serde(default)]
    pub send_proxy: Option<SendProxy>,
    /// The values that a header of version 2 tells beside the addresses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub proxy_tlvs: Vec<ProxyTlv>,
    /// The version of HTTP that endpoints without an own one are asked in.
    #[serde(default, skip_serializing_if = "UpstreamHttp::is_usual")]
    pub http: UpstreamHttp,
    /// The cookie that keeps a client at its endpoint; `None` for none.
    #[serde(default)]
    pub sticky: Option<Sticky>,
    /// The largest request body, in bytes, that is read whole before an endpoint is picked; larger
    /// ones get 413. `None` if bodies are not read first.
    #[serde(default, with = "size::option")]
    pub buffer_request: Option<u64>,
    /// The status of the response if no connection to an endpoint came about; `None` for that of
    /// the cause.
    #[serde(default)]
    pub connect_status: Option<u16>,
    /// The bounds on the pool as a whole.
    #[serde(default)]
    pub limits: PoolLimits,
    /// A deliberate fault for tests with real programs. No configuration can set it.
    #[doc(hidden)]
    #[serde(skip)]
    pub fault: Fault,
}

/// The version of HTTP that an endpoint is asked in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum UpstreamHttp {
    /// HTTP/1.1.
    #[default]
    #[serde(rename = "1")]
    Http1,
    /// HTTP/2: the endpoint has to choose it in the TLS handshake; without TLS it is spoken at once
    /// (prior knowledge).
    #[serde(rename = "2")]
    Http2,
    /// The version that the endpoint chooses in the TLS handshake; without TLS HTTP/1.1.
    #[serde(rename = "auto")]
    Auto,
}

impl UpstreamHttp {
    /// All versions, by their words.
    pub const WORDS: [(&str, Self); 3] =
        [("1", Self::Http1), ("2", Self::Http2), ("auto", Self::Auto)];

    /// Returns the word of the version.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http1 => "1",
            Self::Http2 => "2",
            Self::Auto => "auto",
        }
    }

    /// Returns true for the version that applies if none is set.
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it")]
    pub(crate) fn is_usual(&self) -> bool {
        *self == Self::default()
    }
}

impl FromStr for UpstreamHttp {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::WORDS.iter().find(|(word, _)| *word == text);
        found
            .map(|(_, version)| *version)
            .ok_or_else(|| format!("`{text}` is no version of HTTP: `1`, `2` or `auto`"))
    }
}

/// A version of the PROXY protocol, for sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SendProxy {
    /// The line of text.
    V1,
    /// The binary form.
    V2,
}

/// A value (TLV) of the PROXY protocol, version 2, for sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProxyTlv {
    /// The protocol that the client's TLS negotiated (ALPN).
    Alpn,
    /// The name that the client's TLS asked for.
    Authority,
    /// The version and the suite of the client's TLS.
    Tls,
    /// The id of the request.
    UniqueId,
    /// A checksum of the header.
    Crc32c,
}

impl ProxyTlv {
    /// All values, by their words.
    pub const WORDS: [(&str, Self); 5] = [
        ("alpn", Self::Alpn),
        ("authority", Self::Authority),
        ("tls", Self::Tls),
        ("unique_id", Self::UniqueId),
        ("crc32c", Self::Crc32c),
    ];
}

impl FromStr for ProxyTlv {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::WORDS.iter().find(|(word, _)| *word == text);
        found.map(|(_, tlv)| *tlv).ok_or_else(|| {
            format!(
                "`{text}` is no value of a PROXY header: alpn, authority, tls, unique_id, crc32c"
            )
        })
    }
}

impl Pool {
    /// Returns the queue of a pool whose configuration has no `queue`.
    #[expect(clippy::unnecessary_wraps, reason = "the type of the field, for serde")]
    pub(super) fn usual_queue() -> Option<Queue> {
        Some(Queue::default())
    }

    /// Returns the rule by which failures eject one of the pool's endpoints.
    pub fn ejection(&self, endpoint: &Endpoint) -> EjectionRule {
        let EndpointPassive { errors, window, eject } = endpoint.passive;
        EjectionRule {
            errors: errors.unwrap_or(self.passive.errors),
            window_us: window.unwrap_or(self.passive.window).as_micros() as u64,
            eject_us: eject.unwrap_or(self.passive.eject).as_micros() as u64,
        }
    }

    /// Returns the address that connections to one of the pool's endpoints come from. An endpoint
    /// at a Unix socket has none, and neither has one whose address and port the kernel chooses.
    pub fn source_of(&self, endpoint: &Endpoint) -> Option<SocketAddr> {
        let source = endpoint.source.or(self.source)?;
        let chooses = source.ip().is_unspecified() && source.port() == 0;
        (!chooses && !matches!(endpoint.address, EndpointAddress::Unix(_))).then_some(source)
    }

    /// Returns the version of HTTP that one of the pool's endpoints is asked in.
    pub fn http_of(&self, endpoint: &Endpoint) -> UpstreamHttp {
        endpoint.http.unwrap_or(self.http)
    }

    /// Returns the reason why the pool's endpoints cannot be asked in this version.
    pub(crate) fn http_objection(&self, version: UpstreamHttp) -> Option<&'static str> {
        if version == UpstreamHttp::Http1 {
            None
        } else if self.send_proxy.is_some() {
            Some(
                "requests of several clients share an HTTP/2 connection, and the header of \
                 `send_proxy` names one: use HTTP/1.1, or `X-Forwarded-For`",
            )
        } else if self.keepalive.reuse == ReuseLevel::Never {
            Some(
                "requests of several clients share an HTTP/2 connection, which \
                 `keepalive reuse=never` forbids",
            )
        } else {
            None
        }
    }

    /// Returns the tier of one of the pool's endpoints, 0 first: its priority; for a backup, one
    /// more than the highest tier of the others.
    pub fn tier(&self, endpoint: &Endpoint) -> u8 {
        if !endpoint.backup {
            return endpoint.priority;
        }
        let others = self.endpoints.iter().filter(|other| !other.backup);
        others.map(|other| other.priority).max().map_or(0, |last| last.saturating_add(1))
    }
}

/// Bounds on a pool as a whole: a circuit breaker by concurrency. A request beyond a bound is
/// refused at once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PoolLimits {
    /// The requests at the endpoints and in the queue.
    pub max_in_flight: Option<u32>,
    /// The retries among them.
    pub max_retries: Option<u32>,
}

/// One server address in a pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Endpoint {
    /// The name, unique in the pool; by default the address as written.
    pub name: String,
    /// The address.
    pub address: EndpointAddress,
    /// The host name for TLS and probes, where the address has none.
    #[serde(default)]
    pub host: Option<String>,
    /// The domain of the service whose SRV record named this endpoint, for TLS. No configuration
    /// can set it.
    #[serde(skip)]
    pub domain: Option<String>,
    /// The weight, 1..=65535.
    #[serde(default = "defaults::weight")]
    pub weight: u32,
    /// The largest number of exchanges in flight over all workers.
    #[serde(default)]
    pub max_conn: Option<u32>,
    /// The time in which the endpoint's share, and with a queue its `max_conn`, grow to the whole
    /// after it was unavailable.
    #[serde(default, with = "duration::option", skip_serializing_if = "Option::is_none")]
    pub slow_start: Option<Duration>,
    /// The tier, 0 first: a tier is used only when no endpoint of an earlier one is available.
    #[serde(default)]
    pub priority: u8,
    /// Set if the endpoint is in the last tier, below every `priority`.
    #[serde(default)]
    pub backup: bool,
    /// The operator's order.
    #[serde(default)]
    pub order: AdminState,
    /// The endpoint's probing.
    #[serde(default)]
    pub check: EndpointCheck,
    /// The endpoint's agent, if the pool asks agents.
    #[serde(default, skip_serializing_if = "EndpointCheck::is_own")]
    pub agent: EndpointCheck,
    /// The endpoint's own rule for ejections.
    #[serde(default)]
    pub passive: EndpointPassive,
    /// The value of the sticky cookie; `None` for an opaque one, or, if other endpoints of the pool
    /// have one, for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cookie: Option<String>,
    /// The address that its connections come from, instead of the pool's `source`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<SocketAddr>,
    /// The version of HTTP, instead of the pool's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<UpstreamHttp>,
}

/// The settings of an endpoint in place of its pool's `passive`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EndpointPassive {
    /// The number of failures within `window` that eject the endpoint; 0 for never.
    pub errors: Option<u32>,
    /// The window in which failures are counted.
    #[serde(with = "duration::option")]
    pub window: Option<Duration>,
    /// The time for which the endpoint stays ejected.
    #[serde(with = "duration::option")]
    pub eject: Option<Duration>,
}

/// The idle keep-alive connections to endpoints and their limits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Keepalive {
    /// The largest number of idle connections per endpoint over all workers; with 0 each connection
    /// is closed after its exchange.
    pub idle: u32,
    /// The time after which an idle connection is closed.
    #[serde(with = "duration")]
    pub timeout: Duration,
    /// The number of exchanges after which a connection is closed.
    pub max_requests: u64,
    /// The age from which a connection is closed instead of kept.
    #[serde(with = "duration")]
    pub max_age: Duration,
    /// The requests that may take idle connections.
    pub reuse: ReuseLevel,
}

/// The requests that may take idle connections to endpoints (HAProxy's `http-reuse`). An endpoint
/// may close a connection while a request is on its way; a client sends its request again by itself
/// if it is not the first one of its connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReuseLevel {
    /// Those of the client connection that the connection was opened for.
    Never,
    /// All but the first one of a client connection.
    Safe,
    /// As `Safe`, and the first ones on connections that were reused before.
    Aggressive,
    /// All.
    #[default]
    Always,
}

impl ReuseLevel {
    /// Returns the keyword of the level.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::Safe => "safe",
            Self::Aggressive => "aggressive",
            Self::Always => "always",
        }
    }

    /// Returns the level of a keyword.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let all = [Self::Never, Self::Safe, Self::Aggressive, Self::Always];
        let level = all.into_iter().find(|level| level.as_str() == text);
        level.ok_or_else(|| {
            format!("`{text}` is not a level: `never`, `safe`, `aggressive` or `always`")
        })
    }
}

/// The ejection of endpoints after failures seen in traffic.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Passive {
    /// The number of failures within `window` that eject an endpoint; 0 for never.
    pub errors: u32,
    /// The events that count as failures.
    pub on: Vec<PassiveCause>,
    /// The window in which failures are counted.
    #[serde(with = "duration")]
    pub window: Duration,
    /// The time for which an endpoint stays ejected.
    #[serde(with = "duration")]
    pub eject: Duration,
    /// The percentage of the pool's endpoints that may be ejected at once.
    #[serde(rename = "max_ejected", with = "percent")]
    pub max_ejected_percent: u8,
}

/// A failure seen in traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassiveCause {
    /// The connection or its TLS handshake failed.
    Connect,
    /// The connection ended before the head of a response.
    Reset,
    /// No head of a response arrived in time.
    Timeout,
    /// The response was not HTTP.
    Invalid,
    /// A response whose status is 502, 503 or 504.
    GatewayStatus,
    /// A response of this status, 400..=599.
    Status(u16),
    /// A response of gRPC with this status, not OK.
    Grpc(GrpcStatus),
}

impl PassiveCause {
    /// The causes that have a word.
    const WORDS: [(&str, Self); 5] = [
        ("connect", Self::Connect),
        ("reset", Self::Reset),
        ("timeout", Self::Timeout),
        ("invalid", Self::Invalid),
        ("status", Self::GatewayStatus),
    ];
}

impl fmt::Display for PassiveCause {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => return write!(formatter, "{status}"),
            Self::Grpc(status) => return write!(formatter, "grpc-{}", status.as_str()),
            _ => {}
        }
        let word = Self::WORDS.iter().find(|(_, on)| on == self).map_or("", |(word, _)| word);
        formatter.write_str(word)
    }
}

impl FromStr for PassiveCause {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some((_, cause)) = Self::WORDS.iter().find(|(word, _)| *word == text) {
            return Ok(*cause);
        }
        if let Some(status) = grpc_failure(text) {
            return Ok(Self::Grpc(status?));
        }
        match text.parse() {
            Ok(status @ 400..=599) => Ok(Self::Status(status)),
            Ok(_) => Err(format!("`{text}` is not an error status: 400 to 599")),
            Err(_) => {
                let words: Vec<&str> = Self::WORDS.iter().map(|(word, _)| *word).collect();
                Err(format!(
                    "`{text}` is not a failure: write `{}`, a status or a \
                     status of gRPC such as `grpc-unavailable`, separated by commas",
                    words.join("`, `")
                ))
            }
        }
    }
}

impl Serialize for PassiveCause {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for PassiveCause {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// The detection of endpoints that take exchanges and do not answer while others do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StallDetection {
    /// The silence that marks an endpoint as stalled, as a multiple of the 99th percentile of its
    /// response times; 0 for never.
    pub factor: u32,
    /// The shortest silence that marks an endpoint as stalled.
    #[serde(with = "duration")]
    pub floor: Duration,
}

/// The timeouts of the upstream side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct UpstreamTimeouts {
    /// For the connect, TLS handshake included.
    #[serde(with = "duration")]
    pub connect: Duration,
    /// Without progress while a request is sent.
    #[serde(with = "duration")]
    pub send: Duration,
    /// From the end of the request to the response head.
    #[serde(with = "duration")]
    pub response: Duration,
    /// Between two reads of a response body.
    #[serde(with = "duration")]
    pub read: Duration,
    /// Without a byte in either direction of a tunnel.
    #[serde(with = "duration")]
    pub tunnel: Duration,
    /// In place of `tunnel`, without a byte of the endpoint after the client has ended its side;
    /// `None` for `tunnel`.
    #[serde(with = "duration::option")]
    pub half_closed: Option<Duration>,
    /// The same as the listener's `request`; the shorter one holds.
    #[serde(with = "duration::option")]
    pub request: Option<Duration>,
    /// For one attempt, from the slot to the head of the response, without the time of waiting for
    /// the client's body.
    #[serde(rename = "try", with = "duration::option")]
    pub attempt: Option<Duration>,
    /// The lowest rate, in bytes per second, at which an endpoint sends a response body; `None` for
    /// no bound.
    #[serde(with = "size::option")]
    pub min_rate: Option<u64>,
    /// The period of waiting for the endpoint over which that rate is measured.
    #[serde(with = "duration")]
    pub after: Duration,
}
