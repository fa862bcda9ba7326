//! Idle client connections: lists them, oldest first, and chooses those that are closed when
//! connections or memory run short, so that no request is refused or delayed because of a
//! connection that carries none. It closes nothing itself: it wakes the connection's own task,
//! which does.
//!
//! ```text
//!  acceptor ─ order ─▶ IdleBoard (process, listener) ─ call ─▶ IdleClients of the
//!                                     worker with the first candidate ─ wake ─▶ task
//! ```
//! Only a worker lists its own connections; other threads see just the rank of its first candidate,
//! an atomic. A connection is listed when it has waited without a buffer for its next request, so a
//! busy keep-alive connection never touches any of this.

use std::cell::RefCell;
use std::rc::Weak;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Waker;

use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use weir_stats::metrics::GivenUpIdle;

use crate::client_shares::{ClientBucket, Settlement};
use crate::gate::{Gate, Room, RoomPlace};
use crate::instant::Instant;
use crate::net::Net;
use crate::shared::Process;
use crate::worker::Worker;

/// The lowest rank of a worker that lists no idle connection.
const NONE: u64 = u64::MAX;
/// The number of bits of a rank that hold the time.
const TIME_BITS: u32 = 58;
/// Set in the rank of a connection that has carried a request. Connections that never did are
/// closed first.
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
    fn rank(self) -> u64 {
        let frugality = u64::from(MOST_EXCESS - self.excess.min(MOST_EXCESS)) << (TIME_BITS + 1);
        let served = if self.served > 0 { SERVED } else { 0 };
        frugality | served | (self.since_us & (SERVED - 1))
    }
}

/// The part of a rank above the time.
fn kind(rank: u64) -> u64 {
    rank >> TIME_BITS
}

/// The state of idle connections under one cap, shared between threads: the process's cap or that
/// of a listener.
#[derive(Debug, Default)]
pub struct IdleBoard {
    /// Indexed by worker: the lowest rank of its connections, or [`NONE`].
    lowest: OnceLock<Box<[AtomicU64]>>,
    /// The number of acceptors that wait for room under the cap.
    waiting: AtomicUsize,
    /// The number of idle connections to close.
    wanted: AtomicUsize,
    /// The number of idle connections to close of clients with more than their share.
    wanted_excessive: AtomicUsize,
    /// Notifies acceptors that wait without an accepted connection that an idle connection can be
    /// closed now.
    appeared: Notify,
    /// The order to end requests of a client when no connection is idle: a packed [`CrowdOrder`],
    /// or 0.
    crowd: AtomicU64,
}

impl IdleBoard {
    fn lowest(&self, workers: usize) -> &[AtomicU64] {
        self.lowest.get_or_init(|| (0..workers).map(|_| AtomicU64::new(NONE)).collect())
    }

    fn note_lowest(&self, (worker, workers): (usize, usize), rank: u64) {
        if let Some(own) = self.lowest(workers).get(worker) {
            own.store(rank, Ordering::SeqCst);
        }
    }

    /// Removes the entry of a lost worker.
    fn forget(&self, worker: usize) {
        if let Some(own) = self.lowest.get().and_then(|lowest| lowest.get(worker)) {
            own.store(NONE, Ordering::SeqCst);
        }
    }

    /// The worker that has the first connection to close.
    fn worker(&self) -> Option<usize> {
        let all = self.lowest.get()?.iter().enumerate();
        let all = all.map(|(number, rank)| (rank.load(Ordering::SeqCst), number));
        all.filter(|(rank, _)| *rank != NONE).min().map(|(_, number)| number)
    }

    /// Takes the order to end requests of a client, unless the shortage is over.
    fn take_crowd_order(&self, room: &Room) -> Option<CrowdOrder> {
        if self.crowd.load(Ordering::SeqCst) == 0 {
            return None;
        }
        let order = CrowdOrder::unpack(self.crowd.swap(0, Ordering::SeqCst))?;
        (self.waiting.load(Ordering::SeqCst) > 0 || room.is_short()).then_some(order)
    }

    fn order_of_client(&self, order: CrowdOrder) {
        self.crowd.store(order.pack(), Ordering::SeqCst);
    }

