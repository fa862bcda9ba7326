//! Experiment files (`experiments/*.lab`): what `weir lab` compares, under which load, and when it
//! stops. A text becomes an [`Experiment`] or the list of all its errors; `findings` says which run
//! comes next. Nothing here starts a program.

mod check;
mod directives;
mod level;
mod model;
mod reader;
mod template;

pub(crate) use check::OUTPUT_FILE;
pub use check::{is_part_name, read};
pub use directives::reference;
pub use level::{LoadLevel, RateShare};
pub use model::{
    ClientLink, CreditRules, DIRECT, Experiment, JudgedFigure, LabCandidate, LabRole,
    LatencyBudget, LoadEvent, LoadEventAction, LoadPace, PrintedConfig, RoleCores, RunOrder,
    SOAK_PERCENTILE, SoakLimits, StopLimit, StopRule, Workload,
};
pub use template::{Placeholders, ports_in};
