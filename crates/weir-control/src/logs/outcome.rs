//! The outcome of writing log lines to a target.

use std::io;

/// The outcome of a write.
#[derive(Default)]
pub(crate) struct WriteOutcome {
    /// The number of lines that were not written.
    pub(crate) lost: u64,
    /// The number of failed calls, including those that a second try made good.
    pub(crate) errors: u64,
    /// The error by which the last lines were lost.
    pub(crate) last: Option<io::Error>,
}

impl WriteOutcome {
    /// The outcome of a failed write, from which `lines` were not written.
    pub(crate) fn lost(lines: &[u8], error: io::Error) -> Self {
        let lost = lines.split(|byte| *byte == b'\n').count().saturating_sub(1) as u64;
        Self { lost, errors: 1, last: Some(error) }
    }
}
