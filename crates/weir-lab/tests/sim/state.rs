//! The effect of shared state: one balancer for all workers and one for each, on the same requests.

use weir_lab::sim::{SimLoad, SimPlan, SimQueue, Spread, StateSharing, Summary, run};

use crate::support::{candidate, plan, report, summary};

/// The results with one balancer for all workers, and with one for each.
fn both(mut plan: SimPlan) -> [Summary; 2] {
    let shared = plan.candidates.remove(0);
    let mut own = shared.clone();
    own.state = StateSharing::PerProcess;
    plan.candidates = vec![shared, own];
    let rows = &report(&plan).scenarios[0].rows;
    [rows[0].summary.clone(), rows[1].summary.clone()]
}

/// Makes the servers work on any number of requests at once, so that only the balancer's limit
/// bounds them.
fn anything_at_once(mut plan: SimPlan) -> SimPlan {
    for endpoint in &mut plan.endpoints {
        endpoint.at_once = None;
    }
    plan
}

#[test]
fn a_limit_of_ten_is_forty_when_four_workers_have_one_each() {
    for spread in [Spread::Connection, Spread::Request] {
        let base = anything_at_once(plan(5_000, SimLoad::Closed(400), "exp:20ms"));
        let candidates = vec![candidate("least_conn", Some(10), SimQueue::On)];
        let [shared, own] = both(SimPlan { candidates, spread, ..base });
        assert_eq!(shared.most, [10, 10, 10], "{spread:?}");
        assert_eq!(own.most, [40, 40, 40], "{spread:?}");
    }
}

#[test]
fn the_bound_of_the_queue_is_multiplied_too() {
    let mut base = plan(5_000, SimLoad::Closed(400), "exp:20ms");
    base.queue.max = 20;
    let [shared, own] = both(base);
    assert_eq!(shared.longest_queue, 20);
    assert_eq!(own.longest_queue, 80);
}

#[test]
fn a_worker_that_does_not_know_of_the_others_sends_requests_to_busy_servers() {
    let base = plan(10_000, SimLoad::Poisson(90.0), "exp:20ms");
    let candidates = vec![candidate("least_conn", None, SimQueue::On)];
    let [shared, own] = both(SimPlan { candidates, ..base });
    assert_eq!(shared.inversions, 0);
    assert!(own.inversions > 500, "{}", own.inversions);
    assert!(own.mean_wait > 1.3 * shared.mean_wait, "{} {}", own.mean_wait, shared.mean_wait);
}

#[test]
fn a_limit_of_one_keeps_no_server_from_two_requests() {
    let [shared, own] = both(plan(10_000, SimLoad::Poisson(120.0), "exp:20ms"));
    assert_eq!((shared.overlaps, shared.order_violations), (0, Some(0)));
    assert!(own.overlaps > 500, "{}", own.overlaps);
    assert!(own.order_violations.is_some_and(|times| times > 500), "{:?}", own.order_violations);
    assert!(own.most.iter().all(|most| (2..=4).contains(most)), "{:?}", own.most);
    assert!(own.longest_wait > shared.longest_wait);
}

#[test]
fn a_round_of_each_worker_s_own_is_uneven() {
    for spread in [Spread::Connection, Spread::Request] {
        let base = plan(10_000, SimLoad::Constant(100.0), "constant:1ms");
        let candidates = vec![candidate("round_robin", None, SimQueue::On)];
        let [shared, own] = both(SimPlan { candidates, spread, ..base });
        assert!(shared.most_ahead < 1.0, "{spread:?}: {}", shared.most_ahead);
        // Each worker's distribution is exact, but all four may be ahead at the same server.
        assert!((2.0..4.0).contains(&own.most_ahead), "{spread:?}: {}", own.most_ahead);
        assert_eq!(shared.served.iter().max().unwrap() - shared.served.iter().min().unwrap(), 1);
    }
}

#[test]
fn a_hash_needs_no_state() {
    let base = plan(2_000, SimLoad::Poisson(60.0), "exp:20ms");
    let candidates = vec![candidate("hash", None, SimQueue::On)];
    // Stall detection would be state, so it is off.
    let [shared, own] = both(SimPlan { candidates, stall: None, ..base });
    assert_eq!(shared.served, own.served);
    assert_eq!(shared.quantiles, own.quantiles);
}

#[test]
fn one_worker_shares_with_nobody() {
    let base = plan(3_000, SimLoad::Closed(8), "exp:20ms");
    let [shared, own] = both(SimPlan { workers: 1, ..base });
    assert_eq!(shared.quantiles, own.quantiles);
    assert_eq!(shared.served, own.served);
    assert_eq!(own.overlaps, 0);
}

#[test]
fn workers_are_bounded() {
    for workers in [0, 1_001] {
        let plan = SimPlan { workers, ..plan(10, SimLoad::Closed(1), "1ms") };
        let message = run(&plan, |_, _, _| Ok(())).unwrap_err();
        assert!(message.contains("use 1 to 1000"), "{message}");
    }
    let most = SimPlan { workers: 1_000, ..plan(10, SimLoad::Closed(1), "1ms") };
    assert_eq!(summary(&most).samples, 10);
}
