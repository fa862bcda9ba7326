//! A sorted table of texts that finds all entries that are prefixes of one text, or equal to it. A
//! look-up is one binary search, then one step for each level of nested prefixes. It knows neither
//! routes nor hosts.

use std::collections::BTreeMap;

/// A table of texts with a value each.
#[derive(Debug)]
pub(super) struct PrefixTable<V> {
    /// Sorted by text.
    entries: Box<[PrefixEntry<V>]>,
}

#[derive(Debug)]
struct PrefixEntry<V> {
    text: Box<[u8]>,
    /// The longest other entry that is a prefix of this one. In sorted order, a prefix of a text is
    /// also a prefix of every entry between itself and the text. So the last entry before the text
    /// and the chain of that entry's parents include all prefixes of the text.
    parent: Option<u32>,
    value: V,
}

impl<V> PrefixTable<V> {
    pub(super) fn new(texts: BTreeMap<Box<[u8]>, V>) -> Self {
        let mut entries: Vec<PrefixEntry<V>> = Vec::with_capacity(texts.len());
        for (text, value) in texts {
            let mut parent = entries.len().checked_sub(1).map(|last| last as u32);
            while let Some(entry) = parent.and_then(|number| entries.get(number as usize)) {
                if text.starts_with(&entry.text) {
                    break;
                }
                parent = entry.parent;
            }
            entries.push(PrefixEntry { text, parent, value });
        }
        Self { entries: entries.into() }
    }

    /// Calls `inherit` for each entry and the longest other entry that is a prefix of it, shorter
    /// entries first.
    pub(super) fn inherit(&mut self, inherit: impl Fn(&mut V, &V)) {
        for number in 0..self.entries.len() {
            let Some((before, [entry, ..])) = self.entries.split_at_mut_checked(number) else {
                return;
            };
            if let Some(parent) = entry.parent.and_then(|parent| before.get(parent as usize)) {
                inherit(&mut entry.value, &parent.value);
            }
        }
    }

    /// The lengths and values of the entries that are prefixes of `text` or equal to it, the
    /// longest first.
    pub(super) fn beginnings_of<'a>(
        &'a self,
        text: &'a [u8],
    ) -> impl Iterator<Item = (usize, &'a V)> {
        let after = self.entries.partition_point(|entry| *entry.text <= *text);
        let at = |number: Option<u32>| self.entries.get(number? as usize);
        let last = at(after.checked_sub(1).map(|last| last as u32));
        let line = std::iter::successors(last, move |entry| at(entry.parent));
        line.skip_while(|entry| !text.starts_with(&entry.text))
            .map(|entry| (entry.text.len(), &entry.value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(texts: &str, text: &str, expected: &str) {
        let texts = texts.split(' ').map(|text| (text.as_bytes().into(), text.to_owned()));
        let table = PrefixTable::new(texts.collect());
        let found: Vec<&str> =
            table.beginnings_of(text.as_bytes()).map(|(_, value)| value.as_str()).collect();
        assert_eq!(found.join(" "), expected, "{text}");
    }

    #[test]
    fn the_longest_prefix_comes_first() {
        let texts = "/ /a /a/ /a/b /a/b/c /ab /b";
        check(texts, "/a/b/c/d", "/a/b/c /a/b /a/ /a /");
        check(texts, "/a/b", "/a/b /a/ /a /");
        check(texts, "/a/c", "/a/ /a /");
        check(texts, "/abc", "/ab /a /");
        check(texts, "/c", "/");
        check(texts, "c", "");
        check(texts, "", "");
        check("b", "a", "");
    }
}
