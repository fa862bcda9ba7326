//! The ranges of a `geo` with `ranges`: a later one replaces the part of an earlier one in which it
//! lies, as in nginx, which keeps them in blocks of 65,536 addresses.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use ipnet::Ipv4Subnets;
use weir_config::source::SourceSpan;
use weir_config::syntax::tree::Directive;

use crate::native::NativeLine;

/// The most networks that the ranges of a `geo` may become.
const MOST_NETWORKS: usize = 300_000;

/// The addresses of a block, less one.
const BLOCK: u32 = 0xffff;

/// A range of IPv4 addresses; nginx has none of IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct AddressRange {
    first: u32,
    last: u32,
}

/// The ranges so far, which do not overlap, by their first addresses.
#[derive(Default)]
pub(crate) struct GeoRanges(BTreeMap<u32, RangeValue>);

#[derive(Clone)]
struct RangeValue {
    last: u32,
    value: String,
    span: SourceSpan,
}

impl AddressRange {
    fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not a range of IPv4 addresses");
        let (first, last) = text.split_once('-').ok_or_else(wrong)?;
        let parse = |text: &str| text.parse::<Ipv4Addr>().map(u32::from).map_err(|_| wrong());
        let (first, last) = (parse(first)?, parse(last)?);
        if first <= last { Ok(Self { first, last }) } else { Err(wrong()) }
    }
}

impl GeoRanges {
    /// Adds a range, whose value replaces those of earlier ones.
    pub(crate) fn add(
        &mut self,
        text: &str,
        value: String,
        span: SourceSpan,
    ) -> Result<(), String> {
        let range = AddressRange::parse(text)?;
        for (first, other) in self.overlapping(range) {
            // In each block, nginx takes a range inside an earlier one, and no other that overlaps.
            let begins = first > range.first && first & BLOCK != 0;
            let ends = other.last < range.last && other.last & BLOCK != BLOCK;
            if begins || ends {
                let [first, last] = [first, other.last].map(Ipv4Addr::from);
                return Err(format!(
                    "nginx refuses `{text}`, which overlaps `{first}-{last}` before it: write the wider range first"
                ));
            }
        }
        self.cut(range);
        self.0.insert(range.first, RangeValue { last: range.last, value, span });
        Ok(())
    }

    /// Removes a range.
    pub(crate) fn delete(&mut self, text: &str) -> Result<(), String> {
        let range = AddressRange::parse(text)?;
        if self.0.get(&range.first).is_some_and(|known| known.last == range.last) {
            self.0.remove(&range.first);
            return Ok(());
        }
        Err(format!("`delete {text}` names no range before it: leave it out"))
    }

    /// Returns the networks of the ranges with their values.
    pub(crate) fn into_lines(self) -> Result<Vec<Directive>, String> {
        let mut lines = Vec::new();
        for (first, RangeValue { last, value, span }) in self.0 {
            for network in Ipv4Subnets::new(first.into(), last.into(), 0) {
                lines.push(NativeLine::entry(&network.to_string(), span).value(&value).end());
            }
            if lines.len() > MOST_NETWORKS {
                return Err(format!("its ranges are more than {MOST_NETWORKS} networks"));
            }
        }
        Ok(lines)
    }

    /// Returns the ranges that have addresses of this one.
    fn overlapping(&self, range: AddressRange) -> Vec<(u32, RangeValue)> {
        let before = self.0.range(..range.first).next_back();
        let before = before.filter(|(_, other)| other.last >= range.first);
        let all = before.into_iter().chain(self.0.range(range.first..=range.last));
        all.map(|(first, other)| (*first, other.clone())).collect()
    }

    /// Takes the addresses of a range from the others.
    fn cut(&mut self, range: AddressRange) {
        for (first, other) in self.overlapping(range) {
            self.0.remove(&first);
            if other.last > range.last {
                self.0.insert(range.last + 1, other.clone());
            }
            if first < range.first {
                self.0.insert(first, RangeValue { last: range.first - 1, ..other });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_config::source::Sources;

    use super::*;
    use crate::native::print;

    #[test]
    fn later_ranges_replace_parts_of_earlier_ones() {
        let file = Sources::default().add("", "");
        let span = SourceSpan { file, start: 0, end: 0 };
        let check = |ranges: &[&str], expected: &[&str]| {
            let mut all = GeoRanges::default();
            for (number, text) in ranges.iter().enumerate() {
                all.add(text, number.to_string(), span).unwrap();
            }
            let lines: Vec<String> =
                print(&all.into_lines().unwrap()).lines().map(str::to_owned).collect();
            assert_eq!(lines, expected, "{ranges:?}");
        };
        check(
            &["10.0.0.0-10.0.0.255", "10.0.0.64-10.0.0.127"],
            &["10.0.0.0/26 0;", "10.0.0.64/26 1;", "10.0.0.128/25 0;"],
        );
        check(&["10.0.0.0-10.0.0.255", "10.0.0.0-10.0.0.255"], &["10.0.0.0/24 1;"]);
        check(&["10.0.0.0-10.0.0.3", "10.0.0.0-10.0.0.1"], &["10.0.0.0/31 1;", "10.0.0.2/31 0;"]);
        check(
            &["255.255.255.254-255.255.255.255", "255.255.255.255-255.255.255.255"],
            &["255.255.255.254/32 0;", "255.255.255.255/32 1;"],
        );
        // Whole blocks are replaced.
        check(&["10.1.0.0-10.1.255.255", "10.0.0.0-10.3.255.255"], &["10.0.0.0/14 1;"]);
        let mut all = GeoRanges::default();
        all.add("10.0.0.8-10.0.0.15", "a".to_owned(), span).unwrap();
        for text in ["10.0.0.0-10.0.0.9", "10.0.0.12-10.0.0.20", "10.0.0.0-10.0.0.255", "9.9.9.9"] {
            assert!(all.add(text, "b".to_owned(), span).is_err(), "{text}");
        }
        assert!(all.delete("10.0.0.8-10.0.0.9").is_err());
        all.delete("10.0.0.8-10.0.0.15").unwrap();
        assert!(all.into_lines().unwrap().is_empty());
    }
}
