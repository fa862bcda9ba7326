//! The state that an HTTP/2 connection and its streams share.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use weir_stats::Cause;

use crate::connection::http2::stream_turns::StreamTurns;
use crate::exchange::client_side::ConnectionFacts;
use crate::limiting::admission::Gate;
use crate::limiting::http2_meter::Meter;
use crate::limiting::http2_windows::ReadCounts;
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
    pub(crate) reads: Rc<ReadCounts>,
    pub(crate) turns: Rc<StreamTurns>,
    /// The streams whose exchanges run.
    pub(crate) running: RefCell<Vec<ResidentKey>>,
    /// The number of streams that were begun and have not ended.
    pub(crate) open: Cell<usize>,
    /// The number of streams so far.
    pub(crate) served: Cell<u64>,
    /// The end of the latest exchange or, before the first, of the handshake.
    pub(crate) since: Cell<Instant>,
}

impl<N: Net> SharedState<N> {
    /// Begins a stream whose head came at `first_byte`; returns its data. The first one has those
    /// of the connection; another one that begins while none runs has waited since the last one.
    pub(crate) fn begin_stream(&self, first_byte: Instant) -> ConnectionFacts {
        let ConnectionFacts { peer, since, began, taken, number, tls, resident, .. } =
            &self.connection;
        let (served, others) = (self.served.get() + 1, self.open.get());
        self.served.set(served);
        self.open.set(others + 1);
        let since = match (served, others) {
            (1, _) => *since,
            (_, 0) => self.since.get().min(first_byte),
            _ => first_byte,
        };
        ConnectionFacts {
            peer: *peer,
            since,
            began: if served == 1 { *began } else { since },
            taken: *taken,
            number: *number,
            served,
            resident: *resident,
            tls: tls.clone(),
            may_part: false,
            lacks_tls: false,
        }
    }

    /// Makes the streams end in favour of other clients.
    pub(crate) fn give_up_streams(&self) {
        let running = self.running.borrow();
        for (_, key, session) in self.worker.sessions.running() {
            if running.contains(&key) {
                self.worker.sessions.give_up(session, Cause::ConnectionCap);
            }
        }
        running.iter().for_each(|key| self.worker.residents.wake(*key));
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
