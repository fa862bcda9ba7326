//! The running exchanges of a worker, for an operator (HAProxy's `show sess`). An exchange records
//! its progress here; the table is read only on request.
//!
//! When the worker is lost, the thread that removes it reads the table in its place (`lost.rs`).
//! The worker's thread is then stopped for good, at an arbitrary instruction: the table's borrow
//! flag shows whether that was inside a change, and compiler fences keep the flag and the change in
//! order.

use std::cell::{Cell, RefCell};
use std::net::{IpAddr, SocketAddr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{Ordering, compiler_fence};
use std::time::Duration;

use weir_stats::Cause;

use crate::limits::{POOLED_BUFFERS, SESSIONS_TOLD, SMALL_BUFFER};
use crate::snapshot::generation::Generation;
use crate::time::instant::Instant;
use crate::worker::load::WorkerLoad;
use crate::worker::lost::{LostExchange, LostRecorder};
use crate::worker::process::Process;
use crate::worker::residents::ResidentKey;

/// A running exchange, as shown to an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningExchange {
    /// The worker's number.
    pub worker: usize,
    /// Its number at the worker, as long as it runs.
    pub number: usize,
    /// The address of its connection's peer; `None` on a Unix socket.
    pub peer: Option<SocketAddr>,
    /// The listener's name.
    pub listener: Arc<str>,
    /// The pool that it was assigned to.
    pub pool: Option<Arc<str>>,
    /// The endpoint that it was assigned to; `None` while it waits for one.
    pub endpoint: Option<Arc<str>>,
    /// The time for which it has run.
    pub age: Duration,
    /// The number of exchanges on its connection so far, including this one.
    pub exchanges: u64,
    /// The bytes that it holds in buffers.
    pub held: usize,
}

/// The running exchanges of a worker.
pub(crate) struct Sessions {
    table: RefCell<SessionTable>,
    process: Arc<Process>,
    /// The worker's number.
    worker: usize,
    /// The worker's load, in which other threads see the memory held by all of them.
    load: Arc<WorkerLoad>,
    /// The number of exchanges that were told to end and have not ended yet.
    leaving: Cell<usize>,
    /// Set while exchanges may have been told to give back spare memory and have not done so.
    shrinking: Cell<bool>,
}

#[derive(Default)]
struct SessionTable {
    running: Vec<Option<RunningSession>>,
    /// The request line of each place's exchange.
    lines: Vec<RequestLine>,
    /// The generation that new exchanges run on.
    current: Option<Rc<Generation>>,
    /// The free places.
    free: Vec<usize>,
}

struct RunningSession {
    began: Instant,
    peer: Option<SocketAddr>,
    resident: ResidentKey,
    exchanges: u64,
    generation: Rc<Generation>,
    listener: usize,
    /// The indices of the pool and the endpoint.
    pool: Option<usize>,
    endpoint: Option<usize>,
    held: usize,
    /// The cause with which it has to end, if it was told to.
    given_up: Option<Cause>,
    shrink: Shrink,
    /// The end of the request head.
    head_end: Option<Instant>,
    client: Option<IpAddr>,
    route: Option<usize>,
    /// The status of the response; 0 before.
    status: u16,
    /// Set once it was recorded as lost.
    told: bool,
}

/// The progress of giving back memory that a long exchange does not use.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shrink {
    /// It is not old enough.
    NotYet,
    /// It was told to.
    Told,
    /// It has done so.
    Done,
}

/// The bytes of a request line that are kept.
const LINE: usize = 120;

/// The beginning of a request line.
struct RequestLine {
    bytes: [u8; LINE],
    length: usize,
}

/// The data of an exchange at its beginning.
pub(crate) struct BegunExchange<'a> {
    pub(crate) at: Instant,
    pub(crate) peer: Option<SocketAddr>,
    /// Its connection's entry among the worker's residents.
    pub(crate) resident: ResidentKey,
    pub(crate) exchanges: u64,
    pub(crate) generation: &'a Rc<Generation>,
    /// The listener's number in the generation.
    pub(crate) listener: usize,
}

/// The index of an exchange in the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionKey(u32);

impl SessionKey {
    fn place(self) -> usize {
        self.0 as usize
    }
}

