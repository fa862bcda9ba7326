//! A cap on client connections that can be changed while they are open. It closes no connection.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tokio::sync::Semaphore;

use crate::limiting::client_shares::{ClientBucket, ClientShares};
use crate::limits::{ROOM_RESERVE, ROOM_RESERVE_SHARE};

/// A cap on connections that can be changed while they are open.
#[derive(Debug)]
pub struct Room {
    places: Semaphore,
    /// The lower of `caps`.
    cap: AtomicUsize,
    caps: Mutex<Caps>,
    /// Places taken beyond a cap that was lowered: this many places do not become free when they
    /// are given back.
    surplus: AtomicUsize,
    /// The number of places of each client, counted once there is a cap.
    shares: OnceLock<ClientShares>,
}

/// The caps of a [`Room`].
#[derive(Clone, Copy, Debug)]
struct Caps {
    /// The cap of the configuration.
    configured: usize,
    /// The cap that protects the machine.
    squeezed: usize,
}

impl Room {
    /// Creates room for `cap` connections.
    pub fn new(cap: usize) -> Self {
        let cap = cap.min(Semaphore::MAX_PERMITS);
        Self {
            places: Semaphore::new(cap),
            cap: AtomicUsize::new(cap),
            caps: Mutex::new(Caps { configured: cap, squeezed: Semaphore::MAX_PERMITS }),
            surplus: AtomicUsize::new(0),
            shares: OnceLock::new(),
        }
    }

    /// The counts of places per client; `None` without a cap.
    pub(crate) fn shares(&self) -> Option<&ClientShares> {
        let is_capped = self.cap() < Semaphore::MAX_PERMITS;
        is_capped.then(|| self.shares.get_or_init(ClientShares::default))
    }

    /// The excess of a client over an ordinary client's share, in doublings.
    pub(crate) fn excess(&self, client: ClientBucket, now_us: u64) -> u32 {
        self.shares().map_or(0, |shares| shares.excess(client, self.cap(), now_us))
    }

    /// Returns true if so few places are free that idle connections are closed.
    pub(crate) fn is_short(&self) -> bool {
        self.free() <= self.reserve()
    }

    /// The number of connections that may be open at once.
    pub fn cap(&self) -> usize {
        self.cap.load(Ordering::Relaxed)
    }

    /// The number of connections that may be opened now.
    pub fn free(&self) -> usize {
        self.places.available_permits()
    }

    /// The number of places that are kept free by closing idle connections: a small share of the
    /// cap.
    pub(crate) fn reserve(&self) -> usize {
        (self.cap() / ROOM_RESERVE_SHARE).min(ROOM_RESERVE)
    }

    /// The number of places taken beyond a cap that was lowered.
    pub(crate) fn surplus(&self) -> usize {
        self.surplus.load(Ordering::Relaxed)
    }

    /// Changes the configured cap. Connections beyond a lower cap stay; new ones wait until enough
    /// have been closed.
    pub fn resize(&self, cap: usize) {
        self.bound(|caps| caps.configured = cap.min(Semaphore::MAX_PERMITS));
    }

    /// Sets a cap beside the configured one, which applies as long as it is lower; `None` lifts it.
    pub fn squeeze(&self, cap: Option<usize>) {
        let cap = cap.unwrap_or(Semaphore::MAX_PERMITS);
        self.bound(|caps| caps.squeezed = cap.min(Semaphore::MAX_PERMITS));
    }

