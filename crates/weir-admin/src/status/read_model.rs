//! The read model of the running process: its configuration, live state and counted figures at one
//! moment. The status (`collect.rs`) and the metrics (`report.rs`) are made from it; it renders
//! nothing.

use std::cell::OnceCell;
use std::time::SystemTime;

use tokio::time::Instant;
use weir_config::model::Overrides;
use weir_control::admin_port::Served;
use weir_proxy::process::Process;
use weir_proxy::snapshot::Snapshot;

use super::sampler::SampledFigures;
use super::sources::StatusSources;

/// One configuration with its live state and counted figures, taken once so that all belong to the
/// same moment.
pub(crate) struct ReadModel<'a> {
    pub(super) sources: &'a StatusSources,
    pub(super) served: Served,
    pub(super) overrides: Overrides,
    look: OnceCell<SampledFigures>,
    pub(super) now: Instant,
    pub(super) wall: SystemTime,
}

impl<'a> ReadModel<'a> {
    pub(crate) fn new(sources: &'a StatusSources) -> Self {
        Self {
            sources,
            served: sources.operations.served(),
            overrides: sources.operations.overrides(),
            look: OnceCell::new(),
            now: Instant::now(),
            wall: SystemTime::now(),
        }
    }

    /// The counted figures, read once when they are first needed.
    pub(super) fn look(&self) -> &SampledFigures {
        self.look.get_or_init(|| self.sources.sampler.look())
    }

    /// The counted figures, without another copy of them.
    pub(super) fn into_look(self) -> SampledFigures {
        self.look.into_inner().unwrap_or_else(|| self.sources.sampler.look())
    }

    pub(super) fn process(&self) -> &Process {
        &self.served.process
    }

    pub(super) fn snapshot(&self) -> &Snapshot {
        &self.served.snapshot
    }
}
