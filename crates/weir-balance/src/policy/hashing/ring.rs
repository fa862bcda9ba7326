//! Consistent hashing on a ring (`balance ring_hash`), as in ketama: each endpoint owns points on a
//! circle of 2⁶⁴, and a key belongs to the first point at or after it whose endpoint may be picked.

use crate::policy::hashing::rendezvous::Rendezvous;
use crate::policy::hashing::xxh64::mix;

/// The points of an endpoint of weight 1.
const POINTS: u64 = 160;

/// The maximum average number of points per endpoint in one tier. If the weights ask for more, the
/// points of every endpoint are halved, and halved again until they fit. The points of an endpoint
/// therefore do not depend on the other endpoints, unless the number of halvings changes.
const MAX_AVERAGE: u64 = 2 * POINTS;

/// The endpoints of one tier on their circle.
#[derive(Debug)]
pub(crate) struct Ring {
    /// The points, sorted.
    points: Box<[u64]>,
    /// The owner of each point.
    owners: Box<[u32]>,
    /// An index of `points` by their highest bits: entry `i` is the position of the first point
    /// whose highest bits are at least `i`; the last entry is the number of points. It narrows a
    /// search to one or two points.
    starts: Box<[u32]>,
    /// The right shift that turns a key into an index of `starts`.
    shift: u32,
    /// The fallback of a walk that finds no acceptable point within `max_steps`.
    spare: Rendezvous,
    max_steps: usize,
}

impl Ring {
    /// The ring of identities with their weights; positions are indices into `members`.
    pub(crate) fn new(members: &[(u64, u32)]) -> Self {
        let mut points: Vec<(u64, u64, u32)> = Vec::new();
        for ((position, &(identity, _)), count) in members.iter().enumerate().zip(counts(members)) {
            // A SplitMix64-like stream that starts at the identity: a smaller number of points is a
            // prefix of a larger one.
            let point = |number: u64| mix(identity.wrapping_add(number.wrapping_mul(STRIDE)));
            points.extend((0..count).map(|number| (point(number), identity, position as u32)));
        }
        points.sort_unstable();
        let owners = points.iter().map(|(.., owner)| *owner).collect();
        let points: Box<[u64]> = points.into_iter().map(|(point, ..)| point).collect();
        let bits = points.len().next_power_of_two().ilog2().max(1);
        let shift = u64::BITS - bits;
        let begins = |bucket: u64| points.partition_point(|point| *point >> shift < bucket) as u32;
        Self {
            starts: (0..=1 << bits).map(begins).collect(),
            shift,
            owners,
            points,
            spare: Rendezvous::new(members),
            max_steps: members.len() * 4 + 64,
        }
    }

    /// The owner of the first point from `key` on that `accept` takes. After `max_steps` steps the
    /// accepted endpoint with the best rendezvous draw has the key instead, so that a pool in which
    /// most endpoints are out is not walked in full; that choice is as stable.
    pub(crate) fn find(&self, key: u64, accept: impl Fn(usize) -> bool) -> Option<usize> {
        let start = self.first_point(key)?;
        let (before, from) = self.owners.split_at_checked(start)?;
        let mut walk = from.iter().chain(before).take(self.max_steps);
        walk.find(|owner| accept(**owner as usize))
            .map(|owner| *owner as usize)
            .or_else(|| self.spare.find(key, accept))
    }

    /// The number of points before `key`.
    fn first_point(&self, key: u64) -> Option<usize> {
        let bucket = (key >> self.shift) as usize;
        let begin = *self.starts.get(bucket)? as usize;
        let end = *self.starts.get(bucket + 1)? as usize;
        let bucket = self.points.get(begin..end)?;
        Some(begin + bucket.partition_point(|point| *point < key))
    }
}

/// An odd constant far from the increment of [`mix`], so that two streams do not overlap.
const STRIDE: u64 = 0xd1b5_4a32_d192_ed03;

