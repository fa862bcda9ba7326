//! The registry of all counts: series by name, kept over reloads, so that a route or an endpoint
//! that comes back finds its counts. Of the series that are no longer in the configuration, the
//! latest are kept.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::figures::{CellFigures, EndpointFigures, Figures, RouteFigures};
use super::grpc::{GrpcCall, GrpcCalls};
use super::histogram::PageBudget;
use super::phase::Phase;
use super::recent::{Asked, AskedText, RecentExchange, id_number};
use super::series::{
    EndpointSeries, ListenerSeries, ROUTES, RouteKey, RouteSeries, WorkerSeries, WorkerShards,
    Yield, touch,
};
use super::tally::{Outcome, TransferredBytes};
use crate::{ExchangeRecord, Micros, Times};

/// The memory budget of all histograms, bytes. A phase whose times lie within a factor of ten takes
/// about 16 KiB per worker.
const HISTOGRAM_BYTES: usize = 256 << 20;
/// The number of route series, and likewise of endpoint and listener series, that are kept after
/// they have left the configuration.
const REMOVED_KEPT: usize = 256;
/// The route that stands for the routes of a pool beyond the limit.
const OTHER: &str = "other";

/// All counts of a process.
#[derive(Debug)]
pub struct MetricsRegistry {
    workers: Box<[WorkerSeries]>,
    budget: Arc<PageBudget>,
    grpc: GrpcCalls,
    registry: Mutex<Registry>,
}

#[derive(Debug, Default)]
struct Registry {
    listeners: BTreeMap<Arc<str>, Arc<ListenerSeries>>,
    routes: BTreeMap<RouteKey, Arc<RouteSeries>>,
    endpoints: BTreeMap<(Arc<str>, Arc<str>), Arc<EndpointSeries>>,
    /// The number of routes so far, by pool.
    places: BTreeMap<Arc<str>, usize>,
    /// The last number given to a series.
    number: u32,
    /// The number of lookups so far.
    turn: u64,
}

/// The parameters of [`MetricsRegistry::record`]: an exchange that has ended.
#[derive(Clone, Copy, Debug)]
pub struct Done<'a> {
    /// The request id; may be empty.
    pub request_id: &'a [u8],
    /// The client and the request.
    pub asked: Asked<'a>,
    /// The end of the exchange on the process's clock, µs.
    pub ended_us: u64,
    /// The time split, with the total.
    pub times: &'a Times,
    /// The counted properties.
    pub outcome: Outcome,
    /// The bytes that [`RouteSeries::transferred`] has counted already.
    pub counted: TransferredBytes,
}

/// The recorder's interest in an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Keep {
    /// The exchange is among the slowest: its complete record should be passed to
    /// [`RouteSeries::keep`].
    Whole,
    /// The exchange was counted; nothing else is needed.
    Counted,
}

impl MetricsRegistry {
    /// Creates empty counts for `workers` workers.
    pub fn new(workers: usize) -> Arc<Self> {
        Self::with_budget(workers, HISTOGRAM_BYTES)
    }

    /// Creates empty counts with a budget of `bytes` bytes for histograms.
    pub fn with_budget(workers: usize, bytes: usize) -> Arc<Self> {
        let budget = Arc::new(PageBudget::new(bytes));
        Arc::new(Self {
            workers: (0..workers).map(|_| WorkerSeries::new()).collect(),
            grpc: GrpcCalls::new(workers, Arc::clone(&budget)),
            budget,
            registry: Mutex::default(),
        })
    }

    fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The series of a route; `pool` is empty if the route leads to none. The same names give the
    /// same series.
    pub fn route(&self, listener: &str, route: &str, pool: &str) -> Arc<RouteSeries> {
        self.route_of(&mut self.registry(), listener, route, pool)
    }

