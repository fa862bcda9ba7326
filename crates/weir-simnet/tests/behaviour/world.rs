//! Starts the data plane from the text of a configuration on a simulated network without faults,
//! and provides clients, origins and log lines to scenarios. After each scenario it checks that
//! nothing is left behind.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{JoinHandle, LocalSet, spawn_local};
use tokio::time::{sleep, timeout};
use weir_config::model::{
    AccessLog, Config, ListenAddress, LogEscape, LogFormat, LogTarget, Workers,
};
use weir_proxy::accept;
use weir_proxy::admission::Gate;
use weir_proxy::compile::{Surroundings, compile};
use weir_proxy::mail::Mail;
use weir_proxy::net::{Net, PeerAddress};
use weir_proxy::process::{Process, Stage};
use weir_proxy::snapshot::Snapshot;
use weir_proxy::upstream::UpstreamPool;
use weir_proxy::worker_loop::{self, WorkerParts};
use weir_simnet::{Faults, LinkSide, PendingConnection, SimListener, SimNet, SimStream};
use weir_stats::{LogReceiver, LogSink, Message as LogMessage, log_channel};

use crate::access_log::Line;
use crate::origin::Origin;
use crate::peer::Peer;

/// The address of Weir in most scenarios.
pub(crate) const FRONT: &str = "10.0.0.1:80";

/// Returns a configuration with one pool and one listener that leads to it.
pub(crate) fn app(pool: &str, listener: &str) -> String {
    format!("pool app {{ {pool} }} listen {FRONT} {{ {listener} default -> app; }}")
}

/// The outcome of connects to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Connects {
    Refused,
    Never,
    /// Fails with this error of the operating system.
    Fails(i32),
    After(Duration),
}

/// The simulated network with scripted outcomes of connects.
#[derive(Clone)]
pub(crate) struct ScriptedNet {
    inner: SimNet,
    manners: Rc<RefCell<BTreeMap<SocketAddr, Connects>>>,
    counts: Rc<RefCell<BTreeMap<SocketAddr, usize>>>,
}

impl Net for ScriptedNet {
    type Stream = SimStream;
    type Accepted = PendingConnection;
    type Listener = SimListener;

    async fn accept(&self, listener: &SimListener) -> io::Result<(PendingConnection, PeerAddress)> {
        self.inner.accept(listener).await
    }

    fn adopt(&self, accepted: PendingConnection) -> io::Result<SimStream> {
        self.inner.adopt(accepted)
    }

    fn close(&self, accepted: PendingConnection) {
        self.inner.close(accepted);
    }

    fn detach(&self, stream: SimStream) -> io::Result<PendingConnection> {
        self.inner.detach(stream)
    }

    async fn connect(&self, address: &PeerAddress) -> io::Result<SimStream> {
        let mut manner = None;
        if let PeerAddress::Socket(socket) = address {
            *self.counts.borrow_mut().entry(*socket).or_default() += 1;
            manner = self.manners.borrow().get(socket).copied();
        }
        match manner {
            None => {}
            Some(Connects::Refused) => return Err(io::ErrorKind::ConnectionRefused.into()),
            Some(Connects::Never) => pending().await,
            Some(Connects::Fails(errno)) => return Err(io::Error::from_raw_os_error(errno)),
            Some(Connects::After(duration)) => sleep(duration).await,
        }
        self.inner.connect(address).await
    }

    fn local_address(&self, stream: &SimStream) -> Option<SocketAddr> {
        self.inner.local_address(stream)
    }
}

type Mailboxes = Arc<[mpsc::UnboundedSender<Mail<ScriptedNet>>]>;

/// A listening socket, and the channel that assigns its gate.
type Door = (SocketAddr, watch::Sender<Option<Arc<Gate>>>);

/// A running Weir and its environment.
pub(crate) struct World {
    net: ScriptedNet,
    pub(crate) process: Arc<Process>,
    stage: watch::Sender<Stage>,
    workers: RefCell<Vec<JoinHandle<()>>>,
    mailboxes: Mailboxes,
    doors: RefCell<Vec<Door>>,
    sinks: Vec<LogSink>,
    /// The contents of files that a scenario provides.
    files: Rc<RefCell<BTreeMap<PathBuf, String>>>,
    log: LogReceiver,
    next_port: Cell<u16>,
    /// The number of log lines read so far.
    logged: Cell<u64>,
}

/// Lets time pass.
pub(crate) async fn pass(millis: u64) {
    sleep(Duration::from_millis(millis)).await;
}

