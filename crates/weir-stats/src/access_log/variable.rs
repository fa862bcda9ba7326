//! The names that may follow a `$`: nginx's name where nginx has one, Weir's own for the rest.
//! Names and documentation only; the values for an exchange are in `value.rs`.

use std::fmt;
use std::sync::{Arc, LazyLock};

use crate::access_log::clock::Clock;
use crate::access_log::escape::Escape;
use crate::access_log::haproxy::HaproxyField;
use crate::exchange::entry::Entry;

/// A variable whose name has no user-defined part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plain {
    RemoteAddr,
    RemotePort,
    RemoteUser,
    TimeLocal,
    TimeIso8601,
    Msec,
    Random,
    Request,
    RequestMethod,
    RequestUri,
    Uri,
    DecodedUri,
    Args,
    IsArgs,
    ProxyAddXForwardedFor,
    Host,
    Status,
    BodyBytesSent,
    BytesSent,
    RequestLength,
    RequestTime,
    UpstreamAddr,
    UpstreamProtocol,
    UpstreamUri,
    UpstreamConnectTime,
    UpstreamHeaderTime,
    UpstreamResponseTime,
    UpstreamStatus,
    UpstreamResponseLength,
    GrpcService,
    GrpcMethod,
    GrpcStatus,
    Scheme,
    ServerProtocol,
    ServerPort,
    ServerAddr,
    SslProtocol,
    SslCipher,
    SslServerName,
    SslPrereadProtocol,
    SslPrereadAlpnProtocols,
    SslCurve,
    SslSessionReused,
    SslClientVerify,
    SslClientSDn,
    SslClientIDn,
    SslClientSDnLegacy,
    SslClientIDnLegacy,
    SslClientSerial,
    SslClientFingerprint,
    SslClientVStart,
    SslClientVEnd,
    SslClientVRemain,
    SslClientEscapedCert,
    RequestId,
    RequestNumber,
    Connection,
    ConnectionRequests,
    ConnectionTime,
    RequestBody,
    RequestCompletion,
    RealipRemoteAddr,
    RealipRemotePort,
    ConnectionsActive,
    ConnectionsReading,
    ConnectionsWriting,
    ConnectionsWaiting,
    ConnectionsAccepted,
    ConnectionsHandled,
    ConnectionsRequests,
    Pid,
    Hostname,
    Listener,
    Route,
    Pool,
    Endpoint,
    Cause,
    Attempts,
    FailedAttempts,
    QueuePosition,
    Affinity,
    Why,
    Worker,
    Handshake,
    Idle,
    RequestSpan,
    Queue,
    Connect,
    Response,
    Data,
    Active,
    Own,
    Total,
}

