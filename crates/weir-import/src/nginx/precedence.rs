//! nginx's choice of a location as a list of which the first match wins: an exact location first,
//! then the longest prefix, in which nested locations are looked for, then the regexes of the
//! innermost prefix and of those around it, unless one of them has `^~`. It knows no contents of a
//! location.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashSet};
use std::rc::Rc;

use weir_config::syntax::lexer::Word;

use super::route_parts::RouteParts;
use super::statements::StatementId;

/// The kind of a location.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Match {
    Exact,
    /// A prefix with `^~`, after which no regex is tried.
    Final,
    Prefix,
    Regex,
    /// `@name`, which only internal redirects reach.
    Named,
}

/// One location: its pattern, the routes that it becomes, and the locations inside it.
pub(crate) struct Location {
    pub(crate) id: StatementId,
    pub(crate) kind: Match,
    pub(crate) pattern: String,
    pub(crate) routes: Vec<LocationRoute>,
    /// Set if nginx sends requests for the prefix without its slash to the prefix.
    pub(crate) redirects: bool,
    pub(crate) inner: Vec<Location>,
}

/// A route of a location, with a condition besides that of the location.
pub(crate) struct LocationRoute {
    pub(crate) id: StatementId,
    pub(crate) condition: Vec<Word>,
    pub(crate) parts: RouteParts,
}

impl Location {
    fn is_prefix(&self) -> bool {
        matches!(self.kind, Match::Prefix | Match::Final)
    }

    /// Returns true if an internal redirect may come from it or from a location inside it.
    pub(crate) fn leads_inside(&self) -> bool {
        self.routes.iter().any(|route| route.parts.leads_inside())
            || self.inner.iter().any(Self::leads_inside)
    }
}

/// One place in the list.
pub(crate) struct LocationEntry<'l> {
    /// The native patterns that the path must match, the innermost regex first of the regexes.
    pub(crate) patterns: Vec<String>,
    pub(crate) location: &'l Location,
    /// Set for the path of a prefix without its slash.
    pub(crate) redirects: bool,
}

/// Returns the list for the locations of a server; `None` if it would be more than `most` routes.
pub(crate) fn in_order(locations: &[Location], most: usize) -> Option<Vec<LocationEntry<'_>>> {
    let mut order = PrecedenceList { entries: Vec::new(), routes: 0, most };
    order.level(&Around::default(), locations, None);
    (order.routes <= most).then_some(order.entries)
}

/// The match of a path before the locations of a level are looked at.
#[derive(Clone, Default)]
struct Around {
    prefixes: Vec<String>,
    /// The innermost first.
    regexes: Vec<String>,
}

impl Around {
    fn with_prefix(&self, pattern: String) -> Self {
        let mut inner = self.clone();
        inner.prefixes.push(pattern);
        inner
    }

    /// A regex without groups has none of those around it either.
    fn with_regex(&self, pattern: &str) -> Self {
        let mut inner = self.clone();
        let hides = !self.regexes.is_empty() && !pattern.contains('(');
        inner.regexes.insert(0, if hides { format!("{pattern}()") } else { pattern.to_owned() });
        inner
    }

    fn patterns(&self) -> Vec<String> {
        [self.prefixes.as_slice(), &self.regexes].concat()
    }
}

/// The regexes that are tried for paths of a prefix, in order.
#[derive(Clone)]
struct Permitted<'l> {
    /// Those of the level and of the levels around it.
    here: Rc<[&'l Location]>,
    /// Those of the levels around it only.
    outer: Rc<[&'l Location]>,
}

/// A location without a regex that can be reached.
struct Reachable<'l> {
    location: &'l Location,
    depth: usize,
    /// The regexes that are tried before it, in order.
    regexes: Rc<[&'l Location]>,
}

/// The list while it is written. It grows no further once it is too long.
struct PrecedenceList<'l> {
    entries: Vec<LocationEntry<'l>>,
    /// The number of routes of all entries.
    routes: usize,
    most: usize,
}

