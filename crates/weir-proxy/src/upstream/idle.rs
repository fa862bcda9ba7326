//! A worker's idle keep-alive connections to endpoints. The cap on their number applies to all
//! workers together; age, idle time and number of requests are checked here. It opens no
//! connections. A connection that its worker has not used for a while, or that another worker asked
//! for, is parked (`shared_idle.rs`): a worker that has none takes it over.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::mem::ManuallyDrop;
use std::num::NonZeroU32;
use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Waker};
use std::time::Duration;

use smallvec::SmallVec;
use tokio::io::{AsyncRead, ReadBuf};
use weir_config::model::ReuseLevel;
use weir_wire::KeepAliveLimits;

use crate::limiting::server_connections::{CountedConnection, HolderCount, ServerConnections};
use crate::limits::{KEEP_ALIVE_MARGIN, KEPT_FOR_CLIENT, PARK_AFTER, PEEK_AFTER};
use crate::net::transport::Transport;
use crate::net::{Net, Socket};
use crate::time::instant::Instant;
use crate::upstream::http2::stream::EndpointStream;
use crate::upstream::idle_count::OfWorker;
use crate::upstream::shared_idle::{Parked, SharedIdle};
use crate::upstream::upstream_stream::UpstreamStream;
use crate::upstream::{EndpointRef, UpstreamEndpoint, UpstreamPool};

/// The number of a client connection on its worker, from its beginning to its end.
pub(crate) type Owner = NonZeroU32;

/// The idle connections that a request may take.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Eligible {
    whose: Whose,
    /// The name for which they were opened; 0 for the endpoint's own.
    name: u64,
}

/// The clients whose idle connections a request may take.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// None: it opens one.
    None,
    /// Those that are kept for all clients.
    Any,
    /// Those of them that were reused before, which shows that the endpoint keeps connections.
    Reused,
    /// Those that are kept for this client connection.
    Of(Owner),
}

impl Eligible {
    /// Returns those that a request may take; `served` is its number on its client connection, from
    /// 1, and `name` the number of the name that its server is asked for.
    #[inline]
    pub(crate) fn new(level: ReuseLevel, served: u64, owner: Owner, name: u64) -> Self {
        let whose = match level {
            ReuseLevel::Always => Whose::Any,
            ReuseLevel::Never => Whose::Of(owner),
            _ if served > 1 => Whose::Any,
            ReuseLevel::Aggressive => Whose::Reused,
            ReuseLevel::Safe => Whose::None,
        };
        Self { whose, name }
    }

    /// Returns those that are kept for all clients, without a name.
    #[cfg(test)]
    pub(crate) fn any() -> Self {
        Self { whose: Whose::Any, name: 0 }
    }

    /// Returns true if there can be none.
    #[inline]
    pub(crate) fn is_none(self) -> bool {
        self.whose == Whose::None
    }

    #[inline]
    pub(crate) fn contains(self, history: &History) -> bool {
        history.name == self.name
            && match self.whose {
                Whose::None => false,
                Whose::Any => history.owner.is_none(),
                Whose::Reused => history.owner.is_none() && history.requests > 1,
                Whose::Of(owner) => history.owner == Some(owner),
            }
    }
}

/// The end of the exchange after which a connection may be kept.
#[derive(Clone, Copy)]
pub(crate) struct LastUse {
    /// The limits that the endpoint's response announces.
    pub(crate) response: KeepAliveLimits,
    /// The client connection of the exchange.
    pub(crate) owner: Owner,
    pub(crate) now: Instant,
}

/// The use of a connection so far.
#[derive(Clone, Copy)]
pub(crate) struct History {
    opened: Instant,
    /// The client connection that alone may use it, and with which it is closed.
    owner: Option<Owner>,
    idle_since: Instant,
    /// The end of its idle time, under the limits that applied when it was kept.
    pub(crate) idle_until: Instant,
    /// The number of exchanges over it, including the running one.
    requests: u64,
    /// The name that its TLS asked for, if a request decided that; 0 for the endpoint's own.
    name: u64,
}

