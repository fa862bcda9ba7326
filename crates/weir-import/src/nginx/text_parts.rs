//! The parts of a text with `$name` and `${name}`.

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
