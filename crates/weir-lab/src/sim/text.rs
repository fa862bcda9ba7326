//! A comparison as tables for people. The figures are those of [`super::json`], rounded.

use std::fmt::Write;

use super::outcome::RequestEnd;
use super::plan::SimLoad;
use super::report::{ComparisonReport, Row, ScenarioReport};
use super::state::StateSharing;
use super::summary::Summary;
use super::time::SECOND;

const LEGEND: &str = "\
times are in ms, over the requests that were answered or timed out in the queue
samples        requests that a value rests on: this many took as long or longer
of max         throughput, as a share of the highest possible one with these servers and requests
near fastest   share of requests that took at most 1.5 times as long as the fastest
in queue       the longest wait in the balancer's queue
in all         the longest wait in the balancer's queue and at the server together
÷ ideal        the longest wait in all, divided by that of a single ideal queue for all servers
inversions     requests that were sent to a busy endpoint although an idle one was available
overlaps       requests that arrived at a server that was already working at its limit
out of order   requests that overtook a waiting request
";

/// The additional legend of tables with separate balancers.
const STATE_LEGEND: &str = "\
state          shared: one balancer for all workers; per-process: each worker has its own limits, queue and policy
most at one    the largest number of requests at one server at the same time
ahead          the largest number of requests that a server had beyond its share; an exact round robin is below 1
";

impl ComparisonReport {
    /// A pair of tables for each scenario, and a legend.
    pub fn to_text(&self) -> String {
        let mut text = format!("{} Seed {}.\n", self.title, self.seed);
        for scenario in &self.scenarios {
            text.push('\n');
            scenario.write(&mut text);
        }
        text.push('\n');
        text.push_str(LEGEND);
        if self.scenarios.iter().any(ScenarioReport::has_states) {
            text.push_str(STATE_LEGEND);
        }
        text
    }
}

impl ScenarioReport {
    fn write(&self, text: &mut String) {
        let requests = count(self.requests);
        let _ = write!(
            text,
            "{}, {}, {requests} requests: ",
            self.scenario.load, self.scenario.service
        );
        match self.bounds.ceiling {
            Some(ceiling) => {
                let aside = if self.bounds.backups { " without the backups" } else { "" };
                let _ = write!(text, "at most {}/s{aside}", rate(ceiling));
            }
            None => text.push_str("no bound on the throughput"),
        }
        let _ = writeln!(
            text,
            "; the longest wait in one ideal queue is {} ms",
            milliseconds(self.bounds.ideal_longest_wait)
        );
        if self.bounds.is_overloaded() {
            let _ = writeln!(
                text,
                "saturated: the load ({}/s) exceeds the capacity of the servers ({}/s), so waits keep growing",
                self.bounds.offered.map_or_else(String::new, rate),
                self.bounds.capacity.map_or_else(String::new, rate),
            );
        }
        text.push('\n');
        // The columns that name a candidate are left-aligned, the others right-aligned.
        let left = self.names().len();
        text.push_str(&align(&self.times(), left));
        text.push('\n');
        text.push_str(&align(&self.reasons(), left));
        for row in &self.rows {
            if let Some(ended) = row.summary.credits_ended {
                let _ = writeln!(
                    text,
                    "{}: the processor credits of a server end after {:.0} s; from then on it works at its baseline",
                    self.names_of(row).join(" ").trim_end_matches([' ', '-']),
                    ended as f64 / SECOND as f64
                );
            }
            if let Some(period) = row.summary.period {
                let _ = writeln!(
                    text,
                    "{}: response times follow a pattern with a period of {:.2} s (autocorrelation {:.2})",
                    self.names_of(row).join(" ").trim_end_matches([' ', '-']),
                    period.length as f64 / SECOND as f64,
                    period.correlation
                );
            }
        }
    }

    fn times(&self) -> Vec<Vec<String>> {
        let mut headings = self.names();
        headings.extend([
            "req/s",
            "of max",
            "mean",
            "p25",
            "p50",
            "p75",
            "p95",
            "p99",
            "p99.9",
            "max",
            "near fastest",
        ]);
        let names = self.names().len();
        let mut lines = vec![words(&headings)];
        // One line for all rows in which every request counts; other rows have their own.
        let whole = |row: &&Row| row.summary.samples == self.requests;
        if let Some(row) = self.rows.iter().find(whole) {
            lines.push(samples(&row.summary, names));
        }
        for row in &self.rows {
            let summary = &row.summary;
            let mut line = self.names_of(row);
            line.push(rate(summary.throughput));
            line.push(
                self.bounds.ceiling.map_or_else(dash, |most| percent(summary.throughput / most)),
            );
            line.push(milliseconds(summary.mean as u64));
            line.extend(summary.quantiles.iter().map(|quantile| milliseconds(quantile.value)));
            line.resize_with(headings.len() - 1, dash);
            line.push(percent(summary.near_fastest));
            lines.push(line);
            if !whole(&row) {
                lines.push(samples(summary, names));
            }
        }
        lines
    }

    fn reasons(&self) -> Vec<Vec<String>> {
        let mut headings = self.names();
        headings.extend([
            "in queue",
            "in all",
            "÷ ideal",
            "inversions",
            "overlaps",
            "out of order",
        ]);
        if self.has_states() {
            headings.extend(["most at one", "ahead"]);
        }
        headings.push("failed");
        let line = |row: &Row| {
            let summary = &row.summary;
            let mut line = self.names_of(row);
            line.extend([
                milliseconds(summary.longest_queue_wait),
                milliseconds(summary.longest_wait),
                to_ideal(summary),
                count(summary.inversions),
                count(summary.overlaps),
                summary.order_violations.map_or_else(dash, count),
            ]);
            if self.has_states() {
                let most = summary.most.iter().max().copied().unwrap_or(0);
                line.extend([count(u64::from(most)), format!("{:.1}", summary.most_ahead)]);
            }
            line.push(not_answered(summary));
            line
        };
        let mut lines = vec![words(&headings)];
        lines.extend(self.rows.iter().map(line));
        lines
    }

