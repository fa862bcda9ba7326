//! The thread that writes access logs. Workers hand it batches over a bounded channel and never wait: a disk
//! that is stuck fills the channel, and lines beyond that are dropped and counted. It knows nothing of formats.

mod file;
mod syslog;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io::{self, Write as _};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use weir_config::model::{AccessLog, LogTarget};
use weir_stats::{FullBatch, LogReceiver, LogSink, Message, log_channel};

use file::LogFile;
use syslog::Syslog;

/// Batches that may wait for the writer, over all logs: 8 MiB.
const CAPACITY: usize = 128;

/// The running writer.
pub struct LogWriter {
    /// Wakes the thread, and is what sinks are made from.
    root: LogSink,
    logs: Mutex<Logs>,
    orders: Arc<Orders>,
    done: Mutex<Receiver<()>>,
}

/// The logs that are configured.
#[derive(Default)]
struct Logs {
    open: Vec<(AccessLog, LogSink)>,
    /// Logs opened so far.
    count: usize,
}

/// Logs of a configuration, open; nothing has come of it yet.
pub struct PreparedLogs {
    /// In the configuration's order.
    open: Vec<(AccessLog, LogSink)>,
    sinks: Vec<LogSink>,
    added: Vec<Outlet>,
}

impl PreparedLogs {
    /// Where lines go, in the configuration's order.
    pub fn sinks(&self) -> &[LogSink] {
        &self.sinks
    }
}

/// What the control side wants of the thread, and what it tells back.
#[derive(Default)]
struct Orders {
    reopen: AtomicBool,
    stop: AtomicBool,
    errors: AtomicU64,
    /// Logs that were opened and are to be written.
    added: Mutex<Vec<Outlet>>,
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
        let (mut root, receiver) = log_channel(1, CAPACITY);
        let root = root.remove(0);
        let orders = Arc::<Orders>::default();
        let (finished, done) = sync_channel(1);
        let own = Self {
            root,
            logs: Mutex::default(),
            orders: Arc::clone(&orders),
            done: Mutex::new(done),
        };
        let prepared = own.prepare(logs)?;
        let sinks = prepared.sinks.clone();
        let mut writer = Writer { outlets: Vec::new(), receiver, orders };
        own.commit(prepared);
        thread::Builder::new().name("weir-log".to_owned()).spawn(move || {
            writer.run();
            // Nobody waits any more when the deadline of `stop` has passed.
            let _ = finished.send(());
        })?;
        Ok((own, sinks))
    }

    /// Opens the logs of another configuration, as far as they are not open.
    pub fn prepare(&self, logs: &[AccessLog]) -> io::Result<PreparedLogs> {
        let mut known = lock(&self.logs);
        let mut prepared = PreparedLogs { open: Vec::new(), sinks: Vec::new(), added: Vec::new() };
        for log in logs {
            let is_it =
                |(open, _): &&(AccessLog, LogSink)| open.name == log.name && open.to == log.to;
            let sink = if let Some((_, sink)) = known.open.iter().find(is_it) {
                sink.clone()
            } else {
                let target = Target::open(&log.to)?;
                known.count += 1;
                let sink = self.root.sibling(known.count);
                let state = State::Working;
                prepared.added.push(Outlet { target, sink: sink.clone(), state });
                sink
            };
            prepared.sinks.push(sink.clone());
            prepared.open.push((log.clone(), sink));
        }
        Ok(prepared)
    }

    /// These are the logs from now on. What is not among them is closed when nobody has lines for it any more.
    pub fn commit(&self, prepared: PreparedLogs) {
        let PreparedLogs { open, sinks, added } = prepared;
        drop(sinks);
        // Before anybody can write to them.
        lock(&self.orders.added).extend(added);
        lock(&self.logs).open = open;
        self.wake();
    }

    /// Looks whether something can be closed.
    pub fn look(&self) {
        self.wake();
    }

    /// Opens every file anew, after somebody moved it away. What waits in the channel goes to the new file.
    pub fn reopen(&self) {
        self.orders.reopen.store(true, Ordering::Release);
        self.wake();
    }

    /// Writes what was handed over and ends the thread; workers have flushed their batches before.
    pub fn stop(&self, deadline: Duration) -> Flushed {
        self.orders.stop.store(true, Ordering::Release);
        self.wake();
        let done = lock(&self.done);
        if done.recv_timeout(deadline).is_ok() { Flushed::All } else { Flushed::Late }
    }

    /// Lines dropped so far, of the logs that are configured: the writer was behind, or could not write them.
    pub fn dropped(&self) -> u64 {
        lock(&self.logs).open.iter().map(|(_, sink)| sink.dropped()).sum()
    }

    /// Writes and sends that failed so far.
    pub fn errors(&self) -> u64 {
        self.orders.errors.load(Ordering::Relaxed)
    }

    #[cfg(test)]
    fn sinks(&self) -> Vec<LogSink> {
        lock(&self.logs).open.iter().map(|(_, sink)| sink.clone()).collect()
    }

    fn wake(&self) {
        self.root.wake();
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
        while let Ok(message) = self.receiver.receive() {
            self.take(message);
            if self.orders.stop.load(Ordering::Acquire) {
                break;
            }
            self.close_unused();
        }
        while let Ok(message) = self.receiver.try_receive() {
            self.take(message);
        }
    }

    fn take(&mut self, message: Message) {
        if self.orders.reopen.swap(false, Ordering::AcqRel) {
            // Whose log was opened before the order has it opened anew too.
            self.open_added();
            self.reopen();
        }
        match message {
            Message::Lines(batch) => self.write(batch),
            Message::Wake => self.open_added(),
        }
    }

    fn open_added(&mut self) {
        self.outlets.append(&mut lock(&self.orders.added));
    }

    /// Closes logs for which nobody has lines any more.
    fn close_unused(&mut self) {
        let unused = |outlet: &Outlet| outlet.sink.is_last();
        if !self.outlets.iter().any(unused) {
            return;
        }
        let unused: Vec<usize> =
            self.outlets.iter().filter(|one| unused(one)).map(|one| one.sink.target()).collect();
        // Their last lines came before that, and are in the channel.
        while let Ok(message) = self.receiver.try_receive() {
            self.take(message);
        }
        self.outlets.retain(|outlet| !unused.contains(&outlet.sink.target()));
    }

    fn reopen(&mut self) {
        self.open_added();
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
        let is_it = |outlet: &&mut Outlet| outlet.sink.target() == batch.target;
        if !self.outlets.iter_mut().any(|outlet| is_it(&outlet)) {
            // The word that it was added may not have found room.
            self.open_added();
        }
        let Some(outlet) = self.outlets.iter_mut().find(is_it) else { return };
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
