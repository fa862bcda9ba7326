//! The texts that a configuration was read from, and places in them. Files are only added, so a span stays good.

use std::ops::Range;

/// Which of the [`Sources`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileId(usize);

/// A range of bytes in one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Span {
    /// The file.
    pub file: FileId,
    /// First byte.
    pub start: usize,
    /// After the last byte.
    pub end: usize,
}

impl Span {
    /// From the start of one to the end of the other.
    #[must_use]
    pub fn to(self, other: Self) -> Self {
        Self { end: other.end.max(self.start), ..self }
    }
}

/// A line and a column, both from 1; columns count characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

/// One text and what it is called in messages.
#[derive(Clone, Debug)]
pub struct Source {
    /// Its path, or a word for text that came from elsewhere.
    pub name: String,
    /// What it says.
    pub text: String,
}

/// Every text read for one configuration.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    files: Vec<Source>,
}

impl Sources {
    /// Keeps a text.
    pub fn add(&mut self, name: impl Into<String>, text: impl Into<String>) -> FileId {
        self.files.push(Source { name: name.into(), text: text.into() });
        FileId(self.files.len() - 1)
    }

    /// The text and its name. A `FileId` of other sources is a bug of the caller.
    pub fn file(&self, file: FileId) -> &Source {
        &self.files[file.0]
    }

    /// Every file, in the order in which it was read.
    pub fn files(&self) -> &[Source] {
        &self.files
    }

    /// The text of a span; nothing where the span is not of this text.
    pub fn text(&self, span: Span) -> &str {
        self.file(span.file).text.get(span.start..span.end).unwrap_or_default()
    }

    /// Where a span starts.
    pub fn position(&self, span: Span) -> Position {
        let text = &self.file(span.file).text;
        let start = floor(text, span.start);
        let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
        Position {
            line: text[..start].bytes().filter(|&byte| byte == b'\n').count() + 1,
            column: text[line_start..start].chars().count() + 1,
        }
    }

    /// The byte at a line and column as serde_json counts them: columns in bytes, 0 being before the first.
    pub(crate) fn offset(&self, file: FileId, line: usize, column: usize) -> usize {
        let text = &self.file(file).text;
        let start = match line {
            0 | 1 => 0,
            _ => text.match_indices('\n').nth(line - 2).map_or(text.len(), |(at, _)| at + 1),
        };
        floor(text, start + column.saturating_sub(1))
    }

    /// The whole lines that hold all of `ranges`, and the number of the first.
    pub(crate) fn lines(&self, file: FileId, range: Range<usize>) -> (usize, Range<usize>) {
        let text = &self.file(file).text;
        let (start, end) = (floor(text, range.start), floor(text, range.end));
        let first = text[..start].rfind('\n').map_or(0, |at| at + 1);
        let last = text[end..].find('\n').map_or(text.len(), |at| end + at);
        (text[..first].bytes().filter(|&byte| byte == b'\n').count() + 1, first..last)
    }
}

/// The nearest character boundary at or before `offset`.
pub(crate) fn floor(text: &str, offset: usize) -> usize {
    let mut offset = offset.min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    offset
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_lines_and_characters() {
        let mut sources = Sources::default();
        let file = sources.add("x", "ab\nçd e\n");
        let at = |start| {
            let Position { line, column } = sources.position(Span { file, start, end: start });
            (line, column)
        };
        assert_eq!(at(0), (1, 1));
        assert_eq!(at(2), (1, 3));
        assert_eq!(at(3), (2, 1));
        assert_eq!(at(5), (2, 2));
        assert_eq!(at(99), (3, 1));
        assert_eq!(sources.lines(file, 6..7), (2, 3..8));
        assert_eq!(sources.offset(file, 2, 1), 3);
    }
}
