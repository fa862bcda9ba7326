//! Which worker has which of the process's connected sockets, so that those of a worker that is lost can
//! be closed in its place. It costs one plain store when a socket is registered with a worker and one
//! when it goes.

use std::cell::Cell;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, Ordering};

use rustix::net::{Shutdown, shutdown};
use rustix::process::{Resource, getrlimit};

/// By descriptor: the worker's number and 1, or 0. Pages that no descriptor falls into take no memory.
static OWNERS: OnceLock<Box<[AtomicU16]>> = OnceLock::new();

/// Descriptors beyond are not looked after.
const MOST: u64 = 1 << 20;

thread_local! {
    /// As in [`OWNERS`].
    static WORKER: Cell<u16> = const { Cell::new(0) };
}

/// Sockets that are registered on this thread belong to this worker from now on.
pub(crate) fn belong_to(worker: usize) {
    OWNERS.get_or_init(|| {
        let limit = getrlimit(Resource::Nofile).maximum.unwrap_or(MOST).min(MOST);
        // SAFETY: all bits 0 are a valid `AtomicU16`.
        unsafe { Box::new_zeroed_slice(limit as usize).assume_init() }
    });
    WORKER.set(u16::try_from(worker + 1).unwrap_or(0));
}

/// A socket that is on its worker's list until this is dropped, which must be before it is closed.
#[derive(Debug)]
pub(crate) struct Listed(RawFd);

impl Listed {
    /// Lists a socket for the worker whose thread this is.
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

/// Closes all that a worker has, and returns how many that were.
///
/// # Safety
/// The worker's thread stands still for good: nothing will use or close these descriptors any more.
pub(crate) unsafe fn close_all_of(worker: usize) -> usize {
    let owners = OWNERS.get().map_or(&[][..], |owners| owners);
    let of_worker = u16::try_from(worker + 1).unwrap_or(0);
    let mut closed = 0;
    for (number, owner) in owners.iter().enumerate() {
        if of_worker == 0 || owner.load(Ordering::Relaxed) != of_worker {
            continue;
        }
        owner.store(0, Ordering::Relaxed);
        // SAFETY: it is open, since it is taken off the list before it is closed, and who had it
        // does nothing any more.
        let socket = unsafe { OwnedFd::from_raw_fd(number as RawFd) };
        // The peer is told whatever other descriptor of it there may be.
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
        // Whoever had it does nothing any more.
        std::mem::forget((lost, listed));
        // SAFETY: it was forgotten.
        assert_eq!(unsafe { close_all_of(901) }, 1);
        let mut byte = [0];
        assert_eq!(std::io::Read::read(&mut &peer, &mut byte).unwrap(), 0);
        std::io::Write::write_all(&mut &kept, b"x").unwrap();
        std::io::Read::read_exact(&mut &other, &mut byte).unwrap();
    }
}
