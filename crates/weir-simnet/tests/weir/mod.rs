//! The real data plane as the device under test: its workers, accept loop, pools and access log on
//! the simulated network. Configurations are drawn from the seed.

mod moving;
mod queue_watch;
mod reloading;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fastrand::Rng;
use tokio::sync::{mpsc, watch};
use tokio::task::spawn_local;
use tokio::time::sleep;
use weir_balance::{Balancer, Fault, Member, PolicyKind, QueueSettings, Settings};
use weir_config::Config;
use weir_config::model::{
    AccessLog, Action, Budget, ClientTimeouts, Endpoint, EndpointAddress, Keepalive, ListenAddress,
    Listener, LogEscape, LogFormat, LogTarget, MessageLimits, Passive, Policy, Pool, Queue,
    RequestTimeout, Retry, RetryOn, ReuseLevel, Route, RouteSize, RouteUpstream, Rule,
    TcpKeepalive, UpstreamTimeouts,
};
use weir_proxy::accept;
use weir_proxy::compile::{Surroundings, compile};
use weir_proxy::mail::Mail;
use weir_proxy::process::{Process, Stage};
use weir_proxy::snapshot::Snapshot;
use weir_proxy::worker_loop::{self, WorkerParts};
use weir_simnet::memory::simulated;
use weir_simnet::{DeviceSite, Limits, LogLine, RunPlan, RunningDevice, SimNet};
use weir_stats::{LogReceiver, Message, Template, log_channel};

#[allow(unused_imports, reason = "only the scenario asks for it")]
pub(crate) use moving::{MOVED, WAITED};
#[allow(unused_imports, reason = "only the scenario asks for it")]
pub(crate) use queue_watch::COMPARED;
use queue_watch::{QueueWatch, Served};
#[allow(unused_imports, reason = "only the scenario asks for it")]
pub(crate) use reloading::RELOADS;

struct AtWork {
    process: Arc<Process>,
    workers: usize,
    log: Rc<Journal>,
    /// One channel for each worker and one for the accept loop: the receivers of a shared channel
    /// would be woken in an order that is random in each run.
    stages: Vec<watch::Sender<Stage>>,
    watch: QueueWatch,
    limits: Limits,
}

/// The log and the lines received so far.
struct Journal {
    log: LogReceiver,
    lines: RefCell<Vec<Line>>,
}

/// The interval and the number of receptions of the log: waiting batches would count as the
/// device's memory.
const RECEIVED_EVERY: Duration = Duration::from_millis(100);
const RECEIVED: usize = 3_000;

impl Journal {
    /// Starts receiving.
    fn start(log: LogReceiver) -> Rc<Self> {
        let journal = Rc::new(Self { log, lines: RefCell::default() });
        let told = journal.clone();
        spawn_local(simulated(async move {
            for _ in 0..RECEIVED {
                sleep(RECEIVED_EVERY).await;
                told.receive();
            }
        }));
        journal
    }

    /// Reads the lines logged since the last call.
    fn receive(&self) {
        while let Ok(message) = self.log.try_receive() {
            if let Message::Lines(batch) = message {
                let text = String::from_utf8_lossy(&batch.lines).into_owned();
                self.lines.borrow_mut().extend(text.lines().map(parse));
            }
        }
    }
}

/// A line of the log, with the values that the check of the queue needs.
struct Line {
    line: LogLine,
    /// The wait of an exchange that got the only slot it asked for.
    served: Option<Served>,
}

/// Starts the data plane with this configuration.
pub(crate) fn launch(
    site: DeviceSite,
    config: &Config,
    workers: usize,
    connection_cap: usize,
) -> Box<dyn RunningDevice> {
    launch_with(site, config, (workers, connection_cap), Fault::None)
}

