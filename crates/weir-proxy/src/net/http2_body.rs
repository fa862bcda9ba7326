//! The body of a stream, for both sides: the sending of DATA frames within the windows of its
//! stream and connection, and the received bytes that wait for their reader.

use std::collections::VecDeque;
use std::io;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use h2::SendStream;
use tokio::io::ReadBuf;

use crate::limits::{HTTP2_BLOCK, HTTP2_LARGE_FRAME};

/// Sends the bytes of `held`, the last of them with the end of the stream if the body `ends` with
/// them. The end of a body without bytes is a frame of its own.
///
/// # Errors
/// If the stream was reset, or its connection has ended.
pub(crate) fn poll_send(
    context: &mut Context<'_>,
    body: &mut SendStream<Bytes>,
    held: &mut Bytes,
    ends: bool,
) -> Poll<io::Result<()>> {
    while !held.is_empty() {
        body.reserve_capacity(held.len());
        let room = match ready!(body.poll_capacity(context)) {
            Some(Ok(room)) => room.min(held.len()),
            Some(Err(_)) | None => return Poll::Ready(Err(broken_pipe())),
        };
        let data = held.split_to(room);
        let is_last = ends && held.is_empty();
        body.send_data(data, is_last).map_err(|_| broken_pipe())?;
        if is_last {
            return Poll::Ready(Ok(()));
        }
    }
    if ends {
        body.send_data(Bytes::new(), true).map_err(|_| broken_pipe())?;
    }
    Poll::Ready(Ok(()))
}

/// The bytes that a stream has received and its reader has not taken. While the reader is not
/// ready, small frames are copied together: they would take more memory here than their windows
/// say, and `h2` ends connections on which many of them wait.
#[derive(Debug, Default)]
pub(crate) struct ReceivedData {
    /// The frame that is being read, before the others.
    frame: Bytes,
    #[expect(clippy::box_collection, reason = "few streams have it")]
    others: Option<Box<VecDeque<DataBlock>>>,
}

/// A part of the bytes that wait.
#[derive(Debug)]
enum DataBlock {
    /// A large frame as it came.
    Frame(Bytes),
    /// Frames that were copied together, and the number of bytes that were read.
    Copied(Vec<u8>, usize),
}

impl ReceivedData {
    /// Returns true if nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.frame.is_empty() && self.others.is_none()
    }

    /// The bytes of memory that it holds beyond those that wait.
    pub(crate) fn overhead(&self) -> usize {
        let blocks = self.others.iter().flat_map(|others| others.iter());
        let spare = blocks.map(|block| match block {
            DataBlock::Frame(_) => 0,
            DataBlock::Copied(block, read) => block.capacity() - block.len() + read,
        });
        spare.sum()
    }

    /// Adds a frame that is to be read at once, if none waits.
    pub(crate) fn put(&mut self, frame: Bytes) {
        if self.is_empty() {
            self.frame = frame;
        } else {
            self.keep(frame);
        }
    }

    /// Adds a frame that has to wait.
    pub(crate) fn keep(&mut self, mut frame: Bytes) {
        if frame.is_empty() {
            return;
        }
        let blocks = self.others.get_or_insert_default();
        // A block is filled before the next begins, also from large frames.
        while !frame.is_empty() {
            match blocks.back_mut() {
                Some(DataBlock::Copied(block, _)) if block.len() < block.capacity() => {
                    let room = block.capacity() - block.len();
                    block.extend_from_slice(&frame.split_to(room.min(frame.len())));
                }
                _ if frame.len() >= HTTP2_LARGE_FRAME => {
                    return blocks.push_back(DataBlock::Frame(frame));
                }
                _ => blocks.push_back(DataBlock::Copied(Vec::with_capacity(HTTP2_BLOCK), 0)),
            }
        }
    }

    /// Moves bytes to the reader; returns their number.
    pub(crate) fn read(&mut self, buffer: &mut ReadBuf<'_>) -> usize {
        let before = buffer.remaining();
        move_frame(&mut self.frame, buffer);
        if let Some(others) = self.others.as_mut().filter(|_| self.frame.is_empty()) {
            while let Some(block) = others.front_mut()
                && move_block(block, buffer)
            {
                others.pop_front();
            }
            if others.is_empty() {
                self.others = None;
            }
        }
        before - buffer.remaining()
    }
}

