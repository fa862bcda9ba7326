//! Properties of every run, and the known properties of each candidate.

use proptest::prelude::*;
use weir_balance::PolicyKind;
use weir_lab::findings::regime_change;
use weir_lab::sim::{
    MaxConn, Outage, OutageKind, Preset, QueueLimits, RequestEnd, SimEndpoint, SimLoad, SimPlan,
    SimQueue, Summary,
};

use crate::support::{candidate, outcomes, plan, report, summary};

const SECOND: u64 = 1_000_000_000;
const MIX: &str = "mix:98%10ms+2%500ms";

fn ab(clients: u32, service: &str) -> SimPlan {
    plan(1_000, SimLoad::Closed(clients), service)
}

#[test]
fn with_one_slot_each_server_gets_one_request_at_a_time_in_order_and_no_wait_exceeds_the_ideal() {
    for service in ["constant:20ms", MIX, "lognormal:20ms,1"] {
        for clients in [3, 10, 30] {
            for policy in ["least_conn", "round_robin", "random2", "first"] {
                let mut plan = ab(clients, service);
                plan.candidates[0] = candidate(policy, Some(1), SimQueue::On);
                let summary = summary(&plan);
                let name = format!("{service}, {clients} clients, {policy}");
                assert_eq!(summary.count(RequestEnd::Answered), 1_000, "{name}");
                assert_eq!(summary.overlaps, 0, "{name}");
                assert_eq!(summary.inversions, 0, "{name}");
                assert_eq!(summary.order_violations, Some(0), "{name}");
                let times = summary.wait_to_ideal.unwrap_or(1.0);
                assert!((times - 1.0).abs() < 1e-9, "{name}: {times} times the ideal");
            }
        }
    }
}

#[test]
fn with_one_slot_each_the_servers_are_busy_all_the_time() {
    for clients in [3, 10, 30] {
        let plan = ab(clients, "constant:20ms");
        let throughput = summary(&plan).throughput;
        assert!(throughput >= 0.97 * 150.0, "{clients} clients: {throughput}/s");
    }
}

/// The published runs change at the seventeenth: the preset at a hundredth of the rate, with
/// requests that take a hundred times as long.
#[test]
fn the_machine_of_2019_falls_to_its_baseline_in_the_seventeenth_run() {
    let mut plan = Preset::Credits2019.plan().unwrap();
    assert!(
        plan.describe().contains("2 cores with credits of 60 core-minutes"),
        "{}",
        plan.describe()
    );
    plan.requests = 25 * 3_600;
    plan.scenarios[0].load = SimLoad::Poisson(25.0);
    plan.scenarios[0].service = "constant:64ms".parse().unwrap();
    let mut runs = vec![Vec::new(); 20];
    for outcome in outcomes(&plan) {
        let run = (outcome.arrived / (180 * SECOND)).min(19);
        runs[run as usize].push(outcome.response as f64);
    }
    let means: Vec<f64> =
        runs.iter().map(|run| run.iter().sum::<f64>() / run.len() as f64).collect();
    assert_eq!(regime_change(&means), Some(16), "{means:?}");
    let ended = summary(&plan).credits_ended.unwrap();
    // 60 core-minutes last 50 minutes at 1.6 cores less 0.4.
    assert!((2_900 * SECOND..3_060 * SECOND).contains(&ended), "{ended}");
    plan.endpoints[0].credits = None;
    assert_eq!(summary(&plan).credits_ended, None);
}

