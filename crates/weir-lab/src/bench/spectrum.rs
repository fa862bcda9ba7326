//! The percentile spectrum of HdrHistogram's own programs and of wrk2. It is written, and read
//! again to compare runs in one chart. This module draws nothing.

use hdrhistogram::Histogram;
use serde_json::Value;
use weir_stats::interchange::{self, TICKS};

/// Upper bound of the lines of a spectrum.
const MAX_POINTS: usize = 100_000;

/// The spectrum of a histogram of nanoseconds as text, in milliseconds, as written by `--hgrm`.
pub fn spectrum(histogram: &Histogram<u64>) -> String {
    interchange::spectrum(histogram, 1e6)
}

/// A curve of a chart: times by percentile.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// The name in the legend.
    pub name: String,
    /// Number of samples.
    pub samples: u64,
    /// Pairs of a share of all samples, from 0 to 1, and the time in milliseconds that it does not
    /// exceed.
    pub points: Vec<(f64, f64)>,
}

impl Curve {
    /// The curve of a histogram of nanoseconds.
    pub fn of(name: &str, histogram: &Histogram<u64>) -> Self {
        let points = histogram
            .iter_quantiles(TICKS)
            .map(|step| (step.quantile_iterated_to(), step.value_iterated_to() as f64 / 1e6));
        Self { name: name.to_owned(), samples: histogram.len(), points: points.collect() }
    }

    /// Reads the first spectrum in a text, which may be an `.hgrm` file, a whole report of wrk2 or
    /// Weir, or Weir's JSON.
    ///
    /// # Errors
    /// One sentence if there is none.
    pub fn read(name: &str, text: &str) -> Result<Self, String> {
        if text.trim_start().starts_with('{') {
            return Self::from_json(name, text);
        }
        let mut lines = text.lines().skip_while(|line| !is_heading(line));
        if lines.next().is_none() {
            return Err(format!(
                "{name} has no percentile spectrum, which begins with a line `Value Percentile TotalCount 1/(1-Percentile)`"
            ));
        }
        let mut curve = Self { name: name.to_owned(), samples: 0, points: Vec::new() };
        for line in lines.take(MAX_POINTS) {
            let cells: Vec<f64> =
                line.split_whitespace().map_while(|cell| cell.parse().ok()).collect();
            match cells.as_slice() {
                [value, share @ 0.0..=1.0, count, ..] if *value >= 0.0 && value.is_finite() => {
                    curve.points.push((*share, *value));
                    curve.samples = *count as u64;
                }
                [] if line.trim().is_empty() => {}
                _ => break,
            }
        }
        if curve.points.is_empty() {
            return Err(format!("the percentile spectrum in {name} has no lines"));
        }
        Ok(curve)
    }

    fn from_json(name: &str, text: &str) -> Result<Self, String> {
        let report: Value = serde_json::from_str(text)
            .map_err(|error| format!("{name} is not valid JSON: {error}"))?;
        let response = &report["response"];
        let points = response["spectrum_ms"].as_array().into_iter().flatten();
        let points: Vec<(f64, f64)> = points
            .take(MAX_POINTS)
            .filter_map(|point| Some((point[0].as_f64()?, point[1].as_f64()?)))
            .filter(|(share, ms)| (0.0..=1.0).contains(share) && *ms >= 0.0)
            .collect();
        let samples = response["samples"].as_u64().unwrap_or(0);
        if points.is_empty() || samples == 0 {
            return Err(format!("{name} is not a report of `weir bench --json`"));
        }
        Ok(Self { name: name.to_owned(), samples, points })
    }
}

fn is_heading(line: &str) -> bool {
    let mut words = line.split_whitespace();
    words.next() == Some("Value") && words.next() == Some("Percentile")
}

#[cfg(test)]
mod tests {
    use hdrhistogram::Histogram;

    use super::{Curve, spectrum};

    #[test]
    fn what_is_written_is_read_again() {
        let mut histogram = Histogram::<u64>::new_with_bounds(64, 1 << 40, 3).unwrap();
        for n in 1..=5000_u64 {
            histogram.record(n * 100_000).unwrap();
        }
        let written = Curve::of("x", &histogram);
        let report = format!(
            "Running 1s test @ http://a\n\n  Detailed Percentile spectrum:\n{}Requests/sec: 5\n",
            spectrum(&histogram)
        );
        let read = Curve::read("x", &report).unwrap();
        assert_eq!((read.samples, read.points.len()), (5000, written.points.len()));
        for (found, expected) in read.points.iter().zip(&written.points) {
            assert!((found.0 - expected.0).abs() < 1e-6 && (found.1 - expected.1).abs() < 1e-3);
        }
    }

    #[test]
    fn what_is_no_spectrum_is_a_sentence() {
        for text in [
            "",
            "{",
            "{}",
            "{\"response\": {\"spectrum_ms\": [[1]], \"samples\": 5}}",
            "Value\n",
            "hello\n1 2 3\n",
            "Value Percentile\nnothing\n",
        ] {
            assert!(Curve::read("FILE", text).unwrap_err().contains("FILE"), "{text}");
        }
        // The last line of wrk2 ends in `inf`; other programs leave that column out.
        let java = "Value Percentile TotalCount 1/(1-Percentile)\n\n1.5 0.5 1 2.00\n2.5 1.000000000000 2\n#[Mean = 2]\n";
        assert_eq!(Curve::read("x", java).unwrap().points, [(0.5, 1.5), (1.0, 2.5)]);
        let wild = "Value Percentile\n1 0.5 1\n2 7 2\n";
        assert_eq!(Curve::read("x", wild).unwrap().points, [(0.5, 1.0)]);
        assert!(Curve::read("x", "Value Percentile\nNaN 0.5 1\n").is_err());
    }
}
