//! Configuration: turns the text of a file into a checked, typed [`model::Config`], or into the
//! list of all errors in it. It opens no sockets and never sees a request.
//!
//! A text passes through `syntax` (words, then directives without meaning, includes) and `check`
//! (the model, with the table of `directives`). The JSON form passes through `load/json.rs` and the
//! same checks of the model.
#![forbid(unsafe_code)]

mod check;
pub mod defaults;
pub mod diagnostic;
pub mod directives;
pub mod lints;
mod load;
pub mod model;
pub mod pattern;
pub mod source;
pub mod syntax;
pub mod units;
mod words;

pub use diagnostic::{Diagnostic, DiagnosticSeverity, Diagnostics};
pub use directives::reference;
pub use lints::{lint, lint_at};
pub use load::{
    Checked, ForeignWords, Origins, SourcedValue, ValueSource, check_directives, formatted,
    from_json, load, load_mapped, parse_str, sourced, to_json,
};
pub use model::Config;
pub use model::values::{endpoint_address, source as source_address};
pub use weir_stats::converter_fault;
