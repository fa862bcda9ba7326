//! The real data plane on a seeded network in virtual time, with every law checked after every run.
//!
//! `WEIR_SEED=n` replays one seed, `WEIR_SEEDS=n` runs the first n, `WEIR_TRACE=file` keeps the
//! trace of a failure.

mod streams;
mod tcp;
#[path = "../weir/mod.rs"]
mod weir;

use std::sync::atomic::Ordering;
use std::time::Duration;

use fastrand::Rng;
use weir_balance::Fault;
use weir_config::model::Queue;
use weir_simnet::{
    Device, DeviceSite, Limits, LogLine, Profile, Rules, RunPlan, RunningDevice, Scale, Tamper,
    run_seed, run_seeds, seeds_wanted,
};

/// The counting allocator, to measure the memory of the device.
#[global_allocator]
static ALLOCATOR: weir_memory::Counting = weir_memory::Counting;

const REPLAY: &str = "cargo test -p weir-simnet --test scenario laws_hold";

/// The data plane, configured by the seed.
struct Weir;

impl Device for Weir {
    fn rules(&self) -> Rules {
        // The limit of connections is low, so that idle ones are closed to make room.
        Rules { half_close_leaves: true, gives_up_idle: true, ..Rules::default() }
    }

    fn start(&self, site: DeviceSite) -> Box<dyn RunningDevice> {
        let mut random = Rng::with_seed(site.seed ^ 0xc0f1_6000_0000_0000);
        let workers = random.usize(1..=3);
        let config = weir::configuration(&site, &mut random);
        let connection_cap = random.usize(1..=8);
        weir::launch(site, &config, workers, connection_cap)
    }
}

/// The data plane with a limit at every origin and more clients than the limits allow.
struct Crowded;

impl Device for Crowded {
    fn rules(&self) -> Rules {
        Rules { gives_up_idle: false, ..Weir.rules() }
    }

    fn start(&self, site: DeviceSite) -> Box<dyn RunningDevice> {
        let mut random = Rng::with_seed(site.seed ^ 0xc0f1_6000_0000_0001);
        let workers = random.usize(1..=4);
        let mut config = weir::configuration(&site, &mut random);
        for endpoint in &mut config.pools[0].endpoints {
            endpoint.max_conn = Some(random.u32(1..=2));
        }
        config.pools[0].queue = Some(Queue {
            timeout: Some(Duration::from_millis([300, 5_000, 60_000][random.usize(0..3)])),
            max: [4, 1_000, 1_000][random.usize(0..3)],
            ..Queue::default()
        });
        config.listeners[0].max_connections = None;
        weir::launch(site, &config, workers, 100)
    }
}

/// Draws many clients, small bodies and slow origins.
fn draw_crowd(seed: u64) -> RunPlan {
    let scale = Scale { clients: 20, connections: 2, requests: 4, body: 3_000 };
    RunPlan::draw_with(seed, scale, |profile| Profile { origin_slow: 600, ..profile })
}

/// The data plane among hostile clients and servers, configured by the seed, with a memory budget.
struct AmongHostilePeers;

/// The bytes that the device may hold for each client connection: heads, and the buffers of both
/// directions.
const BYTES_A_CONNECTION: isize = 256 << 10;
/// The bytes of a worker itself. The buffers that it keeps for reuse belonged to connections
/// before, and there are few connections.
const BYTES_A_WORKER: isize = 256 << 10;
/// The bytes that belong to no connection: generations of the configuration, time series, the log.
const BYTES_ANYHOW: isize = 2 << 20;

impl Device for AmongHostilePeers {
    fn rules(&self) -> Rules {
        Weir.rules()
    }

    fn start(&self, site: DeviceSite) -> Box<dyn RunningDevice> {
        let mut random = Rng::with_seed(site.seed ^ 0xc0f1_6000_0000_0002);
        let workers = random.usize(1..=3);
        let mut config = weir::configuration(&site, &mut random);
        let connection_cap = random.usize(3..=12);
        config.listeners[0].max_connections = None;
        let buffered = config.pools[0].buffer_request.map_or(0, |bytes| bytes as isize);
        let connections = connection_cap as isize * (BYTES_A_CONNECTION + buffered);
        let budget = BYTES_ANYHOW + workers as isize * BYTES_A_WORKER + connections;
        Box::new(Bounded(weir::launch(site, &config, workers, connection_cap), budget))
    }
}

/// A running device with a memory budget.
struct Bounded(Box<dyn RunningDevice>, isize);

impl RunningDevice for Bounded {
    fn settled(&self) -> Vec<String> {
        self.0.settled()
    }

    fn stop(&self) {
        self.0.stop();
    }

    fn tasks(&self) -> usize {
        self.0.tasks()
    }

    fn limits(&self) -> Limits {
        Limits { bytes: Some(self.1), ..self.0.limits() }
    }

    fn figures_bytes(&self) -> isize {
        self.0.figures_bytes()
    }

    fn log(&self) -> Option<Vec<LogLine>> {
        self.0.log()
    }
}

fn draw_hostile(seed: u64) -> RunPlan {
    let beset = |profile| Profile {
        hostile_clients: 4,
        origin_hostile: [0, 60, 200][seed as usize % 3],
        ..profile
    };
    RunPlan::draw_with(seed, Scale::default(), beset)
}

/// The data plane with limits everywhere, and a balancer with a fault.
struct Faulty(Fault);

impl Device for Faulty {
    fn rules(&self) -> Rules {
        Weir.rules()
    }

