//! Passive health checks: the rules by which failures seen in traffic eject an endpoint.

use std::sync::atomic::{AtomicU64, Ordering};

/// The maximum number of failures kept; a larger `errors` counts as this.
const MAX_ERRORS: u32 = 4096;

/// The rules and the duration of ejections for failures seen in traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PassiveSettings {
    /// The number of failures within `window_us` that ejects; 0 never ejects.
    pub errors: u32,
    /// The window in which they are counted, µs.
    pub window_us: u64,
    /// The minimum duration of an ejection, µs.
    pub eject_us: u64,
    /// The share of the pool's endpoints that may be ejected at once, percent, rounded down: at 50,
    /// a pool of one endpoint never ejects it.
    pub max_ejected_percent: u8,
}

/// The number of failures that ejects an endpoint, and the duration of its ejections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EjectionRule {
    /// The number of failures within `window_us` that ejects; 0 never ejects.
    pub errors: u32,
    /// The window in which they are counted, µs.
    pub window_us: u64,
    /// The minimum duration of an ejection, µs.
    pub eject_us: u64,
}

/// An ejection lasts longer by up to 1/`SPREAD`.
const SPREAD: u128 = 5;

impl PassiveSettings {
    /// The rule of the endpoints that have none of their own.
    pub fn rule(&self) -> EjectionRule {
        let Self { errors, window_us, eject_us, .. } = *self;
        EjectionRule { errors, window_us, eject_us }
    }
}

impl EjectionRule {
    /// The duration of an ejection, µs: `eject_us` to a fifth longer, determined by 64 random bits.
    /// Otherwise an endpoint that fails at regular intervals would return in the same phase every
    /// time, and several balancers would return to it at once.
    pub fn ejection_us(&self, random: u64) -> u64 {
        let longer = (u128::from(self.eject_us) * u128::from(random)) >> 64;
        self.eject_us.saturating_add((longer / SPREAD) as u64)
    }
}

/// The outcome of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterFailure {
    /// The failure was counted.
    Counted,
    /// The endpoint is ejected from now on.
    Ejected {
        /// The end of the ejection, µs. The caller must call `Balancer::tick` then.
        until_us: u64,
    },
    /// The endpoint would be ejected, but too many others are.
    Refused,
}

/// The times of the last `errors` failures of one endpoint, as a ring: if the oldest is within the
/// window, the window holds that many failures. A sliding window without a lock; two failures at
/// the same instant may count late by one.
#[derive(Debug)]
pub(crate) struct FailureWindow {
    /// Times plus one, so that 0 means no failure.
    times: Box<[AtomicU64]>,
    count: AtomicU64,
    pub(crate) rule: EjectionRule,
}

impl FailureWindow {
    pub(crate) fn new(rule: EjectionRule) -> Self {
        let times = (0..rule.errors.min(MAX_ERRORS)).map(|_| AtomicU64::new(0)).collect();
        Self { times, count: AtomicU64::new(0), rule }
    }

    /// Notes a failure; returns true if the window is full.
    pub(crate) fn note(&self, now_us: u64) -> bool {
        let len = self.times.len() as u64;
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        let at = |number: u64| self.times.get(number.checked_rem(len)? as usize);
        let (Some(own), Some(oldest)) = (at(count), at(count + 1)) else { return false };
        own.store(now_us.saturating_add(1), Ordering::Relaxed);
        let oldest = oldest.load(Ordering::Relaxed);
        oldest != 0 && now_us.saturating_add(1).saturating_sub(oldest) <= self.rule.window_us
    }

    /// The number of failures within the window before `now_us`; failures that the ring has dropped
    /// do not count.
    pub(crate) fn recent(&self, now_us: u64) -> u32 {
        if self.count.load(Ordering::Relaxed) == 0 {
            return 0;
        }
        let now = now_us.saturating_add(1);
        let times = self.times.iter().map(|time| time.load(Ordering::Relaxed));
        let within = |time: &u64| *time != 0 && now.saturating_sub(*time) <= self.rule.window_us;
        times.filter(within).count() as u32
    }

    /// Clears all failures.
    pub(crate) fn clear(&self) {
        for time in &self.times {
            time.store(0, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(errors: u32, window_us: u64) -> FailureWindow {
        FailureWindow::new(EjectionRule { errors, window_us, eject_us: 0 })
    }

    #[test]
    fn the_window_slides() {
        let window = window(3, 100);
        let noted: Vec<bool> =
            [0, 50, 101, 140, 160, 500].into_iter().map(|now_us| window.note(now_us)).collect();
        assert_eq!(noted, [false, false, false, true, true, false]);
        window.clear();
        assert!(!window.note(501));
    }

    #[test]
    fn an_ejection_is_never_shorter_and_at_most_a_fifth_longer() {
        let settings = |eject_us| EjectionRule { errors: 1, window_us: 1, eject_us };
        let lasts = |random| settings(10_000_000).ejection_us(random);
        assert_eq!([0, u64::MAX / 2, u64::MAX].map(lasts), [10_000_000, 10_999_999, 11_999_999]);
        assert_eq!([0, u64::MAX].map(|random| settings(0).ejection_us(random)), [0, 0]);
        assert_eq!(settings(u64::MAX).ejection_us(u64::MAX), u64::MAX);
    }

    #[test]
    fn recent_failures_run_out() {
        let window = window(3, 100);
        assert_eq!(window.recent(0), 0);
        window.note(10);
        window.note(60);
        assert_eq!([60, 110, 111, 160, 161].map(|now_us| window.recent(now_us)), [2, 2, 1, 1, 0]);
        window.clear();
        assert_eq!(window.recent(61), 0);
    }

    #[test]
    fn one_error_is_enough_when_it_says_so() {
        assert!(window(1, 0).note(0));
    }

    #[test]
    fn no_errors_never_fill() {
        assert!(!window(0, 100).note(0));
    }
}
