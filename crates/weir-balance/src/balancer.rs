//! A pool: its endpoints, its policy and its queue behind one type, and what may happen to it. `choose.rs` says who is
//! picked, `floor.rs` who is next; nothing here does I/O or reads a clock.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::choose::{Query, Stalls, Tier};
use crate::figures::Counters;
use crate::floor::Answer;
use crate::held::{Held, Holder};
use crate::passive::{AfterFailure, PassiveSettings, Window};
use crate::slot::Taken;
use crate::succession::{Common, Succession};
use crate::sync::{AtomicBool, AtomicU32, Ordering};
use crate::{
    About, Availability, EndpointState, FairSettings, Health, Order, PolicyKind, Slot,
    StallSettings, Ticket, WeightMode,
};

/// An endpoint as the configuration gives it, with its live state.
#[derive(Clone, Debug)]
pub struct Member {
    /// Who it is to policies that hash: the hash of its name ([`crate::hash_key`]), so that neither its place in the file nor
    /// its address counts.
    pub identity: u64,
    /// Its share, from 1.
    pub weight: u32,
    /// Most exchanges in flight at once, over all workers. 0 takes none.
    pub max_conn: Option<u32>,
    /// Its priority: endpoints of a higher number take part only when none of a lower one may be had.
    pub tier: u8,
    /// What is live about it; kept over reloads.
    pub state: Arc<EndpointState>,
}

/// What a pool is made with.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How it picks.
    pub policy: PolicyKind,
    /// When failed connects eject.
    pub passive: PassiveSettings,
    /// How many may wait; `None`: nobody, and full is an answer.
    pub queue: Option<QueueSettings>,
    /// When an endpoint that does not answer gets nothing more; `None`: never.
    pub stall: Option<StallSettings>,
    /// Below this share of endpoints of the first tier that are healthy by their probes, percent of those that the operator lets
    /// take requests, probes are ignored, unless one of a later tier is healthy; 0 never.
    pub panic_percent: u8,
    /// A mistake to be made on purpose.
    #[doc(hidden)]
    pub fault: Fault,
}

impl Settings {
    /// A pool that picks by `policy`, never ejects, has no queue and never panics.
    pub fn new(policy: PolicyKind) -> Self {
        let passive =
            PassiveSettings { errors: 0, window_us: 0, eject_us: 0, max_ejected_percent: 100 };
        Self { policy, passive, queue: None, stall: None, panic_percent: 0, fault: Fault::None }
    }
}

/// How many may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueSettings {
    /// Over the whole pool.
    pub max: u32,
    /// For one endpoint, of those bound to it; who comes later waits for any endpoint. `None`: only `max` counts.
    pub max_per_endpoint: Option<u32>,
}

/// A canary: a mistake that the checkers must find, and that `weir sim` shows the cost of.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fault {
    /// None.
    #[default]
    None,
    /// The bug of 2008 (HAProxy before 1.3.15.2): a slot that is given back does not wake the pool's queue.
    ForgetsPoolQueue,
    /// The same, and no watchdog that finds those who were forgotten: there was none in 2008.
    ForgetsPoolQueueUnwatched,
}

impl Fault {
    /// Whether a slot that is given back wakes the pool's queue.
    pub(crate) fn forgets_pool_queue(self) -> bool {
        matches!(self, Self::ForgetsPoolQueue | Self::ForgetsPoolQueueUnwatched)
    }
}

/// Endpoints that this exchange was at already.
#[derive(Clone, Debug, Default)]
pub struct Tried(SmallVec<[usize; 4]>);

impl Tried {
    /// Nothing tried yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Notes an endpoint; the next picks leave it out.
    pub fn insert(&mut self, index: usize) {
        self.0.push(index);
    }

    /// Forgets them.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Whether it was noted.
    pub fn contains(&self, index: usize) -> bool {
        self.0.contains(&index)
    }

    /// Whether nothing was tried.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn indexes(&self) -> impl Iterator<Item = usize> {
        self.0.iter().copied()
    }

    /// The latest.
    pub(crate) fn last(&self) -> Option<usize> {
        self.0.last().copied()
    }
}

