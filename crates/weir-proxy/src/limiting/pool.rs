//! `limits` of a pool: a circuit breaker by concurrency; and `per_client=` of its queue. Requests
//! beyond a limit are answered at once, so that they do not add to the load of a pool in trouble.

use std::net::IpAddr;
use std::sync::Arc;

use weir_config::model::{self, ClientPrefix};

use super::Limiter;
use super::counts::{LimitCounts, Limited};
use super::table::{Entered, OpenPlace, TableKey};
use crate::http::client_network::Network;

/// The limits of a pool.
pub struct PoolLimiter {
    limiter: Arc<Limiter>,
    in_flight: Option<PoolBound>,
    retries: Option<PoolBound>,
    /// The limit on waiting requests of each client.
    waiting: Option<WaitingBound>,
}

struct WaitingBound {
    number: u64,
    most: u32,
    counts: Arc<LimitCounts>,
}

struct PoolBound {
    key: TableKey,
    most: u32,
    counts: Arc<LimitCounts>,
}

/// Error: a limit of the pool is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BreakerOpen;

impl PoolLimiter {
    /// Compiles the limits of a pool; `None` if it has none.
    pub(crate) fn compile(pool: &model::Pool, limiter: &Arc<Limiter>) -> Option<Box<Self>> {
        let model::Pool { name: pool, limits, queue, .. } = pool;
        let bound = |most: Option<u32>, bound| {
            let most = most?;
            let number = limiter.table.limit_number(&format!("{pool}\0{bound}"));
            let key = limiter.table.key(number, b"");
            Some(PoolBound { key, most, counts: limiter.counts(pool, bound) })
        };
        let in_flight = bound(limits.max_in_flight, "pool_in_flight");
        let retries = bound(limits.max_retries, "pool_retries");
        let per_client = queue.as_ref().and_then(|queue| queue.per_client);
        let waiting = per_client.map(|most| WaitingBound {
            number: limiter.table.limit_number(&format!("{pool}\0queue_per_client")),
            most,
            counts: limiter.counts(pool, "queue_per_client"),
        });
        let limiter = Arc::clone(limiter);
        (in_flight.is_some() || retries.is_some() || waiting.is_some())
            .then(|| Box::new(Self { limiter, in_flight, retries, waiting }))
    }

    /// Takes a place for a request that this worker sends to the pool.
    pub(crate) fn enter(
        &self,
        worker: usize,
        now_ns: u64,
    ) -> Result<Option<OpenPlace>, BreakerOpen> {
        self.open(self.in_flight.as_ref(), worker, now_ns)
    }

    /// Takes a place for a retry.
    pub(crate) fn retry(
        &self,
        worker: usize,
        now_ns: u64,
    ) -> Result<Option<OpenPlace>, BreakerOpen> {
        self.open(self.retries.as_ref(), worker, now_ns)
    }

    /// Takes a place for a waiting request in the count of its client's waiting requests.
    pub(crate) fn wait(
        &self,
        client: Option<IpAddr>,
        worker: usize,
        now_ns: u64,
    ) -> Result<Option<OpenPlace>, BreakerOpen> {
        let Some((bound, client)) = self.waiting.as_ref().zip(client) else { return Ok(None) };
        let prefix = ClientPrefix::default();
        let key = self.limiter.table.key(bound.number, Network::of(client, prefix).bytes());
        match self.limiter.table.enter_on(worker, key, bound.most, now_ns) {
            Entered::Yes(place) => Ok(Some(place)),
            Entered::Untracked => Ok(None),
            Entered::Full => {
                let told = Network::text(client, prefix);
                bound.counts.note(Limited::Refused, told.as_bytes(), now_ns);
                Err(BreakerOpen)
            }
        }
    }

    fn open(
        &self,
        bound: Option<&PoolBound>,
        worker: usize,
        now_ns: u64,
    ) -> Result<Option<OpenPlace>, BreakerOpen> {
        let Some(bound) = bound else { return Ok(None) };
        match self.limiter.table.enter_on(worker, bound.key, bound.most, now_ns) {
            Entered::Yes(place) => Ok(Some(place)),
            Entered::Untracked => Ok(None),
            Entered::Full => {
                bound.counts.note_quietly(Limited::Refused);
                Err(BreakerOpen)
            }
        }
    }
}
