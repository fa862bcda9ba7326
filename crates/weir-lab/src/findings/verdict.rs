//! Candidates beside the first one: better, worse, or cannot tell. The rounds are compared, because
//! what makes the machine slower for a while is in all runs of a round. Two risks are kept: that of
//! a single figure, and that of all figures of an experiment together (Holm's rule).
//!
//! Intervals come from Student's t on the logarithms of the quotients of the rounds. A bootstrap of
//! three to five rounds is too narrow: its intervals of 95 % hold in about 80 of 100 cases (a test
//! below shows it), so it would say *better* of a candidate beside itself.

use super::plan::median;
use super::run::LabRun;
use crate::bench::report::{FEW, samples_beyond};
use crate::compare::statistics::{ConfidenceInterval, StandardError, mean_of, rejected_with_risk};
use crate::experiment::{DIRECT, Experiment, JudgedFigure, LoadLevel};

/// The risk of a wrong *better* or *worse* of one figure at one level.
const CELL_RISK: f64 = 0.01;
/// The risk that one or more of all such sentences that are called certain are wrong.
const JOINT_RISK: f64 = 0.03;
/// The fewest rounds that are compared.
const LEAST_ROUNDS: usize = 3;
/// The resolution of the quotient of two times of histograms, as a share.
const RESOLUTION: f64 = 2e-3;
/// The kernel counts the CPU time of a process in ticks, in µs: the error of a run.
const TICK_US: f64 = 10_000.0;

/// The verdict on a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CandidateVerdict {
    /// Its figure is lower.
    Better,
    /// Its figure is higher.
    Worse,
    /// Neither can be said.
    CannotTell,
}

/// One figure of a candidate at one level, beside that of the first candidate.
#[derive(Clone, Debug)]
pub struct VerdictCell {
    /// The workload.
    pub workload: String,
    /// The level.
    pub level: LoadLevel,
    /// The candidate.
    pub candidate: String,
    /// The figure.
    pub figure: JudgedFigure,
    /// The quotient: the candidate's figure divided by that of the first candidate.
    pub ratio: Option<f64>,
    /// The interval of 95 % around it.
    pub interval: Option<ConfidenceInterval>,
    /// The verdict on the candidate.
    pub verdict: CandidateVerdict,
    /// Set if it holds when all figures of the experiment are considered together.
    pub holds_together: bool,
    /// The reason why nothing can be said, or a limit of what is said.
    pub reason: String,
    /// The number of rounds compared.
    pub rounds: usize,
    p_value: Option<f64>,
}

/// All verdicts of an experiment.
pub fn verdicts(experiment: &Experiment, runs: &[LabRun]) -> Vec<VerdictCell> {
    let Some(first) = experiment.candidates.first() else { return Vec::new() };
    let base = first.role.name.as_str();
    let mut cells = Vec::new();
    for workload in &experiment.workloads {
        let mut levels: Vec<LoadLevel> = Vec::new();
        for run in runs
            .iter()
            .filter(|run| run.workload == workload.name && run.level != LoadLevel::Saturation)
        {
            if !levels.contains(&run.level) {
                levels.push(run.level);
            }
        }
        levels.sort_by(|one, other| one.number().total_cmp(&other.number()));
        for level in levels {
            let of = |name: &str| -> Vec<&LabRun> {
                let own = |run: &&LabRun| {
                    run.workload == workload.name && run.candidate == name && run.level == level
                };
                runs.iter().filter(own).collect()
            };
            let bases = of(base);
            for candidate in
                experiment.candidates.iter().skip(1).filter(|one| one.role.name != DIRECT)
            {
                let others = of(&candidate.role.name);
                if bases.is_empty() || others.is_empty() {
                    continue;
                }
                for figure in &experiment.judged {
                    let mut cell = judge(&bases, &others, *figure);
                    cell.workload.clone_from(&workload.name);
                    cell.level = level;
                    cell.candidate.clone_from(&candidate.role.name);
                    cells.push(cell);
                }
            }
        }
    }
    hold_together(&mut cells);
    cells
}

/// Marks the verdicts that hold together.
fn hold_together(cells: &mut [VerdictCell]) {
    let known: Vec<usize> =
        (0..cells.len()).filter(|index| cells[*index].p_value.is_some()).collect();
    let p_values: Vec<f64> = known.iter().filter_map(|index| cells[*index].p_value).collect();
    for (index, holds) in known.into_iter().zip(rejected_with_risk(&p_values, JOINT_RISK)) {
        cells[index].holds_together = holds && cells[index].verdict != CandidateVerdict::CannotTell;
    }
}

