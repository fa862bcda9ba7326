//! Every bound of this crate. Bounds that an operator can configure arrive as [`HeadLimits`]; the
//! others are constants here.

/// Bounds on one message head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadLimits {
    /// Bytes of the head, the blank line included.
    pub head_bytes: usize,
    /// Bytes of a request line without its line end; not used for responses.
    pub request_line_bytes: usize,
    /// Number of header lines.
    pub headers: usize,
}

impl Default for HeadLimits {
    fn default() -> Self {
        Self { head_bytes: 32 * 1024, request_line_bytes: 8 * 1024, headers: 100 }
    }
}

impl HeadLimits {
    /// The number of bytes in which a head must end; at most the range of a [`Span`](crate::Span).
    pub(crate) fn window(self) -> usize {
        self.head_bytes.min(MAX_HEAD_BYTES)
    }
}

/// Upper bound of a head, whatever is configured: spans are 32 bits wide.
pub(crate) const MAX_HEAD_BYTES: usize = 16 * 1024 * 1024;
/// Header lines that are tokenised on the stack. A longer head within [`HeadLimits`] is allowed but
/// costs an allocation.
pub(crate) const STACK_HEADERS: usize = 128;
/// Names that `Connection` may list besides `close`, `keep-alive` and `upgrade`. Each is compared
/// with each header name.
pub(crate) const MAX_CONNECTION_NAMES: usize = 16;
/// Elements that all `Connection` lines of a head may have together, those three options and empty
/// elements included.
pub(crate) const MAX_CONNECTION_OPTIONS: u8 = 64;
/// Largest body length: many programs keep it in a signed 64-bit integer.
pub(crate) const MAX_LENGTH: u64 = i64::MAX as u64;
/// Hexadecimal digits of a chunk size, leading zeros included.
pub(crate) const MAX_CHUNK_SIZE_DIGITS: u8 = 16;
/// Bytes of the extensions of one chunk.
pub(crate) const MAX_CHUNK_EXTENSION_BYTES: u32 = 1024;
/// Bytes of a whole trailer section, dropped lines included.
pub(crate) const MAX_TRAILER_BYTES: usize = 8 * 1024;
/// Lines of a trailer section, dropped ones included.
pub(crate) const MAX_TRAILER_LINES: usize = 128;
