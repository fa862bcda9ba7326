//! Histograms in the formats of HdrHistogram's own programs and libraries: the percentile
//! distribution as text (`.hgrm`) and the histogram log (`.hlog`, V2 compressed). Logs of several
//! instances are added up count by count, so the percentiles of a fleet are as exact as those of
//! one process.

mod log;
mod spectrum;

pub use log::{Interval, Log, Series, Wanted, log_of, read_log, write_log};
pub use spectrum::{TICKS, spectrum};

use hdrhistogram::Histogram;

use crate::metrics::{Distribution, HIGHEST_US, highest_us, index_of, lowest_us};

/// The number of significant decimal digits.
const DIGITS: u8 = 3;

/// Converts a distribution to an HdrHistogram of microseconds with the same counts.
pub fn to_hdr(times: &Distribution) -> Histogram<u64> {
    let bounds = Histogram::new_with_bounds(1, HIGHEST_US, DIGITS);
    let mut histogram = bounds.expect("these bounds are sound");
    for (place, count) in times.counts() {
        histogram.saturating_record_n(lowest_us(usize::from(*place)), *count);
    }
    histogram
}

/// Converts an HdrHistogram to a distribution with the same counts. The sum is not part of such a
/// histogram: it is computed from the middle of each bucket.
///
/// # Errors
/// Returns one sentence if the histogram is not one of microseconds from 1 to 3,600,000,000 with
/// three digits: its counts would have to change buckets.
pub fn from_hdr(histogram: &Histogram<u64>) -> Result<Distribution, String> {
    let kept = (histogram.low(), histogram.high(), histogram.sigfig());
    if kept != (1, HIGHEST_US, DIGITS) {
        let (low, high, digits) = kept;
        return Err(format!(
            "it is kept from {low} to {high} with {digits} digits, and Weir's from 1 to {HIGHEST_US} µs with {DIGITS}"
        ));
    }
    let (mut counts, mut sum_us) = (Vec::new(), 0_u64);
    for step in histogram.iter_recorded() {
        let (place, count) = (index_of(step.value_iterated_to()), step.count_at_value());
        let middle_us = u64::midpoint(lowest_us(place), highest_us(place));
        counts.push((place as u16, count));
        sum_us = sum_us.wrapping_add(middle_us.wrapping_mul(count));
    }
    Ok(Distribution::from_counts(counts, sum_us))
}
