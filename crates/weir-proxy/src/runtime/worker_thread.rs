//! The thread of a worker, with its own runtime, pinned to its cores. A worker that ends by a panic
//! outside a task starts again with the same mailbox; its resources are given back as it unwinds.
//! It serves nothing itself (`worker_loop.rs` does).

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::thread::CpuSet;
use tokio::runtime::{Builder, LocalOptions};
use tokio::time::sleep;

use crate::limits::HEARTBEAT;
use crate::net::descriptors;
use crate::net::os_net::OsNet;
use crate::runtime::sandbox;
use crate::runtime::start::{DataPlane, panic_text};
use crate::runtime::watchdog::stack::this_thread;
use crate::runtime::worker_loop::{self, WorkerParts};
use crate::worker::load::WorkerLoad;
use crate::worker::sessions::record_lost;

/// A worker that panics `OFTEN` times in a row within this time of its start is not started again.
const SOON: Duration = Duration::from_secs(1);
const OFTEN: u32 = 5;

/// Starts the thread of a worker.
///
/// # Errors
/// If the thread or its runtime cannot be created.
pub(crate) fn start(plane: &Arc<DataPlane>, number: usize) -> io::Result<JoinHandle<()>> {
    let (ready, started) = channel();
    let weak = Arc::downgrade(plane);
    let cores = plane.cores_of(number).to_vec();
    let thread = std::thread::Builder::new().name(format!("weir-worker-{number}"));
    let thread = thread.spawn(move || {
        pin(&cores);
        live(&weak, number, ready);
    })?;
    // A worker's runtime cannot leave the thread that created it.
    started.recv().map_err(|_| io::Error::other("a worker thread ended at its start"))??;
    Ok(thread)
}

fn pin(cores: &[usize]) {
    let mut set = CpuSet::new();
    let known = cores.iter().filter(|&&core| core < CpuSet::MAX_CPU);
    known.for_each(|core| set.set(*core));
    if set.count() > 0 {
        // A worker that cannot be pinned still works.
        let _ = rustix::thread::sched_setaffinity(None, &set);
    }
}

fn live(plane: &Weak<DataPlane>, number: usize, ready: Sender<io::Result<()>>) {
    let mut ready = Some(ready);
    let mut in_a_row = 0;
    while let Some(parts) = plane.upgrade().and_then(|plane| plane.worker_parts(number)) {
        let (began, ready) = (Instant::now(), ready.take());
        let ended = catch_unwind(AssertUnwindSafe(|| serve(parts, ready)));
        let Err(panic) = ended else { return };
        in_a_row = if began.elapsed() < SOON { in_a_row + 1 } else { 1 };
        let Some(plane) = plane.upgrade() else { return };
        plane.worker_panicked(number, panic_text(&*panic), in_a_row < OFTEN);
        if in_a_row >= OFTEN {
            return;
        }
    }
}

fn serve(parts: WorkerParts<OsNet>, ready: Option<Sender<io::Result<()>>>) {
    let built = Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
    let (runtime, told) = match built {
        Ok(runtime) => (Some(runtime), Ok(())),
        Err(error) => (None, Err(error)),
    };
    if let Some(ready) = ready {
        let _ = ready.send(told);
    }
    let (Some(runtime), Some(load)) = (runtime, parts.process.loads.get(parts.number).cloned())
    else {
        return;
    };
    sandbox::confine_worker();
    load.sockets.store(descriptors::own_from_now_on(), Ordering::Relaxed);
    load.thread.store(this_thread(), Ordering::Relaxed);
    let _batching = weir_memory::batch_here();
    // Dropped before the runtime, so that its exchanges are counted while they still exist.
    let _ended =
        EndedWork { process: parts.process.clone(), load: load.clone(), number: parts.number };
    runtime.block_on(async {
        tokio::task::spawn_local(beat(Arc::downgrade(&load)));
        worker_loop::run(parts).await;
    });
}

/// Counts and records the exchanges and connections that end with a worker that panics.
struct EndedWork {
    process: Arc<crate::worker::process::Process>,
    load: Arc<WorkerLoad>,
    number: usize,
}

impl Drop for EndedWork {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let load = &self.load;
            let open = load.open.load(Ordering::Relaxed);
            // A second panic would end the process.
            let told = catch_unwind(AssertUnwindSafe(|| {
                // SAFETY: this is the worker's own thread.
                unsafe { record_lost(&self.process, self.number) }
            }));
            let told = told.ok().flatten();
            let lost = told.unwrap_or_else(|| load.busy.load(Ordering::Relaxed));
            self.process.incidents.note_lost(open, lost);
        }
    }
}

/// Shows the watchdog that the worker runs its tasks.
async fn beat(load: Weak<WorkerLoad>) {
    while let Some(load) = load.upgrade() {
        load.beats.fetch_add(1, Ordering::Relaxed);
        drop(load);
        sleep(HEARTBEAT).await;
    }
}
