//! The bytes by which all HTTP/2 connections of one side have let their windows grow. Each byte is
//! a byte of a body that a peer may send and that may have to be kept here.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::limits::HTTP2_GROWTH_IN_ALL;

/// The growth of all windows of one side.
pub(crate) struct WindowGrowth {
    granted: AtomicUsize,
    /// Tells whether memory is not short.
    has_memory: Box<dyn Fn() -> bool + Send + Sync>,
}

impl WindowGrowth {
    /// Nothing is granted yet; growth ends while `has_memory` returns false.
    pub(crate) fn new(has_memory: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self { granted: AtomicUsize::new(0), has_memory: Box::new(has_memory) }
    }

    /// Returns true while windows may be larger than at first.
    pub(crate) fn is_open(&self) -> bool {
        (self.has_memory)()
    }

    /// Grants this many bytes; returns false if the bound would be exceeded.
    pub(crate) fn take(&self, bytes: usize) -> bool {
        let more = |granted: usize| {
            granted.checked_add(bytes).filter(|granted| *granted <= HTTP2_GROWTH_IN_ALL)
        };
        self.granted.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    pub(crate) fn give_back(&self, bytes: usize) {
        self.granted.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// The bytes granted now.
    pub(crate) fn granted(&self) -> usize {
        self.granted.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_connections_together_have_a_bound() {
        let growth = WindowGrowth::new(|| true);
        assert!(growth.take(HTTP2_GROWTH_IN_ALL - 10));
        assert!(!growth.take(11));
        assert!(growth.take(10));
        assert!(!growth.take(1));
        growth.give_back(5);
        assert!(growth.take(5));
        assert!(!growth.take(usize::MAX));
        assert_eq!(growth.granted(), HTTP2_GROWTH_IN_ALL);
    }
}
