//! Idle connections to endpoints that belong to no worker. A worker parks a connection here that it
//! has not used for a while, or that another worker asked for; a worker that has none of its own
//! takes one over. Requests whose worker has an idle connection do not come here. No worker waits
//! here for another one: if the lock is taken, it goes on without a parked connection.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

use crate::limiting::server_connections::CountedConnection;
use crate::net::Net;
use crate::net::transport::Detached;
use crate::time::instant::Instant;
use crate::upstream::UpstreamEndpoint;
use crate::upstream::idle::{Eligible, History};
use crate::upstream::idle_count::OfWorker;

/// The number of locks, each over the endpoints with the same remainder of their numbers.
const STRIPES: usize = 16;

/// An idle connection that is registered with no worker's reactor.
pub(crate) struct Parked<A> {
    pub(crate) connection: Detached<A>,
    pub(crate) history: History,
    pub(crate) endpoint: Arc<UpstreamEndpoint>,
    pub(crate) _counted: CountedConnection,
}

/// Connections by the quotient of the endpoint's number, the most recently used last.
type Stripe<A> = Vec<Vec<Parked<A>>>;

/// Idle connections that belong to no worker. They count under the cap of all idle connections to
/// an endpoint.
pub struct SharedIdle<A> {
    stripes: [Mutex<Stripe<A>>; STRIPES],
    /// The number of connections.
    count: AtomicUsize,
}

impl<A> Default for SharedIdle<A> {
    fn default() -> Self {
        Self { stripes: std::array::from_fn(|_| Mutex::default()), count: AtomicUsize::new(0) }
    }
}

impl<A> SharedIdle<A> {
    /// The stripe with this number, unless another thread has its lock: that thread may have been
    /// stopped for good.
    fn stripe(&self, number: usize) -> Option<MutexGuard<'_, Stripe<A>>> {
        match self.stripes.get(number % STRIPES)?.try_lock() {
            Ok(stripe) => Some(stripe),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Adds a connection that was counted for `worker`; returns the connection if the lock is
    /// taken.
    pub(crate) fn put(&self, parked: Parked<A>, worker: OfWorker) -> Option<Parked<A>> {
        let endpoint = Arc::clone(&parked.endpoint);
        let number = endpoint.number.index();
        let Some(mut stripe) = self.stripe(number) else { return Some(parked) };
        let place = number / STRIPES;
        if stripe.len() <= place {
            stripe.resize_with(place + 1, Vec::new);
        }
        let Some(shelf) = stripe.get_mut(place) else { return Some(parked) };
        shelf.push(parked);
        self.count.fetch_add(1, Ordering::Relaxed);
        endpoint.idle.park(worker);
        None
    }

    /// Takes the most recently used of the eligible connections to an endpoint.
    pub(crate) fn take(
        &self,
        endpoint: &UpstreamEndpoint,
        eligible: Eligible,
    ) -> Option<Parked<A>> {
        self.take_at(endpoint, |shelf| {
            shelf.iter().rposition(|parked| eligible.contains(&parked.history))
        })
    }

    /// Takes the connection to an endpoint that was parked first.
    pub(crate) fn take_oldest(&self, endpoint: &UpstreamEndpoint) -> Option<Parked<A>> {
        self.take_at(endpoint, |shelf| (!shelf.is_empty()).then_some(0))
    }

    fn take_at(
        &self,
        endpoint: &UpstreamEndpoint,
        place: impl FnOnce(&[Parked<A>]) -> Option<usize>,
    ) -> Option<Parked<A>> {
        let number = endpoint.number.index();
        let mut stripe = self.stripe(number)?;
        let shelf = stripe.get_mut(number / STRIPES)?;
        let parked = shelf.remove(place(shelf)?);
        self.note_gone(&parked);
        Some(parked)
    }

    fn note_gone(&self, parked: &Parked<A>) {
        self.count.fetch_sub(1, Ordering::Relaxed);
        parked.endpoint.idle.unpark();
    }

    /// Removes the connections of a stripe for which `gone` returns true, and returns them.
    fn take_out(&self, number: usize, mut gone: impl FnMut(&Parked<A>) -> bool) -> Vec<Parked<A>> {
        let mut out = Vec::new();
        if self.count.load(Ordering::Relaxed) == 0 {
            return out;
        }
        let Some(mut stripe) = self.stripe(number) else { return out };
        for shelf in stripe.iter_mut().filter(|shelf| !shelf.is_empty()) {
            out.extend(shelf.extract_if(.., |parked| gone(parked)));
        }
        drop(stripe);
        for parked in &out {
            self.note_gone(parked);
        }
        out
    }

    /// Closes connections that are too old, or whose endpoints are gone or have closed them. Each
    /// worker checks its own stripes; the check for a close takes a system call for each connection
    /// and is made in one of these stripes, which `turn` determines.
    pub(crate) fn sweep<N: Net<Accepted = A>>(
        &self,
        net: &N,
        worker: OfWorker,
        turn: usize,
        now: Instant,
    ) {
        let own = (worker.number % STRIPES..STRIPES).step_by(worker.of.clamp(1, STRIPES));
        let asked = own.clone().nth(turn % own.len().max(1));
        for number in own {
            let gone = |parked: &Parked<A>| {
                now >= parked.history.idle_until
                    || parked.endpoint.is_retired()
                    || asked == Some(number) && !net.is_quiet(&parked.connection.socket)
            };
            close(net, self.take_out(number, gone));
        }
    }

    /// Closes the connections to an endpoint.
    pub(crate) fn close_all_to<N: Net<Accepted = A>>(&self, net: &N, endpoint: &UpstreamEndpoint) {
        while endpoint.idle.has_parked()
            && let Some(parked) = self.take_oldest(endpoint)
        {
            net.close(parked.connection.socket);
        }
    }

    /// Closes one connection, the oldest to its endpoint; returns false if there is none.
    pub(crate) fn close_one<N: Net<Accepted = A>>(&self, net: &N) -> bool {
        if self.count.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let oldest = (0..STRIPES).find_map(|number| {
            let mut stripe = self.stripe(number)?;
            let parked = stripe.iter_mut().find(|shelf| !shelf.is_empty())?.remove(0);
            self.note_gone(&parked);
            Some(parked)
        });
        oldest.map(|parked| net.close(parked.connection.socket)).is_some()
    }

    /// Closes all connections.
    pub(crate) fn close_all<N: Net<Accepted = A>>(&self, net: &N) {
        for number in 0..STRIPES {
            close(net, self.take_out(number, |_| true));
        }
    }
}

fn close<N: Net>(net: &N, gone: Vec<Parked<N::Accepted>>) {
    for parked in gone {
        net.close(parked.connection.socket);
    }
}
