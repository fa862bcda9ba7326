//! The figures that runs are compared by: of all runs of a variant together, for the reader, and of
//! each section of them, for the difference.

use hdrhistogram::Histogram;

use super::recorded::RecordedRun;
use crate::bench::report::{FEW, percent_text, samples_beyond};

/// The percentiles that are compared.
const PERCENTILES: [f64; 4] = [50.0, 90.0, 99.0, 99.9];
/// Relative error of any time: a histogram has three significant digits.
const RESOLUTION: f64 = 1e-3;
/// The kernel counts the CPU time of a process in ticks, in µs: the error of a run.
const TICK_US: f64 = 10_000.0;
/// Smallest and largest number of sections of a single run.
const SECTIONS: (usize, usize) = (5, 20);

/// A figure of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum RunFigure {
    /// A percentile of response time, in µs.
    Percentile(f64),
    /// The mean of response times, in µs.
    Mean,
    /// Requests answered per second.
    Rate,
    /// CPU time per request of the n-th program, in µs. The generator is the last one.
    Cpu(usize),
}

/// The sections of a variant's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RunSections {
    /// Each repetition is one.
    Runs,
    /// Consecutive blocks of the only run.
    Blocks,
}

/// A figure of one variant.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FigureData {
    /// The figure of all data, as it is shown: percentiles are those of merged histograms.
    pub(super) whole: f64,
    /// Its value in each section; empty if the data do not allow that.
    pub(super) sections: Vec<f64>,
    /// The error, as a share of the figure, that its values have by themselves.
    pub(super) resolution: f64,
}

impl RunFigure {
    /// All figures of runs with so many programs.
    pub(super) fn all(programs: usize) -> Vec<Self> {
        let percentiles = PERCENTILES.into_iter().map(Self::Percentile);
        percentiles.chain([Self::Mean, Self::Rate]).chain((0..programs).map(Self::Cpu)).collect()
    }

    /// Its name in reports. Programs that differ between the runs are named side by side.
    pub(super) fn name<'a>(self, runs: impl Iterator<Item = &'a RecordedRun>) -> String {
        match self {
            Self::Percentile(percent) => format!("p{}", percent_text(percent)),
            Self::Mean => "mean".to_owned(),
            Self::Rate => "rate".to_owned(),
            Self::Cpu(program) => {
                let mut names: Vec<&str> = Vec::new();
                for name in runs.filter_map(|run| Some(run.cpu.get(program)?.name.as_str())) {
                    if !names.contains(&name) {
                        names.push(name);
                    }
                }
                format!("{} CPU", names.join("/"))
            }
        }
    }

    /// The reason why runs lack it.
    pub(super) fn reason_without<'a>(
        self,
        mut runs: impl Iterator<Item = &'a RecordedRun>,
    ) -> &'static str {
        match self {
            Self::Cpu(_) => "its process ended in a run, or a run used no time that is counted",
            _ if runs.any(|run| run.answered == 0.0) => "a run has no answered request",
            _ => "a run has too few requests for it",
        }
    }

    /// Its unit.
    pub(super) fn unit(self) -> &'static str {
        if self == Self::Rate { "1/s" } else { "us" }
    }

    /// Its values; `None` if a run lacks it or has too few samples for it.
    pub(super) fn of(self, runs: &[RecordedRun], by: RunSections) -> Option<FigureData> {
        match self {
            Self::Percentile(_) | Self::Mean => {
                if let (RunSections::Blocks, [run]) = (by, runs) {
                    return self.of_blocks(run);
                }
                let each: Vec<_> = runs.iter().map(|run| &run.response).collect();
                let sections: Option<Vec<f64>> =
                    each.iter().map(|times| self.of_times(times)).collect();
                let whole = self.of_times(&merged(&each)?)?;
                Some(FigureData { whole, sections: sections?, resolution: RESOLUTION })
            }
            Self::Rate => ratio(runs, by, |run| Some((run.answered, run.seconds))),
            Self::Cpu(program) => {
                let time = |run: &RecordedRun| run.cpu.get(program)?.time_us;
                let found = ratio(runs, by, |run| Some((time(run)?, run.requests)))?;
                let all_us: f64 = runs.iter().filter_map(time).sum();
                let ticks_us = TICK_US * runs.len() as f64;
                Some(FigureData { resolution: RESOLUTION.max(ticks_us / all_us), ..found })
            }
        }
    }

    /// The figure of a single run and of its blocks; fewer and longer ones where a percentile needs
    /// more samples.
    fn of_blocks(self, run: &RecordedRun) -> Option<FigureData> {
        let whole = self.of_times(&run.response)?;
        for size in 1..=run.blocks.len() / SECTIONS.0 {
            // A shorter rest is part of the last section.
            let count = run.blocks.len() / size;
            let sections: Option<Vec<f64>> = (0..count)
                .map(|number| {
                    let end =
                        if number + 1 == count { run.blocks.len() } else { (number + 1) * size };
                    let blocks: Vec<_> = run.blocks.get(number * size..end)?.iter().collect();
                    self.of_times(&merged(&blocks)?)
                })
                .collect();
            if let Some(sections) = sections.filter(|sections| sections.len() <= SECTIONS.1) {
                return Some(FigureData { whole, sections, resolution: RESOLUTION });
            }
        }
        Some(FigureData { whole, sections: Vec::new(), resolution: RESOLUTION })
    }

    /// The figure of response times, in µs.
    fn of_times(self, times: &Histogram<u64>) -> Option<f64> {
        match self {
            Self::Percentile(percent) => {
                let is_sure = samples_beyond(percent / 100.0, times.len()) >= FEW;
                is_sure.then(|| quantile_us(times, percent / 100.0))
            }
            _ => (!times.is_empty()).then(|| times.mean() / 1e3),
        }
    }
}

