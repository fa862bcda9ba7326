//! The exchanges that run on a worker, for an operator who asks who is there (HAProxy's `show sess`). An exchange notes here where it is;
//! nothing of it is looked at unless somebody asks.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;

use crate::generation::Generation;
use crate::limits::{SESSIONS_TOLD, SMALL_BUFFER};
use crate::worker::WorkerLoad;

/// An exchange that runs, as it is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningExchange {
    /// The worker's number.
    pub worker: usize,
    /// Its number there, as long as it runs.
    pub number: usize,
    /// Who is on the other end of its connection; `None` on a Unix socket.
    pub peer: Option<SocketAddr>,
    /// The listener's name.
    pub listener: Arc<str>,
    /// The pool that it was led to.
    pub pool: Option<Arc<str>>,
    /// The endpoint that has it; `None` while it waits for one.
    pub endpoint: Option<Arc<str>>,
    /// For how long it has run.
    pub age: Duration,
    /// Exchanges on its connection until now, this one included.
    pub exchanges: u64,
    /// Bytes that it holds in buffers.
    pub held: usize,
}

/// The exchanges that run on a worker.
pub(crate) struct Sessions {
    table: RefCell<Table>,
    /// Where others see how much all of them hold.
    load: Arc<WorkerLoad>,
    /// How many were given up and have not ended.
    leaving: Cell<usize>,
}

#[derive(Default)]
struct Table {
    running: Vec<Option<Running>>,
    /// Places in it that are free.
    free: Vec<usize>,
}

struct Running {
    began: Instant,
    peer: Option<SocketAddr>,
    exchanges: u64,
    generation: Rc<Generation>,
    listener: usize,
    /// Numbers of the pool and the endpoint.
    pool: Option<usize>,
    endpoint: Option<usize>,
    held: usize,
    given_up: bool,
}

/// What is known of an exchange when it begins.
pub(crate) struct Begun<'a> {
    pub(crate) at: Instant,
    pub(crate) peer: Option<SocketAddr>,
    pub(crate) exchanges: u64,
    pub(crate) generation: &'a Rc<Generation>,
    /// The listener's number there.
    pub(crate) listener: usize,
}

/// Which of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionKey(usize);

/// One that runs, until this is dropped.
pub(crate) struct Session<'a> {
    of: &'a Sessions,
    pub(crate) key: SessionKey,
}

impl Sessions {
    /// Those of a worker whose load is this. What a worker before it held there was not given back
    /// if that one hung.
    pub(crate) fn new(load: Arc<WorkerLoad>) -> Self {
        load.held.store(0, Ordering::Relaxed);
        Self { table: RefCell::default(), load, leaving: Cell::new(0) }
    }

    /// An exchange begins.
    pub(crate) fn begin(&self, begun: &Begun<'_>) -> Session<'_> {
        let Begun { at: began, peer, exchanges, generation, listener } = *begun;
        let generation = Rc::clone(generation);
        let (pool, endpoint) = (None, None);
        let (held, given_up) = (0, false);
        let running = Running {
            began,
            peer,
            exchanges,
            generation,
            listener,
            pool,
            endpoint,
            held,
            given_up,
        };
        let table = &mut *self.table.borrow_mut();
        let place = table.free.pop().filter(|place| *place < table.running.len());
        let place = place.unwrap_or_else(|| {
            table.running.push(None);
            table.running.len() - 1
        });
        if let Some(own) = table.running.get_mut(place) {
            *own = Some(running);
        }
        Session { of: self, key: SessionKey(place) }
    }

    /// It is led to a pool, or waits for a place there.
    pub(crate) fn leads_to(&self, key: SessionKey, pool: usize) {
        self.note(key, |running| (running.pool, running.endpoint) = (Some(pool), None));
    }

    /// It has an endpoint of that pool, or none any more.
    pub(crate) fn is_at(&self, key: SessionKey, endpoint: Option<usize>) {
        self.note(key, |running| running.endpoint = endpoint);
    }

    /// It holds so many bytes in buffers now.
    #[inline]
    pub(crate) fn holds(&self, key: SessionKey, bytes: usize) {
        self.note(key, |running| {
            if running.held != bytes {
                let before = std::mem::replace(&mut running.held, bytes);
                self.change_held(before, bytes);
            }
        });
    }

    /// Only its own worker writes the number.
    fn change_held(&self, before: usize, now: usize) {
        let held = &self.load.held;
        let others = held.load(Ordering::Relaxed).saturating_sub(before);
        held.store(others + now, Ordering::Relaxed);
    }

    /// Gives those up that hold most, until they are `bytes`; says how many. Those that hold less than a small buffer stay: to end them
    /// would free nothing. Their tasks have to be woken.
    pub(crate) fn give_up_largest(&self, bytes: usize) -> usize {
        let mut table = self.table.borrow_mut();
        let all = table.running.iter_mut().flatten();
        let mut largest: Vec<&mut Running> =
            all.filter(|one| !one.given_up && one.held > SMALL_BUFFER).collect();
        largest.sort_unstable_by_key(|one| std::cmp::Reverse(one.held));
        let (mut freed, mut count) = (0, 0);
        for one in largest.into_iter().take_while(|one| {
            let more = freed < bytes;
            freed += one.held;
            more
        }) {
            one.given_up = true;
            count += 1;
        }
        self.leaving.set(self.leaving.get() + count);
        count
    }

    /// Whether it was given up for the sake of memory.
    #[inline]
    pub(crate) fn is_given_up(&self, SessionKey(place): SessionKey) -> bool {
        self.leaving.get() > 0
            && matches!(self.table.borrow().running.get(place), Some(Some(one)) if one.given_up)
    }

    fn note(&self, SessionKey(place): SessionKey, what: impl FnOnce(&mut Running)) {
        if let Some(Some(running)) = self.table.borrow_mut().running.get_mut(place) {
            what(running);
        }
    }

    /// Those that run now, the oldest first, as many as are told.
    pub(crate) fn view(&self, worker: usize, now: Instant) -> Vec<RunningExchange> {
        let table = self.table.borrow();
        let running = table.running.iter().enumerate();
        let running = running.filter_map(|(number, one)| Some((number, one.as_ref()?)));
        let mut list: Vec<RunningExchange> =
            running.filter_map(|(number, one)| one.told((worker, number), now)).collect();
        list.sort_by_key(|one| std::cmp::Reverse(one.age));
        list.truncate(SESSIONS_TOLD);
        list
    }
}

impl Running {
    fn told(&self, (worker, number): (usize, usize), now: Instant) -> Option<RunningExchange> {
        let pool = self.pool.and_then(|pool| self.generation.pool(pool));
        let endpoint = pool.zip(self.endpoint).and_then(|(pool, at)| pool.endpoints.get(at));
        Some(RunningExchange {
            worker,
            number,
            peer: self.peer,
            listener: Arc::clone(&self.generation.snapshot.listeners.get(self.listener)?.name),
            pool: pool.map(|pool| Arc::clone(&pool.name)),
            endpoint: endpoint.map(|endpoint| Arc::clone(&endpoint.name)),
            age: now.saturating_duration_since(self.began),
            exchanges: self.exchanges,
            held: self.held,
        })
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        let SessionKey(place) = self.key;
        let table = &mut *self.of.table.borrow_mut();
        if let Some(own) = table.running.get_mut(place) {
            if let Some(ended) = own.take() {
                self.of.change_held(ended.held, 0);
                let leaving = &self.of.leaving;
                leaving.set(leaving.get() - usize::from(ended.given_up));
            }
            table.free.push(place);
        }
    }
}
