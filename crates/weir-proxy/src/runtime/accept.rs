//! Accepts connections within the caps and hands each to the worker with the fewest connections, or
//! keeps it at the worker whose own socket (`reuseport`) it came from. At
//! a cap, the oldest idle connection is closed to make room (`idle_clients.rs`); if none is idle,
//! surplus connections stay in the kernel's backlog. It reads no byte of a connection.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::{mpsc, watch};
use tokio::task::yield_now;
use tokio::time::sleep;

use crate::limiting::admission::Gate;
use crate::limiting::client::OverLimit;
use crate::limiting::client_shares::ClientBucket;
use crate::limiting::room::RoomPlace;
use crate::limiting::table::OpenPlace;
use crate::limits::{ACCEPT_PAUSE, ACCEPT_TURN};
use crate::net::{Net, PeerAddress};
use crate::snapshot::CompiledListener;
use crate::time::instant::Instant;
use crate::worker::handoff::Handoff;
use crate::worker::load::{Place, WorkerLoad};
use crate::worker::mail::Mail;
use crate::worker::make_room::{Cap, TooMany};
use crate::worker::process::{Process, Stage};

impl Place {
    /// Counts a connection that another process accepted for its client: in the client's share of
    /// the caps, and under the listener's limits, even beyond them.
    pub(crate) fn count_client(&mut self, process: &Process, peer: IpAddr) {
        let snapshot = process.snapshot();
        let listener = snapshot.position_of(&self.gate).and_then(|at| snapshot.listeners.get(at));
        let Some(listener) = listener.filter(|listener| !listener.trusts(peer)) else { return };
        let bucket = process.client_hasher.bucket(peer);
        self.count_for(bucket);
        let now_ns = process.limit_clock(Instant::now());
        let mut places = Vec::new();
        for limit in &listener.client_limits {
            limit.take_over_connection(peer, now_ns, &mut places);
        }
        self.add_of_client(places);
    }

    /// Returns a place for a connection that another process accepted, if there is room now, and
    /// the number of the worker that gets it.
    pub(crate) fn enter_now(process: &Process, gate: &Arc<Gate>) -> Option<(usize, Self)> {
        let places = (process.connections.enter_now(None)?, gate.room.enter_now(None)?);
        let number = least_loaded(&process.loads, process.open_connections());
        Some((number, Self::new(process.loads.get(number)?, gate, places, None)))
    }
}

/// The counts that a new connection's client holds.
#[derive(Default)]
struct Client {
    /// The places under the client's own connection limits, if it has any.
    places: Vec<OpenPlace>,
    bucket: Option<ClientBucket>,
}

/// Counts a new connection for its client.
///
/// # Errors
/// If one of the client's limits is reached.
fn client_of(process: &Process, gate: &Arc<Gate>, peer: &PeerAddress) -> Result<Client, OverLimit> {
    let snapshot = process.snapshot();
    let listener = snapshot.position_of(gate).and_then(|number| snapshot.listeners.get(number));
    let PeerAddress::Socket(peer) = peer else { return Ok(Client::default()) };
    // The client of a connection with a PROXY header is known later.
    let is_client = |listener: &&Arc<CompiledListener>| {
        !listener.trusts(peer.ip()) && !listener.gets_proxy_header(Some(peer.ip()))
    };
    let Some(listener) = listener.filter(is_client) else {
        return Ok(Client::default());
    };
    let mut places = Vec::new();
    if !listener.client_limits.is_empty() {
        let now_ns = process.limit_clock(Instant::now());
        for limit in &listener.client_limits {
            limit.open_connection(peer.ip(), now_ns, &mut places)?;
        }
    }
    Ok(Client { places, bucket: Some(process.client_hasher.bucket(peer.ip())) })
}

/// The workers that get the connections of a socket.
pub struct Recipients<N: Net> {
    /// The mailboxes of all workers.
    pub mailboxes: Arc<[mpsc::UnboundedSender<Mail<N>>]>,
    /// The worker that keeps them all, because the socket is its own.
    pub own: Option<usize>,
}

impl<N: Net> From<Arc<[mpsc::UnboundedSender<Mail<N>>]>> for Recipients<N> {
    fn from(mailboxes: Arc<[mpsc::UnboundedSender<Mail<N>>]>) -> Self {
        Self { mailboxes, own: None }
    }
}

/// The gate for a socket's future connections; `None` closes the socket. If the sender is dropped,
/// the gate stays as it is.
pub type GateOrders = watch::Receiver<Option<Arc<Gate>>>;

