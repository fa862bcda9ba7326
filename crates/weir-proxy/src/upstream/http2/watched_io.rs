//! The bytes of an HTTP/2 connection to an endpoint on their way to `h2`: notes when something was
//! received, counts frames, ends a turn after so many bytes, and passes on no more once the
//! endpoint has exceeded a budget.

use std::cell::{Cell, RefCell};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use weir_stats::metrics::Http2Excess;

use crate::limiting::http2_meter::Meter;
use crate::limiting::http2_windows::SentFrames;
use crate::limits::{
    HTTP2_EMPTY_DATA, HTTP2_EMPTY_DATA_SOON, HTTP2_ENDPOINT_FRAME_COST, HTTP2_ENDPOINT_HEAD,
    HTTP2_TURN_BYTES,
};
use crate::net::Socket;
use crate::net::transport::Transport;
use crate::time::instant::Instant;
use crate::time::turns::end_turn;

/// The bytes received on a connection.
pub(super) struct IoWatch {
    meter: RefCell<Meter>,
    received: Cell<u64>,
    received_at: Cell<Instant>,
    /// The beginning of the turn, and the bytes that it may still read.
    now: Cell<Instant>,
    left: Cell<usize>,
}

impl IoWatch {
    pub(super) fn new(now: Instant) -> Rc<Self> {
        Rc::new(Self {
            meter: RefCell::new(Meter::of_endpoint(now)),
            received: Cell::new(0),
            received_at: Cell::new(now),
            now: Cell::new(now),
            left: Cell::new(HTTP2_TURN_BYTES),
        })
    }

    /// Begins a turn of the connection's task, with this number of streams begun so far.
    pub(super) fn begin_turn(&self, now: Instant, streams: u64) {
        self.meter.borrow_mut().set_requests(streams);
        self.now.set(now);
        self.left.set(HTTP2_TURN_BYTES);
    }

    /// The budget that the endpoint has exceeded.
    pub(super) fn excess(&self, now: Instant) -> Option<Http2Excess> {
        let is_late = self.head_deadline().is_some_and(|deadline| now >= deadline);
        self.meter.borrow().excess().or(is_late.then_some(Http2Excess::SlowHead))
    }

    /// The time at which a head that has begun has to be complete: nothing else comes before its
    /// end.
    pub(super) fn head_deadline(&self) -> Option<Instant> {
        Some(self.meter.borrow().open_head()? + HTTP2_ENDPOINT_HEAD)
    }

    /// Returns true if the connection has had so many frames of a kind for whose number in all `h2`
    /// ends connections that it should be left for another one, or would have if each of its
    /// streams had one more.
    pub(super) fn is_worn(&self, streams: usize) -> bool {
        let empty = self.meter.borrow().empty_data() as usize;
        empty >= HTTP2_EMPTY_DATA || empty > 0 && empty + streams >= HTTP2_EMPTY_DATA_SOON
    }

    /// The reason for which `h2` ended the connection with `ENHANCE_YOUR_CALM`.
    pub(super) fn excess_of_library(&self) -> Http2Excess {
        self.meter.borrow().excess_of_library()
    }

    /// Notes that the endpoint has to answer these frames.
    pub(super) fn expect_answers(&self, sent: SentFrames) {
        self.meter.borrow_mut().expect_answers(sent);
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
        if own.watch.meter.borrow().excess().is_some() {
            // The connection's task ends it.
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut own.transport).poll_read(context, buffer))?;
        let bytes = buffer.filled().get(before..).unwrap_or_default();
        let read = bytes.len();
        let frames = own.watch.meter.borrow_mut().received(bytes, own.watch.now.get());
        own.watch.left.set(left.saturating_sub(read + frames * HTTP2_ENDPOINT_FRAME_COST));
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
        let own = self.get_mut();
        let written = ready!(Pin::new(&mut own.transport).poll_write(context, bytes))?;
        own.watch.meter.borrow_mut().wrote(bytes.get(..written).unwrap_or_default());
        Poll::Ready(Ok(written))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let own = self.get_mut();
        let written = ready!(Pin::new(&mut own.transport).poll_write_vectored(context, pieces))?;
        own.watch.meter.borrow_mut().wrote_pieces(pieces, written);
        Poll::Ready(Ok(written))
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
