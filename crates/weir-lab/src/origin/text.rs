//! A short text without allocation: the part of a target or an id that a log entry keeps.

use std::fmt;

/// The first `N` bytes of a text; `N` is at most 255.
#[derive(Clone, Copy, Debug)]
pub(super) struct Text<const N: usize> {
    length: u8,
    bytes: [u8; N],
}

impl<const N: usize> Default for Text<N> {
    fn default() -> Self {
        Self { length: 0, bytes: [0; N] }
    }
}

impl<const N: usize> Text<N> {
    #[inline]
    pub(super) fn of(text: &[u8]) -> Self {
        let mut kept = Self::default();
        let length = text.len().min(N).min(255);
        if let (Some(to), Some(from)) = (kept.bytes.get_mut(..length), text.get(..length)) {
            to.copy_from_slice(from);
            kept.length = length as u8;
        }
        kept
    }

    pub(super) fn is_empty(&self) -> bool {
        self.length == 0
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.length)).unwrap_or_default()
    }
}

impl<const N: usize> fmt::Display for Text<N> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&String::from_utf8_lossy(self.as_bytes()))
    }
}