/// Accepts from one socket until the process stops or the gate's sender closes the socket. A change
/// of the gate never loses a connection that the kernel has already handed over.
pub async fn accept<N: Net>(
    net: N,
    socket: N::Listener,
    mut orders: GateOrders,
    process: Arc<Process>,
    recipients: impl Into<Recipients<N>>,
    mut stage: watch::Receiver<Stage>,
) {
    let Recipients { mailboxes, own } = recipients.into();
    let mut next = 0;
    let mut in_a_row = 0;
    let mut accepting = orders.borrow_and_update().clone().map(Accepting::new);
    while let Some(Accepting(gate)) = &accepting {
        let accepted = tokio::select! {
            biased;
            _ = stage.wait_for(|stage| !matches!(stage, Stage::Running)) => return,
            () = changed(&mut orders) => {
                accepting = orders.borrow_and_update().clone().map(Accepting::new);
                continue;
            }
            accepted = accept_one(&net, &socket, gate, &process) => accepted,
        };
        let Some((accepted, peer)) = accepted else { continue };
        in_a_row += 1;
        if in_a_row == ACCEPT_TURN {
            in_a_row = 0;
            yield_now().await;
        }
        if process.memory.refuses() {
            net.close(accepted);
            continue;
        }
        // The client's limits come first: a refused connection must not cause another one to be
        // closed.
        let Ok(client) = client_of(&process, gate, &peer) else {
            net.close(accepted);
            continue;
        };
        let places = tokio::select! {
            // A connection that was accepted before a stop is still served if there is room.
            biased;
            places = enter(gate, &process, client.bucket) => places,
            _ = stage.wait_for(|stage| !matches!(stage, Stage::Running)) => return,
        };
        let Ok(places) = places else {
            process.refused_at_cap.fetch_add(1, Ordering::Relaxed);
            net.close(accepted);
            continue;
        };
        let number = own.unwrap_or_else(|| least_loaded(&process.loads, next));
        next = number + 1;
        let (Some(load), Some(mailbox)) = (process.loads.get(number), mailboxes.get(number)) else {
            return;
        };
        let mut place = Place::new(load, gate, places, client.bucket);
        place.add_of_client(client.places);
        // If the worker is gone, it is stopping; dropping the connection closes it.
        let _ = mailbox.send(Mail::Connection(Handoff { accepted, peer, place, moved: None }));
    }
    // The socket is closed before `orders` is dropped: code that waits for the receivers to
    // disappear may then bind the address again.
    drop(socket);
}

/// A gate that a socket accepts for, counted as long as this value lives.
struct Accepting(Arc<Gate>);

impl Accepting {
    fn new(gate: Arc<Gate>) -> Self {
        gate.accepting.fetch_add(1, Ordering::AcqRel);
        Self(gate)
    }
}

impl Drop for Accepting {
    fn drop(&mut self) {
        self.0.accepting.fetch_sub(1, Ordering::AcqRel);
    }
}

async fn changed(orders: &mut GateOrders) {
    if orders.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Waits for room, or for an idle connection that can be closed to make room, then for a
/// connection. The place itself is taken after that, so that a listener without traffic holds no
/// place that another listener could use; when two tasks compete for the last place, the later one
/// waits with its connection already accepted.
async fn accept_one<N: Net>(
    net: &N,
    socket: &N::Listener,
    gate: &Gate,
    process: &Process,
) -> Option<(N::Accepted, PeerAddress)> {
    process.room_in_sight(Cap::Process).await;
    process.room_in_sight(Cap::Listener(gate)).await;
    match net.accept(socket).await {
        Ok(accepted) => Some(accepted),
        Err(error) => {
            // A connection that was reset before it was accepted is no reason to pause.
            if !matches!(
                error.kind(),
                std::io::ErrorKind::ConnectionAborted | std::io::ErrorKind::Interrupted
            ) {
                sleep(ACCEPT_PAUSE).await;
            }
            None
        }
    }
}

async fn enter(
    gate: &Gate,
    process: &Process,
    client: Option<ClientBucket>,
) -> Result<(RoomPlace, RoomPlace), TooMany> {
    let place = process.make_room(Cap::Process, client).await?;
    Ok((place, process.make_room(Cap::Listener(gate), client).await?))
}

/// Returns the worker with the fewest connections, then the fewest running exchanges; ties rotate
/// from `first`. A worker that does not run its tasks comes last.
pub(crate) fn least_loaded(loads: &[Arc<WorkerLoad>], first: usize) -> usize {
    let key = |load: &WorkerLoad| {
        let (open, busy) = (load.open.load(Ordering::Relaxed), load.busy.load(Ordering::Relaxed));
        (load.is_late(), open, busy)
    };
    (0..loads.len())
        .map(|step| (first + step) % loads.len())
        .min_by_key(|&number| loads.get(number).map(|load| key(load)))
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_loaded_worker_gets_the_connection_and_equal_ones_take_turns() {
        let loads: Vec<Arc<WorkerLoad>> = (0..4).map(|_| Arc::default()).collect();
        let mut next = 0;
        let mut given = Vec::new();
        for _ in 0..6 {
            let number = least_loaded(&loads, next);
            loads[number].open.fetch_add(1, Ordering::Relaxed);
            next = number + 1;
            given.push(number);
        }
        assert_eq!(given, [0, 1, 2, 3, 0, 1]);
        loads[3].open.store(0, Ordering::Relaxed);
        assert_eq!(least_loaded(&loads, 0), 3);
        for load in &loads {
            load.open.store(5, Ordering::Relaxed);
        }
        loads[0].busy.store(2, Ordering::Relaxed);
        loads[2].busy.store(1, Ordering::Relaxed);
        loads[3].busy.store(1, Ordering::Relaxed);
        assert_eq!(least_loaded(&loads, 0), 1);
        loads[1].late.store(true, Ordering::Relaxed);
        assert_eq!(least_loaded(&loads, 0), 2, "a late worker got a connection");
    }
}
