//! Runs a load: opens the connections, starts the threads, waits for their end or for a signal, and
//! collects their records. It judges no result.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use jiff::Timestamp;
use rustix::thread::{CpuSet, sched_setaffinity};
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Barrier;
use tokio::task::{LocalSet, spawn_local};

use super::connection::{MultiplexedConnection, RequestSlot, Thread, WaitDeadline};
use super::load::{Examples, LoadSpec, RunShared, SendPace, StartOrder};
use super::record::RunRecord;
use super::schedule::{ArrivalProcess, Schedule};
use super::tls::HandshakeFacts;
use super::wrk2::intended_before;
use crate::timer::{Timer, now_ns};

/// Time from the moment that all connections are open to the first request, in nanoseconds, so that
/// all threads are ready.
const HEAD_START_NS: u64 = 2_000_000;
/// Smallest and largest interval between checks of deadlines, in nanoseconds.
const ROUND_NS: (u64, u64) = (1_000_000, 50_000_000);
/// Interval at which a thread checks whether the run was stopped.
const STOP_POLL: Duration = Duration::from_millis(20);
/// Progress is reported once a second.
const POLLS_PER_PROGRESS: u32 = 50;

/// The streams of each connection over HTTP/2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamCounts {
    /// The number of requests at once that was asked for.
    pub asked: u64,
    /// The smallest number that the target allowed; `None` without a response or a limit.
    pub allowed: Option<u64>,
}

/// The results of a run.
#[derive(Clone, Debug)]
pub struct RunResults {
    /// The records of all threads, for the measured part.
    pub record: RunRecord,
    /// Length of the measured part, in nanoseconds: as specified, or until the run was stopped or
    /// the last response arrived.
    pub elapsed_ns: u64,
    /// Requests that should have started in that time.
    pub intended: u64,
    /// Of these, the ones that were never sent, because no connection was free until the end.
    pub unsent: u64,
    /// Requests that were sent and had no response when the run was stopped.
    pub unanswered: u64,
    /// Connections opened during the whole run.
    pub opened: u64,
    /// Connections open at the end.
    pub open: u64,
    /// Connections that the target closed while they were idle.
    pub lost: u64,
    /// Connections open when the first request was due.
    pub open_at_start: u64,
    /// Start of the measurement on the monotonic clock; 0 if it never started.
    pub began_ns: u64,
    /// The same moment on the wall clock.
    pub began_at: Timestamp,
    /// The first failure of each kind and the first redirect, as text.
    pub examples: Examples,
    /// The parameters that TLS negotiated.
    pub tls: Option<HandshakeFacts>,
    /// The streams of each connection over HTTP/2; `None` for HTTP/1.1.
    pub streams: Option<StreamCounts>,
    /// Set if the run was stopped before its end.
    pub is_cut_short: bool,
}

/// Access to a run's progress.
#[derive(Clone)]
pub struct Watch(Arc<RunShared>);

/// A run that has begun.
pub struct RunningBench {
    shared: Arc<RunShared>,
    threads: Vec<JoinHandle<Result<RunRecord, String>>>,
}

impl Watch {
    /// Requests started and ended so far, warm-up included.
    pub fn counts(&self) -> (u64, u64) {
        (self.0.started.load(Ordering::Relaxed), self.0.ended.load(Ordering::Relaxed))
    }

    /// Connections open now.
    pub fn open(&self) -> u64 {
        self.0.open.load(Ordering::Relaxed)
    }

    /// Nanoseconds since the start, warm-up included.
    pub fn elapsed_ns(&self) -> u64 {
        match self.0.start_ns() {
            0 => 0,
            start_ns => now_ns().saturating_sub(start_ns),
        }
    }

    /// Ends the run now. The results so far are still reported.
    pub fn stop(&self) {
        self.0.stop();
    }
}

