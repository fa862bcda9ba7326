//! State that a successor would otherwise have to determine again: the keys of TLS session tickets,
//! the endpoints that are down, draining, ejected or in slow start. It is sent before the successor
//! starts, and applied before it accepts anything.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;
use tokio::time::Instant;
use weir_balance::{Balancer, EndpointState, Health};
use weir_proxy::process::Process;
use zeroize::Zeroizing;

use super::message::MigrationMessage;
use crate::health::health_log::{EndpointName, HealthChange, HealthLog, HealthState};
use crate::health::passive_notices;
use crate::migration::machine_clock::MachineClock;

/// The state passed to a successor. It must not be logged: the keys are secret.
#[derive(Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct InheritedState {
    /// The keys as [`weir_proxy::tls::Tickets::save`] writes them.
    #[serde(default)]
    tickets: Zeroizing<Vec<u8>>,
    /// The endpoints that are down, draining by their own word, ejected or in slow start.
    #[serde(default)]
    endpoints: Vec<EndpointStanding>,
}

/// An endpoint that is down, drains by its own word, is ejected or in slow start.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct EndpointStanding {
    pool: String,
    endpoint: String,
    /// Set if its probes failed.
    #[serde(default)]
    down: bool,
    /// The other statements of the endpoint about itself.
    #[serde(default)]
    reports: Vec<SelfReport>,
    /// The end of its ejection, on the machine's monotonic clock, µs.
    #[serde(default)]
    ejected_until_us: Option<u64>,
    /// The beginning of its slow start, on the machine's monotonic clock, µs.
    #[serde(default)]
    slow_since_us: Option<u64>,
}

/// A statement of an endpoint about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum SelfReport {
    /// Its agent says that it is down.
    AgentDown,
    /// Its agent gives it no weight.
    AgentDrains,
    /// It answers its probes so that it drains.
    ProbeDrains,
}

impl SelfReport {
    /// The reports of an endpoint that hold now.
    fn of(state: &EndpointState) -> Vec<Self> {
        let all = [
            (Self::AgentDown, state.agent_health() == Health::Unhealthy),
            (Self::AgentDrains, state.is_agent_draining()),
            (Self::ProbeDrains, state.is_probe_draining()),
        ];
        all.into_iter().filter_map(|(report, holds)| holds.then_some(report)).collect()
    }

    fn apply(self, balancer: &Balancer, index: usize, now_us: u64) {
        match self {
            Self::AgentDown => balancer.set_agent_health(index, Health::Unhealthy, now_us),
            Self::AgentDrains => balancer.set_agent_draining(index, true, now_us),
            Self::ProbeDrains => {
                balancer.set_probe_draining(index, true, now_us);
            }
        }
    }
}

impl std::fmt::Debug for InheritedState {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("InheritedState")
            .field("endpoints", &self.endpoints)
            .finish_non_exhaustive()
    }
}

impl InheritedState {
    /// The state of this process.
    pub(crate) fn of(process: &Process) -> Self {
        let (snapshot, clock) = (process.snapshot(), MachineClock::new());
        let now_us = process.balance_clock(Instant::now());
        let mut endpoints = Vec::new();
        for pool in &snapshot.pools {
            for (index, endpoint) in pool.endpoints.iter().enumerate() {
                let Some(state) = pool.balancer.endpoint(index) else { continue };
                let until = process.instant(state.ejected_until());
                let ejected = state.is_ejected(now_us).then(|| clock.microseconds(until));
                let down = state.probed_health() == Health::Unhealthy;
                let reports = SelfReport::of(state);
                let slow = pool.balancer.slow_for_us(index, now_us).filter(|_| ejected.is_none());
                let slow = slow.map(|passed_us| clock.microseconds.saturating_sub(passed_us));
                if down || !reports.is_empty() || ejected.is_some() || slow.is_some() {
                    endpoints.push(EndpointStanding {
                        pool: pool.name.to_string(),
                        endpoint: endpoint.name.to_string(),
                        down,
                        reports,
                        ejected_until_us: ejected,
                        slow_since_us: slow,
                    });
                }
            }
        }
        Self { tickets: snapshot.tickets().save(), endpoints }
    }

    /// Encodes the state as a message. Endpoints are left out if they do not fit into one: the
    /// successor determines their state itself.
    pub(crate) fn encode(self) -> Zeroizing<Vec<u8>> {
        let tickets = self.tickets.clone();
        let whole = MigrationMessage::InheritedState(self).encode(&[]);
        let less = || {
            MigrationMessage::InheritedState(Self { tickets, endpoints: Vec::new() }).encode(&[])
        };
        whole.or_else(|_| less()).unwrap_or_default().into()
    }

    /// Applies the state, before anything is served.
    pub(crate) fn apply(&self, process: &Process) {
        let (snapshot, clock) = (process.snapshot(), MachineClock::new());
        let now_us = process.balance_clock(Instant::now());
        for standing in &self.endpoints {
            let found = snapshot.endpoint(&standing.pool, &standing.endpoint);
            let Some((pool, index)) = found else { continue };
            if standing.down {
                pool.balancer.set_health(index, Health::Unhealthy, now_us);
            }
            for report in &standing.reports {
                report.apply(&pool.balancer, index, now_us);
            }
            if let Some(until_us) = standing.ejected_until_us {
                let until_us = process.balance_clock(clock.instant(until_us));
                pool.balancer.eject_until(index, until_us, now_us);
            }
            if let Some(since_us) = standing.slow_since_us {
                let passed_us = clock.microseconds.saturating_sub(since_us);
                pool.balancer.continue_slow_start(index, passed_us, now_us);
            }
        }
        snapshot.tickets().restore(&self.tickets);
    }

    /// Logs the state that was taken over, and the ends of its ejections when they come.
    pub(crate) fn note(self, process: &Arc<Process>, log: &Arc<HealthLog>, runtime: &Handle) {
        for standing in self.endpoints {
            let snapshot = process.snapshot();
            let found = snapshot.endpoint(&standing.pool, &standing.endpoint);
            let Some((pool, index)) = found else { continue };
            let Some(of) = EndpointName::of(pool, index) else { continue };
            let Some(state) = pool.balancer.endpoint(index) else { continue };
            let change = |to, reason: &str| {
                let (of, reason) = (of.clone(), reason.to_owned());
                log.change(process, HealthChange { of, to, reason, excerpt: String::new() });
            };
            if state.health() == Health::Unhealthy {
                change(HealthState::Down, "as the process before this one found it");
            }
            let until_us = state.ejected_until();
            if state.is_ejected(process.balance_clock(Instant::now())) {
                change(HealthState::Ejected, "by the process before this one");
                let (process, log) = (process.clone(), log.clone());
                runtime.spawn(passive_notices::end_ejection(of, until_us, process, log));
            }
        }
    }
}
