//! A request's body before it is sent to an endpoint: the part that came with the head, the whole
//! body if it is to be buffered, and the beginning again for another attempt. `attempt.rs`
//! sends it.

use std::task::Poll;

use tokio::task::yield_now;
use weir_stats::Cause;
use weir_wire::{Framing, Version};

use crate::exchange::body_stream::BodyStream;
use crate::exchange::client_side::{ClientSide, ReceivedBody, wait_with};
use crate::exchange::grpc;
use crate::exchange::local_reply::{ResponsePiece, Taking, write_paced};
use crate::exchange::outcome::Ended;
use crate::exchange::pump::{Bounds, Encoder, Pump, PumpFailure, Surplus};
use crate::exchange::scope::Scope;
use crate::exchange::state::Exchange;
use crate::limiting::bandwidth::Throttle;
use crate::limits::{LONG_HEAD, SHOWN_BODY};
use crate::snapshot::RequestBodies;
use crate::time::deadline_timer::Elapsed;
use crate::time::instant::Instant;
use crate::time::pace::Pace;
use crate::upstream::rules::UpstreamRules;
use crate::worker::overload::Pressure;

const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// Creates the pump for a request body of which only the part that came with the head was read. The
/// request's head determines the framing of the body towards the endpoint.
pub(crate) fn initial_body<C: ClientSide>(
    exchange: &mut Exchange<'_, C>,
    rules: &UpstreamRules,
    mut throttle: Option<Box<Throttle>>,
) -> Pump {
    if exchange.heads.internal.error().is_some()
        && exchange.heads.request.framing != Framing::None
        && let Some(upload) = body_after_error(exchange, &mut throttle)
    {
        return upload;
    }
    let multiplexed = exchange.placement.pool().is_some_and(|pool| pool.multiplexes);
    let Exchange { scope, client, heads, arrival, route, .. } = exchange;
    let request = &heads.request;
    arrival.body_begun = true;
    let ReceivedBody { framing, raw } = client.begin_body(request, &scope.worker.buffers);
    let encoder =
        if request.framing == Framing::Chunked { Encoder::Chunked } else { Encoder::Plain };
    let own = rules.buffer_request.unwrap_or(u64::MAX);
    let bounds = Bounds {
        bytes: route.map_or(u64::MAX, |route| route.body_bytes).min(own),
        surplus: Surplus::PutBack,
        throttle,
        trailers: arrival.trailers.clone(),
        bulk: false,
    };
    let mut upload = Pump::new(Vec::new(), framing, encoder, raw, 0, bounds);
    if heads.is_text_call() {
        upload.convert_from_text();
    }
    // A body that is buffered whole is kept in any case.
    if framing != Framing::None
        && rules.buffer_request.is_none()
        && (multiplexed || may_be_repeated(exchange, rules))
    {
        upload.keep_for_replay();
    }
    upload
}

/// Returns true if the pool's `retry` can lead to another attempt with a request that was sent.
fn may_be_repeated<C: ClientSide>(exchange: &Exchange<'_, C>, rules: &UpstreamRules) -> bool {
    let retry = &rules.retry;
    retry.repeats_sent()
        && (retry.may_resend(exchange.heads.sent_method())
            || retry.minds_any_grpc() && grpc::is_call(exchange))
}

/// The pump for a request that an error led to another route: one with the body that was kept, or
/// with none.
#[cold]
fn body_after_error<C: ClientSide>(
    exchange: &mut Exchange<'_, C>,
    throttle: &mut Option<Box<Throttle>>,
) -> Option<Pump> {
    let kept = exchange.heads.kept_body.take();
    let is_dropped = exchange.heads.internal.drops_body();
    let body = if is_dropped { Some(Vec::new()) } else { kept };
    body.map(|body| Pump::whole(body, throttle.take()))
}

/// Checks that the body is acceptable, and that its available part is valid, before an endpoint is
/// involved; reads the whole body if it is to be buffered.
pub(crate) async fn prepare_body<C: ClientSide>(
    exchange: &mut Exchange<'_, C>,
    rules: &UpstreamRules,
    upload: &mut Pump,
) -> Result<(), Ended> {
    // A body that was kept, or is not sent on, is not read again.
    let is_read = exchange.arrival.body_read || exchange.heads.internal.drops_body();
    if exchange.heads.request.framing != Framing::None && !is_read {
        // In an allocation of its own, so that exchanges without a body do not reserve space for
        // it.
        let begun = Box::pin(begin_body(exchange, rules, upload)).await;
        begun.inspect_err(|_| leave_body(exchange, upload))?;
    }
    Ok(())
}

async fn begin_body<C: ClientSide>(
    exchange: &mut Exchange<'_, C>,
    rules: &UpstreamRules,
    upload: &mut Pump,
) -> Result<(), Ended> {
    let (scope, request) = (exchange.scope, &exchange.heads.request);
    let expects = request.expect_continue && request.version == Version::Http11;
    if let Framing::Length(length) = request.framing
        && length > upload.limit()
    {
        return Err(Cause::BodyTooLarge.into());
    }
    if request.framing == Framing::Chunked && upload.held() > LONG_HEAD {
        // The search for the body's end has just used a part of the turn.
        yield_now().await;
    }
    upload.decode_ahead().map_err(body_failure)?;
    if expects && !upload.has_data() {
        send_continue(exchange).await.map_err(Ended::Broken)?;
    }
    if rules.buffer_request.is_some() {
        return whole_body(exchange, upload).await;
    }
    let mut pace = Pace::default();
    while !upload.has_begun() {
        if upload.has_undecoded() {
            // A part of a group in base64, behind which much framing follows.
            yield_now().await;
            upload.decode_ahead().map_err(body_failure)?;
        } else {
            read_body(scope, &mut exchange.client, upload, 0, &mut pace).await?;
        }
    }
    Ok(())
}

