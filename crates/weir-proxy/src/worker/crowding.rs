//! Ends requests and handshakes of clients with more than their share of connections, when places
//! are short. `client_shares.rs` knows the shares, `residents.rs` the connections.

use std::sync::Arc;

use weir_stats::Cause;

use crate::limiting::admission::Gate;
use crate::limiting::client_shares::CrowdedCount;
use crate::limiting::room::Room;
use crate::net::Net;
use crate::time::instant::Instant;
use crate::worker::Worker;
use crate::worker::residents::ResidentKey;
use crate::worker::sessions::SessionKey;

/// A request, handshake or lingering close that can be ended, with the time of its beginning, or an
/// HTTP/2 connection with streams, with the time at which it last did something.
type CrowdingCandidate = (Instant, ResidentKey, Option<SessionKey>);

impl<N: Net> Worker<N> {
    /// The number of doublings by which the client of a connection at this gate exceeds an ordinary
    /// client's share of connections.
    pub(crate) fn excess(&self, gate: &Gate, resident: ResidentKey, now_us: u64) -> u32 {
        let client = self.residents.client(resident);
        let of = |room: &Room, client| room.excess(client, now_us);
        client.map_or(0, |client| of(&self.process.connections, client).max(of(&gate.room, client)))
    }

    /// Returns true if places are short and the client of a connection has more than its share of
    /// them.
    pub(crate) fn is_crowded_by(&self, gate: &Gate, resident: ResidentKey) -> bool {
        let is_short = self.process.connections.is_short() || gate.room.is_short();
        is_short && self.excess(gate, resident, self.balance_clock(Instant::now())) > 0
    }

    /// Ends the exchanges at an endpoint that is down.
    pub(crate) fn end_exchanges_at(&self, pool: &str, endpoint: &str) {
        for (resident, session) in self.sessions.at_endpoint(pool, endpoint) {
            self.sessions.give_up(session, Cause::EndpointDown);
            self.residents.wake(resident);
        }
    }

    /// Ends up to `count` requests, handshakes and lingering closes of the client with a large part
    /// of the room, the longest running first, and HTTP/2 connections with all their streams, at
    /// one listener or at all; returns the number that it ended.
    pub(crate) fn give_up_of_client(
        &self,
        crowded: CrowdedCount,
        room: &Room,
        gate: Option<&Arc<Gate>>,
        count: usize,
    ) -> usize {
        let Some(shares) = room.shares() else { return 0 };
        let cap = room.cap();
        let own = self.residents.without_request().into_iter();
        let mut all: Vec<CrowdingCandidate> = own.map(|(at, key)| (at, key, None)).collect();
        all.extend(self.sessions.running().map(|(at, key, session)| (at, key, Some(session))));
        all.retain(|(_, key, _)| {
            let own = self.residents.client(*key);
            own.is_some_and(|own| shares.crowds(own, crowded, cap))
                && gate.is_none_or(|gate| self.residents.is_at(*key, gate))
        });
        if all.len() > count {
            all.select_nth_unstable_by_key(count, |(since, ..)| *since);
            all.truncate(count);
        }
        for &(_, key, session) in &all {
            match session {
                Some(session) => self.sessions.give_up(session, Cause::ConnectionCap),
                None => self.residents.give_up(key),
            }
            self.residents.wake(key);
        }
        all.len()
    }
}
