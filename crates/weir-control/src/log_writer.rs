//! The threads that write access logs, one for each place that lines go to. Workers hand them batches over bounded
//! channels and never wait: a disk or a receiver that is stuck fills its channel, and lines beyond that are dropped and
//! counted, there alone. They know nothing of formats.

mod file;
mod losses;
mod syslog;
mod target;
#[cfg(test)]
mod tests;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use weir_config::model::{AccessLog, Severity};
use weir_stats::{FullBatch, LogReceiver, LogSink, Message, log_fan};

pub(crate) use losses::Losses;
pub(crate) use syslog::Syslog;
pub(crate) use target::{Outcome, Target};

use crate::program_log::say;

/// Batches that may wait for one place: 8 MiB.
const CAPACITY: usize = 128;

/// The running writers.
#[derive(Debug)]
pub struct LogWriter {
    names: Vec<String>,
    sinks: Vec<LogSink>,
    orders: Arc<Orders>,
    done: Vec<Receiver<()>>,
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
        let open = |log: &AccessLog| {
            let targets = log.to.iter().map(|target| Target::open(target, &log.name));
            targets.collect::<io::Result<Vec<_>>>()
        };
        let targets = logs.iter().map(open).collect::<io::Result<Vec<_>>>()?;
        let names = logs.iter().map(|log| log.name.clone()).collect();
        let mut this = Self { names, sinks: Vec::new(), orders: Arc::default(), done: Vec::new() };
        for (number, (log, targets)) in logs.iter().zip(targets).enumerate() {
            let (sink, receivers) = log_fan(number, targets.len(), CAPACITY);
            for (target, receiver) in targets.into_iter().zip(receivers) {
                this.spawn(&log.name, sink.clone(), target, receiver)?;
            }
            this.sinks.push(sink);
        }
        let sinks = this.sinks.clone();
        Ok((this, sinks))
    }

    fn spawn(
        &mut self,
        log: &str,
        sink: LogSink,
        target: Target,
        receiver: LogReceiver,
    ) -> io::Result<()> {
        let (finished, done) = sync_channel(1);
        let mut writer = Writer {
            log: log.to_owned(),
            target,
            sink,
            state: State::Working,
            reopened: 0,
            receiver,
            orders: Arc::clone(&self.orders),
        };
        thread::Builder::new().name("weir-log".to_owned()).spawn(move || {
            writer.run();
            // Nobody waits any more when the deadline of `stop` has passed.
            let _ = finished.send(());
        })?;
        self.done.push(done);
        Ok(())
    }

    /// Opens every file anew, after somebody moved it away. What waits in the channel goes to the new file.
    pub fn reopen(&self) {
        self.orders.reopened.fetch_add(1, Ordering::Release);
        self.wake();
    }

    /// Writes what was handed over and ends the threads; workers have flushed their batches before.
    pub fn stop(self, deadline: Duration) -> Flushed {
        let until = Instant::now() + deadline;
        self.orders.stop.store(true, Ordering::Release);
        self.wake();
        let late = |done: &Receiver<()>| {
            let left = until.saturating_duration_since(Instant::now());
            done.recv_timeout(left) == Err(RecvTimeoutError::Timeout)
        };
        if self.done.iter().any(late) { Flushed::Late } else { Flushed::All }
    }

    /// Lines dropped so far: a writer was behind, or could not write them.
    pub fn dropped(&self) -> u64 {
        self.sinks.iter().map(LogSink::dropped).sum()
    }

    /// Writes and sends that failed so far.
    pub fn errors(&self) -> u64 {
        self.orders.errors.load(Ordering::Relaxed)
    }

    /// Who sees that lines are dropped.
    pub(crate) fn losses(&self) -> Losses {
        Losses::new(self.names.iter().cloned().zip(self.sinks.iter().cloned()))
    }

    fn wake(&self) {
        self.sinks.iter().for_each(LogSink::wake);
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
    sink: LogSink,
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
        self.sink.count_dropped(lost);
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
