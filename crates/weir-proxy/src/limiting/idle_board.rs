//! The idle client connections under a cap as all threads see them: the rank of each worker's first
//! candidate, and the orders to close some.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::limiting::client_shares::CrowdedCount;
use crate::limiting::room::Room;

/// The lowest rank of a worker that lists no idle connection.
pub(crate) const NONE: u64 = u64::MAX;
/// The number of bits of a rank that hold the time.
const TIME_BITS: u32 = 58;
/// Set in the rank of a connection that has carried a request. Connections that have carried none
/// are closed first.
const SERVED: u64 = 1 << TIME_BITS;
/// The largest excess that ranks distinguish.
const MOST_EXCESS: u32 = 31;

/// Tells whether a rank belongs to a client with more than an ordinary client's share of
/// connections.
fn is_excessive(rank: u64) -> bool {
    rank >> (TIME_BITS + 1) < u64::from(MOST_EXCESS)
}

/// An idle connection, with the data that determines the order of closing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Idle {
    /// The beginning of its idle time, on the balancers' clock.
    pub(crate) since_us: u64,
    /// The number of requests that it carried.
    pub(crate) served: u64,
    /// The excess of its client over an ordinary client's share of connections, in doublings.
    pub(crate) excess: u32,
}

impl Idle {
    /// Its place in the order in which connections are closed, the lowest first: connections of the
    /// clients with the most connections, then those that never carried a request, then the oldest.
    pub(crate) fn rank(self) -> u64 {
        let frugality = u64::from(MOST_EXCESS - self.excess.min(MOST_EXCESS)) << (TIME_BITS + 1);
        let served = if self.served > 0 { SERVED } else { 0 };
        frugality | served | (self.since_us & (SERVED - 1))
    }
}

/// The part of a rank above the time.
pub(crate) fn kind(rank: u64) -> u64 {
    rank >> TIME_BITS
}

/// The state of idle connections under one cap, shared between threads: the process's cap or that
/// of a listener.
#[derive(Debug, Default)]
pub struct IdleBoard {
    /// Indexed by worker: the lowest rank of its connections, or [`NONE`].
    lowest: OnceLock<Box<[AtomicU64]>>,
    /// The number of acceptors that wait for room under the cap.
    pub(crate) waiting: AtomicUsize,
    /// The number of idle connections to close.
    wanted: AtomicUsize,
    /// The number of idle connections to close that belong to clients with more than their share.
    wanted_excessive: AtomicUsize,
    /// Notifies acceptors that wait without an accepted connection that an idle connection can be
    /// closed now.
    pub(crate) appeared: Notify,
    /// The order to end requests of a client: a packed [`CrowdOrder`], or 0.
    crowd: AtomicU64,
}

impl IdleBoard {
    fn lowest(&self, workers: usize) -> &[AtomicU64] {
        self.lowest.get_or_init(|| (0..workers).map(|_| AtomicU64::new(NONE)).collect())
    }

    pub(crate) fn note_lowest(&self, worker: usize, workers: usize, rank: u64) {
        if let Some(own) = self.lowest(workers).get(worker) {
            own.store(rank, Ordering::SeqCst);
        }
    }

    /// Removes the entry of a lost worker.
    pub(crate) fn forget(&self, worker: usize) {
        if let Some(own) = self.lowest.get().and_then(|lowest| lowest.get(worker)) {
            own.store(NONE, Ordering::SeqCst);
        }
    }

    /// The worker that has the first connection to close; `None` if no connection is idle.
    pub(crate) fn worker(&self) -> Option<usize> {
        let all = self.lowest.get()?.iter().enumerate();
        let all = all.map(|(number, rank)| (rank.load(Ordering::SeqCst), number));
        all.filter(|(rank, _)| *rank != NONE).min().map(|(_, number)| number)
    }

    /// Takes the order to end requests of a client, unless the shortage is over.
    pub(crate) fn take_crowd_order(&self, room: &Room) -> Option<CrowdOrder> {
        if self.crowd.load(Ordering::SeqCst) == 0 {
            return None;
        }
        let order = CrowdOrder::unpack(self.crowd.swap(0, Ordering::SeqCst))?;
        (self.waiting.load(Ordering::SeqCst) > 0 || room.is_short()).then_some(order)
    }

    pub(crate) fn order_of_client(&self, order: CrowdOrder) {
        self.crowd.store(order.pack(), Ordering::SeqCst);
    }

    /// Tells whether an idle connection of a client with more than its share is listed.
    pub(crate) fn has_excessive(&self) -> bool {
        let all = self.lowest.get().map_or(&[][..], |lowest| lowest);
        all.iter().any(|rank| is_excessive(rank.load(Ordering::SeqCst)))
    }