impl RunningBench {
    /// Starts the threads.
    ///
    /// # Errors
    /// One sentence if a thread cannot be started.
    pub fn start(load: LoadSpec) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("cannot start a thread: {error}");
        let count = load.threads.max(1);
        let shares = match load.order {
            StartOrder::Shared => shares(load.connections, count),
            // wrk2 leaves out those that do not fit.
            StartOrder::PerConnection => vec![load.connections / count; count],
        };
        let cores = load.cores.clone();
        let barrier = Arc::new(Barrier::new(count));
        let shared = Arc::new(RunShared::new(load));
        let mut running = Self { shared: shared.clone(), threads: Vec::new() };
        for (number, connections) in shares.into_iter().enumerate() {
            let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
            let core = (!cores.is_empty()).then(|| cores[number % cores.len()]);
            let (shared, barrier) = (shared.clone(), barrier.clone());
            let thread = std::thread::Builder::new().name(format!("bench-{number}"));
            let job = move || {
                pin(core)?;
                LocalSet::new().block_on(&runtime, drive(shared, connections, barrier))
            };
            running.threads.push(thread.spawn(job).map_err(failed)?);
        }
        Ok(running)
    }

    /// A handle for progress, and to stop the run.
    pub fn watch(&self) -> Watch {
        Watch(self.shared.clone())
    }

    /// Waits for the end and calls `progress` about once a second. SIGINT and SIGTERM end the run
    /// early; the results so far are returned all the same.
    ///
    /// # Errors
    /// One sentence if a thread failed.
    pub fn finish(self, mut progress: impl FnMut(&Watch)) -> Result<RunResults, String> {
        let failed = |error: std::io::Error| format!("cannot wait for signals: {error}");
        let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let watch = self.watch();
        runtime.block_on(async {
            let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
            let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
            let mut polls = 0_u32;
            while !self.threads.iter().all(JoinHandle::is_finished) {
                tokio::select! {
                    _ = interrupt.recv() => watch.stop(),
                    _ = terminate.recv() => watch.stop(),
                    () = tokio::time::sleep(STOP_POLL) => polls += 1,
                }
                if polls == POLLS_PER_PROGRESS {
                    polls = 0;
                    progress(&watch);
                }
            }
            Ok::<(), String>(())
        })?;
        self.gather()
    }

    fn gather(self) -> Result<RunResults, String> {
        let Self { shared, threads } = self;
        let mut record = RunRecord::new(shared.load.samples);
        for thread in threads {
            match thread.join() {
                Ok(part) => record.merge(&part?),
                Err(_) => {
                    return Err("a thread of the generator panicked; this is a bug".to_owned());
                }
            }
        }
        if let Some(samples) = &mut record.samples {
            samples.sort_unstable_by_key(|sample| sample.n);
        }
        Ok(outcome(&shared, record))
    }
}

fn outcome(shared: &RunShared, record: RunRecord) -> RunResults {
    let ended_ns = now_ns();
    let has_begun = shared.start_ns() > 0;
    let measured_ns =
        if has_begun { ended_ns.saturating_sub(shared.measured_from_ns()) } else { 0 };
    let started = shared.started.load(Ordering::Relaxed);
    let ended = shared.ended.load(Ordering::Relaxed);
    let is_stopped = shared.is_stopped();
    let (elapsed_ns, due) = match shared.load.pace {
        SendPace::Open { schedule, duration_ns } => {
            let elapsed_ns = if is_stopped { measured_ns.min(duration_ns) } else { duration_ns };
            let load = &shared.load;
            let due = match load.order {
                StartOrder::Shared => {
                    let before = schedule.count_before(load.warmup_ns);
                    schedule.count_before(load.warmup_ns + elapsed_ns).saturating_sub(before)
                }
                StartOrder::PerConnection => {
                    intended_before(load.threads, load.connections, schedule.rate, elapsed_ns)
                }
            };
            (elapsed_ns, due)
        }
        SendPace::Closed { requests } => {
            (record.last_ended_ns, if is_stopped { started } else { requests })
        }
    };
    let unanswered = started.saturating_sub(ended);
    let measured_started = started.saturating_sub(record.warm);
    RunResults {
        elapsed_ns,
        intended: due,
        unsent: due.saturating_sub(measured_started),
        unanswered,
        opened: shared.opened.load(Ordering::Relaxed),
        open: shared.open.load(Ordering::Relaxed),
        lost: shared.lost.load(Ordering::Relaxed),
        open_at_start: shared.open_at_start.load(Ordering::Relaxed),
        began_ns: if has_begun { shared.measured_from_ns() } else { 0 },
        began_at: wall_clock(measured_ns),
        examples: shared.examples(),
        streams: shared.load.streams.map(|asked| {
            let allowed = shared.allowed_streams.load(Ordering::Relaxed);
            StreamCounts {
                asked: asked as u64,
                allowed: (allowed < usize::MAX as u64).then_some(allowed),
            }
        }),
        tls: shared.facts.lock().ok().and_then(|facts| facts.clone()),
        is_cut_short: is_stopped,
        record,
    }
}

/// The moment so many nanoseconds ago.
fn wall_clock(ago_ns: u64) -> Timestamp {
    let now = Timestamp::now();
    now.checked_sub(Duration::from_nanos(ago_ns)).unwrap_or(now)
}

