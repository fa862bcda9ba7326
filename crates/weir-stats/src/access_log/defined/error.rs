//! The reasons why a definition is refused.

use crate::TemplateError;

/// The part of a definition that an error is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefinitionPart {
    /// The name.
    Name,
    /// The source text.
    Source,
    /// The key of the entry with this number.
    Key(usize),
    /// The value of the entry with this number.
    Value(usize),
    /// The default.
    Default,
}

/// The reason why a definition is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefinitionError {
    /// The part that is wrong.
    pub part: DefinitionPart,
    /// One sentence without a full stop.
    pub message: String,
    /// The name of a variable that is not defined (yet).
    pub unknown: Option<String>,
}

impl DefinitionError {
    pub(super) fn new(part: DefinitionPart, message: impl Into<String>) -> Self {
        Self { part, message: message.into(), unknown: None }
    }

    pub(super) fn template(part: DefinitionPart, error: TemplateError) -> Self {
        Self { part, message: error.message, unknown: error.unknown }
    }
}
