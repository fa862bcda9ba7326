//! The sources of the status of the running process: the server's state, the counted figures and
//! the admin interface's own counts. It keeps no figures itself.

use std::sync::Arc;

use weir_control::admin_port::Operations;

use super::sampler::Sampler;
use crate::access::seats::SeatCounts;

/// The sources of the status.
pub(crate) struct StatusSources {
    pub(crate) operations: Arc<Operations>,
    pub(crate) sampler: Sampler,
    /// The counts of admin connections that were closed or refused for lack of room.
    pub(crate) seats: Arc<SeatCounts>,
}

impl StatusSources {
    pub(crate) fn new(operations: Arc<Operations>) -> Self {
        let sampler = Sampler::new(operations.process().clone());
        Self { operations, sampler, seats: Arc::default() }
    }
}
