//! The number of idle connections to an endpoint: one total over all workers, which the cap applies
//! to, and each worker's part of it, so that the part of a lost worker can be subtracted. Parked
//! connections belong to no worker.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// The number of workers whose parts stand beside the total, so that they are in its cache line.
const NEAR: usize = 4;

/// A count with a part for each worker.
#[derive(Debug, Default)]
#[repr(C)]
pub struct IdleCount {
    all: AtomicU32,
    /// The parked connections, which belong to no worker.
    parked: AtomicU32,
    /// The number of the worker that found no idle connection while others had some, plus 1; 0 if
    /// there is none.
    asked_by: AtomicU32,
    /// Indexed by worker; each part is changed only by its own worker.
    near: [AtomicU32; NEAR],
    /// The parts of the other workers.
    far: OnceLock<Box<[AtomicU32]>>,
}

/// The worker whose part is changed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OfWorker {
    pub(crate) number: usize,
    /// The number of workers.
    pub(crate) of: usize,
}

impl IdleCount {
    /// The total over all workers.
    pub fn now(&self) -> u32 {
        self.all.load(Ordering::Relaxed)
    }

    fn part(&self, worker: OfWorker) -> Option<&AtomicU32> {
        self.near.get(worker.number).or_else(|| {
            let made = || (NEAR..worker.of).map(|_| AtomicU32::new(0)).collect();
            self.far.get_or_init(made).get(worker.number - NEAR)
        })
    }

    fn change_part(&self, worker: OfWorker, change: impl FnOnce(u32) -> u32) {
        if let Some(part) = self.part(worker) {
            part.store(change(part.load(Ordering::Relaxed)), Ordering::Relaxed);
        }
    }

    /// Adds one and returns true, unless the total has reached `most`.
    pub(crate) fn add_below(&self, worker: OfWorker, most: u32) -> bool {
        let room = |idle: u32| (idle < most).then_some(idle + 1);
        let added = self.all.fetch_update(Ordering::Relaxed, Ordering::Relaxed, room).is_ok();
        if added {
            self.change_part(worker, |part| part.wrapping_add(1));
        }
        added
    }

    /// Subtracts `count`.
    pub(crate) fn remove(&self, worker: OfWorker, count: u32) {
        if count > 0 {
            self.all.fetch_sub(count, Ordering::Relaxed);
            self.change_part(worker, |part| part.saturating_sub(count));
        }
    }

    /// Makes a connection of the worker a parked one; the total stays the same.
    pub(crate) fn park(&self, worker: OfWorker) {
        self.parked.fetch_add(1, Ordering::Relaxed);
        self.change_part(worker, |part| part.saturating_sub(1));
    }

    /// Subtracts one parked connection.
    pub(crate) fn unpark(&self) {
        self.parked.fetch_sub(1, Ordering::Relaxed);
        self.all.fetch_sub(1, Ordering::Relaxed);
    }

    /// Returns true if there are parked connections.
    pub(crate) fn has_parked(&self) -> bool {
        self.parked.load(Ordering::Relaxed) > 0
    }

    /// Asks the other workers to park the next connection that becomes idle.
    pub(crate) fn ask(&self, worker: OfWorker) {
        self.asked_by.store(worker.number as u32 + 1, Ordering::Relaxed);
    }

    /// Returns true, once, if another worker has asked for a connection.
    pub(crate) fn is_asked_for(&self, worker: OfWorker) -> bool {
        let asked_by = self.asked_by.load(Ordering::Relaxed);
        asked_by != 0
            && asked_by != worker.number as u32 + 1
            && self.asked_by.swap(0, Ordering::Relaxed) != 0
    }

    /// Subtracts the part of a lost worker.
    pub(crate) fn abandon(&self, number: usize) {
        let far = || self.far.get()?.get(number - NEAR);
        let part = self.near.get(number).or_else(far);
        let count = part.map_or(0, |part| part.swap(0, Ordering::Relaxed));
        self.all.fetch_sub(count, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_part_of_a_lost_worker_is_subtracted() {
        let count = IdleCount::default();
        let [lost, other] = [0, 1].map(|number| OfWorker { number, of: 2 });
        assert!(count.add_below(lost, 3) && count.add_below(lost, 3) && count.add_below(other, 3));
        assert!(!count.add_below(other, 3));
        count.remove(lost, 1);
        count.abandon(0);
        assert_eq!(count.now(), 1);
        count.abandon(0);
        assert!(count.add_below(other, 3) && count.add_below(other, 3));
        assert_eq!(count.now(), 3);
    }

    #[test]
    fn a_parked_connection_counts_for_no_worker() {
        let count = IdleCount::default();
        for number in [0, 3, 4, 9] {
            let worker = OfWorker { number, of: 10 };
            assert!(count.add_below(worker, 2) && count.add_below(worker, 2));
            assert!(!count.add_below(worker, 2));
            count.park(worker);
            count.abandon(number);
            assert_eq!((count.now(), count.has_parked()), (1, true), "worker {number}");
            count.unpark();
            assert_eq!((count.now(), count.has_parked()), (0, false), "worker {number}");
        }
    }

    #[test]
    fn a_request_for_a_connection_is_answered_once_by_another_worker() {
        let count = IdleCount::default();
        let [asks, other] = [0, 1].map(|number| OfWorker { number, of: 2 });
        assert!(!count.is_asked_for(other));
        count.ask(asks);
        assert!(!count.is_asked_for(asks));
        assert!(count.is_asked_for(other));
        assert!(!count.is_asked_for(other));
    }
}
