//! After `101 Switching Protocols`: bytes both ways, as they are, until both sides have ended or nothing moves for too long.

use std::pin::Pin;
use std::task::Poll;

use tokio::io::AsyncWrite;
use tokio::time::Instant;
use weir_stats::{Cause, Micros};
use weir_wire::Framing;

use crate::connection::{Connection, Scope};
use crate::exchange::{Facts, Next, Workspace};
use crate::idle::UpstreamConnection;
use crate::net::Net;
use crate::pump::{Encoder, Pump};
use crate::upstream::UpstreamPool;

/// One direction: a body that ends when its source does, then an end told to the sink.
struct Direction {
    pump: Pump,
    ended: bool,
}

/// Moves bytes both ways; the exchange ends with the tunnel.
pub(crate) async fn run<N: Net>(
    scope: Scope<'_, N>,
    connection: &mut Connection<N>,
    work: &mut Workspace,
    facts: &mut Facts,
    (pool, upstream, switched): (&UpstreamPool, Box<UpstreamConnection<N::Stream>>, Pump),
) -> Next {
    // Bytes that came behind the two heads already, and behind the request's body if it had one, belong to the tunnel.
    let behind = work.request.head_bytes + facts.body_in_input;
    let early = work.input.bytes().get(behind..).unwrap_or_default().to_vec();
    facts.body_in_input += early.len();
    let mut up = Direction {
        pump: Pump::new(Vec::new(), Framing::UntilClose, Encoder::Plain, early, 0),
        ended: false,
    };
    let late = switched.surplus().to_vec();
    let mut down = Direction {
        pump: Pump::new(Vec::new(), Framing::UntilClose, Encoder::Plain, late, 0),
        ended: false,
    };
    // How long two talk is theirs to say.
    scope.set_deadline(None);
    let mut upstream = upstream.transport;
    let began = Instant::now();
    let mut progress = (0, began);
    let session = connection.session;
    let held = work.held();
    let Connection { client, alarm, .. } = connection;
    let buffers = &scope.worker.buffers;
    facts.cause = std::future::poll_fn(|context| {
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
        advance!(up, &mut *client, &mut upstream);
        advance!(down, &mut upstream, &mut *client);
        if up.ended && down.ended {
            return Poll::Ready(Cause::TunnelClosed);
        }
        scope.holds_for(session, held + up.pump.held() + down.pump.held());
        let moved = up.pump.progress() + down.pump.progress();
        if progress.0 != moved {
            progress = (moved, Instant::now());
        }
        alarm.poll(context, progress.1 + pool.timeouts.tunnel).map(|()| Cause::TunnelClosed)
    })
    .await;
    facts.bytes_received += up.pump.body_bytes;
    facts.bytes_sent += down.pump.written;
    facts.body_bytes_sent = down.pump.body_bytes;
    facts.times.data = Micros::from(Instant::now().saturating_duration_since(began));
    Next::Close
}
