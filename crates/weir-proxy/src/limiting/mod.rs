//! Limits on clients and keys: what one may ask for, exactly and over all workers. `table.rs` is the shared state, `client.rs` is
//! `limit client`, `rate.rs` is `limit rate`, `bandwidth.rs` is `limit bandwidth`, `pool.rs` is `limits` of a pool, `counts.rs` is what was limited. Where no limit is configured, a request meets two empty
//! lists.

pub mod bandwidth;
pub mod client;
pub mod counts;
pub mod pool;
pub mod rate;
pub mod table;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use counts::{LimitCounts, LimitKey};
use table::LimitTable;
use weir_stats::Cause;

/// What limits of all configurations share.
#[derive(Debug)]
pub struct Limiter {
    /// Who is limited.
    pub table: Arc<LimitTable>,
    counts: Mutex<BTreeMap<LimitKey, Arc<LimitCounts>>>,
}

impl Limiter {
    /// With a table of so many bytes.
    pub(crate) fn new(table_bytes: usize) -> Arc<Self> {
        Arc::new(Self { table: LimitTable::new(table_bytes), counts: Mutex::default() })
    }

    /// The counts of a limit, which go on over reloads.
    pub(crate) fn counts(&self, limit: &str, bound: &'static str) -> Arc<LimitCounts> {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let key = LimitKey { limit: limit.into(), bound };
        Arc::clone(counts.entry(key.clone()).or_insert_with(|| Arc::new(LimitCounts::new(key))))
    }

    /// Forgets the counts of limits that are configured no more.
    pub(crate) fn forget_removed(&self) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.retain(|_, counts| Arc::strong_count(counts) > 1);
    }

    /// Every limit that is configured, by name.
    pub fn all(&self) -> Vec<Arc<LimitCounts>> {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.values().cloned().collect()
    }
}

/// What a refused request is told, and how.
#[derive(Clone, Debug)]
pub(crate) struct Refused {
    pub(crate) cause: Cause,
    pub(crate) status: u16,
    /// Whether its connection is closed without an answer.
    pub(crate) silent: bool,
    pub(crate) told: Told,
}

/// What responses say of limits.
#[derive(Clone, Debug, Default)]
pub(crate) struct Told {
    pub(crate) retry_after_seconds: Option<u64>,
    pub(crate) headers: Vec<(&'static str, String)>,
}

/// Whole seconds, rounded up, and one at least.
pub(crate) fn seconds(ns: u64) -> u64 {
    ns.div_ceil(1_000_000_000).max(1)
}
