//! Everything a log line or a `$variable` may say of one exchange, borrowed from where it already is.

use std::net::{IpAddr, SocketAddr};
use std::time::SystemTime;

use crate::{Affinity, Cause, Escape, Reasons, Times, escape, number};

/// Header lines by name, case-insensitively; the value of the first line of that name.
pub trait Headers {
    /// The value, without surrounding white space.
    fn value(&self, name: &str) -> Option<&[u8]>;
}

impl Headers for () {
    fn value(&self, _name: &str) -> Option<&[u8]> {
        None
    }
}

/// What was negotiated with a TLS client.
#[derive(Clone, Copy, Debug, Default)]
pub struct TlsFacts<'a> {
    /// `TLSv1.3`.
    pub protocol: &'a str,
    /// `TLS_AES_256_GCM_SHA384`.
    pub cipher: &'a str,
    /// `X25519MLKEM768`.
    pub group: &'a str,
    /// The name the client asked for.
    pub server_name: &'a str,
    /// Whether a session was resumed.
    pub resumed: bool,
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

/// Why an attempt was given up for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setback {
    /// No response came, for this reason.
    Cause(Cause),
    /// A response of this status, which was thrown away.
    Status(u16),
}

/// An attempt that was given up for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailedAttempt<'a> {
    /// The endpoint's name.
    pub endpoint: &'a str,
    /// Why.
    pub why: Setback,
}

impl FailedAttempt<'_> {
    /// Appends `app1=connect_failed` or `app1=503`.
    pub(crate) fn append(&self, how: Escape, out: &mut Vec<u8>) {
        escape::append(self.endpoint.as_bytes(), how, out);
        out.push(b'=');
        match self.why {
            Setback::Cause(cause) => out.extend_from_slice(cause.as_str().as_bytes()),
            Setback::Status(status) => number::append(status, out),
        }
    }
}

/// One exchange, as logs and variables see it.
#[derive(Clone, Copy)]
pub struct Entry<'a> {
    /// When the first byte of the request came. HAProxy's format and `json` stamp this; nginx's formats stamp the
    /// end, which is this and [`Times::elapsed`].
    pub started: SystemTime,
    /// The time split.
    pub times: Times,
    /// Why it ended.
    pub cause: Cause,
    /// Status sent; 0 when none was.
    pub status: u16,
    /// The TCP (or PROXY) peer; `None` on a Unix socket.
    pub peer: Option<SocketAddr>,
    /// The client after trusted hops were followed.
    pub client: Option<IpAddr>,
    /// The address it reached us at.
    pub local: Option<SocketAddr>,
    /// The request line as received, without its line end; empty when none came.
    pub request_line: &'a [u8],
    /// Method.
    pub method: &'a [u8],
    /// Target as received.
    pub target: &'a [u8],
    /// Path as it is sent on; empty where there is none, or where it is that of the target.
    pub path: &'a [u8],
    /// `HTTP/1.1`.
    pub protocol: &'a str,
    /// Host asked for, without port, lower case not guaranteed.
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
    /// The route's name; empty when none matched.
    pub route: &'a str,
    /// The pool's name; empty when there is none.
    pub pool: &'a str,
    /// The endpoint's name; empty when none was picked.
    pub endpoint: &'a str,
    /// The endpoint's address as text; empty when none was picked.
    pub endpoint_address: &'a str,
    /// Attempts made; 0 when no endpoint was tried.
    pub attempts: u32,
    /// Those given up for another, in their order; the last attempt is not among them.
    pub failed_attempts: &'a [FailedAttempt<'a>],
    /// Whether the last attempt used an idle connection.
    pub reused: bool,
    /// What became of the client's affinity.
    pub affinity: Affinity,
    /// Position in the pool's queue at arrival, 1 is next; 0 is straight through.
    pub queue_position: u32,
    /// Why it went its way, where somebody wants to know.
    pub reasons: Option<&'a Reasons<'a>>,
    /// The request id, visible ASCII.
    pub request_id: &'a [u8],
    /// TLS of the client connection.
    pub tls: Option<TlsFacts<'a>>,
    /// Counters for HAProxy's format.
    pub concurrency: Concurrency,
    /// Worker number, from 0.
    pub worker: usize,
    /// Number of this request on its connection, from 1.
    pub connection_requests: u64,
    /// Groups of the route's path regex, `$1` first.
    pub captures: &'a [&'a [u8]],
}
