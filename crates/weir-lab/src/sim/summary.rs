//! The figures of a run. They are formatted in `text.rs` and `json.rs`.

use super::arrivals::Arrivals;
use super::calendar::Calendar;
use super::ideal::{self, Ideal};
use super::outcome::{RequestEnd, RequestOutcome, RunOutcomes};
use super::period::{self, Period};
use super::plan::{Scenario, SimLoad, SimPlan};
use super::service::ServiceSource;
use super::time::SECOND;

/// A value that a share of the requests does not exceed, with the number of requests at or above
/// it, which shows how reliable it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampledQuantile {
    /// Its name: `p99`, `max`.
    pub name: &'static str,
    /// Value in ns.
    pub value: u64,
    /// Requests that took as long or longer, by rank.
    pub samples: u64,
}

/// Limit of the work in seconds: beyond it, nanoseconds do not fit their counter. About 126 years.
const MOST_WORK: f64 = 4e9;

/// The shares in the tables, per million.
const QUANTILES: [(&str, u64); 7] = [
    ("p25", 250_000),
    ("p50", 500_000),
    ("p75", 750_000),
    ("p95", 950_000),
    ("p99", 990_000),
    ("p99.9", 999_000),
    ("max", 1_000_000),
];

/// Figures that hold for all candidates of a scenario.
#[derive(Clone, Debug)]
pub struct FigureBounds {
    /// Upper bound of responses per second, for these requests on these servers.
    pub ceiling: Option<f64>,
    /// Set if there are backup endpoints, which the other figures leave out.
    pub backups: bool,
    /// Requests per second that arrive, in an open loop.
    pub offered: Option<f64>,
    /// Requests per second that the servers can complete, for these requests.
    pub capacity: Option<f64>,
    /// Longest wait with one queue before all servers, ns.
    pub ideal_longest_wait: u64,
    /// Mean of those waits, ns.
    pub ideal_mean_wait: f64,
}

/// The figures of one candidate in one scenario.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Number of requests.
    pub requests: u64,
    /// Number of requests by the way in which they ended, without zeros.
    pub ends: Vec<(RequestEnd, u64)>,
    /// Time from the first arrival to the last end, ns.
    pub duration: u64,
    /// Responses per second.
    pub throughput: f64,
    /// Number of requests that the times below are computed from: those answered, and those that
    /// waited in vain.
    pub samples: u64,
    /// Mean response time, ns.
    pub mean: f64,
    /// Quartiles and high percentiles.
    pub quantiles: Vec<SampledQuantile>,
    /// The shortest response time, ns.
    pub fastest: u64,
    /// Share of the samples that took at most 1.5 times as long as the fastest.
    pub near_fastest: f64,
    /// Longest wait in the balancer's queue, ns.
    pub longest_queue_wait: u64,
    /// Longest wait in the balancer's and the server's queue together, ns.
    pub longest_wait: u64,
    /// Mean of those waits, ns.
    pub mean_wait: f64,
    /// Longest wait as a multiple of the ideal one; `None` if that is 0.
    pub wait_to_ideal: Option<f64>,
    /// Dispatches to a busy endpoint while an idle one was available.
    pub inversions: u64,
    /// Time lost by inversions according to the balancer's regret meter, µs. With separate
    /// balancers, only the part that each can know of.
    pub regret_us: u64,
    /// Requests that arrived at a server with all places busy.
    pub overlaps: u64,
    /// Dispatches that overtook a waiting request; `None` if unknown.
    pub order_violations: Option<u64>,
    /// Largest number of requests of an endpoint beyond its share by weight so far; below 1 in an
    /// exact round robin.
    pub most_ahead: f64,
    /// Largest number of requests in the queue at once, over all workers.
    pub longest_queue: u64,
    /// Number of requests that each endpoint served.
    pub served: Vec<u64>,
    /// Largest number of requests at each endpoint at once.
    pub most: Vec<u32>,
    /// The first time at which the processor credits of a server ended, ns.
    pub credits_ended: Option<u64>,
    /// A significant period of the response times.
    pub period: Option<Period>,
}

