//! The values of the limits on clients and keys.

use serde::{Deserialize, Serialize};
use weir_proxy::limiting::counts::{LimitCounts, LimitedKey};
use weir_proxy::snapshot::Snapshot;

/// The limits and their table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LimitsStatus {
    /// The limits, by name.
    pub limits: Vec<LimitStatus>,
    /// The number of clients and keys in the table.
    pub tracked: u64,
    /// The capacity of the table.
    pub tracked_max: u64,
    /// The memory that the table holds, bytes.
    pub table_bytes: u64,
    /// Clients and keys that were evicted before their allowance was refilled, because the table
    /// was full.
    pub evicted: u64,
    /// Events that were let through because the table had no entry to count them in.
    pub untracked: u64,
}

/// One bound of a limit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LimitStatus {
    /// The limit's name: that of a listener, of a route, its own, or `*` for all listeners.
    pub limit: String,
    /// The kind: `client_connections`, `client_in_flight`, `client_rate`, `client_new_connections`,
    /// `client_handshakes`, `rate` or `in_flight`.
    pub bound: String,
    /// Requests refused or connections closed.
    pub refused: u64,
    /// Requests that were delayed.
    pub delayed: u64,
    /// Requests and connections that a dry run would have refused or delayed.
    pub dry_run: u64,
    /// The clients or keys that were limited most often, in descending order.
    pub top: Vec<LimitedKeyStatus>,
}

/// A client or key that was limited.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LimitedKeyStatus {
    /// The client or key, cut to 64 bytes.
    pub key: String,
    /// An upper bound of the number of times it was limited.
    pub count: u64,
    /// The part of `count` that may belong to another key, whose entry this one replaced.
    pub over: u64,
    /// Seconds since the last time.
    pub last_s: u64,
}

/// The counts of the limits on clients and keys until `now_ns`; `None` if there are none.
pub(crate) fn limits(snapshot: &Snapshot, now_ns: u64) -> Option<LimitsStatus> {
    let limiter = &snapshot.limiter;
    let limits = limiter.all();
    if limits.is_empty() {
        return None;
    }
    let (tracked, most, bytes) = limiter.table.fill(now_ns);
    let (evicted, untracked) = limiter.table.forgotten();
    Some(LimitsStatus {
        limits: limits.iter().map(|counts| limit(counts, now_ns)).collect(),
        tracked: tracked as u64,
        tracked_max: most as u64,
        table_bytes: bytes as u64,
        evicted,
        untracked,
    })
}

fn limit(counts: &LimitCounts, now_ns: u64) -> LimitStatus {
    let figures = counts.figures();
    let key = |own: LimitedKey| LimitedKeyStatus {
        key: String::from_utf8_lossy(&own.key).into_owned(),
        count: own.count,
        over: own.over,
        last_s: now_ns.saturating_sub(own.last_ns) / 1_000_000_000,
    };
    LimitStatus {
        limit: counts.key.limit.to_string(),
        bound: counts.key.bound.to_owned(),
        refused: figures.refused,
        delayed: figures.delayed,
        dry_run: figures.dry_run,
        top: counts.top().into_iter().map(key).collect(),
    }
}
