//! Confidence intervals from repeated measurements, by batching: the estimate is the mean of the
//! sections (the repetitions, or the blocks of one run), its error comes from their scatter, with
//! Student's t for their small number (Asmussen and Glynn: Stochastic Simulation, 2007, section
//! III.5a). With few repetitions a bootstrap's intervals are too narrow: those of five repetitions
//! that claim 95 % hold in 82 of 100 cases. Sections around the figure of all data together
//! (sectioning) have to come from one distribution: one disturbed run sets the p99 of all, every
//! quiet one is equally far from it, and that looks like certainty.

/// The probability with which an interval contains the true value.
pub const LEVEL: f64 = 0.95;
/// Largest autocorrelation of neighbours that is corrected for; a series with more is no sample.
const MOST_CORRELATION: f64 = 0.9;

/// A standard error with its degrees of freedom.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StandardError {
    /// The standard deviation of the estimate.
    pub error: f64,
    /// The degrees of freedom of that figure.
    pub degrees: f64,
}

/// An interval of confidence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ConfidenceInterval {
    /// The lower limit.
    pub low: f64,
    /// The upper limit.
    pub high: f64,
}

impl StandardError {
    /// The error of the mean of independent sections; `None` for fewer than two.
    pub fn of_sections(sections: &[f64]) -> Option<Self> {
        let count = sections.len() as f64;
        if sections.len() < 2 {
            return None;
        }
        let mean = mean_of(sections);
        let squares: f64 = sections.iter().map(|section| (section - mean).powi(2)).sum();
        let variance = squares / (count - 1.0) / count;
        Some(Self { error: variance.sqrt(), degrees: count - 1.0 })
    }

    /// The same for consecutive sections of one series. Neighbours that resemble each other count
    /// as fewer sections, as in an autoregressive process of order one.
    pub fn of_series(sections: &[f64]) -> Option<Self> {
        let plain = Self::of_sections(sections)?;
        let count = sections.len() as f64;
        let correlation = correlation_of_neighbours(sections).clamp(0.0, MOST_CORRELATION);
        let inflation = ((1.0 + correlation) / (1.0 - correlation)).min(count / 2.0);
        // The scatter of such a series is too small, too, by the variance of its mean.
        let variance = plain.error.powi(2) * inflation * (count - 1.0) / (count - inflation);
        Some(Self { error: variance.sqrt(), degrees: (count / inflation - 1.0).max(1.0) })
    }

    /// The error of the difference of two independent estimates (Welch and Satterthwaite).
    #[must_use]
    pub fn of_difference(self, other: Self) -> Self {
        let (own, theirs) = (self.error.powi(2), other.error.powi(2));
        let spread = own.powi(2) / self.degrees + theirs.powi(2) / other.degrees;
        let degrees = if spread > 0.0 {
            (own + theirs).powi(2) / spread
        } else {
            self.degrees + other.degrees
        };
        Self { error: (own + theirs).sqrt(), degrees }
    }

    /// At least this error, for estimates that are rounded.
    #[must_use]
    pub fn at_least(self, error: f64) -> Self {
        Self { error: self.error.max(error), ..self }
    }

    /// The interval around an estimate that contains the true value with probability [`LEVEL`].
    pub fn interval(self, estimate: f64) -> ConfidenceInterval {
        let half = quantile_of_t(LEVEL, self.degrees) * self.error;
        ConfidenceInterval { low: estimate - half, high: estimate + half }
    }

    /// The probability of an estimate at least this far from zero if the true value is zero.
    pub fn p_value(self, estimate: f64) -> f64 {
        if self.error > 0.0 {
            beyond_t((estimate / self.error).abs(), self.degrees)
        } else if estimate == 0.0 {
            1.0
        } else {
            0.0
        }
    }
}

impl ConfidenceInterval {
    /// The same with both limits changed by a monotonic function.
    #[must_use]
    pub fn map(self, change: impl Fn(f64) -> f64) -> Self {
        Self { low: change(self.low), high: change(self.high) }
    }
}

