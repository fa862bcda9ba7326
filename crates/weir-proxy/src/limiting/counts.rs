//! Counts the effects of limits, and the keys that were limited most. Only limited events are
//! counted, so that an event within its limits causes no write here.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The number of keys that are kept for each bound of a limit.
const TOP_KEYS: usize = 32;
/// The number of bytes of a key that are kept.
const KEY_BYTES: usize = 64;

/// The identity of one bound of a limit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LimitKey {
    /// The limit's name.
    pub limit: Arc<str>,
    /// The bound: `client_connections`, `rate` and so on.
    pub bound: &'static str,
}

/// The effect of a limit on an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limited {
    /// A request was refused, or a connection closed.
    Refused,
    /// A request had to wait.
    Delayed,
    /// An event would have been refused or delayed, but the limit is in dry run.
    DryRun,
}

/// The counts of one bound of a limit.
#[derive(Debug)]
pub struct LimitCounts {
    /// The identity of the bound.
    pub key: LimitKey,
    refused: AtomicU64,
    delayed: AtomicU64,
    dry_run: AtomicU64,
    top: Mutex<Vec<LimitedKey>>,
}

/// A key that was limited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitedKey {
    /// Its first bytes.
    pub key: Box<[u8]>,
    /// The number of times that it was limited, as an upper bound: it includes the count of the key
    /// that it displaced (the *space-saving* sketch of Metwally, Agrawal and El Abbadi).
    pub count: u64,
    /// The part of the count that may belong to a displaced key.
    pub over: u64,
    /// The last time that it was limited, ns since the process started.
    pub last_ns: u64,
}

/// A snapshot of the counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LimitFigures {
    /// The number of requests refused and connections closed.
    pub refused: u64,
    /// The number of requests that had to wait.
    pub delayed: u64,
    /// The number of events that a limit in dry run would have refused or delayed.
    pub dry_run: u64,
}

impl LimitCounts {
    pub(crate) fn new(key: LimitKey) -> Self {
        let count = || AtomicU64::new(0);
        let (refused, delayed, dry_run, top) = (count(), count(), count(), Mutex::default());
        Self { key, refused, delayed, dry_run, top }
    }

    /// Counts an effect on a key.
    pub(crate) fn note(&self, what: Limited, key: &[u8], now_ns: u64) {
        self.note_quietly(what);
        let key = key.get(..KEY_BYTES).unwrap_or(key);
        let mut top = self.top.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = top.iter_mut().find(|known| *known.key == *key) {
            known.count += 1;
            known.last_ns = now_ns;
            return;
        }
        let fresh = LimitedKey { key: key.into(), count: 1, over: 0, last_ns: now_ns };
        if top.len() < TOP_KEYS {
            top.push(fresh);
        } else if let Some(least) = top.iter_mut().min_by_key(|known| known.count) {
            *least = LimitedKey { count: least.count + 1, over: least.count, ..fresh };
        }
    }

    /// Counts an effect without its key.
    pub(crate) fn note_quietly(&self, what: Limited) {
        let counter = match what {
            Limited::Refused => &self.refused,
            Limited::Delayed => &self.delayed,
            Limited::DryRun => &self.dry_run,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// The current counts.
    pub fn figures(&self) -> LimitFigures {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (refused, delayed) = (read(&self.refused), read(&self.delayed));
        LimitFigures { refused, delayed, dry_run: read(&self.dry_run) }
    }

    /// The keys that were limited most, the most limited first.
    pub fn top(&self) -> Vec<LimitedKey> {
        let mut top = self.top.lock().unwrap_or_else(PoisonError::into_inner).clone();
        top.sort_by_key(|known| std::cmp::Reverse(known.count));
        top
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_limited_keys_are_kept_among_many_that_are_limited_once() {
        let counts = LimitCounts::new(LimitKey { limit: "a".into(), bound: "rate" });
        for turn in 0..1000_u64 {
            counts.note(Limited::Refused, format!("once {turn}").as_bytes(), turn);
            counts.note(Limited::Refused, b"greedy", turn);
            if turn % 2 == 0 {
                counts.note(Limited::DryRun, &[b'x'; 1000], turn);
            }
        }
        let top = counts.top();
        assert_eq!((top.len(), &*top[0].key, top[0].count), (TOP_KEYS, &b"greedy"[..], 1000));
        assert_eq!((top[1].key.len(), top[1].count), (KEY_BYTES, 500));
        let figures = counts.figures();
        assert_eq!((figures.refused, figures.delayed, figures.dry_run), (2000, 0, 500));
    }
}
