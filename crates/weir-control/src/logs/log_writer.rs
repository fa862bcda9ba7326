//! The threads that write access logs, one for each target. Workers hand them batches over bounded
//! channels and never wait: a disk or receiver that is stuck fills its channel, and further lines
//! for that target alone are dropped and counted. The threads know nothing of log formats.

mod held_lines;
mod losses;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use weir_config::model::{AccessLog, Severity};
use weir_stats::{LogReceiver, LogSink, LostLines, Message, log_fan};

use super::outcome::WriteOutcome;
use super::target::LogOutput;
use held_lines::HeldLines;
pub(crate) use losses::watch;

use crate::logs::program_log::say;

/// The largest number of batches that wait for one target: 8 MiB.
const CAPACITY: usize = 128;

/// The running writers.
pub struct LogWriter {
    open: Mutex<Vec<OpenLog>>,
    orders: Arc<Orders>,
    /// One receiver for each thread, until the thread has ended.
    threads: Mutex<Vec<Receiver<()>>>,
}

/// A configured log.
struct OpenLog {
    log: AccessLog,
    sink: LogSink,
}

/// The logs of a configuration, open and with their threads, but not yet in use. Dropping it ends
/// the new threads.
pub struct PreparedLogs {
    /// The logs, in the configuration's order.
    open: Vec<OpenLog>,
    sinks: Vec<LogSink>,
    threads: Vec<Receiver<()>>,
}

impl PreparedLogs {
    /// The sinks for log lines, in the configuration's order.
    pub fn sinks(&self) -> &[LogSink] {
        &self.sinks
    }
}

/// The control side's orders to the threads, and their counts of errors.
#[derive(Debug, Default)]
struct Orders {
    /// The number of times that files were to be reopened.
    reopened: AtomicU64,
    stop: AtomicBool,
    errors: AtomicU64,
}

/// The outcome of a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flushed {
    /// All lines that were handed over are written.
    All,
    /// The deadline passed first; the remaining lines are lost with the process.
    Late,
}

impl LogWriter {
    /// Opens every log and starts the threads; the sinks are in the order of `logs`. A file that
    /// cannot be opened is an error that names it. A syslog socket that does not exist yet and a
    /// pipe without a reader are tried again with every batch.
    pub fn start(logs: &[AccessLog]) -> io::Result<(Self, Vec<LogSink>)> {
        let own =
            Self { open: Mutex::default(), orders: Arc::default(), threads: Mutex::default() };
        let prepared = own.prepare(logs)?;
        let sinks = prepared.sinks.clone();
        own.commit(prepared);
        Ok((own, sinks))
    }

    /// Opens the logs of another configuration that are not open yet.
    pub fn prepare(&self, logs: &[AccessLog]) -> io::Result<PreparedLogs> {
        let known = lock(&self.open);
        let mut prepared =
            PreparedLogs { open: Vec::new(), sinks: Vec::new(), threads: Vec::new() };
        for log in logs {
            let is_it = |open: &&OpenLog| {
                let own = &open.log;
                own.name == log.name && own.to == log.to && own.buffer == log.buffer
            };
            let sink = match known.iter().find(is_it) {
                Some(open) => open.sink.clone(),
                None => self.open(log, &mut prepared.threads)?,
            };
            prepared.sinks.push(sink.clone());
            prepared.open.push(OpenLog { log: log.clone(), sink });
        }
        Ok(prepared)
    }

    /// Replaces the current logs. A log that is no longer configured is closed when its last sink
    /// is dropped.
    pub fn commit(&self, prepared: PreparedLogs) {
        let PreparedLogs { open, threads, .. } = prepared;
        *lock(&self.open) = open;
        let mut all = lock(&self.threads);
        all.retain(|ended| ended.try_recv() == Err(TryRecvError::Empty));
        all.extend(threads);
    }

    /// Opens every target of a log and starts its threads.
    fn open(&self, log: &AccessLog, threads: &mut Vec<Receiver<()>>) -> io::Result<LogSink> {
        let targets = log.to.iter().map(|target| LogOutput::open(target, &log.name));
        let targets = targets.collect::<io::Result<Vec<_>>>()?;
        let (sink, receivers) = log_fan(0, targets.len(), CAPACITY);
        for (target, receiver) in targets.into_iter().zip(receivers) {
            let (finished, ended) = sync_channel(1);
            let mut writer = WriterThread {
                log: log.name.clone(),
                target,
                lost: Arc::clone(sink.lost()),
                state: WriteState::Working,
                buffer: log.buffer.map(HeldLines::new),
                reopened: self.orders.reopened.load(Ordering::Acquire),
                receiver,
                orders: Arc::clone(&self.orders),
            };
            thread::Builder::new().name("weir-log".to_owned()).spawn(move || {
                writer.run();
                // The receiver is gone if the deadline of `stop` has passed.
                let _ = finished.send(());
            })?;
            threads.push(ended);
        }
        Ok(sink)
    }

    /// Reopens every file after it was renamed or removed. Batches that wait in the channel go to
    /// the new file.
    pub fn reopen(&self) {
        self.orders.reopened.fetch_add(1, Ordering::Release);
        self.wake();
    }

