//! The tunnel after `101 Switching Protocols`, and that of a TCP connection: transfers bytes both
//! ways, unchanged, until both sides have ended, one was reset or no byte moves for too long. A
//! reset is passed on, and an end as it came: TLS announces it only if the other side did. It does
//! not interpret the bytes.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use weir_stats::Cause;
use weir_stats::metrics::{EndpointSeries, RouteSeries, TransferredBytes};
use weir_wire::Framing;

use crate::exchange::body_stream::{BodySink, BodySource, BodyStream};
use crate::exchange::client_side::ClientSide;
use crate::exchange::facts::{ExchangeOutcome, Placement, RequestArrival};
use crate::exchange::outcome::Next;
use crate::exchange::passive::JudgedBy;
use crate::exchange::pump::{Bounds, Encoder, Pump, PumpFailure, Waiting};
use crate::exchange::scope::Scope;
use crate::exchange::state::{Exchange, StreamOf};
use crate::limiting::bandwidth::Throttle;
use crate::limits::TUNNEL_LOOK;
use crate::net::Net;
use crate::net::buffers::Buffers;
use crate::routing::route::CompiledRoute;
use crate::time::deadline_timer::poll_either;
use crate::time::instant::Instant;
use crate::upstream::EndpointRef;
use crate::upstream::idle::UpstreamConnection;
use crate::upstream::upstream_stream::UpstreamStream;

/// One direction: a body that ends when its source does, followed by a shutdown of the sink.
struct Direction {
    pump: Pump,
    /// Set if the source did not announce its end.
    breaks_off: bool,
    ended: bool,
}

/// The state of the side that a direction reads from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    /// A reset of it wakes the task.
    Watched,
    /// It has ended its side of the connection: a reset is detected at the next check.
    Unwatched,
    /// It was reset.
    Reset,
}

impl Direction {
    /// Transfers the bytes that can be transferred now; after the end of the source, ends the sink.
    fn advance<R: BodySource, W: BodySink>(
        &mut self,
        context: &mut Context<'_>,
        source: &mut R,
        sink: &mut W,
        buffers: &Buffers,
    ) -> Result<(), PumpFailure> {
        if self.ended {
            return Ok(());
        }
        let mut polled = self.pump.poll(context, source, sink, buffers);
        if let Poll::Ready(Err(PumpFailure::Unannounced)) = polled {
            // Programs end TLS in this way too: all that was received is passed on.
            self.breaks_off = true;
            self.pump.end_here();
            polled = self.pump.poll(context, source, sink, buffers);
        }
        match polled {
            Poll::Ready(Ok(())) if self.breaks_off => {
                self.ended = sink.poll_break_off(context).is_ready();
                Ok(())
            }
            Poll::Ready(Ok(())) => {
                self.ended = Pin::new(sink).poll_shutdown(context).is_ready();
                Ok(())
            }
            Poll::Ready(Err(failure)) => Err(failure),
            Poll::Pending => Ok(()),
        }
    }

    /// The end of the tunnel after a failure of this direction; `source` is its source's end, and
    /// `sink` its sink's.
    fn broken(failure: PumpFailure, source: Cause, sink: Cause) -> Cause {
        match failure {
            PumpFailure::Write => sink,
            PumpFailure::Truncated
            | PumpFailure::Read
            | PumpFailure::Unannounced
            | PumpFailure::Malformed
            | PumpFailure::TooLarge => source,
        }
    }

    /// Creates a direction that begins with these bytes.
    fn new(bytes: Vec<u8>, throttle: Option<Box<Throttle>>) -> Self {
        let bulk = throttle.is_none();
        let bounds = Bounds { throttle, bulk, ..Bounds::default() };
        let (framing, encoder) = (Framing::UntilClose, Encoder::Plain);
        let pump = Pump::new(Vec::new(), framing, encoder, bytes, 0, bounds);
        Self { pump, breaks_off: false, ended: false }
    }

    /// Checks if the source was reset when no read would show that: because the source has ended,
    /// or because the sink takes no bytes. The end of the source is no reason to end the other
    /// direction.
    fn poll_source<S: BodyStream>(&self, context: &mut Context<'_>, source: &mut S) -> Source {
        if !self.ended && self.pump.waiting != Waiting::Write {
            return Source::Watched;
        }
        match source.poll_closed(context) {
            Poll::Pending => Source::Watched,
            Poll::Ready(()) if source.is_reset() => Source::Reset,
            Poll::Ready(()) => Source::Unwatched,
        }
    }
}

/// The endpoint's side of an exchange that switched protocols, or of a TCP connection.
pub(crate) struct Switched<'a, N: Net> {
    /// The longest time without a byte in either direction.
    pub(crate) patience: Duration,
    /// The limit in place of `patience` once the client has ended its side; `None` keeps
    /// `patience`.
    pub(crate) after_client: Option<Duration>,
    pub(crate) upstream: Box<UpstreamConnection<N::Stream>>,
    /// The first bytes for the client: those received after the head of the 101.
    pub(crate) surplus: Vec<u8>,
    /// The throttle of the client's bytes.
    pub(crate) up: Option<Box<Throttle>>,
    /// The throttle of the endpoint's bytes.
    pub(crate) down: Option<Box<Throttle>>,
    /// The endpoint, if it has not answered with a head: its first byte is its answer.
    pub(crate) silent: Option<EndpointRef<'a>>,
}

/// The metrics of the bytes of a tunnel, which may last for days.
struct ByteCounter<'a> {
    route: &'a RouteSeries,
    endpoint: Option<&'a EndpointSeries>,
    worker: usize,
    counted: TransferredBytes,
}

