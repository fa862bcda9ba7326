//! A worker: one thread's runtime with its buffers, idle endpoint connections and log batches, and
//! the loop that takes connections from its mailbox. It does not accept connections (`accept.rs`)
//! and implements no protocol (`connection.rs`).

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::sync::futures::Notified;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::time::{sleep, sleep_until};
use weir_balance::{Balancer, Holder};
use weir_stats::Clock;
use weir_stats::metrics::Yield;

use crate::accept::{Handoff, Places};
use crate::buffers::Buffers;
use crate::connection;
use crate::exchange::Workspace;
use crate::gate::Gate;
use crate::generation::{Generation, Seat};
use crate::idle::IdleConnections;
use crate::idle_clients::{self, IdleClients};
use crate::idle_count::OfWorker;
use crate::instant::Instant;
use crate::limits::{CUT_PATIENCE, IDLE_SWEEP, POOLED_WORKSPACES};
use crate::moving::{Departures, Parting};
use crate::net::Net;
use crate::overload::{self, Pressure};
use crate::reply::HttpDate;
use crate::request_id::RequestIdSource;
use crate::residents::Residents;
use crate::sessions::{RunningExchange, Sessions};
use crate::shared::{Process, Snapshot, Stage};
use crate::turns::HandshakeTurns;
use crate::work_time::Turn;

/// The state of a worker that other threads see.
#[derive(Debug, Default)]
pub struct WorkerLoad {
    /// The number of its client connections, including those in its mailbox.
    pub open: AtomicUsize,
    /// The number of its client connections with a running exchange.
    pub busy: AtomicUsize,
    /// The bytes that running exchanges hold in buffers.
    pub held: AtomicUsize,
    /// Incremented by the worker's own thread a few times a second: the watchdog considers a worker
    /// late if this number does not change.
    pub(crate) beats: AtomicU64,
    /// Set by the watchdog while the worker does not run its tasks. New connections go to others.
    pub(crate) late: AtomicBool,
    /// The kernel's id of its thread.
    pub(crate) thread: AtomicI32,
    /// The places of its connections within the caps.
    places: Mutex<Places>,
    /// The table of its exchanges; null while there is none.
    pub(crate) sessions: AtomicPtr<Sessions>,
}

impl WorkerLoad {
    /// Returns true if the worker does not run its tasks at the moment.
    pub fn is_late(&self) -> bool {
        self.late.load(Ordering::Relaxed)
    }

    /// Locked by its worker when a connection begins and when it ends, and by another thread only
    /// once the worker is lost.
    pub(crate) fn places(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives back the places of all its connections, and returns their number.
    pub(crate) fn seize_places(&self) -> usize {
        let places = std::mem::take(&mut *self.places());
        places.len()
    }
}

/// The receiving end of a worker's mail. The worker's thread reads it; the watchdog takes
/// connections out of it while that thread is late, and a thread that replaces it continues to read
/// it.
pub struct Mailbox<N: Net>(Arc<Mutex<mpsc::UnboundedReceiver<Mail<N>>>>);

impl<N: Net> Clone for Mailbox<N> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<N: Net> From<mpsc::UnboundedReceiver<Mail<N>>> for Mailbox<N> {
    fn from(receiver: mpsc::UnboundedReceiver<Mail<N>>) -> Self {
        Self(Arc::new(Mutex::new(receiver)))
    }
}

impl<N: Net> Mailbox<N> {
    /// Uncontended, except while the watchdog empties it.
    fn receiver(&self) -> MutexGuard<'_, mpsc::UnboundedReceiver<Mail<N>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn recv(&self) -> Option<Mail<N>> {
        std::future::poll_fn(|context| self.receiver().poll_recv(context)).await
    }

    /// Closes the mailbox: the mail in it is dropped, and later mail is refused.
    pub(crate) fn shut(&self) {
        let mut receiver = self.receiver();
        receiver.close();
        while receiver.try_recv().is_ok() {}
    }

    /// Takes all mail, the oldest first, unless the worker is reading at this moment.
    pub(crate) fn take_all(&self) -> Vec<Mail<N>> {
        let Ok(mut receiver) = self.0.try_lock() else { return Vec::new() };
        std::iter::from_fn(|| receiver.try_recv().ok()).collect()
    }
}