/// Runs the first exchange of a client with server 1, up to the response's last byte but without
/// the client's reading: 100 ms idle, 20 ms request, 40 ms connect, 300 ms to the head of the
/// response, 70 ms data.
pub(crate) async fn slow_exchange(world: &World) -> (Peer, Peer) {
    let origin = world.origin(1);
    world.connects(1, Some(Connects::After(Duration::from_millis(40))));
    let mut client = world.client().await;
    pass(100).await;
    client.send("GET / HTTP/1.1\r\n").await;
    pass(20).await;
    client.send("Host: a\r\n\r\n").await;
    let mut upstream = origin.accept().await;
    upstream.message().await;
    pass(300).await;
    upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhe").await;
    pass(70).await;
    upstream.send("re").await;
    (client, upstream)
}

/// Runs a scenario on the configuration `text` and checks that everything settles.
pub(crate) fn play(text: &str, scene: impl AsyncFnOnce(&World)) {
    play_on(Faults::default(), text, scene);
}

/// The same on a network with these faults.
pub(crate) fn play_on(faults: Faults, text: &str, scene: impl AsyncFnOnce(&World)) {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_time().start_paused(true).build().unwrap();
    LocalSet::new().block_on(&runtime, async {
        let world = World::start(text, faults);
        timeout(Duration::from_hours(4), scene(&world)).await.expect("the scenario ends");
        world.expect_settled().await;
    });
}

impl World {
    fn start(text: &str, faults: Faults) -> Self {
        let config = config(text);
        let workers = match config.workers {
            Workers::Auto => 1,
            Workers::Count(count) => count,
        };
        let (sinks, log) = log_channel(1, 100_000);
        let files = Rc::default();
        let connection_cap = config.max_connections.unwrap_or(10_000);
        let surroundings = Surroundings { read: &reader(&files), sinks: sinks.clone(), root: None };
        let snapshot = compile(&config, surroundings, None).unwrap().snapshot;
        let (process, _) = Process::new(snapshot, workers, connection_cap);
        let both_sides = config.worker_connections.filter(|_| config.count_server_connections);
        process.server_connections.set_cap(both_sides.map(|each| each * workers));
        let net = ScriptedNet {
            inner: SimNet::new(1, faults),
            manners: Rc::default(),
            counts: Rc::default(),
        };
        let (stage, _) = watch::channel(Stage::Running);
        let (workers, mailboxes) = start_workers(&net, &process, &stage);
        let world = Self {
            net,
            process,
            stage,
            workers: RefCell::new(workers),
            mailboxes,
            doors: RefCell::default(),
            sinks,
            files,
            log,
            next_port: Cell::new(1024),
            logged: Cell::new(0),
        };
        world.lead_sockets(&world.snapshot());
        world
    }

    /// The number of writes to clients so far.
    pub(crate) fn writes_to_clients(&self) -> usize {
        let trace = self.net.inner.trace().render();
        // A link's number stands between the same marks in each event.
        let number = |line: &str| {
            let (_, behind) = line.split_once("link: ")?;
            behind.split([',', ' ']).next().map(str::to_owned)
        };
        let of_client = |line: &&str| line.contains("Connected") && line.contains("Downstream");
        let clients: Vec<_> = trace.lines().filter(of_client).filter_map(number).collect();
        let written = |line: &&str| line.contains("Wrote") && line.contains("Acceptor");
        let written = trace.lines().filter(written).filter_map(number);
        written.filter(|link| clients.contains(link)).count()
    }

    /// Reloads this configuration and waits until the reload is complete.
    pub(crate) async fn reload(&self, text: &str) {
        let previous = self.snapshot();
        let surroundings =
            Surroundings { read: &reader(&self.files), sinks: self.sinks.clone(), root: None };
        let compiled = compile(&config(text), surroundings, Some(&previous)).unwrap();
        let snapshot = compiled.publish(&self.process);
        let mut adopted = Vec::new();
        for mailbox in self.mailboxes.iter() {
            let (sender, receiver) = oneshot::channel();
            mailbox.send(Mail::Snapshot(snapshot.clone(), sender)).ok().unwrap();
            adopted.push(receiver);
        }
        for worker in adopted {
            worker.await.unwrap();
        }
        self.lead_sockets(&snapshot);
    }

    /// Sets the contents of a file.
    pub(crate) fn write_file(&self, path: &str, text: &str) {
        self.files.borrow_mut().insert(path.into(), text.to_owned());
    }