/// A connection to an endpoint, with its history.
pub(crate) struct UpstreamConnection<S: Socket> {
    pub(crate) transport: UpstreamStream<S>,
    history: History,
    /// Set if the connection was idle when the running exchange took it.
    pub(crate) reused: bool,
    /// Set if a part of the running exchange's request is not written yet.
    pub(crate) sends: bool,
    /// `None` for a stream of HTTP/2: its connection is counted.
    counted: Option<CountedConnection>,
    /// Its place among those that are kept for its client, while it is idle.
    kept: Option<KeptPlace>,
}

/// The numbers of idle connections that are kept for single clients, by the clients' places.
#[derive(Debug, Default)]
struct KeptForClients(RefCell<Vec<u8>>);

/// An idle connection that is counted for its client as long as this value lives.
struct KeptPlace {
    all: Rc<KeptForClients>,
    owner: Owner,
}

impl KeptPlace {
    /// Counts a connection, unless its client has [`KEPT_FOR_CLIENT`].
    fn new(all: &Rc<KeptForClients>, owner: Owner) -> Option<Self> {
        let mut counts = all.0.borrow_mut();
        let index = owner.get() as usize - 1;
        if counts.len() <= index {
            counts.resize(index + 1, 0);
        }
        let count = counts.get_mut(index).filter(|count| **count < KEPT_FOR_CLIENT)?;
        *count += 1;
        Some(Self { all: Rc::clone(all), owner })
    }
}

impl Drop for KeptPlace {
    fn drop(&mut self) {
        if let Some(count) = self.all.0.borrow_mut().get_mut(self.owner.get() as usize - 1) {
            *count = count.saturating_sub(1);
        }
    }
}

/// The counters of connections by holder: this worker, or none.
pub(crate) struct HolderCounters {
    own: Arc<HolderCount>,
    parked: Arc<HolderCount>,
}

impl HolderCounters {
    pub(crate) fn of(connections: &ServerConnections, worker: usize) -> Self {
        Self { own: connections.of_worker(worker), parked: connections.parked() }
    }
}

impl<S: Socket> UpstreamConnection<S> {
    /// A new connection, for its first exchange.
    #[cfg(test)]
    pub(crate) fn fresh(transport: Transport<S>, counted: CountedConnection, now: Instant) -> Self {
        Self::fresh_for(transport, counted, now, 0)
    }

    /// A new connection whose TLS asked for the name of a request.
    pub(crate) fn fresh_for(
        transport: Transport<S>,
        counted: CountedConnection,
        now: Instant,
        name: u64,
    ) -> Self {
        let (idle_since, idle_until) = (now, now);
        let history =
            History { opened: now, owner: None, idle_since, idle_until, requests: 1, name };
        let (transport, counted) = (UpstreamStream::Own(transport), Some(counted));
        Self { transport, history, reused: false, sends: false, counted, kept: None }
    }

    /// A stream of an HTTP/2 connection, which is `reused` if it had other streams before.
    pub(crate) fn of_stream(stream: Box<EndpointStream>, reused: bool, now: Instant) -> Self {
        let (idle_since, idle_until) = (now, now);
        let history =
            History { opened: now, owner: None, idle_since, idle_until, requests: 1, name: 0 };
        let transport = UpstreamStream::Shared(stream);
        Self { transport, history, reused, sends: false, counted: None, kept: None }
    }

    /// The transport and the history of an idle connection that is kept for all clients.
    fn into_parts(self) -> (UpstreamStream<S>, History) {
        let idle = ManuallyDrop::new(self);
        debug_assert!(idle.kept.is_none(), "it is kept for all clients");
        // SAFETY: `idle` is neither used again nor dropped, so that what is read has one owner; the
        // other fields have nothing to drop.
        let (transport, counted) = unsafe {
            (std::ptr::read(&raw const idle.transport), std::ptr::read(&raw const idle.counted))
        };
        drop(counted);
        (transport, idle.history)
    }
}

impl<S: Socket> Drop for UpstreamConnection<S> {
    /// Resets the connection if its request was aborted half-way: after a FIN, the kernel would
    /// keep the unsent bytes for minutes if the endpoint does not read.
    fn drop(&mut self) {
        if let Some(socket) = self.transport.socket().filter(|_| self.sends) {
            socket.reset_on_close();
        }
    }
}

