//! Names given by the file and where they were first given.

use super::Checker;
use super::arguments::Value;
use crate::diagnostic::Diagnostic;
use crate::source::Span;

impl Checker<'_> {
    /// Reports `what` twice under one name; whether it is the first.
    pub(super) fn first_of(&mut self, what: &str, value: Value<'_>, first: Option<Span>) -> bool {
        let Some(first) = first else { return true };
        let message = format!("there is a {what} `{}` already", value.text());
        self.report(Diagnostic::error(value.span(), message).related(first, "first here"));
        false
    }

    /// Says that a name is not defined, and which one was meant.
    pub(super) fn unknown(&mut self, what: &str, value: Value<'_>, mut names: Vec<&str>) {
        names.sort_unstable();
        let message = format!("there is no {what} `{}`", value.text());
        let mut error = Diagnostic::error(value.span(), message);
        error = error.suggest(value.text(), names.iter().copied());
        if error.label.is_none() && !names.is_empty() && names.len() <= 10 {
            error = error.help(format!("there is {}", names.join(", ")));
        }
        self.report(error);
    }
}
