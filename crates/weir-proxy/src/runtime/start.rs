//! Runs the data plane on the operating system: one pinned thread with its own runtime per worker,
//! and the listening sockets distributed over them.

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::thread::CpuSet;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{timeout, timeout_at};

use crate::limiting::admission::Gate;
use crate::limits::{ANSWER_PATIENCE, TURN_PATIENCE};
use crate::net::bind::BoundSocket;
use crate::net::os_net::{OsAccepted, OsNet};
use crate::runtime::accept::Recipients;
use crate::runtime::listening_socket::{AcceptJob, AcceptSite, ListeningSocket};
use crate::runtime::watchdog;
use crate::runtime::worker_loop::WorkerParts;
use crate::runtime::worker_thread;
use crate::snapshot::Snapshot;
use crate::time::instant::Instant;
use crate::upstream::shared_idle::SharedIdle;
use crate::worker::handoff::{Departures, Handoff, Parting, handoff};
use crate::worker::load::Place;
use crate::worker::mail::{Mail, Mailbox};
use crate::worker::migration::Moved;
use crate::worker::process::{Process, Stage};
use crate::worker::sessions::RunningExchange;

/// A running data plane.
pub struct Running {
    plane: Arc<DataPlane>,
    threads: Vec<JoinHandle<()>>,
    failures: mpsc::UnboundedReceiver<String>,
}

/// The data plane, as seen by the code that changes its configuration.
pub struct DataPlane {
    process: Arc<Process>,
    stage: watch::Sender<Stage>,
    mailboxes: Arc<[mpsc::UnboundedSender<Mail<OsNet>>]>,
    /// The mailboxes' receiving ends, by worker.
    pub(crate) received: Box<[Mailbox<OsNet>]>,
    shared_idle: Arc<SharedIdle<OsAccepted>>,
    /// The channel on which threads and listeners report that they ended by a panic.
    report: mpsc::UnboundedSender<String>,
    /// The number of sockets opened so far: they are assigned to the workers in turn.
    opened: AtomicUsize,
    /// The sockets that workers accept from.
    sites: Mutex<Vec<Arc<AcceptSite>>>,
    /// The threads of the workers, by number. The thread of a replaced worker is removed.
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// The sets of cores that workers are pinned to, in turn.
    cores: Vec<Vec<usize>>,
}

/// Starts the workers, each pinned to one of the sets of `cores`. They serve the sockets that
/// [`DataPlane::open`] gives them.
///
/// # Errors
/// If a thread or its runtime cannot be created; then nothing is left running.
pub fn start(process: &Arc<Process>, cores: Vec<Vec<usize>>) -> io::Result<Running> {
    let workers = process.loads.len();
    let (stage, _) = watch::channel(Stage::Running);
    let (mailboxes, receivers): (Vec<_>, Vec<_>) =
        (0..workers).map(|_| mpsc::unbounded_channel()).unzip();
    let (report, failures) = mpsc::unbounded_channel();
    let plane = DataPlane {
        process: process.clone(),
        stage,
        mailboxes: mailboxes.into(),
        received: receivers.into_iter().map(Mailbox::from).collect(),
        shared_idle: Arc::default(),
        report,
        opened: AtomicUsize::new(0),
        sites: Mutex::default(),
        threads: Mutex::default(),
        cores,
    };
    let running = Running { plane: Arc::new(plane), threads: Vec::new(), failures };
    for number in 0..workers {
        running.plane.start_worker(number)?;
    }
    watchdog::start(&running.plane)?;
    Ok(running)
}

impl DataPlane {
    /// The state that lives as long as the process.
    pub fn process(&self) -> &Arc<Process> {
        &self.process
    }

    /// Starts the thread of a worker, in place of its predecessor.
    pub(crate) fn start_worker(self: &Arc<Self>, number: usize) -> io::Result<()> {
        let thread = worker_thread::start(self, number)?;
        let mut threads = self.threads();
        match threads.get_mut(number) {
            Some(own) => *own = thread,
            None => threads.push(thread),
        }
        Ok(())
    }

