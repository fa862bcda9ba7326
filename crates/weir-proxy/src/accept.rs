//! Accepts connections, within the caps, and hands each to the worker that holds the fewest. Surplus connections stay in the
//! kernel's backlog. It reads no byte of them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, TryAcquireError, mpsc, watch};
use tokio::time::sleep;

use crate::limits::ACCEPT_PAUSE;
use crate::net::{Net, PeerAddress};
use crate::shared::{Listener, Shared, Stage};
use crate::worker::WorkerLoad;

/// An accepted connection on its way to its worker.
pub struct Handoff<N: Net> {
    pub(crate) accepted: N::Accepted,
    pub(crate) peer: PeerAddress,
    pub(crate) listener: Arc<Listener>,
    pub(crate) place: Place,
}

/// A connection's place within the caps and counters; dropping it makes room.
pub(crate) struct Place {
    load: Arc<WorkerLoad>,
    listener: Arc<Listener>,
    _process: OwnedSemaphorePermit,
    _listener: Option<OwnedSemaphorePermit>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.load.open.fetch_sub(1, Ordering::Relaxed);
        self.listener.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Accepts from one socket until the stage changes.
pub async fn accept<N: Net>(
    net: N,
    socket: N::Listener,
    listener: Arc<Listener>,
    shared: Arc<Shared>,
    mailboxes: Arc<[mpsc::UnboundedSender<Handoff<N>>]>,
    mut stage: watch::Receiver<Stage>,
) {
    let mut next = 0;
    loop {
        let step = accept_one(&net, &socket, &listener, &shared);
        let accepted = tokio::select! {
            biased;
            _ = stage.wait_for(|stage| !matches!(stage, Stage::Running)) => return,
            accepted = step => accepted,
        };
        let Some((accepted, peer, permits)) = accepted else { continue };
        let number = least_loaded(&shared.loads, next);
        next = number + 1;
        let (Some(load), Some(mailbox)) = (shared.loads.get(number), mailboxes.get(number)) else {
            return;
        };
        load.open.fetch_add(1, Ordering::Relaxed);
        listener.open.fetch_add(1, Ordering::Relaxed);
        let (process, own) = permits;
        let place = Place {
            load: load.clone(),
            listener: listener.clone(),
            _process: process,
            _listener: own,
        };
        // A worker that is gone is stopping; dropping the connection closes it.
        let _ = mailbox.send(Handoff { accepted, peer, listener: listener.clone(), place });
    }
}

type Permits = (OwnedSemaphorePermit, Option<OwnedSemaphorePermit>);

/// Waits for room, then for a connection, then takes the room. Room is taken last, so that a listener nobody calls does not
/// hold a place that another could use; when two take the last one, the later waits with its connection in hand.
async fn accept_one<N: Net>(
    net: &N,
    socket: &N::Listener,
    listener: &Listener,
    shared: &Shared,
) -> Option<(N::Accepted, PeerAddress, Permits)> {
    room(&shared.connections).await;
    if let Some(own) = &listener.connections {
        room(own).await;
    }
    match net.accept(socket).await {
        Ok((accepted, peer)) => {
            let process = shared.connections.clone().acquire_owned().await.ok()?;
            let own = match &listener.connections {
                Some(own) => Some(own.clone().acquire_owned().await.ok()?),
                None => None,
            };
            Some((accepted, peer, (process, own)))
        }
        Err(error) => {
            // A connection that was reset before it was accepted is no reason to wait.
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

async fn room(semaphore: &Semaphore) {
    if let Err(TryAcquireError::NoPermits) = semaphore.try_acquire().map(drop) {
        drop(semaphore.acquire().await);
    }
}

/// The worker with the fewest connections, then the fewest running exchanges; equal ones take turns from `first`.
fn least_loaded(loads: &[Arc<WorkerLoad>], first: usize) -> usize {
    let key =
        |load: &WorkerLoad| (load.open.load(Ordering::Relaxed), load.busy.load(Ordering::Relaxed));
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
    }
}
