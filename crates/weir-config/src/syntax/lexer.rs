//! The lexer: splits a text into words, braces and semicolons, each with its span. It handles
//! quoting, comments and `${VARIABLE}` and knows no directive. Errors are collected, and reading
//! goes on after each.
//!
//! A word ends at white space, `;`, `{` or `}`, unless these are inside single or double quotes.
//! `\"`, `\'`, `\\`, `\n`, `\r` and `\t` are escapes; any other backslash is kept, as regexes need
//! it. `#` at the start of a word begins a comment. `${NAME}` and `${NAME:-default}` with a name in
//! capitals are replaced by the environment variable, except in single quotes; `\${` is not
//! expanded. [`Dialect::Nginx`] has nginx's rules instead (`ngx_conf_read_token`).

use crate::diagnostic::Diagnostic;
use crate::source::{FileId, SourceSpan};

/// A function that looks up an environment variable.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The rules by which a text is split.
#[derive(Clone, Copy)]
pub enum Dialect<'a> {
    /// Weir's own, with a source of environment variables.
    Native(Environment<'a>),
    /// nginx's: a quote is one only at the start of a word, `}` ends no word, and variables,
    /// `${name}` among them, stay as they are.
    Nginx,
}

/// The message for a quote that is never closed. Tokens after such a quote are not reliable.
pub(crate) const UNCLOSED_QUOTE: &str = "this quote is never closed";

/// A token.
#[derive(Clone, Debug, PartialEq)]
pub struct Token {
    /// The kind, with the text of a word.
    pub kind: TokenKind,
    /// The token's place in the source.
    pub span: SourceSpan,
}

/// The kinds of tokens.
#[derive(Clone, Debug, PartialEq)]
pub enum TokenKind {
    /// A word.
    Word(Word),
    /// `{`
    Open,
    /// `}`
    Close,
    /// `;`
    Semicolon,
}

/// A word, with quotes and escapes resolved and variables expanded.
#[derive(Clone, Debug, PartialEq)]
pub struct Word {
    /// The text after quotes, escapes and variables.
    pub text: String,
    /// The place in the source, quotes included.
    pub span: SourceSpan,
    /// The number of bytes of `text` before the first quote; only these can be syntax such as `->`
    /// or the `=` of an option.
    pub bare: usize,
    /// The byte of the source at which `text` stands literally; `None` if it has escapes or
    /// variables.
    pub verbatim: Option<usize>,
    /// Set if a variable was expanded in the word.
    pub expanded: bool,
    /// Set if an error in one of its variables or quotes was reported: the word's text deserves no
    /// second message.
    pub broken: bool,
}

impl Word {
    /// Returns true if the word is this keyword. A quoted word never is.
    pub fn is(&self, keyword: &str) -> bool {
        self.is_bare() && self.text == keyword
    }

    /// Returns true if no part of the word is quoted.
    pub fn is_bare(&self) -> bool {
        self.bare == self.text.len() && !self.text.is_empty()
    }

    /// Returns the key and the byte where the value starts, if the word has the form `key=value`.
    pub fn option(&self) -> Option<(&str, usize)> {
        let equals = self.text.get(..self.bare)?.find('=')?;
        let key = &self.text[..equals];
        let named = key.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
            && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
        named.then_some((key, equals + 1))
    }

    /// Returns the place of `text[start..]`, or of the whole word where the source does not hold it
    /// literally.
    pub fn part(&self, start: usize) -> SourceSpan {
        match self.verbatim {
            Some(origin) => {
                let end = origin + self.text.len();
                SourceSpan { start: (origin + start).min(end), end, ..self.span }
            }
            None => self.span,
        }
    }
}

/// Splits a text into tokens.
pub fn lex(text: &str, file: FileId, dialect: Dialect<'_>) -> (Vec<Token>, Vec<Diagnostic>) {
    let mut tokens = Vec::new();
    let errors = lex_each(text, file, dialect, |token| tokens.push(token));
    (tokens, errors)
}

/// Does the same without keeping the tokens, of which a long text has more than memory is worth.
pub(crate) fn lex_each(
    text: &str,
    file: FileId,
    dialect: Dialect<'_>,
    mut take: impl FnMut(Token),
) -> Vec<Diagnostic> {
    let mut lexer = Lexer { text, file, at: 0, dialect, token: None, errors: Vec::new() };
    if text.starts_with('\u{feff}') {
        lexer.at = '\u{feff}'.len_utf8();
    }
    while let Some(character) = lexer.peek() {
        lexer.step(character);
        lexer.token.take().into_iter().for_each(&mut take);
    }
    lexer.errors
}

struct Lexer<'a> {
    text: &'a str,
    file: FileId,
    at: usize,
    dialect: Dialect<'a>,
    /// The token that was read last, until it is taken.
    token: Option<Token>,
    errors: Vec<Diagnostic>,
}

