//! A worker: one thread with its own runtime, its connections, and some of the listening sockets.
//! Connections are assigned to the workers in turn, so that all have about the same number.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::TcpStream as StdTcpStream;
use std::os::fd::OwnedFd;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::net::{SocketFlags, accept_with};
use rustls::ServerConfig;
use tokio::io::unix::AsyncFd;
use tokio::net::TcpStream;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::{AbortHandle, LocalSet, spawn_local};
use tokio_rustls::TlsAcceptor;

use super::OriginProtocol;
use super::answer::{Date, Ready};
use super::connection::{OriginConnection, OriginTransport, PortState};
use super::http2;
use super::limits::{ACCEPT_PAUSE, SWEEP};
use super::service::Port;
use super::stats::Stats;
use crate::timer::{Timer, now_ns, watch_readable};

/// An accepted connection on its way to its worker.
pub(super) struct AcceptedHandoff {
    stream: StdTcpStream,
    port: usize,
    open: OpenGuard,
}

/// A guard that counts an open connection.
struct OpenGuard {
    port: Arc<Port>,
    _permit: OwnedSemaphorePermit,
}

impl Drop for OpenGuard {
    fn drop(&mut self) {
        self.port.connections.leave();
    }
}

/// State shared by all workers.
#[derive(Clone)]
pub(super) struct OriginShared {
    pub(super) stats: Arc<Stats>,
    pub(super) mailboxes: Arc<[UnboundedSender<AcceptedHandoff>]>,
    /// The worker that gets the next connection.
    pub(super) next: Arc<AtomicUsize>,
    pub(super) room: Arc<Semaphore>,
    pub(super) tls: Option<Arc<ServerConfig>>,
    pub(super) protocol: OriginProtocol,
    pub(super) idle_ns: u64,
}

/// A worker before it runs.
pub(super) struct OriginWorker {
    pub(super) number: usize,
    pub(super) shared: OriginShared,
    pub(super) mailbox: UnboundedReceiver<AcceptedHandoff>,
    /// Sockets to accept from, each with its port's number.
    pub(super) listeners: Vec<(usize, OwnedFd)>,
    pub(super) stop: watch::Receiver<bool>,
}

/// A connection's deadline and its task.
type Watched = (Weak<Cell<u64>>, AbortHandle);

impl OriginWorker {
    /// Runs until it is stopped, which ends all its connections.
    pub(super) fn run(self, runtime: &tokio::runtime::Runtime) -> io::Result<()> {
        LocalSet::new().block_on(runtime, self.serve())
    }

    async fn serve(mut self) -> io::Result<()> {
        let timer = Timer::new()?;
        spawn_local(timer.clone().run());
        let watched: Rc<RefCell<Vec<Watched>>> = Rc::default();
        spawn_local(sweep(watched.clone()));
        for (port, socket) in std::mem::take(&mut self.listeners) {
            spawn_local(accept(watch_readable(socket)?, port, self.shared.clone()));
        }
        let sites = self.sites(&timer);
        loop {
            tokio::select! {
                handoff = self.mailbox.recv() => match handoff {
                    Some(handoff) => self.take(handoff, &sites, &watched),
                    None => return Ok(()),
                },
                _ = self.stop.changed() => return Ok(()),
            }
        }
    }

    fn sites(&self, timer: &Timer) -> Vec<Rc<PortState>> {
        let date = Rc::new(RefCell::new(Date::new()));
        let site = |port: &Arc<Port>| {
            Rc::new(PortState {
                stats: self.shared.stats.clone(),
                port: port.clone(),
                worker: self.number,
                timer: timer.clone(),
                date: date.clone(),
                ready: RefCell::new(Ready::new(port.address)),
                idle_ns: self.shared.idle_ns,
            })
        };
        self.shared.stats.ports.iter().map(site).collect()
    }

    fn take(
        &self,
        handoff: AcceptedHandoff,
        sites: &[Rc<PortState>],
        watched: &RefCell<Vec<Watched>>,
    ) {
        let Some(site) = sites.get(handoff.port).cloned() else { return };
        let Ok(stream) = TcpStream::from_std(handoff.stream) else { return };
        let deadline = Rc::new(Cell::new(now_ns() + self.shared.idle_ns));
        let watch = Rc::downgrade(&deadline);
        let tls = self.shared.tls.clone().filter(|_| site.port.tls);
        let protocol = self.shared.protocol;
        let open = handoff.open;
        let task = spawn_local(async move {
            let _open = open;
            match tls {
                None if protocol == OriginProtocol::Http2 => {
                    http2::serve(stream, site, deadline).await;
                }
                None => serve(stream, site, deadline).await,
                Some(config) => match TlsAcceptor::from(config).accept(stream).await {
                    Ok(stream) if stream.get_ref().1.alpn_protocol() == Some(b"h2") => {
                        http2::serve(stream, site, deadline).await;
                    }
                    Ok(stream) => serve(stream, site, deadline).await,
                    Err(_) => {
                        site.port.refused.fetch_add(1, Ordering::Relaxed);
                    }
                },
            }
        });
        watched.borrow_mut().push((watch, task.abort_handle()));
    }
}

async fn serve<S: OriginTransport>(stream: S, site: Rc<PortState>, deadline: Rc<Cell<u64>>) {
    OriginConnection::new(stream, site, deadline).serve().await;
}

/// Aborts overdue connections, periodically.
async fn sweep(watched: Rc<RefCell<Vec<Watched>>>) {
    loop {
        tokio::time::sleep(SWEEP).await;
        let now = now_ns();
        watched.borrow_mut().retain(|(deadline, task)| {
            let Some(deadline) = deadline.upgrade() else { return false };
            if deadline.get() < now {
                task.abort();
            }
            true
        });
    }
}

/// Accepts connections while the limit allows, and assigns them to workers.
async fn accept(listener: AsyncFd<OwnedFd>, number: usize, shared: OriginShared) {
    let Some(port) = shared.stats.ports.get(number).cloned() else { return };
    loop {
        let Ok(permit) = shared.room.clone().acquire_owned().await else { return };
        let Ok(mut guard) = listener.readable().await else { return };
        let accepted = guard.try_io(|listener| {
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            Ok(accept_with(listener.get_ref(), flags)?)
        });
        let socket = match accepted {
            Ok(Ok(socket)) => socket,
            // The client has already gone.
            Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
            Ok(Err(_)) => {
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
            Err(_) => continue,
        };
        port.accepted.fetch_add(1, Ordering::Relaxed);
        port.connections.enter();
        let open = OpenGuard { port: port.clone(), _permit: permit };
        let turn = shared.next.fetch_add(1, Ordering::Relaxed) % shared.mailboxes.len();
        if let Some(mailbox) = shared.mailboxes.get(turn) {
            let _ = mailbox.send(AcceptedHandoff { stream: socket.into(), port: number, open });
        }
    }
}