/// Starts the data plane with this configuration and a fault in the balancer.
pub(crate) fn launch_with(
    site: DeviceSite,
    config: &Config,
    (workers, connection_cap): (usize, usize),
    fault: Fault,
) -> Box<dyn RunningDevice> {
    let (sinks, log) = log_channel(config.logs.len(), 100_000);
    let read = |path: &std::path::Path| Err(std::io::Error::other(path.display().to_string()));
    let surroundings = Surroundings { read: &read, sinks: sinks.clone(), root: None };
    let mut snapshot =
        compile(config, surroundings, None).expect("the configuration is sound").snapshot;
    if fault != Fault::None {
        break_balancer(&mut snapshot, config, fault);
    }
    let gate = snapshot.listeners[0].gate.clone();
    let (process, _) = Process::new(snapshot, workers, connection_cap);
    let mut stages = Vec::new();
    let mut stage = || {
        let (sender, receiver) = watch::channel(Stage::Running);
        stages.push(sender);
        receiver
    };
    let (mailboxes, receivers): (Vec<_>, Vec<_>) =
        (0..workers).map(|_| mpsc::unbounded_channel()).unzip();
    let mailboxes: Arc<[mpsc::UnboundedSender<Mail<SimNet>>]> = mailboxes.into();
    let shared_idle = Arc::default();
    for (number, mailbox) in receivers.into_iter().enumerate() {
        let (process, stage) = (process.clone(), stage());
        let seed = site.seed.wrapping_mul(31).wrapping_add(number as u64);
        spawn_local(worker_loop::run(WorkerParts {
            number,
            net: site.net.clone(),
            process,
            mailbox: mailbox.into(),
            shared_idle: Arc::clone(&shared_idle),
            seed,
            stage,
        }));
    }
    let watch = QueueWatch::default();
    if fault == Fault::None {
        reloading::start(&process, &mailboxes, config, sinks, site.seed);
        moving::start(&process, &mailboxes, &watch, site.seed);
    }
    let (_, orders) = watch::channel(Some(gate));
    spawn_local(accept(site.net, site.listener, orders, process.clone(), mailboxes, stage()));
    let limit = |endpoint: &Endpoint| endpoint.max_conn;
    let max_conn = config.pools[0].endpoints.iter().map(limit).collect();
    let limits = Limits { max_conn, bytes: None };
    watch.start(&process);
    let log = Journal::start(log);
    Box::new(AtWork { process, workers, log, stages, watch, limits })
}

/// Replaces the first pool's balancer by one with a fault; the pool is not in use yet.
fn break_balancer(snapshot: &mut Arc<Snapshot>, config: &Config, fault: Fault) {
    let pool = &config.pools[0];
    let member = |(index, endpoint): (usize, &Endpoint)| Member {
        identity: index as u64,
        weight: endpoint.weight,
        max_conn: endpoint.max_conn,
        tier: 0,
        ejection: None,
        slow_start_us: 0,
        state: Arc::default(),
    };
    let members = pool.endpoints.iter().enumerate().map(member).collect();
    let queue = pool
        .queue
        .as_ref()
        .map(|queue| QueueSettings { max: queue.max, max_per_endpoint: queue.per_endpoint });
    let settings = Settings { queue, fault, ..Settings::new(PolicyKind::RoundRobin) };
    let snapshot = Arc::get_mut(snapshot).expect("nobody else has it");
    let broken = Arc::get_mut(&mut snapshot.pools[0]).expect("nobody else has it");
    broken.balancer = Balancer::new(settings, members);
}

impl AtWork {
    /// Returns true while all workers run. A worker that has ended has dropped its idle connections
    /// and no longer counts them.
    fn is_running(&self) -> bool {
        self.stages.iter().all(|stage| matches!(*stage.borrow(), Stage::Running))
    }

    /// Returns the violations of queues and slots.
    fn queue_violations(&self) -> Vec<String> {
        self.log.receive();
        let served: Vec<Served> =
            self.log.lines.borrow().iter().filter_map(|line| line.served).collect();
        let mut wrong = self.watch.violations(&served);
        for pool in &self.process.snapshot().pools {
            let counters = pool.balancer.counters();
            if counters.violations > 0 {
                wrong.push(format!("law 2: the watchdog found {} violations", counters.violations));
            }
            let waiting = pool.balancer.queue_length().now;
            if waiting > 0 {
                wrong.push(format!("law 5: {waiting} wait in {} when idle", pool.name));
            }
        }
        wrong
    }
}