/// One entry per variable; parser, reference and suggestions are generated from it.
const PLAIN: &[(&str, Plain, &str)] = &[
    ("remote_addr", Plain::RemoteAddr, "address of the client, behind trusted proxies"),
    (
        "remote_port",
        Plain::RemotePort,
        "port of the client; absent if the address was forwarded by a trusted proxy",
    ),
    ("remote_user", Plain::RemoteUser, "user name of Basic authentication, not verified"),
    ("time_local", Plain::TimeLocal, "local time of the line, `20/Nov/2026:19:15:00 +0000`"),
    ("time_iso8601", Plain::TimeIso8601, "local time of the line, `2026-11-20T19:15:00+00:00`"),
    ("msec", Plain::Msec, "time of the line in seconds since 1970 with milliseconds"),
    (
        "random",
        Plain::Random,
        "number from 0 to 4294967295 that differs from request to request and stays for one",
    ),
    ("request", Plain::Request, "the request line as received"),
    ("request_method", Plain::RequestMethod, "method"),
    ("request_uri", Plain::RequestUri, "path and query as received"),
    ("uri", Plain::Uri, "path in its normal form, which routes match, without the query"),
    (
        "decoded_uri",
        Plain::DecodedUri,
        "path decoded once, with empty and dot segments resolved, as nginx's `$uri`; control bytes \
         stay percent-encoded outside logs",
    ),
    ("args", Plain::Args, "query as received, without the `?`"),
    ("is_args", Plain::IsArgs, "`?` if there is a query, otherwise nothing"),
    (
        "proxy_add_x_forwarded_for",
        Plain::ProxyAddXForwardedFor,
        "the received `X-Forwarded-For` of any sender, followed by the address of the client",
    ),
    ("host", Plain::Host, "requested host, lower case, without the port"),
    ("status", Plain::Status, "status of the response, three digits"),
    ("body_bytes_sent", Plain::BodyBytesSent, "bytes of the response body sent"),
    ("bytes_sent", Plain::BytesSent, "bytes of the response sent, head and body"),
    ("request_length", Plain::RequestLength, "bytes of the request received, head and body"),
    (
        "request_time",
        Plain::RequestTime,
        "time from the first byte of the request to the end, seconds with milliseconds",
    ),
    ("upstream_addr", Plain::UpstreamAddr, "address of the endpoint"),
    (
        "upstream_protocol",
        Plain::UpstreamProtocol,
        "protocol spoken with the endpoint, `HTTP/1.1` or `HTTP/2.0`, once a connection is there",
    ),
    (
        "upstream_uri",
        Plain::UpstreamUri,
        "path and query as sent to the endpoint, after `rewrite` and `query` of the route",
    ),
    (
        "upstream_connect_time",
        Plain::UpstreamConnectTime,
        "time to connect to the endpoint, seconds",
    ),
    (
        "upstream_header_time",
        Plain::UpstreamHeaderTime,
        "time from the start of the connect to the response head, seconds",
    ),
    (
        "upstream_response_time",
        Plain::UpstreamResponseTime,
        "time from the start of the connect to the last byte, seconds",
    ),
    (
        "upstream_status",
        Plain::UpstreamStatus,
        "status of the response if an endpoint was asked: of its own, or of the error in its place",
    ),
    (
        "upstream_response_length",
        Plain::UpstreamResponseLength,
        "bytes of the response body sent if an endpoint was asked",
    ),
    (
        "grpc_service",
        Plain::GrpcService,
        "service that a call of gRPC names, with its package, `shop.v1.Cart`",
    ),
    ("grpc_method", Plain::GrpcMethod, "method that a call of gRPC names, `Add`"),
    (
        "grpc_status",
        Plain::GrpcStatus,
        "status of a call of gRPC, 0 to 16, from the response's trailers, or Weir's own; absent if the response broke off before them",
    ),
    ("scheme", Plain::Scheme, "`http` or `https`, as used by the client"),
    ("server_protocol", Plain::ServerProtocol, "protocol of the request, `HTTP/1.1`"),
    ("server_port", Plain::ServerPort, "port that the client connected to"),
    ("server_addr", Plain::ServerAddr, "address that the client connected to"),
    ("ssl_protocol", Plain::SslProtocol, "TLS version of the client connection, `TLSv1.3`"),
    ("ssl_cipher", Plain::SslCipher, "TLS cipher suite of the client connection"),
    ("ssl_server_name", Plain::SslServerName, "server name (SNI) that the client requested"),
    (
        "ssl_preread_protocol",
        Plain::SslPrereadProtocol,
        "highest TLS version that the client of a `tcp` listener offers, `TLSv1.3`, if TLS is passed on; empty for other protocols",
    ),
    (
        "ssl_preread_alpn_protocols",
        Plain::SslPrereadAlpnProtocols,
        "application protocols (ALPN) that the client of a `tcp` listener offers, separated by commas, if TLS is passed on",
    ),
    ("ssl_curve", Plain::SslCurve, "TLS key exchange group, `X25519MLKEM768`"),
    (
        "ssl_session_reused",
        Plain::SslSessionReused,
        "`r` if the TLS session was resumed, otherwise `.`",
    ),
    (
        "ssl_client_verify",
        Plain::SslClientVerify,
        "result of the verification of the client's certificate: `SUCCESS`, `FAILED:reason`, or `NONE` if it has none",
    ),
    ("ssl_client_s_dn", Plain::SslClientSDn, "name of the client's certificate (RFC 2253)"),
    (
        "ssl_client_i_dn",
        Plain::SslClientIDn,
        "name of the issuer of the client's certificate (RFC 2253)",
    ),
    (
        "ssl_client_s_dn_legacy",
        Plain::SslClientSDnLegacy,
        "name of the client's certificate in one line, `/C=DE/CN=name`",
    ),
    (
        "ssl_client_i_dn_legacy",
        Plain::SslClientIDnLegacy,
        "name of the issuer of the client's certificate in the same form",
    ),
    (
        "ssl_client_serial",
        Plain::SslClientSerial,
        "serial number of the client's certificate, hexadecimal",
    ),
    (
        "ssl_client_fingerprint",
        Plain::SslClientFingerprint,
        "SHA-1 of the client's certificate, hexadecimal",
    ),
    (
        "ssl_client_v_start",
        Plain::SslClientVStart,
        "beginning of the validity of the client's certificate, `Nov 20 19:15:00 2026 GMT`",
    ),
    ("ssl_client_v_end", Plain::SslClientVEnd, "end of the validity of the client's certificate"),
    (
        "ssl_client_v_remain",
        Plain::SslClientVRemain,
        "days for which the client's certificate stays valid",
    ),
    (
        "ssl_client_escaped_cert",
        Plain::SslClientEscapedCert,
        "the client's certificate in PEM, percent-encoded",
    ),
    ("request_id", Plain::RequestId, "id of the request"),
    (
        "request_number",
        Plain::RequestNumber,
        "number of the request in this process, from 0; with several workers numbers are left out",
    ),
    ("connection", Plain::Connection, "number of the client's connection in this process, from 1"),
    (
        "connection_requests",
        Plain::ConnectionRequests,
        "number of this request on its connection, from 1",
    ),
    (
        "connection_time",
        Plain::ConnectionTime,
        "age of the client's connection at the end of the request, seconds with milliseconds",
    ),
    (
        "request_body",
        Plain::RequestBody,
        "body of a request that was read whole before it was sent on (`buffer_request`), up to 20 \
         KiB; otherwise absent",
    ),
    (
        "request_completion",
        Plain::RequestCompletion,
        "`OK` if the response was sent to its end, otherwise nothing",
    ),
    (
        "realip_remote_addr",
        Plain::RealipRemoteAddr,
        "address of the client's connection, behind which there may be a trusted proxy",
    ),
    ("realip_remote_port", Plain::RealipRemotePort, "port of the client's connection"),
    ("connections_active", Plain::ConnectionsActive, "client connections of the process"),
    (
        "connections_reading",
        Plain::ConnectionsReading,
        "client connections on which the head of a request arrives",
    ),
    (
        "connections_writing",
        Plain::ConnectionsWriting,
        "client connections whose request is being served",
    ),
    (
        "connections_waiting",
        Plain::ConnectionsWaiting,
        "client connections that wait for a request",
    ),
    (
        "connections_accepted",
        Plain::ConnectionsAccepted,
        "client connections that were accepted so far",
    ),
    (
        "connections_handled",
        Plain::ConnectionsHandled,
        "client connections that were accepted and not closed at once for a cap, so far",
    ),
    ("connections_requests", Plain::ConnectionsRequests, "requests of all clients so far"),
    ("pid", Plain::Pid, "process id of Weir"),
    ("hostname", Plain::Hostname, "name of this machine"),
    ("listener", Plain::Listener, "name of the listener"),
    ("route", Plain::Route, "name of the route"),
    ("pool", Plain::Pool, "name of the pool"),
    ("endpoint", Plain::Endpoint, "name of the endpoint"),
    ("cause", Plain::Cause, "cause of the end of the exchange, one word"),
    ("attempts", Plain::Attempts, "number of attempts"),
    (
        "failed_attempts",
        Plain::FailedAttempts,
        "failed attempts before the last one, as `app1=connect_failed,app2=503`; `-` if there were none",
    ),
    (
        "queue_position",
        Plain::QueuePosition,
        "position in the pool's queue at arrival, 1 is first; 0 if the request did not wait",
    ),
    (
        "affinity",
        Plain::Affinity,
        "result of the client's affinity by a sticky cookie: `new`, `unknown` (the cookie denotes no server), `moved` (its server was not available), `kept`, `named` (the route names the server), `unused` (it does, and the client has a cookie) or `replaced` (as `unused`, but another server served)",
    ),
    (
        "why",
        Plain::Why,
        "explanation of the time and of the choice of the server, in `name=value` words: `route`, `pool`, `waited`, `for`, `ahead`, `server`, `policy`, `by`, `load`, `over` (the runner-up), and the times of the phases, µs",
    ),
    ("worker", Plain::Worker, "number of the worker, from 0"),
    ("t_handshake", Plain::Handshake, "from accept to the end of the TLS handshake, µs"),
    ("t_idle", Plain::Idle, "idle before the first byte of the request, µs"),
    ("t_request", Plain::RequestSpan, "from the first byte to the end of the request head, µs"),
    ("t_queue", Plain::Queue, "from the request head to a slot at an endpoint, µs"),
    ("t_connect", Plain::Connect, "from the slot to a connected endpoint, µs"),
    ("t_response", Plain::Response, "from the sent request to the response head, µs"),
    ("t_data", Plain::Data, "from the response head to its last byte, µs"),
    ("t_active", Plain::Active, "request + queue + connect + response + data, µs"),
    ("t_own", Plain::Own, "time that Weir itself worked on this exchange, µs"),
    ("t_total", Plain::Total, "from accept, or the end of the previous response, to the end, µs"),
];

