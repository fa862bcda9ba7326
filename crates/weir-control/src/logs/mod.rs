//! The threads that write access logs and Weir's own log, and their targets. It formats no access
//! log line.

mod file;
pub mod log_writer;
mod outcome;
pub mod program_log;
mod syslog;
mod target;
