//! Why an exchange ended: one enum, one word each for logs and metrics, and HAProxy's two-letter state.

/// Why an exchange ended. Every exchange has exactly one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Cause {
    /// The response was sent whole.
    #[default]
    Complete,
    /// A fixed response, redirect or file, sent whole.
    Local,
    /// The request was not HTTP we accept (400, 414, 431, 501, 505).
    BadRequest,
    /// The request body was malformed (bad chunk).
    BadRequestBody,
    /// The request body exceeds the limit (413).
    BodyTooLarge,
    /// Denied by an access rule (403).
    Denied,
    /// No route matched (404).
    NoRoute,
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
    /// Every endpoint is at its `max_conn` (503).
    PoolFull,
    /// The connect was refused or failed (502).
    ConnectFailed,
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
    /// The response was not HTTP we accept (502).
    BadResponse,
    /// The endpoint closed or reset inside the response body; the client sees a broken body.
    UpstreamAborted,
    /// The endpoint's body stalled beyond the read timeout.
    UpstreamReadTimeout,
    /// The tunnel ended.
    TunnelClosed,
    /// The process is stopping and its deadline passed.
    Shutdown,
    /// A bug of ours, counted.
    Internal,
}

impl Cause {
    /// Every cause, in order of declaration.
    pub const ALL: &'static [Self] = &[
        Self::Complete,
        Self::Local,
        Self::BadRequest,
        Self::BadRequestBody,
        Self::BodyTooLarge,
        Self::Denied,
        Self::NoRoute,
        Self::RequestTimeout,
        Self::BodyTimeout,
        Self::ClientSendTimeout,
        Self::ClientGone,
        Self::TlsHandshake,
        Self::NoEndpoint,
        Self::PoolFull,
        Self::ConnectFailed,
        Self::ConnectTimeout,
        Self::UpstreamTls,
        Self::UpstreamSendTimeout,
        Self::UpstreamReset,
        Self::ResponseTimeout,
        Self::BadResponse,
        Self::UpstreamAborted,
        Self::UpstreamReadTimeout,
        Self::TunnelClosed,
        Self::Shutdown,
        Self::Internal,
    ];

    /// One word for logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Local => "local",
            Self::BadRequest => "bad_request",
            Self::BadRequestBody => "bad_request_body",
            Self::BodyTooLarge => "body_too_large",
            Self::Denied => "denied",
            Self::NoRoute => "no_route",
            Self::RequestTimeout => "request_timeout",
            Self::BodyTimeout => "body_timeout",
            Self::ClientSendTimeout => "client_send_timeout",
            Self::ClientGone => "client_gone",
            Self::TlsHandshake => "tls_handshake",
            Self::NoEndpoint => "no_endpoint",
            Self::PoolFull => "pool_full",
            Self::ConnectFailed => "connect_failed",
            Self::ConnectTimeout => "connect_timeout",
            Self::UpstreamTls => "upstream_tls",
            Self::UpstreamSendTimeout => "upstream_send_timeout",
            Self::UpstreamReset => "upstream_reset",
            Self::ResponseTimeout => "response_timeout",
            Self::BadResponse => "bad_response",
            Self::UpstreamAborted => "upstream_aborted",
            Self::UpstreamReadTimeout => "upstream_read_timeout",
            Self::TunnelClosed => "tunnel_closed",
            Self::Shutdown => "shutdown",
            Self::Internal => "internal",
        }
    }
}
