//! `weir origin`: a server to test load balancers with, whose behaviour is fully known: the size of
//! each response, the time that each request takes, the number served at once, faults and their
//! times. It counts every request, so that the figures of a load generator or a proxy can be
//! checked against its own.
//!
//! *Invariant:* it stores nothing and serves no file. Everything that a client sends is bounded.

mod answer;
mod body;
mod connection;
mod fault;
mod http2;
mod limits;
mod listen;
mod pause;
mod plan;
mod service;
mod stats;
mod stream;
mod text;
mod tls;
mod worker;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Semaphore, mpsc, watch};

pub use self::limits::{CONNECTIONS, IDLE_TIMEOUT, LOG_ENTRIES};
pub use self::listen::addresses;
pub use self::pause::OriginPause;
use self::service::{OriginLoad, Port};
use self::stats::{OriginLog, Stats};
pub use self::tls::OriginCertificate;
use self::worker::{OriginShared, OriginWorker};
use crate::service_time::ServiceTime;

/// The configuration of an origin.
#[derive(Clone, Debug)]
pub struct OriginSettings {
    /// Addresses for HTTP.
    pub listen: Vec<SocketAddr>,
    /// Addresses for HTTPS.
    pub listen_tls: Vec<SocketAddr>,
    /// Certificate for HTTPS; if not given, one is generated.
    pub certificate: Option<OriginCertificate>,
    /// The protocols that clients may speak.
    pub protocol: OriginProtocol,
    /// Number of threads, at least one.
    pub workers: usize,
    /// Service times; if not given, requests take no deliberate time.
    pub service: Option<ServiceTime>,
    /// Seed of the drawn times.
    pub seed: u64,
    /// Number of requests that one port serves at a time; further ones wait in order of arrival.
    pub concurrency: Option<usize>,
    /// Periodic pauses of the whole origin.
    pub pause: Option<OriginPause>,
    /// Number of log entries that are kept, over all workers.
    pub log_entries: usize,
    /// Number of simultaneous connections, bounded by the limit of open files.
    pub connections: usize,
    /// Time that a client may leave a head, a body or a response incomplete.
    pub idle_timeout: Duration,
}

/// The protocols of an origin's clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OriginProtocol {
    /// HTTP/1.
    Http1,
    /// HTTP/2, without TLS with prior knowledge; with TLS the client chooses (ALPN).
    Http2,
}

impl Default for OriginSettings {
    fn default() -> Self {
        Self {
            listen: Vec::new(),
            listen_tls: Vec::new(),
            certificate: None,
            protocol: OriginProtocol::Http1,
            workers: 1,
            service: None,
            seed: 0,
            concurrency: None,
            pause: None,
            log_entries: LOG_ENTRIES,
            connections: CONNECTIONS,
            idle_timeout: IDLE_TIMEOUT,
        }
    }
}

/// An origin that listens but does not serve yet.
pub struct BoundOrigin {
    stats: Arc<Stats>,
    stop: watch::Sender<bool>,
    workers: Vec<OriginWorker>,
}

/// A running origin. It stops when it is dropped.
pub struct Origin {
    stats: Arc<Stats>,
    stop: watch::Sender<bool>,
    threads: Vec<JoinHandle<std::io::Result<()>>>,
}

