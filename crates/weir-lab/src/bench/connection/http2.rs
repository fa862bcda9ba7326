//! A connection that speaks HTTP/2 and carries several requests at once.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use h2::Reason;
use h2::client::{Builder, SendRequest};
use tokio::sync::{Mutex, Notify};
use tokio::task::spawn_local;
use tokio::time::timeout;

use super::failure::FailureDetail;
use super::transport::open;
use super::{Thread, WaitDeadline};
use crate::bench::record::{RequestFailure, RequestSample};
use crate::bench::target::{EncodedRequest, Http2Message};
use crate::timer::now_ns;

/// Bytes of a response that the target may send before the generator has read them.
const STREAM_WINDOW: u32 = 1 << 20;
/// The same for all responses of a connection.
const CONNECTION_WINDOW: u32 = 16 << 20;

/// The interval at which requests that wait for a stream look whether the target allows more.
const ALLOWANCE_INTERVAL: Duration = Duration::from_millis(1);

/// A connection, open or not.
pub(in crate::bench) struct MultiplexedConnection {
    thread: Rc<Thread>,
    open: RefCell<Option<Rc<LiveConnection>>>,
    /// Held while a connection is being opened: the requests that need it share it.
    opening: Mutex<()>,
}

/// A connection that is open.
struct LiveConnection {
    sender: SendRequest<Bytes>,
    /// Requests that were sent and have no whole response yet.
    in_flight: Cell<usize>,
    /// Wakes the requests that wait until the target allows another stream.
    freed: Notify,
    /// The time of the latest response or part of one, on the monotonic clock.
    heard_ns: Cell<u64>,
}

/// One of the streams that the target allows, until it is dropped.
struct UsedStream<'a>(&'a LiveConnection);

impl Drop for UsedStream<'_> {
    fn drop(&mut self) {
        self.0.in_flight.set(self.0.in_flight.get() - 1);
        self.0.freed.notify_waiters();
    }
}

/// The outcome of a request.
enum StreamOutcome {
    /// The status of a response that was read completely.
    Answered(u16),
    /// The target has not processed it, and takes no more requests on the connection.
    Closed,
    /// The target has not processed it (`REFUSED_STREAM`).
    Refused,
}

impl LiveConnection {
    /// Waits until the target allows another stream.
    async fn stream(&self) -> UsedStream<'_> {
        while self.in_flight.get() >= self.sender.current_max_send_streams().max(1) {
            // The target may also allow more of them meanwhile.
            let _ = timeout(ALLOWANCE_INTERVAL, self.freed.notified()).await;
        }
        self.in_flight.set(self.in_flight.get() + 1);
        UsedStream(self)
    }
}

impl MultiplexedConnection {
    pub(in crate::bench) fn new(thread: Rc<Thread>) -> Rc<Self> {
        Rc::new(Self { thread, open: RefCell::new(None), opening: Mutex::new(()) })
    }

    /// Opens the connection before its first request. An error is ignored, since it recurs when the
    /// connection is needed.
    pub(super) async fn open_early(self: &Rc<Self>, patience: &WaitDeadline) {
        let _ = self.opened(patience).await;
    }

    /// Sends one request and reads its response. As the clients of users do, it sends a request
    /// that the target says not to have processed once more.
    pub(super) async fn ask(
        self: &Rc<Self>,
        patience: &WaitDeadline,
        request: &EncodedRequest,
        sample: &mut RequestSample,
    ) {
        debug_assert!(request.http2.is_some(), "a load over HTTP/2 has its requests");
        let Some(message) = &request.http2 else { return };
        for is_last in [false, true] {
            let began_ns = now_ns();
            let is_open = self.open.borrow().is_some();
            let opened = self.opened(patience).await;
            if !is_open {
                sample.opening_ns += now_ns().saturating_sub(began_ns);
            }
            let connection = match opened {
                Ok(connection) => connection,
                Err(error) => return self.thread.note_unopened(sample, &error),
            };
            if sample.sent_ns == 0 {
                self.thread.note_sent(sample);
            }
            patience.begin(sample.sent_ns + self.thread.shared.load.timeout_ns);
            let exchange = self.exchange(&connection, message, &mut sample.bytes);
            let outcome = patience.within(exchange).await;
            patience.end();
            match outcome {
                Ok(StreamOutcome::Answered(status)) => sample.status = status,
                Ok(again) => {
                    if matches!(again, StreamOutcome::Closed) {
                        self.forget(&connection);
                    }
                    if !is_last {
                        continue;
                    }
                    self.thread.note_failure(sample, unprocessed());
                }
                Err(detail) => {
                    // Nothing was heard from the target meanwhile: it may be gone.
                    let is_silent = connection.heard_ns.get() < sample.sent_ns;
                    if detail.0 == RequestFailure::Timeout && is_silent {
                        self.forget(&connection);
                    }
                    self.thread.note_failure(sample, detail);
                }
            }
            return;
        }
    }