    fn bound(&self, change: impl FnOnce(&mut Caps)) {
        // Held until the end, so that two changes cannot interleave.
        let mut caps = self.caps.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut caps);
        let cap = caps.configured.min(caps.squeezed);
        let before = self.cap.swap(cap, Ordering::Relaxed);
        if cap < before {
            let less = before - cap;
            let forgotten = self.places.forget_permits(less);
            self.surplus.fetch_add(less - forgotten, Ordering::AcqRel);
        } else {
            let more = cap - before;
            let surplus =
                self.surplus.fetch_update(Ordering::AcqRel, Ordering::Acquire, |surplus| {
                    Some(surplus.saturating_sub(more))
                });
            self.places.add_permits(more - surplus.unwrap_or(0).min(more));
        }
    }

    /// Waits until there is room, without taking a place.
    pub(crate) async fn wait(&self) {
        if self.places.available_permits() == 0 {
            drop(self.places.acquire().await);
        }
    }

    /// Waits for a place and takes it. Waiting tasks are served in order.
    pub(crate) async fn enter(self: &Arc<Self>, client: Option<ClientBucket>) -> RoomPlace {
        if let Ok(permit) = self.places.acquire().await {
            permit.forget();
        }
        RoomPlace::new(self, client)
    }

    /// Takes a place if one is free now.
    pub(crate) fn enter_now(self: &Arc<Self>, client: Option<ClientBucket>) -> Option<RoomPlace> {
        self.places.try_acquire().ok()?.forget();
        Some(RoomPlace::new(self, client))
    }

    /// Counts a place that was taken without a client as one of this client; returns false if there
    /// is no cap, so that nothing is counted.
    pub(crate) fn count_for(&self, client: ClientBucket) -> bool {
        self.shares().inspect(|shares| shares.add(client)).is_some()
    }

    /// Frees a place that was kept ([`RoomPlace::keep`]), which is counted for this client.
    pub(crate) fn leave(&self, client: Option<ClientBucket>) {
        if let Some((client, shares)) = client.zip(self.shares.get()) {
            shares.remove(client);
        }
        let less = |surplus: usize| surplus.checked_sub(1);
        if self.surplus.load(Ordering::Acquire) > 0
            && self.surplus.fetch_update(Ordering::AcqRel, Ordering::Acquire, less).is_ok()
        {
            return;
        }
        self.places.add_permits(1);
    }
}

/// A place in a [`Room`]; dropping it frees the place.
#[derive(Debug)]
pub(crate) struct RoomPlace {
    room: Arc<Room>,
    /// The client whose places include this one.
    client: Option<ClientBucket>,
    is_kept: bool,
}

impl RoomPlace {
    fn new(room: &Arc<Room>, client: Option<ClientBucket>) -> Self {
        let counted = client.zip(room.shares()).map(|(client, shares)| {
            shares.add(client);
            client
        });
        Self { room: Arc::clone(room), client: counted, is_kept: false }
    }

    pub(crate) fn room(&self) -> &Arc<Room> {
        &self.room
    }

    /// Leaves the place taken, for a caller that frees it with [`Room::leave`]; returns true if the
    /// client's places include it.
    pub(crate) fn keep(mut self) -> bool {
        self.is_kept = true;
        self.client.is_some()
    }
}

impl Drop for RoomPlace {
    fn drop(&mut self) {
        if !self.is_kept {
            self.room.leave(self.client);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_lowered_cap_frees_no_place_until_enough_connections_have_closed() {
        let room = Arc::new(Room::new(3));
        let mut places = Vec::new();
        for _ in 0..3 {
            places.push(room.enter(None).await);
        }
        room.resize(1);
        for left in [2, 1] {
            places.pop();
            assert_eq!((places.len(), room.free()), (left, 0));
        }
        places.pop();
        assert_eq!((room.cap(), room.free()), (1, 1));
    }

    #[tokio::test]
    async fn after_several_changes_the_last_cap_applies() {
        let room = Arc::new(Room::new(4));
        let mut places = Vec::new();
        for _ in 0..4 {
            places.push(room.enter(None).await);
        }
        for cap in [1, 3, 2, 6] {
            room.resize(cap);
        }
        assert_eq!(room.free(), 2);
        places.clear();
        assert_eq!(room.free(), 6);
        room.resize(usize::MAX);
        assert_eq!(room.free(), room.cap());
    }

    #[tokio::test]
    async fn the_lower_of_two_caps_applies_in_whatever_order_they_change() {
        let room = Arc::new(Room::new(10));
        let place = room.enter(None).await;
        let check = |change: &dyn Fn(&Room), cap: usize| {
            change(&room);
            assert_eq!((room.cap(), room.free()), (cap, cap - 1));
        };
        check(&|room| room.squeeze(Some(4)), 4);
        check(&|room| room.resize(6), 4);
        check(&|room| room.squeeze(Some(8)), 6);
        check(&|room| room.squeeze(Some(2)), 2);
        check(&|room| room.resize(1), 1);
        check(&|room| room.squeeze(None), 1);
        check(&|room| room.resize(7), 7);
        drop(place);
        assert_eq!(room.free(), 7);
    }
}
