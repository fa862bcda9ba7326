//! Where a head ends, looked for only in bytes not seen before, and whether its line ends are all CR LF. Also says which rule a
//! head broke that the tokeniser refused.

use crate::fault::FieldFault;
use crate::header::{is_token_byte, is_value_byte};

/// Continues the search for the blank line from `scanned`; the head's length when it is there.
///
/// A first line that is empty does not end the head; the caller decides whether it is allowed. A second one does.
pub(crate) fn head_end(bytes: &[u8], scanned: &mut usize) -> Result<Option<usize>, FieldFault> {
    loop {
        let rest = bytes.get(*scanned..).unwrap_or_default();
        let Some(offset) = memchr::memchr2(b'\r', b'\n', rest) else {
            *scanned = bytes.len();
            return Ok(None);
        };
        let at = *scanned + offset;
        match rest.get(offset..) {
            Some([b'\r', b'\n', ..]) => {}
            Some([b'\r']) => {
                *scanned = at;
                return Ok(None);
            }
            Some([b'\r', ..]) => return Err(FieldFault::BareCarriageReturn),
            _ => return Err(FieldFault::BareLineFeed),
        }
        *scanned = at + 2;
        // Every line feed before this one ended a line, so a line feed just before means an empty line.
        if at > 0 && bytes.get(at - 1) == Some(&b'\n') {
            return Ok(Some(*scanned));
        }
    }
}

/// What the tokeniser, which takes a bare line feed for a line end, says of the lines of a head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tokenised {
    /// Where it saw the head end.
    pub(crate) end: usize,
    /// Whether each header line begins after a CR LF.
    pub(crate) lines_strict: bool,
}

impl Tokenised {
    /// The end, if every line up to it ends in CR LF.
    #[inline]
    pub(crate) fn strict_end(self, bytes: &[u8]) -> Option<usize> {
        let head = bytes.get(..self.end)?;
        (self.lines_strict && head.ends_with(b"\r\n\r\n")).then_some(self.end)
    }
}

/// The rule that the header lines of `head` break, given that they break one.
pub(crate) fn field_fault(head: &[u8]) -> FieldFault {
    let lines =
        head.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    for line in lines.skip_while(|line| line.is_empty()).skip(1).take_while(|line| !line.is_empty())
    {
        if line.starts_with(b" ") || line.starts_with(b"\t") {
            return FieldFault::FoldedLine;
        }
        let Some(colon) = memchr::memchr(b':', line) else { return FieldFault::BadHeaderName };
        let (name, value) = line.split_at_checked(colon).unwrap_or_default();
        if name.ends_with(b" ") || name.ends_with(b"\t") {
            return FieldFault::SpaceBeforeColon;
        }
        if name.is_empty() || !name.iter().copied().all(is_token_byte) {
            return FieldFault::BadHeaderName;
        }
        if !value.iter().copied().all(is_value_byte) {
            return FieldFault::BadHeaderValue;
        }
    }
    FieldFault::BadHeaderName
}

/// Whether this is `HTTP/` digit `.` digit: a version, if not one of ours.
pub(crate) fn is_version(text: &[u8]) -> bool {
    matches!(text.strip_prefix(b"HTTP/"), Some([major, b'.', minor]) if major.is_ascii_digit() && minor.is_ascii_digit())
}
