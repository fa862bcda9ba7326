//! `balance fair`: the two phases of nginx-upstream-fair (Grzegorz Nosek, 2007), over shared
//! atomics instead of shared memory under a lock.
//!
//! First phase: the first idle endpoint in turn. Second phase, if none is idle: the lowest score,
//! which is the number of exchanges in flight, and among equal numbers the endpoint that was chosen
//! the longest time ago, counted in requests of the pool.
//!
//! Differences from the module: endpoints stay in their order, where the module puts the heaviest
//! first; an exchange is counted out by its slot and cannot leak (the
//! module's "goes idle while requests pile up"); failures are those of the last window and so
//! expire by themselves (its "recovered server never used again"); a pool of one endpoint keeps the
//! limit of `weight_mode=peak`, where the module checks nothing.

use serde::{Deserialize, Serialize};

use crate::sync::{AtomicU64, Ordering};

/// The bits of a score that hold the age of an endpoint's last choice; the bits above hold the
/// exchanges in flight.
const AGE_BITS: u32 = 20;
const MAX_AGE: u64 = (1 << AGE_BITS) - 1;
const MAX_IN_FLIGHT: u64 = u64::MAX >> AGE_BITS;

/// The options of `balance fair`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FairSettings {
    /// Starts the search for an idle endpoint at the first endpoint every time, not after the last
    /// chosen one: endpoints at the end of the file get exchanges only while the others are busy.
    pub no_rr: bool,
    /// The meaning of weights.
    pub weight_mode: WeightMode,
}

/// The meaning of weights for `fair`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WeightMode {
    /// Shares: the score is divided by the endpoint's remaining turns, which start again at its
    /// weight after the last one.
    #[default]
    Default,
    /// An endpoint counts as idle until it has as many exchanges as its weight. With `no_rr`, an
    /// endpoint with some exchanges is taken before one with none.
    Idle,
    /// An endpoint takes no more exchanges than its weight.
    Peak,
}

impl WeightMode {
    /// Every mode.
    pub fn all() -> &'static [Self] {
        &[Self::Default, Self::Idle, Self::Peak]
    }

    /// The mode's name in a configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Idle => "idle",
            Self::Peak => "peak",
        }
    }
}

/// The state of one endpoint at the time of a choice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    /// Exchanges in flight.
    pub(crate) in_flight: u64,
    /// Failures in the last window.
    pub(crate) fails: u32,
    /// The number of failures that ejects; 0 if none do.
    pub(crate) max_fails: u32,
}

/// A choice of the policy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fairest {
    pub(crate) position: usize,
    /// Set if it is known that no endpoint was idle.
    pub(crate) none_idle: bool,
    /// Set if the endpoint was chosen by its score, in the second phase.
    pub(crate) scored: bool,
    /// The endpoint with the second-lowest score in that phase, and its exchanges in flight.
    pub(crate) runner_up: Option<(usize, u64)>,
}

impl Fairest {
    fn idle(position: usize, none_idle: bool) -> Self {
        Self { position, none_idle, scored: false, runner_up: None }
    }
}

#[derive(Clone, Copy)]
struct Scored {
    position: usize,
    score: u64,
    in_flight: u64,
}

/// The state of the policy for one tier.
#[derive(Debug)]
pub(crate) struct Fair {
    settings: FairSettings,
    peers: Box<[Peer]>,
    shared: Shared,
}

/// Every choice writes these fields, so they have a cache line to themselves.
#[derive(Debug)]
#[repr(align(64))]
struct Shared {
    /// The position chosen last; the search for an idle endpoint starts after it.
    current: AtomicU64,
    /// Exchanges that arrived, further attempts not counted.
    requests: AtomicU64,
}

#[derive(Debug)]
struct Peer {
    weight: u64,
    /// The value of `requests` at the peer's last choice.
    last_request: AtomicU64,
    /// The peer's remaining turns: 0 at the start; a choice at 0 sets them to the weight, every
    /// other one counts them down.
    turns: AtomicU64,
}

impl Fair {
    pub(crate) fn new(settings: FairSettings, weights: &[u32]) -> Self {
        let peer = |weight: &u32| Peer {
            weight: u64::from(*weight),
            last_request: AtomicU64::new(0),
            turns: AtomicU64::new(0),
        };
        let current = AtomicU64::new((weights.len() as u64).saturating_sub(1));
        let shared = Shared { current, requests: AtomicU64::new(0) };
        Self { settings, peers: weights.iter().map(peer).collect(), shared }
    }

