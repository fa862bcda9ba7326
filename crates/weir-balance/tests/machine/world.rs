//! The product and the reference side by side: each event is applied to both, and their visible
//! states are compared.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use weir_balance::{
    AdminState, AfterFailure, Arrival, Availability, Balancer, ExchangeInfo, Fault, Health, Member,
    PassiveSettings, PolicyKind, QueueSettings, Rejection, Request, Settings, Slot, Ticket, Tried,
};

use crate::reference::{Endpoint, Lead, Outcome, Reference, Waiter};

/// The duration of an ejection.
const EJECT_US: u64 = 1_000;

/// The number of different keys of exchanges.
const KEYS: u64 = 7;

/// One event. A number of an exchange counts those for which the event can happen, modulo their
/// number; the event does nothing if there are none.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    Arrive { bound: Option<usize>, tried: Option<usize> },
    Finish(usize),
    Cancel(usize),
    TimeOut(usize),
    Collect(usize),
    Available(usize, bool),
    Healthy(usize, bool),
    AdminState(usize, AdminState),
    Limit(usize, Option<u32>),
    EndpointFails(usize),
    Later(u64),
    Audit,
    Succeed(Change),
}

/// The difference between a pool and its successor.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change {
    /// An endpoint is removed, unless it is the last.
    Remove(usize),
    /// An endpoint with this limit is added before all others.
    Add(Option<u32>),
    /// An endpoint has another limit.
    Limit(usize, Option<u32>),
    /// An endpoint belongs to another tier.
    Tier(usize, u8),
    /// The queue has other bounds.
    Queue(Option<QueueSettings>),
    /// The endpoints are reordered: the first goes to the end.
    Turn,
}

impl Step {
    /// The same event for a pool of `endpoints` endpoints.
    fn within(self, endpoints: usize) -> Self {
        let wrap = |index: usize| index % endpoints;
        match self {
            Self::Arrive { bound, tried } => {
                Self::Arrive { bound: bound.map(wrap), tried: tried.map(wrap) }
            }
            Self::Available(index, available) => Self::Available(wrap(index), available),
            Self::Healthy(index, healthy) => Self::Healthy(wrap(index), healthy),
            Self::AdminState(index, order) => Self::AdminState(wrap(index), order),
            Self::Limit(index, limit) => Self::Limit(wrap(index), limit),
            Self::EndpointFails(index) => Self::EndpointFails(wrap(index)),
            other => other,
        }
    }
}

/// The parameters of a pool.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) policy: PolicyKind,
    pub(crate) queue: Option<QueueSettings>,
    pub(crate) panic_percent: u8,
    /// Limits and tiers.
    pub(crate) endpoints: Vec<(Option<u32>, u8)>,
    pub(crate) fault: Fault,
}

/// An exchange that waits, or that was handed a slot and has not collected it yet.
struct Pending {
    tag: u64,
    ticket: Ticket,
    /// The outcome that collecting must give, once the reference knows it.
    outcome: Option<Outcome>,
    /// The current position of the endpoint in the outcome, if it still exists.
    at: Option<usize>,
}

/// An exchange that has a slot.
struct Running {
    slot: Slot,
    /// The current position of its endpoint, if it still exists.
    at: Option<usize>,
}

pub(crate) struct World {
    pool: Arc<Balancer>,
    pub(crate) reference: Reference,
    pending: Vec<Pending>,
    running: Vec<Running>,
    policy: PolicyKind,
    settings: Settings,
    /// The pool's endpoints.
    members: Vec<Member>,
    /// Endpoints that were removed from the pool.
    removed: Vec<Member>,
    /// Pools that still have slots or tickets.
    former: Vec<Arc<Balancer>>,
    successions: u64,
    next_tag: u64,
    random: fastrand::Rng,
}

