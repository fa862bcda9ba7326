//! Comparison of runs of the load generator: the figures of each, their differences with
//! confidence intervals, and what follows from them in words. It runs no load and opens no file.

mod comparison;
mod figures;
mod json;
mod recorded;
pub mod statistics;
#[cfg(test)]
mod tests;
mod text;

pub use comparison::{ComparedVariant, RunComparison};
pub use recorded::RecordedRun;