    /// Returns true if workers have separate balancers in any row.
    fn has_states(&self) -> bool {
        self.rows.iter().any(|row| row.candidate.state == StateSharing::PerProcess)
    }

    /// The headings of the columns that name a candidate.
    fn names(&self) -> Vec<&'static str> {
        let mut names = vec!["policy", "max_conn", "queue"];
        names.extend(self.has_states().then_some("state"));
        names
    }

    fn names_of(&self, row: &Row) -> Vec<String> {
        let mut names = names(row);
        names.extend(self.has_states().then(|| row.candidate.state.to_string()));
        names
    }
}

fn words(headings: &[&str]) -> Vec<String> {
    headings.iter().map(|heading| (*heading).to_owned()).collect()
}

fn names(row: &Row) -> Vec<String> {
    let candidate = &row.candidate;
    // Without a limit no request waits in the balancer.
    let queue = if candidate.may_wait() { candidate.queue.to_string() } else { dash() };
    let limit = if candidate.max_conn.is_none() { dash() } else { candidate.max_conn.to_string() };
    vec![candidate.policy.to_string(), limit, queue]
}

/// The line of sample numbers, below the columns of names and two of rates.
fn samples(summary: &Summary, names: usize) -> Vec<String> {
    let mut line = vec![String::new(); names + 2];
    "  samples".clone_into(&mut line[0]);
    line.push(count(summary.samples));
    line.extend(summary.quantiles.iter().map(|quantile| count(quantile.samples)));
    line
}

/// The ratio to the ideal wait. It is left out if requests were refused without waiting, since the
/// others then waited less.
fn to_ideal(summary: &Summary) -> String {
    let all_waited = summary.samples == summary.requests;
    summary.wait_to_ideal.filter(|_| all_waited).map_or_else(dash, |times| format!("{times:.2}"))
}

fn not_answered(summary: &Summary) -> String {
    let words = [
        (RequestEnd::TimedOut, "timed out in the queue"),
        (RequestEnd::Forgotten, "never served"),
        (RequestEnd::QueueFull, "queue full"),
        (RequestEnd::Full, "refused"),
        (RequestEnd::Unavailable, "no endpoint"),
        (RequestEnd::Unreachable, "not connected"),
        (RequestEnd::Reset, "connection reset"),
    ];
    let parts: Vec<String> = words
        .iter()
        .filter(|(end, _)| summary.count(*end) > 0)
        .map(|(end, word)| format!("{} {word}", count(summary.count(*end))))
        .collect();
    if parts.is_empty() { "0".to_owned() } else { parts.join(", ") }
}

/// Aligns columns with two spaces between them; the first `left` ones to the left, the others to
/// the right.
fn align(lines: &[Vec<String>], left: usize) -> String {
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let cell =
        |line: &Vec<String>, column: usize| line.get(column).map_or(0, |cell| cell.chars().count());
    let widths: Vec<usize> = (0..columns)
        .map(|column| lines.iter().map(|line| cell(line, column)).max().unwrap_or(0))
        .collect();
    let line = |line: &Vec<String>| {
        let cells = line.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| {
            if column < left { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        format!("{}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
    };
    lines.iter().map(line).collect()
}

fn dash() -> String {
    "-".to_owned()
}

/// A number with thousands separators.
pub(super) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Milliseconds with three significant digits, or all digits of a longer whole number.
fn milliseconds(nanoseconds: u64) -> String {
    match nanoseconds {
        0 => "0".to_owned(),
        1..9_995_000 => format!("{:.2}", nanoseconds as f64 / 1e6),
        9_995_000..99_950_000 => format!("{:.1}", nanoseconds as f64 / 1e6),
        _ => count((nanoseconds + 500_000) / 1_000_000),
    }
}

fn rate(per_second: f64) -> String {
    if per_second < 1_000.0 { format!("{per_second:.1}") } else { count(per_second.round() as u64) }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

impl SimLoad {
    /// A word for files: `closed:10`, `poisson:100`.
    pub(super) fn word(&self) -> String {
        match self {
            Self::Closed(clients) => format!("closed:{clients}"),
            Self::Constant(rate) => format!("constant:{rate}"),
            Self::Poisson(rate) => format!("poisson:{rate}"),
            Self::Trace(factor) => format!("trace:{factor}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_exact_enough() {
        let check = |nanoseconds, text: &str| assert_eq!(milliseconds(nanoseconds), text);
        check(0, "0");
        check(1_234_567, "1.23");
        check(9_994_999, "9.99");
        check(9_996_000, "10.0");
        check(99_949_999, "99.9");
        check(99_951_000, "100");
        check(47_000_400_000, "47,000");
        assert_eq!((count(999), count(1_000_000)), ("999".to_owned(), "1,000,000".to_owned()));
        assert_eq!((rate(150.04), rate(12_345.6)), ("150.0".to_owned(), "12,346".to_owned()));
    }

    #[test]
    fn columns_stand_under_their_headings() {
        let line = |cells: &[&str]| cells.iter().map(|cell| (*cell).to_owned()).collect::<Vec<_>>();
        let table = align(&[line(&["a", "b", "c", "÷ n"]), line(&["long", "", "x", "1,000"])], 3);
        assert_eq!(table, "a     b  c    ÷ n\nlong     x  1,000\n");
    }
}