/// A message to a worker.
pub enum Mail<N: Net> {
    /// A connection to serve.
    Connection(Handoff<N>),
    /// The snapshot for new exchanges; the sender is answered when it is in place.
    Snapshot(Arc<Snapshot>, oneshot::Sender<()>),
    /// Plain connections leave to this channel from now on, as soon as none of their requests is
    /// with an endpoint; with `None` they stay. The sender is answered when the connections that
    /// could leave at once have left.
    Part(Option<Departures<N>>, oneshot::Sender<()>),
    /// The sender gets the running exchanges.
    Sessions(oneshot::Sender<Vec<RunningExchange>>),
    /// A function to call on its thread, within its runtime.
    Work(Box<dyn FnOnce() + Send>),
}

/// The state that the tasks of one worker share.
pub(crate) struct Worker<N: Net> {
    pub(crate) number: usize,
    pub(crate) net: N,
    pub(crate) process: Arc<Process>,
    pub(crate) load: Arc<WorkerLoad>,
    pub(crate) buffers: Buffers,
    /// The running exchanges.
    pub(crate) sessions: Sessions,
    /// The current measures against a shortage of memory.
    pub(crate) pressure: Cell<Pressure>,
    pub(crate) idle: IdleConnections<N::Stream>,
    /// The client connections that wait for a request.
    pub(crate) idle_clients: IdleClients,
    /// All client connections whose clients are counted.
    pub(crate) residents: Residents,
    /// The generation that new exchanges run on.
    current: RefCell<Rc<Generation>>,
    /// The number of that generation.
    generation: Cell<u64>,
    /// Removed listeners that may still have connections.
    leaving: RefCell<Vec<Seat>>,
    pub(crate) date: RefCell<HttpDate>,
    pub(crate) clock: RefCell<Clock>,
    pub(crate) request_ids: RefCell<RequestIdSource>,
    pub(crate) random: RefCell<fastrand::Rng>,
    /// Set when all open connections have to end.
    cut: Cell<bool>,
    /// Set when plain connections are to leave.
    parting: Cell<bool>,
    /// The channel for connections that leave.
    departures: RefCell<Option<Departures<N>>>,
    /// Wakes connections to check `cut`, `parting` and `pressure`.
    calls: Notify,
    /// The number of times that they were woken.
    called: Cell<u32>,
    wall: Cell<(Instant, SystemTime)>,
    /// The turn of the exchange that runs on the thread.
    pub(crate) turn: Turn,
    /// The TLS handshakes of clients.
    pub(crate) handshakes: Rc<HandshakeTurns>,
    #[expect(
        clippy::vec_box,
        reason = "a workspace is large and moves between the shelf and its connection"
    )]
    workspaces: RefCell<Vec<Box<Workspace>>>,
}

/// The parts that a worker is built from.
pub struct WorkerParts<N: Net> {
    /// Its number, from 0.
    pub number: usize,
    /// Its network.
    pub net: N,
    /// The state that all workers share.
    pub process: Arc<Process>,
    /// The worker's mail.
    pub mailbox: Mailbox<N>,
    /// The seed of its random choices.
    pub seed: u64,
    /// Notified when the process stops.
    pub stage: watch::Receiver<Stage>,
}

/// Runs a worker on the current thread's `LocalRuntime` until it is told to stop and its
/// connections have ended.
pub async fn run<N: Net>(parts: WorkerParts<N>) {
    let WorkerParts { number, net, process, mailbox, seed, mut stage } = parts;
    let Some(load) = process.loads.get(number).cloned() else { return };
    let snapshot = process.snapshot();
    let worker = Rc::new(Worker {
        number,
        net,
        sessions: Sessions::new(Arc::clone(&load), Arc::clone(&process), number),
        pressure: Cell::default(),
        load,
        buffers: Buffers::default(),
        idle_clients: IdleClients::default(),
        residents: Residents::default(),
        idle: IdleConnections::new(OfWorker { number, of: process.loads.len() }),
        generation: Cell::new(snapshot.generation),
        leaving: RefCell::default(),
        current: RefCell::new(Rc::new(Generation::new(snapshot, &process.numbers, None))),
        date: RefCell::default(),
        clock: RefCell::new(Clock::new()),
        request_ids: RefCell::new(RequestIdSource::new(seed)),
        random: RefCell::new(fastrand::Rng::with_seed(seed)),
        cut: Cell::new(false),
        parting: Cell::new(false),
        departures: RefCell::default(),
        calls: Notify::new(),
        called: Cell::new(0),
        wall: Cell::new((Instant::now(), SystemTime::now())),
        turn: Turn::new(Instant::now()),
        handshakes: Rc::default(),
        workspaces: RefCell::default(),
        process,
    });
    worker.sessions.run_on(&worker.current());
    worker.sessions.show();
    tokio::task::spawn_local(sweep(Rc::downgrade(&worker)));
    let process = Arc::clone(&worker.process);
    let attending = idle_clients::attend(Rc::downgrade(&worker), process, number);
    let attending = tokio::task::spawn_local(attending);
    let process = Arc::clone(&worker.process);
    let relieving = tokio::task::spawn_local(overload::attend(Rc::downgrade(&worker), process));
    loop {
        tokio::select! {
            biased;
            mail = mailbox.recv() => match mail {
                Some(mail) => worker.take(mail),
                None => break,
            },
            _ = stage.wait_for(|stage| !matches!(stage, Stage::Running)) => break,
        }
    }
    drain(&worker, &mailbox, &mut stage).await;
    cut_off(&worker).await;
    mailbox.shut();
    worker.current().flush_logs();
    // These tasks wait for calls that no longer concern this worker.
    attending.abort();
    relieving.abort();
}

