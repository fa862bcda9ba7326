//! What is live about one endpoint, in atomics that all workers share: places in use, what was observed and what was
//! ordered. It decides nothing; `Balancer` changes it, so that whoever waits hears of it.

use crate::stall::{Pulse, TRIAL_US};
use crate::sync::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Its address is not known.
const UNRESOLVED: u32 = 1;
/// Its probes fail.
const UNHEALTHY: u32 = 2;
/// The operator lets it take only what is bound to it.
const DRAINING: u32 = 4;
/// The operator lets it take nothing.
const MAINTENANCE: u32 = 8;
/// It does not answer while others do.
const STALLED: u32 = 16;
/// That was not told yet.
const STALL_IS_NEWS: u32 = 32;

/// The limit that stands for none.
const NO_LIMIT: u32 = u32::MAX;

/// The live state of one endpoint. It outlives a configuration: a reload hands the same `Arc` to the next
/// balancer, whose limit then holds for both.
#[derive(Debug)]
// Two endpoints must not share a cache line, or a busy one slows its neighbour. What every exchange changes stands
// in the first line.
#[repr(C, align(64))]
pub struct EndpointState {
    /// The limit in the upper half, exchanges in flight in the lower: one word, so that no exchange is ever counted
    /// in against a limit that was just lowered.
    places: AtomicU64,
    /// What keeps it from being picked; 0 when nothing does.
    flags: AtomicU32,
    /// Exchanges that wait for this endpoint and no other.
    queued: AtomicU32,
    /// On the caller's clock, µs; 0 when never ejected.
    ejected_until: AtomicU64,
    picks: AtomicU64,
    pulse: Pulse,
    /// When the latest stall began, µs.
    stalled_since: AtomicU64,
    /// When a stalled endpoint may be tried again although attempts are in flight there, µs.
    trial_due: AtomicU64,
    stalls: AtomicU64,
    /// Set by an ejection, cleared by the first connect that succeeds: until then one failure ejects again.
    on_probation: AtomicBool,
    connect_failures: AtomicU64,
    ejections: AtomicU64,
    ejections_refused: AtomicU64,
    /// Most exchanges that were ever in flight here at once, and that ever waited here. Written only when it grows.
    most_in_flight: AtomicU32,
    most_queued: AtomicU32,
}

/// Whether anything can be sent to an endpoint at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Availability {
    /// Its address is known.
    #[default]
    Available,
    /// Its name does not resolve.
    Unavailable,
}

/// What the probes say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Health {
    /// They succeed, or there are none.
    #[default]
    Healthy,
    /// They fail. Ignored while too few of a pool are healthy (`Settings::panic_percent`).
    Unhealthy,
}

/// What the operator ordered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Take what comes.
    #[default]
    Ready,
    /// Take only what is bound to it.
    Draining,
    /// Take nothing.
    Maintenance,
}

impl Default for EndpointState {
    fn default() -> Self {
        Self::new(Availability::Available)
    }
}

impl EndpointState {
    /// An endpoint of which nothing is known but whether its address is.
    pub fn new(availability: Availability) -> Self {
        let flags = if availability == Availability::Available { 0 } else { UNRESOLVED };
        Self {
            places: AtomicU64::new(u64::from(NO_LIMIT) << 32),
            flags: AtomicU32::new(flags),
            queued: AtomicU32::new(0),
            ejected_until: AtomicU64::new(0),
            picks: AtomicU64::new(0),
            pulse: Pulse::new(),
            stalled_since: AtomicU64::new(0),
            trial_due: AtomicU64::new(0),
            stalls: AtomicU64::new(0),
            on_probation: AtomicBool::new(false),
            connect_failures: AtomicU64::new(0),
            ejections: AtomicU64::new(0),
            ejections_refused: AtomicU64::new(0),
            most_in_flight: AtomicU32::new(0),
            most_queued: AtomicU32::new(0),
        }
    }

    /// Most exchanges that were in flight at once.
    pub fn most_in_flight(&self) -> u32 {
        self.most_in_flight.load(Ordering::Relaxed)
    }

    /// Most exchanges that waited for this endpoint and no other at once.
    pub fn most_queued(&self) -> u32 {
        self.most_queued.load(Ordering::Relaxed)
    }

