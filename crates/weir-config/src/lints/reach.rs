//! Decides which requests a condition can match, as far as the conditions alone tell: that one
//! matches only requests that another matches too, or that none can match. It never claims either
//! wrongly; where it cannot tell, it says no.

use std::borrow::Cow;
use std::cell::Cell;

use crate::model::Rule;
use crate::pattern::{PathPattern, PathShape};

/// The deepest nesting that is compared.
const MOST_DEPTH: usize = 16;

/// The comparisons that may still be made, so that a file of any size is checked soon.
pub(super) struct Effort {
    left: Cell<usize>,
}

impl Effort {
    pub(super) fn new(steps: usize) -> Self {
        Self { left: Cell::new(steps) }
    }

    pub(super) fn left(&self) -> usize {
        self.left.get()
    }

    /// Takes this many steps, or returns false if there are no more.
    pub(super) fn spend(&self, steps: usize) -> bool {
        let rest = self.left.get().checked_sub(steps);
        self.left.set(rest.unwrap_or_default());
        rest.is_some()
    }

    /// Sets this many steps apart, or those that are left.
    pub(super) fn share(&self, steps: usize) -> Self {
        let taken = steps.min(self.left.get());
        self.left.set(self.left.get() - taken);
        Self::new(taken)
    }

    /// Takes back the rest of a share.
    pub(super) fn give_back(&self, share: &Self) {
        self.left.set(self.left.get() + share.left.get());
    }
}

/// Returns true if every request that meets `narrow` meets `wide` too.
pub(super) fn implies(narrow: &Rule, wide: &Rule, effort: &Effort) -> bool {
    implied(narrow, wide, MOST_DEPTH, effort)
}

fn implied(narrow: &Rule, wide: &Rule, depth: usize, effort: &Effort) -> bool {
    let Some(depth) = depth.checked_sub(1).filter(|_| effort.spend(1)) else { return false };
    let implied = |narrow: &Rule, wide: &Rule| implied(narrow, wide, depth, effort);
    match (narrow, wide) {
        (_, Rule::All(parts)) => parts.iter().all(|part| implied(narrow, part)),
        (Rule::Any(parts), _) => parts.iter().all(|part| implied(part, wide)),
        (_, Rule::Any(parts)) if parts.iter().any(|part| implied(narrow, part)) => true,
        (Rule::All(parts), _) => parts.iter().any(|part| implied(part, wide)),
        (Rule::Not(narrow), Rule::Not(wide)) => implied(wide, narrow),
        (Rule::Path(narrow), Rule::Path(wide)) => {
            same(narrow, wide, effort)
                || each_in(narrow, wide, effort, |one, other| {
                    effort.spend(length_of(one, other)) && covers(other, one)
                })
        }
        (Rule::Method(narrow), Rule::Method(wide)) => {
            each_in(narrow, wide, effort, |one, other| one == other)
        }
        (Rule::Header(name, _), Rule::Header(other, None)) => name.eq_ignore_ascii_case(other),
        (Rule::Header(name, value), Rule::Header(other, wide)) => {
            name.eq_ignore_ascii_case(other) && value == wide
        }
        (Rule::Cookie(name, _), Rule::Cookie(other, None))
        | (Rule::Query(name, _), Rule::Query(other, None)) => name == other,
        (Rule::Client(narrow), Rule::Client(wide)) => {
            same(narrow, wide, effort)
                || each_in(narrow, wide, effort, |one, other| other.contains(one))
        }
        _ => narrow == wide,
    }
}

/// Returns true if two lists are the same.
fn same<T: PartialEq>(one: &[T], other: &[T], effort: &Effort) -> bool {
    one.len() == other.len() && effort.spend(one.len()) && one == other
}

/// Returns true if each value fits one of the other list.
fn each_in<T>(values: &[T], others: &[T], effort: &Effort, fits: impl Fn(&T, &T) -> bool) -> bool {
    values.iter().all(|one| others.iter().any(|other| effort.spend(1) && fits(one, other)))
}

/// Returns true if no request can meet the condition.
pub(super) fn is_impossible(rule: &Rule, effort: &Effort) -> bool {
    never(rule, MOST_DEPTH, effort)
}

fn never(rule: &Rule, depth: usize, effort: &Effort) -> bool {
    let Some(depth) = depth.checked_sub(1).filter(|_| effort.spend(1)) else { return false };
    match rule {
        Rule::Any(parts) => parts.iter().all(|part| never(part, depth, effort)),
        Rule::All(parts) => {
            let mut pairs = parts.iter().enumerate().flat_map(|(index, one)| {
                parts.iter().skip(index + 1).map(move |other| (one, other))
            });
            parts.iter().any(|part| never(part, depth, effort))
                || pairs.any(|(one, other)| exclude(one, other, effort).unwrap_or(true))
                    && effort.left() > 0
        }
        _ => false,
    }
}

