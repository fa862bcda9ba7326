//! The parameters of a pick.

use crate::state::member::Tried;

/// The parameters of a pick.
#[derive(Clone, Copy)]
pub(crate) struct Query<'a> {
    pub(crate) now_us: u64,
    pub(crate) random: u64,
    /// The hashed key, for policies that hash.
    pub(crate) key: u64,
    /// The endpoint that affinity names.
    pub(crate) bound: Option<usize>,
    /// Set if the exchange waits for any endpoint because the line of its own endpoint was full.
    pub(crate) overflowed: bool,
    pub(crate) tried: &'a Tried,
    /// Set if the verdicts of probes are ignored.
    pub(crate) panic: bool,
    /// The treatment of stalled endpoints.
    pub(crate) stalls: Stalls,
}

/// The treatment of stalled endpoints in a query. A stalled endpoint with nothing in flight may
/// always be tried by one exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stalls {
    /// Stalled endpoints get nothing.
    Heeded,
    /// Stalled endpoints get nothing until a trial is due.
    Tried,
    /// Stalled endpoints are treated like others, because no other is left.
    Ignored,
}
