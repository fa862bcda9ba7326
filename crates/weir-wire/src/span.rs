//! A piece of the caller's buffer, by position. It keeps no reference, so a head outlives moves and refills of its buffer; what
//! the span means after that is the caller's business.

/// Bytes `start..end` of the buffer a head was parsed from.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Span {
    /// Offset of the first byte.
    pub start: u32,
    /// Offset after the last byte.
    pub end: u32,
}

impl Span {
    /// No bytes.
    pub const EMPTY: Self = Self { start: 0, end: 0 };

    /// The bytes meant, or none when the span does not fit `bytes`.
    #[inline]
    pub fn of(self, bytes: &[u8]) -> &[u8] {
        bytes.get(self.start as usize..self.end as usize).unwrap_or_default()
    }

    /// Whether it covers no byte.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.end <= self.start
    }

    /// Number of bytes covered.
    #[inline]
    pub fn len(self) -> usize {
        self.end.saturating_sub(self.start) as usize
    }

    /// From offsets. Heads are bounded by `MAX_HEAD_BYTES`, so offsets fit.
    #[inline]
    pub(crate) fn new(start: usize, end: usize) -> Self {
        Self { start: start as u32, end: end as u32 }
    }

    /// Where `part`, a slice of `whole`, lies in it.
    #[inline]
    pub(crate) fn within(whole: &[u8], part: &[u8]) -> Self {
        let start = part.as_ptr().addr().wrapping_sub(whole.as_ptr().addr());
        Self::new(start, start.wrapping_add(part.len()))
    }
}
