//! Notices of workers about pools and endpoints for the operator. A worker never waits to send one:
//! notices that find no room are dropped and counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::mpsc;
use weir_config::model::PassiveCause;

use crate::upstream::UpstreamPool;

/// The number of notices that the channel holds.
const ROOM: usize = 1024;

/// Something that happened to a pool or an endpoint.
#[derive(Clone)]
pub struct Notice {
    /// The pool as the sender saw it: the configuration may have changed when the notice is
    /// received.
    pub pool: Arc<UpstreamPool>,
    /// The event.
    pub what: Noticed,
}

/// An event at a pool or an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noticed {
    /// A connect failed while no task was collecting from the endpoint's
    /// [`crate::upstream::connect_trouble::ConnectTrouble`].
    ConnectFailed {
        /// The endpoint's index in the pool.
        endpoint: usize,
    },
    /// The endpoint was ejected after failures seen in traffic.
    Ejected {
        /// The endpoint's index in the pool.
        endpoint: usize,
        /// The cause of the last failure.
        cause: PassiveCause,
        /// The end of the ejection, on the balancer's clock, µs.
        until_us: u64,
    },
    /// The endpoint accepts exchanges and does not answer, while others do: it gets no more.
    Stalled {
        /// The endpoint's index in the pool.
        endpoint: usize,
        /// The time without an answer, µs.
        silent_us: u64,
        /// The number of attempts that it has not answered since its last answer.
        unanswered: u32,
    },
    /// The endpoint answers again.
    Answers {
        /// The endpoint's index in the pool.
        endpoint: usize,
    },
    /// The queue audit found an invariant of the queue violated, which is a bug, and repaired what
    /// it could.
    LawBroken {
        /// The number of violations found at once.
        found: u64,
    },
}

/// Tells whether a notice was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoticeSent {
    Yes,
    No,
}

/// The workers' end of the channel of notices.
#[derive(Debug)]
pub struct Notices {
    sender: mpsc::Sender<Notice>,
    lost: AtomicU64,
}

impl Notices {
    /// Creates the channel: the workers' end, and the receiver.
    pub fn new() -> (Self, mpsc::Receiver<Notice>) {
        let (sender, receiver) = mpsc::channel(ROOM);
        (Self { sender, lost: AtomicU64::new(0) }, receiver)
    }

    /// Sends a notice if there is room and a receiver.
    pub(crate) fn tell(&self, notice: Notice) -> NoticeSent {
        match self.sender.try_send(notice) {
            Ok(()) => NoticeSent::Yes,
            Err(mpsc::error::TrySendError::Closed(_)) => NoticeSent::No,
            Err(mpsc::error::TrySendError::Full(_)) => {
                self.lost.fetch_add(1, Ordering::Relaxed);
                NoticeSent::No
            }
        }
    }

    /// The number of notices that found no room.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}
