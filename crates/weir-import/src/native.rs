//! Directives of Weir's syntax as an import makes them, and their text. Each word has the place in
//! the imported file that it comes from, so that messages name that place.

use std::fmt::Write as _;

use weir_config::source::SourceSpan;
use weir_config::syntax::lexer::Word;
use weir_config::syntax::tree::{Block, Directive, End};

/// A directive that is being written.
#[derive(Clone, Debug)]
pub(crate) struct NativeLine {
    directive: Directive,
    span: SourceSpan,
}

impl NativeLine {
    pub(crate) fn new(name: &str, span: SourceSpan) -> Self {
        let directive = Directive {
            name: bare(name, span),
            words: Vec::new(),
            block: None,
            end: End::Semicolon,
        };
        Self { directive, span }
    }

    /// Adds a keyword.
    pub(crate) fn keyword(mut self, text: &str) -> Self {
        self.directive.words.push(bare(text, self.span));
        self
    }

    /// Adds a value, which is never read as a keyword or an option.
    pub(crate) fn value(self, text: &str) -> Self {
        let span = self.span;
        self.value_at(text, span)
    }

    /// Adds a value that comes from this place.
    pub(crate) fn value_at(mut self, text: &str, span: SourceSpan) -> Self {
        self.directive.words.push(Word { bare: 0, ..bare(text, span) });
        self
    }

    /// Adds `key=value`.
    pub(crate) fn option(self, key: &str, value: &str) -> Self {
        let span = self.span;
        self.option_at(key, value, span)
    }

    /// Adds `key=value`, which comes from this place.
    pub(crate) fn option_at(mut self, key: &str, value: &str, span: SourceSpan) -> Self {
        let word = bare(&format!("{key}={value}"), span);
        self.directive.words.push(Word { bare: key.len() + 1, ..word });
        self
    }

    /// Adds words that were written before.
    pub(crate) fn words(mut self, words: impl IntoIterator<Item = Word>) -> Self {
        self.directive.words.extend(words);
        self
    }

    pub(crate) fn end(self) -> Directive {
        self.directive
    }

    pub(crate) fn block(mut self, directives: Vec<Directive>) -> Directive {
        self.directive.block = Some(Block { directives, open: self.span });
        self.directive.end = End::Block;
        self.directive
    }

    /// Returns the words after the name.
    pub(crate) fn into_words(self) -> Vec<Word> {
        self.directive.words
    }
}

fn bare(text: &str, span: SourceSpan) -> Word {
    Word {
        text: text.to_owned(),
        span,
        bare: text.len(),
        verbatim: None,
        expanded: false,
        broken: false,
    }
}

/// Returns the text of directives.
pub(crate) fn print(directives: &[Directive]) -> String {
    let mut text = String::new();
    write_block(directives, 0, &mut text);
    text
}

fn write_block(directives: &[Directive], depth: usize, text: &mut String) {
    for directive in directives {
        for _ in 0..depth {
            text.push_str("    ");
        }
        text.push_str(&directive.name.text);
        for word in &directive.words {
            text.push(' ');
            write_word(word, text);
        }
        match &directive.block {
            Some(block) => {
                text.push_str(" {\n");
                write_block(&block.directives, depth + 1, text);
                for _ in 0..depth {
                    text.push_str("    ");
                }
                text.push_str("}\n");
            }
            None => text.push_str(";\n"),
        }
    }
}

fn write_word(word: &Word, text: &mut String) {
    let (bare, value) = word.text.split_at_checked(word.bare).unwrap_or(("", &word.text));
    text.push_str(bare);
    if value.is_empty() && !bare.is_empty() {
        return;
    }
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/.:-_*$,%+~".contains(&byte);
    // A value that could be read as a keyword, such as a header's value `secret`, is quoted.
    let name = |byte: u8| byte.is_ascii_alphabetic() || b"_->".contains(&byte);
    let keyword = bare.is_empty() && value.bytes().all(name);
    if value.bytes().all(plain) && !keyword {
        text.push_str(value);
        return;
    }
    text.push('"');
    for (at, character) in value.char_indices() {
        match character {
            '$' if is_environment(&value[at..]) => text.push_str("\\$"),
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            other => {
                let _ = write!(text, "{other}");
            }
        }
    }
    text.push('"');
}

/// Returns true if the text begins with what the lexer takes for a variable of the environment.
/// Variables of a request have small letters.
fn is_environment(text: &str) -> bool {
    text.strip_prefix("${").is_some_and(|name| !name.starts_with(|c: char| c.is_ascii_lowercase()))
}