/// Serves connections that were accepted before the listeners closed; ends when nothing runs any
/// more or the deadline has passed.
async fn drain<N: Net>(
    worker: &Rc<Worker<N>>,
    mailbox: &Mailbox<N>,
    stage: &mut watch::Receiver<Stage>,
) {
    let (deadline, grace) = match *stage.borrow() {
        Stage::Draining { deadline, idle_until } => (deadline, idle_until),
        Stage::Running | Stage::Stopped => return,
    };
    loop {
        for mail in mailbox.take_all() {
            worker.take(mail);
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
            Some(mail) = mailbox.recv() => worker.take(mail),
            () = sleep_until((now + Duration::from_millis(10)).min(deadline).into()) => {}
        }
    }
}

/// Ends what is still open: clients without a response get one, every exchange is logged with its
/// cause, and idle connections are closed properly.
async fn cut_off<N: Net>(worker: &Worker<N>) {
    let running = worker.load.busy.load(Ordering::Relaxed);
    worker.process.cut_off.fetch_add(running, Ordering::Relaxed);
    worker.cut.set(true);
    worker.call();
    let deadline = Instant::now() + CUT_PATIENCE;
    while worker.load.open.load(Ordering::Relaxed) > 0 && Instant::now() < deadline {
        sleep(Duration::from_millis(1)).await;
    }
}

async fn sweep<N: Net>(worker: std::rc::Weak<Worker<N>>) {
    let mut seen = 0;
    loop {
        let due = Instant::now() + IDLE_SWEEP;
        sleep_until(due.into()).await;
        let now = Instant::now();
        let Some(worker) = worker.upgrade() else { return };
        let lag = now.saturating_duration_since(due);
        worker.process.numbers.note_lag(worker.number, lag.as_micros() as u64);
        worker.idle.sweep(&worker.current().snapshot.pools, now);
        let given_up = worker.process.idle_given_up.load(Ordering::Relaxed);
        if std::mem::replace(&mut seen, given_up) != given_up {
            // An exchange on another worker needs the descriptors.
            worker.idle.close_half(&worker.current().snapshot.pools);
        }
        worker.process.memory.look();
        worker.leaving.borrow_mut().retain(Seat::is_needed);
    }
}

impl<N: Net> Worker<N> {
    fn take(self: &Rc<Self>, mail: Mail<N>) {
        match mail {
            Mail::Connection(handoff) => connection::spawn(self, handoff),
            Mail::Snapshot(snapshot, adopted) => {
                self.adopt(snapshot);
                // The receiver is gone if the reload was abandoned.
                let _ = adopted.send(());
            }
            Mail::Part(to, left) => self.let_part(to, left),
            Mail::Sessions(asked) => {
                // The receiver may be gone.
                let _ = asked.send(self.sessions.view(self.number, Instant::now()));
            }
            Mail::Work(work) => work(),
        }
    }

    fn adopt(&self, snapshot: Arc<Snapshot>) {
        self.generation.set(snapshot.generation);
        let before = self.current();
        let next = Generation::new(snapshot, &self.process.numbers, Some(&before));
        let next = Rc::new(next);
        let mut leaving = self.leaving.borrow_mut();
        leaving.retain(|seat| seat.is_needed() && next.snapshot.position_of(seat.gate()).is_none());
        for position in 0..before.snapshot.listeners.len() {
            leaving.extend(Seat::leaving(&before, position, &next.snapshot));
        }
        self.sessions.run_on(&next);
        *self.current.borrow_mut() = next;
        self.idle.close_retired(&before.snapshot.pools);
        before.flush_logs();
    }

    /// Counts a turn that ended while there was still work to do.
    pub(crate) fn note_yield(&self, what: Yield) {
        self.process.numbers.note_yield(self.number, what);
    }

