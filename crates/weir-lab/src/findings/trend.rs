//! The trend of a series: a line through the means of blocks of time, with the interval of its
//! slope. Neighbours that resemble each other count as fewer blocks.

use crate::compare::statistics::{ConfidenceInterval, StandardError, mean_of};

/// The largest number of blocks of a series.
const MOST_BLOCKS: usize = 20;
/// The fewest blocks of which a trend is told.
const LEAST_BLOCKS: usize = 5;

/// A point of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrendPoint {
    /// Time in seconds.
    pub t_s: f64,
    /// The value then.
    pub value: f64,
}

/// The line through a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trend {
    /// The value of the line at the first point.
    pub first: f64,
    /// The value of the line at the last point.
    pub last: f64,
    /// The time between them, in seconds.
    pub span_s: f64,
    /// The change per second.
    pub slope: f64,
    /// The interval of 95 % around the slope.
    pub interval: ConfidenceInterval,
}

impl Trend {
    /// The trend of a series in the order of time; `None` if it is too short.
    pub fn of(points: &[TrendPoint]) -> Option<Self> {
        let size = points.len().div_ceil(MOST_BLOCKS).max(1);
        let mean = |block: &[TrendPoint]| {
            let count = block.len() as f64;
            let sum =
                block.iter().fold((0.0, 0.0), |sum, one| (sum.0 + one.t_s, sum.1 + one.value));
            TrendPoint { t_s: sum.0 / count, value: sum.1 / count }
        };
        let blocks: Vec<TrendPoint> = points.chunks(size).map(mean).collect();
        let (first, last) = (points.first()?.t_s, points.last()?.t_s);
        if blocks.len() < LEAST_BLOCKS || last <= first {
            return None;
        }
        let times: Vec<f64> = blocks.iter().map(|block| block.t_s).collect();
        let values: Vec<f64> = blocks.iter().map(|block| block.value).collect();
        let (middle, level) = (mean_of(&times), mean_of(&values));
        let spread: f64 = times.iter().map(|time| (time - middle).powi(2)).sum();
        let product: f64 =
            times.iter().zip(&values).map(|(time, value)| (time - middle) * (value - level)).sum();
        let slope = product / spread;
        let residuals: Vec<f64> = times
            .iter()
            .zip(&values)
            .map(|(time, value)| value - level - slope * (time - middle))
            .collect();
        // The error of a mean of the residuals is that of one residual, divided by the root of
        // their number; a slope has one degree of freedom less.
        let count = residuals.len() as f64;
        let mean_error = StandardError::of_series(&residuals)?;
        let one = mean_error.error * count.sqrt() * ((count - 1.0) / (count - 2.0)).sqrt();
        let error = StandardError {
            error: one / spread.sqrt(),
            degrees: (mean_error.degrees - 1.0).max(1.0),
        };
        Some(Self {
            first: level + slope * (first - middle),
            last: level + slope * (last - middle),
            span_s: last - first,
            slope,
            interval: error.interval(slope),
        })
    }

    /// The change over the whole series.
    pub fn change(&self) -> f64 {
        self.slope * self.span_s
    }
}

#[cfg(test)]
mod tests {
    use super::{Trend, TrendPoint};
    use crate::findings::tests::normal;
    use crate::sim::draw::{Draws, RandomPurpose};

    /// Points one second apart, whose noise resembles that of their neighbours.
    fn series(count: u64, seed: u64, slope: f64, correlation: f64) -> Vec<TrendPoint> {
        let draws = Draws::new(seed, RandomPurpose::Resample);
        let mut last = 0.0;
        (0..count)
            .map(|n| {
                last = correlation * last
                    + (1.0 - correlation * correlation).sqrt() * normal(draws, n);
                TrendPoint { t_s: n as f64, value: 100.0 + slope * n as f64 + last }
            })
            .collect()
    }

    #[test]
    fn a_straight_line_is_found_as_it_is() {
        let points: Vec<TrendPoint> = (0..100)
            .map(|n| TrendPoint { t_s: f64::from(n), value: 5.0 + 2.0 * f64::from(n) })
            .collect();
        let found = Trend::of(&points).unwrap();
        assert!((found.slope - 2.0).abs() < 1e-9 && (found.change() - 198.0).abs() < 1e-6);
        assert!((found.first - 5.0).abs() < 1e-6 && (found.last - 203.0).abs() < 1e-6, "{found:?}");
        assert!((found.interval.high - found.interval.low).abs() < 1e-6);
        assert_eq!(Trend::of(&points[..4]), None);
        assert_eq!(Trend::of(&[]), None);
        assert_eq!(Trend::of(&[points[0]; 50]), None);
    }

    #[test]
    fn intervals_of_slopes_contain_the_true_one_in_most_cases() {
        for (correlation, least) in [(0.0, 0.90), (0.5, 0.90), (0.9, 0.85)] {
            let count = 400;
            let within = (1..=count)
                .filter(|seed| {
                    let interval =
                        Trend::of(&series(200, *seed, 0.01, correlation)).unwrap().interval;
                    interval.low <= 0.01 && 0.01 <= interval.high
                })
                .count();
            let share = within as f64 / count as f64;
            assert!((least..0.995).contains(&share), "{correlation}: {share}");
        }
    }
}
