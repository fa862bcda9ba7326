//! Metrics of limits on clients and keys.

use serde::{Deserialize, Serialize};

use super::family::{Family, Kind, Value};
use super::writer::Exposition;

/// The limits and their table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LimitsReport {
    /// The limits, by name.
    pub limits: Vec<LimitReport>,
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
pub struct LimitReport {
    /// The limit's name: that of a listener, of a route, its own, or `*` for all listeners.
    pub limit: String,
    /// The kind: `client_connections`, `client_in_flight`, `client_rate`, `client_new_connections`,
    /// `client_handshakes`, or `rate`.
    pub bound: String,
    /// Requests refused or connections closed.
    pub refused: u64,
    /// Requests that were delayed.
    pub delayed: u64,
    /// Requests and connections that a dry run would have refused or delayed.
    pub dry_run: u64,
    /// The clients or keys that were limited most often, in descending order.
    pub top: Vec<LimitedKeyReport>,
}

/// A client or key that was limited.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LimitedKeyReport {
    /// The client or key, cut to 64 bytes.
    pub key: String,
    /// An upper bound of the number of times it was limited.
    pub count: u64,
    /// The part of `count` that may belong to another key, whose entry this one replaced.
    pub over: u64,
    /// Seconds since the last time.
    pub last_s: u64,
}

pub(super) fn write(report: &LimitsReport, text: &mut Exposition) {
    let help = "Effects of limits on clients and keys: requests refused or connections closed, requests delayed, and the same of a dry run.";
    text.family(Family { name: "weir_limited", kind: Kind::Counter, help });
    for limit in &report.limits {
        for (result, count) in
            [("refused", limit.refused), ("delayed", limit.delayed), ("dry_run", limit.dry_run)]
        {
            let labels = [("limit", &*limit.limit), ("bound", &*limit.bound), ("result", result)];
            text.sample(&labels, Value::Count(count));
        }
    }
    let help = "Clients and keys in the table of limits.";
    text.gauge("weir_limit_table_entries", help, Value::Count(report.tracked));
    let help = "Capacity of the table of limits, in clients and keys.";
    text.gauge("weir_limit_table_entries_max", help, Value::Count(report.tracked_max));
    let help = "Memory that the table of limits holds.";
    text.gauge("weir_limit_table_bytes", help, Value::Count(report.table_bytes));
    let help = "Clients and keys removed from the full table before their allowance was restored.";
    text.family(Family { name: "weir_limit_table_evicted", kind: Kind::Counter, help });
    text.sample(&[], Value::Count(report.evicted));
    let help = "Events allowed without a count because the table was full.";
    text.family(Family { name: "weir_limit_table_untracked", kind: Kind::Counter, help });
    text.sample(&[], Value::Count(report.untracked));
}
