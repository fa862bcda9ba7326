//! The canonical layout of a native text: `weir fmt`. Only its syntax is checked, so that a part
//! of a configuration can be formatted as well as a whole one. Files that it includes are not read.

use std::sync::Arc;

use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::directives::{BlockRule, contexts_of, find};
use crate::source::Sources;
use crate::syntax::layout::lay_out;
use crate::syntax::lexer::{Dialect, lex};
use crate::syntax::tree::{self, Directive, End, missing_semicolon};

/// Returns the text in its canonical layout, which means the same, or the errors of its syntax.
/// Messages call the text `name`.
pub fn formatted(name: &str, text: &str) -> Result<String, Diagnostics> {
    let mut sources = Sources::default();
    let file = sources.add(name, text);
    // The value of a variable is not part of the layout.
    let dialect = Dialect::Native(&|_| Some("x".to_owned()));
    let (directives, mut errors) = tree::parse(&sources, file, dialect);
    missing_ends(&directives, &mut errors);
    if !errors.is_empty() {
        return Err(Diagnostics::new(errors, Arc::new(sources)));
    }
    let (tokens, _) = lex(text, file, dialect);
    Ok(lay_out(text, &tokens))
}

/// Reports directives without their `;`. An expression in braces needs none.
fn missing_ends(directives: &[Directive], errors: &mut Vec<Diagnostic>) {
    for directive in directives {
        if directive.end == End::Missing {
            let last = directive.words.last().unwrap_or(&directive.name);
            if !last.broken {
                errors.push(missing_semicolon(last));
            }
        }
        if let Some(block) = &directive.block
            && !holds_expression(&directive.name.text)
        {
            missing_ends(&block.directives, errors);
        }
    }
}

/// Returns true if the braces of this directive hold an expression.
fn holds_expression(name: &str) -> bool {
    let specs = contexts_of(name).into_iter().filter_map(|context| find(name, context));
    specs.into_iter().any(|spec| spec.block == BlockRule::Expression)
}
