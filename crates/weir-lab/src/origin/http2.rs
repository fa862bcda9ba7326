//! HTTP/2 at the origin. Each stream is served by the code of a connection of HTTP/1, over a
//! transport that presents its one request as text and turns the text of the response into frames.

use std::cell::{Cell, RefCell};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use h2::server::{SendResponse, handshake};
use h2::{Reason, RecvStream, SendStream};
use http::header::{CONTENT_LENGTH, HOST};
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::spawn_local;
use weir_wire::{ChunkedDecoder, Step};

use super::connection::{OriginConnection, OriginTransport, PortState};
use crate::timer::now_ns;

/// The largest piece of a body in one write, bytes.
const PIECE: usize = 64 * 1024;

/// Serves the streams of a connection until one side ends it. `deadline` is the time at which the
/// worker aborts it; it has none while a stream is open.
pub(super) async fn serve<S>(stream: S, site: Rc<PortState>, deadline: Rc<Cell<u64>>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let Ok(mut connection) = handshake(stream).await else { return };
    let open = Rc::new(Cell::new(0_usize));
    while let Some(Ok((request, respond))) = connection.accept().await {
        open.set(open.get() + 1);
        deadline.set(u64::MAX);
        let (site, deadline, open) = (site.clone(), deadline.clone(), open.clone());
        spawn_local(async move {
            let idle_ns = site.idle_ns;
            let transport = StreamTransport::new(request, respond);
            let own = Rc::new(Cell::new(u64::MAX));
            OriginConnection::new(transport, site, own).serve().await;
            open.set(open.get() - 1);
            if open.get() == 0 {
                deadline.set(now_ns() + idle_ns);
            }
        });
    }
}

/// One stream as a connection with one request.
struct StreamTransport {
    /// The request's head as text, from `read`.
    head: Vec<u8>,
    read: usize,
    /// The bytes of the body, with their framing, that were not read yet.
    data: Bytes,
    body: RecvStream,
    framing: RequestFraming,
    response: RefCell<ResponseState>,
    is_head_request: bool,
}

/// The framing of the request's body in the text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RequestFraming {
    /// Its bytes.
    Plain,
    Chunked,
    /// The request has ended.
    Ended,
}

/// The progress of the response.
enum ResponseState {
    /// The text of its head so far.
    Head(SendResponse<Bytes>, Vec<u8>),
    Body(SendStream<Bytes>, ResponseFraming),
    Ended,
}

/// The framing of the response's body in the text.
enum ResponseFraming {
    /// This many bytes are left.
    Length(u64),
    Chunked(Box<ChunkedDecoder>),
}

impl StreamTransport {
    fn new(request: Request<RecvStream>, respond: SendResponse<Bytes>) -> Self {
        let (parts, body) = request.into_parts();
        let has_length = parts.headers.contains_key(CONTENT_LENGTH);
        let framing = match body.is_end_stream() {
            true => RequestFraming::Ended,
            false if has_length => RequestFraming::Plain,
            false => RequestFraming::Chunked,
        };
        let target = parts.uri.path_and_query().map_or("*", |target| target.as_str());
        let mut head = format!("{} {target} HTTP/1.1\r\n", parts.method).into_bytes();
        if let Some(authority) = parts.uri.authority() {
            write_line(HOST.as_str(), authority.as_str().as_bytes(), &mut head);
        }
        for (name, value) in &parts.headers {
            write_line(name.as_str(), value.as_bytes(), &mut head);
        }
        if framing == RequestFraming::Chunked {
            write_line("transfer-encoding", b"chunked", &mut head);
        }
        head.extend_from_slice(b"\r\n");
        Self {
            head,
            read: 0,
            data: Bytes::new(),
            body,
            framing,
            response: RefCell::new(ResponseState::Head(respond, Vec::new())),
            is_head_request: parts.method == Method::HEAD,
        }
    }

    /// Waits until the client gives the stream up, unless the response has ended.
    fn poll_given_up(&self, context: &mut Context<'_>) -> Poll<()> {
        match &mut *self.response.borrow_mut() {
            ResponseState::Head(respond, _) => respond.poll_reset(context).map(|_| ()),
            ResponseState::Body(body, _) => body.poll_reset(context).map(|_| ()),
            ResponseState::Ended => Poll::Ready(()),
        }
    }

