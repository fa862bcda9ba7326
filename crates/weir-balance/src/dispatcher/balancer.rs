//! A pool: its endpoints, its policy and its queue behind one type, with the operations on it.
//! `policy/pick.rs` picks endpoints, `dispatcher/mod.rs` decides which waiting exchange is next.
//! Nothing here does I/O or reads a clock.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::dispatcher::Answer;
use crate::dispatcher::held::{Held, Holder};
use crate::dispatcher::slot::Taken;
use crate::dispatcher::succession::{Common, Succession};
use crate::policy::pick::{Query, Stalls, Tier};
use crate::state::counters::Counters;
use crate::state::passive::{AfterFailure, PassiveSettings, Window};
use crate::sync::{AtomicBool, AtomicU32, Ordering};
use crate::{
    About, AdminState, Availability, EndpointState, FairSettings, Health, PolicyKind, Slot,
    StallSettings, Ticket, WeightMode,
};

/// An endpoint as the configuration gives it, with its live state.
#[derive(Clone, Debug)]
pub struct Member {
    /// The endpoint's identity for policies that hash: the hash of its name ([`crate::hash_key`]),
    /// so that neither its place in the file nor its address counts.
    pub identity: u64,
    /// The endpoint's weight, from 1.
    pub weight: u32,
    /// The most exchanges in flight at once, over all workers. 0 admits none.
    pub max_conn: Option<u32>,
    /// The endpoint's priority: endpoints with a higher number take part only if no endpoint with a
    /// lower one may be picked.
    pub tier: u8,
    /// The endpoint's live state; kept over reloads.
    pub state: Arc<EndpointState>,
}

/// The settings of a pool.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The policy that picks endpoints.
    pub policy: PolicyKind,
    /// The rules by which failures seen in traffic eject an endpoint.
    pub passive: PassiveSettings,
    /// The bounds of the queue. With `None` no exchange waits: if all endpoints are full, the
    /// exchange is rejected.
    pub queue: Option<QueueSettings>,
    /// The rules for endpoints that stop answering; `None` disables stall detection.
    pub stall: Option<StallSettings>,
    /// The share of healthy endpoints below which probes are ignored, in percent of the first
    /// tier's endpoints that the operator left ready. Probes still count while an endpoint of a
    /// later tier is healthy. 0 disables it.
    pub panic_percent: u8,
    /// A fault to inject, for tests.
    #[doc(hidden)]
    pub fault: Fault,
}

impl Settings {
    /// Settings of a pool that picks by `policy`, never ejects, has no queue and never panics.
    pub fn new(policy: PolicyKind) -> Self {
        let passive =
            PassiveSettings { errors: 0, window_us: 0, eject_us: 0, max_ejected_percent: 100 };
        Self { policy, passive, queue: None, stall: None, panic_percent: 0, fault: Fault::None }
    }
}

/// The bounds of a pool's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueSettings {
    /// The most exchanges that wait in the whole pool.
    pub max: u32,
    /// The most exchanges that wait for one endpoint, bound to it; later ones wait for any
    /// endpoint. `None`: only `max` counts.
    pub max_per_endpoint: Option<u32>,
}

/// An injected fault (canary) that the checkers must find, and whose cost `weir sim` shows.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fault {
    /// No fault.
    #[default]
    None,
    /// The bug of HAProxy before 1.3.15.2 (2008): a released slot does not wake the pool's queue.
    ForgetsPoolQueue,
    /// The same bug without a watchdog that finds the forgotten exchanges, as in 2008.
    ForgetsPoolQueueUnwatched,
}

impl Fault {
    /// Returns true if a released slot fails to wake the pool's queue.
    pub(crate) fn forgets_pool_queue(self) -> bool {
        matches!(self, Self::ForgetsPoolQueue | Self::ForgetsPoolQueueUnwatched)
    }
}

