//! The record of an exchange when it ends, and the ways to write it down: the time split, the
//! cause, `$variables`, access-log formats and the per-worker log batch. And statistics over many
//! exchanges: counters, histograms, the slowest ones. No sockets, no files.

#![forbid(unsafe_code)]

mod access_log;
mod exchange;
pub mod exposition;
pub mod interchange;
pub mod metrics;
pub mod procfs;

pub use access_log::batch::{
    BATCH_BYTES, FullBatch, LogBatch, LogReceiver, LogSink, LostLines, Message, log_channel,
    log_fan,
};
pub use access_log::clock::Clock;
pub use access_log::decoded_path::resolve_path;
pub use access_log::defined::{
    ConvertLines, DefinedVariables, DefinitionError, DefinitionPart, MOST_MAP_REGEXES, MapKeys,
    MapLines, SplitShares, convert_text, converter_fault, converter_text, converters, is_converter,
    split_hash,
};
pub use access_log::escape::Escape;
pub use access_log::format::append_address;
pub use access_log::line::Line;
pub use access_log::template::{Template, TemplateError};
pub use access_log::variable::Variable;
pub use access_log::why::append as append_why;
pub use exchange::affinity::AffinityOutcome;
pub use exchange::cause::Cause;
pub use exchange::entry::{
    ClientCertificate, Concurrency, ConnectionCounts, Entry, FailedAttempt, HTTP2, Headers,
    Preread, ProcessCounts, Setback, Slashes, TCP, TlsParameters,
};
pub use exchange::explain::{ExchangeRecord, FailedAttemptRecord, RunnerUpRecord};
pub use exchange::grpc::{GrpcMethod, GrpcStatus, GrpcWebType, is_grpc};
pub use exchange::reasons::{Delays, NamedRunnerUp, Reasons, WaitedFor};
pub use exchange::times::{Micros, Times};
