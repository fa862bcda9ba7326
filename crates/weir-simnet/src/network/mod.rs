//! The seeded network in virtual time: links with faults, the streams over them, and the trace of
//! events.

pub(crate) mod faults;
pub(crate) mod link;
pub(crate) mod net;
pub(crate) mod stream;
pub(crate) mod trace;
