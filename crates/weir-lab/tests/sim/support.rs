//! Helpers to build plans and run them.

use weir_lab::sim::{
    ComparisonReport, MaxConn, QueueLimits, RequestOutcome, Scenario, SimCandidate, SimLoad,
    SimPlan, SimQueue, StateSharing, Summary, run,
};

/// A plan of one scenario and one candidate, without a queue timeout.
pub(crate) fn plan(requests: u64, load: SimLoad, service: &str) -> SimPlan {
    SimPlan {
        requests,
        queue: QueueLimits { max: u32::MAX, max_per_endpoint: None, timeout: None },
        scenarios: vec![Scenario { load, service: service.parse().unwrap() }],
        candidates: vec![candidate("least_conn", Some(1), SimQueue::On)],
        ..SimPlan::default()
    }
}

pub(crate) fn candidate(policy: &str, max_conn: Option<u32>, queue: SimQueue) -> SimCandidate {
    let (policy, max_conn) = (policy.parse().unwrap(), MaxConn(vec![max_conn]));
    SimCandidate { policy, max_conn, queue, state: StateSharing::Shared }
}

pub(crate) fn report(plan: &SimPlan) -> ComparisonReport {
    run(plan, |_, _, _| Ok(())).unwrap()
}

/// The summary of the first candidate in the first scenario.
pub(crate) fn summary(plan: &SimPlan) -> Summary {
    report(plan).scenarios[0].rows[0].summary.clone()
}

/// The outcomes of the first candidate in the first scenario.
pub(crate) fn outcomes(plan: &SimPlan) -> Vec<RequestOutcome> {
    let mut all = Vec::new();
    run(plan, |_, _, outcomes| {
        all = outcomes.to_vec();
        Ok(())
    })
    .unwrap();
    all
}