/// The endpoints that an exchange was already sent to.
#[derive(Clone, Debug, Default)]
pub struct Tried(SmallVec<[usize; 4]>);

impl Tried {
    /// Creates an empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an endpoint; later picks skip it.
    pub fn insert(&mut self, index: usize) {
        self.0.push(index);
    }

    /// Removes all endpoints.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Returns true if the endpoint was already tried.
    pub fn contains(&self, index: usize) -> bool {
        self.0.contains(&index)
    }

    /// Returns true if no endpoint was tried.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn indexes(&self) -> impl Iterator<Item = usize> {
        self.0.iter().copied()
    }

    /// The endpoint that was tried last.
    pub(crate) fn last(&self) -> Option<usize> {
        self.0.last().copied()
    }
}

/// The parameters of one exchange's request for a slot.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The current time on the caller's clock, the same for all calls, µs.
    pub now_us: u64,
    /// 64 random bits.
    pub random: u64,
    /// The hashed key, for policies that hash one; else 0.
    pub key: u64,
    /// The endpoint that affinity names. It is taken if it may be picked, draining included; if it
    /// may not, any endpoint is.
    pub bound: Option<usize>,
    /// The endpoints that the exchange was already sent to.
    pub tried: &'a Tried,
    /// The caller's number of the exchange, for [`Balancer::waiting`].
    pub tag: u64,
    /// The description of the exchange, for [`Balancer::waiting`] and for the exchanges behind it.
    pub about: About<'a>,
    /// The exchange's former place in the order of arrival, if it waited before. It is queued again
    /// even if the queue is full.
    pub seniority: Option<Seniority>,
    /// The worker that will hold the slot or ticket. Both can be given back for that worker if it
    /// is lost.
    pub holder: Option<Holder>,
}

/// A place in the order of arrival that was given before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seniority {
    /// The exchange's number in the order of arrival: that of its ticket, or, if it comes from
    /// another process, a number below 0, so that it stands before all exchanges that arrived here.
    pub number: i64,
    /// The time at which the exchange arrived, µs.
    pub since_us: u64,
}

impl<'a> Request<'a> {
    /// Creates a request that arrives at `now_us`, without affinity, key and tag.
    pub fn new(now_us: u64, random: u64, tried: &'a Tried) -> Self {
        let about = About::default();
        let (key, bound, tag, seniority, holder) = (0, None, 0, None, None);
        Self { now_us, random, key, bound, tried, tag, about, seniority, holder }
    }
}

/// The outcome of an exchange's arrival.
#[derive(Debug)]
#[must_use = "dropping it gives up the slot or the place in the queue"]
pub enum Arrival {
    /// The exchange has a slot.
    Dispatched(Slot),
    /// The exchange waits.
    Queued(Ticket),
    /// The exchange is rejected.
    Rejected(Rejection),
}

/// The reason why an exchange gets no slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// All endpoints are unavailable, unhealthy, ejected, out of service by admin state, or
    /// tried.
    Unavailable,
    /// The queue has reached its maximum.
    QueueFull,
    /// All endpoints that may be picked are at their limit, and there is no queue.
    Full,
}

/// A pool: endpoints, policy, queue.
#[derive(Debug)]
pub struct Balancer {
    pub(crate) policy: PolicyKind,
    pub(crate) members: Box<[Member]>,
    pub(crate) tiers: Box<[Tier]>,
    pub(crate) queue: Option<QueueSettings>,
    /// Counts of slots by holder.
    pub(crate) held: Held,
    pub(crate) fault: Fault,
    /// State shared with the balancers before and after this one.
    pub(crate) common: Arc<Common>,
    /// The balancer that follows this one, if any.
    pub(crate) succession: Succession,
    pub(crate) stall: Option<StallSettings>,
    /// Number of endpoints that count as stalled.
    pub(crate) stalled: AtomicU32,
    /// Set if a stall was found and not reported yet.
    pub(crate) stall_news: AtomicBool,
    /// Set if stalls changed in a way that may leave waiting exchanges in the wrong line.
    pub(crate) stall_unsettled: AtomicBool,
    pub(crate) windows: Box<[Arc<Window>]>,
    pub(crate) passive: PassiveSettings,
    panic_percent: u8,
    /// Set if an exchange may ever have to wait: there is a queue, and a limit was set. Never
    /// cleared again. While it is clear, dispatch and release take no lock.
    pub(crate) gated: AtomicBool,
    /// Set while so few endpoints are healthy that probes are ignored.
    panicking: AtomicBool,
}