/// A running exchange, removed from the table when this is dropped. That happens before the
/// exchange is counted, so that an exchange that ends with its worker is never counted twice.
pub(crate) struct Session<'a> {
    of: &'a Sessions,
    pub(crate) key: SessionKey,
}

impl Sessions {
    /// Creates the table of the worker with this load. The memory that a previous worker of this
    /// number held was not subtracted if that worker hung, so the count starts at 0.
    pub(crate) fn new(load: Arc<WorkerLoad>, process: Arc<Process>, worker: usize) -> Self {
        load.held.store(0, Ordering::Relaxed);
        let (leaving, shrinking) = (Cell::default(), Cell::default());
        Self { table: RefCell::default(), process, worker, load, leaving, shrinking }
    }

    /// Makes the table visible to [`record_lost`]. It must not be moved afterwards.
    pub(crate) fn show(&self) {
        self.load.sessions.store(std::ptr::from_ref(self).cast_mut(), Ordering::Release);
    }

    /// Sets the generation that new exchanges run on.
    pub(crate) fn run_on(&self, generation: &Rc<Generation>) {
        let before = self.change(|table| table.current.replace(Rc::clone(generation)));
        drop(before);
    }

    fn change<R>(&self, what: impl FnOnce(&mut SessionTable) -> R) -> R {
        let mut table = self.table.borrow_mut();
        compiler_fence(Ordering::SeqCst);
        let result = what(&mut table);
        compiler_fence(Ordering::SeqCst);
        result
    }

