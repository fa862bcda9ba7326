//! Parts of values: fields and words between delimiters, items of lists, parameters and cookies.

use std::ops::Range;

use super::number;

/// A field or a word with its place and its delimiters.
#[derive(Debug)]
pub(super) struct ListPart {
    /// From 1; from the end if it is negative.
    place: i64,
    delimiters: Box<[u8]>,
    /// The number of parts, 0 for all up to the end.
    count: usize,
}

impl ListPart {
    pub(super) fn parse(arguments: &[&str]) -> Result<Self, String> {
        let argument = |at: usize| arguments.get(at).copied().unwrap_or_default();
        Ok(Self {
            place: number::place(argument(0))?,
            delimiters: argument(1).as_bytes().into(),
            count: arguments.get(2).map_or(Ok(1), |text| number::size(text))?,
        })
    }

    /// Returns the field, which may be empty; `None` if there are fewer.
    pub(super) fn field(&self, value: &[u8]) -> Option<Range<usize>> {
        self.part(self.pieces(value), value.len())
    }

    /// Returns the word. Words are never empty.
    pub(super) fn word(&self, value: &[u8]) -> Option<Range<usize>> {
        self.part(self.pieces(value).filter(|piece| !piece.is_empty()), value.len())
    }

    fn pieces<'a>(
        &'a self,
        value: &'a [u8],
    ) -> impl DoubleEndedIterator<Item = Range<usize>> + Clone + 'a {
        let mut start = 0;
        let ends = value
            .iter()
            .enumerate()
            .filter(|(_, byte)| self.delimiters.contains(byte))
            .map(|(at, _)| at)
            .chain([value.len()]);
        let ranges: Vec<Range<usize>> = ends
            .map(|end| {
                let piece = start..end;
                start = end + 1;
                piece
            })
            .collect();
        ranges.into_iter()
    }

    /// Returns the part at the place, and with it the following ones, or those before it if it
    /// counts from the end.
    fn part(
        &self,
        mut pieces: impl DoubleEndedIterator<Item = Range<usize>>,
        length: usize,
    ) -> Option<Range<usize>> {
        let before = usize::try_from(self.place.unsigned_abs()).ok()?.checked_sub(1)?;
        if self.place > 0 {
            let first = pieces.nth(before)?;
            let end = match self.count {
                0 => length,
                count => pieces.take(count - 1).last().map_or(first.end, |piece| piece.end),
            };
            return Some(first.start..end);
        }
        let last = pieces.nth_back(before)?;
        let start = match self.count {
            0 => 0,
            count => pieces.rev().take(count - 1).last().map_or(last.start, |piece| piece.start),
        };
        Some(start..last.end)
    }
}

/// Returns the items of a comma-separated list without surrounding white space. A comma in quotes
/// is part of an item.
pub(super) fn items(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    ranges(value).map(|range| value.get(range).unwrap_or_default())
}

pub(super) fn count(value: &[u8]) -> i64 {
    ranges(value).count() as i64
}

/// Returns the item at a place, which counts from the end if it is negative.
pub(super) fn item(value: &[u8], place: i64) -> Option<Range<usize>> {
    let before = usize::try_from(place.unsigned_abs()).ok()?.checked_sub(1)?;
    if place > 0 {
        return ranges(value).nth(before);
    }
    let at = ranges(value).count().checked_sub(before + 1)?;
    ranges(value).nth(at)
}

fn ranges(value: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let mut start = Some(0);
    std::iter::from_fn(move || {
        let from = start?;
        let rest = value.get(from..)?;
        let (mut quoted, mut escaped) = (false, false);
        let end = rest.iter().position(|byte| {
            match byte {
                _ if escaped => escaped = false,
                b'\\' if quoted => escaped = true,
                b'"' => quoted = !quoted,
                b',' => return !quoted,
                _ => {}
            }
            false
        });
        start = end.map(|end| from + end + 1);
        let end = end.map_or(value.len(), |end| from + end);
        let item = value.get(from..end)?;
        let left = item.len() - item.trim_ascii_start().len();
        let length = item.trim_ascii().len();
        // A blank item has no beginning.
        let left = if length == 0 { 0 } else { left };
        Some(from + left..from + left + length)
    })
}

/// Returns the values of the parameters of a query with that name and a `=`.
pub(super) fn parameters(query: &[u8], name: &[u8]) -> impl Iterator<Item = Range<usize>> {
    named(query, name, b"&;")
}

/// Returns the values of the cookies with that name and a `=`.
pub(super) fn cookies(line: &[u8], name: &[u8]) -> impl Iterator<Item = Range<usize>> {
    named(line, name, b";,")
}

fn named(
    value: &[u8],
    name: &[u8],
    delimiters: &'static [u8],
) -> impl Iterator<Item = Range<usize>> {
    let mut next = Some(0);
    let pairs = std::iter::from_fn(move || {
        let start = next?;
        let rest = value.get(start..)?;
        let end = rest.iter().position(|byte| delimiters.contains(byte));
        next = end.map(|end| start + end + 1);
        Some(start..end.map_or(value.len(), |end| start + end))
    });
    pairs.filter_map(move |range| {
        let pair = value.get(range.clone())?;
        let at = pair.iter().position(|byte| *byte == b'=')?;
        if pair.get(..at)?.trim_ascii() != name {
            return None;
        }
        let value = pair.get(at + 1..)?;
        let start = range.end - value.trim_ascii_start().len();
        Some(start..start + value.trim_ascii().len())
    })
}

/// Leaves only this part of a value.
pub(super) fn keep(value: &mut Vec<u8>, part: Range<usize>) {
    value.truncate(part.end);
    value.drain(..part.start.min(value.len()));
}