/// A worker's idle connections to one endpoint: those for all clients, the most recently used last,
/// and after them those that are kept for one client, in the order of the clients' places. The list
/// allocates memory only for more than one of them; one is the usual number where endpoints are
/// many.
type Shelf<S> = SmallVec<[Box<UpstreamConnection<S>>; 1]>;

/// A worker's idle connections, by the endpoint's number, and access to the parked connections,
/// which belong to no worker.
pub(crate) struct IdleConnections<N: Net> {
    shelves: RefCell<Vec<Shelf<N::Stream>>>,
    worker: OfWorker,
    net: N,
    shared: Arc<SharedIdle<N::Accepted>>,
    counters: HolderCounters,
    /// The endpoints to which connections may be kept for single clients, by number.
    owned: RefCell<BTreeMap<usize, Arc<UpstreamEndpoint>>>,
    kept: Rc<KeptForClients>,
    /// The number of sweeps.
    sweeps: Cell<usize>,
    /// Set once the worker has ended, though some of its connections may outlast it for a moment:
    /// nothing is parked any more.
    ended: Cell<bool>,
}

impl<N: Net> IdleConnections<N> {
    pub(crate) fn new(
        worker: OfWorker,
        net: N,
        shared: Arc<SharedIdle<N::Accepted>>,
        counters: HolderCounters,
    ) -> Self {
        Self {
            shelves: RefCell::default(),
            worker,
            net,
            shared,
            counters,
            owned: RefCell::default(),
            kept: Rc::default(),
            sweeps: Cell::new(0),
            ended: Cell::new(false),
        }
    }

    /// Counts a connection that is about to be opened.
    pub(crate) fn count(&self) -> CountedConnection {
        CountedConnection::new(&self.counters.own)
    }

    /// Counts a connection of this worker as idle, unless the endpoint has `most` of them.
    #[inline]
    fn count_idle(&self, endpoint: &UpstreamEndpoint, most: u32) -> bool {
        let counted = endpoint.idle.add_below(self.worker, most);
        if counted {
            self.counters.own.add_idle();
        }
        counted
    }

    /// Counts connections of this worker that are no longer idle.
    #[inline]
    fn forget(&self, endpoint: &UpstreamEndpoint, count: u32) {
        endpoint.idle.remove(self.worker, count);
        self.counters.own.remove_idle(count as usize);
    }

    /// Takes the most recently used of the eligible connections that is still open and within its
    /// limits. The task is woken when the connection's next bytes arrive.
    pub(crate) fn take(
        &self,
        context: &mut Context<'_>,
        at: EndpointRef<'_>,
        eligible: Eligible,
        now: Instant,
    ) -> Option<Box<UpstreamConnection<N::Stream>>> {
        let endpoint = at.pool.endpoints.get(at.index)?;
        let mut shelves = self.shelves.borrow_mut();
        let mut shelf = shelves.get_mut(endpoint.number.index());
        while let Some(mut connection) = shelf.as_mut().and_then(|shelf| pop(shelf, eligible)) {
            self.forget(endpoint, 1);
            if now < connection.history.idle_until
                && is_open(context, &mut connection.transport)
                && is_silent(&self.net, &connection, now)
            {
                connection.history.requests += 1;
                connection.reused = true;
                connection.kept = None;
                endpoint.reused.fetch_add(1, Ordering::Relaxed);
                return Some(connection);
            }
        }
        // One for a name is not passed on: the other worker would have to know the name.
        let may_take_over =
            matches!(eligible.whose, Whose::Any | Whose::Reused) && eligible.name == 0;
        if may_take_over && endpoint.idle.now() > 0 {
            self.take_over(context, endpoint, eligible, now)
        } else {
            None
        }
    }

