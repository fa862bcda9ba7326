//! The record of an exchange when it ends, and the ways to write it down: the time split, the
//! cause, `$variables`, access-log formats and the per-worker log batch. And statistics over many
//! exchanges: counters, histograms, the slowest ones. No sockets, no files.

#![forbid(unsafe_code)]

mod affinity;
mod batch;
mod cause;
mod clock;
mod entry;
mod escape;
mod explain;
pub mod exposition;
mod haproxy;
pub mod interchange;
mod json;
mod line;
mod number;
pub mod numbers;
mod reasons;
#[cfg(test)]
mod sample;
mod template;
mod times;
mod value;
mod variable;

pub use affinity::Affinity;
pub use batch::{
    BATCH_BYTES, FullBatch, LogBatch, LogReceiver, LogSink, LostLines, Message, log_channel,
    log_fan,
};
pub use cause::Cause;
pub use clock::Clock;
pub use entry::{Concurrency, Entry, FailedAttempt, Headers, Setback, TlsFacts};
pub use escape::Escape;
pub use explain::{ExchangeRecord, FailedAttemptRecord, RunnerUpRecord};
pub use line::Line;
pub use number::append_address;
pub use reasons::{ChosenBy, Delays, Reasons, RunnerUp, WaitedFor, append as append_why};
pub use template::{Template, TemplateError};
pub use times::{Micros, Times};
pub use variable::Variable;