    /// Opens and closes sockets as the snapshot's listeners require.
    fn lead_sockets(&self, snapshot: &Snapshot) {
        let mut doors = self.doors.borrow_mut();
        let mut before = std::mem::take(&mut *doors);
        for listener in &snapshot.listeners {
            for address in &listener.addresses {
                let ListenAddress::Socket(address) = address else { panic!("{address:?}") };
                let gate = Some(listener.gate.clone());
                if let Some(at) = before.iter().position(|(other, _)| other == address) {
                    let door = before.swap_remove(at);
                    door.1.send_replace(gate);
                    doors.push(door);
                    continue;
                }
                let socket =
                    self.net.inner.bind(PeerAddress::Socket(*address), LinkSide::Downstream);
                let (sender, orders) = watch::channel(gate);
                let (net, process) = (self.net.clone(), self.process.clone());
                let (mailboxes, stage) = (self.mailboxes.clone(), self.stage.subscribe());
                spawn_local(accept(net, socket, orders, process, mailboxes, stage));
                doors.push((*address, sender));
            }
        }
        for (_, door) in before {
            door.send_replace(None);
        }
    }

    /// Connects a client to the first listener.
    pub(crate) async fn client(&self) -> Peer {
        self.client_from("192.0.2.1", FRONT).await
    }

    /// Connects a client of this address to this listener.
    pub(crate) async fn client_from(&self, source: &str, listener: &str) -> Peer {
        Peer::new(self.connect(source, listener).await.expect("a socket listens"))
    }

    /// Checks that no socket listens any more.
    pub(crate) async fn expect_no_listener(&self) {
        assert!(self.connect("192.0.2.1", FRONT).await.is_err());
    }

    async fn connect(&self, source: &str, listener: &str) -> io::Result<SimStream> {
        self.next_port.set(self.next_port.get() + 1);
        let source = SocketAddr::new(source.parse().unwrap(), self.next_port.get());
        let target = PeerAddress::Socket(listener.parse().unwrap());
        self.net.inner.connect_from(source, &target).await
    }

    /// Starts the origin at 10.0.1.`number`:80.
    pub(crate) fn origin(&self, number: u8) -> Origin {
        let address = PeerAddress::Socket(endpoint(number));
        Origin::new(self.net.inner.clone(), self.net.inner.bind(address, LinkSide::Upstream))
    }

    /// Sets the outcome of connects to 10.0.1.`number`:80; `None` is success at once.
    pub(crate) fn connects(&self, number: u8, manner: Option<Connects>) {
        let mut manners = self.net.manners.borrow_mut();
        match manner {
            Some(manner) => manners.insert(endpoint(number), manner),
            None => manners.remove(&endpoint(number)),
        };
    }

    /// Returns the number of connects to 10.0.1.`number`:80.
    pub(crate) fn connect_count(&self, number: u8) -> usize {
        self.net.counts.borrow().get(&endpoint(number)).copied().unwrap_or(0)
    }

    /// Returns the number of client connections of each worker.
    pub(crate) fn open_by_worker(&self) -> Vec<usize> {
        self.process.loads.iter().map(|load| load.open.load(Ordering::Relaxed)).collect()
    }