/// Returns true if no request meets both, and nothing if the effort ends before that is known.
fn exclude(one: &Rule, other: &Rule, effort: &Effort) -> Option<bool> {
    if !effort.spend(1) {
        return None;
    }
    match (one, other) {
        (Rule::Not(inner), rule) | (rule, Rule::Not(inner)) => Some(implies(rule, inner, effort)),
        (Rule::Method(one), Rule::Method(other)) => {
            none_in(one, other, effort, |one, other| one == other)
        }
        (Rule::Client(one), Rule::Client(other)) => {
            none_in(one, other, effort, |one, other| other.contains(one) || one.contains(other))
        }
        (Rule::Path(one), Rule::Path(other)) => none_in(one, other, effort, |one, other| {
            !effort.spend(length_of(one, other)) || meet(one, other)
        }),
        _ => Some(false),
    }
}

/// Returns true if no value fits one of the other list, and nothing if the effort ends before.
fn none_in<T>(
    values: &[T],
    others: &[T],
    effort: &Effort,
    fits: impl Fn(&T, &T) -> bool,
) -> Option<bool> {
    for one in values {
        for other in others {
            if !effort.spend(1) {
                return None;
            }
            if fits(one, other) {
                return Some(false);
            }
        }
    }
    Some(true)
}

/// Returns the steps that the length of two patterns adds to their comparison.
fn length_of(one: &PathPattern, other: &PathPattern) -> usize {
    (one.as_str().len() + other.as_str().len()) / 64
}

/// Regexes that match every path.
const EVERYTHING: [&str; 6] = ["~.*", "~^.*", "~^.*$", "~(.*)", "~^(.*)$", "~^"];
/// The rest of a regex that matches everything after a literal beginning.
const ANY_REST: [&str; 5] = ["", ".*", ".*$", "(.*)", "(.*)$"];

/// Returns true if every path that `narrow` matches is matched by `wide`.
fn covers(wide: &PathPattern, narrow: &PathPattern) -> bool {
    if wide.is_any() || EVERYTHING.contains(&wide.as_str()) || wide == narrow {
        return true;
    }
    if let PathShape::Exact(path) = narrow.shape() {
        return wide.matches(path);
    }
    let Some(beginning) = beginning_of(narrow) else { return false };
    match beginning_of(wide).filter(|_| is_prefix_only(wide)) {
        Some(Beginning { text, .. }) if !beginning.text.starts_with(&*text) => false,
        // `/a/*` matches `/a` too, which does not begin with `/a/`.
        Some(Beginning { text, itself }) => {
            itself || !beginning.itself || beginning.text.trim_end_matches('/').starts_with(&*text)
        }
        None => false,
    }
}

/// Returns false only if no path is matched by both.
fn meet(one: &PathPattern, other: &PathPattern) -> bool {
    match (one.shape(), other.shape()) {
        (PathShape::Exact(path), _) => other.matches(path),
        (_, PathShape::Exact(path)) => one.matches(path),
        _ => match (beginning_of(one), beginning_of(other)) {
            (Some(one), Some(other)) => {
                let bare = |text: &str| text.trim_end_matches('/').to_owned();
                let (one, other) = (bare(&one.text), bare(&other.text));
                one.starts_with(&other) || other.starts_with(&one)
            }
            _ => true,
        },
    }
}

/// The text that all paths of a pattern begin with.
struct Beginning<'a> {
    text: Cow<'a, str>,
    /// Set if the text without its last slash matches too.
    itself: bool,
}

fn beginning_of(pattern: &PathPattern) -> Option<Beginning<'_>> {
    let known = |text, itself| Some(Beginning { text: Cow::Borrowed(text), itself });
    match pattern.shape() {
        PathShape::Exact(text) | PathShape::Prefix(text) => known(text, false),
        PathShape::Directory(text) => known(text, true),
        PathShape::Any => {
            let text = literal_beginning(pattern.as_str())?.0;
            (!text.is_empty()).then_some(Beginning { text: Cow::Owned(text), itself: false })
        }
    }
}

/// Returns true if the pattern matches all paths with its beginning.
fn is_prefix_only(pattern: &PathPattern) -> bool {
    let text = pattern.as_str();
    match pattern.shape() {
        PathShape::Exact(_) => false,
        PathShape::Directory(_) => true,
        PathShape::Prefix(start) if !text.starts_with('~') => text.strip_suffix('*') == Some(start),
        PathShape::Prefix(_) | PathShape::Any => {
            literal_beginning(text).is_some_and(|(_, rest)| ANY_REST.contains(&rest))
        }
    }
}

