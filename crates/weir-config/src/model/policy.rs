//! The balancing policy of a pool with its settings. No endpoint is picked here.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_balance::{
    BalanceFactor, FairSettings, HashSettings, MeasuredTime, PeakEwmaSettings, PolicyKind,
};
use weir_stats::Template;

use super::ClientPrefix;
use crate::units::duration;
use crate::words;

/// The balancing policy of a pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// Weighted round robin, smoothly interleaved.
    #[default]
    RoundRobin,
    /// The endpoint with the fewest exchanges in flight and waiting for it, relative to its weight.
    LeastConn,
    /// An idle endpoint, otherwise the one with the lowest score of nginx-upstream-fair.
    Fair(FairSettings),
    /// A random endpoint, by weight.
    Random,
    /// The better of two random endpoints, drawn by weight.
    Random2,
    /// The lowest average response time, by the load and the weight.
    LeastTime(MeasuredTime),
    /// The same by an average that rises at once.
    PeakEwma(PeakEwma),
    /// The first endpoint that is below its `max_conn`.
    First,
    /// Rendezvous hashing.
    Hash(KeyHash),
    /// A ketama-like ring.
    RingHash(KeyHash),
    /// A Maglev table.
    Maglev(KeyHash),
}

/// The settings of `peak_ewma`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PeakEwma {
    /// The time after which a response time counts about a third.
    #[serde(with = "duration")]
    pub decay: Duration,
}

impl Default for PeakEwma {
    fn default() -> Self {
        Self { decay: Duration::from_micros(PeakEwmaSettings::DECAY_US) }
    }
}

/// The settings of the hashing policies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyHash {
    /// The key. A request whose key is empty may go to any endpoint.
    #[serde(with = "words::template")]
    pub key: Template,
    /// The largest load of an endpoint, as a multiple of its fair share.
    #[serde(default, with = "words::balance_factor")]
    pub balance_factor: Option<BalanceFactor>,
    /// The prefix lengths by which the key `$remote_addr` is shortened to a network; `None` for
    /// whole addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<ClientPrefix>,
}

impl KeyHash {
    /// Returns the reason why the settings contradict each other, if they do.
    pub fn objection(&self) -> Option<&'static str> {
        let prefix = self.prefix?;
        let is_address =
            self.key.lone_variable().is_some_and(|one| one.to_string() == "$remote_addr");
        if is_address {
            prefix.objection().map(|(_, message)| message)
        } else {
            Some("`ipv4=` and `ipv6=` need the key `$remote_addr`")
        }
    }
}

impl Policy {
    /// Returns the policy of that kind; `key` is used by those that hash one.
    pub fn new(kind: PolicyKind, key: Template) -> Self {
        let hash = |HashSettings { balance_factor }| KeyHash { key, balance_factor, prefix: None };
        match kind {
            PolicyKind::RoundRobin => Self::RoundRobin,
            PolicyKind::LeastConn => Self::LeastConn,
            PolicyKind::Fair(settings) => Self::Fair(settings),
            PolicyKind::Random => Self::Random,
            PolicyKind::Random2 => Self::Random2,
            PolicyKind::LeastTime(measured) => Self::LeastTime(measured),
            PolicyKind::PeakEwma(PeakEwmaSettings { decay_us }) => {
                Self::PeakEwma(PeakEwma { decay: Duration::from_micros(decay_us) })
            }
            PolicyKind::First => Self::First,
            PolicyKind::Hash(settings) => Self::Hash(hash(settings)),
            PolicyKind::RingHash(settings) => Self::RingHash(hash(settings)),
            PolicyKind::Maglev(settings) => Self::Maglev(hash(settings)),
        }
    }

    /// Returns the policy in the balancer's form.
    pub fn kind(&self) -> PolicyKind {
        let settings = |hash: &KeyHash| HashSettings { balance_factor: hash.balance_factor };
        match self {
            Self::RoundRobin => PolicyKind::RoundRobin,
            Self::LeastConn => PolicyKind::LeastConn,
            Self::Fair(settings) => PolicyKind::Fair(*settings),
            Self::Random => PolicyKind::Random,
            Self::Random2 => PolicyKind::Random2,
            Self::LeastTime(measured) => PolicyKind::LeastTime(*measured),
            Self::PeakEwma(PeakEwma { decay }) => {
                PolicyKind::PeakEwma(PeakEwmaSettings { decay_us: decay.as_micros() as u64 })
            }
            Self::First => PolicyKind::First,
            Self::Hash(hash) => PolicyKind::Hash(settings(hash)),
            Self::RingHash(hash) => PolicyKind::RingHash(settings(hash)),
            Self::Maglev(hash) => PolicyKind::Maglev(settings(hash)),
        }
    }

    /// Returns the same policy for networks of clients, if it hashes a key.
    #[must_use]
    pub fn by_network(mut self, prefix: Option<ClientPrefix>) -> Self {
        if let Self::Hash(hash) | Self::RingHash(hash) | Self::Maglev(hash) = &mut self {
            hash.prefix = prefix;
        }
        self
    }

    /// Returns the settings of a policy that hashes a key.
    pub fn hash(&self) -> Option<&KeyHash> {
        match self {
            Self::Hash(hash) | Self::RingHash(hash) | Self::Maglev(hash) => Some(hash),
            _ => None,
        }
    }

    /// Returns the key of a policy that hashes one.
    pub fn key(&self) -> Option<&Template> {
        self.hash().map(|hash| &hash.key)
    }
}
