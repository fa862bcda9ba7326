//! The standard normal distribution: cumulative share and quantile. It draws no numbers.

/// The share of a standard normal variable at or below `x`; the error is below 1e-13 where it
/// matters.
pub(super) fn share(x: f64) -> f64 {
    let density = (-x * x / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
    if x.abs() < 3.0 {
        // The series of Marsaglia (Evaluating the normal distribution, 2004): 1/2 + density · (x +
        // x³/3 + x⁵/(3·5) + …).
        let mut term = x;
        let mut sum = x;
        let mut odd = 3.0;
        while term.abs() > 1e-17 * sum.abs() && odd < 400.0 {
            term *= x * x / odd;
            sum += term;
            odd += 2.0;
        }
        return 0.5 + density * sum;
    }
    // Laplace's continued fraction for the tail: density / (x + 1/(x + 2/(x + 3/(x + …)))).
    let distance = x.abs();
    let mut fraction = distance;
    for step in (1..=120).rev() {
        fraction = distance + f64::from(step) / fraction;
    }
    let tail = density / fraction;
    if x > 0.0 { 1.0 - tail } else { tail }
}

/// The value that a share `p` does not exceed. For 0 and 1 the result is finite: that of the
/// smallest distance from them.
///
/// It starts with a rational approximation (Hastings, Approximations for digital computers, 1955;
/// Abramowitz and Stegun 26.2.23), followed by Newton's steps on the logarithm of the tail, which
/// converge in a few steps from a near start.
pub(super) fn quantile(p: f64) -> f64 {
    let upper = p > 0.5;
    let tail = if upper { 1.0 - p } else { p };
    if tail > 0.499_999_999_999 {
        return 0.0;
    }
    let tail = tail.max(1e-300);
    let t = (-2.0 * tail.ln()).sqrt();
    let numerator = 2.515_517 + t * (0.802_853 + t * 0.010_328);
    let denominator = 1.0 + t * (1.432_788 + t * (0.189_269 + t * 0.001_308));
    let mut distance = (t - numerator / denominator).max(0.0);
    for _ in 0..4 {
        let found = share(-distance);
        let density = (-distance * distance / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
        if density <= 0.0 || found <= 0.0 {
            break;
        }
        distance += (found.ln() - tail.ln()) * found / density;
    }
    if upper { distance } else { -distance }
}

#[cfg(test)]
mod tests {
    use super::{quantile, share};

    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (p, expected) in [
            (0.5, 0.0),
            (0.75, 0.674_489_750_196_081_7),
            (0.9, 1.281_551_565_544_600_4),
            (0.975, 1.959_963_984_540_054),
            (0.99, 2.326_347_874_040_841),
            (0.999, 3.090_232_306_167_813_5),
            (0.9999, 3.719_016_485_455_709),
            (0.999_999, 4.753_424_308_822_899),
        ] {
            assert!((quantile(p) - expected).abs() < 1e-9, "{p}: {}", quantile(p));
            assert!((quantile(1.0 - p) + expected).abs() < 1e-9, "{p}: {}", quantile(1.0 - p));
        }
    }

    #[test]
    fn share_and_quantile_undo_each_other() {
        let mut p = 1e-12;
        while p < 1.0 {
            let back = share(quantile(p));
            assert!((back - p).abs() < 1e-11 * p.max(1e-3), "{p}: {back}");
            p = p * 1.7 + 1e-5;
        }
        assert!(quantile(0.0) < -30.0 && quantile(0.0).is_finite());
        assert!(quantile(1.0) > 30.0 && quantile(1.0).is_finite());
    }
}