    /// The parts that a worker is built from.
    pub(crate) fn worker_parts(&self, number: usize) -> Option<WorkerParts<OsNet>> {
        let (process, stage) = (self.process.clone(), self.stage.subscribe());
        let (mailbox, seed) = (self.received.get(number)?.clone(), fastrand::u64(..));
        let shared_idle = Arc::clone(&self.shared_idle);
        Some(WorkerParts { number, net: OsNet, process, mailbox, shared_idle, seed, stage })
    }

    /// The cores that a worker is pinned to.
    pub(crate) fn cores_of(&self, number: usize) -> &[usize] {
        self.cores.get(number % self.cores.len().max(1)).map_or(&[], Vec::as_slice)
    }

    /// Reports that a worker ended by a panic; if it starts again, its sockets are accepted from
    /// again.
    pub(crate) fn worker_panicked(&self, number: usize, what: &str, again: bool) {
        let incidents = &self.process.incidents;
        incidents.panics.fetch_add(1, Ordering::Relaxed);
        let sentence = format!("weir-worker-{number} ended by a bug: {what}");
        if !again || !self.is_running() {
            if let Some(mailbox) = self.received.get(number) {
                mailbox.shut();
            }
            let _ = self.report.send(sentence);
            return;
        }
        incidents.say(&format!("{sentence}; it starts again"));
        let sites: Vec<Arc<AcceptSite>> = self.sites().clone();
        for site in sites.iter().filter(|site| site.is_served_by(number)) {
            self.accept_from(site, number);
        }
    }

