//! What the runs of an experiment say: each run with the reasons to doubt it, which run comes next,
//! candidates beside each other, the knee, a change of regime. It starts no program and writes no
//! file.

mod constraint;
mod knee;
mod plan;
mod regime;
mod run;
mod verdict;

pub use constraint::{BindingConstraint, binding_constraint};
pub use knee::{KneeBand, is_within, knee, merged_times};
pub use plan::{LabStep, levels_of, next_step, remaining_steps, saturation_rate};
pub use regime::regime_change;
pub use run::{LabRun, RoleUsage};
pub use verdict::{CandidateVerdict, VerdictCell, judge, typical, value_of, verdicts};

#[cfg(test)]
pub(crate) mod tests;
