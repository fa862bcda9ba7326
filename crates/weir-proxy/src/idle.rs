//! A worker's idle keep-alive connections to endpoints. The cap on their number holds over all workers; age, idle time and
//! requests are checked here. It opens nothing. A connection stays with the worker whose reactor its socket is registered with: how often
//! another one could have used it is counted.

use std::cell::RefCell;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Waker};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use crate::idle_count::OfWorker;
use crate::transport::Transport;
use crate::upstream::UpstreamPool;

/// A connection to an endpoint with its history.
pub(crate) struct UpstreamConnection<S> {
    pub(crate) transport: Transport<S>,
    opened: Instant,
    idle_since: Instant,
    /// When the limits that it was kept under end its idle time.
    idle_until: Instant,
    /// Exchanges over it, the running one included.
    requests: u64,
    /// Whether the running exchange found it idle.
    pub(crate) reused: bool,
}

impl<S> UpstreamConnection<S> {
    /// A connection just opened, for its first exchange.
    pub(crate) fn fresh(transport: Transport<S>, now: Instant) -> Self {
        Self {
            transport,
            opened: now,
            idle_since: now,
            idle_until: now,
            requests: 1,
            reused: false,
        }
    }
}

/// Idle connections by the endpoint's number, the latest used on top.
pub(crate) struct IdleConnections<S> {
    shelves: RefCell<Vec<Vec<Box<UpstreamConnection<S>>>>>,
    worker: OfWorker,
}

impl<S> IdleConnections<S> {
    pub(crate) fn new(worker: OfWorker) -> Self {
        Self { shelves: RefCell::default(), worker }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> IdleConnections<S> {
    /// The most recently used connection that is still open and within its limits. The task is woken when its next bytes come.
    pub(crate) fn take(
        &self,
        context: &mut Context<'_>,
        pool: &UpstreamPool,
        endpoint: usize,
        now: Instant,
    ) -> Option<Box<UpstreamConnection<S>>> {
        let endpoint = pool.endpoints.get(endpoint)?;
        let mut shelves = self.shelves.borrow_mut();
        let mut shelf = shelves.get_mut(endpoint.number.index());
        while let Some(mut connection) = shelf.as_mut().and_then(|shelf| shelf.pop()) {
            endpoint.idle.remove(self.worker, 1);
            if now < connection.idle_until && is_open(context, &mut connection.transport) {
                connection.requests += 1;
                connection.reused = true;
                endpoint.reused.fetch_add(1, Ordering::Relaxed);
                return Some(connection);
            }
        }
        if endpoint.idle.now() > 0 {
            endpoint.idle_elsewhere.fetch_add(1, Ordering::Relaxed);
        }
        None
    }

    /// Keeps a connection for the next exchange, or closes it when a limit says so.
    pub(crate) fn keep(
        &self,
        pool: &UpstreamPool,
        endpoint: usize,
        mut connection: Box<UpstreamConnection<S>>,
        now: Instant,
    ) {
        let limits = &pool.keepalive;
        let last = connection.opened + limits.max_age;
        if connection.requests >= limits.max_requests || now >= last {
            return;
        }
        connection.idle_since = now;
        connection.idle_until = last.min(now + limits.timeout);
        let Some(endpoint) = pool.endpoints.get(endpoint) else { return };
        if endpoint.retired.load(Ordering::Acquire) {
            return;
        }
        if !endpoint.idle.add_below(self.worker, limits.idle) {
            return;
        }
        let mut shelves = self.shelves.borrow_mut();
        let number = endpoint.number.index();
        if shelves.len() <= number {
            shelves.resize_with(number + 1, Vec::new);
        }
        if let Some(shelf) = shelves.get_mut(number) {
            shelf.push(connection);
        }
    }

    /// Closes what leads to endpoints of these pools that are not configured any more. No worker keeps one afterwards.
    pub(crate) fn close_retired(&self, pools: &[Arc<UpstreamPool>]) {
        let mut shelves = self.shelves.borrow_mut();
        for endpoint in pools.iter().flat_map(|pool| &pool.endpoints) {
            if endpoint.retired.load(Ordering::Acquire)
                && let Some(shelf) = shelves.get_mut(endpoint.number.index())
            {
                endpoint.idle.remove(self.worker, shelf.len() as u32);
                *shelf = Vec::new();
            }
        }
    }

    /// Closes the connection that has been idle for the longest time, if there is one.
    pub(crate) fn close_oldest(&self, pools: &[Arc<UpstreamPool>]) {
        let mut shelves = self.shelves.borrow_mut();
        let endpoints = pools.iter().flat_map(|pool| &pool.endpoints);
        let oldest = endpoints
            .filter_map(|endpoint| {
                let first = shelves.get(endpoint.number.index())?.first()?;
                Some((first.idle_since, endpoint))
            })
            .min_by_key(|(since, _)| *since);
        let Some((_, endpoint)) = oldest else { return };
        if let Some(shelf) = shelves.get_mut(endpoint.number.index()) {
            shelf.remove(0);
            endpoint.idle.remove(self.worker, 1);
        }
    }

    /// Closes the older half of the connections to each endpoint, one of them at least.
    pub(crate) fn close_half(&self, pools: &[Arc<UpstreamPool>]) {
        let mut shelves = self.shelves.borrow_mut();
        for endpoint in pools.iter().flat_map(|pool| &pool.endpoints) {
            let Some(shelf) = shelves.get_mut(endpoint.number.index()) else { continue };
            let count = shelf.len().div_ceil(2);
            shelf.drain(..count);
            endpoint.idle.remove(self.worker, count as u32);
        }
    }

    /// Closes what is too old or was closed by its endpoint.
    pub(crate) fn sweep(&self, pools: &[Arc<UpstreamPool>], now: Instant) {
        let mut shelves = self.shelves.borrow_mut();
        // A look and no more: there is nobody to be woken.
        let context = &mut Context::from_waker(Waker::noop());
        for pool in pools {
            for endpoint in &pool.endpoints {
                let Some(shelf) = shelves.get_mut(endpoint.number.index()) else { continue };
                let before = shelf.len();
                shelf.retain_mut(|connection| {
                    within_limits(pool, connection, now)
                        && is_open(context, &mut connection.transport)
                });
                endpoint.idle.remove(self.worker, (before - shelf.len()) as u32);
            }
        }
    }
}

fn within_limits<S>(pool: &UpstreamPool, connection: &UpstreamConnection<S>, now: Instant) -> bool {
    now - connection.idle_since < pool.keepalive.timeout
        && now - connection.opened < pool.keepalive.max_age
}

/// Whether an idle connection has neither been closed nor sent anything unasked. Costs no system call while the reactor
/// has seen nothing.
fn is_open<S: AsyncRead + AsyncWrite + Unpin>(
    context: &mut Context<'_>,
    transport: &mut Transport<S>,
) -> bool {
    let mut byte = [0];
    let mut buffer = ReadBuf::new(&mut byte);
    Pin::new(transport).poll_read(context, &mut buffer).is_pending()
}
