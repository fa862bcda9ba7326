//! Figures for people, in the dashboard and `weir top`: three digits and a unit. JSON has exact
//! values instead.

use std::fmt::Write as _;

use weir_stats::exposition::{CreditsReport, CreditsState, Usage};

use super::status::{EndpointStatus, PhaseTimes, Traffic};

/// A count: `7`, `9,999`, `12.3k`, `4.56M`.
pub fn count(number: u64) -> String {
    match number {
        0..1_000 => number.to_string(),
        1_000..10_000 => format!("{},{:03}", number / 1_000, number % 1_000),
        _ => scaled(number as f64, &["", "k", "M", "G", "T", "P", "E"], 1e3),
    }
}

/// Bytes: `812 B`, `1.20 kB`, `34.5 MB`.
pub fn bytes(number: u64) -> String {
    match number {
        0..1_000 => format!("{number} B"),
        _ => scaled(number as f64, &[" B", " kB", " MB", " GB", " TB", " PB", " EB"], 1e3),
    }
}

/// A rate: `0`, `0.4`, `17`, `12.3k`.
pub fn rate(per_second: f64) -> String {
    match per_second {
        rate if rate < 0.05 => "0".to_owned(),
        rate if rate < 9.95 => format!("{rate:.1}"),
        rate => count(rate.round() as u64),
    }
}

/// A time: `850 µs`, `1.23 ms`, `12.3 ms`, `4.21 s`, `2m 5s`.
pub fn span_us(us: u64) -> String {
    match us {
        0..1_000 => format!("{us} µs"),
        1_000..999_500 => scaled(us as f64, &[" µs", " ms"], 1e3),
        999_500..60_000_000 => scaled(us as f64 / 1e3, &[" ms", " s"], 1e3),
        _ => age_ms(us / 1_000),
    }
}

