//! The outcome of a client's affinity to an endpoint, for logs.

use crate::{Micros, Times};

/// The outcome of a client's affinity to an endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AffinityOutcome {
    /// The pool has no affinity, or the exchange reached no pool.
    #[default]
    None,
    /// The client sent no cookie.
    New,
    /// The client's cookie matches no endpoint of the pool.
    Unknown,
    /// The endpoint of the cookie could not be picked.
    Moved,
    /// The exchange went to the endpoint of the cookie.
    Kept,
    /// The client sent no cookie, and the route named the endpoint.
    Named,
    /// The route named the endpoint, whatever the client's cookie says.
    Unused,
    /// The route named an endpoint that did not serve; the client's cookie was not used.
    Replaced,
}

impl AffinityOutcome {
    /// The outcome as one word; empty for [`AffinityOutcome::None`].
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "",
            Self::New => "new",
            Self::Unknown => "unknown",
            Self::Moved => "moved",
            Self::Kept => "kept",
            Self::Named => "named",
            Self::Unused => "unused",
            Self::Replaced => "replaced",
        }
    }

    /// The last two letters of HAProxy's termination state: the client's cookie (none, invalid, of
    /// a server that is down, valid, unused), and the cookie in the response. One is inserted into
    /// every response of an endpoint, unless the client already has the right one, or the route has
    /// named the endpoint.
    pub(crate) fn termination(self, times: &Times) -> [u8; 2] {
        let inserted = if times.response == Micros::NEVER { b'N' } else { b'I' };
        match self {
            Self::None => *b"--",
            Self::New => [b'N', inserted],
            Self::Unknown => [b'I', inserted],
            Self::Moved => [b'D', inserted],
            Self::Kept => *b"VN",
            Self::Named => *b"NN",
            Self::Unused => *b"UN",
            Self::Replaced => [b'U', inserted],
        }
    }
}
