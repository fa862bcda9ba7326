//! A line of the `json` access log as values.

use std::fmt;

/// One line. Every object in it is flat but `tls` and `captures`, which scenarios do not look at.
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

    /// A text, without escapes being undone; `null` when it is not there.
    pub(crate) fn text(&self, name: &str) -> String {
        self.value(name).to_owned()
    }

    /// A number, if it is there.
    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        match self.value(name) {
            "null" => None,
            number => Some(number.parse().unwrap_or_else(|_| panic!("{name} is {number}"))),
        }
    }

    /// The texts of a list of them, with commas between.
    pub(crate) fn list(&self, name: &str) -> String {
        let key = format!(",\"{name}\":[");
        let at = self.0.find(&key).unwrap_or_else(|| panic!("no {name} in {}", self.0));
        let rest = &self.0[at + key.len()..];
        rest[..rest.find(']').unwrap()].replace('"', "")
    }

    /// These times, in milliseconds, to the microsecond.
    pub(crate) fn expect_times(&self, expected: &[(&str, u64)]) {
        let found: Vec<(&str, Option<u64>)> =
            expected.iter().map(|(name, _)| (*name, self.number(name))).collect();
        let expected: Vec<(&str, Option<u64>)> =
            expected.iter().map(|(name, millis)| (*name, Some(millis * 1_000))).collect();
        assert_eq!(found, expected, "{self:?}");
    }
}