impl FigureBounds {
    /// Fails if the total work does not fit the clock of the simulation.
    pub(crate) fn new(
        plan: &SimPlan,
        scenario: &Scenario,
        calendars: &[Calendar],
    ) -> Result<Self, String> {
        let work = total_work(plan, &scenario.service);
        if work / slowest(plan) > MOST_WORK {
            return Err(format!(
                "{} requests of {} are more than a hundred years of work for one server: use fewer or shorter ones",
                plan.requests, scenario.service
            ));
        }
        let Ideal { longest_wait, total_wait } = ideal::run(plan, scenario, calendars);
        let requests = plan.requests as f64;
        let mean = work / requests;
        let capacity = capacity(plan).map(|speed| speed / mean);
        let offered = offered(plan, scenario.load);
        let clients = match scenario.load {
            SimLoad::Closed(clients) => {
                Some(f64::from(clients) / fastest_round(plan, mean, clients))
            }
            _ => None,
        };
        let least = |one: Option<f64>, other: Option<f64>| match (one, other) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        Ok(Self {
            ceiling: least(least(capacity, offered), clients),
            backups: !plan.endpoints.iter().all(|endpoint| plan.is_regular(endpoint)),
            offered,
            capacity,
            ideal_longest_wait: longest_wait,
            ideal_mean_wait: total_wait as f64 / requests,
        })
    }

    /// Returns true if more requests arrive than the servers can complete.
    pub fn is_overloaded(&self) -> bool {
        matches!((self.offered, self.capacity), (Some(offered), Some(capacity)) if offered > capacity)
    }
}

/// The work of all requests, in seconds.
fn total_work(plan: &SimPlan, service: &ServiceSource) -> f64 {
    let time = |number| service.time(plan.seed, number, plan.trace.as_deref());
    (0..plan.requests).map(time).map(|time| time as f64 / SECOND as f64).sum()
}

/// The work that the servers complete per second, in seconds; `None`: no limit.
fn capacity(plan: &SimPlan) -> Option<f64> {
    plan.endpoints
        .iter()
        .filter(|endpoint| plan.is_regular(endpoint))
        .map(|endpoint| Some(endpoint.speed * f64::from(endpoint.at_once?)))
        .sum::<Option<f64>>()
        .map(|speed| speed * working(plan))
}

/// The work that the slowest server completes per second with one request at a time, in seconds.
fn slowest(plan: &SimPlan) -> f64 {
    let slowest = plan.endpoints.iter().map(|endpoint| endpoint.speed).fold(f64::MAX, f64::min);
    slowest * working(plan)
}

/// The share of time in which a server is not paused. Pauses of different kinds may overlap.
fn working(plan: &SimPlan) -> f64 {
    plan.pauses.iter().map(|pause| 1.0 - pause.length as f64 / pause.every as f64).product()
}

/// The least time that a client of a closed loop spends on a request of mean length, in seconds.
fn fastest_round(plan: &SimPlan, mean: f64, clients: u32) -> f64 {
    let fastest = plan.endpoints.iter().map(|endpoint| endpoint.speed).fold(0.0, f64::max);
    // A client does not think after its last request.
    let thinks = 1.0 - f64::from(clients) / plan.requests as f64;
    mean / fastest + (2.0 * plan.latency as f64 + thinks * plan.think as f64) / SECOND as f64
}

/// The offered rate of these arrivals.
fn offered(plan: &SimPlan, load: SimLoad) -> Option<f64> {
    let mut arrivals = Arrivals::new(plan, load);
    let first = arrivals.next()?;
    let last = std::iter::from_fn(|| arrivals.next()).last()?;
    (last > first).then(|| plan.requests as f64 * SECOND as f64 / (last - first) as f64)
}

/// Returns true if the response time counts. Requests that are refused at once would make any
/// policy look fast.
fn is_sample(outcome: &RequestOutcome) -> bool {
    matches!(outcome.end, RequestEnd::Answered | RequestEnd::TimedOut | RequestEnd::Forgotten)
}

