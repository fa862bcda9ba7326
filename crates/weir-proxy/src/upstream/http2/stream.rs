//! One stream to an endpoint, as the exchange sees any connection to one: it writes a request's
//! head as HTTP/1 text and the bytes of the body, and reads the same of the response. Both
//! directions move independently. A stream that is dropped before both have ended is reset.
//!
//! The request's head and the latest bytes of its body wait here until more follows, a flush, or
//! the end, so that the end of the stream is a flag of their frame and not a frame of its own.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use h2::{FlowControl, Reason, RecvStream, SendStream};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::http::http2_fields::{trailer_fields, trailer_lines};
use crate::http::http2_head::{self, AfterResponseHead};
use crate::http::websocket::{self, WebSocketAccept};
use crate::limiting::http2_windows::ReadCount;
use crate::limits::{HTTP2_DATA_BYTES, HTTP2_REQUEST_HEAD_BYTES};
use crate::net::http2_body::{self, ReceivedData, broken_pipe};
use crate::upstream::http2::connection::{ResetBy, SharedPlace};

/// A stream during its exchange.
pub(crate) struct EndpointStream {
    sender: RequestSender,
    /// The bytes of the request's body that wait for more.
    held: Bytes,
    receiver: ResponseReceiver,
    /// The text of a response's head, from `text_at` on not read yet.
    text: Vec<u8>,
    text_at: usize,
    /// The bytes of the body that were not read yet.
    data: ReceivedData,
    window: Option<FlowControl>,
    read: ReadCount,
    trailers: Vec<u8>,
    /// Set once the stream has failed.
    loss: Option<StreamLoss>,
    is_head: bool,
    /// Set while the response may switch to a WebSocket, and after it has.
    websocket: Option<WebSocketAccept>,
    /// Dropped last, because the next stream may begin then.
    place: SharedPlace,
}

/// The purpose of a stream.
#[derive(Clone, Copy)]
pub(crate) enum StreamPurpose {
    /// A request and its response.
    Request,
    /// A WebSocket (RFC 8441), with the answer to the key that its client sent.
    WebSocket(WebSocketAccept),
}

/// The reason why a stream has failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum StreamLoss {
    /// The endpoint has said that it did nothing for the request, or it was never sent.
    Unprocessed,
    /// The bytes of the endpoint are not HTTP/2, or no response.
    Malformed,
    /// The endpoint reset the stream.
    Reset,
    /// The connection ended.
    Connection,
}

/// The progress of the request.
enum RequestSender {
    /// Its head is not complete.
    Text(Vec<u8>),
    /// Its head was not sent yet.
    Head(Box<Request<()>>),
    Body(SendStream<Bytes>),
    /// It was sent completely.
    Ended,
    Failed,
}

/// The progress of the response.
enum ResponseReceiver {
    /// The request's head was not sent yet.
    Nothing,
    Head(ResponseFuture),
    Body(RecvStream),
    Ended,
}

impl StreamLoss {
    /// Interprets an error of a stream whose request was sent.
    fn of(error: &h2::Error) -> Self {
        // `h2` ends those streams with a GOAWAY of the peer that are above its last stream (RFC
        // 9113 section 6.8).
        let is_refused = error.is_remote()
            && (error.is_go_away() || error.reason() == Some(Reason::REFUSED_STREAM));
        if is_refused {
            Self::Unprocessed
        } else if error.is_library() && !error.is_go_away() {
            Self::Malformed
        } else if error.is_reset() {
            Self::Reset
        } else {
            Self::Connection
        }
    }
}

impl EndpointStream {
    pub(super) fn new(place: SharedPlace, purpose: StreamPurpose) -> Self {
        Self {
            sender: RequestSender::Text(Vec::new()),
            held: Bytes::new(),
            receiver: ResponseReceiver::Nothing,
            text: Vec::new(),
            text_at: 0,
            data: ReceivedData::default(),
            window: None,
            read: place.read_count(),
            trailers: Vec::new(),
            loss: None,
            is_head: false,
            websocket: match purpose {
                StreamPurpose::Request => None,
                StreamPurpose::WebSocket(accept) => Some(accept),
            },
            place,
        }
    }

