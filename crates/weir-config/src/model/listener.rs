//! Listeners as configured: addresses, client-side timeouts and limits, and headers to the client.
//! No socket is opened here.

use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use weir_stats::Template;

use super::{
    AccessRule, Bandwidth, ClientLimit, ErrorTarget, HeaderEdit, InFlightLimit, ListenAddress,
    RateLimit, Route, Site, TcpKeepalive, TlsServer,
};
use crate::defaults;
use crate::units::{duration, size};
use crate::words;

/// One or several addresses that serve the same hosts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Listener {
    /// The name in logs (`fe` in HAProxy's format); by default the first address as written.
    pub name: String,
    /// The name in lines of logs and in `$listener`, if it is another one.
    #[serde(default)]
    pub log_name: Option<String>,
    /// The addresses.
    pub addresses: Vec<ListenAddress>,
    /// Set if each worker has a listening socket of its own for each address (`SO_REUSEPORT`).
    #[serde(default)]
    pub reuseport: bool,
    /// The protocol of its connections.
    #[serde(default)]
    pub protocol: Protocol,
    /// The peers whose connections begin with a header of the PROXY protocol, which tells the
    /// client's address; connections of all other peers have none.
    #[serde(default)]
    pub proxy_protocol: Vec<IpNet>,
    /// TLS; `None` for plain connections.
    #[serde(default)]
    pub tls: Option<TlsServer>,
    /// HTTP/2.
    #[serde(default)]
    pub http2: Http2,
    /// gRPC over HTTP/2.
    #[serde(default)]
    pub grpc: Grpc,
    /// The client connections open at once here; more wait in the kernel's backlog.
    #[serde(default)]
    pub max_connections: Option<usize>,
    /// The timeouts of the client side.
    #[serde(default)]
    pub timeouts: ClientTimeouts,
    /// TCP keep-alive of client connections.
    #[serde(default)]
    pub tcp_keepalive: TcpKeepalive,
    /// The bounds on a client's messages.
    #[serde(default)]
    pub limits: MessageLimits,
    /// The bounds on one client at this listener.
    #[serde(default)]
    pub client_limit: Option<ClientLimit>,
    /// The bounds on requests by key.
    #[serde(default)]
    pub rate_limits: Vec<RateLimit>,
    /// The bounds on requests in flight by key.
    #[serde(default)]
    pub in_flight_limits: Vec<InFlightLimit>,
    /// The bandwidth of bodies, for routes that set none of their own.
    #[serde(default)]
    pub bandwidth: Option<Bandwidth>,
    /// The names of the access logs.
    #[serde(default)]
    pub logs: Vec<String>,
    /// The client address and the forwarding headers.
    #[serde(default)]
    pub forwarded: Forwarded,
    /// The request id and its header.
    #[serde(default)]
    pub request_id: RequestIdSettings,
    /// The header that names the cause in error responses of Weir's own; `None` for no header.
    #[serde(default)]
    pub cause_header: Option<CauseHeader>,
    /// The header that explains how a request was handled, for clients that may ask; `None` for no
    /// header.
    #[serde(default)]
    pub explain_header: Option<ExplainHeader>,
    /// The rules by which the path of a request is normalised before it is matched and sent on.
    #[serde(default)]
    pub path: PathRules,
    /// The rules for header names of requests.
    #[serde(default)]
    pub header_names: HeaderNames,
    /// The protocols that a connection may switch to (RFC 9110 section 7.8), unless a route sets
    /// its own.
    #[serde(default = "defaults::upgrade")]
    pub upgrade: Vec<String>,
    /// The allow and deny rules, checked before routing; the first match decides.
    #[serde(default)]
    pub access: Vec<AccessRule>,
    /// The headers changed on every request sent upstream, before the route's own changes.
    #[serde(default)]
    pub request_headers: Vec<HeaderEdit>,
    /// The headers changed on every response, before the route's own changes.
    #[serde(default)]
    pub response_headers: Vec<HeaderEdit>,
    /// Custom pages for error responses of Weir's own.
    #[serde(default)]
    pub error_pages: Vec<ErrorPage>,
    /// The targets of requests that would get an error response, for routes without their own; the
    /// first with the status counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub error_targets: Vec<ErrorTarget>,
    /// The host blocks, tried in order; the first whose host matches serves the request.
    #[serde(default)]
    pub sites: Vec<Site>,
    /// The routes outside host blocks, for requests that match no host block.
    #[serde(default)]
    pub default: Vec<Route>,
}

