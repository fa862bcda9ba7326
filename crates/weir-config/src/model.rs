//! The checked model: what a configuration means, with every name resolved, every unit parsed and
//! every default filled in. Serialised, it is the canonical JSON form. It knows no syntax and no spans.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use weir_balance::Fault;
use weir_stats::Template;

use crate::defaults;
use crate::pattern::{HostPattern, PathPattern, TextPattern};
use crate::units::{duration, percent, size};
use crate::words;

pub mod admin;
pub mod credits;
pub mod overrides;
pub mod policy;

pub use admin::{AdminAccess, AdminListener};
pub use credits::{CpuCredits, Shed};
pub use overrides::{
    Change, EndpointOverride, Limit, ListenerOverride, Overrides, PoolOverrides, Refusal,
    RefusalKind,
};
pub use policy::{Fair, KeyHash, Policy};
pub mod sticky;

pub use sticky::{SameSite, Secret, Secure, Sticky};
pub mod check;
pub mod log;
pub mod names;
pub mod queue;
pub mod resolver;
pub mod retry;

pub use check::{Check, EndpointCheck, HeaderExpectation, HttpProbe, Probe, Statuses, TcpProbe};
pub use log::{
    AccessLog, ErrorLog, LogFormat, LogTarget, Severity, Syslog, SyslogFormat, SyslogReceiver,
};
pub use queue::Queue;
pub use resolver::Resolver;
pub use retry::{Budget, MOST_RETRIES, Retry, RetryOn};

/// One checked configuration and its number, immutable once published.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Snapshot {
    /// Counts published configurations of this process, from 1.
    pub generation: u64,
    /// What it says.
    pub config: Config,
}

/// A whole configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Worker threads.
    pub workers: Workers,
    /// Client connections open at once over all listeners; `None`: as many as the file limit allows.
    pub max_connections: Option<usize>,
    /// How long a graceful stop waits for running exchanges.
    #[serde(with = "duration")]
    pub shutdown_timeout: Duration,
    /// Where the process is looked at and changed while it runs.
    pub admin: Vec<AdminListener>,
    /// File that keeps what was changed at run time over restarts.
    pub state_file: Option<PathBuf>,
    /// File that holds the process's number while it runs.
    pub pid_file: Option<PathBuf>,
    /// Where balancers in front are told how much this instance wants.
    pub agent: Vec<ListenAddress>,
    /// The machine's processor credits; `None`: it has none, or nobody looks.
    pub cpu_credits: Option<CpuCredits>,
    /// The user that Weir is while it serves, by name or number; `None`: who started it.
    pub user: Option<String>,
    /// The group, by name or number; `None`: the user's own.
    pub group: Option<String>,
    /// The directory that is all Weir sees of the file system while it serves.
    pub chroot: Option<PathBuf>,
    /// How names of servers are looked up.
    pub resolver: Resolver,
    /// Where Weir says what happens to it; none: standard error.
    pub error_logs: Vec<ErrorLog>,
    /// Access-log destinations, by name.
    pub logs: Vec<AccessLog>,
    /// Named groups of endpoints, in file order; routes name them by index.
    pub pools: Vec<Pool>,
    /// Addresses accepted on, with what is served there.
    pub listeners: Vec<Listener>,
}

/// How many worker threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Workers {
    /// One per core of the allowed set, each pinned to its core.
    Auto,
    /// This many, pinned round the allowed set.
    Count(usize),
}

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
    /// TLS to the endpoints; `None` is plain.
    #[serde(default)]
    pub tls: Option<TlsClient>,
    /// The cookie that keeps a client at its endpoint; `None`: nothing does.
    #[serde(default)]
    pub sticky: Option<Sticky>,
    /// Read a request's whole body before an endpoint is picked, up to this many bytes; larger ones get 413.
    #[serde(default, with = "size::option")]
    pub buffer_request: Option<u64>,
    /// A mistake to be made on purpose, for tests with real programs. No configuration can say it.
    #[doc(hidden)]
    #[serde(skip)]
    pub fault: Fault,
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
}

/// TLS to endpoints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TlsClient {
    /// Verify the endpoint's certificate. On unless the file says `verify=off`.
    pub verify: bool,
    /// Name sent as SNI and verified; `None` uses the endpoint's own name or address.
    pub server_name: Option<String>,
    /// PEM bundle of trusted roots; `None` uses the system's.
    pub ca: Option<PathBuf>,
    /// Client certificate to present.
    pub certificate: Option<Certificate>,
    /// Protocols, suites and curves.
    pub protocol: TlsProtocol,
}

/// TLS at a listener.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsServer {
    /// Certificates, chosen by server name and by what the client can verify; the first is the default.
    pub certificates: Vec<Certificate>,
    /// Protocols, suites and curves.
    #[serde(default)]
    pub protocol: TlsProtocol,
}

