//! A connection that speaks HTTP/2 and carries several requests at once.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use h2::client::{Builder, SendRequest};
use tokio::sync::Mutex;
use tokio::task::spawn_local;

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

/// A connection, open or not.
pub(in crate::bench) struct Http2Connection {
    thread: Rc<Thread>,
    sender: RefCell<Option<SendRequest<Bytes>>>,
    /// The number of the connection that `sender` belongs to.
    number: Cell<u64>,
    /// Set once the number of streams that the target allows is noted.
    is_allowance_noted: Cell<bool>,
    /// Held while a connection is being opened: the requests that need it share it.
    opening: Mutex<()>,
}

/// The outcome of a request.
enum Asked {
    /// The status of a response that was read completely.
    Answered(u16),
    /// The connection was closed before, and nothing was sent.
    Unsent,
}

impl Http2Connection {
    pub(in crate::bench) fn new(thread: Rc<Thread>) -> Rc<Self> {
        Rc::new(Self {
            thread,
            sender: RefCell::new(None),
            number: Cell::new(0),
            is_allowance_noted: Cell::new(false),
            opening: Mutex::new(()),
        })
    }

    /// Opens the connection before its first request. An error is ignored, since it recurs when the
    /// connection is needed.
    pub(super) async fn open_early(self: &Rc<Self>, patience: &WaitDeadline) {
        let _ = self.sender(patience).await;
    }

    /// Sends one request and reads its response.
    pub(super) async fn ask(
        self: &Rc<Self>,
        patience: &WaitDeadline,
        request: &EncodedRequest,
        sample: &mut RequestSample,
    ) {
        let Some(message) = &request.http2 else { return };
        let timeout_ns = self.thread.shared.load.timeout_ns;
        for is_last in [false, true] {
            let began_ns = now_ns();
            let is_open = self.sender.borrow().is_some();
            let sender = self.sender(patience).await;
            if !is_open {
                sample.opening_ns += now_ns().saturating_sub(began_ns);
            }
            let (sender, number) = match sender {
                Ok(sender) => sender,
                Err(error) => return self.thread.note_unopened(sample, &error),
            };
            self.thread.note_sent(sample);
            patience.begin(sample.sent_ns + timeout_ns);
            let outcome = patience.within(self.exchange(sender, message, &mut sample.bytes)).await;
            patience.end();
            match outcome {
                Ok(Asked::Answered(status)) => sample.status = status,
                Ok(Asked::Unsent) => {
                    self.forget(number);
                    if is_last {
                        self.thread.note_failure(sample, closed_before());
                    } else {
                        self.thread.shared.lost.fetch_add(1, Ordering::Relaxed);
                        continue;
                    }
                }
                Err(detail) => self.thread.note_failure(sample, detail),
            }
            return;
        }
    }

    async fn exchange(
        &self,
        sender: SendRequest<Bytes>,
        message: &Http2Message,
        bytes: &mut u64,
    ) -> Result<Asked, FailureDetail> {
        // Waits while as many streams are open as the target allows.
        let Ok(mut sender) = sender.ready().await else { return Ok(Asked::Unsent) };
        let has_body = !message.body.is_empty();
        let sent = sender.send_request(message.head.clone(), !has_body);
        let (response, mut upload) = match sent {
            Ok(sent) => sent,
            Err(error) if error.is_io() || error.is_go_away() => return Ok(Asked::Unsent),
            Err(error) => return Err(unsent(&error)),
        };
        if has_body {
            upload.send_data(message.body.clone(), true).map_err(|error| unsent(&error))?;
        }
        let (head, mut body) = response.await.map_err(|error| broken(&error))?.into_parts();
        if !self.is_allowance_noted.replace(true) {
            let allowed = sender.current_max_send_streams() as u64;
            self.thread.shared.allowed_streams.fetch_min(allowed, Ordering::Relaxed);
        }
        let location = || head.headers.get("location").map(http::HeaderValue::as_bytes);
        self.thread.note_redirect(head.status.as_u16(), location);
        while let Some(data) = body.data().await {
            let data = data.map_err(|error| broken(&error))?;
            *bytes += data.len() as u64;
            body.flow_control().release_capacity(data.len()).map_err(|error| broken(&error))?;
        }
        body.trailers().await.map_err(|error| broken(&error))?;
        Ok(Asked::Answered(head.status.as_u16()))
    }

    /// Returns a sender of the connection and the connection's number; opens it if it is not open.
    async fn sender(
        self: &Rc<Self>,
        patience: &WaitDeadline,
    ) -> io::Result<(SendRequest<Bytes>, u64)> {
        if let Some(found) = self.present() {
            return Ok(found);
        }
        patience.begin(now_ns() + self.thread.shared.load.timeout_ns);
        let opened = patience.within(async {
            let _turn = self.opening.lock().await;
            match self.present() {
                Some(found) => Ok(found),
                None => self.open().await,
            }
        });
        let opened = opened.await;
        patience.end();
        opened
    }

    fn present(&self) -> Option<(SendRequest<Bytes>, u64)> {
        self.sender.borrow().as_ref().map(|sender| (sender.clone(), self.number.get()))
    }

    async fn open(self: &Rc<Self>) -> io::Result<(SendRequest<Bytes>, u64)> {
        let shared = &self.thread.shared;
        let stream = open(shared).await?;
        let opened = Builder::new()
            .initial_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .enable_push(false)
            .handshake(stream)
            .await;
        let (sender, connection) = opened.map_err(io::Error::other)?;
        let number = self.number.get() + 1;
        self.number.set(number);
        *self.sender.borrow_mut() = Some(sender.clone());
        shared.opened.fetch_add(1, Ordering::Relaxed);
        shared.open.fetch_add(1, Ordering::Relaxed);
        let this = Rc::clone(self);
        spawn_local(async move {
            // Its requests get the error.
            let _ = connection.await;
            this.forget(number);
            this.thread.shared.open.fetch_sub(1, Ordering::Relaxed);
        });
        Ok((sender, number))
    }

    /// Sends nothing more on the connection of this number.
    fn forget(&self, number: u64) {
        if self.number.get() == number {
            self.sender.borrow_mut().take();
        }
    }
}

fn closed_before() -> FailureDetail {
    let text = "the connection was closed before the request could be sent";
    FailureDetail(RequestFailure::Write, text.into())
}

fn unsent(error: &h2::Error) -> FailureDetail {
    FailureDetail(RequestFailure::Write, error.to_string().into())
}

/// The failure for an error while a response is read.
fn broken(error: &h2::Error) -> FailureDetail {
    // What the library finds wrong with a response resets its stream from here.
    let is_invalid = error.is_library() || error.is_reset() && !error.is_remote();
    let failure = if is_invalid { RequestFailure::Protocol } else { RequestFailure::Read };
    FailureDetail(failure, error.to_string().into())
}