    /// Adds an exchange.
    pub(crate) fn begin(&self, begun: &BegunExchange<'_>) -> Session<'_> {
        let BegunExchange { at: began, peer, resident, exchanges, generation, listener } = *begun;
        let generation = Rc::clone(generation);
        let place = self.change(|table| {
            let place = table.free.pop().filter(|place| *place < table.running.len());
            let place = place.unwrap_or_else(|| {
                table.running.push(None);
                table.lines.push(RequestLine { bytes: [0; LINE], length: 0 });
                table.running.len() - 1
            });
            if let Some(own) = table.running.get_mut(place) {
                *own = Some(RunningSession {
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
                    shrink: Shrink::NotYet,
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
        Session { of: self, key: SessionKey(place as u32) }
    }

    /// Records the end of an exchange's request head, and the request line.
    pub(crate) fn asks(&self, key: SessionKey, head_end: Instant, line: &[u8]) {
        self.change(|table| {
            let place = key.place();
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

    /// Records the route and the client of an exchange.
    pub(crate) fn takes(&self, key: SessionKey, route: usize, client: Option<IpAddr>) {
        self.note(key, |running| (running.route, running.client) = (Some(route), client));
    }

    /// Records the status of the response to its client.
    pub(crate) fn set_status(&self, key: SessionKey, status: u16) {
        self.note(key, |running| running.status = status);
    }

    /// Records the pool that it was assigned to; it has no endpoint yet.
    pub(crate) fn set_pool(&self, key: SessionKey, pool: usize) {
        self.note(key, |running| (running.pool, running.endpoint) = (Some(pool), None));
    }

    /// Records the endpoint that it was assigned to, or that it has none any more.
    pub(crate) fn set_endpoint(&self, key: SessionKey, endpoint: Option<usize>) {
        self.note(key, |running| running.endpoint = endpoint);
    }

    /// Records the bytes that it holds in buffers now.
    #[inline]
    pub(crate) fn holds(&self, key: SessionKey, bytes: usize) {
        self.note(key, |running| {
            if running.held != bytes {
                let before = std::mem::replace(&mut running.held, bytes);
                self.change_held(before, bytes);
            }
        });
    }

    /// Changes the number of bytes that the worker's exchanges hold. Only this worker writes it.
    fn change_held(&self, before: usize, now: usize) {
        let held = &self.load.held;
        let others = held.load(Ordering::Relaxed).saturating_sub(before);
        held.store(others + now, Ordering::Relaxed);
    }

    /// Tells the exchanges that hold the most memory to end, as many as are needed to free `bytes`;
    /// returns their number. Exchanges that hold no more than a small buffer stay, because their
    /// end would free little. The caller has to wake their tasks.
    pub(crate) fn give_up_largest(&self, bytes: usize) -> usize {
        let count = self.change(|table| table.give_up_largest(bytes));
        self.leaving.set(self.leaving.get() + count);
        count
    }

    /// Tells the exchanges that began before `before`, and hold a small buffer or more, to give
    /// back the memory that they do not use; each is told once. The caller has to wake the tasks of
    /// the returned connections.
    pub(crate) fn shrink_old(&self, before: Instant) -> Vec<ResidentKey> {
        let told = self.change(|table| {
            let old = table.running.iter_mut().flatten().filter(|one| {
                one.shrink == Shrink::NotYet && one.began < before && one.held >= SMALL_BUFFER
            });
            let tell = |one: &mut RunningSession| {
                one.shrink = Shrink::Told;
                one.resident
            };
            old.map(tell).collect::<Vec<_>>()
        });
        self.shrinking.set(!told.is_empty());
        told
    }

    /// Returns true if an exchange that waits has to give back memory that it does not use: because
    /// the worker has more exchanges than spare buffers, or because it was told to, once.
    #[inline]
    pub(crate) fn must_shrink(&self, key: SessionKey) -> bool {
        self.load.busy.load(Ordering::Relaxed) > POOLED_BUFFERS
            || self.shrinking.get() && self.is_told_to_shrink(key)
    }

    #[cold]
    fn is_told_to_shrink(&self, key: SessionKey) -> bool {
        let mut told = false;
        self.note(key, |running| {
            told = running.shrink == Shrink::Told;
            if told {
                running.shrink = Shrink::Done;
            }
        });
        told
    }

    /// The running exchanges that were not told to end, with the times of their beginning.
    pub(crate) fn running(&self) -> impl Iterator<Item = (Instant, ResidentKey, SessionKey)> {
        let table = self.table.borrow();
        let running = table.running.iter().enumerate().filter_map(|(place, one)| {
            let one = one.as_ref().filter(|one| one.given_up.is_none())?;
            Some((one.began, one.resident, SessionKey(place as u32)))
        });
        running.collect::<Vec<_>>().into_iter()
    }

    /// The running exchanges at this endpoint that were not told to end.
    pub(crate) fn at_endpoint(&self, pool: &str, endpoint: &str) -> Vec<(ResidentKey, SessionKey)> {
        let table = self.table.borrow();
        let running = table.running.iter().enumerate().filter_map(|(place, one)| {
            let one = one.as_ref().filter(|one| one.given_up.is_none())?;
            let own = one.generation.pool(one.pool?)?;
            let name = &own.endpoints.get(one.endpoint?)?.name;
            let is_there = *own.name == *pool && **name == *endpoint;
            is_there.then_some((one.resident, SessionKey(place as u32)))
        });
        running.collect()
    }

    /// Tells an exchange to end with this cause. The caller has to wake its task.
    pub(crate) fn give_up(&self, key: SessionKey, cause: Cause) {
        self.note(key, |running| {
            if running.given_up.replace(cause).is_none() {
                self.leaving.set(self.leaving.get() + 1);
            }
        });
    }

    /// The cause with which the exchange has to end, if it was told to.
    #[inline]
    pub(crate) fn given_up(&self, key: SessionKey) -> Option<Cause> {
        if self.leaving.get() == 0 {
            return None;
        }
        self.table.borrow().running.get(key.place())?.as_ref()?.given_up
    }

    fn note(&self, key: SessionKey, what: impl FnOnce(&mut RunningSession)) {
        self.change(|table| {
            if let Some(Some(running)) = table.running.get_mut(key.place()) {
                what(running);
            }
        });
    }

    /// The running exchanges, the oldest first, up to the limit.
    pub(crate) fn view(&self, worker: usize, now: Instant) -> Vec<RunningExchange> {
        let table = self.table.borrow();
        let running = table.running.iter().enumerate();
        let running = running.filter_map(|(number, one)| Some((number, one.as_ref()?)));
        let mut list: Vec<RunningExchange> =
            running.filter_map(|(number, one)| one.told(worker, number, now)).collect();
        list.sort_by_key(|one| std::cmp::Reverse(one.age));
        list.truncate(SESSIONS_TOLD);
        list
    }
}

impl SessionTable {
    fn give_up_largest(&mut self, bytes: usize) -> usize {
        let all = self.running.iter_mut().flatten();
        let mut largest: Vec<&mut RunningSession> =
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

    /// Counts and logs all running exchanges that were not recorded before; returns their number.
    fn record(&mut self, recorder: &mut LostRecorder<'_>) -> usize {
        if let Some(current) = &self.current {
            current.hand_over_lines();
        }
        let mut count = 0;
        for (running, line) in self.running.iter_mut().zip(&self.lines) {
            let Some(running) = running.as_mut().filter(|one| !one.told) else { continue };
            running.told = true;
            running.generation.hand_over_lines();
            recorder.record(&running.lost(line), Cause::WorkerLost);
            count += 1;
        }
        count
    }
}

/// Records all exchanges that end with a worker, and returns their number; `None` if the worker was
/// stopped inside a change of its table, so that the table cannot be read.
///
/// # Safety
/// It is called on the worker's own thread, or that thread is stopped for good.
pub(crate) unsafe fn record_lost(process: &Process, worker: usize) -> Option<usize> {
    let sessions = process.loads.get(worker)?.sessions.load(Ordering::Acquire);
    // SAFETY: the pointer is removed before the sessions are dropped, and only this function uses
    // them meanwhile.
    let Some(sessions) = (unsafe { sessions.as_ref() }) else { return Some(0) };
    let mut table = sessions.table.try_borrow_mut().ok()?;
    Some(table.record(&mut LostRecorder::new(process, worker)))
}

impl RunningSession {
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

    fn told(&self, worker: usize, number: usize, now: Instant) -> Option<RunningExchange> {
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
        let place = self.key.place();
        if std::thread::panicking() {
            self.of.tell_of_bug(place);
        }
        let ended = self.of.change(|table| {
            table.free.push(place);
            table.running.get_mut(place)?.take()
        });
        let Some(RunningSession { held, given_up, generation, .. }) = ended else { return };
        self.of.change_held(held, 0);
        let leaving = &self.of.leaving;
        leaving.set(leaving.get() - usize::from(given_up.is_some()));
        drop(generation);
    }
}

impl Sessions {
    /// Records an exchange whose task panicked.
    #[cold]
    fn tell_of_bug(&self, place: usize) {
        // A second panic would end the process.
        let _ = catch_unwind(AssertUnwindSafe(|| {
            let SessionTable { running, lines, .. } = &mut *self.table.borrow_mut();
            let (Some(Some(ended)), Some(line)) = (running.get_mut(place), lines.get(place)) else {
                return;
            };
            if !std::mem::replace(&mut ended.told, true) {
                LostRecorder::new(&self.process, self.worker)
                    .record(&ended.lost(line), Cause::Internal);
            }
        }));
    }
}

impl Drop for Sessions {
    fn drop(&mut self) {
        let (own, none) = (std::ptr::from_ref(self).cast_mut(), std::ptr::null_mut());
        // Another worker of this number may have published its own table.
        let _ = self.load.sessions.compare_exchange(own, none, Ordering::AcqRel, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use weir_stats::log_channel;

    use super::*;
    use crate::limiting::admission::Gate;
    use crate::runtime::start::tests::compiled;
    use crate::worker::residents::Residents;

    #[test]
    fn an_exchange_whose_task_panics_is_counted_and_logged_as_internal() {
        let text = "log access { to /dev/null; format json; }
             listen 127.0.0.1:0 { log access; route -> respond 204; }";
        let (sinks, receiver) = log_channel(1, 9);
        let (process, _) = Process::new(compiled(text, sinks, None), 1, 9);
        let sessions = Sessions::new(Arc::clone(&process.loads[0]), Arc::clone(&process), 0);
        let generation = Rc::new(Generation::new(process.snapshot(), &process.numbers, None));
        let (at, peer) = (Instant::now(), None);
        let (gate, residents) = (Arc::new(Gate::new(None)), Residents::new(at));
        let resident = residents.enter(None, &gate);
        let begun = BegunExchange {
            at,
            peer,
            resident,
            exchanges: 1,
            generation: &generation,
            listener: 0,
        };
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