/// Splits a regex that is anchored at the start into its literal beginning and the rest; `None` for
/// any other pattern.
fn literal_beginning(pattern: &str) -> Option<(String, &str)> {
    let expression = pattern.strip_prefix("~^")?;
    // An alternative may begin with anything.
    if expression.contains('|') {
        return None;
    }
    let mut text = String::new();
    let mut characters = expression.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some((_, escaped)) if escaped.is_ascii_punctuation() => text.push(escaped),
                _ => return Some((text, &expression[at..])),
            },
            // The character before these may be missing.
            '?' | '*' | '{' => {
                text.pop();
                return Some((text, &expression[at..]));
            }
            '.' | '+' | '(' | ')' | '[' | ']' | '}' | '^' | '$' => {
                return Some((text, &expression[at..]));
            }
            other => text.push(other),
        }
    }
    Some((text, ""))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    fn path(patterns: &str) -> Rule {
        Rule::Path(patterns.split(' ').map(|pattern| pattern.parse().unwrap()).collect())
    }

    #[test]
    fn wider_paths_are_found() {
        let check = |narrow: &str, wide: &str, expected: bool| {
            let effort = Effort::new(1_000);
            assert_eq!(
                implies(&path(narrow), &path(wide), &effort),
                expected,
                "{narrow} in {wide}"
            );
        };
        check("/a/b/*", "/a/*", true);
        check("/a/*", "/a/b/*", false);
        check("/a", "/a/*", true);
        check("/a/*", "/a*", true);
        check("/a*", "/a/*", false);
        check("/a/*", "~^/a/", false);
        check("~^/a/b", "/a/*", true);
        check("~^/a/b?", "/a/b*", false);
        check("~^/a|/b", "/a*", false);
        check("/a/x.php", "*.php", true);
        check("/a/*/c", "/a/*", true);
        check("/a/b /c", "/a/* /c", true);
        check("/a/b /d", "/a/* /c", false);
        check("/x", "~^/[a-z]$", true);
        check("~^/a\\.b/", "~^/a\\.", true);
        check("~*^/a/b", "/a/*", false);
        check("/a/b/*", "~^/a/(.*)$", true);
        check("/a/*", "~^/a/(.+)$", false);
        check("*.php", "~.*", true);
    }

    #[test]
    fn contradictions_are_found() {
        let effort = Effort::new(1_000);
        let all = |rules: Vec<Rule>| is_impossible(&Rule::All(rules), &effort);
        let method = |name: &str| Rule::Method(vec![name.into()]);
        assert!(all(vec![method("GET"), method("POST")]));
        assert!(!all(vec![method("GET"), method("GET")]));
        assert!(all(vec![path("/a/*"), path("/b")]));
        assert!(!all(vec![path("/a/*"), path("/a/b")]));
        assert!(!all(vec![path("/a/*"), path("/a")]));
        assert!(all(vec![path("/a/b"), Rule::Not(Box::new(path("/a/*")))]));
        assert!(is_impossible(&Rule::Any(Vec::new()), &effort));
        assert!(!is_impossible(&Rule::All(Vec::new()), &effort));
        let client = |text: &str| Rule::Client(vec![text.parse().unwrap()]);
        assert!(all(vec![client("10.0.0.0/8"), client("192.168.0.0/16")]));
        assert!(!all(vec![client("10.0.0.0/8"), client("10.1.0.0/16")]));
    }

    fn pattern() -> impl Strategy<Value = PathPattern> {
        let text = select(vec![
            "/a",
            "/a/",
            "/a/*",
            "/a*",
            "/a/b",
            "/a/b/*",
            "/a/*/c",
            "*.x",
            "*",
            "/*",
            "~^/a",
            "~^/a/b$",
            "~^/a/?b",
            "~^/a|b",
            "~/b",
            "~*^/A",
            "~^/a\\.x",
            "/ab",
            "/ab/*",
            "~^/a/.*",
            "~^/a(.*)$",
            "~.*",
            "~^/a/.+",
        ]);
        text.prop_map(|text| text.parse().unwrap())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(3_000))]

        /// Every claim holds for every path.
        #[test]
        fn claims_about_paths_are_true(
            one in pattern(),
            other in pattern(),
            paths in proptest::collection::vec("(/(a|b|ab|c|A|x|a\\.x|))*", 30),
        ) {
            for path in &paths {
                let (first, second) = (one.matches(path.as_str()), other.matches(path.as_str()));
                prop_assert!(!(covers(&other, &one) && first && !second), "{one} {other} {path}");
                prop_assert!(meet(&one, &other) || !(first && second), "{one} {other} {path}");
            }
        }
    }
}
