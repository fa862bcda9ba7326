//! Checks `error_page … -> …`.

use super::arguments::Arguments;
use super::checker::Checker;
use crate::diagnostic::Diagnostic;
use crate::model::{Action, ErrorDestination, ErrorTarget, ErrorTargetStatus, values};

impl<'a> Checker<'a> {
    pub(super) fn error_target(&mut self, line: &Arguments<'a>) -> Option<ErrorTarget> {
        let words = line.words.iter();
        let statuses = words.filter_map(|value| self.value(*value, values::error_status)).collect();
        let (arrow, _) = line.target?;
        let to = match self.target(line)? {
            Action::Internal(to) => ErrorDestination::Internal(to),
            Action::Redirect(to) => ErrorDestination::Redirect(to),
            _ => {
                let error = Diagnostic::error(arrow.span, "an error leads to a route or a URL");
                self.report(error.help(
                    "write `-> internal PATH`, `-> internal @NAME` or `-> redirect STATUS URL`",
                ));
                return None;
            }
        };
        let mut status = ErrorTargetStatus::Kept;
        self.set(line, "status", &mut status, |text| match text {
            "own" => Ok(ErrorTargetStatus::Own),
            _ => values::status(text).map(ErrorTargetStatus::Fixed),
        });
        if let (ErrorDestination::Redirect(_), Some(value)) = (&to, line.option("status")) {
            let error = Diagnostic::error(value.word.span, "a redirect has a status of its own");
            self.report(error.help("write it behind `redirect`"));
        }
        Some(ErrorTarget {
            statuses,
            to,
            status,
            intercept: line.flag("intercept"),
            recursive: line.flag("recursive"),
        })
    }
}
