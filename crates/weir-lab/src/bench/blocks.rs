//! Histograms of consecutive blocks of a run. How they differ from each other shows how far a
//! figure of the run can be trusted: requests near in time resemble each other, so their number
//! does not.

use hdrhistogram::Histogram;

use super::record::{FINEST_NS, LONGEST_NS};

/// Largest number of blocks; a run that is not very short has at least half of them.
pub(crate) const MOST_BLOCKS: usize = 20;
/// Length of a block at first, in nanoseconds. It doubles whenever the blocks are used up.
const FIRST_WIDTH_NS: u64 = 50_000_000;
/// Significant digits of times in the histogram of a block: 20 of them take 360 KB.
const DIGITS: u8 = 2;

/// The response times of a run by the block of time in which the requests were due.
#[derive(Clone, Debug)]
pub struct TimeBlocks {
    width_ns: u64,
    blocks: Vec<Histogram<u32>>,
}

impl TimeBlocks {
    pub(super) fn new() -> Self {
        let block = Histogram::new_with_bounds(FINEST_NS, LONGEST_NS, DIGITS)
            .unwrap_or_else(|error| unreachable!("the bounds are constants that fit: {error}"));
        // All of them at once, so that the memory of a run does not grow.
        Self { width_ns: FIRST_WIDTH_NS, blocks: vec![block; MOST_BLOCKS] }
    }

    pub(super) fn add(&mut self, intended_ns: u64, response_ns: u64) {
        while intended_ns / self.width_ns >= MOST_BLOCKS as u64 {
            self.widen();
        }
        if let Some(block) = self.blocks.get_mut((intended_ns / self.width_ns) as usize) {
            block.saturating_record(response_ns);
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        let mut other = other.clone();
        while self.width_ns < other.width_ns {
            self.widen();
        }
        while other.width_ns < self.width_ns {
            other.widen();
        }
        for (own, theirs) in self.blocks.iter_mut().zip(&other.blocks) {
            add(own, theirs);
        }
    }

    /// The length of a block, in nanoseconds.
    pub fn width_ns(&self) -> u64 {
        self.width_ns
    }

    /// The blocks up to the last one with a request.
    pub fn used(&self) -> &[Histogram<u32>] {
        let used =
            self.blocks.iter().rposition(|block| !block.is_empty()).map_or(0, |last| last + 1);
        self.blocks.get(..used).unwrap_or_default()
    }

    /// Doubles the length of the blocks: each two become one.
    fn widen(&mut self) {
        self.width_ns *= 2;
        for pair in 0..MOST_BLOCKS / 2 {
            self.blocks.swap(pair, 2 * pair);
            if let Some([one, .., other]) = self.blocks.get_mut(pair..=2 * pair + 1) {
                add(one, other);
            }
        }
        self.blocks.iter_mut().skip(MOST_BLOCKS / 2).for_each(Histogram::reset);
    }
}

fn add(own: &mut Histogram<u32>, theirs: &Histogram<u32>) {
    // Both have the same bounds, so adding cannot fail.
    let added = own.add(theirs);
    debug_assert!(added.is_ok(), "histograms of blocks have one shape");
}

#[cfg(test)]
mod tests {
    use super::TimeBlocks;

    const MS: u64 = 1_000_000;

    fn counts(blocks: &TimeBlocks) -> Vec<u64> {
        blocks.used().iter().map(hdrhistogram::Histogram::len).collect()
    }

    #[test]
    fn blocks_grow_with_the_run_and_lose_no_request() {
        let mut blocks = TimeBlocks::new();
        assert!(counts(&blocks).is_empty());
        for n in 0..100 {
            blocks.add(n * 10 * MS, MS);
        }
        assert_eq!((blocks.width_ns(), counts(&blocks)), (50 * MS, vec![5; 20]));
        // One more second takes blocks of twice the length; the last one is for what comes later.
        for n in 100..190 {
            blocks.add(n * 10 * MS, MS);
        }
        assert_eq!((blocks.width_ns(), counts(&blocks)), (100 * MS, vec![10; 19]));
        blocks.add(1_000_000 * MS, MS);
        assert_eq!(blocks.width_ns(), 51_200 * MS);
        let found = counts(&blocks);
        assert_eq!((found.len(), found.iter().sum::<u64>(), found[0]), (20, 191, 190));
    }

    #[test]
    fn requests_stay_in_their_block_when_blocks_are_merged() {
        let mut whole = TimeBlocks::new();
        let mut parts = [TimeBlocks::new(), TimeBlocks::new()];
        for n in 0..1000 {
            // One thread has requests of the first second only.
            let part = usize::from(n >= 500 && n % 2 == 0);
            whole.add(n * 2 * MS, n * MS);
            parts[part].add(n * 2 * MS, n * MS);
        }
        let [mut sum, other] = parts;
        sum.merge(&other);
        assert_eq!((sum.width_ns(), sum.used()), (whole.width_ns(), whole.used()));
        let [mut first, mut last] = [TimeBlocks::new(), TimeBlocks::new()];
        first.add(0, MS);
        last.add(1_500 * MS, MS);
        let narrow = first.clone();
        first.merge(&last);
        last.merge(&narrow);
        assert_eq!((first.width_ns(), first.used()), (last.width_ns(), last.used()));
        assert_eq!(first.used()[0].len(), 1);
    }
}
