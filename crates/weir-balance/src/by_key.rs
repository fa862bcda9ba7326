//! Picks of the policies that hash: the tables of a tier, and whom a key leads to.

use std::cell::LazyCell;

use crate::balancer::Balancer;
use crate::bounded::Bound;
use crate::choose::{Candidate, Query, Stalls, Tier};
use crate::maglev::Maglev;
use crate::rendezvous::Rendezvous;
use crate::ring::Ring;
use crate::{BalanceFactor, HashSettings, PolicyKind, Tried};

/// What a tier looks keys up in.
#[derive(Debug)]
pub(crate) enum KeyTable {
    Rendezvous(Rendezvous),
    Ring(Ring),
    Maglev(Maglev),
}

impl KeyTable {
    /// The table that the policy wants, of identities with their weights.
    pub(crate) fn new(policy: PolicyKind, seats: &[(u64, u32)]) -> Option<Self> {
        match policy {
            PolicyKind::Hash(_) => Some(Self::Rendezvous(Rendezvous::new(seats))),
            PolicyKind::RingHash(_) => Some(Self::Ring(Ring::new(seats))),
            PolicyKind::Maglev(_) => Some(Self::Maglev(Maglev::new(seats))),
            _ => None,
        }
    }

    /// The first position for `key` that `accept` takes.
    fn find(&self, key: u64, accept: impl Fn(usize) -> bool) -> Option<usize> {
        match self {
            Self::Rendezvous(table) => table.find(key, accept),
            Self::Ring(table) => table.find(key, accept),
            Self::Maglev(table) => table.find(key, accept),
        }
    }
}

impl Balancer {
    /// Whom `key` would lead to if endpoint `index` were not there: a hashing policy's second choice, of those that may be had at `now_us`.
    /// `None` where the policy hashes nothing, or nobody else is left.
    pub fn second_choice(&self, index: usize, key: u64, now_us: u64) -> Option<usize> {
        self.policy.hashes()?;
        let mut tried = Tried::new();
        tried.insert(index);
        let query = Query {
            now_us,
            random: 0,
            key,
            bound: None,
            overflowed: false,
            tried: &tried,
            panic: self.is_panicking(),
            stalls: Stalls::Heeded,
        };
        let tier = self.active_tier(query)?;
        let usable =
            |position| tier.index(position).is_some_and(|other| self.is_usable(other, query));
        tier.index(tier.keys()?.find(key, usable)?)
    }

    /// Whom the key of an exchange belongs to, be he full or not: there it waits. `None` where the policy hashes nothing, and where loads
    /// are bounded, so that an exchange goes on to the next rather than wait.
    pub(crate) fn home_of_key(&self, query: Query<'_>) -> Option<usize> {
        if self.policy.hashes()?.balance_factor.is_some() {
            return None;
        }
        let tier = self.active_tier(query)?;
        let usable =
            |position| tier.index(position).is_some_and(|index| self.is_usable(index, query));
        tier.index(tier.keys()?.find(query.key, usable)?)
    }

    /// The first for the key that is free and, where loads are bounded, below his bound; the first that is free when all of them are at theirs,
    /// which is so when those below it are full.
    pub(crate) fn choice_of_key(
        &self,
        tier: &Tier,
        query: Query<'_>,
        settings: HashSettings,
    ) -> Option<usize> {
        let keys = tier.keys()?;
        let candidate =
            |position| tier.index(position).and_then(|index| self.candidate(index, query));
        let within = settings.balance_factor.and_then(|factor| {
            // Every bound is above 0, so that an idle one is taken before anything is summed up.
            let bound = LazyCell::new(|| self.bound(tier, query, factor));
            let admitted = |candidate: Candidate| {
                candidate.load == 0 || bound.admits(candidate.load, candidate.weight)
            };
            keys.find(query.key, |position| candidate(position).is_some_and(admitted))
        });
        let free = || keys.find(query.key, |position| candidate(position).is_some());
        tier.index(within.or_else(free)?)
    }

    fn bound(&self, tier: &Tier, query: Query<'_>, factor: BalanceFactor) -> Bound {
        let usable = tier.indexes().iter().filter(|index| self.is_usable(**index, query));
        let loads = usable.filter_map(|&index| {
            let Candidate { load, weight, .. } = Candidate::new(index, self.members.get(index)?);
            Some((load, weight))
        });
        Bound::new(factor, loads)
    }
}
