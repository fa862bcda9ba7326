//! Configuration: from a file's text to a checked, typed [`model::Config`]. It opens no sockets and never sees a request.
#![forbid(unsafe_code)]

pub mod defaults;
pub mod model;
pub mod pattern;
pub mod units;
mod words;

pub use model::{Config, Snapshot};
pub mod diagnostic;
pub mod lexer;
pub mod source;
mod suggest;
pub mod tree;