    async fn exchange(
        &self,
        connection: &LiveConnection,
        message: &Http2Message,
        bytes: &mut u64,
    ) -> Result<StreamOutcome, FailureDetail> {
        let _stream = connection.stream().await;
        let Ok(mut sender) = connection.sender.clone().ready().await else {
            return Ok(StreamOutcome::Closed);
        };
        let has_body = !message.body.is_empty();
        let sent = sender.send_request(message.head.clone(), !has_body);
        let (response, mut upload) = match sent {
            Ok(sent) => sent,
            Err(error) if error.is_io() || error.is_go_away() => return Ok(StreamOutcome::Closed),
            Err(error) => return Err(unsent(&error)),
        };
        if has_body {
            upload.send_data(message.body.clone(), true).map_err(|error| unsent(&error))?;
        }
        let response = match response.await {
            Ok(response) => response,
            // A stream after the last one that the target names is not processed.
            Err(error) if error.is_go_away() && error.is_remote() => {
                return Ok(StreamOutcome::Closed);
            }
            Err(error) if is_refused(&error) => return Ok(StreamOutcome::Refused),
            Err(error) => return Err(broken(&error)),
        };
        let (head, mut body) = response.into_parts();
        connection.heard_ns.set(now_ns());
        let allowed = sender.current_max_send_streams() as u64;
        self.thread.shared.allowed_streams.fetch_min(allowed, Ordering::Relaxed);
        let location = || head.headers.get("location").map(http::HeaderValue::as_bytes);
        self.thread.note_redirect(head.status.as_u16(), location);
        while let Some(data) = body.data().await {
            let data = data.map_err(|error| broken(&error))?;
            connection.heard_ns.set(now_ns());
            *bytes += data.len() as u64;
            body.flow_control().release_capacity(data.len()).map_err(|error| broken(&error))?;
        }
        body.trailers().await.map_err(|error| broken(&error))?;
        Ok(StreamOutcome::Answered(head.status.as_u16()))
    }

    /// Returns the connection; opens it if it is not open.
    async fn opened(self: &Rc<Self>, patience: &WaitDeadline) -> io::Result<Rc<LiveConnection>> {
        if let Some(connection) = self.present() {
            return Ok(connection);
        }
        patience.begin(now_ns() + self.thread.shared.load.timeout_ns);
        let opened = patience.within(async {
            let _turn = self.opening.lock().await;
            match self.present() {
                Some(connection) => Ok(connection),
                None => self.open().await,
            }
        });
        let opened = opened.await;
        patience.end();
        opened
    }

    fn present(&self) -> Option<Rc<LiveConnection>> {
        self.open.borrow().clone()
    }

    async fn open(self: &Rc<Self>) -> io::Result<Rc<LiveConnection>> {
        let shared = &self.thread.shared;
        let stream = open(shared).await?;
        let opened = Builder::new()
            .initial_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            // Until the target says how many it allows.
            .initial_max_send_streams(1)
            // Frames for streams that timed out are no attack.
            .max_local_error_reset_streams(None)
            .enable_push(false)
            .handshake(stream)
            .await;
        let (sender, driver) = opened.map_err(io::Error::other)?;
        let connection = Rc::new(LiveConnection {
            sender,
            in_flight: Cell::new(0),
            freed: Notify::new(),
            heard_ns: Cell::new(0),
        });
        *self.open.borrow_mut() = Some(Rc::clone(&connection));
        shared.opened.fetch_add(1, Ordering::Relaxed);
        shared.open.fetch_add(1, Ordering::Relaxed);
        let (this, weak) = (Rc::clone(self), Rc::downgrade(&connection));
        spawn_local(async move {
            // Its requests get the error.
            let _ = driver.await;
            let shared = &this.thread.shared;
            shared.open.fetch_sub(1, Ordering::Relaxed);
            let Some(connection) = weak.upgrade() else { return };
            if this.forget(&connection) && connection.in_flight.get() == 0 {
                shared.lost.fetch_add(1, Ordering::Relaxed);
            }
            connection.freed.notify_waiters();
        });
        Ok(connection)
    }

    /// Sends nothing more on a connection; returns true if it was the one in use.
    fn forget(&self, connection: &Rc<LiveConnection>) -> bool {
        let mut open = self.open.borrow_mut();
        let is_in_use = open.as_ref().is_some_and(|open| Rc::ptr_eq(open, connection));
        if is_in_use {
            open.take();
        }
        is_in_use
    }
}

/// Returns true if the target has not processed the request of a stream that it reset.
fn is_refused(error: &h2::Error) -> bool {
    error.is_reset() && error.is_remote() && error.reason() == Some(Reason::REFUSED_STREAM)
}

fn unprocessed() -> FailureDetail {
    let text = "the target did not process the request, twice";
    FailureDetail(RequestFailure::Write, text.into())
}

fn unsent(error: &h2::Error) -> FailureDetail {
    FailureDetail(RequestFailure::Write, error.to_string().into())
}

/// The failure for an error while a response is read.
fn broken(error: &h2::Error) -> FailureDetail {
    // The library resets the stream of a response that it finds invalid.
    let is_invalid = error.is_library() || error.is_reset() && !error.is_remote();
    let failure = if is_invalid { RequestFailure::Protocol } else { RequestFailure::Read };
    FailureDetail(failure, error.to_string().into())
}
