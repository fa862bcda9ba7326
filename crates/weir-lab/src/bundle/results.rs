//! An experiment with its runs: what every part of a report is derived from.

use crate::experiment::Experiment;
use crate::findings::LabRun;
use crate::lab::LabRecord;

/// An experiment with its runs.
#[derive(Clone, Copy, Debug)]
pub struct LabResults<'a> {
    /// The experiment.
    pub experiment: &'a Experiment,
    /// The facts about it as a whole.
    pub record: &'a LabRecord,
    /// Its runs.
    pub runs: &'a [LabRun],
}
