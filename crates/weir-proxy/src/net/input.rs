//! The bytes that a client sent and that are not served yet.

use std::io;
use std::task::{Context, Poll};

use memchr::memmem;
use tokio::io::AsyncRead;

use crate::limits::SMALL_BUFFER;
use crate::net::buffers::{Buffers, poll_read_into};

/// Bytes from the client, starting with the head being served; later requests may follow it.
///
/// Its size is bounded: reads stop at the limit of a head or one small buffer, whichever is more,
/// and a body pump returns at most [`SMALL_BUFFER`] bytes that it read beyond its body. Consumed
/// bytes make room before the buffer grows.
pub(crate) struct Input {
    bytes: Vec<u8>,
    start: usize,
    /// The number of unconsumed bytes up to which reads fill it.
    read_limit: usize,
    /// Bytes of the request being served, from `start` on.
    own: usize,
}

impl Default for Input {
    fn default() -> Self {
        Self::of(Vec::new())
    }
}

impl Input {
    pub(crate) fn of(bytes: Vec<u8>) -> Self {
        Self { bytes, start: 0, read_limit: SMALL_BUFFER, own: 0 }
    }

    /// The most bytes that it holds for a listener whose heads may have `head_bytes`, apart from
    /// bytes that came from another process.
    pub(crate) fn limit(head_bytes: usize) -> usize {
        (head_bytes + 1).max(SMALL_BUFFER) + SMALL_BUFFER
    }

    /// The bytes of memory that it holds.
    pub(crate) fn held(&self) -> usize {
        self.bytes.capacity()
    }

    /// Begins the request at its start, whose head may have `head_bytes`.
    pub(crate) fn begin_request(&mut self, head_bytes: usize) {
        self.read_limit = (head_bytes + 1).max(SMALL_BUFFER);
        self.own = 0;
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes.get(self.start..).unwrap_or_default()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.bytes.len()
    }

    pub(crate) fn clear(&mut self) {
        if self.bytes.capacity() < SMALL_BUFFER {
            // Too small for a read (see `shrink`).
            self.bytes = Vec::new();
        }
        self.bytes.clear();
        self.start = 0;
    }

    /// Moves the bytes to memory of their own size, if the buffer is mostly empty, and gives the
    /// buffer back. Offsets remain valid. There is then no room for a read until the request is
    /// served.
    pub(crate) fn shrink(&mut self, buffers: &Buffers) {
        let bytes = self.bytes();
        if bytes.is_empty() || self.bytes.capacity() - bytes.len() < SMALL_BUFFER / 2 {
            return;
        }
        let exact = bytes.to_vec();
        self.give_back(buffers);
        self.bytes = exact;
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        self.bytes.get_mut(self.start..).unwrap_or_default()
    }

    /// Marks the bytes of the request being served as consumed.
    pub(crate) fn consume_own(&mut self) {
        self.start = (self.start + self.own).min(self.bytes.len());
        self.own = 0;
        if self.is_empty() {
            self.clear();
        }
    }

    /// Appends the bytes that a body pump read beyond its body: at most [`SMALL_BUFFER`] bytes, a
    /// limit that pumps keep ([`crate::exchange::pump::Bounds::surplus`]).
    pub(crate) fn append(&mut self, surplus: &[u8]) {
        if surplus.is_empty() {
            return;
        }
        debug_assert!(surplus.len() <= SMALL_BUFFER, "{} bytes beyond a body", surplus.len());
        if self.bytes.capacity() - self.bytes.len() < surplus.len() {
            self.compact();
            self.bytes.reserve_exact(surplus.len());
        }
        self.bytes.extend_from_slice(surplus);
    }

    /// Moves the unconsumed bytes to the front of the buffer.
    fn compact(&mut self) {
        if self.start > 0 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
    }

    /// Replaces `count` bytes from offset `at` on by other bytes.
    pub(crate) fn replace(&mut self, at: usize, count: usize, by: &[u8]) {
        let start = (self.start + at).min(self.bytes.len());
        let end = (start + count).min(self.bytes.len());
        self.bytes.splice(start..end, by.iter().copied());
    }

    /// Returns true if a read has room without growing the buffer, and within its limit.
    pub(crate) fn has_room(&self) -> bool {
        self.bytes.capacity() == 0 || self.room() > 0
    }

    /// The number of bytes that a read may add.
    fn room(&self) -> usize {
        let unused = self.bytes.len() - self.start;
        let spare = self.bytes.capacity() - self.bytes.len();
        spare.min(self.read_limit.saturating_sub(unused))
    }

