//! Configuration: turns the text of a file into a checked, typed [`model::Config`], or into the
//! list of all errors in it. It opens no sockets and never sees a request.
//!
//! A text passes through `lexer` (words), `tree` (directives without meaning, includes) and `check`
//! (the model, with the directive table of `directives` and `table`). The JSON form passes through
//! `json` and the same checks of the model.
#![forbid(unsafe_code)]

mod check;
pub mod defaults;
pub mod diagnostic;
mod directives;
mod load;
pub mod model;
pub mod pattern;
mod reference;
pub mod source;
pub mod syntax;
pub mod table;
pub mod units;
mod words;

pub use check::endpoint_address;
pub use diagnostic::{Diagnostic, Diagnostics, Severity};
pub use load::{Checked, from_json, load, parse_str, to_json};
pub use model::{Config, Snapshot};
pub use reference::reference;
