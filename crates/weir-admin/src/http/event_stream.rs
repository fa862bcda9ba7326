//! Responses that continue: server-sent events, bounded in number. It makes no events.

use hyper::StatusCode;
use hyper::body::Bytes;
use tokio::sync::mpsc;

use super::error::ApiError;
use super::reply::{HttpReply, ReplyBody};
use crate::context::{AdminContext, STREAMS};

/// A response that continues as long as `tell` sends and the client listens, if there is room for
/// one more.
pub(crate) fn begin<T: Future<Output = ()> + 'static>(
    context: &AdminContext,
    tell: impl FnOnce(mpsc::Sender<Bytes>) -> T,
) -> Result<HttpReply, ApiError> {
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
    let reply = HttpReply::new("text/event-stream", Bytes::new());
    Ok(HttpReply { body: ReplyBody::Stream(pieces), ..reply })
}