    /// The bytes of memory that it holds.
    pub(crate) fn held(&self) -> usize {
        let window = self.window.as_ref().map_or(0, FlowControl::used_capacity);
        let data = window + self.data.overhead();
        data + self.held.len() + self.text.capacity() + self.trailers.capacity()
    }

    /// The reason why it has failed.
    pub(crate) fn loss(&self) -> Option<StreamLoss> {
        self.loss
    }

    /// Returns true if the response was read to its end, and nothing follows it.
    pub(crate) fn is_over(&self) -> bool {
        let has_ended = matches!(self.receiver, ResponseReceiver::Ended) && self.loss.is_none();
        has_ended && self.trailers.is_empty() && self.data.is_empty()
    }

    /// Takes the trailers, as lines, of the response that has ended.
    pub(crate) fn take_trailers(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.trailers)
    }

    fn fail(&mut self, loss: StreamLoss) -> io::Error {
        self.loss.get_or_insert(loss);
        io::ErrorKind::ConnectionReset.into()
    }

    /// Takes the bytes of the request's head from the beginning of `bytes`.
    fn take_head(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let RequestSender::Text(begun) = &mut self.sender else { return Ok(0) };
        let before = begun.len();
        begun.extend_from_slice(bytes);
        let from = before.saturating_sub(3);
        let end = begun.get(from..).and_then(|rest| memchr::memmem::find(rest, b"\r\n\r\n"));
        let Some(end) = end.map(|at| from + at + 4) else {
            if begun.len() > HTTP2_REQUEST_HEAD_BYTES {
                self.sender = RequestSender::Failed;
                return Err(self.fail(StreamLoss::Reset));
            }
            return Ok(bytes.len());
        };
        let request =
            http2_head::request(begun.get(..end).unwrap_or_default(), self.place.scheme());
        let asks = |request: &mut Request<()>| {
            self.websocket.is_none() || websocket::ask_over_http2(request)
        };
        let Some(request) = request.and_then(|mut request| asks(&mut request).then_some(request))
        else {
            self.sender = RequestSender::Failed;
            return Err(self.fail(StreamLoss::Reset));
        };
        self.is_head = request.method() == Method::HEAD;
        self.sender = RequestSender::Head(Box::new(request));
        Ok(end - before)
    }

    /// Sends the request's head, if it is complete.
    fn send_head(&mut self, ends: bool) -> io::Result<()> {
        if !matches!(self.sender, RequestSender::Head(_)) {
            return Ok(());
        }
        let RequestSender::Head(request) =
            std::mem::replace(&mut self.sender, RequestSender::Failed)
        else {
            return Ok(());
        };
        let sender: Option<SendRequest<Bytes>> = self.place.sender();
        let sent = sender.and_then(|mut sender| sender.send_request(*request, ends).ok());
        let Some((response, body)) = sent else {
            return Err(self.fail(StreamLoss::Unprocessed));
        };
        self.receiver = ResponseReceiver::Head(response);
        self.sender = if ends { RequestSender::Ended } else { RequestSender::Body(body) };
        Ok(())
    }

    /// Sends the bytes that wait, the last of them with the end of the stream if the request `ends`
    /// with them.
    fn poll_send_held(&mut self, context: &mut Context<'_>, ends: bool) -> Poll<io::Result<()>> {
        let Self { sender, held, .. } = self;
        let RequestSender::Body(body) = sender else {
            let is_done = held.is_empty() && !matches!(sender, RequestSender::Failed);
            return Poll::Ready(if is_done { Ok(()) } else { Err(broken_pipe()) });
        };
        ready!(http2_body::poll_send(context, body, held, ends))?;
        if ends {
            *sender = RequestSender::Ended;
        }
        Poll::Ready(Ok(()))
    }

    /// Sends the end of the request, with these trailers as lines. After that for a WebSocket the
    /// stream goes on.
    pub(crate) fn poll_end(
        &mut self,
        context: &mut Context<'_>,
        trailers: &[u8],
    ) -> Poll<io::Result<()>> {
        if self.websocket.is_some() {
            return Pin::new(self).poll_flush(context);
        }
        self.poll_finish(context, trailers)
    }

    fn poll_finish(&mut self, context: &mut Context<'_>, trailers: &[u8]) -> Poll<io::Result<()>> {
        let fields = if trailers.is_empty() { HeaderMap::new() } else { trailer_fields(trailers) };
        self.send_head(self.held.is_empty() && fields.is_empty())?;
        if matches!(self.sender, RequestSender::Ended) {
            return Poll::Ready(Ok(()));
        }
        ready!(self.poll_send_held(context, fields.is_empty()))?;
        if let RequestSender::Body(body) = &mut self.sender {
            body.send_trailers(fields).map_err(|_| broken_pipe())?;
            self.sender = RequestSender::Ended;
        }
        Poll::Ready(Ok(()))
    }

    /// Waits for the reset of the stream, or the end of the connection.
    pub(crate) fn poll_reset(&mut self, context: &mut Context<'_>) -> Poll<()> {
        match &mut self.sender {
            RequestSender::Body(body) => {
                let _ = ready!(body.poll_reset(context));
                self.loss.get_or_insert(StreamLoss::Reset);
                Poll::Ready(())
            }
            RequestSender::Failed => Poll::Ready(()),
            RequestSender::Text(_) | RequestSender::Head(_) | RequestSender::Ended => Poll::Pending,
        }
    }

    /// Receives the next head of a response, or the next DATA frame; with none, the trailers.
    fn poll_receive(&mut self, context: &mut Context<'_>) -> Poll<Result<(), StreamLoss>> {
        let failed = |error: h2::Error| StreamLoss::of(&error);
        match &mut self.receiver {
            ResponseReceiver::Nothing | ResponseReceiver::Ended => Poll::Pending,
            ResponseReceiver::Head(head) => {
                let interim = ready!(head.poll_informational(context)).transpose();
                if let Some(interim) = interim.map_err(failed)? {
                    return Poll::Ready(self.begin(&interim, AfterResponseHead::NothingEver));
                }
                let response = ready!(Pin::new(head).poll(context)).map_err(failed)?;
                let (parts, mut body) = response.into_parts();
                let after = match body.is_end_stream() {
                    _ if self.is_head => AfterResponseHead::NothingEver,
                    true => AfterResponseHead::Nothing,
                    false => AfterResponseHead::Body,
                };
                self.window = Some(body.flow_control().clone());
                self.receiver = ResponseReceiver::Body(body);
                Poll::Ready(self.begin(&Response::from_parts(parts, ()), after))
            }
            ResponseReceiver::Body(body) => {
                if let Some(data) = ready!(body.poll_data(context)) {
                    self.data.put(data.map_err(failed)?);
                } else {
                    let trailers = ready!(body.poll_trailers(context)).map_err(failed)?;
                    // A response without its trailers is not whole.
                    let lines = trailers
                        .as_ref()
                        .map(|fields| trailer_lines(fields).ok_or(StreamLoss::Malformed));
                    self.trailers = lines.transpose()?.unwrap_or_default();
                    self.receiver = ResponseReceiver::Ended;
                }
                Poll::Ready(Ok(()))
            }
        }
    }

    /// Ends the request for a WebSocket whose response is an ordinary one.
    fn refused(&mut self) {
        self.websocket = None;
        if let RequestSender::Body(body) = &mut self.sender {
            // A stream that was reset meanwhile is noticed by the next read.
            let _ = body.send_data(Bytes::new(), true);
            self.sender = RequestSender::Ended;
        }
    }

    /// Makes the text of a response's head available.
    fn begin(
        &mut self,
        response: &Response<()>,
        after: AfterResponseHead,
    ) -> Result<(), StreamLoss> {
        // HTTP/2 has no other protocol to switch to (RFC 9113 section 8.6).
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            return Err(StreamLoss::Malformed);
        }
        self.text.clear();
        self.text_at = 0;
        if let Some(accept) = self.websocket
            && !response.status().is_informational()
        {
            if response.status().is_success() {
                let written = websocket::write_switch(response, accept, &mut self.text);
                return written.map_err(|_| StreamLoss::Malformed);
            }
            self.refused();
        }
        let written = http2_head::write_response(response, after, &mut self.text);
        written.map_err(|_| StreamLoss::Malformed)
    }

    /// Copies what was received; returns false if there is nothing.
    fn copy(&mut self, buffer: &mut ReadBuf<'_>) -> bool {
        let text = self.text.get(self.text_at..).unwrap_or_default();
        if !text.is_empty() {
            let count = text.len().min(buffer.remaining());
            buffer.put_slice(text.get(..count).unwrap_or_default());
            self.text_at += count;
            if self.text_at == self.text.len() {
                self.text = Vec::new();
                self.text_at = 0;
            }
            return true;
        }
        let count = self.data.read(buffer);
        if count > 0
            && let Some(window) = &mut self.window
        {
            // Fails only for more bytes than were received.
            let _ = window.release_capacity(count);
            self.read.took(count);
        }
        count > 0
    }

    /// Takes the frames that have come from `h2`, for a reader that is not ready.
    pub(crate) fn collect(&mut self, context: &mut Context<'_>) {
        while let ResponseReceiver::Body(body) = &mut self.receiver
            && self.loss.is_none()
        {
            match body.poll_data(context) {
                Poll::Ready(Some(Ok(data))) => self.data.keep(data),
                Poll::Ready(Some(Err(error))) => self.loss = Some(StreamLoss::of(&error)),
                // The end waits for the reader.
                Poll::Ready(None) | Poll::Pending => return,
            }
        }
    }
}

