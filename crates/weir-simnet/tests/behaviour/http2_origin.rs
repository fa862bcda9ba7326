//! Origins that speak HTTP/2: one driven by frames (`Http2Peer` at the other end), and one whose
//! requests are read by the crate `h2`, because a client compresses their heads.

use std::future::pending;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use h2::RecvStream;
use h2::server::{Builder, SendResponse};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Notify, mpsc};
use tokio::task::spawn_local;
use tokio::time::timeout;

use crate::http2_peer::{Http2Peer, SETTINGS};
use crate::origin::Origin;

/// The bytes that begin a connection.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The longest wait for an event that a scenario expects.
const PATIENCE: Duration = Duration::from_mins(5);

/// A connection whose streams are read by `h2`.
pub(crate) struct Http2Connection {
    streams: mpsc::UnboundedReceiver<OriginStream>,
    /// Makes it read and write nothing any more, as if the host were gone.
    vanish: Rc<Notify>,
    /// Makes it end in the two steps of a GOAWAY.
    leave: Rc<Notify>,
}

/// The word of a server about WebSockets over HTTP/2, in its SETTINGS (RFC 8441).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum WebSockets {
    Taken,
    NotTaken,
}

/// A request, and the response to it.
pub(crate) struct OriginStream {
    pub(crate) request: Request<RecvStream>,
    respond: SendResponse<Bytes>,
}

/// The body of a response in progress.
pub(crate) struct OriginBody(h2::SendStream<Bytes>);

impl Origin {
    /// Waits for the next connection, sends these settings and reads the client's.
    pub(crate) async fn accept_frames(&self, settings: &[(u16, u32)]) -> Http2Peer {
        let mut peer = self.accept().await;
        assert_eq!(peer.exactly(PREFACE.len()).await, PREFACE);
        let mut connection = Http2Peer::of(peer);
        let field =
            |(id, value): &(u16, u32)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat();
        let payload: Vec<u8> = settings.iter().flat_map(field).collect();
        connection.send(SETTINGS, 0, 0, &payload).await;
        connection
    }

    /// Waits for the next connection of HTTP/2 that permits this number of streams at once.
    pub(crate) async fn accept_http2(&self, streams: u32) -> Http2Connection {
        let stream = self.accept().await.into_stream();
        Http2Connection::serve(stream, streams, WebSockets::Taken)
    }
}

impl Http2Connection {
    /// Serves HTTP/2 on a connection.
    pub(crate) fn serve(
        io: impl AsyncRead + AsyncWrite + Unpin + 'static,
        streams: u32,
        websockets: WebSockets,
    ) -> Self {
        let (sender, receiver) = mpsc::unbounded_channel();
        let (vanish, leave) = (Rc::new(Notify::new()), Rc::new(Notify::new()));
        let (vanishes, leaves) = (Rc::clone(&vanish), Rc::clone(&leave));
        spawn_local(async move {
            let mut builder = Builder::new();
            builder.max_concurrent_streams(streams);
            if websockets == WebSockets::Taken {
                builder.enable_connect_protocol();
            }
            let handshake = builder.handshake(io);
            let Ok(mut connection) = handshake.await else { return };
            loop {
                tokio::select! {
                    () = vanishes.notified() => pending().await,
                    () = leaves.notified() => connection.graceful_shutdown(),
                    begun = connection.accept() => match begun {
                        Some(Ok((request, respond))) => {
                            let _ = sender.send(OriginStream { request, respond });
                        }
                        Some(Err(_)) | None => return,
                    },
                }
            }
        });
        Self { streams: receiver, vanish, leave }
    }

    /// Waits for the next request.
    pub(crate) async fn request(&mut self) -> OriginStream {
        let next = timeout(PATIENCE, self.streams.recv()).await;
        next.expect("a request comes").expect("the connection is open")
    }

    /// Checks that no request comes for a second.
    pub(crate) async fn expect_no_request(&mut self) {
        let next = timeout(Duration::from_secs(1), self.streams.recv()).await;
        assert!(next.is_err(), "a request, or the end of the connection");
    }

    /// Waits for the end of the connection.
    pub(crate) async fn expect_end(&mut self) {
        let next = timeout(PATIENCE, self.streams.recv()).await;
        assert!(next.expect("the connection ends").is_none(), "a request");
    }

    /// Reads and sends nothing any more.
    pub(crate) fn vanish(&self) {
        self.vanish.notify_one();
    }

    /// Tells the client to begin no more streams.
    pub(crate) fn leave(&self) {
        self.leave.notify_one();
    }
}

