//! One end of a connection, client or origin, driven step by step. Every wait is bounded in virtual
//! time, and its panic names what was awaited.

use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::time::timeout;
use weir_proxy::net::Socket;
use weir_simnet::SimStream;

/// Longer than any timeout that a scenario configures or that it uses by default.
const PATIENCE: Duration = Duration::from_mins(5);

/// A client, or an origin's end of a connection.
pub(crate) struct Peer {
    stream: SimStream,
    buffer: Vec<u8>,
}

/// A request or a response as received.
#[derive(Debug)]
pub(crate) struct Message {
    /// The first line.
    pub(crate) first: String,
    /// The header names, in lower case, with values, in order.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// The data of the chunks, if the body was chunked.
    pub(crate) chunks: Vec<String>,
    /// The trailer lines of a chunked body.
    pub(crate) trailers: Vec<String>,
    /// The head as received.
    pub(crate) raw_head: String,
}

/// The end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Closed,
    Reset,
}

impl Message {
    /// Returns the status of a response.
    pub(crate) fn status(&self) -> u16 {
        let status = self.first.split(' ').nth(1).and_then(|status| status.parse().ok());
        status.unwrap_or_else(|| panic!("no status in {:?}", self.first))
    }

    /// Returns the values of a header, in order.
    pub(crate) fn all(&self, name: &str) -> Vec<&str> {
        let lines = self.headers.iter().filter(|(other, _)| other == name);
        lines.map(|(_, value)| value.as_str()).collect()
    }

    /// Returns the only value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let values = self.all(name);
        assert!(values.len() < 2, "{name} is there {} times", values.len());
        values.first().copied()
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

impl Peer {
    pub(crate) fn new(stream: SimStream) -> Self {
        Self { stream, buffer: Vec::new() }
    }

    /// Returns the connection, of which nothing was read yet.
    pub(crate) fn into_stream(self) -> SimStream {
        assert!(self.buffer.is_empty());
        self.stream
    }

    /// Sends all bytes.
    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let sent = timeout(PATIENCE, self.stream.write_all(bytes.as_ref())).await;
        sent.expect("the other side takes what is sent").expect("the connection carries it");
    }

