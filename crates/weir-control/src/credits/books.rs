//! The account of the machine's processor credits: earnings, use, and the time until they run out.
//! Pure: readings and the clock are arguments. One credit is one minute of one core.
//!
//! ```text
//! estimated ──held to the baseline for lack of credits──▶ known ◀─┐
//!     └──uses far more than the books say it can──▶ refuted ──────┘
//! ```

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

/// One minute, µs.
pub(super) const MINUTE_US: f64 = 60e6;
/// The span of the rate that is reported, µs.
const LATELY_US: u64 = 60_000_000;
/// The span of the rate that shedding follows, µs.
const JUST_NOW_US: u64 = 10_000_000;
/// The shortest span that gives a rate: the kernel counts in hundredths of a second.
const LEAST_US: u64 = 5_000_000;
/// The time that a machine has to be held to its baseline before the books are corrected, µs.
const HELD_US: u64 = 15_000_000;
/// The time for which readings are kept, µs.
const KEPT_US: u64 = 2 * LATELY_US;
/// The largest number of readings kept.
const KEPT: usize = 600;
/// A machine counts as held to its baseline if it demands at least `WANTS` times and gets at most
/// `GETS` times the baseline.
const WANTS: f64 = 1.25;
const GETS: f64 = 1.15;
/// The credits beyond the balance, for each core, that a machine may use before the account is
/// considered wrong: clouds reduce it to its baseline over a quarter of an hour, in which it uses
/// about half of that time.
const OVERDRAFT: f64 = 8.0;
/// A balance up to this counts as zero.
const NONE: f64 = 1e-6;

/// The rate at which credits are earned, and their limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct CreditBucket {
    /// The earnings, as a number of cores.
    pub(crate) earned_cores: f64,
    /// The largest number of credits.
    pub(crate) max: f64,
    pub(crate) cores: u64,
}

/// The processor time used until a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_field_names, reason = "the unit stands last")]
pub(crate) struct Reading {
    /// The moment, on any clock that does not jump.
    pub(crate) at_us: u64,
    /// The time of all programs on all cores.
    pub(crate) busy_us: u64,
    /// The time in which they were ready to run but got no core.
    pub(crate) steal_us: u64,
}

/// The reliability of the balance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    /// It began with an estimate.
    Estimated,
    /// It began with a known value, or was observed to be 0.
    Known,
    /// It is wrong or meaningless.
    Refuted,
}

/// Cores used and stolen, averaged over some time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct CreditRate {
    pub(crate) used: f64,
    pub(crate) stolen: f64,
}

impl CreditRate {
    /// The cores demanded.
    pub(crate) fn wanted(self) -> f64 {
        self.used + self.stolen
    }
}

/// The prediction from a rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Forecast {
    /// There are too few readings.
    Unknown,
    /// Credits last at this rate.
    Lasting,
    /// Credits run out at this rate after `in_us` µs.
    Exhausted { in_us: f64 },
    /// There are no credits, and more than the baseline is demanded.
    Empty,
    /// The books are unusable.
    Refuted,
}

/// The books of one machine's credits.
#[derive(Clone, Debug)]
pub(crate) struct CreditBooks {
    bucket: CreditBucket,
    balance: f64,
    trust: Trust,
    /// The credits used beyond a balance of zero.
    overdraft: f64,
    /// The readings, oldest first; never empty.
    readings: VecDeque<Reading>,
}

impl CreditBooks {
    /// Creates books with this balance at a first reading.
    pub(crate) fn new(bucket: CreditBucket, balance: f64, trust: Trust, first: Reading) -> Self {
        let balance = balance.clamp(0.0, bucket.max);
        Self { bucket, balance, trust, overdraft: 0.0, readings: VecDeque::from([first]) }
    }

    /// The current credits.
    pub(crate) fn balance(&self) -> f64 {
        self.balance
    }

    pub(crate) fn bucket(&self) -> CreditBucket {
        self.bucket
    }

    pub(crate) fn trust(&self) -> Trust {
        self.trust
    }

    /// Changes the bucket; the balance stays, up to the new limit.
    pub(crate) fn change_bucket(&mut self, bucket: CreditBucket) {
        self.bucket = bucket;
        self.balance = self.balance.clamp(0.0, bucket.max);
    }

    /// Sets the balance to a known value.
    pub(crate) fn set_balance(&mut self, balance: f64) {
        self.balance = balance.clamp(0.0, self.bucket.max);
        self.trust = Trust::Known;
        self.overdraft = 0.0;
    }

