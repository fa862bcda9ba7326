//! A directive with its words, options and target separated, by its row of the table. `block.rs`
//! separates them.

use crate::directives::Spec;
use crate::source::SourceSpan;
use crate::syntax::lexer::Word;
use crate::syntax::tree::Directive;

/// A directive in an allowed context, with its words sorted.
pub(super) struct Arguments<'tree> {
    pub(super) directive: &'tree Directive,
    pub(super) spec: &'static Spec,
    /// The words that are not options.
    pub(super) words: Vec<ArgumentValue<'tree>>,
    pub(super) options: Vec<(&'static str, ArgumentValue<'tree>)>,
    /// The arrow and the words after it.
    pub(super) target: Option<(&'tree Word, &'tree [Word])>,
}

/// A value: a word, or the part of a word after the `=`.
#[derive(Clone, Copy)]
pub(super) struct ArgumentValue<'tree> {
    pub(super) word: &'tree Word,
    start: usize,
}

impl<'tree> ArgumentValue<'tree> {
    pub(super) fn new(word: &'tree Word) -> Self {
        Self { word, start: 0 }
    }

    /// Returns the value without its first `bytes`, which must be whole characters.
    pub(super) fn skip(self, bytes: usize) -> Self {
        Self { start: self.start + bytes, ..self }
    }

    pub(super) fn text(&self) -> &'tree str {
        self.word.text.get(self.start..).unwrap_or_default()
    }

    pub(super) fn span(&self) -> SourceSpan {
        self.word.part(self.start)
    }
}

impl<'tree> Arguments<'tree> {
    pub(super) fn name(&self) -> &'static str {
        self.spec.name
    }

    pub(super) fn span(&self) -> SourceSpan {
        self.directive.span()
    }

    /// Returns the word with that index.
    pub(super) fn word(&self, index: usize) -> Option<ArgumentValue<'tree>> {
        self.words.get(index).copied()
    }

    /// Returns the value of an option. A name that the table does not have is a bug.
    pub(super) fn option(&self, name: &str) -> Option<ArgumentValue<'tree>> {
        debug_assert!(self.spec.option(name).is_some(), "{name} is not in the table");
        self.options.iter().find(|(key, _)| *key == name).map(|(_, value)| *value)
    }

    /// Returns true if the lone word is present.
    pub(super) fn flag(&self, name: &str) -> bool {
        self.option(name).is_some()
    }

    /// Returns the directives in the braces.
    pub(super) fn block(&self) -> &'tree [Directive] {
        self.directive.block.as_ref().map_or(&[], |block| &block.directives)
    }
}