/// Variables whose value depends on the choice of an endpoint or its outcome.
const AFTER_PICK: &[Plain] = &[
    Plain::Status,
    Plain::BodyBytesSent,
    Plain::BytesSent,
    Plain::RequestLength,
    Plain::RequestTime,
    Plain::UpstreamAddr,
    Plain::UpstreamProtocol,
    Plain::UpstreamUri,
    Plain::UpstreamConnectTime,
    Plain::UpstreamHeaderTime,
    Plain::UpstreamResponseTime,
    Plain::UpstreamStatus,
    Plain::UpstreamResponseLength,
    Plain::GrpcStatus,
    Plain::ConnectionTime,
    Plain::RequestBody,
    Plain::RequestCompletion,
    Plain::Endpoint,
    Plain::Cause,
    Plain::Attempts,
    Plain::QueuePosition,
    Plain::Affinity,
    Plain::Why,
    Plain::Queue,
    Plain::Connect,
    Plain::Response,
    Plain::Data,
    Plain::Active,
    Plain::Own,
    Plain::Total,
];

/// Variables whose name ends in a user-defined part: prefix, name in the reference, documentation.
const PREFIXED: &[(&str, &str, &str)] = &[
    ("arg_", "arg_NAME", "value of a query parameter, as received"),
    (
        "http_",
        "http_NAME",
        "value of a request header, of `Cookie` and `X-Forwarded-For` those of all lines; `_` \
         stands for `-`",
    ),
    ("sent_http_", "sent_http_NAME", "value of a response header; `_` stands for `-`"),
    ("cookie_", "cookie_NAME", "value of a request cookie"),
    (
        "headers_",
        "headers_NAME",
        "values of all lines of a request header, with `, ` between them; `_` stands for `-`",
    ),
    (
        "sent_headers_",
        "sent_headers_NAME",
        "values of all lines of a response header, with `, ` between them; `_` stands for `-`",
    ),
    (
        "header_lines_",
        "header_lines_NAME",
        "values of all lines of a request header, with a line feed between them, of which \
         `field NUMBER \"\\n\"` of a `convert` picks one; `_` stands for `-`",
    ),
    (
        "sent_header_lines_",
        "sent_header_lines_NAME",
        "values of all lines of a response header, with a line feed between them; `_` stands for \
         `-`",
    ),
    (
        "haproxy_",
        "haproxy_FIELD",
        "field of HAProxy's log format with its name there, such as `$haproxy_Tw` for `%Tw`",
    ),
];

