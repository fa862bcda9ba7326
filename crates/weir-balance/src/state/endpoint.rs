//! The live state of one endpoint, in atomics that all workers share: slots in use, observed health
//! and the operator's admin state. It decides nothing; `Balancer` changes it and then serves the
//! exchanges that wait.

use serde::{Deserialize, Serialize};

use crate::state::pulse::{Pulse, TRIAL_US};
use crate::state::response_time::AverageResponseTime;
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Flag: the endpoint's address is not known.
const UNRESOLVED: u32 = 1;
/// Flag: the endpoint's probes fail.
const UNHEALTHY: u32 = 2;
/// Flag: the operator is draining the endpoint; it takes only exchanges that are bound to it.
const DRAINING: u32 = 4;
/// Flag: the operator put the endpoint into maintenance; it takes no exchange.
const MAINTENANCE: u32 = 8;
/// Flag: the endpoint does not answer while others do.
const STALLED: u32 = 16;
/// Flag: the stall was not reported yet.
const STALL_IS_NEWS: u32 = 32;
/// Flag: the endpoint was ejected at least once; only then is there an end of an ejection to look
/// at.
const WAS_EJECTED: u32 = 64;
/// Flag: set by an ejection, cleared by the first success. While it is set, one failure ejects
/// again.
const ON_PROBATION: u32 = 128;
/// Flag: the endpoint's address was known at least once, or the endpoint was added to a pool that
/// was already in use. Only then is its return a reason for a slow start.
const WAS_IN_USE: u32 = 256;

/// Flag: the endpoint's agent says that it is down.
const AGENT_DOWN: u32 = 512;
/// Flag: the endpoint answers its probes so that it takes only exchanges that are bound to it.
const PROBE_DRAINING: u32 = 1024;
/// Flag: the endpoint's agent gives it no weight, so that it takes only exchanges that are bound to
/// it.
const AGENT_DRAINING: u32 = 2048;

/// The flags of an endpoint that takes no exchange but those that are bound to it, even if probes
/// are ignored.
const OUT: u32 = UNRESOLVED | AGENT_DOWN | PROBE_DRAINING | AGENT_DRAINING | DRAINING | MAINTENANCE;

/// The value of the limit that means no limit.
const NO_LIMIT: u32 = u32::MAX;

/// The live state of one endpoint. It outlives a configuration: a reload hands the same `Arc` to
/// the next balancer, whose limit then holds for both.
#[derive(Debug)]
// Two endpoints must not share a cache line, or a busy one slows its neighbour. What a pick and an
// exchange look at stands in the first line: in a pool of thousands it is in no cache.
#[repr(C, align(64))]
pub struct EndpointState {
    /// The limit in the upper half, exchanges in flight in the lower half. They are one word, so
    /// that no exchange is ever counted in against a limit that was just lowered.
    places: AtomicU64,
    /// The reasons that keep the endpoint from being picked; 0 if there are none.
    flags: AtomicU32,
    /// Exchanges that wait for this endpoint and no other.
    queued: AtomicU32,
    picks: AtomicU64,
    pulse: Pulse,
    /// The highest numbers of exchanges in flight at once and waiting at once. Written only when
    /// they grow.
    most_in_flight: AtomicU32,
    most_queued: AtomicU32,
    /// The end of the latest ejection on the caller's clock, µs; 0 if the endpoint was never
    /// ejected.
    ejected_until: AtomicU64,
    /// The start of the latest stall, µs.
    stalled_since: AtomicU64,
    /// The time from which a stalled endpoint may be tried although attempts are in flight there,
    /// µs.
    trial_due: AtomicU64,
    stalls: AtomicU64,
    failures: AtomicU64,
    ejections: AtomicU64,
    ejections_refused: AtomicU64,
    /// The start of the latest slow start, which may lie ahead, on the caller's clock, µs; 0 if
    /// there was none.
    slow_since: AtomicU64,
    /// The limit that applies when no slow start reduces it.
    whole_limit: AtomicU32,
    /// The part of a turn that was saved up in a slow start, in 1/2³².
    turn_credit: AtomicU32,
    response_time: AverageResponseTime,
}

#[cfg(not(feature = "shuttle"))]
const _: () = assert!(std::mem::offset_of!(EndpointState, ejected_until) == 64);

/// The availability of an endpoint, which depends on its address being known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Availability {
    /// The endpoint's address is known.
    #[default]
    Available,
    /// The endpoint's name does not resolve.
    Unavailable,
}

/// The verdict of an endpoint's probes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Health {
    /// The probes succeed, or there are none.
    #[default]
    Healthy,
    /// The probes fail. Ignored while too few of a pool are healthy (`Settings::panic_percent`).
    Unhealthy,
}

