//! Active health checks of an endpoint: verdicts from probe results, and the times of the next
//! probes. It probes nothing and reads no clock: results, times and randomness are arguments.
//! Failures seen in traffic are handled in `passive.rs` and `stall.rs`.

use crate::Health;

/// The intervals of an endpoint's probes, and the number of results that change the verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeSettings {
    /// The number of passed probes in a row that brings an endpoint back, from 1.
    pub rise: u32,
    /// The number of failed probes in a row that takes an endpoint out, from 1.
    pub fall: u32,
    /// The interval from the start of one probe to the start of the next, µs.
    pub interval_us: u64,
    /// The interval while the latest results contradict the verdict, µs.
    pub fast_us: u64,
    /// The interval while the endpoint is down and no result contradicts that, µs.
    pub down_us: u64,
    /// The maximum random deviation of each interval, in either direction, percent, at most 50.
    pub spread_percent: u8,
}

/// The result of one probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeOutcome {
    /// The endpoint answered as expected.
    Passed,
    /// The endpoint did not answer as expected.
    Failed,
}

/// The effect of a result on the verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeVerdict {
    /// The result confirms the verdict.
    Confirmed,
    /// The result contradicts the verdict: it is number `seen` of the `needed` results that would
    /// change it.
    Wavering {
        /// The number of such results in a row, from 1.
        seen: u32,
        /// The number of results that change the verdict.
        needed: u32,
    },
    /// The verdict changed to `to`, having been the other for `lasted_us`.
    Turned {
        /// The new verdict.
        to: Health,
        /// The duration of the previous verdict, µs.
        lasted_us: u64,
    },
}

/// An endpoint's place among those that are probed, by which first probes are spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeTurn {
    /// The endpoint's number among them, from 0.
    pub position: u64,
    /// The number of endpoints that are probed.
    pub count: u64,
}

/// The probe results of one endpoint, interpreted as HAProxy does: the endpoint is up until proven
/// otherwise. At the start one failed probe is proof enough, because no result speaks for the
/// endpoint yet.
///
/// ```text
///          first result: failed
///       ┌──────────────────────────┐
///       │  `fall` failed in a row  ▼
/// ─────▶ Up ────────────────────▶ Down
///       ▲   `rise` passed in a row │
///       └──────────────────────────┘
/// ```
#[derive(Clone, Debug)]
pub struct ProbeHistory {
    settings: ProbeSettings,
    health: Health,
    /// The number of results in a row that contradict `health`.
    contrary: u32,
    /// Set once a result came in.
    known: bool,
    since_us: u64,
}

impl ProbeHistory {
    /// Creates a history with the verdict up, as of `now_us`.
    pub fn new(settings: ProbeSettings, now_us: u64) -> Self {
        Self { settings, health: Health::Healthy, contrary: 0, known: false, since_us: now_us }
    }

    /// Changes the initial verdict to down, for an endpoint that an earlier history found down.
    #[must_use]
    pub fn down(self) -> Self {
        Self { health: Health::Unhealthy, known: true, ..self }
    }

    /// The current verdict.
    pub fn health(&self) -> Health {
        self.health
    }

    /// Takes in a result.
    pub fn take(&mut self, outcome: ProbeOutcome, now_us: u64) -> ProbeVerdict {
        let (confirming, needed) = match self.health {
            Health::Healthy => {
                (ProbeOutcome::Passed, if self.known { self.settings.fall } else { 1 })
            }
            Health::Unhealthy => (ProbeOutcome::Failed, self.settings.rise),
        };
        self.known = true;
        if outcome == confirming {
            self.contrary = 0;
            return ProbeVerdict::Confirmed;
        }
        self.contrary = self.contrary.saturating_add(1);
        if self.contrary < needed {
            return ProbeVerdict::Wavering { seen: self.contrary, needed };
        }
        self.contrary = 0;
        self.health = match self.health {
            Health::Healthy => Health::Unhealthy,
            Health::Unhealthy => Health::Healthy,
        };
        let lasted_us = now_us.saturating_sub(self.since_us);
        self.since_us = now_us;
        ProbeVerdict::Turned { to: self.health, lasted_us }
    }

    /// The time of the endpoint's first probe, µs. First probes are spread evenly over the interval
    /// in the endpoints' order, each delayed at random, but never past the time of the next one.
    /// `random` holds 64 random bits.
    pub fn first_probe_us(&self, now_us: u64, turn: ProbeTurn, random: u64) -> u64 {
        let interval = u128::from(self.settings.interval_us);
        let count = u128::from(turn.count.max(1));
        let own = interval * u128::from(turn.position) / count;
        let room = interval / count * u128::from(self.spread()) / 100;
        let later = own.saturating_add(drawn(room, random));
        now_us.saturating_add(u64::try_from(later).unwrap_or(u64::MAX))
    }

    /// The time of the probe after the one that began at `began_us`, as of `now_us`: one interval
    /// after that beginning, but never in the past. The interval is the current one, with a
    /// deviation determined by `random` (64 random bits). However far the clock jumped, the next
    /// probe is at most one interval away.
    pub fn next_probe_us(&self, began_us: u64, now_us: u64, random: u64) -> u64 {
        let interval = self.interval_us();
        let room = u128::from(interval) * u128::from(self.spread()) / 100;
        let wait = u128::from(interval) - room + drawn(room * 2, random);
        let wait = u64::try_from(wait).unwrap_or(u64::MAX);
        began_us.min(now_us).saturating_add(wait).max(now_us)
    }

    fn interval_us(&self) -> u64 {
        match (self.contrary, self.health) {
            (0, Health::Healthy) => self.settings.interval_us,
            (0, Health::Unhealthy) => self.settings.down_us,
            _ => self.settings.fast_us,
        }
    }

    fn spread(&self) -> u8 {
        self.settings.spread_percent.min(50)
    }
}

/// A number from 0 to `room`, determined by `random`.
fn drawn(room: u128, random: u64) -> u128 {
    (room * u128::from(random)) >> 64
}
