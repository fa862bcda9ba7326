//! Shared and separate state: the balancers of an instance's workers, and the assignment of
//! requests to workers. Weir's workers share one balancer; those of a proxy with several processes
//! have one each, and the simulation shows the cost of that.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use weir_balance::{
    Balancer, Counters, EndpointState, Fault, Member, QueueSettings, Settings, hash_key,
};

use super::draw::{Draws, RandomPurpose};
use super::plan::{SimCandidate, SimEndpoint, SimPlan, SimQueue};

/// Largest number of workers of a simulated instance.
pub(crate) const MAX_WORKERS: u32 = 1_000;

/// Shared or separate limits, queues and policy state of the workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StateSharing {
    /// One balancer for all workers, as in Weir.
    #[default]
    Shared,
    /// A balancer for each worker, with its own limits, queue and round-robin position: HAProxy's
    /// `nbproc`, and nginx without `zone`.
    PerProcess,
}

/// Assignment of requests to workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spread {
    /// A client stays with the worker that accepted its connection.
    #[default]
    Connection,
    /// Every request arrives over a new connection.
    Request,
}

impl FromStr for StateSharing {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "shared" => Ok(Self::Shared),
            "per-process" => Ok(Self::PerProcess),
            _ => Err(format!("`{text}` is no state: use shared or per-process")),
        }
    }
}

impl fmt::Display for StateSharing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Shared => "shared",
            Self::PerProcess => "per-process",
        })
    }
}

/// The balancers of a run: one for all workers, or one for each.
pub(crate) struct Pools {
    by_worker: Vec<Arc<Balancer>>,
    spread: Spread,
    draws: Draws,
    /// Largest number of requests that waited at once, over all workers.
    longest: u64,
}

impl Pools {
    pub(crate) fn new(plan: &SimPlan, candidate: &SimCandidate) -> Self {
        let count = match candidate.state {
            StateSharing::Shared => 1,
            StateSharing::PerProcess => plan.workers,
        };
        Self {
            by_worker: (0..count).map(|_| pool(plan, candidate)).collect(),
            spread: plan.spread,
            draws: Draws::new(plan.seed, RandomPurpose::Worker),
            longest: 0,
        }
    }

    /// The index of the balancer for a request, by request number or client.
    pub(crate) fn worker_of(&self, request: u64, client: u64) -> usize {
        let number = match self.spread {
            Spread::Connection => client,
            Spread::Request => request,
        };
        self.draws.below(number, self.by_worker.len() as u64) as usize
    }

    /// The balancer of a worker.
    pub(crate) fn of(&self, worker: usize) -> &Arc<Balancer> {
        &self.by_worker[worker]
    }

    /// Ends timed states of all balancers that have expired.
    pub(crate) fn tick(&self, now_us: u64) {
        for pool in &self.by_worker {
            pool.tick(now_us);
        }
    }

    /// Records the queue length after a request started to wait.
    pub(crate) fn note_queue(&mut self) {
        // A single balancer counts this itself.
        if self.by_worker.len() > 1 {
            let waiting = self.by_worker.iter().map(|pool| pool.queue_length().now).sum();
            self.longest = self.longest.max(waiting);
        }
    }

    /// The counters of all balancers together. A balancer does not know the state of the others, so
    /// `regret_us` leaves out what that costs.
    pub(crate) fn counters(&self) -> Counters {
        let mut sum = Counters::default();
        for pool in &self.by_worker {
            let one = pool.counters();
            sum.dispatched += one.dispatched;
            sum.queued += one.queued;
            sum.queue_full += one.queue_full;
            sum.full += one.full;
            sum.unavailable += one.unavailable;
            sum.gave_up += one.gave_up;
            sum.cancelled += one.cancelled;
            sum.timed_out += one.timed_out;
            sum.inversions += one.inversions;
            sum.regret_us += one.regret_us;
            sum.violations += one.violations;
        }
        sum
    }