    /// Returns the snapshot that new exchanges use.
    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        self.process.snapshot()
    }

    /// Returns the first pool.
    pub(crate) fn pool(&self) -> Arc<UpstreamPool> {
        self.snapshot().pools[0].clone()
    }

    /// Returns the number of exchanges in flight in the first pool.
    pub(crate) fn in_flight(&self) -> u64 {
        self.pool().balancer.in_flight()
    }

    /// Returns the number of exchanges that wait in the first pool.
    pub(crate) fn waiting(&self) -> u64 {
        self.pool().balancer.queue_length().now
    }

    /// Begins a graceful stop.
    pub(crate) fn drain(&self, patience: Duration) {
        self.process.stopping.store(true, Ordering::Relaxed);
        self.stage.send_replace(Stage::draining(patience));
    }

    /// Stops at once.
    pub(crate) fn stop_now(&self) {
        self.stage.send_replace(Stage::Stopped);
    }

    /// Checks that the workers end within this time.
    pub(crate) async fn expect_stopped(&self, within: Duration) {
        let workers = self.workers.take();
        let ended = async {
            for worker in workers {
                worker.await.unwrap();
            }
        };
        timeout(within, ended).await.expect("the workers end");
    }

    /// Returns the log lines since the last call, after the workers have had time to pass them on.
    pub(crate) async fn log(&self) -> Vec<Line> {
        sleep(Duration::from_millis(150)).await;
        let lines = self.lines();
        self.logged.set(self.logged.get() + lines.len() as u64);
        lines
    }

    fn lines(&self) -> Vec<Line> {
        let mut lines = Vec::new();
        while let Ok(message) = self.log.try_receive() {
            if let LogMessage::Lines(batch) = message {
                let text = String::from_utf8(batch.lines.clone()).unwrap();
                lines.extend(text.lines().map(Line::new));
            }
        }
        lines
    }

    /// Returns the only log line since the last call.
    pub(crate) async fn log_line(&self) -> Line {
        let mut lines = self.log().await;
        assert_eq!(lines.len(), 1, "{lines:#?}");
        lines.remove(0)
    }

    /// Checks the cause and status of the only log line since the last call.
    pub(crate) async fn expect_logged(&self, cause: &str, status: Option<u64>) {
        let line = self.log_line().await;
        assert_eq!(
            (line.text("cause").as_str(), line.number("status")),
            (cause, status),
            "{line:?}"
        );
    }

    async fn expect_settled(&self) {
        let wrong = || {
            let own = |pool: &Arc<UpstreamPool>| {
                pool.balancer.in_flight() + pool.balancer.queue_length().now
            };
            let snapshot = self.process.snapshot();
            let slots = snapshot.pools.iter().map(own);
            let room = &self.process.connections;
            let taken = room.cap() - room.free();
            let held = self.process.loads.iter().map(|load| load.held.load(Ordering::Relaxed));
            (slots.sum::<u64>(), self.process.open_connections(), taken + held.sum::<usize>())
        };
        for pool in &self.snapshot().pools {
            // Laws 2, 3 and 5, which the queue audit checks all the time.
            assert_eq!(pool.balancer.counters().violations, 0, "pool {}", pool.name);
        }
        let snapshot = self.snapshot();
        let endpoints = snapshot.pools.iter().flat_map(|pool| &pool.endpoints);
        let idle: u32 = endpoints.map(|endpoint| endpoint.idle.now()).sum();
        assert_eq!(self.process.server_connections.idle(), idle as usize);
        for _ in 0..300 {
            if wrong() == (0, 0, 0) {
                return self.expect_counted().await;
            }
            sleep(Duration::from_secs(1)).await;
        }
        panic!("left behind (slots and waiting, connections, places and bytes): {:?}", wrong());
    }
}

impl World {
    /// Checks that every exchange with a log line was counted once at every level.
    async fn expect_counted(&self) {
        self.log().await;
        let figures = self.process.numbers.read();
        let requests = figures.tally(|_| true).requests();
        let exchanges: u64 = figures.workers.iter().map(|worker| worker.exchanges).sum();
        let logged = self.logged.get();
        assert_eq!((requests, exchanges), (logged, logged), "counted and logged");
    }
}

fn endpoint(number: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 1, number], 80))
}

/// Returns the reader of Weir's files: the files of the scenario, and default pages.
fn reader(
    files: &Rc<RefCell<BTreeMap<PathBuf, String>>>,
) -> impl Fn(&Path) -> io::Result<Vec<u8>> + use<> {
    let files = files.clone();
    move |path| {
        let page = || format!("the page {}", path.display());
        Ok(files.borrow().get(path).cloned().unwrap_or_else(page).into_bytes())
    }
}

fn config(text: &str) -> Config {
    let checked = weir_config::parse_str("test.conf", text);
    let mut config = checked.unwrap_or_else(|wrong| panic!("{wrong}")).config;
    let name = "test".to_owned();
    config.listeners.iter_mut().for_each(|listener| listener.logs = vec![name.clone()]);
    let (to, format) = (vec![LogTarget::Stdout], LogFormat::Json);
    let log =
        AccessLog { name, to, format, escape: LogEscape::default(), when: None, buffer: None };
    config.logs = vec![log];
    config
}

fn start_workers(
    net: &ScriptedNet,
    process: &Arc<Process>,
    stage: &watch::Sender<Stage>,
) -> (Vec<JoinHandle<()>>, Mailboxes) {
    let (mailboxes, receivers): (Vec<_>, Vec<_>) =
        process.loads.iter().map(|_| mpsc::unbounded_channel()).unzip();
    let shared_idle = Arc::default();
    let workers = receivers.into_iter().enumerate().map(|(number, mailbox)| {
        let (net, process, stage) = (net.clone(), process.clone(), stage.subscribe());
        let (seed, mailbox, shared_idle) =
            (number as u64, mailbox.into(), Arc::clone(&shared_idle));
        let parts = WorkerParts { number, net, process, mailbox, shared_idle, seed, stage };
        // A `LocalSet` of its own, as a worker's thread has: tasks that still run when the worker
        // ends are dropped with it.
        spawn_local(async move { LocalSet::new().run_until(worker_loop::run(parts)).await })
    });
    (workers.collect(), mailboxes.into())
}