#[test]
fn the_experiment_of_2008_gives_the_documented_results() {
    let report = report(&Preset::Mongrel2008.plan().unwrap());
    assert_eq!(report.scenarios.len(), 6);
    for scenario in &report.scenarios {
        let of = |policy: &str, max_conn, queue| {
            let wanted = candidate(policy, max_conn, queue);
            let row = scenario.rows.iter().find(|row| row.candidate == wanted).unwrap();
            &row.summary
        };
        let name = format!("{}, {}", scenario.scenario.load, scenario.scenario.service);
        let one = of("least_conn", Some(1), SimQueue::On);
        let two = of("least_conn", Some(2), SimQueue::On);
        let none = of("least_conn", None, SimQueue::On);
        let (fair, turns) = (of("fair", None, SimQueue::On), of("round_robin", None, SimQueue::On));
        assert_eq!((one.overlaps, one.order_violations), (0, Some(0)), "{name}");
        assert!(one.wait_to_ideal.is_none_or(|times| times <= 1.05), "{name}");
        for other in [two, none, fair, turns, of("hash", None, SimQueue::On)] {
            assert!(one.longest_wait <= other.longest_wait, "{name}");
        }
        let clients = match scenario.scenario.load {
            SimLoad::Closed(clients) => u64::from(clients),
            _ => panic!("{name}"),
        };
        if clients == 3 {
            // No request waits at a busy server while another is idle, so none is lost to the
            // queue's bug.
            assert_eq!((fair.overlaps, fair.inversions, none.overlaps), (0, 0, 0), "{name}");
            continue;
        }
        assert!(two.overlaps > 900 && none.overlaps > 900 && fair.overlaps > 900, "{name}");
        let buggy = of("least_conn", Some(1), SimQueue::Buggy);
        assert_eq!(buggy.count(RequestEnd::TimedOut), clients - 3, "{name}");
        assert_eq!(buggy.longest_queue_wait, 47 * SECOND, "{name}");
        assert!(buggy.near_fastest > 0.94, "{name}");
    }
}

#[test]
fn without_limits_requests_meet_at_busy_servers_while_others_idle() {
    let mut plan = ab(10, MIX);
    plan.candidates[0] = candidate("round_robin", None, SimQueue::On);
    let without = summary(&plan);
    assert!(without.overlaps > 100 && without.inversions > 100, "{without:?}");
    assert!(without.wait_to_ideal.unwrap() > 1.5);
    assert_eq!(without.longest_queue_wait, 0);
}

#[test]
fn a_second_slot_hides_the_way_between_proxy_and_server() {
    let throughput = |max_conn| {
        let mut plan = ab(30, "constant:20ms");
        plan.latency = 1_000_000;
        plan.candidates[0] = candidate("least_conn", Some(max_conn), SimQueue::On);
        summary(&plan).throughput
    };
    let (one, two) = (throughput(1), throughput(2));
    // One slot costs 20 ms of work and 2 ms of latency; with two slots the latency is hidden.
    assert!((one / (3.0 / 0.022) - 1.0).abs() < 0.01, "{one}");
    assert!((two / (3.0 / 0.020) - 1.0).abs() < 0.01, "{two}");
}

#[test]
fn the_bug_of_2008_is_seen() {
    let mut plan = ab(10, "constant:20ms");
    plan.queue.timeout = Some(47 * SECOND);
    plan.candidates[0] = candidate("least_conn", Some(1), SimQueue::Buggy);
    let buggy = summary(&plan);
    // Seven of ten clients wait; the slots of the other three go to new arrivals.
    assert_eq!((buggy.count(RequestEnd::Answered), buggy.count(RequestEnd::TimedOut)), (993, 7));
    assert_eq!(buggy.longest_queue_wait, 47 * SECOND);
    assert!(buggy.order_violations.unwrap() > 900);
    assert!(buggy.near_fastest > 0.99, "and most are as fast as the fastest");
}

#[test]
fn a_request_that_is_forgotten_for_ever_is_counted() {
    let mut plan = ab(10, "constant:20ms");
    plan.candidates[0] = candidate("least_conn", Some(1), SimQueue::Buggy);
    assert_eq!(summary(&plan).count(RequestEnd::Forgotten), 7);
}

#[test]
fn without_a_queue_a_request_that_finds_all_busy_is_refused() {
    let mut plan = ab(10, "constant:20ms");
    plan.think = 1_000_000;
    plan.candidates[0] = candidate("least_conn", Some(1), SimQueue::Off);
    let summary = summary(&plan);
    assert!(summary.count(RequestEnd::Full) > 800, "{:?}", summary.ends);
    assert_eq!(summary.samples, summary.count(RequestEnd::Answered));
    assert_eq!(summary.overlaps, 0);
}

