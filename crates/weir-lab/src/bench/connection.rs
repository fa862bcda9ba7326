//! One connection of the generator: it claims the next request of the schedule, waits for its
//! start, sends it and reads the response. It keeps no statistics itself.

mod own_schedule;

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};

use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use weir_wire::{ChunkedDecoder, Framing, HeadLimits, Method, ResponseHead, Scan, Step};

use super::load::{RunShared, SendPace};
use super::record::{RequestFailure, RequestSample, RunRecord};
use super::schedule::ScheduleCursor;
use super::target::EncodedRequest;
use super::tls::HandshakeFacts;
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

/// The transport of a connection.
enum BenchStream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// A connection, open or not.
pub(super) struct BenchConnection {
    thread: Rc<Thread>,
    patience: Rc<WaitDeadline>,
    stream: Option<BenchStream>,
    input: Vec<u8>,
    head: ResponseHead,
    /// Start of the idle time, on the monotonic clock.
    free_ns: u64,
}

/// The result of a response that was read completely.
struct CompletedResponse {
    status: u16,
    keep_alive: bool,
}

/// The kind of a failure, and its description.
struct FailureDetail(RequestFailure, Cow<'static, str>);

/// Number of bytes shown of a response in another protocol.
const SHOWN_BYTES: usize = 32;

impl BenchConnection {
    pub(super) fn new(thread: Rc<Thread>, patience: Rc<WaitDeadline>) -> Self {
        patience.end();
        Self {
            thread,
            patience,
            stream: None,
            input: Vec::with_capacity(READ_BYTES / 16),
            head: ResponseHead::default(),
            free_ns: 0,
        }
    }

    /// Opens the connection before its first request. An error is ignored, since it recurs when the
    /// connection is needed.
    pub(super) async fn open_early(&mut self) {
        let _ = self.open().await;
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
        if self.stream.is_some() && self.is_dead().await {
            self.thread.shared.lost.fetch_add(1, Ordering::Relaxed);
            self.close();
        }
        if self.stream.is_none() {
            let began_ns = now_ns();
            let opened = self.open().await;
            let ended_ns = now_ns();
            sample.opening_ns = ended_ns.saturating_sub(began_ns);
            if let Err(error) = opened {
                sample.sent_ns = ended_ns;
                sample.failure = Some(RequestFailure::Connect);
                self.thread.shared.note_failure(RequestFailure::Connect, || error.to_string());
                return;
            }
        }
        sample.sent_ns = now_ns();
        if matches!(self.thread.shared.load.pace, SendPace::Closed { .. }) {
            sample.intended_ns = sample.sent_ns;
        }
        self.patience.begin(sample.sent_ns + self.thread.shared.load.timeout_ns);
        let outcome = self.exchange(request, &mut sample.bytes).await;
        self.patience.end();
        match outcome {
            Ok(answer) => {
                sample.status = answer.status;
                if !answer.keep_alive {
                    self.close();
                }
            }
            Err(FailureDetail(failure, text)) => {
                sample.failure = Some(failure);
                self.thread.shared.note_failure(failure, || text.into_owned());
                self.close();
            }
        }
    }

    async fn exchange(
        &mut self,
        request: &EncodedRequest,
        bytes: &mut u64,
    ) -> Result<CompletedResponse, FailureDetail> {
        self.send(&request.bytes).await.map_err(|error| broken(&error, RequestFailure::Write))?;
        self.input.clear();
        let framing = loop {
            self.read_head(request.method, bytes).await?;
            // Interim responses (1xx) precede the response. A 101 would switch to another protocol,
            // which was not requested.
            if !(100..200).contains(&self.head.status) {
                break self.head.framing;
            }
            if self.head.upgrade {
                return Err(protocol(
                    "the response switches to another protocol, which was not requested",
                ));
            }
        };
        match framing {
            Framing::None => {}
            Framing::Length(length) => self.read_length(length, bytes).await?,
            Framing::Chunked => self.read_chunks(bytes).await?,
            Framing::UntilClose => self.read_to_close(bytes).await?,
        }
        // Bytes after the end of the response belong to no request.
        if !self.input.is_empty() {
            return Err(protocol("there are bytes after the end of the response"));
        }
        Ok(CompletedResponse { status: self.head.status, keep_alive: self.head.keep_alive })
    }

    /// Reads a head and removes it from the input.
    async fn read_head(&mut self, method: Method, bytes: &mut u64) -> Result<(), FailureDetail> {
        let limits = HeadLimits::default();
        let mut scan = Scan::default();
        loop {
            if !self.input.is_empty() {
                let parsed = self.head.parse(&self.input, &mut scan, &limits, method);
                let parsed = parsed.map_err(|found| no_http(found.fault.reason(), &self.input))?;
                if let Some(length) = parsed {
                    self.note_redirect();
                    self.input.drain(..length);
                    return Ok(());
                }
            }
            let read = self
                .read_into_input()
                .await
                .map_err(|error| broken(&error, RequestFailure::Read))?;
            if read == 0 {
                let text = if self.input.is_empty() {
                    "the connection was closed before the response"
                } else {
                    "the connection was closed in the head of the response"
                };
                return Err(FailureDetail(RequestFailure::Read, text.into()));
            }
            *bytes += read as u64;
        }
    }

    /// Records the target of a redirect if the head is one. A 304 is none.
    fn note_redirect(&self) {
        if (300..400).contains(&self.head.status) && self.head.status != 304 {
            let location = self.head.header(&self.input, "location");
            self.thread.shared.note_redirect(|| {
                String::from_utf8_lossy(location.unwrap_or_default()).into_owned()
            });
        }
    }

    async fn read_length(&mut self, length: u64, bytes: &mut u64) -> Result<(), FailureDetail> {
        let here = (self.input.len() as u64).min(length);
        self.input.drain(..here as usize);
        let mut left = length - here;
        while left > 0 {
            let read = self.read_and_forget(left).await?;
            if read == 0 {
                return Err(cut_short());
            }
            *bytes += read as u64;
            left -= read as u64;
        }
        Ok(())
    }

    async fn read_chunks(&mut self, bytes: &mut u64) -> Result<(), FailureDetail> {
        let mut decoder = ChunkedDecoder::new();
        loop {
            let (used, step) = decoder
                .step(&self.input)
                .map_err(|_| protocol("the chunks of the response are malformed"))?;
            self.input.drain(..used);
            match step {
                Step::End => return Ok(()),
                Step::Data(_) => {}
                Step::More => {
                    let read = self.read_into_input().await;
                    match read.map_err(|error| broken(&error, RequestFailure::Read))? {
                        0 => return Err(cut_short()),
                        read => *bytes += read as u64,
                    }
                }
            }
        }
    }

    async fn read_to_close(&mut self, bytes: &mut u64) -> Result<(), FailureDetail> {
        self.input.clear();
        loop {
            match self.read_and_forget(u64::MAX).await? {
                0 => return Ok(()),
                read => *bytes += read as u64,
            }
        }
    }

    /// Returns true if the target closed the connection while it was idle, or sent unexpected
    /// bytes. It does not wait.
    async fn is_dead(&mut self) -> bool {
        let Some(stream) = &mut self.stream else { return true };
        let mut byte = [0; 1];
        poll_fn(|context| {
            let mut buffer = ReadBuf::new(&mut byte);
            // With TLS, a session ticket may arrive here; it is read and is no data.
            Poll::Ready(Pin::new(&mut *stream).poll_read(context, &mut buffer).is_ready())
        })
        .await
    }

    async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(stream) = &mut self.stream else { return Err(io::ErrorKind::NotConnected.into()) };
        let patience = self.patience.clone();
        let mut sent = 0;
        poll_fn(|context| {
            while sent < bytes.len() {
                let rest = bytes.get(sent..).unwrap_or_default();
                match Pin::new(&mut *stream).poll_write(context, rest) {
                    Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                    Poll::Ready(Ok(count)) => sent += count,
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                    Poll::Pending => return patience.poll(context).map(Err),
                }
            }
            match Pin::new(&mut *stream).poll_flush(context) {
                Poll::Pending => patience.poll(context).map(Err),
                ready @ Poll::Ready(_) => ready,
            }
        })
        .await
    }

    async fn read_into_input(&mut self) -> io::Result<usize> {
        let Self { stream: Some(stream), thread, patience, input, .. } = self else {
            return Ok(0);
        };
        poll_fn(|context| {
            let mut scratch = thread.scratch.borrow_mut();
            let mut buffer = ReadBuf::new(&mut scratch);
            match Pin::new(&mut *stream).poll_read(context, &mut buffer) {
                Poll::Ready(Ok(())) => {
                    input.extend_from_slice(buffer.filled());
                    Poll::Ready(Ok(buffer.filled().len()))
                }
                Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
                Poll::Pending => patience.poll(context).map(Err),
            }
        })
        .await
    }

    /// Reads and discards at most so many bytes of a body.
    async fn read_and_forget(&mut self, most: u64) -> Result<usize, FailureDetail> {
        let Self { stream: Some(stream), thread, patience, .. } = self else { return Ok(0) };
        let read = poll_fn(|context| {
            let mut scratch = thread.scratch.borrow_mut();
            let room = scratch.len().min(usize::try_from(most).unwrap_or(usize::MAX));
            let mut buffer = ReadBuf::new(scratch.get_mut(..room).unwrap_or_default());
            match Pin::new(&mut *stream).poll_read(context, &mut buffer) {
                Poll::Ready(Ok(())) => Poll::Ready(Ok(buffer.filled().len())),
                Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
                Poll::Pending => patience.poll(context).map(Err),
            }
        });
        read.await.map_err(|error| broken(&error, RequestFailure::Read))
    }

    async fn open(&mut self) -> io::Result<()> {
        let thread = self.thread.clone();
        let load = &thread.shared.load;
        self.patience.begin(now_ns() + load.timeout_ns);
        let patience = self.patience.clone();
        let opening = open(&thread.shared);
        let mut opening = std::pin::pin!(opening);
        let opened = poll_fn(|context| match opening.as_mut().poll(context) {
            Poll::Pending => patience.poll(context).map(Err),
            ready @ Poll::Ready(_) => ready,
        })
        .await;
        self.patience.end();
        self.stream = Some(opened?);
        thread.shared.opened.fetch_add(1, Ordering::Relaxed);
        thread.shared.open.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn close(&mut self) {
        if self.stream.take().is_some() {
            self.thread.shared.open.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

async fn open(shared: &RunShared) -> io::Result<BenchStream> {
    let stream = shared.load.connect().await?;
    stream.set_nodelay(true)?;
    let Some((config, name)) = &shared.load.tls else { return Ok(BenchStream::Plain(stream)) };
    let name: ServerName<'static> = name.clone();
    let stream = TlsConnector::from(config.clone()).connect(name, stream).await?;
    shared.note_tls(|| HandshakeFacts::of(stream.get_ref().1));
    Ok(BenchStream::Tls(Box::new(stream)))
}

/// The failure for an error: a timeout, or else the given kind.
fn broken(error: &io::Error, otherwise: RequestFailure) -> FailureDetail {
    if error.kind() == io::ErrorKind::TimedOut {
        return FailureDetail(
            RequestFailure::Timeout,
            "no complete response within the timeout (-T)".into(),
        );
    }
    FailureDetail(otherwise, error.to_string().into())
}

fn protocol(text: &'static str) -> FailureDetail {
    FailureDetail(RequestFailure::Protocol, text.into())
}

fn cut_short() -> FailureDetail {
    FailureDetail(
        RequestFailure::Read,
        "the connection was closed in the body of the response".into(),
    )
}

/// The failure for a response that is not HTTP.
fn no_http(reason: &str, bytes: &[u8]) -> FailureDetail {
    let begin = bytes.get(..SHOWN_BYTES.min(bytes.len())).unwrap_or_default();
    // A TLS record: an alert, or a handshake message.
    let hint = if matches!(begin, [0x15 | 0x16, 0x03, ..]) {
        "; the server uses TLS: write https://"
    } else {
        ""
    };
    let text = format!(
        "the response is not HTTP ({reason}): it begins with `{}`{hint}",
        begin.escape_ascii()
    );
    FailureDetail(RequestFailure::Protocol, text.into())
}

impl AsyncRead for BenchStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for BenchStream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(context),
            Self::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
