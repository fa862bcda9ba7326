//! The state that the tasks of one worker share: buffers, idle endpoint connections, running
//! exchanges, the current configuration. It accepts nothing and implements no protocol.

pub mod capture;
pub(crate) mod client_notices;
pub(crate) mod crowding;
pub mod handoff;
pub mod idle_clients;
pub(crate) mod idle_list;
pub mod incidents;
pub mod load;
pub(crate) mod lost;
pub mod mail;
pub(crate) mod make_room;
pub(crate) mod memory_relief;
pub mod migration;
pub mod overload;
pub mod process;
pub(crate) mod publish;
pub(crate) mod residents;
pub mod sessions;
pub(crate) mod workspace;

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::{Duration, SystemTime};

use tokio::time::sleep;
use weir_balance::{Balancer, Holder, Ticker};
use weir_stats::Clock;
use weir_stats::metrics::Yield;

use crate::http::request_id::RequestIdSource;
use crate::limiting::admission::Gate;
use crate::limits::POOLED_WORKSPACES;
use crate::net::Net;
use crate::net::buffers::Buffers;
use crate::net::tls::TlsFacts;
use crate::snapshot::Snapshot;
use crate::snapshot::generation::{Generation, Seat};
use crate::time::deadline_timer::DeadlineTimer;
use crate::time::http_date::HttpDate;
use crate::time::instant::Instant;
use crate::time::turns::HandshakeTurns;
use crate::time::work_time::Turn;
use crate::upstream::connect_trouble::ConnectFailure;
use crate::upstream::http2::{Http2Connections, Say};
use crate::upstream::idle::{HolderCounters, IdleConnections};
use crate::upstream::idle_count::OfWorker;
use crate::upstream::shared_idle::SharedIdle;
use crate::worker::client_notices::ClientNotices;
use crate::worker::handoff::{Departures, Parting};
use crate::worker::idle_list::IdleClients;
pub use crate::worker::load::WorkerLoad;
pub use crate::worker::mail::Mail;
use crate::worker::make_room::OrderedPlace;
use crate::worker::overload::Pressure;
use crate::worker::process::Process;
use crate::worker::residents::{ResidentKey, Residents};
use crate::worker::sessions::Sessions;
use crate::worker::workspace::Workspace;

/// The longest time between two looks of a pool's ticker, µs.
const TICKER_LOOK_US: u64 = 1_000_000;

/// The numbers of requests that a worker takes at once: a request touches nothing that others
/// write.
const REQUEST_NUMBERS: u64 = 64;

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
    pub(crate) idle: IdleConnections<N>,
    /// The HTTP/2 connections to endpoints.
    pub(crate) http2: Rc<Http2Connections<N>>,
    /// The client connections that wait for a request.
    pub(crate) idle_clients: IdleClients,
    /// All client connections.
    pub(crate) residents: Rc<Residents>,
    /// The generation that new exchanges run on.
    current: RefCell<Rc<Generation>>,
    /// The number of that generation.
    generation: Cell<u64>,
    /// Removed listeners that may still have connections.
    leaving: RefCell<Vec<Seat>>,
    pub(crate) date: RefCell<HttpDate>,
    pub(crate) clock: RefCell<Clock>,
    pub(crate) request_ids: RefCell<RequestIdSource>,
    /// The numbers that it has for its next requests.
    request_numbers: Cell<(u64, u64)>,
    pub(crate) random: RefCell<fastrand::Rng>,
    /// Set when all open connections have to end.
    cut: Cell<bool>,
    /// Set when connections without TLS are to leave.
    parting: Cell<bool>,
    /// The channel for connections that leave.
    departures: RefCell<Option<Departures<N>>>,
    wall: Cell<(Instant, SystemTime)>,
    /// The turn of the exchange that runs on the thread.
    pub(crate) turn: Turn,
    /// The different results of handshakes: few, because they have only the names of versions,
    /// suites and groups.
    tls_facts: RefCell<Vec<Rc<TlsFacts<'static>>>>,
    /// The sentences about clients that were cut off, and about endpoints.
    pub(crate) client_notices: Rc<ClientNotices>,
    /// The TLS handshakes of clients.
    pub(crate) handshakes: Rc<HandshakeTurns>,
    #[expect(
        clippy::vec_box,
        reason = "a workspace is large and moves between the shelf and its connection"
    )]
    workspaces: RefCell<Vec<Box<Workspace>>>,
}

impl<N: Net> Worker<N> {
    /// Creates worker number `number`, which runs on the process's current snapshot. `seed` is the
    /// seed of its random choices.
    pub(crate) fn new(
        number: usize,
        net: N,
        process: Arc<Process>,
        load: Arc<WorkerLoad>,
        shared_idle: Arc<SharedIdle<N::Accepted>>,
        seed: u64,
    ) -> Self {
        let snapshot = process.snapshot();
        let of_worker = OfWorker { number, of: process.loads.len() };
        let holder = process.server_connections.of_worker(number);
        let growth = Arc::clone(&process.endpoint_window_growth);
        let client_notices = Rc::new(ClientNotices::default());
        let say: Say = {
            let (notices, process) = (Rc::clone(&client_notices), Arc::clone(&process));
            Rc::new(move |now, sentence| notices.say(&process.incidents, now, sentence))
        };
        let http2 = Rc::new(Http2Connections::new(of_worker, holder, growth, say));
        let counters = HolderCounters::of(&process.server_connections, number);
        let idle = IdleConnections::new(of_worker, net.clone(), shared_idle, counters);
        Self {
            number,
            net,
            sessions: Sessions::new(Arc::clone(&load), Arc::clone(&process), number),
            pressure: Cell::default(),
            load,
            buffers: Buffers::default(),
            idle_clients: IdleClients::default(),
            residents: Rc::new(Residents::new(Instant::now())),
            idle,
            http2,
            generation: Cell::new(snapshot.generation),
            leaving: RefCell::default(),
            current: RefCell::new(Rc::new(Generation::new(snapshot, &process.numbers, None))),
            date: RefCell::default(),
            clock: RefCell::new(Clock::new()),
            request_ids: RefCell::new(RequestIdSource::new(seed)),
            request_numbers: Cell::new((0, 0)),
            random: RefCell::new(fastrand::Rng::with_seed(seed)),
            cut: Cell::new(false),
            parting: Cell::new(false),
            departures: RefCell::default(),
            wall: Cell::new((Instant::now(), SystemTime::now())),
            turn: Turn::new(Instant::now()),
            tls_facts: RefCell::default(),
            client_notices,
            handshakes: Rc::default(),
            workspaces: RefCell::default(),
            process,
        }
    }