    /// Reads the next piece of the body, with its framing.
    fn poll_body(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match ready!(self.body.poll_data(context)) {
            Some(Ok(data)) => {
                let _ = self.body.flow_control().release_capacity(data.len());
                self.data = if self.framing == RequestFraming::Chunked && !data.is_empty() {
                    let size = format!("{:x}\r\n", data.len());
                    [size.as_bytes(), &data, b"\r\n"].concat().into()
                } else {
                    data
                };
            }
            Some(Err(error)) => return Poll::Ready(Err(io::Error::other(error))),
            None => {
                if self.framing == RequestFraming::Chunked {
                    self.data = Bytes::from_static(b"0\r\n\r\n");
                }
                self.framing = RequestFraming::Ended;
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for StreamTransport {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let own = self.get_mut();
        loop {
            let head = own.head.get(own.read..).unwrap_or_default();
            if !head.is_empty() {
                let piece = head.get(..buffer.remaining()).unwrap_or(head);
                buffer.put_slice(piece);
                own.read += piece.len();
                return Poll::Ready(Ok(()));
            }
            if !own.data.is_empty() {
                let piece = own.data.split_to(own.data.len().min(buffer.remaining()));
                buffer.put_slice(&piece);
                return Poll::Ready(Ok(()));
            }
            if own.framing == RequestFraming::Ended {
                return own.poll_given_up(context).map(|()| Ok(()));
            }
            ready!(own.poll_body(context))?;
        }
    }
}

impl AsyncWrite for StreamTransport {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let own = self.get_mut();
        let state = &mut *own.response.borrow_mut();
        match state {
            ResponseState::Head(respond, text) => {
                let before = text.len();
                text.extend_from_slice(bytes);
                let Some(end) = head_end(text) else { return Poll::Ready(Ok(bytes.len())) };
                let (response, framing) = read_head(&text[..end])?;
                if response.status().is_informational() {
                    text.clear();
                    respond.send_informational(response).map_err(io::Error::other)?;
                    return Poll::Ready(Ok(end - before));
                }
                let framing = framing.filter(|_| !own.is_head_request);
                let ends = framing.is_none();
                let body = respond.send_response(response, ends).map_err(io::Error::other)?;
                *state = match framing {
                    Some(framing) => ResponseState::Body(body, framing),
                    None => ResponseState::Ended,
                };
                Poll::Ready(Ok(end - before))
            }
            ResponseState::Body(body, framing) => {
                let (taken, ended) = ready!(poll_send(context, body, framing, bytes))?;
                if ended {
                    *state = ResponseState::Ended;
                }
                Poll::Ready(Ok(taken))
            }
            ResponseState::Ended => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl OriginTransport for StreamTransport {
    fn reset(&self) {
        match &mut *self.response.borrow_mut() {
            ResponseState::Head(respond, _) => respond.send_reset(Reason::INTERNAL_ERROR),
            ResponseState::Body(body, _) => body.send_reset(Reason::INTERNAL_ERROR),
            ResponseState::Ended => {}
        }
    }
}

impl Drop for StreamTransport {
    /// A response that breaks off is no whole one.
    fn drop(&mut self) {
        self.reset();
    }
}

/// Sends a piece of a body as far as the windows have room; returns the bytes of `text` that are
/// done with, and true at the end of the body.
fn poll_send(
    context: &mut Context<'_>,
    body: &mut SendStream<Bytes>,
    framing: &mut ResponseFraming,
    text: &[u8],
) -> Poll<io::Result<(usize, bool)>> {
    let wanted = text.len().min(PIECE);
    body.reserve_capacity(wanted);
    // A poll is ready only when the capacity grows, and framing uses none of it.
    let mut room = body.capacity();
    while room == 0 && wanted > 0 {
        room = match ready!(body.poll_capacity(context)) {
            Some(Ok(room)) => room,
            Some(Err(error)) => return Poll::Ready(Err(io::Error::other(error))),
            None => return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
        };
    }
    let room = room.min(wanted);
    let piece = text.get(..room).unwrap_or(text);
    let (taken, data, ended) = match framing {
        ResponseFraming::Length(left) => {
            let own = usize::try_from(*left).unwrap_or(usize::MAX).min(piece.len());
            *left -= own as u64;
            (own, 0..own, *left == 0)
        }
        ResponseFraming::Chunked(decoder) => {
            let malformed = |_| io::Error::from(io::ErrorKind::InvalidData);
            match decoder.step(piece).map_err(malformed)? {
                (used, Step::Data(range)) => (used, range, false),
                (used, Step::More) => (used, 0..0, false),
                (used, Step::End) => (used, 0..0, true),
            }
        }
    };
    let data = Bytes::copy_from_slice(piece.get(data).unwrap_or_default());
    if ended || data.has_remaining() {
        body.send_data(data, ended).map_err(io::Error::other)?;
    }
    Poll::Ready(Ok((taken, ended)))
}

fn write_line(name: &str, value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// The end of a head, with its empty line.
fn head_end(text: &[u8]) -> Option<usize> {
    let at = text.windows(4).position(|bytes| bytes == b"\r\n\r\n")?;
    Some(at + 4)
}

/// Reads the head of a response; returns the framing of its body, if it has one.
fn read_head(text: &[u8]) -> io::Result<(Response<()>, Option<ResponseFraming>)> {
    let invalid = || io::Error::from(io::ErrorKind::InvalidData);
    let mut lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_end);
    let status = lines.next().and_then(|line| line.get(9..12)).ok_or_else(invalid)?;
    let mut response = Response::new(());
    *response.status_mut() = StatusCode::from_bytes(status).map_err(|_| invalid())?;
    let mut framing = None;
    for line in lines.filter(|line| !line.is_empty()) {
        let colon = line.iter().position(|byte| *byte == b':').ok_or_else(invalid)?;
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        match name.to_ascii_lowercase().as_slice() {
            b"connection" => continue,
            b"transfer-encoding" => {
                framing = Some(ResponseFraming::Chunked(Box::new(ChunkedDecoder::new())));
                continue;
            }
            b"content-length" => {
                let length = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
                let length: u64 = length.ok_or_else(invalid)?;
                framing = (length > 0).then_some(ResponseFraming::Length(length));
            }
            _ => {}
        }
        let name = HeaderName::from_bytes(name).map_err(|_| invalid())?;
        let value = HeaderValue::from_bytes(value).map_err(|_| invalid())?;
        response.headers_mut().append(name, value);
    }
    Ok((response, framing))
}