impl Balancer {
    /// Creates a pool. Its endpoints are known by their position in `members` from then on. Their
    /// limits apply at once, also to other balancers that share the same states.
    pub fn new(settings: Settings, members: Vec<Member>) -> Arc<Self> {
        let pool = Arc::new(Self::made(settings, members, None));
        pool.set_limits();
        pool.refresh_panic();
        pool
    }

    /// Creates a pool without setting the limits of its endpoints. With `before`, it shares that
    /// balancer's books.
    pub(crate) fn made(settings: Settings, members: Vec<Member>, before: Option<&Self>) -> Self {
        let limit = |member: &Member| limit_of(settings.policy, member.weight, member.max_conn);
        let limited = members.iter().any(|member| limit(member).is_some());
        let errors = settings.passive.errors;
        let window = |member: &Member| {
            let kept = before.filter(|before| before.passive.errors == errors);
            let kept = kept.and_then(|before| before.windows.get(before.position(&member.state)?));
            kept.cloned().unwrap_or_else(|| Arc::new(Window::new(errors)))
        };
        let stalled = members.iter().filter(|member| member.state.is_stalled()).count() as u32;
        Self {
            policy: settings.policy,
            tiers: Tier::all(&members, settings.policy),
            queue: settings.queue,
            held: Held::default(),
            fault: settings.fault,
            common: before
                .map_or_else(|| Arc::new(Common::new(&members)), |before| before.common.clone()),
            succession: Succession::new(),
            stall: settings.stall,
            stalled: AtomicU32::new(stalled),
            stall_news: AtomicBool::new(false),
            stall_unsettled: AtomicBool::new(false),
            windows: members.iter().map(window).collect(),
            passive: settings.passive,
            panic_percent: settings.panic_percent,
            gated: AtomicBool::new(limited && settings.queue.is_some()),
            panicking: AtomicBool::new(false),
            members: members.into(),
        }
    }

    /// Sets the limits of all endpoints.
    pub(crate) fn set_limits(&self) {
        for member in &self.members {
            let limit = limit_of(self.policy, member.weight, member.max_conn);
            member.state.set_max_conn(limit);
        }
    }

    /// The pool's policy.
    pub fn policy(&self) -> PolicyKind {
        self.policy
    }

    /// The number of endpoints, usable or not.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Returns true if the pool has no endpoints.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// The live state of an endpoint; `None` if the pool has none of that number.
    pub fn endpoint(&self, index: usize) -> Option<&EndpointState> {
        self.members.get(index).map(|member| &*member.state)
    }

    /// Returns true if an untried endpoint may be picked, limits aside.
    pub fn has_untried(&self, now_us: u64, tried: &Tried) -> bool {
        if let Some(latest) = self.successor() {
            return latest.has_untried(now_us, &latest.tried_from(self, tried));
        }
        let panic = self.is_panicking();
        let mut members = self.members.iter().enumerate();
        members
            .any(|(index, member)| member.state.is_usable(now_us, panic) && !tried.contains(index))
    }

    /// The weight of an endpoint.
    pub fn weight(&self, index: usize) -> Option<u32> {
        self.members.get(index).map(|member| member.weight)
    }

    /// Exchanges in flight over all endpoints.
    pub fn in_flight(&self) -> u64 {
        self.members.iter().map(|member| u64::from(member.state.in_flight())).sum()
    }

