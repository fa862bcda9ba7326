//! Watches the workers from a thread that serves nothing, so that a worker that hangs is noticed and
//! harms nobody else: while it is late, other workers accept from its sockets and take the
//! connections that wait in its mailbox. A second thread audits the pools' queues; it may wait for
//! their locks, which the first one must not.
//!
//! ```text
//!  on time ──no beat for LATE_TICKS──▶ late: doors and mail go to others ──a beat──▶ on time
//! ```

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::thread::{Builder, sleep};

use crate::accept::least_loaded;
use crate::limits::{HEARTBEAT, LATE_TICKS, QUEUE_AUDIT};
use crate::start::DataPlane;
use crate::worker::Mail;

/// Its threads do little.
const STACK_BYTES: usize = 128 * 1024;

/// Starts both threads. They end with the data plane.
pub(crate) fn start(plane: &Arc<DataPlane>) -> io::Result<()> {
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

/// What is known of a worker.
#[derive(Clone, Copy, Default)]
struct Seen {
    beats: u64,
    /// Looks in a row at which it had not beaten since the one before. Time in which this thread did
    /// not run either does not count.
    missed: u32,
}

fn watch(plane: &Weak<DataPlane>) {
    let mut seen = Vec::new();
    while let Some(plane) = plane.upgrade() {
        seen.resize(plane.process().loads.len(), Seen::default());
        for (number, seen) in seen.iter_mut().enumerate() {
            look_at(&plane, number, seen);
        }
        drop(plane);
        sleep(HEARTBEAT);
    }
}

fn look_at(plane: &DataPlane, number: usize, seen: &mut Seen) {
    let Some(load) = plane.process().loads.get(number) else { return };
    let beats = load.beats.load(Ordering::Relaxed);
    if beats != seen.beats || !plane.is_running() {
        *seen = Seen { beats, missed: 0 };
        load.late.store(false, Ordering::Relaxed);
        return;
    }
    seen.missed += 1;
    if seen.missed < LATE_TICKS {
        return;
    }
    load.late.store(true, Ordering::Relaxed);
    plane.move_doors(number);
    reroute(plane, number);
}

/// Gives the connections that wait in a late worker's mailbox to others. What else is there stays, in
/// its order.
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
