//! A listening socket and the worker that accepts from it. A socket outlives its worker: when that
//! worker is late or gone, another one accepts (`watchdog/` decides when). It accepts no connection
//! itself; `accept.rs` does.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::net::{Shutdown, shutdown};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use crate::limiting::admission::Gate;
use crate::limits::ANSWER_PATIENCE;
use crate::net::bind::BoundSocket;
use crate::net::os_net::{OsListener, OsNet};
use crate::runtime::accept::{GateOrders, Recipients, accept};
use crate::runtime::start::panic_text;
use crate::worker::process::{Process, Stage};

/// A listening socket in use. Dropping it does not change the socket.
pub struct ListeningSocket(Arc<AcceptSite>);

/// A listening socket, the gate of its connections, and the worker that accepts from it.
pub(crate) struct AcceptSite {
    /// The listener's name.
    pub(crate) name: Arc<str>,
    pub(crate) unix: bool,
    /// Set if the worker that accepts keeps the connections.
    pub(crate) keeps: bool,
    state: Mutex<SocketState>,
}

type GateSender = watch::Sender<Option<Arc<Gate>>>;

struct SocketState {
    /// `None` once no more connections are to be accepted from it.
    socket: Option<Arc<OwnedFd>>,
    gate: Arc<Gate>,
    /// The worker that accepts.
    worker: usize,
    /// The channel to the accepting worker.
    orders: Option<GateSender>,
    /// Channels to workers that accepted before and may not have noticed yet that they must stop.
    former: Vec<GateSender>,
}

impl AcceptSite {
    pub(crate) fn new(socket: BoundSocket, name: &Arc<str>, gate: &Arc<Gate>) -> Self {
        let unix = socket.is_unix();
        let keeps = socket.reuseport;
        let state = SocketState {
            socket: Some(socket.socket),
            gate: Arc::clone(gate),
            worker: 0,
            orders: None,
            former: Vec::new(),
        };
        Self { name: Arc::clone(name), unix, keeps, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, SocketState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.state().socket.is_none()
    }

    /// Returns true if this worker is the one that accepts.
    pub(crate) fn is_served_by(&self, worker: usize) -> bool {
        let state = self.state();
        state.socket.is_some() && state.worker == worker
    }

    /// Makes another worker the accepting one and returns what it needs; the previous worker stops
    /// as soon as it runs again. `None` when no more connections are to be accepted.
    pub(crate) fn move_to(&self, worker: usize) -> Option<(Arc<OwnedFd>, GateOrders)> {
        let mut state = self.state();
        let socket = state.socket.clone()?;
        let (sender, orders) = watch::channel(Some(Arc::clone(&state.gate)));
        state.worker = worker;
        state.former.retain(|former| !former.is_closed());
        if let Some(former) = state.orders.replace(sender) {
            former.send_replace(None);
            state.former.push(former);
        }
        Some((socket, orders))
    }

    /// Releases the socket; the accepting task still keeps it open until it is told to stop.
    pub(crate) fn release(&self) {
        self.state().socket = None;
    }
}

impl ListeningSocket {
    pub(crate) fn new(site: Arc<AcceptSite>) -> Self {
        Self(site)
    }

    /// Sets the gate for all further connections, including those in the kernel's backlog.
    pub fn set_gate(&self, gate: &Arc<Gate>) {
        let mut state = self.0.state();
        state.gate = Arc::clone(gate);
        let Some(orders) = &state.orders else { return };
        orders.send_if_modified(|current| {
            let same = current.as_ref().is_some_and(|current| Arc::ptr_eq(current, gate));
            *current = Some(Arc::clone(gate));
            !same
        });
    }

    /// Stops accepting and closes the socket: it is closed when this returns. If a worker that does
    /// not answer holds it open, it is shut down instead, so that clients are refused.
    pub async fn close(self) {
        let socket = self.0.state().socket.as_ref().map(Arc::downgrade);
        if timeout(ANSWER_PATIENCE, self.leave()).await.is_err()
            && let Some(socket) = socket.and_then(|socket| socket.upgrade())
        {
            // An error means that it is shut down already.
            let _ = shutdown(&socket, Shutdown::Both);
        }
    }

    /// Stops accepting and returns when no worker accepts any more. The socket is not shut down:
    /// another process may have it too.
    pub async fn leave(self) {
        let (orders, former) = {
            let mut state = self.0.state();
            state.socket = None;
            (state.orders.take(), std::mem::take(&mut state.former))
        };
        if let Some(orders) = &orders {
            orders.send_replace(None);
        }
        for orders in former.iter().chain(&orders) {
            orders.closed().await;
        }
    }
}

/// The data that a worker needs to accept from a socket.
pub(crate) struct AcceptJob {
    pub(crate) socket: Arc<OwnedFd>,
    pub(crate) unix: bool,
    pub(crate) name: Arc<str>,
    pub(crate) orders: GateOrders,
    pub(crate) process: Arc<Process>,
    pub(crate) recipients: Recipients<OsNet>,
    pub(crate) stage: watch::Receiver<Stage>,
    pub(crate) report: mpsc::UnboundedSender<String>,
}

impl AcceptJob {
    /// Starts accepting on the worker of this thread.
    pub(crate) fn spawn(self) {
        let Self { socket, unix, name, orders, process, recipients, stage, report } = self;
        let socket = match OsListener::new(socket, unix) {
            Ok(socket) => socket,
            Err(error) => {
                let _ = report.send(format!("the listener {name} cannot be served: {error}"));
                return;
            }
        };
        let accepting = accept(OsNet, socket, orders, process, recipients, stage);
        let accepting = tokio::task::spawn_local(accepting);
        tokio::task::spawn_local(async move {
            if let Err(error) = accepting.await
                && error.is_panic()
            {
                let panic = error.into_panic();
                let what = panic_text(&*panic);
                let _ = report.send(format!("the listener {name} ended by a bug: {what}"));
            }
        });
    }
}
