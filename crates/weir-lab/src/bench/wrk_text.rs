//! The report in the format of wrk2, line by line, for programs that parse it. Times are formatted
//! as in wrk2; the spectrum is in milliseconds. Figures that wrk2 does not know are in
//! `summary.rs`.

use std::fmt::Write;

use hdrhistogram::Histogram;

use super::record::{RequestFailure, RunRecord};
use super::spectrum::spectrum;

/// The parameters of a run that the report shows.
#[derive(Clone, Debug)]
pub struct RunParameters<'a> {
    /// The URL as given by the user.
    pub url: &'a str,
    /// The specified length: a time in nanoseconds, or a number of requests.
    pub length: Length,
    /// Actual length of the run, in nanoseconds.
    pub elapsed_ns: u64,
    /// Number of threads of the generator.
    pub threads: usize,
    /// Number of connections requested.
    pub connections: usize,
    /// Set if the distributions are shown.
    pub latency: bool,
    /// Set if the uncorrected distribution is shown too.
    pub uncorrected: bool,
    /// Set if samples are left out as by wrk2.
    pub is_wrk2: bool,
}

/// The specified length of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// A time in nanoseconds.
    Time(u64),
    /// A number of requests, however long they take.
    Requests(u64),
}

/// Percentiles of the short list.
const PERCENTILES: [f64; 8] = [50.0, 75.0, 90.0, 99.0, 99.9, 99.99, 99.999, 100.0];
const RULE: &str = "----------------------------------------------------------\n";

impl RunParameters<'_> {
    /// The first two lines.
    pub fn head(&self) -> String {
        let length = match self.length {
            Length::Time(time_ns) if time_ns % 1_000_000_000 == 0 => {
                seconds_text(time_ns as f64 / 1e9)
            }
            Length::Time(time_ns) => time_text(time_ns as f64 / 1e3),
            Length::Requests(requests) => format!("{requests} requests"),
        };
        format!(
            "Running {length} test @ {}\n  {} threads and {} connections\n",
            self.url, self.threads, self.connections
        )
    }

    /// Everything after the first two lines.
    pub fn text(&self, record: &RunRecord) -> String {
        let mut out = String::new();
        let [response, service] = if self.is_wrk2 {
            record.kept_by_wrk2(self.elapsed_ns)
        } else {
            [&record.response, &record.service]
        };
        for thread in record.calibrated.threads.iter().filter(|_| self.is_wrk2) {
            let _ = writeln!(
                out,
                "  Thread calibration: mean lat.: {:.3}ms, rate sampling interval: {}ms",
                thread.mean_us / 1e3,
                thread.interval_ms
            );
        }
        let _ = writeln!(
            out,
            "  Thread Stats{:>6}{:>11}{:>8}{:>12}",
            "Avg", "Stdev", "Max", "+/- Stdev"
        );
        let (mean, deviation) = (mean_us(response), deviation_us(response));
        statistic(&mut out, "Latency", &[mean, deviation, response.max() as f64 / 1e3], time_text);
        let _ = writeln!(out, "{:8.2}%", within(response, mean, deviation));
        self.rates(&mut out, record);
        if self.latency {
            distribution(&mut out, response, "Recorded Latency");
            out.push_str(RULE);
        }
        if self.uncorrected {
            out.push('\n');
            let words = "Uncorrected Latency (measured without taking delayed starts into account)";
            distribution(&mut out, service, words);
            out.push_str(RULE);
        }
        self.totals(&mut out, record);
        out
    }

    /// Writes the statistics of requests per second, per thread as in wrk.
    fn rates(&self, out: &mut String, record: &RunRecord) {
        let threads = self.threads.max(1) as f64;
        let counts: Vec<f64> =
            record.seconds.iter().map(|second| second.count as f64 / threads).collect();
        let number = counts.len().max(1) as f64;
        let mean = counts.iter().sum::<f64>() / number;
        let square = counts.iter().map(|count| (count - mean) * (count - mean)).sum::<f64>();
        let deviation = (square / number).sqrt();
        let max = counts.iter().copied().fold(0.0, f64::max);
        let near = counts.iter().filter(|count| (*count - mean).abs() <= deviation).count();
        statistic(out, "Req/Sec", &[mean, deviation, max], metric_text);
        let _ = writeln!(out, "{:8.2}%", 100.0 * near as f64 / number);
    }

    fn totals(&self, out: &mut String, record: &RunRecord) {
        let seconds = (self.elapsed_ns as f64 / 1e9).max(1e-9);
        let _ = writeln!(
            out,
            "  {} requests in {}, {}B read",
            record.answered,
            time_text(self.elapsed_ns as f64 / 1e3),
            binary_text(record.bytes as f64)
        );
        let of = |failure| record.failures_of(failure);
        if record.failed() > 0 {
            let _ = writeln!(
                out,
                "  Socket errors: connect {}, read {}, write {}, timeout {}",
                of(RequestFailure::Connect),
                of(RequestFailure::Read) + of(RequestFailure::Protocol),
                of(RequestFailure::Write),
                of(RequestFailure::Timeout)
            );
        }
        if record.bad_status() > 0 {
            let _ = writeln!(out, "  Non-2xx or 3xx responses: {}", record.bad_status());
        }
        let _ = writeln!(out, "Requests/sec: {:9.2}", record.answered as f64 / seconds);
        let rate = binary_text(record.bytes as f64 / seconds);
        let _ = writeln!(out, "Transfer/sec: {rate:>10}B");
    }
}

