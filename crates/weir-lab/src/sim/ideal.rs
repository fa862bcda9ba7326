//! The best result without knowledge of the future: one queue in order of arrival before all
//! servers, and each server takes the next request as soon as it is free and not down. Pauses and
//! freezes are not known in advance. The requests and servers are those of the run, but no code of
//! the balancer is used.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::arrivals::Arrivals;
use super::calendar::Calendar;
use super::plan::{Outage, OutageKind, Scenario, SimEndpoint, SimPlan};

/// The result of the ideal run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ideal {
    /// Longest time that a request waits before a server works on it, ns.
    pub(crate) longest_wait: u64,
    /// Sum of all waits, ns.
    pub(crate) total_wait: u128,
}

/// The places of one server, each with the time at which it becomes free.
struct ServerPlaces<'a> {
    endpoint: &'a SimEndpoint,
    calendar: &'a Calendar,
    /// Start and end of each outage, ns.
    down: Vec<(u64, u64)>,
    free: BinaryHeap<Reverse<u64>>,
}

impl ServerPlaces<'_> {
    /// The first time from `now` on at which the server is not down.
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

/// Computes the ideal run.
pub(crate) fn run(plan: &SimPlan, scenario: &Scenario, calendars: &[Calendar]) -> Ideal {
    let mut places: Vec<ServerPlaces<'_>> = plan
        .endpoints
        .iter()
        .zip(calendars)
        .enumerate()
        .filter(|(_, (endpoint, _))| plan.is_regular(endpoint))
        .map(|(index, (endpoint, calendar))| ServerPlaces {
            endpoint,
            calendar,
            down: downs(plan, index),
            free: BinaryHeap::from(vec![Reverse(0); endpoint.at_once.unwrap_or(0) as usize]),
        })
        .collect();
    let mut ideal = Ideal { longest_wait: 0, total_wait: 0 };
    let mut arrivals = Arrivals::new(plan, scenario.load);
    // Times of the next requests of a closed loop's clients.
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

fn downs(plan: &SimPlan, endpoint: usize) -> Vec<(u64, u64)> {
    let own = |outage: &&Outage| outage.endpoint == endpoint && outage.kind == OutageKind::Down;
    plan.outages.iter().filter(own).map(|outage| (outage.from, outage.until)).collect()
}

/// The server that can start first; of several, the fastest.
fn earliest(places: &[ServerPlaces<'_>], reached: u64) -> Option<(usize, u64)> {
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

/// The service time on a server of this speed, ns.
pub(crate) fn scaled(work: u64, speed: f64) -> u64 {
    // Most servers have speed 1, for which no nanosecond may be lost to rounding.
    if (speed - 1.0).abs() < f64::EPSILON { work } else { (work as f64 / speed).round() as u64 }
}
