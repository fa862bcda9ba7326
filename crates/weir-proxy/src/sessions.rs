//! The exchanges that run on a worker, for an operator who asks who is there (HAProxy's `show sess`). An exchange notes here where it is;
//! nothing of it is looked at unless somebody asks.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::generation::Generation;
use crate::limits::SESSIONS_TOLD;

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
}

/// The exchanges that run on a worker.
#[derive(Default)]
pub(crate) struct Sessions(RefCell<Table>);

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
    /// An exchange begins.
    pub(crate) fn begin(&self, begun: &Begun<'_>) -> Session<'_> {
        let Begun { at: began, peer, exchanges, generation, listener } = *begun;
        let generation = Rc::clone(generation);
        let (pool, endpoint) = (None, None);
        let running = Running { began, peer, exchanges, generation, listener, pool, endpoint };
        let table = &mut *self.0.borrow_mut();
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

    fn note(&self, SessionKey(place): SessionKey, what: impl FnOnce(&mut Running)) {
        if let Some(Some(running)) = self.0.borrow_mut().running.get_mut(place) {
            what(running);
        }
    }

    /// Those that run now, the oldest first, as many as are told.
    pub(crate) fn view(&self, worker: usize, now: Instant) -> Vec<RunningExchange> {
        let table = self.0.borrow();
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
        })
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        let SessionKey(place) = self.key;
        let table = &mut *self.of.0.borrow_mut();
        if let Some(own) = table.running.get_mut(place) {
            *own = None;
            table.free.push(place);
        }
    }
}
