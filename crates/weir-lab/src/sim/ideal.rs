//! What the best that can be had without knowing the future gives: one queue in arrival order before all servers, each of
//! which takes the next as soon as it is free and not down. That a server is paused or frozen nobody knows beforehand. The same
//! requests, the same servers, no balancer's code.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::arrivals::Arrivals;
use super::calendar::Calendar;
use super::plan::{Endpoint, Outage, OutageKind, Plan, Scenario};

/// The ideal run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ideal {
    /// The longest that a request waits before a server works on it, ns.
    pub(crate) longest_wait: u64,
    /// The sum of all waits, ns.
    pub(crate) total_wait: u128,
}

/// One server's places, each with when it is free.
struct Places<'a> {
    endpoint: &'a Endpoint,
    calendar: &'a Calendar,
    /// From and until, ns.
    down: Vec<(u64, u64)>,
    free: BinaryHeap<Reverse<u64>>,
}

impl Places<'_> {
    /// The first time from `now` on at which it is not down.
    fn up_at(&self, now: u64) -> u64 {
        let mut time = now;
        while let Some((_, until)) =
            self.down.iter().find(|(from, until)| (*from..*until).contains(&time))
        {
            time = *until;
        }
        time
    }
}

/// Runs it.
pub(crate) fn run(plan: &Plan, scenario: &Scenario, calendars: &[Calendar]) -> Ideal {
    let mut places: Vec<Places<'_>> = plan
        .endpoints
        .iter()
        .zip(calendars)
        .enumerate()
        .filter(|(_, (endpoint, _))| plan.is_regular(endpoint))
        .map(|(index, (endpoint, calendar))| Places {
            endpoint,
            calendar,
            down: downs(plan, index),
            free: BinaryHeap::from(vec![Reverse(0); endpoint.at_once.unwrap_or(0) as usize]),
        })
        .collect();
    let mut ideal = Ideal { longest_wait: 0, total_wait: 0 };
    let mut arrivals = Arrivals::new(plan, scenario.load);
    // When clients of a closed loop send their next.
    let mut clients: BinaryHeap<Reverse<u64>> = arrivals.initial().map(Reverse).collect();
    for number in 0..plan.requests {
        let arrival =
            if clients.is_empty() { arrivals.next() } else { clients.pop().map(|next| next.0) };
        let Some(arrival) = arrival else { break };
        let reached = arrival + plan.latency;
        let Some((best, start)) = earliest(&places, reached) else { break };
        let place = &mut places[best];
        let work = scaled(
            scenario.service.time(plan.seed, number, plan.trace.as_deref()),
            place.endpoint.speed,
        );
        let end = place.calendar.finish(start, work);
        if place.endpoint.at_once.is_some() {
            place.free.pop();
            place.free.push(Reverse(end));
        }
        ideal.longest_wait = ideal.longest_wait.max(start - reached);
        ideal.total_wait += u128::from(start - reached);
        if arrivals.is_closed() {
            clients.push(Reverse(end + plan.latency + plan.think));
        }
    }
    ideal
}

fn downs(plan: &Plan, endpoint: usize) -> Vec<(u64, u64)> {
    let own = |outage: &&Outage| outage.endpoint == endpoint && outage.kind == OutageKind::Down;
    plan.outages.iter().filter(own).map(|outage| (outage.from, outage.until)).collect()
}

/// The server that can start first, the fastest of several.
fn earliest(places: &[Places<'_>], reached: u64) -> Option<(usize, u64)> {
    let mut best: Option<(usize, u64)> = None;
    for (index, place) in places.iter().enumerate() {
        let free = place.free.peek().map_or(0, |free| free.0);
        let start = place.up_at(free.max(reached));
        let better = best.is_none_or(|(other, earliest)| {
            let faster = place.endpoint.speed > places[other].endpoint.speed;
            start < earliest || start == earliest && faster
        });
        if better {
            best = Some((index, start));
        }
    }
    best
}

/// What a server of this speed takes for it, ns.
pub(crate) fn scaled(work: u64, speed: f64) -> u64 {
    // Most servers have speed 1; it must not lose nanoseconds.
    if (speed - 1.0).abs() < f64::EPSILON { work } else { (work as f64 / speed).round() as u64 }
}
