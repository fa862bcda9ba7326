//! Watches the workers from a thread that serves nothing, so that a worker that hangs is detected,
//! does not affect others, and is replaced. A second thread audits the pools' queues; it may wait
//! for their locks, which the first one must not.
//!
//! ```text
//!  on time ──LATE_TICKS without a beat──▶ late: sockets and mail go to others ──a beat──▶ on time
//!                                           │ STACK_TICKS: its stack is reported
//!                                           │ `watchdog=`: its thread is stopped for good
//!                                           ▼
//!                       lost ─▶ its resources are given back ─▶ another thread gets its number
//!                        ├──it cannot be stopped: it stays; the process ends if all workers do
//!                        └──it held a lock that is needed: the process ends
//! ```
//!
//! A lost worker's memory is not freed: its thread never runs again, and none of its values is
//! dropped, so nothing is given back twice.

pub(crate) mod stack;
#[cfg(test)]
mod tests;

use std::io;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Weak};
use std::thread::{Builder, sleep};
use std::time::Duration;

use crate::limits::{HEARTBEAT, LATE_TICKS, QUEUE_AUDIT, STACK_TICKS};
use crate::net::descriptors;
use crate::runtime::accept::least_loaded;
use crate::runtime::start::DataPlane;
use crate::worker::mail::Mail;
use crate::worker::process::Process;
use crate::worker::sessions::record_lost;
use stack::Stopped;

/// The stack size of the threads, which resolve names of functions.
const STACK_BYTES: usize = 2 * 1024 * 1024;
/// The time that giving back may take. It waits for locks, one of which the lost worker may hold.
const GIVE_BACK_PATIENCE: Duration = Duration::from_secs(2);

/// Starts both threads. They end with the data plane.
pub(crate) fn start(plane: &Arc<DataPlane>) -> io::Result<()> {
    stack::prepare()?;
    let weak = Arc::downgrade(plane);
    let thread = |name: &str| Builder::new().name(name.to_owned()).stack_size(STACK_BYTES);
    thread("weir-watchdog").spawn(move || watch(&weak))?;
    let weak = Arc::downgrade(plane);
    thread("weir-queues").spawn(move || audit(&weak))?;
    Ok(())
}

fn audit(plane: &Weak<DataPlane>) {
    while let Some(plane) = plane.upgrade() {
        plane.process().watch_queues();
        drop(plane);
        sleep(QUEUE_AUDIT);
    }
}

/// The watchdog's record of a worker.
#[derive(Clone, Copy, Default)]
struct WatchedWorker {
    beats: u64,
    /// The number of consecutive checks without a new heartbeat. Time in which the watchdog itself
    /// did not run is not counted.
    missed: u32,
    /// Set once it was reported that the worker cannot be replaced.
    stuck: bool,
}

fn watch(plane: &Weak<DataPlane>) {
    let mut seen = Vec::new();
    while let Some(plane) = plane.upgrade() {
        seen.resize(plane.process().loads.len(), WatchedWorker::default());
        for (number, seen) in seen.iter_mut().enumerate() {
            look_at(&plane, number, seen);
        }
        if !seen.is_empty() && seen.iter().all(|seen| seen.stuck) {
            let sentence = "no worker answers, and none can be replaced: the process ends";
            plane.process().incidents.say_and_abort(sentence);
        }
        drop(plane);
        sleep(HEARTBEAT);
    }
}

fn look_at(plane: &Arc<DataPlane>, number: usize, seen: &mut WatchedWorker) {
    let process = plane.process();
    let Some(load) = process.loads.get(number) else { return };
    let beats = load.beats.load(Ordering::Relaxed);
    if beats != seen.beats || !plane.is_running() {
        if seen.missed >= STACK_TICKS && beats != seen.beats {
            process.incidents.say(&format!("worker {number} answers again"));
        }
        *seen = WatchedWorker { beats, missed: 0, stuck: false };
        load.late.store(false, Ordering::Relaxed);
        return;
    }
    seen.missed += 1;
    if seen.missed < LATE_TICKS {
        return;
    }
    load.late.store(true, Ordering::Relaxed);
    plane.move_sockets(number);
    reroute(plane, number);
    if seen.missed == STACK_TICKS {
        process.incidents.hangs.fetch_add(1, Ordering::Relaxed);
        say_stack(process, number);
    }
    let late = HEARTBEAT * seen.missed;
    if process.incidents.patience().is_some_and(|patience| late >= patience) && !seen.stuck {
        match replace(plane, number) {
            Ok(()) => *seen = WatchedWorker { beats, ..WatchedWorker::default() },
            Err(sentence) => {
                process.incidents.say(&sentence);
                seen.stuck = true;
            }
        }
    }
}

