//! Host, path and text patterns as a configuration writes them, compiled once. A pattern keeps the
//! string it was written as, serialises to it and compares by it. Nothing here reads a request.

use std::cell::RefCell;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::str::FromStr;

use regex::bytes::{Regex, RegexBuilder};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A [`ContentPattern`] is searched in this many bytes of a reply.
pub const REPLY_BYTES: usize = 64 * 1024;

/// The number of groups that a path regex provides: `$0` for the whole match and `$1`…`$9`.
pub const PATH_GROUPS: usize = 10;

/// The hosts of a host block: `shop.example.com`, `*.example.com` (any depth below it), `~regex`
/// (always case-insensitive), or `*` for every host.
#[derive(Clone)]
pub struct HostPattern {
    text: String,
    kind: HostKind,
}

#[derive(Clone)]
enum HostKind {
    Any,
    Exact(String),
    /// The name with its leading dot.
    Below(String),
    Expression(Regex),
}

impl HostPattern {
    /// Returns true if `host`, as a `Host` header or SNI gives it, matches. Case, one trailing dot
    /// and the port are ignored.
    pub fn matches(&self, host: &(impl AsRef<[u8]> + ?Sized)) -> bool {
        let host = bare_host(host.as_ref());
        match &self.kind {
            HostKind::Any => true,
            HostKind::Exact(name) => host.eq_ignore_ascii_case(name.as_bytes()),
            HostKind::Below(suffix) => host
                .len()
                .checked_sub(suffix.len())
                .filter(|&start| start > 0)
                .and_then(|start| host.get(start..))
                .is_some_and(|end| end.eq_ignore_ascii_case(suffix.as_bytes())),
            HostKind::Expression(regex) => regex.is_match(host),
        }
    }

    /// The name, with its leading dot, below which a `*.name` pattern matches.
    pub fn suffix(&self) -> Option<&str> {
        match &self.kind {
            HostKind::Below(suffix) => Some(suffix),
            HostKind::Any | HostKind::Exact(_) | HostKind::Expression(_) => None,
        }
    }

    /// Returns true if the pattern matches every host, so that no later host block is reached.
    pub fn is_any(&self) -> bool {
        matches!(self.kind, HostKind::Any)
    }
}

impl FromStr for HostPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let kind = if text == "*" {
            HostKind::Any
        } else if let Some(pattern) = text.strip_prefix('~') {
            let pattern = pattern.strip_prefix('*').unwrap_or(pattern);
            HostKind::Expression(compile(pattern, Case::Insensitive)?)
        } else if let Some(suffix) = text.strip_prefix('*') {
            if !suffix.starts_with('.') {
                return Err("`*` in a host stands for whole labels: write `*.example.com`".into());
            }
            check_host_name(&suffix[1..])?;
            HostKind::Below(suffix.trim_end_matches('.').to_owned())
        } else {
            check_host_name(text)?;
            HostKind::Exact(text.strip_suffix('.').unwrap_or(text).to_owned())
        };
        Ok(Self { text: text.to_owned(), kind })
    }
}

/// Returns the host without port and trailing dot; an IPv6 literal keeps its brackets.
fn bare_host(host: &[u8]) -> &[u8] {
    let name = if host.first() == Some(&b'[') {
        let end = host.iter().position(|&byte| byte == b']').map_or(host.len(), |at| at + 1);
        host.get(..end).unwrap_or(host)
    } else {
        host.split(|&byte| byte == b':').next().unwrap_or(host)
    };
    name.strip_suffix(b".").unwrap_or(name)
}

fn check_host_name(name: &str) -> Result<(), String> {
    if name.contains("://") {
        return Err("a host is a name without a scheme, such as `shop.example.com`".into());
    }
    if name.starts_with('[') && name.ends_with(']') {
        return Ok(());
    }
    if name.contains(':') {
        return Err("a host is matched without its port: remove `:…`".into());
    }
    if name.contains('*') {
        return Err("`*` may only stand for the first labels, as in `*.example.com`; for more write `~regex`".into());
    }
    let good = |byte: u8| {
        byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.') || !byte.is_ascii()
    };
    if name.is_empty() || name.starts_with('.') || name.contains("..") || !name.bytes().all(good) {
        return Err(format!("`{name}` is not a host name"));
    }
    if !name.is_ascii() {
        return Err(
            "write an international host name in its `xn--` form, as clients send it".into()
        );
    }
    Ok(())
}

