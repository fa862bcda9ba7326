//! The bodies of one HTTP/2 stream: reads DATA and trailers, writes the response's head, DATA and
//! trailers, within the windows of both sides. It is dropped when its exchange ends; a response
//! that has not ended then is broken off with RST_STREAM.
//!
//! The response's head and the latest bytes of its body wait here until more follows, a flush, or
//! the end, so that the end of the stream is a flag of their frame and not a frame of its own.

use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{FlowControl, Reason, RecvStream, SendStream};
use http::{HeaderMap, Response};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::exchange::body_stream::{BodySink, BodySource, BodyStream};
use crate::http::http2_fields::{trailer_fields, trailer_lines};
use crate::limiting::http2_windows::ReadCount;
use crate::limits::HTTP2_DATA_BYTES;
use crate::net::http2_body::{self, ReceivedData, broken_pipe};

/// A stream during its exchange.
pub(crate) struct Http2Stream {
    body: RecvStream,
    window: FlowControl,
    read: ReadCount,
    /// The bytes of the body that were not read yet.
    data: ReceivedData,
    progress: RequestProgress,
    trailers: Vec<u8>,
    sender: ResponseSender,
    /// The bytes of the response's body that wait for more.
    held: Bytes,
    /// Set if the end of the response's head is not that of the stream.
    is_tunnel: bool,
    /// Set once the client was found to have reset the stream.
    was_reset: bool,
    /// The code of the reset if the exchange ends before the response does.
    pub(crate) reset: Cell<Reason>,
}

/// The progress of the request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RequestProgress {
    Open,
    Ended,
    /// It broke off after the bytes that were read.
    Broken,
}

/// The progress of the response.
enum ResponseSender {
    /// Its head was not sent yet; it may be here already.
    Head(SendResponse<Bytes>, Option<Response<()>>),
    Body(SendStream<Bytes>),
    /// It was sent completely.
    Ended,
    /// The stream has failed.
    Failed,
}

impl Http2Stream {
    pub(crate) fn new(mut body: RecvStream, respond: SendResponse<Bytes>, read: ReadCount) -> Self {
        Self {
            progress: if body.is_end_stream() {
                RequestProgress::Ended
            } else {
                RequestProgress::Open
            },
            window: body.flow_control().clone(),
            read,
            body,
            data: ReceivedData::default(),
            trailers: Vec::new(),
            sender: ResponseSender::Head(respond, None),
            held: Bytes::new(),
            is_tunnel: false,
            was_reset: false,
            reset: Cell::new(Reason::CANCEL),
        }
    }

    /// Returns true if nothing follows the request's head.
    pub(crate) fn is_without_body(&self) -> bool {
        self.body.is_end_stream()
    }

    /// The bytes of memory that it holds.
    pub(crate) fn held(&self) -> usize {
        self.window.used_capacity()
            + self.data.overhead()
            + self.held.len()
            + self.trailers.capacity()
    }

    /// The stream transfers bytes both ways after the response's head.
    pub(crate) fn becomes_tunnel(&mut self) {
        self.is_tunnel = true;
    }

    /// Begins a response; an interim one is sent at once.
    pub(crate) fn begin_response(&mut self, response: Response<()>) {
        let ResponseSender::Head(respond, begun) = &mut self.sender else { return };
        if response.status().is_informational() {
            // A stream that was reset meanwhile is noticed by the next poll.
            let _ = respond.send_informational(response);
        } else {
            *begun = Some(response);
        }
    }

    /// Sends the head of the response, if it was begun.
    fn send_head(&mut self, ends: bool) -> io::Result<()> {
        let ResponseSender::Head(respond, begun) = &mut self.sender else { return Ok(()) };
        let Some(response) = begun.take() else { return Ok(()) };
        let sent = respond.send_response(response, ends);
        self.sender = match sent {
            Ok(_) if ends => ResponseSender::Ended,
            Ok(body) => ResponseSender::Body(body),
            Err(error) => {
                self.sender = ResponseSender::Failed;
                return Err(io::Error::new(io::ErrorKind::BrokenPipe, error));
            }
        };
        Ok(())
    }

    /// Sends the bytes that wait, the last of them with the end of the stream if the response
    /// `ends` with them.
    fn poll_send_held(&mut self, context: &mut Context<'_>, ends: bool) -> Poll<io::Result<()>> {
        let Self { sender, held, .. } = self;
        let ResponseSender::Body(body) = sender else {
            let is_done = held.is_empty()
                && matches!(sender, ResponseSender::Head(..) | ResponseSender::Ended);
            return Poll::Ready(if is_done { Ok(()) } else { Err(broken_pipe()) });
        };
        ready!(http2_body::poll_send(context, body, held, ends))?;
        if ends {
            *sender = ResponseSender::Ended;
        }
        Poll::Ready(Ok(()))
    }

