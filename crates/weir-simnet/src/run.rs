//! Runs seeds: builds the network, the origins, the device under test and the clients in one
//! runtime with a virtual clock, waits until everything has ended, and calls the checkers.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::runtime::{Builder, LocalOptions};
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::{Instant, sleep, timeout};
use weir_proxy::net::PeerAddress;

use crate::checks::log::{LogLine, check_log};
use crate::checks::tcp::check_tcp_log;
use crate::checks::{Rules, check};
use crate::ledger::{ClientOutcome, Ledger};
use crate::memory::{self, simulated};
use crate::network::net::{SimListener, SimNet};
use crate::network::trace::{LinkSide, NetworkEvent};
use crate::peers::client;
use crate::peers::hostile;
use crate::peers::origin::serve;
use crate::peers::tcp;
use crate::plan::{CarriedProtocol, RunPlan};
use crate::world::{Limits, World};

/// The environment of a device.
pub struct DeviceSite {
    /// The network.
    pub net: SimNet,
    /// The listener that clients connect to.
    pub listener: SimListener,
    /// The address of `listener`.
    pub address: SocketAddr,
    /// The addresses of the origins.
    pub endpoints: Vec<SocketAddr>,
    /// Set for each origin that speaks HTTP/2.
    pub http2: Vec<bool>,
    /// The seed of the device's own random numbers.
    pub seed: u64,
}

/// A program between clients and origins.
pub trait Device: Sync {
    /// Returns the rules that it promises to keep.
    fn rules(&self) -> Rules;

    /// Starts it on the current runtime (`spawn_local`).
    fn start(&self, site: DeviceSite) -> Box<dyn RunningDevice>;
}

/// A running device.
pub trait RunningDevice {
    /// Returns the violations of an idle device (slots not at zero, counts that differ). It is
    /// called after some idle time.
    fn settled(&self) -> Vec<String>;

    /// Tells it to stop: it finishes running exchanges and accepts no new ones.
    fn stop(&self);

    /// Returns the number of its tasks when idle; zero after a stop.
    fn tasks(&self) -> usize;

    /// Returns the limits that it promises.
    fn limits(&self) -> Limits {
        Limits::default()
    }

    /// Returns the bytes of its histograms, which have a budget of their own.
    fn figures_bytes(&self) -> isize {
        0
    }

    /// Returns its log, a line for each exchange; `None` if it keeps no log.
    fn log(&self) -> Option<Vec<LogLine>> {
        None
    }
}

/// The result of a run.
#[derive(Clone, Debug)]
pub struct RunReport {
    /// The seed.
    pub seed: u64,
    /// The hash of the trace.
    pub hash: u64,
    /// The number of events in the trace.
    pub events: usize,
    /// The number of requests with a complete response of an origin.
    pub relayed: usize,
    /// The number of requests of the plan.
    pub requests: usize,
    /// The most bytes that the device held beyond those it held before the first client connected;
    /// 0 without `weir-memory`'s allocator.
    pub peak_bytes: isize,
    /// The violations that the checkers found.
    pub violations: Vec<String>,
    /// The trace and the device's log as text; empty for a run without violations.
    pub trace: String,
}

/// Runs one plan; without a device the clients talk to an origin directly.
pub fn run_seed(plan: &RunPlan, device: Option<&dyn Device>) -> RunReport {
    let runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build_local(LocalOptions::default());
    let runtime = runtime.expect("a runtime without I/O can always be built");
    runtime.block_on(scenario(Rc::new(plan.clone()), device))
}

