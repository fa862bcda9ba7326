//! Log lines on their way from a worker to the writer: gathered in a buffer, handed over whole, never waited
//! for. When the writer cannot keep up, lines are dropped and counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvError, SyncSender, TryRecvError, TrySendError, sync_channel};

/// A buffer is handed over at this size.
pub const BATCH_BYTES: usize = 64 * 1024;

/// Empty buffers waiting to be used again, per worker and log.
const SPARES: usize = 4;

/// Makes a way to one writer for `targets` logs; `capacity` batches wait in it at most.
pub fn log_channel(targets: usize, capacity: usize) -> (Vec<LogSink>, LogReceiver) {
    let (sender, receiver) = sync_channel(capacity);
    let sink = |target| LogSink { target, sender: sender.clone(), dropped: Arc::default() };
    ((0..targets).map(sink).collect(), LogReceiver { receiver })
}

/// Where lines of one log go; cloned for every worker.
#[derive(Clone, Debug)]
pub struct LogSink {
    target: usize,
    sender: SyncSender<Message>,
    dropped: Arc<AtomicU64>,
}

impl LogSink {
    /// A buffer of this worker for this log.
    pub fn batch(&self) -> LogBatch {
        let (back, spares) = sync_channel(SPARES);
        LogBatch { sink: self.clone(), lines: Vec::new(), count: 0, back, spares }
    }

    /// Another log over the same way.
    #[must_use]
    pub fn sibling(&self, target: usize) -> Self {
        Self { target, sender: self.sender.clone(), dropped: Arc::default() }
    }

    /// Its number in the way to the writer.
    pub fn target(&self) -> usize {
        self.target
    }

    /// Whether nobody else has this sink, or a batch of it: nothing will come any more, and what came is in the channel.
    pub fn is_last(&self) -> bool {
        Arc::strong_count(&self.dropped) == 1
    }

    /// Lines dropped, over all workers.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Counts lines that were not written.
    pub fn count_dropped(&self, lines: u64) {
        self.dropped.fetch_add(lines, Ordering::Relaxed);
    }

    /// Wakes the writer if it waits for a batch.
    pub fn wake(&self) {
        // A full channel needs no wake: the writer has something to take.
        let _ = self.sender.try_send(Message::Wake);
    }
}

/// What the writer finds in the channel.
#[derive(Debug)]
pub enum Message {
    /// Lines to write.
    Lines(FullBatch),
    /// Nothing to write, but something to look at.
    Wake,
}

/// Lines of one log in order, each with its line end.
#[derive(Debug)]
pub struct FullBatch {
    /// The log's number in [`log_channel`].
    pub target: usize,
    /// The lines.
    pub lines: Vec<u8>,
    /// How many.
    pub count: u64,
    back: SyncSender<Vec<u8>>,
}

impl FullBatch {
    /// Gives the buffer back to its worker.
    pub fn recycle(mut self) {
        self.lines.clear();
        // A worker that is gone or has spares enough lets it be freed.
        let _ = self.back.try_send(self.lines);
    }
}

/// The writer's end.
#[derive(Debug)]
pub struct LogReceiver {
    receiver: Receiver<Message>,
}

impl LogReceiver {
    /// Waits for the next message; an error when every sink and batch is gone.
    pub fn receive(&self) -> Result<Message, RecvError> {
        self.receiver.recv()
    }

    /// The next message if there is one.
    pub fn try_receive(&self) -> Result<Message, TryRecvError> {
        self.receiver.try_recv()
    }
}

/// Lines of one worker for one log. Dropping it hands over what is left.
#[derive(Debug)]
pub struct LogBatch {
    sink: LogSink,
    lines: Vec<u8>,
    count: u64,
    back: SyncSender<Vec<u8>>,
    spares: Receiver<Vec<u8>>,
}

impl LogBatch {
    /// Appends one line, written by `write` with its line end; hands the buffer over when it is full.
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

    /// Hands over what there is. A worker calls it from a timer, so that a line is seen soon in quiet times.
    pub fn flush(&mut self) {
        if self.lines.is_empty() {
            self.count = 0;
            return;
        }
        let count = std::mem::take(&mut self.count);
        let lines = std::mem::take(&mut self.lines);
        let full = FullBatch { target: self.sink.target, lines, count, back: self.back.clone() };
        if let Err(refused) = self.sink.sender.try_send(Message::Lines(full)) {
            self.sink.count_dropped(count);
            self.keep(refused);
        }
    }

    /// Whether nothing waits to be handed over.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Takes the buffer of a refused batch back into use.
    fn keep(&mut self, refused: TrySendError<Message>) {
        let (TrySendError::Full(message) | TrySendError::Disconnected(message)) = refused;
        if let Message::Lines(batch) = message {
            self.lines = batch.lines;
            self.lines.clear();
        }
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
        let taken = (batch.target, String::from_utf8(batch.lines.clone()).unwrap(), batch.count);
        batch.recycle();
        taken
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
