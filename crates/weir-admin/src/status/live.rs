//! The state of pools and endpoints in the balancer, as the types that the status and the metrics
//! share. It changes no state.

use weir_balance::{AdminState, Availability, EndpointState, Health};
use weir_proxy::upstream::UpstreamPool;

use super::pool::{OperationalState, PoolCounters};

/// An endpoint's state. Maintenance takes precedence, then the states in which no request can be
/// sent to the endpoint, then draining, and last what else was observed.
pub(crate) fn state(endpoint: &EndpointState, now_us: u64) -> OperationalState {
    if endpoint.admin_state() == AdminState::Maintenance {
        OperationalState::Maintenance
    } else if endpoint.availability() == Availability::Unavailable {
        OperationalState::Unresolved
    } else if endpoint.health() == Health::Unhealthy {
        OperationalState::Down
    } else if endpoint.is_ejected(now_us) {
        OperationalState::Ejected
    } else if endpoint.admin_state() == AdminState::Draining || endpoint.is_self_draining() {
        OperationalState::Draining
    } else if endpoint.is_stalled() {
        OperationalState::Stalled
    } else {
        OperationalState::Up
    }
}

/// Returns true if requests may go to an endpoint of this pool in this state.
pub(crate) fn is_usable(pool: &UpstreamPool, state: OperationalState) -> bool {
    match state {
        OperationalState::Up | OperationalState::Stalled => true,
        OperationalState::Down => pool.balancer.is_panicking(),
        OperationalState::Draining
        | OperationalState::Maintenance
        | OperationalState::Ejected
        | OperationalState::Unresolved => false,
    }
}

/// The counters of a pool.
pub(crate) fn counters(pool: &UpstreamPool) -> PoolCounters {
    PoolCounters {
        balancer: pool.balancer.counters(),
        retries_refused: pool.retry_budget.refused(),
    }
}