/// The number of points of each member: in proportion to the weights, at least one.
fn counts(members: &[(u64, u32)]) -> impl Iterator<Item = u64> {
    let points = |(_, weight): &(u64, u32)| u64::from((*weight).max(1)) * POINTS;
    let sum: u64 = members.iter().map(points).sum();
    let bound = members.len() as u64 * MAX_AVERAGE;
    let halvings = (0..64).find(|halvings| sum >> halvings <= bound).unwrap_or(0);
    members.iter().map(move |member| (points(member) >> halvings).max(1))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::policy::hashing::xxh64::hash_key;

    fn members(weights: &[u32]) -> Vec<(u64, u32)> {
        let named = |(number, &weight)| (hash_key(format!("app{number}").as_bytes()), weight);
        weights.iter().enumerate().map(named).collect()
    }

    fn shares(weights: &[u32], keys: u64) -> Vec<f64> {
        let ring = Ring::new(&members(weights));
        let mut shares = vec![0.0; weights.len()];
        for key in 0..keys {
            shares[ring.find(mix(key), |_| true).unwrap()] += 1.0 / keys as f64;
        }
        shares
    }

    #[test]
    fn each_has_its_points() {
        let points = |weights: &[u32]| Ring::new(&members(weights)).points.len();
        assert_eq!(points(&[1, 1, 1]), 480);
        assert_eq!(points(&[7, 7, 7]), 840);
        assert_eq!(points(&[1, 2, 3]), 960);
        assert!(points(&[60_000, 1, 1]) <= 3 * 320 + 3);
        assert!((0..3).all(|owner| Ring::new(&members(&[60_000, 1, 1])).owners.contains(&owner)));
    }

    #[test]
    fn keys_are_shared_by_weight_about() {
        // With 160 points a share deviates by about a twelfth of itself.
        for (share, expected) in shares(&[1; 10], 100_000).iter().zip([0.1; 10]) {
            assert!((share / expected - 1.0).abs() < 0.3, "{share}");
        }
        for (share, weight) in shares(&[1, 2, 4, 3], 100_000).iter().zip([0.1, 0.2, 0.4, 0.3]) {
            assert!((share / weight - 1.0).abs() < 0.3, "{share} {weight}");
        }
    }

    #[test]
    fn a_key_past_the_last_point_belongs_to_the_first() {
        let ring = Ring::new(&members(&[1, 1, 1]));
        let first = ring.owners[0] as usize;
        assert_eq!(ring.find(u64::MAX, |_| true), Some(first));
        assert_eq!(ring.find(ring.points[0], |_| true), Some(first));
        assert_eq!(ring.find(ring.points[0] + 1, |_| true), Some(ring.owners[1] as usize));
    }

    #[test]
    fn no_endpoint_is_found_among_none() {
        assert_eq!(Ring::new(&[]).find(1, |_| true), None);
        assert_eq!(Ring::new(&members(&[1, 1])).find(1, |_| false), None);
    }

    #[test]
    fn the_one_of_a_hundred_that_is_left_has_every_key() {
        let ring = Ring::new(&members(&[1; 100]));
        assert!((0..1000).all(|key| ring.find(mix(key), |position| position == 77) == Some(77)));
    }

    proptest! {
        #[test]
        fn buckets_find_what_a_search_of_all_points_finds(len in 1_usize..40, key in any::<u64>()) {
            let ring = Ring::new(&members(&vec![1; len]));
            for key in [key, 0, u64::MAX, ring.points[0], ring.points[len]] {
                let first = ring.points.partition_point(|point| *point < key);
                prop_assert_eq!(ring.first_point(key), Some(first));
            }
        }

        #[test]
        fn only_keys_of_the_one_that_left_move(
            len in 2_usize..12,
            gone in any::<proptest::sample::Index>(),
            keys in proptest::collection::vec(any::<u64>(), 50),
        ) {
            let all = members(&vec![1; len]);
            let gone = gone.index(all.len());
            let mut rest = all.clone();
            rest.remove(gone);
            rest.reverse();
            let (before, after) = (Ring::new(&all), Ring::new(&rest));
            for key in keys {
                let had = before.find(key, |_| true).unwrap();
                let has = after.find(key, |_| true).unwrap();
                if had != gone {
                    prop_assert_eq!(all[had], rest[has]);
                }
                prop_assert_eq!(all[before.find(key, |position| position != gone).unwrap()], rest[has]);
            }
        }

        #[test]
        fn out_for_a_while_moves_only_own_keys(
            weights in proptest::collection::vec(1_u32..200, 2..12),
            down in proptest::collection::vec(any::<bool>(), 12),
            gone in any::<proptest::sample::Index>(),
            keys in proptest::collection::vec(any::<u64>(), 50),
        ) {
            let ring = Ring::new(&members(&weights));
            let gone = gone.index(weights.len());
            for key in keys {
                let had = ring.find(key, |position| !down[position]);
                let has = ring.find(key, |position| !down[position] && position != gone);
                if had != Some(gone) {
                    prop_assert_eq!(had, has);
                }
            }
        }
    }
}