/// A path pattern: `/exact`, `/prefix/*`, a glob such as `/a/*/b` or `*.php`, `~regex` or `~*regex`
/// (case-insensitive).
///
/// `/prefix/*` matches everything below that directory and `/prefix` itself: most servers answer
/// both alike, so a rule that denies one has to deny the other. `/prefix` alone matches that path
/// and `/prefix/`.
///
/// A `*` at the start or the end matches anything; one in the middle matches within one path
/// segment. Regexes are not anchored, match bytes rather than characters, and their `.` matches a
/// newline too, so that no encoded byte evades the pattern.
#[derive(Clone)]
pub struct PathPattern {
    text: String,
    kind: TextKind,
    captures: bool,
}

impl PathPattern {
    /// Returns true if the decoded path (without the query) matches.
    pub fn matches(&self, path: &(impl AsRef<[u8]> + ?Sized)) -> bool {
        let path = path.as_ref();
        match &self.kind {
            TextKind::Prefix(prefix) => is_below(prefix.as_bytes(), path),
            kind => kind.matches(&self.text, path),
        }
    }

    /// Returns the groups `$0`…`$9` of a regex for a path that matches; for other patterns only
    /// `$0`, the whole path.
    pub fn captures<'path>(
        &self,
        path: &'path (impl AsRef<[u8]> + ?Sized),
    ) -> Option<RegexGroups<'path>> {
        let path = path.as_ref();
        match &self.kind {
            TextKind::Expression(regex) if self.captures => RegexGroups::of(regex, path),
            TextKind::Beginning(start, case) => RegexGroups::after(start, *case, path),
            _ => self.matches(path).then(|| RegexGroups::whole(path)),
        }
    }

    /// Returns true if the pattern is a regex with groups, so that `captures` returns more than
    /// `$0`.
    pub fn has_groups(&self) -> bool {
        self.captures
    }

    /// The paths that the pattern can match, for an index of patterns.
    pub fn shape(&self) -> PathShape<'_> {
        let start = match &self.kind {
            TextKind::Exact => return PathShape::Exact(&self.text),
            TextKind::Literal(text, Case::Sensitive) => return PathShape::Exact(text),
            TextKind::Beginning(text, Case::Sensitive) => text,
            TextKind::Prefix(prefix) if prefix.ends_with('/') => {
                return PathShape::Directory(prefix);
            }
            TextKind::Prefix(prefix) => prefix,
            TextKind::Expression(_) if !self.text.starts_with('~') => {
                self.text.split('*').next().unwrap_or_default()
            }
            TextKind::Expression(_)
            | TextKind::Suffix(_)
            | TextKind::Literal(..)
            | TextKind::Beginning(..) => "",
        };
        if start.is_empty() { PathShape::Any } else { PathShape::Prefix(start) }
    }

    /// Returns true if the pattern matches every path.
    pub fn is_any(&self) -> bool {
        matches!(&self.kind, TextKind::Prefix(prefix) if prefix.is_empty() || prefix == "/")
    }
}

