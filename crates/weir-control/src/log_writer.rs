//! The thread that writes access logs. Workers hand it batches over a bounded channel and never wait: a disk
//! that is stuck fills the channel, and lines beyond that are dropped and counted. It knows nothing of formats.

mod file;
mod syslog;
#[cfg(test)]
mod tests;

use std::io::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use std::time::Duration;

use weir_config::model::{AccessLog, LogTarget};
use weir_stats::{FullBatch, LogReceiver, LogSink, Message, log_channel};

use file::LogFile;
use syslog::Syslog;

/// Batches that may wait for the writer, over all logs: 8 MiB.
const CAPACITY: usize = 128;

/// The running writer.
#[derive(Debug)]
pub struct LogWriter {
    sinks: Vec<LogSink>,
    orders: Arc<Orders>,
    done: Receiver<()>,
}

/// What the control side wants of the thread, and what it tells back.
#[derive(Debug, Default)]
struct Orders {
    reopen: AtomicBool,
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
    /// Opens every log and starts the thread; the sinks stand in the order of `logs`. A file that cannot be opened
    /// is an error that names it. A syslog socket that is not there yet is tried again with every batch.
    pub fn start(logs: &[AccessLog]) -> io::Result<(Self, Vec<LogSink>)> {
        let targets =
            logs.iter().map(|log| Target::open(&log.to)).collect::<io::Result<Vec<_>>>()?;
        let (sinks, receiver) = log_channel(targets.len(), CAPACITY);
        let orders = Arc::<Orders>::default();
        let (finished, done) = sync_channel(1);
        let outlets = targets.into_iter().zip(sinks.iter().cloned());
        let outlets =
            outlets.map(|(target, sink)| Outlet { target, sink, state: State::Working }).collect();
        let mut writer = Writer { outlets, receiver, orders: Arc::clone(&orders) };
        thread::Builder::new().name("weir-log".to_owned()).spawn(move || {
            writer.run();
            // Nobody waits any more when the deadline of `stop` has passed.
            let _ = finished.send(());
        })?;
        Ok((Self { sinks: sinks.clone(), orders, done }, sinks))
    }

    /// Opens every file anew, after somebody moved it away. What waits in the channel goes to the new file.
    pub fn reopen(&self) {
        self.orders.reopen.store(true, Ordering::Release);
        self.wake();
    }

    /// Writes what was handed over and ends the thread; workers have flushed their batches before.
    pub fn stop(self, deadline: Duration) -> Flushed {
        self.orders.stop.store(true, Ordering::Release);
        self.wake();
        if self.done.recv_timeout(deadline).is_ok() { Flushed::All } else { Flushed::Late }
    }

    /// Lines dropped so far: the writer was behind, or could not write them.
    pub fn dropped(&self) -> u64 {
        self.sinks.iter().map(LogSink::dropped).sum()
    }

    /// Writes and sends that failed so far.
    pub fn errors(&self) -> u64 {
        self.orders.errors.load(Ordering::Relaxed)
    }

    fn wake(&self) {
        if let Some(sink) = self.sinks.first() {
            sink.wake();
        }
    }
}

impl Drop for LogWriter {
    /// A writer that is dropped instead of stopped ends its thread too, without waiting for it.
    fn drop(&mut self) {
        self.orders.stop.store(true, Ordering::Release);
        self.wake();
    }
}

/// What runs on the thread.
struct Writer {
    outlets: Vec<Outlet>,
    receiver: LogReceiver,
    orders: Arc<Orders>,
}

/// One log, open.
struct Outlet {
    target: Target,
    sink: LogSink,
    state: State,
}

/// Whether the last write went well: a change is worth a line to the operator, a repetition is not.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Working,
    Failing,
}

impl Writer {
    fn run(&mut self) {
        if self.outlets.is_empty() {
            return;
        }
        while let Ok(message) = self.receiver.receive() {
            self.take(message);
            if self.orders.stop.load(Ordering::Acquire) {
                break;
            }
        }
        while let Ok(message) = self.receiver.try_receive() {
            self.take(message);
        }
    }

    fn take(&mut self, message: Message) {
        if self.orders.reopen.swap(false, Ordering::AcqRel) {
            self.reopen();
        }
        if let Message::Lines(batch) = message {
            self.write(batch);
        }
    }

    fn reopen(&mut self) {
        for outlet in &mut self.outlets {
            if let Target::File(file) = &mut outlet.target
                && let Err(error) = file.reopen()
            {
                eprintln!("weir: {error}; going on with the file that is open");
                self.orders.errors.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn write(&mut self, batch: FullBatch) {
        let Some(outlet) = self.outlets.get_mut(batch.target) else { return };
        let Outcome { lost, errors, last } = outlet.target.write(&batch);
        outlet.sink.count_dropped(lost);
        self.orders.errors.fetch_add(errors, Ordering::Relaxed);
        let state = if last.is_some() { State::Failing } else { State::Working };
        if state != outlet.state {
            outlet.state = state;
            let name = outlet.target.name();
            match last {
                Some(error) => eprintln!(
                    "weir: cannot write the access log to {name}: {error}; lines are dropped"
                ),
                None => eprintln!("weir: the access log is written to {name} again"),
            }
        }
        batch.recycle();
    }
}

/// How writing a batch went.
#[derive(Default)]
struct Outcome {
    /// Lines not written.
    lost: u64,
    /// Calls that failed, also those that a second try made good.
    errors: u64,
    /// Why the last lines were lost.
    last: Option<io::Error>,
}

impl Outcome {
    /// A whole batch went or was lost.
    fn of(result: io::Result<()>, batch: &FullBatch) -> Self {
        match result {
            Ok(()) => Self::default(),
            Err(error) => Self { lost: batch.count, errors: 1, last: Some(error) },
        }
    }
}

enum Target {
    File(LogFile),
    Stdout,
    Syslog(Syslog),
}

impl Target {
    fn open(target: &LogTarget) -> io::Result<Self> {
        Ok(match target {
            LogTarget::File(path) => Self::File(LogFile::open(path)?),
            LogTarget::Stdout => Self::Stdout,
            LogTarget::SyslogUnix { path, facility } => Self::Syslog(Syslog::unix(path, *facility)),
            LogTarget::SyslogUdp { address, facility } => {
                Self::Syslog(Syslog::udp(*address, *facility))
            }
        })
    }

    fn name(&self) -> String {
        match self {
            Self::File(file) => file.path().display().to_string(),
            Self::Stdout => "standard output".to_owned(),
            Self::Syslog(syslog) => syslog.name(),
        }
    }

    fn write(&mut self, batch: &FullBatch) -> Outcome {
        match self {
            Self::File(file) => Outcome::of(file.write(&batch.lines), batch),
            Self::Stdout => {
                let mut out = io::stdout().lock();
                Outcome::of(out.write_all(&batch.lines).and_then(|()| out.flush()), batch)
            }
            Self::Syslog(syslog) => syslog.write(&batch.lines),
        }
    }
}
