//! A worker: one thread's runtime with its buffers, idle endpoint connections and log batches, and the loop that takes
//! connections from its mailbox. It accepts nothing itself (`accept.rs`) and speaks no protocol (`connection.rs`).

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use rustls::ClientConfig;
use tokio::sync::futures::Notified;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until};
use weir_balance::Balancer;
use weir_stats::{Clock, LogBatch};

use crate::accept::Handoff;
use crate::buffers::Buffers;
use crate::connection;
use crate::exchange::Workspace;
use crate::idle::IdleConnections;
use crate::limits::{CUT_PATIENCE, IDLE_SWEEP, LOG_FLUSH, POOLED_WORKSPACES, STOP_IDLE_GRACE};
use crate::net::Net;
use crate::reply::HttpDate;
use crate::request_id::RequestIdSource;
use crate::shared::{Shared, Stage};
use crate::tls::ClientTls;

/// What other threads see of a worker.
#[derive(Debug, Default)]
pub struct WorkerLoad {
    /// Client connections it holds, those in its mailbox included.
    pub open: AtomicUsize,
    /// Of them, those with an exchange running.
    pub busy: AtomicUsize,
}

/// What the tasks of one worker share.
pub(crate) struct Worker<N: Net> {
    pub(crate) number: usize,
    pub(crate) net: N,
    pub(crate) shared: Arc<Shared>,
    pub(crate) load: Arc<WorkerLoad>,
    pub(crate) buffers: Buffers,
    pub(crate) idle: IdleConnections<N::Stream>,
    /// By pool.
    pub(crate) upstream_tls: Vec<Option<Arc<ClientConfig>>>,
    pub(crate) date: RefCell<HttpDate>,
    pub(crate) clock: RefCell<Clock>,
    pub(crate) request_ids: RefCell<RequestIdSource>,
    pub(crate) random: RefCell<fastrand::Rng>,
    /// Set when what is still open has to end.
    cut: Cell<bool>,
    /// Wakes connections to look at that.
    cut_wakes: Notify,
    logs: RefCell<Vec<LogBatch>>,
    flush_due: Cell<bool>,
    wall: Cell<(Instant, SystemTime)>,
    #[expect(
        clippy::vec_box,
        reason = "a workspace is large and moves between the shelf and its connection"
    )]
    workspaces: RefCell<Vec<Box<Workspace>>>,
}

/// What a worker is made from.
pub struct WorkerParts<N: Net> {
    /// Its number, from 0.
    pub number: usize,
    /// Its network.
    pub net: N,
    /// What all workers share.
    pub shared: Arc<Shared>,
    /// Connections handed to it.
    pub mailbox: mpsc::UnboundedReceiver<Handoff<N>>,
    /// Seed of its random choices.
    pub seed: u64,
    /// Told when the process stops.
    pub stage: watch::Receiver<Stage>,
}

/// Runs a worker on the current thread's `LocalRuntime` until it is told to stop and its connections have ended.
pub async fn run<N: Net>(parts: WorkerParts<N>) {
    let WorkerParts { number, net, shared, mut mailbox, seed, mut stage } = parts;
    let Some(load) = shared.loads.get(number).cloned() else { return };
    let worker = Rc::new(Worker {
        number,
        net,
        load,
        buffers: Buffers::default(),
        idle: IdleConnections::new(&shared.pools),
        upstream_tls: shared
            .pools
            .iter()
            .map(|pool| pool.tls.as_ref().map(ClientTls::for_worker))
            .collect(),
        date: RefCell::default(),
        clock: RefCell::new(Clock::new()),
        request_ids: RefCell::new(RequestIdSource::new(seed)),
        random: RefCell::new(fastrand::Rng::with_seed(seed)),
        cut: Cell::new(false),
        cut_wakes: Notify::new(),
        logs: RefCell::new(shared.logs.iter().map(|log| log.sink.batch()).collect()),
        flush_due: Cell::new(false),
        wall: Cell::new((Instant::now(), SystemTime::now())),
        workspaces: RefCell::default(),
        shared,
    });
    tokio::task::spawn_local(sweep(Rc::downgrade(&worker)));
    loop {
        tokio::select! {
            biased;
            handoff = mailbox.recv() => match handoff {
                Some(handoff) => connection::spawn(&worker, handoff),
                None => break,
            },
            _ = stage.wait_for(|stage| !matches!(stage, Stage::Running)) => break,
        }
    }
    drain(&worker, &mut mailbox, &mut stage).await;
    cut_off(&worker).await;
    worker.flush_logs();
}

