//! A client connection between and during exchanges. `connection.rs` serves it.

use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

use weir_stats::Micros;

use crate::net::Net;
use crate::net::tls::TlsFacts;
use crate::net::transport::Transport;
use crate::time::deadline_timer::DeadlineTimer;
use crate::time::instant::Instant;
use crate::worker::migration::Waiting;
use crate::worker::residents::ResidentKey;

/// A client connection between and during exchanges.
pub(crate) struct Connection<N: Net> {
    pub(crate) client: Transport<N::Stream>,
    pub(crate) timer: DeadlineTimer,
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
    pub(crate) agreed: Option<Rc<TlsFacts<'static>>>,
    /// The queue position of a request that moves between processes: set when it arrives from
    /// another process, or is to leave to one.
    pub(crate) waiting: Option<Box<Waiting>>,
    /// Set if the connection stays in this process, because it was offered to another one and not
    /// taken.
    pub(crate) stays: bool,
}

impl<N: Net> Connection<N> {
    /// The client's address, before any trusted hop is followed.
    pub(crate) fn peer_ip(&self) -> Option<IpAddr> {
        self.peer.map(|peer| peer.ip())
    }

    /// The duration of the handshake, which the first exchange reports.
    pub(crate) fn handshake(&self) -> Micros {
        let is_first = self.served <= 1 && self.agreed.is_some();
        if is_first { self.since.span_since(self.began) } else { Micros::ZERO }
    }

    /// Tells whether another process can continue it, as far as that depends on the connection.
    pub(crate) fn may_part(&self) -> bool {
        matches!(self.client, Transport::Plain(_)) && !self.stays
    }
}
