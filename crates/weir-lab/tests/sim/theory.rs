//! Mean waits compared with their closed forms. The simulation may differ by chance only, and
//! chance is bounded: each case states the standard error of its mean, from 24 runs with other
//! seeds (whose mean is within one error of theory). The seeds are fixed, so the tests are
//! deterministic.

use weir_lab::sim::{MaxConn, SimEndpoint, SimLoad, SimPlan};

use crate::support::{candidate, plan, summary};

/// The mean service time, in seconds.
const SERVICE: f64 = 0.02;

/// Poisson arrivals at `servers` that have the utilisation `load` together.
fn poisson(requests: u64, servers: usize, load: f64, service: &str) -> SimPlan {
    let rate = load * servers as f64 / SERVICE;
    let mut plan = plan(requests, SimLoad::Poisson(rate), service);
    plan.endpoints = vec![SimEndpoint::default(); servers];
    plan
}

/// The mean wait in M/M/c (Erlang C), in seconds.
fn erlang(servers: usize, load: f64) -> f64 {
    let offered = load * servers as f64;
    let mut term = 1.0;
    let mut sum = 1.0;
    for number in 1..servers {
        term *= offered / number as f64;
        sum += term;
    }
    term *= offered / servers as f64;
    let waits = term / (1.0 - load) / (sum + term / (1.0 - load));
    waits * SERVICE / (servers as f64 * (1.0 - load))
}

/// The mean wait in M/G/1 (Pollaczek and Khinchine), in seconds; `variation` is the squared
/// coefficient of variation.
fn pollaczek(load: f64, variation: f64) -> f64 {
    load / (1.0 - load) * SERVICE * (1.0 + variation) / 2.0
}

/// Checks that the mean of runs with these seeds is within 1 % of theory.
#[track_caller]
fn check(name: &str, plan: &SimPlan, seeds: std::ops::Range<u64>, expected_s: f64) {
    let count = seeds.end - seeds.start;
    let of_seed = |seed| summary(&SimPlan { seed, ..plan.clone() }).mean_wait / 1e9;
    let found_s = seeds.map(of_seed).sum::<f64>() / count as f64;
    let difference = found_s / expected_s - 1.0;
    let (found_ms, expected_ms) = (found_s * 1e3, expected_s * 1e3);
    println!("{name}: {found_ms:.4} ms, theory {expected_ms:.4} ms: {:+.2} %", difference * 100.0);
    assert!(difference.abs() <= 0.01, "{name}: {found_ms} ms instead of {expected_ms} ms");
}

#[test]
fn the_formulas_agree_where_they_must() {
    let near = |found: f64, expected: f64| {
        assert!((found / expected - 1.0).abs() < 1e-12, "{found} {expected}");
    };
    near(erlang(1, 0.6), pollaczek(0.6, 1.0));
    // M/M/2 of the textbooks: at half load the wait is a third of the service time.
    near(erlang(2, 0.5), SERVICE / 3.0);
}

/// Standard error 0.3 %.
#[test]
fn one_exponential_server_waits_as_in_m_m_1() {
    check("M/M/1", &poisson(1_500_000, 1, 0.5, "exp:20ms"), 1..4, erlang(1, 0.5));
}

/// Standard error 0.5 %.
#[test]
fn three_exponential_servers_behind_one_queue_wait_as_in_m_m_3() {
    check("M/M/3", &poisson(1_500_000, 3, 0.6, "exp:20ms"), 1..4, erlang(3, 0.6));
}

/// Standard error 0.2 %.
#[test]
fn one_constant_server_waits_as_in_m_d_1() {
    check("M/D/1", &poisson(1_500_000, 1, 0.5, "constant:20ms"), 1..4, pollaczek(0.5, 0.0));
}

/// The queue of a server that works on three requests at once equals the balancer's queue before
/// three servers.
#[test]
fn a_server_that_works_on_three_at_once_waits_as_three_servers_do() {
    let mut plan = poisson(300_000, 3, 0.6, "exp:20ms");
    let expected = summary(&plan).mean_wait;
    plan.endpoints = vec![SimEndpoint { at_once: Some(3), ..SimEndpoint::default() }];
    plan.candidates[0].max_conn = MaxConn(vec![None]);
    let found = summary(&plan).mean_wait;
    assert!((found / expected - 1.0).abs() < 1e-9, "{found} {expected}");
}

#[test]
fn a_faster_server_waits_as_one_with_shorter_work() {
    let mut plan = poisson(300_000, 1, 0.5, "exp:40ms");
    plan.endpoints[0].speed = 2.0;
    let same = poisson(300_000, 1, 0.5, "exp:20ms");
    let (found, expected) = (summary(&plan).mean_wait, summary(&same).mean_wait);
    assert!((found / expected - 1.0).abs() < 1e-4, "{found} {expected}");
}

/// Round robin over three exponential servers without a limit: each is an E3/M/1 system, with a
/// wait shorter than in M/M/1 and longer than with one queue. σ solves σ = (3r / (3r + 1 − σ))³
/// with the load r. Standard error 0.4 %.
#[test]
fn round_robin_without_a_limit_waits_as_three_single_queues_do() {
    let load: f64 = 0.6;
    let mut plan = poisson(1_500_000, 3, load, "exp:20ms");
    plan.candidates = vec![candidate("round_robin", None, weir_lab::sim::SimQueue::On)];
    let mut root: f64 = 0.5;
    for _ in 0..200 {
        root = (3.0 * load / (3.0 * load + 1.0 - root)).powi(3);
    }
    check("E3/M/1", &plan, 1..4, SERVICE * root / (1.0 - root));
}

/// More servers and higher loads, which have more variance and need more requests. Standard errors
/// of at most 0.4 %.
#[test]
#[ignore = "300 million requests: minutes"]
fn waits_are_those_of_theory_at_other_loads_too() {
    const REQUESTS: u64 = 5_000_000;
    for (servers, load) in [(1, 0.3), (1, 0.7), (2, 0.6), (3, 0.8), (8, 0.7)] {
        let plan = poisson(REQUESTS, servers, load, "exp:20ms");
        check(&format!("M/M/{servers} at {load}"), &plan, 1..9, erlang(servers, load));
    }
    for load in [0.3, 0.8] {
        let plan = poisson(REQUESTS, 1, load, "constant:20ms");
        check(&format!("M/D/1 at {load}"), &plan, 1..9, pollaczek(load, 0.0));
    }
    // 98 % of 10 ms and 2 % of 500 ms have a mean of 19.8 ms; the rate is chosen for 20 ms.
    let plan = poisson(REQUESTS, 1, 0.5, "mix:98%10ms+2%500ms");
    let mean: f64 = 0.98 * 0.01 + 0.02 * 0.5;
    let square = 0.98 * 0.01 * 0.01 + 0.02 * 0.5 * 0.5;
    let rate = 0.5 / SERVICE;
    check("M/G/1", &plan, 1..9, rate * square / (2.0 * (1.0 - rate * mean)));
}
