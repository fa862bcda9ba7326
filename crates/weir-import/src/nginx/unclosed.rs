//! Repairs for blocks that are never closed: where the `}` belongs, by what cannot stand inside. It
//! reads no more than the tree, which has such blocks up to the end of the file.

use weir_config::Diagnostic;
use weir_config::source::{SourceSpan, Sources};
use weir_config::syntax::tree::{Block, Directive};

use super::directives;

/// The deepest block in which a place is looked for.
const MOST_DEPTH: usize = 64;
/// The most directives that are looked at for all repairs of a file.
const MOST_STEPS: usize = 100_000;

/// Adds a repair to each error about a block that is never closed.
pub(super) fn propose(tree: &[Directive], sources: &Sources, errors: &mut Vec<Diagnostic>) {
    let open: Vec<SourceSpan> =
        errors.iter().filter(|error| is_unclosed(error)).filter_map(|error| error.span).collect();
    if open.is_empty() {
        return;
    }
    // Blocks that are never closed lie in each other: the last directive of each level.
    let mut repairs: Vec<(SourceSpan, String)> = Vec::new();
    let mut search = StraySearch { open: &open, left: MOST_STEPS };
    let mut level = tree.iter().rev().find(|one| has_open(one, &open));
    while let Some((directive, block)) = level.and_then(|one| Some((one, one.block.as_ref()?))) {
        if repairs.len() >= MOST_DEPTH {
            break;
        }
        let context = directive.name.text.as_str();
        let line = |span: SourceSpan| sources.position(span).line;
        let repair = if let Some(regex) = search.unquoted(directive) {
            format!("line {} has a regex with `{{`: write it in quotes", line(regex))
        } else if let Some(stray) = search.first_stray(block, context, 0) {
            let name = &stray.name.text;
            let at = line(stray.name.span);
            format!("`{name}` of line {at} cannot stand inside: write `}}` before it")
        } else {
            "write `}` at the end of the file".to_owned()
        };
        repairs.push((block.open, repair));
        level = block.directives.iter().rev().find(|one| has_open(one, &open));
    }
    let helped = std::mem::take(errors).into_iter().map(|error| {
        let of = |(open, _): &&(SourceSpan, String)| Some(*open) == error.span;
        match repairs.iter().find(of).filter(|_| is_unclosed(&error)) {
            Some((_, repair)) => error.help(repair.clone()),
            None => error,
        }
    });
    *errors = helped.collect();
}

fn is_unclosed(error: &Diagnostic) -> bool {
    error.message.ends_with("is never closed") && error.message.starts_with("this block")
}

fn has_open(directive: &Directive, open: &[SourceSpan]) -> bool {
    directive.block.as_ref().is_some_and(|block| open.contains(&block.open))
}

/// The search for what stands in the wrong block.
struct StraySearch<'o> {
    /// The braces of the blocks that are never closed.
    open: &'o [SourceSpan],
    /// The number of directives that may still be looked at.
    left: usize,
}

impl StraySearch<'_> {
    /// Counts a step; returns false if there were too many.
    fn steps(&mut self) -> bool {
        self.left = self.left.saturating_sub(1);
        self.left > 0
    }

    /// Returns the place of a regex whose `{` began a block, which ends within a word.
    fn unquoted(&mut self, directive: &Directive) -> Option<SourceSpan> {
        let is_cut = |one: &Directive| {
            let first = one.block.as_ref().and_then(|block| block.directives.first());
            first.is_some_and(|first| {
                let words = std::iter::once(&first.name).chain(&first.words);
                words.into_iter().any(|word| word.text.contains('}'))
            })
        };
        let mut waiting = vec![(directive, 0)];
        while let Some((one, depth)) = waiting.pop().filter(|_| self.steps()) {
            if is_cut(one) {
                return Some(one.name.span);
            }
            let inner = one.block.iter().flat_map(|block| &block.directives);
            if depth < MOST_DEPTH {
                waiting.extend(inner.map(|inner| (inner, depth + 1)));
            }
        }
        None
    }

    /// Returns the first directive of a block that cannot stand there. What cannot stand in a block
    /// inside that is never closed either may stand here.
    fn first_stray<'t>(
        &mut self,
        block: &'t Block,
        context: &str,
        depth: usize,
    ) -> Option<&'t Directive> {
        for one in &block.directives {
            if !self.fits(one, context) {
                return Some(one);
            }
            let inner = one.block.as_ref().filter(|_| has_open(one, self.open));
            let Some(inner) = inner else { continue };
            if depth >= MOST_DEPTH {
                return None;
            }
            let stray = self.first_stray(inner, &one.name.text, depth + 1)?;
            let mut rest =
                inner.directives.iter().skip_while(|after| !std::ptr::eq(*after, stray)).skip(1);
            let mut next = Some(stray);
            while let Some(after) = next {
                if !self.fits(after, context) {
                    return Some(after);
                }
                next = rest.next();
            }
            return None;
        }
        None
    }

    /// Returns true if a directive may stand in the block of another one; what is not known may.
    fn fits(&mut self, directive: &Directive, context: &str) -> bool {
        if !self.steps() {
            return true;
        }
        let contexts = directives::contexts_of(&directive.name.text);
        let known =
            ["events", "http", "stream", "server", "location", "upstream"].contains(&context);
        !known || contexts.is_empty() || contexts.contains(&context) || contexts.contains(&"all")
    }
}