    /// Counts an arriving exchange. Its further attempts do not count.
    pub(crate) fn arrive(&self) {
        self.shared.requests.fetch_add(1, Ordering::Relaxed);
    }

    /// The position at which the search for an idle endpoint starts; `after` as in
    /// [`Fair::choose`]. `None` if a search may choose an endpoint that is not the first idle one.
    pub(crate) fn start(&self, after: Option<usize>) -> Option<usize> {
        if self.settings.weight_mode == WeightMode::Idle {
            return None;
        }
        let current = after.unwrap_or_else(|| self.shared.current.load(Ordering::Relaxed) as usize);
        (current + 1).checked_rem(self.peers.len())
    }

    /// The choice among the positions for which `look` returns a value. After a failed attempt,
    /// `after` is the position of that attempt.
    pub(crate) fn choose(
        &self,
        after: Option<usize>,
        look: impl Fn(usize) -> Option<Look>,
    ) -> Option<Fairest> {
        let len = self.peers.len();
        let current = after.unwrap_or_else(|| self.shared.current.load(Ordering::Relaxed) as usize);
        let start = (current + 1).checked_rem(len)?;
        let (before, from) = self.peers.split_at_checked(start)?;
        self.scan((start..).zip(from).chain((0..).zip(before)), look)
    }

    /// Notes that the choice became a slot.
    pub(crate) fn chosen(&self, position: usize) {
        let Some(peer) = self.peers.get(position) else { return };
        if !self.settings.no_rr {
            self.shared.current.store(position as u64, Ordering::Relaxed);
        }
        peer.last_request.store(self.shared.requests.load(Ordering::Relaxed), Ordering::Relaxed);
        if self.settings.weight_mode == WeightMode::Default {
            let next = |turns: u64| Some(turns.checked_sub(1).unwrap_or(peer.weight));
            let _ = peer.turns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        }
    }

    /// Runs both phases in one pass. First phase: the first idle endpoint; or, with weight mode
    /// `idle` and `no_rr`, the one with the fewest exchanges among those that have some, unless one
    /// with none came first. Second phase: the lowest score, the last of several equal ones.
    fn scan<'a>(
        &self,
        ring: impl Iterator<Item = (usize, &'a Peer)>,
        look: impl Fn(usize) -> Option<Look>,
    ) -> Option<Fairest> {
        let FairSettings { no_rr, weight_mode } = self.settings;
        let by_weight = weight_mode == WeightMode::Idle;
        let requests = self.shared.requests.load(Ordering::Relaxed);
        let mut idle: Option<(usize, u64)> = None;
        let mut busy: Option<Scored> = None;
        let mut second: Option<Scored> = None;
        let mut none_idle = true;
        for (position, peer) in ring {
            let Some(look) = look(position) else { continue };
            let most = if by_weight { peer.weight } else { 1 };
            if look.fails == 0 && look.in_flight < most {
                if !by_weight || !no_rr {
                    return Some(Fairest::idle(position, false));
                }
                if idle.is_none_or(|(_, fewest)| look.in_flight > 0 && look.in_flight < fewest) {
                    idle = Some((position, look.in_flight));
                }
            }
            none_idle &= look.in_flight > 0;
            if weight_mode == WeightMode::Peak && look.in_flight >= peer.weight {
                continue;
            }
            let score = self.score(peer, look, requests);
            let scored = Scored { position, score, in_flight: look.in_flight };
            if busy.is_none_or(|lowest| score <= lowest.score) {
                second = busy.replace(scored);
            } else if second.is_none_or(|second| score <= second.score) {
                second = Some(scored);
            }
        }
        if let Some((position, _)) = idle {
            return Some(Fairest::idle(position, none_idle));
        }
        let runner_up = second.map(|second| (second.position, second.in_flight));
        let position = busy?.position;
        Some(Fairest { position, none_idle, scored: true, runner_up })
    }

    fn score(&self, peer: &Peer, look: Look, requests: u64) -> u64 {
        let last = peer.last_request.load(Ordering::Relaxed);
        let age = requests.saturating_sub(last).min(MAX_AGE);
        let score = (look.in_flight.min(MAX_IN_FLIGHT) << AGE_BITS) | (MAX_AGE - age);
        if self.settings.weight_mode != WeightMode::Default {
            return score;
        }
        let turns = peer.turns.load(Ordering::Relaxed);
        let (fails, most) = (u64::from(look.fails), u64::from(look.max_fails));
        let weight = (turns * most.saturating_sub(fails)).checked_div(most).unwrap_or(turns);
        if weight > 1 { score / weight } else { score }
    }
}