/// Compares the runs of two candidates at one level.
pub fn judge(bases: &[&LabRun], others: &[&LabRun], figure: JudgedFigure) -> VerdictCell {
    let mut cell = VerdictCell {
        workload: String::new(),
        level: LoadLevel::Saturation,
        candidate: String::new(),
        figure,
        ratio: None,
        interval: None,
        verdict: CandidateVerdict::CannotTell,
        holds_together: false,
        reason: String::new(),
        rounds: 0,
        p_value: None,
    };
    let pairs = |only_valid: bool| -> Vec<(f64, f64)> {
        let pair = |base: &&&LabRun| -> Option<(f64, f64)> {
            let other = others.iter().find(|other| other.repeat == base.repeat)?;
            if only_valid && !(base.is_valid_for(figure) && other.is_valid_for(figure)) {
                return None;
            }
            Some((value_of(base, figure)?, value_of(other, figure)?))
        };
        bases.iter().filter_map(|base| pair(&base)).collect()
    };
    let (all, valid) = (pairs(false), pairs(true));
    let used = if valid.len() >= LEAST_ROUNDS { &valid } else { &all };
    let quotients: Vec<f64> = used.iter().map(|(base, other)| (other / base).ln()).collect();
    cell.rounds = valid.len();
    if !quotients.is_empty() {
        cell.ratio = Some(mean_of(&quotients).exp());
    }
    if all.is_empty() {
        let too_few = bases.iter().chain(others).any(|run| !run.response.is_empty());
        let reason = if too_few { "too few samples" } else { "not measured" };
        reason.clone_into(&mut cell.reason);
        return cell;
    }
    if let Some(error) = StandardError::of_sections(&quotients) {
        let error = error.at_least(resolution(
            &valid_runs(bases, figure),
            &valid_runs(others, figure),
            figure,
        ));
        let mean = mean_of(&quotients);
        cell.interval = Some(error.interval(mean).map(f64::exp));
        cell.p_value = Some(error.p_value(mean));
    }
    let work = bases.iter().chain(others).map(|run| run.faults).sum::<u64>();
    if valid.len() < LEAST_ROUNDS {
        cell.p_value = None;
        cell.reason =
            format!("{} of {} rounds are valid; {LEAST_ROUNDS} are needed", valid.len(), all.len());
    } else if work > 0 && figure != JudgedFigure::Cpu && differs_in_faults(bases, others) {
        cell.p_value = None;
        let reason = "requests failed, so the times are not those of the same work";
        reason.clone_into(&mut cell.reason);
    } else if let (Some(p_value), Some(ratio)) = (cell.p_value, cell.ratio)
        && p_value < CELL_RISK
    {
        cell.verdict = if ratio < 1.0 { CandidateVerdict::Better } else { CandidateVerdict::Worse };
        let is_saturated = |runs: &[&LabRun]| runs.iter().any(|run| run.is_saturated());
        if figure != JudgedFigure::Cpu && (is_saturated(bases) || is_saturated(others)) {
            // Its percentiles are those of the requests that were sent in time.
            "saturated: the slowest requests are missing".clone_into(&mut cell.reason);
        }
    }
    cell
}

fn valid_runs<'a>(runs: &[&'a LabRun], figure: JudgedFigure) -> Vec<&'a LabRun> {
    runs.iter().copied().filter(|run| run.is_valid_for(figure)).collect()
}

/// The smallest difference of a figure that is none of its measurement, as a share of it.
fn resolution(bases: &[&LabRun], others: &[&LabRun], figure: JudgedFigure) -> f64 {
    if figure != JudgedFigure::Cpu {
        return RESOLUTION;
    }
    let tick = |runs: &[&LabRun]| {
        let sum_us: f64 = runs.iter().filter_map(|run| Some(run.proxy?.total_us())).sum();
        TICK_US * runs.len() as f64 / sum_us.max(1.0)
    };
    RESOLUTION.max(tick(bases).hypot(tick(others)))
}

/// Set if more than a thousandth of the requests of one side failed, and not as many of the other.
fn differs_in_faults(bases: &[&LabRun], others: &[&LabRun]) -> bool {
    let share = |runs: &[&LabRun]| {
        let (faults, intended) =
            runs.iter().fold((0, 0), |sum, run| (sum.0 + run.faults, sum.1 + run.intended));
        faults as f64 / intended.max(1) as f64
    };
    (share(bases) - share(others)).abs() > 0.001
}

/// A figure of a run; `None` if the run does not have it or has too few samples for it.
pub fn value_of(run: &LabRun, figure: JudgedFigure) -> Option<f64> {
    let value = match figure {
        JudgedFigure::Percentile(percent) => {
            let is_sure = samples_beyond(percent / 100.0, run.response.len()) >= FEW;
            is_sure.then(|| run.percentile_us(percent)).flatten()
        }
        JudgedFigure::Mean => (!run.response.is_empty()).then(|| run.response.mean() / 1e3),
        JudgedFigure::Cpu => run.cpu_per_request_us(),
    };
    value.filter(|value| value.is_finite() && *value > 0.0)
}

/// The median over runs of a figure.
pub fn typical(runs: &[&LabRun], figure: JudgedFigure) -> Option<f64> {
    median(runs.iter().filter_map(|run| value_of(run, figure)).collect())
}

#[cfg(test)]
mod tests;
