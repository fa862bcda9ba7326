//! The queue of a pool as configured: its bounds, and the response to exchanges that it refuses. It
//! queues nothing.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::units::duration;

/// The queue of exchanges while all endpoints are at their `max_conn`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Queue {
    /// The longest wait of an exchange over all its attempts; `None` for the connect timeout.
    #[serde(with = "duration::option")]
    pub timeout: Option<Duration>,
    /// The largest number of waiting exchanges over all workers.
    pub max: u32,
    /// The largest number that waits for one endpoint because affinity or a hash binds them to it;
    /// a later one waits for any endpoint. `None` if only `max` applies.
    pub per_endpoint: Option<u32>,
    /// The largest number of one client (its address or /64) that waits; a later one is answered as
    /// if the queue were full. `None` if only `max` applies.
    pub per_client: Option<u32>,
    /// The status of the response when the queue is full or the wait was too long.
    pub status: u16,
    /// The `Retry-After` of that response, in whole seconds; `None` for no such header.
    #[serde(with = "duration::option")]
    pub retry_after: Option<Duration>,
    /// The file with the body of that response, read when the configuration is loaded.
    pub page: Option<PathBuf>,
    /// The body's type; `None` to derive it from the file's extension.
    #[serde(rename = "type")]
    pub content_type: Option<String>,
}