    fn threads(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Accepts from a socket from now on, on one of the workers. `name` is the listener's name, for
    /// the report if accepting ends by a panic.
    pub fn open(&self, socket: BoundSocket, name: &Arc<str>, gate: &Arc<Gate>) -> ListeningSocket {
        let site = Arc::new(AcceptSite::new(socket, name, gate));
        self.accept_from(&site, self.next_worker());
        let mut sites = self.sites();
        sites.retain(|site| !site.is_closed());
        sites.push(Arc::clone(&site));
        ListeningSocket::new(site)
    }

    /// The worker whose turn it is to accept from a socket; a late worker is skipped.
    fn next_worker(&self) -> usize {
        let workers = self.mailboxes.len().max(1);
        let turn = self.opened.fetch_add(1, Ordering::Relaxed);
        let mut candidates = (0..workers).map(|step| (turn + step) % workers);
        let is_late =
            |number: usize| self.process.loads.get(number).is_some_and(|load| load.is_late());
        candidates.find(|number| !is_late(*number)).unwrap_or(turn % workers)
    }

    fn accept_from(&self, site: &Arc<AcceptSite>, number: usize) {
        let (process, mailboxes) = (self.process.clone(), self.mailboxes.clone());
        let (stage, report) = (self.stage.subscribe(), self.report.clone());
        let Some((socket, orders)) = site.move_to(number) else { return };
        let (name, unix) = (site.name.clone(), site.unix);
        let recipients = Recipients { mailboxes, own: site.keeps.then_some(number) };
        let job = AcceptJob { socket, unix, name, orders, process, recipients, stage, report };
        if let Some(mailbox) = self.mailboxes.get(number) {
            // If the worker is gone, the process is stopping.
            let _ = mailbox.send(Mail::Work(Box::new(move || job.spawn())));
        }
    }

    /// Makes other workers accept from the sockets that this one accepted from. Returns the number
    /// of sockets.
    pub(crate) fn move_sockets(&self, from: usize) -> usize {
        let sites: Vec<Arc<AcceptSite>> = self.sites().clone();
        let mut moved = 0;
        for site in sites.iter().filter(|site| site.is_served_by(from)) {
            let to = self.next_worker();
            if to != from {
                self.accept_from(site, to);
                moved += 1;
            }
        }
        moved
    }

    /// Injects a fault into a worker, for tests.
    pub fn inject(&self, worker: usize, fault: WorkerFault) {
        let work: Box<dyn FnOnce() + Send> = match fault {
            WorkerFault::Loop => Box::new(|| {
                loop {
                    std::hint::spin_loop();
                }
            }),
            WorkerFault::LockedLoop => {
                let process = self.process.clone();
                Box::new(move || {
                    if let Some(pool) = process.snapshot().pools.first() {
                        pool.balancer.hang_with_lock();
                    }
                })
            }
            WorkerFault::Panic => Box::new(|| std::panic::resume_unwind(Box::new("told to"))),
            WorkerFault::TaskPanic => Box::new(|| {
                tokio::task::spawn_local(async { std::panic::resume_unwind(Box::new("told to")) });
            }),
        };
        self.send(worker, Mail::Work(work));
    }

    /// Ends the exchanges at an endpoint that is down, on all workers.
    pub fn end_exchanges_at(&self, pool: &Arc<str>, endpoint: &Arc<str>) {
        for number in 0..self.mailboxes.len() {
            self.send(number, Mail::EndpointDown(pool.clone(), endpoint.clone()));
        }
    }

    /// Sends mail to a worker.
    pub(crate) fn send(&self, number: usize, mail: Mail<OsNet>) {
        if let Some(mailbox) = self.mailboxes.get(number) {
            // If the worker is gone, it is stopping.
            let _ = mailbox.send(mail);
        }
    }

    fn sites(&self) -> MutexGuard<'_, Vec<Arc<AcceptSite>>> {
        self.sites.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if the process is not draining or stopped.
    pub(crate) fn is_running(&self) -> bool {
        matches!(*self.stage.borrow(), Stage::Running)
    }

    fn enter_stage(&self, stage: Stage) {
        self.process.stopping.store(true, Ordering::Relaxed);
        self.stage.send_replace(stage);
        // Each socket is closed by its last owner: the accepting task, or this call.
        self.sites().drain(..).for_each(|site| site.release());
    }

    /// Sends mail to every worker and collects the answers. A worker that does not answer in time
    /// is left out; a worker that is known to be late is not waited for.
    async fn ask<T>(&self, letter: impl Fn(oneshot::Sender<T>) -> Mail<OsNet>) -> WorkerAnswers<T> {
        let mut receivers = Vec::new();
        for mailbox in self.mailboxes.iter() {
            let (sender, receiver) = oneshot::channel();
            let _ = mailbox.send(letter(sender));
            receivers.push(receiver);
        }
        let deadline = Instant::now() + ANSWER_PATIENCE;
        let mut asked = WorkerAnswers { answers: Vec::new(), silent: Vec::new() };
        for (number, receiver) in receivers.into_iter().enumerate() {
            let is_late = self.process.loads.get(number).is_some_and(|load| load.is_late());
            let until = if is_late { Instant::now() } else { deadline };
            match timeout_at(until.into(), receiver).await {
                Ok(Ok(answer)) => asked.answers.push(answer),
                // A worker that has ended has no answer.
                Ok(Err(_)) => {}
                Err(_) => asked.silent.push(number),
            }
        }
        asked
    }

    /// The running exchanges of all workers, the oldest first. A worker that does not answer is
    /// left out.
    pub async fn sessions(&self) -> Vec<RunningExchange> {
        let mut list = self.ask(Mail::Sessions).await.answers.concat();
        list.sort_by_key(|one| std::cmp::Reverse(one.age));
        list
    }

    /// Returns when every worker has processed the mail that it was sent before.
    pub async fn respond(&self) {
        let mut answers = Vec::new();
        for mailbox in self.mailboxes.iter() {
            let (sender, answer) = oneshot::channel();
            let _ = mailbox.send(Mail::Work(Box::new(move || {
                // The receiver may be gone already.
                let _ = sender.send(());
            })));
            answers.push(answer);
        }
        for answer in answers {
            // An error means that the worker has ended, so it does not hang.
            let _ = answer.await;
        }
    }

    /// Makes connections without TLS leave their workers for `to` from now on, as soon as no
    /// endpoint processes one of their requests; with `None` they stay. Returns when the
    /// connections that could leave at once have left.
    pub async fn part(&self, to: Option<Departures<OsNet>>) {
        self.ask(|sender| Mail::Part(to.clone(), sender)).await;
    }

    /// Continues a connection that left its worker and that no process took; it stays from then on.
    /// Returns when [`DataPlane::enter`] would.
    pub async fn take_back(&self, mut parting: Parting<OsNet>) {
        parting.moved.stays = true;
        let (worker, handoff, arrived) = parting.returned();
        self.hand_to(worker, handoff, arrived).await;
    }

    /// Reserves a place for a connection that another process accepted, if there is room now.
    pub fn admit(&self, gate: &Arc<Gate>) -> Option<Admission> {
        let (worker, place) = Place::enter_now(&self.process, gate)?;
        Some(Admission { worker, place })
    }

    /// Continues a connection that was served in another process. If its request waits in a queue,
    /// it has its place there when this returns, so that connections entered one after the other
    /// keep their order, whatever their workers are.
    pub async fn enter(&self, admission: Admission, socket: OsAccepted, mut moved: Moved) {
        let Admission { worker, mut place } = admission;
        if let Some(peer) = moved.peer {
            place.count_client(&self.process, peer.ip());
        }
        let arrived = moved.turn();
        self.hand_to(worker, handoff(socket, place, moved), arrived).await;
    }

    async fn hand_to(
        &self,
        worker: usize,
        handoff: Handoff<OsNet>,
        arrived: Option<oneshot::Receiver<()>>,
    ) {
        if let Some(mailbox) = self.mailboxes.get(worker) {
            let _ = mailbox.send(Mail::Connection(handoff));
        }
        if let Some(arrived) = arrived {
            // The sender is dropped without a message when the request has its place. A request
            // that never reaches its queue is not waited for.
            let _ = timeout(TURN_PATIENCE, arrived).await;
        }
    }

    /// Makes every worker run new exchanges on `snapshot`; returns when all do, or after a bounded
    /// wait.
    ///
    /// # Returns
    /// The numbers of the workers that did not answer. Each of them adopts it before it takes
    /// another connection, as soon as it runs its tasks again.
    pub async fn adopt(&self, snapshot: &Arc<Snapshot>) -> Vec<usize> {
        self.ask(|sender| Mail::Snapshot(Arc::clone(snapshot), sender)).await.silent
    }
}

/// A fault of a worker, for tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerFault {
    /// It loops for ever.
    Loop,
    /// It loops for ever while it holds the lock of the first pool.
    LockedLoop,
    /// It panics outside a task.
    Panic,
    /// It panics inside a task.
    TaskPanic,
}

