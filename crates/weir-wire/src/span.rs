//! A part of the caller's buffer, by position. It holds no reference, so a head remains usable when
//! its buffer moves. A span does not notice that the buffer was refilled; the caller must.

/// Bytes `start..end` of the buffer from which a head was parsed.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Span {
    /// Offset of the first byte.
    pub start: u32,
    /// Offset after the last byte.
    pub end: u32,
}

impl Span {
    /// The empty span.
    pub const EMPTY: Self = Self { start: 0, end: 0 };

    /// The bytes of the span in `bytes`; empty if the span does not fit.
    #[inline]
    pub fn of(self, bytes: &[u8]) -> &[u8] {
        bytes.get(self.start as usize..self.end as usize).unwrap_or_default()
    }

    /// Returns true if the span covers no byte.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.end <= self.start
    }

    /// Number of bytes covered.
    #[inline]
    pub fn len(self) -> usize {
        self.end.saturating_sub(self.start) as usize
    }

    /// A span from offsets. Heads are bounded by `MAX_HEAD_BYTES`, so offsets fit in 32 bits.
    #[inline]
    pub(crate) fn new(start: usize, end: usize) -> Self {
        Self { start: start as u32, end: end as u32 }
    }

    /// The position of `part`, a slice of `whole`.
    #[inline]
    pub(crate) fn within(whole: &[u8], part: &[u8]) -> Self {
        let start = part.as_ptr().addr().wrapping_sub(whole.as_ptr().addr());
        Self::new(start, start.wrapping_add(part.len()))
    }
}