    /// Takes over a parked connection. If there is none, asks the other workers to park the next
    /// one that becomes idle.
    #[cold]
    fn take_over(
        &self,
        context: &mut Context<'_>,
        endpoint: &UpstreamEndpoint,
        eligible: Eligible,
        now: Instant,
    ) -> Option<Box<UpstreamConnection<N::Stream>>> {
        while endpoint.idle.has_parked()
            && let Some(parked) = self.shared.take(endpoint, eligible)
        {
            let Parked { connection, history, .. } = parked;
            if now >= history.idle_until || !self.net.is_quiet(&connection.socket) {
                self.net.close(connection.socket);
                continue;
            }
            let name = endpoint.server_name.as_ref();
            let Ok(mut transport) = Transport::attach(connection, name, &self.net) else {
                continue;
            };
            if is_open(context, &mut transport) {
                let transport = UpstreamStream::Own(transport);
                endpoint.reused.fetch_add(1, Ordering::Relaxed);
                endpoint.taken_over.fetch_add(1, Ordering::Relaxed);
                let history = History { requests: history.requests + 1, ..history };
                let counted = Some(self.count());
                let (reused, sends) = (true, false);
                return Some(Box::new(UpstreamConnection {
                    transport,
                    history,
                    reused,
                    sends,
                    counted,
                    kept: None,
                }));
            }
        }
        if endpoint.idle.now() > 0 {
            endpoint.idle_elsewhere.fetch_add(1, Ordering::Relaxed);
            endpoint.idle.ask(self.worker);
        }
        None
    }

    /// Keeps a connection for the next exchange, or closes it when it has reached a limit.
    pub(crate) fn keep(
        &self,
        pool: &UpstreamPool,
        endpoint: usize,
        mut connection: Box<UpstreamConnection<N::Stream>>,
        used: LastUse,
    ) {
        if connection.transport.is_shared() {
            // Its connection stays open by itself.
            return;
        }
        let LastUse { response, owner, now } = used;
        let limits = &pool.keepalive;
        let history = &mut connection.history;
        let last = history.opened + limits.max_age;
        if history.requests >= limits.max_requests || now >= last || response.max == Some(0) {
            return;
        }
        let is_owned = limits.reuse == ReuseLevel::Never;
        history.owner = is_owned.then_some(owner);
        history.idle_since = now;
        // A connection that only its client may use is kept as long as that is there.
        history.idle_until = if is_owned { last } else { last.min(now + limits.timeout) };
        if let Some(seconds) = response.timeout_s {
            history.idle_until = history.idle_until.min(now + shortened(seconds));
        }
        let Some(endpoint) = pool.endpoints.get(endpoint) else { return };
        if endpoint.is_retired() || limits.idle == 0 {
            return;
        }
        if is_owned {
            connection.kept = KeptPlace::new(&self.kept, owner);
            if connection.kept.is_none() {
                return;
            }
        }
        // Those of single clients have a bound for each client.
        let most = if is_owned { u32::MAX } else { limits.idle };
        let has_place = self.count_idle(endpoint, most) || self.make_place(endpoint, limits.idle);
        if !has_place {
            return;
        }
        if is_owned {
            self.note_owned(endpoint);
        } else if connection.history.name == 0 && endpoint.idle.is_asked_for(self.worker) {
            return self.park(endpoint, *connection);
        }
        let mut shelves = self.shelves.borrow_mut();
        let number = endpoint.number.index();
        if shelves.len() <= number {
            shelves.resize_with(number + 1, Shelf::new);
        }
        let Some(shelf) = shelves.get_mut(number) else { return };
        if self.owned.borrow().is_empty() {
            shelf.push(connection);
        } else {
            let at = shelf.partition_point(|one| one.history.owner <= connection.history.owner);
            shelf.insert(at, connection);
        }
    }

    /// Closes the connection that has been idle the longest, a parked one first, or two if there is
    /// no room for another one then, because the cap was lowered: then it returns false, as it does
    /// if all are with other workers, out of reach.
    #[cold]
    fn make_place(&self, endpoint: &UpstreamEndpoint, most: u32) -> bool {
        for _ in 0..2 {
            let parked = endpoint.idle.has_parked().then(|| self.shared.take_oldest(endpoint));
            if let Some(parked) = parked.flatten() {
                self.net.close(parked.connection.socket);
            } else {
                let mut shelves = self.shelves.borrow_mut();
                match shelves.get_mut(endpoint.number.index()) {
                    Some(shelf) if !shelf.is_empty() => drop(shelf.remove(0)),
                    _ => return false,
                }
                self.forget(endpoint, 1);
            }
            if self.count_idle(endpoint, most) {
                return true;
            }
        }
        false
    }

    #[cold]
    fn note_owned(&self, endpoint: &Arc<UpstreamEndpoint>) {
        let mut owned = self.owned.borrow_mut();
        owned.entry(endpoint.number.index()).or_insert_with(|| Arc::clone(endpoint));
    }