/// A quantile in µs, interpolated within its bucket: runs that differ by less than a bucket would
/// otherwise seem to be the same.
fn quantile_us(times: &Histogram<u64>, quantile: f64) -> f64 {
    let rank = quantile * times.len() as f64;
    let mut below = 0.0;
    for step in times.iter_recorded() {
        let count = step.count_at_value() as f64;
        if below + count >= rank {
            let low = times.lowest_equivalent(step.value_iterated_to()) as f64;
            let width = times.highest_equivalent(step.value_iterated_to()) as f64 + 1.0 - low;
            return (low + width * (rank - below) / count) / 1e3;
        }
        below += count;
    }
    times.max() as f64 / 1e3
}

fn merged(parts: &[&Histogram<u64>]) -> Option<Histogram<u64>> {
    let (first, rest) = parts.split_first()?;
    let mut sum = (*first).clone();
    for part in rest {
        sum.add(*part).ok()?;
    }
    Some(sum)
}

/// A quotient of sums over runs, and of each run. A single run has no sections of it.
fn ratio(
    runs: &[RecordedRun],
    by: RunSections,
    parts: impl Fn(&RecordedRun) -> Option<(f64, f64)>,
) -> Option<FigureData> {
    let parts: Option<Vec<(f64, f64)>> = runs.iter().map(parts).collect();
    let parts = parts?;
    let (over, under) = parts.iter().fold((0.0, 0.0), |sum, part| (sum.0 + part.0, sum.1 + part.1));
    let is_sound = |value: &f64| value.is_finite() && *value > 0.0;
    let sections: Vec<f64> = match by {
        RunSections::Runs => parts.iter().map(|(over, under)| over / under).collect(),
        RunSections::Blocks => Vec::new(),
    };
    let whole = over / under;
    (is_sound(&whole) && sections.iter().all(is_sound)).then_some(FigureData {
        whole,
        sections,
        resolution: RESOLUTION,
    })
}
