//! The bytes of an HTTP/2 connection on their way to `h2` and from it: counts frames, ends a turn
//! after so many bytes and frames, and passes on no more once the client has exceeded a budget.

use std::cell::{Cell, RefCell};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::connection::http2::first_frames::FirstFrames;
use crate::connection::http2::shared::SharedState;
use crate::limits::{
    HTTP2_DENSE_FRAME, HTTP2_DENSE_READ, HTTP2_FRAME_COST, HTTP2_JOINED_BYTES, HTTP2_TURN_BYTES,
};
use crate::net::Net;
use crate::net::transport::Transport;
use crate::time::instant::Instant;
use crate::time::turns::end_turn;

/// The connection, which outlives `h2`'s use of it.
pub(crate) type SharedTransport<N> = Rc<RefCell<Transport<<N as Net>::Stream>>>;

/// A connection whose frames are counted.
pub(crate) struct MeteredIo<N: Net> {
    transport: SharedTransport<N>,
    shared: Rc<SharedState<N>>,
    turn: Rc<ReadTurn>,
    /// The bytes that were read before.
    early: Vec<u8>,
    /// Set if the last read brought many frames for its length, and before the first.
    is_dense: bool,
    first: FirstFrames,
}

/// The rest of a turn of the connection's task.
pub(crate) struct ReadTurn {
    now: Cell<Instant>,
    left: Cell<usize>,
    /// The bytes within TLS that were not sent yet; `None` between turns, when all are sent at
    /// once.
    joined: Cell<Option<usize>>,
}

impl ReadTurn {
    pub(crate) fn new(now: Instant) -> Self {
        let (now, left) = (Cell::new(now), Cell::new(HTTP2_TURN_BYTES));
        Self { now, left, joined: Cell::new(None) }
    }

    /// Begins a turn: the frames that are written in it leave together at its end.
    pub(crate) fn begin(&self, now: Instant) {
        self.now.set(now);
        self.left.set(HTTP2_TURN_BYTES);
        self.joined.set(Some(0));
    }

    /// Ends the turn; returns true if frames wait for a flush.
    pub(crate) fn end(&self) -> bool {
        self.joined.take().is_some_and(|bytes| bytes > 0)
    }
}

impl<N: Net> MeteredIo<N> {
    pub(crate) fn new(
        transport: SharedTransport<N>,
        shared: Rc<SharedState<N>>,
        turn: Rc<ReadTurn>,
        early: Vec<u8>,
    ) -> Self {
        let first = FirstFrames::new(&early);
        Self { transport, shared, turn, early, is_dense: true, first }
    }

    /// Keeps bytes that wait for others; returns their number.
    #[inline]
    fn hold(&mut self, bytes: &[u8]) -> Option<usize> {
        let kept = self.first.hold(bytes)?;
        self.shared.meter.borrow_mut().wrote(bytes.get(..kept).unwrap_or_default());
        Some(kept)
    }

    /// Encrypts bytes that leave with others of this turn; returns their number. `None` if they
    /// have to be written: without TLS, or outside of a turn.
    fn poll_join(
        &mut self,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<Option<io::Result<usize>>> {
        let Some(joined) = self.turn.joined.get() else { return Poll::Ready(None) };
        let mut transport = self.transport.borrow_mut();
        if joined >= HTTP2_JOINED_BYTES {
            if let Err(error) = ready!(Pin::new(&mut *transport).poll_flush(context)) {
                return Poll::Ready(Some(Err(error)));
            }
            self.turn.joined.set(Some(0));
        }
        let joined = transport.enqueue(pieces).filter(|count| !matches!(count, Ok(0)));
        if let Some(Ok(count)) = joined {
            self.shared.meter.borrow_mut().wrote_pieces(pieces, count);
            let before = self.turn.joined.get().unwrap_or(0);
            self.turn.joined.set(Some(before + count));
        }
        Poll::Ready(joined)
    }

    /// Sends the bytes that were kept.
    #[inline]
    fn poll_send_held(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.first.poll_send(context, &mut *self.transport.borrow_mut())
    }
}

impl<N: Net> Unpin for MeteredIo<N> {}

impl<N: Net> AsyncRead for MeteredIo<N> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let own = self.get_mut();
        if own.shared.meter.borrow().excess().is_some() {
            // The connection's task ends it.
            return Poll::Pending;
        }
        if own.turn.left.get() == 0 {
            end_turn(context);
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        // `h2` handles all frames of a read before its caller runs again.
        let most = if own.is_dense { HTTP2_DENSE_READ } else { usize::MAX };
        let most = most.min(buffer.remaining());
        if own.early.is_empty() {
            let mut transport = own.transport.borrow_mut();
            let transport = Pin::new(&mut *transport);
            if own.is_dense {
                let mut part = ReadBuf::new(buffer.initialize_unfilled_to(most));
                ready!(transport.poll_read(context, &mut part))?;
                let count = part.filled().len();
                buffer.advance(count);
            } else {
                ready!(transport.poll_read(context, buffer))?;
            }
        } else {
            let count = own.early.len().min(most);
            buffer.put_slice(own.early.get(..count).unwrap_or_default());
            own.early.drain(..count);
            if own.early.is_empty() {
                own.early = Vec::new();
            }
        }
        let read = buffer.filled().get(before..).unwrap_or_default();
        let frames = own.shared.meter.borrow_mut().received(read, own.turn.now.get());
        own.is_dense = frames * HTTP2_DENSE_FRAME > read.len();
        let cost = read.len() + frames * HTTP2_FRAME_COST;
        own.turn.left.set(own.turn.left.get().saturating_sub(cost));
        Poll::Ready(Ok(()))
    }
}

impl<N: Net> AsyncWrite for MeteredIo<N> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let own = self.get_mut();
        if let Some(kept) = own.hold(bytes) {
            return Poll::Ready(Ok(kept));
        }
        ready!(own.poll_send_held(context))?;
        if let Some(joined) = ready!(own.poll_join(context, &[IoSlice::new(bytes)])) {
            return Poll::Ready(joined);
        }
        let written =
            ready!(Pin::new(&mut *own.transport.borrow_mut()).poll_write(context, bytes))?;
        own.shared.meter.borrow_mut().wrote(bytes.get(..written).unwrap_or_default());
        Poll::Ready(Ok(written))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let own = self.get_mut();
        let first = pieces.iter().find(|piece| !piece.is_empty());
        if let Some(kept) = first.and_then(|first| own.hold(first)) {
            return Poll::Ready(Ok(kept));
        }
        ready!(own.poll_send_held(context))?;
        if let Some(joined) = ready!(own.poll_join(context, pieces)) {
            return Poll::Ready(joined);
        }
        let mut transport = own.transport.borrow_mut();
        let written = ready!(Pin::new(&mut *transport).poll_write_vectored(context, pieces))?;
        own.shared.meter.borrow_mut().wrote_pieces(pieces, written);
        Poll::Ready(Ok(written))
    }

    fn is_write_vectored(&self) -> bool {
        self.transport.borrow().is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let own = self.get_mut();
        if own.first.waits_at_flush() {
            return Poll::Ready(Ok(()));
        }
        ready!(own.poll_send_held(context))?;
        if own.turn.joined.get().is_some_and(|bytes| bytes > 0) {
            // The turn's end sends them.
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut *own.transport.borrow_mut()).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let own = self.get_mut();
        ready!(own.poll_send_held(context))?;
        Pin::new(&mut *own.transport.borrow_mut()).poll_shutdown(context)
    }
}