    /// Returns true if probes are ignored because too few endpoints are healthy.
    pub fn is_panicking(&self) -> bool {
        self.panicking.load(Ordering::Relaxed)
    }

    /// The pool's counters, including what the balancers before this one counted.
    pub fn counters(&self) -> Counters {
        let Common { figures, regret, .. } = &*self.common;
        Counters {
            dispatched: self.members.iter().map(|member| member.state.picks()).sum(),
            waiting: u64::from(self.common.lock().queue.waiting()),
            queued: figures.queued.read(),
            longest_queue: figures.longest.read(),
            queue_full: figures.queue_full.read(),
            full: figures.full.read(),
            unavailable: figures.unavailable.read(),
            gave_up: figures.gave_up.read(),
            cancelled: figures.cancelled.read(),
            timed_out: figures.timed_out.read(),
            inversions: regret.inversions(),
            regret_us: regret.lost_us(),
            violations: figures.violations.read(),
        }
    }

    /// Takes in an exchange that wants an endpoint. It is dispatched by the policy if an endpoint
    /// may be picked and no exchange waits that could have that one. It is queued if there is a
    /// queue with room, else rejected. If this pool has a successor, the successor decides, and the
    /// slot belongs to the successor.
    pub fn arrive(self: &Arc<Self>, request: &Request<'_>) -> Arrival {
        self.note_arrival(request.tried);
        if !self.is_gated() {
            match self.arrive_freely(request) {
                Ok(taken) => {
                    return Arrival::Dispatched(Slot::new(self, taken, request.holder));
                }
                // A limit or a successor was set in the meantime.
                Err(Rejection::Full) if self.is_gated() || self.queue.is_some() => {}
                Err(rejection) => return self.rejected(rejection),
            }
        }
        let answer = match self.dispatcher() {
            Ok(mut dispatcher) => dispatcher.receive(request),
            Err(successor) => return self.arrive_at(&successor, request),
        };
        match answer {
            Answer::Dispatched(taken) => {
                Arrival::Dispatched(Slot::new(self, taken, request.holder))
            }
            Answer::Queued(place) => {
                self.common.figures.queued.add();
                Arrival::Queued(Ticket::new(self, place, request.holder))
            }
            Answer::Rejected(rejection) => self.rejected(rejection),
        }
    }

    /// Records whether the address of an endpoint is known.
    pub fn set_availability(&self, index: usize, availability: Availability, now_us: u64) {
        self.change(index, now_us, |state| state.set_availability(availability));
    }

    /// Records the verdict of an endpoint's probes.
    pub fn set_health(&self, index: usize, health: Health, now_us: u64) {
        self.change(index, now_us, |state| state.set_health(health));
    }

    /// Sets the operator's admin state of an endpoint.
    pub fn set_admin_state(&self, index: usize, state: AdminState, now_us: u64) {
        self.change(index, now_us, |endpoint| endpoint.set_admin_state(state));
    }

    /// Sets an endpoint's limit of exchanges in flight. Exchanges above a lower limit finish. If
    /// this pool has a successor, nothing happens: the limit is the successor's to set.
    pub fn set_max_conn(&self, index: usize, max_conn: Option<u32>, now_us: u64) {
        let Some(member) = self.members.get(index) else { return };
        let Ok(mut dispatcher) = self.dispatcher() else { return };
        dispatcher.advance(now_us);
        if max_conn.is_some() && self.queue.is_some() {
            // Set before the limit: a release that finds the limit set must also see that an
            // exchange may wait.
            self.gated.store(true, Ordering::SeqCst);
        }
        member.state.set_max_conn(limit_of(self.policy, member.weight, max_conn));
        dispatcher.note_ceiling(index);
        dispatcher.settle();
    }

