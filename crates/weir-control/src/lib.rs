//! What stands beside the data plane: it starts and stops it, writes the access logs and resolves endpoint names. It is
//! never on a request's way.

pub mod log_writer;
mod open_files;
mod rehearse;
pub mod resolver;
mod server;
mod signals;

pub use rehearse::rehearse;
pub use server::{Listening, Server};
