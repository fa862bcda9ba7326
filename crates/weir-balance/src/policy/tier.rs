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
    /// The shares of the positions in draws by weight.
    shares: Shares,
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
            shares: Shares::new(&weights),
            keys: KeyTable::new(policy, &seats),
            fair,
            loads: load_tree(members, rank),
        }
    }

    /// The position of an endpoint in this tier.
    pub(crate) fn position(&self, index: usize) -> Option<usize> {
        // In a pool with one tier they are the same, and no search is needed.
        if self.indexes.get(index) == Some(&index) {
            return Some(index);
        }
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
        self.index(self.shares.drawn(random)?)
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

/// The shares of the positions of a tier in draws by weight. A draw looks at a few entries, however
/// many there are.
#[derive(Debug)]
enum Shares {
    /// All of this many positions have the same weight.
    Even(u64),
    Uneven {
        /// Sums of the weights up to each position.
        sums: Box<[u64]>,
        /// The first position of each of as many equal parts of the whole as there are positions.
        firsts: Box<[u32]>,
    },
}

impl Shares {
    fn new(weights: &[u32]) -> Self {
        let weights = weights.iter().map(|weight| u64::from((*weight).max(1)));
        let len = weights.len() as u64;
        if weights.clone().min() == weights.clone().max() {
            return Self::Even(len);
        }
        let add = |sum: &mut u64, weight: u64| {
            *sum += weight;
            Some(*sum)
        };
        let sums: Box<[u64]> = weights.scan(0, add).collect();
        let all = sums.last().copied().unwrap_or(0);
        let first = |part: u64| {
            let begin = scaled(part, all, len);
            sums.partition_point(|sum| *sum <= begin) as u32
        };
        let firsts = (0..len).map(first).collect();
        Self::Uneven { sums, firsts }
    }

    /// The position that a random number leads to.
    fn drawn(&self, random: u64) -> Option<usize> {
        match self {
            Self::Even(0) => None,
            Self::Even(len) => Some(((u128::from(random) * u128::from(*len)) >> 64) as usize),
            Self::Uneven { sums, firsts } => {
                let all = *sums.last()?;
                let at = ((u128::from(random) * u128::from(all)) >> 64) as u64;
                let part = scaled(at, firsts.len() as u64, all) as usize;
                let first = *firsts.get(part)? as usize;
                let end = firsts.get(part + 1).map_or(sums.len(), |next| *next as usize + 1);
                let own = sums.get(first..end)?;
                Some(first + own.partition_point(|sum| *sum <= at))
            }
        }
    }
}

/// `number * times / by`, rounded down.
fn scaled(number: u64, times: u64, by: u64) -> u64 {
    (u128::from(number) * u128::from(times) / u128::from(by.max(1))) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draw_leads_to_the_position_whose_weights_it_falls_into() {
        let mut random = fastrand::Rng::with_seed(3);
        let mut lists = vec![vec![], vec![7], vec![1, 1, 1], vec![0, 1], vec![1, 1000, 1, 1]];
        for _ in 0..50 {
            let len = random.usize(1..200);
            let most = [1, 3, 1000][random.usize(..3)];
            lists.push((0..len).map(|_| random.u32(0..=most).pow(random.u32(1..3))).collect());
        }
        for weights in lists {
            let shares = Shares::new(&weights);
            let sum: u64 = weights.iter().map(|weight| u64::from((*weight).max(1))).sum();
            let edges = (0..sum.min(3000)).map(|at| scaled(at, u64::MAX, sum.max(1)));
            let edges = edges.flat_map(|at| [at.saturating_sub(1), at, at + 1]);
            let drawn = std::iter::repeat_with(|| random.u64(..)).take(1000);
            for number in [0, u64::MAX].into_iter().chain(edges).chain(drawn) {
                let at = ((u128::from(number) * u128::from(sum)) >> 64) as u64;
                let mut passed = 0;
                let expected = weights.iter().position(|weight| {
                    passed += u64::from((*weight).max(1));
                    at < passed
                });
                assert_eq!(shares.drawn(number), expected, "{number} of {weights:?}");
            }
        }
    }
}
