//! The listening sockets of a running server, by address. A reload opens new sockets before the
//! configuration is swapped and closes unused ones after it; sockets that stay are never closed, so
//! no client is refused. It accepts no connections itself.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::timeout;
use weir_config::Config;
use weir_config::model::{ListenAddress, Listener, TcpKeepalive, is_abstract};
use weir_proxy::bind::{BoundAddress, BoundSocket, bind, bind_shared, set_mode, share_port};
use weir_proxy::inherited::Inherited;
use weir_proxy::listening_socket::ListeningSocket;
use weir_proxy::snapshot::Snapshot;
use weir_proxy::start::DataPlane;
use weir_proxy::tcp_keepalive;

use super::address::{Listening, Purpose};

/// The longest that closing all sockets may take.
const LEAVING: Duration = Duration::from_secs(1);

/// All sockets that accept connections.
#[derive(Default)]
pub(crate) struct Listeners(Vec<OpenListener>);

struct OpenListener {
    /// The address as configured.
    asked: ListenAddress,
    listening: Listening,
    listening_socket: ListeningSocket,
    /// The socket for a successor; weak, since the acceptor owns and closes it.
    socket: Weak<OwnedFd>,
}

/// Sockets that were opened for a new configuration and do not accept connections yet.
pub(crate) struct PreparedListeners {
    sockets: Vec<(ListenAddress, BoundSocket)>,
    made: SocketFiles,
}

/// The files of new Unix sockets. They are removed on drop unless the sockets are kept: a rejected
/// configuration leaves no files.
#[derive(Debug, Default)]
pub(crate) struct SocketFiles {
    paths: Vec<PathBuf>,
    /// Set if sockets were inherited: the files may then belong to another process.
    leaves_files: bool,
}

impl SocketFiles {
    pub(crate) fn beside(inherited: &Inherited) -> Self {
        Self { paths: Vec::new(), leaves_files: !inherited.is_empty() }
    }

    pub(crate) fn note(&mut self, socket: &BoundSocket) {
        self.paths.extend(socket.address.file().map(Path::to_owned));
    }

    /// Keeps the files, since the sockets accept connections now.
    pub(crate) fn stay(mut self) {
        self.paths.clear();
    }
}

