//! Weir's own responses: refusals, fixed responses, redirects. `files.rs` serves files.

use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Poll, ready};
use std::time::Duration;

use tokio::io::AsyncWrite;
use weir_config::model::CauseHeader;
use weir_stats::{Cause, Entry, Micros};
use weir_wire::{Framing, Method};

use crate::exchange::body_stream::BodySink;
use crate::exchange::client_side::{ClientSide, RequestBody, ResponseForm, ResponseStart};
use crate::exchange::explain;
use crate::exchange::grpc;
use crate::exchange::outcome::{Ended, Next, Refusal};
use crate::exchange::record;
use crate::exchange::request_limits;
use crate::exchange::scope::Scope;
use crate::exchange::state::Exchange;
use crate::http::client_address::PeerTrust;
use crate::http::head_writer::ConnectionLine;
use crate::http::local_reply::{BodyWanted, Reply, ReplySurroundings};
use crate::routing::route::{CompiledRedirect, CompiledRespond};
use crate::snapshot::CompiledListener;
use crate::time::deadline_timer;
use crate::time::instant::Instant;
use crate::time::pace::{MinRate, Pace, TooSlow};

/// The pace at which a client receives one of Weir's own responses or a file, over all its writes.
pub(crate) struct Taking {
    rate: Option<MinRate>,
    pace: Pace,
    /// The number of bytes that were handed to the socket.
    written: u64,
}

impl Taking {
    /// Begins to measure a new response; `rate` is the minimum, if there is one.
    pub(crate) fn new(rate: Option<MinRate>) -> Self {
        Self { rate, pace: Pace::default(), written: 0 }
    }

    /// The number of bytes that the socket took.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// Notes that the socket took `bytes`.
    pub(crate) fn wrote(&mut self, bytes: usize) {
        self.written += bytes as u64;
    }

    /// Ends the current wait for the client, if there is one; with `waits_from`, a new wait begins
    /// at that time. Returns the time of the next check.
    pub(crate) fn look<C: ClientSide>(
        &mut self,
        scope: Scope<'_, C::Net>,
        client: &C,
        waits_from: Option<Instant>,
    ) -> Result<Option<Instant>, Cause> {
        let is_asked = waits_from.is_some() || self.pace.is_waiting();
        let Some(rate) = self.rate.filter(|_| is_asked) else { return Ok(None) };
        let taken = || self.written.saturating_sub(client.unacknowledged(&scope.worker.net));
        let began = scope.worker.turn.began();
        self.pace.look(rate, began, waits_from, taken).map_err(|TooSlow| Cause::ClientTooSlow)
    }
}

/// The place of a piece in its response.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResponsePiece {
    /// Others follow.
    Part,
    /// The response ends with it.
    Last,
}

/// Writes all of `bytes` to the client, as long as it takes some within every send timeout and
/// keeps to the minimum rate of `taking`, which measures the pace of the whole response.
pub(crate) async fn write_paced<C: ClientSide>(
    scope: Scope<'_, C::Net>,
    client: &mut C,
    bytes: &[u8],
    piece: ResponsePiece,
    taking: &mut Taking,
) -> Result<(), Cause> {
    let patience = scope.listener.timeouts.send;
    let mut sent = 0;
    let mut deadline = Instant::now() + patience;
    std::future::poll_fn(|context| {
        taking.look(scope, client, None)?;
        loop {
            let rest = bytes.get(sent..).unwrap_or_default();
            let step = if !rest.is_empty() {
                Pin::new(client.stream()).poll_write(context, rest)
            } else if piece == ResponsePiece::Last {
                client.stream().poll_end(context, &[]).map_ok(|()| 0)
            } else {
                Pin::new(client.stream()).poll_flush(context).map_ok(|()| 0)
            };
            match step {
                Poll::Ready(Ok(_)) if rest.is_empty() => return Poll::Ready(Ok(())),
                Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(Err(Cause::ClientGone)),
                Poll::Ready(Ok(count)) => {
                    sent += count;
                    taking.wrote(count);
                    deadline = Instant::now() + patience;
                }
                Poll::Pending => {
                    let look = taking.look(scope, client, Some(Instant::now()))?;
                    ready!(deadline_timer::poll_either(client.timer(), context, deadline, look));
                    return Poll::Ready(Err(Cause::ClientSendTimeout));
                }
            }
        }
    })
    .await
}

