//! The contents of a histogram at a reading: plain counts that can be added, subtracted and queried
//! for percentiles.

use super::layout::{highest_us, index_of, lowest_us};

/// The quantiles that are shown, from the median to one in a million.
pub const QUANTILES: [f64; 8] = [0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999, 0.999_999];

/// Counts of times, by their place in the layout; places without a count are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Distribution {
    /// Counts by place, ascending.
    counts: Vec<(u16, u64)>,
    sum_us: u64,
    coarse: u64,
}

/// A percentile and the number of samples behind it.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Quantile {
    /// The quantile, from 0 to 1.
    pub quantile: f64,
    /// The time that a share of `quantile` of all did not exceed, µs.
    pub us: u64,
    /// The number of samples at this time or above it. Below about ten the figure is anecdotal.
    pub samples: u64,
}

impl Distribution {
    /// Creates a distribution from counts by place, ascending, and the sum of the times.
    pub(crate) fn from_counts(counts: Vec<(u16, u64)>, sum_us: u64) -> Self {
        Self { counts, sum_us, coarse: 0 }
    }

    /// Creates a distribution of times, µs; for tests and tools.
    pub fn of(times: impl IntoIterator<Item = u64>) -> Self {
        let mut sum = Self::default();
        for us in times {
            sum.add(&Self::from_counts(vec![(index_of(us) as u16, 1)], us));
        }
        sum
    }

    pub(crate) fn note_all_coarse(&mut self) {
        self.coarse = self.count();
    }

    /// The number of times.
    pub fn count(&self) -> u64 {
        self.counts.iter().map(|(_, count)| count).sum()
    }

    /// The sum of the times, µs.
    pub fn sum_us(&self) -> u64 {
        self.sum_us
    }

    /// The number of times that are known to 3 to 6 % only, because no memory was left for more.
    pub fn coarse(&self) -> u64 {
        self.coarse
    }

    /// The mean, µs; 0 if empty.
    pub fn mean_us(&self) -> f64 {
        if self.counts.is_empty() { 0.0 } else { self.sum_us as f64 / self.count() as f64 }
    }

    /// The shortest time, µs, to three digits; 0 if empty.
    pub fn min_us(&self) -> u64 {
        self.counts.first().map_or(0, |(index, _)| lowest_us(usize::from(*index)))
    }

    /// The longest time, µs, to three digits; 0 if empty.
    pub fn max_us(&self) -> u64 {
        self.counts.last().map_or(0, |(index, _)| highest_us(usize::from(*index)))
    }

    /// Counts by place, ascending, for merging elsewhere: HdrHistogram's indexes for 1 to
    /// 3,600,000,000 with three digits.
    pub fn counts(&self) -> &[(u16, u64)] {
        &self.counts
    }

    /// Adds the counts of `other`.
    pub fn add(&mut self, other: &Self) {
        self.sum_us = self.sum_us.wrapping_add(other.sum_us);
        self.coarse += other.coarse;
        if self.counts.is_empty() {
            self.counts.clone_from(&other.counts);
        } else if !other.counts.is_empty() {
            self.counts = joined(&self.counts, &other.counts);
        }
    }

    /// The difference to `earlier`, a former reading of the same histograms.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut before = earlier.counts.iter().peekable();
        let mut counts = Vec::new();
        for (index, count) in &self.counts {
            while before.next_if(|(place, _)| place < index).is_some() {}
            let had = before.next_if(|(place, _)| place == index).map_or(0, |(_, had)| *had);
            let more = count.saturating_sub(had);
            if more > 0 {
                counts.push((*index, more));
            }
        }
        Self {
            counts,
            sum_us: self.sum_us.wrapping_sub(earlier.sum_us),
            coarse: self.coarse.saturating_sub(earlier.coarse),
        }
    }

    /// The time that a share of `quantile` of all did not exceed, µs; 0 if empty. As in
    /// HdrHistogram, the longest time of its place.
    pub fn at_quantile(&self, quantile: f64) -> u64 {
        self.quantile(quantile).us
    }

    /// The same time with the number of samples behind it.
    pub fn quantile(&self, quantile: f64) -> Quantile {
        let quantile = quantile.clamp(0.0, 1.0);
        let total = self.count();
        let wanted = ((quantile * total as f64).ceil() as u64).max(1);
        let mut seen = 0;
        for (index, count) in &self.counts {
            if seen + count >= wanted {
                let us = highest_us(usize::from(*index));
                return Quantile { quantile, us, samples: total - seen };
            }
            seen += count;
        }
        Quantile { quantile, us: self.max_us(), samples: 0 }
    }

    /// The quantiles of [`QUANTILES`].
    pub fn quantiles(&self) -> Vec<Quantile> {
        QUANTILES.iter().map(|quantile| self.quantile(*quantile)).collect()
    }

    /// The number of times up to each of `bounds_us`, which ascend. A place that contains a bound
    /// counts as above it.
    pub fn cumulative(&self, bounds_us: &[u64]) -> Vec<u64> {
        let mut counts = self.counts.iter().peekable();
        let mut sum = 0;
        let up_to = |bound: &u64| {
            let below = |(index, _): &&(u16, u64)| highest_us(usize::from(*index)) <= *bound;
            while let Some((_, count)) = counts.next_if(below) {
                sum += count;
            }
            sum
        };
        bounds_us.iter().map(up_to).collect()
    }
}

fn joined(own: &[(u16, u64)], theirs: &[(u16, u64)]) -> Vec<(u16, u64)> {
    let mut all = Vec::with_capacity(own.len().max(theirs.len()));
    let (mut own, mut theirs) = (own.iter().peekable(), theirs.iter().peekable());
    while let (Some((mine, count)), Some((other, more))) = (own.peek(), theirs.peek()) {
        match mine.cmp(other) {
            std::cmp::Ordering::Less => all.extend(own.next()),
            std::cmp::Ordering::Greater => all.extend(theirs.next()),
            std::cmp::Ordering::Equal => {
                all.push((*mine, count + more));
                own.next();
                theirs.next();
            }
        }
    }
    all.extend(own);
    all.extend(theirs);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_says_how_many_samples_are_behind_it() {
        let all = Distribution::of(1..=10_000);
        let one = |quantile, us, samples| {
            assert_eq!(all.quantile(quantile), Quantile { quantile, us, samples });
        };
        one(0.0, 1, 10_000);
        one(0.1, 1_000, 9_001);
        // The times 9,992 to 9,999 share one place.
        one(0.9999, 9_999, 9);
        one(1.0, 10_007, 1);
        assert_eq!(Distribution::default().quantile(0.5).us, 0);
    }

    #[test]
    fn what_came_later_is_the_difference() {
        let (first, second) = (Distribution::of([5, 5, 900]), Distribution::of([5, 70_000]));
        let mut both = first.clone();
        both.add(&second);
        assert_eq!(both.since(&first), second);
        assert_eq!(both.since(&both), Distribution::default());
        assert_eq!((both.count(), both.sum_us()), (5, 70_915));
    }

    #[test]
    fn cumulative_counts_end_with_all_of_them() {
        let all = Distribution::of([0, 1, 100, 5_000, 1_000_000]);
        assert_eq!(all.cumulative(&[0, 50, 100, 1_000, 10_000, 10_000_000]), [1, 2, 3, 3, 4, 5]);
    }
}