    /// The number of the next request in the process, which no other one has.
    #[inline]
    pub(crate) fn next_request(&self) -> u64 {
        let (mut next, mut end) = self.request_numbers.get();
        if next == end {
            next = self.process.next_requests(REQUEST_NUMBERS);
            end = next + REQUEST_NUMBERS;
        }
        self.request_numbers.set((next + 1, end));
        next
    }

    /// Runs new exchanges on a snapshot.
    pub(crate) fn adopt(&self, snapshot: Arc<Snapshot>) {
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
        self.http2.leave_retired();
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

    /// Closes idle connections if that mends the failure of a connect for a client: one under a
    /// cap, where a client with a large part of it may give way instead; for other resources, the
    /// one to an endpoint that has been idle here the longest, and other workers some of theirs.
    /// Returns the order under a cap.
    #[cold]
    pub(crate) fn close_for_connect(
        &self,
        failure: &ConnectFailure,
        resident: ResidentKey,
    ) -> Option<OrderedPlace<'_>> {
        if failure.is_at_cap() {
            return self.process.order_place(self.residents.client(resident)).ok();
        }
        if failure.is_mended_by_closing() {
            self.idle.close_oldest(&self.current.borrow().snapshot.pools);
            self.http2.close_idle();
            self.process.idle_given_up.fetch_add(1, Ordering::Relaxed);
        }
        None
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

    /// Applies the timed changes of a pool in which an exchange was queued, until none waits there.
    #[inline]
    pub(crate) fn tick_while_waiting(&self, balancer: &Arc<Balancer>) {
        if let Some(ticker) = balancer.ticker() {
            self.run_ticker(ticker);
        }
    }

    #[cold]
    fn run_ticker(&self, mut ticker: Ticker) {
        let process = Arc::clone(&self.process);
        let mut timer = DeadlineTimer::default();
        tokio::task::spawn_local(poll_fn(move |context| {
            loop {
                let now_us = process.balance_clock(Instant::now());
                let Some(due_us) = ticker.tick(now_us, context.waker()) else {
                    return Poll::Ready(());
                };
                // With nothing due, it looks again whether exchanges wait.
                let due_us = due_us.min(now_us + TICKER_LOOK_US);
                if timer.poll(context, process.instant(due_us)).is_pending() {
                    return Poll::Pending;
                }
            }
        }));
    }

    /// The `Date` header's value at `now`.
    pub(crate) fn date(&self, now: Instant) -> [u8; 29] {
        *self.date.borrow_mut().at(self.wall(now))
    }

    /// Returns true if all open connections have to end now.
    pub(crate) fn is_cut(&self) -> bool {
        self.cut.get()
    }

    /// Returns true if connections without TLS are to leave this process.
    pub(crate) fn is_parting(&self) -> bool {
        self.parting.get()
    }

    /// Makes connections without TLS leave to this channel; with `None` they stay.
    pub(crate) fn let_part(&self, to: Option<Departures<N>>) {
        self.parting.set(to.is_some());
        *self.departures.borrow_mut() = to;
        self.call();
    }

    /// Sends a connection to the channel for leaving connections; returns the connection if there
    /// is no channel any more.
    pub(crate) fn depart(&self, parting: Parting<N>) -> Option<Parting<N>> {
        match &*self.departures.borrow() {
            Some(departures) => departures.send(parting).err().map(|kept| kept.0),
            None => Some(parting),
        }
    }

    /// Makes all open connections end now.
    pub(crate) fn cut(&self) {
        self.cut.set(true);
        self.call();
    }

    /// Forgets removed listeners that have no connections any more.
    pub(crate) fn forget_left_listeners(&self) {
        self.leaving.borrow_mut().retain(Seat::is_needed);
    }

    /// Wakes all connections: [`Worker::is_cut`], [`Worker::is_parting`] or the measures against a
    /// shortage of memory have changed.
    pub(crate) fn call(&self) {
        self.residents.wake_all();
    }

    /// Returns true if responses should close their connections.
    pub(crate) fn is_stopping(&self) -> bool {
        self.process.stopping.load(Ordering::Relaxed)
    }

    /// The result of a handshake, shared with the connections that had the same one.
    pub(crate) fn shared_facts(&self, facts: TlsFacts<'static>) -> Rc<TlsFacts<'static>> {
        let mut all = self.tls_facts.borrow_mut();
        if let Some(shared) = all.iter().find(|one| ***one == facts) {
            return Rc::clone(shared);
        }
        let shared = Rc::new(facts);
        all.push(Rc::clone(&shared));
        shared
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
