//! The settings of a pool.

use crate::policy::PolicyKind;
use crate::policy::picker::PickSettings;
use crate::state::passive::PassiveSettings;
use crate::state::pulse::StallSettings;

/// The settings of a pool.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The policy that picks endpoints.
    pub policy: PolicyKind,
    /// The rules by which failures seen in traffic eject an endpoint.
    pub passive: PassiveSettings,
    /// The bounds of the queue. With `None` no exchange waits: if all endpoints are full, the
    /// exchange is rejected.
    pub queue: Option<QueueSettings>,
    /// The rules for endpoints that stop answering; `None` disables stall detection.
    pub stall: Option<StallSettings>,
    /// The share of healthy endpoints below which probes are ignored, in percent of the first
    /// tier's endpoints that the operator left ready. Probes still count while an endpoint of a
    /// later tier is healthy. 0 disables it.
    pub panic_percent: u8,
    /// A fault to inject, for tests.
    #[doc(hidden)]
    pub fault: Fault,
}

impl Settings {
    /// Settings of a pool that picks by `policy`, never ejects, has no queue and never panics.
    pub fn new(policy: PolicyKind) -> Self {
        let passive =
            PassiveSettings { errors: 0, window_us: 0, eject_us: 0, max_ejected_percent: 100 };
        Self { policy, passive, queue: None, stall: None, panic_percent: 0, fault: Fault::None }
    }

    /// The settings of the part that picks.
    pub(crate) fn of_picks(&self) -> PickSettings {
        let Self { policy, passive, stall, panic_percent, .. } = *self;
        PickSettings { policy, passive, stall, panic_percent }
    }
}

/// The bounds of a pool's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueSettings {
    /// The largest number of exchanges that wait in the whole pool.
    pub max: u32,
    /// The largest number of exchanges that wait for one endpoint, bound to it; later ones wait for
    /// any endpoint. `None`: only `max` counts.
    pub max_per_endpoint: Option<u32>,
}

/// An injected fault (canary) that the checkers must find, and whose cost `weir sim` shows.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fault {
    /// No fault.
    #[default]
    None,
    /// The bug of HAProxy before 1.3.15.2 (2008): a released slot does not wake the pool's queue.
    ForgetsPoolQueue,
    /// The same bug without a watchdog that finds the forgotten exchanges, as in 2008.
    ForgetsPoolQueueUnwatched,
}

impl Fault {
    /// Returns true if a released slot fails to wake the pool's queue.
    pub(crate) fn forgets_pool_queue(self) -> bool {
        matches!(self, Self::ForgetsPoolQueue | Self::ForgetsPoolQueueUnwatched)
    }
}
