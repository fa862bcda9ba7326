//! Counts of times by how long they took. Memory is taken in pages, when the first time of a page comes, and from one budget for the
//! process; beyond it times are counted more coarsely, never lost.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use super::counter::Counter;
use super::distribution::Distribution;
use super::layout::{INDEXES, OCTAVES, PLACES, index_of};

/// Counts of a page: 256 bytes.
const PAGE: usize = 64;
/// Pages of an octave.
const PAGES: usize = PLACES / PAGE;

type Page = [AtomicU32; PAGE];
type Octave = [OnceLock<Box<Page>>; PAGES];
/// One count for each page that could not be had.
type Coarse = [AtomicU32; INDEXES / PAGE];

/// How many pages all histograms of a process may still take.
#[derive(Debug)]
pub struct PageBudget {
    left: AtomicUsize,
    taken: AtomicUsize,
}

impl PageBudget {
    /// A budget of so many bytes.
    pub fn new(bytes: usize) -> Self {
        Self { left: AtomicUsize::new(bytes / size_of::<Page>()), taken: AtomicUsize::new(0) }
    }

    /// Bytes that pages hold now.
    pub fn taken_bytes(&self) -> usize {
        self.taken.load(Ordering::Relaxed) * size_of::<Page>()
    }

    fn take(&self) -> Option<()> {
        let less = |left: usize| left.checked_sub(1);
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).ok()?;
        self.taken.fetch_add(1, Ordering::Relaxed);
        Some(())
    }

    fn give_back(&self, pages: usize) {
        self.left.fetch_add(pages, Ordering::Relaxed);
        self.taken.fetch_sub(pages, Ordering::Relaxed);
    }
}

/// Counts of times from 1 µs to 1 h, three digits each. One thread records, any thread reads.
#[derive(Debug, Default)]
pub struct Histogram {
    /// Times of nothing: the commonest, so they need no page.
    zeros: Counter,
    sum_us: Counter,
    octaves: [OnceLock<Box<Octave>>; OCTAVES],
    coarse: OnceLock<Box<Coarse>>,
    /// Places whose count went past 2³², once for each time it did.
    carries: Mutex<Vec<u16>>,
}

impl Histogram {
    /// Counts one time, µs. Its page, if it is the first of it, is taken from `budget`: always give the same one.
    #[inline]
    pub fn record(&self, us: u64, budget: &PageBudget) {
        if us == 0 {
            self.zeros.add(1);
            return;
        }
        self.sum_us.add(us);
        let index = index_of(us);
        let octave = self.octaves.get(index / PLACES).and_then(OnceLock::get);
        let page = octave.and_then(|octave| octave.get(index / PAGE % PAGES)?.get());
        let count = page.and_then(|page| page.get(index % PAGE));
        match count {
            Some(count) => self.step(count, index),
            None => self.record_first(index, budget),
        }
    }

    #[inline]
    fn step(&self, count: &AtomicU32, index: usize) {
        let before = count.load(Ordering::Relaxed);
        if before == u32::MAX {
            self.carry(index);
        }
        count.store(before.wrapping_add(1), Ordering::Relaxed);
    }

    #[cold]
    fn carry(&self, index: usize) {
        let mut carries = self.carries.lock().unwrap_or_else(PoisonError::into_inner);
        carries.push(index as u16);
    }

    /// The first of its page.
    #[cold]
    fn record_first(&self, index: usize, budget: &PageBudget) {
        let octave = self.octaves.get(index / PLACES);
        let octave = octave.map(|octave| octave.get_or_init(Box::default));
        let place = octave.and_then(|octave| octave.get(index / PAGE % PAGES));
        let page =
            place.zip(budget.take()).map(|(place, ())| place.get_or_init(|| Box::new(zeroes())));
        if let Some(count) = page.and_then(|page| page.get(index % PAGE)) {
            return self.step(count, index);
        }
        let coarse = self.coarse.get_or_init(|| Box::new(zeroes()));
        if let Some(count) = coarse.get(index / PAGE) {
            let before = count.load(Ordering::Relaxed);
            count.store(before.saturating_add(1), Ordering::Relaxed);
        }
    }

