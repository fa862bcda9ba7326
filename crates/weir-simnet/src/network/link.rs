//! One connection: two directions of bytes in transit, with delays, windows, half-closes and resets
//! as in TCP. It draws from its own seeded generator and knows no protocol.
//!
//! ```text
//! writer ─ write ▶ [segments with a delivery time] ─ read ▶ reader
//!   finish (FIN) ▶ end of stream after the last segment
//!   drop with unread input, or bytes for a dropped reader
//!     ▶ RST: undelivered segments vanish, then ConnectionReset
//! ```

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use fastrand::Rng;
use tokio::time::Instant;

use crate::network::faults::{LinkFaults, happens, log_uniform};
use crate::network::trace::{LinkEnd, LinkSide, NetworkEvent, Trace};

/// The result of an operation that is not ready: the time at which to try again, unless woken
/// earlier.
pub(crate) type LinkWait = Option<Instant>;

struct Segment {
    deliver_at: Instant,
    bytes: VecDeque<u8>,
}

/// One direction. The index of its writer's [`LinkEnd`] is its index in [`Link::pipes`].
struct Pipe {
    segments: VecDeque<Segment>,
    on_the_way: usize,
    window: usize,
    transfer: usize,
    written: u64,
    finished_at: Option<Instant>,
    /// The time at which the reader learns of a reset.
    reader_reset_at: Option<Instant>,
    /// The time at which the writer learns of a reset.
    writer_reset_at: Option<Instant>,
    reader_gone: bool,
    stall_offset: Option<u64>,
    reset_offset: Option<u64>,
    read_waker: Option<Waker>,
    write_waker: Option<Waker>,
    last_delivery: Instant,
}

impl Pipe {
    fn new(faults: &LinkFaults, random: &mut Rng, now: Instant) -> Self {
        let stalls = happens(random, faults.stalls);
        let resets = happens(random, faults.resets);
        Self {
            segments: VecDeque::new(),
            on_the_way: 0,
            window: random.usize(faults.window.clone()).max(1),
            transfer: random.usize(faults.transfer.clone()).max(1),
            written: 0,
            finished_at: None,
            reader_reset_at: None,
            writer_reset_at: None,
            reader_gone: false,
            stall_offset: stalls.then(|| log_uniform(random, &faults.reset_offset)),
            reset_offset: resets.then(|| log_uniform(random, &faults.reset_offset)),
            read_waker: None,
            write_waker: None,
            last_delivery: now,
        }
    }

    fn wake(&mut self) {
        for waker in [self.read_waker.take(), self.write_waker.take()].into_iter().flatten() {
            waker.wake();
        }
    }

    /// Drops everything that would be delivered after `at`.
    fn lose_after(&mut self, at: Instant) {
        self.segments.retain(|segment| segment.deliver_at <= at);
        self.on_the_way = self.segments.iter().map(|segment| segment.bytes.len()).sum();
    }

    fn unread_at(&self, now: Instant) -> bool {
        self.segments.front().is_some_and(|segment| segment.deliver_at <= now)
    }
}

/// One connection.
pub(crate) struct Link {
    pub(crate) id: u32,
    pub(crate) side: LinkSide,
    /// Set if an injected fault hit this link: failures on it are not the proxy's.
    pub(crate) faulted: bool,
    /// Everything that the connector wrote, if it is to be searched later.
    pub(crate) tap: Option<Vec<u8>>,
    pub(crate) swallow: bool,
    /// Set once the acceptor has taken the link from the backlog.
    pub(crate) accepted: bool,
    pipes: [Pipe; 2],
    open: [bool; 2],
    /// For each end: set if its close discards bytes that have not arrived.
    discards: [bool; 2],
    latency: Duration,
    faults: LinkFaults,
    random: Rng,
    trace: Rc<RefCell<Trace>>,
}

impl Link {
    pub(crate) fn new(
        id: u32,
        side: LinkSide,
        faults: &LinkFaults,
        random: Rng,
        trace: Rc<RefCell<Trace>>,
    ) -> Self {
        let mut random = random;
        let now = Instant::now();
        let latency = Duration::from_millis(random.u64(faults.latency_ms.clone()));
        let pipes = [Pipe::new(faults, &mut random, now), Pipe::new(faults, &mut random, now)];
        Self {
            id,
            side,
            faulted: false,
            tap: (side == LinkSide::Upstream).then(Vec::new),
            swallow: false,
            accepted: false,
            pipes,
            open: [true, true],
            discards: [false, false],
            latency,
            faults: faults.clone(),
            random,
            trace,
        }
    }

    fn note(&self, event: NetworkEvent) {
        self.trace.borrow_mut().note(event);
    }

    fn hesitates(&mut self, context: &Context<'_>) -> bool {
        let hesitates = happens(&mut self.random, self.faults.hesitates);
        if hesitates {
            context.waker().wake_by_ref();
        }
        hesitates
    }

