//! Weir's own summary of a run, and whether it may be believed.

use std::fmt::Write;

use hdrhistogram::Histogram;

use super::load::Pace;
use super::machine::{Cpu, Usage};
use super::record::Failure;
use super::run::Outcome;
use super::schedule::Arrival;
use super::wrk_text::{binary_text, deviation_us, mean_us, time_text};

/// Everything that a report is made of.
#[derive(Clone, Debug)]
pub struct Figures<'a> {
    /// What came of the run.
    pub outcome: &'a Outcome,
    /// How it was paced.
    pub pace: Pace,
    /// What the machine used meanwhile.
    pub usage: &'a Usage,
    /// Threads of the generator.
    pub threads: usize,
    /// Connections that it was to have.
    pub connections: usize,
    /// Percentiles that somebody rests a decision on, as shares from 0 to 1.
    pub asked: Vec<f64>,
}

/// Percentiles of the summary.
pub(super) const PERCENTILES: [f64; 8] = [50.0, 75.0, 90.0, 99.0, 99.9, 99.99, 99.999, 99.9999];
/// Requests of a page, for the share of pages that have a slow one.
const PAGES: [u32; 3] = [1, 10, 100];
/// Fewer samples beyond a percentile make it a matter of luck.
const FEW: f64 = 10.0;
/// A run whose offered and achieved rates differ by more is saturated.
const SATURATED: f64 = 0.01;
/// Lateness that matters to nobody, in nanoseconds.
const HARMLESS_LATENESS_NS: u64 = 200_000;
/// Lateness must be below this share of what is measured.
const LATENESS_SHARE: f64 = 0.1;
/// A generator that uses more of its threads' cores is no longer sure to be in time.
const BUSY: f64 = 0.9;
/// More stolen time than this is said.
const STEAL: f64 = 0.01;

