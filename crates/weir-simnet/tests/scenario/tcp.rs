//! Connections of bytes through the data plane: half-closes, resets, cuts, slow readers, and
//! servers that speak first.

use std::sync::atomic::Ordering;
use std::time::Duration;

use fastrand::Rng;
use weir_balance::Fault;
use weir_config::model::{Protocol, Queue};
use weir_simnet::{
    CarriedProtocol, Device, DeviceSite, Profile, Rules, RunPlan, RunningDevice, Scale, Tamper,
    run_seeds, seeds_wanted,
};

use crate::{breaks_a_law, weir};

/// The data plane with a `tcp` listener.
struct Bytes(Fault);

impl Device for Bytes {
    fn rules(&self) -> Rules {
        Rules::default()
    }

    fn start(&self, site: DeviceSite) -> Box<dyn RunningDevice> {
        let mut random = Rng::with_seed(site.seed ^ 0xc0f1_6000_0000_0006);
        let workers = random.usize(1..=3);
        let mut config = weir::configuration(&site, &mut random);
        config.listeners[0].protocol = Protocol::Tcp;
        config.listeners[0].upgrade = Vec::new();
        config.listeners[0].max_connections = None;
        let pool = &mut config.pools[0];
        pool.buffer_request = None;
        if random.bool() || self.0 != Fault::None {
            for endpoint in &mut pool.endpoints {
                endpoint.max_conn = Some(random.u32(1..=2));
            }
            let timeout = Some(Duration::from_millis([300, 5_000, 60_000][random.usize(0..3)]));
            pool.queue = Some(Queue { timeout, ..Queue::default() });
        }
        weir::launch_with(site, &config, (workers, 100), self.0)
    }
}

fn draw(seed: u64) -> RunPlan {
    let scale = Scale { clients: 10, connections: 4, ..Scale::default() };
    RunPlan::draw_with(seed, scale, |profile| Profile { protocol: CarriedProtocol::Tcp, ..profile })
}

#[test]
fn laws_hold_for_connections_of_bytes_for_every_seed() {
    let replay = "cargo test -p weir-simnet --test scenario connections_of_bytes";
    let before = weir::RELOADS.load(Ordering::Relaxed);
    let reports = run_seeds(&seeds_wanted(100), replay, Some(&Bytes(Fault::None)), &draw);
    if reports.len() >= 100 {
        let reloads = weir::RELOADS.load(Ordering::Relaxed) - before;
        assert!(reloads > 150, "only {reloads} reloads");
    }
}

/// The data plane without limits, which claims to have some.
struct Unlimited;

impl Device for Unlimited {
    fn rules(&self) -> Rules {
        Rules::default()
    }

    fn start(&self, site: DeviceSite) -> Box<dyn RunningDevice> {
        let origins = site.endpoints.len();
        let mut random = Rng::with_seed(site.seed);
        let mut config = weir::configuration(&site, &mut random);
        config.listeners[0].protocol = Protocol::Tcp;
        config.listeners[0].upgrade = Vec::new();
        config.pools[0].endpoints.iter_mut().for_each(|endpoint| endpoint.max_conn = None);
        Box::new(crate::RunningUnlimited(weir::launch(site, &config, 2, 100), origins))
    }
}

#[test]
fn canaries_are_found_among_connections_of_bytes() {
    let finds = |device: &dyn Device, tamper: Tamper, expected: &str| {
        let profile = Profile { protocol: CarriedProtocol::Tcp, ..Profile::tampered(tamper) };
        let scale = Scale { clients: 8, ..Scale::default() };
        let plan = |seed| RunPlan::draw_with(seed, scale, |_| profile.clone());
        breaks_a_law(device, 10, plan, expected)
    };
    let sound = Bytes(Fault::None);
    assert!(finds(&sound, Tamper::FlipRequestByte, "is wrong"), "a changed byte is not found");
    assert!(finds(&sound, Tamper::SwallowResponses, "law 8"), "lost bytes are not found");
    let forgets = Bytes(Fault::ForgetsPoolQueue);
    assert!(finds(&forgets, Tamper::Nothing, "law 2"), "a forgotten queue is not found");
    assert!(finds(&Unlimited, Tamper::Nothing, "law 3"), "a limit that does not hold is not found");
    assert!(!finds(&sound, Tamper::Nothing, "law"), "no law is broken without a fault");
}