#[test]
fn a_full_queue_refuses_and_a_late_one_times_out() {
    let mut plan = ab(10, "constant:20ms");
    plan.think = 1_000_000;
    plan.queue = QueueLimits { max: 3, max_per_endpoint: None, timeout: Some(15_000_000) };
    let summary = summary(&plan);
    assert!(summary.count(RequestEnd::QueueFull) > 0, "{:?}", summary.ends);
    assert!(summary.count(RequestEnd::TimedOut) > 0, "{:?}", summary.ends);
    assert!(summary.longest_queue_wait <= 15_000_000);
    assert_eq!(summary.longest_queue, 3);
}

#[test]
fn only_requests_sent_to_a_frozen_server_wait() {
    let mut plan = plan(2_000, SimLoad::Constant(100.0), "constant:10ms");
    plan.endpoints = vec![SimEndpoint::default(); 2];
    plan.outages = vec![Outage {
        endpoint: 0,
        kind: OutageKind::Frozen,
        from: 5 * SECOND,
        until: 11 * SECOND,
    }];
    let slow = |plan: &SimPlan| {
        outcomes(plan).iter().filter(|outcome| outcome.response > 2 * SECOND).count()
    };
    assert_eq!(slow(&plan), 1, "max_conn 1");
    plan.candidates[0] = candidate("round_robin", None, SimQueue::On);
    let with = slow(&plan);
    assert!((1..=5).contains(&with), "{with} without a limit: until it is found to be silent");
    plan.stall = None;
    assert!(slow(&plan) > 150, "round robin sends half of them there for 6 s");
}

#[test]
fn a_server_that_is_down_costs_what_was_there_and_no_more() {
    let mut plan = plan(2_000, SimLoad::Constant(100.0), "constant:10ms");
    plan.outages =
        vec![Outage { endpoint: 0, kind: OutageKind::Down, from: 5 * SECOND, until: 8 * SECOND }];
    plan.candidates[0] = candidate("round_robin", None, SimQueue::On);
    let outcomes = outcomes(&plan);
    let count = |end| outcomes.iter().filter(|outcome| outcome.end == end).count();
    assert!(count(RequestEnd::Reset) <= 1);
    assert_eq!(count(RequestEnd::Answered) + count(RequestEnd::Reset), 2_000);
    let again = outcomes.iter().filter(|outcome| outcome.attempts > 1).count();
    assert_eq!(again, 5, "then it is left out, for 10 s");
    let back = outcomes
        .iter()
        .filter(|outcome| outcome.endpoint == Some(0) && outcome.arrived > 15 * SECOND);
    assert!(back.count() > 100, "and comes back");
}

#[test]
fn when_all_are_down_requests_are_answered_at_once() {
    let mut plan = plan(100, SimLoad::Constant(100.0), "constant:10ms");
    let down = |endpoint| Outage { endpoint, kind: OutageKind::Down, from: 0, until: 60 * SECOND };
    plan.outages = (0..3).map(down).collect();
    let summary = summary(&plan);
    assert_eq!(summary.count(RequestEnd::Unreachable), 100);
    assert_eq!((summary.samples, summary.throughput, summary.mean), (0, 0.0, 0.0));
}

#[test]
fn bound_requests_go_to_their_endpoint_and_no_request_starves() {
    let mut plan = plan(20_000, SimLoad::Poisson(135.0), "exp:20ms");
    plan.sticky = 0.3;
    plan.keys = 30;
    let summary = summary(&plan);
    assert_eq!(summary.count(RequestEnd::Answered), 20_000);
    assert_eq!(summary.order_violations, Some(0));
    assert_eq!(summary.overlaps, 0);
    plan.sticky = 1.0;
    plan.keys = 1;
    let all = outcomes(&plan);
    assert!(all.iter().all(|outcome| outcome.endpoint == all[0].endpoint));
}

#[test]
fn every_candidate_is_given_the_same_requests() {
    let work = |policy: &str, max_conn| {
        let mut plan = plan(500, SimLoad::Poisson(1.0), "exp:20ms");
        plan.candidates[0] = candidate(policy, max_conn, SimQueue::On);
        let net = |outcome: &weir_lab::sim::RequestOutcome| {
            (outcome.arrived, outcome.response - outcome.queue - outcome.door)
        };
        outcomes(&plan).iter().map(net).collect::<Vec<_>>()
    };
    assert_eq!(work("round_robin", None), work("least_conn", Some(1)));
    assert_eq!(work("round_robin", None), work("random", Some(2)));
}

