//! The reason why an exchange ended: one enum, one word each for logs and metrics, and HAProxy's
//! two-letter termination state.

use serde::{Deserialize, Serialize};

use crate::{Micros, Times};

/// The reason why an exchange ended. Every exchange has exactly one.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Cause {
    /// The response was sent completely.
    #[default]
    Complete,
    /// A fixed response, redirect or file, sent completely.
    Local,
    /// The request was not acceptable HTTP (400, 414, 431, 501, 505).
    BadRequest,
    /// The request came without TLS to a listener with TLS (400; its pages are those of 497).
    PlainHttp,
    /// The request body was malformed (bad chunk).
    BadRequestBody,
    /// The request body exceeds the limit (413).
    BodyTooLarge,
    /// The request was denied by an access rule (403).
    Denied,
    /// The request exceeded a rate limit (429, or as the limit says).
    RateLimited,
    /// The client had its maximum of requests in flight (429, or as the limit says).
    InFlightLimited,
    /// No route matched (404).
    NoRoute,
    /// The request passed more instances of Weir than the limit: a loop (508).
    LoopDetected,
    /// The head did not arrive in time (408).
    RequestTimeout,
    /// The body did not arrive in time (408).
    BodyTimeout,
    /// The client stopped reading the response.
    ClientSendTimeout,
    /// The client left before its response was complete (499).
    ClientGone,
    /// The TLS handshake failed or timed out.
    TlsHandshake,
    /// No endpoint could be picked: all down, ejected, unresolved or already tried (503).
    NoEndpoint,
    /// Every endpoint is at its `max_conn`, and the pool has no queue (503).
    PoolFull,
    /// Every endpoint is at its `max_conn`, and the queue is full (503, or as the queue says).
    QueueFull,
    /// The exchange waited in the queue for too long (503, or as the queue says).
    QueueTimeout,
    /// The connect was refused or failed (502).
    ConnectFailed,
    /// Weir had no descriptor, port or memory left for a connect; the endpoint is not at fault
    /// (503).
    NoResources,
    /// The connect, TLS included, timed out (504).
    ConnectTimeout,
    /// The endpoint's TLS handshake or certificate failed (502).
    UpstreamTls,
    /// The endpoint did not take the request in time (504).
    UpstreamSendTimeout,
    /// The endpoint closed or reset before a response head (502).
    UpstreamReset,
    /// The response head did not arrive in time (504).
    ResponseTimeout,
    /// The response was not acceptable HTTP (502).
    BadResponse,
    /// The endpoint closed or reset inside the response body; the client sees a broken body.
    UpstreamAborted,
    /// The endpoint's body stalled beyond the read timeout.
    UpstreamReadTimeout,
    /// Both sides of the tunnel, or of a TCP connection, ended it.
    TunnelClosed,
    /// No byte moved through the tunnel for too long.
    TunnelTimeout,
    /// The client reset the tunnel.
    TunnelClientReset,
    /// The endpoint reset the tunnel.
    TunnelUpstreamReset,
    /// The whole exchange took longer than `timeout request=` (504, or the connection ends).
    TotalTimeout,
    /// One attempt took longer than the pool's `timeout try=` (504).
    TryTimeout,
    /// The client sent its body more slowly than the minimum rate (408).
    BodyTooSlow,
    /// The client took the response more slowly than the minimum rate.
    ClientTooSlow,
    /// The endpoint sent its response's body more slowly than the minimum rate.
    UpstreamTooSlow,
    /// The process is stopping and its deadline passed.
    Shutdown,
    /// Memory was short, and this request held the most or waited too long to be read (503).
    Memory,
    /// The worker that served the exchange hung or panicked.
    WorkerLost,
    /// No connection was free, and the request's client had the most of them (503).
    ConnectionCap,
    /// The endpoint went down, and its pool ends exchanges then (503).
    EndpointDown,
    /// The endpoint speaks HTTP/2 and takes no WebSockets over it (501).
    NoWebsocket,
    /// A bug in Weir, counted.
    Internal,
}

