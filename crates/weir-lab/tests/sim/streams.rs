//! Long-lived streams, which hold a slot and no server.

use weir_lab::sim::{LongStreams, RequestEnd, SimEndpoint, SimLoad, SimPlan, SimQueue, Summary};

use crate::support::{candidate, outcomes, plan, summary};

/// Requests of which a share are streams of ten seconds on average, at one server.
fn streams(requests: u64, rate: f64, share: f64, slots: Option<u32>, queue: SimQueue) -> SimPlan {
    let mut plan = plan(requests, SimLoad::Poisson(rate), "constant:1ms");
    plan.endpoints = vec![SimEndpoint { at_once: None, ..SimEndpoint::default() }];
    plan.streams = Some(LongStreams { share, held: "exp:10s".parse().unwrap() });
    plan.candidates = vec![candidate("least_conn", slots, queue)];
    plan
}

fn refused(summary: &Summary) -> f64 {
    let refused = summary.count(RequestEnd::Full) as f64;
    refused / (refused + summary.count(RequestEnd::Answered) as f64)
}

/// The share of streams that find all slots taken in a system without a queue (Erlang B), with
/// `offered` of them open on average if there were no limit.
fn erlang_b(slots: u32, offered: f64) -> f64 {
    (1..=slots).fold(1.0, |blocked, slot| offered * blocked / (f64::from(slot) + offered * blocked))
}

#[test]
fn streams_that_find_no_slot_are_as_many_as_erlang_says() {
    for (slots, rate) in [(10, 0.8), (20, 2.0)] {
        let plan = streams(200_000, rate, 1.0, Some(slots), SimQueue::Off);
        let (found, expected) = (refused(&summary(&plan)), erlang_b(slots, rate * 10.001));
        assert!((found / expected - 1.0).abs() < 0.03, "{slots}: {found} instead of {expected}");
    }
}

#[test]
fn streams_hold_slots_and_not_the_server() {
    // Five streams are open on average. Without a limit they cost nothing; with six slots other
    // requests wait for them.
    let mean = |slots| summary(&streams(20_000, 10.0, 0.05, slots, SimQueue::On)).mean_wait;
    assert!(mean(None) < 1.0, "{} ns", mean(None));
    assert!(mean(Some(100)) < 1.0, "{} ns", mean(Some(100)));
    assert!(mean(Some(6)) > 1e8, "{} ns", mean(Some(6)));
}

#[test]
fn the_response_time_of_a_stream_is_that_of_its_first_response() {
    let plan = streams(2_000, 10.0, 1.0, None, SimQueue::On);
    let found = summary(&plan);
    assert_eq!(found.count(RequestEnd::Answered), 2_000);
    assert!((found.mean / 1e6 - 1.0).abs() < 1e-6, "{} ns", found.mean);
    assert!(plan.describe().contains("100 % streams of exp:10s"), "{}", plan.describe());
}

#[test]
fn a_plan_of_streams_says_what_is_wrong_with_it() {
    let check = |share, held: &str, part: &str| {
        let mut plan = streams(10, 1.0, share, None, SimQueue::On);
        plan.streams = Some(LongStreams { share, held: held.parse().unwrap() });
        let message = plan.check().unwrap_err();
        assert!(message.contains(part), "{message}");
    };
    check(1.5, "exp:1s", "0% to 100%");
    check(0.5, "trace", "--stream-time");
}

#[test]
fn a_stream_that_breaks_off_keeps_the_time_of_its_first_response() {
    let mut plan = streams(2_000, 10.0, 1.0, None, SimQueue::On);
    plan.outages.push("down:1:100s..110s".parse().unwrap());
    let outcomes = outcomes(&plan);
    let broken = outcomes.iter().filter(|outcome| outcome.end == RequestEnd::Reset);
    let times: Vec<u64> = broken.map(|outcome| outcome.response).collect();
    assert!(times.len() > 20, "{} streams broke off", times.len());
    assert!(times.iter().all(|time| *time <= 1_000_000), "{times:?}");
}
