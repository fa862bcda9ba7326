//! Two bundles side by side. They were made at different times and perhaps on different machines,
//! so there is no verdict.

use crate::bench::wrk_text::time_text;
use crate::experiment::{JudgedFigure, LoadLevel};
use crate::findings::{LabRun, typical};
use crate::lab::MachineFacts;

use super::results::LabResults;
use super::tables::{ReportTable, html_list};

/// The comparison as text, and as a page.
pub fn compare(names: [&str; 2], results: [LabResults<'_>; 2]) -> (String, String) {
    let mut lines = vec![
        "The bundles were made at different times: what changed between them on the machine is part of every difference, and there \
        is no verdict. Candidates of one bundle can be compared."
            .to_owned(),
    ];
    for (name, results) in names.iter().zip(&results) {
        let record = &results.record.value;
        let quick = if results.experiment.is_quick { ", quick form" } else { "" };
        lines.push(format!(
            "{name}: {}{quick}; {}; {}",
            results.experiment.title,
            MachineFacts::line(&record["machine"]),
            record["began"].as_str().unwrap_or("?")
        ));
    }
    if results[0].record.value["machine"] != results[1].record.value["machine"] {
        lines.push("The machines differ: compare shapes, not figures.".to_owned());
    }
    let table = table(names, results);
    if table.rows.is_empty() {
        lines.push("They have no workload, level and candidate in common.".to_owned());
    }
    let text = format!("{}\n\n{}", lines.join("\n"), table.text());
    let items = html_list(&lines);
    let page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width\">\n\
        <meta name=\"color-scheme\" content=\"light dark\">\n<title>Two experiments</title>\n<style>body {{ font-family: sans-serif; \
        margin: 1em }} td, th {{ text-align: left; padding: 0.2em 0.7em }}</style>\n{items}\n{}</html>\n",
        table.html()
    );
    (text, page)
}

fn table(names: [&str; 2], [one, other]: [LabResults<'_>; 2]) -> ReportTable {
    let head = ["workload", "level", "candidate", "figure", names[0], names[1], "multiple"];
    // A quotient of figures of two machines says nothing about the programs.
    let is_same_machine = one.record.value["machine"] == other.record.value["machine"];
    let mut table = ReportTable {
        title: "Typical values".to_owned(),
        note: String::new(),
        head: head.map(str::to_owned).to_vec(),
        rows: Vec::new(),
    };
    let mut keys: Vec<(&str, LoadLevel, &str)> = Vec::new();
    for run in
        one.runs.iter().filter(|run| run.failure.is_none() && run.level != LoadLevel::Saturation)
    {
        let key = (run.workload.as_str(), run.level, run.candidate.as_str());
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    for (workload, level, candidate) in keys {
        let of = |results: LabResults<'_>, figure: JudgedFigure| {
            let is_own = |run: &&LabRun| {
                run.workload == workload && run.level == level && run.candidate == candidate
            };
            let runs: Vec<&LabRun> = results.runs.iter().filter(is_own).collect();
            typical(&runs, figure)
        };
        for figure in
            [JudgedFigure::Percentile(50.0), JudgedFigure::Percentile(99.0), JudgedFigure::Cpu]
        {
            let (Some(left), Some(right)) = (of(one, figure), of(other, figure)) else { continue };
            let text = |value: f64| {
                if figure == JudgedFigure::Cpu {
                    format!("{value:.1} µs")
                } else {
                    time_text(value)
                }
            };
            table.rows.push(vec![
                workload.to_owned(),
                level.to_string(),
                candidate.to_owned(),
                figure.name(),
                text(left),
                text(right),
                if is_same_machine { format!("{:.2}x", right / left) } else { "-".to_owned() },
            ]);
        }
    }
    table
}
