//! Weighted rendezvous hashing (`balance hash`): each endpoint draws a number from the key and its
//! own identity, and the best draw has the key. An endpoint that leaves moves only its own keys,
//! and a new one takes only the keys that it will have; the order of endpoints does not count.
//!
//! The draw `u` of an endpoint of weight `w` counts as `-ln(u) / w`, and the smallest wins:
//! exponential races, in which each endpoint wins as often as its weight says (Schindelhauer and
//! Schomaker, "Weighted Distributed Hash Tables"). The logarithm is computed in integers: a
//! floating-point one may differ from machine to machine.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::policy::crowd::MANY;
use crate::policy::hashing::xxh64::mix;
use crate::policy::looks;

/// The fraction bits of a logarithm. A distance is at most 64 and a weight below 2¹⁶: their product
/// fits 64 bits.
const FRACTION_BITS: u32 = 40;

/// The number of steps in the table of logarithms, as a power of two. Linear interpolation between
/// two steps is off by less than 2⁻²².
const STEPS_LOG2: u32 = 10;

static LOGARITHMS: [u64; (1 << STEPS_LOG2) + 1] = logarithms();

/// The number of best choices to try before each endpoint is asked in turn if it is acceptable.
const REFUSALS: usize = 4;

/// The endpoints of one tier by identity.
#[derive(Debug)]
pub(crate) struct Rendezvous {
    seats: Box<[RendezvousSeat]>,
    /// Set if all weights are the same, so that the draws alone decide.
    even: bool,
    /// The best seats of recent keys, if there are many seats.
    memory: Option<Memory>,
}

/// The best seats of recent keys. A look at all seats is needed only for a key that was not seen
/// recently.
#[derive(Debug)]
struct Memory {
    /// The entry of a key is numbered by the lowest bits of its hash and contains the other bits,
    /// which together are the whole key, as the hash is reversible. Its lowest bits are the seat's
    /// number plus 1; 0 if there is none.
    entries: Box<[AtomicU64]>,
    /// The lowest bits.
    mask: u64,
}

impl Memory {
    /// Creates a memory for keys of this many seats, with 16 to 32 entries for each.
    fn new(seats: usize) -> Self {
        let entries = (seats + 1).next_power_of_two() * 16;
        let mask = entries as u64 - 1;
        Self { entries: (0..entries).map(|_| AtomicU64::new(0)).collect(), mask }
    }

    /// The seat remembered for a key; otherwise the one that `find` finds.
    fn best(&self, key: u64, find: impl FnOnce() -> usize) -> usize {
        let mixed = mix(key);
        let Some(entry) = self.entries.get((mixed & self.mask) as usize) else { return find() };
        let known = entry.load(Ordering::Relaxed);
        if (known ^ mixed) & !self.mask == 0
            && let Some(seat) = (known & self.mask).checked_sub(1)
        {
            return seat as usize;
        }
        let seat = find();
        if (seat as u64) < self.mask {
            entry.store(mixed & !self.mask | (seat as u64 + 1), Ordering::Relaxed);
        }
        seat
    }
}

#[derive(Clone, Copy, Debug)]
struct RendezvousSeat {
    identity: u64,
    /// 2⁴⁸ divided by the weight.
    inverse: u64,
}

impl RendezvousSeat {
    fn new(&(identity, weight): &(u64, u32)) -> Self {
        Self { identity, inverse: (1 << 48) / u64::from(weight.clamp(1, u32::from(u16::MAX))) }
    }

    /// The rank of the seat's draw for `key`; the lowest wins.
    fn rank(&self, key: u64) -> u64 {
        let distance = distance(mix(key ^ self.identity));
        // A distance has at most 47 bits, an inverse 49.
        ((u128::from(distance) * u128::from(self.inverse)) >> 32) as u64
    }

    /// A rank of the same order for equal weights: the scores rise as the bits fall.
    fn even_rank(&self, key: u64) -> u64 {
        !mix(key ^ self.identity)
    }
}

impl Rendezvous {
    /// Seats of identities with their weights (1 to 65,535); positions are indices into `members`.
    pub(crate) fn new(members: &[(u64, u32)]) -> Self {
        let even =
            members.windows(2).all(|pair| matches!(pair, [(_, one), (_, other)] if one == other));
        Self { seats: members.iter().map(RendezvousSeat::new).collect(), even, memory: None }
    }

