//! The counters of a pool, in addition to those of its endpoints.

use serde::{Deserialize, Serialize};

use crate::sync::{AtomicU64, Ordering};

/// One counter.
#[derive(Debug)]
pub(crate) struct Figure(AtomicU64);

impl Figure {
    fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    pub(crate) fn add(&self) {
        self.add_many(1);
    }

    pub(crate) fn add_many(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn raise_to(&self, value: u64) {
        self.0.fetch_max(value, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The counters of a pool. An exchange that is dispatched at once touches none of them.
#[derive(Debug)]
pub(crate) struct PoolFigures {
    pub(crate) queued: Figure,
    pub(crate) longest: Figure,
    pub(crate) queue_full: Figure,
    pub(crate) full: Figure,
    pub(crate) unavailable: Figure,
    pub(crate) gave_up: Figure,
    pub(crate) cancelled: Figure,
    pub(crate) timed_out: Figure,
    pub(crate) violations: Figure,
}

impl PoolFigures {
    pub(crate) fn new() -> Self {
        Self {
            queued: Figure::new(),
            longest: Figure::new(),
            queue_full: Figure::new(),
            full: Figure::new(),
            unavailable: Figure::new(),
            gave_up: Figure::new(),
            cancelled: Figure::new(),
            timed_out: Figure::new(),
            violations: Figure::new(),
        }
    }
}

/// A snapshot of a pool's counters since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Slots given, over the life of the endpoints.
    pub dispatched: u64,
    /// Exchanges that had to wait.
    pub queued: u64,
    /// Exchanges rejected because the queue was full.
    pub queue_full: u64,
    /// Exchanges rejected because all endpoints were at their limit and there is no queue.
    pub full: u64,
    /// Exchanges rejected because no endpoint may be picked.
    pub unavailable: u64,
    /// Exchanges rejected for that reason after they had waited.
    pub gave_up: u64,
    /// Exchanges that left the queue of their own accord, including those with a slot just handed
    /// over.
    pub cancelled: u64,
    /// Exchanges that left the queue because their deadline passed.
    pub timed_out: u64,
    /// Exchanges sent to a busy endpoint while an idle one could be picked.
    pub inversions: u64,
    /// The time that those exchanges lost, µs: their duration beyond the running mean of exchanges
    /// at idle endpoints.
    pub regret_us: u64,
    /// Violations of the pool's invariants that audits found ([`crate::Balancer::audit`]); must
    /// stay 0.
    pub violations: u64,
}

/// The length of a pool's queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueLength {
    /// Exchanges that wait now.
    pub now: u64,
    /// The highest number that ever waited at once.
    pub longest: u64,
}