    /// Notes a failure of an endpoint at `now_us`: of any kind that the caller counts, such as a
    /// failed connect, a reset, a timeout or a gateway error. Failures of exchanges that were in
    /// flight when the endpoint was ejected do not prolong the ejection. After an ejection the first
    /// failure ejects again. `random` is 64 bits that determine the duration
    /// ([`PassiveSettings::ejection_us`]).
    pub fn endpoint_failed(&self, index: usize, now_us: u64, random: u64) -> AfterFailure {
        let (Some(member), Some(window)) = (self.members.get(index), self.windows.get(index))
        else {
            return AfterFailure::Counted;
        };
        member.state.count_failure();
        if self.passive.errors == 0 || member.state.is_ejected(now_us) {
            return AfterFailure::Counted;
        }
        let full = window.note(now_us, self.passive.window_us);
        if !full && !member.state.is_on_probation() {
            return AfterFailure::Counted;
        }
        // Under the lock, so that two concurrent ejections cannot exceed the cap.
        self.with_dispatcher(|dispatcher| {
            dispatcher.advance(now_us);
            let outcome = dispatcher.pool.eject(member, now_us, random);
            if matches!(outcome, AfterFailure::Ejected { .. }) {
                dispatcher.settle();
            }
            outcome
        })
    }

    /// Ejects an endpoint until `until_us`, to continue an ejection that began elsewhere.
    pub fn eject_until(&self, index: usize, until_us: u64, now_us: u64) {
        let Some(member) = self.members.get(index).filter(|_| until_us > now_us) else { return };
        self.with_dispatcher(|dispatcher| {
            dispatcher.advance(now_us);
            member.state.eject(until_us);
            dispatcher.settle();
        });
    }

    /// Notes a success of the kind whose failures count: an endpoint back from an ejection again
    /// gets its full number of errors.
    pub fn endpoint_succeeded(&self, index: usize) {
        let (Some(member), Some(window)) = (self.members.get(index), self.windows.get(index))
        else {
            return;
        };
        if member.state.is_on_probation() {
            member.state.end_probation();
            window.clear();
        }
    }

    /// The number of failures of an endpoint within the window, and the number that ejects.
    pub(crate) fn recent_failures(&self, index: usize, now_us: u64) -> (u32, u32) {
        let window = self.windows.get(index);
        let recent = window.map_or(0, |window| window.recent(now_us, self.passive.window_us));
        (recent, self.passive.errors)
    }

    /// Applies changes that were due by `now_us`, such as the end of an ejection.
    pub fn tick(&self, now_us: u64) {
        self.with_dispatcher(|dispatcher| dispatcher.advance(now_us));
    }

    /// The time at which [`Balancer::tick`] is to be called next, µs: the end of the first ejection
    /// after `now_us`.
    pub fn next_change_us(&self, now_us: u64) -> Option<u64> {
        let ends = self.members.iter().map(|member| member.state.ejected_until());
        ends.filter(|end| *end > now_us).min()
    }

    pub(crate) fn is_gated(&self) -> bool {
        self.gated.load(Ordering::SeqCst)
    }

    /// Releases a slot that was dropped.
    pub(crate) fn release(&self, taken: Taken) {
        let Some(member) = self.members.get(taken.index) else { return };
        // A waiting exchange may have been served by a successor without limits: its slot is in the
        // books all the same.
        if self.is_gated() || taken.booked {
            self.with_dispatcher(|dispatcher| {
                let index = dispatcher.pool.index_from(self, taken.index);
                let booked = taken.booked && std::ptr::eq(dispatcher.pool, self);
                dispatcher.release(&member.state, (index, booked));
                if member.state.is_stalled() && member.state.in_flight() == 0 {
                    // One exchange may try the endpoint now: exchanges whose key leads to it may
                    // wait for it again.
                    dispatcher.pool.stall_unsettled.store(true, Ordering::Release);
                }
                dispatcher.settle_stalls();
            });
            return;
        }
        member.state.leave();
        // Another thread that set the first limit, or a successor that took over, in the meantime
        // may have queued an exchange for this slot. `leave` and setting the limit change the same
        // word, so either the other thread saw the release, or this one sees the gate.
        if self.is_gated() {
            self.with_dispatcher(|dispatcher| {
                if let Some(index) = dispatcher.pool.index_from(self, taken.index) {
                    dispatcher.hand_on(index);
                }
            });
        }
    }