/// The paths that a pattern can match, as far as its text tells: no other path matches, and not all
/// of these do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathShape<'a> {
    /// This path.
    Exact(&'a str),
    /// Paths that begin with this text.
    Prefix(&'a str),
    /// Paths that begin with this text, which ends with a slash, and the one without that slash.
    Directory(&'a str),
    /// Any path.
    Any,
}

/// Returns true if a path begins with `prefix`, or is the directory that a prefix with a trailing
/// slash names.
fn is_below(prefix: &[u8], path: &[u8]) -> bool {
    path.starts_with(prefix) || prefix.strip_suffix(b"/").is_some_and(|itself| path == itself)
}

/// The groups that a regex captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegexGroups<'text> {
    text: &'text [u8],
    /// The start and the end of each group.
    groups: [Option<(usize, usize)>; PATH_GROUPS],
}

impl<'text> RegexGroups<'text> {
    fn of(regex: &Regex, text: &'text [u8]) -> Option<Self> {
        let found = regex.captures(text)?;
        let mut groups = [None; PATH_GROUPS];
        for (slot, group) in groups.iter_mut().zip(found.iter()) {
            *slot = group.map(|group| (group.start(), group.end()));
        }
        Some(Self { text, groups })
    }

    fn whole(text: &'text [u8]) -> Self {
        let mut groups = [None; PATH_GROUPS];
        groups[0] = Some((0, text.len()));
        Self { text, groups }
    }

    /// The whole text, and what follows its beginning.
    fn after(start: &str, case: Case, text: &'text [u8]) -> Option<Self> {
        case.begins(text, start).then(|| {
            let mut groups = Self::whole(text);
            groups.groups[1] = Some((start.len(), text.len()));
            groups
        })
    }

    /// Returns group `number`, 0 being the whole match; `None` if the regex has no such group or
    /// the group took no part in the match.
    pub fn group(&self, number: usize) -> Option<&'text [u8]> {
        self.range(number).and_then(|range| self.text.get(range))
    }

    /// Returns the place of group `number` in the text.
    pub fn range(&self, number: usize) -> Option<Range<usize>> {
        self.groups.get(number).copied().flatten().map(|(start, end)| start..end)
    }
}

impl FromStr for PathPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if !text.starts_with(['/', '*', '~']) {
            return Err(format!(
                "a path starts with `/`, with `*` as in `*.php`, or with `~` before a regex: did you mean `/{text}`?"
            ));
        }
        if !text.starts_with('~') && text.contains('?') {
            return Err("a path is matched without its query: use `query NAME=VALUE` for what comes after `?`".into());
        }
        let kind = TextKind::parse(text, Star::Segment)?;
        let captures = match &kind {
            TextKind::Expression(regex) => text.starts_with('~') && regex.captures_len() > 1,
            kind => matches!(kind, TextKind::Beginning(..)),
        };
        Ok(Self { text: text.to_owned(), kind, captures })
    }
}

/// A pattern for the value of a header, cookie or parameter: exact (case-sensitive), with `*` for
/// anything, `~regex` or `~*regex`.
#[derive(Clone)]
pub struct TextPattern {
    text: String,
    kind: TextKind,
}

impl TextPattern {
    /// Returns true if the value matches.
    pub fn matches(&self, value: &(impl AsRef<[u8]> + ?Sized)) -> bool {
        self.kind.matches(&self.text, value.as_ref())
    }

    /// Returns the groups `$0`…`$9` of a regex for a value that matches; for other patterns only
    /// `$0`, the whole value.
    pub fn captures<'value>(&self, value: &'value [u8]) -> Option<RegexGroups<'value>> {
        match &self.kind {
            TextKind::Expression(regex) => RegexGroups::of(regex, value),
            TextKind::Beginning(start, case) => RegexGroups::after(start, *case, value),
            _ => self.matches(value).then(|| RegexGroups::whole(value)),
        }
    }
}

impl FromStr for TextPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(Self { text: text.to_owned(), kind: TextKind::parse(text, Star::Anything)? })
    }
}

/// A pattern that a reply has to contain: a literal text, `~regex` or `~*regex`.
#[derive(Clone)]
pub struct ContentPattern {
    text: String,
    expression: Regex,
}

impl ContentPattern {
    /// Returns true if `content` contains a match.
    pub fn is_in(&self, content: &[u8]) -> bool {
        self.expression.is_match(content)
    }
}

impl ContentPattern {
    /// The fewest bytes in which its absence means something.
    pub fn least_bytes(&self) -> usize {
        if self.text.starts_with('~') { 1 } else { self.text.len() }
    }
}

impl FromStr for ContentPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("every reply contains the empty text".into());
        }
        let expression = if let Some(pattern) = text.strip_prefix("~*") {
            compile(pattern, Case::Insensitive)?
        } else if let Some(pattern) = text.strip_prefix('~') {
            compile(pattern, Case::Sensitive)?
        } else if text.len() > REPLY_BYTES {
            return Err(format!(
                "this check could never pass: only the first {REPLY_BYTES} bytes of a reply are read, and this text is longer"
            ));
        } else {
            compile(&regex::escape(text), Case::Sensitive)?
        };
        Ok(Self { text: text.to_owned(), expression })
    }
}