/// What one exchange asks with.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Now, on the clock of all calls, µs.
    pub now_us: u64,
    /// 64 random bits.
    pub random: u64,
    /// The hashed key, for policies that take one; else 0.
    pub key: u64,
    /// The endpoint that affinity names: it is taken if it may be had, draining included. If it may not, any is.
    pub bound: Option<usize>,
    /// Where the exchange was already.
    pub tried: &'a Tried,
    /// The caller's number of the exchange, for [`Balancer::waiting`].
    pub tag: u64,
    /// What it is, for the same and for those behind it.
    pub about: About<'a>,
    /// Its place in the order of arrival, if it has waited before and was away: it waits on even if as many wait as may.
    pub seniority: Option<Seniority>,
    /// The worker that has what comes of it, so that it can be given back for that one.
    pub holder: Option<Holder>,
}

/// A place in the order of arrival that was given before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seniority {
    /// The number: the one that the ticket had; or, from another process, one below 0, so that it stands before all who came here.
    pub number: i64,
    /// When it came, µs.
    pub since_us: u64,
}

impl<'a> Request<'a> {
    /// A request without affinity, key and tag that comes now.
    pub fn new(now_us: u64, random: u64, tried: &'a Tried) -> Self {
        let about = About::default();
        let (key, bound, tag, seniority, holder) = (0, None, 0, None, None);
        Self { now_us, random, key, bound, tried, tag, about, seniority, holder }
    }
}

/// What becomes of an exchange that arrives.
#[derive(Debug)]
#[must_use = "dropping it gives up the slot or the place in the queue"]
pub enum Arrival {
    /// It goes on at once.
    Dispatched(Slot),
    /// It waits.
    Queued(Ticket),
    /// It is turned away.
    Rejected(Rejection),
}

/// Why an exchange gets no slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// All endpoints are unavailable, unhealthy, ejected, taken out or tried.
    Unavailable,
    /// As many wait as may.
    QueueFull,
    /// Those that could be had are at their limit, and there is no queue.
    Full,
}

/// A pool: endpoints, policy, queue.
#[derive(Debug)]
pub struct Balancer {
    pub(crate) policy: PolicyKind,
    pub(crate) members: Box<[Member]>,
    pub(crate) tiers: Box<[Tier]>,
    pub(crate) queue: Option<QueueSettings>,
    /// Slots by holder.
    pub(crate) held: Held,
    pub(crate) fault: Fault,
    /// What it has in common with the balancers before and after it.
    pub(crate) common: Arc<Common>,
    /// Who came after it.
    pub(crate) succession: Succession,
    pub(crate) stall: Option<StallSettings>,
    /// Endpoints that count as stalled.
    pub(crate) stalled: AtomicU32,
    /// Whether a stall was found that nobody was told of.
    pub(crate) stall_news: AtomicBool,
    /// Whether something about stalls changed after which those who wait may stand in the wrong line.
    pub(crate) stall_unsettled: AtomicBool,
    pub(crate) windows: Box<[Arc<Window>]>,
    pub(crate) passive: PassiveSettings,
    panic_percent: u8,
    /// Whether anybody may ever have to wait: there is a queue, and a limit was set. Never cleared again. While it is
    /// not set, nobody takes the lock to be dispatched or to leave.
    pub(crate) gated: AtomicBool,
    /// Whether so few endpoints are healthy that probes are ignored.
    panicking: AtomicBool,
}

impl Balancer {
    /// A pool; endpoints are known by their position in `members` from then on. Their limits hold from now on for
    /// everybody who has the same states.
    pub fn new(settings: Settings, members: Vec<Member>) -> Arc<Self> {
        let pool = Arc::new(Self::made(settings, members, None));
        pool.set_limits();
        pool.refresh_panic();
        pool
    }

    /// A pool that nothing is told of yet: limits are not set. With `before`, it has the books of that one.
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

