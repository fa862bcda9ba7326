//! The knee: the highest rate at which a percentile stays within a budget, with the band in which
//! repetitions place it. Only measured rates are knees.

use hdrhistogram::Histogram;

use super::run::LabRun;
use crate::bench::record::empty_histogram;
use crate::bench::report::{FEW, samples_beyond};
use crate::experiment::{LatencyBudget, LoadLevel};
use crate::sim::draw::{Draws, RandomPurpose};

/// The number of resamplings of the band, and the share of them below it and above it.
const RESAMPLINGS: usize = 1000;
const TAIL: f64 = 0.025;

/// The knee of a candidate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KneeBand {
    /// The highest rate within the budget below the first one over it; 0 if the lowest measured
    /// rate is over it.
    pub rate: f64,
    /// The band of 95 % of the resampled knees.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// The first rate over the budget; `None` if no measured rate is: the knee is at least the
    /// highest one.
    pub over: Option<f64>,
    /// A limit of its reliability; empty if there is none.
    pub doubt: &'static str,
}

/// The response times of several runs together.
pub fn merged_times<'a>(runs: impl IntoIterator<Item = &'a LabRun>) -> Histogram<u64> {
    let mut sum = empty_histogram();
    for run in runs {
        // All have the same bounds, so adding cannot fail.
        let added = sum.add(&run.response);
        debug_assert!(added.is_ok(), "histograms of runs have one shape");
    }
    sum
}

/// Set if runs of one rate are within a budget together: their merged percentile is, all requests
/// were answered in time to be measured, and at most one in a thousand failed.
pub fn is_within(runs: &[&LabRun], budget: LatencyBudget) -> bool {
    let times = merged_times(runs.iter().copied());
    let (intended, answered, faults) = runs.iter().fold((0, 0, 0), |sum, run| {
        (sum.0 + run.intended, sum.1 + run.answered, sum.2 + run.faults)
    });
    !times.is_empty()
        && answered as f64 >= 0.99 * intended as f64
        && faults as f64 <= 0.001 * intended as f64
        && times.value_at_percentile(budget.percentile) <= budget.time_ns
}

/// The knee of the runs of one candidate under one load. Runs that are not valid count only at
/// rates that have no valid one.
pub fn knee(runs: &[&LabRun], budget: LatencyBudget, seed: u64) -> Option<KneeBand> {
    let mut rates: Vec<f64> = Vec::new();
    for run in runs.iter().filter(|run| run.failure.is_none()) {
        if let LoadLevel::Rate(rate) = run.level
            && !rates.contains(&rate)
        {
            rates.push(rate);
        }
    }
    rates.sort_by(f64::total_cmp);
    let by_rate: Vec<Vec<&LabRun>> = rates
        .iter()
        .map(|rate| {
            let is_own =
                |run: &&LabRun| run.level == LoadLevel::Rate(*rate) && run.failure.is_none();
            let all: Vec<&LabRun> = runs.iter().copied().filter(is_own).collect();
            let valid: Vec<&LabRun> = all.iter().copied().filter(|run| run.is_valid()).collect();
            if valid.is_empty() { all } else { valid }
        })
        .collect();
    if by_rate.is_empty() {
        return None;
    }
    let place = |samples: &[Vec<&LabRun>]| -> (f64, Option<f64>) {
        let first_over = samples.iter().position(|runs| !is_within(runs, budget));
        let below = first_over.unwrap_or(rates.len());
        (below.checked_sub(1).map_or(0.0, |last| rates[last]), first_over.map(|first| rates[first]))
    };
    let (rate, over) = place(&by_rate);
    let beside = [Some(rate), over];
    let deciding = || {
        let rates = rates.iter().zip(&by_rate);
        rates.filter(|(rate, _)| beside.contains(&Some(**rate))).map(|(_, runs)| runs)
    };
    let doubt = if deciding().flatten().any(|run| !run.is_valid()) {
        "rests on runs that are not valid"
    } else if deciding().any(|runs| {
        let samples = merged_times(runs.iter().copied()).len();
        samples_beyond(budget.percentile / 100.0, samples) < FEW
    }) {
        "rests on fewer than ten slower requests"
    } else {
        ""
    };
    let draws = Draws::new(seed, RandomPurpose::Resample);
    let mut number = 0;
    let mut knees: Vec<f64> = (0..RESAMPLINGS)
        .map(|_| {
            let resampled: Vec<Vec<&LabRun>> = by_rate
                .iter()
                .map(|runs| {
                    (0..runs.len())
                        .map(|_| {
                            number += 1;
                            runs[draws.below(number, runs.len() as u64) as usize]
                        })
                        .collect()
                })
                .collect();
            place(&resampled).0
        })
        .collect();
    knees.sort_by(f64::total_cmp);
    let at = |share: f64| knees[((share * RESAMPLINGS as f64) as usize).min(RESAMPLINGS - 1)];
    Some(KneeBand { rate, low: at(TAIL), high: at(1.0 - TAIL), over, doubt })
}