/// Gives the connections that wait in a late worker's mailbox to other workers. Other mail stays
/// there, in its order.
fn reroute(plane: &DataPlane, from: usize) {
    let Some(mailbox) = plane.received.get(from) else { return };
    let loads = &plane.process().loads;
    for mail in mailbox.take_all() {
        let to = least_loaded(loads, from + 1);
        match (mail, loads.get(to)) {
            (Mail::Connection(handoff), Some(load)) if to != from => {
                plane.send(to, Mail::Connection(handoff.reroute(load)));
            }
            (mail, _) => plane.send(from, mail),
        }
    }
}

fn say_stack(process: &Process, number: usize) {
    let thread = process.loads.get(number).map_or(0, |load| load.thread.load(Ordering::Relaxed));
    let lines = stack::frames(thread).map(|frames| stack::describe(&frames)).unwrap_or_default();
    let requests = process.loads.get(number).map_or(0, |load| load.busy.load(Ordering::Relaxed));
    let place = if lines.is_empty() { "its stack cannot be read" } else { "it is at" };
    process.incidents.say(&format!(
        "worker {number} has not answered for a second, {requests} requests run there; {place}"
    ));
    for line in lines {
        process.incidents.say(&format!("worker {number}: {line}"));
    }
}

/// Replaces a worker that hangs by another thread.
///
/// # Errors
/// One sentence with the reason why that is not possible.
fn replace(plane: &Arc<DataPlane>, number: usize) -> Result<(), String> {
    let process = plane.process();
    let load = process.loads.get(number).ok_or("no such worker")?;
    if stack::stop(load.thread.load(Ordering::Relaxed)) == Stopped::No {
        return Err(format!(
            "worker {number} hangs and cannot be stopped: the kernel holds it; it is left alone"
        ));
    }
    // Waiting for a lock that the lost thread holds would never end, so a helper thread waits.
    let (done, lost) = channel();
    let own = process.clone();
    let helper = Builder::new().name("weir-give-back".to_owned());
    let helper = helper.spawn(move || {
        let _ = done.send(give_back(&own, number));
    });
    if let Err(error) = helper {
        return Err(format!("worker {number} cannot be replaced: {error}"));
    }
    let lost = match lost.recv_timeout(GIVE_BACK_PATIENCE) {
        Ok(lost) => lost,
        Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
            let sentence = format!(
                "worker {number} hung with a lock that others need: the process ends, to be started again"
            );
            process.incidents.say_and_abort(&sentence);
        }
    };
    process.incidents.replaced.fetch_add(1, Ordering::Relaxed);
    process.incidents.note_lost(lost.connections, lost.exchanges);
    let told = match lost.told {
        LossRecord::Logged => "",
        LossRecord::Unknown => {
            ", which are in no access log: it was stopped while it changed its list of them"
        }
    };
    process.incidents.say(&format!(
        "worker {number} was replaced: {} connections and {} requests ended with it{told}",
        lost.connections, lost.exchanges
    ));
    plane.start_worker(number).map_err(|error| format!("worker {number} is gone: {error}"))
}

/// The connections and exchanges that ended with a worker.
struct Lost {
    connections: usize,
    exchanges: usize,
    told: LossRecord,
}

/// The result of recording lost exchanges: counted with their cause and written to the access logs,
/// or not.
enum LossRecord {
    Logged,
    /// The exchanges are not known.
    Unknown,
}

/// Gives back all resources of a worker whose thread is stopped for good.
fn give_back(process: &Process, number: usize) -> Lost {
    let snapshot = process.snapshot();
    let former = snapshot.former.iter().filter_map(Weak::upgrade);
    for pool in snapshot.pools.iter().cloned().chain(former) {
        pool.balancer.abandon(number as u16);
        for endpoint in &pool.endpoints {
            endpoint.idle.abandon(number);
        }
    }
    snapshot.limiter.table.abandon(number);
    process.forget_idle_clients_of(number);
    process.server_connections.abandon(number);
    let Some(load) = process.loads.get(number) else {
        return Lost { connections: 0, exchanges: 0, told: LossRecord::Logged };
    };
    // SAFETY: `stack::stop` returned that the thread will never run again.
    unsafe { descriptors::close_all_of(load.sockets.swap(0, Ordering::Relaxed)) };
    // SAFETY: as above.
    let told = unsafe { record_lost(process, number) };
    let busy = load.busy.swap(0, Ordering::Relaxed);
    load.reading.store(0, Ordering::Relaxed);
    let (exchanges, told) =
        told.map_or((busy, LossRecord::Unknown), |count| (count, LossRecord::Logged));
    Lost { connections: load.seize_places(), exchanges, told }
}
