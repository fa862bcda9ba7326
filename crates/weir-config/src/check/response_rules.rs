//! Checks `intercept` and `response_status` in the block of a route.

use super::arguments::Arguments;
use super::checker::Checker;
use crate::diagnostic::Diagnostic;
use crate::model::{ImposedStatus, Intercept, Route, internal_fault_after_response, values};

impl<'a> Checker<'a> {
    /// Adds the rules of these lines for responses of endpoints to the route.
    pub(super) fn response_rules(&mut self, lines: &[Arguments<'a>], route: &mut Route) {
        for line in lines {
            let is_own = line.name() == "response_status" && line.flag("always");
            if route.action.pools().is_empty() && !is_own {
                let error = format!("`{}` has no effect here", line.name());
                let error = Diagnostic::error(line.directive.name.span, error);
                self.report(error.help("it is for responses of servers; this route leads to none"));
                continue;
            }
            if line.name() == "intercept" {
                route.responses.intercept.extend(self.intercept(line));
                let length = route.responses.intercept.len();
                self.note_last("responses.intercept", length, line.span());
            } else {
                route.responses.status.extend(self.response_status(line));
                self.note_last("responses.status", route.responses.status.len(), line.span());
            }
        }
    }

    fn intercept(&mut self, line: &Arguments<'a>) -> Option<Intercept> {
        let when = line.option("if").map(|text| self.template(text));
        let (arrow, words) = line.target?;
        let words = words.split_first();
        if let Some((first, rest)) =
            words.filter(|(first, _)| first.is_bare() && first.is("internal"))
        {
            let target = self.target_words(line.directive, first, rest)?;
            let to = self.internal_target(&target, internal_fault_after_response)?;
            let keep = self.setting(line, "keep", |names| {
                names.split(',').map(values::kept_header).collect::<Result<Vec<_>, _>>()
            });
            let (when, keep) = (when.flatten(), keep.unwrap_or_default());
            return Some(Intercept { when, keep, recursive: line.flag("recursive"), to });
        }
        self.target(line)?;
        let error = Diagnostic::error(arrow.span, "a response is intercepted for a route");
        self.report(error.help("write `-> internal @NAME` or `-> internal PATH`"));
        None
    }

    fn response_status(&mut self, line: &Arguments<'a>) -> Option<ImposedStatus> {
        let when = line.option("if").map(|text| self.template(text));
        let status = self.value(line.word(0)?, values::imposed_status)?;
        Some(ImposedStatus { when: when.flatten(), status, always: line.flag("always") })
    }
}
