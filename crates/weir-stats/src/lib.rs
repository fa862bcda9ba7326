//! What is known of an exchange when it ends, and how it is written down: the time split, the cause,
//! `$variables`, access-log formats and the per-worker log batch. No sockets, no files.

#![forbid(unsafe_code)]

mod cause;
mod entry;
mod times;

pub use cause::Cause;
pub use entry::{Concurrency, Entry, Headers, TlsFacts};
pub use times::{Micros, Times};
