//! The number of connections to endpoints, and a cap on them and the client connections together,
//! as nginx's `worker_connections` has it. Connections are counted when they are opened and closed,
//! whether there is a cap or not: a request over an idle connection counts nothing here but the
//! idle ones, in its worker's own cache line.
//!
//! A connection that finds no place under the cap orders an idle one to be closed; a worker that
//! has one does that (`make_room.rs`, `idle_clients.rs`).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Connections to endpoints, those being opened included.
#[derive(Debug)]
pub struct ServerConnections {
    /// By worker; the last count is of the connections that belong to none, because they are
    /// parked.
    by_holder: Box<[Arc<HolderCount>]>,
    /// The cap on the connections of both sides; `usize::MAX` if those to endpoints do not count.
    cap: AtomicUsize,
    /// The number of connections that wait for a place under the cap.
    waiting: AtomicUsize,
    /// The number of idle connections to close for them, not more than they are.
    wanted: AtomicUsize,
}

/// The connections of one holder.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct HolderCount {
    open: AtomicUsize,
    /// Changed only by the worker itself. Parked connections are all idle and not counted here.
    idle: AtomicUsize,
}

impl HolderCount {
    #[inline]
    pub(crate) fn add_idle(&self) {
        self.idle.store(self.idle.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn remove_idle(&self, count: usize) {
        let idle = self.idle.load(Ordering::Relaxed);
        self.idle.store(idle.saturating_sub(count), Ordering::Relaxed);
    }
}

/// A connection to an endpoint that is counted for its holder as long as this value lives.
#[derive(Debug)]
pub(crate) struct CountedConnection(Arc<HolderCount>);

/// A connection that waits for a place under the cap, counted until this is dropped. A lost worker
/// drops none: orders that nothing needs may be left then.
#[derive(Debug)]
pub(crate) struct WaitingForPlace<'a>(&'a ServerConnections);

impl ServerConnections {
    pub(crate) fn new(workers: usize) -> Self {
        Self {
            by_holder: (0..=workers).map(|_| Arc::default()).collect(),
            cap: AtomicUsize::new(usize::MAX),
            waiting: AtomicUsize::new(0),
            wanted: AtomicUsize::new(0),
        }
    }

    /// The number of connections.
    pub fn now(&self) -> usize {
        self.by_holder.iter().map(|count| count.open.load(Ordering::SeqCst)).sum()
    }

    /// The number of idle connections.
    pub fn idle(&self) -> usize {
        let own = |count: &Arc<HolderCount>| count.idle.load(Ordering::Relaxed);
        self.by_holder.iter().map(own).sum::<usize>() + self.parked_now()
    }

    /// Returns true if the worker can close an idle connection: its own or a parked one.
    pub(crate) fn has_idle(&self, worker: usize) -> bool {
        let own = self.by_holder.get(worker);
        own.is_some_and(|count| count.idle.load(Ordering::Relaxed) > 0) || self.parked_now() > 0
    }

    fn parked_now(&self) -> usize {
        self.by_holder.last().map_or(0, |count| count.open.load(Ordering::SeqCst))
    }

    /// The cap on the connections of both sides.
    pub fn cap(&self) -> Option<usize> {
        let cap = self.cap.load(Ordering::Relaxed);
        (cap < usize::MAX).then_some(cap)
    }

    /// Changes the cap. Connections beyond a lower one stay.
    pub fn set_cap(&self, cap: Option<usize>) {
        self.cap.store(cap.unwrap_or(usize::MAX), Ordering::Relaxed);
    }

    /// The counts of a worker's connections.
    pub(crate) fn of_worker(&self, worker: usize) -> Arc<HolderCount> {
        self.by_holder.get(worker).cloned().unwrap_or_default()
    }

    /// The counts of the parked connections.
    pub(crate) fn parked(&self) -> Arc<HolderCount> {
        self.by_holder.last().cloned().unwrap_or_default()
    }

    /// Forgets the connections of a worker whose thread is stopped for good.
    pub(crate) fn abandon(&self, worker: usize) {
        if let Some(count) = self.by_holder.get(worker) {
            count.open.store(0, Ordering::SeqCst);
            count.idle.store(0, Ordering::SeqCst);
        }
    }

    /// Orders one more idle connection to be closed, unless there are as many orders as
    /// connections that wait.
    pub(crate) fn order(&self) {
        let most = self.waiting.load(Ordering::SeqCst);
        let more = |wanted: usize| (wanted < most).then_some(wanted + 1);
        let _ = self.wanted.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more);
    }

    /// Takes one order to close an idle connection.
    pub(crate) fn take_order(&self) -> bool {
        let less = |wanted: usize| wanted.checked_sub(1);
        self.wanted.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok()
    }
}

impl<'a> WaitingForPlace<'a> {
    pub(crate) fn new(connections: &'a ServerConnections) -> Self {
        connections.waiting.fetch_add(1, Ordering::SeqCst);
        Self(connections)
    }
}

impl Drop for WaitingForPlace<'_> {
    fn drop(&mut self) {
        let left = self.0.waiting.fetch_sub(1, Ordering::SeqCst) - 1;
        // An order that became unnecessary is withdrawn.
        let clamp = |wanted: usize| (wanted > left).then_some(left);
        let _ = self.0.wanted.fetch_update(Ordering::SeqCst, Ordering::SeqCst, clamp);
    }
}

impl CountedConnection {
    /// Counts a connection.
    pub(crate) fn new(counter: &Arc<HolderCount>) -> Self {
        counter.open.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(counter))
    }
}

impl Drop for CountedConnection {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_counted_for_their_holders_and_those_of_a_lost_worker_forgotten() {
        let all = ServerConnections::new(2);
        let [lost, other] = [0, 1].map(|worker| CountedConnection::new(&all.of_worker(worker)));
        let parked = CountedConnection::new(&all.parked());
        assert_eq!(all.now(), 3);
        // A lost worker drops nothing any more.
        std::mem::forget(lost);
        all.abandon(0);
        assert_eq!(all.now(), 2);
        drop((other, parked));
        assert_eq!((all.now(), all.cap()), (0, None));
        all.set_cap(Some(7));
        assert_eq!(all.cap(), Some(7));
        all.set_cap(None);
        assert_eq!(all.cap(), None);
    }

    #[test]
    fn idle_connections_are_counted_by_worker_and_parked_ones_for_all() {
        let all = ServerConnections::new(2);
        let (own, parked) = (all.of_worker(0), CountedConnection::new(&all.parked()));
        assert!(all.has_idle(0) && all.has_idle(1), "one is parked");
        drop(parked);
        own.add_idle();
        own.add_idle();
        own.remove_idle(1);
        assert_eq!((all.idle(), all.has_idle(0), all.has_idle(1)), (1, true, false));
        all.abandon(0);
        assert_eq!((all.idle(), all.has_idle(0)), (0, false));
    }

    #[test]
    fn orders_are_no_more_than_connections_that_wait_and_go_with_them() {
        let all = ServerConnections::new(1);
        all.order();
        assert!(!all.take_order(), "nothing waits");
        let (first, second) = (WaitingForPlace::new(&all), WaitingForPlace::new(&all));
        for _ in 0..3 {
            all.order();
        }
        assert!(all.take_order() && all.take_order() && !all.take_order());
        all.order();
        all.order();
        drop(second);
        assert!(all.take_order() && !all.take_order());
        all.order();
        drop(first);
        assert!(!all.take_order());
    }
}
