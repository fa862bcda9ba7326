//! Compares the directives of a block with the table, and parses values at their places. Every
//! error is collected; the meaning of a directive is in `check.rs`.

use weir_config::diagnostic::Diagnostic;
use weir_config::source::SourceSpan;
use weir_config::syntax::lexer::Word;
use weir_config::syntax::tree::{Directive, End, missing_semicolon};

use super::directives::{LabBlock, LabDirective, MANY, find, of_block};

/// The errors so far.
#[derive(Default)]
pub(super) struct BlockReader {
    pub(super) errors: Vec<Diagnostic>,
}

impl BlockReader {
    /// The directives of a block that may stand there, in the order of the file. All others are
    /// reported.
    pub(super) fn block<'tree>(
        &mut self,
        directives: &'tree [Directive],
        block: LabBlock,
    ) -> Vec<&'tree Directive> {
        let mut found: Vec<&Directive> = Vec::new();
        for directive in directives {
            let Some(row) = find(&directive.name.text, block) else {
                self.unknown(&directive.name, block);
                continue;
            };
            let first = found.iter().find(|earlier| earlier.name.text == row.name);
            if let Some(first) = first.filter(|_| !row.is_repeatable) {
                let error = Diagnostic::error(
                    directive.name.span,
                    format!("`{}` is allowed here only once", row.name),
                );
                self.errors.push(error.related(first.name.span, "first here"));
            }
            if self.shape(directive, row) {
                found.push(directive);
            }
        }
        found
    }

    fn unknown(&mut self, name: &Word, block: LabBlock) {
        let known: Vec<&str> = of_block(block).map(|row| row.name).collect();
        let error =
            Diagnostic::error(name.span, format!("unknown word `{}` {}", name.text, block.place()));
        let mut error = error.suggest(&name.text, known.iter().copied());
        if error.label.is_none() {
            error = error.help(format!("known here: {}", known.join(", ")));
        }
        self.errors.push(error);
    }

    /// Checks the number of words, the block and the end. Returns false if the words are of no use.
    fn shape(&mut self, directive: &Directive, row: &LabDirective) -> bool {
        let last = directive.words.last().unwrap_or(&directive.name);
        match (&directive.block, row.block) {
            (Some(block), None) => {
                let error = Diagnostic::error(block.open, format!("`{}` takes no block", row.name));
                self.errors.push(error.help(format!("is a `;` missing after `{}`?", last.text)));
            }
            (None, Some((_, true))) => {
                let error =
                    Diagnostic::error(directive.span(), format!("`{}` needs a block", row.name));
                self.errors.push(error.help(row.syntax));
            }
            _ => {}
        }
        if directive.end == End::Missing && !last.broken {
            self.errors.push(missing_semicolon(last));
        }
        let (least, most) = row.words;
        let count = directive.words.len();
        if (least..=most).contains(&count) {
            return true;
        }
        let message = if count < least {
            format!(
                "`{}` needs {}",
                row.name,
                if least == 1 { "a word".to_owned() } else { format!("{least} words") }
            )
        } else {
            debug_assert!(most < MANY, "{} takes any number of words", row.name);
            format!("`{}` has {count} words; at most {most} are allowed", row.name)
        };
        self.errors.push(Diagnostic::error(directive.span(), message).help(row.syntax));
        false
    }

    /// Reports an error at a place.
    pub(super) fn report(&mut self, span: SourceSpan, message: impl Into<String>) {
        self.errors.push(Diagnostic::error(span, message));
    }

    /// The first word, or an empty text.
    pub(super) fn text(directive: &Directive) -> String {
        directive.words.first().map(|word| word.text.clone()).unwrap_or_default()
    }

    /// All words.
    pub(super) fn texts(directive: &Directive) -> Vec<String> {
        directive.words.iter().map(|word| word.text.clone()).collect()
    }

    /// The value of the first word.
    pub(super) fn value<T>(
        &mut self,
        directive: &Directive,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let word = directive.words.first()?;
        self.word(word, parse)
    }

    /// The value of a word.
    pub(super) fn word<T>(
        &mut self,
        word: &Word,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        match parse(&word.text) {
            Ok(value) => Some(value),
            Err(message) => {
                self.report(word.span, message);
                None
            }
        }
    }

    /// A whole number within bounds.
    pub(super) fn number(&mut self, directive: &Directive, least: u64, most: u64) -> Option<u64> {
        let name = directive.name.text.clone();
        self.value(directive, |text| match text.parse::<u64>() {
            Ok(number) if (least..=most).contains(&number) => Ok(number),
            _ => {
                Err(format!("`{text}` is no `{name}`: write a whole number from {least} to {most}"))
            }
        })
    }

    /// One of several words.
    pub(super) fn choice<T: Copy>(
        &mut self,
        directive: &Directive,
        choices: &[(&str, T)],
    ) -> Option<T> {
        let word = directive.words.first()?;
        if let Some((_, value)) = choices.iter().find(|(name, _)| *name == word.text) {
            return Some(*value);
        }
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        let error = Diagnostic::error(
            word.span,
            format!("unknown value `{}` of `{}`", word.text, directive.name.text),
        );
        let mut error = error.suggest(&word.text, names.iter().copied());
        if error.label.is_none() {
            error = error.help(format!("known here: {}", names.join(", ")));
        }
        self.errors.push(error);
        None
    }
}