/// An age or duration in its two largest units: `0s`, `59s`, `3m 12s`, `4h 1m`, `2d 3h`.
pub fn age_ms(ms: u64) -> String {
    let seconds = ms / 1_000;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m {}s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h {}m", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{}d {}h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

/// Processor credits: the balance of the maximum, and the forecast.
pub fn credits(credits: &CreditsReport) -> (String, String) {
    let left = format!("{:.1} of {:.0}", credits.balance, credits.max);
    let mut what = match (credits.state, credits.exhausted_in_s) {
        (CreditsState::Empty, _) => "exhausted".to_owned(),
        (CreditsState::Refuted, _) => "the estimate is wrong".to_owned(),
        (CreditsState::Unknown, _) => String::new(),
        (_, Some(seconds)) => format!("exhausted in {}", age_ms(seconds.saturating_mul(1_000))),
        (_, None) => "lasting".to_owned(),
    };
    if credits.weight_percent < 100 {
        let _ = write!(what, ", weight {} %", credits.weight_percent);
    }
    (left, what)
}

/// A larger share of the machine's time that the host gave to others is a shortage.
const STEAL: f64 = 0.02;
/// A larger share of an interface's speed in use is a shortage: bursts need the rest.
const FULL_NETWORK: f64 = 0.9;
/// A larger share of retransmitted segments is a shortage.
const RETRANSMITTED: f64 = 0.02;

/// The resources that the machine withheld in the last ten seconds, a sentence for each.
pub fn shortages(usage: &Usage) -> Vec<String> {
    let over = |share: Option<f64>, most: f64| {
        share.filter(|share| *share >= most).map(|share| format!("{:.0} %", share * 100.0))
    };
    let steal = over(usage.steal, STEAL);
    let network = over(usage.network, FULL_NETWORK);
    let retransmitted = over(usage.retransmitted_segments, RETRANSMITTED);
    let throttled = match usage.throttled_periods {
        0 => None,
        1 => Some("the control group throttled Weir once in ten seconds".to_owned()),
        times => Some(format!("the control group throttled Weir {times} times in ten seconds")),
    };
    [
        steal.map(|share| format!("the host gives {share} of the processor time to others")),
        throttled,
        network.map(|share| format!("a network interface carries {share} of its speed")),
        retransmitted.map(|share| format!("{share} of the TCP segments are retransmitted")),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The processor time per request; `None` without requests.
pub fn cpu_per_request(usage: &Usage) -> Option<String> {
    let us = usage.user_us_per_request? + usage.system_us_per_request?;
    Some(span_us(us.round() as u64))
}

/// Three digits and a unit.
fn scaled(mut number: f64, units: &[&str], step: f64) -> String {
    let mut units = units.iter();
    let mut unit = units.next().copied().unwrap_or_default();
    // A number that would be rounded to 1000 gets the next unit.
    while number >= 999.5 {
        let Some(next) = units.next() else { break };
        unit = next;
        number /= step;
    }
    let digits = if number < 9.995 { 2 } else { usize::from(number < 99.95) };
    format!("{number:.digits$}{unit}")
}

impl Traffic {
    /// The times of a phase in the recent window; `None` if no such phase ended in it.
    pub fn recent_of(&self, phase: &str) -> Option<&PhaseTimes> {
        self.recent.iter().find(|times| times.phase == phase)
    }

    /// The number of requests with a status of this class: `4xx`.
    pub fn of_class(&self, class: &str) -> u64 {
        self.statuses.get(class).copied().unwrap_or(0)
    }
}

impl EndpointStatus {
    /// The number of attempts that failed here: failures that count for `passive`, or abandoned
    /// attempts if there are more.
    pub fn failed(&self) -> u64 {
        self.passive_failures.max(self.failed_attempts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits_and_a_unit() {
        let check = |found: String, expected: &str| assert_eq!(found, expected);
        check(count(0), "0");
        check(count(999), "999");
        check(count(1_000), "1,000");
        check(count(9_999), "9,999");
        check(count(12_345), "12.3k");
        check(count(999_999), "1.00M");
        check(count(u64::MAX), "18.4E");
        check(bytes(999), "999 B");
        check(bytes(1_204), "1.20 kB");
        check(bytes(34_512_000), "34.5 MB");
        check(rate(0.04), "0");
        check(rate(0.44), "0.4");
        check(rate(9.96), "10");
        check(rate(12_345.6), "12.3k");
    }

    #[test]
    fn credits_are_told_with_what_comes_of_them() {
        let report = |state, exhausted_in_s, weight_percent| CreditsReport {
            state,
            exhausted_in_s,
            weight_percent,
            balance: 12.34,
            max: 576.0,
            ..CreditsReport::default()
        };
        let check = |report, expected: &str| {
            let (left, what) = credits(&report);
            assert_eq!((left.as_str(), what.as_str()), ("12.3 of 576", expected));
        };
        check(report(CreditsState::RunningOut, Some(663), 100), "exhausted in 11m 3s");
        check(report(CreditsState::RunningOut, Some(59), 40), "exhausted in 59s, weight 40 %");
        check(report(CreditsState::Lasting, None, 100), "lasting");
        check(report(CreditsState::Empty, Some(0), 100), "exhausted");
        check(report(CreditsState::Unknown, None, 100), "");
    }

    #[test]
    fn what_the_machine_withholds_is_told_from_its_bounds_on() {
        let scarce = Usage {
            steal: Some(0.124),
            throttled_periods: 3,
            network: Some(0.95),
            retransmitted_segments: Some(0.02),
            ..Usage::default()
        };
        let told = [
            "the host gives 12 % of the processor time to others",
            "the control group throttled Weir 3 times in ten seconds",
            "a network interface carries 95 % of its speed",
            "2 % of the TCP segments are retransmitted",
        ];
        assert_eq!(shortages(&scarce), told);
        let enough = Usage {
            steal: Some(0.019),
            throttled_periods: 0,
            network: Some(0.89),
            retransmitted_segments: Some(0.019),
            ..Usage::default()
        };
        assert!(shortages(&enough).is_empty() && shortages(&Usage::default()).is_empty());
        assert_eq!(cpu_per_request(&enough), None);
        let busy = Usage {
            user_us_per_request: Some(20.2),
            system_us_per_request: Some(60.0),
            ..Usage::default()
        };
        assert_eq!(cpu_per_request(&busy).as_deref(), Some("80 µs"));
    }

    #[test]
    fn times_have_the_unit_that_fits() {
        let check = |us, expected: &str| assert_eq!(span_us(us), expected);
        check(0, "0 µs");
        check(999, "999 µs");
        check(1_234, "1.23 ms");
        check(12_345, "12.3 ms");
        check(999_499, "999 ms");
        check(999_999, "1.00 s");
        check(4_210_000, "4.21 s");
        check(125_000_000, "2m 5s");
        assert_eq!(age_ms(59_999), "59s");
        assert_eq!(age_ms(192_000), "3m 12s");
        assert_eq!(age_ms(14_460_000), "4h 1m");
        assert_eq!(age_ms(183_600_000), "2d 3h");
    }
}
