//! Histograms as HdrHistogram's own programs and libraries take them: the percentile distribution as text (`.hgrm`) and the log of
//! histograms (`.hlog`, V2 compressed). What is read from logs of several instances is added up count by count, so the percentiles of a
//! fleet are as exact as those of one process (row NEW-04).

mod log;
mod spectrum;

pub use log::{Interval, Log, Series, Wanted, log_of, read_log, write_log};
pub use spectrum::{TICKS, spectrum};

use hdrhistogram::Histogram;

use crate::numbers::{Distribution, HIGHEST_US, highest_us, index_of, lowest_us};

/// Decimal digits that times are told apart to.
const DIGITS: u8 = 3;

/// A histogram of HdrHistogram's with the same counts, of microseconds.
pub fn to_hdr(times: &Distribution) -> Histogram<u64> {
    let bounds = Histogram::new_with_bounds(1, HIGHEST_US, DIGITS);
    let mut histogram = bounds.expect("these bounds are sound");
    for (place, count) in times.counts() {
        histogram.saturating_record_n(lowest_us(usize::from(*place)), *count);
    }
    histogram
}

/// The same counts as a distribution. Their sum is not in such a histogram: the middle of each place stands for it.
///
/// # Errors
/// One sentence, when it is not of microseconds from 1 to 3,600,000,000 to three digits: its counts would have to be moved.
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
