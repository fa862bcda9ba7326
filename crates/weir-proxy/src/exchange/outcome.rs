//! The ways in which an exchange ends, and the fate of its connection. It decides neither.

use weir_stats::Cause;

/// The fate of the connection after an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// The connection stays open for the next request.
    KeepAlive,
    /// The connection ends, and no byte is unread.
    Close,
    /// The connection ends, but the client may still be sending.
    Linger,
    /// Another process is to serve the request that was begun.
    Part,
}

/// An exchange that ends with a response of Weir's own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refusal {
    pub(crate) cause: Cause,
    pub(crate) status: u16,
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
    /// The connection cannot be used any more: it is closed without a response.
    Broken(Cause),
    /// The client closed an idle connection without sending a request.
    Silent,
    /// Another process is to serve the exchange.
    Parted,
}

impl From<Cause> for Ended {
    fn from(cause: Cause) -> Self {
        Self::Refused(cause.into())
    }
}
