//! Metrics of limits on clients and keys.

use weir_stats::exposition::{Exposition, Family, MetricKind, MetricValue};

use crate::status::LimitsStatus;

pub(super) fn write(limits: &LimitsStatus, text: &mut Exposition) {
    let help = "Effects of limits on clients and keys: requests refused or connections closed, requests delayed, and the same of a dry run.";
    text.family(Family { name: "weir_limited", kind: MetricKind::Counter, help });
    for limit in &limits.limits {
        for (result, count) in
            [("refused", limit.refused), ("delayed", limit.delayed), ("dry_run", limit.dry_run)]
        {
            let labels = [("limit", &*limit.limit), ("bound", &*limit.bound), ("result", result)];
            text.sample(&labels, MetricValue::Count(count));
        }
    }
    let help = "Clients and keys in the table of limits.";
    text.gauge("weir_limit_table_entries", help, MetricValue::Count(limits.tracked));
    let help = "Capacity of the table of limits, in clients and keys.";
    text.gauge("weir_limit_table_entries_max", help, MetricValue::Count(limits.tracked_max));
    let help = "Memory that the table of limits holds.";
    text.gauge("weir_limit_table_bytes", help, MetricValue::Count(limits.table_bytes));
    let help = "Clients and keys removed from the full table before their allowance was restored.";
    text.family(Family { name: "weir_limit_table_evicted", kind: MetricKind::Counter, help });
    text.sample(&[], MetricValue::Count(limits.evicted));
    let help = "Events allowed without a count because the table was full.";
    text.family(Family { name: "weir_limit_table_untracked", kind: MetricKind::Counter, help });
    text.sample(&[], MetricValue::Count(limits.untracked));
}
