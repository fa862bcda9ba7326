//! Log lines on their way from a worker to the writer: collected in a buffer and handed over in
//! batches, without ever waiting. If the writer cannot keep up, lines are dropped and counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{
    Receiver, RecvError, RecvTimeoutError, SyncSender, TryRecvError, sync_channel,
};
use std::time::Duration;

/// The size at which a buffer is handed over.
pub const BATCH_BYTES: usize = 64 * 1024;

/// The number of empty buffers kept for reuse, per worker and log.
const SPARES: usize = 4;

/// Creates a channel to one writer for `targets` logs; at most `capacity` batches wait in it.
pub fn log_channel(targets: usize, capacity: usize) -> (Vec<LogSink>, LogReceiver) {
    let (sender, receiver) = sync_channel(capacity);
    let sink = |target| LogSink::new(target, vec![sender.clone()]);
    ((0..targets).map(sink).collect(), LogReceiver { receiver })
}

/// Creates channels for log number `target` to `places` writers, each of which gets every batch; at
/// most `capacity` batches wait for each.
pub fn log_fan(target: usize, places: usize, capacity: usize) -> (LogSink, Vec<LogReceiver>) {
    let (senders, receivers) = (0..places)
        .map(|_| sync_channel(capacity))
        .map(|(sender, receiver)| (sender, LogReceiver { receiver }))
        .unzip();
    (LogSink::new(target, senders), receivers)
}

/// The sending end for one log; cloned for every worker.
#[derive(Clone, Debug)]
pub struct LogSink {
    target: usize,
    senders: Arc<[SyncSender<Message>]>,
    lost: Arc<LostLines>,
}

/// Counts of lost lines of a log; a line that misses two places counts twice.
#[derive(Debug, Default)]
pub struct LostLines {
    /// Lines lost because a writer was behind or gone.
    refused: AtomicU64,
    /// Lines lost because they could not be written.
    unwritten: AtomicU64,
}

impl LostLines {
    /// The number of all lost lines.
    pub fn all(&self) -> u64 {
        self.refused() + self.unwritten.load(Ordering::Relaxed)
    }

    /// The number of lines that a writer had no room for, because it is slower than they arrive.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Counts lines that were not written.
    pub fn count_unwritten(&self, lines: u64) {
        self.unwritten.fetch_add(lines, Ordering::Relaxed);
    }
}

impl LogSink {
    fn new(target: usize, senders: Vec<SyncSender<Message>>) -> Self {
        Self { target, senders: senders.into(), lost: Arc::default() }
    }

    /// Creates a worker's buffer for this log.
    pub fn batch(&self) -> LogBatch {
        let (back, spares) = sync_channel(SPARES);
        LogBatch { sink: self.clone(), lines: Vec::new(), count: 0, back, spares }
    }

    /// The number of lines dropped, over all workers and places.
    pub fn dropped(&self) -> u64 {
        self.lost.all()
    }

    /// The counts of lost lines. Unlike a sink, the returned value does not keep the channel open.
    pub fn lost(&self) -> &Arc<LostLines> {
        &self.lost
    }

    /// Wakes the writers if they wait for a batch.
    pub fn wake(&self) {
        for sender in &*self.senders {
            // A full channel needs no wake: the writer has messages to take.
            let _ = sender.try_send(Message::Wake);
        }
    }
}

/// A message to the writer.
#[derive(Debug)]
pub enum Message {
    /// Lines to write.
    Lines(Arc<FullBatch>),
    /// Nothing to write: wakes the writer to check its state.
    Wake,
}

/// Lines of one log in order, each with its line end. When the last writer drops it, the worker
/// gets the buffer back.
#[derive(Debug)]
pub struct FullBatch {
    /// The log's number in [`log_channel`].
    pub target: usize,
    /// The lines.
    pub lines: Vec<u8>,
    /// The number of lines.
    pub count: u64,
    back: SyncSender<Vec<u8>>,
}

impl Drop for FullBatch {
    fn drop(&mut self) {
        let mut lines = std::mem::take(&mut self.lines);
        lines.clear();
        // If the worker is gone or has enough spares, the buffer is freed.
        let _ = self.back.try_send(lines);
    }
}

/// The receiving end of a writer.
#[derive(Debug)]
pub struct LogReceiver {
    receiver: Receiver<Message>,
}

impl LogReceiver {
    /// Waits for the next message; fails once every sink and batch is gone.
    pub fn receive(&self) -> Result<Message, RecvError> {
        self.receiver.recv()
    }

    /// Waits for the next message, at most this long.
    pub fn receive_within(&self, time: Duration) -> Result<Message, RecvTimeoutError> {
        self.receiver.recv_timeout(time)
    }

    /// The next message, if there is one.
    pub fn try_receive(&self) -> Result<Message, TryRecvError> {
        self.receiver.try_recv()
    }
}

