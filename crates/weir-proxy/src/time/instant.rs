//! Points in time of the data plane: nanoseconds in one integer, so that a difference, a sum and a
//! comparison take an instruction or two each; a request needs a dozen of them. The clock is the
//! monotonic clock, which tokio uses too, or tokio's clock where a simulation controls it.

use std::ops::{Add, AddAssign, Sub};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant as StdInstant};

use tokio::time::Instant as TokioInstant;
use weir_stats::Micros;

/// A point in time on tokio's clock.
///
/// It has the operations of [`tokio::time::Instant`] and converts to and from it. Sums beyond its
/// range, more than a century from the start of the process, saturate, and so do differences below
/// zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

/// The point that [`ORIGIN_NS`] stands for: the time of the first use.
static ORIGIN: LazyLock<ClockOrigin> = LazyLock::new(ClockOrigin::now);

/// Set if the current time is read from tokio's clock.
static FOLLOWS_TOKIO: AtomicBool = AtomicBool::new(cfg!(test));

/// One point in time on both clocks.
struct ClockOrigin {
    at: StdInstant,
    /// The same on the monotonic clock.
    monotonic_ns: u64,
}

impl ClockOrigin {
    /// The current time. The two readings are a microsecond apart at most, unless the thread is
    /// interrupted every time.
    fn now() -> Self {
        let mut tries = 0;
        loop {
            let before = monotonic_ns();
            let at = StdInstant::now();
            tries += 1;
            if monotonic_ns() - before < 1_000 || tries == 100 {
                return Self { at, monotonic_ns: before };
            }
        }
    }
}

/// Reads the monotonic clock, in nanoseconds. Reading the standard library's type and converting it
/// to a number would take three times the instructions. (rustix finds the kernel's function by its
/// own search, which fails under valgrind.)
#[inline]
fn monotonic_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: it writes to `now` only. It cannot fail: every Linux has this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Makes [`Instant::now`] read tokio's clock from now on, for simulations, which pause that clock.
pub fn follow_tokio() {
    FOLLOWS_TOKIO.store(true, Ordering::Relaxed);
}

/// The middle of the signed range, so that points before the origin have a number too.
const ORIGIN_NS: u64 = 1 << 62;

impl Instant {
    /// The current time. It reads the clock.
    #[inline]
    pub fn now() -> Self {
        if FOLLOWS_TOKIO.load(Ordering::Relaxed) {
            return TokioInstant::now().into();
        }
        // The first caller may have read the clock before the origin was set.
        let origin = ORIGIN.monotonic_ns;
        Self(ORIGIN_NS.wrapping_add(monotonic_ns().wrapping_sub(origin)))
    }

    /// The time since `earlier`; zero if `earlier` is later.
    #[inline]
    pub fn saturating_duration_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.nanos_since(earlier))
    }

    /// The time since `earlier`; `None` if `earlier` is later.
    #[inline]
    pub fn checked_duration_since(self, earlier: Self) -> Option<Duration> {
        self.0.checked_sub(earlier.0).map(Duration::from_nanos)
    }

    /// The nanoseconds since `earlier`; zero if `earlier` is later.
    #[inline]
    pub fn nanos_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// The whole microseconds since `earlier`; zero if `earlier` is later.
    #[inline]
    pub fn micros_since(self, earlier: Self) -> u64 {
        self.nanos_since(earlier) / 1_000
    }

    /// The same as [`Instant::micros_since`], in the type of an exchange's time split.
    #[inline]
    pub(crate) fn span_since(self, earlier: Self) -> Micros {
        Micros(self.micros_since(earlier) as i64)
    }

    /// The instant later by `duration`; `None` beyond the range.
    pub fn checked_add(self, duration: Duration) -> Option<Self> {
        self.0.checked_add(nanos(duration)).map(Self)
    }

    /// The instant earlier by `duration`; `None` beyond the range.
    pub fn checked_sub(self, duration: Duration) -> Option<Self> {
        self.0.checked_sub(nanos(duration)).map(Self)
    }

    /// The time that has passed since this instant.
    pub fn elapsed(self) -> Duration {
        Self::now().saturating_duration_since(self)
    }
}

/// The nanoseconds of a duration, or the largest number if they do not fit.
#[inline]
fn nanos(duration: Duration) -> u64 {
    let seconds = duration.as_secs().saturating_mul(1_000_000_000);
    seconds.saturating_add(u64::from(duration.subsec_nanos()))
}

impl From<TokioInstant> for Instant {
    #[inline]
    fn from(at: TokioInstant) -> Self {
        let (at, origin) = (at.into_std(), ORIGIN.at);
        Self(match at.checked_duration_since(origin) {
            Some(after) => ORIGIN_NS.saturating_add(nanos(after)),
            None => ORIGIN_NS.saturating_sub(nanos(origin.saturating_duration_since(at))),
        })
    }
}

impl From<Instant> for TokioInstant {
    fn from(Instant(at): Instant) -> Self {
        let origin = ORIGIN.at;
        let after = Duration::from_nanos(at.saturating_sub(ORIGIN_NS));
        let before = Duration::from_nanos(ORIGIN_NS.saturating_sub(at));
        let at = origin.checked_add(after).and_then(|at| at.checked_sub(before));
        Self::from_std(at.unwrap_or(origin))
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    #[inline]
    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(nanos(duration)))
    }
}

impl AddAssign<Duration> for Instant {
    #[inline]
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;

    #[inline]
    fn sub(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(duration)))
    }
}

impl Sub for Instant {
    type Output = Duration;

    #[inline]
    fn sub(self, earlier: Self) -> Duration {
        self.saturating_duration_since(earlier)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{advance, sleep_until};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn instants_follow_tokios_clock_to_the_nanosecond() {
        let (theirs, own) = (TokioInstant::now(), Instant::now());
        assert_eq!(Instant::from(theirs), own);
        assert_eq!(TokioInstant::from(own), theirs);
        advance(Duration::from_nanos(5_000_000_007)).await;
        assert_eq!(own.elapsed(), Duration::from_nanos(5_000_000_007));
        assert_eq!(Instant::now().micros_since(own), 5_000_000);
        assert_eq!(own - Instant::now(), Duration::ZERO);
        assert_eq!(own.checked_duration_since(Instant::now()), None);
        sleep_until((own + Duration::from_secs(9)).into()).await;
        let late = own.elapsed().saturating_sub(Duration::from_secs(9));
        assert!(late <= Duration::from_millis(1), "{late:?}");
    }

    #[test]
    fn the_origin_is_the_same_time_on_both_clocks() {
        for _ in 0..1_000 {
            let origin = ClockOrigin::now();
            let later = monotonic_ns().saturating_sub(origin.monotonic_ns);
            assert!(origin.at.elapsed() + Duration::from_micros(1) >= Duration::from_nanos(later));
        }
    }

    #[test]
    fn there_are_points_before_the_origin_and_far_from_it() {
        let origin = Instant::from(TokioInstant::from_std(ORIGIN.at));
        let hour = Duration::from_hours(1);
        let before = origin - hour;
        assert_eq!(Instant::from(TokioInstant::from(before)), before);
        assert_eq!(before + hour, origin);
        let never = origin + Duration::MAX;
        assert!(never > origin + hour * 24 * 36_500);
        assert!(TokioInstant::from(never) > TokioInstant::from(origin + hour));
    }
}