impl World {
    pub(crate) fn new(plan: &Plan, seed: u64) -> Self {
        let passive = PassiveSettings {
            errors: 1,
            window_us: 1,
            eject_us: EJECT_US,
            max_ejected_percent: 50,
        };
        let settings = Settings {
            policy: plan.policy,
            passive,
            queue: plan.queue,
            stall: None,
            panic_percent: plan.panic_percent,
            fault: plan.fault,
        };
        let member = |(index, (max_conn, tier)): (usize, &(Option<u32>, u8))| Member {
            max_conn: *max_conn,
            tier: *tier,
            ..member(index)
        };
        let endpoint = |(limit, tier): &(Option<u32>, u8)| Endpoint {
            limit: *limit,
            tier: *tier,
            ..Endpoint::up()
        };
        let members: Vec<Member> = plan.endpoints.iter().enumerate().map(member).collect();
        Self {
            pool: Balancer::new(settings, members.clone()),
            reference: Reference {
                lead: lead(plan.policy, &members),
                endpoints: plan.endpoints.iter().map(endpoint).collect(),
                waiting: Vec::new(),
                queue: plan.queue,
                panic_percent: usize::from(plan.panic_percent),
                now_us: 0,
            },
            pending: Vec::new(),
            running: Vec::new(),
            policy: plan.policy,
            settings,
            members,
            removed: Vec::new(),
            former: Vec::new(),
            successions: 0,
            next_tag: 0,
            random: fastrand::Rng::with_seed(seed),
        }
    }

    /// The number of exchanges that wait, or have not collected their slot yet.
    pub(crate) fn pending(&self) -> usize {
        self.pending.len()
    }

    /// The number of exchanges that have a slot.
    pub(crate) fn running(&self) -> usize {
        self.running.len()
    }

    /// The number of exchanges that ever arrived.
    pub(crate) fn arrived(&self) -> u64 {
        self.next_tag
    }

    /// The visible state as a string, so that each state is explored once.
    pub(crate) fn key(&self) -> String {
        let of = |slot: &Slot| self.former.iter().position(|pool| slot.is_of(pool));
        let slots: Vec<_> = self.running.iter().map(|one| (of(&one.slot), one.at)).collect();
        let pending = self.pending.iter();
        let pending: Vec<_> =
            pending.map(|pending| (pending.tag, pending.outcome, pending.at)).collect();
        let Reference { endpoints, waiting, now_us, .. } = &self.reference;
        format!(
            "{} {} {now_us} {endpoints:?} {waiting:?} {pending:?} {slots:?}",
            self.next_tag, self.successions
        )
    }

    /// Applies an event to both sides and compares them.
    pub(crate) fn step(&mut self, step: Step) -> Result<(), String> {
        self.happen(step)?;
        self.follow()?;
        self.compare()
    }

    /// Removes all exchanges and checks that all slots are released.
    pub(crate) fn end(mut self) -> Result<(), String> {
        while !self.pending.is_empty() {
            self.step(Step::Cancel(0))?;
        }
        while !self.running.is_empty() {
            self.step(Step::Finish(0))?;
        }
        let all = self.members.iter().chain(&self.removed);
        let left: u32 = all.map(|member| member.state.in_flight() + member.state.queued()).sum();
        if left == 0 { Ok(()) } else { Err(format!("law 5: {left} in flight when idle")) }
    }

    fn happen(&mut self, step: Step) -> Result<(), String> {
        let now_us = self.reference.now_us;
        match step.within(self.members.len()) {
            Step::Arrive { bound, tried } => self.arrive(bound, tried)?,
            Step::Finish(at) if !self.running.is_empty() => {
                let Running { slot, at } = self.running.swap_remove(at % self.running.len());
                self.reference.leave(at);
                drop(slot);
            }
            Step::Cancel(at) if !self.pending.is_empty() => self.leave(at),
            Step::TimeOut(at) if !self.pending.is_empty() => self.time_out(at)?,
            Step::Collect(at) => self.collect(at)?,
            Step::Available(index, available) => {
                self.reference.endpoints[index].available = available;
                let availability =
                    if available { Availability::Available } else { Availability::Unavailable };
                self.pool.set_availability(index, availability, now_us);
            }
            Step::Healthy(index, healthy) => {
                self.reference.endpoints[index].healthy = healthy;
                let health = if healthy { Health::Healthy } else { Health::Unhealthy };
                self.pool.set_health(index, health, now_us);
            }
            Step::AdminState(index, order) => {
                self.reference.endpoints[index].order = order;
                self.pool.set_admin_state(index, order, now_us);
            }
            Step::Limit(index, limit) => {
                self.reference.endpoints[index].limit = limit;
                self.pool.set_max_conn(index, limit, now_us);
            }
            Step::EndpointFails(index) => self.fail(index)?,
            Step::Later(passed_us) => {
                self.reference.now_us += passed_us;
                self.pool.tick(self.reference.now_us);
            }
            Step::Audit => {
                let found = self.pool.audit(now_us);
                if found > 0 {
                    return Err(format!("the watchdog found {found} violations"));
                }
            }
            Step::Succeed(change) => self.succeed(change),
            Step::Finish(_) | Step::Cancel(_) | Step::TimeOut(_) => {}
        }
        Ok(())
    }