/// Serves what was accepted before the listeners closed; ends when nothing runs any more or the deadline has passed.
async fn drain<N: Net>(
    worker: &Rc<Worker<N>>,
    mailbox: &mut mpsc::UnboundedReceiver<Handoff<N>>,
    stage: &mut watch::Receiver<Stage>,
) {
    let deadline = match *stage.borrow() {
        Stage::Draining { deadline } => deadline,
        Stage::Running | Stage::Stopped => return,
    };
    let grace = (Instant::now() + STOP_IDLE_GRACE).min(deadline);
    loop {
        while let Ok(handoff) = mailbox.try_recv() {
            connection::spawn(worker, handoff);
        }
        let now = Instant::now();
        let open = worker.load.open.load(Ordering::Relaxed);
        let busy = worker.load.busy.load(Ordering::Relaxed);
        if open == 0 || now >= deadline || (busy == 0 && now >= grace) {
            return;
        }
        tokio::select! {
            biased;
            _ = stage.wait_for(|stage| matches!(stage, Stage::Stopped)) => return,
            () = sleep_until((now + Duration::from_millis(10)).min(deadline)) => {}
        }
    }
}

/// Ends what is still open: whoever has no answer yet gets one, every exchange is logged with its cause, idle connections are
/// closed in order.
async fn cut_off<N: Net>(worker: &Worker<N>) {
    let running = worker.load.busy.load(Ordering::Relaxed);
    worker.shared.cut_off.fetch_add(running, Ordering::Relaxed);
    worker.cut.set(true);
    worker.cut_wakes.notify_waiters();
    let deadline = Instant::now() + CUT_PATIENCE;
    while worker.load.open.load(Ordering::Relaxed) > 0 && Instant::now() < deadline {
        sleep(Duration::from_millis(1)).await;
    }
}

async fn sweep<N: Net>(worker: std::rc::Weak<Worker<N>>) {
    loop {
        sleep(IDLE_SWEEP).await;
        let Some(worker) = worker.upgrade() else { return };
        worker.idle.sweep(&worker.shared.pools, Instant::now());
        // Somebody has to, and one is enough.
        if worker.number == 0 {
            worker.shared.watch_queues();
        }
    }
}

impl<N: Net> Worker<N> {
    /// The wall-clock time of `instant`, set right once a second, without a system call in between.
    pub(crate) fn wall(&self, instant: Instant) -> SystemTime {
        let (anchor, time) = self.wall.get();
        match instant.checked_duration_since(anchor) {
            Some(later) if later.as_secs() == 0 => time + later,
            Some(_) => {
                let (anchor, time) = (Instant::now(), SystemTime::now());
                self.wall.set((anchor, time));
                time - anchor.saturating_duration_since(instant)
            }
            None => time - anchor.saturating_duration_since(instant),
        }
    }

    /// Microseconds since the process started, the balancer's clock.
    pub(crate) fn balance_clock(&self, now: Instant) -> u64 {
        self.shared.balance_clock(now)
    }

    /// Tells a balancer at this time of its clock that something may have ended, so that whoever waits for that goes on.
    pub(crate) fn tick_at(&self, balancer: &Arc<Balancer>, at_us: u64) {
        let (balancer, shared) = (Arc::clone(balancer), Arc::clone(&self.shared));
        tokio::task::spawn_local(async move {
            let now_us = shared.balance_clock(Instant::now());
            sleep(Duration::from_micros(at_us.saturating_sub(now_us))).await;
            balancer.tick(shared.balance_clock(Instant::now()));
        });
    }

    /// The `Date` header's value at `now`.
    pub(crate) fn date(&self, now: Instant) -> [u8; 29] {
        *self.date.borrow_mut().at(self.wall(now))
    }

    /// Whether what is open has to end now.
    pub(crate) fn is_cut(&self) -> bool {
        self.cut.get()
    }

    /// Ready when [`Worker::is_cut`] has become true.
    pub(crate) fn cut(&self) -> Notified<'_> {
        self.cut_wakes.notified()
    }

    /// Whether answers should end their connections.
    pub(crate) fn is_stopping(&self) -> bool {
        self.shared.stopping.load(Ordering::Relaxed)
    }

    pub(crate) fn workspace(&self) -> Box<Workspace> {
        self.workspaces.borrow_mut().pop().unwrap_or_default()
    }

    pub(crate) fn give_back_workspace(&self, mut workspace: Box<Workspace>) {
        workspace.reset(&self.buffers);
        let mut workspaces = self.workspaces.borrow_mut();
        if workspaces.len() < POOLED_WORKSPACES {
            workspaces.push(workspace);
        }
    }

    /// Appends a line to log number `log`, to be flushed soon.
    pub(crate) fn log(self: &Rc<Self>, log: usize, write: impl FnOnce(&mut Vec<u8>)) {
        if let Some(batch) = self.logs.borrow_mut().get_mut(log) {
            batch.push(write);
        }
        if !self.flush_due.replace(true) {
            let worker = Rc::downgrade(self);
            tokio::task::spawn_local(async move {
                sleep(LOG_FLUSH).await;
                if let Some(worker) = worker.upgrade() {
                    worker.flush_due.set(false);
                    worker.flush_logs();
                }
            });
        }
    }

    fn flush_logs(&self) {
        for batch in self.logs.borrow_mut().iter_mut() {
            batch.flush();
        }
    }
}
