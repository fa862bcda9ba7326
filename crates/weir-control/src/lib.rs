//! What stands beside the data plane: it starts and stops it, writes the access logs, resolves endpoint names and
//! probes endpoints. It is
//! never on a request's way.

pub mod admin;
mod control;
mod diff;
mod doors;
pub mod health_log;
pub mod log_writer;
mod machine;
mod open_files;
mod pid_file;
mod probe;
pub mod program_log;
mod rehearse;
mod report;
pub mod resolver;
mod server;
mod signals;
mod traffic;

pub use control::{Control, ReloadReport, Source};
pub use rehearse::rehearse;
pub use server::{Listening, Purpose, Server};
