//! The HTTP/2 streams to an endpoint, counted over all workers. A connection counts for itself and
//! adds what is new, so that streams of several workers do not contend for each count.

use std::sync::atomic::{AtomicU64, Ordering};

/// The streams to an endpoint.
#[derive(Debug, Default)]
pub struct StreamCounters {
    /// The streams that were begun.
    pub opened: AtomicU64,
    /// Those of them that have ended.
    pub ended: AtomicU64,
    /// Those of them that ended with a reset of either side, or with their connection.
    pub reset: AtomicU64,
    /// The connections that were ended because of the frames that the endpoint sent.
    pub connections_ended: AtomicU64,
}

/// The streams of one connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StreamTally {
    pub(crate) opened: u64,
    pub(crate) ended: u64,
    pub(crate) reset: u64,
}

impl StreamCounters {
    /// Adds what has happened on a connection since it was counted last.
    pub(crate) fn add(&self, now: StreamTally, before: StreamTally) {
        for (count, more) in [
            (&self.opened, now.opened - before.opened),
            (&self.ended, now.ended - before.ended),
            (&self.reset, now.reset - before.reset),
        ] {
            if more > 0 {
                count.fetch_add(more, Ordering::Relaxed);
            }
        }
    }

    /// The number of streams that are open.
    pub fn open(&self) -> u64 {
        let opened = self.opened.load(Ordering::Relaxed);
        opened.saturating_sub(self.ended.load(Ordering::Relaxed))
    }
}
