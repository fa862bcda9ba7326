//! A request's body before it is sent to an endpoint: the part that came with the head, the whole
//! body if the pool buffers it, and the beginning again for another attempt. `attempt.rs`
//! sends it.

use std::task::Poll;

use tokio::task::yield_now;
use weir_stats::Cause;
use weir_wire::{ChunkedDecoder, Framing, Step, Version};

use crate::exchange::client_connection::Connection;
use crate::exchange::local_reply::write_all;
use crate::exchange::outcome::Ended;
use crate::exchange::pump::{Bounds, Encoder, Pump, PumpFailure};
use crate::exchange::scope::Scope;
use crate::exchange::state::Exchange;
use crate::limiting::bandwidth::Throttle;
use crate::limits::{LONG_HEAD, MOVED_BYTES, SMALL_BUFFER};
use crate::net::Net;
use crate::net::input::Input;
use crate::time::deadline_timer::{Elapsed, before};
use crate::time::instant::Instant;
use crate::time::pace::Pace;
use crate::upstream::UpstreamPool;
use crate::worker::overload::Pressure;

const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// The number of these bytes, which follow a head, that belong to its chunked body: all of them if
/// it does not end there.
fn chunked_bytes(bytes: &[u8]) -> usize {
    let mut decoder = ChunkedDecoder::new();
    let mut at = 0;
    loop {
        match decoder.step(bytes.get(at..).unwrap_or_default()) {
            Ok((used, Step::Data(_))) => at += used,
            Ok((used, Step::End)) => return at + used,
            // A fault is found again, and refused, when the body is decoded.
            Ok((_, Step::More)) | Err(_) => return bytes.len(),
        }
    }
}

/// Creates the pump for a request body of which only the part that came with the head was read. It
/// takes the bytes of the body, and leaves the requests after it in the input.
pub(crate) fn initial_body<N: Net>(
    exchange: &mut Exchange<'_, N>,
    pool: &UpstreamPool,
    throttle: Option<Box<Throttle>>,
) -> Pump {
    let Exchange { scope, work, arrival, .. } = exchange;
    let framing = work.request.framing;
    let available = work.input.bytes().get(work.request.head_bytes..).unwrap_or_default();
    let take = match framing {
        Framing::None | Framing::UntilClose => 0,
        Framing::Length(length) => {
            available.len().min(usize::try_from(length).unwrap_or(usize::MAX))
        }
        Framing::Chunked => chunked_bytes(available),
    };
    arrival.body_in_input = take;
    let encoder = if framing == Framing::Chunked { Encoder::Chunked } else { Encoder::Plain };
    let mut raw = Vec::new();
    if take > 0 {
        raw = if take > SMALL_BUFFER {
            Vec::with_capacity(take)
        } else {
            scope.worker.buffers.small()
        };
        raw.extend_from_slice(available.get(..take).unwrap_or_default());
    }
    work.input.set_own(work.request.head_bytes + take);
    let own = pool.buffer_request.unwrap_or(u64::MAX);
    let bounds = Bounds {
        bytes: scope.listener.limits.body_bytes.unwrap_or(u64::MAX).min(own),
        surplus: SMALL_BUFFER,
        throttle,
        trailers: arrival.trailers.clone(),
    };
    Pump::new(Vec::new(), framing, encoder, raw, 0, bounds)
}

/// Checks that the body is acceptable, and that its available part is valid, before an endpoint is
/// involved.
pub(crate) async fn prepare_body<N: Net>(
    exchange: &mut Exchange<'_, N>,
    pool: &UpstreamPool,
    upload: &mut Pump,
) -> Result<(), Ended> {
    if exchange.work.request.framing != Framing::None {
        let begun = begin_body(exchange, pool, upload).await;
        begun.inspect_err(|_| leave_body(exchange, upload))?;
    }
    Ok(())
}

async fn begin_body<N: Net>(
    exchange: &mut Exchange<'_, N>,
    pool: &UpstreamPool,
    upload: &mut Pump,
) -> Result<(), Ended> {
    let (scope, request) = (exchange.scope, &exchange.work.request);
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
        write_all(scope, exchange.connection, CONTINUE).await.map_err(Ended::Broken)?;
    }
    if pool.buffer_request.is_some() {
        return whole_body(exchange, upload).await;
    }
    let mut pace = Pace::default();
    while !upload.has_begun() {
        read_body(scope, exchange.connection, upload, 0, &mut pace).await?;
    }
    Ok(())
}

/// Reads the whole body, so that a slow sender occupies no endpoint.
async fn whole_body<N: Net>(
    exchange: &mut Exchange<'_, N>,
    upload: &mut Pump,
) -> Result<(), Ended> {
    let scope = exchange.scope;
    let mut body = Vec::new();
    upload.take_decoded(&mut body);
    let mut pace = Pace::default();
    while !upload.is_decoded() {
        exchange.holds(upload.held() + body.capacity());
        if scope.worker.process.memory.look() >= Pressure::PauseReads {
            pause(scope, exchange.connection).await?;
        }
        if upload.has_undecoded() {
            yield_now().await;
            upload.decode_ahead().map_err(body_failure)?;
        } else {
            read_body(scope, exchange.connection, upload, body.len() as u64, &mut pace).await?;
        }
        upload.take_decoded(&mut body);
    }
    exchange.work.input.append(upload.surplus());
    *upload = Pump::whole(body, upload.take_throttle());
    Ok(())
}

