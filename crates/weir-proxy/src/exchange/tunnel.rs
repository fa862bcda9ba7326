//! The tunnel after `101 Switching Protocols`: transfers bytes both ways, unchanged, until both
//! sides have ended or no byte moves for too long. It does not interpret the bytes.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::AsyncWrite;
use weir_stats::Cause;
use weir_wire::Framing;

use crate::exchange::body_stream::BodyStream;
use crate::exchange::client_side::ClientSide;
use crate::exchange::outcome::Next;
use crate::exchange::pump::{Bounds, Encoder, Pump, Waiting};
use crate::exchange::state::Exchange;
use crate::limiting::bandwidth::Throttle;
use crate::limits::TUNNEL_LOOK;
use crate::net::Net;
use crate::time::deadline_timer::poll_either;
use crate::time::instant::Instant;
use crate::upstream::idle::UpstreamConnection;

/// One direction: a body that ends when its source does, followed by a shutdown of the sink.
struct Direction {
    pump: Pump,
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
    /// Creates a direction that begins with these bytes.
    fn new(bytes: Vec<u8>, throttle: Option<Box<Throttle>>) -> Self {
        let bounds = Bounds { throttle, ..Bounds::default() };
        let (framing, encoder) = (Framing::UntilClose, Encoder::Plain);
        Self { pump: Pump::new(Vec::new(), framing, encoder, bytes, 0, bounds), ended: false }
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

/// The endpoint's side of an exchange that switched protocols.
pub(crate) struct Switched<N: Net> {
    /// The longest time without a byte in either direction.
    pub(crate) patience: Duration,
    pub(crate) upstream: Box<UpstreamConnection<N::Stream>>,
    /// The pump that sent the head of the 101.
    pub(crate) download: Pump,
    /// The throttle of the client's bytes.
    pub(crate) throttle: Option<Box<Throttle>>,
}

/// Transfers bytes both ways; the exchange ends with the tunnel.
pub(crate) async fn run<C: ClientSide>(
    exchange: &mut Exchange<'_, C>,
    switched: Switched<C::Net>,
) -> Next {
    let session = exchange.session;
    let Exchange { scope, client, heads, arrival, outcome, .. } = exchange;
    let Switched { patience, mut upstream, mut download, throttle } = switched;
    // Bytes that were received after the two heads, and after the request's body if it had one,
    // belong to the tunnel.
    let mut up = Direction::new(client.take_early_bytes(), throttle);
    let mut down = Direction::new(download.surplus().to_vec(), download.take_throttle());
    // The total time limit of an exchange does not apply to a tunnel.
    scope.set_deadline(None);
    let began = Instant::now();
    let mut progress = (0, began);
    let held = heads.held();
    let buffers = &scope.worker.buffers;
    outcome.cause = std::future::poll_fn(|context| {
        macro_rules! advance {
            ($direction:ident, $source:expr, $sink:expr) => {
                if !$direction.ended {
                    match $direction.pump.poll(context, $source, $sink, buffers) {
                        Poll::Ready(Ok(())) => {
                            if Pin::new($sink).poll_shutdown(context).is_ready() {
                                $direction.ended = true;
                            }
                        }
                        Poll::Ready(Err(_)) => return Poll::Ready(Cause::TunnelClosed),
                        Poll::Pending => {}
                    }
                }
            };
        }
        advance!(up, client.stream(), &mut upstream.transport);
        advance!(down, &mut upstream.transport, client.stream());
        if up.ended && down.ended {
            return Poll::Ready(Cause::TunnelClosed);
        }
        let looks = [
            up.poll_source(context, client.stream()),
            down.poll_source(context, &mut upstream.transport),
        ];
        if looks.contains(&Source::Reset) {
            return Poll::Ready(Cause::TunnelClosed);
        }
        let others = client.held() + upstream.transport.held();
        scope.holds(session, held + others + up.pump.held() + down.pump.held());
        let moved = up.pump.progress() + down.pump.progress();
        if progress.0 != moved {
            progress = (moved, Instant::now());
        }
        let look = looks.contains(&Source::Unwatched).then(|| Instant::now() + TUNNEL_LOOK);
        let deadline = progress.1 + patience;
        poll_either(client.timer(), context, deadline, look).map(|()| Cause::TunnelClosed)
    })
    .await;
    arrival.bytes_received += up.pump.body_bytes;
    outcome.bytes_sent += down.pump.written;
    outcome.body_bytes_sent = down.pump.body_bytes;
    outcome.times.data = Instant::now().span_since(began);
    Next::Close
}