    /// The policy.
    pub fn policy(&self) -> PolicyKind {
        self.policy
    }

    /// Endpoints, usable or not.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether there are no endpoints.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// The live state of an endpoint; `None` when there is none of that number.
    pub fn endpoint(&self, index: usize) -> Option<&EndpointState> {
        self.members.get(index).map(|member| &*member.state)
    }

    /// Whether an endpoint that was not tried may be had, free or full.
    pub fn has_untried(&self, now_us: u64, tried: &Tried) -> bool {
        if let Some(latest) = self.successor() {
            return latest.has_untried(now_us, &latest.tried_from(self, tried));
        }
        let panic = self.is_panicking();
        let mut members = self.members.iter().enumerate();
        members
            .any(|(index, member)| member.state.is_usable(now_us, panic) && !tried.contains(index))
    }

    /// The share of an endpoint.
    pub fn weight(&self, index: usize) -> Option<u32> {
        self.members.get(index).map(|member| member.weight)
    }

    /// Exchanges in flight over all endpoints.
    pub fn in_flight(&self) -> u64 {
        self.members.iter().map(|member| u64::from(member.state.in_flight())).sum()
    }

    /// Whether probes are ignored because too few endpoints are healthy.
    pub fn is_panicking(&self) -> bool {
        self.panicking.load(Ordering::Relaxed)
    }

    /// What was counted, by those before it as well.
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

