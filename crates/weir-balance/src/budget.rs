//! A pool's retry budget: retries are limited to a share of the requests of the last seconds plus a
//! small constant, so that failing endpoints are not asked several times for every request. Time is
//! an argument; there is no lock.

use crate::sync::{AtomicU64, Ordering};

/// The length of the window in seconds; each second has one cell.
const SECONDS: usize = 10;
/// The number of retries per second that a pool may make however few its requests are.
const LEAST_PER_SECOND: u64 = 3;
/// The bits of a cell that hold its count; the upper bits hold the second that it counts.
const COUNT_BITS: u32 = 36;

/// The budget's decision about a retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a retry that was not granted is not made"]
pub enum Permit {
    /// The retry may be made; it is counted.
    Granted,
    /// The budget is spent.
    Refused,
}

/// A budget that holds: retries of the last ten seconds ≤ the share of those seconds' requests +
/// three for each second.
#[derive(Debug)]
pub struct RetryBudget {
    percent: u64,
    requests: SecondCounts,
    retries: SecondCounts,
    refused: AtomicU64,
}

impl RetryBudget {
    /// Creates a budget of `percent` of the requests.
    pub fn new(percent: u8) -> Self {
        Self {
            percent: u64::from(percent),
            requests: SecondCounts::default(),
            retries: SecondCounts::default(),
            refused: AtomicU64::new(0),
        }
    }

    /// Counts a request, at its first attempt. All calls use the same clock.
    pub fn note_request(&self, now_us: u64) {
        self.requests.add(second(now_us));
    }

    /// Asks for one retry.
    pub fn ask(&self, now_us: u64) -> Permit {
        let now = second(now_us);
        // Counted before the check: of several concurrent calls, each sees those that were granted
        // before it.
        let counted_in = self.retries.add(now);
        if self.retries.sum(now) <= self.allowed(now) {
            return Permit::Granted;
        }
        self.retries.take_back(counted_in);
        self.refused.fetch_add(1, Ordering::Relaxed);
        Permit::Refused
    }

    /// The number of retries refused so far.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    fn allowed(&self, now: u64) -> u64 {
        self.requests.sum(now) * self.percent / 100 + LEAST_PER_SECOND * SECONDS as u64
    }
}

/// The second of a time, counted from 1, so that a fresh cell belongs to none.
fn second(now_us: u64) -> u64 {
    now_us / 1_000_000 + 1
}

/// Counts by second over the window.
#[derive(Debug)]
struct SecondCounts([AtomicU64; SECONDS]);

impl Default for SecondCounts {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl SecondCounts {
    /// Counts one, and returns the second in which it was counted: a worker whose clock is behind
    /// counts in the second that another worker already began.
    fn add(&self, now: u64) -> u64 {
        let Some(cell) = self.cell(now) else { return now };
        let mut counted_in = now;
        let _ = cell.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |word| {
            let (second, count) = unpack(word);
            counted_in = second.max(now);
            Some(pack(counted_in, if second < now { 1 } else { count + 1 }))
        });
        counted_in
    }

    /// Takes one count back, unless its second has left the window.
    fn take_back(&self, counted_in: u64) {
        let Some(cell) = self.cell(counted_in) else { return };
        let _ = cell.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |word| {
            let (second, count) = unpack(word);
            (second == counted_in).then(|| pack(second, count.saturating_sub(1)))
        });
    }

    /// The sum of the counts within the window that ends now.
    fn sum(&self, now: u64) -> u64 {
        let counted = |cell: &AtomicU64| {
            let (second, count) = unpack(cell.load(Ordering::SeqCst));
            if second + SECONDS as u64 > now { count } else { 0 }
        };
        self.0.iter().map(counted).sum()
    }

    fn cell(&self, second: u64) -> Option<&AtomicU64> {
        self.0.get(second as usize % SECONDS)
    }
}

fn pack(second: u64, count: u64) -> u64 {
    second << COUNT_BITS | count.min((1 << COUNT_BITS) - 1)
}

fn unpack(word: u64) -> (u64, u64) {
    (word >> COUNT_BITS, word & ((1 << COUNT_BITS) - 1))
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    const LEAST: u64 = LEAST_PER_SECOND * SECONDS as u64;

    fn granted(budget: &RetryBudget, now_us: u64, asked: u64) -> u64 {
        (0..asked).filter(|_| budget.ask(now_us) == Permit::Granted).count() as u64
    }

    #[test]
    fn a_share_of_the_requests_and_a_few_more_are_granted() {
        let budget = RetryBudget::new(10);
        (0..1_000).for_each(|_| budget.note_request(5));
        assert_eq!(granted(&budget, 10, 1_000), 100 + LEAST);
        assert_eq!(budget.refused(), 1_000 - 100 - LEAST);
        assert_eq!(granted(&budget, 9_000_000, 1_000), 0);
        assert_eq!(granted(&budget, 10_000_000, 1_000), LEAST, "the window has moved on");
    }

    #[test]
    fn a_pool_without_requests_may_retry_a_little() {
        let budget = RetryBudget::new(0);
        assert_eq!(granted(&budget, 0, 100), LEAST);
        assert_eq!(granted(&budget, 3_600_000_000, 100), LEAST);
    }

    #[test]
    fn a_clock_that_is_behind_counts_in_the_second_that_has_begun() {
        let budget = RetryBudget::new(100);
        budget.note_request(10_000_001);
        budget.note_request(9_999_999);
        assert_eq!(granted(&budget, 10_000_001, 100), 2 + LEAST);
        assert_eq!(granted(&budget, 9_999_999, 100), 0);
    }

    #[test]
    fn threads_together_get_no_more_than_there_is() {
        for round in 0..20 {
            let budget = RetryBudget::new(50);
            (0..100).for_each(|_| budget.note_request(round));
            let ask = || granted(&budget, round, 200);
            let total: u64 = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).sum()
            });
            assert!(total <= 50 + LEAST, "{total}");
            assert_eq!(total + granted(&budget, round, 200), 50 + LEAST, "none is lost");
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Request,
        Ask,
        Pass(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            6 => Just(Step::Request),
            6 => Just(Step::Ask),
            1 => (0_u64..4_000_000).prop_map(Step::Pass),
        ]
    }

    proptest! {
        #[test]
        fn what_is_granted_is_what_a_list_of_times_would_grant(
            percent in 0_u8..=100,
            steps in proptest::collection::vec(step(), 1..400),
        ) {
            let budget = RetryBudget::new(percent);
            let (mut requests, mut retries) = (VecDeque::new(), VecDeque::new());
            let mut now_us = 0;
            for step in steps {
                let now = second(now_us);
                for times in [&mut requests, &mut retries] {
                    times.retain(|second| second + SECONDS as u64 > now);
                }
                match step {
                    Step::Request => {
                        budget.note_request(now_us);
                        requests.push_back(now);
                    }
                    Step::Ask => {
                        let allowed = requests.len() as u64 * u64::from(percent) / 100 + LEAST;
                        let fits = (retries.len() as u64) < allowed;
                        prop_assert_eq!(budget.ask(now_us) == Permit::Granted, fits);
                        if fits {
                            retries.push_back(now);
                        }
                    }
                    Step::Pass(span_us) => now_us += span_us,
                }
            }
        }
    }
}
