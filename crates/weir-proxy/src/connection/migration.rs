//! Moves client connections to another process: when a successor replaces this process, plain
//! connections leave their workers as soon as no request of theirs is at an endpoint.
//! `worker/migration.rs` has the state that moves with the socket; the caller of `DataPlane::part`
//! carries the connection to the other process and decides what happens if that process does not
//! take it.
//!
//! ```text
//!  idle, reading a head, waiting in a queue ─▶ Parting
//!    Parting ──taken──▶ another process: Moved, continues where it was
//!    Parting ──not taken──▶ back to its worker: one more response, then closed
//! ```
//! A TLS connection stays: its keys and sequence numbers are internal to rustls.

use crate::connection::client_connection::Connection;
use crate::exchange::client_side::ConnectionFacts;
use crate::limits::SMALL_BUFFER;
use crate::net::Net;
use crate::net::transport::Transport;
use crate::time::deadline_timer::DeadlineTimer;
use crate::time::instant::Instant;
use crate::worker::Worker;
use crate::worker::handoff::Handoff;
use crate::worker::handoff::Parting;
use crate::worker::load::Place;
use crate::worker::migration::{Begun, Moved};
use crate::worker::residents::ResidentKey;
use crate::worker::workspace::Workspace;

impl<N: Net> Connection<N> {
    /// Creates a connection that continues on this worker, and returns the request that came with
    /// it.
    pub(crate) fn of_moved(
        stream: N::Stream,
        moved: Moved,
        resident: ResidentKey,
        number: u32,
    ) -> (Self, Option<Box<Begun>>) {
        let Moved { peer, served, since, began, begun, stays } = moved;
        let may_part = !stays;
        let facts = ConnectionFacts {
            peer,
            since,
            began,
            taken: began,
            number,
            served,
            resident,
            tls: None,
            may_part,
            lacks_tls: false,
        };
        let timer = DeadlineTimer::default();
        let connection = Self { client: Transport::Plain(stream), timer, facts, waiting: None };
        (connection, begun)
    }

    /// The bytes that were read of a request that moves to another process.
    pub(crate) fn begun(&mut self, work: &Workspace, first_byte: Instant) -> Begun {
        let bytes = work.input.bytes().to_vec();
        Begun { bytes, first_byte, waiting: self.waiting.take() }
    }

    /// Sends the connection to the worker's channel for leaving connections; returns it if there is
    /// no such channel any more, so that it stays. A connection whose socket cannot be detached is
    /// closed.
    #[cold]
    pub(crate) fn part(
        self,
        worker: &Worker<N>,
        place: Place,
        begun: Option<Box<Begun>>,
    ) -> Option<Handoff<N>> {
        let Self { client, facts, .. } = self;
        let ConnectionFacts { peer, since, began, served, .. } = facts;
        let Transport::Plain(stream) = client else { return None };
        let listener = worker.seat(&place.gate)?.listener;
        let accepted = worker.net.detach(stream).ok()?;
        let moved = Moved { begun, ..Moved::new(peer, served, since, began) };
        let parting = Parting { accepted, moved, listener, worker: worker.number, place };
        let mut kept = worker.depart(parting)?;
        kept.moved.stays = true;
        Some(kept.returned().1)
    }
}

/// A buffer that holds the bytes that came with a connection, with room for a read.
pub(crate) fn buffer_of<N: Net>(worker: &Worker<N>, bytes: &[u8]) -> Vec<u8> {
    let mut buffer = if bytes.len() < SMALL_BUFFER {
        worker.buffers.small()
    } else {
        Vec::with_capacity(bytes.len() + SMALL_BUFFER)
    };
    buffer.extend_from_slice(bytes);
    buffer
}
