//! Histograms of times. Memory is allocated in pages, at the first time that falls on a page, from
//! one budget for the process; beyond the budget times are counted more coarsely, never lost.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use super::counter::Counter;
use super::distribution::Distribution;
use super::layout::{INDEXES, index_of};

/// The counts of a page: 1 KiB.
const PAGE: usize = 256;
const PAGES: usize = INDEXES / PAGE;

type CountPage = [AtomicU32; PAGE];
/// The number of places that are counted as one if no page is available.
const COARSE: usize = 64;

/// The number of pages that all histograms of a process may still take.
#[derive(Debug)]
pub struct PageBudget {
    left: AtomicUsize,
    taken: AtomicUsize,
}

impl PageBudget {
    /// Creates a budget of `bytes` bytes.
    pub fn new(bytes: usize) -> Self {
        Self { left: AtomicUsize::new(bytes / size_of::<CountPage>()), taken: AtomicUsize::new(0) }
    }

    /// The bytes that pages hold now.
    pub fn taken_bytes(&self) -> usize {
        self.taken.load(Ordering::Relaxed) * size_of::<CountPage>()
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

/// Counts of times from 1 µs to 1 h, with three digits each. One thread records, any thread reads.
/// Zero times and the sum are kept by the owner, because those of several histograms are best
/// stored side by side ([`Totals`]).
#[derive(Debug)]
pub(crate) struct Pages {
    pages: [OnceLock<Box<CountPage>>; PAGES],
    rare: OnceLock<Box<Rare>>,
}

/// Counts that hardly any histogram needs.
#[derive(Debug)]
struct Rare {
    /// Counts of times on pages that were not available.
    coarse: [AtomicU32; INDEXES / COARSE],
    /// Places whose count passed 2³², once for each time.
    carries: Mutex<Vec<u16>>,
}

impl Default for Rare {
    fn default() -> Self {
        Self { coarse: zeroes(), carries: Mutex::default() }
    }
}

impl Default for Pages {
    fn default() -> Self {
        Self { pages: [const { OnceLock::new() }; PAGES], rare: OnceLock::new() }
    }
}

/// The number of zero times, the most common ones, which need no page; and the sum of all times.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    zeros: Counter,
    sum_us: Counter,
}

impl Totals {
    /// Counts one time, in `pages` unless it is zero.
    #[inline]
    pub(crate) fn record(&self, us: u64, pages: &Pages, budget: &PageBudget) {
        if us == 0 {
            self.zeros.add(1);
        } else {
            self.sum_us.add(us);
            pages.record(us, budget);
        }
    }

