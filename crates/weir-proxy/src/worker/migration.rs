//! The state of a client connection that moves to another process with its socket.

use std::net::SocketAddr;

use tokio::sync::oneshot;

use crate::http::request_id::RequestId;
use crate::time::instant::Instant;

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
    pub fn new(peer: Option<SocketAddr>, served: u64, since: Instant, began: Instant) -> Self {
        Self { peer, served, since, began, begun: None, stays: false }
    }

    /// Returns a channel that ends when the connection's request has its place in a queue; `None`
    /// if it waits in none.
    pub(crate) fn turn(&mut self) -> Option<oneshot::Receiver<()>> {
        let waiting = self.begun.as_mut()?.waiting.as_mut()?;
        let (turn, arrived) = oneshot::channel();
        waiting.turn = Some(turn);
        Some(arrived)
    }
}

/// A request that was partly or wholly read, and of which nothing was sent to an endpoint.
#[derive(Debug)]
pub struct Begun {
    /// All bytes that were read and not answered, as received.
    pub bytes: Vec<u8>,
    /// The arrival of the first byte.
    pub first_byte: Instant,
    /// Its position in its pool's queue, if it waits there.
    pub waiting: Option<Box<WaitingRequest>>,
}

/// A request that waits in a pool's queue.
#[derive(Debug)]
pub struct WaitingRequest {
    /// The time at which its head was complete.
    pub head_end: Instant,
    /// Its id.
    pub request_id: RequestId,
    /// The time at which it began to wait.
    pub since: Instant,
    /// Its position at that time, from 1.
    pub queue_position: u32,
    /// Its place in the order of arrival.
    pub seniority: GlobalSeniority,
    /// Dropped once the request has its place in this process's queue, so that the next connection
    /// may be entered.
    pub(crate) turn: Option<oneshot::Sender<()>>,
    /// Its number in this process's queue, if it left this process and came back.
    pub(crate) number: Option<i64>,
}

impl WaitingRequest {
    /// Describes a request whose head was complete at `head_end` and that has waited since `since`,
    /// at first at this position.
    pub fn new(
        request_id: RequestId,
        head_end: Instant,
        since: Instant,
        queue_position: u32,
        seniority: GlobalSeniority,
    ) -> Self {
        let (turn, number) = (None, None);
        Self { head_end, request_id, since, queue_position, seniority, turn, number }
    }
}

/// A place in the order of arrival that is valid in all processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GlobalSeniority {
    /// The time of arrival.
    pub arrived: Instant,
    /// The order among requests that arrived in the same microsecond.
    pub tie: u16,
}

/// The number of bits that distinguish ties.
const TIE_BITS: u32 = 10;

impl GlobalSeniority {
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_order_of_arrival_is_the_same_in_every_process() {
        let old = Instant::now();
        let of = |since_us, number| GlobalSeniority::new(old, since_us, number);
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
