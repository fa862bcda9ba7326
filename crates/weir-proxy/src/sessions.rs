//! The exchanges that run on a worker, for an operator who asks who is there (HAProxy's `show sess`). An exchange notes here where it is;
//! nothing of it is looked at unless somebody asks.
//!
//! When the worker is lost, the thread that takes it away reads the table in its place (`lost.rs`). The worker's thread stands still for
//! good then, at any instruction: the table's borrow is what says whether that was inside of a change, and is fenced off from it.

use std::cell::{Cell, RefCell};
use std::net::{IpAddr, SocketAddr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{Ordering, compiler_fence};
use std::time::Duration;

use weir_stats::Cause;

use crate::generation::Generation;
use crate::instant::Instant;
use crate::limits::{SESSIONS_TOLD, SMALL_BUFFER};
use crate::lost::Teller;
use crate::residents::ResidentKey;
use crate::route::CompiledRoute;
use crate::shared::{Process, Snapshot};
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
    process: Arc<Process>,
    /// The worker's number.
    worker: usize,
    /// Where others see how much all of them hold.
    load: Arc<WorkerLoad>,
    /// How many were given up and have not ended.
    leaving: Cell<usize>,
}

#[derive(Default)]
struct Table {
    running: Vec<Option<Running>>,
    /// The request line of each place's exchange.
    lines: Vec<RequestLine>,
    /// The generation that exchanges which begin now run on.
    current: Option<Rc<Generation>>,
    /// Places in it that are free.
    free: Vec<usize>,
}

struct Running {
    began: Instant,
    peer: Option<SocketAddr>,
    resident: Option<ResidentKey>,
    exchanges: u64,
    generation: Rc<Generation>,
    listener: usize,
    /// Numbers of the pool and the endpoint.
    pool: Option<usize>,
    endpoint: Option<usize>,
    held: usize,
    /// The cause it is to end with, if it was given up.
    given_up: Option<Cause>,
    /// End of the head.
    head_end: Option<Instant>,
    client: Option<IpAddr>,
    route: Option<usize>,
    /// Status of the response that is sent; 0 before.
    status: u16,
    /// Set once it was told as lost.
    told: bool,
}

/// Bytes of a request line that are kept.
const LINE: usize = 120;

/// The begin of a request line.
struct RequestLine {
    bytes: [u8; LINE],
    length: usize,
}

/// An exchange that ended with its worker, as far as it is known.
pub(crate) struct LostExchange<'a> {
    pub(crate) began: Instant,
    pub(crate) head_end: Option<Instant>,
    pub(crate) peer: Option<SocketAddr>,
    client: Option<IpAddr>,
    pub(crate) exchanges: u64,
    pub(crate) generation: &'a Generation,
    /// The listener's number there.
    pub(crate) listener: usize,
    route: Option<usize>,
    pub(crate) pool: Option<usize>,
    pub(crate) endpoint: Option<usize>,
    pub(crate) status: u16,
    /// The begin of the request line; empty without a head.
    pub(crate) line: &'a [u8],
}

impl LostExchange<'_> {
    pub(crate) fn client(&self) -> Option<IpAddr> {
        self.client.or_else(|| self.peer.map(|peer| peer.ip()))
    }

    pub(crate) fn route_of<'s>(&self, snapshot: &'s Snapshot) -> Option<&'s CompiledRoute> {
        let mut routes = snapshot.listeners.get(self.listener)?.router.routes();
        routes.find(|route| Some(route.number) == self.route)
    }
}

/// What is known of an exchange when it begins.
pub(crate) struct Begun<'a> {
    pub(crate) at: Instant,
    pub(crate) peer: Option<SocketAddr>,
    /// Its connection among those of the worker, where clients are counted.
    pub(crate) resident: Option<ResidentKey>,
    pub(crate) exchanges: u64,
    pub(crate) generation: &'a Rc<Generation>,
    /// The listener's number there.
    pub(crate) listener: usize,
}

/// Which of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionKey(usize);

/// One that runs, until this is dropped, which is before it is counted: what ends with its worker is never told twice.
pub(crate) struct Session<'a> {
    of: &'a Sessions,
    pub(crate) key: SessionKey,
}

impl Sessions {
    /// Those of a worker whose load is this. What a worker before it held there was not given back
    /// if that one hung.
    pub(crate) fn new(load: Arc<WorkerLoad>, process: Arc<Process>, worker: usize) -> Self {
        load.held.store(0, Ordering::Relaxed);
        Self { table: RefCell::default(), process, worker, load, leaving: Cell::new(0) }
    }

    /// Lets [`tell_lost`] find them. They must not be moved any more.
    pub(crate) fn show(&self) {
        self.load.sessions.store(std::ptr::from_ref(self).cast_mut(), Ordering::Release);
    }