/// The meaning of one `$…` in a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable(pub(crate) VariableKind);

/// The definition of a variable by the configuration. A definition has texts, and texts have
/// variables: the type of definitions stands above both, and is known here only by this.
pub(crate) trait Definition: Send + Sync {
    /// The name, without its dollar.
    fn name(&self) -> &str;

    /// Returns every value that it can have; `None` if some depend on the request.
    fn constants(&self) -> Option<Vec<&[u8]>>;

    /// The variables of its source and its values.
    fn uses(&self) -> &[Variable];

    /// Returns true if a variable that becomes part of the value passes a test.
    fn shows_any(&self, test: fn(&Variable) -> bool) -> bool;

    /// The number of variables that an evaluation reads, at most.
    fn steps(&self) -> usize;

    /// The number of definitions in a row, this one included.
    fn levels(&self) -> usize;

    /// A hash of everything that decides about the value.
    fn fingerprint(&self) -> [u64; 2];

    /// Returns true for a map whose values are constants.
    fn is_table(&self) -> bool;

    /// Appends the value that such a map has for a text, and returns false if it has none.
    fn look_up(&self, text: &[u8], out: &mut Vec<u8>) -> bool;

    /// Appends the value for one exchange.
    fn append(&self, entry: &Entry<'_>, clock: &mut Clock, how: Escape, out: &mut Vec<u8>);

    /// Appends the value without escapes, and returns false if there is none.
    fn evaluate(&self, entry: &Entry<'_>, clock: &mut Clock, out: &mut Vec<u8>) -> bool;
}

impl fmt::Debug for dyn Definition {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Definition").field(&self.name()).finish()
    }
}

impl PartialEq for dyn Definition {
    fn eq(&self, other: &Self) -> bool {
        self.fingerprint() == other.fingerprint()
    }
}

impl Eq for dyn Definition {}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum VariableKind {
    Plain(Plain),
    Argument(Box<str>),
    RequestHeader(Box<str>),
    ResponseHeader(Box<str>),
    Cookie(Box<str>),
    /// All lines of a request header.
    RequestHeaderLines(Box<str>),
    /// All lines of a response header.
    ResponseHeaderLines(Box<str>),
    /// All lines of a request header, each ended by the next.
    RequestHeaderRows(Box<str>),
    /// The same of a response header.
    ResponseHeaderRows(Box<str>),
    /// A field of HAProxy's log format.
    HaproxyField(HaproxyField),
    /// A group of the route's path regex, from 0 for `$1`.
    Capture(usize),
    /// A group of the regex of the map's entry that matched, from 0 for the whole match.
    Group(usize),
    /// A variable that the configuration defines.
    Defined(Arc<dyn Definition>),
}

impl Variable {
    /// Returns true for a path that was decoded, and for what is made from one.
    pub(crate) fn is_decoded_path(&self) -> bool {
        match &self.0 {
            VariableKind::Plain(Plain::DecodedUri) => true,
            VariableKind::Defined(defined) => defined.uses().iter().any(Self::is_decoded_path),
            _ => false,
        }
    }

