//! Weir's own summary of a run, as text. The figures are computed in `report.rs`.

use std::fmt::Write;

use hdrhistogram::Histogram;

use super::load::{SendPace, StartOrder};
use super::machine::{ProcessCpu, host_name};
use super::monitor::WatchedProcess;
use super::record::RequestFailure;
use super::report::{FEW, PERCENTILES, ReportInput, percent_text, samples_beyond};
use super::run::StreamCounts;
use super::schedule::ArrivalProcess;
use super::wrk_text::{binary_text, deviation_us, mean_us, time_text};

/// Page sizes in requests, unless the user gives any.
const PAGES: [u32; 3] = [1, 10, 100];
/// The kernel counts in ticks of 10 ms: less processor time than this is not exact to a tenth.
const COARSE_US: f64 = 100_000.0;

impl ReportInput<'_> {
    /// The summary, with the verdict last.
    pub fn text(&self) -> String {
        let mut out = String::from("\nWeir's summary\n");
        self.write_place(&mut out);
        self.write_rates(&mut out);
        self.write_percentiles(&mut out);
        self.write_wrk2(&mut out);
        self.write_pages(&mut out);
        self.write_errors(&mut out);
        self.write_connections(&mut out);
        self.write_machine(&mut out);
        self.write_verdict(&mut out);
        out
    }

    /// Writes the places of generator and target: a run on one machine is not comparable with one
    /// over a network.
    fn write_place(&self, out: &mut String) {
        let threads =
            format!("{} thread{}", self.threads, if self.threads == 1 { "" } else { "s" });
        let cores = match self.cores.as_slice() {
            [] => String::new(),
            cores => format!(" on cores {}", ranges(cores)),
        };
        line(out, "generator", &format!("{threads}{cores} of {}", host_name()));
        let Some(address) = self.address else { return };
        let names: Vec<String> = self
            .usage
            .targets
            .iter()
            .map(|WatchedProcess { pid, name }| format!("{name} (process {pid})"))
            .collect();
        let place = if names.is_empty() {
            String::new()
        } else {
            format!(", measured on this machine: {}", names.join(", "))
        };
        line(out, "target", &format!("{address}{place}"));
    }

    fn write_rates(&self, out: &mut String) {
        let outcome = self.outcome;
        match self.pace {
            SendPace::Open { schedule, .. } => {
                let arrivals = match schedule.arrival {
                    ArrivalProcess::Constant => "constant",
                    ArrivalProcess::Poisson => "Poisson",
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
            SendPace::Closed { .. } => {
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
                    "each connection waits for a response before it sends the next request, so requests that users",
                );
                line(
                    out,
                    "",
                    "would have sent meanwhile are missing (coordinated omission); for response times, use -R",
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
            (outcome.unanswered, "unanswered at the end"),
            (record.delayed, "delayed for lack of a free connection"),
        ] {
            if count > 0 {
                let _ = write!(requests, ", {count} {words}");
            }
        }
        line(out, "requests", &requests);
        if record.warm > 0 {
            line(
                out,
                "warm-up",
                &format!("{} requests before the measurement, not included", record.warm),
            );
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
            let behind = samples_beyond(percentile / 100.0, record.response.len());
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

    /// Writes what wrk2 makes of the same requests: after its own pacing, or beside Weir's.
    fn write_wrk2(&self, out: &mut String) {
        let record = &self.outcome.record;
        if matches!(self.pace, SendPace::Closed { .. }) {
            return;
        }
        let [kept, _] = record.kept_by_wrk2(self.outcome.elapsed_ns);
        let left_out = record.response.len() - kept.len();
        let calibration = time_text(record.calibrated.from_ns as f64 / 1e3);
        let omission = match left_out {
            0 => format!(
                "nothing is left out, since no response ended in a calibration of {calibration}"
            ),
            _ => {
                format!("the {left_out} responses of its calibration of {calibration} are left out")
            }
        };
        let omission = if self.outcome.elapsed_ns > record.calibrated.from_ns {
            omission
        } else {
            format!(
                "nothing is left out of a run that is shorter than its calibration of {calibration}"
            )
        };
        out.push('\n');
        if self.order == StartOrder::PerConnection {
            line(
                out,
                "wrk2's way",
                "each connection has a schedule of its own, and sends at most twice its rate once it is late",
            );
            line(
                out,
                "",
                "requests leave on whole milliseconds: up to 1 ms of each time is the generator's own",
            );
            line(
                out,
                "",
                &format!(
                    "in the first part of this report {omission}; the figures here are of all"
                ),
            );
            let forgotten = self.outcome.unsent + self.outcome.unanswered;
            if forgotten > 0 {
                line(
                    out,
                    "",
                    &format!("{forgotten} requests that were due are in neither, as with wrk2"),
                );
            }
            return;
        }
        let at = |percentile| time_text(kept.value_at_percentile(percentile) as f64 / 1e3);
        let text = format!(
            "p50 {}, p99 {}, p99.9 {}, max {}: {omission}",
            at(50.0),
            at(99.0),
            at(99.9),
            time_text(kept.max() as f64 / 1e3)
        );
        line(out, "as wrk2", &text);
    }

    /// Writes the slowest request of pages of k requests: the times that 50, 90 and 99 % of the
    /// pages do not exceed, and the share of pages that have a slow request.
    fn write_pages(&self, out: &mut String) {
        let response = &self.outcome.record.response;
        let pages: &[u32] = if self.pages.is_empty() { &PAGES } else { &self.pages };
        let _ = writeln!(
            out,
            "\n  {:<24}{:>12}{:>12}{:>12}",
            "slowest of a page of", "p50", "p90", "p99"
        );
        for requests in pages {
            let at = |share: f64| {
                let quantile = share.powf(1.0 / f64::from(*requests));
                time_text(response.value_at_quantile(quantile) as f64 / 1e3)
            };
            let words = requests_text(*requests);
            let _ = writeln!(out, "  {words:<24}{:>12}{:>12}{:>12}", at(0.5), at(0.9), at(0.99));
        }
        let p99 = [response.value_at_quantile(0.99)];
        let (limits, name) = if self.slower.is_empty() {
            (p99.as_slice(), "p99, ")
        } else {
            (self.slower.as_slice(), "")
        };
        for limit in limits {
            for requests in pages {
                let share = 100.0 * self.pages_with_slower(*requests, *limit);
                let _ = writeln!(
                    out,
                    "  {share:.1} % of pages of {} have one slower than {name}{}",
                    requests_text(*requests),
                    time_text(*limit as f64 / 1e3)
                );
            }
        }
        out.push('\n');
        if let Some(period) = self.pattern() {
            let text = format!(
                "latency rises periodically, every {:.2} s (autocorrelation {:.2})",
                period.length as f64 / 1e9,
                period.correlation
            );
            line(out, "pattern", &text);
        }
    }

    fn write_errors(&self, out: &mut String) {
        let record = &self.outcome.record;
        let classes = record.status_classes.iter().enumerate().filter(|(_, count)| **count > 0);
        let statuses: Vec<String> =
            classes.map(|(class, count)| format!("{class}xx {count}")).collect();
        if !statuses.is_empty() {
            line(out, "status", &statuses.join(", "));
        }
        let examples = &self.outcome.examples;
        if let Some(location) = &examples.redirect {
            let to = match location.as_str() {
                "" => "nowhere".to_owned(),
                location => format!("to {}", location.escape_debug()),
            };
            line(out, "", &format!("redirects are not followed; the first one is {to}"));
        }
        let failures: Vec<String> = RequestFailure::ALL
            .into_iter()
            .filter(|failure| record.failures_of(*failure) > 0)
            .map(|failure| format!("{} {}", failure.name(), record.failures_of(failure)))
            .collect();
        let failures = if failures.is_empty() { "none".to_owned() } else { failures.join(", ") };
        line(out, "failures", &failures);
        for (failure, text) in RequestFailure::ALL.into_iter().zip(&examples.failures) {
            // The text of a timeout adds nothing.
            if let Some(text) = text.as_ref().filter(|_| failure != RequestFailure::Timeout) {
                line(out, "", &format!("first of {}: {text}", failure.name()));
            }
        }
    }

    fn write_connections(&self, out: &mut String) {
        let outcome = self.outcome;
        let mut text = format!(
            "{} requested, {} open at the start, {} at the end, {} opened in total",
            self.connections, outcome.open_at_start, outcome.open, outcome.opened
        );
        if outcome.lost > 0 {
            let _ = write!(text, ", {} closed by the target while idle", outcome.lost);
        }
        line(out, "connections", &text);
        let mut protocol = match outcome.streams {
            None => "HTTP/1.1".to_owned(),
            Some(StreamCounts { asked, allowed }) => {
                let allowed = allowed.filter(|allowed| *allowed < asked);
                let limit =
                    allowed.map(|allowed| format!(", of which the target allows {allowed}"));
                format!(
                    "HTTP/2 with {asked} streams at once on each connection{}",
                    limit.unwrap_or_default()
                )
            }
        };
        if let Some(tls) = &outcome.tls {
            let _ = write!(protocol, ", {}, {}, {}", tls.version, tls.suite, tls.group);
        }
        line(out, "protocol", &protocol);
    }

    fn write_machine(&self, out: &mut String) {
        let record = &self.outcome.record;
        let usage = &self.usage.whole;
        let late = |quantile| time_text(record.lateness.value_at_quantile(quantile) as f64 / 1e3);
        // A closed loop has no intended starts.
        if matches!(self.pace, SendPace::Open { .. }) {
            let lateness =
                format!("{} at p50, {} at p99.9, {} at most", late(0.5), late(0.999), late(1.0));
            line(out, "lateness", &lateness);
        }
        let requests = record.sent + record.warm;
        if let (Some(cpu), Some(load)) = (usage.own, self.own_load()) {
            let text = format!(
                "generator {}, {:.0} % of {}",
                own_cpu_text(cpu, requests),
                load * 100.0,
                cores_text(self.cores_used())
            );
            line(out, "cpu", &text);
        }
        for (target, process) in self.usage.targets.iter().zip(&usage.targets) {
            let Some(process) = process else {
                line(out, "", &format!("{} has ended", target.name));
                continue;
            };
            let mut text = format!("{} {}", target.name, cpu_text(process.cpu, requests));
            if process.read_bytes + process.written_bytes > 0 {
                let _ = write!(
                    text,
                    ", disk: {}B read, {}B written",
                    binary_text(process.read_bytes as f64),
                    binary_text(process.written_bytes as f64)
                );
            }
            line(out, "", &text);
        }
        let mut machine = Vec::new();
        if let Some(busy) = usage.busy {
            machine.push(format!("{:.0} % busy", busy * 100.0));
        }
        if let Some(steal) = usage.steal {
            machine.push(format!("{:.1} % stolen", steal * 100.0));
        }
        if let Some(throttled) = usage.throttled {
            machine.push(match throttled.periods {
                0 => "not throttled".to_owned(),
                periods => format!("throttled in {periods} periods"),
            });
        }
        if !machine.is_empty() {
            line(out, "machine", &machine.join(", "));
        }
    }

    /// The verdict: one line, or a line for each objection.
    pub fn verdict(&self) -> Vec<String> {
        let objections = self.objections();
        if !objections.is_empty() {
            return objections.iter().map(|text| format!("NOT VALID: {text}")).collect();
        }
        let (reach, sampled) = (self.valid_up_to(), self.sampled_up_to());
        let rest = if reach < sampled {
            "at higher percentiles the generator was late".to_owned()
        } else {
            format!("higher percentiles have fewer than {FEW} samples")
        };
        vec![format!("valid up to p{}; {rest}", percent_text(reach.unwrap_or(0.0)))]
    }

    fn write_verdict(&self, out: &mut String) {
        for (number, text) in self.verdict().iter().enumerate() {
            line(out, if number == 0 { "verdict" } else { "" }, text);
        }
    }
}

fn own_cpu_text(cpu: ProcessCpu, requests: u64) -> String {
    if cpu.total_us() < COARSE_US {
        // The sum is exact, its parts are not.
        return format!("{:.1} us per request", cpu.total_us() / requests.max(1) as f64);
    }
    cpu_text(cpu, requests)
}

fn cpu_text(cpu: ProcessCpu, requests: u64) -> String {
    let each = |time: f64| time / requests.max(1) as f64;
    if cpu.total_us() < COARSE_US {
        let most = each(cpu.total_us() + COARSE_US / 10.0);
        return format!("at most {most:.0} us per request (too little to be measured exactly)");
    }
    format!(
        "{:.1} us per request ({:.1} user, {:.1} system)",
        each(cpu.total_us()),
        each(cpu.user_us),
        each(cpu.system_us)
    )
}

fn cores_text(count: usize) -> String {
    if count == 1 { "a core".to_owned() } else { format!("{count} cores") }
}

fn requests_text(count: u32) -> String {
    format!("{count} request{}", if count == 1 { "" } else { "s" })
}

/// Cores in the notation of the command line: `0-3,6`.
fn ranges(cores: &[usize]) -> String {
    let mut parts: Vec<(usize, usize)> = Vec::new();
    for core in cores {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == *core => *last = *core,
            _ => parts.push((*core, *core)),
        }
    }
    let text = |(first, last): &(usize, usize)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    parts.iter().map(text).collect::<Vec<_>>().join(",")
}

fn line(out: &mut String, name: &str, text: &str) {
    let _ = writeln!(out, "  {name:<12}{text}");
}

#[cfg(test)]
mod tests {
    use super::{ProcessCpu, cpu_text, own_cpu_text, ranges};

    #[test]
    fn cores_are_named_as_ranges() {
        assert_eq!(ranges(&[0, 1, 2, 3, 6, 8, 9]), "0-3,6,8-9");
        assert_eq!((ranges(&[5]), ranges(&[])), ("5".to_owned(), String::new()));
    }

    #[test]
    fn processor_time_is_no_more_exact_than_the_kernels_clock() {
        let cpu = |user_us, system_us| ProcessCpu { user_us, system_us };
        assert_eq!(
            cpu_text(cpu(300_000.0, 100_000.0), 10_000),
            "40.0 us per request (30.0 user, 10.0 system)"
        );
        assert_eq!(
            cpu_text(cpu(0.0, 0.0), 1000),
            "at most 10 us per request (too little to be measured exactly)"
        );
        assert_eq!(own_cpu_text(cpu(1500.0, 500.0), 100), "20.0 us per request");
        assert_eq!(own_cpu_text(cpu(0.0, 0.0), 0), "0.0 us per request");
    }
}
