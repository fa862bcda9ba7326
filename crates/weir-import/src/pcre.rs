//! Regexes of nginx and HAProxy (PCRE) in the syntax of Weir's, which has no backtracking. A regex
//! that would mean something else is refused, and so is one that the syntax does not have.

use std::fmt::Write as _;
use std::iter::Peekable;
use std::str::Chars;

/// Returns the regex for a path in Weir's syntax, in which `.` matches a line end and `$` does not
/// match before one.
pub(crate) fn native(pattern: &str) -> Result<String, String> {
    let mut writer = RegexWriter {
        rest: pattern.chars().peekable(),
        out: String::with_capacity(pattern.len() + 8),
        class: ClassPosition::Outside,
        dot: false,
        quantified: false,
    };
    while let Some(character) = writer.rest.next() {
        let quantified = std::mem::take(&mut writer.quantified);
        match (character, writer.class) {
            ('\\', _) => {
                writer.out.push('\\');
                writer.out.extend(writer.rest.next());
                writer.class = writer.class.after_character();
            }
            (_, ClassPosition::Outside) => writer.outside(character, quantified)?,
            _ => writer.in_class(character)?,
        }
    }
    let RegexWriter { out, dot, .. } = writer;
    Ok(if dot { format!("(?-s){out}") } else { out })
}

/// Returns the number of groups of a regex.
pub(crate) fn groups(pattern: &str) -> usize {
    group_names(pattern).len()
}

/// Returns the name of each group of a regex, empty for one without, in the order of their numbers.
pub(crate) fn group_names(pattern: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut in_class = false;
    let mut rest = pattern;
    while let Some(first) = rest.chars().next() {
        rest = &rest[first.len_utf8()..];
        match first {
            '\\' => rest = rest.get(rest.chars().next().map_or(0, char::len_utf8)..).unwrap_or(""),
            '[' => in_class = true,
            ']' => in_class = false,
            '(' if !in_class => match rest.strip_prefix('?') {
                None => names.push(String::new()),
                Some(inner) => {
                    let inner = inner.strip_prefix('P').unwrap_or(inner);
                    let name = inner.strip_prefix('<').and_then(|inner| inner.split_once('>'));
                    if let Some((name, _)) = name.filter(|(name, _)| !name.starts_with(['=', '!']))
                    {
                        names.push(name.to_owned());
                    }
                }
            },
            _ => {}
        }
    }
    names
}

/// The state of a translation.
struct RegexWriter<'p> {
    rest: Peekable<Chars<'p>>,
    out: String,
    class: ClassPosition,
    /// Set if a `.` was found that must not match a line end.
    dot: bool,
    /// Set if the character before repeats what is before it.
    quantified: bool,
}

impl RegexWriter<'_> {
    fn outside(&mut self, character: char, quantified: bool) -> Result<(), String> {
        match character {
            '[' => {
                self.class = ClassPosition::Start;
                self.out.push('[');
                self.out.extend(self.rest.next_if_eq(&'^'));
            }
            '.' => {
                self.dot = true;
                self.out.push('.');
            }
            '$' => self.out.push_str("(?:\\n?\\z)"),
            '(' if self.excluded().is_some() => {
                let (text, taken) = self.excluded().unwrap_or_default();
                self.out.push_str(&text);
                self.rest.nth(taken - 1);
            }
            '(' if self.rest.peek() == Some(&'?') => {
                let flags: String =
                    self.rest.clone().take(64).take_while(|next| !":)".contains(*next)).collect();
                if !flags.contains('<') && flags.contains(['m', 'x', 's']) {
                    return Err("flags inside a regex have no conversion".to_owned());
                }
                self.out.push('(');
            }
            '+' if quantified => {
                return Err(
                    "a possessive quantifier has no conversion: leave its `+` out".to_owned()
                );
            }
            _ => {
                self.quantified = "*+?}".contains(character);
                self.out.push(character);
            }
        }
        Ok(())
    }

    /// Returns what stands for `?!TEXT|TEXT)` and the rest of the regex, if that is nothing or any
    /// text: a regex for texts that begin with none of these. The second is the number of
    /// characters that it stands for.
    fn excluded(&self) -> Option<(String, usize)> {
        let rest: String = self.rest.clone().take(LONGEST_EXCLUDED).collect();
        let (inside, after) = rest.strip_prefix("?!")?.split_once(')')?;
        let words: Option<Vec<String>> = inside.split('|').map(literal).collect();
        let words = words.filter(|words| words.iter().all(|word| !word.is_empty()))?;
        // With `~*` a letter of one word could stand for that of another, which the text for
        // other beginnings takes for a different one.
        let has = |is: fn(char) -> bool| words.iter().any(|word| word.contains(is));
        if has(|one| one.is_ascii_uppercase()) && has(|one| one.is_ascii_lowercase()) {
            return None;
        }
        let others = beginning_otherwise(&words.iter().map(String::as_str).collect::<Vec<_>>());
        let text = match after {
            "" | ".*" | ".*$" => others,
            "(.*)" | "(.*)$" => format!("({others}.*)"),
            _ => return None,
        };
        Some((text, rest.chars().count()))
    }

    fn in_class(&mut self, character: char) -> Result<(), String> {
        match (character, self.class) {
            // A bracket that comes first in a class is a character of it.
            (']', ClassPosition::Start) => self.out.push_str("\\]"),
            (']', _) => {
                self.out.push(']');
                self.class = ClassPosition::Outside;
                return Ok(());
            }
            ('[', _) if self.rest.peek() == Some(&':') => {
                return Err("write the characters of the class instead of `[:…:]`".to_owned());
            }
            ('[', _) => self.out.push_str("\\["),
            ('&' | '~' | '-', _) if self.rest.peek() == Some(&character) => {
                return Err(format!("`{character}{character}` means something else in Weir"));
            }
            _ => self.out.push(character),
        }
        self.class = ClassPosition::Inside;
        Ok(())
    }
}

