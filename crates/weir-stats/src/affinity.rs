//! What became of a client's affinity to an endpoint, as logs say it.

use crate::{Micros, Times};

/// What became of a client's affinity to an endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Affinity {
    /// The pool has none, or none was reached.
    #[default]
    None,
    /// The client came without a cookie.
    New,
    /// Its cookie means no endpoint of the pool.
    Unknown,
    /// The endpoint of its cookie could not be had.
    Moved,
    /// It was where its cookie says.
    Kept,
}

impl Affinity {
    /// Its word; empty for [`Affinity::None`].
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "",
            Self::New => "new",
            Self::Unknown => "unknown",
            Self::Moved => "moved",
            Self::Kept => "kept",
        }
    }

    /// The last two letters of HAProxy's termination state: what cookie came (none, invalid, of a server that is down, valid), and
    /// whether one was inserted, which is so with every response of an endpoint but to those who have the right one.
    pub(crate) fn termination(self, times: &Times) -> [u8; 2] {
        let inserted = if times.response == Micros::NEVER { b'N' } else { b'I' };
        match self {
            Self::None => *b"--",
            Self::New => [b'N', inserted],
            Self::Unknown => [b'I', inserted],
            Self::Moved => [b'D', inserted],
            Self::Kept => *b"VN",
        }
    }
}
