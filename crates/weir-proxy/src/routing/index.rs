//! The index of a long list of routes by their paths: it lists the routes that may match a path, in
//! their order, so that the first one whose whole condition holds is the first of all routes. It
//! evaluates no condition; it leaves out only routes that cannot match.

use std::collections::BTreeMap;

use smallvec::SmallVec;
use weir_config::pattern::PathShape;

use crate::routing::condition::Condition;
use crate::routing::prefix_table::PrefixTable;

/// The largest number of routes that are tried one after the other: for so few, that costs less
/// than an index.
const FEW: usize = 8;

/// The numbers of a list's routes by the paths that they can match.
#[derive(Debug)]
pub(super) struct RouteIndex {
    paths: PrefixTable<Routes>,
    /// The routes whose conditions do not determine the beginning of the path.
    others: Box<[u32]>,
}

/// The numbers of the routes of one text, in ascending order.
#[derive(Debug, Default)]
struct Routes {
    /// For the path that equals this text.
    exact: Vec<u32>,
    /// For paths that begin with this text.
    prefix: Vec<u32>,
}

/// A text that a path must equal or begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PathKey<'a> {
    Exact(&'a [u8]),
    Prefix(&'a [u8]),
}

impl RouteIndex {
    /// The index of routes with these conditions; `None` if trying them one after the other costs
    /// less.
    pub(super) fn new<'a>(conditions: impl Iterator<Item = &'a Condition>) -> Option<Self> {
        let (mut texts, mut others) = (BTreeMap::<Box<[u8]>, Routes>::new(), Vec::new());
        let mut count = 0;
        for (number, condition) in (0..).zip(conditions) {
            count += 1;
            let Some(keys) = keys(condition) else {
                others.push(number);
                continue;
            };
            for key in keys {
                let (text, list): (_, fn(&mut Routes) -> &mut Vec<u32>) = match key {
                    PathKey::Exact(text) => (text, |routes| &mut routes.exact),
                    PathKey::Prefix(text) => (text, |routes| &mut routes.prefix),
                };
                let list = list(texts.entry(text.into()).or_default());
                if list.last() != Some(&number) {
                    list.push(number);
                }
            }
        }
        let is_worth_it = count > FEW && !texts.is_empty();
        is_worth_it.then(|| Self { paths: PrefixTable::new(texts), others: others.into() })
    }

    /// The numbers of the routes that may match this path, in ascending order.
    pub(super) fn candidates<'a>(&'a self, path: &'a [u8]) -> Candidates<'a> {
        let mut lists: SmallVec<[&[u32]; 8]> = SmallVec::new();
        let mut add = |list: &'a [u32]| {
            if !list.is_empty() {
                lists.push(list);
            }
        };
        add(&self.others);
        for (len, routes) in self.paths.beginnings_of(path) {
            add(&routes.prefix);
            if len == path.len() {
                add(&routes.exact);
            }
        }
        Candidates { lists }
    }
}

/// Several ascending lists as one, each number once.
pub(super) struct Candidates<'a> {
    /// The rest of each list; none is empty.
    lists: SmallVec<[&'a [u32]; 8]>,
}

impl Iterator for Candidates<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let number = *self.lists.iter().filter_map(|list| list.first()).min()?;
        self.lists.retain(|list| {
            if let [first, rest @ ..] = *list
                && *first == number
            {
                *list = rest;
            }
            !list.is_empty()
        });
        Some(number)
    }
}

/// A list of keys such that every path that meets the condition fits one of them; `None` if any
/// path may meet the condition.
fn keys(condition: &Condition) -> Option<Vec<PathKey<'_>>> {
    match condition {
        Condition::Path(patterns) => {
            let mut keys = Vec::new();
            for pattern in patterns {
                match pattern.shape() {
                    PathShape::Exact(path) => keys.push(PathKey::Exact(path.as_bytes())),
                    PathShape::Prefix(start) => keys.push(PathKey::Prefix(start.as_bytes())),
                    PathShape::Directory(start) => {
                        keys.push(PathKey::Prefix(start.as_bytes()));
                        let itself = start.strip_suffix('/').unwrap_or(start);
                        keys.push(PathKey::Exact(itself.as_bytes()));
                    }
                    PathShape::Any => return None,
                }
            }
            Some(keys)
        }
        // The keys of any one part are enough; those with the longest texts fit the fewest paths.
        Condition::All(conditions) => {
            conditions.iter().filter_map(keys).max_by_key(|keys| shortest(keys))
        }
        Condition::Any(conditions) => {
            let keys = conditions.iter().map(keys).collect::<Option<Vec<_>>>()?;
            Some(keys.concat())
        }
        Condition::Not(_)
        | Condition::Method(_)
        | Condition::Header(..)
        | Condition::Cookie(..)
        | Condition::Query(..)
        | Condition::Client(_)
        | Condition::Internal(_)
        | Condition::File(_)
        | Condition::Count(_)
        | Condition::Variable(..) => None,
    }
}

