//! Finds the host block of a request: the first one that serves its host. Names are looked up in a
//! table, and so are wildcards if there are many; regexes and few wildcards are tried one after the
//! other. It knows no route.

use std::collections::{BTreeMap, HashMap};

use smallvec::SmallVec;
use weir_config::model::Site;
use weir_config::pattern::HostPattern;

use crate::http::request_view::bare_host;
use crate::routing::prefix_table::PrefixTable;

/// The largest number of wildcards that are tried one after the other: for so few, that costs less
/// than a table.
const FEW: usize = 8;

/// A host without port and trailing dot, in lower case.
type Name = SmallVec<[u8; 64]>;

/// The host blocks of a listener by the hosts that they serve.
#[derive(Debug)]
pub(super) struct Hosts {
    /// The first host block of each plain name, in lower case and without a trailing dot.
    exact: HashMap<Box<[u8]>, usize>,
    /// The suffixes of the wildcards, in lower case and reversed, if there are more than [`FEW`].
    below: Option<PrefixTable<Below>>,
    /// The other patterns with the number of their host block, in order.
    patterns: Box<[(usize, HostPattern)]>,
}

/// The host blocks that serve the names below a suffix, by number.
#[derive(Clone, Copy, Debug)]
struct Below {
    /// The first one that has this wildcard.
    own: usize,
    /// The first one that has this wildcard or a more general one (`*.b` for `*.a.b`).
    first: usize,
}

impl Hosts {
    pub(super) fn new(sites: &[Site]) -> Self {
        let (mut exact, mut patterns) = (HashMap::new(), Vec::new());
        for (number, site) in sites.iter().enumerate() {
            for host in &site.hosts {
                match plain_name(host) {
                    Some(name) => _ = exact.entry(name).or_insert(number),
                    None => patterns.push((number, host.clone())),
                }
            }
        }
        let wildcards = patterns.iter().filter(|(_, pattern)| pattern.suffix().is_some()).count();
        let mut below = None;
        if wildcards > FEW {
            below = Some(below_names(&patterns));
            patterns.retain(|(_, pattern)| pattern.suffix().is_none());
        }
        Self { exact, below, patterns: patterns.into() }
    }

    /// The number of the first host block that serves `host`.
    pub(super) fn find(&self, host: &[u8]) -> Option<usize> {
        let named = self.looked_up(host);
        let before = named.unwrap_or(usize::MAX);
        let patterns = self.patterns.iter().take_while(|(number, _)| *number < before);
        let matching = patterns.into_iter().find(|(_, pattern)| pattern.matches(host));
        matching.map(|(number, _)| *number).or(named)
    }

    /// The first host block whose name or wildcard is found in a table.
    fn looked_up(&self, host: &[u8]) -> Option<usize> {
        if self.exact.is_empty() && self.below.is_none() {
            return None;
        }
        let mut name = Name::from_slice(bare_host(host));
        name.make_ascii_lowercase();
        let exact = self.exact.get(name.as_slice()).copied();
        let Some(below) = &self.below else { return exact };
        name.reverse();
        // A wildcard stands for at least one byte.
        let mut suffixes = below.beginnings_of(&name).filter(|(len, _)| *len < name.len());
        let below = suffixes.next().map(|(_, below)| below.first);
        exact.into_iter().chain(below).min()
    }
}

/// The table of the wildcards' suffixes.
fn below_names(patterns: &[(usize, HostPattern)]) -> PrefixTable<Below> {
    let mut names: BTreeMap<Box<[u8]>, Below> = BTreeMap::new();
    for (number, pattern) in patterns {
        let Some(suffix) = pattern.suffix() else { continue };
        let mut name = suffix.as_bytes().to_ascii_lowercase();
        name.reverse();
        // Patterns are in the order of host blocks, so the first number is the lowest.
        names.entry(name.into()).or_insert(Below { own: *number, first: *number });
    }
    let mut table = PrefixTable::new(names);
    table.inherit(|own, outer| own.first = own.own.min(outer.first));
    table
}

/// The name of a pattern without wildcard or regex, in the form that [`Hosts`] looks up.
fn plain_name(pattern: &HostPattern) -> Option<Box<[u8]>> {
    let text = pattern.as_str();
    (!text.starts_with(['*', '~'])).then(|| bare_host(text.as_bytes()).to_ascii_lowercase().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(texts: impl IntoIterator<Item = String>) -> Hosts {
        let site = |text: String| {
            let hosts = text.split(' ').map(|host| host.parse().unwrap()).collect();
            Site { hosts, routes: Vec::new() }
        };
        Hosts::new(&texts.into_iter().map(site).collect::<Vec<_>>())
    }

    #[test]
    fn ten_thousand_names_and_wildcards_are_looked_up_in_tables() {
        let names = (0..10_000).map(|number| format!("h{number}.test *.below{number}.test"));
        let hosts = hosts(names);
        assert!(hosts.patterns.is_empty());
        assert_eq!(hosts.find(b"H9999.test:80"), Some(9_999));
        assert_eq!(hosts.find(b"a.b.below4711.TEST."), Some(4_711));
        assert_eq!(hosts.find(b"below4711.test"), None);
    }

    #[test]
    fn the_first_block_wins_among_nested_wildcards() {
        let more = (0..10).map(|number| format!("*.{number}.test"));
        let nested = ["*.a.b", "x.c.b", "*.b", "*.c.b", "*.z.a.b"].map(str::to_owned);
        let hosts = hosts(nested.into_iter().chain(more));
        assert!(hosts.below.is_some());
        let check = |host: &str, expected: Option<usize>| {
            assert_eq!(hosts.find(host.as_bytes()), expected, "{host}");
        };
        check("x.a.b", Some(0));
        check("x.z.a.b", Some(0));
        check("x.c.b", Some(1));
        check("y.c.b", Some(2));
        check("a.b", Some(2));
        check("b", None);
        check(".b", None);
        check(".a.b", Some(2));
        check("", None);
        check("x.9.test", Some(14));
    }
}
