//! The outcome of an experiment in sentences, and the whole report as text.

use std::fmt::Write;

use serde_json::Value;

use crate::bench::report::{LATENESS_PERCENT, percent_text};
use crate::bench::wrk_text::time_text;
use crate::experiment::{ClientLink, Experiment, Workload};
use crate::findings::{CandidateVerdict, LabRun, SoakFigure, SoakVerdict, soak};
use crate::lab::MachineFacts;

use super::results::LabResults;
use super::tables;

/// The report as text: where it ran, what limits it, the tables.
pub fn summary(results: LabResults<'_>) -> String {
    let mut out = format!("{}\n{}\n\n", results.experiment.title, results.experiment.question);
    for sentence in head(results).into_iter().chain(findings(results)) {
        let _ = writeln!(out, "- {sentence}");
    }
    out.push('\n');
    for table in all_tables(results) {
        out += &table.text();
    }
    out
}

/// All tables in their order.
pub(super) fn all_tables(results: LabResults<'_>) -> Vec<tables::ReportTable> {
    let cells = tables::cells(results);
    let mut found: Vec<tables::ReportTable> = tables::knees(results).into_iter().collect();
    found.extend(tables::soaks(results));
    found.extend(tables::consecutive(results));
    found.extend(tables::beside_first(results, &cells));
    found.extend(tables::by_level(results));
    found.push(tables::every_run(results));
    found
}

/// The place and the way in which it ran, and the meaning of that for its figures.
pub(super) fn head(results: LabResults<'_>) -> Vec<String> {
    let record = &results.record.value;
    let list = |value: &serde_json::Value| -> Vec<String> {
        value
            .as_array()
            .into_iter()
            .flatten()
            .map(|one| one.as_str().map_or(one.to_string(), str::to_owned))
            .collect()
    };
    let cores = |role: &str| list(&record["cores"][role]).join(",");
    let mut found = Vec::new();
    if results.experiment.is_quick {
        found.push(
            "This is the quick form: shorter runs, fewer levels and repeats than the whole experiment. Take its figures as a first look."
                .to_owned(),
        );
    }
    found.push(format!(
        "Machine: {}. Began {}.",
        MachineFacts::line(&record["machine"]),
        record["began"].as_str().unwrap_or("?").split('.').next().unwrap_or_default()
    ));
    let shared = cores("client") == cores("origin");
    let together = cores("client") == cores("proxy");
    let words = match (together, shared) {
        (true, _) => {
            " All roles share them: the generator and the proxy take CPU time from each other."
        }
        (_, true) => {
            " Generator and origin share theirs: read the CPU time per request beside every latency."
        }
        _ => "",
    };
    found.push(format!(
        "Roles on one machine over the loopback interface: proxy on core {}, generator on core {}, origin on core {}.{words} \
        {}Compare figures within this report only.",
        cores("proxy"),
        cores("client"),
        cores("origin"),
        priority(record)
    ));
    found.extend(lateness_sentence(results.experiment));
    found.extend(results.experiment.workloads.iter().map(length_sentence));
    found.extend(results.experiment.link.as_ref().map(link_sentence));
    if let Some(rules) = results.experiment.credits {
        found.push(format!(
            "The proxy's machine has processor credits, made by a control group with a quota: it earns {:.0} % of a core, begins with \
            {} of core time, and is held to what it earns when nothing is left.",
            rules.baseline * 100.0,
            time_text(rules.start_us)
        ));
    }
    if let Some(versions) = record["versions"].as_object() {
        let each: Vec<String> = versions
            .iter()
            .map(|(name, version)| format!("{name}: {}", version.as_str().unwrap_or("?")))
            .collect();
        found.push(format!("Versions, as the programs print them: {}.", each.join("; ")));
    }
    found.extend(list(&record["missing"]));
    found.push(quiet_sentence(results.runs));
    found.extend(failures(results.runs));
    found
}

/// A sentence about the priority of the generator.
fn priority(record: &Value) -> &'static str {
    match record["generator_first"].as_bool() {
        Some(true) => {
            "The generator goes before all other programs of its core (real-time policy). "
        }
        _ => "",
    }
}

/// The percentile up to which the generator has to be in time, if the charts show higher ones.
fn lateness_sentence(experiment: &Experiment) -> Option<String> {
    let percent = experiment.lateness_percent();
    (percent < LATENESS_PERCENT).then(|| {
        format!(
            "A run is valid if the generator was in time up to p{}, the highest percentile that is judged here; those above it may \
            be those of the generator.",
            percent_text(percent)
        )
    })
}

