//! The histograms compared with the `hdrhistogram` crate: the same places and the same percentiles,
//! regardless of the order, the number of writers and the way of merging.

use hdrhistogram::Histogram as Yardstick;
use proptest::prelude::*;
use weir_stats::metrics::{Distribution, HIGHEST_US, Histogram, PageBudget, QUANTILES};

fn yardstick(times: &[u64]) -> Yardstick<u64> {
    let mut yardstick = Yardstick::new_with_bounds(1, HIGHEST_US, 3).unwrap();
    for us in times {
        yardstick.saturating_record(*us);
    }
    yardstick
}

fn read(histogram: &Histogram) -> Distribution {
    let mut sum = Distribution::default();
    histogram.read_into(&mut sum);
    sum
}

fn recorded(times: &[u64]) -> Distribution {
    let budget = PageBudget::new(1 << 30);
    let histogram = Histogram::default();
    for us in times {
        histogram.record(*us, &budget);
    }
    read(&histogram)
}

/// Times distributed like latencies: over several octaves, with their bounds among them.
fn times() -> impl Strategy<Value = Vec<u64>> {
    let one = prop_oneof![
        8 => (0_u32..32, 0.0..1.0_f64).prop_map(|(octave, at)| {
            let first = 1_u64 << octave;
            (first as f64 * (1.0 + at)) as u64
        }),
        2 => 0_u64..3_000,
        1 => Just(0),
        1 => (HIGHEST_US - 5)..=HIGHEST_US,
    ];
    prop::collection::vec(one.prop_map(|us| us.min(HIGHEST_US)), 1..400)
}

proptest! {
    #[test]
    fn places_and_percentiles_are_those_of_hdrhistogram(times in times()) {
        let (ours, theirs) = (recorded(&times), yardstick(&times));
        prop_assert_eq!(ours.count(), theirs.len());
        prop_assert_eq!(ours.sum_us(), times.iter().sum::<u64>());
        for quantile in QUANTILES.into_iter().chain([0.001, 0.25, 1.0]) {
            prop_assert_eq!(ours.at_quantile(quantile), theirs.value_at_quantile(quantile));
        }
        prop_assert_eq!(ours.max_us(), theirs.max());
        let counts = theirs.iter_recorded().map(|step| (step.value_iterated_to(), step.count_at_value()));
        let own = ours.counts().iter().map(|(index, count)| {
            (weir_stats::metrics::highest_us(usize::from(*index)), *count)
        });
        prop_assert_eq!(own.collect::<Vec<_>>(), counts.collect::<Vec<_>>());
    }

    #[test]
    fn parts_of_workers_make_the_whole(first in times(), second in times()) {
        let mut sum = recorded(&first);
        sum.add(&recorded(&second));
        let all = [first, second].concat();
        prop_assert_eq!(&sum, &recorded(&all));
        let mut theirs = yardstick(&[]);
        for us in &all {
theirs.saturating_record(*us);
}
        prop_assert_eq!(sum.at_quantile(0.999), theirs.value_at_quantile(0.999));
    }

    #[test]
    fn what_came_between_two_readings_is_their_difference(first in times(), second in times()) {
        let all = [first.clone(), second.clone()].concat();
        prop_assert_eq!(recorded(&all).since(&recorded(&first)), recorded(&second));
    }
}

#[test]
fn longer_than_an_hour_counts_as_an_hour() {
    let all = recorded(&[HIGHEST_US + 1, u64::MAX >> 1]);
    assert_eq!(
        (all.count(), all.at_quantile(0.5)),
        (2, yardstick(&[HIGHEST_US]).value_at_quantile(1.0))
    );
}

#[test]
fn a_reader_beside_the_writer_sees_counts_that_only_grow() {
    let budget = PageBudget::new(1 << 24);
    let histogram = Histogram::default();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            (0..300_000_u64).for_each(|turn| histogram.record(turn % 5_000, &budget));
        });
        let mut before = 0;
        while !writer.is_finished() {
            let count = read(&histogram).count();
            assert!(count >= before);
            before = count;
        }
    });
    assert_eq!(read(&histogram).count(), 300_000);
}