    /// The variable with this name, without its dollar; `None` if there is none.
    pub fn named(name: &str) -> Option<Self> {
        if let [digit @ b'1'..=b'9'] = name.as_bytes() {
            return Some(Self(VariableKind::Capture(usize::from(digit - b'1'))));
        }
        if let Some((_, plain, _)) = PLAIN.iter().find(|(word, ..)| *word == name) {
            return Some(Self(VariableKind::Plain(*plain)));
        }
        let (prefix, rest) =
            PREFIXED.iter().find_map(|(prefix, ..)| Some((*prefix, name.strip_prefix(prefix)?)))?;
        let is_name = match prefix {
            "arg_" => is_argument_name(rest),
            _ => rest.bytes().all(is_token_byte),
        };
        if rest.is_empty() || !is_name {
            return None;
        }
        let header = || rest.replace('_', "-").into_boxed_str();
        Some(Self(match prefix {
            "arg_" => VariableKind::Argument(rest.into()),
            "http_" => VariableKind::RequestHeader(header()),
            "sent_http_" => VariableKind::ResponseHeader(header()),
            "headers_" => VariableKind::RequestHeaderLines(header()),
            "sent_headers_" => VariableKind::ResponseHeaderLines(header()),
            "header_lines_" => VariableKind::RequestHeaderRows(header()),
            "sent_header_lines_" => VariableKind::ResponseHeaderRows(header()),
            "haproxy_" => VariableKind::HaproxyField(HaproxyField::named(rest)?),
            _ => VariableKind::Cookie(rest.into()),
        }))
    }

