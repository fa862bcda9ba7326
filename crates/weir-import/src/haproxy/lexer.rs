//! Splits the text of an HAProxy file into lines of words, by HAProxy's rules for quotes, escapes,
//! comments and environment variables. No keyword is known here.
//!
//! A blank ends a word, unless it is in quotes or after a backslash. `#` begins a comment anywhere
//! outside quotes. Variables are replaced in double quotes only; `${NAME[*]}` becomes several
//! words, `${NAME-text}` has a default, and `.FILE`, `.LINE` and `.SECTION` are known.

use std::collections::HashMap;

use weir_config::Diagnostic;
use weir_config::source::{FileId, SourceSpan};
use weir_config::syntax::lexer::Environment;

/// The character that stands for a byte that is not UTF-8.
pub(super) const INVALID: char = '\u{1a}';
/// The most bytes that the variables of a file may become.
const MOST_EXPANDED: usize = 16 << 20;

/// A word after quotes, escapes and variables.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct LineWord {
    pub(super) text: String,
    pub(super) span: SourceSpan,
}

/// The words of one line, at least one.
#[derive(Clone, Debug)]
pub(super) struct HaproxyLine {
    pub(super) words: Vec<LineWord>,
    /// The number of the line, from 1.
    pub(super) number: usize,
}

impl HaproxyLine {
    pub(super) fn span(&self) -> SourceSpan {
        let first = self.words[0].span;
        self.words.last().map_or(first, |last| first.to(last.span))
    }
}

/// The context of a line: its file, and the values of variables.
pub(super) struct LineLexer<'a> {
    pub(super) file: FileId,
    /// The name of the file, for `.FILE`.
    pub(super) name: &'a str,
    /// The name of the section, for `.SECTION`.
    pub(super) section: String,
    pub(super) environment: Environment<'a>,
    /// The variables that the file itself sets.
    variables: HashMap<String, Option<String>>,
    expanded: usize,
}

/// The quotes around a place.
#[derive(Clone, Copy, PartialEq)]
enum Quote {
    None,
    Single,
    Double,
}

/// A line that is being split.
struct Splitter<'l> {
    text: &'l str,
    at: usize,
    /// The place of the line in the file.
    offset: usize,
    words: Vec<LineWord>,
    /// The word that is being read.
    word: String,
    start: Option<usize>,
}

impl Splitter<'_> {
    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn push(&mut self, text: &str) {
        self.start.get_or_insert(self.at);
        self.word.push_str(text);
    }

    fn finish(&mut self, file: FileId) {
        let Some(start) = self.start.take() else { return };
        let text = std::mem::take(&mut self.word);
        let span = SourceSpan { file, start: self.offset + start, end: self.offset + self.at };
        self.words.push(LineWord { text, span });
    }
}

impl<'a> LineLexer<'a> {
    pub(super) fn new(file: FileId, name: &'a str, environment: Environment<'a>) -> Self {
        Self {
            file,
            name,
            section: String::new(),
            environment,
            variables: HashMap::new(),
            expanded: 0,
        }
    }

    /// Splits a line, which begins at this byte of the file; `None` if it has no words.
    pub(super) fn line(
        &mut self,
        text: &str,
        offset: usize,
        number: usize,
    ) -> Result<Option<HaproxyLine>, Box<Diagnostic>> {
        let mut line =
            Splitter { text, at: 0, offset, words: Vec::new(), word: String::new(), start: None };
        let mut quote = Quote::None;
        let mut opened = 0;
        while let Some(character) = line.rest().chars().next() {
            let length = character.len_utf8();
            match (character, quote) {
                ('#', Quote::None) => break,
                (' ' | '\t', Quote::None) => {
                    line.finish(self.file);
                    line.at += length;
                }
                ('\'' | '"', Quote::None) => {
                    quote = if character == '"' { Quote::Double } else { Quote::Single };
                    opened = line.at;
                    line.push("");
                    line.at += length;
                }
                ('\'', Quote::Single) | ('"', Quote::Double) => {
                    quote = Quote::None;
                    line.at += length;
                }
                ('\\', Quote::None | Quote::Double) => self.escape(&mut line, quote)?,
                ('$', Quote::Double) => self.variable(&mut line, number)?,
                (INVALID, _) => {
                    let span = self.place(&line, line.at, length);
                    return Err(Diagnostic::error(span, "this byte is not UTF-8")
                        .help("only comments may have other encodings: save the file as UTF-8")
                        .into());
                }
                _ => {
                    line.push(character.encode_utf8(&mut [0; 4]));
                    line.at += length;
                }
            }
        }
        if quote != Quote::None {
            let span = self.place(&line, opened, 1);
            return Err(Diagnostic::error(span, "this quote is never closed")
                .help("a quote ends on its line; write `\\` before one that is meant literally")
                .into());
        }
        line.finish(self.file);
        let words = line.words;
        Ok((!words.is_empty()).then_some(HaproxyLine { words, number }))
    }

