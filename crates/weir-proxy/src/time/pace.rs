//! Measures the pace of one side of a body against a minimum rate. Only the time spent waiting for
//! that side counts, so that a stream whose other side is silent is never too slow. It keeps no
//! timer and decides nothing; the caller checks again at the time that it returns.

use std::time::Duration;

use crate::time::instant::Instant;

/// A rate in bytes per second, as an average over `after` of waiting time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MinRate {
    pub(crate) bytes: u64,
    pub(crate) after: Duration,
}

/// The time spent waiting for one side so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pace {
    /// The waiting time in the current period, up to `since`.
    waited: Duration,
    /// The beginning of the current wait.
    since: Option<Instant>,
    /// The number of bytes that had moved when the period began.
    bytes: u64,
}

/// Error: too few bytes moved in a whole period of waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooSlow;

impl Pace {
    /// Returns true during a wait.
    pub(crate) fn is_waiting(&self) -> bool {
        self.since.is_some()
    }

    /// Ends the current wait at `began`, the beginning of the task's turn; with `waits_from`, a new
    /// wait begins at that time. `moved` returns the total number of bytes that have moved; it is
    /// called once per period. Returns the time of the next check.
    pub(crate) fn look(
        &mut self,
        rate: MinRate,
        began: Instant,
        waits_from: Option<Instant>,
        moved: impl FnOnce() -> u64,
    ) -> Result<Option<Instant>, TooSlow> {
        if let Some(since) = self.since.take() {
            self.waited += began.saturating_duration_since(since);
        }
        if self.waited >= rate.after {
            let moved = moved();
            let needed = u128::from(rate.bytes) * self.waited.as_micros() / 1_000_000;
            if u128::from(moved.saturating_sub(self.bytes)) < needed {
                return Err(TooSlow);
            }
            (self.waited, self.bytes) = (Duration::ZERO, moved);
        }
        self.since = waits_from;
        Ok(waits_from.map(|from| from + rate.after.saturating_sub(self.waited)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: MinRate = MinRate { bytes: 100, after: Duration::from_secs(10) };

    #[tokio::test(start_paused = true)]
    async fn only_time_spent_waiting_counts() {
        let start = Instant::now();
        let at = |second| start + Duration::from_secs(second);
        let mut pace = Pace::default();
        assert_eq!(pace.look(RATE, at(0), Some(at(0)), || 0), Ok(Some(at(10))));
        assert_eq!(pace.look(RATE, at(4), None, || 1), Ok(None));
        // The other side takes an hour.
        assert_eq!(pace.look(RATE, at(3604), Some(at(3604)), || 1), Ok(Some(at(3610))));
        assert_eq!(pace.look(RATE, at(3609), Some(at(3609)), || 2), Ok(Some(at(3610))));
        assert_eq!(pace.look(RATE, at(3610), Some(at(3610)), || 999), Err(TooSlow));
    }

    #[tokio::test(start_paused = true)]
    async fn each_period_is_judged_by_itself() {
        let start = Instant::now();
        let at = |second| start + Duration::from_secs(second);
        let mut pace = Pace::default();
        assert_eq!(pace.look(RATE, at(0), Some(at(0)), || 0), Ok(Some(at(10))));
        assert_eq!(pace.look(RATE, at(10), Some(at(10)), || 1000), Ok(Some(at(20))));
        assert_eq!(pace.look(RATE, at(20), Some(at(20)), || 1999), Err(TooSlow));
    }
}