/// The answers of the workers to one question.
struct WorkerAnswers<T> {
    answers: Vec<T>,
    /// The numbers of the workers that did not answer.
    silent: Vec<usize>,
}

/// A place for one connection, and the worker that gets it.
pub struct Admission {
    worker: usize,
    place: Place,
}

impl Running {
    /// The part of the data plane that takes new configurations.
    pub fn plane(&self) -> &Arc<DataPlane> {
        &self.plane
    }

    /// The state that lives as long as the process.
    pub fn process(&self) -> &Arc<Process> {
        &self.plane.process
    }

    /// Stops accepting, and lets running exchanges finish within `patience`. Returns at once.
    pub fn drain(&self, patience: Duration) {
        self.plane.enter_stage(Stage::draining(patience));
    }

    /// Does the same as [`Running::drain`] after another process has taken over the sockets. That
    /// process does not wait for the end of this one, so connections without a running request are
    /// kept for the whole `patience`.
    pub fn drain_behind_successor(&self, patience: Duration) {
        let deadline = Instant::now() + patience;
        self.plane.enter_stage(Stage::Draining { deadline, idle_until: deadline });
    }

    /// Ends all running exchanges.
    pub fn stop_now(&self) {
        self.plane.enter_stage(Stage::Stopped);
    }

