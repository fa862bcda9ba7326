//! The comparison itself: each variant beside the first one, figure by figure.

use super::figures::{FigureData, RunFigure, RunSections};
use super::recorded::RecordedRun;
use super::statistics::{ConfidenceInterval, StandardError, mean_of, rejected_together};

/// The runs of a variant.
#[derive(Clone, Debug)]
pub struct ComparedVariant {
    /// Its name.
    pub name: String,
    /// Its runs, at least one.
    pub runs: Vec<RecordedRun>,
}

/// Variants and how they differ from the first.
#[derive(Clone, Debug)]
pub struct RunComparison {
    pub(super) variants: Vec<ComparedVariant>,
    pub(super) design: Design,
    pub(super) figures: Vec<ComparedFigure>,
    /// Figures that a run lacks, each with the reason.
    pub(super) left_out: Vec<String>,
}

/// The relation of the runs of different variants to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Design {
    /// In each round every variant ran once, so that what changes on the machine changes it for all
    /// of them: the rounds are compared.
    InTurns,
    /// The runs of the variants are independent of each other.
    Apart,
    /// There is one run of a variant or more: blocks of time are compared.
    OneRun,
}

/// A figure of all variants.
#[derive(Clone, Debug)]
pub(super) struct ComparedFigure {
    pub(super) figure: RunFigure,
    pub(super) name: String,
    /// By variant.
    pub(super) values: Vec<FigureData>,
    /// By variant, without the first one.
    pub(super) differences: Vec<FigureDifference>,
}

/// The difference of a figure from that of the first variant.
#[derive(Clone, Copy, Debug)]
pub(super) struct FigureDifference {
    /// The difference in a typical round, in the figure's unit.
    pub(super) absolute: f64,
    /// The quotient in a typical round: the geometric mean of those of the rounds.
    pub(super) ratio: f64,
    /// `None` if the data allow no statement on chance.
    pub(super) certainty: Option<FigureConfidence>,
}

/// The confidence in a difference.
#[derive(Clone, Copy, Debug)]
pub(super) struct FigureConfidence {
    pub(super) absolute: ConfidenceInterval,
    pub(super) ratio: ConfidenceInterval,
    /// The probability of at least such a quotient if the variants were equal.
    pub(super) p_value: f64,
    /// Set if the difference holds when all figures are considered together.
    pub(super) holds_together: bool,
}

/// The direction of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DifferenceDirection {
    Higher,
    Lower,
    NotSeen,
}

impl FigureConfidence {
    pub(super) fn outcome(&self) -> DifferenceDirection {
        if self.ratio.low > 1.0 {
            DifferenceDirection::Higher
        } else if self.ratio.high < 1.0 {
            DifferenceDirection::Lower
        } else {
            DifferenceDirection::NotSeen
        }
    }
}

impl ComparedVariant {
    /// Requests that failed or had an error status, in all runs.
    pub(super) fn faults(&self) -> u64 {
        self.runs.iter().fold(0, |sum, run| sum.saturating_add(run.faults))
    }
}

impl RunComparison {
    /// Compares variants with the first of them. Runs are put into the order of their start.
    ///
    /// # Errors
    /// One sentence if there is nothing to compare.
    pub fn of(mut variants: Vec<ComparedVariant>) -> Result<Self, String> {
        let [first, _, ..] = variants.as_mut_slice() else {
            return Err("give at least two variants to compare".to_owned());
        };
        if first.runs.is_empty() {
            return Err(format!("there is no run of {}", first.name));
        }
        for variant in &mut variants {
            if variant.runs.is_empty() {
                return Err(format!("there is no run of {}", variant.name));
            }
            variant.runs.sort_by(|one, other| one.began.cmp(&other.began));
        }
        for variant in &variants {
            let mut settings = variant.runs.iter().map(|run| &run.settings);
            let first = settings.next();
            if let (Some(first), Some(other)) = (first, settings.find(|own| Some(*own) != first)) {
                return Err(format!(
                    "runs of {} are of different loads ({first}; {other}): compare runs of one load",
                    variant.name
                ));
            }
        }
        for (number, variant) in variants.iter().enumerate() {
            if variants.iter().take(number).any(|before| before.name == variant.name) {
                let name = &variant.name;
                return Err(format!("there are two variants `{name}`: name them with NAME=RUNS"));
            }
        }
        let design = Design::of(&variants);
        let mut comparison = Self { figures: Vec::new(), left_out: Vec::new(), design, variants };
        comparison.compare();
        Ok(comparison)
    }