impl Figures<'_> {
    /// Requests per second that the schedule wanted; of a closed loop, what it made.
    pub fn offered(&self) -> f64 {
        match self.pace {
            Pace::Open { schedule, .. } => schedule.rate,
            Pace::Closed { .. } => self.achieved(),
        }
    }

    /// Requests answered, over the time of the run.
    pub fn achieved(&self) -> f64 {
        self.outcome.record.answered as f64 / self.seconds()
    }

    /// The part of the intended requests that was answered.
    pub fn achieved_share(&self) -> f64 {
        self.outcome.record.answered as f64 / self.outcome.intended.max(1) as f64
    }

    /// Length of the run.
    pub fn seconds(&self) -> f64 {
        (self.outcome.elapsed_ns as f64 / 1e9).max(1e-9)
    }

    /// The share of its threads' cores that the generator used.
    pub fn own_load(&self) -> Option<f64> {
        let cores = self.threads.max(1) as f64;
        Some(self.usage.own?.total_us() / self.usage.wall_us.max(1.0) / cores)
    }

    /// Everything that speaks against the figures; empty for a run that may be believed.
    pub fn objections(&self) -> Vec<String> {
        let record = &self.outcome.record;
        let mut found = Vec::new();
        if record.answered == 0 {
            found.push("no request was answered".to_owned());
        }
        let missing =
            1.0 - (record.answered + record.failed()) as f64 / self.outcome.intended.max(1) as f64;
        if matches!(self.pace, Pace::Open { .. })
            && !self.outcome.is_cut_short
            && missing > SATURATED
        {
            found.push(format!(
                "saturated: {:.1} % of the requests did not start in time to be measured ({} of {}), so the figures leave out the \
                slowest ones",
                missing * 100.0,
                self.outcome.unsent + self.outcome.unanswered,
                self.outcome.intended
            ));
        }
        if record.failed() > 0 {
            found.push(format!("{} requests failed", record.failed()));
        }
        if record.bad_status() > 0 {
            found.push(format!("{} answers were 400 or above", record.bad_status()));
        }
        self.object_to_the_generator(&mut found);
        for quantile in &self.asked {
            let behind = (1.0 - quantile) * record.response.len() as f64;
            if *quantile < 1.0 && behind < FEW {
                found.push(format!(
                    "p{} rests on {behind:.1} samples",
                    percent_text(quantile * 100.0)
                ));
            }
        }
        found
    }

    fn object_to_the_generator(&self, found: &mut Vec<String>) {
        let record = &self.outcome.record;
        let late_ns = record.lateness.value_at_quantile(0.999);
        let measured_ns = record.response.value_at_quantile(0.999) as f64;
        if late_ns > HARMLESS_LATENESS_NS && late_ns as f64 > measured_ns * LATENESS_SHARE {
            found.push(format!(
                "the generator was late: {} at p99.9, of {} measured",
                time_text(late_ns as f64 / 1e3),
                time_text(measured_ns / 1e3)
            ));
        }
        if let Some(load) = self.own_load()
            && load > BUSY
        {
            found.push(format!("the generator used {:.0} % of its threads' cores", load * 100.0));
        }
        if let Some(throttled) = self.usage.throttled
            && throttled.periods > 0
        {
            found.push(format!(
                "the generator was throttled in {} periods for {} in all",
                throttled.periods,
                time_text(throttled.time_us as f64)
            ));
        }
        if let Some(steal) = self.usage.steal
            && steal > STEAL
        {
            found.push(format!(
                "the host took {:.1} % of the machine's time (steal)",
                steal * 100.0
            ));
        }
        if self.outcome.is_cut_short {
            found.push(format!("the run was stopped after {:.2} s", self.seconds()));
        }
    }

    /// The summary, with the verdict last.
    pub fn text(&self) -> String {
        let mut out = String::from("\nWeir's summary\n");
        self.write_rates(&mut out);
        self.write_percentiles(&mut out);
        self.write_pages(&mut out);
        self.write_errors(&mut out);
        self.write_connections(&mut out);
        self.write_machine(&mut out);
        self.write_verdict(&mut out);
        out
    }

    fn write_rates(&self, out: &mut String) {
        let outcome = self.outcome;
        match self.pace {
            Pace::Open { schedule, .. } => {
                let arrivals = match schedule.arrival {
                    Arrival::Constant => "constant",
                    Arrival::Poisson => "Poisson",
                };
                line(
                    out,
                    "load",
                    &format!("open loop, {arrivals} arrivals, for {:.2} s", self.seconds()),
                );
                let rates =
                    format!("{:.2}/s offered, {:.2}/s achieved", self.offered(), self.achieved());
                line(out, "rate", &rates);
            }
            Pace::Closed { .. } => {
                line(
                    out,
                    "load",
                    &format!(
                        "closed loop, {} connections, {:.2} s",
                        self.connections,
                        self.seconds()
                    ),
                );
                line(
                    out,
                    "",
                    "each connection waits for its answer before it asks again, so what users would have asked",
                );
                line(
                    out,
                    "",
                    "meanwhile is left out (coordinated omission): for response times, use -R",
                );
                line(out, "rate", &format!("{:.2}/s achieved", self.achieved()));
            }
        }
        let record = &outcome.record;
        let mut requests = format!(
            "{} intended, {} sent, {} answered",
            outcome.intended, record.sent, record.answered
        );
        for (count, words) in [
            (record.failed(), "failed"),
            (outcome.unsent, "never sent"),
            (outcome.unanswered, "unanswered when it ended"),
            (record.delayed, "had to wait for a free connection"),
        ] {
            if count > 0 {
                let _ = write!(requests, ", {count} {words}");
            }
        }
        line(out, "requests", &requests);
        if record.warm > 0 {
            line(out, "warm-up", &format!("{} requests before, in no figure here", record.warm));
        }
        let rate = record.bytes as f64 / self.seconds();
        line(
            out,
            "bytes",
            &format!("{}B read, {}B/s", binary_text(record.bytes as f64), binary_text(rate)),
        );
    }

    fn write_percentiles(&self, out: &mut String) {
        let record = &self.outcome.record;
        let _ = writeln!(
            out,
            "\n  {:<10}{:>15}{:>15}{:>18}",
            "", "response time", "service time", "samples beyond"
        );
        let row = |out: &mut String, name: &str, response: f64, service: f64, behind: &str| {
            let _ = writeln!(
                out,
                "  {name:<10}{:>15}{:>15}{behind:>18}",
                time_text(response),
                time_text(service)
            );
        };
        let at = |histogram: &Histogram<u64>, percentile| {
            histogram.value_at_percentile(percentile) as f64 / 1e3
        };
        for percentile in PERCENTILES {
            let behind = (1.0 - percentile / 100.0) * record.response.len() as f64;
            let behind = if behind >= FEW {
                format!("{behind:.0}")
            } else {
                format!("{behind:.1} (too few)")
            };
            let name = format!("p{}", percent_text(percentile));
            row(
                out,
                &name,
                at(&record.response, percentile),
                at(&record.service, percentile),
                &behind,
            );
        }
        let max = |histogram: &Histogram<u64>| histogram.max() as f64 / 1e3;
        row(out, "max", max(&record.response), max(&record.service), "");
        row(out, "mean", mean_us(&record.response), mean_us(&record.service), "");
        row(out, "stdev", deviation_us(&record.response), deviation_us(&record.service), "");
    }

    /// A page of k requests is as slow as its slowest: what half of the pages, and all but 1 %, stay within.
    fn write_pages(&self, out: &mut String) {
        let response = &self.outcome.record.response;
        let _ = writeln!(
            out,
            "\n  {:<24}{:>12}{:>12}{:>12}",
            "slowest of a page of", "p50", "p90", "p99"
        );
        for requests in PAGES {
            let at = |share: f64| {
                let quantile = share.powf(1.0 / f64::from(requests));
                time_text(response.value_at_quantile(quantile) as f64 / 1e3)
            };
            let words = format!("{requests} request{}", if requests == 1 { "" } else { "s" });
            let _ = writeln!(out, "  {words:<24}{:>12}{:>12}{:>12}", at(0.5), at(0.9), at(0.99));
        }
        let p99 = response.value_at_quantile(0.99) as f64 / 1e3;
        for requests in PAGES.into_iter().skip(1) {
            let share = 100.0 * (1.0 - 0.99_f64.powf(f64::from(requests)));
            let _ = writeln!(
                out,
                "  {share:.0} % of pages of {requests} requests have one slower than p99 ({})",
                time_text(p99)
            );
        }
        out.push('\n');
    }

    fn write_errors(&self, out: &mut String) {
        let record = &self.outcome.record;
        let classes = record.status_classes.iter().enumerate().filter(|(_, count)| **count > 0);
        let statuses: Vec<String> =
            classes.map(|(class, count)| format!("{class}xx {count}")).collect();
        if !statuses.is_empty() {
            line(out, "status", &statuses.join(", "));
        }
        let failures: Vec<String> = Failure::ALL
            .into_iter()
            .filter(|failure| record.failures_of(*failure) > 0)
            .map(|failure| format!("{} {}", failure.name(), record.failures_of(failure)))
            .collect();
        let failures = if failures.is_empty() { "none".to_owned() } else { failures.join(", ") };
        line(out, "failures", &failures);
    }

    fn write_connections(&self, out: &mut String) {
        let outcome = self.outcome;
        let mut text = format!(
            "{} asked for, {} opened, {} open at the end",
            self.connections, outcome.opened, outcome.open
        );
        if outcome.lost > 0 {
            let _ = write!(text, ", {} closed by the target while idle", outcome.lost);
        }
        line(out, "connections", &text);
        let protocol = outcome.tls.as_ref().map_or_else(
            || "HTTP/1.1".to_owned(),
            |tls| format!("HTTP/1.1, {}, {}, {}", tls.version, tls.suite, tls.group),
        );
        line(out, "protocol", &protocol);
    }

    fn write_machine(&self, out: &mut String) {
        let record = &self.outcome.record;
        let late = |quantile| time_text(record.lateness.value_at_quantile(quantile) as f64 / 1e3);
        let lateness = format!(
            "late by {} at p50, {} at p99.9, {} at most",
            late(0.5),
            late(0.999),
            late(1.0)
        );
        line(out, "generator", &lateness);
        let each = |cpu: Cpu, requests: u64| {
            let requests = requests.max(1) as f64;
            let parts = [cpu.total_us(), cpu.user_us, cpu.system_us].map(|time| time / requests);
            format!(
                "{:.1} us CPU per request ({:.1} user, {:.1} system)",
                parts[0], parts[1], parts[2]
            )
        };
        let requests = record.sent + record.warm;
        if let (Some(cpu), Some(load)) = (self.usage.own, self.own_load()) {
            let text =
                format!("{}, {:.0} % of {} cores", each(cpu, requests), load * 100.0, self.threads);
            line(out, "", &text);
        }
        if let Some(cpu) = self.usage.target {
            line(out, "target", &each(cpu, requests));
        }
        let mut machine = Vec::new();
        if let Some(busy) = self.usage.busy {
            machine.push(format!("{:.0} % busy", busy * 100.0));
        }
        if let Some(steal) = self.usage.steal {
            machine.push(format!("{:.1} % stolen", steal * 100.0));
        }
        if let Some(throttled) = self.usage.throttled {
            machine.push(match throttled.periods {
                0 => "not throttled".to_owned(),
                periods => format!("throttled in {periods} periods"),
            });
        }
        if !machine.is_empty() {
            line(out, "machine", &machine.join(", "));
        }
    }

    fn write_verdict(&self, out: &mut String) {
        let objections = self.objections();
        if objections.is_empty() {
            line(out, "verdict", "valid");
            return;
        }
        for (number, objection) in objections.iter().enumerate() {
            let name = if number == 0 { "verdict" } else { "" };
            line(out, name, &format!("NOT VALID: {objection}"));
        }
    }
}

fn line(out: &mut String, name: &str, text: &str) {
    let _ = writeln!(out, "  {name:<12}{text}");
}

/// A percentile without zeros that say nothing: `99.9`, `50`.
pub(super) fn percent_text(percent: f64) -> String {
    let text = format!("{percent:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
