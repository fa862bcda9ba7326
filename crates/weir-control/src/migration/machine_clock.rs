//! The clock that all processes of the machine share (`CLOCK_MONOTONIC`), for times that one
//! process passes to another. Within a process, times are [`Instant`]s.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use weir_proxy::instant::Instant;

/// Now, in microseconds since the machine started.
pub(crate) fn now_us() -> u64 {
    // The C library's call, since valgrind does not support rustix's.
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(Duration::ZERO, Duration::from);
    now.as_micros() as u64
}

/// The conversion between this process's instants and the machine's clock.
pub(crate) struct MachineClock {
    pub(crate) instant: Instant,
    pub(crate) microseconds: u64,
}

impl MachineClock {
    pub(crate) fn new() -> Self {
        Self { instant: Instant::now(), microseconds: now_us() }
    }

    pub(crate) fn microseconds(&self, instant: Instant) -> u64 {
        let after = instant.saturating_duration_since(self.instant).as_micros() as u64;
        let before = self.instant.saturating_duration_since(instant).as_micros() as u64;
        self.microseconds.saturating_add(after).saturating_sub(before)
    }

    /// The instant at this machine time; the current instant if it is out of range.
    pub(crate) fn instant(&self, microseconds: u64) -> Instant {
        let after = Duration::from_micros(microseconds.saturating_sub(self.microseconds));
        let before = Duration::from_micros(self.microseconds.saturating_sub(microseconds));
        let instant = self.instant.checked_add(after);
        instant.and_then(|instant| instant.checked_sub(before)).unwrap_or(self.instant)
    }
}