async fn send_continue<C: ClientSide>(exchange: &mut Exchange<'_, C>) -> Result<(), Cause> {
    let Exchange { scope, client, heads, .. } = exchange;
    let mut head = std::mem::take(&mut heads.response_out);
    head.clear();
    head.extend_from_slice(CONTINUE);
    client.begin_response(&mut head);
    let taking = &mut Taking::new(scope.client_rate(false));
    let sent = write_paced(*scope, client, &head, ResponsePiece::Part, taking).await;
    heads.response_out = head;
    sent
}

/// Reads the whole body, so that a slow sender occupies no endpoint.
async fn whole_body<C: ClientSide>(
    exchange: &mut Exchange<'_, C>,
    upload: &mut Pump,
) -> Result<(), Ended> {
    let scope = exchange.scope;
    let mut body = Vec::new();
    upload.take_decoded(&mut body);
    let mut pace = Pace::default();
    while !upload.is_decoded() {
        exchange.holds(upload.held() + body.capacity());
        if scope.worker.process.memory.look() >= Pressure::PauseReads {
            pause(scope, &mut exchange.client).await?;
        }
        if upload.has_undecoded() {
            yield_now().await;
            upload.decode_ahead().map_err(body_failure)?;
        } else {
            read_body(scope, &mut exchange.client, upload, body.len() as u64, &mut pace).await?;
        }
        upload.take_decoded(&mut body);
    }
    exchange.client.unread(upload.surplus());
    if scope.listener.request_bodies == RequestBodies::Shown && body.len() <= SHOWN_BODY {
        exchange.heads.request_body.clone_from(&body);
    }
    *upload = Pump::whole(body, upload.take_throttle());
    Ok(())
}

/// Waits while memory is short, up to the body timeout.
#[cold]
async fn pause<C: ClientSide>(scope: Scope<'_, C::Net>, client: &mut C) -> Result<(), Ended> {
    scope.worker.process.memory.note_paused();
    let deadline = Instant::now() + scope.listener.timeouts.body;
    let over = wait_with(client, deadline, |client, context| {
        if scope.worker.process.memory.look() < Pressure::PauseReads {
            return Poll::Ready(Ok(()));
        }
        client.stream().poll_closed(context).map(|()| Err(Ended::Broken(Cause::ClientGone)))
    });
    over.await.unwrap_or_else(|Elapsed| Err(Cause::Memory.into()))
}

/// Records the received part of a body whose exchange ends without a response from an endpoint. If
/// that is the whole body, the next request follows it.
pub(crate) fn leave_body<C: ClientSide>(exchange: &mut Exchange<'_, C>, upload: &Pump) {
    let Exchange { client, arrival, heads, .. } = exchange;
    if heads.internal.drops_body() || arrival.body_read {
        // The rest of a body that is not sent on stays in the stream.
        return;
    }
    arrival.bytes_received += upload.received();
    if !upload.is_decoded() {
        return;
    }
    arrival.body_read = true;
    // A pump that has sent the whole body has already put its surplus back.
    if !upload.is_finished() {
        client.unread(upload.surplus());
    }
}

/// Reads and decodes once; `at_hand` bytes of the body were read before.
async fn read_body<C: ClientSide>(
    scope: Scope<'_, C::Net>,
    client: &mut C,
    upload: &mut Pump,
    at_hand: u64,
    pace: &mut Pace,
) -> Result<(), Ended> {
    let mut now = Instant::now();
    let deadline = now + scope.listener.timeouts.body;
    loop {
        let looked =
            scope.client_rate(false).map(|rate| pace.look(rate, now, Some(now), || at_hand));
        let Ok(look) = looked.transpose() else { return Err(Cause::BodyTooSlow.into()) };
        let until = look.flatten().map_or(deadline, |look| look.min(deadline));
        let fill = wait_with(client, until, |client, context| {
            upload.poll_fill(context, client.stream(), &scope.worker.buffers)
        });
        match fill.await {
            Ok(filled) => {
                filled.map_err(body_failure)?;
                break;
            }
            Err(Elapsed) if until < deadline => now = Instant::now(),
            Err(Elapsed) => return Err(Cause::BodyTimeout.into()),
        }
    }
    upload.decode_ahead().map_err(body_failure)
}

/// The end of an exchange whose request body failed before any response.
pub(crate) fn body_failure(failure: PumpFailure) -> Ended {
    match failure {
        PumpFailure::Malformed => Cause::BadRequestBody.into(),
        PumpFailure::TooLarge => Cause::BodyTooLarge.into(),
        PumpFailure::Truncated
        | PumpFailure::Read
        | PumpFailure::Unannounced
        | PumpFailure::Write => Ended::Broken(Cause::ClientGone),
    }
}

/// Prepares the body for another attempt, after one for which `Attempt::may_repeat` is true: of a
/// body that is not buffered whole, nothing was read beyond the bytes that came with the head, or
/// all that was read is kept.
pub(crate) fn rewind<C: ClientSide>(
    exchange: &mut Exchange<'_, C>,
    rules: &UpstreamRules,
    upload: &mut Pump,
) {
    if upload.has_read && upload.begin_again() {
        return;
    }
    let throttle = upload.take_throttle();
    // The rules may be those of a pool that the request went over to after its body was read.
    *upload = if upload.is_whole {
        Pump::whole(upload.take_buffers().1, throttle)
    } else {
        initial_body(exchange, rules, throttle)
    };
}
