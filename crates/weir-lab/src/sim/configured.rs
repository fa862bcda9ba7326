//! Takes a pool from a configuration into a plan. The speed and concurrency of its servers are in
//! no configuration and keep their defaults.

use weir_balance::{PassiveSettings, StallSettings};
use weir_config::model::{
    self, EndpointPassive, Passive, Pool, Retry, RetryOn, StallDetection, UpstreamTimeouts,
};

use super::plan::{MaxConn, QueueLimits, SimCandidate, SimEndpoint, SimPlan, SimQueue};
use super::state::StateSharing;

impl SimPlan {
    /// Takes the endpoints and the rules of a pool. Returns its policy, limits and queue as a
    /// candidate. Probes and sticky cookies are not simulated, and every name counts as resolved.
    pub fn take_pool(&mut self, pool: &Pool) -> SimCandidate {
        let endpoint = |endpoint: &model::Endpoint| SimEndpoint {
            name: endpoint.name.clone(),
            weight: endpoint.weight,
            tier: pool.tier(endpoint),
            order: endpoint.order,
            ejection: (endpoint.passive != EndpointPassive::default())
                .then(|| pool.ejection(endpoint)),
            slow_start_us: endpoint.slow_start.map_or(0, |time| time.as_micros() as u64),
            ..SimEndpoint::default()
        };
        self.endpoints = pool.endpoints.iter().map(endpoint).collect();
        self.passive = passive(&pool.passive);
        self.stall = stall(&pool.stall);
        self.retries = retries(&pool.retry);
        if let Some(queue) = &pool.queue {
            self.queue = queue_limits(queue, &pool.timeouts);
        }
        let limits = pool.endpoints.iter().map(|endpoint| endpoint.max_conn).collect();
        let queue = if pool.queue.is_some() { SimQueue::On } else { SimQueue::Off };
        let max_conn = MaxConn::new(limits);
        SimCandidate { policy: pool.policy.kind(), max_conn, queue, state: StateSharing::Shared }
    }
}

/// The ejection settings in the balancer's units.
pub(super) fn passive(passive: &Passive) -> PassiveSettings {
    PassiveSettings {
        errors: passive.errors,
        window_us: passive.window.as_micros() as u64,
        eject_us: passive.eject.as_micros() as u64,
        max_ejected_percent: passive.max_ejected_percent,
    }
}

/// The stall settings in the balancer's units; `None` if off.
pub(super) fn stall(stall: &StallDetection) -> Option<StallSettings> {
    (stall.factor > 0)
        .then_some(StallSettings { factor: stall.factor, floor_us: stall.floor.as_micros() as u64 })
}

/// The bounds of the queue.
pub(super) fn queue_limits(queue: &model::Queue, timeouts: &UpstreamTimeouts) -> QueueLimits {
    QueueLimits {
        max: queue.max,
        max_per_endpoint: queue.per_endpoint,
        timeout: Some(queue.timeout.unwrap_or(timeouts.connect).as_nanos() as u64),
    }
}

/// Number of further attempts after a failed connect.
pub(super) fn retries(retry: &Retry) -> u16 {
    let retried = [RetryOn::Connect, RetryOn::Refused].iter().any(|on| retry.on.contains(on));
    if retried { retry.attempts.min(u32::from(u16::MAX)) as u16 } else { 0 }
}