async fn scenario(plan: Rc<RunPlan>, device: Option<&dyn Device>) -> RunReport {
    let rules = device.map_or_else(direct_rules, Device::rules);
    let net = SimNet::new(plan.seed, plan.profile.faults.clone());
    let ledger = Ledger::new(&plan);
    let world = World {
        net: net.clone(),
        ledger,
        plan: Rc::clone(&plan),
        transparent: rules.transparent,
        start: Instant::now(),
        limits: Rc::default(),
    };
    let side = if device.is_some() { LinkSide::Upstream } else { LinkSide::Downstream };
    let endpoints: Vec<SocketAddr> = (0..plan.origins)
        .map(|number| SocketAddr::from((Ipv4Addr::new(10, 0, 1, number as u8 + 1), 80)))
        .collect();
    for (origin, endpoint) in endpoints.iter().enumerate() {
        let listener = net.bind(PeerAddress::Socket(*endpoint), side);
        if plan.profile.protocol == CarriedProtocol::Tcp {
            spawn_local(simulated(tcp::serve(world.clone(), listener, origin)));
        } else {
            spawn_local(simulated(serve(world.clone(), listener, origin)));
        }
    }
    let address = listener_address();
    let running = device.map(|device| start(&world, device, address, &endpoints));
    let target = PeerAddress::Socket(if running.is_some() { address } else { endpoints[0] });
    memory::begin(running.clone().map(|running| -> Box<dyn Fn() -> isize> {
        let before = running.figures_bytes();
        Box::new(move || running.figures_bytes() - before)
    }));
    let mut violations = join_all(&rules, start_clients(&world, &target)).await;
    if let Some(budget) = running.as_ref().and_then(|running| running.limits().bytes) {
        let peak = memory::peak();
        if peak > budget {
            violations.push(format!("law 12: {peak} bytes were held, {budget} may be"));
        }
    }
    net.calm();
    net.note(NetworkEvent::Settled);
    sleep(Duration::from_secs(rules.idle_seconds)).await;
    violations.extend(idle_state(&world, running.as_deref()));
    violations.extend(check(&world, &rules));
    let log = running.as_ref().and_then(|running| running.log());
    violations.extend(log.iter().flat_map(|log| {
        if plan.profile.protocol == CarriedProtocol::Tcp {
            check_tcp_log(&world, log)
        } else {
            check_log(&world, log)
        }
    }));
    if world.net.trace().spun() {
        violations.push("law 11: a task loops without end".to_owned());
    }
    let report = report(&world, violations, &log.unwrap_or_default());
    memory::end();
    report
}

fn start_clients(world: &World, target: &PeerAddress) -> Vec<JoinHandle<()>> {
    let _scope = memory::simulation();
    let plan = &world.plan;
    let clients = plan.clients.iter().map(|client| {
        let (world, target, client) = (world.clone(), target.clone(), client.clone());
        if plan.profile.protocol == CarriedProtocol::Tcp {
            spawn_local(simulated(tcp::run(world, target, client)))
        } else {
            spawn_local(simulated(client::run(world, target, client)))
        }
    });
    let hostile = plan.hostile.iter().map(|client| {
        spawn_local(simulated(hostile::run(world.clone(), target.clone(), client.clone())))
    });
    clients.chain(hostile).collect()
}

/// Returns the address of the device.
fn listener_address() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::new(203, 0, 113, 1), 80))
}

/// Starts the device, and stops it at the time that the plan gives.
fn start(
    world: &World,
    device: &dyn Device,
    address: SocketAddr,
    endpoints: &[SocketAddr],
) -> Rc<dyn RunningDevice> {
    let net = world.net.clone();
    let listener = net.bind(PeerAddress::Socket(address), LinkSide::Downstream);
    let site = DeviceSite {
        net,
        listener,
        address,
        endpoints: endpoints.to_vec(),
        http2: world.plan.http2_origins.clone(),
        seed: world.plan.seed,
    };
    let running: Rc<dyn RunningDevice> = Rc::from(device.start(site));
    *world.limits.borrow_mut() = running.limits();
    if let Some(stop_ms) = world.plan.profile.stop_ms {
        let running = Rc::clone(&running);
        spawn_local(async move {
            sleep(Duration::from_millis(stop_ms)).await;
            running.stop();
        });
    }
    running
}

/// Returns the rules without a device: origins respond themselves, faults included.
fn direct_rules() -> Rules {
    Rules { transparent: true, ..Rules::default() }
}

async fn join_all(rules: &Rules, clients: Vec<JoinHandle<()>>) -> Vec<String> {
    let mut violations = Vec::new();
    let everybody = async {
        for client in clients {
            if client.await.is_err() {
                violations.push("a client panicked".to_owned());
            }
        }
    };
    if timeout(Duration::from_secs(rules.settle_seconds), everybody).await.is_err() {
        violations.push(format!("law 11: clients still wait after {} s", rules.settle_seconds));
    }
    violations
}

