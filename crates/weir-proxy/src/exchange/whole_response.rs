//! The short way of a small response that was received completely with its head: one write sends it
//! to the client. `response.rs` sends what the client does not take at once, and all other
//! responses.

use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::AsyncWrite;
use weir_wire::ResponseHead;

use crate::exchange::attempt::Attempt;
use crate::exchange::body_stream::BodySink;
use crate::exchange::client_side::ClientSide;
use crate::exchange::pump::{COALESCE_BYTES, Encoder, Pump};
use crate::exchange::state::Exchange;
use crate::net::Socket;

/// The result of writing a response once.
pub(crate) enum Written {
    /// The client's stream took all of it.
    Whole,
    /// This pump has the rest.
    Rest(Box<Pump>),
    /// The client's connection failed.
    Failed,
}

/// Returns true if a response was received completely, with nothing behind it, and is small enough
/// for one write, and if its request was sent completely.
pub(crate) fn is_small<S: Socket>(
    response: &ResponseHead,
    attempt: &Attempt<'_, S>,
    encoder: Encoder,
) -> bool {
    attempt.is_whole(response)
        && attempt.raw.len() - response.head_bytes <= COALESCE_BYTES
        && response.status != 101
        && encoder != Encoder::Chunked
        && attempt.upload.is_finished()
}

/// Writes the response whose head for the client is in `heads.response_out` and whose body follows
/// the endpoint's head in `raw`; notes the bytes sent.
pub(crate) fn write<C: ClientSide>(
    exchange: &mut Exchange<'_, C>,
    context: &mut Context<'_>,
    raw: &[u8],
) -> Written {
    let Exchange { client, heads, outcome, .. } = exchange;
    let body = raw.get(heads.response.head_bytes..).unwrap_or_default();
    let out = &mut heads.response_out;
    out.extend_from_slice(body);
    let mut sent = 0;
    let written = loop {
        let rest = out.get(sent..).unwrap_or_default();
        let step = if rest.is_empty() {
            client.stream().poll_end(context, &[]).map_ok(|()| 0)
        } else {
            Pin::new(client.stream()).poll_write(context, rest)
        };
        match step {
            Poll::Ready(Ok(_)) if rest.is_empty() => break Written::Whole,
            Poll::Ready(Ok(0) | Err(_)) => break Written::Failed,
            Poll::Ready(Ok(count)) => sent += count,
            Poll::Pending => {
                // The pump counts all bytes, those sent before too.
                let out = std::mem::take(out);
                return Written::Rest(Box::new(Pump::rest(out, sent, body.len())));
            }
        }
    };
    outcome.bytes_sent += sent as u64;
    outcome.body_bytes_sent = body.len() as u64;
    written
}