impl Drop for SocketFiles {
    fn drop(&mut self) {
        for path in self.paths.iter().filter(|_| !self.leaves_files) {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Sets keep-alive on the listening socket; connections accepted from now on inherit it.
fn set_tcp_keepalive(address: &BoundAddress, socket: &OwnedFd, probes: &TcpKeepalive) {
    if matches!(address, BoundAddress::Socket(_)) {
        tcp_keepalive::set(socket.as_fd(), probes);
    }
}

impl Listeners {
    /// Opens the sockets that a configuration listens on and that are not open yet, one for each
    /// worker at the addresses with `reuseport`; sockets in `inherited` are taken over instead.
    ///
    /// # Errors
    /// One sentence that names the address; nothing stays open then.
    pub(crate) fn prepare(
        &self,
        config: &Config,
        inherited: &mut Inherited,
        workers: usize,
    ) -> Result<PreparedListeners, String> {
        let mut open: Vec<&ListenAddress> = self.0.iter().map(|open| &open.asked).collect();
        let mut prepared =
            PreparedListeners { sockets: Vec::new(), made: SocketFiles::beside(inherited) };
        for listener in &config.listeners {
            for address in &listener.addresses {
                if listener.reuseport {
                    self.share_port(address)?;
                }
                let mut first = self.actual(address);
                for _ in 0..sockets_of(listener, address, workers) {
                    if let Some(at) = open.iter().position(|other| other.is_at(address)) {
                        open.swap_remove(at);
                        continue;
                    }
                    let socket = if listener.reuseport {
                        // The others have the port that the first one got for port 0.
                        bind_shared(first.as_ref().unwrap_or(address), inherited)?
                    } else {
                        bind(address, inherited)?
                    };
                    if let BoundAddress::Socket(bound) = &socket.address {
                        first.get_or_insert(ListenAddress::Socket(*bound));
                    }
                    prepared.made.note(&socket);
                    prepared.sockets.push((address.clone(), socket));
                }
            }
        }
        Ok(prepared)
    }

    /// Returns the address of an open socket, with the port that it got for port 0.
    fn actual(&self, asked: &ListenAddress) -> Option<ListenAddress> {
        let open = self.0.iter().find(|open| open.asked.is_at(asked))?;
        match &open.listening.address {
            BoundAddress::Socket(address) => Some(ListenAddress::Socket(*address)),
            BoundAddress::Unix(_) => None,
        }
    }

    /// Prepares the open sockets of an address for others beside them.
    fn share_port(&self, address: &ListenAddress) -> Result<(), String> {
        let open = self.0.iter().filter(|open| open.asked.is_at(address));
        for socket in open.filter_map(|open| open.socket.upgrade()) {
            share_port(&socket).map_err(|error| format!("cannot set `reuseport`: {error}"))?;
        }
        Ok(())
    }

    /// Starts to accept on the prepared sockets, assigns all sockets to their listeners, and closes
    /// those that are no longer configured.
    ///
    /// # Returns
    /// The differences for clients, one line each.
    pub(crate) async fn follow(
        &mut self,
        PreparedListeners { sockets: mut prepared, made }: PreparedListeners,
        config: &Config,
        plane: &DataPlane,
        snapshot: &Snapshot,
    ) -> Vec<String> {
        let mut before = std::mem::take(&mut self.0);
        let mut lines = Vec::new();
        made.stay();
        for (model, listener) in config.listeners.iter().zip(&snapshot.listeners) {
            let (purpose, tls) = (Purpose::of(model), model.tls.is_some());
            let probes = &model.tcp_keepalive;
            let workers = plane.process().loads.len();
            let copies =
                |address| std::iter::repeat_n(address, sockets_of(model, address, workers));
            for address in model.addresses.iter().flat_map(copies) {
                let kept = before.iter().position(|open| open.asked.is_at(address));
                if let Some(mut open) = kept.map(|at| before.swap_remove(at)) {
                    open.listening_socket.set_gate(&listener.gate);
                    if let Some(socket) = open.socket.upgrade() {
                        set_tcp_keepalive(&open.listening.address, &socket, probes);
                    }
                    lines.extend(change_mode(&open.asked, address));
                    (open.asked, open.listening.tls) = (address.clone(), tls);
                    open.listening.purpose = purpose;
                    self.0.push(open);
                    continue;
                }
                let new = prepared.iter().position(|(other, _)| other.is_at(address));
                let Some((asked, socket)) = new.map(|at| prepared.swap_remove(at)) else {
                    continue;
                };
                let at = socket.address.clone();
                set_tcp_keepalive(&at, &socket.socket, probes);
                let listening = Listening { purpose, address: at, tls };
                let kept = Arc::downgrade(&socket.socket);
                let listening_socket = plane.open(socket, &listener.name, &listener.gate);
                if self.0.iter().all(|open| open.listening != listening) {
                    lines.push(format!("listening on {listening}"));
                }
                self.0.push(OpenListener { asked, listening, listening_socket, socket: kept });
            }
        }
        for OpenListener { listening, listening_socket, .. } in before {
            if self.0.iter().all(|open| open.listening.address != listening.address) {
                lines.push(format!("not listening on {listening} any more"));
            }
            listening_socket.close().await;
            if let Some(path) = listening.address.file() {
                // No process listens there. A new socket at this path would replace the file
                // anyway.
                let _ = std::fs::remove_file(path);
            }
        }
        lines
    }

    /// Every socket with the address it was opened for, for a process that takes them over.
    pub(crate) fn sockets(&self) -> Vec<(ListenAddress, Arc<OwnedFd>)> {
        let socket = |open: &OpenListener| Some((open.asked.clone(), open.socket.upgrade()?));
        self.0.iter().filter_map(socket).collect()
    }

    /// Stops accepting. The sockets' files stay: they belong to another process now.
    pub(crate) async fn leave(&mut self) {
        let mut closing = JoinSet::new();
        for open in std::mem::take(&mut self.0) {
            closing.spawn(open.listening_socket.leave());
        }
        // An acceptor that holds a connection while it waits for room under a cap is left to the
        // drain.
        let _ = timeout(LEAVING, async { while closing.join_next().await.is_some() {} }).await;
        closing.detach_all();
    }

    /// The addresses listened on, in the configuration's order.
    pub(crate) fn listening(&self) -> Vec<Listening> {
        let mut all: Vec<Listening> = Vec::new();
        for OpenListener { listening, .. } in &self.0 {
            if !all.contains(listening) {
                all.push(listening.clone());
            }
        }
        all
    }
}

/// Returns the number of sockets at an address of a listener.
fn sockets_of(listener: &Listener, address: &ListenAddress, workers: usize) -> usize {
    match address {
        ListenAddress::Socket(_) if listener.reuseport => workers.max(1),
        _ => 1,
    }
}

/// Changes the mode of a Unix socket if another one is configured; returns a line if that failed.
fn change_mode(before: &ListenAddress, after: &ListenAddress) -> Option<String> {
    let ListenAddress::Unix { path, mode } = after else { return None };
    if before == after || is_abstract(path) {
        return None;
    }
    let error = set_mode(path, *mode).err()?;
    Some(format!("cannot change the mode of unix:{}: {error}", path.display()))
}