/// The mean of sections.
pub fn mean_of(sections: &[f64]) -> f64 {
    sections.iter().sum::<f64>() / sections.len() as f64
}

/// The hypotheses that can be rejected together so that the probability of one or more wrong
/// rejections is at most 1 − [`LEVEL`] (Holm 1979), in the order of the p-values given.
pub fn rejected_together(p_values: &[f64]) -> Vec<bool> {
    rejected_with_risk(p_values, 1.0 - LEVEL)
}

/// The same for another probability of a wrong rejection.
pub fn rejected_with_risk(p_values: &[f64], risk: f64) -> Vec<bool> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|one, other| p_values[*one].total_cmp(&p_values[*other]));
    let mut rejected = vec![false; p_values.len()];
    for (rank, index) in order.into_iter().enumerate() {
        if p_values[index] > risk / (p_values.len() - rank) as f64 {
            break;
        }
        rejected[index] = true;
    }
    rejected
}

/// The autocorrelation of neighbours, corrected for the bias of its estimate in a short series
/// (Kendall: Note on bias in the estimation of autocorrelation, 1954).
fn correlation_of_neighbours(series: &[f64]) -> f64 {
    let count = series.len() as f64;
    let mean = mean_of(series);
    let square: f64 = series.iter().map(|value| (value - mean).powi(2)).sum();
    let products: f64 = series.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum();
    if square > 0.0 && count > 3.0 {
        (products / square + 1.0 / count) / (1.0 - 3.0 / count)
    } else {
        0.0
    }
}

/// The t that a variable with Student's distribution exceeds in magnitude with probability
/// 1 − `level`.
fn quantile_of_t(level: f64, degrees: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    while beyond_t(high, degrees) > 1.0 - level {
        high *= 2.0;
    }
    for _ in 0..100 {
        let middle = f64::midpoint(low, high);
        if beyond_t(middle, degrees) > 1.0 - level { low = middle } else { high = middle }
    }
    f64::midpoint(low, high)
}

/// The probability that a variable with Student's distribution exceeds `t` in magnitude.
fn beyond_t(t: f64, degrees: f64) -> f64 {
    incomplete_beta(degrees / (degrees + t * t), degrees / 2.0, 0.5)
}

/// The regularized incomplete beta function, by its continued fraction (Numerical Recipes, third
/// edition, section 6.4).
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    let front = a * x.ln() + b * (1.0 - x).ln() + ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b);
    if x < (a + 1.0) / (a + b + 2.0) {
        front.exp() * fraction_of_beta(x, a, b) / a
    } else {
        1.0 - front.exp() * fraction_of_beta(1.0 - x, b, a) / b
    }
}

/// The continued fraction of the incomplete beta function, by Lentz's method.
fn fraction_of_beta(x: f64, a: f64, b: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let bounded = |value: f64| if value.abs() < TINY { TINY } else { value };
    let mut numerator = 1.0;
    let mut denominator = 1.0 / bounded(1.0 - (a + b) * x / (a + 1.0));
    let mut value = denominator;
    for step in 1..1000 {
        let m = f64::from(step);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        denominator = 1.0 / bounded(1.0 + even * denominator);
        numerator = bounded(1.0 + even / numerator);
        value *= denominator * numerator;
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        denominator = 1.0 / bounded(1.0 + odd * denominator);
        numerator = bounded(1.0 + odd / numerator);
        let change = denominator * numerator;
        value *= change;
        if (change - 1.0).abs() < 1e-14 {
            break;
        }
    }
    value
}

