//! A snapshot as used by one worker, with the worker's own TLS configurations towards endpoints and
//! its own log batches. An exchange takes the worker's current generation at its start and keeps
//! it; the last exchange to end frees it.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{Ordering, compiler_fence};

use rustls::ClientConfig;
use tokio::time::sleep;
use weir_stats::LogBatch;
use weir_stats::metrics::{EndpointSeries, MetricsRegistry};

use crate::limiting::admission::Gate;
use crate::limits::LOG_FLUSH;
use crate::net::tls::ClientTls;
use crate::snapshot::series::{ListenerCounts, SnapshotSeries};
use crate::snapshot::{CompiledListener, Snapshot};
use crate::upstream::UpstreamPool;

/// The configuration, with its state, on which exchanges of one worker run.
pub(crate) struct Generation {
    pub(crate) snapshot: Arc<Snapshot>,
    /// The counters of its exchanges.
    pub(crate) series: Arc<SnapshotSeries>,
    /// Indexed by pool.
    upstream_tls: Vec<Option<Arc<ClientConfig>>>,
    logs: RefCell<Vec<LogBatch>>,
    flush_due: Cell<bool>,
    /// Pools of later generations that exchanges of this one were moved to.
    annex: Annex,
}

/// A list that only grows, so that its elements can be borrowed.
#[derive(Default)]
struct Annex(OnceCell<Box<Annexed>>);

struct Annexed {
    pool: Arc<UpstreamPool>,
    tls: Option<Arc<ClientConfig>>,
    /// The counters of the pool's endpoints.
    series: Vec<Arc<EndpointSeries>>,
    next: Annex,
}

impl Annex {
    fn iter(&self) -> impl Iterator<Item = &Annexed> {
        std::iter::successors(self.0.get(), |one| one.next.0.get()).map(|one| &**one)
    }
}

impl Generation {
    /// Creates a generation. Pools that the previous one had unchanged keep this worker's TLS
    /// configuration.
    pub(crate) fn new(
        snapshot: Arc<Snapshot>,
        numbers: &MetricsRegistry,
        before: Option<&Self>,
    ) -> Self {
        let tls = |pool: &Arc<UpstreamPool>| {
            let tls = pool.tls.as_ref()?;
            let known = before.and_then(|before| before.tls_of(pool));
            Some(known.cloned().unwrap_or_else(|| tls.for_worker()))
        };
        Self {
            upstream_tls: snapshot.pools.iter().map(tls).collect(),
            logs: RefCell::new(snapshot.logs.iter().map(|log| log.sink.batch()).collect()),
            flush_due: Cell::new(false),
            annex: Annex::default(),
            series: Arc::clone(snapshot.series(numbers)),
            snapshot,
        }
    }

    fn tls_of(&self, pool: &Arc<UpstreamPool>) -> Option<&Arc<ClientConfig>> {
        let number = self.snapshot.pools.iter().position(|one| Arc::ptr_eq(one, pool))?;
        self.upstream_tls(number)
    }

    /// The pool with this number.
    pub(crate) fn pool(&self, number: usize) -> Option<&Arc<UpstreamPool>> {
        self.snapshot.pools.get(number).or_else(|| Some(&self.annexed(number)?.pool))
    }

    /// Returns the number that a pool of a later generation has in this one; a pool that is new
    /// here is added.
    pub(crate) fn annex(&self, pool: Arc<UpstreamPool>, numbers: &MetricsRegistry) -> usize {
        let mut number = self.snapshot.pools.len();
        let mut place = &self.annex;
        while let Some(known) = place.0.get() {
            if Arc::ptr_eq(&known.pool, &pool) {
                return number;
            }
            number += 1;
            place = &known.next;
        }
        let tls = pool.tls.as_ref().map(ClientTls::for_worker);
        let series = pool.endpoints.iter();
        let series = series.map(|endpoint| numbers.endpoint(&pool.name, &endpoint.name)).collect();
        let _ = place.0.set(Box::new(Annexed { pool, tls, series, next: Annex::default() }));
        number
    }

    /// The counters of an endpoint's exchanges.
    pub(crate) fn endpoint_series(&self, pool: usize, endpoint: usize) -> Option<&EndpointSeries> {
        let own = self.series.endpoint(pool, endpoint);
        own.or_else(|| Some(self.annexed(pool)?.series.get(endpoint)?))
    }

