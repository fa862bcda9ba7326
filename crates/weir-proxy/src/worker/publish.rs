//! Makes a compiled snapshot the current one of a process.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::snapshot::compile::{Compiled, PoolSuccession};
use crate::snapshot::{CountedConditions, Snapshot};
use crate::time::instant::Instant;
use crate::worker::process::Process;

impl Compiled {
    /// Makes the snapshot current for new exchanges: limits, queues and caps are those of the new
    /// configuration when this returns. The caller tells the workers. The snapshot must have been
    /// compiled from the process's current one.
    pub fn publish(self, process: &Process) -> Arc<Snapshot> {
        let Self { snapshot, changes, retired, .. } = self;
        process.publish(Arc::clone(&snapshot));
        snapshot.limiter.table.resize(snapshot.limit_table);
        snapshot.limiter.forget_removed();
        for endpoint in &retired {
            endpoint.retired.store(true, Ordering::Release);
        }
        for endpoint in snapshot.pools.iter().flat_map(|pool| &pool.endpoints) {
            if endpoint.retired.load(Ordering::Relaxed) {
                // The endpoint was configured again before all its exchanges had ended.
                endpoint.retired.store(false, Ordering::Release);
            }
        }
        for (position, listener) in snapshot.listeners.iter().enumerate() {
            listener.gate.position.store(position, Ordering::Relaxed);
            listener.gate.room.resize(listener.max_connections.unwrap_or(usize::MAX));
        }
        snapshot.count_servers(CountedConditions::All);
        let now_us = process.balance_clock(Instant::now());
        for PoolSuccession { before, after, orders } in changes {
            after.balancer.succeed(&before, &orders, now_us);
        }
        snapshot
    }
}
