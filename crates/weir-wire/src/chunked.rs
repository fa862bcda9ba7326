//! The chunked transfer coding (RFC 9112 section 7.1), decoded strictly and without copying the
//! data. Extensions are dropped. Trailers are checked, and kept where they may be passed on.

use std::ops::Range;

use smallvec::SmallVec;

use crate::header::{is_token_byte, is_value_byte};
use crate::known::Known;
use crate::limits::{
    MAX_CHUNK_EXTENSION_BYTES, MAX_CHUNK_SIZE_DIGITS, MAX_LENGTH, MAX_TRAILER_BYTES,
    MAX_TRAILER_LINES,
};

/// Number of hexadecimal digits whose value never exceeds [`MAX_LENGTH`].
const USUAL_SIZE_DIGITS: usize = 15;

/// Decodes one chunked body.
///
/// ```text
///             digit      ';'
/// SizeFirst ───────▶ Size ────▶ Extension ──┐
///     ▲                └───────CR───────────┴▶ SizeLineFeed ─▶ Data ─▶ DataReturn ─▶ DataLineFeed
///     │                                             │ size 0                             │
///     └─────────────────────────────────────────────┼────────────────────────────────────┘
///                                                   ▼
///                           TrailerLineFeed ──▶ TrailerFirst ──CR──▶ LastLineFeed ──▶ End
///                                   ▲───CR── Trailer ◀──┘
/// ```
/// A fault is final: every later step returns it again.
#[derive(Clone, Debug)]
pub struct ChunkedDecoder {
    state: State,
    /// The size read so far; then the number of unread data bytes of the chunk.
    size: u64,
    digits: u8,
    extension_bytes: u32,
    trailer_bytes: usize,
    trailer_lines: usize,
    /// Finished trailer lines, followed by the line being read, which begins at `line_start`.
    trailers: Vec<u8>,
    line_start: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    SizeFirst,
    Size,
    Extension,
    SizeLineFeed,
    Data,
    DataReturn,
    DataLineFeed,
    TrailerFirst,
    Trailer,
    TrailerLineFeed,
    LastLineFeed,
    End,
    Failed(ChunkFault),
}

/// The result of one [`ChunkedDecoder::step`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// Body bytes, as a range of the step's input; never empty.
    Data(Range<usize>),
    /// The whole input was used; more is needed.
    More,
    /// The body is complete; bytes after those used belong to the next message.
    End,
}

/// The reason for refusing a chunked body. Its connection cannot be used any further.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChunkFault {
    /// The size is empty, contains a byte that is no hexadecimal digit, or is followed by white
    /// space.
    BadSize,
    /// The size exceeds the largest allowed body length.
    SizeTooLarge,
    /// A control byte in a chunk extension.
    BadExtension,
    /// The extensions of one chunk are longer than the limit.
    ExtensionTooLong,
    /// A line of the framing does not end in CR LF.
    BadLineEnd,
    /// The data is not followed by CR LF.
    BadDataEnd,
    /// A trailer line that is not a header line.
    BadTrailer,
    /// The trailer section is longer than the limit.
    TrailersTooLong,
}

impl ChunkFault {
    /// One clause for the log.
    pub fn reason(self) -> &'static str {
        match self {
            Self::BadSize => "a malformed chunk size",
            Self::SizeTooLarge => "a chunk size out of range",
            Self::BadExtension => "a control byte in a chunk extension",
            Self::ExtensionTooLong => "a chunk extension longer than the limit",
            Self::BadLineEnd => "a chunk line that does not end in CR LF",
            Self::BadDataEnd => "chunk data that is not followed by CR LF",
            Self::BadTrailer => "a malformed trailer",
            Self::TrailersTooLong => "trailers longer than the limit",
        }
    }
}

impl Default for ChunkedDecoder {
    fn default() -> Self {
        Self::new()
    }
}

impl ChunkedDecoder {
    /// A decoder at the start of a body. It allocates memory only when there are trailers.
    pub fn new() -> Self {
        Self {
            state: State::SizeFirst,
            size: 0,
            digits: 0,
            extension_bytes: 0,
            trailer_bytes: 0,
            trailer_lines: 0,
            trailers: Vec::new(),
            line_start: 0,
        }
    }

    /// Continues with `input` and returns how many bytes of it were used, and the result. Framing
    /// bytes that precede data are used in the same step. After [`Step::Data`], call again with the
    /// remaining bytes.
    ///
    /// # Errors
    /// The rule that the body breaks.
    pub fn step(&mut self, input: &[u8]) -> Result<(usize, Step), ChunkFault> {
        let mut used = 0;
        loop {
            match self.state {
                State::End => return Ok((used, Step::End)),
                State::Failed(fault) => return Err(fault),
                State::Data => return Ok(self.take_data(input.len(), used)),
                _ => {}
            }
            let rest = input.get(used..).unwrap_or_default();
            let run = self.take_run(rest);
            if run > 0 {
                used += run;
                continue;
            }
            let Some(&byte) = rest.first() else { return Ok((used, Step::More)) };
            used += 1;
            self.state = self.advance(byte).unwrap_or_else(State::Failed);
        }
    }

