//! The gate of a listener's connections: the state that outlives the listener's settings when the
//! configuration changes. It closes no connection.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use crate::limiting::idle_board::IdleBoard;
use crate::limiting::room::Room;

/// The state that all connections of one listener share. It is the same object in all
/// configurations that have the listener.
#[derive(Debug)]
pub struct Gate {
    /// The number of open client connections.
    pub open: AtomicUsize,
    /// The highest number of connections that were open at once.
    pub most_open: AtomicUsize,
    /// Room for the connections; without a cap of the listener's own it never runs out.
    pub room: Arc<Room>,
    /// The number of sockets that are accepted from.
    pub(crate) accepting: AtomicUsize,
    /// The listener's index in the latest snapshot; a hint that may be outdated.
    pub(crate) position: AtomicUsize,
    /// The listener's idle connections, as far as other threads see them.
    pub(crate) idle_clients: IdleBoard,
}

impl Gate {
    /// The gate of a listener with this cap of its own.
    pub(crate) fn new(cap: Option<usize>) -> Self {
        Self {
            open: AtomicUsize::new(0),
            most_open: AtomicUsize::new(0),
            room: Arc::new(Room::new(cap.unwrap_or(usize::MAX))),
            accepting: AtomicUsize::new(0),
            position: AtomicUsize::new(0),
            idle_clients: IdleBoard::default(),
        }
    }
}
