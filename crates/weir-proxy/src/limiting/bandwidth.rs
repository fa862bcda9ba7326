//! `limit bandwidth`: how fast bodies move, each by itself or all with one key together. A body that is ahead of its rate waits before it
//! is written on; what its endpoint sends meanwhile is read as far as the buffer has room, so that an endpoint that is done is let go.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Sleep, sleep_until};
use weir_config::model;

use super::Limiter;
use super::counts::{LimitCounts, Limited};
use super::table::TableKey;
use crate::connection::{Connection, Scope};
use crate::exchange::{Facts, Workspace};
use crate::instant::Instant;
use crate::net::Net;
use crate::pool_key::{self, PoolKey};
use crate::route::CompiledRoute;

/// A body may be so far ahead of its rate, and moves in pieces of about this time.
const AHEAD_NS: u64 = 50_000_000;
const SECOND_NS: u64 = 1_000_000_000;

/// A `limit bandwidth`, ready to be asked.
pub struct Bandwidth {
    limiter: Arc<Limiter>,
    key: Option<PoolKey>,
    down: Option<Way>,
    up: Option<Way>,
    after: u64,
}

/// One direction.
#[derive(Clone)]
struct Way {
    number: u64,
    bytes_per_second: u64,
    counts: Arc<LimitCounts>,
}

/// The direction of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Toward {
    /// A response.
    Client,
    /// A request.
    Endpoint,
}

impl std::fmt::Debug for Bandwidth {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Bandwidth")
    }
}

impl Bandwidth {
    /// Prepares a limit.
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
}

/// The throttles of a body: the listener's and the route's.
pub(crate) fn throttle<N: Net>(
    scope: Scope<'_, N>,
    connection: &Connection<N>,
    work: &mut Workspace,
    (facts, route): (&Facts, &CompiledRoute),
    toward: Toward,
) -> Option<Box<Throttle>> {
    // The narrower place says what holds.
    let limit = route.bandwidth.as_ref().or(scope.listener.bandwidth.as_ref())?;
    let way = match toward {
        Toward::Client => limit.down.clone(),
        Toward::Endpoint => limit.up.clone(),
    }?;
    let mut shared = None;
    let mut text = std::mem::take(&mut work.key);
    if let Some(key) = &limit.key {
        pool_key::fill(scope, connection, work, (facts, route), (key, &mut text));
        shared = Some(limit.limiter.table.key(way.number, &text));
    }
    let unlimited = limit.key.is_some() && text.is_empty();
    work.key = text;
    (!unlimited).then(|| {
        Box::new(Throttle {
            bucket: match shared {
                Some(key) => Bucket::Shared(Arc::clone(&limit.limiter), key),
                None => Bucket::Own(0),
            },
            way,
            epoch: scope.worker.process.epoch,
            free: limit.after,
            allowed: 0,
            granted: 0,
            sleep: None,
        })
    })
}

/// What keeps a body at its rate.
pub(crate) struct Throttle {
    bucket: Bucket,
    way: Way,
    /// Start of the table's clock.
    epoch: Instant,
    /// Bytes that go before the rate holds.
    free: u64,
    /// Bytes that may go now.
    allowed: usize,
    /// Bytes that may go when the timer has run out.
    granted: usize,
    sleep: Option<Pin<Box<Sleep>>>,
}

/// How far ahead of the rate it is.
enum Bucket {
    /// This body alone: until when what was sent uses the rate up, ns.
    Own(u64),
    /// All bodies with one key.
    Shared(Arc<Limiter>, TableKey),
}

impl Throttle {
    /// How many of `wanted` bytes, which are some, may be sent now; pending until some may.
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

    /// Notes that so many bytes went.
    pub(crate) fn sent(&mut self, bytes: usize) {
        let free = self.free.min(bytes as u64);
        self.free -= free;
        self.allowed = self.allowed.saturating_sub(bytes - free as usize);
    }

    /// Takes the next piece from the bucket, to be sent now or when it is its turn.
    fn charge(&mut self, wanted: usize) {
        let rate = self.way.bytes_per_second.max(1);
        let piece = (rate / (SECOND_NS / AHEAD_NS)).max(1);
        let piece = wanted.min(usize::try_from(piece).unwrap_or(usize::MAX)).max(1);
        let cost_ns = (piece as u128 * u128::from(SECOND_NS) / u128::from(rate)) as u64;
        let now = Instant::now();
        let now_ns = now.nanos_since(self.epoch);
        let ahead_ns = match &mut self.bucket {
            Bucket::Own(until_ns) => {
                let from = (*until_ns).max(now_ns);
                *until_ns = from.saturating_add(cost_ns);
                from - now_ns
            }
            Bucket::Shared(limiter, key) => limiter.table.spend(*key, cost_ns, now_ns),
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
