//! The queue of a pool as the model has it: who may wait for a server, for how long, and what those hear who may not. It queues nothing.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::units::duration;

/// Waiting for a place when all endpoints are at their `max_conn`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Queue {
    /// Longest wait of an exchange, over all its attempts; `None`: as long as a connect may take.
    #[serde(with = "duration::option")]
    pub timeout: Option<Duration>,
    /// Most that wait at once, over all workers.
    pub max: u32,
    /// Most that wait at once for one endpoint because affinity or a hash binds them to it; who comes later waits for any. `None`: only
    /// `max` counts.
    pub per_endpoint: Option<u32>,
    /// Most of one client that wait at once, by its address or /64; who comes later is answered as if there were no room. `None`: only
    /// `max` counts.
    pub per_client: Option<u32>,
    /// What is answered when there is no room, or the wait was too long.
    pub status: u16,
    /// When those shall try again, in whole seconds; `None` does not say.
    #[serde(with = "duration::option")]
    pub retry_after: Option<Duration>,
    /// File with the body of that answer, read when the configuration is loaded.
    pub page: Option<PathBuf>,
    /// Its type; `None` goes by the file's ending.
    #[serde(rename = "type")]
    pub content_type: Option<String>,
}
