//! The policies: the choice among the endpoints that may be picked. The queue is not handled here:
//! the dispatcher asks when it is an exchange's turn.

use crate::policy::PolicyKind;
use crate::policy::crowd::MANY;
use crate::policy::fair::{Fair, Look};
use crate::policy::hashing::xxh64::mix;
use crate::policy::load_tree::{LoadKey, WantedLoad};
use crate::policy::many::Undecided;
use crate::policy::picker::{Candidate, Picker};
use crate::policy::query::{Query, Stalls};
use crate::policy::tier::Tier;
use crate::state::decision::{Choice, ChosenBy, Decision, Rejection, Taken};
use crate::state::member::Tried;
use crate::sync::Ordering;

/// Rounds of choosing before a pick takes any free endpoint: a chosen one may fill up between the
/// choice and the count.
const ROUNDS: usize = 4;

/// Draws among all endpoints of a tier before the draw is limited to those that may be picked, each
/// of which is then looked at. So many draws among many endpoints fail only where few of them have
/// room.
const DRAWS: usize = 4;
const DRAWS_OF_MANY: usize = 128;

/// A policy's choice.
#[derive(Clone, Copy)]
pub(crate) struct Chosen {
    pub(crate) index: usize,
    /// The reason for the choice, and the runner-up.
    pub(crate) decision: Decision,
    /// Set if the policy has seen that no endpoint is idle, so that the regret meter need not look
    /// again.
    pub(crate) none_idle: bool,
}

impl Chosen {
    /// The choice of a policy that did not look at all endpoints.
    pub(crate) fn unseen(index: usize, decision: Decision) -> Self {
        Self { index, decision, none_idle: false }
    }
}

impl Picker {
    /// The one endpoint for which this exchange would wait: the bound one if it may be picked, or
    /// the one that a hashing policy chooses, full or not. `None`: any endpoint will do.
    pub(crate) fn home(&self, query: Query<'_>) -> Option<usize> {
        if query.overflowed {
            return None;
        }
        let bound = query.bound.filter(|index| self.is_usable_if_bound(*index, query));
        bound.or_else(|| self.home_of_key(query))
    }

    /// Takes a slot at the exchange's [`Picker::home`].
    pub(crate) fn take_home(&self, index: usize, query: Query<'_>) -> Option<Taken> {
        if query.bound == Some(index) {
            self.take_bound(index)
        } else {
            self.take_chosen(index, query, ChosenBy::Key)
        }
    }

