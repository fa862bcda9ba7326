//! The tables of a report: figures by level, candidates beside the first one, every run, knees.

use std::fmt::Write;

use crate::bench::chart::escape;
use crate::bench::report::{FEW, samples_beyond};
use crate::bench::wrk_text::time_text;
use crate::experiment::{DIRECT, JudgedFigure, LoadLevel, RunOrder};
use crate::findings::{
    CandidateVerdict, LabRun, RunCredits, SoakFigure, SoakRow, SoakVerdict, VerdictCell,
    binding_constraint, knee, merged_times, predicted_end, regime_change, soak, typical, verdicts,
};

use super::results::LabResults;

/// The percentiles of the table by level.
const PERCENTILES: [f64; 5] = [50.0, 95.0, 99.0, 99.9, 99.99];

/// Requests that take longer are counted as late.
const LATE_NS: u64 = 100_000_000;

/// A table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportTable {
    /// Its title.
    pub title: String,
    /// A remark below the title.
    pub note: String,
    /// The names of its columns.
    pub head: Vec<String>,
    /// Its rows.
    pub rows: Vec<Vec<String>>,
}

impl ReportTable {
    fn new(title: &str, note: &str, head: &[&str]) -> Self {
        let head = head.iter().map(|cell| (*cell).to_owned()).collect();
        Self { title: title.to_owned(), note: note.to_owned(), head, rows: Vec::new() }
    }

    /// As HTML.
    pub fn html(&self) -> String {
        let cells = |cells: &[String], tag: &str| {
            let mut out = String::new();
            for cell in cells {
                let _ = write!(out, "<{tag}>{}</{tag}>", escape(cell));
            }
            out
        };
        let mut out = format!("<h3>{}</h3>\n", escape(&self.title));
        if !self.note.is_empty() {
            let _ = writeln!(out, "<p>{}</p>", escape(&self.note));
        }
        let _ = write!(out, "<div class=\"wide\"><table>\n<tr>{}</tr>\n", cells(&self.head, "th"));
        for row in &self.rows {
            let _ = writeln!(out, "<tr>{}</tr>", cells(row, "td"));
        }
        out + "</table></div>\n"
    }

    /// As Markdown.
    pub fn markdown(&self) -> String {
        let line = |cells: &[String]| {
            let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
            format!("| {} |\n", cells.join(" | "))
        };
        let rule: Vec<String> = self.head.iter().map(|_| "---".to_owned()).collect();
        let note = if self.note.is_empty() { String::new() } else { format!("{}\n\n", self.note) };
        let rows: String = self.rows.iter().map(|row| line(row)).collect();
        format!("\n## {}\n\n{note}{}{}{rows}", self.title, line(&self.head), line(&rule))
    }

    /// As text in columns.
    pub fn text(&self) -> String {
        let all = || std::iter::once(&self.head).chain(&self.rows);
        let width = |column: usize| {
            all()
                .filter_map(|row| row.get(column))
                .map(|cell| cell.chars().count())
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.head.len()).map(width).collect();
        let mut out = format!("{}\n", self.title);
        for row in all() {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(&widths) {
                let _ = write!(line, "  {cell:<width$}");
            }
            let _ = writeln!(out, "{}", line.trim_end());
        }
        out + "\n"
    }
}

/// Sentences as a list in HTML.
pub(super) fn html_list(sentences: &[String]) -> String {
    let mut out = String::from("<ul>\n");
    for sentence in sentences {
        let _ = writeln!(out, "<li>{}</li>", escape(sentence));
    }
    out + "</ul>\n"
}

/// The levels of a workload that were measured, ascending.
fn levels(results: LabResults<'_>, workload: &str) -> Vec<LoadLevel> {
    let mut found: Vec<LoadLevel> = Vec::new();
    for run in results
        .runs
        .iter()
        .filter(|run| run.workload == workload && run.level != LoadLevel::Saturation)
    {
        if !found.contains(&run.level) {
            found.push(run.level);
        }
    }
    found.sort_by(|one, other| one.number().total_cmp(&other.number()));
    found
}

fn runs_of<'a>(
    results: LabResults<'a>,
    workload: &str,
    name: &str,
    level: LoadLevel,
) -> Vec<&'a LabRun> {
    let is_own = |run: &&LabRun| {
        run.workload == workload
            && run.candidate == name
            && run.level == level
            && run.failure.is_none()
    };
    results.runs.iter().filter(is_own).collect()
}

