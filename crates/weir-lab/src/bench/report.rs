//! The figures of a run, and the objections to their validity. The text is in `summary.rs`.

use std::net::SocketAddr;

use super::load::{SendPace, StartOrder};
use super::monitor::RunUsage;
use super::record::PART_NS;
use super::run::RunResults;
use super::wrk_text::time_text;
use crate::sim::period::{self, Period};

/// The input of a report.
#[derive(Clone, Debug)]
pub struct ReportInput<'a> {
    /// The results of the run.
    pub outcome: &'a RunResults,
    /// The pacing of the run.
    pub pace: SendPace,
    /// The machine's resources used during the run.
    pub usage: &'a RunUsage,
    /// Number of threads of the generator.
    pub threads: usize,
    /// Number of connections requested.
    pub connections: usize,
    /// Percentiles that the user's conditions depend on, as shares from 0 to 1.
    pub asked: Vec<f64>,
    /// The address that the requests went to.
    pub address: Option<SocketAddr>,
    /// Cores that the generator's threads may use.
    pub cores: Vec<usize>,
    /// The way in which connections took the starts.
    pub order: StartOrder,
    /// Page sizes in requests, if the user gave any.
    pub pages: Vec<u32>,
    /// Times in nanoseconds for which to report the share of pages that have a slower request.
    pub slower: Vec<u64>,
    /// The percentile at which lateness is judged, if the samples reach that far.
    pub lateness_percent: f64,
}

/// Percentiles of the summary.
pub(super) const PERCENTILES: [f64; 9] =
    [50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99, 99.999, 99.9999];
/// Smallest number of samples beyond a percentile that make it reliable.
pub(crate) const FEW: f64 = 10.0;
/// A run is saturated if a larger share of its intended requests has no result.
const SATURATED: f64 = 0.01;
/// Lateness that is always accepted, in nanoseconds.
const HARMLESS_LATENESS_NS: u64 = 200_000;
/// The percentile at which lateness is judged if the user names no other.
pub const LATENESS_PERCENT: f64 = 99.9;
/// Largest accepted lateness, as a share of the measured time.
const LATENESS_SHARE: f64 = 0.1;
/// A generator that uses a larger share of its threads' cores may be late.
const BUSY: f64 = 0.9;
/// A larger share of stolen time is reported.
const STEAL: f64 = 0.01;
/// Largest number of parts of a run in which a periodic pattern is searched.
const PATTERN_PARTS: usize = 2048;
/// Smallest number of requests in a part that give a meaningful mean.
const PATTERN_COUNT: u64 = 4;

impl<'a> ReportInput<'a> {
    /// The figures of a run, without user settings.
    pub fn of(outcome: &'a RunResults, pace: SendPace, usage: &'a RunUsage) -> Self {
        Self {
            outcome,
            pace,
            usage,
            threads: 1,
            connections: 1,
            asked: Vec::new(),
            address: None,
            cores: Vec::new(),
            order: StartOrder::Shared,
            pages: Vec::new(),
            slower: Vec::new(),
            lateness_percent: LATENESS_PERCENT,
        }
    }

    /// Requests per second of the schedule; of a closed loop, the achieved rate.
    pub fn offered(&self) -> f64 {
        match self.pace {
            SendPace::Open { schedule, .. } => schedule.rate,
            SendPace::Closed { .. } => self.achieved(),
        }
    }

    /// Requests answered per second of the run.
    pub fn achieved(&self) -> f64 {
        self.outcome.record.answered as f64 / self.seconds()
    }

    /// The share of the intended requests that was answered.
    pub fn achieved_share(&self) -> f64 {
        self.outcome.record.answered as f64 / self.outcome.intended.max(1) as f64
    }

    /// Length of the run in seconds.
    pub fn seconds(&self) -> f64 {
        (self.outcome.elapsed_ns as f64 / 1e9).max(1e-9)
    }

    /// The share of its threads' cores that the generator used.
    pub fn own_load(&self) -> Option<f64> {
        let whole = &self.usage.whole;
        Some(whole.own?.total_us() / whole.wall_us.max(1.0) / self.cores_used() as f64)
    }

    /// Number of cores that its threads can use.
    pub(super) fn cores_used(&self) -> usize {
        let cores = if self.cores.is_empty() { usize::MAX } else { self.cores.len() };
        self.threads.clamp(1, cores)
    }

    /// The share of pages of so many requests that have a request slower than this.
    pub fn pages_with_slower(&self, requests: u32, time_ns: u64) -> f64 {
        let response = &self.outcome.record.response;
        if response.is_empty() {
            return 0.0;
        }
        let within = response.count_between(0, time_ns) as f64 / response.len() as f64;
        1.0 - within.powf(f64::from(requests))
    }

