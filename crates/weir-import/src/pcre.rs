//! Regexes of nginx and HAProxy (PCRE) in the syntax of Weir's, which has no backtracking. A regex
//! that would mean something else is refused, and so is one that the syntax does not have.

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
    }

    #[test]
    fn a_regex_that_means_something_else_is_refused() {
        for pattern in
            ["a++", "a*+b", "a{2}+", "[a&&b]", "[[:alpha:]]", "(?s).", "(?m)^a$", "(?xi)a"]
        {
            assert!(native(pattern).is_err(), "{pattern}");
        }
        assert!(native("(?i)a").is_ok());
    }
}