    /// Enters a reading. A reading that is not later than the last one is ignored.
    pub(crate) fn enter(&mut self, reading: Reading) {
        let Some(last) = self.readings.back().copied() else { return };
        let elapsed = reading.at_us.saturating_sub(last.at_us);
        if elapsed == 0 {
            return;
        }
        let earned = elapsed as f64 * self.bucket.earned_cores / MINUTE_US;
        let spent = reading.busy_us.saturating_sub(last.busy_us) as f64 / MINUTE_US;
        let after = self.balance + earned - spent;
        self.overdraft = (self.overdraft - after).max(0.0);
        self.balance = after.clamp(0.0, self.bucket.max);
        self.keep(reading);
        self.correct();
    }

    fn keep(&mut self, reading: Reading) {
        let old = |first: &Reading| reading.at_us.saturating_sub(first.at_us) > KEPT_US;
        while self.readings.len() >= KEPT || self.readings.get(1).is_some_and(old) {
            self.readings.pop_front();
        }
        self.readings.push_back(reading);
    }

    /// Corrects the balance by the observed behaviour of the machine, which is more reliable than
    /// the sum.
    fn correct(&mut self) {
        let baseline = self.bucket.earned_cores;
        let held = self
            .rate_over(HELD_US, HELD_US)
            .is_some_and(|rate| rate.wanted() >= baseline * WANTS && rate.used <= baseline * GETS);
        if held {
            self.set_balance(0.0);
        } else if self.overdraft > OVERDRAFT * self.bucket.cores as f64 {
            self.trust = Trust::Refuted;
        }
    }

    /// The rate over the last minute, or as much of it as was observed.
    pub(crate) fn rate(&self) -> Option<CreditRate> {
        self.rate_over(LATELY_US, LEAST_US)
    }

    /// The rate over the last ten seconds.
    pub(crate) fn rate_just_now(&self) -> Option<CreditRate> {
        self.rate_over(JUST_NOW_US, LEAST_US)
    }

    /// The rate over `span_us`; `None` if less than `least_us` was observed.
    fn rate_over(&self, span_us: u64, least_us: u64) -> Option<CreditRate> {
        let last = self.readings.back()?;
        let enough = |first: &&Reading| last.at_us.saturating_sub(first.at_us) >= span_us;
        let first = self.readings.iter().rev().find(enough).or(self.readings.front())?;
        let elapsed = last.at_us.saturating_sub(first.at_us);
        if elapsed < least_us.max(1) {
            return None;
        }
        let cores = |last: u64, first: u64| last.saturating_sub(first) as f64 / elapsed as f64;
        Some(CreditRate {
            used: cores(last.busy_us, first.busy_us),
            stolen: cores(last.steal_us, first.steal_us),
        })
    }

    /// The prediction, if the rate of the last minute continues.
    pub(crate) fn forecast(&self) -> Forecast {
        if self.trust == Trust::Refuted {
            return Forecast::Refuted;
        }
        let Some(rate) = self.rate() else { return Forecast::Unknown };
        let earned = self.bucket.earned_cores;
        if self.balance <= NONE {
            // A machine that uses just what it earns has no credits either, and lacks none.
            return if rate.wanted() > earned * GETS { Forecast::Empty } else { Forecast::Lasting };
        }
        let less = rate.used - earned;
        if less <= earned * 1e-9 {
            return Forecast::Lasting;
        }
        Forecast::Exhausted { in_us: self.balance / less * MINUTE_US }
    }
}

/// The estimated savings of a machine that was started `uptime_us` ago with `launch` credits and
/// has used `busy_us` since. The distribution of its use over that time is unknown: it is taken to
/// be even, and no more is counted than fills the bucket.
pub(crate) fn estimate(bucket: CreditBucket, launch: f64, uptime_us: u64, busy_us: u64) -> f64 {
    if uptime_us == 0 {
        return launch.clamp(0.0, bucket.max);
    }
    let uptime = uptime_us as f64 / MINUTE_US;
    let to_fill = bucket.max / bucket.earned_cores;
    let used = busy_us as f64 / uptime_us as f64;
    let launch = if uptime < to_fill { launch } else { 0.0 };
    let saved = (bucket.earned_cores - used) * uptime.min(to_fill);
    (launch + saved).clamp(0.0, bucket.max)
}
