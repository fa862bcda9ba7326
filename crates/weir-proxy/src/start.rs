//! Runs the data plane on the operating system: one pinned thread with its own runtime per worker, and the listening sockets
//! spread over them.

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::thread::CpuSet;
use tokio::runtime::{Builder, LocalOptions, LocalRuntime};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, timeout};

use crate::accept::{GateOrders, Place, accept};
use crate::bind::BoundSocket;
use crate::gate::Gate;
use crate::limits::TURN_PATIENCE;
use crate::moving::{Departures, Moved, Parting, handoff};
use crate::os_net::{OsAccepted, OsListener, OsNet};
use crate::sessions::RunningExchange;
use crate::shared::{Process, Snapshot, Stage};
use crate::worker::{self, Mail, WorkerParts};

/// A running data plane.
pub struct Running {
    plane: Arc<DataPlane>,
    threads: Vec<JoinHandle<()>>,
    failures: mpsc::UnboundedReceiver<String>,
}

/// The data plane as whoever changes its configuration has it.
pub struct DataPlane {
    process: Arc<Process>,
    stage: watch::Sender<Stage>,
    mailboxes: Arc<[mpsc::UnboundedSender<Mail<OsNet>>]>,
    /// Where threads and their listeners say that they ended by a panic.
    report: mpsc::UnboundedSender<String>,
    /// Sockets opened so far: they take turns among the workers.
    opened: AtomicUsize,
}

/// A listening socket that is accepted from. Dropping it leaves it as it is.
pub struct Door {
    gate: watch::Sender<Option<Arc<Gate>>>,
}

impl Door {
    /// Connections come through this gate from now on; those that wait in the kernel too.
    pub fn lead_to(&self, gate: &Arc<Gate>) {
        self.gate.send_if_modified(|current| {
            let same = current.as_ref().is_some_and(|current| Arc::ptr_eq(current, gate));
            *current = Some(Arc::clone(gate));
            !same
        });
    }

    /// Nothing is accepted any more, and the socket is closed when this returns.
    pub async fn close(self) {
        self.gate.send_replace(None);
        self.gate.closed().await;
    }
}

/// Starts the workers. They serve from the sockets that [`DataPlane::open`] gives them.
///
/// # Errors
/// When a thread or its runtime cannot be made; nothing is left running then.
pub fn start(process: &Arc<Process>) -> io::Result<Running> {
    let workers = process.loads.len();
    let cores = allowed_cores();
    let (stage, watcher) = watch::channel(Stage::Running);
    let (mailboxes, receivers): (Vec<_>, Vec<_>) =
        (0..workers).map(|_| mpsc::unbounded_channel()).unzip();
    let (report, failures) = mpsc::unbounded_channel();
    let plane = DataPlane {
        process: process.clone(),
        stage,
        mailboxes: mailboxes.into(),
        report,
        opened: AtomicUsize::new(0),
    };
    let mut running = Running { plane: Arc::new(plane), threads: Vec::new(), failures };
    for (number, mailbox) in receivers.into_iter().enumerate() {
        let parts = WorkerParts {
            number,
            net: OsNet,
            process: process.clone(),
            mailbox,
            seed: fastrand::u64(..),
            stage: watcher.clone(),
        };
        let core = cores.get(number % cores.len().max(1)).copied();
        // A worker's runtime cannot leave the thread that made it.
        let (report, reported) = std::sync::mpsc::channel();
        running.spawn(
            &format!("weir-worker-{number}"),
            move || match Builder::new_current_thread()
                .enable_all()
                .build_local(LocalOptions::default())
            {
                Ok(runtime) => {
                    let _ = report.send(Ok(()));
                    work(&runtime, parts, core);
                }
                Err(error) => {
                    let _ = report.send(Err(error));
                }
            },
        )?;
        reported.recv().map_err(|_| io::Error::other("a worker thread ended at its start"))??;
    }
    Ok(running)
}

/// What one worker thread does.
fn work(runtime: &LocalRuntime, parts: WorkerParts<OsNet>, core: Option<usize>) {
    if let Some(core) = core {
        let mut set = CpuSet::new();
        set.set(core);
        // A worker that may not be pinned still works.
        let _ = rustix::thread::sched_setaffinity(None, &set);
    }
    runtime.block_on(worker::run(parts));
}

impl DataPlane {
    /// What lives as long as the process.
    pub fn process(&self) -> &Arc<Process> {
        &self.process
    }

