//! The sources of the status of the running process: the server's state and the counted figures. It
//! keeps no figures itself.

use std::sync::Arc;

use weir_control::admin_port::Operations;
use weir_stats::exposition::Report;

use super::report::Reporter;
use super::sampler::Sampler;

/// The sources of the status.
pub(crate) struct Sources {
    pub(crate) operations: Arc<Operations>,
    pub(crate) sampler: Arc<Sampler>,
    reporter: Reporter,
}

impl Sources {
    pub(crate) fn new(operations: Arc<Operations>) -> Self {
        let process = operations.process().clone();
        let sampler = Arc::new(Sampler::new(process.clone()));
        let reporter = Reporter::new(process, operations.started(), sampler.clone());
        Self { operations, sampler, reporter }
    }

    /// A report about the process at this moment, without the admin interface's own counts.
    pub(crate) fn report(&self) -> Report {
        let served = self.operations.served();
        let report = self.reporter.report(&served.live, &served.snapshot);
        Report { credits: self.operations.credits().report(), ..report }
    }
}
