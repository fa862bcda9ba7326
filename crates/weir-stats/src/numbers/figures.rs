//! Everything counted, as plain values: what `Numbers::read` gives, and sums over it.

use std::collections::{BTreeMap, HashMap};

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
    /// Attempts here that were given up.
    pub given_up: GivenUp,
}

/// Attempts that were given up for another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GivenUp {
    /// All of them.
    pub attempts: u64,
    /// After these the same endpoint was asked again: HAProxy's `wretr`.
    pub repeated: u64,
    /// After these the exchange went to another endpoint: HAProxy's `wredis`.
    pub redispatched: u64,
}

impl GivenUp {
    /// What came after `earlier`.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            attempts: self.attempts.saturating_sub(earlier.attempts),
            repeated: self.repeated.saturating_sub(earlier.repeated),
            redispatched: self.redispatched.saturating_sub(earlier.redispatched),
        }
    }

    fn and(self, other: Self) -> Self {
        Self {
            attempts: self.attempts + other.attempts,
            repeated: self.repeated + other.repeated,
            redispatched: self.redispatched + other.redispatched,
        }
    }
}

/// Whose times.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// Of a listener.
    Listener(String),
    /// Of a route.
    Route {
        /// The listener's name.
        listener: String,
        /// The route's name; empty for what was answered without one.
        route: String,
    },
    /// Of a pool.
    Pool(String),
    /// Of an endpoint.
    Endpoint {
        /// The pool's name.
        pool: String,
        /// The endpoint's name.
        endpoint: String,
    },
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

/// Where among `own` each of `others` stands, by its key.
fn places<'a, T, K: Eq + std::hash::Hash>(
    own: &'a [T],
    others: &'a [T],
    key: impl Fn(&'a T) -> K,
) -> Vec<Option<usize>> {
    let own: HashMap<K, usize> =
        own.iter().enumerate().map(|(place, one)| (key(one), place)).collect();
    others.iter().map(|one| own.get(&key(one)).copied()).collect()
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
                endpoint.given_up = endpoint.given_up.since(before.given_up);
            }
        }
        for (worker, before) in later.workers.iter_mut().zip(&earlier.workers) {
            *worker = worker.since(before);
        }
        later
    }

    /// Puts another's counts to these; the memory is this one's.
    pub fn add(&mut self, other: &Self) {
        let in_cells = places(&self.cells, &other.cells, CellFigures::key);
        for (cell, place) in other.cells.iter().zip(in_cells) {
            match place.and_then(|place| self.cells.get_mut(place)) {
                Some(own) => own.tally.add(&cell.tally),
                None => self.cells.push(cell.clone()),
            }
        }
        for listener in &other.listeners {
            let mut own = self.listeners.iter_mut();
            match own.find(|own| own.listener == listener.listener) {
                Some(own) => own.add(listener),
                None => self.listeners.push(listener.clone()),
            }
        }
        let in_routes = places(&self.routes, &other.routes, RouteFigures::key);
        for (route, place) in other.routes.iter().zip(in_routes) {
            match place.and_then(|place| self.routes.get_mut(place)) {
                Some(own) => own.phases.add(&route.phases),
                None => self.routes.push(route.clone()),
            }
        }
        let in_endpoints = places(&self.endpoints, &other.endpoints, EndpointFigures::key);
        for (endpoint, place) in other.endpoints.iter().zip(in_endpoints) {
            match place.and_then(|place| self.endpoints.get_mut(place)) {
                Some(own) => {
                    own.phases.add(&endpoint.phases);
                    own.given_up = own.given_up.and(endpoint.given_up);
                }
                None => self.endpoints.push(endpoint.clone()),
            }
        }
        let more = other.workers.len().saturating_sub(self.workers.len());
        self.workers.extend(std::iter::repeat_n(WorkerFigures::default(), more));
        self.workers.iter_mut().zip(&other.workers).for_each(|(own, more)| own.add(more));
    }

    /// Leaves out whatever counted nothing.
    pub fn drop_unused(&mut self) {
        let any = |phases: &PhaseDistributions| phases.each().any(|(_, times)| times.count() > 0);
        self.cells.retain(|cell| cell.tally.requests() > 0);
        self.routes.retain(|route| any(&route.phases));
        self.endpoints.retain(|one| any(&one.phases) || one.given_up != GivenUp::default());
        self.listeners.retain(|own| {
            let nothing = ListenerFigures { listener: own.listener.clone(), ..Default::default() };
            *own != nothing
        });
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

    /// Attempts given up at the endpoints that `wanted` says.
    pub fn given_up(&self, wanted: impl Fn(&EndpointFigures) -> bool) -> GivenUp {
        let endpoints = self.endpoints.iter().filter(|endpoint| wanted(endpoint));
        endpoints.fold(GivenUp::default(), |sum, endpoint| sum.and(endpoint.given_up))
    }

    /// Counters of those exchanges that `wanted` says.
    pub fn tally(&self, wanted: impl Fn(&CellFigures) -> bool) -> TallyFigures {
        let mut sum = TallyFigures::default();
        self.cells.iter().filter(|cell| wanted(cell)).for_each(|cell| sum.add(&cell.tally));
        sum
    }

    /// The times of everybody who had an exchange, in order. An exchange is counted under its listener, its route, its pool and its
    /// endpoint.
    pub fn by_subject(&self) -> BTreeMap<Subject, PhaseDistributions> {
        let mut all: BTreeMap<Subject, PhaseDistributions> = BTreeMap::new();
        let mut add = |subject, phases| all.entry(subject).or_default().add(phases);
        for one in &self.routes {
            add(Subject::Listener(one.listener.clone()), &one.phases);
            let (listener, route) = (one.listener.clone(), one.route.clone());
            add(Subject::Route { listener, route }, &one.phases);
            if !one.pool.is_empty() {
                add(Subject::Pool(one.pool.clone()), &one.phases);
            }
        }
        for one in &self.endpoints {
            let (pool, endpoint) = (one.pool.clone(), one.endpoint.clone());
            add(Subject::Endpoint { pool, endpoint }, &one.phases);
        }
        all.retain(|_, phases| phases.each().any(|(_, times)| times.count() > 0));
        all
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
