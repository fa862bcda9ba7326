//! Parses lines of the `json` access log. It shares no code with the writer.

use std::fmt;

/// One line. Its objects are flat except for `tls` and `captures`, which scenarios do not read, and
/// `grpc`.
pub(crate) struct Line(String);

impl fmt::Debug for Line {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl Line {
    pub(crate) fn new(line: &str) -> Self {
        Self(line.to_owned())
    }

    fn value(&self, name: &str) -> &str {
        let key = format!(",\"{name}\":");
        let at = self.0.find(&key).unwrap_or_else(|| panic!("no {name} in {}", self.0));
        let rest = &self.0[at + key.len()..];
        match rest.strip_prefix('"') {
            Some(text) => &text[..text.find('"').unwrap()],
            None => &rest[..rest.find([',', '}']).unwrap()],
        }
    }

    /// Returns a text with its escapes unchanged; `null` if it is null.
    pub(crate) fn text(&self, name: &str) -> String {
        self.value(name).to_owned()
    }

    /// Returns a number, if there is one.
    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        match self.value(name) {
            "null" => None,
            number => Some(number.parse().unwrap_or_else(|_| panic!("{name} is {number}"))),
        }
    }

    /// Returns an object as it is written.
    pub(crate) fn object(&self, name: &str) -> &str {
        let key = format!(",\"{name}\":");
        let at = self.0.find(&key).unwrap_or_else(|| panic!("no {name} in {}", self.0));
        let rest = &self.0[at + key.len()..];
        &rest[..rest.find('}').map_or(rest.len(), |end| end + 1)]
    }

    /// Returns the texts of a list, joined by commas.
    pub(crate) fn list(&self, name: &str) -> String {
        let key = format!(",\"{name}\":[");
        let at = self.0.find(&key).unwrap_or_else(|| panic!("no {name} in {}", self.0));
        let rest = &self.0[at + key.len()..];
        rest[..rest.find(']').unwrap()].replace('"', "")
    }

    /// Checks these times, in milliseconds, to the microsecond.
    pub(crate) fn expect_times(&self, expected: &[(&str, u64)]) {
        let found: Vec<(&str, Option<u64>)> =
            expected.iter().map(|(name, _)| (*name, self.number(name))).collect();
        let expected: Vec<(&str, Option<u64>)> =
            expected.iter().map(|(name, millis)| (*name, Some(millis * 1_000))).collect();
        assert_eq!(found, expected, "{self:?}");
    }
}
