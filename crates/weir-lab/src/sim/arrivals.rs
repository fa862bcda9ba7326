//! The arrival times of requests. In open loops and traces they do not depend on responses; in a
//! closed loop a client's next request follows a response, and its time is computed by the caller.

use super::draw::{Draws, RandomPurpose};
use super::plan::{SimLoad, SimPlan};
use super::time::SECOND;
use super::trace::RequestTrace;

/// The arrivals of one run.
pub(crate) struct Arrivals<'a> {
    load: SimLoad,
    trace: Option<&'a RequestTrace>,
    draws: Draws,
    requests: u64,
    next: u64,
    /// Time of the last arrival, ns.
    time: f64,
}

impl<'a> Arrivals<'a> {
    pub(crate) fn new(plan: &'a SimPlan, load: SimLoad) -> Self {
        Self {
            load,
            trace: plan.trace.as_deref(),
            draws: Draws::new(plan.seed, RandomPurpose::Arrival),
            requests: plan.requests,
            next: 0,
            time: 0.0,
        }
    }

    /// Returns true if requests follow responses.
    pub(crate) fn is_closed(&self) -> bool {
        matches!(self.load, SimLoad::Closed(_))
    }

    /// The time of the first request of each client of a closed loop: all at once, as with `ab`.
    pub(crate) fn initial(&self) -> impl Iterator<Item = u64> + use<> {
        let clients = match self.load {
            SimLoad::Closed(clients) => clients,
            _ => 0,
        };
        (0..clients).map(|_| 0)
    }

    /// The time of the next request of an open loop, ns.
    pub(crate) fn next(&mut self) -> Option<u64> {
        let number = self.next;
        if number >= self.requests {
            return None;
        }
        self.next += 1;
        let second = SECOND as f64;
        match self.load {
            SimLoad::Closed(_) => None,
            SimLoad::Constant(rate) => Some((number as f64 * second / rate).round() as u64),
            SimLoad::Poisson(rate) => {
                self.time += self.draws.exponential(number) * second / rate;
                Some(self.time.round() as u64)
            }
            SimLoad::Trace(factor) => {
                let arrival = self.trace?.arrival(number)?;
                Some((arrival as f64 / factor).round() as u64)
            }
        }
    }
}
