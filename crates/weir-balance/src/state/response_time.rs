//! The average response time of an endpoint, for the policies that compare it: an exponentially
//! weighted moving average over time, not over the number of responses. It falls while no response
//! comes, so that an endpoint is tried again after a slow one. Nothing here waits or decides.

use std::f64::consts::LN_2;

use crate::sync::{AtomicU64, Ordering};

/// The shape of an average.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AveragingRule {
    /// The time in which the weight of a sample halves, µs.
    half_life_us: u64,
    /// Set if a sample above the average replaces it.
    peak: bool,
}

impl AveragingRule {
    /// The rule by which the weight of a sample falls to 1/e within `decay_us`.
    pub(crate) fn new(decay_us: u64, peak: bool) -> Self {
        // The half-life is ln 2 of the decay.
        let half_life_us = u128::from(decay_us) * 693_147 / 1_000_000;
        Self { half_life_us: u64::try_from(half_life_us).unwrap_or(u64::MAX).max(1), peak }
    }

    /// The part that is left after `passed_us`, from 0 to 1. It never rises with time.
    fn left_after(self, passed_us: u64) -> f64 {
        let halvings = passed_us / self.half_life_us;
        let rest = (passed_us % self.half_life_us) as f64 / self.half_life_us as f64;
        // 2^-rest, by operations that give the same result on every machine.
        let part = POWERS.iter().rev().fold(0.0, |sum, factor| sum * rest + factor);
        match i32::try_from(halvings) {
            Ok(halvings) if halvings < 1000 => part * 0.5_f64.powi(halvings),
            _ => 0.0,
        }
    }
}

/// The series of 2^-x, of which the last factor makes it exactly a half at 1.
const POWERS: [f64; 6] = [1.0, -LN_2, 0.240_226_5, -0.055_504_1, 0.009_618_1, -0.001_193_3];

/// The shortest average, µs: no average is 0, so that the load always counts.
const LEAST_US: f64 = 1.0;
/// The longest average, µs.
const MOST_US: f64 = 3_600_000_000.0;
/// The average after a failure of an endpoint that has not responded yet, µs.
const FAILED_US: f64 = 1000.0;

/// The average response time of an endpoint.
#[derive(Debug)]
pub(crate) struct AverageResponseTime {
    /// The average at the latest sample, µs, as the bits of a float; 0 before the first.
    average: AtomicU64,
    /// The time of the latest sample, µs.
    at_us: AtomicU64,
}

impl AverageResponseTime {
    pub(crate) fn new() -> Self {
        Self { average: AtomicU64::new(0), at_us: AtomicU64::new(0) }
    }

    /// Notes a response that took `took_us`.
    pub(crate) fn note(&self, took_us: u64, now_us: u64, rule: AveragingRule) {
        let sample = (took_us as f64).clamp(LEAST_US, MOST_US);
        self.change(now_us, rule, |average, left| match average {
            None => sample,
            Some(average) if rule.peak && sample > average => sample,
            Some(average) => average * left + sample * (1.0 - left),
        });
    }

    /// Notes a failure, which says nothing about the time: it doubles the average, or an endpoint
    /// that fails fast would be the best one.
    pub(crate) fn note_failure(&self, now_us: u64, rule: AveragingRule) {
        self.change(now_us, rule, |average, left| match average {
            None => FAILED_US,
            Some(average) => 2.0 * (average * left).max(LEAST_US),
        });
    }

    /// The average at `now_us`, µs, at least [`LEAST_US`]; `None` before the first response.
    pub(crate) fn at(&self, now_us: u64, rule: AveragingRule) -> Option<f64> {
        let average = average_of(self.average.load(Ordering::Relaxed))?;
        let passed_us = now_us.saturating_sub(self.at_us.load(Ordering::Relaxed));
        Some((average * rule.left_after(passed_us)).max(LEAST_US))
    }

    /// Replaces the average. Each of several workers at once gets a part of the time since the
    /// sample before, so that no time counts twice.
    fn change(&self, now_us: u64, rule: AveragingRule, next: impl Fn(Option<f64>, f64) -> f64) {
        let before_us = self.at_us.fetch_max(now_us, Ordering::AcqRel);
        let left = rule.left_after(now_us.saturating_sub(before_us));
        let change = |bits: u64| {
            let next = next(average_of(bits), left);
            Some(next.clamp(LEAST_US, MOST_US).to_bits())
        };
        let _ = self.average.fetch_update(Ordering::AcqRel, Ordering::Relaxed, change);
    }
}

fn average_of(bits: u64) -> Option<f64> {
    (bits != 0).then(|| f64::from_bits(bits))
}

