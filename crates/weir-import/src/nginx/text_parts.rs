//! The parts of a text with `$name` and `${name}`, and the bounds of texts that values make longer.

use std::cell::Cell;
use std::rc::Rc;

/// The most bytes of a text after values were put into it: twice nginx's buffer for a word.
pub(crate) const MOST_TEXT_BYTES: usize = 8192;

/// The reason for which a text has no conversion.
const TOO_LONG: &str =
    "with the values of its variables the text has more than 8192 bytes: write a shorter one";

/// The most bytes of all values that are put into the texts of a file.
const MOST_BYTES_OF_FILE: usize = 64 << 20;

/// The reason for which a text has no conversion in a file with many.
const NO_ROOM: &str = "the values of variables have more than 64 MiB in the texts of this file: write fewer or shorter ones";

/// The bytes of values that were put into the texts of a file.
#[derive(Clone, Debug, Default)]
pub(crate) struct TextRoom(Rc<Cell<usize>>);

impl TextRoom {
    /// Counts the bytes of values, which the file may not have room for.
    pub(crate) fn take(&self, bytes: usize) -> Result<(), String> {
        self.0.set(self.0.get().saturating_add(bytes));
        if self.0.get() > MOST_BYTES_OF_FILE {
            return Err(NO_ROOM.to_owned());
        }
        Ok(())
    }

    /// Adds a value to a text, which may become too long by it.
    pub(crate) fn push(&self, out: &mut String, value: &str) -> Result<(), String> {
        if value.len() > MOST_TEXT_BYTES.saturating_sub(out.len()) {
            return Err(TOO_LONG.to_owned());
        }
        self.take(value.len())?;
        out.push_str(value);
        Ok(())
    }
}

/// A variable of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TextPart<'t> {
    /// Its name, without a dollar and braces.
    pub(crate) name: &'t str,
    /// The text after it.
    pub(crate) rest: &'t str,
    /// Both as they were written, after the dollar.
    pub(crate) written: &'t str,
}

/// Returns what stands in front of the first variable of a text, and the variables.
pub(crate) fn split(text: &str) -> (&str, impl Iterator<Item = TextPart<'_>>) {
    let mut pieces = text.split('$');
    let first = pieces.next().unwrap_or_default();
    let parts = pieces.map(|written| {
        let braced = written.strip_prefix('{').and_then(|inner| inner.split_once('}'));
        let is_end = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
        let plain = || written.split_at(written.find(is_end).unwrap_or(written.len()));
        let (name, rest) = braced.unwrap_or_else(plain);
        TextPart { name, rest, written }
    });
    (first, parts)
}

/// Returns texts in one, or nothing if that has more bytes than `most`.
pub(crate) fn joined(texts: [&str; 3], most: usize) -> Option<String> {
    let length: usize = texts.iter().map(|text| text.len()).sum();
    (length <= most).then(|| texts.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_split_at_its_variables() {
        let (first, parts) = split("a$b-c${d.e}f${g");
        let parts: Vec<_> = parts.map(|part| (part.name, part.rest, part.written)).collect();
        assert_eq!(first, "a");
        assert_eq!(parts, [("b", "-c", "b-c"), ("d.e", "f", "{d.e}f"), ("", "{g", "{g")]);
        assert_eq!(split("").0, "");
    }
}