/// A certificate chain and its key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Certificate {
    /// PEM file with the chain, leaf first; may hold the key too.
    pub chain: PathBuf,
    /// PEM file with the key; `None` when it is in `chain`.
    #[serde(default)]
    pub key: Option<PathBuf>,
}

/// Versions, suites and groups allowed. Empty lists mean the library's safe default order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TlsProtocol {
    /// Lowest version.
    pub min: TlsVersion,
    /// Highest version.
    pub max: TlsVersion,
    /// Suites by OpenSSL or IANA name, in order of preference.
    pub ciphers: Vec<String>,
    /// Key-exchange groups by name (`X25519MLKEM768`, `X25519`, `P-256`/`secp256r1`/`prime256v1`, …), in order.
    pub curves: Vec<String>,
}

/// A TLS version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum TlsVersion {
    /// TLS 1.2.
    #[serde(rename = "1.2")]
    Tls12,
    /// TLS 1.3.
    #[serde(rename = "1.3")]
    Tls13,
}

/// One or several addresses that serve the same sites.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Listener {
    /// Its name in logs (`fe` in HAProxy's format); default: the first address as written.
    pub name: String,
    /// What it accepts on.
    pub addresses: Vec<ListenAddress>,
    /// TLS, or plain.
    #[serde(default)]
    pub tls: Option<TlsServer>,
    /// Client connections open at once here; the surplus waits in the kernel's backlog.
    #[serde(default)]
    pub max_connections: Option<usize>,
    /// Waits on the client side.
    #[serde(default)]
    pub timeouts: ClientTimeouts,
    /// Bounds on what a client may send.
    #[serde(default)]
    pub limits: MessageLimits,
    /// Names of the access logs written to.
    #[serde(default)]
    pub logs: Vec<String>,
    /// Client address and forwarding headers.
    #[serde(default)]
    pub forwarded: Forwarded,
    /// Request id header.
    #[serde(default)]
    pub request_id: RequestId,
    /// In which header answers of Weir's own tell their cause; `None` tells nobody.
    #[serde(default)]
    pub cause_header: Option<CauseHeader>,
    /// Allow and deny, first match wins, checked before routing.
    #[serde(default)]
    pub access: Vec<AccessRule>,
    /// Headers changed on every request sent upstream, before the route's own.
    #[serde(default)]
    pub request_headers: Vec<HeaderEdit>,
    /// Headers changed on every response, before the route's own.
    #[serde(default)]
    pub response_headers: Vec<HeaderEdit>,
    /// Own pages for statuses that Weir answers itself.
    #[serde(default)]
    pub error_pages: Vec<ErrorPage>,
    /// Host blocks, tried in order; the first whose host matches serves the request.
    #[serde(default)]
    pub sites: Vec<Site>,
    /// Routes outside host blocks: for requests that no host block takes.
    #[serde(default)]
    pub default: Vec<Route>,
}

/// An address to listen on.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ListenAddress {
    /// TCP. `:80` is the IPv6 wildcard that takes IPv4 too; `0.0.0.0:80` is IPv4 only.
    Socket(SocketAddr),
    /// A Unix stream socket, with its file mode.
    Unix {
        /// The path.
        path: PathBuf,
        /// Permission bits, for example 0o660.
        mode: Option<u32>,
    },
}

impl ListenAddress {
    /// Whether a socket on one serves the other: permissions are no part of it.
    pub fn is_at(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Socket(one), Self::Socket(other)) => one == other,
            (Self::Unix { path: one, .. }, Self::Unix { path: other, .. }) => one == other,
            _ => false,
        }
    }
}

/// Waits on the client side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClientTimeouts {
    /// TLS handshake.
    #[serde(with = "duration")]
    pub handshake: Duration,
    /// First byte of a head to its end.
    #[serde(with = "duration")]
    pub head: Duration,
    /// Between two reads of a request body.
    #[serde(with = "duration")]
    pub body: Duration,
    /// Idle between requests.
    #[serde(with = "duration")]
    pub keepalive: Duration,
    /// Without progress while a response is written.
    #[serde(with = "duration")]
    pub send: Duration,
}

/// Bounds on what a client may send.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MessageLimits {
    /// Request line and header lines together, bytes; more gets 431.
    #[serde(rename = "head", with = "size")]
    pub head_bytes: usize,
    /// Header lines; more gets 431.
    pub headers: usize,
    /// Body bytes; more gets 413. `None` is without limit.
    #[serde(rename = "body", with = "size::option")]
    pub body_bytes: Option<u64>,
    /// Requests on one connection.
    pub requests: u64,
}

/// Client address and the headers that tell it on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Forwarded {
    /// Peers whose `X-Forwarded-For` is believed; the client is the last address in it that is not trusted.
    pub trusted: Vec<IpNet>,
    /// Send `X-Forwarded-For`, `-Proto` and `-Host`.
    pub x_forwarded: bool,
    /// Send `Forwarded` (RFC 7239).
    pub forwarded: bool,
}