/// Lines of one worker for one log. Dropping it hands over the remaining lines.
#[derive(Debug)]
pub struct LogBatch {
    sink: LogSink,
    lines: Vec<u8>,
    count: u64,
    back: SyncSender<Vec<u8>>,
    spares: Receiver<Vec<u8>>,
}

impl LogBatch {
    /// Appends one line, written by `write` with its line end; hands the buffer over if it is full.
    pub fn push(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        if self.lines.capacity() == 0 {
            self.lines =
                self.spares.try_recv().unwrap_or_else(|_| Vec::with_capacity(BATCH_BYTES * 5 / 4));
        }
        write(&mut self.lines);
        self.count += 1;
        if self.lines.len() >= BATCH_BYTES {
            self.flush();
        }
    }

    /// Hands over the collected lines. A worker calls it from a timer, so that lines appear soon in
    /// quiet times.
    pub fn flush(&mut self) {
        if self.lines.is_empty() {
            self.count = 0;
            return;
        }
        let count = std::mem::take(&mut self.count);
        let lines = std::mem::take(&mut self.lines);
        let full = FullBatch { target: self.sink.target, lines, count, back: self.back.clone() };
        let full = Arc::new(full);
        for sender in &*self.sink.senders {
            let sent = sender.try_send(Message::Lines(Arc::clone(&full)));
            if sent.is_err() {
                self.sink.lost.refused.fetch_add(count, Ordering::Relaxed);
            }
        }
    }

    /// Returns true if no line waits to be handed over.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }
}

impl Drop for LogBatch {
    fn drop(&mut self) {
        self.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(receiver: &LogReceiver) -> (usize, String, u64) {
        let Ok(Message::Lines(batch)) = receiver.try_receive() else { panic!("no batch waits") };
        (batch.target, String::from_utf8(batch.lines.clone()).unwrap(), batch.count)
    }

    #[test]
    fn a_batch_goes_when_full_when_told_and_when_dropped() {
        let (sinks, receiver) = log_channel(2, 8);
        let mut batch = sinks[1].batch();
        batch.push(|out| out.extend_from_slice(b"one\n"));
        assert!(receiver.try_receive().is_err());
        batch.flush();
        assert_eq!(lines(&receiver), (1, "one\n".to_owned(), 1));
        batch.flush();
        assert!(receiver.try_receive().is_err(), "an empty batch was sent");
        let long = "x".repeat(BATCH_BYTES / 2);
        batch.push(|out| out.extend_from_slice(long.as_bytes()));
        assert!(receiver.try_receive().is_err());
        batch.push(|out| out.extend_from_slice(long.as_bytes()));
        assert_eq!(lines(&receiver), (1, long.repeat(2), 2));
        batch.push(|out| out.extend_from_slice(b"last\n"));
        drop(batch);
        assert_eq!(lines(&receiver).1, "last\n");
    }

    #[test]
    fn lines_are_dropped_and_counted_when_the_writer_is_behind_or_gone() {
        let (sinks, receiver) = log_channel(1, 1);
        let mut batch = sinks[0].batch();
        let mut send = |text: &str, count: usize| {
            (0..count).for_each(|_| batch.push(|out| out.extend_from_slice(text.as_bytes())));
            batch.flush();
        };
        send("a\n", 2);
        send("b\n", 3);
        assert_eq!(sinks[0].dropped(), 3);
        assert_eq!(lines(&receiver).1, "a\na\n");
        send("c\n", 1);
        assert_eq!(lines(&receiver).1, "c\n");
        drop(receiver);
        send("d\n", 4);
        assert_eq!(sinks[0].dropped(), 7);
    }

    #[test]
    fn every_place_gets_every_batch_and_one_that_is_full_loses_alone() {
        let (sink, receivers) = log_fan(3, 2, 1);
        let mut batch = sink.batch();
        let mut send = |text: &str| {
            batch.push(|out| out.extend_from_slice(text.as_bytes()));
            batch.flush();
        };
        send("one\n");
        assert_eq!(lines(&receivers[0]), (3, "one\n".to_owned(), 1));
        send("two\n");
        assert_eq!(lines(&receivers[0]).1, "two\n");
        assert_eq!(lines(&receivers[1]).1, "one\n");
        assert!(receivers[1].try_receive().is_err(), "a batch waited beyond the capacity");
        assert_eq!((sink.lost().refused(), sink.dropped()), (1, 1));
        sink.lost().count_unwritten(5);
        assert_eq!((sink.lost().refused(), sink.dropped()), (1, 6));
    }

    #[test]
    fn buffers_come_back() {
        let (sinks, receiver) = log_channel(1, 1);
        let mut batch = sinks[0].batch();
        batch.push(|out| out.resize(BATCH_BYTES * 3, b'\n'));
        assert_eq!(batch.lines.capacity(), 0);
        lines(&receiver);
        batch.push(|out| out.push(b'\n'));
        assert!(batch.lines.capacity() >= BATCH_BYTES * 3);
    }
}
