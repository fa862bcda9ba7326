//! The caller's description of an exchange, kept while the exchange waits. It is shown in listings
//! of the queue and to the exchanges that queue behind it. No decision depends on it, and nothing
//! here interprets it.

use smallvec::SmallVec;

/// An exchange's name. 36 bytes, the length of a UUID, fit without an allocation.
pub type ExchangeName = SmallVec<[u8; 36]>;

/// The largest number of bytes kept of an exchange's method and target.
pub const WISH_BYTES: usize = 128;
/// The largest number of names kept of the exchanges ahead in the queue.
pub const AHEAD: usize = 4;
/// The names of the first [`AHEAD`] exchanges ahead in the queue.
pub type Ahead = SmallVec<[ExchangeName; AHEAD]>;

/// The caller's description of an exchange, borrowed: it is copied only if the exchange has to
/// wait.
#[derive(Clone, Copy, Debug, Default)]
pub struct ExchangeInfo<'a> {
    /// The exchange's name.
    pub name: &'a [u8],
    /// The client.
    pub client: &'a [u8],
    /// The request method.
    pub method: &'a [u8],
    /// The request target.
    pub target: &'a [u8],
}

/// An owned copy of an [`ExchangeInfo`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WaiterInfo {
    /// The exchange's name.
    pub name: ExchangeName,
    /// The client.
    pub client: SmallVec<[u8; 16]>,
    /// Method, a space and the target, together at most [`WISH_BYTES`] bytes.
    pub wish: SmallVec<[u8; WISH_BYTES]>,
    /// Set if `wish` was truncated.
    pub cut: bool,
}

impl WaiterInfo {
    pub(crate) fn of(about: &ExchangeInfo<'_>) -> Self {
        let mut wish = SmallVec::new();
        let mut add = |bytes: &[u8]| {
            let room = WISH_BYTES - wish.len();
            wish.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
            bytes.len() > room
        };
        let cut = [about.method, b" ", about.target].map(&mut add).contains(&true);
        let name = ExchangeName::from_slice(about.name);
        Self { name, client: SmallVec::from_slice(about.client), wish, cut }
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn a_long_wish_is_cut_and_says_so() {
        let target = vec![b'a'; 200];
        let about = ExchangeInfo { name: b"id", client: &[1], method: b"GET", target: &target };
        let kept = WaiterInfo::of(&about);
        assert_eq!((kept.wish.len(), kept.wish.spilled(), kept.cut), (WISH_BYTES, false, true));
        let kept = WaiterInfo::of(&ExchangeInfo { target: b"/a", ..about });
        assert_eq!((&kept.wish[..], kept.cut), (&b"GET /a"[..], false));
    }
}