    /// Tells whether an idle connection of a client with more than its share is listed.
    fn has_excessive(&self) -> bool {
        let all = self.lowest.get().map_or(&[][..], |lowest| lowest);
        all.iter().any(|rank| is_excessive(rank.load(Ordering::SeqCst)))
    }

    /// Takes one order to close an idle connection, unless the shortage is over; `lowest` is the
    /// rank of the worker's first candidate.
    fn take_order(&self, room: &Room, lowest: u64) -> bool {
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
    fn wants(&self, rank: u64) -> bool {
        self.wanted.load(Ordering::SeqCst) > 0
            || is_excessive(rank) && self.wanted_excessive.load(Ordering::SeqCst) > 0
    }
}

/// An order to end `count` requests and handshakes of a client.
#[derive(Clone, Copy, Debug)]
struct CrowdOrder {
    client: ClientBucket,
    count: u32,
}

impl CrowdOrder {
    fn pack(self) -> u64 {
        u64::from(self.count) << 16 | u64::from(self.client.number())
    }

    /// Returns `None` if there is no order.
    fn unpack(order: u64) -> Option<Self> {
        let count = (order >> 16) as u32;
        (count > 0).then_some(Self { client: ClientBucket::of_number(order as u16), count })
    }
}

/// An acceptor that waits for room.
struct WaitingAcceptor<'a>(&'a IdleBoard);

impl<'a> WaitingAcceptor<'a> {
    fn new(board: &'a IdleBoard) -> Self {
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
    all: IdleBoard,
    /// The number of connections to close to free memory.
    for_memory: AtomicUsize,
    /// Indexed by worker.
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

    fn is_called(&self, worker: usize) -> Option<Notified<'_>> {
        self.calls.get(worker).map(Notify::notified)
    }

    /// Wakes the worker that has the first connection to close.
    fn call(&self, board: &IdleBoard) {
        if let Some(call) = board.worker().and_then(|worker| self.calls.get(worker)) {
            call.notify_one();
        }
    }

    /// Orders `count` requests and handshakes of a client to be ended now, or one of its
    /// connections as soon as it is idle.
    fn order_of_client(&self, board: &IdleBoard, client: ClientBucket, count: usize) {
        board.order_of_client(CrowdOrder { client, count: count as u32 });
        board.wanted_excessive.fetch_add(1, Ordering::SeqCst);
        self.calls.iter().for_each(Notify::notify_one);
    }

    fn order(&self, board: &IdleBoard, count: usize) {
        board.wanted.fetch_add(count, Ordering::SeqCst);
        self.call(board);
    }
}

/// The cap under which room is needed.
#[derive(Clone, Copy)]
pub(crate) enum Cap<'a> {
    Process,
    Listener(&'a Gate),
}

/// Error: a client has a large part of a cap and gets no more connections now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooMany;

impl Process {
    /// Removes the idle connections of a lost worker from all lists.
    pub(crate) fn forget_idle_clients_of(&self, worker: usize) {
        self.idle_clients.all.forget(worker);
        for listener in &self.snapshot().listeners {
            listener.gate.idle_clients.forget(worker);
        }
    }

