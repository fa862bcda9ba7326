//! A table of the process's connected sockets by worker thread, so that the sockets of a lost
//! worker can be closed by another thread. It costs one plain store when a socket is registered
//! and one when it is closed.

use std::cell::Cell;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::net::{Shutdown, shutdown};
use rustix::process::{Resource, getrlimit};

/// Indexed by descriptor: the owner, or 0. Pages that no descriptor falls into take no memory.
static OWNERS: OnceLock<Box<[AtomicU32]>> = OnceLock::new();

/// The next owner. Owners are counted over the whole process, as descriptors are. Workers' numbers
/// are not unique there, because tests run several data planes in one process.
static NEXT: AtomicU32 = AtomicU32::new(1);

/// Descriptors beyond this number are not tracked.
const MOST: u64 = 1 << 20;

thread_local! {
    /// The owner of the sockets that this thread registers; 0 for threads that are no workers.
    static OWNER: Cell<u32> = const { Cell::new(0) };
}

/// Makes this thread the owner of the sockets that it registers from now on, and returns the
/// owner's number, which no other thread has.
pub(crate) fn own_from_now_on() -> u32 {
    OWNERS.get_or_init(|| {
        let limit = getrlimit(Resource::Nofile).maximum.unwrap_or(MOST).min(MOST);
        // SAFETY: all bits 0 are a valid `AtomicU32`.
        unsafe { Box::new_zeroed_slice(limit as usize).assume_init() }
    });
    let owner = NEXT.fetch_add(1, Ordering::Relaxed);
    OWNER.set(owner);
    owner
}

/// A socket's entry in the table; it must be dropped before the socket is closed.
#[derive(Debug)]
pub(crate) struct Listed(RawFd);

impl Listed {
    /// Registers this thread as the owner of a socket.
    pub(crate) fn new(socket: &impl AsFd) -> Self {
        let socket = socket.as_fd().as_raw_fd();
        note(socket, OWNER.get());
        Self(socket)
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        note(self.0, 0);
    }
}

fn note(socket: RawFd, owner: u32) {
    let owners = OWNERS.get().map_or(&[][..], |owners| owners);
    if let Some(own) = usize::try_from(socket).ok().and_then(|at| owners.get(at)) {
        own.store(owner, Ordering::Relaxed);
    }
}

/// Closes all sockets of an owner and returns their number.
///
/// # Safety
/// The owner's thread is stopped for good: no code will use or close these descriptors any more.
pub(crate) unsafe fn close_all_of(owner: u32) -> usize {
    let owners = OWNERS.get().map_or(&[][..], |owners| owners);
    let mut closed = 0;
    for (number, listed) in owners.iter().enumerate() {
        if owner == 0 || listed.load(Ordering::Relaxed) != owner {
            continue;
        }
        listed.store(0, Ordering::Relaxed);
        // SAFETY: the descriptor is open, since it is removed from the table before it is closed,
        // and its owner does not run any more.
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
    fn the_sockets_of_one_owner_are_closed_and_no_others() {
        let ends = || UnixStream::pair().unwrap();
        let ((lost, peer), (kept, other), (gone, _)) = (ends(), ends(), ends());
        let owner = own_from_now_on();
        let listed = Listed::new(&lost);
        drop(Listed::new(&gone));
        own_from_now_on();
        let _kept = Listed::new(&kept);
        // Simulates an owner that does not run any more.
        std::mem::forget((lost, listed));
        // SAFETY: the owner's socket and its entry were forgotten.
        assert_eq!(unsafe { close_all_of(owner) }, 1);
        let mut byte = [0];
        assert_eq!(std::io::Read::read(&mut &peer, &mut byte).unwrap(), 0);
        std::io::Write::write_all(&mut &kept, b"x").unwrap();
        std::io::Read::read_exact(&mut &other, &mut byte).unwrap();
    }
}
