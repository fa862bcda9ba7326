//! The state of a running Weir as polled, and the orders to send. Nothing is drawn here.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use weir_admin::encoded;
use weir_admin::status::{Event, Status, WaitingStatus};

use crate::admin_client::AdminPlace;
use crate::failure::CommandFailure;

/// The values that are drawn.
#[derive(Clone, Debug)]
pub(super) struct TopStatus {
    pub(super) status: Status,
    /// The events, the latest first.
    pub(super) events: Vec<Event>,
    /// The waiting requests, by pool; pools without any are left out.
    pub(super) queues: Vec<(String, Vec<WaitingStatus>)>,
}

#[derive(Deserialize)]
struct EventList {
    events: Vec<Event>,
}

#[derive(Deserialize)]
struct QueueList {
    waiting: Vec<WaitingStatus>,
}

/// Polls a running Weir.
pub(super) fn look(place: &AdminPlace) -> Result<TopStatus, CommandFailure> {
    let status: Status = told(place, "/v1/status")?;
    let EventList { mut events } = told(place, "/v1/events")?;
    events.reverse();
    let busy = status.pools.iter().filter(|pool| pool.queue.is_some_and(|queue| queue.now > 0));
    let mut queues = Vec::new();
    for pool in busy {
        let queue: QueueList = told(place, &format!("/v1/pools/{}/queue", encoded(&pool.name)))?;
        queues.push((pool.name.clone(), queue.waiting));
    }
    Ok(TopStatus { status, events, queues })
}

fn told<T: DeserializeOwned>(place: &AdminPlace, path: &str) -> Result<T, CommandFailure> {
    let told = place.ask("GET", path, None)?;
    serde_json::from_str(&told.body).map_err(|error| {
        CommandFailure::RunTime(format!(
            "the response to {path} cannot be read; the running Weir may be another version: {error}"
        ))
    })
}

/// An order for an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EndpointOrder {
    pub(super) pool: String,
    pub(super) endpoint: String,
    /// `ready`, `draining` or `maintenance`.
    pub(super) to: &'static str,
}

impl EndpointOrder {
    /// Sends the order and returns a text that says how long it lasts.
    pub(super) fn send(&self, place: &AdminPlace) -> Result<String, CommandFailure> {
        let Self { pool, endpoint, to } = self;
        let path = format!("/v1/pools/{}/endpoints/{}", encoded(pool), encoded(endpoint));
        let told = place.ask("PATCH", &path, Some(&json!({"order": to})))?;
        let said: serde_json::Value = serde_json::from_str(&told.body).unwrap_or_default();
        Ok(said["lasts"]["note"].as_str().unwrap_or_default().to_owned())
    }
}
