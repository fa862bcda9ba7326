//! Client connections on their way between threads and processes: to a worker, and away from one.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use crate::net::{Net, PeerAddress};
use crate::snapshot::CompiledListener;
use crate::worker::load::{Place, WorkerLoad};
use crate::worker::migration::{GlobalSeniority, Moved};

/// An accepted connection that is being handed to its worker.
pub struct Handoff<N: Net> {
    pub(crate) accepted: N::Accepted,
    pub(crate) peer: PeerAddress,
    pub(crate) place: Place,
    /// The state of a connection that another process served before.
    pub(crate) moved: Option<Box<Moved>>,
}

impl<N: Net> Handoff<N> {
    /// Redirects the connection to another worker.
    pub(crate) fn reroute(mut self, load: &Arc<WorkerLoad>) -> Self {
        self.place.move_to(load);
        self
    }
}

/// A connection that has left its worker.
pub struct Parting<N: Net> {
    /// Its socket, with the bytes that arrived and were not read.
    pub accepted: N::Accepted,
    /// Its state besides the socket.
    pub moved: Moved,
    /// The listener that it was accepted at.
    pub listener: Arc<CompiledListener>,
    /// The worker that it left.
    pub(crate) worker: usize,
    pub(crate) place: Place,
}

impl<N: Net> Parting<N> {
    /// Its place in the order of arrival, if it waits in a queue.
    pub fn seniority(&self) -> Option<GlobalSeniority> {
        let begun = self.moved.begun.as_ref()?;
        begun.waiting.as_ref().map(|waiting| waiting.seniority)
    }

    /// Returns the connection to the worker that it left: the worker's number, the connection, and
    /// a channel that ends when the connection's request has its place in a queue again, if it
    /// waits in one.
    pub fn returned(self) -> (usize, Handoff<N>, Option<oneshot::Receiver<()>>) {
        let Self { accepted, mut moved, place, worker, .. } = self;
        let arrived = moved.turn();
        (worker, handoff(accepted, place, moved), arrived)
    }
}

/// Creates the handoff of a moved connection to a worker.
pub(crate) fn handoff<N: Net>(accepted: N::Accepted, place: Place, moved: Moved) -> Handoff<N> {
    let peer = match moved.peer {
        Some(address) => PeerAddress::Socket(address),
        None => PeerAddress::Unix(std::path::PathBuf::new()),
    };
    Handoff { accepted, peer, place, moved: Some(Box::new(moved)) }
}

/// The channel for connections that leave their workers.
pub type Departures<N> = mpsc::UnboundedSender<Parting<N>>;