    fn arrive(&mut self, bound: Option<usize>, tried: Option<usize>) -> Result<(), String> {
        self.next_tag += 1;
        let tag = self.next_tag;
        // Some exchanges arrive at a pool that has a successor.
        let former = self.former.get(tag as usize % (2 * self.former.len()).max(1));
        let pool = former.unwrap_or(&self.pool);
        let there = |index: &usize| pool.index_from(&self.pool, *index).is_some();
        let (bound, tried) = (bound.filter(there), tried.filter(there));
        let there = |index: usize| pool.index_from(&self.pool, index);
        let mut set = Tried::new();
        if let Some(index) = tried.and_then(there) {
            set.insert(index);
        }
        let request = Request {
            now_us: self.reference.now_us,
            random: self.random.u64(..),
            key: tag % KEYS,
            bound: bound.and_then(there),
            tried: &set,
            tag,
            about: ExchangeInfo::default(),
            seniority: None,
            holder: None,
        };
        let arrival = pool.arrive(&request);
        let seen = match &arrival {
            Arrival::Dispatched(slot) => Outcome::Dispatched(slot.index()),
            Arrival::Queued(ticket) => Outcome::Queued(ticket.position()),
            Arrival::Rejected(rejection) => Outcome::Rejected(*rejection),
        };
        let waiter = Waiter { tag, key: tag % KEYS, bound, tried, overflowed: false, home: None };
        let policy = self.policy;
        let expected = self.reference.arrive(waiter, &mut |_, free, endpoints| match seen {
            Outcome::Dispatched(index) => check_choice(policy, index, free, endpoints),
            other => Err(format!("{tag}: {other:?} though {free:?} were free")),
        })?;
        if seen != expected {
            return Err(format!("{tag} was {seen:?}, should be {expected:?}"));
        }
        match arrival {
            Arrival::Dispatched(slot) => {
                let at = Some(slot.index());
                self.running.push(Running { slot, at });
            }
            Arrival::Queued(ticket) => {
                self.pending.push(Pending { tag, ticket, outcome: None, at: None });
            }
            Arrival::Rejected(_) => {}
        }
        Ok(())
    }

    fn leave(&mut self, at: usize) {
        let pending = self.pending.remove(at % self.pending.len());
        match pending.outcome {
            None => self.reference.waiting.retain(|waiter| waiter.tag != pending.tag),
            Some(Outcome::Dispatched(_)) => self.reference.leave(pending.at),
            Some(_) => {}
        }
        drop(pending.ticket);
    }

    fn time_out(&mut self, at: usize) -> Result<(), String> {
        let pending = self.pending.remove(at % self.pending.len());
        let slot = pending.ticket.time_out();
        match (pending.outcome, slot) {
            (Some(Outcome::Dispatched(index)), Some(slot)) if slot.index() == index => {
                self.running.push(Running { slot, at: pending.at });
            }
            (None, None) => self.reference.waiting.retain(|waiter| waiter.tag != pending.tag),
            (Some(Outcome::Rejected(_)), None) => {}
            (outcome, slot) => {
                return Err(format!("{} timed out to {slot:?}, not {outcome:?}", pending.tag));
            }
        }
        Ok(())
    }

