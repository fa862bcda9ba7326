//! The sources of the status of the running process: the server's state and the counted figures. It
//! keeps no figures itself.

use std::sync::Arc;

use weir_control::admin_port::Operations;

use super::sampler::Sampler;

/// The sources of the status.
pub(crate) struct StatusSources {
    pub(crate) operations: Arc<Operations>,
    pub(crate) sampler: Sampler,
}

impl StatusSources {
    pub(crate) fn new(operations: Arc<Operations>) -> Self {
        let sampler = Sampler::new(operations.process().clone());
        Self { operations, sampler }
    }
}
