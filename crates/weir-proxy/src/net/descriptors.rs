//! A table of the process's connected sockets by worker, so that the sockets of a lost worker can
//! be closed by another thread. It costs one plain store when a socket is registered with a worker
//! and one when it is closed.

use std::cell::Cell;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, Ordering};

use rustix::net::{Shutdown, shutdown};
use rustix::process::{Resource, getrlimit};

/// Indexed by descriptor: the worker's number plus 1, or 0. Pages that no descriptor falls into
/// take no memory.
static OWNERS: OnceLock<Box<[AtomicU16]>> = OnceLock::new();

/// Descriptors beyond this number are not tracked.
const MOST: u64 = 1 << 20;

thread_local! {
    /// The value that this thread stores in [`OWNERS`].
    static WORKER: Cell<u16> = const { Cell::new(0) };
}

/// Assigns the sockets that are registered on this thread from now on to this worker.
pub(crate) fn belong_to(worker: usize) {
    OWNERS.get_or_init(|| {
        let limit = getrlimit(Resource::Nofile).maximum.unwrap_or(MOST).min(MOST);
        // SAFETY: all bits 0 are a valid `AtomicU16`.
        unsafe { Box::new_zeroed_slice(limit as usize).assume_init() }
    });
    WORKER.set(u16::try_from(worker + 1).unwrap_or(0));
}

/// A socket's entry in its worker's list; it must be dropped before the socket is closed.
#[derive(Debug)]
pub(crate) struct Listed(RawFd);

impl Listed {
    /// Lists a socket for the worker of this thread.
    pub(crate) fn new(socket: &impl AsFd) -> Self {
        let socket = socket.as_fd().as_raw_fd();
        note(socket, WORKER.get());
        Self(socket)
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        note(self.0, 0);
    }
}

fn note(socket: RawFd, owner: u16) {
    let owners = OWNERS.get().map_or(&[][..], |owners| owners);
    if let Some(own) = usize::try_from(socket).ok().and_then(|at| owners.get(at)) {
        own.store(owner, Ordering::Relaxed);
    }
}

/// Closes all sockets of a worker and returns their number.
///
/// # Safety
/// The worker's thread is stopped for good: no code will use or close these descriptors any more.
pub(crate) unsafe fn close_all_of(worker: usize) -> usize {
    let owners = OWNERS.get().map_or(&[][..], |owners| owners);
    let of_worker = u16::try_from(worker + 1).unwrap_or(0);
    let mut closed = 0;
    for (number, owner) in owners.iter().enumerate() {
        if of_worker == 0 || owner.load(Ordering::Relaxed) != of_worker {
            continue;
        }
        owner.store(0, Ordering::Relaxed);
        // SAFETY: it is open, since it is taken off the list before it is closed, and its owner
        // does not run any more.
        let socket = unsafe { OwnedFd::from_raw_fd(number as RawFd) };
        // The peer is notified even if another descriptor of the socket exists.
        let _ = shutdown(&socket, Shutdown::Both);
        closed += 1;
    }
    closed
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn the_sockets_of_one_worker_are_closed_and_no_others() {
        let ends = || UnixStream::pair().unwrap();
        let ((lost, peer), (kept, other), (gone, _)) = (ends(), ends(), ends());
        belong_to(901);
        let listed = Listed::new(&lost);
        drop(Listed::new(&gone));
        belong_to(902);
        let _kept = Listed::new(&kept);
        // Simulates an owner that does not run any more.
        std::mem::forget((lost, listed));
        // SAFETY: the owner was forgotten.
        assert_eq!(unsafe { close_all_of(901) }, 1);
        let mut byte = [0];
        assert_eq!(std::io::Read::read(&mut &peer, &mut byte).unwrap(), 0);
        std::io::Write::write_all(&mut &kept, b"x").unwrap();
        std::io::Read::read_exact(&mut &other, &mut byte).unwrap();
    }
}
