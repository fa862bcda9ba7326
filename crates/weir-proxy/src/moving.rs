//! Moves client connections to another process: when a successor replaces this process, plain
//! connections leave their workers as soon as no request of theirs was sent to an endpoint. This
//! file has the state that moves with the socket; the caller of [`crate::start::DataPlane::part`]
//! carries the connection to the other process and decides what happens if that process does not
//! take it.
//!
//! ```text
//!  idle, reading a head, waiting in a queue ─▶ Parting
//!    Parting ──taken──▶ another process: Moved, continues where it was
//!    Parting ──not taken──▶ back to its worker: one more response, then closed
//! ```
//! A TLS connection stays: its keys and sequence numbers are internal to rustls.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use weir_stats::Micros;
use weir_wire::Framing;

use crate::accept::{Handoff, Place};
use crate::alarm::Alarm;
use crate::connection::Connection;
use crate::exchange::{Facts, Workspace};
use crate::instant::Instant;
use crate::limits::{MOVED_BYTES, SMALL_BUFFER};
use crate::net::{Net, PeerAddress};
use crate::pump::Pump;
use crate::request_id::RequestId;
use crate::shared::Listener;
use crate::transport::Transport;
use crate::upstream::UpstreamPool;
use crate::worker::{Mail, Worker};

/// The state of a client connection besides its socket.
#[derive(Debug)]
pub struct Moved {
    /// The address of the peer; `None` on a Unix socket.
    pub peer: Option<SocketAddr>,
    /// The number of exchanges begun on it, without the one that moves with it.
    pub served: u64,
    /// The end of the previous response, or the time of accepting.
    pub since: Instant,
    /// The time of accepting, until the first response; later equal to `since`.
    pub began: Instant,
    /// A request that was partly or wholly read.
    pub begun: Option<Box<Begun>>,
    /// Set if it must not leave again, because no process took it.
    pub stays: bool,
}

impl Moved {
    /// Creates the state of an idle connection that another process describes.
    pub fn new(peer: Option<SocketAddr>, served: u64, (since, began): (Instant, Instant)) -> Self {
        Self { peer, served, since, began, begun: None, stays: false }
    }

    /// The returned channel ends when the connection's request has its place in a queue; `None` if
    /// it waits in none.
    pub(crate) fn turn(&mut self) -> Option<oneshot::Receiver<()>> {
        let waiting = self.begun.as_mut()?.waiting.as_mut()?;
        let (turn, arrived) = oneshot::channel();
        waiting.turn = Some(turn);
        Some(arrived)
    }
}

/// A request that was partly or wholly read, and of which nothing was sent anywhere.
#[derive(Debug)]
pub struct Begun {
    /// All bytes that were read and not answered, as received.
    pub bytes: Vec<u8>,
    /// The arrival of the first byte.
    pub first_byte: Instant,
    /// Its position in its pool's queue, if it waits there.
    pub waiting: Option<Box<Waiting>>,
}

/// A request that waits in a pool's queue.
#[derive(Debug)]
pub struct Waiting {
    /// The time at which its head was complete.
    pub head_end: Instant,
    /// Its id.
    pub request_id: RequestId,
    /// The time at which it began to wait.
    pub since: Instant,
    /// Its position at that time, from 1.
    pub queue_position: u32,
    /// Its place in the order of arrival.
    pub seniority: Seniority,
    /// Dropped once it has its place in the queue here, so that the next one may come.
    pub(crate) turn: Option<oneshot::Sender<()>>,
    /// Its number in this process's queue, if it left this process and came back.
    pub(crate) number: Option<i64>,
}

impl Waiting {
    /// Describes a request whose head was complete at `head_end` and that has waited since `since`,
    /// at first at this position.
    pub fn new(
        request_id: RequestId,
        (head_end, since): (Instant, Instant),
        queue_position: u32,
        seniority: Seniority,
    ) -> Self {
        let (turn, number) = (None, None);
        Self { head_end, request_id, since, queue_position, seniority, turn, number }
    }
}

/// A place in the order of arrival that is valid in all processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seniority {
    /// The time of arrival.
    pub arrived: Instant,
    /// The order among requests that arrived in the same microsecond.
    pub tie: u16,
}

/// The number of bits that distinguish ties.
const TIE_BITS: u32 = 10;

impl Seniority {
    /// The seniority of a request that has this number in the queue of a process whose clock begins
    /// at `epoch`.
    pub(crate) fn new(epoch: Instant, since_us: u64, number: i64) -> Self {
        let tie = number.unsigned_abs() & ((1 << TIE_BITS) - 1);
        Self { arrived: epoch + std::time::Duration::from_micros(since_us), tie: tie as u16 }
    }

    /// The number for the balancers of this process: negative, in the same order.
    pub(crate) fn rank(self, epoch: Instant) -> i64 {
        let after = self.arrived.micros_since(epoch) as i64;
        let before = epoch.micros_since(self.arrived) as i64;
        i64::MIN / 2 + ((after - before) << TIE_BITS) + i64::from(self.tie)
    }
}

