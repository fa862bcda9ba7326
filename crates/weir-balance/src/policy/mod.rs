//! The policies: their names, which are the values of `balance …;` in a configuration, and the
//! picks among the endpoints of a pool. It uses `state` and knows neither the queue nor the
//! dispatcher.

pub(crate) mod crowd;
pub(crate) mod fair;
pub(crate) mod hashing;
pub(crate) mod least_time;
pub(crate) mod load_tree;
pub(crate) mod looks;
pub(crate) mod many;
pub(crate) mod pick;
pub(crate) mod picker;
pub(crate) mod query;
pub(crate) mod slow_start;
pub(crate) mod smooth_wrr;
pub(crate) mod stall;
pub(crate) mod tier;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::policy::fair::{FairSettings, WeightMode};
use crate::policy::hashing::bounded::BalanceFactor;

/// The policy by which a pool picks an endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PolicyKind {
    /// Smooth weighted round robin (nginx's default).
    #[default]
    RoundRobin,
    /// The endpoint with the fewest exchanges in flight and waiting for it, relative to its weight;
    /// ties go in turn (HAProxy's `leastconn`).
    LeastConn,
    /// An idle endpoint in turn, else the one with the lowest score (nginx-upstream-fair).
    Fair(FairSettings),
    /// One endpoint drawn by weight (nginx's `random`).
    Random,
    /// Two endpoints drawn by weight; the one with fewer in flight wins (HAProxy's `random(2)`).
    Random2,
    /// The endpoint with the lowest average response time, multiplied by its load and relative to
    /// its weight (nginx's `least_time`).
    LeastTime(MeasuredTime),
    /// The same by an average that rises at once to a longer response time and falls slowly
    /// (Finagle's peak EWMA).
    PeakEwma(PeakEwmaSettings),
    /// The first endpoint in file order that is below its `max_conn` (HAProxy's `first`).
    First,
    /// Rendezvous hashing of the exchange's key.
    Hash(HashSettings),
    /// A ketama-like ring over the exchange's key (nginx's `hash … consistent`).
    RingHash(HashSettings),
    /// A Maglev table over the exchange's key.
    Maglev(HashSettings),
}

/// The settings common to the policies that hash a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct HashSettings {
    /// The bound on an endpoint's load. With `None` a key goes to its endpoint however busy that
    /// is.
    pub balance_factor: Option<BalanceFactor>,
}

/// The response time that is averaged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MeasuredTime {
    /// Up to the head of the response.
    #[default]
    Header,
    /// Up to the end of the response.
    LastByte,
}

impl MeasuredTime {
    /// Every response time.
    pub fn all() -> &'static [Self] {
        &[Self::Header, Self::LastByte]
    }

    /// The word in a configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Header => "header",
            Self::LastByte => "last_byte",
        }
    }
}

/// The options of `balance peak_ewma`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PeakEwmaSettings {
    /// The time after which a response time counts about a third, µs.
    pub decay_us: u64,
}

impl PeakEwmaSettings {
    /// The decay that Finagle has by default, µs. `least_time` has it as well.
    pub const DECAY_US: u64 = 10_000_000;
}

const PEAK: PeakEwmaSettings = PeakEwmaSettings { decay_us: PeakEwmaSettings::DECAY_US };
const FAIR: FairSettings = FairSettings { no_rr: false, weight_mode: WeightMode::Default };
const UNBOUNDED: HashSettings = HashSettings { balance_factor: None };

impl PolicyKind {
    /// Every policy with its default settings, in the order of the reference.
    pub fn all() -> &'static [Self] {
        &[
            Self::RoundRobin,
            Self::LeastConn,
            Self::Fair(FAIR),
            Self::Random,
            Self::Random2,
            Self::LeastTime(MeasuredTime::Header),
            Self::PeakEwma(PEAK),
            Self::First,
            Self::Hash(UNBOUNDED),
            Self::RingHash(UNBOUNDED),
            Self::Maglev(UNBOUNDED),
        ]
    }

    /// The policy's name in a configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RoundRobin => "round_robin",
            Self::LeastConn => "least_conn",
            Self::Fair(_) => "fair",
            Self::Random => "random",
            Self::Random2 => "random2",
            Self::LeastTime(_) => "least_time",
            Self::PeakEwma(_) => "peak_ewma",
            Self::First => "first",
            Self::Hash(_) => "hash",
            Self::RingHash(_) => "ring_hash",
            Self::Maglev(_) => "maglev",
        }
    }

    /// The hash settings, if the policy hashes a key of the exchange.
    pub fn hashes(self) -> Option<HashSettings> {
        match self {
            Self::Hash(settings) | Self::RingHash(settings) | Self::Maglev(settings) => {
                Some(settings)
            }
            _ => None,
        }
    }
}

impl fmt::Display for PolicyKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// Error: the word names no policy; [`PolicyKind::all`] lists the known ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownPolicy;

impl fmt::Display for UnknownPolicy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("unknown balancing policy; there are")?;
        for (index, kind) in PolicyKind::all().iter().enumerate() {
            let separator = if index == 0 { " " } else { ", " };
            write!(formatter, "{separator}{kind}")?;
        }
        Ok(())
    }
}

impl std::error::Error for UnknownPolicy {}

impl FromStr for PolicyKind {
    type Err = UnknownPolicy;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        Self::all().iter().copied().find(|kind| kind.as_str() == word).ok_or(UnknownPolicy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_parses_back() {
        for &kind in PolicyKind::all() {
            assert_eq!(kind.as_str().parse(), Ok(kind));
        }
    }

    #[test]
    fn an_unknown_name_lists_what_there_is() {
        let error = "leastconn".parse::<PolicyKind>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "unknown balancing policy; there are round_robin, least_conn, fair, random, random2, least_time, \
             peak_ewma, first, hash, ring_hash, maglev"
        );
    }
}
