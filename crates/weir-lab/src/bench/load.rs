//! The specification of a run, and the state that all its threads share. It starts no thread.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::{TcpSocket, TcpStream};

use super::record::RequestFailure;
use super::schedule::Schedule;
use super::target::Requests;
use super::tls::HandshakeFacts;

/// The times at which requests are sent.
#[derive(Clone, Copy, Debug)]
pub enum SendPace {
    /// At the times of the schedule, for a given duration.
    Open {
        /// The schedule of the starts.
        schedule: Schedule,
        /// Duration in nanoseconds, without the warm-up.
        duration_ns: u64,
    },
    /// A fixed number of requests, one after the other on each connection. The measurement leaves
    /// out the requests that users would have sent while the target was slow.
    Closed {
        /// Number of requests in all.
        requests: u64,
    },
}

/// The way in which connections take the starts of an open loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StartOrder {
    /// The next free connection takes the next start, whatever its thread.
    #[default]
    Shared,
    /// Each connection has a schedule of its own, as in wrk2: see [`super::wrk2`].
    PerConnection,
}

/// The complete specification of a run.
#[derive(Clone, Debug)]
pub struct LoadSpec {
    /// The requests to send.
    pub requests: Requests,
    /// The address to send them to.
    pub address: SocketAddr,
    /// The address to send them from; `None` for the one that the system chooses.
    pub source: Option<IpAddr>,
    /// The TLS configuration, and the name that the certificate must have.
    pub tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    /// The pacing of the requests.
    pub pace: SendPace,
    /// The way in which connections take the starts.
    pub order: StartOrder,
    /// The time whose samples wrk2 forgets, for a thread without connections; in nanoseconds.
    pub calibration_ns: u64,
    /// Duration of the same load before the measurement, in nanoseconds. Open loop only.
    pub warmup_ns: u64,
    /// Number of threads, at least one.
    pub threads: usize,
    /// Number of connections over all threads, at least one per thread.
    pub connections: usize,
    /// Requests at once on each connection, over HTTP/2; `None` for HTTP/1.1.
    pub streams: Option<usize>,
    /// Longest time to wait for a response or a new connection, in nanoseconds.
    pub timeout_ns: u64,
    /// Seed of the random choices.
    pub seed: u64,
    /// Cores to which the threads are pinned in turn; no pinning if empty.
    pub cores: Vec<usize>,
    /// Set if every request is recorded.
    pub samples: bool,
}

impl LoadSpec {
    /// Opens a connection to the address.
    pub(super) async fn connect(&self) -> io::Result<TcpStream> {
        let Some(source) = self.source else { return TcpStream::connect(self.address).await };
        let socket = if source.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        socket.bind(SocketAddr::new(source, 0))?;
        socket.connect(self.address).await
    }

    /// Requests per second of a connection with a schedule of its own.
    pub(super) fn rate_of_a_connection(&self) -> f64 {
        let threads = self.threads.max(1);
        let connections = (self.connections / threads).max(1) * threads;
        match self.pace {
            SendPace::Open { schedule, .. } => schedule.rate / connections as f64,
            SendPace::Closed { .. } => f64::INFINITY,
        }
    }
}

/// State shared by the threads of a run.
#[derive(Debug)]
pub(super) struct RunShared {
    pub(super) load: LoadSpec,
    /// The start, warm-up included, on the monotonic clock; 0 until every connection was opened or
    /// has failed.
    start_ns: AtomicU64,
    /// Number of the next unclaimed request.
    next: AtomicU64,
    is_stopped: AtomicBool,
    pub(super) started: AtomicU64,
    pub(super) ended: AtomicU64,
    pub(super) opened: AtomicU64,
    pub(super) open: AtomicU64,
    pub(super) open_at_start: AtomicU64,
    /// Number of connections that the target closed although they were to be kept open.
    pub(super) lost: AtomicU64,
    /// The smallest number of streams at once that the target allowed on a connection.
    pub(super) allowed_streams: AtomicU64,
    pub(super) facts: Mutex<Option<HandshakeFacts>>,
    /// One bit for each entry of `examples` that is set, checked before taking the lock.
    noted: AtomicU8,
    examples: Mutex<Examples>,
}

/// The first failure of each kind, and the first redirect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Examples {
    /// Description of the first failure of each kind, in the order of [`RequestFailure::ALL`].
    pub failures: [Option<String>; 5],
    /// Target of the first redirect.
    pub redirect: Option<String>,
}

const REDIRECT_BIT: u8 = 1 << 7;

impl RunShared {
    pub(super) fn new(load: LoadSpec) -> Self {
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
            allowed_streams: AtomicU64::new(u64::MAX),
            facts: Mutex::default(),
            noted: AtomicU8::new(0),
            examples: Mutex::default(),
        }
    }

    /// Claims the next request and returns its number.
    #[inline]
    pub(super) fn claim(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Sets the start of the schedule.
    pub(super) fn begin(&self, start_ns: u64) {
        self.start_ns.store(start_ns, Ordering::Release);
    }

    /// The start of the schedule on the monotonic clock; 0 while it is not set.
    #[inline]
    pub(super) fn start_ns(&self) -> u64 {
        self.start_ns.load(Ordering::Acquire)
    }

    /// The latest start of a request, on the monotonic clock.
    pub(super) fn end_ns(&self) -> u64 {
        match self.load.pace {
            SendPace::Open { duration_ns, .. } => {
                self.start_ns() + self.load.warmup_ns + duration_ns
            }
            SendPace::Closed { .. } => u64::MAX,
        }
    }

    /// The start of the measurement, on the monotonic clock.
    pub(super) fn measured_from_ns(&self) -> u64 {
        self.start_ns() + self.load.warmup_ns
    }

    pub(super) fn stop(&self) {
        self.is_stopped.store(true, Ordering::Release);
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Acquire)
    }

    /// Records the description of the first failure of each kind.
    pub(super) fn note_failure(&self, failure: RequestFailure, text: impl FnOnce() -> String) {
        self.note(1 << failure as u8, |examples| {
            if let Some(place) = examples.failures.get_mut(failure as usize) {
                *place = Some(text());
            }
        });
    }

    /// Records the target of the first redirect.
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

    pub(super) fn note_tls(&self, facts: impl FnOnce() -> HandshakeFacts) {
        let mut noted = self.facts.lock().unwrap_or_else(PoisonError::into_inner);
        if noted.is_none() {
            *noted = Some(facts());
        }
    }
}