    fn collect(&mut self, at: usize) -> Result<(), String> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let at = at % self.pending.len();
        let polled = poll(&mut self.pending[at].ticket);
        let expected = self.pending[at].outcome;
        match (polled, expected) {
            (Poll::Pending, None) => return Ok(()),
            (Poll::Ready(Ok(slot)), Some(Outcome::Dispatched(index))) if slot.index() == index => {
                self.running.push(Running { slot, at: self.pending[at].at });
            }
            (Poll::Ready(Err(seen)), Some(Outcome::Rejected(rejection))) if seen == rejection => {}
            (polled, expected) => {
                let tag = self.pending[at].tag;
                return Err(format!("{tag} was told {polled:?}, should be {expected:?}"));
            }
        }
        self.pending.remove(at);
        Ok(())
    }

    /// Lets another pool take over; all exchanges keep their slots and places.
    fn succeed(&mut self, change: Change) {
        let mut order: Vec<Option<usize>> = (0..self.members.len()).map(Some).collect();
        let mut members = self.members.clone();
        let endpoints = &mut self.reference.endpoints;
        for (member, endpoint) in members.iter_mut().zip(&*endpoints) {
            member.max_conn = endpoint.limit;
        }
        match change {
            Change::Remove(index) if members.len() > 1 => {
                order.remove(index % order.len());
            }
            Change::Add(_) => order.insert(0, None),
            Change::Turn => order.rotate_left(1),
            Change::Queue(queue) => {
                self.settings.queue = queue;
                self.reference.queue = queue;
            }
            Change::Limit(index, limit) => {
                let index = index % members.len();
                members[index].max_conn = limit;
                endpoints[index].limit = limit;
            }
            Change::Tier(index, tier) => {
                let index = index % members.len();
                members[index].tier = tier;
                endpoints[index].tier = tier;
            }
            Change::Remove(_) => {}
        }
        let limit = if let Change::Add(limit) = change { limit } else { None };
        self.successions += 1;
        let fresh = Member { max_conn: limit, ..member(100 + self.successions as usize) };
        let before = std::mem::take(endpoints);
        *endpoints = order
            .iter()
            .map(|from| from.map_or(Endpoint { limit, ..Endpoint::up() }, |at| before[at].clone()))
            .collect();
        let orders: Vec<AdminState> = endpoints.iter().map(|endpoint| endpoint.order).collect();
        let members: Vec<Member> = order
            .iter()
            .map(|from| from.map_or_else(|| fresh.clone(), |at| members[at].clone()))
            .collect();
        self.removed.extend(
            (0..self.members.len())
                .filter(|at| !order.contains(&Some(*at)))
                .map(|at| self.members[at].clone()),
        );
        let to = |at: usize| order.iter().position(|from| *from == Some(at));
        self.reference.renumber(&to);
        self.running.iter_mut().for_each(|one| one.at = one.at.and_then(to));
        self.pending.iter_mut().for_each(|one| one.at = one.at.and_then(to));
        self.reference.lead = lead(self.policy, &members);
        let next = Balancer::prepared(&self.pool, self.settings, members.clone());
        next.succeed(&self.pool, &orders, self.reference.now_us);
        if self.successions.is_multiple_of(3) {
            // Drops pools without slots and tickets; slots and tickets keep theirs alive.
            self.former.clear();
        }
        self.former.push(std::mem::replace(&mut self.pool, next));
        self.members = members;
    }

    fn fail(&mut self, index: usize) -> Result<(), String> {
        let now_us = self.reference.now_us;
        let seen = self.pool.endpoint_failed(index, now_us, 0);
        let endpoints = &mut self.reference.endpoints;
        let out = endpoints.iter().filter(|endpoint| endpoint.ejected_until > now_us).count();
        let expected = if endpoints[index].ejected_until > now_us {
            AfterFailure::Counted
        } else if out + 1 > endpoints.len() / 2 {
            AfterFailure::Refused
        } else {
            endpoints[index].ejected_until = now_us + EJECT_US;
            AfterFailure::Ejected { until_us: now_us + EJECT_US }
        };
        if seen == expected {
            Ok(())
        } else {
            Err(format!("a failure led to {seen:?}, should be {expected:?}"))
        }
    }

    /// Lets the reference apply the consequences of the event. The policy `first` leaves no choice,
    /// so that collecting is an event of its own; for any other policy the reference must be told
    /// the pool's choices.
    fn follow(&mut self) -> Result<(), String> {
        let policy = self.policy;
        let told = if policy == PolicyKind::First { BTreeMap::new() } else { self.collect_all() };
        let outcomes = self.reference.settle(&mut |tag, free, endpoints| match told.get(&tag) {
            _ if policy == PolicyKind::First => Ok(free[0]),
            Some((Ok(index), _)) => check_choice(policy, *index, free, endpoints),
            other => Err(format!("{tag}: {other:?} though {free:?} were free (law 2)")),
        })?;
        let mut outcomes: BTreeMap<u64, Outcome> = outcomes.into_iter().collect();
        for (tag, (seen, slot)) in told {
            let seen = seen.map_or_else(Outcome::Rejected, Outcome::Dispatched);
            if outcomes.remove(&tag) != Some(seen) {
                return Err(format!("{tag} was {seen:?} and should not"));
            }
            let at = slot.as_ref().map(Slot::index);
            self.running.extend(slot.map(|slot| Running { slot, at }));
        }
        for pending in &mut self.pending {
            if let Some(outcome) = outcomes.remove(&pending.tag) {
                pending.outcome = Some(outcome);
                if let Outcome::Dispatched(index) = outcome {
                    pending.at = Some(index);
                }
            }
        }
        if outcomes.is_empty() { Ok(()) } else { Err(format!("nobody was {outcomes:?}")) }
    }

    fn collect_all(&mut self) -> BTreeMap<u64, (Result<usize, Rejection>, Option<Slot>)> {
        let mut told = BTreeMap::new();
        let mut left = Vec::new();
        for mut pending in self.pending.drain(..) {
            match poll(&mut pending.ticket) {
                Poll::Pending => left.push(pending),
                Poll::Ready(Ok(slot)) => {
                    told.insert(pending.tag, (Ok(slot.index()), Some(slot)));
                }
                Poll::Ready(Err(rejection)) => {
                    told.insert(pending.tag, (Err(rejection), None));
                }
            }
        }
        self.pending = left;
        told
    }

    /// Compares the visible states without changing anything.
    fn compare(&self) -> Result<(), String> {
        let seen: Vec<_> =
            self.pool.waiting().into_iter().map(|waiting| (waiting.tag, waiting.bound)).collect();
        let expected: Vec<_> =
            self.reference.waiting.iter().map(|waiter| (waiter.tag, waiter.home)).collect();
        if seen != expected {
            return Err(format!("waiting are {seen:?}, should be {expected:?}"));
        }
        for (index, endpoint) in self.reference.endpoints.iter().enumerate() {
            let state = self.pool.endpoint(index).ok_or("no such endpoint")?;
            let queued = expected.iter().filter(|(_, home)| *home == Some(index)).count() as u32;
            let seen = (state.in_flight(), state.queued(), state.max_conn());
            if seen != (endpoint.in_flight, queued, endpoint.limit) {
                return Err(format!("endpoint {index} has {seen:?}, should have {endpoint:?}"));
            }
        }
        Ok(())
    }
}

