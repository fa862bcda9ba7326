//! `weir origin`: a server to stand behind a balancer, of which everything is known: the size of each answer, how long each request
//! takes, how many are served at once, what goes wrong and when. It counts what it is asked, request for request, so that what a
//! load generator or a proxy claims can be held against it.
//!
//! *Invariant:* it stores nothing and serves no file. What a client sends is bounded everywhere.

mod answer;
mod body;
mod connection;
mod fault;
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
pub use self::pause::Pause;
use self::service::{Load, Port};
use self::stats::{Log, Stats};
pub use self::tls::Certificate;
use self::worker::{Shared, Worker};
use crate::service_time::ServiceTime;

/// How an origin behaves.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Addresses for HTTP.
    pub listen: Vec<SocketAddr>,
    /// Addresses for HTTPS.
    pub listen_tls: Vec<SocketAddr>,
    /// For HTTPS; without one, a certificate is made.
    pub certificate: Option<Certificate>,
    /// Threads, at least one.
    pub workers: usize,
    /// How long requests take; without it, no time that can be avoided.
    pub service: Option<ServiceTime>,
    /// Of the times that are drawn.
    pub seed: u64,
    /// Requests that one port serves at a time; further ones wait in the order of their arrival.
    pub concurrency: Option<usize>,
    /// When all stands still.
    pub pause: Option<Pause>,
    /// Entries of the log that are kept, over all workers.
    pub log_entries: usize,
    /// Connections at once, as far as the limit of open files goes.
    pub connections: usize,
    /// How long a client may leave a head, a body or an answer standing.
    pub idle_timeout: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: Vec::new(),
            listen_tls: Vec::new(),
            certificate: None,
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

/// An origin that listens and serves nobody yet.
pub struct Bound {
    stats: Arc<Stats>,
    stop: watch::Sender<bool>,
    workers: Vec<Worker>,
}

/// A running origin. It stops when it is dropped.
pub struct Origin {
    stats: Arc<Stats>,
    stop: watch::Sender<bool>,
    threads: Vec<JoinHandle<std::io::Result<()>>>,
}

impl Bound {
    /// Opens the sockets. Connections wait from the moment that this returns.
    ///
    /// # Errors
    /// One sentence that says what is not to be had.
    pub fn new(settings: Settings) -> Result<Self, String> {
        let tls = if settings.listen_tls.is_empty() {
            None
        } else {
            Some(tls::config(settings.certificate.as_ref())?)
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
            load: Load::new(settings.service, settings.seed, settings.pause),
            ports,
            logs: (0..count).map(|_| Log::new(log_entries)).collect(),
        });
        let (mailboxes, receivers): (Vec<_>, Vec<_>) =
            (0..count).map(|_| mpsc::unbounded_channel()).unzip();
        let shared = Shared {
            stats: stats.clone(),
            mailboxes: mailboxes.into(),
            next: Arc::new(AtomicUsize::new(0)),
            room: Arc::new(Semaphore::new(room)),
            tls,
            idle_ns: u64::try_from(settings.idle_timeout.as_nanos()).unwrap_or(u64::MAX / 4),
        };
        let (stop, watcher) = watch::channel(false);
        let workers = receivers.into_iter().zip(listeners).enumerate();
        let workers = workers.map(|(number, (mailbox, listeners))| Worker {
            number,
            shared: shared.clone(),
            mailbox,
            listeners,
            stop: watcher.clone(),
        });
        Ok(Self { stats, stop, workers: workers.collect() })
    }

    /// Where it listens, and whether with TLS, in the order of the settings.
    pub fn listening(&self) -> impl Iterator<Item = (SocketAddr, bool)> {
        self.stats.ports.iter().map(|port| (port.address, port.tls))
    }

    /// Serves, each worker on a thread of its own.
    ///
    /// # Errors
    /// One sentence, when a thread is not to be had.
    pub fn start(self) -> Result<Origin, String> {
        let mut origin = Origin { stats: self.stats, stop: self.stop, threads: Vec::new() };
        for worker in self.workers {
            origin.spawn(worker)?;
        }
        Ok(origin)
    }

    /// Serves until INT or TERM comes. One worker is this thread: a process of one thread need not guard its table of files, and a
    /// request costs 2 % less.
    ///
    /// # Errors
    /// One sentence, when signals cannot be listened to, a thread is not to be had or a worker died.
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
    fn spawn(&mut self, worker: Worker) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("cannot start a worker: {error}");
        let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let thread = std::thread::Builder::new().name(format!("origin-{}", worker.number));
        self.threads.push(thread.spawn(move || worker.run(&runtime)).map_err(failed)?);
        Ok(())
    }

    /// Where it listens, and whether with TLS, in the order of the settings.
    pub fn listening(&self) -> impl Iterator<Item = (SocketAddr, bool)> {
        self.stats.ports.iter().map(|port| (port.address, port.tls))
    }

    /// What `/-/stats` says.
    pub fn stats(&self) -> serde_json::Value {
        self.stats.to_json(usize::MAX)
    }

    /// Ends every connection and waits for the workers.
    fn stop(&mut self) -> Result<(), String> {
        self.stop.send_replace(true);
        for thread in self.threads.drain(..) {
            match thread.join() {
                Ok(ended) => ended.map_err(|error| format!("a worker failed: {error}"))?,
                Err(_) => return Err("a worker died of a bug".to_owned()),
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
