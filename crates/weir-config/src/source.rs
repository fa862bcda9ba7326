//! The texts that a configuration was read from, and places in them. Files are only added, so spans
//! stay valid.

mod bounded_read;
mod mappings;

use std::ops::Range;

use foldhash::HashMap;

pub use bounded_read::{MOST_FILE_BYTES, read_bounded, system_message};
pub use mappings::{Mappings, ReplacedWord};

/// The number of a file in its [`Sources`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileId(usize);

/// A range of bytes in one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SourceSpan {
    /// The file.
    pub file: FileId,
    /// The first byte.
    pub start: usize,
    /// The byte after the last one.
    pub end: usize,
}

impl SourceSpan {
    /// Returns the span from the start of `self` to the end of `other`.
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

/// One text and its name in messages.
#[derive(Clone, Debug)]
pub struct SourceText {
    /// The file's path, or a word for a text that is not from a file.
    pub name: String,
    /// The whole text.
    pub text: String,
}

/// The texts read for one configuration.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    files: Vec<SourceText>,
    mappings: Mappings,
}

impl Sources {
    /// Returns sources without texts, whose addresses and paths are read with these mappings.
    pub fn with(mappings: Mappings) -> Self {
        Self { files: Vec::new(), mappings }
    }

    /// Returns what stands for the addresses and paths of the texts.
    pub fn mappings(&self) -> &Mappings {
        &self.mappings
    }

    /// Adds a text.
    pub fn add(&mut self, name: impl Into<String>, text: impl Into<String>) -> FileId {
        self.files.push(SourceText { name: name.into(), text: text.into() });
        FileId(self.files.len() - 1)
    }

    /// Returns a file's text and name. A `FileId` of other `Sources` is a bug of the caller.
    pub fn file(&self, file: FileId) -> &SourceText {
        &self.files[file.0]
    }

    /// Returns every file, in the order of reading.
    pub fn files(&self) -> &[SourceText] {
        &self.files
    }

    /// Returns the text of a span, or an empty text if the span does not fit the file.
    pub fn text(&self, span: SourceSpan) -> &str {
        self.file(span.file).text.get(span.start..span.end).unwrap_or_default()
    }

    /// Returns the line and column at which a span starts.
    pub fn position(&self, span: SourceSpan) -> Position {
        let text = &self.file(span.file).text;
        let start = floor(text, span.start);
        let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
        Position {
            line: text[..start].bytes().filter(|&byte| byte == b'\n').count() + 1,
            column: text[line_start..start].chars().count() + 1,
        }
    }

    /// Returns the byte at a line and column as serde_json counts them: columns in bytes, 0 being
    /// before the first.
    pub(crate) fn offset(&self, file: FileId, line: usize, column: usize) -> usize {
        let text = &self.file(file).text;
        let start = match line {
            0 | 1 => 0,
            _ => text.match_indices('\n').nth(line - 2).map_or(text.len(), |(at, _)| at + 1),
        };
        floor(text, start + column.saturating_sub(1))
    }

    /// Returns the lines that `range` touches, as bytes, and the number of the first.
    pub(crate) fn lines(&self, file: FileId, range: Range<usize>) -> (usize, Range<usize>) {
        let text = &self.file(file).text;
        let (start, end) = (floor(text, range.start), floor(text, range.end));
        let first = text[..start].rfind('\n').map_or(0, |at| at + 1);
        let last = text[end..].find('\n').map_or(text.len(), |at| end + at);
        (text[..first].bytes().filter(|&byte| byte == b'\n').count() + 1, first..last)
    }
}

/// The places of the parts of a configuration, by their paths in its JSON form, such as
/// `listeners[0].sites[1].routes[2]`.
#[derive(Clone, Debug, Default)]
pub struct ModelPlaces {
    places: HashMap<String, PartPlaces>,
}

/// The places of a part and of its fields.
#[derive(Clone, Debug, Default)]
struct PartPlaces {
    own: Option<SourceSpan>,
    /// Few fields, which are looked through; others are parts.
    fields: Vec<(Box<str>, SourceSpan)>,
}

impl PartPlaces {
    const MOST_FIELDS: usize = 32;

