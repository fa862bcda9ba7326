//! A client connection between and during exchanges. `connection/mod.rs` serves it.

use crate::exchange::client_side::ConnectionFacts;
use crate::net::Net;
use crate::net::transport::Transport;
use crate::time::deadline_timer::DeadlineTimer;
use crate::worker::migration::WaitingRequest;

/// A client connection between and during exchanges.
pub(crate) struct Connection<N: Net> {
    pub(crate) client: Transport<N::Stream>,
    pub(crate) timer: DeadlineTimer,
    pub(crate) facts: ConnectionFacts,
    /// The queue position of a request that moves between processes: set when it arrives from
    /// another process, or is to leave to one.
    pub(crate) waiting: Option<Box<WaitingRequest>>,
}
