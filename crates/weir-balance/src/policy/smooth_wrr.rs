//! The order of smooth weighted round robin, computed once, and a cursor that all workers advance.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// The length limit of the cycle. Weights are first divided by their greatest common divisor; if
/// their sum is still above this, they are scaled down to it (each at least 1), so that shares are
/// right to about one in four thousand. A pool with more endpoints than this has a cycle of about
/// its size.
const MAX_LEN: u64 = 4096;

/// nginx's smooth sequence (5, 1, 1 gives `a a b a c a a`) as a list, walked by an atomic cursor
/// instead of under a lock. A caller that may not use an entry takes the next one: the rest is the
/// same sequence without the ineligible endpoints, so that no endpoint inherits a neighbour's
/// share.
#[derive(Debug)]
pub(crate) struct SmoothWrr {
    order: Box<[u32]>,
    /// Set if all weights are the same.
    plain: bool,
    cursor: Cursor,
}

/// Every pick writes the cursor, so it has a cache line to itself; the fields beside it are only
/// read.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Cursor(AtomicU64);

impl SmoothWrr {
    /// The cycle of `weights`. Its entries are indices into `weights`.
    pub(crate) fn new(weights: &[u32]) -> Self {
        let reduced = reduce(weights);
        let plain = reduced.iter().all(|weight| *weight == 1);
        Self { order: smooth(&reduced), plain, cursor: Cursor::default() }
    }

    /// The next entry in turn; `None` if there are no weights.
    #[cfg(test)]
    pub(crate) fn next(&self) -> Option<usize> {
        self.next_two().map(|(own, _)| own)
    }

    /// Returns true if the cycle is the endpoints in file order.
    pub(crate) fn is_plain(&self) -> bool {
        self.plain
    }

    /// Skips entries.
    pub(crate) fn skip(&self, entries: u64) {
        self.cursor.0.fetch_add(entries, Ordering::Relaxed);
    }

    /// The next entry in turn, and the one after it.
    pub(crate) fn next_two(&self) -> Option<(usize, usize)> {
        let len = self.order.len();
        let turn = self.cursor.0.fetch_add(1, Ordering::Relaxed);
        let place = turn.checked_rem(len as u64)? as usize;
        let own = *self.order.get(place)? as usize;
        let after = self.order.get(place + 1).or_else(|| self.order.first())?;
        Some((own, *after as usize))
    }
}

/// Weights in the same proportion whose sum is at most [`MAX_LEN`], or about their number.
fn reduce(weights: &[u32]) -> Vec<u64> {
    let divisor =
        weights.iter().fold(0, |divisor, weight| greatest_common_divisor(divisor, *weight)).max(1);
    let weights: Vec<u64> =
        weights.iter().map(|weight| u64::from((weight / divisor).max(1))).collect();
    let sum: u64 = weights.iter().sum();
    if sum <= MAX_LEN {
        return weights;
    }
    weights.iter().map(|weight| ((weight * MAX_LEN + sum / 2) / sum).max(1)).collect()
}

fn greatest_common_divisor(left: u32, right: u32) -> u32 {
    if right == 0 { left } else { greatest_common_divisor(right, left % right) }
}

/// nginx's algorithm: each credit gains its weight; the highest is picked and pays the sum; a tie
/// goes to the first. Of endpoints of one weight the one that was picked least often has the
/// highest credit, so they are picked in turn, and only one endpoint of each weight is compared. As
/// the sum is bounded, there are few different weights.
fn smooth(weights: &[u64]) -> Box<[u32]> {
    let sum: u64 = weights.iter().sum();
    let mut groups: BTreeMap<u64, WeightGroup> = BTreeMap::new();
    for (index, weight) in (0..).zip(weights) {
        groups.entry(*weight).or_default().indexes.push(index);
    }
    let turn = |_| {
        let credits = groups.iter_mut().filter_map(|(weight, group)| {
            group.gained += *weight as i64;
            let index = *group.indexes.get(group.next)?;
            Some((group.gained - group.paid, Reverse(index), group))
        });
        let best = credits.max_by_key(|(credit, index, _)| (*credit, *index));
        best.map_or(0, |(_, Reverse(index), group)| {
            group.next += 1;
            if group.next == group.indexes.len() {
                group.next = 0;
                group.paid += sum as i64;
            }
            index
        })
    };
    (0..sum).map(turn).collect()
}

/// The endpoints of one weight.
#[derive(Default)]
struct WeightGroup {
    /// In file order.
    indexes: Vec<u32>,
    /// The place of the next to be picked in `indexes`. Those before it were picked once more.
    next: usize,
    /// The sum of the weights that each of them was credited.
    gained: i64,
    /// The sum that the next to be picked has paid.
    paid: i64,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(weights: &[u32], expected: &str) {
        let cycle = SmoothWrr::new(weights);
        let names: String =
            (0..expected.len()).map(|_| (b'a' + cycle.next().unwrap() as u8) as char).collect();
        assert_eq!(names, expected, "{weights:?}");
    }

    #[test]
    fn the_sequence_is_nginx_s() {
        check(&[5, 1, 1], "aabacaaaabacaa");
        check(&[50, 10, 10], "aabacaaaabacaa");
        check(&[1, 1, 1], "abcabc");
        check(&[7], "aaa");
        check(&[2, 1], "abaaba");
        check(&[1, 2, 3], "cbacbccbacbc");
        check(&[65535, 65535], "abab");
    }

    #[test]
    fn no_weights_have_no_turn() {
        assert_eq!(SmoothWrr::new(&[]).next(), None);
    }

    #[test]
    fn a_long_cycle_is_bounded_and_keeps_everybody() {
        let cycle = SmoothWrr::new(&[65535, 65533, 1]);
        assert!(cycle.order.len() as u64 <= MAX_LEN + 3);
        assert!((0..3).all(|index| cycle.order.contains(&index)));
        assert_eq!(SmoothWrr::new(&vec![3; 10_000]).order.len(), 10_000);
    }

    /// nginx's algorithm as written, endpoint by endpoint.
    fn reference(weights: &[u64]) -> Vec<u32> {
        let sum: i64 = weights.iter().sum::<u64>() as i64;
        let mut credits = vec![0; weights.len()];
        let turn = |_| {
            let mut best = 0;
            for (index, weight) in weights.iter().enumerate() {
                credits[index] += *weight as i64;
                if credits[index] > credits[best] {
                    best = index;
                }
            }
            credits[best] -= sum;
            best as u32
        };
        (0..sum).map(turn).collect()
    }

    proptest! {
        #[test]
        fn the_sequence_is_that_of_the_algorithm(weights in proptest::collection::vec(1_u64..40, 1..60)) {
            prop_assert_eq!(smooth(&weights).to_vec(), reference(&weights));
        }

        #[test]
        fn shares_over_a_cycle_are_the_weights(weights in proptest::collection::vec(1_u32..50, 1..12)) {
            let divisor = weights.iter().fold(0, |divisor, weight| greatest_common_divisor(divisor, *weight));
            let cycle = SmoothWrr::new(&weights);
            let mut counts = vec![0; weights.len()];
            for _ in 0..cycle.order.len() {
                counts[cycle.next().unwrap()] += divisor;
            }
            prop_assert_eq!(counts, weights);
        }
    }
}