/// Waits while memory is short, up to the body timeout.
#[cold]
async fn pause<N: Net>(scope: Scope<'_, N>, connection: &mut Connection<N>) -> Result<(), Ended> {
    scope.worker.process.memory.note_paused();
    let deadline = Instant::now() + scope.listener.timeouts.body;
    let Connection { client, timer, .. } = connection;
    let over = std::future::poll_fn(|context| {
        if scope.worker.process.memory.look() < Pressure::PauseReads {
            return Poll::Ready(Ok(()));
        }
        client.poll_closed(context).map(|()| Err(Ended::Broken(Cause::ClientGone)))
    });
    before(timer, deadline, over).await.unwrap_or_else(|Elapsed| Err(Cause::Memory.into()))
}

/// Records the received part of a body whose exchange ends without a response from an endpoint. If
/// that is the whole body, the next request follows it.
pub(crate) fn leave_body<N: Net>(exchange: &mut Exchange<'_, N>, upload: &Pump) {
    let Exchange { work, arrival, .. } = exchange;
    arrival.bytes_received += upload.received();
    if !upload.is_decoded() {
        return;
    }
    arrival.body_read = true;
    // A pump that has sent the whole body has already put its surplus back.
    if !upload.is_finished() {
        work.input.append(upload.surplus());
    }
}

/// Reads and decodes once; `at_hand` bytes of the body were read before.
async fn read_body<N: Net>(
    scope: Scope<'_, N>,
    connection: &mut Connection<N>,
    upload: &mut Pump,
    at_hand: u64,
    pace: &mut Pace,
) -> Result<(), Ended> {
    let mut now = Instant::now();
    let deadline = now + scope.listener.timeouts.body;
    let Connection { client, timer, .. } = connection;
    loop {
        let looked =
            scope.client_rate(false).map(|rate| pace.look(rate, now, Some(now), || at_hand));
        let Ok(look) = looked.transpose() else { return Err(Cause::BodyTooSlow.into()) };
        let until = look.flatten().map_or(deadline, |look| look.min(deadline));
        let fill = std::future::poll_fn(|context| {
            upload.poll_fill(context, client, &scope.worker.buffers)
        });
        match before(timer, until, fill).await {
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
        PumpFailure::Truncated | PumpFailure::Read | PumpFailure::Write => {
            Ended::Broken(Cause::ClientGone)
        }
    }
}

/// Prepares the body for another attempt, after one that `may_repeat`: a body that is
/// not buffered whole has then read nothing beyond the bytes that came with the head.
pub(crate) fn rewind<N: Net>(
    exchange: &mut Exchange<'_, N>,
    pool: &UpstreamPool,
    upload: &mut Pump,
) {
    let throttle = upload.take_throttle();
    *upload = match pool.buffer_request {
        Some(_) => Pump::whole(upload.take_buffers().1, throttle),
        None => initial_body(exchange, pool, throttle),
    };
}

/// Tells whether the part of a request that was read is still available as received, and small
/// enough to be moved. Decoded chunks are not available as received.
pub(crate) fn is_movable(
    input: &Input,
    pool: &UpstreamPool,
    upload: &Pump,
    chunks_read: bool,
) -> bool {
    let bytes = input.bytes().len() + upload.raw_bytes();
    bytes <= MOVED_BYTES && (pool.buffer_request.is_some() || !chunks_read)
}

/// Puts the part of the body that was read behind its head again, as received or in an equivalent
/// form.
pub(crate) fn put_back<N: Net>(exchange: &mut Exchange<'_, N>, pool: &UpstreamPool, raw: &[u8]) {
    let Exchange { work, arrival, .. } = exchange;
    let framing = work.request.framing;
    let (head, in_input) = (work.request.head_bytes, arrival.body_in_input);
    match (framing, pool.buffer_request) {
        (Framing::None | Framing::UntilClose, _) => {}
        (Framing::Chunked, Some(_)) => {
            let mut body = Vec::new();
            if !raw.is_empty() {
                weir_wire::encode::chunk_header(raw.len(), &mut body);
                body.extend_from_slice(raw);
                body.extend_from_slice(weir_wire::encode::CHUNK_END);
            }
            body.extend_from_slice(weir_wire::encode::LAST_CHUNK);
            body.extend_from_slice(b"\r\n");
            work.input.replace(head, in_input, &body);
        }
        (Framing::Length(_), _) => work.input.replace(head, in_input, raw),
        // The bytes that came with the head are still there.
        (Framing::Chunked, None) => {
            let later = raw.get(in_input..).unwrap_or_default();
            work.input.replace(head + in_input, 0, later);
        }
    }
}
