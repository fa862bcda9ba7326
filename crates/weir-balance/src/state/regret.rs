//! The regret meter: counts how often the policy sent an exchange to a busy endpoint while an idle
//! one could be picked, and measures the time that this cost.

use crate::state::decision::Choice;
use crate::sync::{AtomicU64, Ordering};

/// The mean is kept in 1/`PARTS` µs, and each new sample weighs 1/`PARTS`.
const PARTS: u64 = 64;

/// The counters have a cache line of their own; the fields beside them are only read.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Regret {
    /// The running mean of the durations of exchanges at idle endpoints, in 1/`PARTS` µs; 0 before
    /// the first.
    mean: AtomicU64,
    inversions: AtomicU64,
    lost_us: AtomicU64,
}

impl Regret {
    pub(crate) fn new() -> Self {
        Self { mean: AtomicU64::new(0), inversions: AtomicU64::new(0), lost_us: AtomicU64::new(0) }
    }

    /// The number of exchanges that were sent to a busy endpoint while an idle one could be picked.
    pub(crate) fn inversions(&self) -> u64 {
        self.inversions.load(Ordering::Relaxed)
    }

    /// The time that those exchanges took beyond the mean of exchanges at idle endpoints, µs.
    pub(crate) fn lost_us(&self) -> u64 {
        self.lost_us.load(Ordering::Relaxed)
    }

    pub(crate) fn count(&self, choice: Choice) {
        if choice == Choice::Inversion {
            self.inversions.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Notes how long an exchange held its slot.
    pub(crate) fn note(&self, choice: Choice, held_us: u64) {
        let mean = self.mean.load(Ordering::Relaxed);
        match choice {
            Choice::Busy => {}
            Choice::Idle => {
                let sample = held_us.saturating_mul(PARTS).max(1);
                let next = if mean == 0 { sample } else { mean - mean / PARTS + held_us };
                // Two workers at once may lose a sample, which a mean tolerates; a plain store
                // avoids contention between them.
                self.mean.store(next, Ordering::Relaxed);
            }
            Choice::Inversion => {
                let lost = if mean == 0 { 0 } else { held_us.saturating_sub(mean / PARTS) };
                self.lost_us.fetch_add(lost, Ordering::Relaxed);
            }
        }
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn an_inversion_costs_the_time_beyond_the_mean_of_idle_endpoints() {
        let regret = Regret::new();
        regret.note(Choice::Inversion, 900);
        assert_eq!(regret.lost_us(), 0, "nothing to compare with yet");
        for _ in 0..10 {
            regret.note(Choice::Idle, 200);
        }
        regret.note(Choice::Busy, 5_000);
        regret.note(Choice::Inversion, 900);
        assert_eq!(regret.lost_us(), 700);
        regret.note(Choice::Inversion, 100);
        assert_eq!(regret.lost_us(), 700, "a lucky one earns nothing");
    }

    #[test]
    fn the_mean_follows_a_change() {
        let regret = Regret::new();
        regret.note(Choice::Idle, 1_000);
        for _ in 0..1_000 {
            regret.note(Choice::Idle, 100);
        }
        regret.note(Choice::Inversion, 1_100);
        assert!((995..=1_000).contains(&regret.lost_us()), "{}", regret.lost_us());
    }
}
