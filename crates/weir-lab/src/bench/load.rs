//! What a run is told to do, and what all its threads share.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustls::ClientConfig;
use rustls::pki_types::ServerName;

use super::record::Failure;
use super::schedule::Schedule;
use super::target::Requests;
use super::tls::TlsFacts;

/// When requests are sent.
#[derive(Clone, Copy, Debug)]
pub enum Pace {
    /// When the schedule says, for so many nanoseconds.
    Open {
        /// Of the starts.
        schedule: Schedule,
        /// Without the warm-up.
        duration_ns: u64,
    },
    /// One after the other on each connection, so many in all. What it measures leaves out the requests that users would have sent while
    /// the target was slow.
    Closed {
        /// Without the warm-up.
        requests: u64,
    },
}

/// Everything that a run needs.
#[derive(Clone, Debug)]
pub struct Load {
    /// What is asked for.
    pub requests: Requests,
    /// Where.
    pub address: SocketAddr,
    /// TLS, and the name that the certificate must have.
    pub tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    /// When.
    pub pace: Pace,
    /// Time before the measurement, of the same load; in nanoseconds. Open loop only.
    pub warmup_ns: u64,
    /// Threads, at least one.
    pub threads: usize,
    /// Connections over all threads, at least one for each.
    pub connections: usize,
    /// How long an answer, or a new connection, may take, in nanoseconds.
    pub timeout_ns: u64,
    /// Of what is drawn.
    pub seed: u64,
    /// Cores for the threads, in turn; any without.
    pub cores: Vec<usize>,
    /// Whether every request is kept.
    pub samples: bool,
}

/// What the threads share while they run.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) load: Load,
    /// The beginning, warm-up included, on the monotonic clock; 0 until all connections had their chance to open.
    start_ns: AtomicU64,
    /// The next request that no connection has taken.
    next: AtomicU64,
    is_stopped: AtomicBool,
    pub(super) started: AtomicU64,
    pub(super) ended: AtomicU64,
    pub(super) opened: AtomicU64,
    pub(super) open: AtomicU64,
    pub(super) open_at_start: AtomicU64,
    /// Connections that the target closed although they were to be kept.
    pub(super) lost: AtomicU64,
    pub(super) facts: Mutex<Option<TlsFacts>>,
    /// What is in `examples`, a bit each: looked at before the lock.
    noted: AtomicU8,
    examples: Mutex<Examples>,
}

/// The first of each kind that a reader will want to know of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Examples {
    /// What went wrong first, of each kind of failure, in the order of [`Failure::ALL`].
    pub failures: [Option<String>; 5],
    /// Where the first redirect leads.
    pub redirect: Option<String>,
}

const REDIRECT_BIT: u8 = 1 << 7;

impl Shared {
    pub(super) fn new(load: Load) -> Self {
        Self {
            load,
            start_ns: AtomicU64::new(0),
            next: AtomicU64::new(0),
            is_stopped: AtomicBool::new(false),
            started: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            opened: AtomicU64::new(0),
            open: AtomicU64::new(0),
            open_at_start: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            facts: Mutex::default(),
            noted: AtomicU8::new(0),
            examples: Mutex::default(),
        }
    }

    /// The number of a request that is nobody's yet.
    #[inline]
    pub(super) fn claim(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Lets the schedule begin then.
    pub(super) fn begin(&self, start_ns: u64) {
        self.start_ns.store(start_ns, Ordering::Release);
    }

    /// When the schedule begins, on the monotonic clock; 0 as long as that is not known.
    #[inline]
    pub(super) fn start_ns(&self) -> u64 {
        self.start_ns.load(Ordering::Acquire)
    }

    /// When the last request is to start at the latest, on the monotonic clock.
    pub(super) fn end_ns(&self) -> u64 {
        match self.load.pace {
            Pace::Open { duration_ns, .. } => self.start_ns() + self.load.warmup_ns + duration_ns,
            Pace::Closed { .. } => u64::MAX,
        }
    }

    /// When the measurement begins, on the monotonic clock.
    pub(super) fn measured_from_ns(&self) -> u64 {
        self.start_ns() + self.load.warmup_ns
    }

    pub(super) fn stop(&self) {
        self.is_stopped.store(true, Ordering::Release);
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Acquire)
    }

    /// Keeps the first failure of each kind.
    pub(super) fn note_failure(&self, failure: Failure, text: impl FnOnce() -> String) {
        self.note(1 << failure as u8, |examples| {
            if let Some(place) = examples.failures.get_mut(failure as usize) {
                *place = Some(text());
            }
        });
    }

    /// Keeps where the first redirect leads.
    pub(super) fn note_redirect(&self, location: impl FnOnce() -> String) {
        self.note(REDIRECT_BIT, |examples| examples.redirect = Some(location()));
    }

    fn note(&self, bit: u8, keep: impl FnOnce(&mut Examples)) {
        let is_first = self.noted.load(Ordering::Relaxed) & bit == 0
            && self.noted.fetch_or(bit, Ordering::Relaxed) & bit == 0;
        if is_first {
            keep(&mut self.examples.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }

    pub(super) fn examples(&self) -> Examples {
        self.examples.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn note_tls(&self, facts: impl FnOnce() -> TlsFacts) {
        let mut noted = self.facts.lock().unwrap_or_else(PoisonError::into_inner);
        if noted.is_none() {
            *noted = Some(facts());
        }
    }
}
