//! Finds the end of a head, scanning only new bytes, and checks that all its line ends are CR LF.
//! Also determines the rule that a head breaks after the tokeniser has refused it.

use crate::fault::{FieldFault, Located};
use crate::header::{is_token_byte, is_value_byte};
use crate::work;

/// Progress of the search for a head's end. It is kept from call to call while a head arrives, so
/// that each byte is scanned once: start a new head with [`Scan::default`], and pass the same bytes
/// with more appended to each later call.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Scan {
    /// Number of bytes that need not be scanned again.
    at: usize,
    /// Start of the line being read.
    line_start: usize,
    /// Number of complete lines; an empty line before the first one does not count.
    lines: usize,
}

impl Scan {
    /// Returns true before any byte was scanned.
    pub(crate) fn is_new(self) -> bool {
        self.at == 0
    }

    /// Returns true once the first line has ended.
    pub(crate) fn has_line(self) -> bool {
        self.lines > 0
    }

    /// Continues to the blank line and returns the head's length once it was found. An empty first
    /// line does not end the head, and the caller decides whether it is allowed; a second empty
    /// line ends it.
    ///
    /// `first_line` checks the first line once it is complete. More than `headers` lines after it
    /// are a fault.
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

/// The rule that the header lines of `head` break, and the position. The caller knows that they
/// break one.
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

/// Tells whether the text is `HTTP/` digit `.` digit: a version, but perhaps not a supported one.
pub(crate) fn is_version(text: &[u8]) -> bool {
    matches!(text.strip_prefix(b"HTTP/"), Some([major, b'.', minor]) if major.is_ascii_digit() && minor.is_ascii_digit())
}