    fn annexed(&self, number: usize) -> Option<&Annexed> {
        self.annex.iter().nth(number.checked_sub(self.snapshot.pools.len())?)
    }

    /// This worker's TLS configuration for the endpoints of a pool.
    pub(crate) fn upstream_tls(&self, number: usize) -> Option<&Arc<ClientConfig>> {
        match self.upstream_tls.get(number) {
            Some(own) => own.as_ref(),
            None => self.annexed(number)?.tls.as_ref(),
        }
    }

    /// Appends a line to log number `log`, to be flushed soon.
    pub(crate) fn log(self: &Rc<Self>, log: usize, write: impl FnOnce(&mut Vec<u8>)) {
        if let Some(batch) = self.logs.borrow_mut().get_mut(log) {
            // Keeps the batch consistent for the watchdog's thread, which reads it if this thread
            // is stopped for good in between.
            compiler_fence(Ordering::SeqCst);
            batch.push(write);
            compiler_fence(Ordering::SeqCst);
        }
        if !self.flush_due.replace(true) {
            let generation = Rc::downgrade(self);
            tokio::task::spawn_local(async move {
                sleep(LOG_FLUSH).await;
                if let Some(generation) = generation.upgrade() {
                    generation.flush_due.set(false);
                    generation.flush_logs();
                }
            });
        }
    }

    /// Hands the waiting lines to the log writer.
    pub(crate) fn flush_logs(&self) {
        let mut logs = self.logs.borrow_mut();
        compiler_fence(Ordering::SeqCst);
        logs.iter_mut().for_each(LogBatch::flush);
        compiler_fence(Ordering::SeqCst);
    }

    /// Does the same as [`Generation::flush_logs`] in place of a lost worker, unless that worker
    /// was using the batches.
    pub(crate) fn hand_over_lines(&self) {
        if let Ok(mut logs) = self.logs.try_borrow_mut() {
            logs.iter_mut().for_each(LogBatch::flush);
        }
    }
}

/// The place where a connection's exchanges run: a listener in a generation.
#[derive(Clone)]
pub(crate) struct Seat {
    pub(crate) generation: Rc<Generation>,
    pub(crate) listener: Arc<CompiledListener>,
    /// The listener's number in the generation.
    pub(crate) number: usize,
    /// The worker's generation at the time of the look-up.
    pub(crate) as_of: u64,
    /// [`Leaving::Yes`] if the listener was removed from the configuration: the next response is
    /// then the connection's last.
    pub(crate) leaving: Leaving,
}

/// Tells whether a connection ends after its next response because of its listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leaving {
    Yes,
    No,
}

impl Seat {
    /// Finds the listener of this gate, if this generation has it.
    pub(crate) fn find(generation: &Rc<Generation>, gate: &Arc<Gate>) -> Option<Self> {
        let snapshot = &generation.snapshot;
        let number = snapshot.position_of(gate)?;
        let listener = Arc::clone(snapshot.listeners.get(number)?);
        let as_of = snapshot.generation;
        let generation = Rc::clone(generation);
        Some(Self { generation, listener, number, as_of, leaving: Leaving::No })
    }

    /// Returns a seat at a listener that the next snapshot does not have.
    pub(crate) fn leaving(
        generation: &Rc<Generation>,
        number: usize,
        next: &Snapshot,
    ) -> Option<Self> {
        let listener = generation.snapshot.listeners.get(number)?;
        let is_gone = next.position_of(&listener.gate).is_none();
        is_gone.then(|| Self {
            generation: Rc::clone(generation),
            listener: Arc::clone(listener),
            number,
            as_of: next.generation,
            leaving: Leaving::Yes,
        })
    }

    /// The counters of the listener's exchanges.
    pub(crate) fn counts(&self) -> Option<&ListenerCounts> {
        self.generation.series.listener(self.number)
    }

    pub(crate) fn gate(&self) -> &Arc<Gate> {
        &self.listener.gate
    }

    /// Returns true if a connection of its gate is open, or may still be on its way to its worker.
    pub(crate) fn is_needed(&self) -> bool {
        let gate = self.gate();
        gate.accepting.load(Ordering::Acquire) > 0 || gate.open.load(Ordering::Acquire) > 0
    }
}
