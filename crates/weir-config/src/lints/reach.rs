//! Decides which requests a condition can match, as far as the conditions alone tell: that one
//! matches only requests that another matches too, or that none can match. It never claims either
//! wrongly; where it cannot tell, it says no.

use crate::model::Rule;
use crate::pattern::{PathPattern, PathShape};

/// The deepest nesting that is compared.
const MOST_DEPTH: usize = 16;

/// Returns true if every request that meets `narrow` meets `wide` too.
pub(super) fn implies(narrow: &Rule, wide: &Rule) -> bool {
    implied(narrow, wide, MOST_DEPTH)
}

fn implied(narrow: &Rule, wide: &Rule, depth: usize) -> bool {
    let Some(depth) = depth.checked_sub(1) else { return false };
    if narrow == wide {
        return true;
    }
    match (narrow, wide) {
        (_, Rule::All(parts)) => parts.iter().all(|part| implied(narrow, part, depth)),
        (Rule::Any(parts), _) => parts.iter().all(|part| implied(part, wide, depth)),
        (_, Rule::Any(parts)) if parts.iter().any(|part| implied(narrow, part, depth)) => true,
        (Rule::All(parts), _) => parts.iter().any(|part| implied(part, wide, depth)),
        (Rule::Not(narrow), Rule::Not(wide)) => implied(wide, narrow, depth),
        (Rule::Path(narrow), Rule::Path(wide)) => {
            narrow.iter().all(|one| wide.iter().any(|other| covers(other, one)))
        }
        (Rule::Method(narrow), Rule::Method(wide)) => narrow.iter().all(|one| wide.contains(one)),
        (Rule::Header(name, _), Rule::Header(other, None)) => name.eq_ignore_ascii_case(other),
        (Rule::Header(name, value), Rule::Header(other, wide)) => {
            name.eq_ignore_ascii_case(other) && value == wide
        }
        (Rule::Cookie(name, _), Rule::Cookie(other, None))
        | (Rule::Query(name, _), Rule::Query(other, None)) => name == other,
        (Rule::Client(narrow), Rule::Client(wide)) => {
            narrow.iter().all(|one| wide.iter().any(|other| other.contains(one)))
        }
        _ => false,
    }
}

/// Returns true if no request can meet the condition.
pub(super) fn is_impossible(rule: &Rule) -> bool {
    never(rule, MOST_DEPTH)
}

fn never(rule: &Rule, depth: usize) -> bool {
    let Some(depth) = depth.checked_sub(1) else { return false };
    match rule {
        Rule::Any(parts) => parts.iter().all(|part| never(part, depth)),
        Rule::All(parts) => {
            let pairs = parts.iter().enumerate().flat_map(|(index, one)| {
                parts.iter().skip(index + 1).map(move |other| (one, other))
            });
            parts.iter().any(|part| never(part, depth))
                || pairs.take(MOST_PAIRS).any(|(one, other)| exclude(one, other))
        }
        _ => false,
    }
}

/// The largest number of pairs of conditions that are compared.
const MOST_PAIRS: usize = 1_000;

/// Returns true if no request meets both.
fn exclude(one: &Rule, other: &Rule) -> bool {
    match (one, other) {
        (Rule::Not(inner), rule) | (rule, Rule::Not(inner)) => implies(rule, inner),
        (Rule::Method(one), Rule::Method(other)) => !one.iter().any(|name| other.contains(name)),
        (Rule::Client(one), Rule::Client(other)) => !one.iter().any(|network| {
            other.iter().any(|other| other.contains(network) || network.contains(other))
        }),
        (Rule::Path(one), Rule::Path(other)) => {
            !one.iter().any(|pattern| other.iter().any(|other| meet(pattern, other)))
        }
        _ => false,
    }
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
        Some(Beginning { text, .. }) if !beginning.text.starts_with(&text) => false,
        // `/a/*` matches `/a` too, which does not begin with `/a/`.
        Some(Beginning { text, itself }) => {
            itself || !beginning.itself || beginning.text.trim_end_matches('/').starts_with(&text)
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
struct Beginning {
    text: String,
    /// Set if the text without its last slash matches too.
    itself: bool,
}

fn beginning_of(pattern: &PathPattern) -> Option<Beginning> {
    match pattern.shape() {
        PathShape::Exact(path) => Some(Beginning { text: path.to_owned(), itself: false }),
        PathShape::Prefix(text) => Some(Beginning { text: text.to_owned(), itself: false }),
        PathShape::Directory(text) => Some(Beginning { text: text.to_owned(), itself: true }),
        PathShape::Any => {
            let text = literal_beginning(pattern.as_str())?.0;
            (!text.is_empty()).then_some(Beginning { text, itself: false })
        }
    }
}

/// Returns true if the pattern matches all paths with its beginning.
fn is_prefix_only(pattern: &PathPattern) -> bool {
    let text = pattern.as_str();
    match pattern.shape() {
        PathShape::Exact(_) => false,
        PathShape::Directory(_) => true,
        PathShape::Prefix(start) => text.strip_suffix('*') == Some(start),
        PathShape::Any => literal_beginning(text).is_some_and(|(_, rest)| ANY_REST.contains(&rest)),
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
            assert_eq!(implies(&path(narrow), &path(wide)), expected, "{narrow} in {wide}");
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
        let all = |rules: Vec<Rule>| is_impossible(&Rule::All(rules));
        let method = |name: &str| Rule::Method(vec![name.into()]);
        assert!(all(vec![method("GET"), method("POST")]));
        assert!(!all(vec![method("GET"), method("GET")]));
        assert!(all(vec![path("/a/*"), path("/b")]));
        assert!(!all(vec![path("/a/*"), path("/a/b")]));
        assert!(!all(vec![path("/a/*"), path("/a")]));
        assert!(all(vec![path("/a/b"), Rule::Not(Box::new(path("/a/*")))]));
        assert!(is_impossible(&Rule::Any(Vec::new())));
        assert!(!is_impossible(&Rule::All(Vec::new())));
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