impl Listener {
    /// Returns the routes of every host block, and those for other hosts before them.
    pub fn all_routes(&self) -> impl Iterator<Item = &Route> {
        self.default.iter().chain(self.sites.iter().flat_map(|site| &site.routes))
    }

    /// Returns the use of HTTP/2, which is never [`Http2Mode::Auto`].
    pub fn http2_mode(&self) -> Http2Mode {
        match (self.http2.mode, &self.tls) {
            _ if self.protocol == Protocol::Tcp => Http2Mode::Off,
            (Http2Mode::Auto, Some(_)) => Http2Mode::On,
            (Http2Mode::Auto, None) => Http2Mode::Off,
            (mode, _) => mode,
        }
    }
}

/// The protocol of a listener's connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// HTTP: each request has a route.
    #[default]
    Http,
    /// TCP: each connection has a route, and its bytes are passed on unchanged.
    Tcp,
}

/// HTTP/2 at a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Http2 {
    /// The use of the protocol.
    pub mode: Http2Mode,
    /// The number of streams of a connection that may be open at once.
    pub streams: u32,
    /// The bytes of a request's body that its client may send before they are read, for each
    /// stream.
    #[serde(with = "size")]
    pub window: usize,
}

/// gRPC at a listener.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Grpc {
    /// Set to count calls by their method.
    pub metrics: bool,
    /// Set to convert calls of gRPC-Web into calls of gRPC.
    pub web: bool,
}

/// The use of HTTP/2 at a listener.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Http2Mode {
    /// `On` with TLS, `Off` without.
    #[default]
    Auto,
    /// Connections are HTTP/1.
    Off,
    /// The client chooses: in the TLS handshake or, without TLS, by its first bytes.
    On,
    /// Connections are HTTP/2.
    Only,
}

/// The timeouts of the client side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClientTimeouts {
    /// For the TLS handshake.
    #[serde(with = "duration")]
    pub handshake: Duration,
    /// From the first byte of a head to its end.
    #[serde(with = "duration")]
    pub head: Duration,
    /// Between two reads of a request body.
    #[serde(with = "duration")]
    pub body: Duration,
    /// For an idle connection between requests.
    #[serde(with = "duration")]
    pub keepalive: Duration,
    /// Without progress while a response is written.
    #[serde(with = "duration")]
    pub send: Duration,
    /// From the first byte of a request to the last of its response; `None` for no bound. A tunnel
    /// is exempt.
    #[serde(with = "duration::option")]
    pub request: Option<Duration>,
    /// The age at which a connection is closed after its next response; `None` for never.
    #[serde(with = "duration::option")]
    pub age: Option<Duration>,
    /// The lowest rate, in bytes per second, at which a client sends a body and reads a response;
    /// `None` for no bound.
    #[serde(with = "size::option")]
    pub min_rate: Option<u64>,
    /// The same while the request holds a slot of an endpoint with `max_conn`, where that is
    /// higher.
    #[serde(with = "size::option")]
    pub slot_min_rate: Option<u64>,
    /// The period of waiting for the client over which both rates are measured.
    #[serde(with = "duration")]
    pub after: Duration,
    /// Without a byte of the client in a tunnel whose endpoint has ended its side; `None` for the
    /// pool's `tunnel`.
    #[serde(with = "duration::option")]
    pub half_closed: Option<Duration>,
}

/// The bounds on a client's messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MessageLimits {
    /// The request line and header lines together, in bytes; more gets 431.
    #[serde(rename = "head", with = "size")]
    pub head_bytes: usize,
    /// The request line, in bytes; more gets 414. It also counts towards `head_bytes`.
    #[serde(rename = "request_line", with = "size")]
    pub request_line_bytes: usize,
    /// The number of header lines; more gets 431.
    pub headers: usize,
    /// The body, in bytes; more gets 413. `None` for no bound.
    #[serde(rename = "body", with = "size::option")]
    pub body_bytes: Option<u64>,
    /// The number of requests on one connection.
    pub requests: u64,
    /// The Weir instances that a request may have passed before; more means a loop and gets 508.
    /// `None` for no bound.
    pub hops: Option<u16>,
}