/// The link between client and proxy.
fn link_sentence(link: &ClientLink) -> String {
    let us = |ns: u64| time_text(ns as f64 / 1e3);
    let mut parts = Vec::new();
    if link.delay_ns > 0 {
        let jitter = match link.jitter_ns {
            0 => String::new(),
            jitter => format!(" ± {}", us(jitter)),
        };
        parts.push(format!("a delay of {}{jitter}", us(link.delay_ns)));
    }
    if link.loss > 0.0 {
        parts.push(format!("a loss of {} % of the packets", link.loss * 100.0));
    }
    if let Some(bits) = link.rate_bits {
        parts.push(format!("a bandwidth of {} Mbit/s", bits / 1e6));
    }
    format!(
        "The link between client and proxy (in direct runs between client and origin) has in each direction {}. The kernel makes it \
        in a network namespace of the experiment. Proxy and origin are beside each other.",
        parts.join(", ")
    )
}

/// The length of a workload's runs, and of the warm-up that is in no figure.
fn length_sentence(workload: &Workload) -> String {
    let over = match workload.streams {
        None => String::new(),
        Some(streams) => {
            format!(" (HTTP/2, up to {streams} requests at once on each connection)")
        }
    };
    let name = format!("{}{over}", workload.name);
    if workload.is_closed() {
        return format!(
            "Runs of {name}: {} requests in a closed loop, without a warm-up; users who would have asked meanwhile are missing \
            (coordinated omission).",
            workload.requests
        );
    }
    let text = |time_ns: u64| time_text(time_ns as f64 / 1e3);
    let warmup = match workload.warmup_ns {
        0 => "without a warm-up".to_owned(),
        time_ns => format!(
            "after a warm-up of {} under the same load, which is in no figure",
            text(time_ns)
        ),
    };
    format!("Runs of {name}: {} {warmup}.", text(workload.duration_ns))
}

/// The quiet of the machine during the runs.
fn quiet_sentence(runs: &[LabRun]) -> String {
    let measured = || runs.iter().filter(|run| run.failure.is_none());
    let most = |value: fn(&LabRun) -> Option<f64>| {
        measured().filter_map(value).fold(0.0, f64::max) * 100.0
    };
    let valid = measured().filter(|run| run.is_valid()).count();
    format!(
        "{valid} of {} runs are valid. At most {:.0} % of the machine's CPU time went to programs outside of the experiment, and at \
        most {:.1} % was taken by the host (steal), in any run.",
        measured().count(),
        most(|run| run.others),
        most(|run| run.steal)
    )
}

/// The candidates that could not be measured.
fn failures(runs: &[LabRun]) -> Vec<String> {
    let failed = runs.iter().filter_map(|run| {
        Some(format!(
            "{} could not be measured ({}): {}",
            run.candidate,
            run.workload,
            run.failure.as_ref()?
        ))
    });
    failed.collect()
}

/// The findings, in sentences.
pub(super) fn findings(results: LabResults<'_>) -> Vec<String> {
    let cells = tables::cells(results);
    let first = results.experiment.candidates.first().map_or("", |one| one.role.name.as_str());
    let mut found = growths(results);
    for candidate in results.experiment.candidates.iter().skip(1) {
        let name = &candidate.role.name;
        let own: Vec<_> = cells.iter().filter(|cell| cell.candidate == *name).collect();
        if own.is_empty() {
            continue;
        }
        let certain = |verdict: CandidateVerdict| -> Vec<String> {
            let held = own.iter().filter(|cell| cell.holds_together && cell.verdict == verdict);
            held.map(|cell| {
                let ratio = cell.ratio.map_or(String::new(), |ratio| format!(" ({ratio:.2}x)"));
                format!("{} at {}{ratio}", cell.figure.name(), cell.level)
            })
            .collect()
        };
        let (better, worse) = (certain(CandidateVerdict::Better), certain(CandidateVerdict::Worse));
        if better.is_empty() && worse.is_empty() {
            found.push(format!("{name} beside {first}: cannot tell; no difference is certain with all figures considered together."));
        }
        if !better.is_empty() {
            found.push(format!("{name} is better than {first}: {}.", better.join(", ")));
        }
        if !worse.is_empty() {
            found.push(format!("{name} is worse than {first}: {}.", worse.join(", ")));
        }
    }
    found
}

/// The leaks and drifts of long runs.
fn growths(results: LabResults<'_>) -> Vec<String> {
    let mut found = Vec::new();
    for workload in &results.experiment.workloads {
        let Some(limits) = workload.soak else { continue };
        let is_own = |run: &&LabRun| run.workload == workload.name && run.failure.is_none();
        for run in results.runs.iter().filter(is_own) {
            for row in soak(run, limits).iter().filter(|row| row.verdict == SoakVerdict::Grows) {
                let place = if row.figure == SoakFigure::Latency {
                    format!("p99 with {} drifts", run.candidate)
                } else if row.role == "proxy" {
                    format!("{} of {} grow or leak", row.figure, run.candidate)
                } else {
                    format!("{} of the {} grow beside {}", row.figure, row.role, run.candidate)
                };
                let valid = if run.is_valid() { "" } else { " (the run is not valid)" };
                found.push(format!(
                    "{place} in run {} of {} at {}{valid}.",
                    run.repeat + 1,
                    workload.name,
                    run.level
                ));
            }
        }
    }
    found
}
