//! `weir bench`: an open-loop load generator. Requests start when a schedule says, whatever the target does; response time runs from
//! that intended start, service time from the actual one, and both are reported, with how late the generator itself was.

pub mod record;
pub mod schedule;
pub mod wrk_text;