    /// The names for suggestions, without their dollar.
    pub fn names() -> impl Iterator<Item = &'static str> {
        PLAIN.iter().map(|(name, ..)| *name)
    }

    /// Every variable with its documentation, for the reference page. User-defined names appear as
    /// `NAME`, the groups as `1 … 9`.
    pub fn reference() -> &'static [(&'static str, &'static str)] {
        static REFERENCE: LazyLock<Vec<(&str, &str)>> = LazyLock::new(|| {
            let plain = PLAIN.iter().map(|(name, _, doc)| (*name, *doc));
            let prefixed = PREFIXED.iter().map(|(_, shown, doc)| (*shown, *doc));
            plain.chain(prefixed).chain([("1 … 9", "group of the route's path regex")]).collect()
        });
        &REFERENCE
    }

    /// Returns true if the variable has its final value before an endpoint is picked, so that the
    /// choice may depend on it.
    pub fn is_known_before_pick(&self) -> bool {
        match &self.0 {
            VariableKind::Plain(plain) => !AFTER_PICK.contains(plain),
            VariableKind::ResponseHeader(_)
            | VariableKind::ResponseHeaderLines(_)
            | VariableKind::ResponseHeaderRows(_) => false,
            VariableKind::HaproxyField(field) => field.is_of_arrival(),
            VariableKind::Argument(_)
            | VariableKind::RequestHeader(_)
            | VariableKind::RequestHeaderLines(_)
            | VariableKind::RequestHeaderRows(_)
            | VariableKind::Cookie(_)
            | VariableKind::Capture(_)
            | VariableKind::Group(_) => true,
            VariableKind::Defined(defined) => defined.uses().iter().all(Self::is_known_before_pick),
        }
    }

    /// Returns true if the variable has its final value before a route is found.
    pub fn is_known_before_route(&self) -> bool {
        match &self.0 {
            VariableKind::Plain(Plain::Route | Plain::Pool) | VariableKind::Capture(_) => false,
            VariableKind::Defined(defined) => {
                defined.uses().iter().all(Self::is_known_before_route)
            }
            _ => self.is_known_before_pick(),
        }
    }

    /// Returns true if the value may be a secret of the client: a header, a cookie, a parameter.
    pub fn may_be_secret(&self) -> bool {
        if let VariableKind::Defined(defined) = &self.0 {
            return defined.shows_any(Self::may_be_secret);
        }
        matches!(
            self.0,
            VariableKind::RequestHeader(_)
                | VariableKind::RequestHeaderLines(_)
                | VariableKind::RequestHeaderRows(_)
                | VariableKind::Cookie(_)
                | VariableKind::Argument(_)
                | VariableKind::Plain(
                    Plain::Args
                        | Plain::ProxyAddXForwardedFor
                        | Plain::Request
                        | Plain::RequestUri
                        | Plain::UpstreamUri
                        | Plain::RemoteUser
                        | Plain::RequestBody
                )
        )
    }

    /// Returns true if the variable is part of the local address of the client connection.
    pub fn is_local_address(&self) -> bool {
        self.is_or_uses(|kind| {
            matches!(kind, VariableKind::Plain(Plain::ServerAddr | Plain::ServerPort))
        })
    }

    /// Returns true if the variable is what the first message of a TLS client says, such as the
    /// name that it asks for.
    pub fn is_of_client_hello(&self) -> bool {
        self.is_or_uses(|kind| {
            matches!(
                kind,
                VariableKind::Plain(
                    Plain::SslServerName
                        | Plain::SslPrereadProtocol
                        | Plain::SslPrereadAlpnProtocols
                )
            )
        })
    }

    /// Returns true if the variable is a field of HAProxy's log format, of which some are numbers
    /// of exchanges in flight.
    pub fn is_haproxy_field(&self) -> bool {
        self.is_or_uses(|kind| matches!(kind, VariableKind::HaproxyField(_)))
    }

    /// Returns true if the variable reads a group of the route's path regex.
    pub fn is_capture(&self) -> bool {
        self.is_or_uses(|kind| matches!(kind, VariableKind::Capture(_)))
    }

    /// Returns the name, without its dollar, if the configuration defines the variable.
    pub fn defined_name(&self) -> Option<&str> {
        self.definition().map(Definition::name)
    }

    /// Returns every value that a variable of the configuration can have; `None` for other
    /// variables, and if some values depend on the request.
    pub fn constants(&self) -> Option<Vec<&[u8]>> {
        self.definition()?.constants()
    }

    fn definition(&self) -> Option<&dyn Definition> {
        match &self.0 {
            VariableKind::Defined(defined) => Some(&**defined),
            _ => None,
        }
    }

    /// Returns true for a map whose values are constants.
    pub(crate) fn is_table(&self) -> bool {
        self.definition().is_some_and(Definition::is_table)
    }

    /// Appends the value that such a map has for a text, and returns false if it has none.
    pub(crate) fn look_up(&self, text: &[u8], out: &mut Vec<u8>) -> bool {
        self.definition().is_some_and(|map| map.look_up(text, out))
    }

    /// The number of the group, if the variable is one of the regex of a map's entry.
    pub(crate) fn group(&self) -> Option<usize> {
        match self.0 {
            VariableKind::Group(number) => Some(number),
            _ => None,
        }
    }

    pub(crate) fn is_group(&self) -> bool {
        self.group().is_some()
    }

    /// The number of variables that an evaluation reads, at most.
    pub(crate) fn steps(&self) -> usize {
        self.definition().map_or(1, Definition::steps)
    }

    /// The number of defined variables in a row.
    pub(crate) fn levels(&self) -> usize {
        self.definition().map_or(0, Definition::levels)
    }

    /// The fingerprint of the definition, if there is one.
    pub(crate) fn fingerprint(&self) -> [u64; 2] {
        self.definition().map_or([0; 2], Definition::fingerprint)
    }

    /// Tells whether this variable, or one that it refers to, is of a kind.
    fn is_or_uses(&self, test: fn(&VariableKind) -> bool) -> bool {
        match &self.0 {
            VariableKind::Defined(defined) => {
                defined.uses().iter().any(|variable| variable.is_or_uses(test))
            }
            kind => test(kind),
        }
    }

    /// Returns true if the variable reads [`crate::Entry::reasons`].
    pub(crate) fn is_why(&self) -> bool {
        self.is_or_uses(|kind| matches!(kind, VariableKind::Plain(Plain::Why)))
    }

    /// Returns true if the variable reads a response header.
    pub(crate) fn is_response_header(&self) -> bool {
        self.is_or_uses(|kind| {
            matches!(kind, VariableKind::ResponseHeader(_) | VariableKind::ResponseHeaderLines(_))
        })
    }

    /// Returns true if the variable is the body of the request.
    pub(crate) fn is_request_body(&self) -> bool {
        self.is_or_uses(|kind| matches!(kind, VariableKind::Plain(Plain::RequestBody)))
    }

    /// Returns true if a clock is needed to write the variable.
    pub(crate) fn is_time(&self) -> bool {
        self.is_or_uses(|kind| {
            matches!(kind, VariableKind::Plain(Plain::TimeLocal | Plain::TimeIso8601))
        })
    }
}