#[derive(Clone)]
enum TextKind {
    Exact,
    Prefix(String),
    Suffix(String),
    /// A regex that is one text from start to end.
    Literal(String, Case),
    /// A regex that is one text and a group for the rest.
    Beginning(String, Case),
    Expression(Regex),
}

/// The meaning of a `*` in the middle of a glob.
#[derive(Clone, Copy)]
enum Star {
    Anything,
    Segment,
}

#[derive(Clone, Copy)]
enum Case {
    Sensitive,
    Insensitive,
}

impl Case {
    fn equals(self, one: &[u8], other: &str) -> bool {
        match self {
            Self::Sensitive => one == other.as_bytes(),
            Self::Insensitive => one.eq_ignore_ascii_case(other.as_bytes()),
        }
    }

    fn begins(self, text: &[u8], start: &str) -> bool {
        text.get(..start.len()).is_some_and(|text| self.equals(text, start))
    }
}

impl TextKind {
    fn parse(text: &str, star: Star) -> Result<Self, String> {
        if let Some(pattern) = text.strip_prefix("~*") {
            return Self::regex(pattern, Case::Insensitive);
        }
        if let Some(pattern) = text.strip_prefix('~') {
            return Self::regex(pattern, Case::Sensitive);
        }
        match text.find('*') {
            None => Ok(Self::Exact),
            Some(at) if at + 1 == text.len() => Ok(Self::Prefix(text[..at].to_owned())),
            Some(0) if !text[1..].contains('*') => Ok(Self::Suffix(text[1..].to_owned())),
            Some(_) => compile(&glob_expression(text, star), Case::Sensitive).map(Self::Expression),
        }
    }

    fn regex(pattern: &str, case: Case) -> Result<Self, String> {
        if let Some(text) = literal(pattern) {
            return Ok(Self::Literal(text, case));
        }
        match beginning(pattern) {
            Some(text) => Ok(Self::Beginning(text, case)),
            None => compile(pattern, case).map(Self::Expression),
        }
    }

    fn matches(&self, text: &str, subject: &[u8]) -> bool {
        match self {
            Self::Literal(text, case) => case.equals(subject, text),
            Self::Beginning(start, case) => case.begins(subject, start),
            Self::Exact => subject == text.as_bytes(),
            Self::Prefix(prefix) => subject.starts_with(prefix.as_bytes()),
            Self::Suffix(suffix) => subject.ends_with(suffix.as_bytes()),
            Self::Expression(regex) => regex.is_match(subject),
        }
    }
}

fn glob_expression(text: &str, star: Star) -> String {
    let mut expression = String::from("^");
    let last = text.split('*').count() - 1;
    for (number, piece) in text.split('*').enumerate() {
        if number > 0 {
            let outer =
                (number == 1 && text.starts_with('*')) || (number == last && text.ends_with('*'));
            expression.push_str(match star {
                Star::Segment if !outer => "[^/]*",
                _ => ".*",
            });
        }
        expression.push_str(&regex::escape(piece));
    }
    expression.push('$');
    expression
}

/// Returns the text that an anchored regex without operators matches. Thousands of hosts of an
/// imported file are such regexes: each would take kilobytes, and most of the time of a check.
fn literal(pattern: &str) -> Option<String> {
    without_operators(pattern.strip_prefix('^')?.strip_suffix('$')?)
}

/// Returns the text with which a regex begins that has one group, for the rest: those of nginx's
/// `proxy_redirect`, in each location that leads to a server.
fn beginning(pattern: &str) -> Option<String> {
    without_operators(pattern.strip_prefix('^')?.strip_suffix("(.*)$")?)
}

fn without_operators(pattern: &str) -> Option<String> {
    let mut text = String::with_capacity(pattern.len());
    let mut characters = pattern.chars();
    while let Some(character) = characters.next() {
        text.push(match character {
            // `\<` and `\>` are ends of words.
            '\\' => characters
                .next()
                .filter(|next| next.is_ascii_punctuation() && !matches!(next, '<' | '>'))?,
            '.' | '^' | '$' | '*' | '+' | '?' | '(' | ')' | '[' | ']' | '{' | '}' | '|' => {
                return None;
            }
            other if other.is_ascii() => other,
            _ => return None,
        });
    }
    Some(text)
}