    /// Closes the connections that are kept for a client connection, by its place; it ends.
    #[inline]
    pub(crate) fn close_of(&self, owner: Owner) {
        let mut owned = self.owned.borrow_mut();
        if owned.is_empty() {
            return;
        }
        let mut shelves = self.shelves.borrow_mut();
        owned.retain(|number, endpoint| {
            let Some(shelf) = shelves.get_mut(*number) else { return false };
            let closed = range_of(shelf, owner);
            self.forget(endpoint, closed.len() as u32);
            shelf.drain(closed);
            shelf.last().is_some_and(|one| one.history.owner.is_some())
        });
    }

    /// Parks a connection that is counted for this worker, so that any worker may take it over, or
    /// closes it.
    #[cold]
    fn park(
        &self,
        endpoint: &Arc<UpstreamEndpoint>,
        mut connection: UpstreamConnection<N::Stream>,
    ) {
        let context = &mut Context::from_waker(Waker::noop());
        let refused = if !self.ended.get() && is_open(context, &mut connection.transport) {
            let (transport, history) = connection.into_parts();
            transport.detach(&self.net).ok().map(|connection| {
                let endpoint = Arc::clone(endpoint);
                let counted = CountedConnection::new(&self.counters.parked);
                let parked = Parked { connection, history, endpoint, _counted: counted };
                self.shared.put(parked, self.worker)
            })
        } else {
            None
        };
        match refused {
            Some(None) => self.counters.own.remove_idle(1),
            Some(Some(parked)) => {
                self.net.close(parked.connection.socket);
                self.forget(endpoint, 1);
            }
            None => self.forget(endpoint, 1),
        }
    }

    /// Closes the connections to endpoints that were removed. Called after each change of the
    /// configuration, before the numbers of those endpoints are assigned to others.
    pub(crate) fn close_retired(&self, pools: &[Arc<UpstreamPool>]) {
        let mut shelves = self.shelves.borrow_mut();
        for endpoint in pools.iter().flat_map(|pool| &pool.endpoints) {
            if !endpoint.is_retired() {
                continue;
            }
            if let Some(shelf) = shelves.get_mut(endpoint.number.index()) {
                self.forget(endpoint, shelf.len() as u32);
                *shelf = Shelf::new();
            }
            self.shared.close_all_to(&self.net, endpoint);
        }
    }

    /// Closes the connection that has been idle the longest, if there is one, and those that are
    /// parked.
    pub(crate) fn close_oldest(&self, pools: &[Arc<UpstreamPool>]) {
        self.shared.close_all(&self.net);
        self.close_own(pools);
    }

    /// Closes one connection: a parked one, or the one that has been idle here the longest. Returns
    /// false if there is none.
    pub(crate) fn close_one(&self, pools: &[Arc<UpstreamPool>]) -> bool {
        self.shared.close_one(&self.net) || self.close_own(pools)
    }

    /// Closes this worker's connection that has been idle the longest; returns false if there is
    /// none.
    fn close_own(&self, pools: &[Arc<UpstreamPool>]) -> bool {
        let mut shelves = self.shelves.borrow_mut();
        let endpoints = pools.iter().flat_map(|pool| &pool.endpoints);
        let oldest = endpoints
            .filter_map(|endpoint| {
                let first = shelves.get(endpoint.number.index())?.first()?;
                Some((first.history.idle_since, endpoint))
            })
            .min_by_key(|(since, _)| *since);
        let Some((_, endpoint)) = oldest else { return false };
        if let Some(shelf) = shelves.get_mut(endpoint.number.index()) {
            shelf.remove(0);
            self.forget(endpoint, 1);
        }
        true
    }

    /// Closes the older half of the connections to each endpoint, at least one, and those that are
    /// parked.
    pub(crate) fn close_half(&self, pools: &[Arc<UpstreamPool>]) {
        self.shared.close_all(&self.net);
        let mut shelves = self.shelves.borrow_mut();
        for endpoint in pools.iter().flat_map(|pool| &pool.endpoints) {
            let Some(shelf) = shelves.get_mut(endpoint.number.index()) else { continue };
            let count = shelf.len().div_ceil(2);
            shelf.drain(..count);
            self.forget(endpoint, count as u32);
        }
    }