    fn route_of(
        &self,
        registry: &mut Registry,
        listener: &str,
        route: &str,
        pool: &str,
    ) -> Arc<RouteSeries> {
        let key = RouteKey { listener: listener.into(), route: route.into(), pool: pool.into() };
        registry.turn += 1;
        if let Some(series) = registry.routes.get(&key) {
            touch(&series.turn, registry.turn);
            return Arc::clone(series);
        }
        let place = registry.places.entry(Arc::clone(&key.pool)).or_default();
        // The last index stands for all routes beyond the limit.
        let key = if *place < ROUTES - 1 { key } else { RouteKey { route: OTHER.into(), ..key } };
        if let Some(series) = registry.routes.get(&key) {
            return Arc::clone(series);
        }
        let own_place = (*place).min(ROUTES - 1);
        *place += 1;
        registry.number += 1;
        let (number, workers) = (registry.number, self.workers.len());
        let series = RouteSeries::new(key.clone(), number, own_place, workers, &self.budget);
        touch(&series.turn, registry.turn);
        let series = Arc::new(series);
        registry.routes.insert(key, Arc::clone(&series));
        series
    }

    /// The series of an endpoint.
    pub fn endpoint(&self, pool: &str, endpoint: &str) -> Arc<EndpointSeries> {
        let key: (Arc<str>, Arc<str>) = (pool.into(), endpoint.into());
        let mut registry = self.registry();
        let registry = &mut *registry;
        registry.turn += 1;
        let series = registry.endpoints.entry(key.clone()).or_insert_with(|| {
            registry.number += 1;
            let workers = self.workers.len();
            let ((pool, endpoint), number) = (key, registry.number);
            Arc::new(EndpointSeries::new(pool, endpoint, number, workers, &self.budget))
        });
        touch(&series.turn, registry.turn);
        Arc::clone(series)
    }

    /// The series of a listener.
    pub fn listener(&self, name: &str) -> Arc<ListenerSeries> {
        let mut registry = self.registry();
        let routeless = self.route_of(&mut registry, name, "", "");
        let turn = registry.turn;
        let series = registry.listeners.entry(name.into()).or_insert_with(|| {
            let workers = self.workers.len();
            Arc::new(ListenerSeries::new(name.into(), routeless, workers, &self.budget))
        });
        touch(&series.turn, turn);
        Arc::clone(series)
    }

    /// Drops series that are no longer in use, except the latest; to be called after a reload.
    pub fn forget_removed(&self) {
        let mut registry = self.registry();
        forget(&mut registry.listeners, |series| &series.turn);
        forget(&mut registry.routes, |series| &series.turn);
        forget(&mut registry.endpoints, |series| &series.turn);
    }

    /// Counts an exchange that has ended on this worker. Must be called by the worker's own thread.
    #[expect(clippy::inline_always, reason = "one of its callers is on every request's way")]
    #[inline(always)]
    pub fn record(
        &self,
        worker: usize,
        route: &RouteSeries,
        endpoint: Option<&EndpointSeries>,
        done: &Done<'_>,
    ) -> Keep {
        let times = done.times;
        let elapsed_us = times.elapsed();
        let mut phases = times.phases(elapsed_us);
        let is_tunnel = done.outcome.cause.is_of_tunnel();
        if is_tunnel {
            // The duration of a tunnel is no latency.
            for phase in [Phase::Data, Phase::Total, Phase::Own] {
                if let Some(time) = phases.get_mut(phase as usize) {
                    *time = Micros::NEVER;
                }
            }
        }
        let (Some(shard), Some(own)) = (route.shard(worker), self.workers.get(worker)) else {
            return Keep::Counted;
        };
        shard.phases.record(&phases, &self.budget);
        let tally = match endpoint.and_then(|endpoint| endpoint.shard(worker)) {
            None => Some(&shard.tally),
            Some(endpoint) => {
                endpoint.phases.record(&phases, &self.budget);
                endpoint.tally(route.place)
            }
        };
        if let Some(tally) = tally {
            tally.record(&done.outcome, done.counted);
        }
        own.exchanges.add(1);
        own.own_us.add(times.own.reached().unwrap_or(0));
        own.recent.write(
            elapsed_us,
            &RecentExchange {
                id: id_number(done.request_id),
                ended_us: done.ended_us,
                route: route.number,
                endpoint: endpoint.map_or(0, |endpoint| endpoint.number),
                times: *times,
                outcome: done.outcome,
            },
            &done.asked,
        );
        if !is_tunnel && shard.slow.wants(elapsed_us, done.ended_us) {
            Keep::Whole
        } else {
            Keep::Counted
        }
    }

