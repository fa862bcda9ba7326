//! The files for programs, and the command that runs the experiment again.

use std::fmt::Write;

use serde_json::json;

use crate::bench::spectrum::spectrum;
use crate::experiment::{DIRECT, LoadLevel};
use crate::findings::{CandidateVerdict, LabRun, merged_times};

use super::results::LabResults;
use super::{summary, tables};

/// The files by name.
pub(super) fn files(results: LabResults<'_>) -> Vec<(String, String)> {
    let mut found = vec![
        ("figures.csv".to_owned(), csv(results)),
        ("figures.json".to_owned(), format!("{:#}\n", figures(results))),
        ("rerun.sh".to_owned(), rerun(results)),
    ];
    found.extend(histograms(results));
    found
}

/// One line for each run.
fn csv(results: LabResults<'_>) -> String {
    let mut out = String::from(
        "run,workload,level,candidate,repeat,began,seconds,intended,answered,failed,mean_us,p50_us,p95_us,p99_us,p99.9_us,p99.99_us,max_us,\
        proxy_user_us,proxy_system_us,proxy_share,proxy_resident_bytes,proxy_switches,origin_share,client_share,others,steal,interrupts,\
        sent_bytes_per_s,valid,reasons\n",
    );
    for run in results.runs {
        let at = |percent: f64| {
            run.percentile_us(percent).map_or(String::new(), |us| format!("{us:.3}"))
        };
        let number =
            |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.6}"));
        let proxy =
            |value: fn(&crate::findings::RoleUsage) -> f64| number(run.proxy.as_ref().map(value));
        let reasons: Vec<&String> =
            run.disturbances.iter().chain(&run.outcomes).chain(&run.failure).collect();
        let reasons: Vec<String> =
            reasons.into_iter().map(|reason| reason.replace('"', "'")).collect();
        let mut cells = vec![
            run.number.to_string(),
            run.workload.clone(),
            run.level.word(),
            run.candidate.clone(),
            (run.repeat + 1).to_string(),
            run.began.clone(),
            format!("{:.3}", run.seconds),
            run.intended.to_string(),
            run.answered.to_string(),
            run.faults.to_string(),
            number((!run.response.is_empty()).then(|| run.response.mean() / 1e3)),
        ];
        cells.extend([50.0, 95.0, 99.0, 99.9, 99.99, 100.0].map(at));
        cells.extend([
            proxy(|one| one.user_us),
            proxy(|one| one.system_us),
            proxy(|one| one.share),
            proxy(|one| one.resident_bytes as f64),
            proxy(|one| one.switches as f64),
            number(run.origin.map(|one| one.share)),
            number(run.client.map(|one| one.share)),
            number(run.others),
            number(run.steal),
            number(run.interrupts),
            number(run.network),
            run.is_valid().to_string(),
            format!("\"{}\"", reasons.join("; ")),
        ]);
        let _ = writeln!(out, "{}", cells.join(","));
    }
    out
}

/// The record and all verdicts as JSON.
fn figures(results: LabResults<'_>) -> serde_json::Value {
    let verdict = |verdict: CandidateVerdict| match verdict {
        CandidateVerdict::Better => "better",
        CandidateVerdict::Worse => "worse",
        CandidateVerdict::CannotTell => "cannot tell",
    };
    let cells: Vec<_> = tables::cells(results)
        .iter()
        .map(|cell| {
            json!({
                "workload": cell.workload, "level": cell.level.word(), "candidate": cell.candidate, "figure": cell.figure.name(),
                "ratio": cell.ratio, "low": cell.interval.map(|one| one.low), "high": cell.interval.map(|one| one.high),
                "verdict": verdict(cell.verdict), "holds_together": cell.holds_together, "rounds": cell.rounds, "reason": cell.reason,
            })
        })
        .collect();
    let mut record = results.record.value.clone();
    record["seed"] = results.experiment.seed.into();
    record["title"] = results.experiment.title.clone().into();
    record["head"] = summary::head(results).into();
    record["findings"] = summary::findings(results).into();
    record["verdicts"] = cells.into();
    record
}

/// The merged histogram of each candidate at each level, for HdrHistogram's plotter.
fn histograms(results: LabResults<'_>) -> Vec<(String, String)> {
    let mut keys: Vec<(&str, &str, LoadLevel)> = Vec::new();
    for run in results.runs.iter().filter(|run| run.failure.is_none()) {
        let key = (run.workload.as_str(), run.candidate.as_str(), run.level);
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    let file = |(workload, candidate, level): (&str, &str, LoadLevel)| {
        let is_own = |run: &&LabRun| {
            run.workload == workload && run.candidate == candidate && run.level == level
        };
        let times = merged_times(results.runs.iter().filter(is_own));
        (format!("hgrm/{workload}-{candidate}-{}.hgrm", level.word()), spectrum(&times))
    };
    keys.into_iter().map(file).collect()
}

/// The script that runs the experiment again.
fn rerun(results: LabResults<'_>) -> String {
    let name = results.record.name().replace('\'', "'\\''");
    let quick = if results.experiment.is_quick { " --quick" } else { "" };
    format!(
        "#!/bin/sh\n# Runs this experiment again, with its own copy of the file and of all configurations; the results go to a new\n\
        # folder: rerun.sh FOLDER\nset -eu\nhere=\"$(cd \"$(dirname \"$0\")\" && pwd)\"\n\
        exec \"${{WEIR:-weir}}\" lab run \"$here\"/experiment/'{name}.lab'{quick} --out \"${{1:-$here-again}}\"\n"
    )
}

/// The small results that a repository keeps.
pub(super) fn markdown(results: LabResults<'_>) -> String {
    let experiment = results.experiment;
    let mut out = format!(
        "# {}\n\nWritten by `weir lab`; not edited by hand. The raw data of this run are not kept; the experiment runs again with \
        `weir lab run experiments/{}.lab{}`.\n\n{}\n\n",
        experiment.title,
        results.record.name(),
        if experiment.is_quick { " --quick" } else { "" },
        experiment.question
    );
    for sentence in summary::head(results) {
        let _ = writeln!(out, "- {sentence}");
    }
    let findings = summary::findings(results);
    if !findings.is_empty() {
        out += "\n## What can be said\n\n";
        for sentence in findings {
            let _ = writeln!(out, "- {sentence}");
        }
    }
    let cells = tables::cells(results);
    let mut all: Vec<tables::ReportTable> = tables::knees(results).into_iter().collect();
    all.extend(tables::soaks(results));
    all.extend(tables::consecutive(results));
    all.extend(tables::beside_first(results, &cells));
    all.extend(tables::by_level(results));
    for table in all {
        out += &table.markdown();
    }
    let invalid: Vec<&LabRun> =
        results.runs.iter().filter(|run| run.failure.is_none() && !run.is_valid()).collect();
    if !invalid.is_empty() {
        out += "\n## Runs that are not valid\n\n";
        for run in invalid {
            let name = if run.candidate == DIRECT { "without a proxy" } else { &run.candidate };
            let _ = writeln!(
                out,
                "- run {} ({name}, {}): {}",
                run.number,
                run.level,
                run.disturbances.join("; ")
            );
        }
    }
    out
}