    /// Writes the remaining batches and ends the threads; workers have flushed their batches
    /// before.
    pub fn stop(&self, deadline: Duration) -> Flushed {
        let until = Instant::now() + deadline;
        self.orders.stop.store(true, Ordering::Release);
        self.wake();
        let late = |ended: &Receiver<()>| {
            let left = until.saturating_duration_since(Instant::now());
            ended.recv_timeout(left) == Err(RecvTimeoutError::Timeout)
        };
        if lock(&self.threads).iter().any(late) { Flushed::Late } else { Flushed::All }
    }

    /// The number of lines of the configured logs that were dropped because a writer was behind or
    /// could not write them.
    pub fn dropped(&self) -> u64 {
        lock(&self.open).iter().map(|open| open.sink.dropped()).sum()
    }

    /// The number of failed writes and sends.
    pub fn errors(&self) -> u64 {
        self.orders.errors.load(Ordering::Relaxed)
    }

    /// The lost lines of each configured log, by the log's name.
    pub(crate) fn lost(&self) -> Vec<(String, Arc<LostLines>)> {
        let open = lock(&self.open);
        open.iter().map(|open| (open.log.name.clone(), Arc::clone(open.sink.lost()))).collect()
    }

    #[cfg(test)]
    fn sinks(&self) -> Vec<LogSink> {
        lock(&self.open).iter().map(|open| open.sink.clone()).collect()
    }

    fn wake(&self) {
        lock(&self.open).iter().for_each(|open| open.sink.wake());
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for LogWriter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("LogWriter").finish_non_exhaustive()
    }
}

impl Drop for LogWriter {
    /// Dropping a writer without `stop` also ends its threads, without waiting for them.
    fn drop(&mut self) {
        self.orders.stop.store(true, Ordering::Release);
        self.wake();
    }
}

/// The state of a writer thread.
struct WriterThread {
    log: String,
    target: LogOutput,
    lost: Arc<LostLines>,
    state: WriteState,
    /// The lines that wait, if the log has a buffer.
    buffer: Option<HeldLines>,
    /// The value of [`Orders::reopened`] when the file was last opened.
    reopened: u64,
    receiver: LogReceiver,
    orders: Arc<Orders>,
}

/// The outcome of the last write: a change is worth a line to the operator, a repetition is not.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WriteState {
    Working,
    /// With the number of lines lost since the first failure.
    Failing(u64),
}

impl WriterThread {
    fn run(&mut self) {
        while let Some(message) = self.next() {
            self.take(&message);
            if self.orders.stop.load(Ordering::Acquire) {
                break;
            }
        }
        while let Ok(message) = self.receiver.try_receive() {
            self.take(&message);
        }
        self.flush();
    }

    /// Waits for a message, and writes the lines that have waited for long; `None` once every sink
    /// is gone.
    fn next(&mut self) -> Option<Message> {
        while let Some(due) = self.buffer.as_ref().and_then(HeldLines::due) {
            let left = due.saturating_duration_since(Instant::now());
            match self.receiver.receive_within(left) {
                Ok(message) => return Some(message),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => self.flush(),
            }
        }
        self.receiver.receive().ok()
    }

    fn take(&mut self, message: &Message) {
        let wanted = self.orders.reopened.load(Ordering::Acquire);
        if wanted != self.reopened {
            self.reopened = wanted;
            // The lines so far belong to the old file.
            self.flush();
            self.reopen();
        }
        let Message::Lines(batch) = message else { return };
        let Some(buffer) = &mut self.buffer else { return self.write(&batch.lines) };
        if !buffer.has_room(&batch.lines) {
            self.flush();
        }
        let Some(buffer) = &mut self.buffer else { return };
        if buffer.has_room(&batch.lines) {
            buffer.add(&batch.lines);
        } else {
            self.write(&batch.lines);
        }
        if self.buffer.as_ref().and_then(HeldLines::due).is_some_and(|due| due <= Instant::now()) {
            self.flush();
        }
    }

    /// Writes the lines that wait.
    fn flush(&mut self) {
        let Some(buffer) = &mut self.buffer else { return };
        let lines = buffer.take();
        if !lines.is_empty() {
            self.write(&lines);
        }
        if let Some(buffer) = &mut self.buffer {
            buffer.give_back(lines);
        }
    }

    fn reopen(&mut self) {
        if let Err(error) = self.target.reopen() {
            say(Severity::Error, &format!("{error}; the open file stays in use"));
            self.orders.errors.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn write(&mut self, lines: &[u8]) {
        let WriteOutcome { lost, errors, last } = self.target.write(lines);
        self.lost.count_unwritten(lost);
        self.orders.errors.fetch_add(errors, Ordering::Relaxed);
        let (log, place) = (&self.log, self.target.name());
        match (last, self.state) {
            (Some(error), WriteState::Working) => {
                say(
                    Severity::Error,
                    &format!("cannot write the log {log} to {place}: {error}; lines are dropped"),
                );
                self.state = WriteState::Failing(lost);
            }
            (Some(_), WriteState::Failing(before)) => {
                self.state = WriteState::Failing(before + lost);
            }
            (None, WriteState::Failing(before)) => {
                say(
                    Severity::Notice,
                    &format!("the log {log} is written to {place} again; {before} lines are lost"),
                );
                self.state = WriteState::Working;
            }
            (None, WriteState::Working) => {}
        }
    }
}
