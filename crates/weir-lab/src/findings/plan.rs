//! The next run of an experiment, as a function of the runs so far: an interrupted experiment goes
//! on where it stopped, because nothing else is remembered.

use super::knee::{is_within, merged_times};
use super::run::LabRun;
use crate::experiment::{
    DIRECT, Experiment, LoadLevel, LoadPace, RunOrder, StopLimit, StopRule, Workload,
};

/// Rates nearer to each other than this share are not bisected any further.
const NEAR: f64 = 0.01;

/// The largest number of runs that find a saturation rate, of each candidate.
const MOST_SATURATIONS: u32 = 5;

/// One run.
#[derive(Clone, Debug, PartialEq)]
pub struct LabStep {
    /// The workload's name.
    pub workload: String,
    /// The candidate's name, or `direct`.
    pub candidate: String,
    /// The level.
    pub level: LoadLevel,
    /// The number of the repetition, from 0.
    pub repeat: u32,
}

impl LabStep {
    fn is_of(&self, run: &LabRun) -> bool {
        run.workload == self.workload
            && run.candidate == self.candidate
            && run.level == self.level
            && run.repeat == self.repeat
    }
}

/// The next run; `None` if the experiment is complete. `present` are the names of the candidates
/// that can be run.
pub fn next_step(experiment: &Experiment, present: &[String], runs: &[LabRun]) -> Option<LabStep> {
    let plan = LabPlan { experiment, present, runs };
    experiment.workloads.iter().find_map(|workload| plan.next_of(workload))
}

/// The largest number of runs that are still to be made, with the time of each in nanoseconds.
/// Bisections are counted as if every candidate needed all of them.
pub fn remaining_steps(experiment: &Experiment, present: &[String], runs: &[LabRun]) -> Vec<u64> {
    let plan = LabPlan { experiment, present, runs };
    let mut found = Vec::new();
    for workload in &experiment.workloads {
        let (levels, saturations) = match (&workload.pace, plan.levels(workload)) {
            (LoadPace::Shares(shares, names), levels) => {
                let levels =
                    levels.unwrap_or_else(|| (1..=shares.len()).map(unknown_rate).collect());
                (levels, plan.saturation_steps(workload, names))
            }
            (LoadPace::Levels(levels), _) => (levels.clone(), Vec::new()),
        };
        let stopped = plan.stopped(workload, &levels);
        let steps = levels.iter().flat_map(|level| {
            let mut steps = plan.order(workload, *level);
            steps.retain(|step| {
                !stopped.iter().any(|(name, at)| *name == step.candidate && level.number() > *at)
            });
            steps
        });
        let open = saturations.into_iter().chain(steps).filter(|step| !plan.is_done(step));
        let bisections = plan.most_bisections(workload, &levels);
        let count = open.count() + bisections;
        found.extend(std::iter::repeat_n(workload.duration_ns + workload.warmup_ns, count));
    }
    if plan.is_complete() { Vec::new() } else { found }
}

/// Stands for a rate that is not known yet; no run has it.
fn unknown_rate(number: usize) -> LoadLevel {
    LoadLevel::Rate(-(number as f64))
}

/// The levels of a workload in this experiment, without those of bisections; `None` if they are not
/// known yet.
pub fn levels_of(
    experiment: &Experiment,
    workload: &Workload,
    runs: &[LabRun],
) -> Option<Vec<LoadLevel>> {
    let present: Vec<String> =
        experiment.candidates.iter().map(|one| one.role.name.clone()).collect();
    LabPlan { experiment, present: &present, runs }.levels(workload)
}

/// The smallest of the saturation rates of these candidates: the median of the runs of each.
pub fn saturation_rate(runs: &[LabRun], workload: &str, names: &[String]) -> Option<f64> {
    let of = |name: &String| {
        let found = runs.iter().filter(|run| {
            run.workload == workload
                && run.candidate == *name
                && run.level == LoadLevel::Saturation
                && run.failure.is_none()
        });
        median(found.map(|run| run.achieved).collect())
    };
    names.iter().filter_map(of).min_by(f64::total_cmp)
}

struct LabPlan<'a> {
    experiment: &'a Experiment,
    present: &'a [String],
    runs: &'a [LabRun],
}