/// The connections of each thread, distributed as evenly as possible.
fn shares(connections: usize, threads: usize) -> Vec<usize> {
    (0..threads)
        .map(|thread| connections / threads + usize::from(thread < connections % threads))
        .collect()
}

fn pin(core: Option<usize>) -> Result<(), String> {
    let Some(core) = core else { return Ok(()) };
    let mut set = CpuSet::new();
    set.set(core);
    sched_setaffinity(None, &set).map_err(|error| format!("core {core} cannot be used: {error}"))
}

/// One thread's part of the run.
async fn drive(
    shared: Arc<RunShared>,
    connections: usize,
    barrier: Arc<Barrier>,
) -> Result<RunRecord, String> {
    let failed = |error: std::io::Error| format!("the generator failed: {error}");
    let timer = Timer::new().map_err(failed)?;
    spawn_local(timer.clone().run());
    let schedule = match shared.load.pace {
        SendPace::Open { schedule, .. } => schedule,
        SendPace::Closed { .. } => {
            Schedule { arrival: ArrivalProcess::Constant, rate: 1.0, seed: 0 }
        }
    };
    let thread =
        Rc::new(Thread::new(shared.clone(), timer.clone(), schedule.cursor(), connections));
    let slots = connections * shared.load.streams.unwrap_or(1);
    let patiences: Vec<Rc<WaitDeadline>> = (0..slots).map(|_| Rc::default()).collect();
    spawn_local(look_at_patience(patiences.clone(), timer.clone(), shared.load.timeout_ns));
    let opened = tokio::select! {
        opened = open_all(&thread, patiences, &barrier) => opened?,
        // A stopped run does not wait for a target that does not respond.
        () = wait_for_stop(&shared) => return Ok(thread.record.replace(RunRecord::new(false))),
    };
    let order = shared.load.order;
    let run = |(number, slot): (usize, RequestSlot)| {
        spawn_local(async move {
            match order {
                StartOrder::Shared => slot.run().await,
                StartOrder::PerConnection => slot.run_by_own_schedule(number as u64).await,
            }
        })
    };
    let running: Vec<_> = opened.into_iter().enumerate().map(run).collect();
    let all = async {
        for task in running {
            let _ = task.await;
        }
    };
    tokio::select! {
        () = all => {}
        () = wait_for_stop(&shared) => {}
    }
    let elapsed_ns = now_ns().saturating_sub(shared.measured_from_ns());
    thread.record.borrow_mut().calibrate(elapsed_ns);
    Ok(thread.record.replace(RunRecord::new(false)))
}

/// Opens the connections of a thread, and waits until those of all threads are open or have failed.
/// No request is sent before.
async fn open_all(
    thread: &Rc<Thread>,
    patiences: Vec<Rc<WaitDeadline>>,
    barrier: &Barrier,
) -> Result<Vec<RequestSlot>, String> {
    let mut tasks = Vec::new();
    let order = thread.shared.load.order;
    let streams = thread.shared.load.streams;
    let mut http2 = None;
    for (number, patience) in patiences.into_iter().enumerate() {
        let is_first = number.is_multiple_of(streams.unwrap_or(1));
        if streams.is_some() && is_first {
            http2 = Some(MultiplexedConnection::new(thread.clone()));
        }
        let mut slot = RequestSlot::new(thread.clone(), patience, http2.clone());
        tasks.push(spawn_local(async move {
            // Otherwise each is opened in its turn.
            if order == StartOrder::Shared && is_first {
                slot.open_early().await;
            }
            slot
        }));
    }
    let mut opened = Vec::new();
    for task in tasks {
        opened.push(
            task.await
                .map_err(|_| "the task of a connection panicked; this is a bug".to_owned())?,
        );
    }
    let shared = &thread.shared;
    if barrier.wait().await.is_leader() {
        shared.open_at_start.store(shared.open.load(Ordering::Relaxed), Ordering::Relaxed);
        shared.begin(now_ns() + HEAD_START_NS);
    }
    barrier.wait().await;
    Ok(opened)
}

async fn wait_for_stop(shared: &RunShared) {
    while !shared.is_stopped() {
        tokio::time::sleep(STOP_POLL).await;
    }
}

async fn look_at_patience(patiences: Vec<Rc<WaitDeadline>>, timer: Timer, timeout_ns: u64) {
    let round_ns = (timeout_ns / 50).clamp(ROUND_NS.0, ROUND_NS.1);
    loop {
        timer.until(now_ns() + round_ns).await;
        let now = now_ns();
        for patience in &patiences {
            patience.check(now);
        }
    }
}
