//! Who takes the next exchange. Every worker asks the same `Balancer`; nothing here waits or locks.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::cycle::Cycle;
use crate::passive::{AfterFailure, PassiveSettings, Turnstile, Window};
use crate::{EndpointState, PolicyKind, Slot};

/// Rounds of choosing before a pick takes any free endpoint: a chosen one may fill up under our hands.
const ROUNDS: usize = 4;

/// An endpoint as the configuration gives it, with its live state.
#[derive(Clone, Debug)]
pub struct Member {
    /// Its share, from 1.
    pub weight: u32,
    /// Most exchanges in flight at once, over all workers.
    pub max_conn: Option<u32>,
    /// Picked only when no other can be.
    pub backup: bool,
    /// What is live about it; kept over reloads.
    pub state: Arc<EndpointState>,
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

    /// Whether it was noted.
    pub fn contains(&self, index: usize) -> bool {
        self.0.contains(&index)
    }
}

/// Why there is no endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoEndpoint {
    /// All are unavailable, ejected or tried.
    Unavailable,
    /// Those that could be are at their `max_conn`.
    Full,
}

/// A pool's policy over its endpoints.
#[derive(Debug)]
pub struct Balancer {
    policy: PolicyKind,
    members: Box<[Member]>,
    windows: Box<[Window]>,
    passive: PassiveSettings,
    turnstile: Turnstile,
    ordinary: Tier,
    backup: Tier,
}

/// Endpoints of one rank: the ordinary ones or the backups.
#[derive(Debug)]
struct Tier {
    /// Numbers in the pool, in file order.
    indexes: Box<[usize]>,
    cycle: Cycle,
}

impl Tier {
    fn new(members: &[Member], backup: bool) -> Self {
        let own = |(index, member): (usize, &Member)| {
            (member.backup == backup).then_some((index, member.weight))
        };
        let (indexes, weights): (Vec<_>, Vec<_>) =
            members.iter().enumerate().filter_map(own).unzip();
        Self { indexes: indexes.into(), cycle: Cycle::new(&weights) }
    }

    /// Entries of the cycle that a pick may pass over before it draws instead: the usual handful of ineligible
    /// endpoints keeps the smooth order, and one that is down with a share of a thousand does not cost a thousand steps.
    fn max_skips(&self) -> usize {
        self.indexes.len() * 4 + 16
    }
}

/// An endpoint that may be picked, with its load when it was looked at.
#[derive(Clone, Copy)]
struct Candidate {
    index: usize,
    in_flight: u64,
    weight: u64,
}

impl Candidate {
    /// In flight for its weight, compared without dividing.
    fn is_less_loaded_than(&self, other: &Self) -> bool {
        self.in_flight * other.weight < other.in_flight * self.weight
    }
}

/// What a pick is asked with.
#[derive(Clone, Copy)]
struct Query<'a> {
    now_us: u64,
    random: u64,
    tried: &'a Tried,
}