    /// The same seats, with a memory of recent keys if they are many.
    pub(crate) fn remembering(members: &[(u64, u32)]) -> Self {
        let memory = (members.len() > MANY).then(|| Memory::new(members.len()));
        Self { memory, ..Self::new(members) }
    }

    /// The best position for `key` among those that `accept` takes.
    pub(crate) fn find(&self, key: u64, accept: impl Fn(usize) -> bool) -> Option<usize> {
        if self.even {
            self.find_by(key, |seat| seat.even_rank(key), accept)
        } else {
            self.find_by(key, |seat| seat.rank(key), accept)
        }
    }

    fn find_by(
        &self,
        key: u64,
        rank: impl Fn(&RendezvousSeat) -> u64,
        accept: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let best = match &self.memory {
            None => lowest(&self.seats, &rank),
            Some(memory) => {
                let position = memory.best(key, || lowest(&self.seats, &rank).1);
                (self.seats.get(position).map_or(u64::MAX, &rank), position)
            }
        };
        lowest_accepted(&self.seats, best, rank, accept)
    }
}

/// The lowest rank and its position. Of two equal ranks, which occur for one key in 2⁴⁰, the first
/// wins.
fn lowest(seats: &[RendezvousSeat], rank: impl Fn(&RendezvousSeat) -> u64) -> (u64, usize) {
    // Without a branch that the processor could not predict.
    let mut best = (u64::MAX, usize::MAX);
    for (position, seat) in seats.iter().enumerate() {
        looks::count();
        let rank = rank(seat);
        best = if rank < best.0 { (rank, position) } else { best };
    }
    best
}

/// The position of the lowest rank that `accept` takes, usually that of the lowest of all.
fn lowest_accepted(
    seats: &[RendezvousSeat],
    lowest: (u64, usize),
    rank: impl Fn(&RendezvousSeat) -> u64,
    accept: impl Fn(usize) -> bool,
) -> Option<usize> {
    let mut best = lowest;
    for _ in 0..REFUSALS {
        if best.1 == usize::MAX || accept(best.1) {
            return (best.1 != usize::MAX).then_some(best.1);
        }
        let refused = best;
        best = (u64::MAX, usize::MAX);
        for drawn in seats.iter().map(&rank).zip(0..) {
            best = if drawn > refused && drawn < best { drawn } else { best };
        }
    }
    let refused = best;
    let mut best: Option<(u64, usize)> = None;
    for drawn in seats.iter().map(rank).zip(0..) {
        let is_better = drawn >= refused && best.is_none_or(|best| drawn < best);
        if is_better && accept(drawn.1) {
            best = Some(drawn);
        }
    }
    best.map(|(_, position)| position)
}

/// `-log2((bits + 1) / 2⁶⁴)` in units of 2⁻⁴⁰: never rises as `bits` does, and is 0 for the
/// largest.
fn distance(bits: u64) -> u64 {
    let Some(whole) = NonZeroU64::new(bits.wrapping_add(1)) else { return 0 };
    let zeros = whole.leading_zeros();
    // The bits after the leading one.
    let fraction = (whole.get() << zeros) << 1;
    let step = (fraction >> (64 - STEPS_LOG2)) as usize;
    let within = (fraction << STEPS_LOG2) >> 32;
    let at = |step: usize| LOGARITHMS.get(step).copied().unwrap_or_default();
    let logarithm = at(step) + (((at(step + 1) - at(step)) * within) >> 32);
    (u64::from(zeros + 1) << FRACTION_BITS) - logarithm
}