fn move_frame(frame: &mut Bytes, buffer: &mut ReadBuf<'_>) {
    let count = frame.len().min(buffer.remaining());
    buffer.put_slice(frame.get(..count).unwrap_or_default());
    frame.advance(count);
}

/// Moves bytes of a block to the reader; returns true if none is left.
fn move_block(block: &mut DataBlock, buffer: &mut ReadBuf<'_>) -> bool {
    match block {
        DataBlock::Frame(frame) => {
            move_frame(frame, buffer);
            frame.is_empty()
        }
        DataBlock::Copied(block, read) => {
            let left = block.get(*read..).unwrap_or_default();
            let now = left.get(..left.len().min(buffer.remaining())).unwrap_or_default();
            buffer.put_slice(now);
            *read += now.len();
            *read == block.len()
        }
    }
}

/// The error of a stream that takes no more.
pub(crate) fn broken_pipe() -> io::Error {
    io::ErrorKind::BrokenPipe.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads everything, this many bytes at a time.
    fn all(data: &mut ReceivedData, step: usize) -> Vec<u8> {
        let mut read = Vec::new();
        let mut part = vec![0; step];
        loop {
            let mut buffer = ReadBuf::new(&mut part);
            if data.read(&mut buffer) == 0 {
                assert!(data.is_empty());
                return read;
            }
            read.extend_from_slice(buffer.filled());
        }
    }

    #[test]
    fn bytes_that_wait_keep_their_order_and_take_little_more_than_their_number() {
        let bytes: Vec<u8> = (0..70_000).map(|number: u32| (number % 251) as u8).collect();
        for step in [1, 7, 16_384, 100_000] {
            let mut data = ReceivedData::default();
            assert!(data.is_empty());
            let (mut left, mut number) = (Bytes::copy_from_slice(&bytes), 0);
            data.put(left.split_to(100));
            while !left.is_empty() {
                number += 1;
                let length = if number % 999 == 0 { 2 * HTTP2_LARGE_FRAME } else { 5 };
                data.keep(left.split_to(length.min(left.len())));
            }
            assert!(data.overhead() < 16 * HTTP2_BLOCK, "{}", data.overhead());
            data.put(Bytes::from_static(b"last"));
            assert_eq!(all(&mut data, step), [&bytes, &b"last"[..]].concat(), "{step}");
            assert_eq!(data.overhead(), 0);
            // A frame that is read at once is not copied.
            data.put(Bytes::from_static(b"at once"));
            assert!(data.others.is_none());
            assert_eq!(all(&mut data, step), b"at once");
        }
    }

    #[test]
    fn small_frames_take_no_more_memory_than_their_bytes_and_a_block() {
        let mut data = ReceivedData::default();
        (0..10_000).for_each(|_| data.keep(Bytes::from_static(b"abcde")));
        assert!(data.overhead() < HTTP2_BLOCK, "{}", data.overhead());
        let blocks = data.others.as_ref().unwrap().len();
        assert_eq!(blocks, 50_000usize.div_ceil(HTTP2_BLOCK));
    }

    #[test]
    fn small_and_large_frames_in_turns_leave_one_block_with_room() {
        let mut data = ReceivedData::default();
        let large = Bytes::from(vec![7; HTTP2_LARGE_FRAME]);
        for _ in 0..10_000 {
            data.keep(Bytes::from_static(b"s"));
            data.keep(large.clone());
        }
        assert!(data.overhead() < HTTP2_BLOCK, "{}", data.overhead());
    }
}
