//! The measures of one worker against a shortage of memory (`overload.rs` decides which apply).

use std::rc::Weak;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::time::sleep;

use crate::limits::{MEMORY_PATIENCE, MEMORY_RELIEF};
use crate::net::Net;
use crate::time::instant::Instant;
use crate::worker::Worker;
use crate::worker::overload::Pressure;
use crate::worker::process::Process;

/// Carries out the measures of the current level for one worker, as long as the worker lives.
pub(crate) async fn attend<N: Net>(worker: Weak<Worker<N>>, process: Arc<Process>) {
    let mut told = process.memory.told.subscribe();
    while told.changed().await.is_ok() {
        let mut relief = Relief::default();
        loop {
            let level = process.memory.look();
            let Some(worker) = worker.upgrade() else { return };
            relief.act(&worker, level);
            if level == Pressure::None {
                break;
            }
            drop(worker);
            sleep(MEMORY_RELIEF).await;
        }
    }
}

/// The progress of one worker's measures against a shortage.
#[derive(Default)]
struct Relief {
    level: Pressure,
    /// The time since which reads are paused.
    paused: Option<Instant>,
}

impl Relief {
    fn act<N: Net>(&mut self, worker: &Worker<N>, level: Pressure) {
        let before = std::mem::replace(&mut self.level, level);
        worker.pressure.set(level);
        if level.max(before) >= Pressure::PauseReads && level != before {
            // Paused tasks check the level again.
            worker.call();
        }
        if level < Pressure::PauseReads {
            self.paused = None;
        }
        match level {
            Pressure::None => give_back(worker),
            _ => worker.shrink(),
        }
        let now = Instant::now();
        let since = (level >= Pressure::PauseReads).then(|| *self.paused.get_or_insert(now));
        let lasting = since.is_some_and(|since| now - since >= MEMORY_PATIENCE);
        if level == Pressure::Refuse || lasting {
            worker.give_up_largest();
        }
    }
}

/// Makes the allocator return freed memory to the kernel, on a blocking thread.
fn give_back<N: Net>(worker: &Worker<N>) {
    #[cfg(target_env = "gnu")]
    if worker.number == 0 && worker.process.memory.source.get().is_none() {
        tokio::task::spawn_blocking(|| {
            // SAFETY: the call takes a number and may be made at any time.
            unsafe { libc::malloc_trim(0) }
        });
    }
}

impl<N: Net> Worker<N> {
    /// Frees memory that is kept for speed, and closes the oldest idle connections.
    fn shrink(&self) {
        self.buffers.free();
        self.free_workspaces();
        let open = self.process.open_connections();
        self.process.idle_clients.give_up_for_memory((open / 16).max(32));
    }

    /// Ends the requests that hold the most memory, for this worker's part of the bytes to free.
    fn give_up_largest(&self) {
        let held = |load: &crate::worker::load::WorkerLoad| load.held.load(Ordering::Relaxed);
        let all: usize = self.process.loads.iter().map(|load| held(load)).sum();
        let own = held(&self.load);
        if own == 0 {
            return;
        }
        let surplus = self.process.memory.surplus() as u128;
        let part = (surplus * own as u128 / (all.max(1)) as u128) as usize;
        let given_up = self.sessions.give_up_largest(part.max(1));
        if given_up > 0 {
            self.process.memory.given_up.fetch_add(given_up as u64, Ordering::Relaxed);
            self.call();
        }
    }
}