    /// The highest percentile for which there are enough samples, and the generator was in time.
    pub fn valid_up_to(&self) -> Option<f64> {
        let reach = self.sampled_up_to()?;
        let is_late = self.lateness_at(reach.min(LATENESS_PERCENT)).is_some();
        // Without a percentile from the user such a run is not valid at all.
        Some(if is_late { reach.min(self.lateness_percent) } else { reach })
    }

    /// The highest percentile for which there are enough samples.
    pub(super) fn sampled_up_to(&self) -> Option<f64> {
        let samples = self.outcome.record.response.len();
        let is_sure = |percent: &&f64| samples_beyond(**percent / 100.0, samples) >= FEW;
        PERCENTILES.iter().rev().find(is_sure).copied()
    }

    /// The interval at which response times rise regularly, if there is one.
    pub fn pattern(&self) -> Option<Period> {
        let parts = &self.outcome.record.parts;
        let requests: u64 = parts.iter().map(|part| u64::from(part.count)).sum();
        let most = (requests / PATTERN_COUNT).min(PATTERN_PARTS as u64) as usize;
        let width = parts.len().div_ceil(most.max(1)).max(1);
        let mut last = 0.0;
        let means = parts.chunks(width).map(|parts| {
            let count: u64 = parts.iter().map(|part| u64::from(part.count)).sum();
            if count > 0 {
                let sum: u64 = parts.iter().map(|part| part.sum_ns).sum();
                last = sum as f64 / count as f64;
            }
            last
        });
        period::find_in(&means.collect::<Vec<_>>(), PART_NS as f64 * width as f64)
    }

    /// All reasons to doubt the figures; empty for a valid run.
    pub fn objections(&self) -> Vec<String> {
        let record = &self.outcome.record;
        let mut found = Vec::new();
        if record.answered == 0 {
            found.push("no request got a response".to_owned());
        }
        let missing =
            1.0 - (record.answered + record.failed()) as f64 / self.outcome.intended.max(1) as f64;
        if matches!(self.pace, SendPace::Open { .. })
            && !self.outcome.is_cut_short
            && missing > SATURATED
        {
            found.push(format!(
                "saturated: {:.1} % of the requests did not start in time to be measured ({} of {}), so the slowest requests \
                are missing from the results",
                missing * 100.0,
                self.outcome.unsent + self.outcome.unanswered,
                self.outcome.intended
            ));
        }
        if record.failed() > 0 {
            found.push(format!("{} requests failed", record.failed()));
        }
        if record.bad_status() > 0 {
            found.push(format!("{} responses had a status of 400 or above", record.bad_status()));
        }
        self.object_to_the_generator(&mut found);
        self.object_to_the_machine(&mut found);
        if self.outcome.is_cut_short {
            found.push(format!("the run was stopped after {:.2} s", self.seconds()));
        }
        if record.answered > 0 && self.valid_up_to().is_none() {
            found.push(format!("{} samples are too few for any percentile", record.response.len()));
        }
        for quantile in &self.asked {
            let behind = samples_beyond(*quantile, record.response.len());
            if *quantile < 1.0 && behind < FEW {
                found.push(format!(
                    "p{} rests on {behind:.1} samples",
                    percent_text(quantile * 100.0)
                ));
            }
        }
        found
    }

    /// The lateness of the generator and the measured time at a percentile, in nanoseconds, if the
    /// lateness is too large. wrk2's timers and catching up are late on purpose, and the summary
    /// says so.
    fn lateness_at(&self, percent: f64) -> Option<(f64, f64)> {
        let record = &self.outcome.record;
        let is_judged =
            matches!(self.pace, SendPace::Open { .. }) && self.order == StartOrder::Shared;
        let late_ns = record.lateness.value_at_percentile(percent);
        let measured_ns = record.response.value_at_percentile(percent) as f64;
        let is_late =
            late_ns > HARMLESS_LATENESS_NS && late_ns as f64 > measured_ns * LATENESS_SHARE;
        (is_judged && is_late).then_some((late_ns as f64, measured_ns))
    }

