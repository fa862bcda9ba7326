//! The open admin sockets, by address. A reload opens new ones before the configuration is swapped
//! and closes others after it. A socket that stays remains open even if its rights, owner or token
//! change; its connections under the old rules then have a moment to end, as have the connections
//! of closed sockets: the response to the reload itself may go over one of them.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};

use tokio::sync::{mpsc, watch};
use weir_config::Config;
use weir_config::model::{AdminListener, ListenAddress, is_abstract};
use weir_proxy::bind::{BoundSocket, bind_with, set_mode};
use weir_proxy::inherited::Inherited;

use super::address::{Listening, Purpose};
use super::keys::AdminKeys;
use crate::listeners::sockets::SocketFiles;

/// All admin sockets that accept connections.
pub(crate) struct AdminListeners {
    open: Vec<OpenAdminListener>,
    /// The channel to the thread that accepts.
    thread: mpsc::UnboundedSender<AdminOpening>,
}

struct OpenAdminListener {
    model: AdminListener,
    keys: AdminKeys,
    listening: Listening,
    /// The socket for a reload and for a successor; weak, since the acceptor owns and closes it.
    socket: Weak<OwnedFd>,
    /// Dropping it ends the rules under which connections were accepted.
    _life: watch::Sender<()>,
}

/// An open admin socket with its access rules.
pub struct AdminSocket {
    /// The address and its access rules as configured.
    pub model: AdminListener,
    /// The credentials that it accepts.
    pub keys: AdminKeys,
    /// The bound socket.
    pub socket: BoundSocket,
}

impl AdminSocket {
    /// Opens the socket, unless it was inherited.
    ///
    /// # Errors
    /// One sentence for the operator.
    pub(crate) fn open(
        listener: &AdminListener,
        keys: AdminKeys,
        inherited: &mut Inherited,
    ) -> Result<Self, String> {
        let socket = bind_with(&listener.address, inherited, |path| keys.give(path))?;
        Ok(Self { model: listener.clone(), keys, socket })
    }

    /// The address listened on.
    pub fn listening(&self) -> Listening {
        let (purpose, address) = (Purpose::Admin, self.socket.address.clone());
        Listening { purpose, address, tls: self.keys.tls.is_some() }
    }

    /// Gives an open socket its owner and mode; returns a line if that failed.
    pub(crate) fn change_owner(&self) -> Option<String> {
        let ListenAddress::Unix { path, mode } = &self.model.address else { return None };
        if is_abstract(path) {
            return None;
        }
        let error = self.keys.give(path).and_then(|()| set_mode(path, *mode)).err()?;
        Some(format!("cannot change owner and mode of unix:{}: {error}", path.display()))
    }
}

/// A socket that accepts connections as long as the sender of `life` exists.
pub struct AdminOpening {
    /// The socket.
    pub socket: AdminSocket,
    /// Closed when the rules under which connections were accepted end.
    pub life: watch::Receiver<()>,
}

/// The open sockets of a configuration; new ones do not accept yet.
pub(crate) struct PreparedAdmin {
    sockets: Vec<AdminSocket>,
    made: SocketFiles,
}

impl AdminListeners {
    /// Creates an empty list, and the channel from which the accepting thread receives sockets.
    pub(crate) fn new() -> (Self, mpsc::UnboundedReceiver<AdminOpening>) {
        let (thread, openings) = mpsc::unbounded_channel();
        (Self { open: Vec::new(), thread }, openings)
    }

    /// Opens the sockets of a configuration that are not open yet, or takes over inherited ones;
    /// reads tokens.
    ///
    /// # Errors
    /// One sentence for the operator; nothing new stays open then.
    pub(crate) fn prepare(
        &self,
        config: &Config,
        inherited: &mut Inherited,
    ) -> Result<PreparedAdmin, String> {
        let mut open: Vec<&OpenAdminListener> = self.open.iter().collect();
        let mut prepared =
            PreparedAdmin { sockets: Vec::new(), made: SocketFiles::beside(inherited) };
        for model in &config.admin {
            let keys = AdminKeys::of(model)?;
            let at = open.iter().position(|open| open.model.address.is_at(&model.address));
            if let Some(socket) = at.and_then(|at| open.swap_remove(at).still()) {
                prepared.sockets.push(AdminSocket { model: model.clone(), keys, socket });
                continue;
            }
            let opened = AdminSocket::open(model, keys, inherited)?;
            prepared.made.note(&opened.socket);
            prepared.sockets.push(opened);
        }
        Ok(prepared)
    }

    /// Accepts on the prepared sockets, under their new rules, and on no others.
    ///
    /// # Returns
    /// The differences for clients, one line each.
    pub(crate) fn follow(&mut self, prepared: PreparedAdmin) -> Vec<String> {
        let PreparedAdmin { sockets: prepared, made } = prepared;
        made.stay();
        let mut before = std::mem::take(&mut self.open);
        let mut lines = Vec::new();
        for new in prepared {
            let known = before.iter().position(|open| open.is(&new.socket));
            let known = known.map(|at| before.swap_remove(at));
            match known {
                Some(open) if open.model == new.model && open.keys == new.keys => {
                    self.open.push(open);
                    continue;
                }
                Some(open) => {
                    lines.extend(new.change_owner());
                    if open.model == new.model {
                        lines.push(format!("the token or owner of {} changed", open.listening));
                    }
                }
                None => lines.push(format!("listening on {}", new.listening())),
            }
            self.let_in(new);
        }
        for gone in before {
            lines.push(format!("not listening on {} any more", gone.listening));
            if let Some(path) = gone.listening.address.file() {
                // No process listens there. A new socket at this path would replace the file
                // anyway.
                let _ = std::fs::remove_file(path);
            }
        }
        lines
    }

    fn let_in(&mut self, socket: AdminSocket) {
        let (life, ended) = watch::channel(());
        self.open.push(OpenAdminListener {
            model: socket.model.clone(),
            keys: socket.keys.clone(),
            listening: socket.listening(),
            socket: Arc::downgrade(&socket.socket.socket),
            _life: life,
        });
        // If the thread is gone, the server ends anyway.
        let _ = self.thread.send(AdminOpening { socket, life: ended });
    }

    /// Every socket with the address it was opened for, for a process that takes them over.
    pub(crate) fn sockets(&self) -> Vec<(ListenAddress, Arc<OwnedFd>)> {
        let socket =
            |open: &OpenAdminListener| Some((open.model.address.clone(), open.socket.upgrade()?));
        self.open.iter().filter_map(socket).collect()
    }

    /// The addresses listened on, in the configuration's order.
    pub(crate) fn listening(&self) -> Vec<Listening> {
        self.open.iter().map(|open| open.listening.clone()).collect()
    }
}

impl OpenAdminListener {
    /// The socket, if it still accepts connections.
    fn still(&self) -> Option<BoundSocket> {
        let address = self.listening.address.clone();
        Some(BoundSocket { reuseport: false, socket: self.socket.upgrade()?, address })
    }

    fn is(&self, socket: &BoundSocket) -> bool {
        std::ptr::eq(self.socket.as_ptr(), Arc::as_ptr(&socket.socket))
    }
}
