//! The percentile distribution of HdrHistogram's own programs and of wrk2: the contents of `.hgrm`
//! files, as its plotter reads them.

use std::fmt::Write;

use hdrhistogram::Histogram;

/// The number of lines for each halving of the distance to 100 %.
pub const TICKS: u32 = 5;

/// Formats the distribution as text, in milliseconds; `per_ms` is the number of the histogram's
/// units per millisecond.
pub fn spectrum(histogram: &Histogram<u64>, per_ms: f64) -> String {
    let mut out = format!(
        "{:>12} {:>12} {:>12} {:>12}\n\n",
        "Value", "Percentile", "TotalCount", "1/(1-Percentile)"
    );
    let mut total = 0;
    for step in histogram.iter_quantiles(TICKS) {
        total += step.count_since_last_iteration();
        let quantile = step.quantile_iterated_to();
        let value = step.value_iterated_to() as f64 / per_ms;
        let inverse = if quantile < 1.0 {
            format!("{:12.2}", 1.0 / (1.0 - quantile))
        } else {
            format!("{:>12}", "inf")
        };
        let _ = writeln!(out, "{value:12.3} {quantile:12.6} {total:12} {inverse}");
    }
    // An empty histogram has mean 0, not NaN.
    let of = |figure: f64| if histogram.is_empty() { 0.0 } else { figure / per_ms };
    let (mean, deviation) = (of(histogram.mean()), of(histogram.stdev()));
    let _ = writeln!(out, "#[Mean    = {mean:12.3}, StdDeviation   = {deviation:12.3}]");
    let (max, count) = (histogram.max() as f64 / per_ms, histogram.len());
    let _ = writeln!(out, "#[Max     = {max:12.3}, Total count    = {count:12}]");
    // For three digits HdrHistogram divides each power of two into 2,048 sub-buckets.
    let _ = writeln!(out, "#[Buckets = {:12}, SubBuckets     = {:12}]", histogram.buckets(), 2048);
    out
}