    fn field(&self, name: &str) -> Option<SourceSpan> {
        self.fields.iter().find(|(field, _)| **field == *name).map(|(_, span)| *span)
    }
}

impl ModelPlaces {
    /// Notes the place of a part.
    pub(crate) fn note(&mut self, path: String, span: SourceSpan) {
        self.places.entry(path).or_default().own = Some(span);
    }

    /// Notes the place of a field of a part; the whole configuration is the part without a name.
    pub(crate) fn note_field(&mut self, part: &str, field: &str, span: SourceSpan) {
        let places = match self.places.get_mut(part) {
            Some(places) => places,
            None => self.places.entry(part.to_owned()).or_default(),
        };
        if let Some((_, place)) = places.fields.iter_mut().find(|(name, _)| **name == *field) {
            *place = span;
        } else if places.fields.len() < PartPlaces::MOST_FIELDS && !field.contains('[') {
            places.fields.push((field.into(), span));
        } else {
            self.note(path_of(part, field), span);
        }
    }

    /// Returns every part, with the number of its file and its first byte.
    pub(crate) fn each(&self) -> impl Iterator<Item = (String, usize, usize)> {
        self.places.iter().flat_map(|(part, places)| {
            let own = places.own.map(|span| (part.clone(), span));
            let field = |(field, span): &(Box<str>, SourceSpan)| (path_of(part, field), *span);
            let all = own.into_iter().chain(places.fields.iter().map(field));
            all.map(|(path, span)| (path, span.file.0, span.start))
        })
    }

    /// Returns the place of a part, or of the innermost part around it that has one.
    pub fn find(&self, path: &str) -> Option<SourceSpan> {
        let mut path = path;
        loop {
            if let Some(span) = self.exactly(path) {
                return Some(span);
            }
            path = &path[..path.rfind(['.', '['])?];
        }
    }

    /// Returns the place of a part or of a field, which is the rest of the path after a dot.
    fn exactly(&self, path: &str) -> Option<SourceSpan> {
        let own = self.places.get(path).and_then(|places| places.own);
        own.or_else(|| {
            let dots = path.rmatch_indices('.').map(|(dot, _)| (&path[..dot], &path[dot + 1..]));
            let mut splits = dots.chain([("", path)]);
            splits.find_map(|(part, field)| self.places.get(part)?.field(field))
        })
    }
}

fn path_of(part: &str, field: &str) -> String {
    if part.is_empty() { field.to_owned() } else { format!("{part}.{field}") }
}

/// Returns the nearest character boundary at or before `offset`.
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
    fn a_place_is_that_of_the_innermost_part_that_has_one() {
        let mut places = ModelPlaces::default();
        let span = |start| SourceSpan { file: Sources::default().add("x", ""), start, end: start };
        places.note("pools[0]".to_owned(), span(1));
        places.note_field("pools[0]", "timeouts", span(2));
        places.note_field("pools[0]", "timeouts.connect", span(3));
        places.note_field("pools[0]", "endpoints[0]", span(4));
        places.note_field("", "workers", span(5));
        places.note_field("pools[0]", "timeouts", span(6));
        for number in 0..100 {
            places.note_field("listeners[0]", &format!("field{number}"), span(100 + number));
        }
        for (path, expected) in [
            ("pools[0]", Some(1)),
            ("pools[0].timeouts", Some(6)),
            ("pools[0].timeouts.connect", Some(3)),
            ("pools[0].timeouts.send", Some(6)),
            ("pools[0].endpoints[0].weight", Some(4)),
            ("pools[0].name", Some(1)),
            ("workers.count", Some(5)),
            ("listeners[0].field7", Some(107)),
            ("listeners[0].field99", Some(199)),
            ("listeners[0]", None),
            ("logs[1]", None),
        ] {
            assert_eq!(places.find(path).map(|span| span.start), expected, "{path}");
        }
        assert_eq!(places.each().count(), 5 + 100);
    }

    #[test]
    fn positions_count_lines_and_characters() {
        let mut sources = Sources::default();
        let file = sources.add("x", "ab\nçd e\n");
        let at = |start| {
            let Position { line, column } =
                sources.position(SourceSpan { file, start, end: start });
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
