//! All data of one exchange for log lines and `$variables`, borrowed from where they already are.

use std::net::{IpAddr, SocketAddr};
use std::time::SystemTime;

use crate::exchange::affinity::AffinityOutcome;
use crate::exchange::cause::Cause;
use crate::exchange::grpc::GrpcStatus;
use crate::exchange::reasons::Reasons;
use crate::exchange::times::{Micros, Times};

/// The protocol of a connection whose bytes are passed on, in [`Entry::protocol`].
pub const TCP: &str = "TCP";

/// The protocol of an HTTP/2 stream.
pub const HTTP2: &str = "HTTP/2.0";

/// Header lines by name, case-insensitively.
pub trait Headers {
    /// The value of the first line of that name, without surrounding white space.
    fn value(&self, name: &str) -> Option<&[u8]>;

    /// The first text that `pick` finds in a line of that name.
    fn find<'h>(
        &'h self,
        name: &str,
        pick: &dyn Fn(&'h [u8]) -> Option<&'h [u8]>,
    ) -> Option<&'h [u8]> {
        self.value(name).and_then(pick)
    }

    /// Passes the value of each line of that name on, in order.
    fn each(&self, name: &str, then: &mut dyn FnMut(&[u8])) {
        if let Some(value) = self.value(name) {
            then(value);
        }
    }
}

impl Headers for () {
    fn value(&self, _name: &str) -> Option<&[u8]> {
        None
    }
}

/// The client connections of a process, and its requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionCounts {
    /// Open connections.
    pub open: u64,
    /// Open connections with a running exchange.
    pub busy: u64,
    /// Those of them on which the head of the request arrives.
    pub reading: u64,
    /// Connections that workers took so far.
    pub handled: u64,
    /// Connections that were closed on arrival so far.
    pub refused: u64,
    /// Requests so far, the running ones included.
    pub requests: u64,
}

/// The numbers of a process, which are summed over its workers when a text asks for them.
pub trait ProcessCounts {
    /// The client connections.
    fn connections(&self) -> ConnectionCounts;
}

impl ProcessCounts for () {
    fn connections(&self) -> ConnectionCounts {
        ConnectionCounts::default()
    }
}

/// The negotiated parameters of a client's TLS connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct TlsParameters<'a> {
    /// The TLS version, such as `TLSv1.3`.
    pub protocol: &'a str,
    /// The cipher suite, such as `TLS_AES_256_GCM_SHA384`.
    pub cipher: &'a str,
    /// The key exchange group, such as `X25519MLKEM768`.
    pub group: &'a str,
    /// The server name that the client asked for.
    pub server_name: &'a str,
    /// Set if a session was resumed.
    pub resumed: bool,
    /// The client's certificate, at a listener that asks for one.
    pub client: Option<&'a ClientCertificate>,
}

/// The offers in the first message of a client whose TLS is passed on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Preread<'a> {
    /// The highest TLS version, such as `TLSv1.3`; empty if the client did not begin TLS.
    pub protocol: &'a str,
    /// The application protocols, separated by commas.
    pub alpn_protocols: &'a [u8],
}

/// The certificate that a client has presented, in the spelling of nginx's variables. Without one
/// only `verify` has a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientCertificate {
    /// `SUCCESS`, `NONE`, or `FAILED:` and the reason.
    pub verify: String,
    /// The subject's name (RFC 2253).
    pub subject: String,
    /// The issuer's name (RFC 2253).
    pub issuer: String,
    /// The subject's name in one line, `/C=DE/CN=name`.
    pub subject_line: String,
    /// The issuer's name in the same form.
    pub issuer_line: String,
    /// The serial number, hexadecimal.
    pub serial: String,
    /// The SHA-1 of the certificate, hexadecimal.
    pub fingerprint: String,
    /// The beginning of its validity, Unix time.
    pub not_before: i64,
    /// The last second of its validity, Unix time.
    pub not_after: i64,
    /// The certificate in PEM, percent-encoded.
    pub escaped: String,
}

/// Counters for HAProxy's `%ac/%fc/%bc/%sc/%rc`, taken when the exchange ends.
#[derive(Clone, Copy, Debug, Default)]
pub struct Concurrency {
    /// Client connections of the process.
    pub process: u32,
    /// Client connections of the listener.
    pub listener: u32,
    /// Other exchanges in flight in the pool.
    pub pool: u32,
    /// Other exchanges in flight at the endpoint.
    pub endpoint: u32,
}

/// The reason why an attempt was abandoned for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setback {
    /// No response arrived, for this reason.
    Cause(Cause),
    /// A response of this status arrived and was discarded.
    Status(u16),
    /// A response of gRPC with this status arrived and was discarded.
    Grpc(GrpcStatus),
}

