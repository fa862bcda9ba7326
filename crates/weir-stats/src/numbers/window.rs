//! What was counted lately: the difference to a reading that is one to two minutes old, because percentiles since the start hide what
//! goes on now. Two readings are kept, whatever comes.

use std::sync::Arc;

/// How old the reading is at least, µs, once the process is; at most it is twice as old.
pub const WINDOW_US: u64 = 60_000_000;

/// Readings of something that only grows.
#[derive(Debug)]
pub struct Window<T> {
    /// The one that others are held against, and when it was made, µs.
    base: (u64, Arc<T>),
    /// The one that takes its place.
    next: (u64, Arc<T>),
}

impl<T> Window<T> {
    /// A window that begins with this reading at `now_us`.
    pub fn new(first: Arc<T>, now_us: u64) -> Self {
        Self { base: (now_us, Arc::clone(&first)), next: (now_us, first) }
    }

    /// Takes a reading; to be called every few seconds. Returns the earlier one to hold it against, and how long ago that was, µs.
    pub fn observe(&mut self, reading: &Arc<T>, now_us: u64) -> (Arc<T>, u64) {
        if now_us.saturating_sub(self.next.0) >= WINDOW_US {
            self.base = std::mem::replace(&mut self.next, (now_us, Arc::clone(reading)));
        }
        (Arc::clone(&self.base.1), now_us.saturating_sub(self.base.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reading_is_held_against_one_that_is_one_to_two_minutes_old() {
        let mut window = Window::new(Arc::new(0), 0);
        for turn in 1..1_000_u64 {
            let now_us = turn * 5_000_000;
            let (base, age_us) = window.observe(&Arc::new(now_us), now_us);
            assert_eq!(*base + age_us, now_us);
            assert!(age_us <= 2 * WINDOW_US, "{age_us}");
            assert!(age_us >= WINDOW_US.min(now_us), "{age_us}");
        }
    }

    #[test]
    fn after_a_pause_what_came_in_it_is_lately() {
        let mut window = Window::new(Arc::new(0), 0);
        let hour = 3_600_000_000;
        assert_eq!(window.observe(&Arc::new(1), hour), (Arc::new(0), hour));
    }
}