/// The rules by which the path of a request is normalised before it is matched and sent on (RFC
/// 3986 section 6).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PathRules {
    /// Set if the path is normalised first; otherwise only `matched`, `merge_slashes`
    /// and `invalid` have an effect.
    pub normalize: bool,
    /// The form of a path that is not normalised for routes and rewrites.
    #[serde(rename = "match")]
    pub matched: MatchedPath,
    /// Set if several slashes in a row become one.
    pub merge_slashes: bool,
    /// The treatment of `%2F`.
    pub encoded_slash: Treatment,
    /// The treatment of `\` and `%5C`.
    pub backslash: Treatment,
    /// The treatment of `;`, at which some servers end a path segment.
    pub parameters: Treatment,
    /// The treatment of `%00`.
    pub nul: Treatment,
    /// The treatment, without normalisation, of malformed escapes, `%00` and dot segments above the
    /// root.
    pub invalid: Treatment,
}

/// The rules for header names of requests that servers read differently.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HeaderNames {
    /// The treatment of names with `_`, which some servers do not distinguish from `-`.
    pub underscores: NameTreatment,
    /// The treatment of names with other characters than letters, digits, `-` and `_`.
    pub unusual: NameTreatment,
}

/// The treatment of a header by its name, the strictest last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NameTreatment {
    /// The header is passed on.
    #[default]
    Keep,
    /// The header is removed.
    Remove,
    /// The request gets 400.
    Refuse,
}

/// The form in which routes and rewrites see a path that is not normalised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MatchedPath {
    /// Decoded once, with empty and dot segments resolved, as nginx matches it.
    Resolved,
    /// Byte for byte as it was received, as HAProxy matches it.
    Received,
}

/// The treatment of a character that servers interpret differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Treatment {
    /// The request gets 400.
    Refuse,
    /// The character stays as it is.
    Keep,
}

/// The client address and the headers that forward it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Forwarded {
    /// The peers whose header about the client is trusted.
    pub trusted: Vec<IpNet>,
    /// The header that names the client; `None` for `X-Forwarded-For`.
    pub header: Option<String>,
    /// Set if the client is the last address of the header that is not trusted itself; otherwise it
    /// is the last address.
    pub recursive: bool,
    /// Set to send `X-Forwarded-For`, `-Proto` and `-Host`.
    pub x_forwarded: bool,
    /// Set to send `Forwarded` (RFC 7239).
    pub forwarded: bool,
    /// The fate of such headers of untrusted peers.
    pub received: ReceivedForwarded,
}

/// The fate of headers of untrusted peers that tell of another client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReceivedForwarded {
    /// They do not reach servers.
    #[default]
    Drop,
    /// Those that Weir does not write itself pass as others do.
    Keep,
}

/// The request id: taken from a trusted peer's request, otherwise generated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RequestIdSettings {
    /// The header that carries it upstream; `None` for none.
    pub header: Option<String>,
    /// Set to send it in the response too.
    pub respond: bool,
}

/// A response header that names the cause of an error response of Weir's own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CauseHeader {
    /// The name.
    pub header: String,
    /// Set if only peers in `forwarded.trusted` get it.
    pub trusted: bool,
}

/// A response header that explains how a request was handled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ExplainHeader {
    /// The name.
    pub header: String,
    /// The request header that asks for it; `None` if no header is needed.
    pub when: Option<ExplainWhen>,
    /// Set if only peers in `forwarded.trusted` get it.
    pub trusted: bool,
}

/// A request header that asks for an explanation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExplainWhen {
    /// The name.
    pub header: String,
    /// The value, a secret; `None` for any.
    #[serde(default)]
    pub value: Option<String>,
}

/// A custom page for statuses of Weir's own responses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ErrorPage {
    /// The statuses.
    pub statuses: Vec<u16>,
    /// The file with the body, read when the configuration is loaded; empty if there is a text.
    #[serde(default)]
    pub page: PathBuf,
    /// The body, in place of a file.
    #[serde(default, with = "words::template::option")]
    pub text: Option<Template>,
    /// The `Content-Type` of the text.
    #[serde(default = "defaults::respond_type")]
    pub content_type: String,
}

impl ErrorPage {
    /// Returns the page of a file.
    pub fn of_file(statuses: Vec<u16>, page: PathBuf) -> Self {
        Self { statuses, page, text: None, content_type: defaults::respond_type() }
    }
}