fn names(results: LabResults<'_>) -> Vec<&str> {
    let mut found: Vec<&str> =
        results.experiment.candidates.iter().map(|one| one.role.name.as_str()).collect();
    found.push(DIRECT);
    found
}

/// Percentiles of all runs together, CPU, and the limit, by level and candidate.
pub(super) fn by_level(results: LabResults<'_>) -> Vec<ReportTable> {
    let mut found = Vec::new();
    for workload in &results.experiment.workloads {
        let title = format!("Response times: {}", workload.name);
        let mut note = "Percentiles are those of the merged requests of all runs; one with fewer than ten slower requests is left \
            out. The means of the runs stand beside it in the table of all runs."
            .to_owned();
        if workload.is_closed() {
            note += " Each connection waits for a response before it sends the next request: times run from the send, and the \
                requests that users would have sent meanwhile are missing (coordinated omission).";
        }
        let head = [
            "level",
            "candidate",
            "runs (valid)",
            "samples",
            "answered/s",
            "mean",
            "p50",
            "p95",
            "p99",
            "p99.9",
            "p99.99",
            "max",
            "failed",
            "over 100 ms",
            "CPU",
            "CPU/request",
            "memory",
            "limit",
        ];
        let mut table = ReportTable::new(&title, &note, &head);
        for level in levels(results, &workload.name) {
            for name in names(results) {
                let runs = runs_of(results, &workload.name, name, level);
                if !runs.is_empty() {
                    table.rows.push(level_row(level, name, &runs));
                }
            }
        }
        found.push(table);
    }
    found
}

fn level_row(level: LoadLevel, name: &str, runs: &[&LabRun]) -> Vec<String> {
    let times = merged_times(runs.iter().copied());
    let valid = runs.iter().filter(|run| run.is_valid()).count();
    let sum = |value: fn(&LabRun) -> f64| runs.iter().map(|run| value(run)).sum::<f64>();
    let mean_of = |value: fn(&LabRun) -> Option<f64>| {
        let values: Vec<f64> = runs.iter().filter_map(|run| value(run)).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    };
    let saturated = if runs.iter().any(|run| run.is_saturated()) { " (saturated)" } else { "" };
    let mut row = vec![
        level.to_string(),
        name.to_owned(),
        format!("{} ({valid})", runs.len()),
        times.len().to_string(),
        format!("{:.0}{saturated}", sum(|run| run.achieved) / runs.len() as f64),
        time_text(times.mean() / 1e3),
    ];
    for percent in PERCENTILES {
        let is_sure = samples_beyond(percent / 100.0, times.len()) >= FEW;
        row.push(if is_sure {
            time_text(times.value_at_percentile(percent) as f64 / 1e3)
        } else {
            "-".to_owned()
        });
    }
    let text = |value: Option<f64>, unit: &str, digits: usize| {
        value.map_or("-".to_owned(), |value| format!("{value:.digits$} {unit}"))
    };
    row.push(time_text(times.max() as f64 / 1e3));
    row.push(format!("{:.0}", sum(|run| run.faults as f64)));
    row.push((times.len() - times.count_between(0, LATE_NS)).to_string());
    row.push(text(mean_of(|run| Some(run.proxy?.share * 100.0)), "%", 0));
    row.push(text(mean_of(LabRun::cpu_per_request_us), "µs", 1));
    row.push(text(mean_of(|run| Some(run.proxy?.resident_bytes as f64 / 1_048_576.0)), "MB", 0));
    row.push(runs.last().map_or(String::new(), |run| binding_constraint(run).to_string()));
    row
}