    /// Adds what was counted so far to `sum`.
    pub fn read_into(&self, sum: &mut Distribution) {
        let mut counts = Vec::new();
        let zeros = self.zeros.read();
        if zeros > 0 {
            counts.push((0, zeros));
        }
        for (number, octave) in self.octaves.iter().enumerate() {
            let Some(octave) = octave.get() else { continue };
            for (page_number, page) in octave.iter().enumerate() {
                let Some(page) = page.get() else { continue };
                let first = number * PLACES + page_number * PAGE;
                counts.extend(page.iter().enumerate().filter_map(|(offset, count)| {
                    let count = u64::from(count.load(Ordering::Relaxed));
                    (count > 0).then_some(((first + offset) as u16, count))
                }));
            }
        }
        sum.add(&Distribution::from_counts(counts, self.sum_us.read()));
        for index in self.carries.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            sum.add(&Distribution::from_counts(vec![(*index, 1 << 32)], 0));
        }
        self.read_coarse(sum);
    }

    /// Times of pages that could not be had stand in the middle of their page.
    fn read_coarse(&self, sum: &mut Distribution) {
        let Some(coarse) = self.coarse.get() else { return };
        let counts = coarse.iter().enumerate().filter_map(|(number, count)| {
            let count = u64::from(count.load(Ordering::Relaxed));
            (count > 0).then_some(((number * PAGE + PAGE / 2) as u16, count))
        });
        let mut part = Distribution::from_counts(counts.collect(), 0);
        part.note_all_coarse();
        sum.add(&part);
    }

    /// Gives the pages back to the budget; for one who drops it.
    pub(crate) fn give_back(&self, budget: &PageBudget) {
        let octaves = self.octaves.iter().filter_map(|octave| octave.get());
        let pages = octaves.map(|octave| octave.iter().filter(|page| page.get().is_some()).count());
        budget.give_back(pages.sum());
    }
}

fn zeroes<const N: usize>() -> [AtomicU32; N] {
    [const { AtomicU32::new(0) }; N]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(histogram: &Histogram) -> Distribution {
        let mut sum = Distribution::default();
        histogram.read_into(&mut sum);
        sum
    }

    #[test]
    fn without_pages_times_are_counted_coarsely_and_none_is_lost() {
        let budget = PageBudget::new(size_of::<Page>());
        let histogram = Histogram::default();
        (0..100).for_each(|_| histogram.record(150, &budget));
        (0..100).for_each(|_| histogram.record(1_000_000, &budget));
        let read = read(&histogram);
        assert_eq!((read.count(), read.coarse(), read.sum_us()), (200, 100, 100_015_000));
        assert_eq!(read.at_quantile(0.5), 150);
        let worst = read.at_quantile(1.0).abs_diff(1_000_000);
        assert!(worst <= 1_000_000 / 16, "{worst}");
        assert_eq!(budget.taken_bytes(), 256);
        histogram.give_back(&budget);
        assert_eq!(budget.taken_bytes(), 0);
    }

    #[test]
    fn a_count_beyond_32_bits_goes_on() {
        let budget = PageBudget::new(1 << 20);
        let histogram = Histogram::default();
        histogram.record(77, &budget);
        let page = histogram.octaves[0].get().unwrap()[1].get().unwrap();
        page[13].store(u32::MAX, Ordering::Relaxed);
        histogram.record(77, &budget);
        histogram.record(77, &budget);
        assert_eq!(read(&histogram).count(), (1 << 32) + 1);
    }

    #[test]
    fn memory_follows_the_times_that_came() {
        let budget = PageBudget::new(1 << 20);
        let histogram = Histogram::default();
        (1..=1_000_000_u64).for_each(|turn| histogram.record(200 + turn % 800, &budget));
        assert_eq!(budget.taken_bytes(), 13 * 256, "200 to 999 µs lie on 13 pages");
        assert!(size_of::<Histogram>() < 512);
    }
}