fn statistic(out: &mut String, name: &str, values: &[f64; 3], text: fn(f64) -> String) {
    let _ = write!(out, "    {name:<10}");
    for (value, width) in values.iter().zip([8, 10, 9]) {
        out.push_str(&padded(&text(*value), width));
    }
}

/// Writes a distribution as wrk2 does: the short list, and the spectrum that HdrHistogram's plotter
/// reads.
fn distribution(out: &mut String, histogram: &Histogram<u64>, words: &str) {
    let _ = writeln!(out, "  Latency Distribution (HdrHistogram - {words})");
    for percentile in PERCENTILES {
        let value = histogram.value_at_percentile(percentile) as f64 / 1e3;
        let _ = writeln!(out, "{percentile:7.3}%{}", padded(&time_text(value), 10));
    }
    out.push_str("\n  Detailed Percentile spectrum:\n");
    out.push_str(&spectrum(histogram));
}

/// The share of samples within one standard deviation of the mean, in percent.
fn within(histogram: &Histogram<u64>, mean_us: f64, deviation_us: f64) -> f64 {
    if histogram.is_empty() {
        return 0.0;
    }
    let low = ((mean_us - deviation_us) * 1e3).max(0.0) as u64;
    let high = ((mean_us + deviation_us) * 1e3) as u64;
    100.0 * histogram.count_between(low, high) as f64 / histogram.len() as f64
}

/// The mean in microseconds; 0 of an empty histogram, never NaN.
pub fn mean_us(histogram: &Histogram<u64>) -> f64 {
    if histogram.is_empty() { 0.0 } else { histogram.mean() / 1e3 }
}

/// The standard deviation in microseconds; 0 of an empty histogram.
pub fn deviation_us(histogram: &Histogram<u64>) -> f64 {
    if histogram.is_empty() { 0.0 } else { histogram.stdev() / 1e3 }
}

/// Aligns the number to the right, with room for two letters of a unit after it, as wrk does.
fn padded(text: &str, width: usize) -> String {
    let letters = text.bytes().rev().take(2).filter(u8::is_ascii_alphabetic).count();
    let room = 2 - letters;
    format!("{text:>width$}{:room$}", "", width = width - room)
}

/// A number with the largest unit in which it is at least 0.85.
fn scaled(number: f64, scale: f64, units: &[&str], digits: usize) -> String {
    let (mut number, mut units) = (number, units);
    while let [_, rest @ ..] = units
        && !rest.is_empty()
        && number >= scale * 0.85
    {
        number /= scale;
        units = rest;
    }
    format!("{number:.digits$}{}", units.first().unwrap_or(&""))
}

/// A readable time from microseconds: `250.00us`, `1.21ms`, `3.50s`.
pub fn time_text(us: f64) -> String {
    if us >= 1e6 {
        scaled(us / 1e6, 60.0, &["s", "m", "h"], 2)
    } else {
        scaled(us, 1000.0, &["us", "ms"], 2)
    }
}

fn seconds_text(seconds: f64) -> String {
    scaled(seconds, 60.0, &["s", "m", "h"], 0)
}

/// A readable count: `85.00k`.
pub fn metric_text(count: f64) -> String {
    scaled(count, 1e3, &["", "k", "M", "G", "T"], 2)
}

/// A readable number of bytes: `1.25M`, with units of 1,024.
pub fn binary_text(bytes: f64) -> String {
    scaled(bytes, 1024.0, &["", "K", "M", "G", "T"], 2)
}