    /// Counts a call of gRPC by its method. Must be called by the worker's own thread.
    pub fn record_call(&self, worker: usize, call: &GrpcCall<'_>) {
        self.grpc.record(worker, call);
    }

    /// Records the delay of a worker's timer.
    pub fn note_lag(&self, worker: usize, lag_us: u64) {
        if let Some(worker) = self.workers.get(worker) {
            worker.lag.record(lag_us, &self.budget);
        }
    }

    /// Counts a turn of a task that ended although more was ready. Must be called by the worker's
    /// own thread.
    pub fn note_yield(&self, worker: usize, what: Yield) {
        if let Some(worker) = self.workers.get(worker) {
            worker.note_yield(what);
        }
    }

    /// The number of exchanges that have ended, on all workers.
    pub fn exchanges(&self) -> u64 {
        self.workers.iter().map(|worker| worker.exchanges.read()).sum()
    }

    /// The bytes that histograms hold; at most their budget.
    pub fn histogram_bytes(&self) -> usize {
        self.budget.taken_bytes()
    }

    /// All counts so far, summed over the workers.
    pub fn read(&self) -> Figures {
        self.read_of(WorkerShards::All)
    }

    /// All counts so far, separately for each worker; series that a worker never used are left out.
    pub fn read_by_worker(&self) -> Vec<Figures> {
        let of_worker = |worker| {
            let mut figures = self.read_of(WorkerShards::One(worker));
            figures.drop_unused();
            figures
        };
        (0..self.workers.len()).map(of_worker).collect()
    }

    fn read_of(&self, workers: WorkerShards) -> Figures {
        let (listeners, routes, endpoints) = {
            let registry = self.registry();
            let listeners: Vec<_> = registry.listeners.values().cloned().collect();
            let routes: Vec<_> = registry.routes.values().cloned().collect();
            let endpoints: Vec<_> = registry.endpoints.values().cloned().collect();
            (listeners, routes, endpoints)
        };
        let mut cells: Vec<CellFigures> = routes.iter().map(|route| cell(route, workers)).collect();
        for endpoint in &endpoints {
            cells.extend(cells_of(endpoint, &routes, workers));
        }
        cells.retain(|cell| !cell.tally.is_empty());
        let of_endpoint = |endpoint: &Arc<EndpointSeries>| EndpointFigures {
            pool: endpoint.pool.to_string(),
            endpoint: endpoint.endpoint.to_string(),
            phases: endpoint.phases(workers),
            given_up: endpoint.given_up(workers),
        };
        let of_route = |route: &Arc<RouteSeries>| RouteFigures {
            listener: route.listener.to_string(),
            route: route.route.to_string(),
            pool: route.pool.to_string(),
            phases: route.phases(workers),
            streams: route.streams(workers),
        };
        Figures {
            cells,
            listeners: listeners.iter().map(|listener| listener.read(workers)).collect(),
            routes: routes.iter().map(of_route).collect(),
            endpoints: endpoints.iter().map(of_endpoint).collect(),
            grpc: self.grpc.read(workers),
            workers: match workers {
                WorkerShards::All => self.workers.iter().map(WorkerSeries::read).collect(),
                WorkerShards::One(one) => {
                    self.workers.get(one).map(WorkerSeries::read).into_iter().collect()
                }
            },
            histogram_bytes: self.budget.taken_bytes(),
        }
    }

    /// The slowest exchanges of the last 15 minutes, of all routes or of one; the slowest first.
    pub fn slowest(&self, route: Option<&str>, now_us: u64) -> Vec<Arc<ExchangeRecord>> {
        let routes: Vec<_> = self.registry().routes.values().cloned().collect();
        let mut all = Vec::new();
        let wanted = routes.iter().filter(|one| route.is_none_or(|name| *one.route == *name));
        for shard in wanted.flat_map(|route| route.shards()) {
            shard.slow.read_into(now_us, &mut all);
        }
        all.sort_by_key(|record| std::cmp::Reverse(record.elapsed_us()));
        all
    }