    /// Takes a slot for an exchange that does not wait. A bound exchange whose endpoint is full
    /// goes to another one instead of being rejected.
    pub(crate) fn pick_without_waiting(&self, query: Query<'_>) -> Result<Taken, Rejection> {
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

    /// Takes a slot at a free endpoint of the active tier: the first tier that has a usable,
    /// untried endpoint, full or not.
    pub(crate) fn pick_in_active_tier(&self, query: Query<'_>) -> Option<Taken> {
        self.pick_in(self.active_tier(query)?, query).ok()
    }

    /// Takes a slot at a free endpoint of any tier: a full tier overflows to the next one.
    pub(crate) fn pick_in_any_tier(&self, query: Query<'_>) -> Result<Taken, Rejection> {
        let mut reason = Rejection::Unavailable;
        for tier in &self.tiers {
            match self.pick_in(tier, query) {
                Err(Rejection::Unavailable) => {}
                Err(other) => reason = other,
                Ok(taken) => return Ok(taken),
            }
        }
        Err(reason)
    }

    /// Takes a slot at this endpoint, for an exchange that takes no other.
    pub(crate) fn take_bound(&self, index: usize) -> Option<Taken> {
        let before = self.members.get(index)?.state.enter()?;
        self.note(index);
        let choice = if before == 0 { Choice::Idle } else { Choice::Busy };
        let decision = Decision::new(ChosenBy::Sticky).at_load(before);
        Some(Taken { index, choice, booked: false, decision })
    }

    /// Takes a slot at this endpoint, chosen among those of its tier.
    pub(crate) fn take_chosen(
        &self,
        index: usize,
        query: Query<'_>,
        chosen_by: ChosenBy,
    ) -> Option<Taken> {
        self.take(Chosen::unseen(index, Decision::new(chosen_by)), query)
    }

    fn take(&self, chosen: Chosen, query: Query<'_>) -> Option<Taken> {
        let Chosen { index, decision, none_idle } = chosen;
        let member = self.members.get(index)?;
        let before = if member.state.is_stalled() && query.stalls != Stalls::Ignored {
            let before = member.state.enter_for_trial(query.now_us)?;
            self.stall_unsettled.store(true, Ordering::Release);
            Some(before)
        } else {
            member.state.enter()
        };
        self.note(index);
        let before = before?;
        let tier = self.tiers.iter().find(|tier| tier.rank == member.tier);
        let choice = if before == 0 {
            Choice::Idle
        } else if !none_idle && tier.is_some_and(|tier| self.has_idle(tier, query)) {
            Choice::Inversion
        } else {
            Choice::Busy
        };
        if let Some((tier, fair)) =
            tier.and_then(|tier| tier.fair.as_ref().map(|fair| (tier, fair)))
            && let Some(position) = tier.position(index)
        {
            fair.chosen(position);
        }
        self.regret.count(choice);
        let decision = decision.at_load(before);
        Some(Taken { index, choice, booked: false, decision })
    }

    fn has_idle(&self, tier: &Tier, query: Query<'_>) -> bool {
        if let Some(loads) = &tier.loads {
            let wanted = WantedLoad::AtMost(LoadKey::new(0, 1));
            let idle = self.next_of_many(loads, query, 0, wanted);
            return matches!(idle, Ok(Some(idle)) if idle.share.is_whole());
        }
        tier.indexes().iter().any(|&index| {
            let idle = self.members.get(index).is_some_and(|member| {
                member.state.in_flight() == 0
                    && member.state.max_conn() != Some(0)
                    && member.share(query.now_us).is_whole()
            });
            idle && self.is_usable(index, query)
        })
    }

    fn pick_in(&self, tier: &Tier, query: Query<'_>) -> Result<Taken, Rejection> {
        for _ in 0..ROUNDS {
            let Some(chosen) = self.choose(tier, query) else { break };
            if let Some(taken) = self.take(chosen, query) {
                return Ok(taken);
            }
        }
        self.take_any(tier, query)
    }

    fn choose(&self, tier: &Tier, query: Query<'_>) -> Option<Chosen> {
        if let Some(loads) = &tier.loads {
            self.note_ends(query.now_us);
            // In a full pool round robin loses its turn all the same.
            if loads.least().is_closed() && self.policy != PolicyKind::RoundRobin {
                return None;
            }
        }
        let chosen = |index, chosen_by| Chosen::unseen(index, Decision::new(chosen_by));
        match self.policy {
            PolicyKind::LeastConn => self.least_loaded(tier, query),
            PolicyKind::Fair(_) => self.fairest(tier, query),
            PolicyKind::RoundRobin => self.in_turn(tier, query, WantedLoad::Open, |_| true),
            PolicyKind::Random => {
                let drawn = self.draw(tier, query, |_| true)?;
                Some(chosen(drawn.index, ChosenBy::Drawn))
            }
            PolicyKind::Random2 => self.better_of_two(tier, query),
            PolicyKind::LeastTime(_) | PolicyKind::PeakEwma(_) => {
                self.fastest(tier, query, self.averaging?)
            }
            PolicyKind::First => {
                let first = self.first(tier, query)?;
                Some(chosen(first.index, ChosenBy::First))
            }
            PolicyKind::Hash(settings)
            | PolicyKind::RingHash(settings)
            | PolicyKind::Maglev(settings) => {
                Some(chosen(self.choice_of_key(tier, query, settings)?, ChosenBy::Key))
            }
        }
    }

    fn first(&self, tier: &Tier, query: Query<'_>) -> Option<Candidate> {
        let loads = tier.loads.as_ref();
        let first = loads.map(|loads| self.next_of_many(loads, query, 0, WantedLoad::Open));
        match first {
            Some(Ok(first)) => first,
            None | Some(Err(Undecided)) => self.candidates(tier, query).next(),
        }
    }

    fn fairest(&self, tier: &Tier, query: Query<'_>) -> Option<Chosen> {
        let after = query.tried.last().and_then(|index| tier.position(index));
        if let Some(idle) = self.next_idle_of_many(tier, query, after) {
            return Some(idle);
        }
        let look = |position| {
            let candidate = self.candidate(tier.index(position)?, query)?;
            let (fails, max_fails) = self.recent_failures(candidate.index, query.now_us);
            Some(Look { in_flight: candidate.load, fails, max_fails })
        };
        let fairest = tier.fair.as_ref()?.choose(after, look)?;
        let rival =
            fairest.runner_up.and_then(|(position, load)| Some((tier.index(position)?, load)));
        let chosen_by = if fairest.scored { ChosenBy::Better } else { ChosenBy::Turn };
        Some(Chosen {
            index: tier.index(fairest.position)?,
            decision: Decision::new(chosen_by).over(rival),
            none_idle: fairest.none_idle,
        })
    }

    /// The idle endpoint that `fair` chooses among many, if it is easily found.
    fn next_idle_of_many(
        &self,
        tier: &Tier,
        query: Query<'_>,
        after: Option<usize>,
    ) -> Option<Chosen> {
        let (loads, fair) = (tier.loads.as_ref()?, tier.fair.as_ref()?);
        let start = tier.index(fair.start(after)?)?;
        let wanted = WantedLoad::AtMost(LoadKey::new(0, 1));
        let idle = self.next_of_many(loads, query, start, wanted).ok()??;
        let (fails, _) = self.recent_failures(idle.index, query.now_us);
        (fails == 0).then(|| Chosen::unseen(idle.index, Decision::new(ChosenBy::Turn)))
    }

    /// Notes an arrival for policies that count them; further attempts of the same exchange do not
    /// count.
    pub(crate) fn note_arrival(&self, tried: &Tried) {
        if tried.is_empty() && matches!(self.policy, PolicyKind::Fair(_)) {
            self.tiers.iter().filter_map(|tier| tier.fair.as_ref()).for_each(Fair::arrive);
        }
    }

    /// Takes the first free endpoint, or returns why there is none. The last resort, after choosing
    /// found nothing or lost its races.
    fn take_any(&self, tier: &Tier, query: Query<'_>) -> Result<Taken, Rejection> {
        if tier.loads.as_ref().is_some_and(|loads| loads.least().is_closed()) {
            let usable = tier.indexes().iter().any(|index| self.is_usable(*index, query));
            return Err(if usable { Rejection::Full } else { Rejection::Unavailable });
        }
        let mut reason = Rejection::Unavailable;
        for &index in tier.indexes() {
            if !self.is_usable(index, query) {
                continue;
            }
            reason = Rejection::Full;
            if let Some(taken) = self.take_chosen(index, query, ChosenBy::Left) {
                return Ok(taken);
            }
        }
        Err(reason)
    }

    /// The next endpoint of the smooth cycle that may be picked and that `accept` takes, which are
    /// those with a wanted load.
    pub(crate) fn in_turn(
        &self,
        tier: &Tier,
        query: Query<'_>,
        wanted: WantedLoad,
        accept: impl Fn(&Candidate) -> bool,
    ) -> Option<Chosen> {
        for skips in 0..tier.max_skips() {
            let (position, next) = tier.smooth_wrr.next_two()?;
            let index = tier.index(position)?;
            let candidate = self.candidate(index, query).filter(&accept);
            if let Some(candidate) = candidate {
                if !self.takes_turn(tier, candidate, query, &accept) {
                    continue;
                }
                // The runner-up is not checked for eligibility.
                let next = tier.index(next).filter(|next| *next != index);
                return Some(Chosen::unseen(index, Decision::new(ChosenBy::Turn).before(next)));
            }
            if skips == 0
                && let Some(loads) = &tier.loads
                && !self.is_slow(query.now_us)
                && let Ok(found) = self.in_turn_of_many(tier, loads, query, position, wanted)
            {
                return found;
            }
            // Finds out at once that a pool is full, without walking the cycle.
            if skips == 0 && !self.candidates(tier, query).any(|candidate| accept(&candidate)) {
                return None;
            }
        }
        let drawn = self.draw(tier, query, accept)?;
        Some(Chosen::unseen(drawn.index, Decision::new(ChosenBy::Drawn)))
    }

    /// The endpoint with the fewest in flight relative to its weight; ties go in turn, as often as
    /// their weights say.
    fn least_loaded(&self, tier: &Tier, query: Query<'_>) -> Option<Chosen> {
        if let Some(loads) = &tier.loads
            && let Ok(found) = self.least_loaded_of_many(tier, loads, query)
        {
            return found;
        }
        let mut candidates = self.candidates(tier, query);
        let mut best = candidates.next()?;
        let mut second: Option<Candidate> = None;
        for candidate in candidates {
            if candidate.is_less_loaded_than(&best) {
                second = Some(std::mem::replace(&mut best, candidate));
            } else if !best.is_less_loaded_than(&candidate) {
                second = Some(candidate);
                if best.load == 0 {
                    // No load is lower than 0.
                    break;
                }
            } else if second.is_none_or(|second| candidate.is_less_loaded_than(&second)) {
                second = Some(candidate);
            }
        }
        Some(self.less_loaded(tier, query, best, second))
    }

    /// The choice of `best`, with `second` as the runner-up; if both have the same load, the
    /// endpoint whose turn it is among all with that load.
    pub(crate) fn less_loaded(
        &self,
        tier: &Tier,
        query: Query<'_>,
        best: Candidate,
        second: Option<Candidate>,
    ) -> Chosen {
        let tied = second.is_some_and(|second| !best.is_less_loaded_than(&second));
        let wanted = WantedLoad::AtMost(best.key());
        let in_turn =
            || self.in_turn(tier, query, wanted, |other| !best.is_less_loaded_than(other));
        let turn = if tied { in_turn() } else { None };
        let index = turn.map_or(best.index, |turn| turn.index);
        let rival = if index == best.index { second } else { Some(best) };
        let chosen_by = if tied { ChosenBy::Turn } else { ChosenBy::Better };
        let decision = Decision::new(chosen_by).over(rival.map(|rival| (rival.index, rival.load)));
        Chosen { index, decision, none_idle: best.load > 0 }
    }

    /// Two different endpoints drawn by weight, the less loaded of them; a tie goes to the first
    /// drawn.
    fn better_of_two(&self, tier: &Tier, query: Query<'_>) -> Option<Chosen> {
        let first = self.draw(tier, query, |_| true)?;
        let query = Query { random: mix(query.random), ..query };
        let second = self.draw(tier, query, |candidate| candidate.index != first.index);
        let (best, other) = match second {
            Some(second) if second.is_less_loaded_than(&first) => (second, Some(first)),
            other => (first, other),
        };
        let decision =
            Decision::new(if other.is_some() { ChosenBy::Better } else { ChosenBy::Left });
        let decision = decision.over(other.map(|other| (other.index, other.load)));
        Some(Chosen::unseen(best.index, decision))
    }

    /// An endpoint drawn by weight among those that may be picked and that `accept` takes. It draws
    /// among all until one qualifies, which keeps the shares of the weights; after [`DRAWS`] draws
    /// in vain it draws among those that qualify.
    pub(crate) fn draw(
        &self,
        tier: &Tier,
        query: Query<'_>,
        accept: impl Fn(&Candidate) -> bool,
    ) -> Option<Candidate> {
        let mut random = query.random;
        let draws = if tier.indexes().len() > MANY { DRAWS_OF_MANY } else { DRAWS };
        for _ in 0..draws {
            let drawn = self.candidate(tier.drawn(random)?, query);
            if let Some(candidate) = drawn.filter(&accept)
                && candidate.share.keeps_draw(random)
            {
                return Some(candidate);
            }
            random = mix(random);
        }
        self.draw_among_few(tier, Query { random, ..query }, accept)
    }

    /// An endpoint drawn by weight among those that may be picked and that `accept` takes, each of
    /// which is checked.
    fn draw_among_few(
        &self,
        tier: &Tier,
        query: Query<'_>,
        accept: impl Fn(&Candidate) -> bool,
    ) -> Option<Candidate> {
        let open = || self.open_candidates(tier, query).filter(&accept);
        let sum: u64 = open().map(|candidate| candidate.weight).sum();
        let mut left = ((u128::from(query.random) * u128::from(sum)) >> 64) as u64;
        let mut last = None;
        for candidate in open() {
            if left < candidate.weight {
                return Some(candidate);
            }
            left -= candidate.weight;
            last = Some(candidate);
        }
        // A candidate became ineligible between the two passes.
        last
    }
}