    /// The generation that new exchanges run on.
    pub(crate) fn current(&self) -> Rc<Generation> {
        Rc::clone(&self.current.borrow())
    }

    /// The identity under which it takes slots.
    pub(crate) fn holder(&self) -> Holder {
        Holder { number: self.number as u16, of: self.process.loads.len() as u16 }
    }

    /// The number of the current generation.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.get()
    }

    /// The seat of new exchanges on connections of this gate.
    pub(crate) fn seat(&self, gate: &Arc<Gate>) -> Option<Seat> {
        let as_of = self.generation();
        let seat = Seat::find(&self.current.borrow(), gate);
        let leaving = || {
            let leaving = self.leaving.borrow();
            let seat = leaving.iter().find(|seat| Arc::ptr_eq(seat.gate(), gate))?;
            Some(Seat { as_of, ..seat.clone() })
        };
        seat.or_else(leaving)
    }

    /// The wall-clock time of `instant`; the clock is read once a second, without system calls in
    /// between.
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

    /// The time on the balancers' clock, in microseconds since the process started.
    pub(crate) fn balance_clock(&self, now: Instant) -> u64 {
        self.process.balance_clock(now)
    }

    /// Closes the endpoint connection that has been idle here the longest, and makes other workers
    /// close some of theirs.
    #[cold]
    pub(crate) fn close_idle_upstream(&self) {
        self.idle.close_oldest(&self.current.borrow().snapshot.pools);
        self.process.idle_given_up.fetch_add(1, Ordering::Relaxed);
    }

    /// Makes a balancer check at this time of its clock if an ejection has ended, so that exchanges
    /// that wait for that continue.
    pub(crate) fn tick_at(&self, balancer: &Arc<Balancer>, at_us: u64) {
        let (balancer, process) = (Arc::clone(balancer), Arc::clone(&self.process));
        tokio::task::spawn_local(async move {
            let now_us = process.balance_clock(Instant::now());
            sleep(Duration::from_micros(at_us.saturating_sub(now_us))).await;
            balancer.tick(process.balance_clock(Instant::now()));
        });
    }

    /// The `Date` header's value at `now`.
    pub(crate) fn date(&self, now: Instant) -> [u8; 29] {
        *self.date.borrow_mut().at(self.wall(now))
    }

    /// Returns true if all open connections have to end now.
    pub(crate) fn is_cut(&self) -> bool {
        self.cut.get()
    }

    /// Returns true if plain connections are to leave this process.
    pub(crate) fn is_parting(&self) -> bool {
        self.parting.get()
    }

    fn let_part(self: &Rc<Self>, to: Option<Departures<N>>, left: oneshot::Sender<()>) {
        self.parting.set(to.is_some());
        *self.departures.borrow_mut() = to;
        self.call();
        // This task runs after all tasks that were just woken.
        tokio::task::spawn_local(async move {
            let _ = left.send(());
        });
    }

    /// Sends a connection to the channel for leaving connections; takes it back if there is none
    /// any more.
    pub(crate) fn depart(self: &Rc<Self>, parting: Parting<N>) {
        let departures = self.departures.borrow();
        let kept = match &*departures {
            Some(departures) => departures.send(parting).err().map(|kept| kept.0),
            None => Some(parting),
        };
        drop(departures);
        if let Some(mut parting) = kept {
            parting.moved.stays = true;
            self.take(parting.returned().1);
        }
    }

    /// Wakes all connections: [`Worker::is_cut`], [`Worker::is_parting`] or the measures against a
    /// shortage of memory have changed.
    pub(crate) fn call(&self) {
        self.called.set(self.called.get().wrapping_add(1));
        self.calls.notify_waiters();
    }

    /// The number of calls to connections so far.
    pub(crate) fn called(&self) -> u32 {
        self.called.get()
    }

    /// Ready at the next call.
    pub(crate) fn next_call(&self) -> Notified<'_> {
        self.calls.notified()
    }

    /// Returns true if responses should close their connections.
    pub(crate) fn is_stopping(&self) -> bool {
        self.process.stopping.load(Ordering::Relaxed)
    }

    pub(crate) fn workspace(&self) -> Box<Workspace> {
        self.workspaces.borrow_mut().pop().unwrap_or_default()
    }

    /// Frees the spare workspaces.
    pub(crate) fn free_workspaces(&self) {
        self.workspaces.take();
    }

    pub(crate) fn give_back_workspace(&self, mut workspace: Box<Workspace>) {
        workspace.reset(&self.buffers);
        let mut workspaces = self.workspaces.borrow_mut();
        if workspaces.len() < POOLED_WORKSPACES {
            workspaces.push(workspace);
        }
    }
}