    /// The exchange with this request id: complete if it is among the slowest, otherwise with the
    /// data in the ring of the worker's recent exchanges.
    pub fn why(&self, request_id: &str, now_us: u64) -> Option<ExchangeRecord> {
        let slow = self.slowest(None, now_us);
        let mut whole = slow.iter().filter(|record| record.request_id == request_id);
        if let Some(record) = whole.next() {
            return Some(ExchangeRecord::clone(record));
        }
        let id = id_number(request_id.as_bytes());
        let found = self
            .workers
            .iter()
            .enumerate()
            .filter_map(|(worker, series)| series.recent.find(id).map(|found| (worker, found)));
        let (worker, (exchange, asked)) =
            found.max_by_key(|(_, (exchange, _))| exchange.ended_us)?;
        Some(self.record_of(request_id, worker, exchange, asked))
    }

    fn record_of(
        &self,
        request_id: &str,
        worker: usize,
        exchange: RecentExchange,
        asked: AskedText,
    ) -> ExchangeRecord {
        let registry = self.registry();
        let mut routes = registry.routes.values();
        let route = routes.find(|route| route.number == exchange.route);
        let mut endpoints = registry.endpoints.values();
        let endpoint = endpoints.find(|endpoint| endpoint.number == exchange.endpoint);
        let name = |name: Option<&Arc<str>>| name.map(ToString::to_string).unwrap_or_default();
        let outcome = exchange.outcome;
        ExchangeRecord {
            request_id: request_id.to_owned(),
            ended_us: exchange.ended_us,
            listener: name(route.map(|route| &route.listener)),
            route: name(route.map(|route| &route.route)),
            pool: name(route.map(|route| &route.pool)),
            endpoint: name(endpoint.map(|endpoint| &endpoint.endpoint)),
            client: asked.client.map(|client| client.to_string()).unwrap_or_default(),
            method: asked.method,
            target: asked.target,
            times: exchange.times,
            cause: outcome.cause,
            status: outcome.status,
            attempts: outcome.attempts,
            reused: outcome.reused,
            queue_position: outcome.queue_position,
            worker,
            bytes_received: outcome.bytes_received,
            bytes_sent: outcome.bytes_sent,
            ..ExchangeRecord::default()
        }
    }
}

/// The counts of a route's exchanges without an endpoint.
fn cell(route: &RouteSeries, workers: WorkerShards) -> CellFigures {
    CellFigures {
        listener: route.listener.to_string(),
        route: route.route.to_string(),
        pool: route.pool.to_string(),
        endpoint: String::new(),
        tally: route.tally(workers),
    }
}

fn cells_of(
    endpoint: &EndpointSeries,
    routes: &[Arc<RouteSeries>],
    workers: WorkerShards,
) -> Vec<CellFigures> {
    let tallies = endpoint.tallies(workers).into_iter();
    let cell = |(place, tally)| {
        let mut routes = routes.iter();
        let route = routes.find(|route| route.pool == endpoint.pool && route.place == place);
        CellFigures {
            listener: route.map_or_else(String::new, |route| route.listener.to_string()),
            // A route that was removed long ago.
            route: route.map_or_else(|| OTHER.to_owned(), |route| route.route.to_string()),
            pool: endpoint.pool.to_string(),
            endpoint: endpoint.endpoint.to_string(),
            tally,
        }
    };
    tallies.map(cell).collect()
}

fn forget<K: Ord + Clone, T>(series: &mut BTreeMap<K, Arc<T>>, turn: impl Fn(&T) -> &AtomicU64) {
    let turn_of = |one: &Arc<T>| turn(one).load(Ordering::Relaxed);
    let unused = series.iter().filter(|(_, one)| Arc::strong_count(one) == 1);
    let mut removed: Vec<(u64, K)> = unused.map(|(key, one)| (turn_of(one), key.clone())).collect();
    let Some(surplus) = removed.len().checked_sub(REMOVED_KEPT) else { return };
    removed.sort_unstable_by_key(|(turn, _)| *turn);
    for (_, key) in removed.into_iter().take(surplus) {
        series.remove(&key);
    }
}