    fn object_to_the_generator(&self, found: &mut Vec<String>) {
        let asked = self.asked.iter().map(|quantile| quantile * 100.0);
        let judged = asked.fold(self.lateness_percent, f64::max).min(LATENESS_PERCENT);
        // Not beyond the samples: in a short run, one late request is no reason to reject it.
        let percent = self.sampled_up_to().map(|reach| reach.min(judged));
        if let Some(percent) = percent
            && let Some((late_ns, measured_ns)) = self.lateness_at(percent)
        {
            found.push(format!(
                "the generator was late: {} at p{}, of {} measured",
                time_text(late_ns / 1e3),
                percent_text(percent),
                time_text(measured_ns / 1e3)
            ));
        }
        if let Some(load) = self.own_load()
            && load > BUSY
        {
            found.push(format!("the generator used {:.0} % of its threads' cores", load * 100.0));
        }
    }

    fn object_to_the_machine(&self, found: &mut Vec<String>) {
        let from = |second: f64| format!("from t = {second:.1} s");
        if let Some(throttled) = self.usage.whole.throttled
            && throttled.periods > 0
        {
            let since = self.usage.throttled_from_s().map(from).unwrap_or_default();
            found.push(format!(
                "the generator was throttled in {} periods for {} in all, {since}",
                throttled.periods,
                time_text(throttled.time_us as f64)
            ));
        }
        let overall = self.usage.whole.steal.unwrap_or(0.0);
        let of_a_second = self.usage.stolen_from_s();
        if overall > STEAL || of_a_second.is_some() {
            let since = of_a_second.map_or(String::new(), |(second, share)| {
                format!(", {:.0} % of a second {}", share * 100.0, from(second))
            });
            found.push(format!(
                "the host took {:.1} % of the machine's CPU time (steal){since}",
                overall * 100.0
            ));
        }
    }
}

/// Number of samples beyond a share of them. Rounding removes the error of binary fractions.
pub(crate) fn samples_beyond(quantile: f64, samples: u64) -> f64 {
    let beyond = (1.0 - quantile) * samples as f64;
    (beyond * 1e6).round() / 1e6
}

