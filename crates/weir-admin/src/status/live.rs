//! The state of pools and endpoints in the balancer, as the types that the status and the metrics
//! share. It changes no state.

use weir_balance::{AdminState, Availability, EndpointState as LiveState, Health};
use weir_proxy::limiting::counts::{LimitCounts, LimitedKey};
use weir_proxy::snapshot::Snapshot;
use weir_proxy::upstream::UpstreamPool;
use weir_stats::exposition::{
    EndpointState, LimitReport, LimitedKeyReport, LimitsReport, PoolCounters,
};

/// The counts of the limits on clients and keys until `now_ns`; `None` if there are none.
pub(crate) fn limits(snapshot: &Snapshot, now_ns: u64) -> Option<LimitsReport> {
    let limiter = &snapshot.limiter;
    let limits = limiter.all();
    if limits.is_empty() {
        return None;
    }
    let (tracked, most, bytes) = limiter.table.fill(now_ns);
    let (evicted, untracked) = limiter.table.forgotten();
    Some(LimitsReport {
        limits: limits.iter().map(|counts| limit(counts, now_ns)).collect(),
        tracked: tracked as u64,
        tracked_max: most as u64,
        table_bytes: bytes as u64,
        evicted,
        untracked,
    })
}

fn limit(counts: &LimitCounts, now_ns: u64) -> LimitReport {
    let figures = counts.figures();
    let key = |own: LimitedKey| LimitedKeyReport {
        key: String::from_utf8_lossy(&own.key).into_owned(),
        count: own.count,
        over: own.over,
        last_s: now_ns.saturating_sub(own.last_ns) / 1_000_000_000,
    };
    LimitReport {
        limit: counts.key.limit.to_string(),
        bound: counts.key.bound.to_owned(),
        refused: figures.refused,
        delayed: figures.delayed,
        dry_run: figures.dry_run,
        top: counts.top().into_iter().map(key).collect(),
    }
}

/// An endpoint's state. Maintenance takes precedence, then the states in which no request can be
/// sent to the endpoint, then draining, and last what else was observed.
pub(crate) fn state(endpoint: &LiveState, now_us: u64) -> EndpointState {
    if endpoint.admin_state() == AdminState::Maintenance {
        EndpointState::Maintenance
    } else if endpoint.availability() == Availability::Unavailable {
        EndpointState::Unresolved
    } else if endpoint.health() == Health::Unhealthy {
        EndpointState::Down
    } else if endpoint.is_ejected(now_us) {
        EndpointState::Ejected
    } else if endpoint.admin_state() == AdminState::Draining {
        EndpointState::Draining
    } else if endpoint.is_stalled() {
        EndpointState::Stalled
    } else {
        EndpointState::Up
    }
}

/// Returns true if requests may go to an endpoint of this pool in this state.
pub(crate) fn is_usable(pool: &UpstreamPool, state: EndpointState) -> bool {
    match state {
        EndpointState::Up | EndpointState::Stalled => true,
        EndpointState::Down => pool.balancer.is_panicking(),
        EndpointState::Draining
        | EndpointState::Maintenance
        | EndpointState::Ejected
        | EndpointState::Unresolved => false,
    }
}

/// The counters of a pool.
pub(crate) fn counters(pool: &UpstreamPool) -> PoolCounters {
    let counters = pool.balancer.counters();
    PoolCounters {
        dispatched: counters.dispatched,
        queued: counters.queued,
        queue_full: counters.queue_full,
        full: counters.full,
        unavailable: counters.unavailable,
        gave_up: counters.gave_up,
        cancelled: counters.cancelled,
        timed_out: counters.timed_out,
        inversions: counters.inversions,
        regret_us: counters.regret_us,
        retries_refused: pool.retry.refused(),
        violations: counters.violations,
    }
}
