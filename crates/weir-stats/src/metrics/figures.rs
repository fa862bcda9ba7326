//! All counts as plain values: the result of `MetricsRegistry::read`, and sums over it.

use std::collections::{BTreeMap, HashMap};

use super::grpc::GrpcFigures;
use super::phase::PhaseDistributions;
use super::series::{ListenerFigures, WorkerFigures};
use super::stream::StreamDistributions;
use super::tally::{GivenUp, TallyFigures};

/// All counts at a reading.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Exchanges by listener, route, pool and endpoint; combinations without any, and without bytes
    /// of one that goes on, are left out.
    pub cells: Vec<CellFigures>,
    /// Connections by listener.
    pub listeners: Vec<ListenerFigures>,
    /// Times by route.
    pub routes: Vec<RouteFigures>,
    /// Times by endpoint.
    pub endpoints: Vec<EndpointFigures>,
    /// Calls of gRPC by method.
    pub grpc: Vec<GrpcFigures>,
    /// Workers by number.
    pub workers: Vec<WorkerFigures>,
    /// The memory that histograms hold, bytes.
    pub histogram_bytes: usize,
}

/// Counters of the exchanges that a route led to an endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CellFigures {
    /// The listener's name.
    pub listener: String,
    /// The route's name; empty if none matched.
    pub route: String,
    /// The pool's name; empty if there is none.
    pub pool: String,
    /// The endpoint's name; empty if none was picked.
    pub endpoint: String,
    /// The counters.
    pub tally: TallyFigures,
}

/// Times of a route's exchanges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouteFigures {
    /// The listener's name.
    pub listener: String,
    /// The route's name; empty for responses without one.
    pub route: String,
    /// The pool that the route leads to; empty if there is none.
    pub pool: String,
    /// The times by phase.
    pub phases: PhaseDistributions,
    /// The times of its streams.
    pub streams: StreamDistributions,
}

/// Times of exchanges whose last attempt was at an endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndpointFigures {
    /// The pool's name.
    pub pool: String,
    /// The endpoint's name.
    pub endpoint: String,
    /// The times by phase. As in the log, the time of earlier attempts at other endpoints is part
    /// of `connect`.
    pub phases: PhaseDistributions,
    /// Abandoned attempts at this endpoint.
    pub given_up: GivenUp,
}

/// The subject of a set of times.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// A listener.
    Listener(String),
    /// A route.
    Route {
        /// The listener's name.
        listener: String,
        /// The route's name; empty for responses without one.
        route: String,
    },
    /// A pool.
    Pool(String),
    /// An endpoint.
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

impl ListenerFigures {
    fn key(&self) -> [&str; 1] {
        [&self.listener]
    }
}

impl RouteFigures {
    /// Returns true if both are of the same route and pool.
    pub fn is_of(&self, other: &Self) -> bool {
        self.key() == other.key()
    }

    fn key(&self) -> [&str; 3] {
        [&self.listener, &self.route, &self.pool]
    }
}

impl EndpointFigures {
    fn key(&self) -> [&str; 2] {
        [&self.pool, &self.endpoint]
    }
}

/// The index in `list` of each element of `wanted`, by its key.
fn places<T, const N: usize>(
    list: &[T],
    wanted: &[T],
    key: impl Fn(&T) -> [&str; N],
) -> Vec<Option<usize>> {
    let list: HashMap<_, usize> =
        list.iter().enumerate().map(|(place, one)| (key(one), place)).collect();
    wanted.iter().map(|one| list.get(&key(one)).copied()).collect()
}

/// Adds each of `others` to the element with its key, or appends it if there is none.
fn merge<T: Clone, const N: usize>(
    own: &mut Vec<T>,
    others: &[T],
    key: impl Fn(&T) -> [&str; N],
    add: impl Fn(&mut T, &T),
) {
    let places = places(own, others, key);
    for (other, place) in others.iter().zip(places) {
        match place.and_then(|place| own.get_mut(place)) {
            Some(own) => add(own, other),
            None => own.push(other.clone()),
        }
    }
}

/// Subtracts from each element the counts that the element of `earlier` with its key had.
fn lessen<T, const N: usize>(
    own: &mut [T],
    earlier: &[T],
    key: impl Fn(&T) -> [&str; N],
    take: impl Fn(&mut T, &T),
) {
    let places = places(earlier, own, key);
    for (own, place) in own.iter_mut().zip(places) {
        if let Some(before) = place.and_then(|place| earlier.get(place)) {
            take(own, before);
        }
    }
}