    /// Decides anew whether probes are ignored, from the current health and admin states. They
    /// are if too few endpoints of the first tier are healthy and none of a later tier is: a
    /// healthy endpoint of a later tier stands in for the first.
    pub(crate) fn refresh_panic(&self) {
        let first = self.members.iter().map(|member| member.tier).min();
        let ready =
            self.members.iter().filter(|member| member.state.admin_state() == AdminState::Ready);
        let (mut all, mut healthy, mut spare) = (0, 0, 0);
        for member in ready {
            let own = usize::from(member.state.health() == Health::Healthy);
            if Some(member.tier) == first {
                all += 1;
                healthy += own;
            } else {
                spare += own;
            }
        }
        let panicking = spare == 0 && healthy * 100 < all * usize::from(self.panic_percent);
        self.panicking.store(panicking, Ordering::Relaxed);
    }

    fn change(&self, index: usize, now_us: u64, set: impl FnOnce(&EndpointState) -> bool) {
        let Some(member) = self.members.get(index) else { return };
        self.with_dispatcher(|dispatcher| {
            dispatcher.advance(now_us);
            if set(&member.state) {
                dispatcher.settle();
            }
        });
    }

    pub(crate) fn arrive_freely(&self, request: &Request<'_>) -> Result<Taken, Rejection> {
        let query = Query {
            now_us: request.now_us,
            random: request.random,
            key: request.key,
            bound: request.bound,
            overflowed: false,
            tried: request.tried,
            panic: self.is_panicking(),
            stalls: Stalls::Tried,
        };
        // Without a queue a bound exchange whose endpoint is full goes to another one instead of
        // being rejected.
        let bound = query.bound.filter(|index| self.is_usable_if_bound(*index, query));
        let taken = bound.and_then(|index| self.take_bound(index));
        let mut taken = taken.map_or_else(|| self.pick_in_any_tier(query), Ok);
        if self.stall.is_some() && matches!(taken, Err(Rejection::Unavailable)) {
            taken = self.pick_in_any_tier(Query { stalls: Stalls::Ignored, ..query });
        }
        taken.map_err(|rejection| match bound {
            Some(_) => Rejection::Full,
            None => rejection,
        })
    }

    fn rejected(&self, rejection: Rejection) -> Arrival {
        match rejection {
            Rejection::Unavailable => self.common.figures.unavailable.add(),
            Rejection::QueueFull => self.common.figures.queue_full.add(),
            Rejection::Full => self.common.figures.full.add(),
        }
        Arrival::Rejected(rejection)
    }

    fn eject(&self, member: &Member, now_us: u64, random: u64) -> AfterFailure {
        if member.state.is_ejected(now_us) {
            return AfterFailure::Counted;
        }
        let out = self.members.iter().filter(|other| other.state.is_ejected(now_us)).count();
        if out + 1 > self.members.len() * usize::from(self.passive.max_ejected_percent) / 100 {
            member.state.refuse_ejection();
            return AfterFailure::Refused;
        }
        let until_us = now_us.saturating_add(self.passive.ejection_us(random));
        member.state.eject(until_us);
        AfterFailure::Ejected { until_us }
    }
}

/// The limit that applies to an endpoint. With `fair` in weight mode `peak` the weight is a limit
/// too.
fn limit_of(policy: PolicyKind, weight: u32, max_conn: Option<u32>) -> Option<u32> {
    match policy {
        PolicyKind::Fair(FairSettings { weight_mode: WeightMode::Peak, .. }) => {
            Some(max_conn.map_or(weight, |limit| limit.min(weight)))
        }
        _ => max_conn,
    }
}
