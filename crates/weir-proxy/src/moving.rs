//! A client connection that goes on in another process: while this one is left behind by its successor, plain connections leave their
//! workers as soon as no request of theirs has been sent to an endpoint. Here is what goes with the socket; who carries it there, and what
//! becomes of it if nobody takes it, is the business of whoever asked for it ([`crate::start::DataPlane::part`]).
//!
//! ```text
//!  idle, reading a head, waiting in a queue ──▶ Parting ──taken──▶ another process: Moved ─▶ goes on where it was
//!                                                  └──not taken──▶ back to its worker: one more answer, and closed
//! ```
//! A TLS connection stays: its keys and sequence numbers are rustls's own and cannot be had.

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

/// What there is to know of a client connection beside its socket.
#[derive(Debug)]
pub struct Moved {
    /// Who is on the other end; `None` on a Unix socket.
    pub peer: Option<SocketAddr>,
    /// Exchanges begun on it, the one that moves with it not counted.
    pub served: u64,
    /// End of the previous response, or when it was accepted.
    pub since: Instant,
    /// When it was accepted, as long as nothing was answered on it; later equal to `since`.
    pub began: Instant,
    /// A request of which something was read.
    pub begun: Option<Box<Begun>>,
    /// Whether it does not leave again: nobody took it.
    pub stays: bool,
}

impl Moved {
    /// An idle connection, as another process tells of it.
    pub fn new(peer: Option<SocketAddr>, served: u64, (since, began): (Instant, Instant)) -> Self {
        Self { peer, served, since, began, begun: None, stays: false }
    }

    /// Ends when its request has its place in a queue, if it waits for one.
    pub(crate) fn turn(&mut self) -> Option<oneshot::Receiver<()>> {
        let waiting = self.begun.as_mut()?.waiting.as_mut()?;
        let (turn, arrived) = oneshot::channel();
        waiting.turn = Some(turn);
        Some(arrived)
    }
}

/// A request that was read in part or whole, and of which nothing was sent anywhere.
#[derive(Debug)]
pub struct Begun {
    /// All that was read and not answered, as it came.
    pub bytes: Vec<u8>,
    /// When the first of it came.
    pub first_byte: Instant,
    /// How it stands in its pool's queue, if it waits there.
    pub waiting: Option<Box<Waiting>>,
}

/// A request that waits in a pool's queue.
#[derive(Debug)]
pub struct Waiting {
    /// When its head was complete.
    pub head_end: Instant,
    /// Its id.
    pub request_id: RequestId,
    /// When it began to wait.
    pub since: Instant,
    /// Its position then, from 1.
    pub queue_position: u32,
    /// Its place in the order of arrival.
    pub seniority: Seniority,
    /// Dropped once it has its place in the queue here, so that the next one may come.
    pub(crate) turn: Option<oneshot::Sender<()>>,
    /// Its number in this process's queue, if it was away only.
    pub(crate) number: Option<i64>,
}

impl Waiting {
    /// One that was read whole at `head_end` and has waited since `since`, then at this position.
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

/// A place in the order of arrival that holds in all processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seniority {
    /// When it came.
    pub arrived: Instant,
    /// Who of those that came in the same microsecond was first.
    pub tie: u16,
}

/// Ties are told apart by so many bits.
const TIE_BITS: u32 = 10;

impl Seniority {
    /// Of one who got this number in the queue of a process whose clock begins at `epoch`.
    pub(crate) fn new(epoch: Instant, since_us: u64, number: i64) -> Self {
        let tie = number.unsigned_abs() & ((1 << TIE_BITS) - 1);
        Self { arrived: epoch + std::time::Duration::from_micros(since_us), tie: tie as u16 }
    }

    /// As the balancers of this process count: below 0, and in order.
    pub(crate) fn rank(self, epoch: Instant) -> i64 {
        let after = self.arrived.micros_since(epoch) as i64;
        let before = epoch.micros_since(self.arrived) as i64;
        i64::MIN / 2 + ((after - before) << TIE_BITS) + i64::from(self.tie)
    }
}

/// A connection that has left its worker.
pub struct Parting<N: Net> {
    /// Its socket, with whatever has come and was not read.
    pub accepted: N::Accepted,
    /// What there is to know of it.
    pub moved: Moved,
    /// Where it came in.
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

    /// For the worker that it left, by number; and what ends when its request has its place in a queue again, if it waits in one.
    pub fn returned(self) -> (usize, Mail<N>, Option<oneshot::Receiver<()>>) {
        let Self { accepted, mut moved, place, worker, .. } = self;
        let arrived = moved.turn();
        (worker, Mail::Connection(handoff(accepted, place, moved)), arrived)
    }
}

/// A connection that is not new, on its way to a worker.
pub(crate) fn handoff<N: Net>(accepted: N::Accepted, place: Place, moved: Moved) -> Handoff<N> {
    let peer = match moved.peer {
        Some(address) => PeerAddress::Socket(address),
        None => PeerAddress::Unix(std::path::PathBuf::new()),
    };
    Handoff { accepted, peer, place, moved: Some(Box::new(moved)) }
}

/// Where connections go that leave their workers.
pub type Departures<N> = mpsc::UnboundedSender<Parting<N>>;

impl<N: Net> Connection<N> {
    /// A connection that goes on on this worker, and the request that came with it.
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

    /// What was read of a request that goes elsewhere.
    pub(crate) fn begun(&mut self, work: &Workspace, first_byte: Instant) -> Begun {
        let bytes = work.input.bytes().to_vec();
        Begun { bytes, first_byte, waiting: self.waiting.take() }
    }

    /// Leaves this worker. Where that fails, the connection is closed, as it is when it cannot be registered with a worker.
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

/// A buffer for bytes that came along, with room for a read.
pub(crate) fn buffer_of<N: Net>(worker: &Worker<N>, bytes: &[u8]) -> Vec<u8> {
    let mut buffer = if bytes.len() < SMALL_BUFFER {
        worker.buffers.small()
    } else {
        Vec::with_capacity(bytes.len() + SMALL_BUFFER)
    };
    buffer.extend_from_slice(bytes);
    buffer
}

/// Whether what was read of a request is at hand as it came, and little enough to be moved. Chunks that were taken apart are not.
pub(crate) fn is_movable(
    work: &Workspace,
    (pool, upload): (&UpstreamPool, &Pump),
    chunks_read: bool,
) -> bool {
    let bytes = work.input.bytes().len() + upload.raw_bytes();
    bytes <= MOVED_BYTES && (pool.buffer_request.is_some() || !chunks_read)
}

/// Puts the body that was read behind its head again, as it came or so that it means the same.
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
        // What came with the head stands there still.
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