    /// An exchange wants an endpoint. It is dispatched by the policy if one may be had and nobody waits who might
    /// have had that one; it waits if there is a queue with room; else it is turned away. Where this pool has a successor, that one
    /// answers: the slot is of the successor then.
    pub fn arrive(self: &Arc<Self>, request: &Request<'_>) -> Arrival {
        self.note_arrival(request.tried);
        if !self.is_gated() {
            match self.arrive_freely(request) {
                Ok(taken) => {
                    return Arrival::Dispatched(Slot::new(self, taken, request.holder));
                }
                // A limit or a successor came while we looked.
                Err(Rejection::Full) if self.is_gated() || self.queue.is_some() => {}
                Err(rejection) => return self.rejected(rejection),
            }
        }
        let answer = match self.floor() {
            Ok(mut floor) => floor.receive(request),
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

    /// The address of an endpoint is known, or not.
    pub fn set_availability(&self, index: usize, availability: Availability, now_us: u64) {
        self.change(index, now_us, |state| state.set_availability(availability));
    }

    /// What the probes of an endpoint say.
    pub fn set_health(&self, index: usize, health: Health, now_us: u64) {
        self.change(index, now_us, |state| state.set_health(health));
    }

    /// What the operator ordered of an endpoint.
    pub fn set_order(&self, index: usize, order: Order, now_us: u64) {
        self.change(index, now_us, |state| state.set_order(order));
    }

    /// Most exchanges in flight at an endpoint from now on. Those above a lower limit finish. Where this pool has a successor,
    /// the limit is that one's to set.
    pub fn set_max_conn(&self, index: usize, max_conn: Option<u32>, now_us: u64) {
        let Some(member) = self.members.get(index) else { return };
        let Ok(mut floor) = self.floor() else { return };
        floor.advance(now_us);
        if max_conn.is_some() && self.queue.is_some() {
            // Before the limit: whoever leaves and finds the limit set has to see that somebody may wait.
            self.gated.store(true, Ordering::SeqCst);
        }
        member.state.set_max_conn(limit_of(self.policy, member.weight, max_conn));
        floor.note_ceiling(index);
        floor.settle();
    }

    /// Notes that a connect failed at `now_us`. Failures of exchanges that were under way when the endpoint was
    /// ejected do not prolong that. After an ejection the first failure ejects again. `random`: 64 bits that say how
    /// long ([`PassiveSettings::ejection_us`]).
    pub fn connect_failed(&self, index: usize, now_us: u64, random: u64) -> AfterFailure {
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
        // Under the lock, so that two ejections never pass the cap together.
        self.at_floor(|floor| {
            floor.advance(now_us);
            let outcome = floor.pool.eject(member, now_us, random);
            if matches!(outcome, AfterFailure::Ejected { .. }) {
                floor.settle();
            }
            outcome
        })
    }

    /// An ejection that began elsewhere lasts until then.
    pub fn eject_until(&self, index: usize, until_us: u64, now_us: u64) {
        let Some(member) = self.members.get(index).filter(|_| until_us > now_us) else { return };
        self.at_floor(|floor| {
            floor.advance(now_us);
            member.state.eject(until_us);
            floor.settle();
        });
    }

    /// Notes that a connect succeeded: an endpoint back from an ejection has its full number of errors again.
    pub fn connect_succeeded(&self, index: usize) {
        let (Some(member), Some(window)) = (self.members.get(index), self.windows.get(index))
        else {
            return;
        };
        if member.state.is_on_probation() {
            member.state.end_probation();
            window.clear();
        }
    }

    /// Failed connects at an endpoint within the window, and how many eject.
    pub(crate) fn recent_failures(&self, index: usize, now_us: u64) -> (u32, u32) {
        let window = self.windows.get(index);
        let recent = window.map_or(0, |window| window.recent(now_us, self.passive.window_us));
        (recent, self.passive.errors)
    }

    /// Something that was to last until now may have ended: an ejection.
    pub fn tick(&self, now_us: u64) {
        self.at_floor(|floor| floor.advance(now_us));
    }

    /// When [`Balancer::tick`] is to be called next, µs: the end of the first ejection after `now_us`.
    pub fn next_change_us(&self, now_us: u64) -> Option<u64> {
        let ends = self.members.iter().map(|member| member.state.ejected_until());
        ends.filter(|end| *end > now_us).min()
    }

    pub(crate) fn is_gated(&self) -> bool {
        self.gated.load(Ordering::SeqCst)
    }

    /// A slot was dropped.
    pub(crate) fn release(&self, taken: Taken) {
        let Some(member) = self.members.get(taken.index) else { return };
        // Whoever waited may have been served by a successor without limits: his place is in the books all the same.
        if self.is_gated() || taken.booked {
            self.at_floor(|floor| {
                let index = floor.pool.index_from(self, taken.index);
                let booked = taken.booked && std::ptr::eq(floor.pool, self);
                floor.release(&member.state, (index, booked));
                if member.state.is_stalled() && member.state.in_flight() == 0 {
                    // It may be tried by one: whose key leads there may wait for it again.
                    floor.pool.stall_unsettled.store(true, Ordering::Release);
                }
                floor.settle_stalls();
            });
            return;
        }
        member.state.leave();
        // Whoever set the first limit, or took over, in the meantime may have made somebody wait for this place: `leave` and the
        // limit are changes of one word, so either that one saw us gone, or we see the gate.
        if self.is_gated() {
            self.at_floor(|floor| {
                if let Some(index) = floor.pool.index_from(self, taken.index) {
                    floor.hand_on(index);
                }
            });
        }
    }

    /// Whether probes are ignored, from what they and the operator say now: too few of the first tier are healthy, and none of
    /// a later one is, which is what that one is there for.
    pub(crate) fn refresh_panic(&self) {
        let first = self.members.iter().map(|member| member.tier).min();
        let ready = self.members.iter().filter(|member| member.state.order() == Order::Ready);
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
        self.at_floor(|floor| {
            floor.advance(now_us);
            if set(&member.state) {
                floor.settle();
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
        // Without a queue a bound exchange whose endpoint is full goes elsewhere rather than nowhere.
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

/// The limit that holds for an endpoint: with `fair` in the weight mode `peak` its weight is one too.
fn limit_of(policy: PolicyKind, weight: u32, max_conn: Option<u32>) -> Option<u32> {
    match policy {
        PolicyKind::Fair(FairSettings { weight_mode: WeightMode::Peak, .. }) => {
            Some(max_conn.map_or(weight, |limit| limit.min(weight)))
        }
        _ => max_conn,
    }
}
