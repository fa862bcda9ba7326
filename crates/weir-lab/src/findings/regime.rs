//! A change of regime in consecutive runs of one load, such as the end of a machine's CPU credits:
//! an average over it describes neither half (published runs 17 to 20 of 2019).

/// Every run after the change is slower than every run before it, by at least this factor.
const FACTOR: f64 = 2.0;
/// The fewest runs before the change: a single fast run is no regime.
const LEAST_BEFORE: usize = 2;

/// The index of the first run of the new regime; `None` if there is none. The values are times of
/// consecutive runs.
pub fn regime_change(values: &[f64]) -> Option<usize> {
    let mut best: Option<(usize, f64)> = None;
    for first in LEAST_BEFORE..values.len() {
        let (before, after) = values.split_at(first);
        let slowest = before.iter().copied().fold(0.0, f64::max);
        let fastest = after.iter().copied().fold(f64::INFINITY, f64::min);
        let ratio = fastest / slowest.max(f64::MIN_POSITIVE);
        if ratio >= FACTOR && best.is_none_or(|(_, found)| ratio > found) {
            best = Some((first, ratio));
        }
    }
    best.map(|(first, _)| first)
}

#[cfg(test)]
mod tests {
    use super::regime_change;

    #[test]
    fn the_published_runs_change_at_the_seventeenth() {
        let mean_ms = [
            1.926, 6.603, 2.278, 1.943, 2.015, 6.633, 1.932, 1.983, 1.955, 7.223, 2.048, 2.021,
            1.930, 1.960, 6.980, 1.934, 14_020.0, 27_800.0, 28_280.0, 26_400.0,
        ];
        assert_eq!(regime_change(&mean_ms), Some(16));
        assert_eq!(regime_change(&mean_ms[..16]), None);
        assert_eq!(regime_change(&[1.0, 5.0, 5.0]), None);
        assert_eq!(regime_change(&[]), None);
        assert_eq!(regime_change(&[1.0, 1.0, 3.0]), Some(2));
    }
}
