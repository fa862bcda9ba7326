//! Configuration: from a file's text to a checked, typed [`model::Config`], or everything that is wrong with it. It opens no
//! sockets and never sees a request.
//!
//! Text goes through `lexer` (words), `tree` (directives without meaning, includes), `check` (the model, with the directive
//! table of `directives` and `table`); the JSON form through `json` and the same model checks.
#![forbid(unsafe_code)]

mod check;
pub mod defaults;
pub mod diagnostic;
mod directives;
mod json;
pub mod lexer;
mod load;
pub mod model;
pub mod pattern;
mod places;
mod reference;
pub mod source;
mod suggest;
pub mod table;
pub mod tree;
pub mod units;
mod words;

pub use check::endpoint_address;
pub use diagnostic::{Diagnostic, Diagnostics, Severity};
pub use json::{from_json, to_json};
pub use load::{Checked, load, parse_str};
pub use model::{Config, Snapshot};
pub use reference::reference;
