//! The state that an HTTP/2 connection and its streams share.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use crate::connection::http2::meter::Meter;
use crate::exchange::client_side::ConnectionFacts;
use crate::limiting::admission::Gate;
use crate::net::Net;
use crate::time::instant::Instant;
use crate::worker::Worker;
use crate::worker::residents::ResidentKey;

/// The state that a connection and its streams share.
pub(crate) struct SharedState<N: Net> {
    pub(crate) worker: Rc<Worker<N>>,
    pub(crate) gate: Arc<Gate>,
    /// The data of the connection, for the first stream.
    pub(crate) connection: ConnectionFacts,
    pub(crate) server_name: Option<String>,
    pub(crate) local: Option<SocketAddr>,
    pub(crate) meter: RefCell<Meter>,
    /// The number of streams whose exchanges run.
    pub(crate) open: Cell<usize>,
    /// The number of streams so far.
    pub(crate) served: Cell<u64>,
    /// The end of the latest exchange or, before the first, of the handshake.
    pub(crate) since: Cell<Instant>,
}

impl<N: Net> SharedState<N> {
    /// The data of the stream whose head came at `first_byte`. The first one has those of the
    /// connection; another one that begins while none runs has waited since the last one.
    pub(crate) fn stream_facts(
        &self,
        resident: ResidentKey,
        first_byte: Instant,
    ) -> ConnectionFacts {
        let ConnectionFacts { peer, since, began, taken, tls, .. } = &self.connection;
        let served = self.served.get();
        let since = match (served, self.open.get()) {
            (1, _) => *since,
            (_, 1) => self.since.get().min(first_byte),
            _ => first_byte,
        };
        ConnectionFacts {
            peer: *peer,
            since,
            began: if served == 1 { *began } else { since },
            taken: *taken,
            served,
            resident,
            tls: tls.clone(),
            may_part: false,
        }
    }

    /// Notes that an exchange ended at `now`.
    pub(crate) fn exchange_ended(&self, now: Instant) {
        self.since.set(now);
    }

    /// Counts a stream whose client stopped sending or reading.
    pub(crate) fn note_stalled(&self) {
        self.meter.borrow_mut().note_stalled(Instant::now());
    }
}
