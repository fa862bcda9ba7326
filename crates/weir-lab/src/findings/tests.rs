//! Runs made of synthetic data, for the tests of this folder.

use hdrhistogram::Histogram;
use serde_json::{Value, json};

use super::run::LabRun;
use crate::bench::encoded::encode;
use crate::bench::record::empty_histogram;
use crate::experiment::LoadLevel;
use crate::sim::draw::{Draws, RandomPurpose};

/// The parts of a synthetic run that tests choose.
pub(super) struct Synthetic {
    pub(super) candidate: &'static str,
    pub(super) level: LoadLevel,
    pub(super) repeat: u32,
    pub(super) response: Histogram<u64>,
    pub(super) cpu_us: f64,
}

impl Synthetic {
    pub(super) fn raw(&self) -> Value {
        let samples = self.response.len();
        json!({
            "workload": "main", "candidate": self.candidate, "level": self.level.word(), "repeat": self.repeat,
            "number": 1, "notes": [], "watched": ["proxy"], "cores": {"proxy": [0], "client": [1], "origin": [1]},
            "machine_cores": 2,
            "bench": {
                "began": "2026-01-01T00:00:00Z", "elapsed_us": 1e6, "achieved": samples, "threads": 1,
                "requests": {"intended": samples, "sent": samples, "answered": samples, "failed": 0, "warm_up": 0},
                "statuses": {"2xx": samples}, "response": {"hdr": encode(&self.response)},
                "targets": [{"used": {"user_us": self.cpu_us * samples as f64, "system_us": 0.0}}],
                "generator_cpu": {"user_us": 1e5, "system_us": 0.0},
                "machine": {"wall_us": 1e6, "busy": 0.1, "steal": 0.0, "interrupts": 0.0, "sent_bytes": 1000},
                "objections": [],
            },
        })
    }

    pub(super) fn run(&self) -> LabRun {
        LabRun::of(self.raw()).unwrap()
    }
}

/// A run whose requests all take this time.
pub(crate) fn even(candidate: &'static str, level: LoadLevel, repeat: u32, time_ns: u64) -> LabRun {
    let mut response = empty_histogram();
    response.record_n(time_ns, 20_000).unwrap();
    Synthetic { candidate, level, repeat, response, cpu_us: 20.0 }.run()
}

/// A run with a heavy tail, disturbed as a whole by a factor that differs from run to run, and now
/// and then by a pause.
pub(crate) fn noisy(candidate: &'static str, repeat: u32, seed: u64, factor: f64) -> LabRun {
    let draws = Draws::new(seed, RandomPurpose::Resample);
    let whole = (0.1 * normal(draws, 1)).exp() * factor;
    let pause_ns = if draws.unit(3) < 0.2 { 20e6 * draws.unit(4) } else { 0.0 };
    let mut response = empty_histogram();
    for number in 0..1500 {
        let time_ns = 4e5 * whole * (0.7 * normal(draws, 10 + 2 * number)).exp();
        let waits = if number < 30 { pause_ns } else { 0.0 };
        response.saturating_record((time_ns + waits) as u64);
    }
    let cpu_us = 20.0 * (0.03 * normal(draws, 5)).exp() * factor;
    Synthetic { candidate, level: LoadLevel::Rate(1000.0), repeat, response, cpu_us }.run()
}

/// A number with the standard normal distribution.
pub(crate) fn normal(draws: Draws, number: u64) -> f64 {
    let (one, other) = (draws.unit(number), draws.unit(number + 1_000_003));
    (-2.0 * one.ln()).sqrt() * (std::f64::consts::TAU * other).cos()
}