impl<'a> ByteCounter<'a> {
    fn new<N: Net>(
        scope: Scope<'a, N>,
        placement: &Placement<'_>,
        route: Option<&CompiledRoute>,
    ) -> Self {
        let pool = placement.pool.map(|pool| pool.number);
        let endpoint = pool.zip(placement.endpoint);
        let series = |(pool, at)| scope.generation.endpoint_series(pool, at);
        let route = scope.counts.route(route);
        let (endpoint, worker) = (endpoint.and_then(series), scope.worker.number);
        Self { route, endpoint, worker, counted: TransferredBytes::default() }
    }

    /// Counts the bytes since the last time.
    fn count(&mut self, arrival: &RequestArrival, outcome: &mut ExchangeOutcome) {
        let bytes = TransferredBytes { received: arrival.bytes_received, sent: outcome.bytes_sent };
        self.route.transferred(self.worker, self.endpoint, bytes.since(self.counted));
        self.counted = bytes;
        outcome.is_counted = true;
    }
}

/// Transfers bytes both ways; the exchange ends with the tunnel.
pub(crate) async fn run<C: ClientSide>(
    exchange: &mut Exchange<'_, C>,
    switched: Switched<'_, C::Net>,
) -> Next {
    let session = exchange.session;
    let Exchange { scope, client, heads, arrival, placement, outcome, route, .. } = exchange;
    let mut counter = ByteCounter::new(*scope, placement, *route);
    let Switched { patience, after_client, mut upstream, surplus, up, down, mut silent } = switched;
    let after_endpoint = scope.listener.timeouts.half_closed;
    // Bytes that were received after the two heads, and after the request's body if it had one,
    // belong to the tunnel.
    let mut up = Direction::new(client.take_early_bytes(), up);
    let mut down = Direction::new(surplus, down);
    // The total time limit of an exchange does not apply to a tunnel.
    scope.set_deadline(None);
    let began = Instant::now();
    let mut progress = (0, began);
    let before = (arrival.bytes_received, outcome.bytes_sent);
    let held = heads.held();
    let (buffers, turn) = (&scope.worker.buffers, &scope.worker.turn);
    let cause = std::future::poll_fn(|context| {
        let transferred =
            transfer([&mut up, &mut down], client, &mut upstream.transport, context, buffers);
        // Kept up to date, because the tunnel may be ended from outside.
        arrival.bytes_received = before.0 + up.pump.body_bytes;
        outcome.bytes_sent = before.1 + down.pump.written;
        outcome.body_bytes_sent = down.pump.body_bytes;
        counter.count(arrival, outcome);
        let looks = match transferred {
            Ok(looks) => looks,
            Err(cause) => return Poll::Ready(cause),
        };
        let others = client.held() + upstream.transport.held();
        scope.holds(session, held + others + up.pump.held() + down.pump.held());
        // The end of a side is progress too: the time of the other one begins with it.
        let ends = u64::from(up.ended) + u64::from(down.ended);
        let moved = up.pump.progress() + down.pump.progress() + ends;
        if progress.0 != moved {
            // Hardly any work follows, unless this is the end.
            progress = (moved, turn.look_at_end());
            if let Some(at) = silent.take_if(|_| down.pump.body_bytes > 0) {
                outcome.times.response = progress.1.span_since(began);
                scope.endpoint_answered(at, outcome.status, JudgedBy::Status);
            }
        }
        let look = looks.contains(&Source::Unwatched).then(|| Instant::now() + TUNNEL_LOOK);
        // A side whose bytes wait for the other is not silent.
        let half_closed = match (up.ended, down.ended) {
            (true, false) if down.pump.waiting == Waiting::Read => after_client,
            (false, true) if up.pump.waiting == Waiting::Read => after_endpoint,
            _ => None,
        };
        let deadline = progress.1 + half_closed.unwrap_or(patience);
        poll_either(client.timer(), context, deadline, look).map(|()| Cause::TunnelTimeout)
    })
    .await;
    match cause {
        Cause::TunnelClientReset => upstream.transport.reset_on_close(),
        Cause::TunnelUpstreamReset => client.stream().reset_on_close(),
        _ => {}
    }
    outcome.cause = cause;
    outcome.times.data = Instant::now().span_since(began);
    if cause == Cause::TunnelClosed { Next::Close } else { Next::BreakOff }
}

/// Transfers the bytes that can be transferred now, and checks both sources; an error is the end of
/// the tunnel.
fn transfer<C: ClientSide>(
    [up, down]: [&mut Direction; 2],
    client: &mut C,
    upstream: &mut UpstreamStream<StreamOf<C>>,
    context: &mut Context<'_>,
    buffers: &Buffers,
) -> Result<[Source; 2], Cause> {
    let (client_end, upstream_end) = (Cause::TunnelClientReset, Cause::TunnelUpstreamReset);
    let sent = up.advance(context, client.stream(), upstream, buffers);
    if let Err(failure) = sent {
        if matches!(failure, PumpFailure::Write) {
            // An endpoint that refuses the client's bytes may have said why.
            let _ = down.advance(context, upstream, client.stream(), buffers);
        }
        return Err(Direction::broken(failure, client_end, upstream_end));
    }
    let sent = down.advance(context, upstream, client.stream(), buffers);
    sent.map_err(|failure| Direction::broken(failure, upstream_end, client_end))?;
    if up.ended && down.ended {
        return Err(Cause::TunnelClosed);
    }
    match [up.poll_source(context, client.stream()), down.poll_source(context, upstream)] {
        [Source::Reset, _] => Err(client_end),
        [_, Source::Reset] => Err(upstream_end),
        looks => Ok(looks),
    }
}
