//! The windows of the bodies that an HTTP/2 connection receives, from a client or from an endpoint.
//! They are small at first, so that bodies that are not read take little memory. One that limits
//! its sender grows:
//!
//! ```text
//!  Quiet ──a window's bytes were read──▶ Measuring ──PONG──▶ grow, if one stream's reader took
//!    ▲                                       │               half a window within the round trip,
//!    └───────────────────────────────────────┘               faster than at the last growth
//! ```
//! Bytes that are read count, not those that are received: a window does not grow for a receiver
//! that is slow. The growth of a connection has a bound, and so has that of all; it ends with the
//! last stream, and while memory is short.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Buf;
use h2::{Ping, PingPong};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::limiting::window_growth::WindowGrowth;
use crate::limits::{HTTP2_GROWTH, HTTP2_PING_PAUSE, HTTP2_SHORT_PATH};
use crate::time::instant::Instant;

/// The bytes of bodies that the readers of a connection's streams have taken.
#[derive(Default)]
pub(crate) struct ReadCounts {
    /// Of all streams together.
    taken: Cell<u64>,
    /// The number of the latest measurement.
    round: Cell<u32>,
    /// The most that the reader of one stream has taken since it began.
    most: Cell<usize>,
}

/// The part of one stream in [`ReadCounts`].
pub(crate) struct ReadCount {
    all: Rc<ReadCounts>,
    round: u32,
    taken: usize,
}

impl ReadCount {
    pub(crate) fn new(all: Rc<ReadCounts>) -> Self {
        Self { all, round: 0, taken: 0 }
    }

    /// Counts bytes that the stream's reader took.
    pub(crate) fn took(&mut self, bytes: usize) {
        let Self { all, round, taken } = self;
        all.taken.set(all.taken.get() + bytes as u64);
        if *round != all.round.get() {
            (*round, *taken) = (all.round.get(), 0);
        }
        *taken += bytes;
        all.most.set(all.most.get().max(*taken));
    }
}

/// The windows of a connection's streams.
pub(crate) struct Windows {
    all_growth: Arc<WindowGrowth>,
    /// The size that they have at first.
    first: usize,
    /// The size of all of them together at first, which is the connection's own window.
    all: usize,
    /// The size that the sender was told.
    told: usize,
    /// The size that it is to be told.
    wanted: usize,
    /// The bytes that were granted for the growth of all windows together.
    granted: usize,
    progress: MeasuringProgress,
    /// The fastest stream at the latest growth, bytes per second.
    rate: u64,
}

/// A connection of `h2` on either side.
pub(crate) trait WindowedConnection {
    /// Its PINGs; `None` if they were taken before.
    fn pings(&mut self) -> Option<PingPong>;

    /// Sets the window of each stream.
    ///
    /// # Errors
    /// If the peer has not acknowledged the settings before.
    fn set_stream_windows(&mut self, bytes: u32) -> Result<(), h2::Error>;

    /// Sets the window of all streams together.
    fn set_own_window(&mut self, bytes: u32);
}

macro_rules! windowed {
    ($($connection:ty),*) => {$(
        impl<T: AsyncRead + AsyncWrite + Unpin, B: Buf> WindowedConnection for $connection {
            fn pings(&mut self) -> Option<PingPong> {
                self.ping_pong()
            }

            fn set_stream_windows(&mut self, bytes: u32) -> Result<(), h2::Error> {
                self.set_initial_window_size(bytes)
            }

            fn set_own_window(&mut self, bytes: u32) {
                self.set_target_window_size(bytes);
            }
        }
    )*};
}

windowed!(h2::server::Connection<T, B>, h2::client::Connection<T, B>);

/// The frames that a connection was made to send, and that its peer has to answer.
#[derive(Clone, Copy, Default)]
pub(crate) struct SentFrames {
    pub(crate) ping: bool,
    pub(crate) settings: bool,
}

/// The PINGs of a connection: one can be on its way at a time, to measure the path or to look for
/// the peer.
#[derive(Default)]
pub(crate) struct Pings {
    handle: Option<PingPong>,
    is_sent: bool,
}

impl Pings {
    /// Sends a PING. Returns false if one is on its way already, or the connection has ended.
    pub(crate) fn send(&mut self, http2: &mut impl WindowedConnection) -> bool {
        if self.is_sent {
            return false;
        }
        if self.handle.is_none() {
            self.handle = http2.pings();
        }
        let sent = self.handle.as_mut().map(|pings| pings.send_ping(Ping::opaque()));
        self.is_sent = matches!(sent, Some(Ok(())));
        self.is_sent
    }

    /// Returns true if a PING is on its way.
    pub(crate) fn is_sent(&self) -> bool {
        self.is_sent
    }

    /// Returns true once the PING that was sent is answered.
    pub(crate) fn is_answered(&mut self, context: &mut Context<'_>) -> bool {
        if !self.is_sent {
            return false;
        }
        let pong = self.handle.as_mut().map(|pings| pings.poll_pong(context));
        self.is_sent = matches!(pong, Some(Poll::Pending));
        matches!(pong, Some(Poll::Ready(Ok(_))))
    }
}