/// Sends the client a response that refuses its request.
pub(crate) async fn refuse<C: ClientSide>(
    exchange: &mut Exchange<'_, C>,
    refusal: Refusal,
) -> Next {
    exchange.outcome.cause = refusal.cause;
    let reply = refusal_reply(exchange, refusal);
    match send(exchange, reply, refusal.status).await {
        Ok(next) => next,
        Err(_) => Next::Close,
    }
}

/// The reply to a refused request; if the pool's queue was the cause, its settings apply.
fn refusal_reply<'a, C: ClientSide>(exchange: &Exchange<'a, C>, refusal: Refusal) -> Reply<'a> {
    let Exchange { arrival, placement, .. } = exchange;
    let reply = Reply::of(refusal.status).with_page_of(refusal.page_status());
    let limited = arrival.told.as_ref().and_then(|told| told.retry_after_seconds);
    let reply = limited.map_or(reply, |seconds| reply.with_retry_after(seconds));
    let queue = match refusal.cause {
        Cause::QueueFull | Cause::QueueTimeout => placement.pool(),
        _ => None,
    };
    let queue = queue.and_then(|pool| pool.queue.as_ref());
    let Some(queue) = queue else { return reply };
    let reply = queue.page.as_ref().map_or(reply, |page| reply.with_page(page));
    queue.retry_after_seconds.map_or(reply, |seconds| reply.with_retry_after(seconds))
}

/// Sends a fixed response.
pub(crate) async fn respond<C: ClientSide>(
    exchange: &mut Exchange<'_, C>,
    respond: &CompiledRespond,
) -> Result<Next, Ended> {
    if respond.denied {
        exchange.outcome.cause = Cause::Denied;
    }
    let mut scratch = Vec::new();
    let body = record::with_entry(exchange, |entry| respond.body(entry, &mut scratch));
    let Some(body) = body else {
        return send(exchange, Reply::of(respond.status), respond.status).await;
    };
    let status = exchange.heads.internal.imposed_status().unwrap_or(respond.status);
    let reply = Reply::of(status).with_body(&respond.content_type, body);
    send(exchange, reply, status).await
}

/// Waits before a response that the configuration holds back. It counts as time in the queue, as
/// HAProxy counts it.
pub(crate) async fn hold_back<C: ClientSide>(
    exchange: &mut Exchange<'_, C>,
    delay: Duration,
) -> Result<(), Ended> {
    let began = Instant::now();
    let waited = request_limits::wait(exchange, began + delay).await;
    exchange.outcome.times.queue = Micros::from(Instant::now() - began);
    waited
}

/// Closes the connection without a response.
pub(crate) fn close<C: ClientSide>(
    exchange: &mut Exchange<'_, C>,
    respond: &CompiledRespond,
) -> Next {
    if respond.denied {
        exchange.outcome.cause = Cause::Denied;
    }
    exchange.set_status(respond.status);
    Next::Close
}

/// Sends a redirect.
pub(crate) async fn redirect<C: ClientSide>(
    exchange: &mut Exchange<'_, C>,
    redirect: &CompiledRedirect,
) -> Result<Next, Ended> {
    let mut scratch = Vec::new();
    let location = record::with_entry(exchange, |entry| redirect.location(entry, &mut scratch));
    let location = location.ok_or(Cause::BadRequest)?;
    let reply = Reply::of(redirect.status).with_location(location);
    send(exchange, reply, redirect.status).await
}

/// Writes a reply of this status and returns the fate of the connection.
pub(crate) async fn send<C: ClientSide>(
    exchange: &mut Exchange<'_, C>,
    reply: Reply<'_>,
    status: u16,
) -> Result<Next, Ended> {
    let sent = send_piece(exchange, reply, status, ResponsePiece::Last).await?;
    Ok(sent.next)
}

/// A reply that was written.
pub(crate) struct SentReply {
    /// The fate of the connection.
    pub(crate) next: Next,
    /// Set if the reply is over with what was written, although its body was to follow.
    pub(crate) is_over: bool,
}

