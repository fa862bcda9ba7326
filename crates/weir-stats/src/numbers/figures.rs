//! Everything counted, as plain values: what `Numbers::read` gives, and sums over it.

use std::collections::HashMap;

use super::phase::PhaseDistributions;
use super::series::{ListenerFigures, WorkerFigures};
use super::tally::TallyFigures;

/// Everything that was counted until it was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Exchanges by listener, route, pool and endpoint; pairs without any are left out.
    pub cells: Vec<CellFigures>,
    /// Connections by listener.
    pub listeners: Vec<ListenerFigures>,
    /// Times by route.
    pub routes: Vec<RouteFigures>,
    /// Times by endpoint.
    pub endpoints: Vec<EndpointFigures>,
    /// By number.
    pub workers: Vec<WorkerFigures>,
    /// Memory that histograms hold, bytes.
    pub histogram_bytes: usize,
}

/// Counters of exchanges that a route led to an endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CellFigures {
    /// The listener's name.
    pub listener: String,
    /// The route's name; empty when none matched.
    pub route: String,
    /// The pool's name; empty without one.
    pub pool: String,
    /// The endpoint's name; empty when none was picked.
    pub endpoint: String,
    /// What was counted.
    pub tally: TallyFigures,
}

/// Times of a route's exchanges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouteFigures {
    /// The listener's name.
    pub listener: String,
    /// The route's name; empty for what was answered without one.
    pub route: String,
    /// The pool it leads to; empty without one.
    pub pool: String,
    /// How long they took.
    pub phases: PhaseDistributions,
}

/// Times of exchanges whose last attempt was at an endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndpointFigures {
    /// The pool's name.
    pub pool: String,
    /// The endpoint's name.
    pub endpoint: String,
    /// How long they took. What attempts at other endpoints took before is in `connect`, as in the log.
    pub phases: PhaseDistributions,
    /// Attempts here that were given up for another.
    pub failed_attempts: u64,
}

impl CellFigures {
    fn key(&self) -> [&str; 4] {
        [&self.listener, &self.route, &self.pool, &self.endpoint]
    }
}

impl RouteFigures {
    fn key(&self) -> [&str; 3] {
        [&self.listener, &self.route, &self.pool]
    }
}

impl EndpointFigures {
    fn key(&self) -> [&str; 2] {
        [&self.pool, &self.endpoint]
    }
}

impl Figures {
    /// What was counted after `earlier`, a former reading of the same numbers. What came to be known since then is whole in it.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut later = self.clone();
        let cells: HashMap<_, _> = earlier.cells.iter().map(|cell| (cell.key(), cell)).collect();
        for (cell, own) in later.cells.iter_mut().zip(&self.cells) {
            if let Some(before) = cells.get(&own.key()) {
                cell.tally = cell.tally.since(&before.tally);
            }
        }
        for listener in &mut later.listeners {
            let mut before = earlier.listeners.iter();
            if let Some(before) = before.find(|before| before.listener == listener.listener) {
                *listener = listener.since(before);
            }
        }
        let routes: HashMap<_, _> = earlier.routes.iter().map(|one| (one.key(), one)).collect();
        for (route, own) in later.routes.iter_mut().zip(&self.routes) {
            if let Some(before) = routes.get(&own.key()) {
                route.phases = route.phases.since(&before.phases);
            }
        }
        let endpoints: HashMap<_, _> =
            earlier.endpoints.iter().map(|one| (one.key(), one)).collect();
        for (endpoint, own) in later.endpoints.iter_mut().zip(&self.endpoints) {
            if let Some(before) = endpoints.get(&own.key()) {
                endpoint.phases = endpoint.phases.since(&before.phases);
                endpoint.failed_attempts =
                    endpoint.failed_attempts.saturating_sub(before.failed_attempts);
            }
        }
        for (worker, before) in later.workers.iter_mut().zip(&earlier.workers) {
            *worker = worker.since(before);
        }
        later
    }

    /// Exchanges that ended.
    pub fn requests(&self) -> u64 {
        self.workers.iter().map(|worker| worker.exchanges).sum()
    }

    /// Counters of a listener's exchanges.
    pub fn tally_of_listener(&self, listener: &str) -> TallyFigures {
        self.tally(|cell| cell.listener == listener)
    }

    /// Counters of a pool's exchanges, also of those that got no endpoint.
    pub fn tally_of_pool(&self, pool: &str) -> TallyFigures {
        self.tally(|cell| cell.pool == pool)
    }

    /// Counters of an endpoint's exchanges.
    pub fn tally_of_endpoint(&self, pool: &str, endpoint: &str) -> TallyFigures {
        self.tally(|cell| cell.pool == pool && cell.endpoint == endpoint)
    }

    /// Counters of those exchanges that `wanted` says.
    pub fn tally(&self, wanted: impl Fn(&CellFigures) -> bool) -> TallyFigures {
        let mut sum = TallyFigures::default();
        self.cells.iter().filter(|cell| wanted(cell)).for_each(|cell| sum.add(&cell.tally));
        sum
    }

    /// Times of a listener's exchanges.
    pub fn phases_of_listener(&self, listener: &str) -> PhaseDistributions {
        self.phases(|route| route.listener == listener)
    }

    /// Times of a pool's exchanges, also of those that got no endpoint.
    pub fn phases_of_pool(&self, pool: &str) -> PhaseDistributions {
        self.phases(|route| route.pool == pool)
    }

    /// Times of the exchanges of those routes that `wanted` says.
    pub fn phases(&self, wanted: impl Fn(&RouteFigures) -> bool) -> PhaseDistributions {
        let mut sum = PhaseDistributions::default();
        self.routes.iter().filter(|route| wanted(route)).for_each(|route| sum.add(&route.phases));
        sum
    }

    /// Times of an endpoint's exchanges; nothing for one that is not known.
    pub fn phases_of_endpoint(&self, pool: &str, endpoint: &str) -> PhaseDistributions {
        let mut endpoints = self.endpoints.iter();
        let found = endpoints.find(|one| one.pool == pool && one.endpoint == endpoint);
        found.map(|one| one.phases.clone()).unwrap_or_default()
    }
}