    /// The highest number that waited at once at all balancers.
    pub(crate) fn longest_queue(&self) -> u64 {
        let by_one = self.by_worker.iter().map(|pool| pool.queue_length().longest);
        by_one.fold(self.longest, u64::max)
    }
}

fn pool(plan: &SimPlan, candidate: &SimCandidate) -> Arc<Balancer> {
    let settings = Settings {
        passive: plan.passive,
        stall: plan.stall,
        queue: (candidate.queue != SimQueue::Off).then_some(QueueSettings {
            max: plan.queue.max,
            max_per_endpoint: plan.queue.max_per_endpoint,
        }),
        fault: match candidate.queue {
            SimQueue::Buggy => Fault::ForgetsPoolQueue,
            SimQueue::On | SimQueue::Off => Fault::None,
        },
        ..Settings::new(candidate.policy)
    };
    let member = |(index, endpoint): (usize, &SimEndpoint)| Member {
        identity: hash_key(endpoint.name_at(index).as_bytes()),
        weight: endpoint.weight,
        max_conn: candidate.max_conn.of(index),
        tier: endpoint.tier,
        ejection: endpoint.ejection,
        slow_start_us: endpoint.slow_start_us,
        state: Arc::new(EndpointState::default()),
    };
    let pool = Balancer::new(settings, plan.endpoints.iter().enumerate().map(member).collect());
    for (index, endpoint) in plan.endpoints.iter().enumerate() {
        pool.set_admin_state(index, endpoint.order, 0);
    }
    pool
}

/// The lead of endpoints over the share of requests that their weights give them.
#[derive(Debug)]
pub(crate) struct WeightShares {
    /// The share due to each endpoint, 0 to 1.
    due: Vec<f64>,
    got: Vec<u64>,
    all: u64,
    most_ahead: f64,
}

impl WeightShares {
    pub(crate) fn new(plan: &SimPlan) -> Self {
        let weight = |endpoint: &SimEndpoint| {
            if plan.is_regular(endpoint) { f64::from(endpoint.weight) } else { 0.0 }
        };
        let sum: f64 = plan.endpoints.iter().map(weight).sum();
        Self {
            due: plan.endpoints.iter().map(|endpoint| weight(endpoint) / sum.max(1.0)).collect(),
            got: vec![0; plan.endpoints.len()],
            all: 0,
            most_ahead: 0.0,
        }
    }

    /// Records a dispatch to an endpoint.
    pub(crate) fn dispatched(&mut self, endpoint: usize) {
        self.all += 1;
        self.got[endpoint] += 1;
        let ahead = self.got[endpoint] as f64 - self.due[endpoint] * self.all as f64;
        self.most_ahead = self.most_ahead.max(ahead);
    }

    /// Largest number of requests of an endpoint beyond its share so far. Below 1 the distribution
    /// is exact.
    pub(crate) fn most_ahead(&self) -> f64 {
        self.most_ahead
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_read_and_written() {
        for state in [StateSharing::Shared, StateSharing::PerProcess] {
            assert_eq!(state.to_string().parse(), Ok(state));
        }
        let message = "per-thread".parse::<StateSharing>().unwrap_err();
        assert!(message.contains("shared or per-process"), "{message}");
    }

    #[test]
    fn shares_follow_weights() {
        let weight = |weight| SimEndpoint { weight, ..SimEndpoint::default() };
        let plan = SimPlan { endpoints: vec![weight(3), weight(1)], ..SimPlan::default() };
        let mut shares = WeightShares::new(&plan);
        for endpoint in [0, 0, 1, 0] {
            shares.dispatched(endpoint);
        }
        assert!((shares.most_ahead() - 0.5).abs() < 1e-9, "{}", shares.most_ahead());
        for endpoint in [1, 1] {
            shares.dispatched(endpoint);
        }
        assert!((shares.most_ahead() - 1.5).abs() < 1e-9, "{}", shares.most_ahead());
    }
}
