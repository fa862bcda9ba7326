//! The record of one exchange: its data, its time split, the cause of its end, and the reasons for
//! the decisions that shaped it. Logs and metrics are made of it; it knows neither.

pub(crate) mod affinity;
pub(crate) mod cause;
pub(crate) mod entry;
pub(crate) mod explain;
pub(crate) mod grpc;
pub(crate) mod reasons;
#[cfg(test)]
pub(crate) mod sample;
pub(crate) mod times;