impl Cause {
    /// Every cause, in order of declaration.
    pub const ALL: &'static [Self] = &[
        Self::Complete,
        Self::Local,
        Self::BadRequest,
        Self::PlainHttp,
        Self::BadRequestBody,
        Self::BodyTooLarge,
        Self::Denied,
        Self::RateLimited,
        Self::InFlightLimited,
        Self::NoRoute,
        Self::LoopDetected,
        Self::RequestTimeout,
        Self::BodyTimeout,
        Self::ClientSendTimeout,
        Self::ClientGone,
        Self::TlsHandshake,
        Self::NoEndpoint,
        Self::PoolFull,
        Self::QueueFull,
        Self::QueueTimeout,
        Self::ConnectFailed,
        Self::NoResources,
        Self::ConnectTimeout,
        Self::UpstreamTls,
        Self::UpstreamSendTimeout,
        Self::UpstreamReset,
        Self::ResponseTimeout,
        Self::BadResponse,
        Self::UpstreamAborted,
        Self::UpstreamReadTimeout,
        Self::TunnelClosed,
        Self::TunnelTimeout,
        Self::TunnelClientReset,
        Self::TunnelUpstreamReset,
        Self::TotalTimeout,
        Self::TryTimeout,
        Self::BodyTooSlow,
        Self::ClientTooSlow,
        Self::UpstreamTooSlow,
        Self::Shutdown,
        Self::Memory,
        Self::WorkerLost,
        Self::ConnectionCap,
        Self::EndpointDown,
        Self::NoWebsocket,
        Self::Internal,
    ];

    /// The cause for an exchange without an endpoint: a complete response was Weir's own.
    #[must_use]
    pub fn of_our_own(self) -> Self {
        if self == Self::Complete { Self::Local } else { self }
    }

    /// Returns true if the client got no response, or only a part of one.
    pub fn breaks_response(self) -> bool {
        matches!(
            self,
            Self::ClientSendTimeout
                | Self::ClientGone
                | Self::ClientTooSlow
                | Self::TlsHandshake
                | Self::UpstreamAborted
                | Self::UpstreamReadTimeout
                | Self::UpstreamTooSlow
                | Self::TunnelClientReset
                | Self::TunnelUpstreamReset
                | Self::Shutdown
                | Self::EndpointDown
                | Self::WorkerLost
        )
    }

    /// The cause as one word for logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Local => "local",
            Self::BadRequest => "bad_request",
            Self::PlainHttp => "plain_http",
            Self::BadRequestBody => "bad_request_body",
            Self::BodyTooLarge => "body_too_large",
            Self::Denied => "denied",
            Self::RateLimited => "rate_limited",
            Self::InFlightLimited => "in_flight_limited",
            Self::NoRoute => "no_route",
            Self::LoopDetected => "loop_detected",
            Self::RequestTimeout => "request_timeout",
            Self::BodyTimeout => "body_timeout",
            Self::ClientSendTimeout => "client_send_timeout",
            Self::ClientGone => "client_gone",
            Self::TlsHandshake => "tls_handshake",
            Self::NoEndpoint => "no_endpoint",
            Self::PoolFull => "pool_full",
            Self::QueueFull => "queue_full",
            Self::QueueTimeout => "queue_timeout",
            Self::ConnectFailed => "connect_failed",
            Self::NoResources => "no_resources",
            Self::ConnectTimeout => "connect_timeout",
            Self::UpstreamTls => "upstream_tls",
            Self::UpstreamSendTimeout => "upstream_send_timeout",
            Self::UpstreamReset => "upstream_reset",
            Self::ResponseTimeout => "response_timeout",
            Self::BadResponse => "bad_response",
            Self::UpstreamAborted => "upstream_aborted",
            Self::UpstreamReadTimeout => "upstream_read_timeout",
            Self::TunnelClosed => "tunnel_closed",
            Self::TunnelTimeout => "tunnel_timeout",
            Self::TunnelClientReset => "tunnel_client_reset",
            Self::TunnelUpstreamReset => "tunnel_upstream_reset",
            Self::TotalTimeout => "total_timeout",
            Self::TryTimeout => "try_timeout",
            Self::BodyTooSlow => "body_too_slow",
            Self::ClientTooSlow => "client_too_slow",
            Self::UpstreamTooSlow => "upstream_too_slow",
            Self::Shutdown => "shutdown",
            Self::Memory => "memory",
            Self::WorkerLost => "worker_lost",
            Self::ConnectionCap => "connection_cap",
            Self::EndpointDown => "endpoint_down",
            Self::NoWebsocket => "no_websocket",
            Self::Internal => "internal",
        }
    }

    /// Returns true for the end of a tunnel or of a TCP connection that had reached its endpoint:
    /// its duration is no latency.
    pub fn is_of_tunnel(self) -> bool {
        matches!(
            self,
            Self::TunnelClosed
                | Self::TunnelTimeout
                | Self::TunnelClientReset
                | Self::TunnelUpstreamReset
        )
    }

    /// The status that Weir itself answers with, or logs if no client is left to answer (499);
    /// `None` if the response comes from elsewhere or has begun.
    pub fn status(self) -> Option<u16> {
        Some(match self {
            Self::BadRequest | Self::PlainHttp | Self::BadRequestBody => 400,
            Self::Denied => 403,
            Self::RateLimited | Self::InFlightLimited => 429,
            Self::NoRoute => 404,
            Self::RequestTimeout | Self::BodyTimeout | Self::BodyTooSlow => 408,
            Self::BodyTooLarge => 413,
            Self::ClientGone => 499,
            Self::Internal => 500,
            Self::NoWebsocket => 501,
            Self::ConnectFailed | Self::UpstreamTls | Self::UpstreamReset | Self::BadResponse => {
                502
            }
            Self::NoEndpoint
            | Self::PoolFull
            | Self::QueueFull
            | Self::QueueTimeout
            | Self::NoResources
            | Self::Shutdown
            | Self::Memory
            | Self::EndpointDown
            | Self::ConnectionCap => 503,
            Self::ConnectTimeout
            | Self::UpstreamSendTimeout
            | Self::ResponseTimeout
            | Self::TotalTimeout
            | Self::TryTimeout => 504,
            Self::LoopDetected => 508,
            Self::Complete
            | Self::Local
            | Self::ClientSendTimeout
            | Self::TlsHandshake
            | Self::UpstreamAborted
            | Self::UpstreamReadTimeout
            | Self::ClientTooSlow
            | Self::UpstreamTooSlow
            | Self::WorkerLost
            | Self::TunnelClosed
            | Self::TunnelTimeout
            | Self::TunnelClientReset
            | Self::TunnelUpstreamReset => return None,
        })
    }

    /// The first two letters of HAProxy's termination state: the side that ended the exchange, and
    /// the phase. Before the first of the `attempts` an exchange is in the queue.
    pub fn termination(self, times: &Times, attempts: u32) -> [u8; 2] {
        let phase = || match () {
            () if times.request == Micros::NEVER => b'R',
            () if attempts == 0 => b'Q',
            () if times.connect == Micros::NEVER => b'C',
            () if times.response == Micros::NEVER => b'H',
            () => b'D',
        };
        match self {
            Self::Complete | Self::TunnelClosed => *b"--",
            Self::TunnelClientReset => *b"CD",
            // After an attempt it took the place of the endpoint's response.
            Self::Local => [b'L', if attempts == 0 { b'R' } else { b'H' }],
            // Without an attempt only a response that was held back has waited.
            Self::Denied if attempts == 0 && times.queue != Micros::NEVER => *b"PT",
            Self::Denied => [b'P', if attempts == 0 { b'R' } else { b'H' }],
            Self::BadRequest
            | Self::PlainHttp
            | Self::BadRequestBody
            | Self::BodyTooLarge
            | Self::RateLimited
            | Self::InFlightLimited
            | Self::NoRoute
            | Self::LoopDetected
            | Self::TlsHandshake => *b"PR",
            Self::RequestTimeout => *b"cR",
            // HAProxy has a timeout for each side of a tunnel, and looks at the client's first.
            Self::TunnelTimeout
            | Self::BodyTimeout
            | Self::BodyTooSlow
            | Self::ClientSendTimeout
            | Self::ClientTooSlow => *b"cD",
            Self::ClientGone => [b'C', phase()],
            // HAProxy lets such a request wait in its queue, where it expires.
            Self::PoolFull | Self::QueueTimeout => *b"sQ",
            Self::QueueFull => *b"SQ",
            Self::NoEndpoint | Self::ConnectFailed | Self::UpstreamTls | Self::NoWebsocket => {
                *b"SC"
            }
            Self::NoResources => *b"RC",
            Self::ConnectTimeout => *b"sC",
            Self::UpstreamReset => *b"SH",
            Self::UpstreamSendTimeout | Self::ResponseTimeout | Self::TryTimeout => *b"sH",
            Self::TotalTimeout => [b's', phase()],
            Self::BadResponse => *b"PH",
            Self::TunnelUpstreamReset | Self::UpstreamAborted => *b"SD",
            Self::UpstreamReadTimeout | Self::UpstreamTooSlow => *b"sD",
            Self::Shutdown => [b'K', phase()],
            // HAProxy's letter for an exhausted resource of its own.
            Self::Memory | Self::ConnectionCap => [b'R', phase()],
            Self::EndpointDown => [b'D', phase()],
            Self::WorkerLost | Self::Internal => [b'I', phase()],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_unique_and_in_snake_case() {
        let mut words: Vec<_> = Cause::ALL.iter().map(|cause| cause.as_str()).collect();
        assert!(
            words
                .iter()
                .all(|word| word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'))
        );
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), Cause::Internal as usize + 1);
    }

    #[test]
    fn a_client_that_leaves_is_logged_in_its_phase() {
        let check = |times: Times, attempts: u32, expected: &[u8; 2]| {
            assert_eq!(Cause::ClientGone.termination(&times, attempts), *expected);
        };
        let mut times = Times::default();
        check(times, 0, b"CR");
        times.request = Micros::ZERO;
        check(times, 0, b"CQ");
        times.queue = Micros(7);
        check(times, 0, b"CQ");
        check(times, 1, b"CC");
        times.connect = Micros::ZERO;
        check(times, 1, b"CH");
        times.response = Micros::ZERO;
        check(times, 1, b"CD");
    }

    #[test]
    fn own_answers_are_errors() {
        assert!(
            Cause::ALL
                .iter()
                .filter_map(|cause| cause.status())
                .all(|status| (400..600).contains(&status))
        );
    }
}