/// Each candidate beside the first one, as multiples, like the published tables.
pub(super) fn beside_first(results: LabResults<'_>, cells: &[VerdictCell]) -> Vec<ReportTable> {
    let Some(first) = results.experiment.candidates.first() else { return Vec::new() };
    let base = &first.role.name;
    let mut found = Vec::new();
    for workload in &results.experiment.workloads {
        let title = format!("Beside {base}: {}", workload.name);
        let note = format!(
            "The typical (median) value of each candidate's runs, its multiple of that of {base} with the interval of 95 % \
            (Student's t over the rounds), and the verdict (1 % risk each). A star: it also holds when all figures of the \
            experiment are considered together (3 % risk)."
        );
        let head = [
            "level",
            "candidate",
            "figure",
            base,
            "candidate's",
            "multiple",
            "95 % interval",
            "verdict on the candidate",
        ];
        let mut table = ReportTable::new(&title, &note, &head);
        for cell in cells.iter().filter(|cell| cell.workload == workload.name) {
            let value = |name: &str| {
                let runs = runs_of(results, &workload.name, name, cell.level);
                typical(&runs, cell.figure)
                    .map_or("-".to_owned(), |value| figure_text(cell.figure, value))
            };
            let interval = cell.interval.map_or("-".to_owned(), |one| {
                format!("{} to {}", multiple(one.low), multiple(one.high))
            });
            table.rows.push(vec![
                cell.level.to_string(),
                cell.candidate.clone(),
                cell.figure.name(),
                value(base),
                value(&cell.candidate),
                cell.ratio.map_or("-".to_owned(), multiple),
                interval,
                verdict_text(cell),
            ]);
        }
        if !table.rows.is_empty() {
            found.push(table);
        }
    }
    found
}

fn figure_text(figure: JudgedFigure, value: f64) -> String {
    if figure == JudgedFigure::Cpu { format!("{value:.1} µs") } else { time_text(value) }
}

/// A multiple as the published tables write it.
fn multiple(ratio: f64) -> String {
    match ratio {
        ratio if ratio >= 100.0 => format!("{ratio:.0}x"),
        ratio if ratio >= 10.0 => format!("{ratio:.1}x"),
        ratio => format!("{ratio:.2}x"),
    }
}

pub(super) fn verdict_text(cell: &VerdictCell) -> String {
    let word = match cell.verdict {
        CandidateVerdict::Better => "better",
        CandidateVerdict::Worse => "worse",
        CandidateVerdict::CannotTell => "cannot tell",
    };
    let star = if cell.holds_together { " *" } else { "" };
    let reason = if cell.reason.is_empty() { String::new() } else { format!(" ({})", cell.reason) };
    format!("{word}{star}{reason}")
}

/// The knee of each candidate.
pub(super) fn knees(results: LabResults<'_>) -> Option<ReportTable> {
    let budget = results.experiment.budget?;
    let title = "Knees";
    let note = format!(
        "The highest measured rate whose p{} is at most {}, and the band that resampled repeats give. Runs that are not valid count \
        only at rates without a valid one.",
        crate::bench::report::percent_text(budget.percentile),
        time_text(budget.time_ns as f64 / 1e3)
    );
    let head = [
        "workload",
        "candidate",
        "knee",
        "95 % band",
        "first rate over the budget",
        "limit there",
        "",
    ];
    let mut table = ReportTable::new(title, &note, &head);
    for workload in &results.experiment.workloads {
        for name in names(results) {
            let is_own = |run: &&LabRun| run.workload == workload.name && run.candidate == name;
            let runs: Vec<&LabRun> = results.runs.iter().filter(is_own).collect();
            let Some(found) = knee(&runs, budget, results.experiment.seed) else { continue };
            let rate = |rate: f64| {
                if rate > 0.0 { format!("{rate:.0}/s") } else { "below all rates".to_owned() }
            };
            let at = found.over.unwrap_or(found.rate);
            let there = runs.iter().find(|run| run.level == LoadLevel::Rate(at));
            table.rows.push(vec![
                workload.name.clone(),
                name.to_owned(),
                if found.over.is_some() {
                    rate(found.rate)
                } else {
                    format!("at least {}", rate(found.rate))
                },
                format!("{} to {}", rate(found.low), rate(found.high)),
                found.over.map_or("none measured".to_owned(), rate),
                there.map_or(String::new(), |run| binding_constraint(run).to_string()),
                found.doubt.to_owned(),
            ]);
        }
    }
    (!table.rows.is_empty()).then_some(table)
}

