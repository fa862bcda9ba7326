//! The events of a run, in order, with virtual time, and their hash: two runs of a seed are the
//! same if and only if their hashes agree. Byte counts are included; contents are not, because
//! dates and random ids may differ.

use std::fmt::Write as _;
use std::hash::{Hash, Hasher};

use tokio::time::Instant;

/// The side of a listener's links: from clients, or from the device to endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LinkSide {
    /// From clients.
    Downstream,
    /// To endpoints.
    Upstream,
}

/// An end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LinkEnd {
    /// The side that connected.
    Connector,
    /// The side that accepted.
    Acceptor,
}

impl LinkEnd {
    /// Returns the opposite end.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::Connector => Self::Acceptor,
            Self::Acceptor => Self::Connector,
        }
    }

    pub(crate) fn index(self) -> usize {
        match self {
            Self::Connector => 0,
            Self::Acceptor => 1,
        }
    }
}

/// One event on the network, at an origin or at a client.
#[derive(Clone, Copy, Debug, Hash)]
#[expect(
    missing_docs,
    reason = "the field names say it: link number, end, bytes, request id, attempt, stream, code"
)]
pub enum NetworkEvent {
    Connected { link: u32, side: LinkSide },
    ConnectRefused { side: LinkSide },
    ConnectHangs { side: LinkSide },
    ClosedAtOnce { link: u32 },
    AcceptFailed { side: LinkSide },
    Accepted { link: u32 },
    Wrote { link: u32, end: LinkEnd, bytes: usize },
    Read { link: u32, end: LinkEnd, bytes: usize },
    Finished { link: u32, end: LinkEnd },
    Dropped { link: u32, end: LinkEnd },
    ResetInjected { link: u32 },
    ResetSent { link: u32, to: LinkEnd },
    Stalled { link: u32, end: LinkEnd, ms: u64 },
    RequestArrived { id: u64, attempt: u32 },
    RequestBody { id: u64, attempt: u32, bytes: u64, whole: bool },
    ResponseDone { id: u64, attempt: u32, whole: bool },
    RequestSent { id: u64, link: u32 },
    Outcome { id: u64, status: u16, bytes: u64, whole: bool },
    ClientLeft { client: u32 },
    ResetHeard { stream: u32, code: u32 },
    LeaveHeard { last: u32, code: u32 },
    Settled,
}

/// The largest number of events of a run; more means an endless loop.
const MOST_EVENTS: usize = 5_000_000;

/// The events of one run.
#[derive(Debug)]
pub struct Trace {
    start: Instant,
    events: Vec<(u64, NetworkEvent)>,
    hash: Fnv,
}

impl Trace {
    /// Returns an empty trace that counts time from `start`.
    pub(crate) fn new(start: Instant) -> Self {
        Self { start, events: Vec::new(), hash: Fnv::default() }
    }

    pub(crate) fn note(&mut self, event: NetworkEvent) {
        let micros = self.start.elapsed().as_micros() as u64;
        micros.hash(&mut self.hash);
        event.hash(&mut self.hash);
        if self.events.len() < MOST_EVENTS {
            self.events.push((micros, event));
        } else if matches!(
            event,
            NetworkEvent::Read { .. } | NetworkEvent::Wrote { .. } | NetworkEvent::Connected { .. }
        ) {
            // Ends the task that loops; the run is reported as such.
            assert!(std::thread::panicking(), "more than {MOST_EVENTS} events");
        }
    }

    /// Returns the FNV-1a hash over every event and its time.
    pub fn hash(&self) -> u64 {
        self.hash.0
    }

    /// Returns true if the run was cut off because of an endless loop.
    pub fn spun(&self) -> bool {
        self.events.len() >= MOST_EVENTS
    }

    /// Returns the number of events.
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Returns true if there are no events.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Returns the events, one per line, with the time in milliseconds.
    pub fn render(&self) -> String {
        let mut text = String::new();
        for (micros, event) in &self.events {
            let _ = writeln!(text, "{:>10}.{:03} {event:?}", micros / 1000, micros % 1000);
        }
        text
    }
}

/// FNV-1a: a fixed function, so that hashes can be compared between runs and processes.
#[derive(Debug)]
pub(crate) struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Hasher for Fnv {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}