/// The state in which the operator puts an endpoint (HAProxy's admin state).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AdminState {
    /// Take every exchange.
    #[default]
    Ready,
    /// Take only exchanges that are bound to the endpoint.
    Draining,
    /// Take no exchange.
    Maintenance,
}

impl AdminState {
    /// The state as one word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Draining => "draining",
            Self::Maintenance => "maintenance",
        }
    }
}

impl Default for EndpointState {
    fn default() -> Self {
        Self::new(Availability::Available)
    }
}

impl EndpointState {
    /// Creates the state of an endpoint of which only the availability is known.
    pub fn new(availability: Availability) -> Self {
        let flags = if availability == Availability::Available { WAS_IN_USE } else { UNRESOLVED };
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
            failures: AtomicU64::new(0),
            ejections: AtomicU64::new(0),
            ejections_refused: AtomicU64::new(0),
            most_in_flight: AtomicU32::new(0),
            most_queued: AtomicU32::new(0),
            slow_since: AtomicU64::new(0),
            whole_limit: AtomicU32::new(NO_LIMIT),
            turn_credit: AtomicU32::new(0),
            response_time: AverageResponseTime::new(),
        }
    }

    /// The highest number of exchanges that were in flight at once.
    pub fn most_in_flight(&self) -> u32 {
        self.most_in_flight.load(Ordering::Relaxed)
    }

    /// The highest number of exchanges that waited at once for this endpoint and no other.
    pub fn most_queued(&self) -> u32 {
        self.most_queued.load(Ordering::Relaxed)
    }

    /// Resets the highest numbers to the current ones.
    pub fn forget_most(&self) {
        self.most_in_flight.store(self.in_flight(), Ordering::Relaxed);
        self.most_queued.store(self.queued(), Ordering::Relaxed);
    }

    /// Exchanges in flight.
    pub fn in_flight(&self) -> u32 {
        self.places.load(Ordering::Acquire) as u32
    }

    /// The limit of exchanges in flight at once; `None` if there is no limit.
    pub fn max_conn(&self) -> Option<u32> {
        let limit = (self.places.load(Ordering::Acquire) >> 32) as u32;
        (limit != NO_LIMIT).then_some(limit)
    }

    /// Exchanges that wait for this endpoint and no other.
    pub fn queued(&self) -> u32 {
        self.queued.load(Ordering::Relaxed)
    }

    /// Number of times the endpoint was picked.
    pub fn picks(&self) -> u64 {
        self.picks.load(Ordering::Relaxed)
    }

    /// Number of failures that were noted ([`crate::Balancer::endpoint_failed`]).
    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// Number of ejections.
    pub fn ejections(&self) -> u64 {
        self.ejections.load(Ordering::Relaxed)
    }

    /// Number of ejections that were refused because too many other endpoints were ejected.
    pub fn ejections_refused(&self) -> u64 {
        self.ejections_refused.load(Ordering::Relaxed)
    }

    /// Tells whether the endpoint's address is known.
    pub fn availability(&self) -> Availability {
        if self.has(UNRESOLVED) { Availability::Unavailable } else { Availability::Available }
    }

    /// The verdict of the endpoint's probes and of its agent together.
    pub fn health(&self) -> Health {
        if self.has(UNHEALTHY | AGENT_DOWN) { Health::Unhealthy } else { Health::Healthy }
    }

    /// The verdict of the endpoint's probes.
    pub fn probed_health(&self) -> Health {
        if self.has(UNHEALTHY) { Health::Unhealthy } else { Health::Healthy }
    }

    /// The verdict of the endpoint's agent.
    pub fn agent_health(&self) -> Health {
        if self.has(AGENT_DOWN) { Health::Unhealthy } else { Health::Healthy }
    }

    /// Returns true if the endpoint answers its probes so that it takes only exchanges that are
    /// bound to it.
    pub fn is_probe_draining(&self) -> bool {
        self.has(PROBE_DRAINING)
    }

    /// Returns true if the endpoint's agent gives it no weight.
    pub fn is_agent_draining(&self) -> bool {
        self.has(AGENT_DRAINING)
    }

    /// Returns true if the endpoint itself, by its probes or its agent, says that it takes only
    /// exchanges that are bound to it.
    pub fn is_self_draining(&self) -> bool {
        self.has(PROBE_DRAINING | AGENT_DRAINING)
    }

    /// Returns true if the endpoint is out of use by the word of its agent, or drains by its own:
    /// like an order, that holds even if probes are ignored.
    pub(crate) fn is_out_by_itself(&self) -> bool {
        self.has(AGENT_DOWN | PROBE_DRAINING | AGENT_DRAINING)
    }

    /// The operator's admin state.
    pub fn admin_state(&self) -> AdminState {
        let flags = self.flags.load(Ordering::Relaxed);
        if flags & MAINTENANCE != 0 {
            AdminState::Maintenance
        } else if flags & DRAINING != 0 {
            AdminState::Draining
        } else {
            AdminState::Ready
        }
    }

    /// Number of times the endpoint was found stalled.
    pub fn stalls(&self) -> u64 {
        self.stalls.load(Ordering::Relaxed)
    }

    /// Returns true if the endpoint gets no new exchange because it does not answer while others
    /// do.
    pub fn is_stalled(&self) -> bool {
        self.has(STALLED)
    }

    /// Returns true if the endpoint is ejected for failures at `now_us`.
    pub fn is_ejected(&self, now_us: u64) -> bool {
        self.has(WAS_EJECTED) && now_us < self.ejected_until()
    }

    /// The end of the latest ejection, past or future, µs; 0 if the endpoint was never ejected.
    pub fn ejected_until(&self) -> u64 {
        self.ejected_until.load(Ordering::Relaxed)
    }

    /// Returns true if the endpoint is resolved and healthy, and the operator lets it take
    /// exchanges.
    pub fn is_ready(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & (UNHEALTHY | OUT) == 0
    }

    fn has(&self, flag: u32) -> bool {
        self.flags.load(Ordering::Relaxed) & flag != 0
    }

    /// Returns true if any exchange may be sent to the endpoint, limits aside. With `panic`, the
    /// verdict of the probes is ignored.
    pub(crate) fn is_usable(&self, now_us: u64, panic: bool) -> bool {
        self.is_clear_of(OUT, now_us, panic)
    }

    /// Returns true if an exchange that is bound to the endpoint may be sent to it, limits aside.
    pub(crate) fn is_usable_if_bound(&self, now_us: u64, panic: bool) -> bool {
        self.is_clear_of(UNRESOLVED | AGENT_DOWN | MAINTENANCE, now_us, panic)
    }

    fn is_clear_of(&self, flags: u32, now_us: u64, panic: bool) -> bool {
        let flags = if panic { flags } else { flags | UNHEALTHY };
        !self.has(flags) && !self.is_ejected(now_us)
    }

    /// Returns true if the availability changed.
    pub(crate) fn set_availability(&self, availability: Availability) -> bool {
        self.set(UNRESOLVED, if availability == Availability::Available { 0 } else { UNRESOLVED })
    }

    /// Returns true if the health changed.
    pub(crate) fn set_health(&self, health: Health) -> bool {
        self.set(UNHEALTHY, if health == Health::Healthy { 0 } else { UNHEALTHY })
    }

    /// Returns true if the verdict of the agent changed.
    pub(crate) fn set_agent_health(&self, health: Health) -> bool {
        self.set(AGENT_DOWN, if health == Health::Healthy { 0 } else { AGENT_DOWN })
    }

    /// Returns true if it changed that the endpoint drains for its probes.
    pub(crate) fn set_probe_draining(&self, is_probe_draining: bool) -> bool {
        self.set(PROBE_DRAINING, if is_probe_draining { PROBE_DRAINING } else { 0 })
    }

    /// Returns true if it changed that the agent gives the endpoint no weight.
    pub(crate) fn set_agent_draining(&self, is_agent_draining: bool) -> bool {
        self.set(AGENT_DRAINING, if is_agent_draining { AGENT_DRAINING } else { 0 })
    }

    /// Returns true if the admin state changed.
    pub(crate) fn set_admin_state(&self, state: AdminState) -> bool {
        let flag = match state {
            AdminState::Ready => 0,
            AdminState::Draining => DRAINING,
            AdminState::Maintenance => MAINTENANCE,
        };
        self.set(DRAINING | MAINTENANCE, flag)
    }

    /// Replaces the flags under `mask` by `flags`; returns true if any changed.
    fn set(&self, mask: u32, flags: u32) -> bool {
        let change = |current: u32| Some(current & !mask | flags);
        let before = self.flags.fetch_update(Ordering::AcqRel, Ordering::Relaxed, change);
        before.is_ok_and(|before| before & mask != flags)
    }

    pub(crate) fn pulse(&self) -> &Pulse {
        &self.pulse
    }

    pub(crate) fn response_time(&self) -> &AverageResponseTime {
        &self.response_time
    }

    /// Marks the endpoint as stalled; returns true if it was not stalled before.
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

    /// Notes that the endpoint answered. If it was stalled, returns the start of the stall, µs.
    pub(crate) fn end_stall(&self) -> Option<u64> {
        self.set(STALLED, 0).then(|| self.stalled_since.load(Ordering::Relaxed))
    }

    pub(crate) fn take_stall_news(&self) -> bool {
        self.has(STALL_IS_NEWS) && self.set(STALL_IS_NEWS, 0)
    }

    /// Returns true if a stalled endpoint may be tried although attempts are in flight there.
    pub(crate) fn is_trial_due(&self, now_us: u64) -> bool {
        now_us >= self.trial_due.load(Ordering::Relaxed)
    }

    /// Like [`Self::enter`], for a stalled endpoint: admits one exchange at a time, if nothing is
    /// in flight or a trial is due.
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

    /// The start of the latest slow start, past or future, µs; 0 if there was none.
    pub(crate) fn slow_since(&self) -> u64 {
        self.slow_since.load(Ordering::Relaxed)
    }

    /// The limit that applies when no slow start reduces it.
    pub(crate) fn whole_limit(&self) -> Option<u32> {
        let limit = self.whole_limit.load(Ordering::Relaxed);
        (limit != NO_LIMIT).then_some(limit)
    }

    pub(crate) fn was_in_use(&self) -> bool {
        self.has(WAS_IN_USE)
    }

    pub(crate) fn note_in_use(&self) {
        if !self.was_in_use() {
            self.set(WAS_IN_USE, WAS_IN_USE);
        }
    }

    pub(crate) fn begin_slow_start(&self, from_us: u64) {
        self.slow_since.store(from_us.max(1), Ordering::Relaxed);
    }

    pub(crate) fn forget_slow_start(&self) {
        self.slow_since.store(0, Ordering::Relaxed);
    }

    /// Saves up `part`/2³² of a turn; returns true if that makes a whole turn.
    pub(crate) fn saves_up_a_turn(&self, part: u32) -> bool {
        self.turn_credit.fetch_add(part, Ordering::Relaxed).checked_add(part).is_none()
    }

    /// Sets the limit, without a reduction by a slow start.
    pub(crate) fn set_max_conn(&self, limit: Option<u32>) {
        self.whole_limit.store(limit.unwrap_or(NO_LIMIT), Ordering::Relaxed);
        self.reduce_max_conn(limit);
    }

    /// Sets the limit that applies for now.
    pub(crate) fn reduce_max_conn(&self, limit: Option<u32>) {
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
        self.failures.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn is_on_probation(&self) -> bool {
        self.has(ON_PROBATION)
    }

    pub(crate) fn end_probation(&self) {
        // The flag is nearly always clear already: a load keeps the cache line shared between
        // workers, a store would not.
        if self.is_on_probation() {
            self.set(ON_PROBATION, 0);
        }
    }

    pub(crate) fn eject(&self, until_us: u64) {
        self.ejected_until.store(until_us, Ordering::Relaxed);
        self.set(WAS_EJECTED | ON_PROBATION, WAS_EJECTED | ON_PROBATION);
        self.ejections.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn refuse_ejection(&self) {
        self.ejections_refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns true if the limit admits one more exchange.
    pub(crate) fn is_free(&self) -> bool {
        self.in_flight_if_free().is_some()
    }

    /// Exchanges in flight; `None` if they have reached the limit.
    pub(crate) fn in_flight_if_free(&self) -> Option<u32> {
        let places = self.places.load(Ordering::Acquire);
        let in_flight = places as u32;
        (in_flight < (places >> 32) as u32).then_some(in_flight)
    }

    /// Counts one more exchange in, unless the limit is reached, and returns how many were in
    /// flight before. Exact at every instant, because the check and the count are one
    /// compare-and-swap.
    pub(crate) fn enter(&self) -> Option<u32> {
        let below = |places: u64| ((places as u32) < (places >> 32) as u32).then(|| places + 1);
        let before = self.places.fetch_update(Ordering::AcqRel, Ordering::Relaxed, below).ok()?;
        self.picks.fetch_add(1, Ordering::Relaxed);
        grow(&self.most_in_flight, before as u32 + 1);
        Some(before as u32)
    }

    /// Counts one more exchange in, regardless of the limit.
    pub(crate) fn enter_beyond_limit(&self) {
        self.places.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn leave(&self) {
        let before = self.places.fetch_sub(1, Ordering::AcqRel);
        debug_assert!(before as u32 > 0, "a slot was given back twice");
    }
}

/// Raises `most` to `number` if that is higher. It nearly never is: the load keeps the cache line
/// shared between workers.
fn grow(most: &AtomicU32, number: u32) {
    if number > most.load(Ordering::Relaxed) {
        most.fetch_max(number, Ordering::Relaxed);
    }
}
