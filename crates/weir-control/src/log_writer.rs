//! The threads that write access logs, one for each place that lines go to. Workers hand them batches over bounded
//! channels and never wait: a disk or a receiver that is stuck fills its channel, and lines beyond that are dropped and
//! counted, there alone. They know nothing of formats.

mod file;
mod losses;
mod syslog;
mod target;
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
use weir_stats::{FullBatch, LogReceiver, LogSink, LostLines, Message, log_fan};

pub(crate) use losses::watch;
pub(crate) use target::{Outcome, Target};

use crate::program_log::say;

/// Batches that may wait for one place: 8 MiB.
const CAPACITY: usize = 128;

/// The running writers.
pub struct LogWriter {
    open: Mutex<Vec<OpenLog>>,
    orders: Arc<Orders>,
    /// Of every thread, until it has ended.
    threads: Mutex<Vec<Receiver<()>>>,
}

/// A log that is configured.
struct OpenLog {
    log: AccessLog,
    sink: LogSink,
}

/// Logs of a configuration, open and with their threads. Nothing has come of it yet; when it is dropped, those that are new end.
pub struct PreparedLogs {
    /// In the configuration's order.
    open: Vec<OpenLog>,
    sinks: Vec<LogSink>,
    threads: Vec<Receiver<()>>,
}

impl PreparedLogs {
    /// Where lines go, in the configuration's order.
    pub fn sinks(&self) -> &[LogSink] {
        &self.sinks
    }
}

/// What the control side wants of the threads, and what they tell back.
#[derive(Debug, Default)]
struct Orders {
    /// How often files were to be opened anew.
    reopened: AtomicU64,
    stop: AtomicBool,
    errors: AtomicU64,
}

/// How a stop ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flushed {
    /// Everything handed over is written.
    All,
    /// The deadline passed first; what was left is lost with the process.
    Late,
}

impl LogWriter {
    /// Opens every log and starts the threads; the sinks stand in the order of `logs`. A file that cannot be opened
    /// is an error that names it. A syslog socket that is not there yet, and a pipe that nobody reads yet, are tried again with
    /// every batch.
    pub fn start(logs: &[AccessLog]) -> io::Result<(Self, Vec<LogSink>)> {
        let own =
            Self { open: Mutex::default(), orders: Arc::default(), threads: Mutex::default() };
        let prepared = own.prepare(logs)?;
        let sinks = prepared.sinks.clone();
        own.commit(prepared);
        Ok((own, sinks))
    }

    /// Opens the logs of another configuration, as far as they are not open.
    pub fn prepare(&self, logs: &[AccessLog]) -> io::Result<PreparedLogs> {
        let known = lock(&self.open);
        let mut prepared =
            PreparedLogs { open: Vec::new(), sinks: Vec::new(), threads: Vec::new() };
        for log in logs {
            let is_it = |open: &&OpenLog| open.log.name == log.name && open.log.to == log.to;
            let sink = match known.iter().find(is_it) {
                Some(open) => open.sink.clone(),
                None => self.open(log, &mut prepared.threads)?,
            };
            prepared.sinks.push(sink.clone());
            prepared.open.push(OpenLog { log: log.clone(), sink });
        }
        Ok(prepared)
    }

    /// These are the logs from now on. What is not among them is closed when nobody has lines for it any more.
    pub fn commit(&self, prepared: PreparedLogs) {
        let PreparedLogs { open, threads, .. } = prepared;
        *lock(&self.open) = open;
        let mut all = lock(&self.threads);
        all.retain(|ended| ended.try_recv() == Err(TryRecvError::Empty));
        all.extend(threads);
    }

    /// Opens every place of a log and starts its threads.
    fn open(&self, log: &AccessLog, threads: &mut Vec<Receiver<()>>) -> io::Result<LogSink> {
        let targets = log.to.iter().map(|target| Target::open(target, &log.name));
        let targets = targets.collect::<io::Result<Vec<_>>>()?;
        let (sink, receivers) = log_fan(0, targets.len(), CAPACITY);
        for (target, receiver) in targets.into_iter().zip(receivers) {
            let (finished, ended) = sync_channel(1);
            let mut writer = Writer {
                log: log.name.clone(),
                target,
                lost: Arc::clone(sink.lost()),
                state: State::Working,
                reopened: self.orders.reopened.load(Ordering::Acquire),
                receiver,
                orders: Arc::clone(&self.orders),
            };
            thread::Builder::new().name("weir-log".to_owned()).spawn(move || {
                writer.run();
                // Nobody waits any more when the deadline of `stop` has passed.
                let _ = finished.send(());
            })?;
            threads.push(ended);
        }
        Ok(sink)
    }

    /// Opens every file anew, after somebody moved it away. What waits in the channel goes to the new file.
    pub fn reopen(&self) {
        self.orders.reopened.fetch_add(1, Ordering::Release);
        self.wake();
    }

    /// Writes what was handed over and ends the threads; workers have flushed their batches before.
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

    /// Lines dropped so far, of the logs that are configured: a writer was behind, or could not write them.
    pub fn dropped(&self) -> u64 {
        lock(&self.open).iter().map(|open| open.sink.dropped()).sum()
    }

    /// Writes and sends that failed so far.
    pub fn errors(&self) -> u64 {
        self.orders.errors.load(Ordering::Relaxed)
    }

    /// The lost lines of each log that is configured, by its name.
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
    /// A writer that is dropped instead of stopped ends its threads too, without waiting for them.
    fn drop(&mut self) {
        self.orders.stop.store(true, Ordering::Release);
        self.wake();
    }
}

/// What runs on a thread.
struct Writer {
    log: String,
    target: Target,
    lost: Arc<LostLines>,
    state: State,
    /// [`Orders::reopened`] when the file was opened last.
    reopened: u64,
    receiver: LogReceiver,
    orders: Arc<Orders>,
}

/// Whether the last write went well: a change is worth a line to the operator, a repetition is not.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Working,
    /// With the lines lost since.
    Failing(u64),
}

impl Writer {
    fn run(&mut self) {
        while let Ok(message) = self.receiver.receive() {
            self.take(&message);
            if self.orders.stop.load(Ordering::Acquire) {
                break;
            }
        }
        while let Ok(message) = self.receiver.try_receive() {
            self.take(&message);
        }
    }

    fn take(&mut self, message: &Message) {
        let wanted = self.orders.reopened.load(Ordering::Acquire);
        if wanted != self.reopened {
            self.reopened = wanted;
            self.reopen();
        }
        if let Message::Lines(batch) = message {
            self.write(batch);
        }
    }

    fn reopen(&mut self) {
        if let Err(error) = self.target.reopen() {
            say(Severity::Error, &format!("{error}; going on with the file that is open"));
            self.orders.errors.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn write(&mut self, batch: &FullBatch) {
        let Outcome { lost, errors, last } = self.target.write(&batch.lines);
        self.lost.count_unwritten(lost);
        self.orders.errors.fetch_add(errors, Ordering::Relaxed);
        let (log, place) = (&self.log, self.target.name());
        match (last, self.state) {
            (Some(error), State::Working) => {
                say(
                    Severity::Error,
                    &format!("cannot write the log {log} to {place}: {error}; lines are dropped"),
                );
                self.state = State::Failing(lost);
            }
            (Some(_), State::Failing(before)) => self.state = State::Failing(before + lost),
            (None, State::Failing(before)) => {
                say(
                    Severity::Notice,
                    &format!("the log {log} is written to {place} again; {before} lines are lost"),
                );
                self.state = State::Working;
            }
            (None, State::Working) => {}
        }
    }
}
