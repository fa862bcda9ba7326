//! What limits on clients and keys counted.

use serde::{Deserialize, Serialize};

use super::family::{Exposition, Family, Kind, Value};

/// The limits and their table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LimitsReport {
    /// By name.
    pub limits: Vec<LimitReport>,
    /// Clients and keys that are kept now.
    pub tracked: u64,
    /// Most that can be.
    pub tracked_max: u64,
    /// Memory that the table holds.
    pub table_bytes: u64,
    /// Clients and keys that were forgotten before their allowance was whole, because the table was full.
    pub evicted: u64,
    /// Events that were let through because there was no place to count them at.
    pub untracked: u64,
}

/// A bound of a limit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LimitReport {
    /// Its name: a listener's, a route's, its own, or `*` for all listeners.
    pub limit: String,
    /// `client_connections`, `client_in_flight`, `client_rate`, `client_new_connections`, `client_handshakes`, or `rate`.
    pub bound: String,
    /// Requests refused, connections closed.
    pub refused: u64,
    /// Requests that had to wait.
    pub delayed: u64,
    /// What would have been refused or delayed, in a dry run.
    pub dry_run: u64,
    /// Clients or keys that were limited most, the most limited first.
    pub top: Vec<LimitedKeyReport>,
}

/// A client or key that was limited.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LimitedKeyReport {
    /// It, cut to 64 bytes.
    pub key: String,
    /// How often, at most.
    pub count: u64,
    /// How much of that may be another's, whose place it took.
    pub over: u64,
    /// Seconds since the last time.
    pub last_s: u64,
}

pub(super) fn write(report: &LimitsReport, text: &mut Exposition) {
    let help = "What limits on clients and keys did: requests refused or connections closed, requests delayed, what a dry run would have.";
    text.family(Family { name: "weir_limited", kind: Kind::Counter, help });
    for limit in &report.limits {
        for (result, count) in
            [("refused", limit.refused), ("delayed", limit.delayed), ("dry_run", limit.dry_run)]
        {
            let labels = [("limit", &*limit.limit), ("bound", &*limit.bound), ("result", result)];
            text.sample(&labels, Value::Count(count));
        }
    }
    let help = "Clients and keys that the table of limits keeps.";
    text.gauge("weir_limit_table_entries", help, Value::Count(report.tracked));
    let help = "Clients and keys that the table of limits has room for.";
    text.gauge("weir_limit_table_entries_max", help, Value::Count(report.tracked_max));
    let help = "Memory that the table of limits holds.";
    text.gauge("weir_limit_table_bytes", help, Value::Count(report.table_bytes));
    let help =
        "Clients and keys forgotten before their allowance was whole, because the table was full.";
    text.family(Family { name: "weir_limit_table_evicted", kind: Kind::Counter, help });
    text.sample(&[], Value::Count(report.evicted));
    let help = "Events let through because the table had no place to count them at.";
    text.family(Family { name: "weir_limit_table_untracked", kind: Kind::Counter, help });
    text.sample(&[], Value::Count(report.untracked));
}