impl Summary {
    pub(crate) fn new(run: &RunOutcomes, bounds: &FigureBounds) -> Self {
        let outcomes = &run.outcomes;
        let mut times: Vec<u64> = outcomes
            .iter()
            .filter(|outcome| is_sample(outcome))
            .map(|outcome| outcome.response)
            .collect();
        let period = period::find(outcomes);
        times.sort_unstable();
        let samples = times.len() as u64;
        let fastest = times.first().copied().unwrap_or(0);
        let near = times.partition_point(|time| time * 2 <= fastest * 3);
        let sum: u128 = times.iter().map(|time| u128::from(*time)).sum();
        let first = outcomes.first().map_or(0, |outcome| outcome.arrived);
        let last = outcomes.iter().map(|outcome| outcome.arrived + outcome.response).max();
        let duration = last.unwrap_or(first) - first;
        let answered =
            outcomes.iter().filter(|outcome| outcome.end == RequestEnd::Answered).count();
        let wait = |outcome: &RequestOutcome| outcome.queue + outcome.door;
        let waits = || outcomes.iter().filter(|outcome| is_sample(outcome)).map(wait);
        let longest_wait = waits().max().unwrap_or(0);
        let ideal = bounds.ideal_longest_wait;
        Self {
            requests: outcomes.len() as u64,
            ends: ends(outcomes),
            duration,
            throughput: per_second(answered as u64, duration),
            samples,
            mean: ratio(sum as f64, samples),
            quantiles: quantiles(&times),
            fastest,
            near_fastest: ratio(near as f64, samples),
            longest_queue_wait: outcomes.iter().map(|outcome| outcome.queue).max().unwrap_or(0),
            longest_wait,
            mean_wait: ratio(waits().map(u128::from).sum::<u128>() as f64, samples),
            wait_to_ideal: (ideal > 0).then(|| longest_wait as f64 / ideal as f64),
            inversions: run.inversions,
            regret_us: run.counters.regret_us,
            overlaps: run.servers.iter().map(|server| server.overlaps).sum(),
            order_violations: run.order_violations,
            most_ahead: run.most_ahead,
            longest_queue: run.longest_queue,
            served: run.servers.iter().map(|server| server.served).collect(),
            most: run.servers.iter().map(|server| server.most).collect(),
            credits_ended: run.servers.iter().filter_map(|server| server.credits_ended).min(),
            period,
        }
    }

    /// Number of requests that ended in this way.
    pub fn count(&self, end: RequestEnd) -> u64 {
        self.ends.iter().find(|(own, _)| *own == end).map_or(0, |(_, count)| *count)
    }
}

fn ends(outcomes: &[RequestOutcome]) -> Vec<(RequestEnd, u64)> {
    let mut ends = std::collections::BTreeMap::new();
    for outcome in outcomes {
        *ends.entry(outcome.end).or_insert(0) += 1;
    }
    ends.into_iter().collect()
}

fn ratio(sum: f64, count: u64) -> f64 {
    if count == 0 { 0.0 } else { sum / count as f64 }
}

fn per_second(count: u64, duration: u64) -> f64 {
    if duration == 0 { 0.0 } else { count as f64 * SECOND as f64 / duration as f64 }
}

/// The quantiles of sorted times, by nearest rank.
fn quantiles(times: &[u64]) -> Vec<SampledQuantile> {
    let count = times.len() as u64;
    let quantile = |&(name, share): &(&'static str, u64)| {
        let rank = (count * share).div_ceil(1_000_000).max(1);
        let value = *times.get(rank as usize - 1)?;
        Some(SampledQuantile { name, value, samples: count - rank + 1 })
    };
    QUANTILES.iter().filter_map(quantile).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(count: u64, expected: [(u64, u64); 7]) {
        let times: Vec<u64> = (1..=count).collect();
        let found: Vec<(u64, u64)> =
            quantiles(&times).iter().map(|quantile| (quantile.value, quantile.samples)).collect();
        assert_eq!(found, expected, "{count}");
    }

    #[test]
    fn a_percentile_says_how_many_it_rests_on() {
        check(
            1000,
            [(250, 751), (500, 501), (750, 251), (950, 51), (990, 11), (999, 2), (1000, 1)],
        );
        check(10, [(3, 8), (5, 6), (8, 3), (10, 1), (10, 1), (10, 1), (10, 1)]);
        check(1, [(1, 1); 7]);
        assert!(quantiles(&[]).is_empty());
    }
}
