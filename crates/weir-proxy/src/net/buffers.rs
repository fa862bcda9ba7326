//! Buffers that a worker's connections borrow while they transfer bytes. Idle connections hold
//! none. It knows no protocol.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};

use crate::limits::{LARGE_BUFFER, POOLED_BUFFERS, SMALL_BUFFER};

/// A worker's spare buffers, in two sizes.
#[derive(Default)]
pub(crate) struct Buffers {
    small: RefCell<Vec<Vec<u8>>>,
    large: RefCell<Vec<Vec<u8>>>,
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

    /// Frees the spare buffers.
    pub(crate) fn free(&self) {
        self.small.take();
        self.large.take();
    }

    /// Takes a buffer back; buffers of another size and surplus ones are freed.
    pub(crate) fn give_back(&self, mut buffer: Vec<u8>) {
        buffer.clear();
        let shelf = match buffer.capacity() {
            SMALL_BUFFER => &self.small,
            LARGE_BUFFER => &self.large,
            _ => return,
        };
        let mut shelf = shelf.borrow_mut();
        if shelf.len() < POOLED_BUFFERS {
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
