//! Exchanges of a client that is no HTTP/1 connection: its stream frames bodies itself, as one of
//! HTTP/2 does, and the endpoint speaks HTTP/1 in memory.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{
    AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf, duplex,
};
use tokio::task::{LocalSet, spawn_local};
use weir_wire::{Framing, HeadLimits, RequestHead, Scan};

use crate::exchange;
use crate::exchange::body_stream::{BodySink, BodySource, BodyStream};
use crate::exchange::client_side::{
    ClientSide, ConnectionFacts, ReceivedBody, ResponseForm, ResponseStart,
};
use crate::exchange::outcome::{Ended, Next};
use crate::exchange::pump::Encoder;
use crate::exchange::scope::{Scope, ScopeParts};
use crate::exchange::state::Exchange;
use crate::http::head_writer::{BodyFraming, ConnectionLine};
use crate::net::buffers::Buffers;
use crate::net::{Net, PeerAddress, Socket};
use crate::runtime::start::tests::compiled;
use crate::time::deadline_timer::DeadlineTimer;
use crate::time::instant::Instant;
use crate::worker::Worker;
use crate::worker::process::Process;
use crate::worker::workspace::Heads;

/// A network whose endpoints all give this response, once they have received a request with this
/// end.
#[derive(Clone)]
struct MemoryNet {
    request_end: &'static str,
    response: &'static str,
    received: Rc<RefCell<String>>,
}

struct MemorySocket(DuplexStream);

impl Net for MemoryNet {
    type Stream = MemorySocket;
    type Accepted = ();
    type Listener = ();

    async fn accept(&self, _listener: &()) -> io::Result<((), PeerAddress)> {
        std::future::pending().await
    }

    fn adopt(&self, _accepted: ()) -> io::Result<MemorySocket> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn detach(&self, _stream: MemorySocket) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    async fn connect(&self, _address: &PeerAddress) -> io::Result<MemorySocket> {
        let (near, mut far) = duplex(16);
        let Self { request_end, response, received } = self.clone();
        spawn_local(async move {
            let mut bytes = Vec::new();
            while !bytes.ends_with(request_end.as_bytes()) {
                assert!(far.read_buf(&mut bytes).await.unwrap() > 0, "{}", bytes.escape_ascii());
            }
            *received.borrow_mut() = String::from_utf8(bytes).unwrap();
            far.write_all(response.as_bytes()).await.unwrap();
        });
        Ok(MemorySocket(near))
    }

    fn local_address(&self, _stream: &MemorySocket) -> Option<SocketAddr> {
        None
    }
}

impl Socket for MemorySocket {
    fn poll_closed(&mut self, _context: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }

    fn is_reset(&self) -> bool {
        false
    }

    fn reset_on_close(&self) {}
}

impl AsyncRead for MemorySocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for MemorySocket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

/// The data that a client received.
#[derive(Default, Debug)]
struct Delivered {
    head: String,
    body: String,
    /// The trailers, once the response has ended.
    end: Option<String>,
}

/// A client whose stream frames bodies itself.
struct FramedClient {
    facts: ConnectionFacts,
    timer: DeadlineTimer,
    head: Vec<u8>,
    stream: FramedStream,
}

struct FramedStream {
    body: &'static [u8],
    trailers: &'static str,
    received: Rc<RefCell<Delivered>>,
}

