//! A reason why a part of the configuration is invalid, for both forms of the configuration.

/// A reason why the settings of a check or of a sticky cookie are invalid.
pub(crate) struct Objection {
    /// The path in the JSON form, below the settings.
    pub(crate) path: &'static str,
    /// The options of the native form that may be at fault, the most likely first; empty if none
    /// is.
    pub(crate) options: &'static [&'static str],
    pub(crate) message: String,
    /// A help text; may be empty.
    pub(crate) help: &'static str,
}
