//! The buckets of Prometheus' native histograms: each is wider than the one before by the same
//! factor, and only buckets with counts are present. They are computed from a [`Distribution`] and
//! keep every one of its counts.

use super::distribution::Distribution;
use super::layout::highest_us;

/// Prometheus' schema number for buckets of a 32nd of an octave: bucket n ends at `2^(n/32)`
/// seconds, inclusive, and begins at the end of bucket n-1, which is 2.2 % lower.
pub const SCHEMA: i32 = 5;
/// The number of buckets in an octave.
const PER_OCTAVE: f64 = 32.0;
/// The upper bound of the zero bucket, for times below one microsecond: 2^-20 s is the highest
/// bucket bound below 1 µs.
pub const ZERO_THRESHOLD_S: f64 = 1.0 / 1_048_576.0;

/// Counts by bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NativeBuckets {
    /// The number of times below 1 µs.
    pub zero: u64,
    /// Counts by bucket number, ascending; buckets without a count are left out.
    pub counts: Vec<(i32, u64)>,
}

impl NativeBuckets {
    /// Converts a distribution. The counts of each place go to the bucket that contains the longest
    /// time of the place, which is the value that HdrHistogram reports for them. A count is
    /// therefore at most a thousandth of its time too high, and the total is exact.
    pub fn of(times: &Distribution) -> Self {
        let mut buckets = Self::default();
        for (place, count) in times.counts() {
            let us = highest_us(usize::from(*place));
            if us == 0 {
                buckets.zero += count;
                continue;
            }
            let bucket = bucket_of(us);
            match buckets.counts.last_mut() {
                Some((last, sum)) if *last == bucket => *sum += count,
                _ => buckets.counts.push((bucket, *count)),
            }
        }
        buckets
    }
}

/// The bucket that contains a time.
fn bucket_of(us: u64) -> i32 {
    // The bounds are powers of two with fractional exponents: only those with whole exponents are a
    // whole number of microseconds, and their logarithms are exact.
    ((us as f64 / 1e6).log2() * PER_OCTAVE).ceil() as i32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::HIGHEST_US;

    fn upper_s(bucket: i32) -> f64 {
        (f64::from(bucket) / PER_OCTAVE).exp2()
    }

    #[test]
    fn every_time_is_between_the_bounds_of_its_bucket() {
        let check = |us: u64| {
            let (bucket, seconds) = (bucket_of(us), us as f64 / 1e6);
            let within = upper_s(bucket - 1) < seconds && seconds <= upper_s(bucket);
            assert!(within, "{us} in {bucket}");
        };
        (1..200_000).for_each(check);
        let mut us = 200_000;
        while us <= HIGHEST_US {
            check(us);
            us += us / 5_003;
        }
        assert_eq!([1, 2, 4].map(|second| bucket_of(second * 1_000_000)), [0, 32, 64]);
        assert_eq!([500_000, 15_625].map(bucket_of), [-32, -192]);
        assert!(ZERO_THRESHOLD_S < 1e-6 && upper_s(bucket_of(1) - 1) >= ZERO_THRESHOLD_S);
    }

    #[test]
    fn no_count_is_lost_or_moved_by_more_than_a_thousandth() {
        let times: Vec<u64> = (0..4_000).map(|turn| turn * turn * 211 % 3_000_000_017).collect();
        let all = Distribution::of(times.iter().copied());
        let buckets = NativeBuckets::of(&all);
        assert_eq!(buckets.zero, times.iter().filter(|us| **us == 0).count() as u64);
        let sum: u64 = buckets.counts.iter().map(|(_, count)| count).sum();
        assert_eq!(sum + buckets.zero, all.count());
        assert!(buckets.counts.windows(2).all(|pair| pair[0].0 < pair[1].0));
        let mut below = buckets.zero;
        for (bucket, count) in &buckets.counts {
            below += count;
            let bound_us = upper_s(*bucket) * 1e6;
            let fewest = times.iter().filter(|us| (**us as f64) < bound_us * 0.999).count() as u64;
            let most = times.iter().filter(|us| **us as f64 <= bound_us).count() as u64;
            assert!((fewest..=most).contains(&below), "{below} below {bound_us}");
        }
    }
}
