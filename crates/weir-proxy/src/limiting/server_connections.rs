//! The number of connections to endpoints, and a cap on them and the client connections together,
//! as nginx's `worker_connections` has it. Connections are counted when they are opened and closed,
//! whether there is a cap or not: a request over an idle connection counts nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Connections to endpoints, those being opened included.
#[derive(Debug)]
pub struct ServerConnections {
    /// By worker; the last count is of the connections that belong to none, because they are
    /// parked.
    by_holder: Box<[Arc<AtomicUsize>]>,
    /// The cap on the connections of both sides; `usize::MAX` if those to endpoints do not count.
    cap: AtomicUsize,
}

/// A connection to an endpoint that is counted for its holder as long as this value lives.
#[derive(Debug)]
pub(crate) struct CountedConnection(Arc<AtomicUsize>);

impl ServerConnections {
    pub(crate) fn new(workers: usize) -> Self {
        Self {
            by_holder: (0..=workers).map(|_| Arc::default()).collect(),
            cap: AtomicUsize::new(usize::MAX),
        }
    }

    /// The number of connections.
    pub fn now(&self) -> usize {
        self.by_holder.iter().map(|count| count.load(Ordering::SeqCst)).sum()
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

    /// The counter of a worker's connections.
    pub(crate) fn of_worker(&self, worker: usize) -> Arc<AtomicUsize> {
        self.by_holder.get(worker).cloned().unwrap_or_default()
    }

    /// The counter of the parked connections.
    pub(crate) fn parked(&self) -> Arc<AtomicUsize> {
        self.by_holder.last().cloned().unwrap_or_default()
    }

    /// Forgets the connections of a worker whose thread is stopped for good.
    pub(crate) fn abandon(&self, worker: usize) {
        if let Some(count) = self.by_holder.get(worker) {
            count.store(0, Ordering::SeqCst);
        }
    }
}

impl CountedConnection {
    /// Counts a connection.
    pub(crate) fn new(counter: &Arc<AtomicUsize>) -> Self {
        counter.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(counter))
    }
}

impl Drop for CountedConnection {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
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
}
