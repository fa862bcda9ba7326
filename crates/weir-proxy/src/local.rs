//! Answers of our own: refusals, fixed responses, redirects, files.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Poll, ready};

use tokio::io::AsyncWrite;
use tokio::time::Instant;
use weir_files::{Answer, FileBody, FileRequest};
use weir_stats::{Cause, Escape, Micros};
use weir_wire::{Framing, Method, Version};

use crate::connection::{Connection, Scope};
use crate::exchange::{Ended, Facts, Next, Refusal, Workspace};
use crate::limits::LARGE_BUFFER;
use crate::net::Net;
use crate::record;
use crate::reply::Reply;
use crate::route::{CompiledRedirect, CompiledRespond, CompiledRoute};

/// Writes all of `bytes` to the client, as long as it takes some within every send timeout.
pub(crate) async fn write_all<N: Net>(
    scope: Scope<'_, N>,
    connection: &mut Connection<N>,
    bytes: &[u8],
) -> Result<(), Cause> {
    let patience = scope.listener.timeouts.send;
    let Connection { client, alarm, .. } = connection;
    let mut sent = 0;
    let mut deadline = Instant::now() + patience;
    std::future::poll_fn(|context| {
        loop {
            let rest = bytes.get(sent..).unwrap_or_default();
            let step = if rest.is_empty() {
                Pin::new(&mut *client).poll_flush(context).map_ok(|()| 0)
            } else {
                Pin::new(&mut *client).poll_write(context, rest)
            };
            match step {
                Poll::Ready(Ok(_)) if rest.is_empty() => return Poll::Ready(Ok(())),
                Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(Err(Cause::ClientGone)),
                Poll::Ready(Ok(count)) => {
                    sent += count;
                    deadline = Instant::now() + patience;
                }
                Poll::Pending => {
                    ready!(alarm.poll(context, deadline));
                    return Poll::Ready(Err(Cause::ClientSendTimeout));
                }
            }
        }
    })
    .await
}

/// Tells the client why its request goes no further.
pub(crate) async fn refuse<N: Net>(
    scope: Scope<'_, N>,
    connection: &mut Connection<N>,
    work: &mut Workspace,
    facts: &mut Facts,
    (refusal, route): (Refusal, Option<&CompiledRoute>),
) -> Next {
    facts.cause = refusal.cause;
    let reply = Reply::status(refusal.status);
    match send(scope, connection, work, facts, (reply, route)).await {
        Ok(next) => next,
        Err(_) => Next::Close,
    }
}

/// Sends a fixed response.
pub(crate) async fn respond<N: Net>(
    scope: Scope<'_, N>,
    connection: &mut Connection<N>,
    work: &mut Workspace,
    facts: &mut Facts,
    (route, respond): (&CompiledRoute, &CompiledRespond),
) -> Result<Next, Ended> {
    let mut text = Vec::new();
    let mut reply = Reply::status(respond.status);
    if let Some(body) = &respond.body {
        record::with_entry(scope, connection, work, (facts, Some(route)), |entry| body.append(entry, Escape::None, &mut text));
        reply = reply.body(&text, &respond.content_type);
    }
    send(scope, connection, work, facts, (reply, Some(route))).await
}

/// Sends a redirect.
pub(crate) async fn redirect<N: Net>(
    scope: Scope<'_, N>,
    connection: &mut Connection<N>,
    work: &mut Workspace,
    facts: &mut Facts,
    (route, redirect): (&CompiledRoute, &CompiledRedirect),
) -> Result<Next, Ended> {
    let mut location = Vec::new();
    record::with_entry(scope, connection, work, (facts, Some(route)), |entry| redirect.to.append(entry, Escape::None, &mut location));
    let reply = Reply::status(redirect.status).header("Location", &location);
    send(scope, connection, work, facts, (reply, Some(route))).await
}

/// Sends files below a root directory; nothing here blocks this worker.
pub(crate) async fn files<N: Net>(
    scope: Scope<'_, N>,
    connection: &mut Connection<N>,
    work: &mut Workspace,
    facts: &mut Facts,
    (route, root): (&CompiledRoute, usize),
) -> Result<Next, Ended> {
    todo!()
}

/// Writes a reply and says what becomes of the connection.
async fn send<N: Net>(
    scope: Scope<'_, N>,
    connection: &mut Connection<N>,
    work: &mut Workspace,
    facts: &mut Facts,
    (reply, route): (Reply<'_>, Option<&CompiledRoute>),
) -> Result<Next, Ended> {
    let next = next_after(scope, connection, work, facts);
    let head_only = facts.has_head && work.request.method == Method::Head;
    let mut out = std::mem::take(&mut work.response_out);
    out.clear();
    let body = reply.write(next == Next::KeepAlive, head_only, &mut out);
    facts.status = reply.status;
    let sent = write_all(scope, connection, &out).await;
    if sent.is_ok() {
        facts.bytes_sent += out.len() as u64;
        facts.body_bytes_sent = body as u64;
    }
    work.response_out = out;
    work.response_out.clear();
    sent.map_err(Ended::Broken)?;
    Ok(next)
}

/// What becomes of the connection after an answer of our own: it stays when the next request can be found, that is, when this one's
/// body is absent or at hand.
fn next_after<N: Net>(scope: Scope<'_, N>, connection: &Connection<N>, work: &Workspace, facts: &mut Facts) -> Next {
    if !facts.has_head {
        return Next::Linger;
    }
    let behind = work.input.bytes().len() - work.request.head_bytes;
    match work.request.framing {
        Framing::None => {}
        Framing::Length(length) if facts.pool.is_none() && length <= behind as u64 => {
            facts.body_in_input = length as usize;
        }
        _ => return Next::Linger,
    }
    let stays = work.request.keep_alive
        && connection.served < scope.listener.limits.requests
        && !scope.worker.is_stopping();
    if stays { Next::KeepAlive } else { Next::Close }
}