    /// Closes the parked connections, and parks none from now on; called when the worker ends,
    /// because the last worker leaves none that would close them.
    pub(crate) fn end(&self) {
        self.ended.set(true);
        self.shared.close_all(&self.net);
    }

    /// Closes connections to some endpoints of a pool that are too old or were closed by the
    /// endpoint, and parks those that this worker has not used for a while.
    pub(crate) fn sweep(
        &self,
        pool: &UpstreamPool,
        endpoints: &[Arc<UpstreamEndpoint>],
        now: Instant,
    ) {
        let mut shelves = self.shelves.borrow_mut();
        // Only the current state matters, so no task needs to be woken.
        let context = &mut Context::from_waker(Waker::noop());
        for endpoint in endpoints {
            let Some(shelf) = shelves.get_mut(endpoint.number.index()) else { continue };
            let before = shelf.len();
            shelf.retain(|connection| {
                within_limits(pool, &connection.history, now)
                    && is_open(context, &mut connection.transport)
            });
            self.forget(endpoint, (before - shelf.len()) as u32);
            if self.worker.of > 1 {
                let rested = |history: &History| {
                    now >= history.idle_since + PARK_AFTER && history.owner.is_none()
                };
                let count = shelf.iter().take_while(|one| rested(&one.history)).count();
                // Those for a name stay: no other worker takes one.
                let mut at = 0;
                for _ in 0..count {
                    if shelf.get(at).is_some_and(|one| one.history.name == 0) {
                        self.park(endpoint, *shelf.remove(at));
                    } else {
                        at += 1;
                    }
                }
            }
        }
    }

    /// Closes parked connections that are too old, or whose endpoints are gone or have closed
    /// them.
    pub(crate) fn sweep_parked(&self, now: Instant) {
        let turn = self.sweeps.get();
        self.sweeps.set(turn.wrapping_add(1));
        self.shared.sweep(&self.net, self.worker, turn, now);
    }
}

/// Removes the most recently used of the eligible connections.
#[inline]
fn pop<S: Socket>(shelf: &mut Shelf<S>, eligible: Eligible) -> Option<Box<UpstreamConnection<S>>> {
    if eligible.contains(&shelf.last()?.history) {
        return shelf.pop();
    }
    let fits = |at: &usize| shelf.get(*at).is_some_and(|one| eligible.contains(&one.history));
    let place = match eligible.whose {
        Whose::Of(owner) => range_of(shelf, owner).rev().find(fits)?,
        _ => shelf.iter().rposition(|one| eligible.contains(&one.history))?,
    };
    Some(shelf.remove(place))
}

/// The places of the connections that are kept for a client connection. A shelf is in the order of
/// the owners; connections for all clients come first.
fn range_of<S: Socket>(shelf: &Shelf<S>, owner: Owner) -> Range<usize> {
    let start = shelf.partition_point(|one| one.history.owner < Some(owner));
    start..shelf.partition_point(|one| one.history.owner <= Some(owner))
}

/// The time for which an idle connection is used if its endpoint announces that it closes it after
/// `seconds`: a request that is on its way at that moment would be lost.
fn shortened(seconds: u32) -> Duration {
    let said = Duration::from_secs(seconds.into());
    said.saturating_sub((said / 2).min(KEEP_ALIVE_MARGIN))
}

fn within_limits(pool: &UpstreamPool, history: &History, now: Instant) -> bool {
    let rested = history.owner.is_none() && now - history.idle_since >= pool.keepalive.timeout;
    now < history.idle_until && !rested && now - history.opened < pool.keepalive.max_age
}

/// Returns true if no bytes have arrived that the reactor has not reported yet. Bytes that arrived
/// before the request was sent are not its response but would be taken for it, and every later
/// response would be matched to the wrong request. The system call is made only if the connection
/// has been idle for [`PEEK_AFTER`]: one that was kept a moment ago has just been read to its end.
fn is_silent<N: Net>(net: &N, connection: &UpstreamConnection<N::Stream>, now: Instant) -> bool {
    now < connection.history.idle_since + PEEK_AFTER
        || connection.transport.socket().is_some_and(|socket| net.is_silent(socket))
}

