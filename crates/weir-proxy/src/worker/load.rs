//! The load of a worker as other threads see it, with the places that its connections hold within
//! the caps.

use std::sync::atomic::{
    AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering,
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::limiting::admission::Gate;
use crate::limiting::client_shares::ClientBucket;
use crate::limiting::room::{Room, RoomPlace};
use crate::limiting::table::OpenPlace;
use crate::worker::sessions::Sessions;

/// The state of a worker that other threads see.
#[derive(Debug, Default)]
pub struct WorkerLoad {
    /// The number of its client connections, including those in its mailbox.
    pub open: AtomicUsize,
    /// The number of its client connections with a running exchange.
    pub busy: AtomicUsize,
    /// The number of its running exchanges whose request's head arrives. Only its own worker
    /// writes it.
    pub(crate) reading: AtomicUsize,
    /// The number of connections that it has taken so far. Only its own worker writes it.
    pub(crate) handled: AtomicU64,
    /// The bytes that running exchanges hold in buffers.
    pub held: AtomicUsize,
    /// Incremented by the worker's own thread a few times a second: the watchdog considers a worker
    /// late if this number does not change.
    pub(crate) beats: AtomicU64,
    /// Set by the watchdog while the worker does not run its tasks. New connections go to others.
    pub(crate) late: AtomicBool,
    /// The kernel's id of its thread.
    pub(crate) thread: AtomicI32,
    /// Its thread as the owner of sockets (`net/descriptors.rs`).
    pub(crate) sockets: AtomicU32,
    /// The places of its connections within the caps.
    places: Mutex<Places>,
    /// The table of its exchanges; null while there is none.
    pub(crate) sessions: AtomicPtr<Sessions>,
}

impl WorkerLoad {
    /// Returns true if the worker does not run its tasks at the moment.
    pub fn is_late(&self) -> bool {
        self.late.load(Ordering::Relaxed)
    }

    /// Counts a connection that the worker takes. Must be called by its own thread.
    pub(crate) fn note_handled(&self) {
        self.handled.store(self.handled.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Locks the places. Its worker does so when a connection begins and when it ends, another
    /// thread only once the worker is lost.
    pub(crate) fn places(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives back the places of all its connections, and returns their number.
    pub(crate) fn seize_places(&self) -> usize {
        let places = std::mem::take(&mut *self.places());
        places.len()
    }
}

/// Counts an exchange as one whose head arrives, until this is dropped.
pub(crate) struct HeadReading<'a>(&'a WorkerLoad);

impl<'a> HeadReading<'a> {
    /// Must be called by the worker's own thread.
    pub(crate) fn new(load: &'a WorkerLoad) -> Self {
        load.reading.store(load.reading.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        Self(load)
    }
}

impl Drop for HeadReading<'_> {
    fn drop(&mut self) {
        let reading = self.0.reading.load(Ordering::Relaxed);
        self.0.reading.store(reading.saturating_sub(1), Ordering::Relaxed);
    }
}

/// A connection's place within the caps and counters; dropping it frees the place. Each idle
/// connection has one, so it is kept small.
pub(crate) struct Place {
    load: Arc<WorkerLoad>,
    pub(crate) gate: Arc<Gate>,
    /// The room under the process's cap. The other place is in the gate's room.
    room: Arc<Room>,
    /// The places under the client's own connection limits, if it has any.
    of_client: Box<[OpenPlace]>,
    /// The client's bucket in the counts under the caps; `None` if the peer is a trusted proxy or
    /// has no IP address.
    pub(crate) client: Option<ClientBucket>,
    counted: Counted,
}

/// Tells, for each cap, whether its count of the client's places includes this one.
struct Counted {
    of_process: bool,
    of_gate: bool,
}

impl Place {
    /// Takes over places under the process's cap and the gate's.
    pub(crate) fn new(
        load: &Arc<WorkerLoad>,
        gate: &Arc<Gate>,
        places: (RoomPlace, RoomPlace),
        client: Option<ClientBucket>,
    ) -> Self {
        load.open.fetch_add(1, Ordering::Relaxed);
        let open = gate.open.fetch_add(1, Ordering::AcqRel) + 1;
        if open > gate.most_open.load(Ordering::Relaxed) {
            gate.most_open.fetch_max(open, Ordering::Relaxed);
        }
        let (load, gate) = (Arc::clone(load), Arc::clone(gate));
        let room = Arc::clone(places.0.room());
        let counted = Counted { of_process: places.0.keep(), of_gate: places.1.keep() };
        Self { load, gate, room, of_client: Box::default(), client, counted }
    }

    /// Adds places under the client's own limits.
    pub(crate) fn add_of_client(&mut self, places: Vec<OpenPlace>) {
        let before = std::mem::take(&mut self.of_client);
        self.of_client = before.into_iter().chain(places).collect();
    }

    /// Counts the place, which was taken for no client, for this one.
    pub(crate) fn count_for(&mut self, client: ClientBucket) {
        let Self { room, gate, counted, .. } = self;
        self.client = Some(client);
        for (room, is_counted) in
            [(&*room, &mut counted.of_process), (&gate.room, &mut counted.of_gate)]
        {
            *is_counted = *is_counted || room.count_for(client);
        }
    }

    /// Moves the connection to another worker.
    pub(crate) fn move_to(&mut self, load: &Arc<WorkerLoad>) {
        load.open.fetch_add(1, Ordering::Relaxed);
        let before = std::mem::replace(&mut self.load, Arc::clone(load));
        before.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The places of a worker's connections. They are stored here and not with the connections, so that
/// they can be given back when the worker is lost.
#[derive(Default)]
pub(crate) struct Places {
    places: Vec<Option<Place>>,
    vacant: Vec<u32>,
}

impl Places {
    /// The number of places.
    pub(crate) fn len(&self) -> usize {
        self.places.iter().flatten().count()
    }

    fn add(&mut self, place: Place) -> u32 {
        let vacant = self.vacant.pop().filter(|key| (*key as usize) < self.places.len());
        let key = vacant.unwrap_or_else(|| {
            self.places.push(None);
            self.places.len() as u32 - 1
        });
        if let Some(own) = self.places.get_mut(key as usize) {
            *own = Some(place);
        }
        key
    }

    fn remove(&mut self, key: u32) -> Option<Place> {
        let place = self.places.get_mut(key as usize)?.take();
        self.vacant.push(key);
        if self.vacant.len() == self.places.len() {
            // Frees the memory of a worker without connections.
            *self = Self::default();
        }
        place
    }
}

impl std::fmt::Debug for Places {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Places").field("len", &self.len()).finish_non_exhaustive()
    }
}

/// A place stored among those of its worker; dropping it frees the place.
pub(crate) struct Kept {
    load: Arc<WorkerLoad>,
    /// `None` once [`Kept::take`] has removed the place.
    key: Option<u32>,
    pub(crate) gate: Arc<Gate>,
}

impl Kept {
    pub(crate) fn new(place: Place) -> Self {
        let (load, gate) = (Arc::clone(&place.load), Arc::clone(&place.gate));
        let key = Some(load.places().add(place));
        Self { load, key, gate }
    }

    /// Adds places under the limits of a client that became known later.
    pub(crate) fn add_of_client(&self, of_client: Vec<OpenPlace>) {
        let mut places = self.load.places();
        let own = self.key.and_then(|key| places.places.get_mut(key as usize)?.as_mut());
        if let Some(own) = own {
            own.add_of_client(of_client);
        }
    }

    /// Counts the place for a client that became known later.
    pub(crate) fn count_for(&self, client: ClientBucket) {
        let mut places = self.load.places();
        let own = self.key.and_then(|key| places.places.get_mut(key as usize)?.as_mut());
        if let Some(own) = own {
            own.count_for(client);
        }
    }

    /// Takes the place out, for a connection that leaves its worker.
    pub(crate) fn take(mut self) -> Option<Place> {
        let key = self.key.take()?;
        self.load.places().remove(key)
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let place = self.key.and_then(|key| self.load.places().remove(key));
        // Dropping a place can wake other tasks, so it happens without the lock.
        drop(place);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.load.open.fetch_sub(1, Ordering::Relaxed);
        self.gate.open.fetch_sub(1, Ordering::AcqRel);
        let client = |is_counted: bool| self.client.filter(|_| is_counted);
        self.room.leave(client(self.counted.of_process));
        self.gate.room.leave(client(self.counted.of_gate));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_takes_48_bytes() {
        assert!(size_of::<Option<Place>>() <= 48, "{} bytes", size_of::<Option<Place>>());
    }
}