    fn start(&self, site: DeviceSite) -> Box<dyn RunningDevice> {
        let mut random = Rng::with_seed(site.seed ^ 0xc0f1_6000_0000_0000);
        let mut config = weir::configuration(&site, &mut random);
        for endpoint in &mut config.pools[0].endpoints {
            endpoint.max_conn = Some(1);
        }
        let timeout = Some(Duration::from_mins(1));
        config.pools[0].queue = Some(Queue { timeout, ..Queue::default() });
        weir::launch_with(site, &config, (2, 100), self.0)
    }
}

/// The data plane without limits, which claims to have some.
struct Unlimited;

/// The running device, with the number of origins for which it claims limits.
struct RunningUnlimited(Box<dyn RunningDevice>, usize);

impl Device for Unlimited {
    fn rules(&self) -> Rules {
        Weir.rules()
    }

    fn start(&self, site: DeviceSite) -> Box<dyn RunningDevice> {
        let origins = site.endpoints.len();
        let mut random = Rng::with_seed(site.seed);
        let mut config = weir::configuration(&site, &mut random);
        config.pools[0].endpoints.iter_mut().for_each(|endpoint| endpoint.max_conn = None);
        Box::new(RunningUnlimited(weir::launch(site, &config, 2, 100), origins))
    }
}

impl RunningDevice for RunningUnlimited {
    fn settled(&self) -> Vec<String> {
        self.0.settled()
    }

    fn stop(&self) {
        self.0.stop();
    }

    fn tasks(&self) -> usize {
        self.0.tasks()
    }

    fn limits(&self) -> Limits {
        Limits { max_conn: vec![Some(1); self.1], bytes: None }
    }
}

fn draw(seed: u64) -> RunPlan {
    RunPlan::draw(seed, Scale::default())
}

/// Returns true if one of the first seeds breaks a law, in words that contain `expected`.
fn breaks_a_law(
    device: &dyn Device,
    seeds: u64,
    plan: impl Fn(u64) -> RunPlan,
    expected: &str,
) -> bool {
    (0..seeds).any(|seed| {
        let violations = run_seed(&plan(seed), Some(device)).violations;
        violations.iter().any(|violation| violation.contains(expected))
    })
}

#[test]
fn laws_hold_for_every_seed() {
    let reports = run_seeds(&seeds_wanted(200), REPLAY, Some(&Weir), &draw);
    if reports.len() >= 100 {
        let total: usize = reports.iter().map(|report| report.requests).sum();
        let relayed: usize = reports.iter().map(|report| report.relayed).sum();
        assert!(relayed * 2 > total, "only {relayed} of {total} requests were answered");
    }
}

#[test]
fn laws_hold_with_crowded_queues_for_every_seed() {
    let replay = "cargo test -p weir-simnet --test scenario everybody_waits";
    let reports = run_seeds(&seeds_wanted(200), replay, Some(&Crowded), &draw_crowd);
    if reports.len() >= 100 {
        let compared = weir::COMPARED.load(Ordering::Relaxed);
        assert!(compared > 1_000, "law 4 was checked on {compared} pairs only");
        let reloads = weir::RELOADS.load(Ordering::Relaxed);
        assert!(reloads > 300, "only {reloads} reloads");
        let [moved, waited] =
            [&weir::MOVED, &weir::WAITED].map(|count| count.load(Ordering::Relaxed));
        assert!(
            moved > 300 && waited > 100,
            "only {moved} connections moved, {waited} that waited"
        );
    }
}

#[test]
fn laws_hold_among_hostile_peers_for_every_seed() {
    let replay = "cargo test -p weir-simnet --test scenario hostile_peers";
    let reports = run_seeds(&seeds_wanted(100), replay, Some(&AmongHostilePeers), &draw_hostile);
    if let Some(report) = reports.iter().max_by_key(|report| report.peak_bytes) {
        eprintln!("seed {} held the most: {} bytes", report.seed, report.peak_bytes);
        assert!(report.peak_bytes > 0, "nothing was counted");
    }
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in seeds_wanted(20).into_iter().take(1_000) {
        let runs: Vec<(u64, usize)> = (0..2)
            .map(|_| run_seed(&draw(seed), Some(&Weir)))
            .map(|report| (report.hash, report.events))
            .collect();
        assert_eq!(runs[0], runs[1], "seed {seed}");
    }
}

/// The checkers work through the proxy: a defect behind it is found at its clients, a defect in
/// front of it at its origins.
#[test]
fn canaries_are_found_through_the_proxy() {
    for (tamper, expected) in [
        (Tamper::FlipResponseByte, "law 8: response body"),
        (Tamper::FlipRequestByte, "law 8: request body"),
        (Tamper::ShortenResponse, "as if it were whole"),
        (Tamper::SwallowResponses, "no response and no cause"),
        (Tamper::RepeatRequest, "law 7: POST"),
    ] {
        let tampered =
            |seed| RunPlan::draw_with(seed, Scale::default(), |_| Profile::tampered(tamper));
        let found = breaks_a_law(&Weir, 10, tampered, expected);
        assert!(found, "{tamper:?} was not found");
    }
}

/// The checkers of the queue detect a balancer that forgets waiting requests, and limits that do
/// not hold.
#[test]
fn canaries_of_the_queue_are_found() {
    let calm = |seed| RunPlan::draw_with(seed, Scale::default(), |_| Profile::default());
    let finds = |device: &dyn Device, expected| breaks_a_law(device, 20, calm, expected);
    assert!(finds(&Faulty(Fault::ForgetsPoolQueue), "law 2"), "a forgotten queue is not found");
    assert!(finds(&Unlimited, "law 3"), "a limit that does not hold is not found");
    assert!(!finds(&Faulty(Fault::None), "law"), "without the fault no law is broken");
}