impl<'l> PrecedenceList<'l> {
    fn push(&mut self, around: &Around, location: &'l Location, redirects: bool) {
        self.routes = self.routes.saturating_add(location.routes.len().max(1));
        if self.routes <= self.most {
            self.entries.push(LocationEntry { patterns: around.patterns(), location, redirects });
        }
    }

    /// Appends a regex with the locations inside it.
    fn regex(&mut self, around: &Around, regex: &'l Location) {
        if self.routes > self.most {
            return;
        }
        let around = around.with_regex(&regex.pattern);
        if regex.inner.is_empty() {
            self.push(&around, regex, false);
        } else {
            self.level(&around, &regex.inner, Some(regex));
        }
    }

    /// Appends the locations of a server, or of one with a regex, which takes what no location
    /// inside it takes.
    fn level(&mut self, around: &Around, locations: &'l [Location], own: Option<&'l Location>) {
        let regexes: Rc<[&Location]> = regexes_of(locations).collect();
        let mut search = Search { levels: Vec::new(), found: Vec::new(), left: self.most };
        let all = Permitted { here: Rc::clone(&regexes), outer: Rc::from([]) };
        search.level(locations, &all);
        let mut found = search.found;
        found.sort_by_key(|one| one.depth);
        let mut whole: HashSet<&str> = HashSet::new();
        for one in found.iter().filter(|one| one.location.kind == Match::Exact) {
            whole.insert(&one.location.pattern);
            self.push(&around.with_prefix(exact(&one.location.pattern)), one.location, false);
        }
        found.retain(|one| one.location.is_prefix());
        found.sort_by_key(|one| Reverse((one.location.pattern.len(), one.depth)));
        let names: HashSet<&str> = found.iter().map(|one| one.location.pattern.as_str()).collect();
        for one in found.iter().filter(|one| one.location.redirects) {
            let pattern = one.location.pattern.as_str();
            let name = pattern.trim_end_matches('/');
            if pattern.len() - name.len() == 1 && !names.contains(name) && whole.insert(name) {
                self.push(&around.with_prefix(exact(name)), one.location, true);
            }
        }
        // Most prefixes come after the regexes of the server. The others, and longer ones below
        // them, come before, each with the regexes that it permits.
        let others = found.iter().filter(|one| !Rc::ptr_eq(&one.regexes, &regexes));
        let others = PrefixSet::of(others.map(|one| one.location.pattern.as_str()));
        let (before, after): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|one| others.has_start_of(&one.location.pattern, 0));
        for one in before {
            let around = around.with_prefix(prefix(&one.location.pattern, &whole));
            for regex in one.regexes.iter() {
                self.regex(&around, regex);
            }
            self.push(&around, one.location, false);
        }
        for regex in regexes.iter() {
            self.regex(around, regex);
        }
        for one in after {
            let inner = around.with_prefix(prefix(&one.location.pattern, &whole));
            let around = if one.location.pattern == "/" { around } else { &inner };
            self.push(around, one.location, false);
        }
        if let Some(own) = own {
            self.push(around, own, false);
        }
    }
}

fn regexes_of(locations: &[Location]) -> impl Iterator<Item = &Location> {
    locations.iter().filter(|location| location.kind == Match::Regex)
}

/// The search for the locations without a regex that can be reached.
struct Search<'l> {
    /// The prefixes of the levels around the current one, with the length of the one that leads to
    /// the next.
    levels: Vec<(PrefixSet<'l>, usize)>,
    found: Vec<Reachable<'l>>,
    /// The entries that the list may still have.
    left: usize,
}