    fn board<'a>(&'a self, cap: Cap<'a>) -> (&'a IdleBoard, &'a Arc<Room>) {
        match cap {
            Cap::Process => (&self.idle_clients.all, &self.connections),
            Cap::Listener(gate) => (&gate.idle_clients, &gate.room),
        }
    }

    /// Waits until there is room under a cap, or something that can be ended to make room: an idle
    /// connection, or the requests of a client with a large part of the cap. It takes no place.
    pub(crate) async fn room_in_sight(&self, cap: Cap<'_>) {
        let (board, room) = self.board(cap);
        if room.free() > 0 || board.worker().is_some() {
            return;
        }
        if room.shares().is_some_and(|shares| shares.heaviest(room.cap()).is_some()) {
            return;
        }
        let _waiting = WaitingAcceptor::new(board);
        loop {
            let mut appeared = std::pin::pin!(board.appeared.notified());
            appeared.as_mut().enable();
            if room.free() > 0 || board.worker().is_some() {
                return;
            }
            tokio::select! {
                biased;
                () = room.wait() => return,
                () = appeared => {}
            }
        }
    }

    /// Takes a place under a cap for an accepted connection. If there is none, the first idle
    /// connection is closed to make room; if few are left, one is closed for the next newcomer. A
    /// client with a large part of the cap gives way to others: its own idle connections are closed
    /// first, then its requests are ended, and only then other clients' idle connections are
    /// closed.
    ///
    /// # Errors
    /// The connection belongs to such a client, and must be closed.
    pub(crate) async fn make_room(
        &self,
        cap: Cap<'_>,
        client: Option<ClientBucket>,
    ) -> Result<RoomPlace, TooMany> {
        let (board, room) = self.board(cap);
        let now_us = self.balance_clock(Instant::now());
        if let Some(shares) = room.shares() {
            shares.note_newcomer(client, room.cap(), now_us);
        }
        // Idle connections of clients with an excess are closed first, those of others last.
        let crowd = room.shares().filter(|_| room.is_short() && !board.has_excessive());
        let settlement = crowd.map(|crowd| crowd.settle(client, room.cap(), now_us));
        if settlement == Some(Settlement::Refuse) {
            return Err(TooMany);
        }
        if let Some(place) = room.enter_now(client) {
            match settlement {
                _ if room.free() >= room.reserve() => {}
                Some(Settlement::Displace(heaviest)) => {
                    self.idle_clients.order_of_client(board, heaviest, 1);
                }
                _ if board.worker().is_some() => self.idle_clients.order(board, 1),
                _ => {}
            }
            return Ok(place);
        }
        let _waiting = WaitingAcceptor::new(board);
        if let Some(Settlement::Displace(heaviest)) = settlement {
            self.idle_clients.order_of_client(board, heaviest, 1 + room.reserve());
        } else {
            self.idle_clients.order(board, 1 + room.surplus());
        }
        Ok(room.enter(client).await)
    }
}

/// The idle client connections of a worker.
#[derive(Default)]
pub(crate) struct IdleClients(RefCell<Lines>);

/// The idle connections in one slab, linked into a few lines for each listener, oldest first: one
/// line per excess of the client and per whether the connection carried a request.
#[derive(Default)]
struct Lines {
    entries: Vec<Entry>,
    free: Vec<usize>,
    all: Vec<Line>,
}

struct Line {
    gate: Arc<Gate>,
    /// The part of its ranks above the time.
    kind: u64,
    /// The number of entries of its connections, including those that are being closed.
    entries: usize,
    first: Option<usize>,
    last: Option<usize>,
}

struct Entry {
    rank: u64,
    line: usize,
    before: Option<usize>,
    after: Option<usize>,
    waker: Waker,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Listed,
    /// Off its line, and woken to close.
    GivenUp(GivenUpIdle),
    Free,
}

/// A connection's place among the idle ones, until this is dropped.
pub(crate) struct IdlePlace<'a, N: Net> {
    worker: &'a Worker<N>,
    key: usize,
}