    /// The generation that exchanges which begin now run on.
    pub(crate) fn run_on(&self, generation: &Rc<Generation>) {
        let before = self.change(|table| table.current.replace(Rc::clone(generation)));
        drop(before);
    }

    fn change<R>(&self, what: impl FnOnce(&mut Table) -> R) -> R {
        let mut table = self.table.borrow_mut();
        compiler_fence(Ordering::SeqCst);
        let result = what(&mut table);
        compiler_fence(Ordering::SeqCst);
        result
    }

    /// An exchange begins.
    pub(crate) fn begin(&self, begun: &Begun<'_>) -> Session<'_> {
        let Begun { at: began, peer, resident, exchanges, generation, listener } = *begun;
        let generation = Rc::clone(generation);
        let place = self.change(|table| {
            let place = table.free.pop().filter(|place| *place < table.running.len());
            let place = place.unwrap_or_else(|| {
                table.running.push(None);
                table.lines.push(RequestLine { bytes: [0; LINE], length: 0 });
                table.running.len() - 1
            });
            if let Some(own) = table.running.get_mut(place) {
                *own = Some(Running {
                    began,
                    peer,
                    resident,
                    exchanges,
                    generation,
                    listener,
                    pool: None,
                    endpoint: None,
                    held: 0,
                    given_up: None,
                    head_end: None,
                    client: None,
                    route: None,
                    status: 0,
                    told: false,
                });
            }
            if let Some(line) = table.lines.get_mut(place) {
                line.length = 0;
            }
            place
        });
        Session { of: self, key: SessionKey(place) }
    }

    /// Its head has ended, and begins with this line.
    pub(crate) fn asks(&self, key: SessionKey, head_end: Instant, line: &[u8]) {
        self.change(|table| {
            let SessionKey(place) = key;
            if let Some(Some(running)) = table.running.get_mut(place) {
                running.head_end = Some(head_end);
            }
            let Some(own) = table.lines.get_mut(place) else { return };
            let length = line.len().min(LINE);
            if let (Some(to), Some(from)) = (own.bytes.get_mut(..length), line.get(..length)) {
                to.copy_from_slice(from);
                own.length = length;
            }
        });
    }

    /// It takes this route of its listener.
    pub(crate) fn takes(&self, key: SessionKey, route: usize, client: Option<IpAddr>) {
        self.note(key, |running| (running.route, running.client) = (Some(route), client));
    }

    /// Its client is sent a response of this status.
    pub(crate) fn responds(&self, key: SessionKey, status: u16) {
        self.note(key, |running| running.status = status);
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
        let count = self.change(|table| table.give_up_largest(bytes));
        self.leaving.set(self.leaving.get() + count);
        count
    }

    /// Those that run on connections whose clients are counted, and since when.
    pub(crate) fn running(&self) -> impl Iterator<Item = (Instant, ResidentKey, SessionKey)> {
        let table = self.table.borrow();
        let running = table.running.iter().enumerate().filter_map(|(place, one)| {
            let one = one.as_ref().filter(|one| one.given_up.is_none())?;
            Some((one.began, one.resident?, SessionKey(place)))
        });
        running.collect::<Vec<_>>().into_iter()
    }

    /// Gives one up. Its task has to be woken.
    pub(crate) fn give_up(&self, key: SessionKey, cause: Cause) {
        self.note(key, |running| {
            if running.given_up.replace(cause).is_none() {
                self.leaving.set(self.leaving.get() + 1);
            }
        });
    }

    /// The cause it is to end with, if it was given up for the sake of others.
    #[inline]
    pub(crate) fn given_up(&self, SessionKey(place): SessionKey) -> Option<Cause> {
        if self.leaving.get() == 0 {
            return None;
        }
        self.table.borrow().running.get(place)?.as_ref()?.given_up
    }

    fn note(&self, SessionKey(place): SessionKey, what: impl FnOnce(&mut Running)) {
        self.change(|table| {
            if let Some(Some(running)) = table.running.get_mut(place) {
                what(running);
            }
        });
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

impl Table {
    fn give_up_largest(&mut self, bytes: usize) -> usize {
        let all = self.running.iter_mut().flatten();
        let mut largest: Vec<&mut Running> =
            all.filter(|one| one.given_up.is_none() && one.held > SMALL_BUFFER).collect();
        largest.sort_unstable_by_key(|one| std::cmp::Reverse(one.held));
        let (mut freed, mut count) = (0, 0);
        for one in largest.into_iter().take_while(|one| {
            let more = freed < bytes;
            freed += one.held;
            more
        }) {
            one.given_up = Some(Cause::Memory);
            count += 1;
        }
        count
    }

    /// Counts and writes down all that run and were not told before; says how many.
    fn tell(&mut self, teller: &mut Teller<'_>) -> usize {
        if let Some(current) = &self.current {
            current.hand_over_lines();
        }
        let mut count = 0;
        for (running, line) in self.running.iter_mut().zip(&self.lines) {
            let Some(running) = running.as_mut().filter(|one| !one.told) else { continue };
            running.told = true;
            running.generation.hand_over_lines();
            teller.tell(&running.lost(line), Cause::WorkerLost);
            count += 1;
        }
        count
    }
}

/// Tells of all exchanges that end with a worker, and says how many those are; `None` where the
/// worker was stopped inside of a change of its table, so that what it says is not to be had.
///
/// # Safety
/// It is called on the worker's own thread, or that stands still for good.
pub(crate) unsafe fn tell_lost(process: &Process, worker: usize) -> Option<usize> {
    let sessions = process.loads.get(worker)?.sessions.load(Ordering::Acquire);
    // SAFETY: it is taken away before they are dropped, and nothing but this uses them meanwhile.
    let Some(sessions) = (unsafe { sessions.as_ref() }) else { return Some(0) };
    let mut table = sessions.table.try_borrow_mut().ok()?;
    Some(table.tell(&mut Teller::new(process, worker)))
}

impl Running {
    fn lost<'a>(&'a self, line: &'a RequestLine) -> LostExchange<'a> {
        LostExchange {
            began: self.began,
            head_end: self.head_end,
            peer: self.peer,
            client: self.client,
            exchanges: self.exchanges,
            generation: &self.generation,
            listener: self.listener,
            route: self.route,
            pool: self.pool,
            endpoint: self.endpoint,
            status: self.status,
            line: line.bytes.get(..line.length).unwrap_or_default(),
        }
    }

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
        if std::thread::panicking() {
            self.of.tell_of_bug(place);
        }
        let ended = self.of.change(|table| {
            table.free.push(place);
            table.running.get_mut(place)?.take()
        });
        let Some(Running { held, given_up, generation, .. }) = ended else { return };
        self.of.change_held(held, 0);
        let leaving = &self.of.leaving;
        leaving.set(leaving.get() - usize::from(given_up.is_some()));
        drop(generation);
    }
}

impl Sessions {
    /// Tells of an exchange whose task panicked.
    #[cold]
    fn tell_of_bug(&self, place: usize) {
        // A second panic would end the process.
        let _ = catch_unwind(AssertUnwindSafe(|| {
            let Table { running, lines, .. } = &mut *self.table.borrow_mut();
            let (Some(Some(ended)), Some(line)) = (running.get_mut(place), lines.get(place)) else {
                return;
            };
            if !std::mem::replace(&mut ended.told, true) {
                Teller::new(&self.process, self.worker).tell(&ended.lost(line), Cause::Internal);
            }
        }));
    }
}

impl Drop for Sessions {
    fn drop(&mut self) {
        let (own, none) = (std::ptr::from_ref(self).cast_mut(), std::ptr::null_mut());
        // Another worker of this number may have shown its own.
        let _ = self.load.sessions.compare_exchange(own, none, Ordering::AcqRel, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use weir_stats::log_channel;

    use super::*;
    use crate::start::tests::compiled;

    #[test]
    fn an_exchange_whose_task_panics_is_counted_and_told_as_a_bug() {
        let text = "log access { to /dev/null; format json; }
             listen 127.0.0.1:0 { log access; route -> respond 204; }";
        let (sinks, receiver) = log_channel(1, 9);
        let (process, _) = Process::new(compiled(text, sinks, None), 1, 9);
        let sessions = Sessions::new(Arc::clone(&process.loads[0]), Arc::clone(&process), 0);
        let generation = Rc::new(Generation::new(process.snapshot(), &process.numbers, None));
        let (at, peer) = (Instant::now(), None);
        let begun =
            Begun { at, peer, resident: None, exchanges: 1, generation: &generation, listener: 0 };
        let panics = AssertUnwindSafe(|| {
            let session = sessions.begin(&begun);
            sessions.asks(session.key, at, b"GET /bad HTTP/1.1");
            std::panic::resume_unwind(Box::new("told to"));
        });
        assert!(catch_unwind(panics).is_err());
        drop(sessions.begin(&begun));
        assert_eq!(process.numbers.read().tally(|_| true).of_cause(Cause::Internal), 1);
        let Ok(weir_stats::Message::Lines(batch)) = receiver.try_receive() else { panic!() };
        let line = String::from_utf8(batch.lines.clone()).unwrap();
        assert!(line.contains("/bad") && line.contains("internal"), "{line}");
        assert!(receiver.try_receive().is_err());
    }
}
