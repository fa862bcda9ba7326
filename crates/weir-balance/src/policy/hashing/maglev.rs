//! Maglev hashing (`balance maglev`): a table of 65,537 entries that the endpoints fill in turn,
//! each in its own order, so that a lookup is one step and shares are right to a fraction of a
//! percent (Eisenbud and others, "Maglev: A Fast and Reliable Software Network Load Balancer",
//! section 3.4; weights as in Envoy's `maglev`).

use crate::policy::hashing::rendezvous::Rendezvous;
use crate::policy::hashing::xxh64::mix;

/// The table's size, a prime. Shares are exact to endpoints ÷ 65,537.
const TABLE: u64 = 65_537;

/// The endpoints of one tier in their table.
#[derive(Debug)]
pub(crate) struct Maglev {
    /// The owner of each entry.
    table: Box<[u16]>,
    /// The fallback of a lookup that finds no acceptable entry within `max_steps`.
    spare: Rendezvous,
    max_steps: usize,
}

/// An endpoint while the table is filled.
struct MaglevSeat {
    position: u16,
    weight: u64,
    /// The next entry of its own order, and the distance to the one after.
    next: u64,
    skip: u64,
    /// The entries taken so far, in units of the largest weight. The seat takes no more than its
    /// share of the turns so far.
    taken: u64,
}

impl Maglev {
    /// The table of identities with their weights; positions are indices into `members`. Members
    /// beyond 65,536 are found only if no other member is accepted.
    pub(crate) fn new(members: &[(u64, u32)]) -> Self {
        Self {
            table: fill(members),
            spare: Rendezvous::new(members),
            max_steps: members.len() * 4 + 64,
        }
    }

    /// The owner of `key`'s entry; if `accept` does not take it, the owner of another entry drawn
    /// from the key, and so on. (Adjacent entries follow each other too regularly to share the keys
    /// of a missing endpoint evenly.) After `max_steps` draws the accepted endpoint with the best
    /// rendezvous hash has the key.
    pub(crate) fn find(&self, key: u64, accept: impl Fn(usize) -> bool) -> Option<usize> {
        let mut drawn = key;
        for _ in 0..self.max_steps {
            let entry = (u128::from(drawn) * u128::from(TABLE)) >> 64;
            let owner = usize::from(*self.table.get(entry as usize)?);
            if accept(owner) {
                return Some(owner);
            }
            drawn = mix(drawn);
        }
        self.spare.find(key, accept)
    }
}

fn fill(members: &[(u64, u32)]) -> Box<[u16]> {
    let most = members.iter().map(|(_, weight)| u64::from((*weight).max(1))).max();
    let Some(most) = most else { return Box::default() };
    let mut seats = seats(members);
    let mut table: Vec<Option<u16>> = vec![None; TABLE as usize];
    let mut left = TABLE;
    for turn in 1.. {
        for seat in &mut seats {
            // In the first turn every seat takes one entry, however light it is.
            if turn * seat.weight < seat.taken {
                continue;
            }
            seat.taken += most;
            take_next(&mut table, seat);
            left -= 1;
            if left == 0 {
                return table.into_iter().map(Option::unwrap_or_default).collect();
            }
        }
    }
    Box::default()
}

/// The endpoints in the order of their identities, so that the order of filling does not depend on
/// the file.
fn seats(members: &[(u64, u32)]) -> Vec<MaglevSeat> {
    let mut order: Vec<(u64, u16, u32)> = members
        .iter()
        .zip(0..=u16::MAX)
        .map(|((identity, weight), position)| (*identity, position, *weight))
        .collect();
    order.sort_unstable();
    let seat = |(identity, position, weight): (u64, u16, u32)| MaglevSeat {
        position,
        weight: u64::from(weight.max(1)),
        next: mix(identity) % TABLE,
        skip: mix(!identity) % (TABLE - 1) + 1,
        taken: 0,
    };
    order.into_iter().map(seat).collect()
}

