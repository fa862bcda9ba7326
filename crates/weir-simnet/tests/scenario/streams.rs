//! HTTP/2 on both sides of the data plane: most clients and servers of a run speak it, the others
//! HTTP/1.1, so that all four pairs of versions occur. The laws are those of HTTP/1.1. Traces of a
//! seed differ in lengths: a compressed date or random id has another length in each run.

use std::sync::atomic::Ordering;
use std::time::Duration;

use fastrand::Rng;
use weir_balance::Fault;
use weir_config::Config;
use weir_config::model::{Http2Mode, Queue, UpstreamHttp};
use weir_simnet::{
    CarriedProtocol, Device, DeviceSite, Profile, Rules, RunPlan, RunningDevice, Scale, Tamper,
    run_seeds, seeds_wanted,
};

use crate::{breaks_a_law, weir};

/// The data plane, configured by the seed.
struct Streams;

/// The same with limits at every origin, and more requests than they allow.
struct CrowdedStreams(Fault);

/// Changes a configuration to HTTP/2 at the listener and at the origins that speak it.
fn speak_http2(config: &mut Config, site: &DeviceSite, random: &mut Rng) {
    let listener = &mut config.listeners[0];
    listener.http2.mode = Http2Mode::On;
    listener.http2.streams = [2, 5, 128][random.usize(0..3)];
    listener.http2.window = [16_384, 16_384, 65_536][random.usize(0..3)];
    listener.max_connections = None;
    let pool = &mut config.pools[0];
    for (endpoint, http2) in pool.endpoints.iter_mut().zip(&site.http2) {
        endpoint.http = http2.then_some(UpstreamHttp::Http2);
    }
}

impl Device for Streams {
    fn rules(&self) -> Rules {
        // The windows of large bodies grow.
        Rules { half_close_leaves: true, held_bytes: 2 << 20, ..Rules::default() }
    }

    fn start(&self, site: DeviceSite) -> Box<dyn RunningDevice> {
        let mut random = Rng::with_seed(site.seed ^ 0xc0f1_6000_0000_0004);
        let workers = random.usize(1..=3);
        let mut config = weir::configuration(&site, &mut random);
        speak_http2(&mut config, &site, &mut random);
        weir::launch(site, &config, workers, 100)
    }
}

impl Device for CrowdedStreams {
    fn rules(&self) -> Rules {
        Streams.rules()
    }

    fn start(&self, site: DeviceSite) -> Box<dyn RunningDevice> {
        let mut random = Rng::with_seed(site.seed ^ 0xc0f1_6000_0000_0005);
        let workers = random.usize(1..=4);
        let mut config = weir::configuration(&site, &mut random);
        speak_http2(&mut config, &site, &mut random);
        for endpoint in &mut config.pools[0].endpoints {
            endpoint.max_conn = Some(random.u32(1..=3));
        }
        config.pools[0].queue = Some(Queue {
            timeout: Some(Duration::from_millis([300, 5_000, 60_000][random.usize(0..3)])),
            max: [4, 1_000, 1_000][random.usize(0..3)],
            ..Queue::default()
        });
        weir::launch_with(site, &config, (workers, 100), self.0)
    }
}

fn troubled(seed: u64) -> impl FnOnce(Profile) -> Profile {
    let (trouble, cancels) = ([0, 100, 400][seed as usize % 3], [0, 100][seed as usize / 3 % 2]);
    move |profile| {
        let calm = profile.is_calm();
        let chance = |chance| if calm { 0 } else { chance };
        Profile {
            protocol: CarriedProtocol::Http2,
            http2_trouble: chance(trouble),
            cancels: chance(cancels),
            malformed: 0,
            ..profile
        }
    }
}

fn draw(seed: u64) -> RunPlan {
    let scale = Scale { clients: 4, connections: 2, requests: 12, body: 120_000 };
    RunPlan::draw_with(seed, scale, troubled(seed))
}

fn draw_crowd(seed: u64) -> RunPlan {
    let scale = Scale { clients: 8, connections: 1, requests: 10, body: 3_000 };
    let change = troubled(seed);
    RunPlan::draw_with(seed, scale, |profile| Profile { origin_slow: 600, ..change(profile) })
}

#[test]
fn laws_hold_for_streams_of_http2_for_every_seed() {
    let replay = "cargo test -p weir-simnet --test scenario streams_of_http2";
    let reports = run_seeds(&seeds_wanted(60), replay, Some(&Streams), &draw);
    if reports.len() >= 60 {
        let total: usize = reports.iter().map(|report| report.requests).sum();
        let relayed: usize = reports.iter().map(|report| report.relayed).sum();
        assert!(relayed * 2 > total, "only {relayed} of {total} requests were answered");
    }
}

#[test]
fn laws_hold_for_crowds_of_streams_for_every_seed() {
    let replay = "cargo test -p weir-simnet --test scenario crowds_of_streams";
    let before = weir::RELOADS.load(Ordering::Relaxed);
    let device = CrowdedStreams(Fault::None);
    let reports = run_seeds(&seeds_wanted(60), replay, Some(&device), &draw_crowd);
    if reports.len() >= 60 {
        // A thousand of them in 600 runs.
        let reloads = weir::RELOADS.load(Ordering::Relaxed) - before;
        assert!(reloads * 6 > reports.len() * 10, "only {reloads} reloads");
    }
}

/// Without other faults, each defect of a peer or of the balancer breaks a law.
#[test]
fn canaries_are_found_among_streams() {
    let finds = |device: &dyn Device, profile: &Profile, expected: &str| {
        let scale = Scale { clients: 6, connections: 2, requests: 10, body: 30_000 };
        let plan = |seed| RunPlan::draw_with(seed, scale, |_| profile.clone());
        breaks_a_law(device, 10, plan, expected)
    };
    for (tamper, expected) in [
        (Tamper::FlipResponseByte, "law 8: response body"),
        (Tamper::FlipRequestByte, "law 8: request body"),
        (Tamper::ShortenResponse, "as if it were whole"),
        (Tamper::SwallowResponses, "no response and no cause"),
        (Tamper::RepeatRequest, "law 7: POST"),
        (Tamper::MiscountWindows, "DATA beyond a stream's window"),
        (Tamper::RefuseProcessed, "law 7: POST"),
    ] {
        let profile = Profile { protocol: CarriedProtocol::Http2, ..Profile::tampered(tamper) };
        assert!(finds(&Streams, &profile, expected), "{tamper:?} was not found");
    }
    let calm = Profile { protocol: CarriedProtocol::Http2, ..Profile::default() };
    let forgets = CrowdedStreams(Fault::ForgetsPoolQueue);
    assert!(finds(&forgets, &calm, "law 2"), "a forgotten queue is not found");
    assert!(finds(&Unlimited, &calm, "law 3"), "a limit that does not hold is not found");
    assert!(!finds(&CrowdedStreams(Fault::None), &calm, "law"), "no law is broken without a fault");
}

/// The data plane without limits, which claims to have some.
struct Unlimited;

impl Device for Unlimited {
    fn rules(&self) -> Rules {
        Streams.rules()
    }

    fn start(&self, site: DeviceSite) -> Box<dyn RunningDevice> {
        let origins = site.endpoints.len();
        let mut random = Rng::with_seed(site.seed);
        let mut config = weir::configuration(&site, &mut random);
        speak_http2(&mut config, &site, &mut random);
        config.pools[0].endpoints.iter_mut().for_each(|endpoint| endpoint.max_conn = None);
        Box::new(crate::RunningUnlimited(weir::launch(site, &config, 2, 100), origins))
    }
}
