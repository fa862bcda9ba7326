//! `weir bench`: an open-loop load generator. Requests start at the times of a schedule, whatever
//! the target does. The response time runs from the intended start, the service time from the
//! actual one; both are reported, and so is the lateness of the generator itself.
//!
//! The schedule knows no connection. Any free connection of any thread takes the next start. If
//! none is free the start is late, and the response time includes the delay.

pub(crate) mod blocks;
pub mod chart;
mod connection;
pub(crate) mod encoded;
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
pub mod wrk2;
pub mod wrk_text;
