//! Checks of names: duplicates and unknown ones. The names themselves are kept by the checker.

use super::arguments::ArgumentValue;
use super::checker::Checker;
use crate::diagnostic::Diagnostic;
use crate::source::SourceSpan;

impl Checker<'_> {
    /// Reports an error if the name was defined before. Returns true if it is the first definition.
    pub(super) fn first_of(
        &mut self,
        what: &str,
        value: ArgumentValue<'_>,
        first: Option<SourceSpan>,
    ) -> bool {
        let Some(first) = first else { return true };
        let message = format!("there is a {what} `{}` already", value.text());
        self.report(Diagnostic::error(value.span(), message).related(first, "first here"));
        false
    }

    /// Reports that a name is not defined, and proposes the one that was most likely meant.
    pub(super) fn unknown(&mut self, what: &str, value: ArgumentValue<'_>, mut names: Vec<&str>) {
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
