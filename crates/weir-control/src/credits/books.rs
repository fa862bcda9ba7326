//! The books of the machine's processor credits: what it earns, what it uses, and when that ends. Pure: readings and the clock are
//! arguments. One credit is a minute of one core.
//!
//! ```text
//! estimated ──held to the baseline for want of credits──▶ seen ◀──┐
//!     └──uses far more than the books say it can──▶ refuted ──────┘
//! ```

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

/// A minute, µs.
pub(super) const MINUTE_US: f64 = 60e6;
/// What a rate is told of, µs.
const LATELY_US: u64 = 60_000_000;
/// What a rate is told of that has to be heeded at once, µs.
const JUST_NOW_US: u64 = 10_000_000;
/// Less tells no rate: the kernel counts in hundredths of a second.
const LEAST_US: u64 = 5_000_000;
/// How long a machine has to be held to its baseline before that counts, µs.
const HELD_US: u64 = 15_000_000;
/// Readings are kept for this long, µs.
const KEPT_US: u64 = 2 * LATELY_US;
/// And there are no more than this.
const KEPT: usize = 600;
/// Who wants this many times his baseline and gets no more than that many times is held to it.
const WANTS: f64 = 1.25;
const GETS: f64 = 1.15;
/// Credits beyond what there is, for each core, that a machine may use before the books are wrong: clouds lower it to its baseline over a
/// quarter of an hour, in which it uses about half of that time.
const OVERDRAFT: f64 = 8.0;
/// Credits that are none.
const NONE: f64 = 1e-6;

/// What a bucket is filled with and holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bucket {
    /// Cores that are earned.
    pub(crate) earned_cores: f64,
    /// Most credits.
    pub(crate) max: f64,
    pub(crate) cores: u64,
}

/// What was used up to a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_field_names, reason = "the unit stands last")]
pub(crate) struct Reading {
    /// On any clock that does not jump.
    pub(crate) at_us: u64,
    /// Time of all cores, of all programs.
    pub(crate) busy_us: u64,
    /// What they wanted beside that and did not get.
    pub(crate) steal_us: u64,
}

/// How far the balance can be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    /// It began with an estimate.
    Estimated,
    /// It began with what somebody knew, or was seen to be 0.
    Known,
    /// It is wrong, or means nothing.
    Refuted,
}

/// Cores, over some time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rate {
    pub(crate) used: f64,
    pub(crate) stolen: f64,
}

impl Rate {
    /// What was wanted.
    pub(crate) fn wanted(self) -> f64 {
        self.used + self.stolen
    }
}

/// What comes of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Forecast {
    /// Too little was seen.
    Unknown,
    /// At this rate credits last.
    Lasting,
    /// At this rate they are used up in so many µs.
    Exhausted { in_us: f64 },
    /// There are none, and more than the baseline is wanted.
    Empty,
    /// The books are of no use.
    Refuted,
}

/// The books.
#[derive(Clone, Debug)]
pub(crate) struct Books {
    bucket: Bucket,
    balance: f64,
    trust: Trust,
    /// Credits that were used although the books say that there were none.
    overdraft: f64,
    /// The oldest first; never empty.
    readings: VecDeque<Reading>,
}

impl Books {
    /// Books that begin with so many credits at a first reading.
    pub(crate) fn new(bucket: Bucket, balance: f64, trust: Trust, first: Reading) -> Self {
        let balance = balance.clamp(0.0, bucket.max);
        Self { bucket, balance, trust, overdraft: 0.0, readings: VecDeque::from([first]) }
    }

    /// Credits that there are.
    pub(crate) fn balance(&self) -> f64 {
        self.balance
    }

    pub(crate) fn bucket(&self) -> Bucket {
        self.bucket
    }

    pub(crate) fn trust(&self) -> Trust {
        self.trust
    }

    /// Another bucket from now on; what was saved up stays, as far as it has room.
    pub(crate) fn change_bucket(&mut self, bucket: Bucket) {
        self.bucket = bucket;
        self.balance = self.balance.clamp(0.0, bucket.max);
    }

    /// Somebody knows better.
    pub(crate) fn set_balance(&mut self, balance: f64) {
        self.balance = balance.clamp(0.0, self.bucket.max);
        self.trust = Trust::Known;
        self.overdraft = 0.0;
    }

    /// Enters what was used up to a reading. One that is not later than the last one tells nothing.
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

    /// What the machine shows counts more than what was added up.
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

    /// Over the last minute, as far as that was seen.
    pub(crate) fn rate(&self) -> Option<Rate> {
        self.rate_over(LATELY_US, LEAST_US)
    }

    /// Over the last seconds.
    pub(crate) fn rate_just_now(&self) -> Option<Rate> {
        self.rate_over(JUST_NOW_US, LEAST_US)
    }

    /// Over `span_us`; `None` when less than `least_us` was seen.
    fn rate_over(&self, span_us: u64, least_us: u64) -> Option<Rate> {
        let last = self.readings.back()?;
        let enough = |first: &&Reading| last.at_us.saturating_sub(first.at_us) >= span_us;
        let first = self.readings.iter().rev().find(enough).or(self.readings.front())?;
        let elapsed = last.at_us.saturating_sub(first.at_us);
        if elapsed < least_us.max(1) {
            return None;
        }
        let cores = |last: u64, first: u64| last.saturating_sub(first) as f64 / elapsed as f64;
        Some(Rate {
            used: cores(last.busy_us, first.busy_us),
            stolen: cores(last.steal_us, first.steal_us),
        })
    }

    /// What comes of it, if all goes on as it did over the last minute.
    pub(crate) fn forecast(&self) -> Forecast {
        if self.trust == Trust::Refuted {
            return Forecast::Refuted;
        }
        let Some(rate) = self.rate() else { return Forecast::Unknown };
        let earned = self.bucket.earned_cores;
        if self.balance <= NONE {
            // Who uses just what he earns has none either, and lacks nothing.
            return if rate.wanted() > earned * GETS { Forecast::Empty } else { Forecast::Lasting };
        }
        let less = rate.used - earned;
        if less <= earned * 1e-9 {
            return Forecast::Lasting;
        }
        Forecast::Exhausted { in_us: self.balance / less * MINUTE_US }
    }
}

/// What a machine may have saved up that was started so long ago with `launch` credits and has used so much since. When during that time it
/// was used is not known: it is taken to be all the time, and no more is counted than fills the bucket.
pub(crate) fn estimate(bucket: Bucket, launch: f64, uptime_us: u64, busy_us: u64) -> f64 {
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
