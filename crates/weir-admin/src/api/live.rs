//! `GET /v1/stream`: the whole status once a second, as server-sent events, as long as the client
//! listens. The dashboard's own stream is in `dashboard/live.rs`.

use std::sync::Arc;
use std::time::Duration;

use hyper::body::Bytes;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};

use crate::context::AdminContext;
use crate::http::call::{Call, Later};
use crate::http::event_stream::begin;
use crate::status::collect::status;

/// The interval between two statuses.
const PERIOD: Duration = Duration::from_secs(1);

/// Begins a stream.
pub(crate) fn stream(call: Call) -> Later {
    Box::pin(async move { begin(&call.context, |sender| tell(call.context.clone(), sender)) })
}

async fn tell(context: Arc<AdminContext>, sender: mpsc::Sender<Bytes>) {
    let mut seconds = interval(PERIOD);
    seconds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = seconds.tick() => {}
            () = sender.closed() => break,
        }
        let Ok(room) = sender.reserve().await else { break };
        let text = serde_json::to_string(&status(&context.sources)).unwrap_or_default();
        room.send(format!("event: status\ndata: {text}\n\n").into());
    }
}
