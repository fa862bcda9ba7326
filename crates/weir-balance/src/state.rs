//! What is live about one endpoint, in atomics that all workers share, and the slot that counts an exchange in.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// The live state of one endpoint. It outlives a configuration: a reload hands the same `Arc` to the next
/// balancer. It knows no limits; those are the configuration's and come with each call.
#[derive(Debug)]
// Two endpoints must not share a cache line, or a busy one slows its neighbour.
#[repr(align(64))]
pub struct EndpointState {
    in_flight: AtomicU32,
    available: AtomicBool,
    /// Set by an ejection, cleared by the first connect that succeeds: until then one failure ejects again.
    on_probation: AtomicBool,
    /// On the caller's clock, µs; 0 when never ejected.
    ejected_until: AtomicU64,
    picks: AtomicU64,
    connect_failures: AtomicU64,
    ejections: AtomicU64,
    ejections_refused: AtomicU64,
}

/// Whether an endpoint may be picked at all, apart from limits and ejection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Availability {
    /// Its address is known and the operator lets it take requests.
    Available,
    /// Its name does not resolve, or the operator took it out.
    Unavailable,
}

impl Default for EndpointState {
    fn default() -> Self {
        Self {
            in_flight: AtomicU32::new(0),
            available: AtomicBool::new(true),
            on_probation: AtomicBool::new(false),
            ejected_until: AtomicU64::new(0),
            picks: AtomicU64::new(0),
            connect_failures: AtomicU64::new(0),
            ejections: AtomicU64::new(0),
            ejections_refused: AtomicU64::new(0),
        }
    }
}

impl EndpointState {
    /// Exchanges in flight.
    pub fn in_flight(&self) -> u32 {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Times it was picked.
    pub fn picks(&self) -> u64 {
        self.picks.load(Ordering::Relaxed)
    }

    /// Connects that failed.
    pub fn connect_failures(&self) -> u64 {
        self.connect_failures.load(Ordering::Relaxed)
    }

    /// Times it was ejected.
    pub fn ejections(&self) -> u64 {
        self.ejections.load(Ordering::Relaxed)
    }

    /// Times it was to be ejected and stayed because too many others were out.
    pub fn ejections_refused(&self) -> u64 {
        self.ejections_refused.load(Ordering::Relaxed)
    }

    /// Whether it may be picked, apart from limits and ejection.
    pub fn availability(&self) -> Availability {
        if self.available.load(Ordering::Relaxed) {
            Availability::Available
        } else {
            Availability::Unavailable
        }
    }

    /// Lets it be picked or not. Exchanges in flight are not touched.
    pub fn set_availability(&self, availability: Availability) {
        self.available.store(availability == Availability::Available, Ordering::Relaxed);
    }

    /// Whether it is out for failures at `now_us`.
    pub fn is_ejected(&self, now_us: u64) -> bool {
        now_us < self.ejected_until.load(Ordering::Relaxed)
    }

    /// Available and not ejected.
    pub(crate) fn is_usable(&self, now_us: u64) -> bool {
        self.available.load(Ordering::Relaxed) && !self.is_ejected(now_us)
    }

    pub(crate) fn count_failure(&self) {
        self.connect_failures.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn is_on_probation(&self) -> bool {
        self.on_probation.load(Ordering::Relaxed)
    }

    pub(crate) fn end_probation(&self) {
        // Almost always already clear: a load keeps the line shared between workers, a store would not.
        if self.is_on_probation() {
            self.on_probation.store(false, Ordering::Relaxed);
        }
    }

    pub(crate) fn eject(&self, until_us: u64) {
        self.on_probation.store(true, Ordering::Relaxed);
        self.ejected_until.store(until_us, Ordering::Relaxed);
        self.ejections.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn refuse_ejection(&self) {
        self.ejections_refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts one more exchange in, unless `limit` are in flight: exact at every instant, because the check and
    /// the count are one compare-and-swap.
    fn enter(&self, limit: Option<u32>) -> bool {
        let Some(limit) = limit else {
            self.in_flight.fetch_add(1, Ordering::Acquire);
            return true;
        };
        let below = |current: u32| (current < limit).then(|| current + 1);
        self.in_flight.fetch_update(Ordering::Acquire, Ordering::Relaxed, below).is_ok()
    }

    fn leave(&self) {
        let before = self.in_flight.fetch_sub(1, Ordering::Release);
        debug_assert!(before > 0, "a slot was given back twice");
    }
}

/// Permission to have one exchange in flight at an endpoint, given back when dropped.
#[derive(Debug)]
#[must_use = "dropping a slot gives it back at once"]
pub struct Slot {
    state: Arc<EndpointState>,
    index: usize,
}

impl Slot {
    /// A slot at `state`, or `None` when `limit` exchanges are in flight there.
    pub(crate) fn take(
        state: &Arc<EndpointState>,
        index: usize,
        limit: Option<u32>,
    ) -> Option<Self> {
        if !state.enter(limit) {
            return None;
        }
        state.picks.fetch_add(1, Ordering::Relaxed);
        Some(Self { state: Arc::clone(state), index })
    }

    /// The endpoint's number in its pool.
    pub fn index(&self) -> usize {
        self.index
    }

    /// The endpoint's live state.
    pub fn endpoint(&self) -> &EndpointState {
        &self.state
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.state.leave();
    }
}