    fn place(&self, line: &Splitter<'_>, at: usize, length: usize) -> SourceSpan {
        let start = line.offset + at;
        SourceSpan { file: self.file, start, end: start + length }
    }

    /// Reads what follows a backslash.
    fn escape(&self, line: &mut Splitter<'_>, quote: Quote) -> Result<(), Box<Diagnostic>> {
        let mut characters = line.rest().chars();
        characters.next();
        let next = characters.next();
        let (text, length): (String, usize) = match next {
            Some('n') => ("\n".to_owned(), 2),
            Some('r') => ("\r".to_owned(), 2),
            Some('t') => ("\t".to_owned(), 2),
            Some('x') => {
                let digits: String = characters.take(2).collect();
                let byte = u8::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == 2);
                let Some(byte) = byte.filter(u8::is_ascii) else {
                    let span = self.place(line, line.at, 2);
                    return Err(Diagnostic::error(
                        span,
                        "`\\x` needs two hexadecimal digits, at most 7f",
                    )
                    .into());
                };
                (char::from(byte).to_string(), 4)
            }
            Some(special @ ('\\' | '"')) => (special.to_string(), 2),
            Some('$') if quote == Quote::Double => ("$".to_owned(), 2),
            Some(special @ (' ' | '\t' | '#' | '\'')) => {
                (special.to_string(), 1 + special.len_utf8())
            }
            // Any other backslash stays.
            _ => ("\\".to_owned(), 1),
        };
        line.push(&text);
        line.at += length;
        Ok(())
    }

    /// Reads `$NAME`, `${NAME}`, `${NAME-text}` or `${NAME[*]}`.
    fn variable(&mut self, line: &mut Splitter<'_>, number: usize) -> Result<(), Box<Diagnostic>> {
        let rest = line.rest();
        let after = &rest[1..];
        let named = |text: &str| {
            let first = text.starts_with('.');
            let body = if first { &text[1..] } else { text };
            let end =
                body.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(body.len());
            end + usize::from(first)
        };
        let (name, default, list, length) = if let Some(inner) = after.strip_prefix('{') {
            let Some(close) = inner.find('}') else {
                let span = self.place(line, line.at, 2);
                return Err(Diagnostic::error(span, "this `${` is never closed").into());
            };
            let inner = &inner[..close];
            let end = named(inner);
            let (name, tail) = inner.split_at(end);
            let (list, tail) = match tail.strip_prefix("[*]") {
                Some(tail) => (true, tail),
                None => (false, tail),
            };
            let default = tail.strip_prefix('-');
            if !tail.is_empty() && default.is_none() {
                let span = self.place(line, line.at, close + 3);
                return Err(Diagnostic::error(span, "this is not the name of a variable")
                    .help("write `${NAME}`, `${NAME-default}` or `${NAME[*]}`")
                    .into());
            }
            (name.to_owned(), default.map(str::to_owned), list, close + 3)
        } else {
            let end = named(after);
            (after[..end].to_owned(), None, false, end + 1)
        };
        let span = self.place(line, line.at, length);
        if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(Diagnostic::error(span, "a `$` is not followed by the name of a variable")
                .help("write `\\$` for a dollar sign in double quotes, or use single quotes")
                .into());
        }
        let value = self.value(&name, number).or(default).unwrap_or_default();
        self.expanded += value.len();
        if self.expanded > MOST_EXPANDED {
            let reason =
                format!("the variables of this file are longer than {MOST_EXPANDED} bytes");
            return Err(Diagnostic::error(span, reason).into());
        }
        if list {
            let mut parts = value.split_whitespace();
            line.push(parts.next().unwrap_or_default());
            for part in parts {
                line.finish(self.file);
                line.push(part);
            }
        } else {
            line.push(&value);
        }
        line.at += length;
        Ok(())
    }

    /// Takes `setenv`, `presetenv` and `unsetenv`, which hold for the lines after them.
    pub(super) fn set_variables(&mut self, line: &HaproxyLine) {
        let words: Vec<&str> = line.words.iter().map(|word| word.text.as_str()).collect();
        match words.as_slice() {
            ["setenv", name, value] => self.set(name, Some(value)),
            ["presetenv", name, value] if self.variable_of(name).is_none() => {
                self.set(name, Some(value));
            }
            ["unsetenv", names @ ..] => {
                for name in names {
                    self.set(name, None);
                }
            }
            _ => {}
        }
    }

    fn set(&mut self, name: &str, value: Option<&str>) {
        self.variables.insert(name.to_owned(), value.map(str::to_owned));
    }

    /// Returns a variable of the file, or of the environment.
    pub(super) fn variable_of(&self, name: &str) -> Option<String> {
        match self.variables.get(name) {
            Some(value) => value.clone(),
            None => (self.environment)(name),
        }
    }

    fn value(&self, name: &str, number: usize) -> Option<String> {
        match name {
            ".FILE" => Some(self.name.to_owned()),
            ".LINE" => Some(number.to_string()),
            ".SECTION" => Some(self.section.clone()),
            _ => self.variable_of(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_config::source::Sources;

    use super::*;

    fn words(text: &str) -> Result<Vec<String>, String> {
        let mut sources = Sources::default();
        let file = sources.add("h.cfg", text);
        let environment = |name: &str| match name {
            "A" => Some("one two".to_owned()),
            "E" => Some(String::new()),
            _ => None,
        };
        let mut lexer = LineLexer::new(file, "h.cfg", &environment);
        "web".clone_into(&mut lexer.section);
        let line = lexer.line(text, 0, 7).map_err(|error| error.message)?;
        Ok(line
            .map_or_else(Vec::new, |line| line.words.into_iter().map(|word| word.text).collect()))
    }

    fn check(text: &str, expected: &[&str]) {
        assert_eq!(words(text).unwrap(), expected, "{text}");
    }

    #[test]
    fn words_are_those_of_haproxy() {
        check("  a\tb  # c", &["a", "b"]);
        check("a#b", &["a"]);
        check("# only", &[]);
        check(r"a\ b \# \\ \' \q \. \x41\n", &["a b", "#", "\\", "'", "\\q", "\\.", "A\n"]);
        check(r#"'a "b" \n $A' "a 'b' # \" \$A \x41""#, &["a \"b\" \\n $A", "a 'b' # \" $A A"]);
        check(r#"x"a"'b'y """#, &["xaby", ""]);
        check("$A", &["$A"]);
    }

    #[test]
    fn variables_are_replaced_in_double_quotes() {
        check(
            r#""$A" "${A}" "${A[*]}" "<$A>" "#,
            &["one two", "one two", "one", "two", "<one two>"],
        );
        check(r#""${N-x y}" "${E-x}" "$N" a"#, &["x y", "", "", "a"]);
        check(r#""${.LINE}" "$.FILE" "${.SECTION}""#, &["7", "h.cfg", "web"]);
    }

    #[test]
    fn damage_is_told() {
        let check = |text: &str, expected: &str| {
            let message = words(text).unwrap_err();
            assert!(message.contains(expected), "{text}: {message}");
        };
        check("a 'b", "never closed");
        check("a \"b", "never closed");
        check("\"${A", "never closed");
        check("\"$ \"", "name of a variable");
        check("\"${A+}\"", "name of a variable");
        check("\\xg0", "hexadecimal");
        check("a\u{1a}", "not UTF-8");
        assert!(words("a # \u{1a}").is_ok());
    }
}
