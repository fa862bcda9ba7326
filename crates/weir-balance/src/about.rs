//! What the caller says of an exchange, kept while it waits, for whoever asks who waits and for those behind it in line. Nothing is decided
//! by it, and nothing of it is understood here.

use smallvec::SmallVec;

/// How an exchange is called: 36 bytes, the length of a UUID, need no memory of their own.
pub type Name = SmallVec<[u8; 36]>;

/// Bytes of what is asked for that are kept.
pub const WISH_BYTES: usize = 128;
/// Names kept of those ahead.
pub const AHEAD: usize = 4;
/// The names of the first of those ahead.
pub type Ahead = SmallVec<[Name; AHEAD]>;

/// What the caller says of an exchange, from where it already is: it is copied only if the exchange has to wait.
#[derive(Clone, Copy, Debug, Default)]
pub struct About<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// Who asks.
    pub client: &'a [u8],
    /// How.
    pub method: &'a [u8],
    /// For what.
    pub target: &'a [u8],
}

/// The same, kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Described {
    /// Its name.
    pub name: Name,
    /// Who asks.
    pub client: SmallVec<[u8; 16]>,
    /// Method, a space and the target, of which at most [`WISH_BYTES`].
    pub wish: SmallVec<[u8; WISH_BYTES]>,
    /// Whether there is more of it.
    pub cut: bool,
}

impl Described {
    pub(crate) fn of(about: &About<'_>) -> Self {
        let mut wish = SmallVec::new();
        let mut add = |bytes: &[u8]| {
            let room = WISH_BYTES - wish.len();
            wish.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
            bytes.len() > room
        };
        let cut = [about.method, b" ", about.target].map(&mut add).contains(&true);
        let name = Name::from_slice(about.name);
        Self { name, client: SmallVec::from_slice(about.client), wish, cut }
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn a_long_wish_is_cut_and_says_so() {
        let target = vec![b'a'; 200];
        let about = About { name: b"id", client: &[1], method: b"GET", target: &target };
        let kept = Described::of(&about);
        assert_eq!((kept.wish.len(), kept.wish.spilled(), kept.cut), (WISH_BYTES, false, true));
        let kept = Described::of(&About { target: b"/a", ..about });
        assert_eq!((&kept.wish[..], kept.cut), (&b"GET /a"[..], false));
    }
}
