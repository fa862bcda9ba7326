//! The patterns of attack, by subject. They are run by the arena and judged in `judge.rs`.

pub(crate) mod connections;
pub(crate) mod endpoints;
pub(crate) mod floods;
pub(crate) mod framing;
pub(crate) mod http2;
pub(crate) mod policy;
pub(crate) mod probes;
pub(crate) mod slow;
pub(crate) mod tcp;
pub(crate) mod tls;

use crate::arena::Arena;
use crate::judge::{Outcome, Pattern};
use crate::proxies::Setting;

/// The growth of resident memory that a pattern is allowed by default.
const MEMORY: usize = 64 << 20;

/// Returns a pattern of one attacking thread that is judged by the honest client's latency only.
const fn pattern(name: &'static str, class: &'static str, attack: fn(&Arena)) -> Pattern {
    Pattern {
        name,
        class,
        setting: Setting::Ordinary,
        threads: 1,
        attack,
        outcome: |_| Outcome::served(),
        memory: MEMORY,
    }
}

impl Pattern {
    const fn outcome(mut self, outcome: fn(&Arena) -> Outcome) -> Self {
        self.outcome = outcome;
        self
    }

    const fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    const fn few_descriptors(mut self) -> Self {
        self.setting = Setting::FewDescriptors;
        self
    }
}
