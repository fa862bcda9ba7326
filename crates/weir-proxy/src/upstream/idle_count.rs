//! The number of idle connections to an endpoint: one total over all workers, which the cap applies
//! to, and each worker's part of it, so that the part of a lost worker can be subtracted.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// A count with a part for each worker.
#[derive(Debug, Default)]
pub struct IdleCount {
    all: AtomicU32,
    /// Indexed by worker; each part is changed only by its own worker.
    parts: OnceLock<Box<[AtomicU32]>>,
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
        let made = || (0..worker.of).map(|_| AtomicU32::new(0)).collect();
        self.parts.get_or_init(made).get(worker.number)
    }

    fn change_part(&self, worker: OfWorker, change: impl FnOnce(u32) -> u32) {
        if let Some(part) = self.part(worker) {
            part.store(change(part.load(Ordering::Relaxed)), Ordering::Relaxed);
        }
    }

    /// Adds one, unless the count has reached `most`.
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

    /// Subtracts the part of a lost worker.
    pub(crate) fn abandon(&self, number: usize) {
        let part = self.parts.get().and_then(|parts| parts.get(number));
        let count = part.map_or(0, |part| part.swap(0, Ordering::Relaxed));
        self.all.fetch_sub(count, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_part_of_a_lost_worker_is_taken_out() {
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
}