impl Figures {
    /// The difference to `earlier`, a former reading of the same numbers. Series created since then
    /// are included in full.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut later = self.clone();
        lessen(&mut later.cells, &earlier.cells, CellFigures::key, |own, before| {
            own.tally = own.tally.since(&before.tally);
        });
        lessen(&mut later.listeners, &earlier.listeners, ListenerFigures::key, |own, before| {
            *own = own.since(before);
        });
        lessen(&mut later.routes, &earlier.routes, RouteFigures::key, |own, before| {
            own.phases = own.phases.since(&before.phases);
            own.streams = own.streams.since(&before.streams);
        });
        lessen(&mut later.grpc, &earlier.grpc, GrpcFigures::key, |own, before| {
            *own = own.since(before);
        });
        lessen(&mut later.endpoints, &earlier.endpoints, EndpointFigures::key, |own, before| {
            own.phases = own.phases.since(&before.phases);
            own.given_up = own.given_up.since(before.given_up);
        });
        for (worker, before) in later.workers.iter_mut().zip(&earlier.workers) {
            *worker = worker.since(before);
        }
        later
    }

    /// Adds the counts of `other`; the memory figure is not changed.
    pub fn add(&mut self, other: &Self) {
        merge(&mut self.cells, &other.cells, CellFigures::key, |own, more| {
            own.tally.add(&more.tally);
        });
        merge(&mut self.listeners, &other.listeners, ListenerFigures::key, ListenerFigures::add);
        merge(&mut self.routes, &other.routes, RouteFigures::key, |own, more| {
            own.phases.add(&more.phases);
            own.streams.add(&more.streams);
        });
        merge(&mut self.grpc, &other.grpc, GrpcFigures::key, GrpcFigures::add);
        merge(&mut self.endpoints, &other.endpoints, EndpointFigures::key, |own, more| {
            own.phases.add(&more.phases);
            own.given_up = own.given_up.and(more.given_up);
        });
        let more = other.workers.len().saturating_sub(self.workers.len());
        self.workers.extend(std::iter::repeat_n(WorkerFigures::default(), more));
        self.workers.iter_mut().zip(&other.workers).for_each(|(own, more)| own.add(more));
    }

    /// Removes all elements without counts.
    pub fn drop_unused(&mut self) {
        self.cells.retain(|cell| !cell.tally.is_empty());
        self.routes.retain(|route| !route.phases.is_empty() || !route.streams.is_empty());
        self.grpc.retain(|method| method.times.count() > 0);
        self.endpoints.retain(|one| !one.phases.is_empty() || one.given_up != GivenUp::default());
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

    /// Counters of a pool's exchanges, including those that got no endpoint.
    pub fn tally_of_pool(&self, pool: &str) -> TallyFigures {
        self.tally(|cell| cell.pool == pool)
    }

    /// Counters of an endpoint's exchanges.
    pub fn tally_of_endpoint(&self, pool: &str, endpoint: &str) -> TallyFigures {
        self.tally(|cell| cell.pool == pool && cell.endpoint == endpoint)
    }

    /// Abandoned attempts at the endpoints that `wanted` selects.
    pub fn given_up(&self, wanted: impl Fn(&EndpointFigures) -> bool) -> GivenUp {
        let endpoints = self.endpoints.iter().filter(|endpoint| wanted(endpoint));
        endpoints.fold(GivenUp::default(), |sum, endpoint| sum.and(endpoint.given_up))
    }

    /// Counters of the exchanges that `wanted` selects.
    pub fn tally(&self, wanted: impl Fn(&CellFigures) -> bool) -> TallyFigures {
        let mut sum = TallyFigures::default();
        self.cells.iter().filter(|cell| wanted(cell)).for_each(|cell| sum.add(&cell.tally));
        sum
    }

    /// The times of every subject with exchanges, in order. An exchange is counted under its
    /// listener, its route, its pool and its endpoint.
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
        all.retain(|_, phases| !phases.is_empty());
        all
    }

    /// Times of a listener's exchanges.
    pub fn phases_of_listener(&self, listener: &str) -> PhaseDistributions {
        self.phases(|route| route.listener == listener)
    }

    /// Times of a pool's exchanges, including those that got no endpoint.
    pub fn phases_of_pool(&self, pool: &str) -> PhaseDistributions {
        self.phases(|route| route.pool == pool)
    }

    /// Times of the exchanges of the routes that `wanted` selects.
    pub fn phases(&self, wanted: impl Fn(&RouteFigures) -> bool) -> PhaseDistributions {
        let mut sum = PhaseDistributions::default();
        self.routes.iter().filter(|route| wanted(route)).for_each(|route| sum.add(&route.phases));
        sum
    }

    /// Times of an endpoint's exchanges; empty for an unknown endpoint.
    pub fn phases_of_endpoint(&self, pool: &str, endpoint: &str) -> PhaseDistributions {
        let mut endpoints = self.endpoints.iter();
        let found = endpoints.find(|one| one.pool == pool && one.endpoint == endpoint);
        found.map(|one| one.phases.clone()).unwrap_or_default()
    }
}
