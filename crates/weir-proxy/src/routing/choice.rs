//! The choice between several pools: by the value of a variable, or by shares. It knows no
//! endpoint.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use weir_config::model::{PoolChoice, PoolShare, PoolSplit};
use weir_stats::split_hash;

use crate::http::pool_key::PoolKey;

/// The whole in hundredths of a percent.
const WHOLE: u64 = 10_000;

/// The pools that a variable names.
pub struct CompiledChoice {
    pub(crate) by: PoolKey,
    pools: HashMap<Box<[u8]>, usize>,
}

impl CompiledChoice {
    pub(crate) fn new(choice: &PoolChoice) -> Self {
        let pools = choice.pools.iter();
        Self {
            by: PoolKey::new(choice.by.clone()),
            pools: pools.map(|(name, pool)| (name.as_bytes().into(), *pool)).collect(),
        }
    }

    /// Returns the pool of a name.
    pub(crate) fn pool(&self, name: &[u8]) -> Option<usize> {
        self.pools.get(name).copied()
    }
}

/// Pools with their shares.
pub struct CompiledSplit {
    pub(crate) key: Option<PoolKey>,
    /// The place at which each share ends.
    ends: Box<[(u64, usize)]>,
    /// The number of places: the smallest one of which each share is a whole number.
    places: u64,
    /// The distance from the place of one request to that of the next. It has no divisor in common
    /// with the number of places, so that as many requests in a row have each place once, and it is
    /// near its golden section, so that those of one share are spread evenly.
    step: u64,
    /// The number of requests without a key so far, over all workers.
    count: AtomicU64,
}

impl CompiledSplit {
    pub(crate) fn new(split: &PoolSplit) -> Self {
        let given: u32 = split.shares.iter().filter_map(|one| one.share).sum();
        let rest = WHOLE.saturating_sub(u64::from(given));
        let share = |one: &PoolShare| one.share.map_or(rest, u64::from);
        let unit = split.shares.iter().map(share).fold(WHOLE, divisor).max(1);
        let places = WHOLE / unit;
        let golden = places * 618 / 1000;
        let step = (golden..places).find(|step| divisor(*step, places) == 1).unwrap_or(1);
        let mut end = 0;
        let ends = split.shares.iter().map(|one| {
            end += share(one) / unit;
            (end, one.pool)
        });
        Self {
            ends: ends.collect(),
            places,
            step,
            key: split.key.clone().map(PoolKey::new),
            count: AtomicU64::new(0),
        }
    }

    /// Returns the pool of a key. An empty key, for example of a cookie that the client does not
    /// have, is none.
    pub(crate) fn pool(&self, key: &[u8]) -> Option<usize> {
        let place = if key.is_empty() {
            self.count.fetch_add(1, Ordering::Relaxed) % self.places * self.step % self.places
        } else {
            (u64::from(split_hash(key)) * self.places) >> 32
        };
        self.ends.iter().find(|(end, _)| place < *end).map(|(_, pool)| *pool)
    }
}

/// The greatest common divisor.
fn divisor(one: u64, other: u64) -> u64 {
    if other == 0 { one } else { divisor(other, one % other) }
}

impl std::fmt::Debug for CompiledChoice {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("CompiledChoice").field(&self.by.template).finish()
    }
}

impl std::fmt::Debug for CompiledSplit {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("CompiledSplit").field(&self.ends).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(shares: &[Option<u32>]) -> CompiledSplit {
        let shares = shares.iter().enumerate();
        let shares = shares.map(|(pool, share)| PoolShare { share: *share, pool }).collect();
        CompiledSplit::new(&PoolSplit { shares, key: None })
    }

    #[test]
    fn shares_are_exact_and_spread_evenly() {
        let split = split(&[Some(9_000), Some(250), None]);
        let picks: Vec<usize> = (0..20_000).filter_map(|_| split.pool(b"")).collect();
        let count = |pool| picks.iter().filter(|pick| **pick == pool).count();
        assert_eq!((count(0), count(1), count(2)), (18_000, 500, 1_500));
        // A tenth of the requests never comes in a lump.
        for window in picks.windows(100) {
            let others = window.iter().filter(|pick| **pick != 0).count();
            assert!((8..=12).contains(&others), "{others}");
        }
    }

    #[test]
    fn few_requests_have_exact_shares_already() {
        for shares in [[5_000, 5_000], [7_500, 2_500], [9_000, 1_000], [9_900, 100], [10_000, 0]] {
            let split = split(&shares.map(Some));
            let first = (0..100).filter_map(|_| split.pool(b"")).filter(|pool| *pool == 0);
            assert_eq!(first.count() as u32, shares[0] / 100, "{shares:?}");
        }
    }

    #[test]
    fn a_key_keeps_its_pool() {
        let split = split(&[Some(5_000), Some(5_000)]);
        let mut counts = [0; 2];
        for number in 0..10_000 {
            let key = format!("client{number}");
            let pool = split.pool(key.as_bytes()).unwrap();
            assert_eq!(split.pool(key.as_bytes()), Some(pool));
            counts[pool] += 1;
        }
        assert!(counts[0] > 4_800 && counts[1] > 4_800, "{counts:?}");
    }
}