    /// Accepts from a socket from now on, on one of the workers. `name` is the listener's, for the case that this ends by a bug.
    pub fn open(&self, socket: BoundSocket, name: &Arc<str>, gate: &Arc<Gate>) -> Door {
        let (sender, orders) = watch::channel(Some(Arc::clone(gate)));
        let turn = self.opened.fetch_add(1, Ordering::Relaxed);
        let job = AcceptJob {
            socket,
            name: Arc::clone(name),
            orders,
            process: self.process.clone(),
            mailboxes: self.mailboxes.clone(),
            stage: self.stage.subscribe(),
            report: self.report.clone(),
        };
        if let Some(mailbox) = self.mailboxes.get(turn % self.mailboxes.len().max(1)) {
            // A worker that is gone is stopping, as everything is then.
            let _ = mailbox.send(Mail::Work(Box::new(move || job.spawn())));
        }
        Door { gate: sender }
    }

    /// What runs on every worker, the oldest first.
    pub async fn sessions(&self) -> Vec<RunningExchange> {
        let mut answers = Vec::new();
        for mailbox in self.mailboxes.iter() {
            let (sender, answer) = oneshot::channel();
            let _ = mailbox.send(Mail::Sessions(sender));
            answers.push(answer);
        }
        let mut list = Vec::new();
        for answer in answers {
            // On a worker that has ended nothing runs.
            list.extend(answer.await.unwrap_or_default());
        }
        list.sort_by_key(|one| std::cmp::Reverse(one.age));
        list
    }

    /// Returns when every worker has looked at what it was sent before.
    pub async fn respond(&self) {
        let mut answers = Vec::new();
        for mailbox in self.mailboxes.iter() {
            let (sender, answer) = oneshot::channel();
            let _ = mailbox.send(Mail::Work(Box::new(move || {
                // Nobody waits any more.
                let _ = sender.send(());
            })));
            answers.push(answer);
        }
        for answer in answers {
            // A worker that has ended is none that hangs.
            let _ = answer.await;
        }
    }

    /// Has plain connections leave their workers to `to` from now on, as soon as none of their requests is with an endpoint; with `None`
    /// they stay. Returns when those that could leave at once have left.
    pub async fn part(&self, to: Option<Departures<OsNet>>) {
        let mut left = Vec::new();
        for mailbox in self.mailboxes.iter() {
            let (sender, receiver) = oneshot::channel();
            let _ = mailbox.send(Mail::Part(to.clone(), sender));
            left.push(receiver);
        }
        for worker in left {
            // A worker that has ended has no connections.
            let _ = worker.await;
        }
    }

    /// Serves a connection on that left its worker and that nobody took; it stays from then on. As [`DataPlane::enter`].
    pub async fn take_back(&self, mut parting: Parting<OsNet>) {
        parting.moved.stays = true;
        let (worker, mail, arrived) = parting.returned();
        self.hand_to(worker, mail, arrived).await;
    }

    /// Room for a connection that another process accepted, if there is any now.
    pub fn admit(&self, gate: &Arc<Gate>) -> Option<Admission> {
        let (worker, place) = Place::enter_now(&self.process, gate)?;
        Some(Admission { worker, place })
    }

    /// Goes on with a connection that was served in another process. One that waits in a queue has its place there when this returns,
    /// so that those who are entered one after the other are in that order, whatever workers they are for.
    pub async fn enter(&self, admission: Admission, socket: OsAccepted, mut moved: Moved) {
        let Admission { worker, place } = admission;
        let arrived = moved.turn();
        self.hand_to(worker, Mail::Connection(handoff(socket, place, moved)), arrived).await;
    }

    async fn hand_to(
        &self,
        worker: usize,
        mail: Mail<OsNet>,
        arrived: Option<oneshot::Receiver<()>>,
    ) {
        if let Some(mailbox) = self.mailboxes.get(worker) {
            let _ = mailbox.send(mail);
        }
        if let Some(arrived) = arrived {
            // Dropped without a word when it has. One that does not come to its queue any more need not be waited for.
            let _ = timeout(TURN_PATIENCE, arrived).await;
        }
    }

    /// Has every worker run new exchanges on `snapshot`; returns when all do.
    pub async fn adopt(&self, snapshot: &Arc<Snapshot>) {
        let mut adopted = Vec::new();
        for mailbox in self.mailboxes.iter() {
            let (sender, receiver) = oneshot::channel();
            let _ = mailbox.send(Mail::Snapshot(Arc::clone(snapshot), sender));
            adopted.push(receiver);
        }
        for worker in adopted {
            // A worker that has ended runs nothing new.
            let _ = worker.await;
        }
    }
}

