//! The bytes by which all HTTP/2 connections have let their windows grow. Each byte is a byte of a
//! request's body that a client may send and that may have to be kept here.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::limits::HTTP2_GROWTH_IN_ALL;

/// The growth of all windows of the process.
#[derive(Debug, Default)]
pub(crate) struct WindowGrowth(AtomicUsize);

impl WindowGrowth {
    /// Grants this many bytes; returns false if the bound would be exceeded.
    pub(crate) fn take(&self, bytes: usize) -> bool {
        let more = |granted: usize| {
            granted.checked_add(bytes).filter(|granted| *granted <= HTTP2_GROWTH_IN_ALL)
        };
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    pub(crate) fn give_back(&self, bytes: usize) {
        self.0.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// The bytes granted now.
    pub(crate) fn granted(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_connections_together_have_a_bound() {
        let growth = WindowGrowth::default();
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
