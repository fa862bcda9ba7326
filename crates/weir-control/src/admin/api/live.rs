//! `GET /v1/stream`: the whole status once a second, as server-sent events, as long as the client
//! listens. The dashboard's own stream is in `dashboard/live.rs`.

use std::sync::Arc;
use std::time::Duration;

use hyper::StatusCode;
use hyper::body::Bytes;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};

use super::routes::Later;
use crate::admin::context::Context;
use crate::admin::http::Call;
use crate::admin::http::error::ApiError;
use crate::admin::http::reply::{Reply, ReplyBody};
use crate::admin::status::gather::status;

/// The most streams at once.
pub(crate) const STREAMS: usize = 16;
/// The interval between two statuses.
const PERIOD: Duration = Duration::from_secs(1);

/// Begins a stream.
pub(crate) fn stream(call: Call) -> Later {
    Box::pin(async move { begin(&call.context, |sender| tell(call.context.clone(), sender)) })
}

/// A response that continues as long as `tell` sends and the client listens, if there is room for
/// one more.
pub(crate) fn begin<T: Future<Output = ()> + 'static>(
    context: &Context,
    tell: impl FnOnce(mpsc::Sender<Bytes>) -> T,
) -> Result<Reply, ApiError> {
    let Ok(place) = context.streams.clone().try_acquire_owned() else {
        let message = format!("{STREAMS} streams are open already");
        return Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, message));
    };
    // One piece in flight: a slow reader gets fewer statuses, not older ones.
    let (sender, pieces) = mpsc::channel(1);
    let telling = tell(sender);
    tokio::task::spawn_local(async move {
        telling.await;
        drop(place);
    });
    let reply = Reply::new("text/event-stream", Bytes::new());
    Ok(Reply { body: ReplyBody::Stream(pieces), ..reply })
}

async fn tell(context: Arc<Context>, sender: mpsc::Sender<Bytes>) {
    let mut seconds = interval(PERIOD);
    seconds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = seconds.tick() => {}
            () = sender.closed() => break,
        }
        let Ok(room) = sender.reserve().await else { break };
        let text = serde_json::to_string(&status(&context)).unwrap_or_default();
        room.send(format!("event: status\ndata: {text}\n\n").into());
    }
}
