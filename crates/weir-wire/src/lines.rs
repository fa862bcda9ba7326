//! Where a head ends, looked for only in bytes not seen before, and whether its line ends are all CR LF. Also says which rule a
//! head broke that the tokeniser refused.

use crate::fault::{FieldFault, Located};
use crate::header::{is_token_byte, is_value_byte};
use crate::work;

/// How far the search for a head's end has come. It is carried from call to call while a head arrives, so that each byte is looked
/// at once: [`Scan::default`] for a new head, and the bytes must then only grow.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Scan {
    /// Bytes that need not be looked at again.
    at: usize,
    /// Where the line begins that is being read.
    line_start: usize,
    /// Lines before it; an empty line before the first one is none.
    lines: usize,
}

impl Scan {
    /// Whether nothing was looked at yet.
    pub(crate) fn is_new(self) -> bool {
        self.at == 0
    }

    /// Whether the first line has ended.
    pub(crate) fn has_line(self) -> bool {
        self.lines > 0
    }

    /// Goes on to the blank line; the head's length when it is there. A first line that is empty does not end the head; the caller
    /// decides whether it is allowed. A second one does.
    ///
    /// `first_line` judges the first line once it is whole. More than `headers` lines after it are a fault.
    pub(crate) fn head_end<F: From<FieldFault>>(
        &mut self,
        bytes: &[u8],
        headers: usize,
        first_line: impl Fn(&[u8]) -> Result<(), F>,
    ) -> Result<Option<usize>, Located<F>> {
        work::count(bytes.len() - self.at.min(bytes.len()));
        loop {
            let rest = bytes.get(self.at..).unwrap_or_default();
            let Some(offset) = memchr::memchr2(b'\r', b'\n', rest) else {
                self.at = bytes.len();
                return Ok(None);
            };
            let at = self.at + offset;
            let fault = match rest.get(offset..) {
                Some([b'\r', b'\n', ..]) => None,
                Some([b'\r']) => {
                    self.at = at;
                    return Ok(None);
                }
                Some([b'\r', ..]) => Some(FieldFault::BareCarriageReturn),
                _ => Some(FieldFault::BareLineFeed),
            };
            if let Some(fault) = fault {
                return Err(Located::new(fault.into(), self.line_start));
            }
            let start = std::mem::replace(&mut self.line_start, at + 2);
            self.at = at + 2;
            if at > start {
                self.lines += 1;
            } else if at > 0 {
                return Ok(Some(self.at));
            }
            if self.lines == 1 && at > start {
                let line = bytes.get(start..at).unwrap_or_default();
                first_line(line).map_err(|fault| Located::new(fault, start))?;
            } else if self.lines > headers.saturating_add(1) {
                return Err(Located::new(FieldFault::TooManyHeaders.into(), start));
            }
        }
    }
}

/// The rule that the header lines of `head` break, given that they break one, and where.
pub(crate) fn field_fault(head: &[u8]) -> Located<FieldFault> {
    work::count(head.len());
    let mut next = 0;
    let mut is_first = true;
    for line in head.split(|byte| *byte == b'\n') {
        let start = next;
        next += line.len() + 1;
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        match (line.is_empty(), is_first) {
            (true, true) => {}
            (true, false) => break,
            (false, true) => is_first = false,
            (false, false) => {
                if let Some(fault) = line_fault(line) {
                    return Located::new(fault, start);
                }
            }
        }
    }
    Located::new(FieldFault::BadHeaderName, head.len())
}

/// The rule that a header line breaks.
fn line_fault(line: &[u8]) -> Option<FieldFault> {
    if line.starts_with(b" ") || line.starts_with(b"\t") {
        return Some(FieldFault::FoldedLine);
    }
    let Some(colon) = memchr::memchr(b':', line) else { return Some(FieldFault::BadHeaderName) };
    let (name, value) = line.split_at_checked(colon).unwrap_or_default();
    if name.ends_with(b" ") || name.ends_with(b"\t") {
        return Some(FieldFault::SpaceBeforeColon);
    }
    if name.is_empty() || !name.iter().copied().all(is_token_byte) {
        return Some(FieldFault::BadHeaderName);
    }
    (!value.iter().copied().all(is_value_byte)).then_some(FieldFault::BadHeaderValue)
}

/// Whether this is `HTTP/` digit `.` digit: a version, if not one of ours.
pub(crate) fn is_version(text: &[u8]) -> bool {
    matches!(text.strip_prefix(b"HTTP/"), Some([major, b'.', minor]) if major.is_ascii_digit() && minor.is_ascii_digit())
}