fn compile(pattern: &str, case: Case) -> Result<Regex, String> {
    if pattern.is_empty() {
        return Err("there is no regex after `~`".into());
    }
    let insensitive = matches!(case, Case::Insensitive);
    if let Some(known) = RecentRegexes::find(pattern, insensitive) {
        return Ok(known);
    }
    let built = RegexBuilder::new(pattern)
        .case_insensitive(insensitive)
        .dot_matches_new_line(true)
        .unicode(false)
        .build()
        .map_err(|error| regex_message(&error))?;
    RecentRegexes::keep(&built, insensitive);
    Ok(built)
}

/// The regexes that this thread compiled last. A long file has the same one in many routes; built
/// once, they also share their memory.
struct RecentRegexes;

type RecentRegex = RefCell<Option<(Regex, bool)>>;

impl RecentRegexes {
    const MOST: usize = 64;

    fn find(pattern: &str, insensitive: bool) -> Option<Regex> {
        Self::with_place(pattern, |place| {
            let recent = place.borrow();
            let same =
                |(regex, flag): &&(Regex, bool)| regex.as_str() == pattern && *flag == insensitive;
            recent.as_ref().filter(same).map(|(regex, _)| regex.clone())
        })
    }

    fn keep(regex: &Regex, insensitive: bool) {
        Self::with_place(regex.as_str(), |place| {
            *place.borrow_mut() = Some((regex.clone(), insensitive));
        });
    }

    fn with_place<T>(pattern: &str, then: impl FnOnce(&RecentRegex) -> T) -> T {
        thread_local! {
            static PLACES: [RecentRegex; RecentRegexes::MOST] =
                const { [const { RefCell::new(None) }; RecentRegexes::MOST] };
        }
        let mut hasher = std::hash::DefaultHasher::new();
        pattern.hash(&mut hasher);
        let number = hasher.finish() as usize % Self::MOST;
        PLACES.with(|places| then(&places[number]))
    }
}

/// Returns the line of a regex error that names the error; the drawing before it would not fit a
/// message.
fn regex_message(error: &regex::Error) -> String {
    let text = error.to_string();
    let line = text.lines().last().unwrap_or_default();
    let reason = line.trim().strip_prefix("error: ").unwrap_or(line);
    format!("this regex is invalid: {reason}")
}

macro_rules! written_as_text {
    ($($name:ident),*) => {$(
        impl $name {
            /// Returns the pattern as it was written.
            pub fn as_str(&self) -> &str {
                &self.text
            }
        }

        impl PartialEq for $name {
            fn eq(&self, other: &Self) -> bool {
                self.text == other.text
            }
        }

        impl Eq for $name {}

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(&self.text)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(formatter, "{}({:?})", stringify!($name), self.text)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.text)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
            }
        }
    )*};
}

