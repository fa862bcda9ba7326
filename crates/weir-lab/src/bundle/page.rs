//! `report.html`: one page without scripts and without anything from elsewhere.

use std::fmt::Write;

use crate::bench::chart::escape;

use super::charts::ExperimentChart;
use super::results::LabResults;
use super::summary;
use super::tables::html_list;

const STYLE: &str = "\
:root { color-scheme: light dark } \
body { font-family: system-ui, sans-serif; line-height: 1.45; margin: 1.2em auto; padding: 0 1em; max-width: 62em; color: #1c1c1c; background: #fff } \
h1 { font-size: 1.5em; line-height: 1.2 } h2 { font-size: 1.2em; margin-top: 2em } h3 { font-size: 1.05em; margin-top: 1.6em } \
.wide { overflow-x: auto } .wide svg { display: block; width: 100%; min-width: 38em; height: auto } \
table { border-collapse: collapse; font-size: 0.88em; white-space: nowrap } \
th, td { text-align: left; padding: 0.25em 0.7em; border-bottom: 1px solid #dcdcdc } th { position: sticky; top: 0; background: #f4f4f4 } \
td:last-child { white-space: normal; min-width: 9em } \
figure { margin: 1.4em 0 } figcaption { font-size: 0.9em; color: #555 } \
pre { background: #f4f4f4; padding: 1em; overflow-x: auto; font-size: 0.85em } summary { cursor: pointer } \
@media (prefers-color-scheme: dark) { body { color: #dfe3e8; background: #15181c } pre, th { background: #20252b } \
th, td { border-color: #363c44 } figcaption { color: #a9b4c0 } a { color: #6cb4ff } }";

/// The page.
pub(super) fn page(results: LabResults<'_>, charts: &[ExperimentChart]) -> String {
    let experiment = results.experiment;
    let title = escape(&experiment.title);
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
        <title>{title}</title>\n<style>{STYLE}</style>\n<h1>{title}</h1>\n"
    );
    for text in [&experiment.question, &experiment.source] {
        if !text.is_empty() {
            let _ = writeln!(out, "<p>{}</p>", escape(text));
        }
    }
    list(&mut out, &summary::head(results));
    let findings = summary::findings(results);
    if !findings.is_empty() {
        out += "<h2>What can be said</h2>\n";
        list(&mut out, &findings);
    }
    out += "<h2>Charts</h2>\n";
    for chart in charts {
        let _ = writeln!(
            out,
            "<figure><div class=\"wide\">{}</div><figcaption>{}</figcaption></figure>",
            chart.svg,
            escape(&chart.caption)
        );
    }
    out += "<h2>Figures</h2>\n";
    for table in summary::all_tables(results) {
        out += &table.html();
    }
    write_setup(&mut out, results);
    out + "</html>\n"
}

fn list(out: &mut String, sentences: &[String]) {
    *out += &html_list(sentences);
}

/// The candidates as they were run: commands, adaptations, printed configurations.
fn write_setup(out: &mut String, results: LabResults<'_>) {
    *out += "<h2>Candidates as they were run</h2>\n";
    for candidate in &results.experiment.candidates {
        let _ = writeln!(out, "<h3>{}</h3>", escape(&candidate.role.name));
        let _ = writeln!(out, "<p><code>{}</code></p>", escape(&candidate.role.command.join(" ")));
        let mut notes = candidate.notes.clone();
        match candidate.instances {
            Some(1) => {}
            Some(count) => notes.push(format!("{count} processes, each on a core of its own")),
            None => notes.push("one process on each core of the proxy".to_owned()),
        }
        for config in &candidate.configs {
            for [from, to, reason] in &config.maps {
                let reason = if reason.is_empty() { String::new() } else { format!(" ({reason})") };
                notes.push(format!(
                    "in {}: `{}` is replaced by `{}`{reason}",
                    config.name,
                    from.trim(),
                    to.trim()
                ));
            }
        }
        list(out, &notes);
        for config in &candidate.configs {
            let _ = writeln!(
                out,
                "<details><summary>{} as printed</summary><pre>{}</pre></details>",
                escape(&config.name),
                escape(&config.text)
            );
        }
    }
    let command = results.runs.iter().rev().find_map(|run| run.raw["command"].as_str());
    if let Some(command) = command {
        let _ = writeln!(
            out,
            "<h3>The generator</h3>\n<p>The last run: <code>{}</code></p>",
            escape(command)
        );
    }
    *out += "<p>The folder of this report has the raw runs (<code>runs/</code>), histograms (<code>hgrm/</code>), \
        <code>figures.csv</code>, <code>figures.json</code>, the experiment, and <code>rerun.sh</code>, which runs it again.</p>\n";
}
