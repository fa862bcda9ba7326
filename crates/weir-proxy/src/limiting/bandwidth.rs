//! `limit bandwidth`: limits the rate of bodies, of each body by itself or of all bodies with one
//! key together. A body that is ahead of its rate waits before more of it is written; the
//! endpoint's bytes are still read as far as the buffer has room, so that an endpoint that has
//! finished is released.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Sleep, sleep_until};
use weir_config::model;

use super::Limiter;
use super::counts::{LimitCounts, Limited};
use super::table::TableKey;
use crate::http::pool_key::PoolKey;
use crate::time::instant::Instant;

/// The time by which a body may be ahead of its rate; it is sent in pieces of about this duration.
const AHEAD_NS: u64 = 50_000_000;
const SECOND_NS: u64 = 1_000_000_000;

/// A compiled `limit bandwidth`.
pub struct BandwidthLimiter {
    limiter: Arc<Limiter>,
    key: Option<PoolKey>,
    down: Option<Way>,
    up: Option<Way>,
    after: u64,
}

/// The limit of one direction.
#[derive(Clone)]
struct Way {
    number: u64,
    bytes_per_second: u64,
    counts: Arc<LimitCounts>,
}

/// The direction of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Toward {
    /// A response body.
    Client,
    /// A request body.
    Endpoint,
}

impl std::fmt::Debug for BandwidthLimiter {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("BandwidthLimiter")
    }
}

impl BandwidthLimiter {
    /// Compiles a limit.
    pub(crate) fn compile(
        limit: Option<&model::Bandwidth>,
        limiter: &Arc<Limiter>,
    ) -> Option<Arc<Self>> {
        let limit = limit?;
        let way = |bytes_per_second: Option<u64>, bound| {
            let bytes_per_second = bytes_per_second?;
            let number = limiter.table.limit_number(&format!("{}\0{bound}", limit.name));
            Some(Way { number, bytes_per_second, counts: limiter.counts(&limit.name, bound) })
        };
        Some(Arc::new(Self {
            key: limit.key.clone().map(PoolKey::new),
            down: way(limit.down, "bandwidth_down"),
            up: way(limit.up, "bandwidth_up"),
            after: limit.after as u64,
            limiter: Arc::clone(limiter),
        }))
    }

    fn way(&self, toward: Toward) -> Option<&Way> {
        match toward {
            Toward::Client => self.down.as_ref(),
            Toward::Endpoint => self.up.as_ref(),
        }
    }

    /// Tells whether it bounds bodies in this direction.
    pub(crate) fn bounds(&self, toward: Toward) -> bool {
        self.way(toward).is_some()
    }

    /// The key by which bodies share the rate; `None` if each has a rate of its own.
    pub(crate) fn key(&self) -> Option<&PoolKey> {
        self.key.as_ref()
    }

    /// The throttle of a body whose key has this text; `None` if it is not limited. `epoch` is the
    /// start of the table's clock.
    pub(crate) fn throttle(
        &self,
        toward: Toward,
        text: &[u8],
        epoch: Instant,
    ) -> Option<Box<Throttle>> {
        let way = self.way(toward)?.clone();
        let bucket = match &self.key {
            Some(_) if text.is_empty() => return None,
            Some(_) => BandwidthBucket::Shared(
                Arc::clone(&self.limiter),
                self.limiter.table.key(way.number, text),
            ),
            None => BandwidthBucket::Own(0),
        };
        Some(Box::new(Throttle {
            bucket,
            way,
            epoch,
            free: self.after,
            allowed: 0,
            granted: 0,
            sleep: None,
        }))
    }
}

/// The state that keeps a body at its rate.
pub(crate) struct Throttle {
    bucket: BandwidthBucket,
    way: Way,
    /// The start of the table's clock.
    epoch: Instant,
    /// The number of bytes that pass before the rate applies.
    free: u64,
    /// The number of bytes that may be sent now.
    allowed: usize,
    /// The number of bytes that may be sent when the timer has elapsed.
    granted: usize,
    sleep: Option<Pin<Box<Sleep>>>,
}

/// The state that shows how far a body is ahead of the rate.
enum BandwidthBucket {
    /// This body alone: the time up to which the bytes sent have used up the rate, ns.
    Own(u64),
    /// All bodies with one key together.
    Shared(Arc<Limiter>, TableKey),
}

impl Throttle {
    /// Returns the number of bytes, at most `wanted`, that may be sent now; pending until at least
    /// one may be sent. `wanted` is not 0.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>, wanted: usize) -> Poll<usize> {
        if self.free > 0 {
            return Poll::Ready(wanted.min(usize::try_from(self.free).unwrap_or(usize::MAX)));
        }
        loop {
            if let Some(sleep) = &mut self.sleep {
                ready!(sleep.as_mut().poll(context));
                self.sleep = None;
                self.allowed += std::mem::take(&mut self.granted);
            }
            if self.allowed > 0 {
                return Poll::Ready(wanted.min(self.allowed));
            }
            self.charge(wanted);
        }
    }

    /// Notes that `bytes` were sent.
    pub(crate) fn sent(&mut self, bytes: usize) {
        let free = self.free.min(bytes as u64);
        self.free -= free;
        self.allowed = self.allowed.saturating_sub(bytes - free as usize);
    }

    /// Takes the next piece from the bucket, to be sent now or after a wait.
    fn charge(&mut self, wanted: usize) {
        let rate = self.way.bytes_per_second.max(1);
        let piece = (rate / (SECOND_NS / AHEAD_NS)).max(1);
        let piece = wanted.min(usize::try_from(piece).unwrap_or(usize::MAX)).max(1);
        let cost_ns = (piece as u128 * u128::from(SECOND_NS) / u128::from(rate)) as u64;
        let now = Instant::now();
        let now_ns = now.nanos_since(self.epoch);
        let ahead_ns = match &mut self.bucket {
            BandwidthBucket::Own(until_ns) => {
                let from = (*until_ns).max(now_ns);
                *until_ns = from.saturating_add(cost_ns);
                from - now_ns
            }
            BandwidthBucket::Shared(limiter, key) => limiter.table.spend(*key, cost_ns, now_ns),
        };
        let Some(wait_ns) = ahead_ns.checked_sub(AHEAD_NS).filter(|wait_ns| *wait_ns > 0) else {
            self.allowed = piece;
            return;
        };
        self.way.counts.note_quietly(Limited::Delayed);
        self.granted = piece;
        self.sleep = Some(Box::pin(sleep_until((now + Duration::from_nanos(wait_ns)).into())));
    }
}