impl RunningDevice for AtWork {
    fn settled(&self) -> Vec<String> {
        let mut wrong = self.queue_violations();
        for pool in &self.process.snapshot().pools {
            let in_flight = pool.balancer.in_flight();
            if in_flight != 0 {
                wrong
                    .push(format!("law 5: {in_flight} slots of {} are taken when idle", pool.name));
            }
            for endpoint in &pool.endpoints {
                let idle = endpoint.idle.now();
                if idle != 0 && self.is_running() {
                    wrong.push(format!(
                        "law 5: {idle} idle connections to {} are counted",
                        endpoint.name
                    ));
                }
            }
        }
        for (side, growth) in [
            ("clients", self.process.http2_window_growth()),
            ("endpoints", self.process.http2_endpoint_window_growth()),
        ] {
            if growth != 0 {
                wrong.push(format!("law 5: windows towards {side} have grown by {growth}"));
            }
        }
        let open = self.process.open_connections();
        let room = self.process.connections.free();
        if open != 0 || room != self.process.connections.cap() {
            wrong.push(format!("law 5: {open} client connections counted, room for {room}"));
        }
        wrong
    }

    fn stop(&self) {
        self.process.stopping.store(true, Ordering::Relaxed);
        for stage in &self.stages {
            stage.send_replace(Stage::draining(Duration::from_mins(5)));
        }
    }

    /// The tasks of each worker are the worker itself, its sweep, and those that close idle
    /// connections for room, wake connections when they are due, and relieve memory. The accept
    /// loop is one more; the watch of the queue has ended by then.
    fn tasks(&self) -> usize {
        if self.is_running() { 5 * self.workers + 1 } else { 0 }
    }

    fn limits(&self) -> Limits {
        self.limits.clone()
    }

    fn figures_bytes(&self) -> isize {
        self.process.numbers.histogram_bytes() as isize
    }

    fn log(&self) -> Option<Vec<LogLine>> {
        self.log.receive();
        Some(self.log.lines.take().into_iter().map(|line| line.line).collect())
    }
}

const LINE: &str = "$http_x_sim_id $status $cause $request_id $t_queue $attempts $failed_attempts";

fn parse(text: &str) -> Line {
    let mut parts = text.split(' ');
    let mut next = || parts.next().unwrap_or_default();
    let id = next().parse().ok();
    let status = next().parse().unwrap_or(0);
    let cause = next().to_owned();
    let tag = next().bytes().take(8).fold(0, |tag, byte| tag << 8 | u64::from(byte));
    let waited_us = next().parse().ok();
    let attempts: u32 = next().parse().unwrap_or(0);
    let once = attempts > 0 && next() == "-";
    let served = waited_us.filter(|_| once).map(|waited_us| Served { tag, waited_us });
    Line { line: LogLine { id, status, cause }, served }
}

/// Draws a configuration for a site.
pub(crate) fn configuration(site: &DeviceSite, random: &mut Rng) -> Config {
    let endpoints = site.endpoints.iter().enumerate();
    let endpoints = endpoints.map(|(number, address)| {
        let mut endpoint =
            Endpoint::new(format!("origin{number}"), EndpointAddress::Socket(*address));
        endpoint.weight = random.u32(1..=3);
        endpoint
    });
    let mut pool = Pool::new("origins", endpoints.collect());
    let policies = PolicyKind::all();
    let key = Template::parse("$http_x_sim_id").expect("a sound template");
    pool.policy = Policy::new(policies[random.usize(0..policies.len())], key);
    let (idle, seconds) = ([0, 1, 2, 100][random.usize(0..4)], random.u64(1..=60));
    // Not drawn, so that the draws after it are those of recorded seeds.
    let levels = [ReuseLevel::Never, ReuseLevel::Safe, ReuseLevel::Aggressive];
    pool.keepalive = Keepalive {
        idle,
        timeout: Duration::from_secs(seconds),
        reuse: levels.get(seconds as usize % 6).copied().unwrap_or_default(),
        max_requests: [1, 3, 100_000][random.usize(0..3)],
        max_age: Duration::from_secs([5, 3_600][random.usize(0..2)]),
    };
    pool.passive = Passive { errors: [0, 1, 5][random.usize(0..3)], ..Passive::default() };
    pool.retry = retry(random);
    pool.timeouts = UpstreamTimeouts {
        connect: Duration::from_secs(2),
        send: Duration::from_secs(10),
        response: Duration::from_secs(10),
        read: Duration::from_secs(10),
        tunnel: Duration::from_mins(1),
        ..UpstreamTimeouts::default()
    };
    pool.buffer_request =
        (random.u32(0..4) == 0 && !RunPlan::is_bulk(site.seed)).then_some(1 << 20);
    limit(&mut pool, random);
    let template = Template::parse(LINE).expect("a sound template");
    let log = AccessLog {
        name: "sim".into(),
        to: vec![LogTarget::Stdout],
        format: LogFormat::Text(template),
        escape: LogEscape::default(),
        when: None,
        buffer: None,
    };
    Config {
        pools: vec![pool],
        listeners: vec![listener(site, random)],
        logs: vec![log],
        ..Config::default()
    }
}

