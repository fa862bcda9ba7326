//! The bytes of an HTTP/2 connection to an endpoint on their way to `h2`: notes when something was
//! received, and ends a turn after so many bytes.

use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::limits::HTTP2_TURN_BYTES;
use crate::net::Socket;
use crate::net::transport::Transport;
use crate::time::instant::Instant;
use crate::time::turns::end_turn;

/// The bytes received on a connection.
pub(super) struct IoWatch {
    received: Cell<u64>,
    received_at: Cell<Instant>,
    /// The beginning of the turn, and the bytes that it may still read.
    now: Cell<Instant>,
    left: Cell<usize>,
}

impl IoWatch {
    pub(super) fn new(now: Instant) -> Rc<Self> {
        Rc::new(Self {
            received: Cell::new(0),
            received_at: Cell::new(now),
            now: Cell::new(now),
            left: Cell::new(HTTP2_TURN_BYTES),
        })
    }

    /// Begins a turn of the connection's task.
    pub(super) fn begin_turn(&self, now: Instant) {
        self.now.set(now);
        self.left.set(HTTP2_TURN_BYTES);
    }

    /// The number of bytes so far.
    pub(super) fn received(&self) -> u64 {
        self.received.get()
    }

    /// The time of the latest ones.
    pub(super) fn received_at(&self) -> Instant {
        self.received_at.get()
    }
}

/// A connection whose bytes are noted.
pub(super) struct WatchedIo<S> {
    transport: Transport<S>,
    watch: Rc<IoWatch>,
}

impl<S> WatchedIo<S> {
    pub(super) fn new(transport: Transport<S>, watch: Rc<IoWatch>) -> Self {
        Self { transport, watch }
    }
}

impl<S: Socket> AsyncRead for WatchedIo<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let own = self.get_mut();
        let left = own.watch.left.get();
        if left == 0 {
            end_turn(context);
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut own.transport).poll_read(context, buffer))?;
        let read = buffer.filled().len() - before;
        own.watch.left.set(left.saturating_sub(read));
        own.watch.received.set(own.watch.received.get() + read as u64);
        own.watch.received_at.set(own.watch.now.get());
        Poll::Ready(Ok(()))
    }
}

impl<S: Socket> AsyncWrite for WatchedIo<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().transport).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().transport).poll_write_vectored(context, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.transport.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().transport).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().transport).poll_shutdown(context)
    }
}
