//! The results of actions. What ends a request becomes the target of a route, what changes a header
//! a line of its block.

use weir_config::source::SourceSpan;
use weir_config::syntax::lexer::Word;
use weir_config::syntax::tree::Directive;

use super::scope::{CaptureSlot, ChangedPart};
use super::values;
use crate::native::NativeLine;

/// The form of a redirect's place: only `http-request redirect` has fields in it.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum RedirectText {
    Literal,
    Format,
}

/// A value that a rule captures.
pub(super) struct CapturedValue {
    /// The request (0) or the response (1).
    pub(super) side: usize,
    /// The number of its slot, if it is declared.
    pub(super) at: Option<usize>,
    pub(super) slot: CaptureSlot,
}

/// The result of an action.
pub(super) enum RuleEffect {
    /// The request ends with this target, and these lines in its block.
    Ends(Vec<Word>, Vec<Directive>),
    /// A header or the path changes, perhaps to a text that is known.
    Edits(Directive, ChangedPart, Option<String>),
    /// A line of the route that is tried for each request.
    Tried(Directive),
    /// The response gets this status: those of servers, or with the word `always` all.
    Status(String, Directive),
    /// A variable gets this text, or none.
    Sets(String, Option<String>),
    /// The text is captured, in this slot if it has one.
    Captures(CapturedValue),
    /// A time of the request to the server is another one.
    Bounds(Directive),
    /// The rules after it are skipped.
    Allows,
    /// The request is not sent again once a server was connected.
    NoRetry,
    /// Nothing happens.
    Nothing,
}

impl RuleEffect {
    /// Gives a response that names no text an empty one.
    pub(super) fn without_page(self) -> Self {
        match self {
            Self::Ends(mut target, block) => {
                // `respond` and the status alone.
                if let [_, status] = target.as_slice()
                    && !matches!(status.text.as_str(), "204" | "304")
                {
                    let text = NativeLine::new("", status.span).value("");
                    target.extend(text.option("type", "none").into_words());
                }
                Self::Ends(target, block)
            }
            other => other,
        }
    }

    /// Holds a response back for a time in microseconds.
    pub(super) fn held_back(self, delay: Option<u64>) -> Self {
        match (self, delay) {
            (Self::Ends(mut target, block), Some(delay)) => {
                let delay = values::time(delay);
                let place = target.first().map(|word| word.span);
                let option = place.map(|span| NativeLine::new("", span).option("delay", &delay));
                target.extend(option.into_iter().flat_map(NativeLine::into_words));
                Self::Ends(target, block)
            }
            (effect, _) => effect,
        }
    }

    /// Marks a response as a refusal.
    pub(super) fn denied(self) -> Self {
        match self {
            Self::Ends(mut target, block) => {
                let place = target.first().map(|word| word.span);
                let flag = place.map(|span| NativeLine::new("", span).option("cause", "denied"));
                target.extend(flag.into_iter().flat_map(NativeLine::into_words));
                Self::Ends(target, block)
            }
            other => other,
        }
    }
}

/// Returns the target that closes the connection without a response.
pub(super) fn no_answer(span: SourceSpan) -> Vec<Word> {
    let target = NativeLine::new("", span).keyword("respond").value("444");
    target.option("cause", "denied").into_words()
}