    /// Adds the counts so far to `sum`.
    pub(crate) fn read_into(&self, pages: &Pages, sum: &mut Distribution) {
        let (zeros, sum_us) = (self.zeros.read(), self.sum_us.read());
        pages.read_into(zeros, sum_us, sum);
    }
}

impl Pages {
    #[inline]
    fn record(&self, us: u64, budget: &PageBudget) {
        let index = index_of(us);
        let page = self.pages.get(index / PAGE).and_then(OnceLock::get);
        match page.and_then(|page| page.get(index % PAGE)) {
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

    fn rare(&self) -> &Rare {
        self.rare.get_or_init(Box::default)
    }

    #[cold]
    fn carry(&self, index: usize) {
        let mut carries = self.rare().carries.lock().unwrap_or_else(PoisonError::into_inner);
        carries.push(index as u16);
    }

    /// Counts the first time on its page.
    #[cold]
    fn record_first(&self, index: usize, budget: &PageBudget) {
        let place = self.pages.get(index / PAGE);
        let page = place.zip(budget.take());
        let page = page.map(|(place, ())| place.get_or_init(|| Box::new(zeroes())));
        if let Some(count) = page.and_then(|page| page.get(index % PAGE)) {
            return self.step(count, index);
        }
        if let Some(count) = self.rare().coarse.get(index / COARSE) {
            let before = count.load(Ordering::Relaxed);
            count.store(before.saturating_add(1), Ordering::Relaxed);
        }
    }

    /// Adds the counts so far to `sum`, with the number of zero times and the sum of all times.
    fn read_into(&self, zeros: u64, sum_us: u64, sum: &mut Distribution) {
        let mut counts = Vec::new();
        if zeros > 0 {
            counts.push((0, zeros));
        }
        for (number, page) in self.pages.iter().enumerate() {
            let Some(page) = page.get() else { continue };
            let first = number * PAGE;
            counts.extend(page.iter().enumerate().filter_map(|(offset, count)| {
                let count = u64::from(count.load(Ordering::Relaxed));
                (count > 0).then_some(((first + offset) as u16, count))
            }));
        }
        sum.add(&Distribution::from_counts(counts, sum_us));
        let Some(rare) = self.rare.get() else { return };
        for index in rare.carries.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            sum.add(&Distribution::from_counts(vec![(*index, 1 << 32)], 0));
        }
        // Coarse counts are reported at the middle of their range.
        let coarse = rare.coarse.iter().enumerate().filter_map(|(number, count)| {
            let count = u64::from(count.load(Ordering::Relaxed));
            (count > 0).then_some(((number * COARSE + COARSE / 2) as u16, count))
        });
        let mut part = Distribution::from_counts(coarse.collect(), 0);
        part.note_all_coarse();
        sum.add(&part);
    }

    /// Returns the pages to the budget; called by the owner's `Drop`.
    pub(crate) fn give_back(&self, budget: &PageBudget) {
        budget.give_back(self.pages.iter().filter(|page| page.get().is_some()).count());
    }
}

/// A stand-alone histogram.
#[derive(Debug, Default)]
pub struct Histogram {
    totals: Totals,
    pages: Pages,
}

impl Histogram {
    /// Counts one time, µs. The first time on a page takes the page from `budget`, which must be
    /// the same in all calls.
    #[inline]
    pub fn record(&self, us: u64, budget: &PageBudget) {
        self.totals.record(us, &self.pages, budget);
    }

    /// Adds the counts so far to `sum`.
    pub fn read_into(&self, sum: &mut Distribution) {
        self.totals.read_into(&self.pages, sum);
    }

    /// Returns the pages to the budget; called by the owner's `Drop`.
    pub(crate) fn give_back(&self, budget: &PageBudget) {
        self.pages.give_back(budget);
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
        let budget = PageBudget::new(size_of::<CountPage>());
        let histogram = Histogram::default();
        (0..100).for_each(|_| histogram.record(150, &budget));
        (0..100).for_each(|_| histogram.record(1_000_000, &budget));
        let read = read(&histogram);
        assert_eq!((read.count(), read.coarse(), read.sum_us()), (200, 100, 100_015_000));
        assert_eq!(read.at_quantile(0.5), 150);
        let worst = read.at_quantile(1.0).abs_diff(1_000_000);
        assert!(worst <= 1_000_000 / 16, "{worst}");
        assert_eq!(budget.taken_bytes(), 1_024);
        histogram.give_back(&budget);
        assert_eq!(budget.taken_bytes(), 0);
    }

    #[test]
    fn a_count_beyond_32_bits_goes_on() {
        let budget = PageBudget::new(1 << 20);
        let histogram = Histogram::default();
        histogram.record(77, &budget);
        let page = histogram.pages.pages[0].get().unwrap();
        page[77].store(u32::MAX, Ordering::Relaxed);
        histogram.record(77, &budget);
        histogram.record(77, &budget);
        assert_eq!(read(&histogram).count(), (1 << 32) + 1);
    }

    #[test]
    fn memory_follows_the_times_that_came() {
        let budget = PageBudget::new(1 << 20);
        let histogram = Histogram::default();
        (1..=1_000_000_u64).for_each(|turn| histogram.record(200 + turn % 800, &budget));
        assert_eq!(budget.taken_bytes(), 4 * 1_024, "200 to 999 µs lie on 4 pages");
        assert!(size_of::<Histogram>() < 1_536);
    }
}
