//! The byte range of each value in a JSON text, by its path such as `pools[0].name`. A damaged text
//! is read as far as possible. Values are not interpreted.

use std::ops::Range;

/// The places of the values of one text.
pub(crate) struct ValuePlaces {
    /// Paths and byte ranges; an inner value comes before the value that contains it.
    values: Vec<(String, Range<usize>)>,
    /// Keys, with the path of their object.
    keys: Vec<(String, Range<usize>)>,
    end: usize,
}

/// An object or array that is not closed yet.
struct OpenValue {
    path: String,
    start: usize,
    /// The key of the next value, in an object.
    key: Option<String>,
    /// The index of the next value, in an array.
    index: Option<usize>,
}

impl ValuePlaces {
    pub(crate) fn of(text: &str) -> Self {
        let mut reader =
            PlaceReader { text, at: 0, frames: Vec::new(), values: Vec::new(), keys: Vec::new() };
        reader.run();
        while let Some(frame) = reader.frames.pop() {
            reader.values.push((frame.path, frame.start..text.len()));
        }
        Self { values: reader.values, keys: reader.keys, end: text.len() }
    }

    /// Returns the values with their paths.
    pub(crate) fn into_values(self) -> impl Iterator<Item = (String, Range<usize>)> {
        self.values.into_iter()
    }

    /// Returns the key or plain value that ends at this byte, where a parser stopped, or else the
    /// innermost value around it.
    pub(crate) fn before(&self, at: usize) -> (String, Range<usize>) {
        let ends = |(_, range): &&(String, Range<usize>)| range.end == at || range.end == at + 1;
        let found = self.keys.iter().chain(&self.values).find(ends);
        found.cloned().unwrap_or_else(|| self.around(at))
    }

    /// Returns the innermost value that contains this byte.
    pub(crate) fn around(&self, at: usize) -> (String, Range<usize>) {
        let holds = |range: &Range<usize>| range.start <= at && at < range.end.max(range.start + 1);
        let inner = self
            .values
            .iter()
            .filter(|(_, range)| holds(range))
            .min_by_key(|(_, range)| range.len());
        inner.cloned().unwrap_or((String::new(), at.min(self.end)..at.min(self.end)))
    }

    /// Returns the place of the value at a path, or of the nearest value around it.
    pub(crate) fn find(&self, path: &str) -> Range<usize> {
        let mut path = path;
        loop {
            if let Some((_, range)) = self.values.iter().find(|(known, _)| known == path) {
                return range.clone();
            }
            match path.rfind(['.', '[']) {
                Some(at) => path = &path[..at],
                None if path.is_empty() => return 0..self.end.min(1),
                None => path = "",
            }
        }
    }
}

struct PlaceReader<'text> {
    text: &'text str,
    at: usize,
    frames: Vec<OpenValue>,
    values: Vec<(String, Range<usize>)>,
    keys: Vec<(String, Range<usize>)>,
}

impl PlaceReader<'_> {
    fn run(&mut self) {
        while let Some(&byte) = self.text.as_bytes().get(self.at) {
            match byte {
                b'{' | b'[' => self.open(byte),
                b'}' | b']' => self.close(),
                b',' => self.comma(),
                b'"' => self.string(),
                _ if byte.is_ascii_whitespace() || byte == b':' => self.at += 1,
                _ => self.scalar(),
            }
        }
    }

    fn comma(&mut self) {
        if let Some(frame) = self.frames.last_mut() {
            frame.key = None;
            frame.index = frame.index.map(|index| index + 1);
        }
        self.at += 1;
    }

    /// Returns the path of the value that begins here.
    fn path(&self) -> String {
        match self.frames.last() {
            None => String::new(),
            Some(OpenValue { path, index: Some(index), .. }) => format!("{path}[{index}]"),
            Some(OpenValue { path, key, .. }) => {
                let key = key.as_deref().unwrap_or_default();
                if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
            }
        }
    }

    fn open(&mut self, byte: u8) {
        let index = (byte == b'[').then_some(0);
        // serde_json stops at depth 128, so deeper places are not needed.
        let path = if self.frames.len() < 128 { self.path() } else { String::new() };
        self.frames.push(OpenValue { path, start: self.at, key: None, index });
        self.at += 1;
    }

    fn close(&mut self) {
        self.at += 1;
        if let Some(frame) = self.frames.pop() {
            self.values.push((frame.path, frame.start..self.at));
        }
    }

    fn string(&mut self) {
        let start = self.at;
        let bytes = self.text.as_bytes();
        self.at += 1;
        while let Some(&byte) = bytes.get(self.at) {
            self.at += if byte == b'\\' { 2 } else { 1 };
            if byte == b'"' {
                break;
            }
        }
        self.at = self.at.min(bytes.len());
        let object =
            self.frames.last().is_some_and(|frame| frame.index.is_none() && frame.key.is_none());
        if object {
            let text = self.text.get(start..self.at).unwrap_or_default();
            let key = serde_json::from_str(text).unwrap_or_default();
            if let Some(frame) = self.frames.last_mut() {
                self.keys.push((frame.path.clone(), start..self.at));
                frame.key = Some(key);
            }
        } else {
            self.values.push((self.path(), start..self.at));
        }
    }

    fn scalar(&mut self) {
        let start = self.at;
        let rest = &self.text.as_bytes()[start..];
        let length =
            rest.iter().position(|byte| b",:]}[{\"".contains(byte) || byte.is_ascii_whitespace());
        self.at = start + length.unwrap_or(rest.len());
        self.values.push((self.path(), start..self.at));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn finds_values_by_path_and_by_place() {
        let text = r#"{"a": [1, {"b": "x,]"}], "c": null}"#;
        let places = ValuePlaces::of(text);
        let at = |path: &str| &text[places.find(path)];
        assert_eq!(at("a[0]"), "1");
        assert_eq!(at("a[1].b"), "\"x,]\"");
        assert_eq!(at("a[1].missing"), "{\"b\": \"x,]\"}");
        assert_eq!(at("c"), "null");
        assert_eq!(at("nothing"), text);
        assert_eq!(places.around(text.find("x,").unwrap()).0, "a[1].b");
        assert_eq!(places.around(text.find("\"b\"").unwrap()).0, "a[1]");
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "[\\[\\]{}:,\"\\\\a1 ü\n]{0,80}", at in 0usize..100) {
            let places = ValuePlaces::of(&text);
            prop_assert!(places.around(at).1.end <= text.len());
            prop_assert!(text.get(places.find("a[0].b")).is_some());
        }
    }
}
