//! Helpers to build plans and run them.

use weir_lab::sim::{
    Candidate, Load, MaxConn, Outcome, Plan, Queue, QueueLimits, Report, Scenario, State, Summary,
    run,
};

/// A plan of one scenario and one candidate, without a queue timeout.
pub(crate) fn plan(requests: u64, load: Load, service: &str) -> Plan {
    Plan {
        requests,
        queue: QueueLimits { max: u32::MAX, max_per_endpoint: None, timeout: None },
        scenarios: vec![Scenario { load, service: service.parse().unwrap() }],
        candidates: vec![candidate("least_conn", Some(1), Queue::On)],
        ..Plan::default()
    }
}

pub(crate) fn candidate(policy: &str, max_conn: Option<u32>, queue: Queue) -> Candidate {
    let (policy, max_conn) = (policy.parse().unwrap(), MaxConn(vec![max_conn]));
    Candidate { policy, max_conn, queue, state: State::Shared }
}

pub(crate) fn report(plan: &Plan) -> Report {
    run(plan, |_, _, _| Ok(())).unwrap()
}

/// The summary of the first candidate in the first scenario.
pub(crate) fn summary(plan: &Plan) -> Summary {
    report(plan).scenarios[0].rows[0].summary.clone()
}

/// The outcomes of the first candidate in the first scenario.
pub(crate) fn outcomes(plan: &Plan) -> Vec<Outcome> {
    let mut all = Vec::new();
    run(plan, |_, _, outcomes| {
        all = outcomes.to_vec();
        Ok(())
    })
    .unwrap();
    all
}
