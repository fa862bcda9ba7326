//! Exports for HdrHistogram's programs, read back by the `hdrhistogram` crate.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use weir_stats::interchange::{
    Interval, Log, Series, from_hdr, log_of, read_log, spectrum, to_hdr, write_log,
};
use weir_stats::metrics::{
    Asked, Distribution, Done, HIGHEST_US, MetricsRegistry, Outcome, Phase, Subject,
    TransferredBytes,
};
use weir_stats::{Micros, Times};

fn counted(seed: u64) -> BTreeMap<Subject, weir_stats::metrics::PhaseDistributions> {
    let numbers = MetricsRegistry::new(2);
    let route = numbers.route("web", "a route, with a comma", "app");
    let endpoint = numbers.endpoint("app", "app1");
    for turn in 0..5_000_u64 {
        let us = (turn * 7_919 + seed * 104_729) % 3_000_000;
        let times = Times {
            response: Micros(us as i64),
            total: Micros(us as i64 + 20),
            ..Times::default()
        };
        let outcome = Outcome { status: 200, attempts: 1, ..Outcome::default() };
        let done = Done {
            request_id: b"",
            asked: Asked::default(),
            ended_us: turn,
            times: &times,
            outcome,
            counted: TransferredBytes::default(),
        };
        let _ = numbers.record(turn as usize % 2, &route, Some(&endpoint), &done);
    }
    numbers.read().by_subject()
}

fn log(seed: u64) -> String {
    write_log(&log_of(&counted(seed)), interval(), "host")
}

fn interval() -> Interval {
    let from = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    Interval { from, length: Duration::from_mins(10) }
}

#[test]
fn a_log_that_is_read_again_has_the_same_counts() {
    let text = log(1);
    assert!(text.starts_with("#[Histogram log format version 1.3]\n#[Logged by Weir on host"));
    assert!(text.contains("\n#[StartTime: 1700000000.000 (seconds since epoch)]\n"), "{text}");
    assert!(text.contains("\nTag=route/web/a%20route%2C%20with%20a%20comma/total,0.000,600.000,"));
    let mut read = Log::new();
    assert_eq!(read_log(&text, &mut read).unwrap(), Some(interval()));
    let mut written = 0;
    for (subject, phases) in counted(1) {
        for (phase, times) in phases.counted() {
            let found = &read[&Series { subject: subject.clone(), phase }];
            assert_eq!(found.counts(), times.counts());
            let off = found.mean_us() / times.mean_us();
            assert!((off - 1.0).abs() < 0.001 || times.mean_us() < 1.0, "{off}");
            written += 1;
        }
    }
    assert_eq!(read.len(), written);
}

#[test]
fn logs_of_several_instances_add_up_exactly() {
    let mut merged = Log::new();
    for seed in 1..=3 {
        read_log(&log(seed), &mut merged).unwrap();
    }
    for subject in counted(1).into_keys() {
        let mut sum = Distribution::default();
        (1..=3).for_each(|seed| sum.add(counted(seed)[&subject].of(Phase::Total)));
        let found = &merged[&Series { subject, phase: Phase::Total }];
        assert_eq!((found.counts(), found.count()), (sum.counts(), 15_000));
        assert_eq!(found.quantiles(), sum.quantiles());
    }
}

#[test]
fn a_distribution_is_hdrhistograms_and_back() {
    let times = [0, 1, 2_047, 2_048, 999_999, HIGHEST_US - 1, HIGHEST_US, 5, 5, 5];
    let all = Distribution::of(times);
    let histogram = to_hdr(&all);
    assert_eq!((histogram.len(), histogram.count_at(5)), (10, 3));
    assert_eq!(from_hdr(&histogram).unwrap().counts(), all.counts());
    assert_eq!(histogram.value_at_quantile(0.5), all.at_quantile(0.5));
}

#[test]
fn the_spectrum_is_the_one_of_hdrhistograms_programs() {
    let text = spectrum(&to_hdr(&Distribution::of(1..=1_000)), 1e3);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "       Value   Percentile   TotalCount 1/(1-Percentile)");
    assert_eq!(lines[2], "       0.001     0.000000            1         1.00");
    assert!(lines.contains(&"       0.500     0.500000          500         2.00"), "{text}");
    assert!(lines.contains(&"       1.000     1.000000         1000          inf"), "{text}");
    let end = "#[Mean    =        0.500, StdDeviation   =        0.289]\n\
               #[Max     =        1.000, Total count    =         1000]\n\
               #[Buckets =           22, SubBuckets     =         2048]\n";
    assert!(text.ends_with(end), "{text}");
    let nothing = spectrum(&to_hdr(&Distribution::default()), 1e3);
    assert!(nothing.contains("#[Mean    =        0.000") && !nothing.contains("NaN"), "{nothing}");
}
