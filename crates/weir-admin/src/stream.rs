//! A connection to the admin interface: it buffers the bytes read to detect the protocol, and it
//! ends a connection on which neither side makes progress for too long. It does not parse a
//! protocol.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// A stream with an idle timeout.
pub(crate) struct AdminStream<S> {
    stream: S,
    /// The bytes that were read but not handed on yet.
    head: Vec<u8>,
    patience: Duration,
    idle: Pin<Box<Sleep>>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> AdminStream<S> {
    pub(crate) fn new(stream: S, patience: Duration) -> Self {
        Self { stream, head: Vec::new(), patience, idle: Box::pin(sleep(patience)) }
    }

    /// Waits for the first bytes and keeps them for reading; returns the first, or `None` at the
    /// end of the stream.
    pub(crate) async fn peek(&mut self) -> io::Result<Option<u8>> {
        if self.head.is_empty() {
            let mut head = Vec::with_capacity(1024);
            self.read_buf(&mut head).await?;
            self.head = head;
        }
        Ok(self.head.first().copied())
    }

    /// Sets the time for which the connection may be idle from now on.
    pub(crate) fn set_patience(&mut self, patience: Duration) {
        self.patience = patience;
        self.moved();
    }

    fn moved(&mut self) {
        self.idle.as_mut().reset(Instant::now() + self.patience);
    }

    /// The result of an operation; if it is pending, it fails when the idle timeout expires.
    fn watch<T>(
        &mut self,
        context: &mut Context<'_>,
        polled: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.moved();
            return polled;
        }
        self.idle.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for AdminStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if !this.head.is_empty() {
            let count = this.head.len().min(buffer.remaining());
            buffer.put_slice(&this.head[..count]);
            this.head.drain(..count);
            return Poll::Ready(Ok(()));
        }
        let polled = Pin::new(&mut this.stream).poll_read(context, buffer);
        this.watch(context, polled)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for AdminStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watch(context, polled)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(context);
        self.watch(context, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncWriteExt, duplex};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn what_was_peeked_at_is_read_again() {
        let (mut client, server) = duplex(64);
        let mut stream = AdminStream::new(server, PATIENCE);
        client.write_all(b"GET /").await.unwrap();
        assert_eq!(stream.peek().await.unwrap(), Some(b'G'));
        assert_eq!(stream.peek().await.unwrap(), Some(b'G'));
        client.write_all(b" HTTP").await.unwrap();
        let mut read = [0; 10];
        stream.read_exact(&mut read).await.unwrap();
        assert_eq!(&read, b"GET / HTTP");
        drop(client);
        assert_eq!(stream.peek().await.unwrap(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn no_client_is_waited_for_beyond_the_timeout() {
        let (mut client, server) = duplex(4);
        let mut stream = AdminStream::new(server, PATIENCE);
        let started = Instant::now();
        assert_eq!(stream.peek().await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(started.elapsed(), PATIENCE);
        // A client that sends and never reads.
        client.write_all(b"x").await.unwrap();
        assert_eq!(stream.peek().await.unwrap(), Some(b'x'));
        let started = Instant::now();
        let error = stream.write_all(b"more than there is room for").await.unwrap_err();
        assert_eq!((error.kind(), started.elapsed()), (io::ErrorKind::TimedOut, PATIENCE));
    }
}
