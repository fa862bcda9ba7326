//! The comments that silence warnings. They are found in the text, because no later step keeps
//! them.

use crate::diagnostic::Diagnostic;
use crate::source::{Sources, floor};

/// The words before the codes.
const MARK: &str = "weir: allow";

/// Returns true if a comment on the line of a warning, or in the lines of comments directly above
/// it, allows its code.
pub(crate) fn is_silenced(sources: &Sources, warning: &Diagnostic) -> bool {
    let (Some(code), Some(span)) = (warning.code, warning.span) else { return false };
    let text = &sources.file(span.file).text;
    let (before, after) = text.split_at(floor(text, span.start));
    let start = before.rfind('\n').map_or(0, |at| at + 1);
    let (above, beginning) = before.split_at(start);
    let rest = after.split('\n').next().unwrap_or_default();
    let comments = above.lines().rev().take_while(|line| line.trim_start().starts_with('#'));
    [beginning, rest].into_iter().chain(comments).any(|line| allows(line, code))
}

fn allows(line: &str, code: &str) -> bool {
    let Some((_, comment)) = line.split_once('#') else { return false };
    let Some((_, codes)) = comment.split_once(MARK) else { return false };
    let is_part = |one: char| one.is_ascii_alphanumeric() || one == '-';
    codes.split(|one| !is_part(one)).any(|word| word == code)
}