fn member(index: usize) -> Member {
    let identity = 1_000 + index as u64;
    Member {
        identity,
        weight: 1,
        max_conn: None,
        tier: 0,
        ejection: None,
        slow_start_us: 0,
        state: Arc::default(),
    }
}

/// The endpoints that keys lead to, for policies with which an exchange waits for that endpoint:
/// computed by a pool of the same endpoints in which no exchange ever waits.
fn lead(policy: PolicyKind, members: &[Member]) -> Option<Rc<Lead>> {
    policy.hashes().filter(|settings| settings.balance_factor.is_none())?;
    // A tier has a table of its own.
    let tiers: BTreeSet<u8> = members.iter().map(|member| member.tier).collect();
    let pool = |tier: u8| {
        let own = members.iter().enumerate().filter(|(_, member)| member.tier == tier);
        let own: Vec<usize> = own.map(|(index, _)| index).collect();
        let fresh = |index: &usize| {
            let identity = members[*index].identity;
            Member { identity, ..member(0) }
        };
        let fresh = own.iter().map(fresh).collect();
        (Balancer::new(Settings::new(policy), fresh), own)
    };
    let pools: Vec<_> = tiers.into_iter().map(pool).collect();
    let lead = move |key, usable: &[usize]| {
        let tier = pools.iter().find(|(_, own)| own.contains(&usable[0]));
        let (pool, own) = tier.expect("they are of a tier");
        let mut tried = Tried::new();
        for (position, index) in own.iter().enumerate() {
            if !usable.contains(index) {
                tried.insert(position);
            }
        }
        let Arrival::Dispatched(slot) = pool.arrive(&Request { key, ..Request::new(0, 0, &tried) })
        else {
            panic!("somebody is usable")
        };
        own[slot.index()]
    };
    Some(Rc::new(lead))
}

/// Checks that `policy` may pick `index` among the free endpoints.
fn check_choice(
    policy: PolicyKind,
    index: usize,
    free: &[usize],
    endpoints: &[Endpoint],
) -> Result<usize, String> {
    if !free.contains(&index) {
        return Err(format!("{index} is none of {free:?}"));
    }
    let load = |index: usize| endpoints[index].in_flight + endpoints[index].queued;
    let least = free.iter().map(|other| load(*other)).min();
    let right = match policy {
        PolicyKind::First => free.first() == Some(&index),
        PolicyKind::LeastConn => Some(load(index)) == least,
        _ => true,
    };
    if right { Ok(index) } else { Err(format!("{policy} took {index} of {free:?}")) }
}

fn poll(ticket: &mut Ticket) -> Poll<Result<Slot, Rejection>> {
    Pin::new(ticket).poll(&mut Context::from_waker(Waker::noop()))
}