#[cfg(all(test, not(feature = "shuttle")))]
#[expect(clippy::float_cmp, reason = "these values are exact")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: u64 = 1_000_000;

    fn rule(peak: bool) -> AveragingRule {
        AveragingRule::new(10 * SECOND, peak)
    }

    #[test]
    fn the_part_that_is_left_is_the_exponential_one() {
        for tenths in 0..200 {
            let passed_us = tenths * SECOND / 10;
            let expected = (-(tenths as f64) / 100.0).exp();
            let left = rule(false).left_after(passed_us);
            assert!((left / expected - 1.0).abs() < 0.001, "{left}, not {expected}");
        }
        assert_eq!(rule(false).left_after(u64::MAX), 0.0);
    }

    #[test]
    fn a_peak_rises_at_once_and_falls_slowly() {
        let (peak, plain) = (AverageResponseTime::new(), AverageResponseTime::new());
        let both = |took_us, now_us| {
            peak.note(took_us, now_us, rule(true));
            plain.note(took_us, now_us, rule(false));
        };
        both(1_000, SECOND);
        both(100_000, SECOND + SECOND / 10);
        let at = |now_us| (peak.at(now_us, rule(true)), plain.at(now_us, rule(false)));
        let (high, low) = at(SECOND + SECOND / 10);
        assert_eq!(high, Some(100_000.0));
        assert!((1_900.0..2_100.0).contains(&low.unwrap()), "{low:?}");
        (12..=112).for_each(|tenths| both(1_000, tenths * SECOND / 10));
        let (high, _) = at(11 * SECOND + SECOND / 5);
        assert!((36_000.0..38_500.0).contains(&high.unwrap()), "{high:?}");
    }

    #[test]
    fn an_average_falls_while_nothing_comes_and_a_failure_doubles_it() {
        let average = AverageResponseTime::new();
        assert_eq!(average.at(0, rule(true)), None);
        average.note(10 * SECOND, 0, rule(true));
        let at = |now_us| average.at(now_us, rule(true)).unwrap();
        // One answer of ten seconds counts less than answers of 5 ms after 76 s.
        assert!(at(70 * SECOND) > 5_000.0 && at(80 * SECOND) < 5_000.0);
        assert_eq!(at(u64::MAX), LEAST_US);
        average.note(1_000, 80 * SECOND, rule(true));
        let before = at(80 * SECOND);
        average.note_failure(80 * SECOND, rule(true));
        assert_eq!(at(80 * SECOND), 2.0 * before);
        (0..100).for_each(|_| average.note_failure(80 * SECOND, rule(true)));
        assert_eq!(at(80 * SECOND), MOST_US);
    }

    proptest! {
        #[test]
        fn an_average_stays_between_its_samples(
            samples in proptest::collection::vec((1_u64..60_000_000, 0_u64..20_000_000), 1..50),
            peak: bool,
        ) {
            let (average, mut now_us) = (AverageResponseTime::new(), 0);
            for (took_us, later_us) in &samples {
                now_us += later_us;
                average.note(*took_us, now_us, rule(peak));
                let at = average.at(now_us, rule(peak)).unwrap();
                prop_assert!(!peak || at >= *took_us as f64 * 0.999_999);
            }
            let least = samples.iter().map(|(took_us, _)| *took_us).min().unwrap() as f64;
            let most = samples.iter().map(|(took_us, _)| *took_us).max().unwrap() as f64;
            let at = average.at(now_us, rule(peak)).unwrap();
            prop_assert!(at >= least * 0.999_999 && at <= most * 1.000_001, "{}", at);
        }

        #[test]
        fn an_average_never_rises_with_time_alone(
            took_us in 1_u64..60_000_000,
            steps in proptest::collection::vec(0_u64..5_000_000, 1..50),
        ) {
            let average = AverageResponseTime::new();
            average.note(took_us, 0, rule(false));
            let (mut now_us, mut before) = (0, f64::MAX);
            for step_us in steps {
                now_us += step_us;
                let at = average.at(now_us, rule(false)).unwrap();
                prop_assert!(at <= before);
                before = at;
            }
        }
    }

    /// Samples of one value from many threads at once leave that value.
    #[test]
    fn threads_leave_an_average_of_their_samples() {
        let average = AverageResponseTime::new();
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                let average = &average;
                scope.spawn(move || {
                    for turn in 0..5_000 {
                        average.note(1_000 + turn % 11 * 100, turn * 4 + thread, rule(false));
                    }
                });
            }
        });
        let at = average.at(20_000, rule(false)).unwrap();
        assert!((1_000.0..=2_000.0).contains(&at), "{at}");
    }
}
