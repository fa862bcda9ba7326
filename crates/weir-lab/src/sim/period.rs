//! Detects a period in response times, as garbage collection or a cron job causes: a peak in the
//! autocorrelation of their means over time. It does not look for causes.

use super::outcome::{RequestEnd, RequestOutcome};

/// Largest number of parts of the run whose means are compared.
const BINS: usize = 1024;
/// Smallest number of requests for a meaningful mean.
const MIN_PER_BIN: usize = 4;
/// Correlations below this are taken for chance.
const THRESHOLD: f64 = 0.3;
/// Number of times that a period must fit in the run.
const MIN_PERIODS: usize = 5;

/// Number of multiples of a period at which the correlation must occur again.
const MULTIPLES: usize = 3;

/// A significant period.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Period {
    /// Length in ns.
    pub length: u64,
    /// Autocorrelation at this lag, up to 1.
    pub correlation: f64,
}

/// The strongest period of the response times by time of arrival, if there is one.
pub(crate) fn find(outcomes: &[RequestOutcome]) -> Option<Period> {
    let (means, width) = means(outcomes)?;
    find_in(&means, width)
}

/// The strongest period of means over equal parts of a run, each `width` ns long, if there is one.
pub(crate) fn find_in(means: &[f64], width: f64) -> Option<Period> {
    if means.len() < MIN_PERIODS * 4 {
        return None;
    }
    let mean = means.iter().sum::<f64>() / means.len() as f64;
    let deviations: Vec<f64> = means.iter().map(|value| value - mean).collect();
    let variance: f64 = deviations.iter().map(|value| value * value).sum();
    // All means are equal except for rounding.
    if variance <= mean * mean * 1e-9 {
        return None;
    }
    let correlation = |lag: usize| {
        let products = deviations.iter().zip(&deviations[lag..]).map(|(left, right)| left * right);
        let share = deviations.len() as f64 / (deviations.len() - lag) as f64;
        products.sum::<f64>() / variance * share
    };
    let longest = deviations.len() / MIN_PERIODS;
    let all: Vec<f64> = (0..=longest * MULTIPLES + MULTIPLES).map(correlation).collect();
    // A real period also correlates at two and three times its lag; chance does so once. A period
    // is no whole number of parts, so a multiple may be off by a part or two.
    let score = |lag: usize| {
        let at = |multiple: usize| {
            let place = lag * multiple;
            let near = all[place - multiple.min(2)..=place + multiple.min(2)].iter().copied();
            near.fold(f64::MIN, f64::max)
        };
        (1..=MULTIPLES).map(at).fold(all[lag], f64::min)
    };
    // Slow changes correlate at short lags: a period is a peak after the correlation has fallen.
    let start = all.iter().position(|value| *value < THRESHOLD / 3.0)?.max(2);
    let scores: Vec<f64> = (start..=longest).map(score).collect();
    let highest = scores.iter().copied().fold(f64::MIN, f64::max);
    if highest <= THRESHOLD {
        return None;
    }
    // Multiples of a period score as high; the shortest one is returned.
    let high: Vec<usize> =
        (0..scores.len()).skip_while(|index| scores[*index] < highest * 0.85).collect();
    let first = high.iter().copied().take_while(|index| scores[*index] >= highest * 0.85);
    let lag = start + first.max_by(|left, right| scores[*left].total_cmp(&scores[*right]))?;
    Some(Period { length: (lag as f64 * width).round() as u64, correlation: all[lag] })
}

/// Mean response times over equal parts of the run, and the length of a part in ns.
fn means(outcomes: &[RequestOutcome]) -> Option<(Vec<f64>, f64)> {
    let answered = || outcomes.iter().filter(|outcome| outcome.end == RequestEnd::Answered);
    let start = answered().next()?.arrived;
    let end = answered().next_back()?.arrived;
    let bins = BINS.min(answered().count() / MIN_PER_BIN);
    if bins < MIN_PERIODS * 4 || end <= start {
        return None;
    }
    let width = (end - start + 1) as f64 / bins as f64;
    let mut sums = vec![(0.0, 0_u32); bins];
    for outcome in answered() {
        let bin = ((outcome.arrived - start) as f64 / width) as usize;
        let (sum, count) = &mut sums[bin.min(bins - 1)];
        *sum += outcome.response as f64;
        *count += 1;
    }
    let mut last = 0.0;
    let mean = |&(sum, count): &(f64, u32)| {
        if count > 0 {
            last = sum / f64::from(count);
        }
        last
    };
    Some((sums.iter().map(mean).collect(), width))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::time::SECOND;

    /// Requests every 10 ms for 100 s; `response` gives the response time for a time of arrival.
    fn check(response: impl Fn(u64) -> u64, expected: Option<f64>) {
        let outcome = |number: u64| RequestOutcome {
            arrived: number * SECOND / 100,
            response: response(number * SECOND / 100),
            queue: 0,
            door: 0,
            position: 0,
            endpoint: Some(0),
            attempts: 1,
            end: RequestEnd::Answered,
        };
        let outcomes: Vec<RequestOutcome> = (0..10_000).map(outcome).collect();
        let found = find(&outcomes).map(|period| period.length as f64 / SECOND as f64);
        match (found, expected) {
            (Some(found), Some(expected)) => {
                assert!((found / expected - 1.0).abs() < 0.05, "{found}");
            }
            (found, expected) => assert_eq!(found, expected),
        }
    }

    #[test]
    fn a_periodic_pause_is_found() {
        let noise = |time: u64| 1_000 + super::super::draw::mix(time) % 500;
        check(
            |time| noise(time) + if time % (5 * SECOND) < SECOND / 2 { 5_000 } else { 0 },
            Some(5.0),
        );
        check(
            |time| noise(time) + if time % (2 * SECOND) < SECOND / 2 { 800 } else { 0 },
            Some(2.0),
        );
    }

    /// One request in fifty takes fifty times as long: some of them coincide at some lag.
    #[test]
    fn rare_slow_requests_have_no_period() {
        for seed in 0..50 {
            check(
                |time| {
                    if super::super::draw::mix(time + seed).is_multiple_of(50) { 500 } else { 10 }
                },
                None,
            );
        }
    }

    #[test]
    fn noise_and_trends_have_no_period() {
        check(|time| super::super::draw::mix(time) % 1_000, None);
        check(|time| time / 1_000, None);
        check(|_| 7, None);
    }
}
