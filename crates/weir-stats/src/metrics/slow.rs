//! The slow-request recorder: for each route the complete records of the slowest exchanges of the
//! last 15 minutes. An exchange that is too fast is rejected by one comparison.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::ExchangeRecord;

/// The number of slowest exchanges kept for each worker, route and part of the window.
pub const SLOWEST: usize = 8;
/// The length of the window, µs.
pub const SLOW_WINDOW_US: u64 = 15 * 60 * 1_000_000;
/// The window moves in parts of this length, so that exchanges that were the slowest long ago do
/// not hide current ones.
const PART_US: u64 = SLOW_WINDOW_US / 5;

/// The slowest exchanges of one worker and route.
#[derive(Debug, Default)]
pub(crate) struct SlowShelf {
    /// The duration above which an exchange is kept, µs.
    above_us: AtomicU64,
    /// The end of the current part, µs; a later exchange is always kept and begins another part.
    until_us: AtomicU64,
    parts: Mutex<VecDeque<SlowPart>>,
}

#[derive(Debug)]
struct SlowPart {
    until_us: u64,
    /// The records, the slowest first.
    records: Vec<Arc<ExchangeRecord>>,
}

impl SlowShelf {
    /// Returns true if an exchange of this duration is to be kept.
    #[inline]
    pub(crate) fn wants(&self, elapsed_us: u64, now_us: u64) -> bool {
        elapsed_us > self.above_us.load(Ordering::Relaxed)
            || now_us >= self.until_us.load(Ordering::Relaxed)
    }

    pub(crate) fn keep(&self, record: ExchangeRecord) {
        let now_us = record.ended_us;
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        if parts.back().is_none_or(|part| now_us >= part.until_us) {
            let until_us = (now_us / PART_US + 1) * PART_US;
            parts.retain(|part| part.until_us + SLOW_WINDOW_US > now_us);
            parts.push_back(SlowPart { until_us, records: Vec::with_capacity(SLOWEST + 1) });
            self.until_us.store(until_us, Ordering::Relaxed);
        }
        let Some(part) = parts.back_mut() else { return };
        let elapsed_us = record.elapsed_us();
        let place = part.records.partition_point(|other| other.elapsed_us() >= elapsed_us);
        part.records.insert(place, Arc::new(record));
        part.records.truncate(SLOWEST);
        let full = part.records.len() == SLOWEST;
        let above_us = part.records.last().filter(|_| full).map_or(0, |last| last.elapsed_us());
        self.above_us.store(above_us, Ordering::Relaxed);
    }

    /// Appends all records of the last 15 minutes.
    pub(crate) fn read_into(&self, now_us: u64, all: &mut Vec<Arc<ExchangeRecord>>) {
        let parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        let records = parts.iter().flat_map(|part| &part.records);
        let recent = |record: &&Arc<ExchangeRecord>| record.ended_us + SLOW_WINDOW_US > now_us;
        all.extend(records.filter(recent).cloned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Micros, Times};

    fn offer(shelf: &SlowShelf, elapsed_us: u64, now_us: u64) -> bool {
        let wanted = shelf.wants(elapsed_us, now_us);
        if wanted {
            let times = Times { total: Micros(elapsed_us as i64), ..Times::default() };
            shelf.keep(ExchangeRecord { times, ended_us: now_us, ..ExchangeRecord::default() });
        }
        wanted
    }

    fn kept(shelf: &SlowShelf, now_us: u64) -> Vec<u64> {
        let mut all = Vec::new();
        shelf.read_into(now_us, &mut all);
        let mut times: Vec<u64> = all.iter().map(|record| record.elapsed_us()).collect();
        times.sort_unstable_by(|one, other| other.cmp(one));
        times
    }

    #[test]
    fn the_slowest_are_kept_and_fast_ones_are_turned_away_at_once() {
        let shelf = SlowShelf::default();
        let asked: Vec<u64> = (0..1_000).map(|turn| turn * 7_919 % 1_000).collect();
        for elapsed_us in &asked {
            offer(&shelf, *elapsed_us, 5);
        }
        assert_eq!(kept(&shelf, 5), [999, 998, 997, 996, 995, 994, 993, 992]);
        assert!(!offer(&shelf, 992, 6) && offer(&shelf, 993, 6));
    }

    #[test]
    fn what_is_older_than_fifteen_minutes_is_gone() {
        let shelf = SlowShelf::default();
        let minute = 60_000_000;
        for turn in 0..60 {
            assert!(offer(&shelf, 1_000_000 - turn, turn * minute), "few come, all are kept");
        }
        let now = 59 * minute;
        let expected: Vec<u64> = (45..60).map(|turn| 1_000_000 - turn).collect();
        assert_eq!(kept(&shelf, now), expected);
        assert!(shelf.parts.lock().unwrap().len() <= 6);
        assert_eq!(kept(&shelf, now + SLOW_WINDOW_US), [0; 0]);
    }

    #[test]
    fn a_part_that_begins_has_room_again() {
        let shelf = SlowShelf::default();
        let wanted = (0..20).filter(|_| offer(&shelf, 9_000, 0)).count();
        assert!(wanted >= SLOWEST, "the first of the process begins a part too");
        assert!(!offer(&shelf, 10, 1));
        assert!(offer(&shelf, 10, PART_US));
        assert_eq!(kept(&shelf, PART_US).len(), SLOWEST + 1);
    }
}