    /// Takes one order to close an idle connection, unless the shortage is over; `lowest` is the
    /// rank of the worker's first candidate.
    pub(crate) fn take_order(&self, room: &Room, lowest: u64) -> bool {
        let all = [&self.wanted_excessive, &self.wanted];
        if all.iter().all(|wanted| wanted.load(Ordering::SeqCst) == 0) {
            return false;
        }
        if self.waiting.load(Ordering::SeqCst) == 0 && room.free() >= room.reserve() {
            for wanted in all {
                wanted.store(0, Ordering::SeqCst);
            }
            return false;
        }
        let less = |wanted: usize| wanted.checked_sub(1);
        let take = |wanted: &AtomicUsize| {
            wanted.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok()
        };
        is_excessive(lowest) && take(&self.wanted_excessive) || take(&self.wanted)
    }

    /// Returns true if there is an order that a connection of this rank can fulfil.
    pub(crate) fn wants(&self, rank: u64) -> bool {
        self.wanted.load(Ordering::SeqCst) > 0
            || is_excessive(rank) && self.wanted_excessive.load(Ordering::SeqCst) > 0
    }
}

/// An order to end `count` requests, handshakes and lingering closes of a client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CrowdOrder {
    pub(crate) crowded: CrowdedCount,
    pub(crate) count: u32,
}

impl CrowdOrder {
    fn pack(self) -> u64 {
        u64::from(self.count) << 16 | u64::from(self.crowded.0)
    }

    /// Returns `None` if there is no order.
    fn unpack(order: u64) -> Option<Self> {
        let count = (order >> 16) as u32;
        (count > 0).then_some(Self { crowded: CrowdedCount(order as u16), count })
    }
}

/// An acceptor that waits for room, counted until this is dropped.
pub(crate) struct WaitingAcceptor<'a>(&'a IdleBoard);

impl<'a> WaitingAcceptor<'a> {
    pub(crate) fn new(board: &'a IdleBoard) -> Self {
        board.waiting.fetch_add(1, Ordering::SeqCst);
        Self(board)
    }
}

impl Drop for WaitingAcceptor<'_> {
    fn drop(&mut self) {
        let left = self.0.waiting.fetch_sub(1, Ordering::SeqCst) - 1;
        // An order that became unnecessary because another connection ended is withdrawn.
        let clamp = |wanted: usize| (wanted > left).then_some(left);
        for wanted in [&self.0.wanted, &self.0.wanted_excessive] {
            let _ = wanted.fetch_update(Ordering::SeqCst, Ordering::SeqCst, clamp);
        }
    }
}

/// The state of idle client connections that all workers share.
#[derive(Debug)]
pub struct IdleSignals {
    /// The connections under the process's cap.
    pub(crate) all: IdleBoard,
    /// The number of connections to close to free memory.
    pub(crate) for_memory: AtomicUsize,
    /// Indexed by worker: notified when the worker has orders to carry out.
    calls: Box<[Notify]>,
}

impl IdleSignals {
    /// Creates the state for this many workers.
    pub(crate) fn new(workers: usize) -> Self {
        let all = IdleBoard::default();
        all.lowest(workers);
        let calls = (0..workers).map(|_| Notify::new()).collect();
        Self { all, for_memory: AtomicUsize::new(0), calls }
    }

    /// Orders the oldest idle connections to be closed to free memory, up to `count`.
    pub fn give_up_for_memory(&self, count: usize) {
        self.for_memory.store(count, Ordering::SeqCst);
        self.call(&self.all);
    }

    /// Ready when the worker has orders to carry out; `None` if there is no worker of this number.
    pub(crate) fn is_called(&self, worker: usize) -> Option<Notified<'_>> {
        self.calls.get(worker).map(Notify::notified)
    }

    /// Wakes the worker that has the first connection to close.
    pub(crate) fn call(&self, board: &IdleBoard) {
        if let Some(worker) = board.worker() {
            self.call_worker(worker);
        }
    }

    /// Wakes a worker that has an order to carry out.
    pub(crate) fn call_worker(&self, worker: usize) {
        if let Some(call) = self.calls.get(worker) {
            call.notify_one();
        }
    }

    /// Orders `count` requests, handshakes and lingering closes of a client to be ended now, and
    /// one connection of a client with more than its share to be closed as soon as it is idle.
    pub(crate) fn order_of_client(&self, board: &IdleBoard, crowded: CrowdedCount, count: usize) {
        board.order_of_client(CrowdOrder { crowded, count: count as u32 });
        board.wanted_excessive.fetch_max(1, Ordering::SeqCst);
        self.calls.iter().for_each(Notify::notify_one);
    }

    /// Orders `count` more idle connections to be closed.
    pub(crate) fn order(&self, board: &IdleBoard, count: usize) {
        board.wanted.fetch_add(count, Ordering::SeqCst);
        self.call(board);
    }

    /// Renews an order to close `count` idle connections that has found none so far.
    pub(crate) fn renew(&self, board: &IdleBoard, count: usize) {
        board.wanted.fetch_max(count, Ordering::SeqCst);
        self.call(board);
    }
}