impl AsyncRead for FramedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let (now, later) = self.body.split_at(self.body.len().min(4).min(buffer.remaining()));
        buffer.put_slice(now);
        self.body = later;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for FramedStream {
    fn poll_write(
        self: Pin<&mut Self>,
        _context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let text = std::str::from_utf8(bytes).unwrap();
        self.received.borrow_mut().body.push_str(text);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl BodySource for FramedStream {
    fn take_trailers(&mut self) -> Vec<u8> {
        self.trailers.into()
    }
}

impl BodySink for FramedStream {
    fn poll_end(&mut self, _context: &mut Context<'_>, trailers: &[u8]) -> Poll<io::Result<()>> {
        let text = std::str::from_utf8(trailers).unwrap();
        assert_eq!(self.received.borrow_mut().end.replace(text.into()), None, "one end");
        Poll::Ready(Ok(()))
    }
}

impl BodyStream for FramedStream {
    fn poll_closed(&mut self, _context: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }

    fn is_reset(&self) -> bool {
        false
    }
}

impl ClientSide for FramedClient {
    type Net = MemoryNet;
    type Stream = FramedStream;

    fn facts(&self) -> &ConnectionFacts {
        &self.facts
    }

    fn stream(&mut self) -> &mut FramedStream {
        &mut self.stream
    }

    fn timer(&mut self) -> &mut DeadlineTimer {
        &mut self.timer
    }

    fn held(&self) -> usize {
        self.head.capacity()
    }

    async fn read_head(exchange: &mut Exchange<'_, Self>) -> Result<(), Ended> {
        let (limits, mut scan) = (HeadLimits::default(), Scan::default());
        let parsed = exchange.heads.request.parse(&exchange.client.head, &mut scan, &limits);
        assert!(parsed.unwrap().is_some(), "a whole head");
        Ok(())
    }

    fn head(&self) -> &[u8] {
        &self.head
    }

    fn head_mut(&mut self) -> &mut [u8] {
        &mut self.head
    }

    fn begin_body(&mut self, request: &RequestHead, _buffers: &Buffers) -> ReceivedBody {
        let framing = match request.framing {
            Framing::None => Framing::None,
            _ => Framing::UntilClose,
        };
        ReceivedBody { framing, raw: Vec::new() }
    }

    fn poll_gone(&mut self, context: &mut Context<'_>, _buffers: &Buffers) -> Poll<()> {
        self.stream.poll_closed(context)
    }

    fn response_form(
        &mut self,
        _: Scope<'_, MemoryNet>,
        _: &Heads,
        start: &ResponseStart,
    ) -> ResponseForm {
        let framing = match start.relayed.map(|response| response.framing) {
            Some(Framing::Length(length)) => BodyFraming::Length(length),
            _ => BodyFraming::None,
        };
        let connection = ConnectionLine::None;
        ResponseForm { framing, encoder: Encoder::Sink, connection, next: Next::KeepAlive }
    }

    fn begin_response(&mut self, out: &mut Vec<u8>) -> u64 {
        let end = out.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap() + 4;
        let head = out.drain(..end).collect();
        self.stream.received.borrow_mut().head.push_str(&String::from_utf8(head).unwrap());
        end as u64
    }

    fn end(&mut self, _now: Instant) {}
}

/// Serves a request with this head, body and trailers; the listener has this route.
async fn serve(net: MemoryNet, route: &str, request: [&'static str; 3]) -> Delivered {
    let [head, body, trailers] = request;
    let text = format!("pool app {{ server 127.0.0.1:1; }} listen 127.0.0.1:0 {{ {route} }}");
    let (process, _notices) = Process::new(compiled(&text, Vec::new(), None), 1, 9);
    let load = process.loads[0].clone();
    let worker = Rc::new(Worker::new(0, net, process.clone(), load, Arc::default(), 1));
    let gate = process.snapshot().listeners[0].gate.clone();
    let now = Instant::now();
    let facts = ConnectionFacts {
        peer: None,
        since: now,
        began: now,
        taken: now,
        number: 1,
        served: 1,
        resident: worker.residents.enter(None, &gate),
        tls: None,
        may_part: false,
        lacks_tls: false,
    };
    let (seat, deadline) = (worker.seat(&gate).unwrap(), Cell::new(None));
    let parts = ScopeParts::new(&worker, &seat, &deadline, &facts).unwrap();
    let received = Rc::default();
    let stream = FramedStream { body: body.as_bytes(), trailers, received: Rc::clone(&received) };
    let client = FramedClient { facts, timer: DeadlineTimer::default(), head: head.into(), stream };
    let next = exchange::run(Scope(&parts), client, &mut Heads::default(), now).await;
    assert_eq!(next, Next::KeepAlive);
    received.take()
}

#[tokio::test(start_paused = true)]
async fn bodies_and_trailers_pass_between_a_stream_with_frames_and_an_http1_endpoint() {
    let net = MemoryNet {
        request_end: "\r\nX-Sum: 5\r\n\r\n",
        response: "HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n\
            3\r\nabc\r\n2\r\nde\r\n0\r\nX-Total: 7\r\n\r\n",
        received: Rc::default(),
    };
    let head = "POST /a/../b HTTP/1.1\r\nHost: here\r\nTE: trailers\r\n\
        Transfer-Encoding: chunked\r\n\r\n";
    let request = [head, "hello world", "X-Sum: 5\r\n"];
    let local = LocalSet::new();
    let received = local.run_until(serve(net.clone(), "route -> app;", request)).await;
    assert!(received.head.starts_with("HTTP/1.1 201 Created\r\n"), "{received:?}");
    assert!(!received.head.contains("Transfer-Encoding"), "{received:?}");
    assert_eq!(received.body, "abcde");
    assert_eq!(received.end.as_deref(), Some("X-Total: 7\r\n"));
    let sent = net.received.take();
    assert!(sent.starts_with("POST /b HTTP/1.1\r\nHost: here\r\n"), "{sent}");
    let (_, body) = sent.split_once("\r\n\r\n").unwrap();
    let pieces: Vec<&str> = body.lines().collect();
    assert_eq!(pieces, ["4", "hell", "4", "o wo", "3", "rld", "0", "X-Sum: 5", ""]);
}

#[tokio::test(start_paused = true)]
async fn a_response_without_a_body_ends_a_stream_with_frames() {
    let net = MemoryNet {
        request_end: "\r\n\r\n",
        response: "HTTP/1.1 204 No Content\r\n\r\n",
        received: Rc::default(),
    };
    let request = ["GET / HTTP/1.1\r\nHost: here\r\n\r\n", "", ""];
    let received = LocalSet::new().run_until(serve(net, "route -> app;", request)).await;
    assert!(received.head.starts_with("HTTP/1.1 204 No Content\r\n"), "{received:?}");
    assert_eq!((received.body.as_str(), received.end.as_deref()), ("", Some("")));
}

#[tokio::test(start_paused = true)]
async fn a_stream_with_frames_gets_a_response_of_weirs_own() {
    let net = MemoryNet { request_end: "", response: "", received: Rc::default() };
    let request = ["GET / HTTP/1.1\r\nHost: here\r\n\r\n", "", ""];
    let route = "route -> respond 200 \"own text\";";
    let received = LocalSet::new().run_until(serve(net, route, request)).await;
    assert!(received.head.starts_with("HTTP/1.1 200 OK\r\n"), "{received:?}");
    assert_eq!((received.body.as_str(), received.end.as_deref()), ("own text", Some("")));
}