impl AsyncRead for EndpointStream {
    /// Reads as many frames as there are, so that small ones cost no write of their own.
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let own = self.get_mut();
        let before = buffer.filled().len();
        loop {
            while buffer.remaining() > 0 && own.copy(buffer) {}
            let has_read = buffer.filled().len() > before;
            if has_read && buffer.remaining() == 0 {
                return Poll::Ready(Ok(()));
            }
            if let Some(loss) = own.loss.filter(|_| !has_read) {
                return Poll::Ready(Err(own.fail(loss)));
            }
            if own.loss.is_some() || matches!(own.receiver, ResponseReceiver::Ended) {
                return Poll::Ready(Ok(()));
            }
            match own.poll_receive(context) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(loss)) => own.loss = Some(loss),
                Poll::Pending if has_read => return Poll::Ready(Ok(())),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

impl AsyncWrite for EndpointStream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let own = self.get_mut();
        if matches!(own.sender, RequestSender::Text(_)) {
            return Poll::Ready(own.take_head(bytes));
        }
        own.send_head(false)?;
        ready!(own.poll_send_held(context, false))?;
        if !matches!(own.sender, RequestSender::Body(_)) {
            return Poll::Ready(Err(broken_pipe()));
        }
        let count = bytes.len().min(HTTP2_DATA_BYTES);
        own.held = Bytes::copy_from_slice(bytes.get(..count).unwrap_or_default());
        Poll::Ready(Ok(count))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let own = self.get_mut();
        own.send_head(false)?;
        own.poll_send_held(context, false)
    }

    /// Ends the request, or this side of a WebSocket.
    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().poll_finish(context, &[])
    }
}

impl Drop for EndpointStream {
    /// Counts a stream that `h2` resets now, or that was reset.
    fn drop(&mut self) {
        let is_sent = matches!(self.sender, RequestSender::Body(_) | RequestSender::Ended);
        let is_over = matches!(self.sender, RequestSender::Ended)
            && matches!(self.receiver, ResponseReceiver::Ended);
        if self.loss.is_some() {
            self.place.note_reset(ResetBy::Endpoint);
        } else if is_sent && !is_over {
            self.place.note_reset(ResetBy::Here);
        }
    }
}