    /// Returns true once the whole body was decoded.
    pub fn is_at_end(&self) -> bool {
        self.state == State::End
    }

    /// The trailer lines to pass on, each `Name: value` CR LF as received; complete once
    /// [`Step::End`] was returned. Fields that affect framing, routing, authentication, caching or
    /// the interpretation of the content are dropped (RFC 9110 section 6.5.1), and so are
    /// hop-by-hop fields.
    pub fn trailers(&self) -> &[u8] {
        self.trailers.get(..self.line_start).unwrap_or_default()
    }

    fn take_data(&mut self, available: usize, used: usize) -> (usize, Step) {
        let take = usize::try_from(self.size).unwrap_or(usize::MAX).min(available - used);
        if take == 0 {
            return (used, Step::More);
        }
        self.size -= take as u64;
        if self.size == 0 {
            self.state = State::DataReturn;
        }
        (used + take, Step::Data(used..used + take))
    }

    /// Takes bytes that need no state change per byte: line ends and sizes in their usual forms,
    /// and the inside of lines. Returns the number of bytes taken. All other bytes, faulty ones
    /// included, are left to [`ChunkedDecoder::advance`].
    fn take_run(&mut self, rest: &[u8]) -> usize {
        match self.state {
            State::DataReturn if rest.starts_with(b"\r\n") => {
                self.state = State::SizeFirst;
                2
            }
            State::SizeFirst => self.take_size_line(rest),
            State::Extension => {
                let room = MAX_CHUNK_EXTENSION_BYTES.saturating_sub(self.extension_bytes) as usize;
                let rest = rest.get(..room).unwrap_or(rest);
                let run = rest.iter().position(|byte| !is_value_byte(*byte)).unwrap_or(rest.len());
                self.extension_bytes += run as u32;
                run
            }
            State::Trailer => {
                let room = MAX_TRAILER_BYTES.saturating_sub(self.trailer_bytes);
                let rest = rest.get(..room).unwrap_or(rest);
                let end = memchr::memchr2(b'\r', b'\n', rest).unwrap_or(rest.len());
                self.trailers.extend_from_slice(rest.get(..end).unwrap_or_default());
                self.trailer_bytes += end;
                end
            }
            _ => 0,
        }
    }

    /// Takes a size line without extensions if the input contains all of it.
    fn take_size_line(&mut self, rest: &[u8]) -> usize {
        let mut size = 0;
        let mut digits = 0;
        // A size with more digits may be out of range.
        while digits < USUAL_SIZE_DIGITS
            && let Some(digit) = rest.get(digits).and_then(|byte| char::from(*byte).to_digit(16))
        {
            size = size << 4 | u64::from(digit);
            digits += 1;
        }
        if digits == 0 || !rest.get(digits..).is_some_and(|after| after.starts_with(b"\r\n")) {
            return 0;
        }
        (self.size, self.extension_bytes) = (size, 0);
        self.state = if size == 0 { State::TrailerFirst } else { State::Data };
        digits + 2
    }

    /// The state after one byte of framing.
    fn advance(&mut self, byte: u8) -> Result<State, ChunkFault> {
        match (self.state, byte) {
            (State::SizeFirst, _) => {
                (self.size, self.digits, self.extension_bytes) = (0, 0, 0);
                self.size_digit(byte)
            }
            (State::Size | State::Extension, b'\r') => Ok(State::SizeLineFeed),
            (State::Size, b';') => Ok(State::Extension),
            (State::Size, _) => self.size_digit(byte),
            (State::Extension, _) => self.extension_byte(byte),
            (State::SizeLineFeed, b'\n') if self.size == 0 => Ok(State::TrailerFirst),
            (State::SizeLineFeed, b'\n') => Ok(State::Data),
            (State::DataReturn, b'\r') => Ok(State::DataLineFeed),
            (State::DataLineFeed, b'\n') => Ok(State::SizeFirst),
            (State::DataReturn | State::DataLineFeed, _) => Err(ChunkFault::BadDataEnd),
            (State::TrailerFirst, b'\r') => Ok(State::LastLineFeed),
            (State::Trailer, b'\r') => Ok(State::TrailerLineFeed),
            (State::TrailerFirst | State::Trailer, b'\n') => Err(ChunkFault::BadLineEnd),
            (State::TrailerFirst | State::Trailer, _) => self.trailer_byte(byte),
            (State::TrailerLineFeed, b'\n') => self.trailer_end(),
            (State::LastLineFeed, b'\n') => Ok(State::End),
            // All other states expect a line feed; `step` does not call this in states that take no
            // framing byte.
            _ => Err(ChunkFault::BadLineEnd),
        }
    }