impl<N: Net> Worker<N> {
    /// Lists a connection of this gate as idle. It is closed soon if there is an order for that.
    pub(crate) fn list_idle(
        &self,
        gate: &Arc<Gate>,
        idle: Idle,
        waker: &Waker,
    ) -> IdlePlace<'_, N> {
        let key = self.idle_clients.0.borrow_mut().enter(gate, idle.rank(), waker);
        let place = IdlePlace { worker: self, key };
        self.note_idle(gate);
        let signals = &self.process.idle_clients;
        for board in [&signals.all, &gate.idle_clients] {
            if board.waiting.load(Ordering::SeqCst) > 0 {
                board.appeared.notify_waiters();
            }
            if board.wants(idle.rank()) {
                signals.call(board);
            }
        }
        place
    }

    /// Carries out the orders of other threads.
    fn answer_call(&self) {
        let process = &self.process;
        let signals = &process.idle_clients;
        while signals.all.take_order(&process.connections, self.lowest_rank(None)) {
            if !self.give_up_idle(None, GivenUpIdle::MaxConnections) {
                signals.order(&signals.all, 1);
                break;
            }
        }
        self.give_up_crowd(&signals.all, &process.connections, None);
        for listener in &self.current().snapshot.listeners {
            let gate = &listener.gate;
            self.give_up_crowd(&gate.idle_clients, &gate.room, Some(gate));
        }
        let mut number = 0;
        while let Some(gate) = self.gate_of_line(number) {
            number += 1;
            while gate.idle_clients.take_order(&gate.room, self.lowest_rank(Some(&gate))) {
                if !self.give_up_idle(Some(&gate), GivenUpIdle::ListenerMaxConnections) {
                    signals.order(&gate.idle_clients, 1);
                    break;
                }
            }
        }
        let less = |wanted: usize| wanted.checked_sub(1);
        let order = || signals.for_memory.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less);
        while order().is_ok() {
            if !self.give_up_idle(None, GivenUpIdle::Memory) {
                // The rest is left to another worker that has idle connections.
                signals.for_memory.fetch_add(1, Ordering::SeqCst);
                signals.call(&signals.all);
                break;
            }
        }
    }

    /// Ends requests of a client as ordered. The rest of the order is left to other workers.
    fn give_up_crowd(&self, board: &IdleBoard, room: &Room, gate: Option<&Arc<Gate>>) {
        let Some(CrowdOrder { client, count }) = board.take_crowd_order(room) else { return };
        let given_up = self.give_up_of_client(client, gate, count as usize);
        self.process.given_up_at_cap.fetch_add(given_up as u64, Ordering::Relaxed);
        let count = count.saturating_sub(given_up as u32);
        board.order_of_client(CrowdOrder { client, count });
    }

    fn gate_of_line(&self, number: usize) -> Option<Arc<Gate>> {
        self.idle_clients.0.borrow().all.get(number).map(|line| Arc::clone(&line.gate))
    }

    /// Chooses the first idle connection to close, of one listener or of all, and wakes its task;
    /// returns false if there is none.
    fn give_up_idle(&self, gate: Option<&Arc<Gate>>, why: GivenUpIdle) -> bool {
        let taken = self.idle_clients.0.borrow_mut().give_up(gate, why);
        let Some((gate, waker)) = taken else { return false };
        self.note_idle(&gate);
        waker.wake();
        true
    }

    /// The rank of the first idle connection to close, of one listener or of all.
    fn lowest_rank(&self, gate: Option<&Arc<Gate>>) -> u64 {
        self.idle_clients.0.borrow().first(gate).map_or(NONE, |(_, rank)| rank)
    }

    /// Publishes the lowest ranks for other threads.
    fn note_idle(&self, gate: &Arc<Gate>) {
        let who = (self.number, self.process.loads.len());
        gate.idle_clients.note_lowest(who, self.lowest_rank(Some(gate)));
        self.process.idle_clients.all.note_lowest(who, self.lowest_rank(None));
    }
}

impl<N: Net> IdlePlace<'_, N> {
    /// The reason why the connection has to be closed, if it has; otherwise the task is woken when
    /// that happens.
    pub(crate) fn given_up(&self, waker: &Waker) -> Option<GivenUpIdle> {
        let lines = &mut *self.worker.idle_clients.0.borrow_mut();
        let entry = lines.entries.get_mut(self.key)?;
        if let State::GivenUp(why) = entry.state {
            return Some(why);
        }
        entry.waker.clone_from(waker);
        None
    }

    /// Removes the connection from the list because a request came. If it was chosen to be closed,
    /// another one is chosen instead.
    pub(crate) fn stay(self) {
        let state = self.worker.idle_clients.0.borrow().entries.get(self.key).map(|one| one.state);
        let Some(State::GivenUp(why)) = state else { return };
        let signals = &self.worker.process.idle_clients;
        match why {
            GivenUpIdle::MaxConnections => signals.order(&signals.all, 1),
            GivenUpIdle::ListenerMaxConnections => {
                if let Some(gate) = self.gate() {
                    signals.order(&gate.idle_clients, 1);
                }
            }
            GivenUpIdle::Memory => signals.give_up_for_memory(1),
        }
    }

    fn gate(&self) -> Option<Arc<Gate>> {
        let lines = self.worker.idle_clients.0.borrow();
        let line = lines.entries.get(self.key)?.line;
        lines.all.get(line).map(|line| Arc::clone(&line.gate))
    }
}

impl<N: Net> Drop for IdlePlace<'_, N> {
    fn drop(&mut self) {
        let gate = self.gate();
        // Dropped after the borrow: dropping the waker may run arbitrary code.
        let _waker = self.worker.idle_clients.0.borrow_mut().leave(self.key);
        if let Some(gate) = gate {
            self.worker.note_idle(&gate);
        }
    }
}