impl OriginStream {
    /// The value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.request.headers().get(name).map(|value| value.to_str().unwrap())
    }

    /// Reads the next bytes of the body; `None` at its end.
    pub(crate) async fn data(&mut self) -> Option<String> {
        let body = self.request.body_mut();
        let data = timeout(PATIENCE, body.data()).await.expect("bytes or an end")?.unwrap();
        body.flow_control().release_capacity(data.len()).unwrap();
        Some(String::from_utf8(data.to_vec()).unwrap())
    }

    /// Reads the rest of the body, and the trailers.
    pub(crate) async fn body(&mut self) -> (String, HeaderMap) {
        let mut text = String::new();
        while let Some(data) = self.data().await {
            text.push_str(&data);
        }
        let trailers = self.request.body_mut().trailers().await.unwrap();
        (text, trailers.unwrap_or_default())
    }

    /// Waits until the client resets the stream; returns the code.
    pub(crate) async fn reset(mut self) -> h2::Reason {
        let reset = std::future::poll_fn(|context| self.respond.poll_reset(context));
        timeout(PATIENCE, reset).await.expect("the stream is reset").unwrap()
    }

    /// Sends an interim response.
    pub(crate) fn inform(&mut self, status: u16, fields: &[(&str, &str)]) {
        self.respond.send_informational(head(status, fields)).unwrap();
    }

    /// Reads what has come without giving room for more, until nothing comes for a second; returns
    /// the number of bytes.
    pub(crate) async fn hold_what_comes(&mut self) -> usize {
        let mut held = 0;
        while let Ok(Some(data)) =
            timeout(Duration::from_secs(1), self.request.body_mut().data()).await
        {
            held += data.unwrap().len();
        }
        held
    }

    /// Sends a response that consists of its head.
    pub(crate) fn end(mut self, status: u16, fields: &[(&str, &str)]) {
        self.respond.send_response(head(status, fields), true).unwrap();
    }

    /// Begins a response.
    pub(crate) fn begin(&mut self, status: u16, fields: &[(&str, &str)]) -> OriginBody {
        OriginBody(self.respond.send_response(head(status, fields), false).unwrap())
    }

    /// Sends a response with this body.
    pub(crate) fn answer(mut self, body: &'static str) {
        self.begin(200, &[]).finish(body);
    }

    /// Resets the stream.
    pub(crate) fn refuse(mut self, reason: h2::Reason) {
        self.respond.send_reset(reason);
    }
}

impl OriginBody {
    /// Sends bytes.
    pub(crate) fn send(&mut self, bytes: &'static str) {
        self.0.send_data(Bytes::from_static(bytes.as_bytes()), false).unwrap();
    }

    /// Sends the last bytes.
    pub(crate) fn finish(mut self, bytes: &'static str) {
        self.0.send_data(Bytes::from_static(bytes.as_bytes()), true).unwrap();
    }

    /// Sends trailers.
    pub(crate) fn trailers(mut self, fields: &[(&str, &str)]) {
        let mut trailers = HeaderMap::new();
        for (name, value) in fields {
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
            trailers.append(name, HeaderValue::from_str(value).unwrap());
        }
        self.0.send_trailers(trailers).unwrap();
    }

    /// Waits until the client resets the stream; returns the code.
    pub(crate) async fn reset_by_client(mut self) -> h2::Reason {
        let reset = std::future::poll_fn(|context| self.0.poll_reset(context));
        timeout(PATIENCE, reset).await.expect("the stream is reset").unwrap()
    }

    /// Resets the stream.
    pub(crate) fn reset(mut self, reason: h2::Reason) {
        self.0.send_reset(reason);
    }

    /// Sends messages, each in a frame of its own, until the windows permit no more.
    pub(crate) async fn send_messages(&mut self, message: &'static [u8]) {
        loop {
            self.0.reserve_capacity(message.len());
            let room = std::future::poll_fn(|context| self.0.poll_capacity(context));
            let Ok(Some(Ok(room))) = timeout(Duration::from_secs(1), room).await else { return };
            if room < message.len() {
                return;
            }
            self.0.send_data(Bytes::from_static(message), false).unwrap();
            // A frame is not joined with the next one.
            tokio::task::yield_now().await;
        }
    }

    /// Sends this number of bytes, as the windows permit it.
    pub(crate) async fn send_all(&mut self, bytes: usize) {
        let mut left = bytes;
        while left > 0 {
            self.0.reserve_capacity(left.min(16 * 1024));
            let room = std::future::poll_fn(|context| self.0.poll_capacity(context));
            let room = timeout(PATIENCE, room).await.expect("the client reads");
            let room = room.unwrap().unwrap().min(left);
            self.0.send_data(Bytes::from(vec![b'x'; room]), false).unwrap();
            left -= room;
        }
    }

    /// Sends as many bytes as the windows permit within the time that passes without progress;
    /// returns their number.
    pub(crate) async fn send_what_fits(&mut self) -> usize {
        let mut sent = 0;
        loop {
            self.0.reserve_capacity(16 * 1024);
            let room = std::future::poll_fn(|context| self.0.poll_capacity(context));
            let Ok(Some(Ok(room))) = timeout(Duration::from_secs(1), room).await else {
                return sent;
            };
            self.0.send_data(Bytes::from(vec![b'x'; room]), false).unwrap();
            sent += room;
        }
    }
}

fn head(status: u16, fields: &[(&str, &str)]) -> Response<()> {
    let mut response = Response::builder().status(status);
    for (name, value) in fields {
        response = response.header(*name, *value);
    }
    response.body(()).unwrap()
}