    /// From now on the most is what there is.
    pub fn forget_most(&self) {
        self.most_in_flight.store(self.in_flight(), Ordering::Relaxed);
        self.most_queued.store(self.queued(), Ordering::Relaxed);
    }

    /// Exchanges in flight.
    pub fn in_flight(&self) -> u32 {
        self.places.load(Ordering::Acquire) as u32
    }

    /// Most exchanges in flight at once; `None` when there is no limit.
    pub fn max_conn(&self) -> Option<u32> {
        let limit = (self.places.load(Ordering::Acquire) >> 32) as u32;
        (limit != NO_LIMIT).then_some(limit)
    }

    /// Exchanges that wait for this endpoint and would take no other.
    pub fn queued(&self) -> u32 {
        self.queued.load(Ordering::Relaxed)
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

    /// Whether its address is known.
    pub fn availability(&self) -> Availability {
        if self.has(UNRESOLVED) { Availability::Unavailable } else { Availability::Available }
    }

    /// What its probes say.
    pub fn health(&self) -> Health {
        if self.has(UNHEALTHY) { Health::Unhealthy } else { Health::Healthy }
    }

    /// What the operator ordered.
    pub fn order(&self) -> Order {
        let flags = self.flags.load(Ordering::Relaxed);
        if flags & MAINTENANCE != 0 {
            Order::Maintenance
        } else if flags & DRAINING != 0 {
            Order::Draining
        } else {
            Order::Ready
        }
    }

    /// Times it was found stalled.
    pub fn stalls(&self) -> u64 {
        self.stalls.load(Ordering::Relaxed)
    }

    /// Whether it gets nothing new because it does not answer while others do.
    pub fn is_stalled(&self) -> bool {
        self.has(STALLED)
    }

    /// Whether it is out for failures at `now_us`.
    pub fn is_ejected(&self, now_us: u64) -> bool {
        now_us < self.ejected_until()
    }

    /// When its latest ejection ends or ended, µs; 0 when it was never ejected.
    pub fn ejected_until(&self) -> u64 {
        self.ejected_until.load(Ordering::Relaxed)
    }

    fn has(&self, flag: u32) -> bool {
        self.flags.load(Ordering::Relaxed) & flag != 0
    }

    /// Whether any exchange may be sent to it, limits apart. `panic`: what probes say is ignored.
    pub(crate) fn is_usable(&self, now_us: u64, panic: bool) -> bool {
        self.is_clear_of(UNRESOLVED | DRAINING | MAINTENANCE, now_us, panic)
    }

    /// Whether an exchange that is bound to it may be sent to it, limits apart.
    pub(crate) fn is_usable_if_bound(&self, now_us: u64, panic: bool) -> bool {
        self.is_clear_of(UNRESOLVED | MAINTENANCE, now_us, panic)
    }

    fn is_clear_of(&self, flags: u32, now_us: u64, panic: bool) -> bool {
        let flags = if panic { flags } else { flags | UNHEALTHY };
        !self.has(flags) && !self.is_ejected(now_us)
    }

    /// True when that is news.
    pub(crate) fn set_availability(&self, availability: Availability) -> bool {
        self.set(UNRESOLVED, if availability == Availability::Available { 0 } else { UNRESOLVED })
    }

    /// True when that is news.
    pub(crate) fn set_health(&self, health: Health) -> bool {
        self.set(UNHEALTHY, if health == Health::Healthy { 0 } else { UNHEALTHY })
    }

    /// True when that is news.
    pub(crate) fn set_order(&self, order: Order) -> bool {
        let flag = match order {
            Order::Ready => 0,
            Order::Draining => DRAINING,
            Order::Maintenance => MAINTENANCE,
        };
        self.set(DRAINING | MAINTENANCE, flag)
    }

    /// Puts `flags` in place of those under `mask`; true when that changed any.
    fn set(&self, mask: u32, flags: u32) -> bool {
        let change = |current: u32| Some(current & !mask | flags);
        let before = self.flags.fetch_update(Ordering::AcqRel, Ordering::Relaxed, change);
        before.is_ok_and(|before| before & mask != flags)
    }

    pub(crate) fn pulse(&self) -> &Pulse {
        &self.pulse
    }

    /// Marks it stalled; true when that is news.
    pub(crate) fn begin_stall(&self, now_us: u64) -> bool {
        if !self.set(STALLED, STALLED) {
            return false;
        }
        self.stalled_since.store(now_us, Ordering::Relaxed);
        self.trial_due.store(now_us.saturating_add(TRIAL_US), Ordering::Relaxed);
        self.stalls.fetch_add(1, Ordering::Relaxed);
        self.set(STALL_IS_NEWS, STALL_IS_NEWS);
        true
    }

    /// It answered; when it was stalled, since when, µs.
    pub(crate) fn end_stall(&self) -> Option<u64> {
        self.set(STALLED, 0).then(|| self.stalled_since.load(Ordering::Relaxed))
    }

    pub(crate) fn take_stall_news(&self) -> bool {
        self.has(STALL_IS_NEWS) && self.set(STALL_IS_NEWS, 0)
    }

    /// Whether a stalled endpoint may be tried although attempts are in flight there.
    pub(crate) fn is_trial_due(&self, now_us: u64) -> bool {
        now_us >= self.trial_due.load(Ordering::Relaxed)
    }

    /// [`Self::enter`] for a stalled endpoint: for one exchange at a time, when nothing is in flight or a trial is due.
    pub(crate) fn enter_for_trial(&self, now_us: u64) -> Option<u32> {
        let next_due = now_us.saturating_add(TRIAL_US);
        let due = |due: u64| (now_us >= due).then_some(next_due);
        if self.trial_due.fetch_update(Ordering::AcqRel, Ordering::Relaxed, due).is_ok() {
            return self.enter();
        }
        let first = |places: u64| (places as u32 == 0 && places >> 32 > 0).then(|| places + 1);
        self.places.fetch_update(Ordering::AcqRel, Ordering::Relaxed, first).ok()?;
        self.trial_due.store(next_due, Ordering::Relaxed);
        self.picks.fetch_add(1, Ordering::Relaxed);
        grow(&self.most_in_flight, 1);
        Some(0)
    }

    pub(crate) fn set_max_conn(&self, limit: Option<u32>) {
        let limit = u64::from(limit.unwrap_or(NO_LIMIT)) << 32;
        let change = |places: u64| Some(places & u64::from(u32::MAX) | limit);
        let _ = self.places.fetch_update(Ordering::AcqRel, Ordering::Relaxed, change);
    }

    pub(crate) fn add_queued(&self) {
        let before = self.queued.fetch_add(1, Ordering::Relaxed);
        grow(&self.most_queued, before + 1);
    }

    pub(crate) fn remove_queued(&self) {
        self.queued.fetch_sub(1, Ordering::Relaxed);
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

    /// Whether one more may be counted in, as far as the limit goes.
    pub(crate) fn is_free(&self) -> bool {
        self.in_flight_if_free().is_some()
    }

    /// Exchanges in flight, unless they are as many as the limit.
    pub(crate) fn in_flight_if_free(&self) -> Option<u32> {
        let places = self.places.load(Ordering::Acquire);
        let in_flight = places as u32;
        (in_flight < (places >> 32) as u32).then_some(in_flight)
    }

    /// Counts one more exchange in, unless as many as the limit are in flight, and returns how many were before. Exact
    /// at every instant, because the check and the count are one compare-and-swap.
    pub(crate) fn enter(&self) -> Option<u32> {
        let below = |places: u64| ((places as u32) < (places >> 32) as u32).then(|| places + 1);
        let before = self.places.fetch_update(Ordering::AcqRel, Ordering::Relaxed, below).ok()?;
        self.picks.fetch_add(1, Ordering::Relaxed);
        grow(&self.most_in_flight, before as u32 + 1);
        Some(before as u32)
    }

    /// Counts one more exchange in, however many there are.
    pub(crate) fn enter_beyond_limit(&self) {
        self.places.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn leave(&self) {
        let before = self.places.fetch_sub(1, Ordering::AcqRel);
        debug_assert!(before as u32 > 0, "a slot was given back twice");
    }
}

/// Notes a number where it is the highest so far. Almost never: what is only read stays shared between workers.
fn grow(most: &AtomicU32, number: u32) {
    if number > most.load(Ordering::Relaxed) {
        most.fetch_max(number, Ordering::Relaxed);
    }
}