/// The most characters of a look-ahead with what follows it.
const LONGEST_EXCLUDED: usize = 256;

/// Returns the text that a regex without operators matches.
fn literal(regex: &str) -> Option<String> {
    let mut text = String::new();
    let mut rest = regex.chars();
    while let Some(character) = rest.next() {
        match character {
            '\\' => text.push(rest.next().filter(char::is_ascii_punctuation)?),
            _ if character.is_ascii_alphanumeric() || "-_/~ ".contains(character) => {
                text.push(character);
            }
            _ => return None,
        }
    }
    Some(text)
}

/// Returns a regex for the beginning of texts that begin with none of these words, or end before.
fn beginning_otherwise(words: &[&str]) -> String {
    let mut firsts: Vec<char> = words.iter().filter_map(|word| word.chars().next()).collect();
    firsts.sort_unstable();
    firsts.dedup();
    let escaped = |character: char| match character {
        _ if character.is_ascii_alphanumeric() => character.to_string(),
        _ => format!("\\x{:02x}", u32::from(character)),
    };
    let class: String = firsts.iter().copied().map(escaped).collect();
    let mut out = format!("(?:\\z|[^{class}]");
    for first in firsts {
        let rests = words.iter().filter_map(|word| word.strip_prefix(first));
        let rests: Vec<&str> = rests.collect();
        if rests.iter().all(|rest| !rest.is_empty()) {
            let _ = write!(out, "|{}{}", escaped(first), beginning_otherwise(&rests));
        }
    }
    out.push(')');
    out
}

/// The place of a character relative to the brackets of a class.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ClassPosition {
    Outside,
    /// Directly after `[` or `[^`.
    Start,
    Inside,
}

impl ClassPosition {
    fn after_character(self) -> Self {
        if self == Self::Outside { Self::Outside } else { Self::Inside }
    }
}

/// Returns a text with `\1` as `${1}`, the numbers higher by `shift`.
pub(crate) fn group_variables(text: &str, shift: u32) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(character) = rest.next() {
        match (character, rest.peek().and_then(|next| next.to_digit(10))) {
            ('\\', Some(group)) => {
                rest.next();
                let _ = write!(out, "${{{}}}", group + shift);
            }
            _ => out.push(character),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use weir_config::pattern::PathPattern;

    use super::*;

    #[test]
    fn a_regex_matches_what_it_matches_in_nginx() {
        let check = |pattern: &str, path: &str, expected: bool| {
            let regex = format!("~{}", native(pattern).unwrap());
            let regex = regex.parse::<PathPattern>().unwrap();
            assert_eq!(regex.matches(path), expected, "{pattern} {path:?}");
        };
        check(r"\.php$", "/a.php", true);
        check(r"\.php$", "/a.php\n", true);
        check(r"\.php$", "/a.php\nx", false);
        check(r"^/a.b$", "/a\nb", false);
        check(r"^/a\$b", "/a$b", true);
        check(r"^/[$.]b", "/$b", true);
        check(r"^/[]a]b", "/]b", true);
        check(r"^/[[]b", "/[b", true);
        check(r"^/(?:a|b)+?/", "/ab/", true);
        check(r"\.(?:css|js)$", "/x.css", true);
        check(r"^/(?<name>[a-z]+)$", "/abc", true);
        for (path, expected) in [
            ("/.git", true),
            ("/.", true),
            ("/.well-known/x", false),
            ("/.well-know", true),
            ("/.w", true),
            ("/a", false),
        ] {
            check(r"/\.(?!well-known)", path, expected);
            check(r"/\.(?!well\-known).*", path, expected);
        }
        for (path, expected) in [("/api/x", false), ("/app", true), ("/admin", false), ("/", true)]
        {
            check(r"^/(?!api/|admin)(.*)$", path, expected);
        }
    }

    #[test]
    fn a_regex_that_means_something_else_is_refused() {
        let unknown = |regex: &str| format!("~{}", native(regex).unwrap()).parse::<PathPattern>();
        for pattern in ["a(?!b)c", "a(?!b+)", "a(?!)", "a(?=b)"] {
            assert!(unknown(pattern).is_err(), "{pattern}");
        }
        assert!(native("^/(?!admin|API)").is_err(), "with `~*` it would exclude nothing");
        for pattern in
            ["a++", "a*+b", "a{2}+", "[a&&b]", "[[:alpha:]]", "(?s).", "(?m)^a$", "(?xi)a"]
        {
            assert!(native(pattern).is_err(), "{pattern}");
        }
        assert!(native("(?i)a").is_ok());
    }
}
