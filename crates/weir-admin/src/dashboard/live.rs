//! `GET /live`: the updates of an open page, as server-sent events: first the last minutes for its
//! charts, then each second a point and the page's contents. A slow reader gets fewer updates, not
//! older ones; the number of streams is bounded.

use std::fmt::Write as _;
use std::sync::Arc;

use hyper::body::Bytes;
use serde::Serialize;
use serde_json::json;
use tokio::sync::mpsc;

use super::super::context::AdminContext;
use super::sight::Sight;
use super::{endpoint, overview};
use crate::access::caller::Right;
use crate::http::call::{Call, Later};
use crate::http::event_stream::begin;
use crate::status::history::Moment;

/// The page bytes sent per second. A page with a thousand servers has almost six times as many and
/// is sent every sixth second.
const BYTES: usize = 300_000;

/// The page that is kept current.
enum LivePage {
    Overview,
    Endpoint { pool: String, endpoint: String },
}

/// Begins a stream.
pub(super) fn stream(call: Call) -> Later {
    Box::pin(async move {
        let page = match (call.query("pool"), call.query("endpoint")) {
            (Some(pool), Some(endpoint)) => {
                LivePage::Endpoint { pool: pool.to_owned(), endpoint: endpoint.to_owned() }
            }
            _ => LivePage::Overview,
        };
        let right = call.caller.right;
        begin(&call.context, |sender| tell(call.context.clone(), page, right, sender))
    })
}

async fn tell(
    context: Arc<AdminContext>,
    page: LivePage,
    right: Right,
    sender: mpsc::Sender<Bytes>,
) {
    let mut seconds = context.history.follow();
    let points = context.history.points();
    let first = if matches!(page, LivePage::Overview) { points } else { Vec::new() };
    let mut text = String::new();
    event(&mut text, "history", &json!({"points": first}));
    seconds.mark_unchanged();
    if sender.send(text.into()).await.is_err() {
        return;
    }
    let mut pause = 0;
    loop {
        tokio::select! {
            next = seconds.changed() => if next.is_err() { break },
            () = sender.closed() => break,
        }
        let Ok(room) = sender.reserve().await else { break };
        // The status may have changed while the channel had no room.
        let Some(moment) = seconds.borrow_and_update().clone() else { continue };
        let mut text = String::new();
        if pause == 0 {
            let main = main_of(&context, &moment, &page, right);
            pause = pause_after(main.len());
            event(&mut text, "main", &main);
        } else {
            pause -= 1;
            // A browser ignores a comment; an empty piece would end the stream.
            text.push_str(":\n\n");
        }
        if matches!(page, LivePage::Overview) {
            event(&mut text, "point", &moment.point);
        }
        room.send(text.into());
    }
}

/// The contents of the page.
fn main_of(context: &AdminContext, moment: &Moment, page: &LivePage, right: Right) -> String {
    let sight = Sight::of(context, &moment.status, right);
    let main = match page {
        LivePage::Overview => overview::main(&sight),
        LivePage::Endpoint { pool, endpoint } => {
            endpoint::main(&sight, pool, endpoint).unwrap_or_else(endpoint::gone)
        }
    };
    main.into_string()
}

/// The number of seconds to skip after a page of this size.
fn pause_after(bytes: usize) -> usize {
    bytes / BYTES
}

fn event(text: &mut String, name: &str, data: &impl Serialize) {
    // JSON is a single line, whatever it contains.
    let data = serde_json::to_string(data).unwrap_or_default();
    let _ = write!(text, "event: {name}\ndata: {data}\n\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_page_is_told_less_often() {
        assert_eq!([0, 40_000, 299_999, 300_000, 1_750_000].map(pause_after), [0, 0, 0, 1, 5]);
    }
}
