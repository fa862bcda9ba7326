//! The findings of an experiment, from its runs: each run with the reasons to doubt it, the next
//! run, candidates beside each other, the knee, a change of regime, leaks and drift. It starts no
//! program and writes no file.

mod constraint;
mod credits;
mod knee;
mod plan;
mod regime;
mod run;
mod soak;
mod trend;
mod verdict;

pub use constraint::{BindingConstraint, binding_constraint};
pub use credits::{RunCredits, predicted_end};
pub use knee::{KneeBand, is_within, knee, merged_times};
pub use plan::{LabStep, levels_of, next_step, remaining_steps, saturation_rate};
pub use regime::regime_change;
pub use run::{LabRun, RoleUsage};
pub use soak::{SoakFigure, SoakRow, SoakVerdict, soak};
pub use trend::{Trend, TrendPoint};
pub use verdict::{CandidateVerdict, VerdictCell, judge, typical, value_of, verdicts};

#[cfg(test)]
pub(crate) mod tests;
