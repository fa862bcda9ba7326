//! Directives of Weir's syntax as an import makes them. Each word has the place in the imported
//! file that it comes from, so that messages name that place.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::net::SocketAddr;

use weir_config::source::{ReplacedWord, SourceSpan};
pub(crate) use weir_config::syntax::layout::print;
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

    /// Begins an entry of a definition, whose key is never read as a keyword.
    pub(crate) fn entry(key: &str, span: SourceSpan) -> Self {
        let mut line = Self::new("", span);
        line.directive.name = Word { bare: 0, ..bare(key, span) };
        line
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
        let word = bare([key, "=", value].concat(), span);
        self.directive.words.push(Word { bare: key.len() + 1, ..word });
        self
    }

    /// Adds words that were written before.
    pub(crate) fn words(mut self, words: impl IntoIterator<Item = Word>) -> Self {
        self.directive.words.extend(words);
        self
    }

    pub(crate) fn end(mut self) -> Directive {
        // Lines are kept, many of them with one word in the room of four.
        self.directive.words.shrink_to_fit();
        self.directive
    }

    pub(crate) fn block(mut self, directives: Vec<Directive>) -> Directive {
        self.directive.words.shrink_to_fit();
        self.directive.block = Some(Block { directives, open: self.span });
        self.directive.end = End::Block;
        self.directive
    }

    /// Returns the words after the name.
    pub(crate) fn into_words(self) -> Vec<Word> {
        self.directive.words
    }
}

/// Returns a text that is the same for lines with the same words only.
pub(crate) fn identity(lines: &[Directive]) -> String {
    let mut text = String::new();
    for line in lines {
        for word in std::iter::once(&line.name).chain(&line.words) {
            // With their lengths in front, no two lists of words are the same text.
            let _ = write!(text, "{}:{}", word.text.len(), word.text);
        }
        text.push(';');
    }
    text
}

/// Adds an option to a line that is complete, before its target if it has one.
pub(crate) fn with_option(mut line: Directive, key: &str, value: &str) -> Directive {
    let word = bare([key, "=", value].concat(), line.name.span);
    let is_arrow = |word: &Word| word.text == "->" && word.bare == word.text.len();
    let at = line.words.iter().position(is_arrow).unwrap_or(line.words.len());
    line.words.insert(at, Word { bare: key.len() + 1, ..word });
    line
}

fn bare(text: impl Into<String>, span: SourceSpan) -> Word {
    let text = text.into();
    Word { bare: text.len(), text, span, verbatim: None, expanded: false, broken: false }
}

/// Puts the texts that stand for others in their place.
pub(crate) fn replace(directives: &mut [Directive], replaced: &[ReplacedWord]) {
    // Of several for one word the first counts.
    let found = replaced.iter().rev().map(|one| ((one.span, one.text.as_str()), one));
    replace_words(directives, &found.collect());
}

fn replace_words(
    directives: &mut [Directive],
    replaced: &HashMap<(SourceSpan, &str), &ReplacedWord>,
) {
    for directive in directives {
        for word in &mut directive.words {
            if let Some(found) = replaced.get(&(word.span, word.text.as_str())) {
                word.text.clone_from(&found.replacement);
            }
        }
        if let Some(block) = &mut directive.block {
            replace_words(&mut block.directives, replaced);
        }
    }
}

/// Returns the native text of an address that connections to servers come from, without the port if
/// the kernel chooses it.
pub(crate) fn source_text(address: SocketAddr) -> String {
    match address.port() {
        0 => address.ip().to_string(),
        _ => address.to_string(),
    }
}