/// Does the same as [`send`] for a reply whose body may follow. A failure that a call of gRPC gets
/// has none.
pub(crate) async fn send_piece<C: ClientSide>(
    exchange: &mut Exchange<'_, C>,
    reply: Reply<'_>,
    status: u16,
    piece: ResponsePiece,
) -> Result<SentReply, Ended> {
    let scope = exchange.scope;
    let form = response_form(exchange);
    let imposed = status_by_rule(exchange, status);
    let failure = grpc::failure(exchange, imposed.unwrap_or(status));
    let is_over = failure.is_some();
    let imposed = if is_over { Some(200) } else { imposed };
    let piece = if is_over { ResponsePiece::Last } else { piece };
    exchange.set_status(imposed.unwrap_or(status));
    let reply = reply.with_imposed_status(imposed);
    let reply = failure
        .as_ref()
        .map_or(reply, |failure| reply.as_trailers_only(failure.content_type, &failure.headers));
    let mut out = std::mem::take(&mut exchange.heads.response_out);
    out.clear();
    let reply = reply.with_connection(form.connection);
    let body_bytes = write_reply(exchange, reply, status, &mut out);
    exchange.holds(out.capacity());
    let begun = exchange.client.begin_response(&mut out);
    let taking = &mut Taking::new(scope.client_rate(false));
    let sent = write_paced(scope, &mut exchange.client, &out, piece, taking).await;
    if sent.is_ok() {
        exchange.outcome.bytes_sent += begun + out.len() as u64;
        exchange.outcome.body_bytes_sent = body_bytes as u64;
    }
    exchange.heads.response_out = out;
    exchange.heads.response_out.clear();
    sent.map_err(Ended::Broken)?;
    Ok(SentReply { next: form.next, is_over })
}

/// The status by the rules of the route for Weir's own responses, which see the usual one.
fn status_by_rule<C: ClientSide>(exchange: &Exchange<'_, C>, status: u16) -> Option<u16> {
    let rules = exchange.route?.responses.as_deref().filter(|rules| rules.has_own_status())?;
    // No body, and parts of one, are read by their status.
    if matches!(status, 204 | 206 | 304 | 416) {
        return None;
    }
    record::with_entry(exchange, |entry| rules.own_status(&Entry { status, ..*entry }))
}

fn write_reply<C: ClientSide>(
    exchange: &Exchange<'_, C>,
    reply: Reply<'_>,
    status: u16,
    out: &mut Vec<u8>,
) -> usize {
    let Exchange { scope, client, heads, arrival, route, .. } = exchange;
    let router = &scope.listener.router;
    let head_only = arrival.has_head && heads.request.method == Method::Head;
    let reply =
        reply.with_body_wanted(if head_only { BodyWanted::HeadOnly } else { BodyWanted::Yes });
    let limits = arrival.told.as_ref().map_or(&[][..], |told| &told.headers);
    let respond = scope.listener.request_id.respond;
    let date = scope.worker.date(arrival.head_end);
    let cause_header = cause_header(scope.listener, client.facts().peer_ip());
    let why = explain::on_demand(exchange);
    record::with_entry(exchange, |entry| {
        // As those of an endpoint's response, edits see the status before rules change it.
        let entry = &Entry { status, ..*entry };
        let own = Entry { response_headers: &reply, ..*entry };
        let surroundings = ReplySurroundings {
            pages: router.pages(),
            edits: route
                .map_or(router.response_edits(), |route| &route.response_edits)
                .resolve(Some(entry)),
            expires: exchange.expires_lines(exchange.outcome.status, Some(&own)),
            entry,
            request_id_header: if respond {
                scope.listener.request_id.header.as_deref()
            } else {
                None
            },
            cause_header,
            limits,
            kept_lines: heads.internal.kept_lines(),
            why: why.as_ref().map(|(header, text)| (*header, text.as_slice())),
            date: &date,
        };
        reply.write(&surroundings, out)
    })
}

/// The header that tells this peer the cause of a response.
fn cause_header(listener: &CompiledListener, peer: Option<IpAddr>) -> Option<&str> {
    let CauseHeader { header, trusted } = listener.cause_header.as_ref()?;
    let knows = || PeerTrust::of(peer, &listener.forwarded.trusted) == PeerTrust::Trusted;
    (!trusted || knows()).then_some(header)
}

/// The form of one of Weir's own responses. The connection stays open after it if the beginning of
/// the next request can be found, that is, if this request's body is absent or was read.
fn response_form<C: ClientSide>(exchange: &mut Exchange<'_, C>) -> ResponseForm {
    let Exchange { scope, client, heads, arrival, placement, outcome, .. } = exchange;
    let body = if !arrival.has_head {
        RequestBody::Abandoned
    } else if heads.request.framing == Framing::None || arrival.body_read {
        RequestBody::Received
    } else if placement.pool.is_none() {
        RequestBody::Untouched
    } else {
        RequestBody::Abandoned
    };
    let form = client.response_form(
        *scope,
        heads,
        &ResponseStart { relayed: None, body, at: arrival.head_end },
    );
    if outcome.cause == Cause::ConnectionCap {
        return ResponseForm { connection: ConnectionLine::Close, next: Next::Close, ..form };
    }
    form
}
