//! The mail of a worker: connections, snapshots, questions, functions to call. It carries them out
//! nowhere; `worker_loop.rs` does.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{mpsc, oneshot};

use crate::net::Net;
use crate::snapshot::Snapshot;
use crate::worker::handoff::{Departures, Handoff};
use crate::worker::sessions::RunningExchange;

/// The receiving end of a worker's mail. The worker's thread reads it; the watchdog takes
/// connections out of it while that thread is late, and a thread that replaces it continues to read
/// it.
pub struct Mailbox<N: Net>(Arc<Mutex<mpsc::UnboundedReceiver<Mail<N>>>>);

impl<N: Net> Clone for Mailbox<N> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<N: Net> From<mpsc::UnboundedReceiver<Mail<N>>> for Mailbox<N> {
    fn from(receiver: mpsc::UnboundedReceiver<Mail<N>>) -> Self {
        Self(Arc::new(Mutex::new(receiver)))
    }
}

impl<N: Net> Mailbox<N> {
    /// Locks the receiver. The lock is uncontended, except while the watchdog empties the mailbox.
    fn receiver(&self) -> MutexGuard<'_, mpsc::UnboundedReceiver<Mail<N>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) async fn recv(&self) -> Option<Mail<N>> {
        std::future::poll_fn(|context| self.receiver().poll_recv(context)).await
    }

    /// Closes the mailbox: the mail in it is dropped, and later mail is refused.
    pub(crate) fn shut(&self) {
        let mut receiver = self.receiver();
        receiver.close();
        while receiver.try_recv().is_ok() {}
    }

    /// Takes all mail, the oldest first, unless the worker is reading at this moment.
    pub(crate) fn take_all(&self) -> Vec<Mail<N>> {
        let Ok(mut receiver) = self.0.try_lock() else { return Vec::new() };
        std::iter::from_fn(|| receiver.try_recv().ok()).collect()
    }
}

/// A message to a worker.
pub enum Mail<N: Net> {
    /// A connection to serve.
    Connection(Handoff<N>),
    /// The snapshot for new exchanges; the sender is answered when it is in place.
    Snapshot(Arc<Snapshot>, oneshot::Sender<()>),
    /// Connections without TLS leave to this channel from now on, as soon as no endpoint processes
    /// one of their requests; with `None` they stay. The sender is answered when the connections
    /// that could leave at once have left.
    Part(Option<Departures<N>>, oneshot::Sender<()>),
    /// The sender gets the running exchanges.
    Sessions(oneshot::Sender<Vec<RunningExchange>>),
    /// The exchanges at an endpoint end, which is down: the names of its pool and of itself.
    EndpointDown(Arc<str>, Arc<str>),
    /// A function to call on the worker's thread, within its runtime.
    Work(Box<dyn FnOnce() + Send>),
}
