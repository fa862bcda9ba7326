//! Picks in pools of many endpoints, from state that each change of an endpoint updates, so that a
//! pick looks at a few endpoints and not at every one. In a small pool they are looked at one by
//! one, which costs less; the picks are the same.

use crate::policy::crowd::Crowd;
use crate::policy::load_tree::{LoadKey, LoadTree, WantedLoad};
use crate::policy::pick::Chosen;
use crate::policy::picker::{Candidate, Picker};
use crate::policy::query::Query;
use crate::policy::slow_start::SlowShare;
use crate::policy::tier::Tier;
use crate::state::decision::{ChosenBy, Decision};
use crate::state::member::Member;
use crate::sync::Ordering;

/// The number of endpoints with a wanted load that a pick looks at before it looks at every
/// endpoint: an open endpoint may be unable to serve this exchange, because it was tried, does not
/// answer, or has filled up in the meantime.
const LOOKS: usize = 16;

/// The steps through an uneven cycle before an endpoint is drawn.
const STEPS: usize = 256;

impl Picker {
    /// Takes note of a change of an endpoint: its exchanges in flight or waiting, its limit,
    /// health, or admin state.
    #[inline]
    pub(crate) fn note(&self, index: usize) {
        if let Some(crowd) = &self.crowd {
            self.note_one(crowd, index);
        }
    }

    fn note_one(&self, crowd: &Crowd, index: usize) {
        let Some(member) = self.members.get(index) else { return };
        crowd.count(index, &member.state);
        let tier = self.tiers.iter().find(|tier| tier.rank == member.tier);
        if let Some(loads) = tier.and_then(|tier| tier.loads.as_ref()) {
            loads.set(index, || self.load_key(crowd, member));
        }
    }

    /// Takes note of all endpoints.
    pub(crate) fn note_all(&self) {
        if let Some(crowd) = &self.crowd {
            crowd.due_us.store(0, Ordering::Relaxed);
            (0..self.members.len()).for_each(|index| self.note_one(crowd, index));
        }
    }

    /// Takes note of an ejection; its end begins a slow start.
    pub(crate) fn note_ejection(&self, index: usize, until_us: u64) {
        self.begin_slow_start(index, until_us);
        if let Some(crowd) = &self.crowd {
            crowd.due_us.fetch_min(until_us, Ordering::Relaxed);
            self.note_one(crowd, index);
        }
    }

    /// Takes note of the ejections that ended by now.
    #[inline]
    pub(crate) fn note_ends(&self, now_us: u64) {
        if let Some(crowd) = &self.crowd
            && now_us >= crowd.due_us.load(Ordering::Relaxed)
        {
            self.note_ended(crowd, now_us);
        }
    }

    #[cold]
    fn note_ended(&self, crowd: &Crowd, now_us: u64) {
        crowd.due_us.store(u64::MAX, Ordering::Relaxed);
        let before_us = crowd.as_of_us.fetch_max(now_us, Ordering::Relaxed);
        for (index, member) in self.members.iter().enumerate() {
            let until_us = member.state.ejected_until();
            if until_us > before_us && until_us <= now_us {
                self.note_one(crowd, index);
            }
        }
        let next_us = self.next_change_us(now_us).unwrap_or(u64::MAX);
        crowd.due_us.fetch_min(next_us, Ordering::Relaxed);
    }

    fn load_key(&self, crowd: &Crowd, member: &Member) -> LoadKey {
        let state = &member.state;
        let usable = state.is_usable(crowd.as_of_us.load(Ordering::Relaxed), self.is_panicking());
        match state.in_flight_if_free().filter(|_| usable) {
            Some(in_flight) => {
                let weight = SlowShare::WHOLE.of(member.weight) as u32;
                LoadKey::new(u64::from(in_flight) + u64::from(state.queued()), weight)
            }
            None => LoadKey::CLOSED,
        }
    }

    /// The first eligible endpoint with a wanted load in a ring that begins at `index`; `Err` if
    /// that requires looking at every endpoint.
    pub(crate) fn next_of_many(
        &self,
        loads: &LoadTree,
        query: Query<'_>,
        start: usize,
        wanted: WantedLoad,
    ) -> Result<Option<Candidate>, Undecided> {
        let (mut from, mut wrapped) = (start, false);
        for _ in 0..LOOKS {
            let found = loads.next(from, wanted).filter(|found| !wrapped || *found < start);
            match found {
                Some(index) => {
                    let candidate = self.candidate(index, query);
                    if let Some(candidate) = candidate.filter(|one| wanted.has(one.key())) {
                        return Ok(Some(candidate));
                    }
                    from = index + 1;
                }
                None if wrapped => return Ok(None),
                None => (from, wrapped) = (0, true),
            }
        }
        Err(Undecided)
    }

    /// Does the same as `least_loaded` among many; `Err` if it takes a look at all.
    pub(crate) fn least_loaded_of_many(
        &self,
        tier: &Tier,
        loads: &LoadTree,
        query: Query<'_>,
    ) -> Result<Option<Chosen>, Undecided> {
        let least = loads.least();
        if least.is_closed() {
            return Ok(None);
        }
        let best =
            self.next_of_many(loads, query, 0, WantedLoad::AtMost(least))?.ok_or(Undecided)?;
        let least = loads.least_but(best.index);
        let second = if least.is_closed() {
            None
        } else {
            self.next_of_many(loads, query, best.index + 1, WantedLoad::AtMost(least))?
        };
        if second.is_some_and(|second| second.index == best.index) {
            // None of those loads serves this exchange.
            return Err(Undecided);
        }
        Ok(Some(self.less_loaded(tier, query, best, second)))
    }

    /// The next endpoint in turn after `position`, whose turn it was and which was not accepted.
    pub(crate) fn in_turn_of_many(
        &self,
        tier: &Tier,
        loads: &LoadTree,
        query: Query<'_>,
        position: usize,
        wanted: WantedLoad,
    ) -> Result<Option<Chosen>, Undecided> {
        let chosen = |index, next: Option<usize>| {
            let next = next.filter(|next| *next != index);
            Chosen::unseen(index, Decision::new(ChosenBy::Turn).before(next))
        };
        if !tier.smooth_wrr.is_plain() {
            if self.next_of_many(loads, query, 0, wanted)?.is_none() {
                return Ok(None);
            }
            for _ in 0..STEPS {
                let Some((position, next)) = tier.smooth_wrr.next_two() else { break };
                let candidate = tier.index(position).and_then(|index| self.candidate(index, query));
                if let Some(found) = candidate.filter(|one| wanted.has(one.key())) {
                    return Ok(Some(chosen(found.index, tier.index(next))));
                }
            }
            return Err(Undecided);
        }
        let len = tier.indexes().len();
        let after = |position: usize| tier.index((position + 1).checked_rem(len).unwrap_or(0));
        let start = after(position).unwrap_or(0);
        let Some(found) = self.next_of_many(loads, query, start, wanted)? else {
            return Ok(None);
        };
        let Some(place) = tier.position(found.index) else { return Ok(None) };
        // The entries between are skipped as if each had been looked at.
        tier.smooth_wrr.skip((place + len - position).checked_rem(len).unwrap_or(0) as u64);
        Ok(Some(chosen(found.index, after(place))))
    }
}

/// A pick that cannot be made without a look at all endpoints.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Undecided;
