//! Buffers that a worker's connections borrow while they transfer bytes. Idle connections hold
//! none. It knows no protocol.

use std::cell::{Cell, RefCell};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};

use crate::limits::{BULK_BUFFER, BULK_BUFFERS, LARGE_BUFFER, POOLED_BUFFERS, SMALL_BUFFER};

/// A worker's spare buffers, in three sizes.
#[derive(Default)]
pub(crate) struct Buffers {
    small: RefCell<Vec<Vec<u8>>>,
    large: RefCell<Vec<Vec<u8>>>,
    bulk: RefCell<Vec<Vec<u8>>>,
    /// The number of bulk buffers in use.
    bulk_lent: Rc<Cell<usize>>,
}

/// The use of one of the few bulk buffers; it ends when this is dropped.
pub(crate) struct BulkLease(Rc<Cell<usize>>);

impl Drop for BulkLease {
    fn drop(&mut self) {
        self.0.set(self.0.get().saturating_sub(1));
    }
}

impl Buffers {
    /// An empty buffer of [`SMALL_BUFFER`] bytes.
    pub(crate) fn small(&self) -> Vec<u8> {
        self.small.borrow_mut().pop().unwrap_or_else(|| Vec::with_capacity(SMALL_BUFFER))
    }

    /// An empty buffer of [`LARGE_BUFFER`] bytes.
    pub(crate) fn large(&self) -> Vec<u8> {
        self.large.borrow_mut().pop().unwrap_or_else(|| Vec::with_capacity(LARGE_BUFFER))
    }

    /// An empty buffer of [`BULK_BUFFER`] bytes, unless all that a worker may have are in use: a
    /// peer that does not read keeps the one that its bytes are in.
    pub(crate) fn bulk(&self) -> Option<(Vec<u8>, BulkLease)> {
        let lent = self.bulk_lent.get();
        if lent >= BULK_BUFFERS {
            return None;
        }
        self.bulk_lent.set(lent + 1);
        let buffer = self.bulk.borrow_mut().pop();
        let buffer = buffer.unwrap_or_else(|| Vec::with_capacity(BULK_BUFFER));
        Some((buffer, BulkLease(Rc::clone(&self.bulk_lent))))
    }

    /// The number of bulk buffers in use.
    #[cfg(test)]
    pub(crate) fn bulk_in_use(&self) -> usize {
        self.bulk_lent.get()
    }

    /// Frees the spare buffers.
    pub(crate) fn free(&self) {
        self.small.take();
        self.large.take();
        self.bulk.take();
    }

    /// Takes a buffer back; buffers of another size and surplus ones are freed.
    pub(crate) fn give_back(&self, mut buffer: Vec<u8>) {
        buffer.clear();
        let shelf = match buffer.capacity() {
            SMALL_BUFFER => &self.small,
            LARGE_BUFFER => &self.large,
            BULK_BUFFER => &self.bulk,
            _ => return,
        };
        let most = if buffer.capacity() == BULK_BUFFER { 1 } else { POOLED_BUFFERS };
        let mut shelf = shelf.borrow_mut();
        if shelf.len() < most {
            shelf.push(buffer);
        }
    }
}

/// Reads once into the spare capacity of `buffer`, at most `most` bytes. `Ok(0)` is the end of the
/// stream, or means that there was no room: callers make sure that there is.
pub(crate) fn poll_read_into<S: AsyncRead + Unpin>(
    stream: &mut S,
    context: &mut Context<'_>,
    buffer: &mut Vec<u8>,
    most: usize,
) -> Poll<io::Result<usize>> {
    let room = buffer.spare_capacity_mut();
    let length = room.len().min(most);
    let mut room = ReadBuf::uninit(room.get_mut(..length).unwrap_or_default());
    let start = room.filled().as_ptr();
    ready!(Pin::new(stream).poll_read(context, &mut room))?;
    let filled = room.filled();
    if filled.as_ptr() != start {
        return Poll::Ready(Err(io::Error::other("the stream read into memory of its own")));
    }
    let read = filled.len();
    // SAFETY: these bytes follow those that the buffer holds and are within its capacity, and a
    // `ReadBuf` counts only initialised bytes as filled.
    unsafe { buffer.set_len(buffer.len() + read) };
    Poll::Ready(Ok(read))
}