impl Balancer {
    /// A balancer; endpoints are known by their position in `members` from then on.
    pub fn new(policy: PolicyKind, members: Vec<Member>, passive: PassiveSettings) -> Self {
        let ordinary = Tier::new(&members, false);
        let backup = Tier::new(&members, true);
        let windows = members.iter().map(|_| Window::new(passive.errors)).collect();
        let turnstile = Turnstile::default();
        Self { policy, members: members.into(), windows, passive, turnstile, ordinary, backup }
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

    /// Exchanges in flight over all endpoints.
    pub fn in_flight(&self) -> u64 {
        self.members.iter().map(|member| u64::from(member.state.in_flight())).sum()
    }

    /// Picks by the policy among the endpoints that are available, not ejected, not tried and below their limit;
    /// among the backups when there is no other. `now_us` is on the clock of [`Balancer::connect_failed`], `random` has 64
    /// random bits (used by `random` and `random2`, and by `round_robin` when much of the weight is out).
    pub fn pick(&self, now_us: u64, random: u64, tried: &Tried) -> Result<Slot, NoEndpoint> {
        let query = Query { now_us, random, tried };
        self.pick_in(&self.ordinary, query).or_else(|ordinary| {
            self.pick_in(&self.backup, query).map_err(|backup| match (ordinary, backup) {
                (NoEndpoint::Unavailable, NoEndpoint::Unavailable) => NoEndpoint::Unavailable,
                _ => NoEndpoint::Full,
            })
        })
    }

    /// Notes that a connect failed at `now_us`. Failures of exchanges that were under way when the endpoint was
    /// ejected do not prolong that. After an ejection the first failure ejects again.
    pub fn connect_failed(&self, index: usize, now_us: u64) -> AfterFailure {
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
        self.turnstile.pass(|| self.eject(member, now_us)).unwrap_or(AfterFailure::Counted)
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

    fn eject(&self, member: &Member, now_us: u64) -> AfterFailure {
        if member.state.is_ejected(now_us) {
            return AfterFailure::Counted;
        }
        let out = self.members.iter().filter(|other| other.state.is_ejected(now_us)).count();
        if out + 1 > self.members.len() * usize::from(self.passive.max_ejected_percent) / 100 {
            member.state.refuse_ejection();
            return AfterFailure::Refused;
        }
        member.state.eject(now_us.saturating_add(self.passive.eject_us));
        AfterFailure::Ejected
    }

    fn pick_in(&self, tier: &Tier, query: Query<'_>) -> Result<Slot, NoEndpoint> {
        for _ in 0..ROUNDS {
            let Some(index) = self.choose(tier, query) else { break };
            if let Some(slot) = self.take(index) {
                return Ok(slot);
            }
        }
        self.take_any(tier, query)
    }

    fn choose(&self, tier: &Tier, query: Query<'_>) -> Option<usize> {
        match self.policy {
            PolicyKind::RoundRobin => self.in_turn(tier, query, |_| true),
            PolicyKind::LeastConn => self.least_loaded(tier, query),
            PolicyKind::Random => self.draw(tier, query, |_| true).map(|candidate| candidate.index),
            PolicyKind::Random2 => self.better_of_two(tier, query),
            PolicyKind::First => {
                self.candidates(tier, query).next().map(|candidate| candidate.index)
            }
        }
    }

    fn take(&self, index: usize) -> Option<Slot> {
        let member = self.members.get(index)?;
        Slot::take(&member.state, index, member.max_conn)
    }

    /// The first free one, or why there is none: the last word, after choosing found nothing or lost its races.
    fn take_any(&self, tier: &Tier, query: Query<'_>) -> Result<Slot, NoEndpoint> {
        let mut reason = NoEndpoint::Unavailable;
        for &index in &tier.indexes {
            if !self.is_usable(index, query) {
                continue;
            }
            reason = NoEndpoint::Full;
            if let Some(slot) = self.take(index) {
                return Ok(slot);
            }
        }
        Err(reason)
    }

    fn is_usable(&self, index: usize, query: Query<'_>) -> bool {
        let usable =
            self.members.get(index).is_some_and(|member| member.state.is_usable(query.now_us));
        usable && !query.tried.contains(index)
    }

    /// The endpoint as a candidate, if it may be picked now.
    fn candidate(&self, index: usize, query: Query<'_>) -> Option<Candidate> {
        let member = self.members.get(index)?;
        let in_flight = member.state.in_flight();
        let free = member.max_conn.is_none_or(|limit| in_flight < limit);
        let candidate = Candidate {
            index,
            in_flight: u64::from(in_flight),
            weight: u64::from(member.weight.max(1)),
        };
        (free && self.is_usable(index, query)).then_some(candidate)
    }

    fn candidates<'a>(
        &'a self,
        tier: &'a Tier,
        query: Query<'a>,
    ) -> impl Iterator<Item = Candidate> + 'a {
        tier.indexes.iter().filter_map(move |&index| self.candidate(index, query))
    }

    /// The next of the smooth cycle that may be picked and that `accept` takes.
    fn in_turn(
        &self,
        tier: &Tier,
        query: Query<'_>,
        accept: impl Fn(&Candidate) -> bool,
    ) -> Option<usize> {
        for skips in 0..tier.max_skips() {
            let index = *tier.indexes.get(tier.cycle.next()?)?;
            if self.candidate(index, query).is_some_and(|candidate| accept(&candidate)) {
                return Some(index);
            }
            // A full pool is found out at once, not by walking the cycle.
            if skips == 0 && !self.candidates(tier, query).any(|candidate| accept(&candidate)) {
                return None;
            }
        }
        self.draw(tier, query, accept).map(|candidate| candidate.index)
    }

    /// Fewest in flight for its weight; several that tie go in turn, as often as their weights say.
    fn least_loaded(&self, tier: &Tier, query: Query<'_>) -> Option<usize> {
        let mut candidates = self.candidates(tier, query);
        let mut best = candidates.next()?;
        let mut tied = false;
        for candidate in candidates {
            if candidate.is_less_loaded_than(&best) {
                best = candidate;
                tied = false;
            } else if !best.is_less_loaded_than(&candidate) {
                tied = true;
            }
        }
        if !tied {
            return Some(best.index);
        }
        self.in_turn(tier, query, |candidate| !best.is_less_loaded_than(candidate))
            .or(Some(best.index))
    }

    /// Two different ones drawn by weight, the less loaded of them; a tie goes to the first drawn.
    fn better_of_two(&self, tier: &Tier, query: Query<'_>) -> Option<usize> {
        let first = self.draw(tier, query, |_| true)?;
        let query = Query { random: mix(query.random), ..query };
        let second =
            self.draw(tier, query, |candidate| candidate.index != first.index).unwrap_or(first);
        Some(if second.is_less_loaded_than(&first) { second.index } else { first.index })
    }

    /// One drawn by weight among those that may be picked and that `accept` takes.
    fn draw(
        &self,
        tier: &Tier,
        query: Query<'_>,
        accept: impl Fn(&Candidate) -> bool,
    ) -> Option<Candidate> {
        let sum: u64 =
            self.candidates(tier, query).filter(&accept).map(|candidate| candidate.weight).sum();
        let mut left = ((u128::from(query.random) * u128::from(sum)) >> 64) as u64;
        let mut last = None;
        for candidate in self.candidates(tier, query).filter(&accept) {
            if left < candidate.weight {
                return Some(candidate);
            }
            left -= candidate.weight;
            last = Some(candidate);
        }
        // Somebody became ineligible between the two passes.
        last
    }
}

/// Other random bits from random bits (the finaliser of SplitMix64), for a second draw.
fn mix(random: u64) -> u64 {
    let random = random.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let random = (random ^ (random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let random = (random ^ (random >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    random ^ (random >> 31)
}