impl<'l> Search<'l> {
    /// Looks through a level. A nested location cannot be reached if a longer prefix beside the one
    /// around it takes its paths.
    fn level(&mut self, locations: &'l [Location], permitted: &Permitted<'l>) {
        let prefixes = locations.iter().filter(|location| location.is_prefix());
        let prefixes = PrefixSet::of(prefixes.map(|location| location.pattern.as_str()));
        self.levels.push((prefixes, 0));
        let depth = self.levels.len();
        for location in locations {
            let pattern = location.pattern.as_str();
            let mut around = self.levels.iter().take(depth - 1);
            let hidden = around.any(|(level, entered)| level.has_start_of(pattern, *entered));
            if hidden || matches!(location.kind, Match::Regex | Match::Named) {
                continue;
            }
            let is_final = location.kind == Match::Final;
            let outer = if is_final { &permitted.outer } else { &permitted.here };
            let here = self.with_own(location, outer);
            if let Some((_, entered)) = self.levels.last_mut() {
                *entered = pattern.len();
            }
            if location.is_prefix() && !location.inner.is_empty() {
                let inside = Permitted { here: Rc::clone(&here), outer: Rc::clone(outer) };
                self.level(&location.inner, &inside);
            }
            self.found.push(Reachable { location, depth, regexes: here });
        }
        self.levels.pop();
    }

    /// Returns the regexes inside a location with those around it.
    fn with_own(
        &mut self,
        location: &'l Location,
        outer: &Rc<[&'l Location]>,
    ) -> Rc<[&'l Location]> {
        let own = regexes_of(&location.inner).count();
        // A list that is too long is refused, so it need not be complete.
        if own == 0 || self.left == 0 {
            return Rc::clone(outer);
        }
        self.left = self.left.saturating_sub(own + outer.len());
        regexes_of(&location.inner).chain(outer.iter().copied()).collect()
    }
}

/// A set of prefixes.
struct PrefixSet<'l> {
    prefixes: HashSet<&'l str>,
    lengths: BTreeSet<usize>,
}

impl<'l> PrefixSet<'l> {
    fn of(prefixes: impl Iterator<Item = &'l str>) -> Self {
        let prefixes: HashSet<&str> = prefixes.collect();
        let lengths = prefixes.iter().map(|prefix| prefix.len()).collect();
        Self { prefixes, lengths }
    }

    /// Returns true if the path begins with a prefix of the set that is longer than `least`.
    fn has_start_of(&self, path: &str, least: usize) -> bool {
        let mut lengths = self.lengths.range(least + 1..=path.len().max(least + 1));
        lengths.any(|length| path.get(..*length).is_some_and(|start| self.prefixes.contains(start)))
    }
}

/// Returns the native pattern of an exact path.
fn exact(path: &str) -> String {
    if path.contains(['*', '?']) { format!("~^{}$", literal(path)) } else { path.to_owned() }
}

/// Returns the native pattern of a prefix. `/a/*` matches `/a` too, so it is used only if another
/// route takes that path before.
fn prefix(path: &str, whole: &HashSet<&str>) -> String {
    let covered = path.strip_suffix('/').is_none_or(|name| name.is_empty() || whole.contains(name));
    if path.contains(['*', '?']) || !covered {
        return format!("~^{}", literal(path));
    }
    format!("{path}*")
}

/// Returns a regex that matches this text only.
pub(crate) fn literal(text: &str) -> String {
    let mut regex = String::with_capacity(text.len());
    for character in text.chars() {
        if "\\.+*?()|[]{}^$#&-~/".contains(character) && character != '/' {
            regex.push('\\');
        }
        regex.push(character);
    }
    regex
}

#[cfg(test)]
mod tests {
    use weir_config::pattern::PathPattern;

    use super::*;

    #[test]
    fn prefixes_match_what_nginx_matches() {
        let whole = HashSet::from(["/a"]);
        let matches = |path: &str, subject: &str| {
            let pattern = prefix(path, &whole).parse::<PathPattern>().unwrap();
            pattern.matches(subject)
        };
        assert!(matches("/a/", "/a/x") && matches("/a/", "/a/"));
        assert!(matches("/b/", "/b/x") && !matches("/b/", "/b") && !matches("/b/", "/bx"));
        assert!(matches("/c", "/cx") && matches("/c", "/c"));
        assert!(matches("/d*", "/d*x") && !matches("/d*", "/dx"));
        assert!(matches("/", "/") && matches("/", "/x"));
        assert!(exact("/e.*").parse::<PathPattern>().unwrap().matches("/e.*"));
        assert!(!exact("/e.*").parse::<PathPattern>().unwrap().matches("/ex"));
    }
}
