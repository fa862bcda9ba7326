//! A client connection between and during exchanges. `connection.rs` serves it.

use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

use weir_stats::Micros;

use crate::net::Net;
use crate::net::tls::TlsFacts;
use crate::net::transport::Transport;
use crate::time::deadline_timer::DeadlineTimer;
use crate::time::instant::Instant;
use crate::worker::migration::WaitingRequest;
use crate::worker::residents::ResidentKey;

/// A client connection between and during exchanges.
pub(crate) struct Connection<N: Net> {
    pub(crate) client: Transport<N::Stream>,
    pub(crate) timer: DeadlineTimer,
    pub(crate) facts: ConnectionFacts,
    /// The queue position of a request that moves between processes: set when it arrives from
    /// another process, or is to leave to one.
    pub(crate) waiting: Option<Box<WaitingRequest>>,
}

/// The data of a client connection, as far as they do not depend on its protocol.
pub(crate) struct ConnectionFacts {
    /// The address of the peer; `None` on a Unix socket.
    pub(crate) peer: Option<SocketAddr>,
    /// End of the handshake or of the previous response.
    pub(crate) since: Instant,
    /// The time of accepting, for the first exchange's total; later equal to `since`.
    pub(crate) began: Instant,
    /// The time at which this worker took the connection.
    pub(crate) taken: Instant,
    /// The number of exchanges begun on it.
    pub(crate) served: u64,
    /// The connection's entry among the worker's residents.
    pub(crate) resident: ResidentKey,
    /// The result of the handshake, looked up once and shared by connections with the same one;
    /// `None` without TLS.
    pub(crate) tls: Option<Rc<TlsFacts<'static>>>,
    /// Tells whether another process can continue the connection: not inside TLS, and not after it
    /// was offered to another process that did not take it.
    pub(crate) may_part: bool,
}

impl ConnectionFacts {
    /// The client's address, before any trusted hop is followed.
    pub(crate) fn peer_ip(&self) -> Option<IpAddr> {
        self.peer.map(|peer| peer.ip())
    }

    /// The duration of the handshake, which the first exchange reports.
    pub(crate) fn handshake(&self) -> Micros {
        let is_first = self.served <= 1 && self.tls.is_some();
        if is_first { self.since.span_since(self.began) } else { Micros::ZERO }
    }
}
