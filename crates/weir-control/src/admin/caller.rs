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
pub(crate) struct Caller {
    /// For the audit log: `uid 0 (pid 77) over unix:/run/weir/admin.sock`.
    pub(crate) who: String,
    pub(crate) right: Right,
    /// What every request has to bring.
    pub(crate) token: Option<Arc<Token>>,
}

impl Caller {
    /// Whether a request with this `Authorization` header is let in.
    pub(crate) fn is_known(&self, authorization: Option<&[u8]>) -> bool {
        self.token.as_ref().is_none_or(|token| token.is_in(authorization))
    }
}