/// The length of the shortest text of the keys.
fn shortest(keys: &[PathKey<'_>]) -> usize {
    let len = |key: &PathKey<'_>| match key {
        PathKey::Exact(text) | PathKey::Prefix(text) => text.len(),
    };
    keys.iter().map(len).min().unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use weir_config::model::Rule;

    use super::*;

    fn path(patterns: &str) -> Rule {
        Rule::Path(patterns.split(' ').map(|pattern| pattern.parse().unwrap()).collect())
    }

    fn index(rules: impl IntoIterator<Item = Rule>) -> RouteIndex {
        let conditions: Vec<Condition> =
            rules.into_iter().map(|rule| Condition::compile(&rule)).collect();
        RouteIndex::new(conditions.iter()).unwrap()
    }

    fn candidates(index: &RouteIndex, path: &str) -> Vec<u32> {
        index.candidates(path.as_bytes()).collect()
    }

    #[test]
    fn only_routes_that_can_match_are_candidates() {
        let method = || Rule::Method(vec!["GET".into()]);
        let index = index([
            path("/a/*"),
            path("/a"),
            path("*.php"),
            path("/a/b/*"),
            path("/a/*/c"),
            path("/b /c/* /a"),
            Rule::All(vec![method(), path("/a/b/x")]),
            Rule::Any(vec![method(), path("/z")]),
            Rule::Any(vec![path("/a/b/*"), path("/z")]),
            Rule::Not(Box::new(path("/a"))),
            path("~^/a"),
        ]);
        let always = [2, 7, 9, 10];
        let check = |path: &str, own: &[u32]| {
            let mut expected = [&always, own].concat();
            expected.sort_unstable();
            assert_eq!(candidates(&index, path), expected, "{path}");
        };
        check("/a", &[0, 1, 5]);
        check("/a/", &[0, 4]);
        check("/a/b", &[0, 3, 4, 8]);
        check("/a/b/x", &[0, 3, 4, 6, 8]);
        check("/c", &[5]);
        check("/z", &[8]);
        check("/", &[]);
    }

    #[test]
    fn few_routes_have_no_index() {
        let conditions = |count: usize| vec![Condition::compile(&path("/a")); count];
        assert!(RouteIndex::new(conditions(FEW).iter()).is_none());
        assert!(RouteIndex::new(conditions(FEW + 1).iter()).is_some());
        let regex = Condition::compile(&path("~^/a"));
        assert!(RouteIndex::new(vec![regex; 100].iter()).is_none());
    }

    /// The number of routes that are tried does not grow with the number of routes.
    #[test]
    fn ten_thousand_routes_leave_one_candidate() {
        let exact = index((0..10_000).map(|number| path(&format!("/p{number}"))));
        let below = index((0..10_000).map(|number| path(&format!("/p{number}/*"))));
        for number in [0, 1, 4_711, 9_999] {
            assert_eq!(candidates(&exact, &format!("/p{number}")), [number]);
            assert_eq!(candidates(&below, &format!("/p{number}")), [number]);
            assert_eq!(candidates(&below, &format!("/p{number}/x/y")), [number]);
        }
        assert!(candidates(&exact, "/p10000").is_empty());
        assert!(candidates(&below, "/p/1").is_empty());
    }

    /// If routes have prefixes of one another, a path has one candidate for each configured prefix
    /// of it.
    #[test]
    fn candidates_among_nested_prefixes_are_bounded_by_the_depth_of_the_path() {
        let nested = (0..200).map(|depth| path(&format!("/{}*", "a/".repeat(depth + 1))));
        let index = index(nested);
        assert_eq!(candidates(&index, "/a/a/a/x"), [0, 1, 2]);
        assert!(candidates(&index, "/b").is_empty());
        assert_eq!(candidates(&index, &format!("/{}", "a/".repeat(1_000))).len(), 200);
    }
}