    /// Sends all bytes, unless the other side closes.
    pub(crate) async fn try_send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.stream.write_all(bytes).await
    }

    /// Reads once.
    pub(crate) async fn try_read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        self.stream.read(into).await
    }

    /// Sends at most `most` bytes, until the other side has accepted none for a second, and returns
    /// their number.
    pub(crate) async fn send_what_fits(&mut self, most: usize) -> usize {
        let block = [b'x'; 4096];
        let mut sent = 0;
        while sent < most {
            let part = &block[..block.len().min(most - sent)];
            match timeout(Duration::from_secs(1), self.stream.write(part)).await {
                Ok(Ok(count)) => sent += count,
                Ok(Err(error)) => panic!("the connection broke after {sent} bytes: {error}"),
                Err(_) => break,
            }
        }
        sent
    }

    /// Sends all bytes without a pause and reads at the same time, until `answers` bytes have
    /// arrived. `look` is called after each progress.
    pub(crate) async fn flood(&mut self, bytes: &[u8], answers: usize, mut look: impl FnMut()) {
        let (mut sent, mut read) = (0, 0);
        let mut buffer = vec![0; 65_536];
        let flooded = std::future::poll_fn(|context| {
            loop {
                let mut room = ReadBuf::new(&mut buffer);
                let stream = &mut self.stream;
                let rest = bytes.get(sent..).unwrap_or_default();
                let wrote = match rest {
                    [] => Poll::Pending,
                    rest => Pin::new(&mut *stream).poll_write(context, rest),
                };
                let came = Pin::new(&mut *stream).poll_read(context, &mut room);
                let waits = wrote.is_pending() && came.is_pending();
                if let Poll::Ready(count) = wrote {
                    sent += count.expect("the connection carries it");
                }
                if let Poll::Ready(came) = came {
                    came.expect("the connection carries it");
                    assert!(!room.filled().is_empty(), "closed after {read} bytes");
                    read += room.filled().len();
                }
                look();
                if sent == bytes.len() && read >= answers {
                    return Poll::Ready(());
                }
                if waits {
                    return Poll::Pending;
                }
            }
        });
        timeout(PATIENCE, flooded).await.expect("all of it is answered");
    }

    /// Closes the connection with a reset.
    pub(crate) fn reset(self) {
        self.stream.reset_on_close();
    }

    /// Shuts down the sending direction.
    pub(crate) async fn finish(&mut self) {
        self.stream.shutdown().await.unwrap();
    }

    /// Reads once and returns the number of bytes, or the end of the connection.
    async fn fill(&mut self, what: &str) -> Result<usize, End> {
        let read = timeout(PATIENCE, self.stream.read_buf(&mut self.buffer)).await;
        match read.unwrap_or_else(|_| panic!("{what} did not come; there is {}", self.shown())) {
            Ok(0) => Err(End::Closed),
            Ok(count) => Ok(count),
            Err(_) => Err(End::Reset),
        }
    }

    async fn more(&mut self, what: &str) {
        if let Err(end) = self.fill(what).await {
            panic!("{end:?} before {what} came; there is {}", self.shown());
        }
    }

    fn shown(&self) -> String {
        String::from_utf8_lossy(&self.buffer)
            .chars()
            .take(400)
            .collect::<String>()
            .escape_debug()
            .to_string()
    }

    fn take(&mut self, count: usize) -> Vec<u8> {
        self.buffer.drain(..count).collect()
    }

    /// Reads a head without its body.
    pub(crate) async fn head(&mut self) -> Message {
        let end = loop {
            if let Some(at) = find(&self.buffer, b"\r\n\r\n") {
                break at;
            }
            self.more("the end of a head").await;
        };
        let raw_head = String::from_utf8(self.take(end + 4)).unwrap();
        let mut lines = raw_head.trim_end_matches("\r\n").split("\r\n");
        let first = lines.next().unwrap().to_owned();
        let headers = lines.map(|line| {
            let (name, value) = line.split_once(':').unwrap_or_else(|| panic!("line {line:?}"));
            (name.to_ascii_lowercase(), value.trim().to_owned())
        });
        let headers = headers.collect();
        let (body, chunks, trailers) = (Vec::new(), Vec::new(), Vec::new());
        Message { first, headers, body, chunks, trailers, raw_head }
    }

    /// Reads a whole message; not for a response to HEAD.
    pub(crate) async fn message(&mut self) -> Message {
        let mut message = self.head().await;
        let response = message.first.starts_with("HTTP/");
        if response && matches!(message.status(), 100..200 | 204 | 304) {
            return message;
        }
        if message.header("transfer-encoding").is_some() {
            assert_eq!(message.header("content-length"), None);
            while let Some(chunk) = self.chunk().await {
                message.body.extend_from_slice(chunk.as_bytes());
                message.chunks.push(chunk);
            }
            message.trailers = self.trailers().await;
        } else if let Some(length) = message.header("content-length") {
            let length = length.parse().unwrap();
            message.body = self.exactly(length).await;
        } else if response {
            let (body, end) = self.rest().await;
            assert_eq!(end, End::Closed, "a body until close ends cleanly");
            message.body = body;
        }
        message
    }

    /// Waits without a bound for a message; `None` when the connection ends first.
    pub(crate) async fn next_message(&mut self) -> Option<Message> {
        if self.buffer.is_empty()
            && !matches!(self.stream.read_buf(&mut self.buffer).await, Ok(1..))
        {
            return None;
        }
        Some(self.message().await)
    }

    /// Reads a chunk; `None` for the last one, whose trailers follow.
    pub(crate) async fn chunk(&mut self) -> Option<String> {
        let line = self.line().await;
        let length = usize::from_str_radix(&line, 16).unwrap_or_else(|_| panic!("chunk {line:?}"));
        if length == 0 {
            return None;
        }
        let chunk = self.exactly(length).await;
        assert_eq!(self.exactly(2).await, b"\r\n");
        Some(String::from_utf8(chunk).unwrap())
    }

    /// Reads trailer lines up to the empty one.
    pub(crate) async fn trailers(&mut self) -> Vec<String> {
        let mut trailers = Vec::new();
        loop {
            let line = self.line().await;
            if line.is_empty() {
                return trailers;
            }
            trailers.push(line);
        }
    }

    async fn line(&mut self) -> String {
        loop {
            if let Some(at) = find(&self.buffer, b"\r\n") {
                let line = self.take(at + 2);
                return String::from_utf8(line[..at].to_vec()).unwrap();
            }
            self.more("the end of a line").await;
        }
    }

    /// Reads this many bytes.
    pub(crate) async fn exactly(&mut self, count: usize) -> Vec<u8> {
        while self.buffer.len() < count {
            self.more("a body").await;
        }
        self.take(count)
    }

    /// Reads exactly this many bytes from the network and drops them.
    pub(crate) async fn discard(&mut self, count: usize) {
        let read = timeout(PATIENCE, self.stream.read_exact(&mut vec![0; count])).await;
        read.expect("something comes").expect("the connection carries it");
    }

    /// Reads these bytes.
    pub(crate) async fn expect(&mut self, text: &str) {
        let bytes = self.exactly(text.len()).await;
        assert_eq!(String::from_utf8_lossy(&bytes), text);
    }

    /// Reads everything up to the end; returns the bytes and the kind of end.
    pub(crate) async fn rest(&mut self) -> (Vec<u8>, End) {
        loop {
            if let Err(end) = self.fill("the end of the connection").await {
                return (std::mem::take(&mut self.buffer), end);
            }
        }
    }

    /// Checks that the other side closes in order and sends nothing more.
    pub(crate) async fn expect_closed(&mut self) {
        let (rest, end) = self.rest().await;
        assert_eq!((String::from_utf8_lossy(&rest).as_ref(), end), ("", End::Closed));
    }

    /// Checks that the connection ends, in either way, and no more bytes arrive.
    pub(crate) async fn expect_end(&mut self) {
        assert_eq!(String::from_utf8_lossy(&self.rest().await.0), "");
    }

    /// Checks that nothing arrives for this long, not even the end.
    pub(crate) async fn expect_silence(&mut self, duration: Duration) {
        assert_eq!(self.shown(), "");
        let read = timeout(duration, self.stream.read_buf(&mut self.buffer)).await;
        assert!(read.is_err(), "{read:?}: {}", self.shown());
    }

    /// Reads the bytes that have arrived and returns their number.
    pub(crate) async fn waiting(&mut self) -> u64 {
        while let Ok(Ok(1..)) =
            timeout(Duration::from_millis(1), self.stream.read_buf(&mut self.buffer)).await
        {
        }
        std::mem::take(&mut self.buffer).len() as u64
    }

    /// Returns true if the connection is open and no byte arrives within a millisecond.
    pub(crate) async fn is_open(&mut self) -> bool {
        timeout(Duration::from_millis(1), self.stream.read_buf(&mut self.buffer)).await.is_err()
    }
}

fn find(bytes: &[u8], sought: &[u8]) -> Option<usize> {
    bytes.windows(sought.len()).position(|window| window == sought)
}
