//! One end of a link as a tokio stream: `AsyncRead` and `AsyncWrite`, with timers for bytes in
//! transit.

use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};
use weir_proxy::net::Socket;

use crate::memory;
use crate::message::frames::{self, RST_STREAM, WireFrame};
use crate::network::link::{Link, LinkWait};
use crate::network::trace::LinkEnd;

/// A connection of the simulated network.
pub struct SimStream {
    link: Rc<RefCell<Link>>,
    end: LinkEnd,
    local: Option<SocketAddr>,
    read_timer: Option<Pin<Box<Sleep>>>,
    write_timer: Option<Pin<Box<Sleep>>>,
    open_links: Rc<RefCell<u32>>,
}

impl SimStream {
    pub(crate) fn new(
        link: Rc<RefCell<Link>>,
        end: LinkEnd,
        local: Option<SocketAddr>,
        open_links: Rc<RefCell<u32>>,
    ) -> Self {
        Self { link, end, local, read_timer: None, write_timer: None, open_links }
    }

    /// Returns the number of its link in the trace.
    pub fn link(&self) -> u32 {
        self.link.borrow().id
    }

    /// Returns the local address, if it has one.
    pub fn local(&self) -> Option<SocketAddr> {
        self.local
    }

    pub(crate) fn accept(&self) {
        self.link.borrow_mut().accepted = true;
    }

    pub(crate) fn watch(&self) -> LinkWatch {
        LinkWatch(Rc::clone(&self.link))
    }
}

/// A view of a link that remains after its stream is dropped.
#[derive(Clone)]
pub(crate) struct LinkWatch(Rc<RefCell<Link>>);

impl LinkWatch {
    /// Returns true if an injected fault hit the link.
    pub(crate) fn faulted(&self) -> bool {
        self.0.borrow().faulted
    }

    /// Marks the link as faulted because it carries unrequested bytes: later failures on it are not
    /// the proxy's.
    pub(crate) fn poison(&self) {
        self.0.borrow_mut().faulted = true;
    }

    /// Returns true if one of its ends was told of a reset, by then or later.
    pub(crate) fn was_reset(&self) -> bool {
        self.0.borrow().was_reset()
    }

    /// Returns true if the connection was accepted.
    pub(crate) fn accepted(&self) -> bool {
        self.0.borrow().accepted
    }

    /// Returns true unless the connecting side has given up a stream of HTTP/2: it has closed the
    /// connection, or reset the stream, or may be about to do so in bytes that wait for room.
    pub(crate) fn holds_stream(&self, stream: u32) -> bool {
        let link = self.0.borrow();
        let tap = link.tap.as_deref().unwrap_or_default();
        let Some(written) = frames::written(tap) else { return false };
        let reset = |frame: &WireFrame| frame.kind == RST_STREAM && frame.stream == stream;
        !link.is_closed(LinkEnd::Connector)
            && !written.cut
            && !link.is_full(LinkEnd::Connector)
            && !written.frames.iter().any(reset)
    }

    /// Returns true if the connecting side has closed the connection.
    pub(crate) fn connector_gone(&self) -> bool {
        self.0.borrow().is_closed(LinkEnd::Connector)
    }

    /// Returns the number of the link in the trace.
    pub(crate) fn id(&self) -> u32 {
        self.0.borrow().id
    }
}

/// Arms the timer for `wait`; `Ready` when that time has come.
fn arm(timer: &mut Option<Pin<Box<Sleep>>>, wait: LinkWait, context: &mut Context<'_>) -> Poll<()> {
    let Some(at) = wait else {
        *timer = None;
        return Poll::Pending;
    };
    if at <= Instant::now() {
        // The link reported "not ready" deliberately and has already woken the task.
        return Poll::Pending;
    }
    let sleep = timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(at)));
    if sleep.deadline() != at {
        sleep.as_mut().reset(at);
    }
    sleep.as_mut().poll(context)
}

impl Socket for SimStream {
    fn poll_closed(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let _scope = memory::simulation();
        loop {
            let mut link = self.link.borrow_mut();
            if link.closed(self.end, context).is_ready() {
                return Poll::Ready(());
            }
            let wait = link.next_close_at(self.end);
            drop(link);
            if arm(&mut self.read_timer, wait, context).is_pending() {
                return Poll::Pending;
            }
        }
    }

    fn is_reset(&self) -> bool {
        self.link.borrow().is_reset(self.end)
    }

    fn reset_on_close(&self) {
        self.link.borrow_mut().reset_on_close(self.end);
    }
}

impl AsyncRead for SimStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let _scope = memory::simulation();
        let this = self.get_mut();
        loop {
            let mut link = this.link.borrow_mut();
            if let Poll::Ready(result) = link.read(this.end, buf.initialize_unfilled(), context) {
                return Poll::Ready(result.map(|count| buf.advance(count)));
            }
            let wait = link.next_read_at(this.end);
            drop(link);
            if arm(&mut this.read_timer, wait, context).is_pending() {
                return Poll::Pending;
            }
        }
    }
}

impl AsyncWrite for SimStream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let _scope = memory::simulation();
        let this = self.get_mut();
        loop {
            let mut link = this.link.borrow_mut();
            if let Poll::Ready(result) = link.write(this.end, buf, context) {
                return Poll::Ready(result);
            }
            let wait = link.next_write_at(this.end);
            drop(link);
            if arm(&mut this.write_timer, wait, context).is_pending() {
                return Poll::Pending;
            }
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let _scope = memory::simulation();
        let joined: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).collect();
        self.poll_write(context, &joined)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let _scope = memory::simulation();
        self.link.borrow_mut().finish(self.end);
        Poll::Ready(Ok(()))
    }
}

impl Drop for SimStream {
    fn drop(&mut self) {
        let _scope = memory::simulation();
        (self.read_timer, self.write_timer) = (None, None);
        if self.link.borrow_mut().close(self.end) {
            *self.open_links.borrow_mut() -= 1;
        }
    }
}