    fn size_digit(&mut self, byte: u8) -> Result<State, ChunkFault> {
        let Some(digit) = char::from(byte).to_digit(16) else {
            let bare = byte == b'\n' && self.digits > 0;
            return Err(if bare { ChunkFault::BadLineEnd } else { ChunkFault::BadSize });
        };
        self.digits += 1;
        // Sixteen digits fit in 64 bits, so the shift loses nothing.
        self.size = self.size << 4 | u64::from(digit);
        if self.digits > MAX_CHUNK_SIZE_DIGITS || self.size > MAX_LENGTH {
            return Err(ChunkFault::SizeTooLarge);
        }
        Ok(State::Size)
    }

    fn extension_byte(&mut self, byte: u8) -> Result<State, ChunkFault> {
        self.extension_bytes += 1;
        match byte {
            b'\n' => Err(ChunkFault::BadLineEnd),
            _ if !is_value_byte(byte) => Err(ChunkFault::BadExtension),
            _ if self.extension_bytes > MAX_CHUNK_EXTENSION_BYTES => {
                Err(ChunkFault::ExtensionTooLong)
            }
            _ => Ok(State::Extension),
        }
    }

    fn trailer_byte(&mut self, byte: u8) -> Result<State, ChunkFault> {
        self.trailer_bytes += 1;
        if self.trailer_bytes > MAX_TRAILER_BYTES {
            return Err(ChunkFault::TrailersTooLong);
        }
        self.trailers.push(byte);
        Ok(State::Trailer)
    }

    /// Checks the line just read, then keeps or drops it.
    fn trailer_end(&mut self) -> Result<State, ChunkFault> {
        // Line ends count, so that the number of very short lines is bounded as well.
        self.trailer_bytes += 2;
        self.trailer_lines += 1;
        if self.trailer_lines > MAX_TRAILER_LINES {
            return Err(ChunkFault::TrailersTooLong);
        }
        let line = self.trailers.get(self.line_start..).unwrap_or_default();
        let colon = memchr::memchr(b':', line).ok_or(ChunkFault::BadTrailer)?;
        let (name, value) = line.split_at_checked(colon).ok_or(ChunkFault::BadTrailer)?;
        if name.is_empty()
            || !name.iter().copied().all(is_token_byte)
            || !value.iter().copied().all(is_value_byte)
        {
            return Err(ChunkFault::BadTrailer);
        }
        if may_trail(name) {
            self.trailers.extend_from_slice(b"\r\n");
            self.line_start = self.trailers.len();
        } else {
            self.trailers.truncate(self.line_start);
        }
        Ok(State::TrailerFirst)
    }
}

/// Tells whether a trailer of this name is passed on (RFC 9110 section 6.5.1). `_` is taken for
/// `-`, because programs behind CGI cannot tell them apart.
fn may_trail(name: &[u8]) -> bool {
    /// Fields of caching, routing, authentication and response control that are not in [`Known`].
    const NEVER: [&[u8]; 20] = [
        b"age",
        b"alt-svc",
        b"expires",
        b"max-forwards",
        b"method",
        b"path",
        b"pragma",
        b"proxy",
        b"refresh",
        b"status",
        b"strict-transport-security",
        b"via",
        b"warning",
        b"www-authenticate",
        b"x-http-method",
        b"x-http-method-override",
        b"x-method-override",
        b"x-original-url",
        b"x-rewrite-url",
        b"x-client-ip",
    ];
    /// Prefixes of dropped fields: interpretation of the content, conditions, fields of other
    /// proxies, and permissions for browsers.
    const FAMILIES: [&[u8]; 7] =
        [b"content-", b"if-", b"proxy-", b"x-forwarded-", b"sec-", b"access-control-", b"x-accel-"];
    let plain = |byte: &u8| if *byte == b'_' { b'-' } else { byte.to_ascii_lowercase() };
    let name: SmallVec<[u8; 64]> = name.iter().map(plain).collect();
    match Known::of(&name) {
        Known::Etag | Known::LastModified | Known::Server => true,
        // A digest of the content is often known only at its end (RFC 9530).
        Known::Other if name.as_slice() == b"content-digest" => true,
        Known::Other => {
            !NEVER.contains(&name.as_slice())
                && !FAMILIES.iter().any(|family| name.starts_with(family))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trailer_section_has_so_many_lines_at_most() {
        let after = |lines: usize| {
            let body = ["0\r\n", &"a:\r\n".repeat(lines), "\r\n"].concat();
            ChunkedDecoder::new().step(body.as_bytes()).map(|(_, step)| step)
        };
        assert_eq!(after(MAX_TRAILER_LINES), Ok(Step::End));
        assert_eq!(after(MAX_TRAILER_LINES + 1), Err(ChunkFault::TrailersTooLong));
    }
}
