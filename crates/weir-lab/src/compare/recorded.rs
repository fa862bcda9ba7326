//! A run as recorded by `weir bench --json`.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::bench::blocks::MOST_BLOCKS;
use crate::bench::encoded::decode;

/// The parts of a recorded run that are compared.
#[derive(Clone, Debug)]
pub struct RecordedRun {
    /// The start of the measurement, as written: in one time zone, so that texts sort as times.
    pub(super) began: String,
    /// The URL, and what TLS negotiated.
    pub(super) target: String,
    /// Response times in nanoseconds.
    pub(super) response: Histogram<u64>,
    /// The same in consecutive blocks of the run.
    pub(super) blocks: Vec<Histogram<u64>>,
    /// Requests answered.
    pub(super) answered: f64,
    /// Duration in seconds.
    pub(super) seconds: f64,
    /// CPU time used, by program.
    pub(super) cpu: Vec<ProgramTime>,
    /// Requests to which that time belongs, those of the warm-up included.
    pub(super) requests: f64,
    /// The settings: the load, connections and threads.
    pub(super) settings: String,
    /// Requests that failed or were answered with a 4xx or 5xx.
    pub(super) faults: u64,
    /// Every reason why the run is not valid.
    pub(super) objections: Vec<String>,
}

impl RecordedRun {
    /// Makes one program of all that were watched, beside the generator, which is the last one.
    pub(super) fn join_programs(&mut self) {
        let Some(generator) = self.cpu.pop() else { return };
        let time_us = self.cpu.iter().map(|program| program.time_us).sum();
        self.cpu = vec![ProgramTime { name: "watched programs'".to_owned(), time_us }, generator];
    }
}

/// The CPU time of a program in a run.
#[derive(Clone, Debug)]
pub(super) struct ProgramTime {
    pub(super) name: String,
    /// `None` if the program had ended.
    pub(super) time_us: Option<f64>,
}

#[derive(Deserialize)]
struct WrittenRun {
    url: String,
    began: String,
    load: Map<String, Value>,
    threads: u64,
    connections: WrittenConnections,
    elapsed_us: f64,
    statuses: BTreeMap<String, u64>,
    requests: WrittenRequests,
    response: WrittenTimes,
    blocks: WrittenBlocks,
    tls: Option<WrittenTls>,
    generator_cpu: Option<WrittenCpu>,
    targets: Vec<WrittenTarget>,
    objections: Vec<String>,
}

#[derive(Deserialize)]
struct WrittenConnections {
    asked: u64,
}

#[derive(Deserialize)]
struct WrittenRequests {
    sent: u64,
    failed: u64,
    answered: u64,
    warm_up: u64,
}

#[derive(Deserialize)]
struct WrittenTimes {
    hdr: String,
}

#[derive(Deserialize)]
struct WrittenBlocks {
    response_hdr: Vec<String>,
}

#[derive(Deserialize)]
struct WrittenTls {
    version: String,
    suite: String,
}

#[derive(Deserialize)]
struct WrittenCpu {
    user_us: f64,
    system_us: f64,
}

#[derive(Deserialize)]
struct WrittenTarget {
    name: String,
    used: Option<WrittenCpu>,
}

impl RecordedRun {
    /// Reads the text of a `--json` file.
    ///
    /// # Errors
    /// One sentence about the mistake.
    pub fn read(text: &str) -> Result<Self, String> {
        let value =
            serde_json::from_str(text).map_err(|error| format!("it is no JSON: {error}"))?;
        Self::of(value)
    }

    /// The same from parsed JSON.
    ///
    /// # Errors
    /// One sentence about the mistake.
    pub fn of(value: Value) -> Result<Self, String> {
        let run: WrittenRun = serde_json::from_value(value)
            .map_err(|error| format!("it is no run of `weir bench --json`: {error}"))?;
        let settings = settings(&run);
        let unreadable = |error: String| format!("its response times cannot be read: {error}");
        if run.blocks.response_hdr.len() > MOST_BLOCKS {
            return Err(format!("it has more than {MOST_BLOCKS} blocks of response times"));
        }
        let blocks: Result<Vec<_>, String> =
            run.blocks.response_hdr.iter().map(|block| decode(block)).collect();
        let generator =
            ProgramTime { name: "generator".to_owned(), time_us: total(run.generator_cpu) };
        let targets = run
            .targets
            .into_iter()
            .map(|target| ProgramTime { name: target.name, time_us: total(target.used) });
        let tls =
            run.tls.map_or_else(String::new, |tls| format!(" ({}, {})", tls.version, tls.suite));
        let refused = ["4xx", "5xx"].iter().filter_map(|class| run.statuses.get(*class));
        let faults = refused.fold(run.requests.failed, |sum, count| sum.saturating_add(*count));
        Ok(Self {
            settings,
            faults,
            began: run.began,
            target: run.url + &tls,
            response: decode(&run.response.hdr).map_err(unreadable)?,
            blocks: blocks.map_err(unreadable)?,
            answered: run.requests.answered as f64,
            seconds: run.elapsed_us / 1e6,
            cpu: targets.chain([generator]).collect(),
            requests: (run.requests.sent + run.requests.warm_up) as f64,
            objections: run.objections,
        })
    }
}

/// The settings, without the seed, which differs from round to round.
fn settings(run: &WrittenRun) -> String {
    let load = run.load.iter().filter(|(name, _)| *name != "seed");
    let load = load.map(|(name, value)| match value.as_str() {
        Some(text) => format!("{name} {text}, "),
        None => format!("{name} {value}, "),
    });
    let load: String = load.collect();
    format!("{load}connections {}, threads {}", run.connections.asked, run.threads)
}

fn total(cpu: Option<WrittenCpu>) -> Option<f64> {
    cpu.map(|cpu| cpu.user_us + cpu.system_us)
}