impl fmt::Display for Variable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            VariableKind::Plain(plain) => {
                let name = PLAIN
                    .iter()
                    .find(|(_, known, _)| known == plain)
                    .map_or("", |(name, ..)| *name);
                write!(formatter, "${name}")
            }
            VariableKind::Argument(name) => write!(formatter, "$arg_{name}"),
            VariableKind::RequestHeader(name) => {
                write!(formatter, "$http_{}", name.replace('-', "_"))
            }
            VariableKind::ResponseHeader(name) => {
                write!(formatter, "$sent_http_{}", name.replace('-', "_"))
            }
            VariableKind::RequestHeaderLines(name) => {
                write!(formatter, "$headers_{}", name.replace('-', "_"))
            }
            VariableKind::ResponseHeaderLines(name) => {
                write!(formatter, "$sent_headers_{}", name.replace('-', "_"))
            }
            VariableKind::RequestHeaderRows(name) => {
                write!(formatter, "$header_lines_{}", name.replace('-', "_"))
            }
            VariableKind::ResponseHeaderRows(name) => {
                write!(formatter, "$sent_header_lines_{}", name.replace('-', "_"))
            }
            VariableKind::HaproxyField(field) => write!(formatter, "$haproxy_{}", field.name()),
            VariableKind::Cookie(name) => write!(formatter, "$cookie_{name}"),
            VariableKind::Capture(index) => write!(formatter, "${}", index + 1),
            VariableKind::Group(index) => write!(formatter, "${index}"),
            VariableKind::Defined(defined) => write!(formatter, "${}", defined.name()),
        }
    }
}