/// `log2(1 + i / 1024)` in units of 2⁻⁴⁰ for `i` from 0 to 1024, by squaring: each squaring yields
/// one binary digit.
#[expect(
    clippy::indexing_slicing,
    reason = "worked out by the compiler, which would refuse a wrong index"
)]
const fn logarithms() -> [u64; (1 << STEPS_LOG2) + 1] {
    let mut table = [0; (1 << STEPS_LOG2) + 1];
    let mut step = 0;
    while step <= 1 << STEPS_LOG2 {
        // Between 1 and 2, with 62 fraction bits.
        let mut value: u128 = (1 << 62) + ((step as u128) << (62 - STEPS_LOG2));
        let mut digits = 0;
        let mut logarithm = 0;
        while digits <= FRACTION_BITS {
            logarithm <<= 1;
            if value >= 1 << 63 {
                value >>= 1;
                logarithm |= 1;
            }
            value = (value * value) >> 62;
            digits += 1;
        }
        table[step] = logarithm;
        step += 1;
    }
    table
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

    #[test]
    fn distances_are_logarithms() {
        for bits in [0, 1, 2, 3, 1 << 20, 1 << 40, 3 << 61, u64::MAX / 3, u64::MAX - 1, u64::MAX] {
            let exact = 64.0 - ((bits as f64) + 1.0).log2();
            let own = distance(bits) as f64 / (1_u64 << FRACTION_BITS) as f64;
            assert!((own - exact).abs() < 3e-7, "{bits}: {own} and {exact}");
        }
    }

    #[test]
    fn keys_are_shared_by_weight() {
        let weights = [1, 1, 2, 4, 8, 100];
        let seats = Rendezvous::new(&members(&weights));
        let mut shares = [0_u32; 6];
        for key in 0..116_000_u64 {
            shares[seats.find(mix(key), |_| true).unwrap()] += 1;
        }
        for (share, weight) in shares.iter().zip(weights) {
            let expected = f64::from(weight) * 1000.0;
            assert!((f64::from(*share) - expected).abs() < 4.0 * expected.sqrt(), "{shares:?}");
        }
    }

    #[test]
    fn no_endpoint_is_found_among_none() {
        assert_eq!(Rendezvous::new(&[]).find(1, |_| true), None);
        assert_eq!(Rendezvous::new(&members(&[1, 1])).find(1, |_| false), None);
    }

    proptest! {
        #[test]
        fn distances_never_rise(one in any::<u64>(), other in any::<u64>()) {
            let (low, high) = (one.min(other), one.max(other));
            prop_assert!(distance(low) >= distance(high));
            prop_assert!(distance(low.saturating_add(1)) <= distance(low));
        }

        #[test]
        fn the_winner_is_that_of_the_formula(
            key in any::<u64>(),
            weights in proptest::collection::vec(1_u32..=65_535, 1..20),
        ) {
            let members = members(&weights);
            let found = Rendezvous::new(&members).find(key, |_| true).unwrap();
            let score = |position: usize| {
                let (identity, weight) = members[position];
                let draw = ((mix(key ^ identity) as f64) + 1.0) / 2.0_f64.powi(64);
                -draw.ln() / f64::from(weight)
            };
            let best = (0..members.len()).map(score).fold(f64::MAX, f64::min);
            // For scores this close the formula in floating point cannot decide either.
            prop_assert!(score(found) <= best * (1.0 + 1e-5) + 1e-10);
        }

        #[test]
        fn what_is_remembered_is_what_would_be_found(
            weights in proptest::collection::vec(1_u32..3, MANY + 1..200),
            keys in proptest::collection::vec(0_u64..300, 200),
            out in 0_usize..200,
        ) {
            let members = members(&weights);
            let (plain, remembering) = (Rendezvous::new(&members), Rendezvous::remembering(&members));
            for key in keys.into_iter().map(mix) {
                let accept = |position: usize| !(out..out + 20).contains(&position);
                prop_assert_eq!(plain.find(key, accept), remembering.find(key, accept));
            }
        }

        #[test]
        fn only_keys_of_the_one_that_left_move(
            weights in proptest::collection::vec(1_u32..10, 2..12),
            gone in any::<proptest::sample::Index>(),
            keys in proptest::collection::vec(any::<u64>(), 50),
        ) {
            let all = members(&weights);
            let gone = gone.index(all.len());
            // The endpoint is removed from the list, and the list is reordered too.
            let mut rest = all.clone();
            rest.remove(gone);
            rest.reverse();
            let (before, after) = (Rendezvous::new(&all), Rendezvous::new(&rest));
            for key in keys {
                let had = before.find(key, |_| true).unwrap();
                let has = after.find(key, |_| true).unwrap();
                if had != gone {
                    prop_assert_eq!(all[had], rest[has]);
                }
                // An endpoint that is not accepted moves the same keys as one that is removed.
                prop_assert_eq!(all[before.find(key, |position| position != gone).unwrap()], rest[has]);
            }
        }
    }
}