/// Returns true if an idle connection is still open and has received no unexpected bytes. It costs
/// no system call while the reactor has reported nothing.
fn is_open<R: AsyncRead + Unpin>(context: &mut Context<'_>, transport: &mut R) -> bool {
    let mut byte = [0];
    let mut buffer = ReadBuf::new(&mut byte);
    Pin::new(transport).poll_read(context, &mut buffer).is_pending()
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::os::fd::AsFd;
    use std::task::Poll;

    use tokio::net::TcpStream;
    use weir_stats::log_channel;

    use super::*;
    use crate::net::os_net::{OsNet, OsStream};
    use crate::snapshot::compile::{Surroundings, compile};

    fn pool() -> Arc<UpstreamPool> {
        pool_of("server 127.0.0.1:9;")
    }

    fn pool_of(lines: &str) -> Arc<UpstreamPool> {
        let text = format!("pool app {{ {lines} }} listen 127.0.0.1:0 -> app;");
        let config = weir_config::parse_str("test", &text).unwrap();
        let (sinks, _receiver) = log_channel(0, 1);
        let surroundings = Surroundings { read: &|path| std::fs::read(path), sinks, root: None };
        let snapshot = compile(&config.config, surroundings, None).unwrap().snapshot;
        Arc::clone(&snapshot.pools[0])
    }

    fn counters() -> HolderCounters {
        HolderCounters::of(&ServerConnections::new(1), 0)
    }

    fn last_use(now: Instant) -> LastUse {
        let owner = Owner::MIN;
        LastUse { response: KeepAliveLimits::default(), owner, now }
    }

    /// The state of the reactor while a connection is idle.
    #[derive(Clone, Copy, PartialEq, Eq)]
    enum Reactor {
        Asked,
        NotAsked,
    }

    /// Returns true if a connection is reused after it was idle for this long, while `meanwhile`
    /// happened at its other end.
    async fn is_used_after(
        idle_for: Duration,
        reactor: Reactor,
        meanwhile: impl FnOnce(std::net::TcpStream),
    ) -> bool {
        let pool = pool();
        let worker = OfWorker { number: 0, of: 1 };
        let idle = IdleConnections::new(worker, OsNet, Arc::default(), counters());
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (peer, _) = listener.accept().unwrap();
        let socket = std::net::TcpStream::from(stream.as_fd().try_clone_to_owned().unwrap());
        let now = Instant::now();
        let transport = Transport::Plain(OsStream::from(stream));
        let connection = Box::new(UpstreamConnection::fresh(transport, idle.count(), now));
        idle.keep(&pool, 0, connection, last_use(now));
        meanwhile(peer);
        if reactor == Reactor::Asked {
            // The bytes reach the socket first, then the reactor.
            while socket.peek(&mut [0]).is_err() {
                std::thread::yield_now();
            }
            tokio::task::yield_now().await;
        }
        let taken = |context: &mut Context<'_>| {
            let at = EndpointRef { pool: &pool, index: 0, rules: &pool.rules };
            Poll::Ready(idle.take(context, at, Eligible::any(), now + idle_for))
        };
        poll_fn(taken).await.is_some()
    }

    #[test]
    fn connections_for_a_name_are_taken_for_that_name_only() {
        let now = Instant::now();
        let owner = Owner::new(1).unwrap();
        let history = |owner, name| History {
            opened: now,
            owner,
            idle_since: now,
            idle_until: now,
            requests: 2,
            name,
        };
        for (level, kept_for) in [
            (ReuseLevel::Always, None),
            (ReuseLevel::Aggressive, None),
            (ReuseLevel::Safe, None),
            (ReuseLevel::Never, Some(owner)),
        ] {
            for (wanted, kept) in [(0, 0), (7, 7), (0, 7), (7, 0), (7, 9)] {
                let eligible = Eligible::new(level, 2, owner, wanted);
                let takes = eligible.contains(&history(kept_for, kept));
                assert_eq!(takes, wanted == kept, "{wanted} {kept}");
            }
        }
    }

    #[tokio::test]
    async fn unexpected_bytes_and_a_close_end_an_idle_connection_even_if_not_reported_yet() {
        let mut kept = None;
        assert!(is_used_after(PEEK_AFTER, Reactor::NotAsked, |peer| kept = Some(peer)).await);
        // If the connection is taken sooner, only the reactor's report can show the bytes.
        for (after, reactor) in
            [(PEEK_AFTER, Reactor::NotAsked), (Duration::from_millis(1), Reactor::Asked)]
        {
            let mut kept = None;
            let speaks = |mut peer: std::net::TcpStream| {
                peer.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
                kept = Some(peer);
            };
            assert!(!is_used_after(after, reactor, speaks).await, "{after:?}");
            assert!(!is_used_after(after, reactor, drop).await, "a closed connection was used");
        }
    }

    /// A connection of a worker that has ended outlasted it, and would have been parked by the next
    /// sweep, with no worker left that closes it.
    #[tokio::test]
    async fn a_worker_that_has_ended_parks_no_connection() {
        let pool = pool();
        let endpoint = &pool.endpoints[0];
        let [worker, other] = [0, 1].map(|number| OfWorker { number, of: 2 });
        let shared = Arc::default();
        let idle = IdleConnections::new(worker, OsNet, Arc::clone(&shared), counters());
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        for has_ended in [false, true] {
            let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            let (mut peer, _) = listener.accept().unwrap();
            if has_ended {
                idle.end();
            }
            peer.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            endpoint.idle.ask(other);
            let now = Instant::now();
            let transport = Transport::Plain(OsStream::from(stream));
            let connection = Box::new(UpstreamConnection::fresh(transport, idle.count(), now));
            idle.keep(&pool, 0, connection, last_use(now));
            assert_eq!(endpoint.idle.has_parked(), !has_ended);
            assert_eq!(endpoint.idle.now(), u32::from(!has_ended));
            if has_ended {
                assert_eq!(peer.read(&mut [0]).unwrap(), 0, "it is closed");
            }
        }
    }

    /// A client whose requests go to many endpoints would hold a descriptor for each of them.
    #[tokio::test]
    async fn a_client_keeps_few_connections_for_itself_whatever_the_number_of_endpoints() {
        let servers = (1..10).map(|last| format!("server 127.0.0.{last}:9; "));
        let servers = servers.collect::<Vec<_>>().concat();
        let pool = pool_of(&format!("{servers} keepalive reuse=never;"));
        let worker = OfWorker { number: 0, of: 1 };
        let connections = ServerConnections::new(1);
        let counters = HolderCounters::of(&connections, 0);
        let idle = IdleConnections::new(worker, OsNet, Arc::default(), counters);
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let now = Instant::now();
        let keep = async |endpoint: usize, owner: Owner| {
            let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            let transport = Transport::Plain(OsStream::from(stream));
            let connection = Box::new(UpstreamConnection::fresh(transport, idle.count(), now));
            idle.keep(&pool, endpoint, connection, LastUse { owner, ..last_use(now) });
        };
        let [one, other] = [1, 2].map(|number| Owner::new(number).unwrap());
        for endpoint in 0..9 {
            keep(endpoint, one).await;
        }
        let most = usize::from(KEPT_FOR_CLIENT);
        assert_eq!((connections.now(), connections.idle()), (most, most));
        keep(8, other).await;
        assert_eq!(connections.idle(), most + 1);
        // The place of one that is used again is free for another.
        let taken = std::future::poll_fn(|context| {
            let at = EndpointRef { pool: &pool, index: 0, rules: &pool.rules };
            Poll::Ready(idle.take(context, at, Eligible::new(ReuseLevel::Never, 1, one, 0), now))
        });
        drop(taken.await.expect("it is open"));
        keep(7, one).await;
        keep(6, one).await;
        assert_eq!(connections.idle(), most + 1);
        idle.close_of(one);
        assert_eq!((connections.now(), connections.idle()), (1, 1));
        for endpoint in 0..9 {
            keep(endpoint, one).await;
        }
        assert_eq!(connections.idle(), most + 1);
    }

    #[test]
    fn the_idle_time_ends_before_the_endpoint_closes_the_connection() {
        let millis = |seconds| shortened(seconds).as_millis();
        assert_eq!([0, 1, 2, 5, 60].map(millis), [0, 500, 1_000, 4_000, 59_000]);
    }
}