/// An attempt that was abandoned for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailedAttempt<'a> {
    /// The endpoint's name.
    pub endpoint: &'a str,
    /// The reason.
    pub why: Setback,
}

/// The treatment of repeated slashes in a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Slashes {
    /// They are one.
    #[default]
    Merged,
    /// Empty segments are between them.
    Kept,
}

/// One exchange, as logs and variables see it.
#[derive(Clone, Copy)]
pub struct Entry<'a> {
    /// The time of the first byte of the request. HAProxy's format and `json` print this time;
    /// nginx's formats print the end, which is this plus [`Times::elapsed`].
    pub started: SystemTime,
    /// The time split.
    pub times: Times,
    /// The reason why the exchange ended.
    pub cause: Cause,
    /// The status sent; 0 if none was.
    pub status: u16,
    /// The status of the call, if the request is one of gRPC and the response told it.
    pub grpc_status: Option<GrpcStatus>,
    /// The TCP (or PROXY) peer; `None` on a Unix socket.
    pub peer: Option<SocketAddr>,
    /// The client's address, after trusted hops were followed.
    pub client: Option<IpAddr>,
    /// The local address of the client connection.
    pub local: Option<SocketAddr>,
    /// The request line as received, without its line end; empty if none arrived.
    pub request_line: &'a [u8],
    /// The request method.
    pub method: &'a [u8],
    /// The request target as received.
    pub target: &'a [u8],
    /// The target after an internal redirect, whose query `$args` and `$arg_NAME` then have; empty
    /// without one.
    pub internal_target: &'a [u8],
    /// The path that routes match; empty if there is none, or if it equals that of the target.
    pub path: &'a [u8],
    /// The treatment of repeated slashes by `$decoded_uri`.
    pub slashes: Slashes,
    /// The target that the endpoint gets; empty if no request is sent to one.
    pub upstream_target: &'a [u8],
    /// The protocol, such as `HTTP/1.1`.
    pub protocol: &'a str,
    /// The requested host, without port, not necessarily in lower case.
    pub host: &'a [u8],
    /// Request headers.
    pub request_headers: &'a dyn Headers,
    /// Response headers.
    pub response_headers: &'a dyn Headers,
    /// Request bytes, head and body, as received.
    pub bytes_received: u64,
    /// Response bytes, head and body, as sent.
    pub bytes_sent: u64,
    /// Response body bytes sent (nginx's `$body_bytes_sent`).
    pub body_bytes_sent: u64,
    /// The listener's name.
    pub listener: &'a str,
    /// The route's name; empty if none matched.
    pub route: &'a str,
    /// The pool's name; empty if there is none.
    pub pool: &'a str,
    /// The endpoint's name; empty if none was picked.
    pub endpoint: &'a str,
    /// The endpoint's address as text; empty if none was picked.
    pub endpoint_address: &'a str,
    /// The protocol spoken with the endpoint, such as `HTTP/1.1`; empty if there was no connection.
    pub upstream_protocol: &'a str,
    /// The number of attempts made; 0 if no endpoint was tried.
    pub attempts: u32,
    /// The attempts that were abandoned for another one, in order; the last attempt is not among
    /// them.
    pub failed_attempts: &'a [FailedAttempt<'a>],
    /// Set if the last attempt used an idle connection.
    pub reused: bool,
    /// The outcome of the client's affinity.
    pub affinity: AffinityOutcome,
    /// The position in the pool's queue at arrival, from 1; 0 if the exchange did not wait.
    pub queue_position: u32,
    /// The decisions that shaped the exchange, if a log or header needs them.
    pub reasons: Option<&'a Reasons<'a>>,
    /// The request id, visible ASCII.
    pub request_id: &'a [u8],
    /// The TLS parameters of the client connection.
    pub tls: Option<TlsParameters<'a>>,
    /// The first message of a client whose TLS is passed on, as far as it was read.
    pub preread: Preread<'a>,
    /// Counters for HAProxy's format.
    pub concurrency: Concurrency,
    /// The worker's number, from 0.
    pub worker: usize,
    /// The number of the client's connection in the process, from 1; 0 if it has none.
    pub connection: u64,
    /// The age of the connection when the time [`Times::total`] began.
    pub connection_age: Micros,
    /// The request's number on its connection, from 1.
    pub connection_requests: u64,
    /// The request's number in the process, from 0; 0 if it was lost with its worker.
    pub request_number: u64,
    /// The body of the request, if it was kept for a text.
    pub request_body: &'a [u8],
    /// The counts of the process.
    pub process: &'a dyn ProcessCounts,
    /// Groups of the route's path regex, `$1` first.
    pub captures: &'a [&'a [u8]],
}