    /// Runs another thread of the data plane. If it panics, [`Running::failed`] reports it; a panic
    /// within a task of its runtime ends only that task.
    ///
    /// # Errors
    /// If the thread cannot be created.
    pub fn spawn(&mut self, name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let (report, own_name) = (self.plane.report.clone(), name.to_owned());
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(work)) {
                let what = panic_text(&*panic);
                let _ = report.send(format!("{own_name} ended by a bug: {what}"));
            }
        })?;
        self.threads.push(thread);
        Ok(())
    }

    /// Waits until a thread or a listener has ended by a panic, and returns one sentence about it.
    /// The connections of the thread or listener are not served any more.
    pub async fn failed(&mut self) -> String {
        match self.failures.recv().await {
            Some(sentence) => sentence,
            // The channel does not end: this value holds a sender itself.
            None => std::future::pending().await,
        }
    }

    /// Returns true if every thread has ended.
    pub fn is_finished(&self) -> bool {
        let own = self.threads.iter().all(JoinHandle::is_finished);
        own && self.plane.threads().iter().all(JoinHandle::is_finished)
    }

    /// Waits until every thread has ended. It blocks.
    ///
    /// # Errors
    /// The sentence of the first panic that [`Running::failed`] has not returned.
    pub fn join(mut self) -> Result<(), String> {
        let workers = std::mem::take(&mut *self.plane.threads());
        for thread in workers.into_iter().chain(self.threads.drain(..)) {
            let _ = thread.join();
        }
        self.failures.try_recv().map_or(Ok(()), Err)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop_now();
    }
}

/// The message of a panic.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let literal = panic.downcast_ref::<&str>().copied();
    literal.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

