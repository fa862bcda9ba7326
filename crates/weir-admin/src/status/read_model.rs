//! The read model of the running process: its configuration, live state and counted figures at one
//! moment, of which `collect.rs` makes the status. It renders nothing.

use std::cell::OnceCell;
use std::time::SystemTime;

use tokio::time::Instant;
use weir_config::model::Overrides;
use weir_control::admin_port::Served;
use weir_proxy::process::Process;
use weir_proxy::snapshot::Snapshot;
use weir_stats::exposition::Usage;

use super::sampler::{MachineUse, SampledFigures};
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
    pub(crate) fn look(&self) -> &SampledFigures {
        self.look.get_or_init(|| self.sources.sampler.look())
    }

    /// The process's use of the machine.
    pub(crate) fn machine(&self) -> MachineUse {
        self.sources.sampler.machine(self.look().recent.figures.requests())
    }

    /// The process's use of the machine over the last ten seconds, of the readings that are there.
    pub(super) fn recent_usage(&self) -> Usage {
        self.sources.sampler.usage(self.look().recent.figures.requests())
    }

    pub(crate) fn process(&self) -> &Process {
        &self.served.process
    }

    pub(crate) fn snapshot(&self) -> &Snapshot {
        &self.served.snapshot
    }
}
