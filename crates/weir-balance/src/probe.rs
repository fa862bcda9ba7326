//! What probes find out about an endpoint: from results to verdicts, and when the next probe is due. It probes nothing and reads
//! no clock: results, times and randomness are arguments. What traffic finds out is in `passive.rs` and `stall.rs`.

use crate::Health;

/// When probes of an endpoint go out, and how many results turn the verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeSettings {
    /// Passed probes in a row that bring an endpoint back, from 1.
    pub rise: u32,
    /// Failed probes in a row that take an endpoint out, from 1.
    pub fall: u32,
    /// From the start of one probe to the start of the next, µs.
    pub interval_us: u64,
    /// The same while the latest results contradict the verdict.
    pub fast_us: u64,
    /// The same while the endpoint is down and nothing says otherwise.
    pub down_us: u64,
    /// By how much of the interval each wait is drawn shorter or longer, percent, at most 50.
    pub spread_percent: u8,
}

/// What one probe found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeOutcome {
    /// The endpoint answered as expected.
    Passed,
    /// It did not.
    Failed,
}

/// What a result led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeVerdict {
    /// It confirms what is held.
    Confirmed,
    /// It contradicts what is held: `seen` of the `needed` results that would turn it.
    Wavering {
        /// Such results in a row, from 1.
        seen: u32,
        /// How many turn the verdict.
        needed: u32,
    },
    /// The verdict turned to `to`, having been the other for `lasted_us`.
    Turned {
        /// What holds from now on.
        to: Health,
        /// How long the opposite held, µs.
        lasted_us: u64,
    },
}

/// What the probes of one endpoint found so far, read as HAProxy reads it: up until proven otherwise, and at the start one failed probe is proof enough,
/// because nothing is known yet that speaks for the endpoint.
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
    /// Results in a row that contradict `health`.
    contrary: u32,
    /// Whether a result came in yet.
    known: bool,
    since_us: u64,
}

impl ProbeHistory {
    /// Up, as of `now_us`.
    pub fn new(settings: ProbeSettings, now_us: u64) -> Self {
        Self { settings, health: Health::Healthy, contrary: 0, known: false, since_us: now_us }
    }

    /// The same for an endpoint that an earlier history found down.
    #[must_use]
    pub fn down(self) -> Self {
        Self { health: Health::Unhealthy, known: true, ..self }
    }

    /// What holds.
    pub fn health(&self) -> Health {
        self.health
    }

    /// Takes a result in.
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

    /// When the first probe of endpoint number `position` of the `count` that are probed is due: they are spread evenly over the interval in
    /// their order, each somewhat later by chance, none past the next one's turn. `random` has 64 random bits.
    pub fn first_probe_us(&self, now_us: u64, (position, count): (u64, u64), random: u64) -> u64 {
        let interval = u128::from(self.settings.interval_us);
        let count = u128::from(count.max(1));
        let turn = interval * u128::from(position) / count;
        let room = interval / count * u128::from(self.spread()) / 100;
        let later = turn.saturating_add(drawn(room, random));
        now_us.saturating_add(u64::try_from(later).unwrap_or(u64::MAX))
    }

    /// When the probe after the one begun at `began_us` is due, seen from `now_us`: one wait after the beginning, drawn by `random` (64 random
    /// bits) around the interval that holds now, but never in the past. However far the clock jumped, it is at most one wait from now.
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

/// A number of 0 to `room`, as `random` says.
fn drawn(room: u128, random: u64) -> u128 {
    (room * u128::from(random)) >> 64
}