/// Room for one connection, and the worker that it is for.
pub struct Admission {
    worker: usize,
    place: Place,
}

/// What it takes to accept from a socket.
struct AcceptJob {
    socket: BoundSocket,
    name: Arc<str>,
    orders: GateOrders,
    process: Arc<Process>,
    mailboxes: Arc<[mpsc::UnboundedSender<Mail<OsNet>>]>,
    stage: watch::Receiver<Stage>,
    report: mpsc::UnboundedSender<String>,
}

impl AcceptJob {
    /// Accepts on the worker whose thread this is.
    fn spawn(self) {
        let Self { socket, name, orders, process, mailboxes, stage, report } = self;
        let unix = socket.is_unix();
        let socket = match OsListener::new(socket.socket, unix) {
            Ok(socket) => socket,
            Err(error) => {
                let _ = report.send(format!("the listener {name} cannot be served: {error}"));
                return;
            }
        };
        let accepting = accept(OsNet, socket, orders, process, mailboxes, stage);
        let accepting = tokio::task::spawn_local(accepting);
        tokio::task::spawn_local(async move {
            if let Err(error) = accepting.await
                && error.is_panic()
            {
                let panic = error.into_panic();
                let what = panic_text(&*panic);
                let _ = report.send(format!("the listener {name} ended by a bug: {what}"));
            }
        });
    }
}

impl Running {
    /// What configurations are given to.
    pub fn plane(&self) -> &Arc<DataPlane> {
        &self.plane
    }

    /// What lives as long as the process.
    pub fn process(&self) -> &Arc<Process> {
        &self.plane.process
    }

    /// Stops accepting and lets what runs finish within `patience`. Returns at once.
    pub fn drain(&self, patience: Duration) {
        self.plane.process.stopping.store(true, Ordering::Relaxed);
        self.plane.stage.send_replace(Stage::draining(patience));
    }

    /// The same when another process has taken the sockets over: nobody waits for this one's end, so that connections where no
    /// request runs may have all the time for their last one.
    pub fn drain_behind_successor(&self, patience: Duration) {
        let deadline = Instant::now() + patience;
        self.plane.process.stopping.store(true, Ordering::Relaxed);
        self.plane.stage.send_replace(Stage::Draining { deadline, idle_until: deadline });
    }

    /// Ends what runs.
    pub fn stop_now(&self) {
        self.plane.process.stopping.store(true, Ordering::Relaxed);
        self.plane.stage.send_replace(Stage::Stopped);
    }

    /// Runs one more thread of the data plane. When it panics, [`Running::failed`] says so; a panic within a task of its runtime is none
    /// of it, that ends the task alone.
    ///
    /// # Errors
    /// When the thread cannot be made.
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

    /// Waits until a thread or a listener has ended by a panic: one sentence. What it served is not served any more.
    pub async fn failed(&mut self) -> String {
        match self.failures.recv().await {
            Some(sentence) => sentence,
            // Not while we hold a sender ourselves.
            None => std::future::pending().await,
        }
    }

    /// Whether every worker has ended.
    pub fn is_finished(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }

    /// Waits until every worker has ended. Blocks.
    ///
    /// # Errors
    /// The sentence of the first that ended by a panic and that [`Running::failed`] did not tell of.
    pub fn join(mut self) -> Result<(), String> {
        for thread in self.threads.drain(..) {
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

/// What a panic said.
fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let literal = panic.downcast_ref::<&str>().copied();
    literal.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

/// The cores this process may run on.
pub fn allowed_cores() -> Vec<usize> {
    let Ok(set) = rustix::thread::sched_getaffinity(None) else { return vec![0] };
    (0..CpuSet::MAX_CPU).filter(|&core| set.is_set(core)).collect()
}

#[cfg(test)]
mod tests {
    use weir_stats::log_channel;

    use super::*;
    use crate::compile::{Surroundings, compile};

    #[test]
    fn a_worker_that_hangs_does_not_respond_and_one_that_has_ended_does_not_matter() {
        let config = weir_config::parse_str("test", "listen 127.0.0.1:0 -> respond 204;").unwrap();
        let (sinks, _receiver) = log_channel(0, 1);
        let surroundings = Surroundings { read: &|path| std::fs::read(path), sinks, root: None };
        let snapshot = compile(&config.config, surroundings, None).unwrap().snapshot;
        let (process, _) = Process::new(snapshot, 2, 100);
        let running = start(&process).unwrap();
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
