//! What workers see of pools and endpoints and the operator should hear. A worker never waits to tell it: what finds no room is counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::mpsc;
use weir_config::model::PassiveCause;

use crate::upstream::UpstreamPool;

/// Notices on their way at once.
const ROOM: usize = 1024;

/// Something that happened to a pool or an endpoint.
#[derive(Clone)]
pub struct Notice {
    /// The pool as whoever tells it saw it: the configuration may be another when it is heard.
    pub pool: Arc<UpstreamPool>,
    /// What.
    pub what: Noticed,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noticed {
    /// A connect failed, while nobody looked at the endpoint's [`crate::connect_trouble::ConnectTrouble`].
    ConnectFailed {
        /// The endpoint's index in the pool.
        endpoint: usize,
    },
    /// Failures seen in traffic put it out.
    Ejected {
        /// The endpoint's index in the pool.
        endpoint: usize,
        /// The last of them.
        cause: PassiveCause,
        /// Until when, on the balancer's clock, µs.
        until_us: u64,
    },
    /// It takes exchanges and does not answer, while others do: it gets no more.
    Stalled {
        /// The endpoint's index in the pool.
        endpoint: usize,
        /// For how long, µs.
        silent_us: u64,
        /// Attempts that it has not answered since its last answer.
        unanswered: u32,
    },
    /// It answers again.
    Answers {
        /// The endpoint's index in the pool.
        endpoint: usize,
    },
    /// The watchdog found a law of the queue broken, and healed what it could: a bug.
    LawBroken {
        /// How many times at once.
        found: u64,
    },
}

/// Whether a notice is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Yes,
    No,
}

/// Where workers tell it.
#[derive(Debug)]
pub struct Notices {
    sender: mpsc::Sender<Notice>,
    lost: AtomicU64,
}

impl Notices {
    /// A place to tell, and where it is heard.
    pub fn new() -> (Self, mpsc::Receiver<Notice>) {
        let (sender, receiver) = mpsc::channel(ROOM);
        (Self { sender, lost: AtomicU64::new(0) }, receiver)
    }

    /// Tells it, if there is room and somebody listens; says whether.
    pub(crate) fn tell(&self, notice: Notice) -> Told {
        match self.sender.try_send(notice) {
            Ok(()) => Told::Yes,
            Err(mpsc::error::TrySendError::Closed(_)) => Told::No,
            Err(mpsc::error::TrySendError::Full(_)) => {
                self.lost.fetch_add(1, Ordering::Relaxed);
                Told::No
            }
        }
    }

    /// How many found no room.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}
