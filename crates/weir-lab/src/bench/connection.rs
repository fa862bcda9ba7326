//! A slot for one request at a time: a connection of HTTP/1.1, or a stream of one of HTTP/2. It
//! claims the next request of the schedule, waits for its start, sends it and reads the response.
//! It keeps no statistics itself.

mod failure;
mod http1;
mod http2;
mod own_schedule;
mod transport;

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};

use failure::FailureDetail;
use http1::Http1Connection;
pub(super) use http2::MultiplexedConnection;

use super::load::{RunShared, SendPace};
use super::record::{RequestFailure, RequestSample, RunRecord};
use super::schedule::ScheduleCursor;
use super::target::EncodedRequest;
use super::wrk2::STAGGER_NS;
use crate::timer::{Timer, now_ns};

/// Largest number of bytes of one read.
const READ_BYTES: usize = 64 * 1024;

/// State shared by the connections of one thread.
pub(super) struct Thread {
    pub(super) shared: std::sync::Arc<RunShared>,
    pub(super) timer: Timer,
    pub(super) cursor: RefCell<ScheduleCursor>,
    pub(super) record: RefCell<RunRecord>,
    /// Buffer for bodies, which are discarded.
    scratch: RefCell<Vec<u8>>,
}

impl Thread {
    pub(super) fn new(
        shared: std::sync::Arc<RunShared>,
        timer: Timer,
        cursor: ScheduleCursor,
        connections: usize,
    ) -> Self {
        let calibration_ns = shared.load.calibration_ns + connections as u64 * STAGGER_NS;
        let record = RunRecord::new(shared.load.samples).with_calibration(calibration_ns);
        Self {
            shared,
            timer,
            cursor: RefCell::new(cursor),
            record: RefCell::new(record),
            scratch: RefCell::new(vec![0; READ_BYTES]),
        }
    }

    /// Notes that a request is sent now; in a closed loop it was not intended earlier.
    fn note_sent(&self, sample: &mut RequestSample) {
        sample.sent_ns = now_ns();
        if matches!(self.shared.load.pace, SendPace::Closed { .. }) {
            sample.intended_ns = sample.sent_ns;
        }
    }

    /// Notes that there is no connection to send a request on.
    fn note_unopened(&self, sample: &mut RequestSample, error: &io::Error) {
        sample.sent_ns = now_ns();
        sample.failure = Some(RequestFailure::Connect);
        self.shared.note_failure(RequestFailure::Connect, || error.to_string());
    }

    fn note_failure(&self, sample: &mut RequestSample, detail: FailureDetail) {
        let FailureDetail(failure, text) = detail;
        sample.failure = Some(failure);
        self.shared.note_failure(failure, || text.into_owned());
    }

    /// Records the target of a redirect if the status is that of one. A 304 is none.
    fn note_redirect<'a>(&self, status: u16, location: impl FnOnce() -> Option<&'a [u8]>) {
        if (300..400).contains(&status) && status != 304 {
            let location = || location().unwrap_or_default();
            self.shared.note_redirect(|| String::from_utf8_lossy(location()).into_owned());
        }
    }
}

