//! A counter with one writer.

use std::sync::atomic::{AtomicU64, Ordering};

/// A counter. One thread writes, any thread reads: adding is a load and a store, without the bus
/// lock that a shared counter needs. Two concurrent writers would lose counts, but do no other
/// harm.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    #[inline]
    pub(crate) fn add(&self, many: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(many), Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
