//! The data plane of a script: one worker, one listener, one pool with a small queue. It checks no
//! message.

use std::cell::RefCell;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::sleep;
use weir_proxy::accept;
use weir_proxy::compile::{Surroundings, compile};
use weir_proxy::mail::Mail;
use weir_proxy::net::PeerAddress;
use weir_proxy::process::{Process, Stage};
use weir_proxy::worker_loop::{self, WorkerParts};
use weir_simnet::memory::{simulated, simulation};
use weir_simnet::{LinkSide, SimNet};
use weir_stats::{LogReceiver, Message, log_channel};

/// The address that clients connect to.
pub(super) const ADDRESS: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(203, 0, 113, 1)), 80);
/// The address that the origin listens on.
pub(super) const ORIGIN: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(10, 0, 1, 1)), 80);

const CONFIGURATION: &str = r#"
log access { to stdout; format "$status $cause"; }
pool app {
    server 10.0.1.1:80 max_conn=2;
    queue timeout=2s max=2;
    keepalive idle=2 timeout=10s;
    retry 1 on=connect,reset,invalid budget=off;
    timeout connect=2s send=5s response=5s read=5s tunnel=10s;
    sticky cookie SRV insert;
}
listen 203.0.113.1:80 {
    log access;
    timeout head=5s body=5s keepalive=10s send=5s;
    route path /admin/* -> respond 403;
    route path /fixed* -> respond 200 "fixed";
    route -> app { header remove X-Secret; }
}
"#;

/// The running data plane.
pub(super) struct Proxy {
    pub(super) process: Arc<Process>,
    bugs: Rc<RefCell<Vec<String>>>,
    worker: JoinHandle<()>,
    /// Senders that must live as long as the worker, which stops when they are dropped.
    _stages: Vec<watch::Sender<Stage>>,
    _orders: watch::Sender<Option<Arc<weir_proxy::admission::Gate>>>,
}

impl Proxy {
    pub(super) fn start(net: &SimNet) -> Self {
        Self::start_with(net, CONFIGURATION)
    }

    /// Does the same as [`Proxy::start`] with HTTP/2 for clients.
    pub(super) fn start_http2(net: &SimNet) -> Self {
        let text = CONFIGURATION.replace("log access;\n", "log access; http2 on;\n");
        Self::start_with(net, &text)
    }

    fn start_with(net: &SimNet, text: &str) -> Self {
        let checked = weir_config::parse_str("weir.conf", text);
        let config = checked.unwrap_or_else(|error| panic!("{error}")).config;
        let (sinks, log) = log_channel(config.logs.len(), 100_000);
        let read = |path: &std::path::Path| Err(std::io::Error::other(path.display().to_string()));
        let surroundings = Surroundings { read: &read, sinks, root: None };
        let snapshot =
            compile(&config, surroundings, None).expect("the configuration is sound").snapshot;
        let gate = snapshot.listeners[0].gate.clone();
        let (process, _) = Process::new(snapshot, 1, 100);
        let (mailbox, receiver) = mpsc::unbounded_channel::<Mail<SimNet>>();
        let mut stages = Vec::new();
        let mut stage = || {
            let (sender, receiver) = watch::channel(Stage::Running);
            stages.push(sender);
            receiver
        };
        let worker = spawn_local(worker_loop::run(WorkerParts {
            number: 0,
            net: net.clone(),
            process: process.clone(),
            mailbox: receiver.into(),
            shared_idle: Arc::default(),
            seed: 1,
            stage: stage(),
        }));
        let listener = net.bind(PeerAddress::Socket(ADDRESS), LinkSide::Downstream);
        let (keep, orders) = watch::channel(Some(gate));
        let mailboxes: Arc<[_]> = [mailbox].into();
        spawn_local(accept(net.clone(), listener, orders, process.clone(), mailboxes, stage()));
        let bugs = Rc::new(RefCell::new(Vec::new()));
        spawn_local(simulated(receive(log, bugs.clone())));
        Self { process, bugs, worker, _stages: stages, _orders: keep }
    }

    /// The errors found after everything has ended: resources that were not released, and internal
    /// errors.
    pub(super) fn settled(&self) -> Vec<String> {
        let _scope = simulation();
        let mut wrong = Vec::new();
        if self.worker.is_finished() {
            wrong.push("the worker ended".to_owned());
        }
        for pool in &self.process.snapshot().pools {
            let (in_flight, counters) = (pool.balancer.in_flight(), pool.balancer.counters());
            let waiting = pool.balancer.queue_length().now;
            if in_flight != 0 || waiting != 0 || counters.violations != 0 {
                wrong.push(format!(
                    "law 5: {in_flight} in flight and {waiting} waiting when idle, {counters:?}"
                ));
            }
            for endpoint in &pool.endpoints {
                let idle = endpoint.idle.now();
                if idle != 0 {
                    wrong.push(format!("law 5: {idle} idle connections are counted"));
                }
            }
        }
        let open = self.process.open_connections();
        if open != 0 || self.process.connections.free() != self.process.connections.cap() {
            wrong.push(format!("law 5: {open} client connections are counted"));
        }
        wrong.extend(self.bugs.borrow().iter().map(|line| format!("an internal error: {line}")));
        wrong
    }
}

/// Receives the log and keeps the lines of internal errors. Batches left in the channel would count
/// as the proxy's memory.
async fn receive(log: LogReceiver, bugs: Rc<RefCell<Vec<String>>>) {
    loop {
        sleep(Duration::from_millis(100)).await;
        while let Ok(message) = log.try_receive() {
            if let Message::Lines(batch) = message {
                let text = String::from_utf8_lossy(&batch.lines).into_owned();
                let lines = text.lines().filter(|line| line.contains("internal"));
                bugs.borrow_mut().extend(lines.map(str::to_owned));
            }
        }
    }
}
