//! Who is on an admin connection, and what he may do.

use std::sync::Arc;

use super::token::Token;

/// What somebody may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Right {
    /// Look.
    Read,
    /// Look and change.
    Write,
}

/// The other end of a connection.
#[derive(Clone)]
pub(crate) struct Caller {
    /// For the audit log: `uid 0 (pid 77) over unix:/run/weir/admin.sock`.
    pub(crate) who: String,
    /// The user at the other end of a Unix socket.
    pub(crate) uid: Option<u32>,
    pub(crate) right: Right,
    /// What every request has to bring.
    pub(crate) token: Option<Arc<Token>>,
}

impl Caller {
    /// Whether he might as well start programs as the user whom this process runs as.
    pub(crate) fn is_owner(&self) -> bool {
        let own = rustix::process::geteuid().as_raw();
        self.uid.is_some_and(|uid| uid == 0 || uid == own)
    }

    /// Whether a request with this `Authorization` header is let in.
    pub(crate) fn is_known(&self, authorization: Option<&[u8]>) -> bool {
        self.token.as_ref().is_none_or(|token| token.is_in(authorization))
    }
}