/// The trends of long runs.
pub(super) fn soaks(results: LabResults<'_>) -> Option<ReportTable> {
    let note = "The trend of each figure after the first quarter of the run, with the interval of 95 % of its slope. `grows`: the whole \
        interval is above zero, and the change over the rest of the run is over the limit of the experiment.";
    let head = [
        "workload",
        "level",
        "candidate",
        "run",
        "role",
        "figure",
        "at first",
        "at last",
        "change per hour",
        "95 % interval",
        "verdict",
    ];
    let mut table = ReportTable::new("Long runs: leaks and drift", note, &head);
    for workload in &results.experiment.workloads {
        let Some(limits) = workload.soak else { continue };
        let is_own = |run: &&LabRun| run.workload == workload.name && run.failure.is_none();
        for run in results.runs.iter().filter(is_own) {
            for row in soak(run, limits) {
                let mut cells = vec![
                    workload.name.clone(),
                    run.level.to_string(),
                    run.candidate.clone(),
                    (run.repeat + 1).to_string(),
                    row.role.to_owned(),
                    row.figure.to_string(),
                ];
                cells.extend(trend_cells(&row));
                cells.push(soak_word(row.verdict).to_owned());
                table.rows.push(cells);
            }
        }
    }
    (!table.rows.is_empty()).then_some(table)
}

/// The first and last value of a trend, its change per hour, and the interval of that.
fn trend_cells(row: &SoakRow) -> [String; 4] {
    let Some(trend) = row.trend else { return ["-"; 4].map(str::to_owned) };
    let megabytes = |bytes: f64| format!("{:.2} MB", bytes / 1_048_576.0);
    let value = |value: f64| match row.figure {
        SoakFigure::Memory => megabytes(value),
        SoakFigure::Files | SoakFigure::Threads => format!("{value:.1}"),
        SoakFigure::Latency => time_text(value.exp()),
    };
    let change = |slope: f64| match row.figure {
        SoakFigure::Memory => megabytes(slope * 3600.0),
        SoakFigure::Files | SoakFigure::Threads => format!("{:.1}", slope * 3600.0),
        // A slope of logarithms: the change over the whole series, in percent.
        SoakFigure::Latency => format!("{:.1} % in all", (slope * trend.span_s).exp_m1() * 100.0),
    };
    let interval = format!("{} to {}", change(trend.interval.low), change(trend.interval.high));
    [value(trend.first), value(trend.last), change(trend.slope), interval]
}

pub(super) fn soak_word(verdict: SoakVerdict) -> &'static str {
    match verdict {
        SoakVerdict::Steady => "steady",
        SoakVerdict::Grows => "GROWS",
        SoakVerdict::CannotTell => "cannot tell",
    }
}

/// Consecutive runs with the mean and p95 of each, as the article of 2019 prints them.
pub(super) fn consecutive(results: LabResults<'_>) -> Vec<ReportTable> {
    if results.experiment.order != RunOrder::Consecutive {
        return Vec::new();
    }
    let mut found = Vec::new();
    for workload in &results.experiment.workloads {
        for level in levels(results, &workload.name) {
            for name in names(results).into_iter().filter(|name| *name != DIRECT) {
                let runs = runs_of(results, &workload.name, name, level);
                if runs.len() > 2 {
                    found.push(consecutive_of(
                        &format!("{name} at {level}: {}", workload.name),
                        &runs,
                    ));
                }
            }
        }
    }
    found
}

fn consecutive_of(name: &str, runs: &[&LabRun]) -> ReportTable {
    let means: Vec<f64> = runs.iter().map(|run| run.response.mean() / 1e3).collect();
    let change = regime_change(&means);
    let average =
        |values: &[f64]| time_text(values.iter().sum::<f64>() / values.len().max(1) as f64);
    let note = match change {
        Some(first) => {
            let (before, after) = means.split_at(first);
            format!(
                "The regime changes at run {}: before it the mean is {}, from it on {}. The average of all runs, {}, describes neither.",
                first + 1,
                average(before),
                average(after),
                average(&means)
            )
        }
        None => format!("No change of regime. The average of the means is {}.", average(&means)),
    };
    let credits: Vec<RunCredits> = runs.iter().filter_map(|run| RunCredits::of(run)).collect();
    let has_credits = credits.len() == runs.len();
    let note = if has_credits { note + &credits_sentence(&credits) } else { note };
    let mut head = vec!["run", "mean", "p95", "CPU", "steal", "valid", ""];
    if has_credits {
        head.extend(["credits left", "held", "they end in run"]);
    }
    let mut table = ReportTable::new(&format!("Consecutive runs of {name}"), &note, &head);
    for (number, run) in runs.iter().enumerate() {
        let mut cells = vec![
            (number + 1).to_string(),
            time_text(run.response.mean() / 1e3),
            run.percentile_us(95.0).map_or("-".to_owned(), time_text),
            run.proxy.map_or("-".to_owned(), |proxy| format!("{:.0} %", proxy.share * 100.0)),
            run.steal.map_or("-".to_owned(), |steal| format!("{:.1} %", steal * 100.0)),
            if run.is_valid() { "yes" } else { "no" }.to_owned(),
            if change == Some(number) { "the regime changes" } else { "" }.to_owned(),
        ];
        if let Some(so_far) = credits.get(..=number).filter(|_| has_credits) {
            cells.extend(credit_cells(so_far));
        }
        table.rows.push(cells);
    }
    table
}

