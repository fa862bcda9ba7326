//! Runs the data plane on the operating system: one pinned thread with its own runtime per worker, and the listening sockets
//! spread over them.

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::thread::CpuSet;
use tokio::runtime::{Builder, LocalOptions, LocalRuntime};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::accept::{Handoff, accept};
use crate::bind::BoundSocket;
use crate::os_net::{OsListener, OsNet};
use crate::shared::{Shared, Stage};
use crate::worker::{self, WorkerParts};

/// A running data plane.
pub struct Running {
    shared: Arc<Shared>,
    stage: watch::Sender<Stage>,
    threads: Vec<JoinHandle<()>>,
    /// Where threads and their listeners say that they ended by a panic.
    report: mpsc::UnboundedSender<String>,
    failures: mpsc::UnboundedReceiver<String>,
}

/// A bound socket and the number of the listener it belongs to.
pub type ListenerSocket = (usize, BoundSocket);

/// Starts the workers and serves.
///
/// # Errors
/// When a thread or its runtime cannot be made; nothing is left running then.
pub fn start(shared: &Arc<Shared>, sockets: Vec<ListenerSocket>) -> io::Result<Running> {
    let workers = shared.loads.len();
    let cores = allowed_cores();
    let (stage, watcher) = watch::channel(Stage::Running);
    let (mailboxes, receivers): (Vec<_>, Vec<_>) =
        (0..workers).map(|_| mpsc::unbounded_channel()).unzip();
    let mailboxes: Arc<[mpsc::UnboundedSender<Handoff<OsNet>>]> = mailboxes.into();
    let mut shares: Vec<Vec<ListenerSocket>> = (0..workers).map(|_| Vec::new()).collect();
    for (turn, socket) in sockets.into_iter().enumerate() {
        if let Some(share) = shares.get_mut(turn % workers.max(1)) {
            share.push(socket);
        }
    }
    let (report, failures) = mpsc::unbounded_channel();
    let mut running =
        Running { shared: shared.clone(), stage, threads: Vec::new(), report, failures };
    for (number, (mailbox, share)) in receivers.into_iter().zip(shares).enumerate() {
        let parts = WorkerParts {
            number,
            net: OsNet,
            shared: shared.clone(),
            mailbox,
            seed: fastrand::u64(..),
            stage: watcher.clone(),
        };
        let core = cores.get(number % cores.len().max(1)).copied();
        let report = running.report.clone();
        let job = Job { parts, sockets: share, mailboxes: mailboxes.clone(), core, report };
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
                    job.run(&runtime);
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
struct Job {
    parts: WorkerParts<OsNet>,
    sockets: Vec<ListenerSocket>,
    mailboxes: Arc<[mpsc::UnboundedSender<Handoff<OsNet>>]>,
    core: Option<usize>,
    report: mpsc::UnboundedSender<String>,
}

impl Job {
    fn run(self, runtime: &LocalRuntime) {
        if let Some(core) = self.core {
            let mut set = CpuSet::new();
            set.set(core);
            // A worker that may not be pinned still works.
            let _ = rustix::thread::sched_setaffinity(None, &set);
        }
        runtime.block_on(async move {
            for (number, bound) in self.sockets {
                let Some(listener) = self.parts.shared.listeners.get(number).cloned() else {
                    continue;
                };
                let unix = bound.is_unix();
                let Ok(socket) = OsListener::new(bound.socket, unix) else { continue };
                let (shared, stage) = (self.parts.shared.clone(), self.parts.stage.clone());
                let name = listener.name.clone();
                let mailboxes = self.mailboxes.clone();
                let accepting = accept(OsNet, socket, listener, shared, mailboxes, stage);
                let accepting = tokio::task::spawn_local(accepting);
                let report = self.report.clone();
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
            drop(self.mailboxes);
            worker::run(self.parts).await;
        });
    }
}

impl Running {
    /// What the workers share.
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Stops accepting and lets what runs finish within `patience`. Returns at once.
    pub fn drain(&self, patience: Duration) {
        self.shared.stopping.store(true, Ordering::Relaxed);
        self.stage.send_replace(Stage::Draining { deadline: Instant::now() + patience });
    }

    /// Ends what runs.
    pub fn stop_now(&self) {
        self.shared.stopping.store(true, Ordering::Relaxed);
        self.stage.send_replace(Stage::Stopped);
    }

    /// Runs one more thread of the data plane. When it panics, [`Running::failed`] says so; a panic within a task of its runtime is none
    /// of it, that ends the task alone.
    ///
    /// # Errors
    /// When the thread cannot be made.
    pub fn spawn(&mut self, name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let (report, own_name) = (self.report.clone(), name.to_owned());
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