/// Sets limits at some endpoints, and a queue or none.
fn limit(pool: &mut Pool, random: &mut Rng) {
    if random.bool() {
        return;
    }
    for endpoint in &mut pool.endpoints {
        endpoint.max_conn = [Some(1), Some(1), Some(2), None][random.usize(0..4)];
    }
    pool.queue = (random.u32(0..5) > 0).then(|| Queue {
        timeout: Some(Duration::from_millis([50, 2_000, 60_000][random.usize(0..3)])),
        max: [1, 3, 1_000][random.usize(0..3)],
        per_endpoint: [None, Some(1)][random.usize(0..2)],
        ..Queue::default()
    });
}

fn retry(random: &mut Rng) -> Retry {
    let all = [
        RetryOn::Connect,
        RetryOn::Refused,
        RetryOn::Reset,
        RetryOn::Timeout,
        RetryOn::Invalid,
        RetryOn::Status(404),
        RetryOn::Status(500),
    ];
    let mut on: Vec<RetryOn> = all.into_iter().filter(|_| random.bool()).collect();
    if on.is_empty() {
        on.push(RetryOn::Connect);
    }
    Retry {
        attempts: random.u32(0..=3),
        on,
        budget: [Budget::Auto, Budget::Off, Budget::Percent(0)][random.usize(0..3)],
        backoff: [None, Some(Duration::from_millis(50))][random.usize(0..2)],
        within: [None, Some(Duration::from_secs(5))][random.usize(0..2)],
        non_idempotent: false,
    }
}

fn listener(site: &DeviceSite, random: &mut Rng) -> Listener {
    let route = Route {
        name: "all".into(),
        when: Rule::All(Vec::new()),
        action: Action::Pool(0),
        upgrade: None,
        request_timeout: RequestTimeout::Inherited,
        access: Vec::new(),
        rate_limits: Vec::new(),
        in_flight_limits: Vec::new(),
        bandwidth: None,
        logs: None,
        rewrite: Vec::new(),
        upstream: RouteUpstream::default(),
        error_targets: Vec::new(),
        expires: None,
        responses: weir_config::model::ResponseRules::default(),
        body: RouteSize::Inherited,
        request_headers: Vec::new(),
        response_headers: Vec::new(),
    };
    Listener {
        name: "sim".into(),
        log_name: None,
        addresses: vec![ListenAddress::Socket(site.address)],
        reuseport: false,
        protocol: weir_config::model::Protocol::Http,
        proxy_protocol: Vec::new(),
        http2: weir_config::model::Http2::default(),
        grpc: weir_config::model::Grpc::default(),
        tls: None,
        max_connections: [None, Some(2), Some(5)][random.usize(0..3)],
        timeouts: ClientTimeouts {
            handshake: Duration::from_secs(10),
            head: Duration::from_secs(10),
            body: Duration::from_secs(10),
            keepalive: Duration::from_secs(30),
            send: Duration::from_secs(10),
            ..ClientTimeouts::default()
        },
        tcp_keepalive: TcpKeepalive::default(),
        limits: MessageLimits::default(),
        client_limit: None,
        rate_limits: Vec::new(),
        in_flight_limits: Vec::new(),
        bandwidth: None,
        logs: vec!["sim".into()],
        forwarded: weir_config::model::Forwarded::default(),
        request_id: weir_config::model::RequestIdSettings::default(),
        cause_header: None,
        explain_header: None,
        path: weir_config::model::PathRules::default(),
        header_names: weir_config::model::HeaderNames::default(),
        upgrade: vec!["websocket".into()],
        access: Vec::new(),
        request_headers: Vec::new(),
        response_headers: Vec::new(),
        error_pages: Vec::new(),
        error_targets: Vec::new(),
        sites: Vec::new(),
        default: vec![route],
    }
}