#[test]
fn pauses_show_as_a_period() {
    let mut plan = plan(60_000, SimLoad::Poisson(100.0), "constant:10ms");
    plan.endpoints = vec![SimEndpoint { at_once: Some(8), ..SimEndpoint::default() }];
    plan.candidates[0].max_conn = MaxConn(vec![None]);
    assert_eq!(summary(&plan).period, None);
    plan.pauses = vec!["every=20s,for=4s".parse().unwrap()];
    let period = summary(&plan).period.unwrap();
    assert!((period.length as f64 / (20.0 * SECOND as f64) - 1.0).abs() < 0.05, "{period:?}");
}

fn check_laws(plan: &SimPlan) -> Result<(), TestCaseError> {
    let outcomes = outcomes(plan);
    let summary: Summary = summary(plan);
    let ended: u64 = summary.ends.iter().map(|(_, count)| count).sum();
    prop_assert_eq!(ended, plan.requests);
    prop_assert_eq!(outcomes.len() as u64, plan.requests);
    prop_assert_eq!(summary.count(RequestEnd::Forgotten), 0);
    // Outages and stalls move hashed requests to other queues, whose order is not known.
    let moved = !plan.outages.is_empty() || plan.stall.is_some();
    let told = !moved || plan.candidates[0].policy.hashes().is_none();
    prop_assert_eq!(summary.order_violations, told.then_some(0));
    for (index, most) in summary.most.iter().enumerate() {
        let limit = plan.candidates[0].max_conn.of(index);
        prop_assert!(limit.is_none_or(|limit| *most <= limit), "{} at {}", most, index);
    }
    for outcome in &outcomes {
        prop_assert!(outcome.queue + outcome.door <= outcome.response, "{:?}", outcome);
        prop_assert!(plan.queue.timeout.is_none_or(|timeout| outcome.queue <= timeout));
    }
    Ok(())
}

fn any_plan() -> impl Strategy<Value = SimPlan> {
    let load = prop_oneof![
        (1_u32..40).prop_map(SimLoad::Closed),
        (20_u32..250).prop_map(|rate| SimLoad::Poisson(f64::from(rate))),
        (20_u32..250).prop_map(|rate| SimLoad::Constant(f64::from(rate))),
    ];
    let service = prop_oneof![Just("constant:20ms"), Just("exp:20ms"), Just(MIX)];
    let policy = proptest::sample::select(PolicyKind::all());
    let limits = proptest::collection::vec(proptest::option::of(1_u32..4), 1..5);
    let outage = (0_usize..4, any::<bool>(), 0_u64..8_000, 1_u64..4_000);
    let stall = any::<bool>();
    let more = (any::<u64>(), 0_u64..3, 0_u32..60, proptest::option::of(outage), 0_u32..3, stall);
    (load, service, policy, limits, more).prop_map(
        |(load, service, policy, limits, (seed, latency, max, outage, sticky, stall))| {
            let mut plan = plan(800, load, service);
            plan.seed = seed;
            plan.stall = plan.stall.filter(|_| stall);
            plan.latency = latency * 500_000;
            plan.sticky = f64::from(sticky) / 4.0;
            plan.queue = QueueLimits { max, max_per_endpoint: None, timeout: Some(300_000_000) };
            plan.endpoints = vec![SimEndpoint::default(); limits.len()];
            plan.candidates[0] = candidate(policy.as_str(), None, SimQueue::On);
            plan.candidates[0].max_conn = MaxConn(limits);
            let outage = outage.filter(|outage| outage.0 < plan.endpoints.len());
            plan.outages.extend(outage.map(|(endpoint, frozen, from, length)| Outage {
                endpoint,
                kind: if frozen { OutageKind::Frozen } else { OutageKind::Down },
                from: from * 1_000_000,
                until: (from + length) * 1_000_000,
            }));
            plan
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]
    #[test]
    fn the_laws_hold_whatever_is_simulated(plan in any_plan()) {
        check_laws(&plan)?;
    }
}

/// Number of cases, each of a thousand requests; `PROPTEST_CASES` changes it.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(200)
}