/// A percentile without trailing zeros: `99.9`, `50`.
pub(crate) fn percent_text(percent: f64) -> String {
    let text = format!("{percent:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use weir_stats::procfs::Throttled;

    use super::ReportInput;
    use crate::bench::load::{Examples, SendPace};
    use crate::bench::monitor::{RunUsage, Slice};
    use crate::bench::record::{RequestSample, RunRecord};
    use crate::bench::run::RunResults;
    use crate::bench::schedule::{ArrivalProcess, Schedule};

    const MS: u64 = 1_000_000;

    /// A run of 200 requests per second; `response_ms` gives the response time of each.
    fn outcome(count: u64, response_ms: impl Fn(u64) -> u64) -> RunResults {
        let mut record = RunRecord::new(false);
        for n in 0..count {
            let intended_ns = n * 5 * MS;
            record.add(&RequestSample {
                n,
                intended_ns,
                sent_ns: intended_ns,
                ended_ns: intended_ns + response_ms(n) * MS,
                free_ns: 0,
                opening_ns: 0,
                status: 200,
                bytes: 100,
                failure: None,
            });
        }
        RunResults {
            record,
            elapsed_ns: 20_000 * MS,
            intended: count,
            unsent: 0,
            unanswered: 0,
            opened: 1,
            open: 1,
            open_at_start: 1,
            began_ns: 1,
            began_at: jiff::Timestamp::UNIX_EPOCH,
            examples: Examples::default(),
            lost: 0,
            tls: None,
            streams: None,
            is_cut_short: false,
        }
    }

    fn pace() -> SendPace {
        let schedule = Schedule { arrival: ArrivalProcess::Constant, rate: 200.0, seed: 0 };
        SendPace::Open { schedule, duration_ns: 20_000 * MS }
    }

    #[test]
    fn the_verdict_says_how_far_the_samples_reach() {
        let usage = RunUsage::default();
        let check = |count, expected: Option<f64>| {
            let outcome = outcome(count, |n| 1 + n % 10);
            let figures = ReportInput::of(&outcome, pace(), &usage);
            assert_eq!(figures.valid_up_to(), expected, "{count}");
            assert_eq!(figures.objections().is_empty(), expected.is_some(), "{count}");
            figures.text()
        };
        assert!(check(4000, Some(99.0)).contains("valid up to p99"));
        check(10_000, Some(99.9));
        check(20, Some(50.0));
        assert!(check(19, None).contains("NOT VALID: 19 samples are too few"));
    }

    /// A run of which the first `late` requests were sent 1 ms late, and each took 2 ms.
    fn late_outcome(count: u64, late: u64) -> RunResults {
        let mut outcome = outcome(0, |_| 0);
        outcome.intended = count;
        for n in 0..count {
            let intended_ns = n * 5 * MS;
            outcome.record.add(&RequestSample {
                n,
                intended_ns,
                sent_ns: intended_ns + if n < late { MS } else { 0 },
                ended_ns: intended_ns + 2 * MS,
                free_ns: 0,
                opening_ns: 0,
                status: 200,
                bytes: 100,
                failure: None,
            });
        }
        outcome
    }

    #[test]
    fn lateness_is_judged_as_far_as_the_samples_reach() {
        let usage = RunUsage::default();
        let check = |count: u64, late: u64, expected: &[&str]| {
            let outcome = late_outcome(count, late);
            assert_eq!(
                ReportInput::of(&outcome, pace(), &usage).objections(),
                expected,
                "{count} {late}"
            );
        };
        check(200, 5, &[]);
        check(200, 15, &["the generator was late: 1.00ms at p95, of 2.00ms measured"]);
        check(20_000, 15, &[]);
        check(20_000, 25, &["the generator was late: 1.00ms at p99.9, of 2.00ms measured"]);
        check(200_000, 150, &[]);
    }

    #[test]
    fn lateness_is_judged_at_the_percentile_that_the_user_names() {
        let (usage, outcome) = (RunUsage::default(), late_outcome(20_000, 25));
        let verdict = |lateness_percent, asked: &[f64]| {
            let input = ReportInput::of(&outcome, pace(), &usage);
            ReportInput { lateness_percent, asked: asked.to_vec(), ..input }.verdict().join("")
        };
        assert!(verdict(99.9, &[]).starts_with("NOT VALID: the generator was late"));
        let expected = "valid up to p99; at higher percentiles the generator was late";
        assert_eq!(verdict(99.0, &[0.5]), expected);
        // A condition on p99.9 is judged there.
        assert!(verdict(99.0, &[0.999]).starts_with("NOT VALID: the generator was late"));
    }

    #[test]
    fn a_disturbance_of_the_generator_is_reported_with_its_second() {
        let slice = |from_s: f64, periods, steal| Slice {
            from_s,
            throttled: Some(Throttled { periods, time_us: 1500 * periods }),
            steal: Some(steal),
            ..Slice::default()
        };
        let usage = RunUsage {
            whole: slice(-0.5, 3, 0.02),
            slices: vec![slice(-0.5, 0, 0.0), slice(0.5, 0, 0.3), slice(1.5, 3, 0.0)],
            ..RunUsage::default()
        };
        let outcome = outcome(1000, |_| 1);
        let objections = ReportInput::of(&outcome, pace(), &usage).objections();
        assert_eq!(
            objections,
            [
                "the generator was throttled in 3 periods for 4.50ms in all, from t = 1.5 s",
                "the host took 2.0 % of the machine's CPU time (steal), 30 % of a second from t = 0.5 s",
            ]
        );
    }

    #[test]
    fn the_share_of_slow_pages_is_that_of_theory() {
        // A tenth of the requests takes 10 ms, the others less.
        let outcome = outcome(1000, |n| 1 + n % 10);
        let usage = RunUsage::default();
        let figures = ReportInput {
            pages: vec![1, 40],
            slower: vec![9 * MS],
            ..ReportInput::of(&outcome, pace(), &usage)
        };
        let near = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-9, "{found}");
        near(figures.pages_with_slower(1, 9 * MS), 0.1);
        near(figures.pages_with_slower(40, 9 * MS), 1.0 - 0.9_f64.powi(40));
        near(figures.pages_with_slower(40, 10 * MS), 0.0);
        let text = figures.text();
        assert!(
            text.contains("98.5 % of pages of 40 requests have one slower than 9.00ms"),
            "{text}"
        );
    }

    #[test]
    fn a_periodic_pause_is_found() {
        let usage = RunUsage::default();
        // The target stalls for 300 ms every two seconds.
        let paused = outcome(4000, |n| 1 + (300_u64).saturating_sub(n * 5 % 2000));
        let found = ReportInput::of(&paused, pace(), &usage).pattern().unwrap();
        assert!((found.length as f64 / 2e9 - 1.0).abs() < 0.06, "{found:?}");
        let text = ReportInput::of(&paused, pace(), &usage).text();
        assert!(text.contains("latency rises periodically, every 2.0"), "{text}");
        let even = outcome(4000, |_| 1);
        assert_eq!(ReportInput::of(&even, pace(), &usage).pattern(), None);
        let short = outcome(3, |_| 1);
        assert_eq!(ReportInput::of(&short, pace(), &usage).pattern(), None);
    }
}