    /// Writes as many bytes as fit; `Err(wait)` if none do.
    pub(crate) fn write(
        &mut self,
        end: LinkEnd,
        buf: &[u8],
        context: &Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let now = Instant::now();
        let pipe = &mut self.pipes[end.index()];
        if pipe.writer_reset_at.is_some_and(|at| at <= now) {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        if pipe.finished_at.is_some() {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        if buf.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let room = pipe.window.saturating_sub(pipe.on_the_way);
        if room == 0 || self.hesitates(context) {
            self.pipes[end.index()].write_waker = Some(context.waker().clone());
            return Poll::Pending;
        }
        let pipe = &mut self.pipes[end.index()];
        let mut count = buf.len().min(room).min(self.random.usize(1..=pipe.transfer));
        let left = pipe.reset_offset.map_or(u64::MAX, |offset| offset.saturating_sub(pipe.written));
        let breaks = left < count as u64;
        if breaks {
            count = left as usize;
        }
        self.carry(end, &buf[..count], now);
        if breaks {
            self.inject_reset(now);
        }
        Poll::Ready(if count == 0 { Err(io::ErrorKind::ConnectionReset.into()) } else { Ok(count) })
    }

    /// Sends bytes.
    fn carry(&mut self, end: LinkEnd, bytes: &[u8], now: Instant) {
        if bytes.is_empty() {
            return;
        }
        self.note(NetworkEvent::Wrote { link: self.id, end, bytes: bytes.len() });
        if let (LinkEnd::Connector, Some(tap)) = (end, &mut self.tap) {
            tap.extend_from_slice(bytes);
        }
        if self.swallow && end == LinkEnd::Acceptor {
            return;
        }
        let jitter = Duration::from_millis(self.random.u64(self.faults.jitter_ms.clone()));
        let pipe = &mut self.pipes[end.index()];
        let mut deliver_at = pipe.last_delivery.max(now + self.latency + jitter);
        pipe.written += bytes.len() as u64;
        if pipe.stall_offset.is_some_and(|offset| pipe.written >= offset) {
            pipe.stall_offset = None;
            let ms = self.random.u64(self.faults.stall_ms.clone());
            deliver_at += Duration::from_millis(ms);
            self.faulted = true;
            self.trace.borrow_mut().note(NetworkEvent::Stalled { link: self.id, end, ms });
        }
        let pipe = &mut self.pipes[end.index()];
        pipe.last_delivery = deliver_at;
        pipe.on_the_way += bytes.len();
        if pipe.reader_gone {
            self.reset_end(end, deliver_at + self.latency);
            return;
        }
        pipe.segments.push_back(Segment { deliver_at, bytes: bytes.iter().copied().collect() });
        if let Some(waker) = pipe.read_waker.take() {
            waker.wake();
        }
    }

    /// Reads the bytes that have arrived and returns their count, zero at the end of the stream.
    pub(crate) fn read(
        &mut self,
        end: LinkEnd,
        buf: &mut [u8],
        context: &Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let now = Instant::now();
        if self.hesitates(context) {
            return Poll::Pending;
        }
        let limit = self.random.usize(1..=self.pipes[end.other().index()].transfer).min(buf.len());
        let pipe = &mut self.pipes[end.other().index()];
        let mut count = 0;
        while count < limit && pipe.unread_at(now) {
            let Some(segment) = pipe.segments.front_mut() else { break };
            let (front, _) = segment.bytes.as_slices();
            let step = front.len().min(limit - count);
            buf[count..count + step].copy_from_slice(&front[..step]);
            segment.bytes.drain(..step);
            count += step;
            if segment.bytes.is_empty() {
                pipe.segments.pop_front();
            }
        }
        if count > 0 || limit == 0 {
            pipe.on_the_way -= count;
            if let Some(waker) = pipe.write_waker.take() {
                waker.wake();
            }
            self.note(NetworkEvent::Read { link: self.id, end, bytes: count });
            return Poll::Ready(Ok(count));
        }
        if pipe.reader_reset_at.is_some_and(|at| at <= now) {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        if pipe.segments.is_empty() && pipe.finished_at.is_some_and(|at| at <= now) {
            self.note(NetworkEvent::Read { link: self.id, end, bytes: 0 });
            return Poll::Ready(Ok(0));
        }
        pipe.read_waker = Some(context.waker().clone());
        Poll::Pending
    }

    /// Returns `Ready` once the other end has finished or the link was reset, even if bytes are
    /// unread.
    pub(crate) fn closed(&mut self, end: LinkEnd, context: &Context<'_>) -> Poll<()> {
        let now = Instant::now();
        let pipe = &mut self.pipes[end.other().index()];
        let ended = [pipe.finished_at, pipe.reader_reset_at].into_iter().flatten().min();
        if ended.is_some_and(|at| at <= now) {
            return Poll::Ready(());
        }
        pipe.read_waker = Some(context.waker().clone());
        Poll::Pending
    }

    /// Returns true once `end` was told of a reset.
    pub(crate) fn is_reset(&self, end: LinkEnd) -> bool {
        let reset_at = self.pipes[end.other().index()].reader_reset_at;
        reset_at.is_some_and(|at| at <= Instant::now())
    }

    /// Returns the time at which a task that waits for the other end's close must check again.
    pub(crate) fn next_close_at(&self, end: LinkEnd) -> LinkWait {
        let pipe = &self.pipes[end.other().index()];
        [pipe.finished_at, pipe.reader_reset_at].into_iter().flatten().min()
    }

    /// Returns true if an end was, or will be, told of a reset.
    pub(crate) fn was_reset(&self) -> bool {
        self.pipes.iter().any(|pipe| pipe.reader_reset_at.is_some())
    }

    /// Returns true if this end cannot write.
    pub(crate) fn is_full(&self, end: LinkEnd) -> bool {
        let pipe = &self.pipes[end.index()];
        pipe.on_the_way >= pipe.window
    }

    /// Returns true if this end was dropped.
    pub(crate) fn is_closed(&self, end: LinkEnd) -> bool {
        !self.open[end.index()]
    }

    /// Returns the time at which a reader that found nothing must check again.
    pub(crate) fn next_read_at(&self, end: LinkEnd) -> LinkWait {
        let pipe = &self.pipes[end.other().index()];
        let arrives = pipe.segments.front().map(|segment| segment.deliver_at);
        let ends = if pipe.segments.is_empty() { pipe.finished_at } else { None };
        [arrives, ends, pipe.reader_reset_at].into_iter().flatten().min()
    }

    /// Returns the time at which a writer that found no room must check again even if the peer does
    /// not read.
    pub(crate) fn next_write_at(&self, end: LinkEnd) -> LinkWait {
        self.pipes[end.index()].writer_reset_at
    }

    /// Sends FIN: no more bytes follow from this end.
    pub(crate) fn finish(&mut self, end: LinkEnd) {
        let latency = self.latency;
        let pipe = &mut self.pipes[end.index()];
        if pipe.finished_at.is_none() {
            pipe.finished_at = Some(pipe.last_delivery.max(Instant::now() + latency));
            pipe.wake();
            self.note(NetworkEvent::Finished { link: self.id, end });
        }
    }

    /// Closes an end: FIN, or RST if it leaves input unread. Returns true once both ends are
    /// closed.
    pub(crate) fn close(&mut self, end: LinkEnd) -> bool {
        let now = Instant::now();
        self.note(NetworkEvent::Dropped { link: self.id, end });
        self.open[end.index()] = false;
        let loses = self.random.bool();
        let latency = self.latency;
        let incoming = &mut self.pipes[end.other().index()];
        let unread = incoming.unread_at(now);
        let arriving = incoming.segments.back().map(|segment| segment.deliver_at);
        incoming.reader_gone = true;
        incoming.segments.clear();
        incoming.on_the_way = 0;
        incoming.wake();
        if self.discards[end.index()] {
            self.reset_end(end.other(), now + latency);
        } else if unread {
            // The bytes in transit may arrive before the reset or be discarded by it.
            let at = if loses {
                now + latency
            } else {
                self.pipes[end.index()].last_delivery.max(now + latency)
            };
            self.reset_end(end.other(), at);
        } else {
            self.finish(end);
            if let Some(arrives) = arriving {
                self.reset_end(end.other(), arrives + latency);
            }
        }
        self.open == [false, false]
    }

    /// Makes the close of this end discard the bytes that have not arrived.
    pub(crate) fn reset_on_close(&mut self, end: LinkEnd) {
        self.discards[end.index()] = true;
    }

    /// Tells `end` of a reset at `at`: its writes fail, and its reads after the bytes that were
    /// delivered by then.
    fn reset_end(&mut self, end: LinkEnd, at: Instant) {
        self.note(NetworkEvent::ResetSent { link: self.id, to: end });
        let incoming = &mut self.pipes[end.other().index()];
        if incoming.reader_reset_at.is_none_or(|known| at < known) {
            incoming.reader_reset_at = Some(at);
            incoming.lose_after(at);
        }
        incoming.wake();
        let outgoing = &mut self.pipes[end.index()];
        outgoing.writer_reset_at = Some(outgoing.writer_reset_at.map_or(at, |known| known.min(at)));
        outgoing.wake();
    }

    /// Breaks the link for both ends, as a fault of the network.
    pub(crate) fn inject_reset(&mut self, now: Instant) {
        self.note(NetworkEvent::ResetInjected { link: self.id });
        self.faulted = true;
        let at = if self.random.bool() { now } else { now + self.latency };
        self.reset_end(LinkEnd::Connector, at);
        self.reset_end(LinkEnd::Acceptor, at);
    }
}