/// The progress of a measurement.
#[derive(Clone, Copy)]
enum MeasuringProgress {
    /// The next one begins when so many bytes were taken, at this time at the earliest.
    Quiet { until: u64, not_before: Option<Instant> },
    /// The PING was sent at this time.
    Measuring(Instant),
}

impl Windows {
    pub(crate) fn new(all_growth: Arc<WindowGrowth>, first: usize, streams: u32) -> Self {
        Self {
            all_growth,
            first,
            all: connection_window(first, streams),
            told: first,
            wanted: first,
            granted: 0,
            progress: MeasuringProgress::Quiet { until: first as u64, not_before: None },
            rate: 0,
        }
    }

    /// Follows the streams' progress; `is_answered` is set if a PING was answered now. Returns the
    /// frames that it has sent.
    pub(crate) fn follow(
        &mut self,
        http2: &mut impl WindowedConnection,
        pings: &mut Pings,
        is_answered: bool,
        streams: OpenStreams<'_>,
    ) -> SentFrames {
        let OpenStreams { reads, count, now } = streams;
        let mut sent = SentFrames::default();
        match self.progress {
            MeasuringProgress::Quiet { until, not_before } => {
                let is_due = reads.taken.get() >= until && not_before.is_none_or(|at| now >= at);
                if is_due && self.first + HTTP2_GROWTH / count.max(1) > self.told {
                    sent.ping = pings.send(http2);
                }
                if sent.ping {
                    reads.round.set(reads.round.get().wrapping_add(1));
                    reads.most.set(0);
                    self.progress = MeasuringProgress::Measuring(now);
                }
            }
            MeasuringProgress::Measuring(since) if is_answered => {
                self.judge(reads, RoundTrip { since, now, streams: count });
            }
            MeasuringProgress::Measuring(_) => {}
        }
        self.fit(count, reads);
        // It fails while the sender has not acknowledged the settings before; then later.
        if self.wanted != self.told && http2.set_stream_windows(self.wanted as u32).is_ok() {
            self.told = self.wanted;
            sent.settings = true;
            http2.set_own_window((self.all + self.granted) as u32);
        }
        sent
    }

    /// Returns true if they are larger than at first, or are to be.
    pub(crate) fn have_grown(&self) -> bool {
        self.granted > 0 || self.told != self.first
    }

    /// Grows, if the window was what limited the fastest stream.
    fn judge(&mut self, reads: &ReadCounts, measured: RoundTrip) {
        let RoundTrip { since, now, streams } = measured;
        let (most, path) = (reads.most.get(), now.saturating_duration_since(since));
        let rate = (most as u128 * 1_000_000 / path.as_micros().max(1)) as u64;
        let is_limit = most >= self.told / 2 && path > HTTP2_SHORT_PATH;
        if is_limit && rate > self.rate + self.rate / 8 {
            self.rate = rate;
            self.grow(streams);
        }
        self.progress = MeasuringProgress::Quiet {
            until: reads.taken.get() + self.told as u64,
            not_before: Some(now + HTTP2_PING_PAUSE),
        };
    }

    fn grow(&mut self, streams: usize) {
        let most = self.first + HTTP2_GROWTH / streams.max(1);
        let next = (self.told * 2).min(most);
        let growth = next.saturating_sub(self.first) * streams;
        let more = growth.saturating_sub(self.granted);
        if self.all_growth.is_open() && self.all_growth.take(more) {
            self.granted += more;
            self.wanted = next;
        }
    }

    /// Shrinks, if there are more streams than the growth was granted for, or none.
    fn fit(&mut self, streams: usize, reads: &ReadCounts) {
        if self.granted == 0 {
            return;
        }
        if streams == 0 || !self.all_growth.is_open() {
            self.give_back(self.granted);
            self.wanted = self.first;
            self.rate = 0;
            if let MeasuringProgress::Quiet { .. } = self.progress {
                let until = reads.taken.get() + self.first as u64;
                self.progress = MeasuringProgress::Quiet { until, not_before: None };
            }
        }
        let most = self.first + self.granted / streams.max(1);
        if self.wanted > most {
            self.wanted = most;
            // The rate of larger windows is no measure for those that grow from here.
            self.rate = 0;
        }
    }

    fn give_back(&mut self, bytes: usize) {
        self.all_growth.give_back(bytes);
        self.granted -= bytes;
    }
}

/// The window of a connection whose streams have windows of this size: streams that are not read
/// hold no other one up.
pub(crate) fn connection_window(window: usize, streams: u32) -> usize {
    (window * streams as usize).min(i32::MAX as usize - HTTP2_GROWTH)
}

impl Drop for Windows {
    fn drop(&mut self) {
        self.give_back(self.granted);
    }
}

/// The streams of a connection at a time.
#[derive(Clone, Copy)]
pub(crate) struct OpenStreams<'a> {
    pub(crate) reads: &'a ReadCounts,
    pub(crate) count: usize,
    pub(crate) now: Instant,
}

/// The time of a measurement, and the number of streams at its end.
#[derive(Clone, Copy)]
struct RoundTrip {
    since: Instant,
    now: Instant,
    streams: usize,
}