/// A word that is being read.
struct Draft {
    text: String,
    start: usize,
    bare: Option<usize>,
    changed: bool,
    expanded: bool,
    broken: bool,
}

impl Draft {
    fn at(start: usize) -> Self {
        let text = String::new();
        Self { text, start, bare: None, changed: false, expanded: false, broken: false }
    }
}

impl Lexer<'_> {
    /// Reads a token, or what is between two.
    fn step(&mut self, character: char) {
        let kind = match character {
            _ if self.is_blank(character) => {
                self.at += character.len_utf8();
                return;
            }
            '#' => {
                let rest = &self.text[self.at..];
                self.at += rest.find('\n').unwrap_or(rest.len());
                return;
            }
            '{' => TokenKind::Open,
            '}' => TokenKind::Close,
            ';' => TokenKind::Semicolon,
            _ => {
                return match self.dialect {
                    Dialect::Native(environment) => self.word(environment),
                    Dialect::Nginx => self.nginx_word(),
                };
            }
        };
        let span = self.span(self.at, self.at + 1);
        self.at += 1;
        self.token = Some(Token { kind, span });
    }

    fn is_blank(&self, character: char) -> bool {
        match self.dialect {
            Dialect::Native(_) => character.is_whitespace(),
            Dialect::Nginx => matches!(character, ' ' | '\t' | '\r' | '\n'),
        }
    }

    fn word(&mut self, environment: Environment<'_>) {
        let mut draft = Draft::at(self.at);
        while let Some(character) = self.peek() {
            match character {
                '"' | '\'' => {
                    draft.bare.get_or_insert(draft.text.len());
                    let environment = (character == '"').then_some(environment);
                    self.quoted(character, &mut draft, environment);
                }
                '\\' => self.escape(&mut draft),
                '$' if self.text[self.at..].starts_with("${") => {
                    self.variable(&mut draft, environment);
                }
                ';' | '{' | '}' => break,
                _ if character.is_whitespace() => break,
                _ => self.copy(character, &mut draft),
            }
        }
        self.end_word(draft);
    }

    /// Reads a word by nginx's rules: in quotes as a whole or not at all. A `{` ends it, except
    /// directly after a `$`; a `}` does not.
    fn nginx_word(&mut self) {
        let mut draft = Draft::at(self.at);
        if let Some(quote @ ('"' | '\'')) = self.peek() {
            draft.bare = Some(0);
            self.quoted(quote, &mut draft, None);
            let end = self.at;
            if self.peek().is_some_and(|next| !self.is_blank(next) && !";{)".contains(next)) {
                let error = Diagnostic::error(self.span(end, end + 1), "a space is missing here");
                self.errors.push(error.label("nginx ends a word at its closing quote"));
            }
            return self.end_word(draft);
        }
        let mut after_dollar = false;
        while let Some(character) = self.peek() {
            match character {
                '\\' => self.nginx_escape(&mut draft),
                '{' if !after_dollar => break,
                ';' => break,
                _ if self.is_blank(character) => break,
                _ => self.copy(character, &mut draft),
            }
            after_dollar = character == '$';
        }
        self.end_word(draft);
    }

    /// Keeps a backslash before anything but a quote, a backslash or a letter of a control
    /// character.
    fn nginx_escape(&mut self, draft: &mut Draft) {
        let dollar = self.text[self.at + 1..].starts_with('$');
        if dollar {
            draft.text.push_str("\\$");
            self.at += 2;
        } else {
            self.escape(draft);
        }
    }

    fn end_word(&mut self, draft: Draft) {
        let start = draft.start;
        let source = &self.text[start..self.at];
        let verbatim = if source == draft.text {
            Some(start)
        } else if !draft.changed && source.get(1..source.len() - 1) == Some(draft.text.as_str()) {
            Some(start + 1)
        } else {
            None
        };
        let span = self.span(start, self.at);
        let bare = draft.bare.unwrap_or(draft.text.len());
        let word = Word {
            text: draft.text,
            span,
            bare,
            verbatim,
            expanded: draft.expanded,
            broken: draft.broken,
        };
        self.token = Some(Token { kind: TokenKind::Word(word), span });
    }

    /// Reads to the closing quote. Variables are expanded if there is an `environment`.
    fn quoted(&mut self, quote: char, draft: &mut Draft, environment: Option<Environment<'_>>) {
        let open = self.at;
        self.at += 1;
        while let Some(character) = self.peek() {
            match character {
                _ if character == quote => {
                    self.at += 1;
                    return;
                }
                '\\' if matches!(self.dialect, Dialect::Nginx) => self.nginx_escape(draft),
                // The text behind it is read like any other: a brace is none between quotes.
                '\\' if self.text[self.at..].starts_with("\\${") => {
                    draft.changed = true;
                    draft.text.push('$');
                    self.at += 2;
                }
                '\\' => self.escape(draft),
                '$' if self.text[self.at..].starts_with("${") => match environment {
                    Some(environment) => self.variable(draft, environment),
                    None => self.copy(character, draft),
                },
                _ => self.copy(character, draft),
            }
        }
        let mut error = Diagnostic::error(self.span(open, open + 1), UNCLOSED_QUOTE)
            .label(format!("the text runs to the end of the file: add a closing {quote}"));
        if quote == '\'' && open > draft.start {
            error = error.help("for an apostrophe inside a word write \\'");
        }
        draft.broken = true;
        self.errors.push(error);
    }

    fn escape(&mut self, draft: &mut Draft) {
        draft.changed = true;
        self.at += 1;
        let Some(character) = self.peek() else {
            draft.text.push('\\');
            return;
        };
        match character {
            '"' | '\'' | '\\' => draft.text.push(character),
            'n' => draft.text.push('\n'),
            'r' => draft.text.push('\r'),
            't' => draft.text.push('\t'),
            '$' if self.text[self.at..].starts_with("${") => {
                let rest = &self.text[self.at..];
                let line = &rest[..rest.find('\n').unwrap_or(rest.len())];
                let end = line.find('}').map_or(1, |end| end + 1);
                draft.text.push_str(&line[..end]);
                self.at += end;
                return;
            }
            _ => {
                draft.text.push('\\');
                draft.text.push(character);
            }
        }
        self.at += character.len_utf8();
    }

    /// Expands the variable at `${`. Names with small letters stay as they are, for texts with
    /// variables of a request, such as `${host}`.
    fn variable(&mut self, draft: &mut Draft, environment: Environment<'_>) {
        let start = self.at;
        let rest = &self.text[start..];
        let line = &rest[..rest.find('\n').unwrap_or(rest.len())];
        let Some(end) = line.find('}') else {
            let error = Diagnostic::error(self.span(start, start + 2), "this `${` is never closed");
            self.errors.push(error.label("a `}` is missing on this line"));
            draft.broken = true;
            draft.text.push_str("${");
            self.at += 2;
            return;
        };
        self.at += end + 1;
        let (name, default) = match line[2..end].split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (&line[2..end], None),
        };
        if default.is_none() && name.bytes().any(|byte| byte.is_ascii_lowercase()) {
            draft.text.push_str(&line[..=end]);
            return;
        }
        draft.changed = true;
        draft.expanded = true;
        let span = self.span(start, self.at);
        let good = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
        if name.is_empty() || !name.bytes().all(good) || name.as_bytes()[0].is_ascii_digit() {
            let error = Diagnostic::error(
                span,
                format!("`{name}` is not a name of an environment variable"),
            );
            draft.broken = true;
            self.errors.push(
                error.help("write `${NAME}` or `${NAME:-default}`, with the name in capitals"),
            );
            return;
        }
        let set = (environment)(name).filter(|value| default.is_none() || !value.is_empty());
        if let Some(value) = set.as_deref().or(default) {
            draft.text.push_str(value);
            return;
        }
        draft.broken = true;
        let error =
            Diagnostic::error(span, format!("the environment variable `{name}` is not set"));
        self.errors.push(error.help(format!("set it, or write a default: `${{{name}:-default}}`")));
    }

    fn copy(&mut self, character: char, draft: &mut Draft) {
        draft.text.push(character);
        self.at += character.len_utf8();
    }

    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn span(&self, start: usize, end: usize) -> SourceSpan {
        SourceSpan { file: self.file, start, end }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::source::Sources;

    fn environment(name: &str) -> Option<String> {
        match name {
            "PORT" => Some("8080".into()),
            "TWO_WORDS" => Some("a b;c".into()),
            "EMPTY" => Some(String::new()),
            _ => None,
        }
    }

    fn tokens(text: &str) -> (Vec<Token>, Vec<Diagnostic>) {
        let mut sources = Sources::default();
        let file = sources.add("t", text);
        lex(text, file, Dialect::Native(&environment))
    }

    /// Compares with the expected text: words in brackets, then syntax tokens as they are, then the
    /// messages.
    fn check(text: &str, expected: &str) {
        let (tokens, errors) = tokens(text);
        let mut shown: Vec<String> = tokens
            .iter()
            .map(|token| match &token.kind {
                TokenKind::Word(word) => format!("[{}]", word.text),
                TokenKind::Open => "{".into(),
                TokenKind::Close => "}".into(),
                TokenKind::Semicolon => ";".into(),
            })
            .collect();
        shown.extend(errors.iter().map(|error| format!("!{}", error.message)));
        assert_eq!(shown.join(" "), expected, "{text}");
    }

    #[test]
    fn words_and_syntax() {
        check("listen :80{a b;}", "[listen] [:80] { [a] [b] ; }");
        check("a # b ; {\nc", "[a] [c]");
        check("a#b #c", "[a#b]");
        check("\u{feff}a", "[a]");
        check("route->x", "[route->x]");
    }

    #[test]
    fn nginx_has_other_rules_for_quotes_and_braces() {
        let check = |text: &str, expected: &str| {
            let mut sources = Sources::default();
            let file = sources.add("t", text);
            let (tokens, errors) = lex(text, file, Dialect::Nginx);
            let words = tokens.iter().map(|token| match &token.kind {
                TokenKind::Word(word) => format!("[{}]", word.text),
                TokenKind::Open => "{".into(),
                TokenKind::Close => "}".into(),
                TokenKind::Semicolon => ";".into(),
            });
            let mut shown: Vec<String> = words.collect();
            shown.extend(errors.iter().map(|error| format!("!{}", error.message)));
            assert_eq!(shown.join(" "), expected, "{text}");
        };
        check("a \"b c;{}\" '${HOME} \"d\"';", "[a] [b c;{}] [${HOME} \"d\"] ;");
        check("return 200 ${HOME}x$y;", "[return] [200] [${HOME}x$y] ;");
        check("a it's b\"c; }", "[a] [it's] [b\"c] ; }");
        check("~ ^/a}b{ x; }", "[~] [^/a}b] { [x] ; }");
        check(r"\.php$ \${x}", r"[\.php$] [\$] { [x}]");
        check("'a'b;", "[a] [b] ; !a space is missing here");
        check("a #b\n'c", "[a] [c] !this quote is never closed");
    }

    #[test]
    fn quotes_and_escapes() {
        check(r#"a "b c;{}" 'd "e"'"#, r#"[a] [b c;{}] [d "e"]"#);
        check(r#"header X="a b""#, "[header] [X=a b]");
        check(r#""a\"b\\c\n\.d""#, "[a\"b\\c\n\\.d]");
        check(r"~^/a\.php$", r"[~^/a\.php$]");
        check(r"a\;b\ c", r"[a\;b\ c]");
        check("\"\"", "[]");
        check("\"open ;", "[open ;] !this quote is never closed");
        check("a\\", "[a\\]");
    }

    #[test]
    fn variables_of_the_environment() {
        check(":${PORT}", "[:8080]");
        check("\"x ${PORT}\" '${PORT}' \\${PORT}", "[x 8080] [${PORT}] [${PORT}]");
        check(r#""a\${b" "c}" '\${PORT}'"#, "[a${b] [c}] [${PORT}]");
        check("${TWO_WORDS}", "[a b;c]");
        check("${GONE:-a b}x ${EMPTY:-d}", "[a bx] [d]");
        check("${EMPTY}", "[]");
        check("$host ${host} ${http_x}", "[$host] [${host}] [${http_x}]");
        check("${GONE}", "[] !the environment variable `GONE` is not set");
        check("${PO\n}", "[${PO] } !this `${` is never closed");
        check("${1X}", "[] !`1X` is not a name of an environment variable");
        check("${x:-1}", "[] !`x` is not a name of an environment variable");
    }

    #[test]
    fn options_are_split_only_outside_quotes() {
        let option = |text: &str| match &tokens(text).0[0].kind {
            TokenKind::Word(word) => {
                word.option().map(|(key, start)| (key.to_owned(), word.text[start..].to_owned()))
            }
            _ => None,
        };
        assert_eq!(option("a=b=c"), Some(("a".into(), "b=c".into())));
        assert_eq!(option("a=\"b c\""), Some(("a".into(), "b c".into())));
        assert_eq!(option("\"a=b\""), None);
        assert_eq!(option("/a?b=c"), None);
    }

    proptest! {
        #[test]
        fn any_text_is_read_and_its_spans_are_its_text(text in "[a-z\"'\\\\${}A-Z:;# \n\t=çü-]{0,80}") {
            let (tokens, errors) = tokens(&text);
            let mut end = 0;
            for token in &tokens {
                prop_assert!(token.span.start >= end && token.span.end > token.span.start);
                prop_assert!(text.is_char_boundary(token.span.start) && text.is_char_boundary(token.span.end));
                end = token.span.end;
                if let TokenKind::Word(word) = &token.kind && let Some(start) = word.verbatim {
                    prop_assert_eq!(text.get(start..start + word.text.len()), Some(word.text.as_str()));
                }
            }
            prop_assert!(end <= text.len());
            for error in errors {
                let span = error.span.unwrap();
                prop_assert!(text.get(span.start..span.end).is_some());
            }
        }

        #[test]
        fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = tokens(&String::from_utf8_lossy(&bytes));
        }
    }
}
