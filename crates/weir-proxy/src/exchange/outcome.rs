//! The ways in which an exchange ends, and the fate of its connection. It decides neither.

use weir_stats::Cause;

use crate::http::local_reply::PLAIN_HTTP;

/// The fate of the connection after an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// The connection stays open for the next request.
    KeepAlive,
    /// The connection is closed at once.
    Close,
    /// The connection is closed at once, and TLS does not announce the end: what the client got may
    /// be a part only.
    BreakOff,
    /// The connection is closed after a time in which bytes of the client are discarded, because
    /// the client may still be sending.
    Linger,
    /// Another process is to serve the request that was begun.
    Part,
}

/// The cause and the status of a response of Weir's own that ends an exchange.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refusal {
    pub(crate) cause: Cause,
    pub(crate) status: u16,
}

impl Refusal {
    /// The status whose pages it has: nginx's own for requests that came without TLS.
    pub(crate) fn page_status(self) -> u16 {
        if self.cause == Cause::PlainHttp { PLAIN_HTTP } else { self.status }
    }
}

impl From<Cause> for Refusal {
    fn from(cause: Cause) -> Self {
        Self { cause, status: cause.status().unwrap_or(500) }
    }
}

/// The reason why an exchange did not complete normally.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ended {
    /// No byte was sent to the client yet: it gets this response.
    Refused(Refusal),
    /// The connection cannot be used any more: it ends without a response, or in the middle of one.
    Broken(Cause),
    /// The client closed an idle connection without sending a request.
    Silent,
    /// Another process is to serve the exchange.
    Parted,
    /// The request is to be served again after an internal redirect.
    Redirected,
}

impl From<Cause> for Ended {
    fn from(cause: Cause) -> Self {
        Self::Refused(cause.into())
    }
}