/// Checks laws 5 and 11: no connection and no task is left.
fn idle_state(world: &World, running: Option<&dyn RunningDevice>) -> Vec<String> {
    let mut wrong = running.map(RunningDevice::settled).unwrap_or_default();
    let open = world.net.open_links();
    if open > 0 {
        wrong.push(format!("law 11: {open} connections are open when idle"));
    }
    let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let expected = world.plan.origins + running.map_or(0, RunningDevice::tasks);
    if tasks != expected {
        wrong.push(format!("law 5: {tasks} tasks when idle instead of {expected}"));
    }
    wrong
}

fn report(world: &World, violations: Vec<String>, log: &[LogLine]) -> RunReport {
    let trace = world.net.trace();
    let book = world.ledger.book();
    let whole = |outcome: &ClientOutcome| matches!(outcome, ClientOutcome::Answered(answer) if answer.attempt.is_some() && answer.broken.is_none());
    let text = || {
        log.iter().fold(trace.render(), |text, line| {
            text + &format!(
                "{line:?}
"
            )
        })
    };
    RunReport {
        seed: world.plan.seed,
        hash: trace.hash(),
        events: trace.len(),
        relayed: book.records.values().filter(|record| whole(&record.outcome)).count(),
        requests: book.records.len(),
        peak_bytes: memory::peak(),
        trace: if violations.is_empty() { String::new() } else { text() },
        violations,
    }
}

/// Returns the seeds to run: `WEIR_SEED=n` selects one, `WEIR_SEEDS=n` the first n; the default is
/// the first `usual`.
pub fn seeds_wanted(usual: u64) -> Vec<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    match (number("WEIR_SEED"), number("WEIR_SEEDS")) {
        (Some(seed), _) => vec![seed],
        (None, count) => (0..count.unwrap_or(usual)).collect(),
    }
}

/// Runs many seeds on all cores, each twice if `twice` is set, and panics with the violations and
/// the command that replays them.
///
/// `replay` is the command that runs the same test; `WEIR_SEED=n` is put in front of it.
pub fn run_seeds(
    seeds: &[u64],
    replay: &str,
    device: Option<&dyn Device>,
    draw: &(dyn Fn(u64) -> RunPlan + Sync),
) -> Vec<RunReport> {
    let next = AtomicU64::new(0);
    let reports = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    let work = || {
        while let Some(seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed) as usize) {
            if std::env::var_os("WEIR_VERBOSE").is_some() {
                eprintln!("seed {seed}");
            }
            let run = AssertUnwindSafe(|| run_seed(&draw(*seed), device));
            let report = catch_unwind(run).unwrap_or_else(|_| panicked(*seed));
            reports.lock().expect("no holder panics").push(report);
        }
    };
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    let mut reports = reports.into_inner().expect("no holder panics");
    reports.sort_by_key(|report| report.seed);
    complain(&reports, replay);
    reports
}

fn panicked(seed: u64) -> RunReport {
    let violations = vec!["the run panicked".to_owned()];
    let trace = String::new();
    RunReport {
        seed,
        hash: 0,
        events: 0,
        relayed: 0,
        requests: 0,
        peak_bytes: 0,
        violations,
        trace,
    }
}

/// Panics if a run has violations; the shortest trace is shown first.
fn complain(reports: &[RunReport], replay: &str) {
    let failed: Vec<&RunReport> =
        reports.iter().filter(|report| !report.violations.is_empty()).collect();
    let Some(easiest) = failed.iter().min_by_key(|report| report.events) else { return };
    let mut text = format!("{} of {} seeds broke a law\n", failed.len(), reports.len());
    for report in failed.iter().take(20) {
        let _ = writeln!(text, "seed {} ({} events):", report.seed, report.events);
        for violation in report.violations.iter().take(6) {
            let _ = writeln!(text, "    {violation}");
        }
    }
    let _ = writeln!(text, "replay the easiest: WEIR_SEED={} {replay}", easiest.seed);
    if let Some(path) = std::env::var_os("WEIR_TRACE") {
        let _ = std::fs::write(path, &easiest.trace);
    }
    panic!("{text}");
}
