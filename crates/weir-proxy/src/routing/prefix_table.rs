//! A sorted table of texts that finds, for one text, the entries that are equal to it or begin it.
//! A look-up is one binary search, then one step for each entry that begins another. It knows
//! neither routes nor hosts.

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
    /// The longest other entry that begins this one. An entry that begins a text and is not the
    /// last one before it in the order of the table begins that last one too, so that the parents
    /// of one entry are all that can begin the text.
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

    /// Lets each entry inherit from the longest other entry that begins it, shorter ones first.
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

    /// The values of the entries that begin `text`, with their lengths; the longest first.
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
    fn the_longest_beginning_comes_first() {
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