/// Returns true for a byte of a header's or a cookie's name (RFC 9110 section 5.6.2).
fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Returns true for a name of a query's parameter that can be written between `${` and `}`.
fn is_argument_name(name: &str) -> bool {
    !name.bytes().any(|byte| byte <= b' ' || byte == 0x7f || b"\"\\{}$".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_leads_to_its_variable_and_back() {
        for name in Variable::names() {
            assert_eq!(Variable::named(name).unwrap().to_string(), format!("${name}"));
        }
        for name in ["arg_a", "http_x_forwarded_for", "sent_http_x_cache", "cookie_SRV", "1", "9"] {
            assert_eq!(Variable::named(name).unwrap().to_string(), format!("${name}"));
        }
    }

    #[test]
    fn no_name_is_defined_twice() {
        let mut names: Vec<_> = Variable::names().collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), PLAIN.len());
    }

    #[test]
    fn what_a_choice_may_depend_on_is_what_the_request_says() {
        let known = |name: &str| Variable::named(name).unwrap().is_known_before_pick();
        for name in ["remote_addr", "request_uri", "host", "arg_a", "http_x", "cookie_SRV", "1"] {
            assert!(known(name), "{name}");
        }
        for name in ["request_number", "haproxy_Ts", "haproxy_ms", "haproxy_tr", "haproxy_ft"] {
            assert!(known(name), "{name}");
        }
        for name in ["haproxy_Tw", "haproxy_ac", "haproxy_b", "haproxy_ST"] {
            assert!(!known(name), "{name}");
        }
        for name in ["status", "endpoint", "upstream_addr", "t_queue", "sent_http_x", "cause"] {
            assert!(!known(name), "{name}");
        }
    }

    #[test]
    fn what_is_no_name_is_refused() {
        assert!(Variable::named("arg_a[]").is_some() && Variable::named("cookie_a.b").is_some());
        for name in ["http_a\"", "http_a b", "cookie_a;b", "arg_a\"", "arg_a\\", "arg_{a}"] {
            assert_eq!(Variable::named(name), None, "{name}");
        }
        for name in ["", "0", "10", "http_", "arg_", "remote", "Remote_addr"] {
            assert_eq!(Variable::named(name), None, "{name}");
        }
    }

    #[test]
    fn the_reference_has_each_name_once() {
        assert_eq!(Variable::reference().len(), PLAIN.len() + PREFIXED.len() + 1);
    }
}
