//! The admin sockets that are open, by address. A reload opens new ones before anything is swapped and closes others after it. One
//! that stays and has other rights, another owner or another token stays open; who is connected to it by what held before has a moment
//! to end, as has who is connected to one that is gone: the answer to the reload itself goes that way.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};

use tokio::sync::{mpsc, watch};
use weir_config::Config;
use weir_config::model::{AdminListener, ListenAddress};
use weir_proxy::bind::BoundSocket;
use weir_proxy::inherited::Inherited;
use weir_proxy::shared::BoundAddress;

use super::socket::{AdminSocket, Keys};
use crate::doors::Made;
use crate::server::Listening;

/// Every admin socket that is accepted from.
pub(crate) struct AdminDoors {
    open: Vec<Open>,
    /// The thread that accepts.
    thread: mpsc::UnboundedSender<Opening>,
}

struct Open {
    model: AdminListener,
    keys: Keys,
    listening: Listening,
    /// For a reload and for a successor; whoever accepts from it closes it.
    socket: Weak<OwnedFd>,
    /// Dropped, it is over with what holds here.
    _life: watch::Sender<()>,
}

/// A socket that is to be accepted from for as long as the other side of `life` is there.
pub(crate) struct Opening {
    pub(super) socket: AdminSocket,
    pub(super) life: watch::Receiver<()>,
}

/// The sockets of a configuration, open; nobody accepts yet from those that are new.
pub(crate) struct PreparedAdmin {
    sockets: Vec<AdminSocket>,
    made: Made,
}

impl AdminDoors {
    /// None yet, and what the thread that is to accept from them waits for.
    pub(crate) fn new() -> (Self, mpsc::UnboundedReceiver<Opening>) {
        let (thread, openings) = mpsc::unbounded_channel();
        (Self { open: Vec::new(), thread }, openings)
    }

    /// Opens what a configuration has and is not open yet, and was not inherited; reads tokens.
    ///
    /// # Errors
    /// One sentence for the operator; nothing new stays open then.
    pub(crate) fn prepare(
        &self,
        config: &Config,
        inherited: &mut Inherited,
    ) -> Result<PreparedAdmin, String> {
        let mut open: Vec<&Open> = self.open.iter().collect();
        let mut prepared = PreparedAdmin { sockets: Vec::new(), made: Made::beside(inherited) };
        for model in &config.admin {
            let keys = Keys::of(model)?;
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

    /// Accepts from what was prepared, by the rights that hold now, and from nothing else.
    ///
    /// # Returns
    /// What is different for those who connect, a line each.
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
                        lines.push(format!("token or owner of {} are others now", open.listening));
                    }
                }
                None => lines.push(format!("listening on {}", Listening::of_admin(&new))),
            }
            self.let_in(new);
        }
        for gone in before {
            lines.push(format!("not listening on {} any more", gone.listening));
            if let BoundAddress::Unix(path) = &gone.listening.address {
                // Nobody is there any more; a new socket would remove it all the same.
                let _ = std::fs::remove_file(path);
            }
        }
        lines
    }

    fn let_in(&mut self, socket: AdminSocket) {
        let (life, ended) = watch::channel(());
        self.open.push(Open {
            model: socket.model.clone(),
            keys: socket.keys.clone(),
            listening: Listening::of_admin(&socket),
            socket: Arc::downgrade(&socket.socket.socket),
            _life: life,
        });
        // A thread that is gone serves nobody, and the server ends.
        let _ = self.thread.send(Opening { socket, life: ended });
    }

    /// Every socket, for a process that is to take them over, with the address that it was opened for.
    pub(crate) fn sockets(&self) -> Vec<(ListenAddress, Arc<OwnedFd>)> {
        let socket = |open: &Open| Some((open.model.address.clone(), open.socket.upgrade()?));
        self.open.iter().filter_map(socket).collect()
    }

    /// What is listened on, in the configuration's order.
    pub(crate) fn listening(&self) -> Vec<Listening> {
        self.open.iter().map(|open| open.listening.clone()).collect()
    }
}

impl Open {
    /// The socket, if it is accepted from.
    fn still(&self) -> Option<BoundSocket> {
        let address = self.listening.address.clone();
        Some(BoundSocket { socket: self.socket.upgrade()?, address })
    }

    fn is(&self, socket: &BoundSocket) -> bool {
        std::ptr::eq(self.socket.as_ptr(), Arc::as_ptr(&socket.socket))
    }
}