impl Lines {
    fn enter(&mut self, gate: &Arc<Gate>, rank: u64, waker: &Waker) -> usize {
        let line = self.line_of(gate, kind(rank));
        let before = self.all.get(line).and_then(|line| line.last);
        let (waker, state) = (waker.clone(), State::Listed);
        let entry = Entry { rank, line, before, after: None, waker, state };
        let key = self.free.pop().unwrap_or(self.entries.len());
        match self.entries.get_mut(key) {
            Some(place) => *place = entry,
            None => self.entries.push(entry),
        }
        if let Some(before) = before.and_then(|before| self.entries.get_mut(before)) {
            before.after = Some(key);
        }
        if let Some(line) = self.all.get_mut(line) {
            line.first = line.first.or(Some(key));
            line.last = Some(key);
            line.entries += 1;
        }
        key
    }

    /// The number of the gate's line; a line without connections is reused.
    fn line_of(&mut self, gate: &Arc<Gate>, kind: u64) -> usize {
        let is_it = |line: &Line| line.kind == kind && Arc::ptr_eq(&line.gate, gate);
        let own = self.all.iter().position(is_it);
        if let Some(own) = own {
            return own;
        }
        let gate = Arc::clone(gate);
        let line = Line { gate, kind, entries: 0, first: None, last: None };
        let unused = self.all.iter().position(|line| line.entries == 0);
        if let Some((number, place)) =
            unused.and_then(|number| Some((number, self.all.get_mut(number)?)))
        {
            *place = line;
            return number;
        }
        self.all.push(line);
        self.all.len() - 1
    }

    /// The key and rank of the first connection to close.
    fn first(&self, gate: Option<&Arc<Gate>>) -> Option<(usize, u64)> {
        let lines = self.all.iter();
        let lines = lines.filter(|line| gate.is_none_or(|gate| Arc::ptr_eq(&line.gate, gate)));
        let firsts = lines.filter_map(|line| {
            let key = line.first?;
            Some((key, self.entries.get(key)?.rank))
        });
        firsts.min_by_key(|(_, rank)| *rank)
    }

    fn give_up(
        &mut self,
        gate: Option<&Arc<Gate>>,
        why: GivenUpIdle,
    ) -> Option<(Arc<Gate>, Waker)> {
        let (key, _) = self.first(gate)?;
        self.unlink(key);
        let entry = self.entries.get_mut(key)?;
        entry.state = State::GivenUp(why);
        let waker = std::mem::replace(&mut entry.waker, Waker::noop().clone());
        Some((Arc::clone(&self.all.get(entry.line)?.gate), waker))
    }

    fn leave(&mut self, key: usize) -> Option<Waker> {
        if self.entries.get(key)?.state == State::Listed {
            self.unlink(key);
        }
        let entry = self.entries.get_mut(key)?;
        entry.state = State::Free;
        let line = entry.line;
        let waker = std::mem::replace(&mut entry.waker, Waker::noop().clone());
        self.free.push(key);
        if let Some(line) = self.all.get_mut(line) {
            line.entries -= 1;
        }
        if self.free.len() == self.entries.len() {
            // No connection is idle: a burst of connections leaves no memory behind.
            *self = Self::default();
        }
        Some(waker)
    }

    fn unlink(&mut self, key: usize) {
        let Some(&Entry { line, before, after, .. }) = self.entries.get(key) else { return };
        if let Some(before) = before.and_then(|before| self.entries.get_mut(before)) {
            before.after = after;
        }
        if let Some(after) = after.and_then(|after| self.entries.get_mut(after)) {
            after.before = before;
        }
        if let Some(line) = self.all.get_mut(line) {
            if line.first == Some(key) {
                line.first = after;
            }
            if line.last == Some(key) {
                line.last = before;
            }
        }
    }
}

/// Closes idle connections of a worker, and ends requests, whenever another thread orders it.
pub(crate) async fn attend<N: Net>(worker: Weak<Worker<N>>, process: Arc<Process>, number: usize) {
    while let Some(called) = process.idle_clients.is_called(number) {
        called.await;
        let Some(worker) = worker.upgrade() else { return };
        worker.answer_call();
    }
}