impl BoundOrigin {
    /// Opens the sockets. From then on, connections wait in the accept queue.
    ///
    /// # Errors
    /// One sentence about the missing resource.
    pub fn new(settings: OriginSettings) -> Result<Self, String> {
        let tls = if settings.listen_tls.is_empty() {
            None
        } else {
            Some(tls::config(settings.certificate.as_ref(), settings.protocol)?)
        };
        let count = settings.workers.max(1);
        let room = crate::open_files::room_for_connections(settings.connections);
        let mut ports = Vec::new();
        let mut listeners: Vec<Vec<_>> = (0..count).map(|_| Vec::new()).collect();
        let plain = settings.listen.iter().map(|address| (*address, false));
        let encrypted = settings.listen_tls.iter().map(|address| (*address, true));
        for (number, (address, tls)) in plain.chain(encrypted).enumerate() {
            let (socket, bound) = listen::bind(address)?;
            ports.push(Arc::new(Port::new(number as u16, bound, tls, settings.concurrency)));
            if let Some(listeners) = listeners.get_mut(number % count) {
                listeners.push((number, socket));
            }
        }
        if ports.is_empty() {
            return Err("an origin needs an address to listen on".to_owned());
        }
        let log_entries = settings.log_entries.div_ceil(count);
        let stats = Arc::new(Stats {
            load: OriginLoad::new(settings.service, settings.seed, settings.pause),
            ports,
            logs: (0..count).map(|_| OriginLog::new(log_entries)).collect(),
        });
        let (mailboxes, receivers): (Vec<_>, Vec<_>) =
            (0..count).map(|_| mpsc::unbounded_channel()).unzip();
        let shared = OriginShared {
            stats: stats.clone(),
            mailboxes: mailboxes.into(),
            next: Arc::new(AtomicUsize::new(0)),
            room: Arc::new(Semaphore::new(room)),
            tls,
            protocol: settings.protocol,
            idle_ns: u64::try_from(settings.idle_timeout.as_nanos()).unwrap_or(u64::MAX / 4),
        };
        let (stop, watcher) = watch::channel(false);
        let workers = receivers.into_iter().zip(listeners).enumerate();
        let workers = workers.map(|(number, (mailbox, listeners))| OriginWorker {
            number,
            shared: shared.clone(),
            mailbox,
            listeners,
            stop: watcher.clone(),
        });
        Ok(Self { stats, stop, workers: workers.collect() })
    }

    /// The listen addresses, each with `true` for TLS, in the order of the settings.
    pub fn listening(&self) -> impl Iterator<Item = (SocketAddr, bool)> {
        self.stats.ports.iter().map(|port| (port.address, port.tls))
    }

    /// Starts to serve, with one thread per worker.
    ///
    /// # Errors
    /// One sentence if a thread cannot be started.
    pub fn start(self) -> Result<Origin, String> {
        let mut origin = Origin { stats: self.stats, stop: self.stop, threads: Vec::new() };
        for worker in self.workers {
            origin.spawn(worker)?;
        }
        Ok(origin)
    }

    /// Serves until SIGINT or SIGTERM. One worker runs on this thread: in a process of one thread
    /// the kernel need not lock the table of files, and a request costs 2 % less.
    ///
    /// # Errors
    /// One sentence if signals cannot be received, a thread cannot be started or a worker failed.
    pub fn run_until_signal(self) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("cannot serve: {error}");
        let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let stop = self.stop.clone();
        runtime.block_on(async {
            let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
            let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
            tokio::spawn(async move {
                tokio::select! {
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                }
                stop.send_replace(true);
            });
            Ok::<(), String>(())
        })?;
        let mut origin = Origin { stats: self.stats, stop: self.stop, threads: Vec::new() };
        let mut workers = self.workers.into_iter();
        let first = workers.next();
        for worker in workers {
            origin.spawn(worker)?;
        }
        if let Some(first) = first {
            first.run(&runtime).map_err(failed)?;
        }
        origin.stop()
    }
}

impl Origin {
    fn spawn(&mut self, worker: OriginWorker) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("cannot start a worker: {error}");
        let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let thread = std::thread::Builder::new().name(format!("origin-{}", worker.number));
        self.threads.push(thread.spawn(move || worker.run(&runtime)).map_err(failed)?);
        Ok(())
    }

    /// The listen addresses, each with `true` for TLS, in the order of the settings.
    pub fn listening(&self) -> impl Iterator<Item = (SocketAddr, bool)> {
        self.stats.ports.iter().map(|port| (port.address, port.tls))
    }

    /// The content of `/-/stats`.
    pub fn stats(&self) -> serde_json::Value {
        self.stats.to_json(usize::MAX)
    }

    /// Ends every connection and waits for the workers.
    fn stop(&mut self) -> Result<(), String> {
        self.stop.send_replace(true);
        for thread in self.threads.drain(..) {
            match thread.join() {
                Ok(ended) => ended.map_err(|error| format!("a worker failed: {error}"))?,
                Err(_) => return Err("a worker panicked; this is a bug".to_owned()),
            }
        }
        Ok(())
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        let _ = self.stop();
    }
}