/// The cores that this process may run on.
pub fn allowed_cores() -> Vec<usize> {
    let Ok(set) = rustix::thread::sched_getaffinity(None) else { return vec![0] };
    (0..CpuSet::MAX_CPU).filter(|&core| set.is_set(core)).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpStream};
    use std::sync::mpsc::Sender;

    use tokio::runtime::Builder;
    use weir_stats::{LogSink, log_channel};

    use super::*;
    use crate::net::bind::BoundAddress;
    use crate::net::bind::{bind, bind_shared};
    use crate::net::inherited::Inherited;
    use crate::snapshot::compile::{Surroundings, compile};

    pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

    /// A snapshot that answers every request with 204; the successor of `before` if that is given.
    fn snapshot(before: Option<&Snapshot>) -> Arc<Snapshot> {
        compiled("listen 127.0.0.1:0 -> respond 204;", log_channel(0, 1).0, before)
    }

    pub(crate) fn compiled(
        text: &str,
        sinks: Vec<LogSink>,
        before: Option<&Snapshot>,
    ) -> Arc<Snapshot> {
        let config = weir_config::parse_str("test", text).unwrap();
        let surroundings = Surroundings { read: &|path| std::fs::read(path), sinks, root: None };
        compile(&config.config, surroundings, before).unwrap().snapshot
    }

    fn two_workers() -> Running {
        start(&Process::new(snapshot(None), 2, 100).0, Vec::new()).unwrap()
    }

    /// Starts two workers that serve the configuration's first listener; a worker that hangs for
    /// half a second is replaced.
    pub(crate) fn serving(
        text: &str,
        sinks: Vec<LogSink>,
    ) -> (Running, ListeningSocket, SocketAddr) {
        let running =
            start(&Process::new(compiled(text, sinks, None), 2, 100).0, Vec::new()).unwrap();
        running.process().incidents.set_patience(Some(Duration::from_millis(500)));
        let (listening_socket, at) = open(&running);
        (running, listening_socket, at)
    }

    /// Makes a worker compute without end, and waits until it was replaced.
    pub(crate) fn lose_worker(running: &Running, number: usize) {
        running.plane.inject(number, WorkerFault::Loop);
        let replaced = &running.process().incidents.replaced;
        until("it is replaced", || replaced.load(Ordering::Relaxed) == 1);
    }

    /// Blocks a worker until the returned sender is used or dropped.
    fn hang(running: &Running, worker: usize) -> Sender<()> {
        let (release, held) = std::sync::mpsc::channel::<()>();
        let (hangs, begun) = std::sync::mpsc::channel();
        let hang = move || {
            hangs.send(()).unwrap();
            let _ = held.recv();
        };
        running.plane.send(worker, Mail::Work(Box::new(hang)));
        begun.recv_timeout(PATIENCE).unwrap();
        release
    }

    /// Opens a socket that the next worker accepts from.
    fn open(running: &Running) -> (ListeningSocket, SocketAddr) {
        let address = weir_config::model::ListenAddress::Socket(([127, 0, 0, 1], 0).into());
        let socket = bind(&address, &mut Inherited::default()).unwrap();
        let BoundAddress::Socket(at) = socket.address else { panic!() };
        let gate = running.process().snapshot().listeners[0].gate.clone();
        (running.plane.open(socket, &"test".into(), &gate), at)
    }

    fn ask(at: SocketAddr) -> String {
        let mut stream = TcpStream::connect(at).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let request = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        response
    }

    fn runtime() -> tokio::runtime::Runtime {
        Builder::new_current_thread().enable_all().build().unwrap()
    }

    #[test]
    fn a_hung_worker_delays_no_reload_and_adopts_the_snapshot_later() {
        let running = two_workers();
        let release = hang(&running, 1);
        let next = snapshot(Some(&running.process().snapshot()));
        running.process().publish(next.clone());
        assert_eq!(runtime().block_on(running.plane.adopt(&next)), [1]);
        assert!(runtime().block_on(running.plane.sessions()).is_empty());
        drop(release);
        let answered = async { timeout(PATIENCE, running.plane.respond()).await };
        runtime().block_on(answered).unwrap();
        // The watchdog considers it late until it has seen its next heartbeat.
        until("it adopts", || runtime().block_on(running.plane.adopt(&next)).is_empty());
    }

    #[test]
    fn a_worker_keeps_the_connections_of_its_own_socket() {
        let running = two_workers();
        let any = weir_config::model::ListenAddress::Socket(([127, 0, 0, 1], 0).into());
        let gate = running.process().snapshot().listeners[0].gate.clone();
        let first = bind_shared(&any, &mut Inherited::default()).unwrap();
        let BoundAddress::Socket(at) = first.address else { panic!() };
        let same = weir_config::model::ListenAddress::Socket(at);
        let second = bind_shared(&same, &mut Inherited::default()).unwrap();
        let first = running.plane.open(first, &"test".into(), &gate);
        let _clients: Vec<TcpStream> = (0..64).map(|_| TcpStream::connect(at).unwrap()).collect();
        let open = || -> Vec<usize> {
            let loads = running.process().loads.iter();
            loads.map(|load| load.open.load(Ordering::Relaxed)).collect()
        };
        // Those in the second socket's backlog wait for its worker.
        until("the first worker has those of its socket", || {
            let open = open();
            open[0] > 0 && open[1] == 0
        });
        let _second = running.plane.open(second, &"test".into(), &gate);
        until("each worker has its own", || open().iter().sum::<usize>() == 64);
        assert!(open().iter().all(|open| (1..64).contains(open)), "{:?}", open());
        drop(first);
    }

    #[test]
    fn connections_are_served_though_the_accepting_worker_hangs() {
        let running = two_workers();
        let listening = [open(&running), open(&running)];
        let release = hang(&running, 0);
        for (_, at) in &listening {
            for _ in 0..3 {
                assert!(ask(*at).starts_with("HTTP/1.1 204 "));
            }
        }
        drop(release);
        runtime().block_on(running.plane.respond());
        for (_, at) in &listening {
            assert!(ask(*at).starts_with("HTTP/1.1 204 "));
        }
        running.stop_now();
        while !running.is_finished() {
            std::thread::yield_now();
        }
        for (_, at) in listening {
            TcpStream::connect(at).unwrap_err();
        }
    }

    #[test]
    fn a_closed_socket_refuses_clients_though_a_hung_worker_holds_it_open() {
        let running = two_workers();
        let (listening_socket, at) = open(&running);
        let release = hang(&running, 0);
        let closed = async { timeout(PATIENCE, listening_socket.close()).await };
        runtime().block_on(closed).unwrap();
        TcpStream::connect(at).unwrap_err();
        drop(release);
    }

    /// Waits until the condition holds.
    pub(crate) fn until(what: &str, is_so: impl Fn() -> bool) {
        let began = std::time::Instant::now();
        while !is_so() {
            assert!(began.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn a_hung_worker_is_replaced_and_its_places_are_given_back() {
        static SAID: Mutex<String> = Mutex::new(String::new());
        let running = two_workers();
        let process = running.process().clone();
        process.incidents.set_speaker(|line| SAID.lock().unwrap().push_str(line));
        process.incidents.set_patience(Some(Duration::from_secs(2)));
        let listening = [open(&running), open(&running)];
        let mut held: Vec<TcpStream> =
            (0..4).map(|_| TcpStream::connect(listening[0].1).unwrap()).collect();
        let gate = &process.snapshot().listeners[0].gate;
        let open_at = |number: usize| process.loads[number].open.load(Ordering::Relaxed);
        let places = || process.loads[0].places().len();
        until("both workers have two", || (open_at(0), open_at(1), places()) == (2, 2, 2));
        // A second data plane in this process, which has a worker 0 too.
        let beside = two_workers();
        let listening_beside = open(&beside);
        let held_beside: Vec<TcpStream> =
            (0..4).map(|_| TcpStream::connect(listening_beside.1).unwrap()).collect();
        let open_beside = || {
            let loads = beside.process().loads.iter();
            loads.map(|load| load.open.load(Ordering::Relaxed)).sum::<usize>()
        };
        until("they are accepted", || open_beside() == 4);
        let endless = || {
            let mut number = 0_u64;
            loop {
                number = std::hint::black_box(number.wrapping_add(1));
            }
        };
        running.plane.send(0, Mail::Work(Box::new(endless)));
        until("it is replaced", || process.incidents.replaced.load(Ordering::Relaxed) == 1);
        until("the new one answers", || runtime().block_on(running.plane.sessions()).is_empty());
        until("its places are free", || open_at(0) == 0 && gate.open.load(Ordering::Relaxed) == 2);
        assert_eq!(process.connections.free(), process.connections.cap() - 2);
        let ended = |stream: &mut TcpStream| {
            stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
            matches!(stream.read(&mut [0]), Ok(0))
        };
        assert_eq!(held.iter_mut().map(ended).filter(|ended| *ended).count(), 2);
        for mut client in &held_beside {
            client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
            client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            assert_ne!(
                client.read(&mut [0; 64]).unwrap(),
                0,
                "a connection of the other data plane was closed"
            );
        }
        beside.stop_now();
        for (_, at) in &listening {
            assert!(ask(*at).starts_with("HTTP/1.1 204 "));
        }
        let said = SAID.lock().unwrap().clone();
        for part in [
            "worker 0 has not answered for a second",
            " (start.rs:",
            "worker 0 was replaced: 2 connections and 0 requests",
        ] {
            assert!(said.contains(part), "{said}");
        }
        running.stop_now();
        until("all end", || running.is_finished());
    }

    #[test]
    fn a_worker_that_panics_starts_again_and_accepts_connections() {
        let running = two_workers();
        let listening = [open(&running), open(&running)];
        running.plane.send(0, Mail::Work(Box::new(|| panic!("told to"))));
        let panics = || running.process().incidents.panics.load(Ordering::Relaxed);
        until("it has panicked", || panics() == 1);
        for (_, at) in &listening {
            for _ in 0..3 {
                assert!(ask(*at).starts_with("HTTP/1.1 204 "));
            }
        }
        let current = running.process().snapshot();
        // The worker may be late for a moment, because its stack was being written.
        let adopt = || runtime().block_on(running.plane.adopt(&current));
        until("it adopts", || adopt().is_empty());
    }

    #[test]
    fn respond_waits_for_a_hung_worker_but_not_for_one_that_has_ended() {
        let running = two_workers();
        let runtime = Builder::new_current_thread().enable_time().build().unwrap();
        let responds = |within: Duration| {
            let plane = running.plane();
            runtime.block_on(async { tokio::time::timeout(within, plane.respond()).await.is_ok() })
        };
        assert!(responds(Duration::from_secs(20)));
        let (release, held) = std::sync::mpsc::channel::<()>();
        let hang = move || {
            let _ = held.recv();
        };
        assert!(running.plane.mailboxes[1].send(Mail::Work(Box::new(hang))).is_ok());
        assert!(!responds(Duration::from_millis(50)));
        release.send(()).unwrap();
        assert!(responds(Duration::from_secs(20)));
        running.stop_now();
        assert!(responds(Duration::from_secs(20)));
    }
}