#[cfg(test)]
mod tests {
    use super::{Length, RunParameters, RunRecord, binary_text, metric_text, padded, time_text};
    use crate::bench::record::{RequestFailure, RequestSample};

    fn sample(n: u64, response_ns: u64) -> RequestSample {
        let intended_ns = n * 10_000_000;
        RequestSample {
            n,
            intended_ns,
            sent_ns: intended_ns + response_ns / 2,
            ended_ns: intended_ns + response_ns,
            free_ns: 0,
            opening_ns: 0,
            status: 200,
            bytes: 1200,
            failure: None,
        }
    }

    fn run(record: &RunRecord) -> String {
        let run = RunParameters {
            url: "http://127.0.0.1:80/1k",
            length: Length::Time(30_000_000_000),
            elapsed_ns: 30_010_000_000,
            threads: 2,
            connections: 100,
            latency: true,
            uncorrected: true,
            is_wrk2: false,
        };
        run.head() + &run.text(record)
    }

    #[test]
    fn the_report_has_the_lines_of_wrk2() {
        let mut record = RunRecord::new(false);
        for n in 0..3000 {
            record.add(&sample(n, 1_000_000 + n * 1_000));
        }
        let mut slow = sample(3000, 2_000_000_000);
        slow.failure = Some(RequestFailure::Timeout);
        record.add(&slow);
        let mut bad = sample(3001, 500_000);
        bad.status = 502;
        record.add(&bad);
        insta::assert_snapshot!(run(&record));
    }

    #[test]
    fn as_wrk2_the_report_has_its_calibration_and_leaves_out_its_samples() {
        let mut record = RunRecord::new(false).with_calibration(10_000_000_000);
        // Of 3,000 requests, the first 1,000 end within the calibration and take ten times as long.
        for n in 0..3000 {
            record.add(&sample(n, if n < 1000 { 10_000_000 } else { 1_000_000 }));
        }
        record.calibrate(30_010_000_000);
        let own = RunParameters {
            url: "http://a/",
            length: Length::Time(30_000_000_000),
            elapsed_ns: 30_010_000_000,
            threads: 1,
            connections: 1,
            latency: true,
            uncorrected: false,
            is_wrk2: true,
        };
        let text = own.text(&record);
        let line = "  Thread calibration: mean lat.: 9.99";
        assert!(
            text.starts_with(line) && text.contains("rate sampling interval: 20ms\n"),
            "{text}"
        );
        // One of the slow ones ends just after it.
        assert!(text.contains(" 99.900%    1.00ms") && text.contains("3000 requests in"), "{text}");
        let native = RunParameters { is_wrk2: false, ..own }.text(&record);
        assert!(!native.contains("calibration") && native.contains(" 75.000%   10.0"), "{native}");
    }

    #[test]
    fn the_heading_says_what_was_asked_for() {
        let check = |length, expected: &str| {
            let run = RunParameters {
                url: "http://a/",
                length,
                elapsed_ns: 0,
                threads: 1,
                connections: 3,
                latency: false,
                uncorrected: false,
                is_wrk2: false,
            };
            assert_eq!(
                run.head(),
                format!("Running {expected} test @ http://a/\n  1 threads and 3 connections\n")
            );
        };
        check(Length::Time(180_000_000_000), "3m");
        check(Length::Time(30_000_000_000), "30s");
        check(Length::Time(1_500_000_000), "1.50s");
        check(Length::Time(500_000_000), "500.00ms");
        check(Length::Requests(1000), "1000 requests");
    }

    #[test]
    fn a_run_without_answers_has_no_number_that_is_none() {
        let text = run(&RunRecord::new(false));
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
        assert!(text.contains("Requests/sec:      0.00\n"), "{text}");
    }

    #[test]
    fn units_are_those_of_wrk() {
        let check = |found: String, expected: &str| assert_eq!(found, expected);
        check(time_text(0.0), "0.00us");
        check(time_text(849.0), "849.00us");
        check(time_text(850.0), "0.85ms");
        check(time_text(999_999.0), "1000.00ms");
        check(time_text(1e6), "1.00s");
        check(time_text(50e6), "50.00s");
        check(time_text(51e6), "0.85m");
        check(metric_text(850.0), "0.85k");
        check(metric_text(85_000.0), "85.00k");
        check(binary_text(20_000_000.0), "19.07M");
        check(padded("1.21ms", 8), "  1.21ms");
        check(padded("85.00k", 8), " 85.00k ");
        check(padded("12.00", 8), " 12.00  ");
    }
}