/// The deadline of a connection's wait. The thread checks all of them periodically, so that no
/// request needs a timer of its own.
#[derive(Default)]
pub(super) struct WaitDeadline {
    /// `u64::MAX` while the connection does not wait.
    deadline_ns: Cell<u64>,
    is_over: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl WaitDeadline {
    /// Wakes the connection if its deadline has passed.
    pub(super) fn check(&self, now_ns: u64) {
        if self.deadline_ns.get() > now_ns || self.is_over.replace(true) {
            return;
        }
        let waker = self.waker.borrow_mut().take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn begin(&self, deadline_ns: u64) {
        self.is_over.set(false);
        self.deadline_ns.set(deadline_ns);
    }

    fn end(&self) {
        self.deadline_ns.set(u64::MAX);
    }

    /// Runs a future until it is ready or the deadline has passed.
    ///
    /// # Errors
    /// Those of the future, or [`io::ErrorKind::TimedOut`].
    async fn within<T, E: From<io::Error>>(
        &self,
        future: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let mut future = std::pin::pin!(future);
        poll_fn(|context| match future.as_mut().poll(context) {
            Poll::Pending => self.poll(context).map(|error| Err(error.into())),
            ready @ Poll::Ready(_) => ready,
        })
        .await
    }

    /// Ready with an error once the deadline has passed; otherwise registers the task's waker.
    fn poll(&self, context: &Context<'_>) -> Poll<io::Error> {
        if self.is_over.get() {
            return Poll::Ready(io::ErrorKind::TimedOut.into());
        }
        let mut waker = self.waker.borrow_mut();
        if !waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
            *waker = Some(context.waker().clone());
        }
        Poll::Pending
    }
}

/// The connection that carries the requests of a slot.
enum Carrier {
    /// Its own.
    Http1(Box<Http1Connection>),
    /// One that it shares with others.
    Http2(Rc<MultiplexedConnection>),
}

/// A slot for one request at a time.
pub(super) struct RequestSlot {
    thread: Rc<Thread>,
    patience: Rc<WaitDeadline>,
    carrier: Carrier,
    /// Start of the idle time, on the monotonic clock.
    free_ns: u64,
}

impl RequestSlot {
    /// A slot with a connection of its own over HTTP/1.1, or on one over HTTP/2.
    pub(super) fn new(
        thread: Rc<Thread>,
        patience: Rc<WaitDeadline>,
        http2: Option<Rc<MultiplexedConnection>>,
    ) -> Self {
        patience.end();
        let carrier = match http2 {
            Some(connection) => Carrier::Http2(connection),
            None => {
                Carrier::Http1(Box::new(Http1Connection::new(thread.clone(), patience.clone())))
            }
        };
        Self { thread, patience, carrier, free_ns: 0 }
    }

    /// Opens the connection before its first request. An error is ignored, since it recurs when the
    /// connection is needed.
    pub(super) async fn open_early(&mut self) {
        match &mut self.carrier {
            Carrier::Http1(connection) => {
                let _ = connection.open().await;
            }
            Carrier::Http2(connection) => connection.open_early(&self.patience).await,
        }
    }

    /// Sends requests until the schedule ends or the run is stopped.
    pub(super) async fn run(mut self) {
        let thread = self.thread.clone();
        let shared = &thread.shared;
        thread.timer.until(shared.start_ns()).await;
        // Idle time before the start of the schedule does not count.
        self.free_ns = shared.start_ns();
        while !shared.is_stopped() {
            let n = shared.claim();
            let Some(intended_ns) = self.wait_for_turn(n).await else { return };
            let Some(request) = shared.load.requests.pick(shared.load.seed, n) else { return };
            shared.started.fetch_add(1, Ordering::Relaxed);
            let mut sample = RequestSample::due(n, intended_ns, self.free_ns);
            self.ask(request, &mut sample).await;
            sample.ended_ns = now_ns();
            self.free_ns = sample.ended_ns;
            self.keep(sample);
        }
    }

    /// Waits until request `n` is due and returns its intended start on the monotonic clock.
    /// Returns `None` if there is no such request.
    async fn wait_for_turn(&self, n: u64) -> Option<u64> {
        let shared = &self.thread.shared;
        match shared.load.pace {
            SendPace::Closed { requests } => (n < requests).then(now_ns),
            SendPace::Open { .. } => {
                let intended_ns = shared.start_ns() + self.thread.cursor.borrow_mut().start_ns(n);
                let end_ns = shared.end_ns();
                if intended_ns >= end_ns {
                    return None;
                }
                self.thread.timer.until(intended_ns).await;
                // A request that is still due after the end had no free connection in time: it is
                // not sent, and reported as unsent. If this connection was free in time, the
                // request is sent, however late the thread woke up.
                let is_in_time = self.free_ns <= intended_ns || now_ns() < end_ns;
                (is_in_time && !shared.is_stopped()).then_some(intended_ns)
            }
        }
    }

    fn keep(&self, mut sample: RequestSample) {
        let shared = &self.thread.shared;
        shared.ended.fetch_add(1, Ordering::Relaxed);
        let from = shared.measured_from_ns();
        let mut record = self.thread.record.borrow_mut();
        if sample.intended_ns < from {
            record.warm += 1;
            return;
        }
        for time in [
            &mut sample.intended_ns,
            &mut sample.sent_ns,
            &mut sample.ended_ns,
            &mut sample.free_ns,
        ] {
            *time = time.saturating_sub(from);
        }
        record.add(&sample);
    }

    /// Sends one request and reads its response.
    async fn ask(&mut self, request: &EncodedRequest, sample: &mut RequestSample) {
        match &mut self.carrier {
            Carrier::Http1(connection) => connection.ask(request, sample).await,
            Carrier::Http2(connection) => connection.ask(&self.patience, request, sample).await,
        }
    }
}
