//! The endpoints of one priority, with the tables from which policies pick among them.

use crate::policy::PolicyKind;
use crate::policy::crowd::MANY;
use crate::policy::fair::Fair;
use crate::policy::hashing::table::KeyTable;
use crate::policy::load_tree::LoadTree;
use crate::policy::smooth_wrr::SmoothWrr;
use crate::state::member::Member;

/// The endpoints of one priority.
#[derive(Debug)]
pub(crate) struct Tier {
    /// The tier's number in the configuration; lower goes first.
    pub(crate) rank: u8,
    /// The endpoints' numbers in the pool, in file order. An index into this list is a position.
    indexes: Box<[usize]>,
    pub(crate) smooth_wrr: SmoothWrr,
    /// Sums of the weights up to each position, for draws.
    sums: Box<[u64]>,
    /// The table of policies that hash.
    keys: Option<KeyTable>,
    /// The state of the policy `fair`.
    pub(crate) fair: Option<Fair>,
    /// The loads of many endpoints, by their numbers in the pool.
    pub(crate) loads: Option<LoadTree>,
}

impl Tier {
    /// The tiers of `members`, the first to be used first.
    pub(crate) fn all(members: &[Member], policy: PolicyKind) -> Box<[Self]> {
        let mut ranks: Vec<u8> = members.iter().map(|member| member.tier).collect();
        ranks.sort_unstable();
        ranks.dedup();
        ranks.into_iter().map(|rank| Self::new(members, rank, policy)).collect()
    }

    fn new(members: &[Member], rank: u8, policy: PolicyKind) -> Self {
        let own = members.iter().enumerate().filter(|(_, member)| member.tier == rank);
        let seats: Vec<(u64, u32)> =
            own.clone().map(|(_, member)| (member.identity, member.weight)).collect();
        let weights: Vec<u32> = seats.iter().map(|(_, weight)| *weight).collect();
        let fair = match policy {
            PolicyKind::Fair(settings) => Some(Fair::new(settings, &weights)),
            _ => None,
        };
        Self {
            rank,
            indexes: own.map(|(index, _)| index).collect(),
            smooth_wrr: SmoothWrr::new(&weights),
            sums: sums(&weights),
            keys: KeyTable::new(policy, &seats),
            fair,
            loads: load_tree(members, rank),
        }
    }

    /// The position of an endpoint in this tier.
    pub(crate) fn position(&self, index: usize) -> Option<usize> {
        self.indexes.binary_search(&index).ok()
    }

    pub(crate) fn index(&self, position: usize) -> Option<usize> {
        self.indexes.get(position).copied()
    }

    pub(crate) fn keys(&self) -> Option<&KeyTable> {
        self.keys.as_ref()
    }

    pub(crate) fn indexes(&self) -> &[usize] {
        &self.indexes
    }

    /// An endpoint drawn by weight, regardless of whether it may be picked.
    pub(crate) fn drawn(&self, random: u64) -> Option<usize> {
        let sum = *self.sums.last()?;
        let at = ((u128::from(random) * u128::from(sum)) >> 64) as u64;
        self.index(self.sums.partition_point(|sum| *sum <= at))
    }

    /// The number of cycle entries that a pick may skip before it draws instead. A few ineligible
    /// endpoints keep the smooth order, and one that is down with a share of a thousand does not
    /// cost a thousand steps.
    pub(crate) fn max_skips(&self) -> usize {
        self.indexes.len() * 4 + 16
    }
}

/// The tree of loads of a tier with many endpoints.
fn load_tree(members: &[Member], rank: u8) -> Option<LoadTree> {
    let own = members.iter().filter(|member| member.tier == rank).count();
    (own > MANY).then(|| LoadTree::new(members.len()))
}

fn sums(weights: &[u32]) -> Box<[u64]> {
    let add = |sum: &mut u64, weight: &u32| {
        *sum += u64::from((*weight).max(1));
        Some(*sum)
    };
    weights.iter().scan(0, add).collect()
}
