//! Picks of the policies that hash: the endpoints that keys lead to.

pub(crate) mod bounded;
pub(crate) mod maglev;
pub(crate) mod rendezvous;
pub(crate) mod ring;
pub(crate) mod table;
pub(crate) mod xxh64;

use std::cell::LazyCell;

use crate::policy::HashSettings;
use crate::policy::hashing::bounded::{BalanceFactor, Bound};
use crate::policy::picker::{Candidate, Picker};
use crate::policy::query::{Query, Stalls};
use crate::policy::tier::Tier;
use crate::state::member::Tried;

impl Picker {
    /// The endpoint that `key` would lead to without endpoint `index`: the hashing policy's second
    /// choice among those usable at `now_us`. `None` if the policy hashes nothing or no other
    /// endpoint is left.
    pub(crate) fn second_choice(&self, index: usize, key: u64, now_us: u64) -> Option<usize> {
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

    /// The endpoint that the exchange's key leads to, full or not: the exchange waits there. `None`
    /// if the policy hashes nothing, or if loads are bounded, because the exchange then goes on to
    /// the next endpoint rather than wait.
    pub(crate) fn home_of_key(&self, query: Query<'_>) -> Option<usize> {
        if self.policy.hashes()?.balance_factor.is_some() {
            return None;
        }
        let tier = self.active_tier(query)?;
        let usable =
            |position| tier.index(position).is_some_and(|index| self.is_usable(index, query));
        tier.index(tier.keys()?.find(query.key, usable)?)
    }

    /// The first free endpoint for the key; if loads are bounded, the first one that is also below
    /// its bound. If all free endpoints are at their bounds, because those below their bounds are
    /// full, the first free one.
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
            // Every bound is above 0, so an idle endpoint is taken before the loads are summed up.
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
            let Candidate { load, weight, .. } =
                Candidate::new(index, self.members.get(index)?, query.now_us);
            Some((load, weight))
        });
        Bound::new(factor, loads)
    }
}
