//! A listening socket and the worker that accepts from it. A socket outlives its worker: when that one
//! is late or gone, another worker accepts (`watchdog.rs` says when). The accepting itself is
//! `accept.rs`.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::net::{Shutdown, shutdown};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use crate::accept::{GateOrders, accept};
use crate::bind::BoundSocket;
use crate::gate::Gate;
use crate::limits::ANSWER_PATIENCE;
use crate::os_net::{OsListener, OsNet};
use crate::shared::{Process, Stage};
use crate::start::panic_text;
use crate::worker::Mail;

/// A listening socket that is accepted from. Dropping it leaves it as it is.
pub struct Door(Arc<Site>);

/// A listening socket, the gate that its connections come through, and the worker that accepts.
pub(crate) struct Site {
    /// The listener's.
    pub(crate) name: Arc<str>,
    pub(crate) unix: bool,
    state: Mutex<State>,
}

type Orders = watch::Sender<Option<Arc<Gate>>>;

struct State {
    /// `None` once nothing is to be accepted from it any more.
    socket: Option<Arc<OwnedFd>>,
    gate: Arc<Gate>,
    /// The worker that accepts.
    worker: usize,
    /// What that one is told.
    orders: Option<Orders>,
    /// Of workers that accepted before and may not have noticed yet that they do not any more.
    former: Vec<Orders>,
}

impl Site {
    pub(crate) fn new(socket: BoundSocket, name: &Arc<str>, gate: &Arc<Gate>) -> Self {
        let unix = socket.is_unix();
        let state = State {
            socket: Some(socket.socket),
            gate: Arc::clone(gate),
            worker: 0,
            orders: None,
            former: Vec::new(),
        };
        Self { name: Arc::clone(name), unix, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.state().socket.is_none()
    }

    /// Whether this worker is the one that accepts.
    pub(crate) fn is_served_by(&self, worker: usize) -> bool {
        let state = self.state();
        state.socket.is_some() && state.worker == worker
    }

    /// What another worker needs to accept from it; the one before stops as soon as it runs again.
    /// `None` when nothing is to be accepted any more.
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

    /// Keeps the socket open no longer; the task that accepts does until it is told.
    pub(crate) fn let_go(&self) {
        self.state().socket = None;
    }
}

impl Door {
    pub(crate) fn new(site: Arc<Site>) -> Self {
        Self(site)
    }

    /// Connections come through this gate from now on; those that wait in the kernel too.
    pub fn lead_to(&self, gate: &Arc<Gate>) {
        let mut state = self.0.state();
        state.gate = Arc::clone(gate);
        let Some(orders) = &state.orders else { return };
        orders.send_if_modified(|current| {
            let same = current.as_ref().is_some_and(|current| Arc::ptr_eq(current, gate));
            *current = Some(Arc::clone(gate));
            !same
        });
    }

    /// Accepts nothing any more, and closes the socket: it is closed when this returns. A worker
    /// that does not answer holds it open; then it is shut down, so that clients are refused.
    pub async fn close(self) {
        let socket = self.0.state().socket.as_ref().map(Arc::downgrade);
        if timeout(ANSWER_PATIENCE, self.leave()).await.is_err()
            && let Some(socket) = socket.and_then(|socket| socket.upgrade())
        {
            // One that is shut down already is as it should be.
            let _ = shutdown(&socket, Shutdown::Both);
        }
    }

    /// Accepts nothing any more: returns when no worker does. Another process may have the socket.
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

/// What it takes to accept from a socket.
pub(crate) struct AcceptJob {
    pub(crate) socket: Arc<OwnedFd>,
    pub(crate) unix: bool,
    pub(crate) name: Arc<str>,
    pub(crate) orders: GateOrders,
    pub(crate) process: Arc<Process>,
    pub(crate) mailboxes: Arc<[mpsc::UnboundedSender<Mail<OsNet>>]>,
    pub(crate) stage: watch::Receiver<Stage>,
    pub(crate) report: mpsc::UnboundedSender<String>,
}

impl AcceptJob {
    /// Accepts on the worker whose thread this is.
    pub(crate) fn spawn(self) {
        let Self { socket, unix, name, orders, process, mailboxes, stage, report } = self;
        let socket = match OsListener::new(socket, unix) {
            Ok(socket) => socket,
            Err(error) => {
                let _ = report.send(format!("the listener {name} cannot be served: {error}"));
                return;
            }
        };
        let accepting = accept(OsNet, socket, orders, process, mailboxes, stage);
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
