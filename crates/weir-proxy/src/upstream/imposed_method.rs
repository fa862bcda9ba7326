//! The methods that a route gives its requests (`request_method`), compiled.

use weir_config::model::{ImposedMethod, is_method};
use weir_stats::{Entry, Escape, Template};

/// The lines of a route, in order: conditions with their methods.
#[derive(Clone, Debug)]
pub(crate) struct ImposedMethods(Box<[(Option<Template>, Template)]>);

impl ImposedMethods {
    /// Compiles the lines of a route; `None` if there are none.
    pub(crate) fn compile(lines: &[ImposedMethod]) -> Option<Self> {
        let lines = lines.iter().map(|line| (line.when.clone(), line.method.clone()));
        let lines: Box<[_]> = lines.collect();
        (!lines.is_empty()).then_some(Self(lines))
    }

    /// Replaces `method` by that of the last line which holds for the request of an entry; it is
    /// empty if the request keeps its own.
    pub(crate) fn write(&self, entry: &Entry<'_>, method: &mut Vec<u8>) {
        method.clear();
        // The responses to these have forms of their own.
        if matches!(entry.method, b"HEAD" | b"CONNECT") {
            return;
        }
        for (when, text) in self.0.iter().rev() {
            if when.as_ref().is_some_and(|when| !when.holds(entry, method)) {
                continue;
            }
            method.clear();
            text.append(entry, Escape::None, method);
            if is_method(method) {
                return;
            }
        }
        method.clear();
    }
}
