//! Limits on clients and keys, and caps on connections, exact over all workers. `table.rs` is the
//! state that limits share, `client.rs` is `limit client`, `rate.rs` is `limit rate`,
//! `in_flight.rs` is `limit in_flight` (`keyed.rs` is what both have in common),
//! `bandwidth.rs` is `limit bandwidth`, `pool.rs` is `limits` of a pool, `counts.rs` counts the
//! limited events. `room.rs` is a cap on connections, `client_shares.rs` and `idle_board.rs`
//! determine the connections that make room under it, `admission.rs` holds the state of a listener,
//! `server_connections.rs` counts connections to endpoints and caps both sides together,
//! `http2_meter.rs` bounds the frames of an HTTP/2 connection, `http2_windows.rs` its windows and
//! `window_growth.rs` those of all.
//! Without configured limits, a request only finds empty lists.

pub mod admission;
pub mod bandwidth;
pub mod client;
pub(crate) mod client_shares;
pub mod counts;
pub(crate) mod http2_meter;
pub(crate) mod http2_windows;
pub mod idle_board;
pub mod in_flight;
pub mod key_limits;
pub(crate) mod keyed;
pub mod pool;
pub mod rate;
pub mod room;
pub mod server_connections;
pub mod table;
pub(crate) mod window_growth;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use weir_stats::Cause;

use counts::{LimitCounts, LimitKey};
use table::LimitTable;

/// The state that limits of all configurations share.
#[derive(Debug)]
pub struct Limiter {
    /// The usage of the limited clients and keys.
    pub table: Arc<LimitTable>,
    counts: Mutex<BTreeMap<LimitKey, Arc<LimitCounts>>>,
}

impl Limiter {
    /// Creates a limiter with a table of `table_bytes`.
    pub(crate) fn new(table_bytes: usize) -> Arc<Self> {
        Arc::new(Self { table: LimitTable::new(table_bytes), counts: Mutex::default() })
    }

    /// The counts of a bound of a limit; they continue over reloads.
    pub(crate) fn counts(&self, limit: &str, bound: &'static str) -> Arc<LimitCounts> {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let key = LimitKey { limit: limit.into(), bound };
        Arc::clone(counts.entry(key.clone()).or_insert_with(|| Arc::new(LimitCounts::new(key))))
    }

    /// Removes the counts of limits that are no longer configured.
    pub(crate) fn forget_removed(&self) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.retain(|_, counts| Arc::strong_count(counts) > 1);
    }

    /// The counts of all configured limits, sorted by name.
    pub fn all(&self) -> Vec<Arc<LimitCounts>> {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.values().cloned().collect()
    }
}

/// The refusal of a request by a limit.
#[derive(Clone, Debug)]
pub(crate) struct Refused {
    pub(crate) cause: Cause,
    pub(crate) status: u16,
    /// Set if the connection is closed without a response.
    pub(crate) silent: bool,
    pub(crate) told: Told,
}

/// The traces of limits with an exchange: the limit headers of its response, and the limits that
/// have counted it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Told {
    /// The numbers of the limits that counted the request before an internal redirect.
    pub(crate) counted: Vec<u64>,
    pub(crate) retry_after_seconds: Option<u64>,
    pub(crate) headers: Vec<(&'static str, String)>,
}

/// A time of `ns` nanoseconds in whole seconds, rounded up; at least 1.
pub(crate) fn seconds(ns: u64) -> u64 {
    ns.div_ceil(1_000_000_000).max(1)
}
