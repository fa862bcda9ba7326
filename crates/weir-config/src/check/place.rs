//! Names given by the file and where they were first given.

use std::collections::HashMap;

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

    /// Finds a defined name, or suggests one.
    pub(super) fn known<T: Clone>(
        &mut self,
        what: &str,
        value: Value<'_>,
        names: &HashMap<&str, T>,
    ) -> Option<T> {
        let found = names.get(value.text()).cloned();
        if found.is_none() {
            let mut candidates: Vec<&str> = names.keys().copied().collect();
            candidates.sort_unstable();
            let message = format!("there is no {what} `{}`", value.text());
            let mut error = Diagnostic::error(value.span(), message)
                .suggest(value.text(), candidates.iter().copied());
            if error.label.is_none() && !candidates.is_empty() && candidates.len() <= 10 {
                error = error.help(format!("there is {}", candidates.join(", ")));
            }
            self.report(error);
        }
        found
    }
}
