//! How a pool picks: the policy with what it takes, and the tier of each endpoint.

use serde::{Deserialize, Serialize};
use weir_balance::{BalanceFactor, FairSettings, HashSettings, PolicyKind, WeightMode};
use weir_stats::Template;

use super::{Endpoint, Pool};
use crate::words;

/// How a pool picks a server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// In turn by weight, smoothly interleaved.
    RoundRobin,
    /// Fewest exchanges in flight and waiting for it, for its weight.
    LeastConn,
    /// An idle one, else the lowest score of nginx-upstream-fair.
    Fair(Fair),
    /// One drawn by weight.
    Random,
    /// The better of two drawn by weight.
    Random2,
    /// The first that is below its `max_conn`.
    First,
    /// Rendezvous hashing.
    Hash(KeyHash),
    /// A ketama-like ring.
    RingHash(KeyHash),
    /// A Maglev table.
    Maglev(KeyHash),
}

/// What `balance fair` takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Fair {
    /// Looks for an idle server from the first on every time.
    pub no_rr: bool,
    /// What weights mean.
    #[serde(with = "words::weight_mode")]
    pub weight_mode: WeightMode,
}

/// What the hashing policies take.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyHash {
    /// What is hashed. A request for which it comes to nothing goes anywhere.
    #[serde(with = "words::template")]
    pub key: Template,
    /// What a server may have in flight at most, as a multiple of its fair share.
    #[serde(default, with = "words::balance_factor")]
    pub balance_factor: Option<BalanceFactor>,
}

impl Policy {
    /// The policy of that kind; `key` is for those that hash one.
    pub fn new(kind: PolicyKind, key: Template) -> Self {
        let hash = |HashSettings { balance_factor }| KeyHash { key, balance_factor };
        match kind {
            PolicyKind::RoundRobin => Self::RoundRobin,
            PolicyKind::LeastConn => Self::LeastConn,
            PolicyKind::Fair(FairSettings { no_rr, weight_mode }) => {
                Self::Fair(Fair { no_rr, weight_mode })
            }
            PolicyKind::Random => Self::Random,
            PolicyKind::Random2 => Self::Random2,
            PolicyKind::First => Self::First,
            PolicyKind::Hash(settings) => Self::Hash(hash(settings)),
            PolicyKind::RingHash(settings) => Self::RingHash(hash(settings)),
            PolicyKind::Maglev(settings) => Self::Maglev(hash(settings)),
        }
    }

    /// What the balancer knows of it.
    pub fn kind(&self) -> PolicyKind {
        let settings = |hash: &KeyHash| HashSettings { balance_factor: hash.balance_factor };
        match self {
            Self::RoundRobin => PolicyKind::RoundRobin,
            Self::LeastConn => PolicyKind::LeastConn,
            Self::Fair(Fair { no_rr, weight_mode }) => {
                PolicyKind::Fair(FairSettings { no_rr: *no_rr, weight_mode: *weight_mode })
            }
            Self::Random => PolicyKind::Random,
            Self::Random2 => PolicyKind::Random2,
            Self::First => PolicyKind::First,
            Self::Hash(hash) => PolicyKind::Hash(settings(hash)),
            Self::RingHash(hash) => PolicyKind::RingHash(settings(hash)),
            Self::Maglev(hash) => PolicyKind::Maglev(settings(hash)),
        }
    }

    /// The key of the policies that hash one.
    pub fn key(&self) -> Option<&Template> {
        match self {
            Self::Hash(hash) | Self::RingHash(hash) | Self::Maglev(hash) => Some(&hash.key),
            _ => None,
        }
    }
}

impl Pool {
    /// The tier of one of its endpoints, 0 first: its priority, and for backups one more than the highest of the others.
    pub fn tier(&self, endpoint: &Endpoint) -> u8 {
        if !endpoint.backup {
            return endpoint.priority;
        }
        let others = self.endpoints.iter().filter(|other| !other.backup);
        others.map(|other| other.priority).max().map_or(0, |last| last.saturating_add(1))
    }
}
