//! The order of smooth weighted round robin, computed once, and a cursor that all workers advance.

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
        Self { order: smooth(&reduce(weights)), cursor: Cursor::default() }
    }

    /// The next entry in turn; `None` if there are no weights.
    #[cfg(test)]
    pub(crate) fn next(&self) -> Option<usize> {
        self.next_two().map(|(own, _)| own)
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
/// goes to the first.
fn smooth(weights: &[u64]) -> Box<[u32]> {
    let sum: u64 = weights.iter().sum();
    if sum == weights.len() as u64 {
        // Equal weights give the order as written, without the quadratic walk.
        return (0..weights.len() as u32).collect();
    }
    let mut credits = vec![0_i64; weights.len()];
    let turn = |_| {
        let mut best = (0, i64::MIN);
        for (index, (credit, weight)) in credits.iter_mut().zip(weights).enumerate() {
            *credit += *weight as i64;
            if *credit > best.1 {
                best = (index, *credit);
            }
        }
        if let Some(credit) = credits.get_mut(best.0) {
            *credit -= sum as i64;
        }
        best.0 as u32
    };
    (0..sum).map(turn).collect()
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

    proptest! {
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