/// The request id: taken over from a trusted peer, else made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RequestId {
    /// Header it is sent upstream in; `None` sends none.
    pub header: Option<String>,
    /// Also put it on the response.
    pub respond: bool,
}

/// A response header that says why Weir itself answers with an error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CauseHeader {
    /// Its name.
    pub header: String,
    /// Only peers in `forwarded.trusted` get it.
    pub trusted: bool,
}

/// An allow or deny rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccessRule {
    /// What happens on a match; a denied client gets 403.
    pub verdict: Verdict,
    /// Networks; empty is everybody.
    #[serde(default)]
    pub clients: Vec<IpNet>,
}

/// Let in or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Go on.
    Allow,
    /// 403.
    Deny,
}

/// An own page for a status that Weir answers itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ErrorPage {
    /// Which statuses.
    pub statuses: Vec<u16>,
    /// File with the body, read when the configuration is loaded.
    pub page: PathBuf,
}

/// A host block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Site {
    /// Hosts it serves.
    pub hosts: Vec<HostPattern>,
    /// Tried top to bottom; the first match wins; none is 404.
    pub routes: Vec<Route>,
}

/// A match and what it leads to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// Its name in logs; default `listener/site/number` as in `:80/shop.example.com/2`.
    pub name: String,
    /// When it matches.
    #[serde(default = "defaults::always")]
    pub when: Rule,
    /// Where it leads.
    pub action: Action,
    /// Allow and deny of this route, first match wins.
    #[serde(default)]
    pub access: Vec<AccessRule>,
    /// Headers changed on the way up.
    #[serde(default)]
    pub request_headers: Vec<HeaderEdit>,
    /// Headers changed on the way down.
    #[serde(default)]
    pub response_headers: Vec<HeaderEdit>,
}

/// A boolean expression over the request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// All hold; empty is always true.
    All(Vec<Rule>),
    /// One holds.
    Any(Vec<Rule>),
    /// It does not hold.
    Not(Box<Rule>),
    /// The path matches one of these.
    Path(Vec<PathPattern>),
    /// The method is one of these.
    Method(Vec<String>),
    /// A header is there, with this value if one is given.
    Header(String, Option<TextPattern>),
    /// A cookie is there, with this value if one is given.
    Cookie(String, Option<TextPattern>),
    /// A query parameter is there, with this value if one is given.
    Query(String, Option<TextPattern>),
    /// The client's address is in one of these networks.
    Client(Vec<IpNet>),
}

/// Where a route leads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// To a pool, by index in `Config::pools`.
    Pool(usize),
    /// A fixed response.
    Respond(Respond),
    /// A redirect.
    Redirect(Redirect),
    /// Static files.
    Files(Files),
}

/// A fixed response.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Respond {
    /// Its status, 200..=599.
    pub status: u16,
    /// Its body; `None` writes the status's own small page (or the error page configured for it).
    #[serde(default, with = "words::template::option")]
    pub body: Option<Template>,
    /// Its `Content-Type`.
    #[serde(default = "defaults::respond_type")]
    pub content_type: String,
}

/// A redirect.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Redirect {
    /// 301, 302, 303, 307 or 308.
    pub status: u16,
    /// The `Location`; `https` in the file means `https://$host$request_uri`. `$1`…`$9` are groups of the path regex.
    #[serde(with = "words::template")]
    pub to: Template,
}

/// Static files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Files {
    /// The directory; no request leaves it.
    pub root: PathBuf,
    /// Path prefix cut off before looking below `root`.
    #[serde(default)]
    pub strip: Option<String>,
    /// Tried in order for a directory.
    #[serde(default = "defaults::index")]
    pub index: Vec<String>,
}

/// A change to one header.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HeaderEdit {
    /// Replace every line of that name by one.
    Set(String, #[serde(with = "words::template")] Template),
    /// Append a line.
    Add(String, #[serde(with = "words::template")] Template),
    /// Remove every line of that name.
    Remove(String),
}

/// The client networks a rule names, for callers that hold addresses.
pub fn contains(networks: &[IpNet], address: IpAddr) -> bool {
    networks.iter().any(|network| network.contains(&address))
}

/// Why a header of this name cannot be edited, if it cannot: framing and connections are Weir's own to write.
pub fn forbidden_edit(name: &str) -> Option<&'static str> {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_token) {
        return Some("is not a header name");
    }
    match name.to_ascii_lowercase().as_str() {
        "content-length" | "transfer-encoding" | "trailer" | "te" => {
            Some("tells where a message ends: only Weir itself writes it")
        }
        "connection" | "keep-alive" | "proxy-connection" | "upgrade" => {
            Some("belongs to one connection: only Weir itself writes it")
        }
        "expect" => Some("is answered by Weir itself"),
        _ => None,
    }
}
