//! Conditions on the number of a pool's servers that are available. It counts them when a request
//! asks; which they are is the balancer's state.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use weir_balance::Balancer;
use weir_config::model::ServerRange;

/// A test of the number of a pool's available servers.
#[derive(Debug)]
pub(crate) struct ServerCount {
    pool: Box<str>,
    range: ServerRange,
    /// The pool's balancer in the current configuration.
    balancer: ArcSwapOption<Balancer>,
}

impl ServerCount {
    pub(crate) fn new(pool: &str, range: ServerRange) -> Self {
        Self { pool: pool.into(), range, balancer: ArcSwapOption::empty() }
    }

    /// The pool's name.
    pub(crate) fn pool(&self) -> &str {
        &self.pool
    }

    pub(crate) fn range(&self) -> ServerRange {
        self.range
    }

    /// Returns true if the number of servers is in the range.
    pub(crate) fn holds(&self) -> bool {
        self.range.contains(self.available())
    }

    /// The number of available servers.
    pub(crate) fn available(&self) -> u32 {
        self.balancer.load().as_ref().map_or(0, |balancer| balancer.ready_endpoints())
    }

    /// Counts the servers of this balancer from now on.
    pub(crate) fn watch(&self, balancer: &Arc<Balancer>) {
        self.balancer.store(Some(Arc::clone(balancer)));
    }

    pub(crate) fn is_watching(&self) -> bool {
        self.balancer.load().is_some()
    }
}