/// Gives the seat the first free entry of its order. A free entry is always found: the order visits
/// all entries, because the table's size is a prime.
fn take_next(table: &mut [Option<u16>], seat: &mut MaglevSeat) {
    for _ in 0..TABLE {
        let entry = table.get_mut(seat.next as usize);
        seat.next = (seat.next + seat.skip) % TABLE;
        if let Some(entry @ None) = entry {
            *entry = Some(seat.position);
            return;
        }
    }
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

    fn entries(weights: &[u32]) -> Vec<usize> {
        let table = fill(&members(weights));
        assert_eq!(table.len() as u64, TABLE);
        (0..weights.len())
            .map(|position| table.iter().filter(|owner| usize::from(**owner) == position).count())
            .collect()
    }

    #[test]
    fn shares_are_exact() {
        assert_eq!(entries(&[1]), [65_537]);
        assert_eq!(entries(&[5]), [65_537]);
        assert!(entries(&[3; 10]).iter().all(|share| [6_553, 6_554].contains(share)));
        let weighted = entries(&[1, 2, 5, 8]);
        for (share, weight) in weighted.iter().zip([1.0, 2.0, 5.0, 8.0]) {
            assert!((*share as f64 - 65_537.0 * weight / 16.0).abs() < 3.0, "{weighted:?}");
        }
        let [heavy, light] = entries(&[60_000, 1])[..] else { panic!() };
        assert!((1..=2).contains(&light) && heavy + light == 65_537);
    }

    #[test]
    fn a_table_does_not_depend_on_the_order_of_the_file() {
        let all = members(&[1, 2, 3, 4]);
        let reversed: Vec<_> = all.iter().rev().copied().collect();
        let (one, other) = (fill(&all), fill(&reversed));
        let same =
            |(one, other): (&u16, &u16)| all[usize::from(*one)] == reversed[usize::from(*other)];
        assert!(one.iter().zip(&other).all(same));
    }

    #[test]
    fn a_change_of_the_file_moves_few_other_keys() {
        let all = members(&[1; 20]);
        let before = fill(&all);
        let mut moved = Vec::new();
        for gone in 0..all.len() {
            let mut rest = all.clone();
            rest.remove(gone);
            let after = fill(&rest);
            let others = before.iter().zip(&after).filter(|(had, has)| {
                usize::from(**had) != gone && all[usize::from(**had)] != rest[usize::from(**has)]
            });
            moved.push(others.count() as f64 / TABLE as f64);
        }
        // Figure 12 of the paper shows about as much.
        assert!(moved.iter().all(|share| *share < 0.03), "{moved:?}");
    }

    #[test]
    fn no_endpoint_is_found_among_none() {
        assert_eq!(Maglev::new(&[]).find(1, |_| true), None);
        assert_eq!(Maglev::new(&members(&[1, 1])).find(1, |_| false), None);
    }

    #[test]
    fn out_for_a_while_moves_only_own_keys_and_spreads_them() {
        let maglev = Maglev::new(&members(&[1, 1, 1, 1, 2, 2]));
        let mut heirs = [0_u32; 6];
        for key in (0..60_000).map(mix) {
            let had = maglev.find(key, |_| true).unwrap();
            let has = maglev.find(key, |position| position != 5).unwrap();
            if had == 5 {
                heirs[has] += 1;
            } else {
                assert_eq!(had, has);
            }
        }
        // A quarter of the keys moves, shared by weight among the others.
        for (heir, share) in heirs.iter().zip([2_500, 2_500, 2_500, 2_500, 5_000, 0]) {
            assert!(heir.abs_diff(share) < 400, "{heirs:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(8))]
        #[test]
        fn an_endpoint_that_is_out_has_no_key_and_moves_no_other(
            weights in proptest::collection::vec(1_u32..200, 2..8),
            down in proptest::collection::vec(any::<bool>(), 8),
            gone in any::<proptest::sample::Index>(),
            keys in proptest::collection::vec(any::<u64>(), 200),
        ) {
            let maglev = Maglev::new(&members(&weights));
            let gone = gone.index(weights.len());
            for key in keys {
                let had = maglev.find(key, |position| !down[position]);
                let has = maglev.find(key, |position| !down[position] && position != gone);
                prop_assert_eq!(had.is_none(), down.iter().take(weights.len()).all(|down| *down));
                if had != Some(gone) {
                    prop_assert_eq!(had, has);
                }
            }
        }
    }
}