/// A connection that has left its worker.
pub struct Parting<N: Net> {
    /// Its socket, with the bytes that arrived and were not read.
    pub accepted: N::Accepted,
    /// Its state besides the socket.
    pub moved: Moved,
    /// The listener that it was accepted at.
    pub listener: Arc<Listener>,
    /// The worker that it left.
    pub(crate) worker: usize,
    pub(crate) place: Place,
}

impl<N: Net> Parting<N> {
    /// Its place in the order of arrival, if it waits in a queue.
    pub fn seniority(&self) -> Option<Seniority> {
        let begun = self.moved.begun.as_ref()?;
        begun.waiting.as_ref().map(|waiting| waiting.seniority)
    }

    /// Returns the connection to the worker that it left: the worker's number, the mail for it, and
    /// a channel that ends when the connection's request has its place in a queue again, if it
    /// waits in one.
    pub fn returned(self) -> (usize, Mail<N>, Option<oneshot::Receiver<()>>) {
        let Self { accepted, mut moved, place, worker, .. } = self;
        let arrived = moved.turn();
        (worker, Mail::Connection(handoff(accepted, place, moved)), arrived)
    }
}

/// Creates the handoff of a moved connection to a worker.
pub(crate) fn handoff<N: Net>(accepted: N::Accepted, place: Place, moved: Moved) -> Handoff<N> {
    let peer = match moved.peer {
        Some(address) => PeerAddress::Socket(address),
        None => PeerAddress::Unix(std::path::PathBuf::new()),
    };
    Handoff { accepted, peer, place, moved: Some(Box::new(moved)) }
}

/// The channel for connections that leave their workers.
pub type Departures<N> = mpsc::UnboundedSender<Parting<N>>;

impl<N: Net> Connection<N> {
    /// Creates a connection that continues on this worker, and returns the request that came with
    /// it.
    pub(crate) fn of_moved(stream: N::Stream, moved: Moved) -> (Self, Option<Box<Begun>>) {
        let Moved { peer, served, since, began, begun, stays } = moved;
        let connection = Self {
            client: Transport::Plain(stream),
            alarm: Alarm::default(),
            peer,
            handshake: Micros::ZERO,
            since,
            began,
            taken: began,
            served,
            session: None,
            resident: None,
            agreed: None,
            waiting: None,
            stays,
        };
        (connection, begun)
    }

    /// The bytes that were read of a request that moves to another process.
    pub(crate) fn begun(&mut self, work: &Workspace, first_byte: Instant) -> Begun {
        let bytes = work.input.bytes().to_vec();
        Begun { bytes, first_byte, waiting: self.waiting.take() }
    }

    /// Leaves this worker. If that fails, the connection is closed, as it is when it cannot be
    /// registered with a worker.
    #[cold]
    pub(crate) fn part(self, worker: &Rc<Worker<N>>, place: Place, begun: Option<Box<Begun>>) {
        let Self { client, peer, since, began, served, .. } = self;
        let Transport::Plain(stream) = client else { return };
        let listener = worker.seat(&place.gate).map(|seat| seat.listener);
        let (Some(listener), Ok(accepted)) = (listener, worker.net.detach(stream)) else { return };
        let moved = Moved { begun, ..Moved::new(peer, served, (since, began)) };
        worker.depart(Parting { accepted, moved, listener, worker: worker.number, place });
    }
}

/// A buffer that holds the bytes that came with a connection, with room for a read.
pub(crate) fn buffer_of<N: Net>(worker: &Worker<N>, bytes: &[u8]) -> Vec<u8> {
    let mut buffer = if bytes.len() < SMALL_BUFFER {
        worker.buffers.small()
    } else {
        Vec::with_capacity(bytes.len() + SMALL_BUFFER)
    };
    buffer.extend_from_slice(bytes);
    buffer
}

/// Tells whether the part of a request that was read is still available as received, and small
/// enough to be moved. Decoded chunks are not available as received.
pub(crate) fn is_movable(
    work: &Workspace,
    (pool, upload): (&UpstreamPool, &Pump),
    chunks_read: bool,
) -> bool {
    let bytes = work.input.bytes().len() + upload.raw_bytes();
    bytes <= MOVED_BYTES && (pool.buffer_request.is_some() || !chunks_read)
}

/// Puts the part of the body that was read behind its head again, as received or in an equivalent
/// form.
pub(crate) fn put_back(work: &mut Workspace, facts: &Facts, pool: &UpstreamPool, raw: &[u8]) {
    let framing = work.request.framing;
    let (head, in_input) = (work.request.head_bytes, facts.body_in_input);
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_order_of_arrival_is_the_same_in_every_process() {
        let old = Instant::now();
        let of = |since_us, number| Seniority::new(old, since_us, number);
        let order =
            [of(0, 0), of(0, 1), of(7, 2), of(7, 1023), of(8, 1024), of(3_600_000_000, 1025)];
        assert!(order.is_sorted());
        for later in [0, 5, 3_600_000_000] {
            let epoch = old + Duration::from_micros(later);
            let ranks = order.map(|seniority| seniority.rank(epoch));
            assert!(ranks.is_sorted() && ranks.iter().all(|rank| *rank < 0), "{ranks:?}");
        }
    }
}