    /// Sends what waits, and the end of the stream with these trailers.
    fn poll_finish(
        &mut self,
        context: &mut Context<'_>,
        trailers: HeaderMap,
    ) -> Poll<io::Result<()>> {
        self.send_head(self.held.is_empty() && trailers.is_empty())?;
        if matches!(self.sender, ResponseSender::Ended) {
            return Poll::Ready(Ok(()));
        }
        ready!(self.poll_send_held(context, trailers.is_empty()))?;
        if let ResponseSender::Body(body) = &mut self.sender {
            body.send_trailers(trailers).map_err(|_| broken_pipe())?;
            self.sender = ResponseSender::Ended;
        }
        Poll::Ready(Ok(()))
    }

    /// Waits for the reset of the stream, or the end of the connection.
    fn poll_reset(&mut self, context: &mut Context<'_>) -> Poll<()> {
        match &mut self.sender {
            ResponseSender::Head(respond, _) => respond.poll_reset(context).map(|_| ()),
            ResponseSender::Body(body) => body.poll_reset(context).map(|_| ()),
            ResponseSender::Ended => Poll::Pending,
            ResponseSender::Failed => Poll::Ready(()),
        }
    }

    /// Reads the next DATA frame; with none, the trailers.
    fn poll_data(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match ready!(self.body.poll_data(context)) {
            Some(Ok(data)) => {
                self.data.put(data);
                Poll::Ready(Ok(()))
            }
            Some(Err(error)) => Poll::Ready(Err(io::Error::other(error))),
            None => {
                let trailers = ready!(self.body.poll_trailers(context));
                let trailers = trailers.map_err(io::Error::other)?;
                self.trailers = trailers.as_ref().and_then(trailer_lines).unwrap_or_default();
                self.progress = RequestProgress::Ended;
                Poll::Ready(Ok(()))
            }
        }
    }
}

impl AsyncRead for Http2Stream {
    /// Reads as many frames as there are, so that small ones cost no write of their own upstream.
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let own = self.get_mut();
        let before = buffer.filled().len();
        loop {
            let count = own.data.read(buffer);
            if count > 0 {
                // Fails only for more bytes than were received.
                let _ = own.window.release_capacity(count);
                own.read.took(count);
            }
            let has_read = buffer.filled().len() > before;
            if own.progress == RequestProgress::Broken && !has_read {
                return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
            }
            if buffer.remaining() == 0 || own.progress != RequestProgress::Open {
                return Poll::Ready(Ok(()));
            }
            match own.poll_data(context) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(_)) => own.progress = RequestProgress::Broken,
                Poll::Pending if has_read => return Poll::Ready(Ok(())),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

impl AsyncWrite for Http2Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let own = self.get_mut();
        own.send_head(false)?;
        ready!(own.poll_send_held(context, false))?;
        if !matches!(own.sender, ResponseSender::Body(_)) {
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

    /// Ends the response; a stream has no end of its own besides that.
    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().poll_finish(context, HeaderMap::new())
    }
}

impl BodySource for Http2Stream {
    fn take_trailers(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.trailers)
    }

    fn collect(&mut self, context: &mut Context<'_>) {
        while self.progress == RequestProgress::Open {
            match self.body.poll_data(context) {
                Poll::Ready(Some(Ok(data))) => self.data.keep(data),
                Poll::Ready(Some(Err(_))) => self.progress = RequestProgress::Broken,
                // The end waits for the reader.
                Poll::Ready(None) | Poll::Pending => return,
            }
        }
    }
}

impl BodySink for Http2Stream {
    fn poll_end(&mut self, context: &mut Context<'_>, trailers: &[u8]) -> Poll<io::Result<()>> {
        if self.is_tunnel {
            return Pin::new(self).poll_flush(context);
        }
        let fields = if trailers.is_empty() { HeaderMap::new() } else { trailer_fields(trailers) };
        self.poll_finish(context, fields)
    }
}

impl BodyStream for Http2Stream {
    fn poll_closed(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let reset = self.poll_reset(context);
        self.was_reset |= reset.is_ready();
        reset
    }

    fn is_reset(&self) -> bool {
        self.was_reset || matches!(self.sender, ResponseSender::Failed)
    }
}

impl Drop for Http2Stream {
    fn drop(&mut self) {
        match &mut self.sender {
            ResponseSender::Head(respond, _) => respond.send_reset(self.reset.get()),
            ResponseSender::Body(body) => body.send_reset(self.reset.get()),
            ResponseSender::Ended | ResponseSender::Failed => {}
        }
    }
}