    fn compare(&mut self) {
        let counts =
            || self.variants.iter().flat_map(|variant| &variant.runs).map(|run| run.cpu.len());
        if counts().min() != counts().max() {
            // One process beside several, for instance.
            let runs = self.variants.iter_mut().flat_map(|variant| &mut variant.runs);
            runs.for_each(RecordedRun::join_programs);
        }
        let runs = || self.variants.iter().flat_map(|variant| &variant.runs);
        let programs = runs().map(|run| run.cpu.len()).min().unwrap_or(0);
        let all = RunFigure::all(programs);
        for figure in all {
            let by =
                if self.design == Design::OneRun { RunSections::Blocks } else { RunSections::Runs };
            let values: Option<Vec<FigureData>> =
                self.variants.iter().map(|variant| figure.of(&variant.runs, by)).collect();
            let Some(values) = values else {
                let (name, reason) = (figure.name(runs()), figure.reason_without(runs()));
                self.left_out.push(format!("{name} is left out: {reason}"));
                continue;
            };
            let Some((base, others)) = values.split_first() else { continue };
            let differences =
                others.iter().map(|other| self.design.difference(base, other)).collect();
            let name = figure.name(runs());
            self.figures.push(ComparedFigure { figure, name, values, differences });
        }
        self.judge_together();
    }

    /// Nothing is certain of variants that did not do the same work.
    fn judge_together(&mut self) {
        if self.variants.iter().any(|variant| variant.faults() > 0) {
            return;
        }
        let differences = self.figures.iter_mut().flat_map(|figure| &mut figure.differences);
        let mut certain: Vec<&mut FigureConfidence> =
            differences.filter_map(|difference| difference.certainty.as_mut()).collect();
        let p_values: Vec<f64> = certain.iter().map(|certainty| certainty.p_value).collect();
        for (certainty, holds) in certain.iter_mut().zip(rejected_together(&p_values)) {
            certainty.holds_together = holds;
        }
    }
}

impl Design {
    fn of(variants: &[ComparedVariant]) -> Self {
        let most = variants.iter().map(|variant| variant.runs.len()).max().unwrap_or(0);
        if variants.iter().any(|variant| variant.runs.len() < 2) {
            return Self::OneRun;
        }
        let round = |number: usize| {
            variants
                .iter()
                .filter_map(move |variant| Some(variant.runs.get(number)?.began.as_str()))
        };
        let is_full = variants.iter().all(|variant| variant.runs.len() == most);
        let is_ordered = (1..most).all(|number| round(number - 1).max() < round(number).min());
        if is_full && is_ordered { Self::InTurns } else { Self::Apart }
    }

    /// Compares on the scale of logarithms, where a quotient and its inverse are equally far away.
    fn difference(self, base: &FigureData, other: &FigureData) -> FigureDifference {
        let resolution = base.resolution.hypot(other.resolution);
        let scaled = self.estimate(base, other, f64::ln);
        let plain = self.estimate(base, other, |value| value);
        let (Some((ratio, scale)), Some((absolute, plain))) = (scaled, plain) else {
            return FigureDifference {
                absolute: other.whole - base.whole,
                ratio: other.whole / base.whole,
                certainty: None,
            };
        };
        let scale = scale.at_least(resolution);
        let certainty = FigureConfidence {
            absolute: plain.at_least(resolution * base.whole).interval(absolute),
            ratio: scale.interval(ratio).map(f64::exp),
            p_value: scale.p_value(ratio),
            holds_together: false,
        };
        FigureDifference { absolute, ratio: ratio.exp(), certainty: Some(certainty) }
    }

    /// The difference of two figures on a scale, with its error. Both come from the sections: a
    /// disturbed run moves the figure of all runs together, and no scatter of the others shows it.
    fn estimate(
        self,
        base: &FigureData,
        other: &FigureData,
        scale: fn(f64) -> f64,
    ) -> Option<(f64, StandardError)> {
        let scaled = |data: &FigureData| -> Vec<f64> {
            data.sections.iter().map(|section| scale(*section)).collect()
        };
        let (bases, others) = (scaled(base), scaled(other));
        let error = match self {
            Self::InTurns => {
                let differences: Vec<f64> =
                    others.iter().zip(&bases).map(|(other, base)| other - base).collect();
                StandardError::of_sections(&differences)?
            }
            Self::Apart => StandardError::of_sections(&others)?
                .of_difference(StandardError::of_sections(&bases)?),
            Self::OneRun => {
                StandardError::of_series(&others)?.of_difference(StandardError::of_series(&bases)?)
            }
        };
        Some((mean_of(&others) - mean_of(&bases), error))
    }
}
