//! Makes room under a cap for a new connection: closes idle connections, or ends requests of a
//! client with a large part of the cap. `idle_clients.rs` carries the orders out.

use std::sync::Arc;

use tokio::time::sleep;

use crate::limiting::admission::Gate;
use crate::limiting::client_shares::{ClientBucket, Settlement};
use crate::limiting::idle_board::{IdleBoard, WaitingAcceptor};
use crate::limiting::room::{Room, RoomPlace};
use crate::limiting::server_connections::WaitingForPlace;
use crate::limits::{FIRST_RENEWAL, FULL_PAUSE, LAST_RENEWAL};
use crate::time::instant::Instant;
use crate::worker::process::Process;

/// The cap under which room is needed.
#[derive(Clone, Copy)]
pub(crate) enum Cap<'a> {
    Process,
    Listener(&'a Gate),
}

/// Error: a client has a large part of a cap and gets no more connections now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooMany;

/// An order to close an idle connection for one that has no place under the cap on both sides.
pub(crate) enum OrderedPlace<'a> {
    Server(#[expect(dead_code, reason = "dropped with the order")] WaitingForPlace<'a>),
    Client(#[expect(dead_code, reason = "dropped with the order")] WaitingAcceptor<'a>),
}

impl Process {
    /// Removes the idle connections of a lost worker from all lists.
    pub(crate) fn forget_idle_clients_of(&self, worker: usize) {
        self.idle_clients.all.forget(worker);
        for listener in &self.snapshot().listeners {
            listener.gate.idle_clients.forget(worker);
        }
    }

    fn board<'a>(&'a self, cap: Cap<'a>) -> (&'a IdleBoard, &'a Arc<Room>) {
        match cap {
            Cap::Process => (&self.idle_clients.all, &self.connections),
            Cap::Listener(gate) => (&gate.idle_clients, &gate.room),
        }
    }

    /// Waits until there is room under a cap, or something that can be ended to make room: an idle
    /// connection, or the requests of a client with a large part of the cap. It takes no place.
    pub(crate) async fn room_in_sight(&self, cap: Cap<'_>) {
        let (board, room) = self.board(cap);
        if matches!(cap, Cap::Process) {
            let is_stuck = || board.worker().is_none() && !self.has_idle_servers();
            while self.is_full() && is_stuck() && !has_heavy(room) {
                sleep(FULL_PAUSE).await;
            }
        }
        if room.free() > 0 || board.worker().is_some() || has_heavy(room) {
            return;
        }
        let _waiting = WaitingAcceptor::new(board);
        loop {
            let mut appeared = std::pin::pin!(board.appeared.notified());
            appeared.as_mut().enable();
            if room.free() > 0 || board.worker().is_some() {
                return;
            }
            tokio::select! {
                biased;
                () = room.wait() => return,
                () = appeared => {}
            }
        }
    }

    /// Returns true if the cap on the connections of both sides has no room for another client.
    #[inline]
    fn is_full(&self) -> bool {
        let cap = self.server_connections.cap();
        cap.is_some_and(|cap| self.open_connections() + self.server_connections.now() >= cap)
    }

    /// Returns true if a connection to an endpoint is idle.
    fn has_idle_servers(&self) -> bool {
        self.server_connections.idle() > 0
    }

    /// Makes room under the cap on the connections of both sides, for an accepted connection.
    ///
    /// # Errors
    /// If the connection belongs to a client that gives way to others; it must be closed.
    #[cold]
    async fn make_room_on_both_sides(&self, client: Option<ClientBucket>) -> Result<(), TooMany> {
        let mut patience = FIRST_RENEWAL;
        while self.is_full() {
            let _ordered = self.order_place(client)?;
            sleep(patience).await;
            patience = (2 * patience).min(FULL_PAUSE);
        }
        Ok(())
    }

    /// Orders a place under the cap on the connections of both sides, for a connection of a client
    /// or one to an endpoint for it. An idle connection to an endpoint is closed; if there is none,
    /// a client with a large part of the cap gives way, or a client's idle connection is closed, as
    /// in [`Process::make_room`]. The order holds until the returned value is dropped; a lost
    /// worker may leave one that nothing needs any more.
    ///
    /// # Errors
    /// If the client is the one that gives way to others: nothing is closed for it.
    #[cold]
    pub(crate) fn order_place(
        &self,
        client: Option<ClientBucket>,
    ) -> Result<OrderedPlace<'_>, TooMany> {
        let servers = &self.server_connections;
        if self.has_idle_servers() {
            let waiting = WaitingForPlace::new(servers);
            servers.order();
            let workers = 0..self.loads.len();
            for worker in workers.filter(|worker| servers.has_idle(*worker)) {
                self.idle_clients.call_worker(worker);
            }
            return Ok(OrderedPlace::Server(waiting));
        }
        let board = &self.idle_clients.all;
        let waiting = WaitingAcceptor::new(board);
        let now_us = self.balance_clock(Instant::now());
        if let Some(Settlement::Displace(heaviest)) = self.settled(Cap::Process, client, now_us)? {
            self.idle_clients.order_of_client(board, heaviest, 1);
        } else {
            self.idle_clients.renew(board, 1);
        }
        Ok(OrderedPlace::Client(waiting))
    }

    /// Takes a place under a cap for an accepted connection. If there is none, the first idle
    /// connection is closed to make room; if few are left, one is closed for the next newcomer. A
    /// client with a large part of the cap gives way to others: its own idle connections are closed
    /// first, then its requests are ended, and only then other clients' idle connections are
    /// closed.
    ///
    /// # Errors
    /// If the connection belongs to such a client; it must be closed.
    pub(crate) async fn make_room(
        &self,
        cap: Cap<'_>,
        client: Option<ClientBucket>,
    ) -> Result<RoomPlace, TooMany> {
        let (board, room) = self.board(cap);
        let now_us = self.balance_clock(Instant::now());
        if let Some(shares) = room.shares() {
            shares.note_newcomer(client, room.cap(), now_us);
        }
        if matches!(cap, Cap::Process) && self.is_full() {
            Box::pin(self.make_room_on_both_sides(client)).await?;
        }
        let mut settlement = self.settlement(cap, client, now_us)?;
        if let Some(place) = room.enter_now(client) {
            match settlement {
                _ if room.free() >= room.reserve() => {}
                Some(Settlement::Displace(heaviest)) => {
                    self.idle_clients.order_of_client(board, heaviest, 1);
                }
                _ if board.worker().is_some() => self.idle_clients.order(board, 1),
                _ => {}
            }
            return Ok(place);
        }
        let _waiting = WaitingAcceptor::new(board);
        if !matches!(settlement, Some(Settlement::Displace(_))) {
            self.idle_clients.order(board, 1 + room.surplus());
        }
        let mut place = std::pin::pin!(room.enter(client));
        let mut patience = FIRST_RENEWAL;
        // The order is renewed until it succeeds: it may find nothing that can be ended yet, be
        // replaced by another acceptor's, or name a client that is no longer the one to give way.
        loop {
            if let Some(Settlement::Displace(heaviest)) = settlement {
                self.idle_clients.order_of_client(board, heaviest, 1 + room.reserve());
            } else {
                self.idle_clients.renew(board, 1 + room.surplus());
            }
            tokio::select! {
                biased;
                place = &mut place => return Ok(place),
                () = sleep(patience) => {}
            }
            patience = (2 * patience).min(LAST_RENEWAL);
            settlement = self.settlement(cap, client, self.balance_clock(Instant::now()))?;
        }
    }

    /// Decides how room is made for a newcomer when places are short. Idle connections of clients
    /// with an excess are closed first, those of others last.
    fn settlement(
        &self,
        cap: Cap<'_>,
        client: Option<ClientBucket>,
        now_us: u64,
    ) -> Result<Option<Settlement>, TooMany> {
        if self.board(cap).1.is_short() { self.settled(cap, client, now_us) } else { Ok(None) }
    }

    /// Decides the same while places are short.
    fn settled(
        &self,
        cap: Cap<'_>,
        client: Option<ClientBucket>,
        now_us: u64,
    ) -> Result<Option<Settlement>, TooMany> {
        let (board, room) = self.board(cap);
        let crowd = room.shares().filter(|_| !board.has_excessive());
        match crowd.map(|crowd| crowd.settle(client, room.cap(), now_us)) {
            Some(Settlement::Refuse) => Err(TooMany),
            settlement => Ok(settlement),
        }
    }
}

/// Returns true if a client has a large part of the room.
fn has_heavy(room: &Room) -> bool {
    room.shares().is_some_and(|shares| shares.has_heavy(room.cap()))
}