/// The logarithm of the gamma function of a positive number (Lanczos's approximation).
fn ln_gamma(x: f64) -> f64 {
    const TERMS: [f64; 6] = [
        76.180_091_729_471_46,
        -86.505_320_329_416_77,
        24.014_098_240_830_91,
        -1.231_739_572_450_155,
        0.120_865_097_386_617_9e-2,
        -0.539_523_938_495_3e-5,
    ];
    let base = x + 5.5;
    let mut sum = 1.000_000_000_190_015;
    for (number, term) in TERMS.iter().enumerate() {
        sum += term / (x + 1.0 + number as f64);
    }
    (x + 0.5) * base.ln() - base + (2.506_628_274_631_000_5 * sum / x).ln()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::tests::normal;

    fn near(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-3 * expected.abs().max(1.0), "{found} {expected}");
    }

    #[test]
    fn quantiles_of_t_are_those_of_the_tables() {
        for (degrees, expected) in
            [(1.0, 12.706), (2.0, 4.303), (4.0, 2.776), (9.0, 2.262), (30.0, 2.042), (1e6, 1.960)]
        {
            near(quantile_of_t(0.95, degrees), expected);
            near(beyond_t(expected, degrees), 0.05);
        }
        near(quantile_of_t(0.99, 9.0), 3.250);
        near(beyond_t(0.0, 3.0), 1.0);
    }

    /// A paired example that can be computed by hand: the differences 1, 2, 3, 4 have the mean 2.5
    /// and the standard error 0.6455.
    #[test]
    fn an_error_is_that_of_the_mean() {
        let error = StandardError::of_sections(&[1.0, 2.0, 3.0, 4.0]).unwrap();
        near(error.error, 0.645_5);
        let interval = error.interval(2.5);
        near(interval.low, 0.445_7);
        near(interval.high, 4.554_3);
        near(error.p_value(2.5), 0.030_5);
        assert_eq!(StandardError::of_sections(&[1.0]), None);
        // Welch's example with equal errors has the sum of their degrees.
        let both = error.of_difference(error);
        near(both.error, 0.912_9);
        near(both.degrees, 6.0);
        // Figures that never vary have an error of nothing, unless they are rounded.
        let none = StandardError::of_sections(&[1.0, 1.0]).unwrap();
        assert_eq!((none.p_value(0.0), none.p_value(0.1)), (1.0, 0.0));
        assert!(none.at_least(0.1).interval(0.1).low < 0.0);
    }

    #[test]
    fn several_hypotheses_are_rejected_together_by_holms_rule() {
        assert_eq!(rejected_together(&[0.04, 0.01, 0.03]), [false, true, false]);
        assert_eq!(rejected_together(&[0.02, 0.01, 0.03]), [true, true, true]);
        assert_eq!(rejected_together(&[0.04]), [true]);
        assert!(rejected_together(&[]).is_empty());
    }

    /// The share of intervals that contain the true value, 0, over series of `count` values.
    fn coverage(
        count: usize,
        correlation: f64,
        error_of: impl Fn(&[f64]) -> Option<StandardError>,
    ) -> f64 {
        let rounds = 4000;
        let mut number = 0;
        let mut next = || {
            number += 1;
            normal(11, number)
        };
        let mut within = 0;
        for _ in 0..rounds {
            let mut last = next();
            let series: Vec<f64> = (0..count)
                .map(|_| {
                    last = correlation * last + (1.0 - correlation * correlation).sqrt() * next();
                    last
                })
                .collect();
            let interval = error_of(&series).unwrap().interval(mean_of(&series));
            within += u32::from(interval.low <= 0.0 && 0.0 <= interval.high);
        }
        f64::from(within) / f64::from(rounds)
    }

    #[test]
    fn intervals_contain_the_true_value_in_95_of_100_cases_however_few_sections_there_are() {
        for count in [2, 3, 5, 10, 20] {
            let share = coverage(count, 0.0, StandardError::of_sections);
            assert!((share - 0.95).abs() < 0.012, "{count} sections: {share}");
        }
    }

    #[test]
    fn intervals_of_a_series_allow_for_neighbours_that_resemble_each_other() {
        // Without the correction, half of the intervals miss the true value.
        assert!(coverage(20, 0.6, StandardError::of_sections) < 0.72);
        for (correlation, least) in [(0.0, 0.94), (0.3, 0.93), (0.6, 0.91)] {
            let share = coverage(20, correlation, StandardError::of_series);
            assert!((least..0.99).contains(&share), "{correlation}: {share}");
        }
    }
}