impl LabPlan<'_> {
    fn is_complete(&self) -> bool {
        self.experiment.workloads.iter().all(|workload| self.next_of(workload).is_none())
    }

    /// The largest number of runs of bisections that are still to be made.
    fn most_bisections(&self, workload: &Workload, levels: &[LoadLevel]) -> usize {
        let has_rates = match &workload.pace {
            LoadPace::Shares(..) => true,
            LoadPace::Levels(levels) => levels.iter().any(|one| matches!(one, LoadLevel::Rate(_))),
        };
        if self.experiment.budget.is_none() || !has_rates {
            return 0;
        }
        let most = (self.experiment.refine * self.experiment.repeats) as usize;
        let made = |name: &str| {
            let is_extra = |run: &&LabRun| {
                run.workload == workload.name
                    && run.candidate == name
                    && run.level != LoadLevel::Saturation
                    && !levels.contains(&run.level)
            };
            self.runs.iter().filter(is_extra).count()
        };
        self.active(workload).into_iter().map(|name| most.saturating_sub(made(name))).sum()
    }

    fn next_of(&self, workload: &Workload) -> Option<LabStep> {
        if let LoadPace::Shares(_, names) = &workload.pace {
            let open =
                self.saturation_steps(workload, names).into_iter().find(|step| !self.is_done(step));
            if open.is_some() {
                return open;
            }
        }
        let levels = self.levels(workload)?;
        for (number, level) in levels.iter().enumerate() {
            let stopped = self.stopped(workload, levels.get(..number).unwrap_or_default());
            let steps = self
                .order(workload, *level)
                .into_iter()
                .filter(|step| !stopped.iter().any(|(name, _)| *name == step.candidate));
            for step in steps {
                if !self.is_done(&step) {
                    return Some(step);
                }
            }
        }
        self.next_bisection(workload, &levels)
    }

    /// Names of candidates that can still be run: a candidate that could not be started once is
    /// out.
    fn active(&self, workload: &Workload) -> Vec<&str> {
        let has_failed = |name: &str| {
            self.runs.iter().any(|run| {
                run.candidate == name && run.workload == workload.name && run.failure.is_some()
            })
        };
        self.present.iter().map(String::as_str).filter(|name| !has_failed(name)).collect()
    }

    fn is_done(&self, step: &LabStep) -> bool {
        self.runs.iter().any(|run| step.is_of(run))
    }

    fn saturation_steps(&self, workload: &Workload, names: &[String]) -> Vec<LabStep> {
        let active = self.active(workload);
        let mut names: Vec<&str> =
            names.iter().map(String::as_str).filter(|name| active.contains(name)).collect();
        if names.is_empty() {
            // Without any of the named ones, the first candidate is the measure.
            names.extend(active.first());
        }
        let step = |repeat: u32, name: &str| LabStep {
            workload: workload.name.clone(),
            candidate: name.to_owned(),
            level: LoadLevel::Saturation,
            repeat,
        };
        (0..self.experiment.repeats.min(MOST_SATURATIONS))
            .flat_map(|repeat| names.iter().map(move |name| step(repeat, name)))
            .collect()
    }

    fn levels(&self, workload: &Workload) -> Option<Vec<LoadLevel>> {
        match &workload.pace {
            LoadPace::Levels(levels) => Some(levels.clone()),
            LoadPace::Shares(shares, names) => {
                let all: Vec<String> = self.present.to_vec();
                let rate = saturation_rate(self.runs, &workload.name, names)
                    .or_else(|| saturation_rate(self.runs, &workload.name, &all))?;
                Some(
                    shares
                        .iter()
                        .map(|share| LoadLevel::Rate((share.0 * rate).round().max(1.0)))
                        .collect(),
                )
            }
        }
    }

    /// The runs at a level in their order.
    fn order(&self, workload: &Workload, level: LoadLevel) -> Vec<LabStep> {
        let active = self.active(workload);
        let step = |name: &str, repeat: u32| LabStep {
            workload: workload.name.clone(),
            candidate: name.to_owned(),
            level,
            repeat,
        };
        let mut steps = Vec::new();
        if self.experiment.direct {
            steps.push(step(DIRECT, 0));
        }
        let repeats = 0..self.experiment.repeats;
        match self.experiment.order {
            RunOrder::Consecutive => {
                steps.extend(
                    active
                        .iter()
                        .flat_map(|name| repeats.clone().map(move |repeat| step(name, repeat))),
                );
            }
            RunOrder::Interleaved => {
                for repeat in repeats {
                    let mut names = active.clone();
                    if repeat % 2 == 1 {
                        names.reverse();
                    }
                    steps.extend(names.iter().map(|name| step(name, repeat)));
                }
            }
        }
        steps
    }

    /// The candidates that are not measured beyond these levels, with the level that stopped them.
    fn stopped(&self, workload: &Workload, levels: &[LoadLevel]) -> Vec<(String, f64)> {
        let mut found: Vec<(String, f64)> = Vec::new();
        let mut names: Vec<&str> = self.active(workload);
        names.push(DIRECT);
        for level in levels {
            for name in self.active(workload) {
                if found.iter().any(|(stopped, _)| stopped == name) {
                    continue;
                }
                let runs = self.runs_at(workload, name, *level);
                let rule = self.experiment.stops.iter().find(|rule| meets(rule, &runs));
                match rule {
                    Some(rule) if rule.each => found.push((name.to_owned(), level.number())),
                    Some(_) => {
                        let at = level.number();
                        return names.iter().map(|name| ((*name).to_owned(), at)).collect();
                    }
                    None => {}
                }
            }
        }
        found
    }

    /// The runs of a candidate at a level, if all of them were made.
    fn runs_at(&self, workload: &Workload, name: &str, level: LoadLevel) -> Vec<&LabRun> {
        let found: Vec<&LabRun> = self
            .runs
            .iter()
            .filter(|run| {
                run.workload == workload.name && run.candidate == name && run.level == level
            })
            .filter(|run| run.failure.is_none())
            .collect();
        if found.len() < self.experiment.repeats as usize { Vec::new() } else { found }
    }

    /// Halves the distance between the last rate within the budget and the first one over it.
    fn next_bisection(&self, workload: &Workload, levels: &[LoadLevel]) -> Option<LabStep> {
        let budget = self.experiment.budget?;
        for name in self.active(workload) {
            let mut rates: Vec<f64> = Vec::new();
            for run in self
                .runs
                .iter()
                .filter(|run| run.workload == workload.name && run.candidate == name)
            {
                if let LoadLevel::Rate(rate) = run.level
                    && !rates.contains(&rate)
                {
                    rates.push(rate);
                }
            }
            rates.sort_by(f64::total_cmp);
            let extra: Vec<f64> = rates
                .iter()
                .copied()
                .filter(|rate| !levels.contains(&LoadLevel::Rate(*rate)))
                .collect();
            // A rate that was interrupted goes on first.
            for rate in &extra {
                let steps = (0..self.experiment.repeats).map(|repeat| LabStep {
                    workload: workload.name.clone(),
                    candidate: name.to_owned(),
                    level: LoadLevel::Rate(*rate),
                    repeat,
                });
                if let Some(step) = steps.into_iter().find(|step| !self.is_done(step)) {
                    return Some(step);
                }
            }
            if extra.len() >= self.experiment.refine as usize {
                continue;
            }
            let over = rates.iter().position(|rate| {
                let runs = self.runs_at(workload, name, LoadLevel::Rate(*rate));
                !runs.is_empty() && !is_within(&runs, budget)
            });
            let Some((over, last)) = over.and_then(|over| Some((over, over.checked_sub(1)?)))
            else {
                continue;
            };
            let (low, high) = (rates[last], rates[over]);
            let middle = f64::midpoint(low, high).round();
            if high - low <= NEAR * high || middle <= low || middle >= high {
                continue;
            }
            let level = LoadLevel::Rate(middle);
            return Some(LabStep {
                workload: workload.name.clone(),
                candidate: name.to_owned(),
                level,
                repeat: 0,
            });
        }
        None
    }
}

/// Returns true if the runs of a candidate at a level meet a condition.
fn meets(rule: &StopRule, runs: &[&LabRun]) -> bool {
    if runs.is_empty() {
        return false;
    }
    match rule.limit {
        StopLimit::ProxyCpu(limit) => {
            let shares = runs.iter().filter_map(|run| Some(run.proxy?.share)).collect();
            median(shares).is_some_and(|share| share >= limit)
        }
        StopLimit::Percentile(percent, time_ns) => {
            let times = merged_times(runs.iter().copied());
            !times.is_empty() && times.value_at_percentile(percent) > time_ns
        }
    }
}

/// The median; of an even number of values the lower middle one.
pub(super) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len().checked_sub(1)? / 2).copied()
}

#[cfg(test)]
mod tests;
