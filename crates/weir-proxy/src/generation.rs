//! A snapshot as one worker runs on it: with the worker's own TLS configurations towards endpoints and its own log batches. An
//! exchange takes the worker's current one at its start and keeps it; the last one to end frees it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use rustls::ClientConfig;
use tokio::time::sleep;
use weir_stats::LogBatch;
use weir_stats::numbers::Numbers;

use crate::gate::Gate;
use crate::limits::LOG_FLUSH;
use crate::series::{ListenerCounts, SnapshotSeries};
use crate::shared::{Listener, Snapshot};
use crate::tls::ClientTls;
use crate::upstream::UpstreamPool;

/// What exchanges of one worker run on.
pub(crate) struct Generation {
    pub(crate) snapshot: Arc<Snapshot>,
    /// Where its exchanges are counted.
    pub(crate) series: Arc<SnapshotSeries>,
    /// By pool.
    upstream_tls: Vec<Option<Arc<ClientConfig>>>,
    logs: RefCell<Vec<LogBatch>>,
    flush_due: Cell<bool>,
}

impl Generation {
    pub(crate) fn new(snapshot: Arc<Snapshot>, numbers: &Numbers) -> Self {
        let tls = |pool: &Arc<UpstreamPool>| pool.tls.as_ref().map(ClientTls::for_worker);
        Self {
            upstream_tls: snapshot.pools.iter().map(tls).collect(),
            logs: RefCell::new(snapshot.logs.iter().map(|log| log.sink.batch()).collect()),
            flush_due: Cell::new(false),
            series: Arc::clone(snapshot.series(numbers)),
            snapshot,
        }
    }

    /// Pool number `number`.
    pub(crate) fn pool(&self, number: usize) -> Option<&Arc<UpstreamPool>> {
        self.snapshot.pools.get(number)
    }

    /// How this worker speaks TLS to the endpoints of a pool.
    pub(crate) fn upstream_tls(&self, number: usize) -> Option<&Arc<ClientConfig>> {
        self.upstream_tls.get(number)?.as_ref()
    }

    /// Appends a line to log number `log`, to be flushed soon.
    pub(crate) fn log(self: &Rc<Self>, log: usize, write: impl FnOnce(&mut Vec<u8>)) {
        if let Some(batch) = self.logs.borrow_mut().get_mut(log) {
            batch.push(write);
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

    /// Hands lines over that wait.
    pub(crate) fn flush_logs(&self) {
        for batch in self.logs.borrow_mut().iter_mut() {
            batch.flush();
        }
    }
}

/// Where a connection's exchanges run: a listener in a generation.
#[derive(Clone)]
pub(crate) struct Seat {
    pub(crate) generation: Rc<Generation>,
    listener: usize,
    /// The worker's generation when it was looked for.
    pub(crate) as_of: u64,
    /// Whether the listener is gone from the configuration: the next answer is the connection's last.
    pub(crate) leaving: Leaving,
}

/// Whether a connection may go on after its next answer, as far as its listener is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leaving {
    Yes,
    No,
}

impl Seat {
    /// At the listener of this gate, if this generation has it.
    pub(crate) fn find(generation: &Rc<Generation>, gate: &Arc<Gate>) -> Option<Self> {
        let snapshot = &generation.snapshot;
        let listener = snapshot.position_of(gate)?;
        let as_of = snapshot.generation;
        Some(Self { generation: Rc::clone(generation), listener, as_of, leaving: Leaving::No })
    }

    /// Where that listener's exchanges are counted.
    pub(crate) fn counts(&self) -> Option<&ListenerCounts> {
        self.generation.series.listener(self.listener)
    }

    pub(crate) fn listener(&self) -> Option<&Arc<Listener>> {
        self.generation.snapshot.listeners.get(self.listener)
    }
}
