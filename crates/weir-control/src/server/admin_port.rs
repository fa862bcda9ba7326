//! The border between the control plane and the admin interface (`weir-admin`), which runs on a
//! thread of its own: the sockets to accept on and the operations go over it, and the order to
//! stop.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use crate::control::operations::Operations;
use crate::listeners::admin::AdminOpening;

/// The longest that responses in progress may take at the very end.
pub const LAST_WORDS: Duration = Duration::from_secs(1);

/// The function that starts the admin interface: `weir_admin::start`. Its error is one sentence.
pub type StartAdmin = fn(AdminPort) -> Result<(), String>;

/// The admin interface's side of the border.
pub struct AdminPort {
    /// The operations on the running server.
    pub operations: Arc<Operations>,
    /// The sockets that are to accept connections.
    pub openings: mpsc::UnboundedReceiver<AdminOpening>,
    /// Tells the sockets to accept new connections or not; closed when the interface is to end.
    pub accepting: watch::Receiver<AdminAccepting>,
    /// Each connection holds a clone.
    pub connected: mpsc::Sender<()>,
}

/// Tells the sockets to accept new connections or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdminAccepting {
    /// They accept.
    Yes,
    /// A successor accepts instead.
    NoMore,
}

/// The control plane's side of the border.
pub(crate) struct AdminInterface {
    /// Dropping it ends the interface.
    accepting: watch::Sender<AdminAccepting>,
    /// Closed when the last connection has ended.
    connections: mpsc::Receiver<()>,
}

impl AdminInterface {
    /// Starts the interface.
    ///
    /// # Errors
    /// One sentence for the operator.
    pub(crate) fn start(
        start: StartAdmin,
        operations: Arc<Operations>,
        openings: mpsc::UnboundedReceiver<AdminOpening>,
    ) -> Result<Self, String> {
        let (accepting, orders) = watch::channel(AdminAccepting::Yes);
        let (connected, connections) = mpsc::channel(1);
        start(AdminPort { operations, openings, accepting: orders, connected })?;
        Ok(Self { accepting, connections })
    }

    /// Stops accepting, since a successor does. Open connections stay.
    pub(crate) fn leave(&self) {
        self.accepting.send_replace(AdminAccepting::NoMore);
    }

    /// Ends the interface; responses in progress get [`LAST_WORDS`] to finish. Called after
    /// [`AdminInterface::leave`]. Blocks.
    pub(crate) fn finish(mut self) {
        let runtime = Builder::new_current_thread().enable_time().build();
        if let Ok(runtime) = runtime {
            let last = async { timeout(LAST_WORDS, self.connections.recv()).await };
            let _ = runtime.block_on(last);
        }
    }
}