    /// Sets the number of bytes that belong to the request being served.
    pub(crate) fn set_own(&mut self, own: usize) {
        self.own = own;
    }

    /// The number of bytes that belong to the request being served.
    pub(crate) fn own(&self) -> usize {
        self.own
    }

    /// The bytes behind the request being served.
    pub(crate) fn behind_own(&self) -> &[u8] {
        self.bytes().get(self.own..).unwrap_or_default()
    }

    /// Returns true if more may be read while a request is served: not once two more requests are
    /// buffered.
    pub(crate) fn takes_more(&self) -> bool {
        self.has_room() && !self.has_two_waiting()
    }

    /// Returns true if two heads end after the request being served. The end of a chunked body
    /// looks like the end of a head.
    fn has_two_waiting(&self) -> bool {
        let behind = self.behind_own();
        !behind.is_empty() && memmem::find_iter(behind, b"\r\n\r\n").nth(1).is_some()
    }

    /// Empties it and gives its buffer back.
    pub(crate) fn give_back(&mut self, buffers: &Buffers) {
        buffers.give_back(std::mem::take(&mut self.bytes));
        self.start = 0;
    }

    /// Makes room for a head of up to `limit` bytes.
    pub(crate) fn make_room(&mut self, limit: usize) {
        self.compact();
        if self.bytes.len() == self.bytes.capacity() && self.bytes.len() <= limit {
            self.bytes.reserve_exact(limit + 1 - self.bytes.len());
        }
    }

    /// Reads once. The caller makes sure that there is room.
    pub(crate) fn poll_fill<R: AsyncRead + Unpin>(
        &mut self,
        source: &mut R,
        context: &mut Context<'_>,
        buffers: &Buffers,
    ) -> Poll<io::Result<usize>> {
        if self.bytes.capacity() == 0 {
            self.bytes = buffers.small();
        }
        let room = self.room();
        let outcome = poll_read_into(source, context, &mut self.bytes, room);
        if outcome.is_pending() && self.bytes.is_empty() {
            self.start = 0;
            buffers.give_back(std::mem::take(&mut self.bytes));
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A source that is always ready with `0..`.
    struct Numbers(u8);

    impl AsyncRead for Numbers {
        fn poll_read(
            mut self: std::pin::Pin<&mut Self>,
            _: &mut Context<'_>,
            buffer: &mut tokio::io::ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            for _ in 0..buffer.remaining().min(10) {
                buffer.put_slice(&[self.0]);
                self.0 += 1;
            }
            Poll::Ready(Ok(()))
        }
    }

    fn fill(input: &mut Input, source: &mut Numbers, buffers: &Buffers) -> usize {
        let context = &mut Context::from_waker(std::task::Waker::noop());
        match input.poll_fill(source, context, buffers) {
            Poll::Ready(read) => read.unwrap(),
            Poll::Pending => panic!("it is always ready"),
        }
    }

    #[test]
    fn a_shrunk_input_keeps_its_bytes_and_reads_again_when_they_are_served() {
        let (buffers, mut source) = (Buffers::default(), Numbers(0));
        let mut input = Input::default();
        fill(&mut input, &mut source, &buffers);
        fill(&mut input, &mut source, &buffers);
        input.set_own(4);
        input.consume_own();
        input.shrink(&buffers);
        assert_eq!(input.bytes(), (4..20).collect::<Vec<u8>>());
        assert_eq!((input.held(), input.has_room()), (16, false));
        input.shrink(&buffers);
        assert_eq!(input.held(), 16);
        input.set_own(16);
        input.consume_own();
        assert!(input.has_room() && input.is_empty());
        assert_eq!(fill(&mut input, &mut source, &buffers), 10);
        assert_eq!(input.bytes(), (20..30).collect::<Vec<u8>>());
        assert_eq!(input.held(), SMALL_BUFFER);
    }

    #[test]
    fn a_shrunk_input_with_another_request_behind_makes_room_for_its_rest() {
        let (buffers, mut source) = (Buffers::default(), Numbers(0));
        let mut input = Input::default();
        fill(&mut input, &mut source, &buffers);
        input.shrink(&buffers);
        input.set_own(6);
        input.consume_own();
        for read in [6, 10, 10] {
            input.make_room(SMALL_BUFFER);
            assert_eq!(fill(&mut input, &mut source, &buffers), read);
        }
        assert_eq!(input.bytes(), (6..36).collect::<Vec<u8>>());
    }

    #[test]
    fn a_full_buffer_is_kept() {
        let mut input = Input::of(vec![7; SMALL_BUFFER]);
        input.shrink(&Buffers::default());
        assert_eq!(input.held(), SMALL_BUFFER);
    }
}
