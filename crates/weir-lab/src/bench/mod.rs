//! `weir bench`: an open-loop load generator. Requests start when a schedule says, whatever the target does; response time runs from
//! that intended start, service time from the actual one, and both are reported, with how late the generator itself was.
//!
//! The schedule knows no connection. Any connection that is free, of any thread, takes the next start; where none is free the start is
//! late, and its response time says so.

pub mod chart;
mod connection;
pub mod files;
pub mod load;
pub mod machine;
pub mod monitor;
pub mod probe;
pub mod record;
pub mod report;
pub mod run;
pub mod schedule;
pub mod spectrum;
mod summary;
pub mod target;
pub mod threshold;
pub mod tls;
pub mod wrk_text;
