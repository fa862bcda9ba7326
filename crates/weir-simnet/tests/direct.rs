//! Tests of the simulation itself: clients against origins, directly and with a plain byte relay
//! between them. The canaries show that each checker can fail.

use std::net::SocketAddr;

use tokio::io::copy_bidirectional;
use tokio::task::spawn_local;
use weir_proxy::net::{Net, PeerAddress};
use weir_simnet::{
    Device, DeviceSite, Profile, Rules, RunPlan, RunReport, RunningDevice, Scale, SimNet, Tamper,
    run_seed, run_seeds, seeds_wanted,
};

/// Draws a plan with well-formed requests only: an origin alone does not refuse smuggling.
fn draw(seed: u64) -> RunPlan {
    let allow = |profile: Profile| Profile { malformed: 0, ..profile };
    RunPlan::draw_with(seed, Scale::default(), allow)
}

fn tampered(seed: u64, tamper: Tamper) -> RunPlan {
    RunPlan::draw_with(seed, Scale::default(), |_| Profile::tampered(tamper))
}

#[test]
fn clients_and_origins_agree_without_a_proxy() {
    let reports = run_seeds(
        &seeds_wanted(60),
        "cargo test -p weir-simnet --test direct without",
        None,
        &draw,
    );
    if reports.len() >= 60 {
        let total: usize = reports.iter().map(|report| report.requests).sum();
        let relayed: usize = reports.iter().map(|report| report.relayed).sum();
        assert!(relayed * 2 > total, "only {relayed} of {total} requests were answered");
    }
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in seeds_wanted(12).into_iter().take(12) {
        let hashes: Vec<(u64, usize)> = (0..2)
            .map(|_| run_seed(&draw(seed), Some(&Relay)))
            .map(|report| (report.hash, report.events))
            .collect();
        assert_eq!(hashes[0], hashes[1], "seed {seed}");
    }
    assert_ne!(run_seed(&draw(1), None).hash, run_seed(&draw(2), None).hash);
}

/// A device that passes bytes on unchanged, one upstream connection for each client connection.
struct Relay;

struct Nothing;

impl RunningDevice for Nothing {
    fn settled(&self) -> Vec<String> {
        Vec::new()
    }

    fn stop(&self) {}

    fn tasks(&self) -> usize {
        1
    }
}

impl Device for Relay {
    fn rules(&self) -> Rules {
        Rules { transparent: true, ..Rules::default() }
    }

    fn start(&self, site: DeviceSite) -> Box<dyn RunningDevice> {
        spawn_local(accept_all(site));
        Box::new(Nothing)
    }
}

async fn accept_all(site: DeviceSite) {
    loop {
        if let Ok((accepted, _)) = site.net.accept(&site.listener).await {
            spawn_local(relay(site.net.clone(), accepted, site.endpoints[0]));
        }
    }
}

async fn relay(net: SimNet, accepted: <SimNet as Net>::Accepted, endpoint: SocketAddr) {
    let mut near = net.adopt(accepted).unwrap();
    if let Ok(mut far) = net.connect(&PeerAddress::Socket(endpoint)).await {
        let _ = copy_bidirectional(&mut near, &mut far).await;
    }
}

#[test]
fn a_byte_relay_keeps_the_laws_that_it_can_keep() {
    let calm_connects = |seed| {
        RunPlan::draw_with(seed, Scale::default(), |mut profile| {
            profile.malformed = 0;
            profile.faults.upstream.hangs = 0;
            profile
        })
    };
    run_seeds(
        &seeds_wanted(40),
        "cargo test -p weir-simnet --test direct relay",
        Some(&Relay),
        &calm_connects,
    );
}

/// Checks that at least one of a few seeds is caught, with a violation that contains `expected`.
fn canary(tamper: Tamper, expected: &str) {
    let reports: Vec<RunReport> =
        (0..10).map(|seed| run_seed(&tampered(seed, tamper), Some(&Relay))).collect();
    let found = reports
        .iter()
        .flat_map(|report| &report.violations)
        .filter(|violation| violation.contains(expected));
    assert!(
        found.count() > 0,
        "{tamper:?} was not caught: {:?}",
        reports.iter().map(|report| &report.violations).collect::<Vec<_>>()
    );
}

#[test]
fn canary_no_defect_gives_no_violation() {
    for seed in 0..10 {
        let report = run_seed(&tampered(seed, Tamper::Nothing), Some(&Relay));
        assert_eq!(report.violations, Vec::<String>::new(), "seed {seed}");
        assert!(report.relayed * 2 > report.requests, "seed {seed}");
    }
}

#[test]
fn canary_a_changed_response_byte_is_found() {
    canary(Tamper::FlipResponseByte, "law 8: response body");
}

#[test]
fn canary_a_changed_request_byte_is_found() {
    canary(Tamper::FlipRequestByte, "law 8: request body");
}

#[test]
fn canary_a_swallowed_response_is_found() {
    canary(Tamper::SwallowResponses, "law 11: clients still wait");
}

#[test]
fn canary_a_truncated_body_that_is_declared_complete_is_found() {
    canary(Tamper::ShortenResponse, "as if it were whole");
}

#[test]
fn canary_a_repeated_post_is_found() {
    canary(Tamper::RepeatRequest, "law 7: POST");
}

/// A device that claims to refuse malformed requests, and lets them through.
struct Careless;

impl Device for Careless {
    fn rules(&self) -> Rules {
        Rules::default()
    }

    fn start(&self, site: DeviceSite) -> Box<dyn RunningDevice> {
        Relay.start(site)
    }
}

#[test]
fn canary_smuggled_bytes_are_found() {
    let hostile = |seed| {
        RunPlan::draw_with(seed, Scale::default(), |_| Profile {
            malformed: 1000,
            ..Profile::default()
        })
    };
    let caught = (0..10).map(|seed| run_seed(&hostile(seed), Some(&Careless))).filter(|report| {
        report
            .violations
            .iter()
            .any(|violation| violation.contains("law 8: bytes of a malformed request"))
    });
    assert!(caught.count() >= 8);
}