written_as_text!(HostPattern, PathPattern, TextPattern, ContentPattern);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    fn host(pattern: &str, host: &str) -> bool {
        pattern.parse::<HostPattern>().unwrap().matches(host)
    }

    fn path(pattern: &str, path: &str) -> bool {
        pattern.parse::<PathPattern>().unwrap().matches(path)
    }

    fn text(pattern: &str, value: &str) -> bool {
        pattern.parse::<TextPattern>().unwrap().matches(value)
    }

    fn piece() -> impl Strategy<Value = &'static str> {
        select(vec![
            "a", "B", "\\.", ".", "-", "/", "\\/", "\\<", "\\d", "\\\\", "*", "^", "$", "|", "[b]",
            "{2}", " ", "#", "\\-", "\\ ", "&", "~", "é",
        ])
    }

    proptest! {
        /// A text that stands for a regex matches what the regex does.
        #[test]
        fn regexes_without_operators_are_texts(
            pieces in proptest::collection::vec(piece(), 0..4),
            subject in "[aAbB./<# \\-\\\\d&~]{0,4}",
        ) {
            let pattern = format!("^{}$", pieces.concat());
            let Some(text) = literal(&pattern) else { return Ok(()) };
            for case in [Case::Sensitive, Case::Insensitive] {
                let regex = compile(&pattern, case).expect("it has no operators");
                let kind = TextKind::Literal(text.clone(), case);
                let group = format!("{}(.*)$", pattern.strip_suffix('$').unwrap_or_default());
                let regex_with_group = compile(&group, case).expect("it has no other operators");
                let start = beginning(&group).expect("it is the same text");
                for subject in [&subject, &text, &text.to_uppercase(), &format!("{text}\n\u{e4}")] {
                    let subject = subject.as_bytes();
                    prop_assert_eq!(kind.matches("", subject), regex.is_match(subject));
                    let groups = RegexGroups::of(&regex_with_group, subject);
                    prop_assert_eq!(RegexGroups::after(&start, case, subject), groups);
                }
            }
        }
    }

    #[test]
    fn anchored_texts_are_no_regexes() {
        let is_literal =
            |text: &str| matches!(text.parse::<TextPattern>().unwrap().kind, TextKind::Literal(..));
        for text in ["~*^shop-1\\.example\\.com$", "~^/a/b$", "~^$"] {
            assert!(is_literal(text), "{text}");
        }
        for text in ["~*^shop.example$", "~^a", "~a$", "~^a|b$", "~^\\d$", "~^\\$", "a"] {
            assert!(text.parse::<TextPattern>().is_err() || !is_literal(text), "{text}");
        }
        assert!(text("~*^a\\.b$", "A.B") && !text("~^a\\.b$", "A.B") && !text("~^a\\.b$", "a.b\n"));
        for text in ["~^/a\\(.*)$", "~^/(.*)", "~^/a(.*)$|b", "~^/(.*)(.*)$", "/a(.*)$"] {
            let pattern: Result<PathPattern, _> = text.parse();
            let is_one = |pattern: PathPattern| matches!(pattern.kind, TextKind::Beginning(..));
            assert!(!pattern.is_ok_and(is_one), "{text}");
        }
        let path: PathPattern = "~^/a/(.*)$".parse().unwrap();
        assert_eq!(path.shape(), PathShape::Prefix("/a/"));
        let groups = path.captures("/a/b/c").unwrap();
        assert_eq!([groups.group(0), groups.group(1)], [Some(&b"/a/b/c"[..]), Some(b"b/c")]);
        assert!(path.has_groups() && path.captures("/A/b").is_none());
        let path: PathPattern = "~^/a\\.b$".parse().unwrap();
        assert_eq!(path.shape(), PathShape::Exact("/a.b"));
        assert_eq!(path.captures("/a.b").unwrap().group(0), Some(&b"/a.b"[..]));
    }

    #[test]
    fn host_ignores_case_port_and_trailing_dot() {
        assert!(host("Shop.Example.com", "shop.example.COM"));
        assert!(host("shop.example.com", "shop.example.com.:8080"));
        assert!(host("[::1]", "[::1]:80"));
        assert!(!host("shop.example.com", "ashop.example.com"));
        assert!(!host("shop.example.com", "shop.example.com.evil.org"));
    }

    #[test]
    fn wildcard_host_takes_names_below_and_not_the_name_itself() {
        assert!(host("*.example.com", "a.example.com"));
        assert!(host("*.example.com", "A.b.EXAMPLE.com:443"));
        assert!(!host("*.example.com", "example.com"));
        assert!(!host("*.example.com", ".example.com"));
        assert!(!host("*.example.com", "badexample.com"));
        assert!(host("*", "anything") && host("*", ""));
        assert!(host("~^www[0-9]+\\.example\\.com$", "WWW12.example.com:1"));
    }

    #[test]
    fn path_forms() {
        assert!(path("/a", "/a") && !path("/a", "/a/") && !path("/a", "/A"));
        assert!(
            path("/admin/*", "/admin/")
                && path("/admin/*", "/admin/x/y")
                && !path("/admin/*", "/administrator")
        );
        assert!(path("/admin/*", "/admin") && !path("/admin/*", "/admi"));
        assert!(!path("/admin", "/admin/") && !path("/admin/", "/admin"));
        assert!(!path("/admin*", "/admi") && !path("/a/*/*", "/a"));
        assert!(path("/api*", "/api2/x"));
        assert!(path("*.php", "/a/b.php") && !path("*.php", "/a.php/b"));
        assert!(
            path("/a/*/b", "/a/x/b") && !path("/a/*/b", "/a/x/y/b") && !path("/a/*/b", "/a/x/bb")
        );
        assert!(path("/a/*/b/*", "/a/x/b/c/d"));
        assert!(path("~^/v[0-9]+/", "/v12/x") && !path("~^/v[0-9]+/", "/V12/x"));
        assert!(path("~*\\.JPG$", "/a.jpg"));
        assert!(path("*", "/x") && "/*".parse::<PathPattern>().unwrap().is_any());
    }

    #[test]
    fn a_shape_holds_every_path_that_matches() {
        let check = |pattern: &str, shape: PathShape<'_>| {
            assert_eq!(pattern.parse::<PathPattern>().unwrap().shape(), shape, "{pattern}");
        };
        check("/a", PathShape::Exact("/a"));
        check("/a/*", PathShape::Directory("/a/"));
        check("/a*", PathShape::Prefix("/a"));
        check("/a/*/b", PathShape::Prefix("/a/"));
        check("/a*/*", PathShape::Prefix("/a"));
        check("*.php", PathShape::Any);
        check("*", PathShape::Any);
        check("*/a/*", PathShape::Any);
        check("~^/a", PathShape::Any);
    }

    #[test]
    fn path_regex_sees_bytes_that_are_no_text() {
        let pattern: PathPattern = "~^/secret.*$".parse().unwrap();
        assert!(pattern.matches(b"/secret/\xff\n"));
    }

    #[test]
    fn path_regex_hands_on_its_groups() {
        let pattern: PathPattern = "~^/user/([a-z]+)(/x)?/(.*)$".parse().unwrap();
        let groups = pattern.captures("/user/ann/1/2").unwrap();
        assert_eq!(groups.group(0), Some(&b"/user/ann/1/2"[..]));
        assert_eq!(groups.group(1), Some(&b"ann"[..]));
        assert_eq!(groups.group(2), None);
        assert_eq!(groups.group(3), Some(&b"1/2"[..]));
        assert_eq!(groups.group(99), None);
        assert_eq!(pattern.captures("/other"), None);
        let prefix: PathPattern = "/a/*".parse().unwrap();
        assert_eq!(prefix.captures("/a/b").unwrap().group(0), Some(&b"/a/b"[..]));
        assert_eq!(prefix.captures("/b"), None);
    }

    #[test]
    fn text_forms() {
        assert!(
            text("canary", "canary") && !text("canary", "Canary") && !text("canary", "canary2")
        );
        assert!(text("*bot*", "a bot/here") && !text("*bot*", "human"));
        assert!(text("a*c", "a/b/c") && !text("a*c", "a/b/d"));
        assert!(text("~*^chrome", "Chrome/1") && !text("~^chrome", "Chrome/1"));
    }

    #[test]
    fn errors_say_how_to_write_it() {
        let host = |text: &str| text.parse::<HostPattern>().unwrap_err();
        assert!(host("*example.com").contains("*.example.com"));
        assert!(host("a.*.com").contains("~regex"));
        assert!(host("a.com:80").contains("port"));
        assert!(host("http://a.com").contains("scheme"));
        assert!(host("bücher.example").contains("xn--"));
        assert!(host("a b").contains("not a host name"));
        let path = |text: &str| text.parse::<PathPattern>().unwrap_err();
        assert!(path("admin").contains("`/admin`"));
        assert!(path("/a?b=1").contains("query"));
        assert_eq!(path("~(a"), "this regex is invalid: unclosed group");
        assert!(path("~").contains("no regex"));
    }

    #[test]
    fn a_pattern_is_its_text() {
        let pattern: PathPattern = "~*^/X$".parse().unwrap();
        let json = serde_json::to_string(&pattern).unwrap();
        assert_eq!(json, "\"~*^/X$\"");
        assert_eq!(serde_json::from_str::<PathPattern>(&json).unwrap(), pattern);
        assert!(serde_json::from_str::<PathPattern>("\"~(\"").is_err());
    }
}