/// The end of a machine's credits, and the first run whose account foretold it.
fn credits_sentence(credits: &[RunCredits]) -> String {
    let ended = credits.iter().position(|run| run.held_us > 0.0);
    let foretold = |run: usize| predicted_end(credits.get(..=run).unwrap_or_default());
    let words = match ended {
        None => return " The machine's credits did not end.".to_owned(),
        Some(0) => "were spent in the first run".to_owned(),
        Some(ended) => {
            let number = ended as u64 + 1;
            let first =
                (0..ended).find(|run| (*run..ended).all(|run| foretold(run) == Some(number)));
            match first {
                Some(first) => format!(
                    "ended in run {number}, as the accounts foretold from run {} on",
                    first + 1
                ),
                None => format!(
                    "ended in run {number}; after run 1 the accounts foretold run {}",
                    foretold(0).unwrap_or(0)
                ),
            }
        }
    };
    format!(" The machine's credits {words}.")
}

/// The credits after the last of these runs, the time for which the machine was held in it, and the
/// prediction then.
fn credit_cells(so_far: &[RunCredits]) -> Vec<String> {
    let Some(last) = so_far.last() else { return Vec::new() };
    let held = if last.held_us > 0.0 { time_text(last.held_us) } else { "-".to_owned() };
    let end = predicted_end(so_far).map_or("they last".to_owned(), |run| run.to_string());
    vec![time_text(last.after_us), held, end]
}

/// Every run, in the order of measurement.
pub(super) fn every_run(results: LabResults<'_>) -> ReportTable {
    let head = [
        "run",
        "workload",
        "level",
        "candidate",
        "repeat",
        "offered",
        "answered/s",
        "mean",
        "p50",
        "p99",
        "p99.9",
        "failed",
        "CPU/request",
        "others",
        "valid",
    ];
    let note = "Offered and answered rates of a run stand side by side. `others` is the share of the machine's CPU time that programs \
        outside of the experiment used. A run that is not valid is kept with the reason.";
    let mut table = ReportTable::new("Every run", note, &head);
    table.rows = results.runs.iter().map(run_row).collect();
    table
}

/// The row of a run.
fn run_row(run: &LabRun) -> Vec<String> {
    let at = |percent: f64| {
        let is_sure = samples_beyond(percent / 100.0, run.response.len()) >= FEW;
        if is_sure {
            run.percentile_us(percent).map_or("-".to_owned(), time_text)
        } else {
            "-".to_owned()
        }
    };
    let offered = if let LoadLevel::Rate(rate) = run.level {
        format!("{rate:.0}/s")
    } else {
        "closed loop".to_owned()
    };
    let mut reasons = run.outcomes.clone();
    if let Some(failure) = &run.failure {
        reasons.push(format!("not measured: {failure}"));
    }
    let valid = if run.is_valid() {
        "yes".to_owned()
    } else if run.disturbances.is_empty() {
        "NO".to_owned()
    } else {
        format!("NO: {}", run.disturbances.join("; "))
    };
    if !reasons.is_empty() {
        reasons.insert(0, valid.clone());
    }
    vec![
        run.number.to_string(),
        run.workload.clone(),
        run.level.to_string(),
        run.candidate.clone(),
        (run.repeat + 1).to_string(),
        offered,
        format!("{:.0}", run.achieved),
        if run.response.is_empty() { "-".to_owned() } else { time_text(run.response.mean() / 1e3) },
        at(50.0),
        at(99.0),
        at(99.9),
        run.faults.to_string(),
        run.cpu_per_request_us().map_or("-".to_owned(), |cpu| format!("{cpu:.1} µs")),
        run.others.map_or("-".to_owned(), |others| format!("{:.0} %", others * 100.0)),
        if reasons.is_empty() { valid } else { reasons.join("; ") },
    ]
}

/// The verdicts of the experiment.
pub(super) fn cells(results: LabResults<'_>) -> Vec<VerdictCell> {
    verdicts(results.experiment, results.runs)
}
