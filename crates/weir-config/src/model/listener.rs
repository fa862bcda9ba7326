//! Listeners: where connections are accepted, what clients may send there, and what they are told of.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use super::{Bandwidth, ClientLimit, HeaderEdit, RateLimit, Route, Site, TcpKeepalive, TlsServer};
use crate::defaults;
use crate::units::{duration, size};

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
    /// How the kernel finds out that the other end of a TCP connection is gone.
    #[serde(default)]
    pub tcp_keepalive: TcpKeepalive,
    /// Bounds on what a client may send.
    #[serde(default)]
    pub limits: MessageLimits,
    /// Bounds on one client at this listener.
    #[serde(default)]
    pub client_limit: Option<ClientLimit>,
    /// Bounds on requests by key.
    #[serde(default)]
    pub rate_limits: Vec<RateLimit>,
    /// Bound on the speed of bodies, of routes that have none of their own.
    #[serde(default)]
    pub bandwidth: Option<Bandwidth>,
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
    /// In which header who asks for it is told how a request was handled; `None` tells nobody.
    #[serde(default)]
    pub explain_header: Option<ExplainHeader>,
    /// In which form the path of a request is matched and sent on.
    #[serde(default)]
    pub path: PathRules,
    /// Protocols that a connection may switch to (RFC 9110 section 7.8), unless a route says otherwise.
    #[serde(default = "defaults::upgrade")]
    pub upgrade: Vec<String>,
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
    /// First byte of a request to the last of its response; `None` is without end. A tunnel is not bounded by it.
    #[serde(with = "duration::option")]
    pub request: Option<Duration>,
    /// Age at which a connection ends with its next response; `None` is never.
    #[serde(with = "duration::option")]
    pub age: Option<Duration>,
    /// Bytes a second that a client at least sends of a body and takes of a response; `None` is any.
    #[serde(with = "size::option")]
    pub min_rate: Option<u64>,
    /// The same while the request holds a slot of an endpoint with `max_conn`, where that is more.
    #[serde(with = "size::option")]
    pub slot_min_rate: Option<u64>,
    /// Over how much time of waiting for the client both are measured.
    #[serde(with = "duration")]
    pub after: Duration,
}

/// Bounds on what a client may send.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MessageLimits {
    /// Request line and header lines together, bytes; more gets 431.
    #[serde(rename = "head", with = "size")]
    pub head_bytes: usize,
    /// Request line, bytes; more gets 414. A head has no longer one either.
    #[serde(rename = "request_line", with = "size")]
    pub request_line_bytes: usize,
    /// Header lines; more gets 431.
    pub headers: usize,
    /// Body bytes; more gets 413. `None` is without limit.
    #[serde(rename = "body", with = "size::option")]
    pub body_bytes: Option<u64>,
    /// Requests on one connection.
    pub requests: u64,
    /// Weirs that a request may have passed before; more is taken for a loop and gets 508. `None` counts nothing.
    pub hops: Option<u16>,
}

/// In which form the path of a request is matched and sent on (RFC 3986 section 6).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PathRules {
    /// Bring it into its normal form first; without that all else here does nothing.
    pub normalize: bool,
    /// Make one slash of several in a row.
    pub merge_slashes: bool,
    /// What becomes of `%2F`.
    pub encoded_slash: Treatment,
    /// What becomes of `\` and `%5C`.
    pub backslash: Treatment,
    /// What becomes of `;`, with which some programs end a segment.
    pub parameters: Treatment,
    /// What becomes of `%00`.
    pub nul: Treatment,
}

/// What becomes of something that programs read differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Treatment {
    /// The request gets 400.
    Refuse,
    /// It goes on as it is.
    Keep,
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

/// A response header that says how a request was handled, for who asks for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ExplainHeader {
    /// Its name.
    pub header: String,
    /// Only requests with this header get it.
    pub when: Option<ExplainWhen>,
    /// Only peers in `forwarded.trusted` get it.
    pub trusted: bool,
}

/// A request header that asks for an explanation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExplainWhen {
    /// Its name.
    pub header: String,
    /// Its value, a secret; `None` takes any.
    #[serde(default)]
    pub value: Option<String>,
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
