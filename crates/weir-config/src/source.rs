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
    parts: Vec<PartPlaces>,
    /// The number of each part among `parts`.
    numbers: HashMap<String, usize>,
    /// The path and the number of the part that was noted last: notes of a part follow each other.
    last: (String, usize),
}

/// The places of a part and of its fields.
#[derive(Clone, Debug, Default)]
struct PartPlaces {
    own: Option<SourceSpan>,
    fields: Vec<FieldPlace>,
}

/// The place of a field (the last line, if there are several) or of an option of its line.
#[derive(Clone, Debug)]
struct FieldPlace {
    field: &'static str,
    /// The field within the field; empty for the field itself.
    option: &'static str,
    span: SourceSpan,
}

impl FieldPlace {
    fn is_named(&self, name: &str) -> bool {
        match name.strip_prefix(self.field) {
            Some("") => self.option.is_empty(),
            Some(rest) => rest.strip_prefix('.').is_some_and(|option| option == self.option),
            None => false,
        }
    }

    fn name(&self) -> String {
        path_of(self.field, self.option)
    }
}

impl PartPlaces {
    fn field(&self, name: &str) -> Option<SourceSpan> {
        self.fields.iter().find(|place| place.is_named(name)).map(|place| place.span)
    }
}

impl ModelPlaces {
    /// Notes the place of a part.
    pub(crate) fn note(&mut self, path: &str, span: SourceSpan) {
        self.part_mut(path).own = Some(span);
    }

    /// Notes the place of a field of a part, or of an option of that field if it is not empty; the
    /// whole configuration is the part without a name.
    pub(crate) fn note_field(
        &mut self,
        part: &str,
        [field, option]: [&'static str; 2],
        span: SourceSpan,
    ) {
        let fields = &mut self.part_mut(part).fields;
        let is_same = |place: &&mut FieldPlace| place.field == field && place.option == option;
        match fields.iter_mut().find(is_same) {
            Some(place) => place.span = span,
            None => fields.push(FieldPlace { field, option, span }),
        }
    }

    /// Returns a part; a new one is added.
    fn part_mut(&mut self, path: &str) -> &mut PartPlaces {
        if self.parts.is_empty() || self.last.0 != path {
            let number = self.numbers.get(path).copied().unwrap_or(self.parts.len());
            if number == self.parts.len() {
                self.numbers.insert(path.to_owned(), number);
                self.parts.push(PartPlaces::default());
            }
            path.clone_into(&mut self.last.0);
            self.last.1 = number;
        }
        &mut self.parts[self.last.1]
    }

    fn part(&self, path: &str) -> Option<&PartPlaces> {
        self.numbers.get(path).map(|number| &self.parts[*number])
    }

    /// Returns every part, with the number of its file and its first byte.
    pub(crate) fn each(&self) -> impl Iterator<Item = (String, usize, usize)> {
        self.numbers.iter().flat_map(|(part, number)| {
            let places = &self.parts[*number];
            let own = places.own.map(|span| (part.clone(), span));
            let field = |place: &FieldPlace| (path_of(part, &place.name()), place.span);
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
        let own = self.part(path).and_then(|places| places.own);
        own.or_else(|| {
            let dots = path.rmatch_indices('.').map(|(dot, _)| (&path[..dot], &path[dot + 1..]));
            let mut splits = dots.chain([("", path)]);
            splits.find_map(|(part, field)| self.part(part)?.field(field))
        })
    }
}

fn path_of(part: &str, field: &str) -> String {
    match (part, field) {
        ("", only) | (only, "") => only.to_owned(),
        _ => format!("{part}.{field}"),
    }
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
        places.note("pools[0]", span(1));
        places.note_field("pools[0]", ["timeouts", ""], span(2));
        places.note_field("pools[0]", ["timeouts", "connect"], span(3));
        places.note("pools[0].endpoints[0]", span(4));
        places.note_field("pools[0].endpoints[0]", ["max_conn", ""], span(7));
        places.note_field("", ["workers", ""], span(5));
        places.note_field("pools[0]", ["timeouts", ""], span(6));
        for (path, expected) in [
            ("pools[0]", Some(1)),
            ("pools[0].timeouts", Some(6)),
            ("pools[0].timeouts.connect", Some(3)),
            ("pools[0].timeouts.send", Some(6)),
            ("pools[0].timeoutsconnect", Some(1)),
            ("pools[0].endpoints[0].weight", Some(4)),
            ("pools[0].endpoints[0].max_conn", Some(7)),
            ("pools[0].name", Some(1)),
            ("workers.count", Some(5)),
            ("listeners[0]", None),
            ("logs[1]", None),
        ] {
            assert_eq!(places.find(path).map(|span| span.start), expected, "{path}");
        }
        let each: Vec<String> = places.each().map(|(path, ..)| path).collect();
        assert_eq!(each.len(), 6);
        assert!(each.contains(&"pools[0].timeouts.connect".to_owned()), "{each:?}");
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
