//! The origin's records: a log of the last requests, and all counters as JSON.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use weir_wire::Method;

use super::fault::OriginFault;
use super::limits::{ID_BYTES, TARGET_BYTES};
use super::service::{OriginLoad, Port};
use super::text::Text;
use crate::timer::now_ns;

/// A request that was answered, or failed as requested.
#[derive(Clone, Copy, Debug)]
pub(super) struct OriginLogEntry {
    pub(super) n: u64,
    pub(super) port: u16,
    pub(super) method: Method,
    pub(super) target: Text<TARGET_BYTES>,
    pub(super) id: Text<ID_BYTES>,
    pub(super) arrived_ns: u64,
    /// Start of service.
    pub(super) began_ns: u64,
    pub(super) ended_ns: u64,
    /// Planned service time.
    pub(super) work_ns: u64,
    pub(super) overlapped: bool,
    pub(super) status: u16,
    pub(super) fault: Option<OriginFault>,
}

/// The last entries of one worker.
pub(super) struct OriginLog {
    ring: Mutex<LogRing>,
    capacity: usize,
}

#[derive(Default)]
struct LogRing {
    entries: Vec<OriginLogEntry>,
    /// Index of the oldest entry, once the ring is full.
    oldest: usize,
    generation: u32,
    dropped: u64,
}

impl OriginLog {
    pub(super) fn new(capacity: usize) -> Self {
        Self { ring: Mutex::default(), capacity }
    }

    fn lock(&self) -> MutexGuard<'_, LogRing> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an entry, overwriting the oldest one if the log is full. Requests that arrived before
    /// the log was reset are left out.
    #[inline]
    pub(super) fn push(&self, generation: u32, entry: impl FnOnce() -> OriginLogEntry) {
        if self.capacity == 0 {
            return;
        }
        let mut ring = self.lock();
        if ring.generation != generation {
            return;
        }
        if ring.entries.len() < self.capacity {
            ring.entries.push(entry());
            return;
        }
        let oldest = ring.oldest;
        if let Some(place) = ring.entries.get_mut(oldest) {
            *place = entry();
        }
        ring.oldest = if oldest + 1 == self.capacity { 0 } else { oldest + 1 };
        ring.dropped += 1;
    }

    fn forget(&self, generation: u32) {
        let mut ring = self.lock();
        *ring = LogRing { generation, ..LogRing::default() };
    }
}

/// All counters and logs.
pub(super) struct Stats {
    pub(super) load: OriginLoad,
    pub(super) ports: Vec<Arc<Port>>,
    /// One log per worker.
    pub(super) logs: Vec<OriginLog>,
}

impl Stats {
    /// All counters as JSON, with the last `entries` of the log.
    pub(super) fn to_json(&self, entries: usize) -> Value {
        let (log, dropped) = self.entries(entries);
        let sum = |counter: fn(&Port) -> u64| -> u64 {
            self.ports.iter().map(|port| counter(port)).sum()
        };
        let service: Vec<Value> = log.iter().map(|entry| self.entry(entry)).collect();
        json!({
            "uptime_us": self.since_start_us(now_ns()),
            "seed": self.load.seed,
            "requests": sum(|port| port.requests.load(Ordering::Relaxed)),
            "in_flight": self.load.gauge.now(),
            "max_in_flight": self.load.gauge.most(),
            "overlapping": sum(|port| port.overlapping.load(Ordering::Relaxed)),
            "refused": sum(|port| port.refused.load(Ordering::Relaxed)),
            "broken": sum(|port| port.broken.load(Ordering::Relaxed)),
            "connections": sum(|port| port.connections.now()),
            "accepted": sum(|port| port.accepted.load(Ordering::Relaxed)),
            "ports": self.ports.iter().map(|port| port_json(port)).collect::<Vec<_>>(),
            "log_dropped": dropped,
            "log": service,
        })
    }

    /// Resets the counters. Requests in flight remain, and are not logged.
    pub(super) fn forget(&self) {
        self.load.forget();
        let generation = self.load.generation.load(Ordering::Acquire);
        self.ports.iter().for_each(|port| port.forget());
        self.logs.iter().for_each(|log| log.forget(generation));
    }

    /// The last entries of all workers in order of arrival, and the number of entries that were
    /// overwritten.
    fn entries(&self, count: usize) -> (Vec<OriginLogEntry>, u64) {
        let mut entries = Vec::new();
        let mut dropped = 0;
        for log in &self.logs {
            let ring = log.lock();
            entries.extend_from_slice(&ring.entries);
            dropped += ring.dropped;
        }
        entries.sort_unstable_by_key(|entry| entry.n);
        let surplus = entries.len().saturating_sub(count);
        entries.drain(..surplus);
        (entries, dropped)
    }

    fn entry(&self, entry: &OriginLogEntry) -> Value {
        json!({
            "n": entry.n,
            "port": entry.port,
            "id": entry.id.to_string(),
            "method": format!("{:?}", entry.method).to_uppercase(),
            "target": entry.target.to_string(),
            "arrived_us": self.since_start_us(entry.arrived_ns),
            "began_us": self.since_start_us(entry.began_ns),
            "ended_us": self.since_start_us(entry.ended_ns),
            "work_us": entry.work_ns as f64 / 1e3,
            "overlapped": entry.overlapped,
            "status": entry.status,
            "fault": entry.fault.map(OriginFault::name),
        })
    }

    fn since_start_us(&self, time_ns: u64) -> f64 {
        time_ns.saturating_sub(self.load.started_ns) as f64 / 1e3
    }
}

fn port_json(port: &Port) -> Value {
    let (waiting, most_in_service) = port.line_now();
    json!({
        "address": port.address.to_string(),
        "tls": port.tls,
        "requests": port.requests.load(Ordering::Relaxed),
        "in_flight": port.gauge.now(),
        "max_in_flight": port.gauge.most(),
        "waiting": waiting,
        // Without a queue, all requests in flight are in service.
        "max_in_service": most_in_service.map_or(port.gauge.most(), |most| most as u64),
        "overlapping": port.overlapping.load(Ordering::Relaxed),
        "refused": port.refused.load(Ordering::Relaxed),
        "broken": port.broken.load(Ordering::Relaxed),
        "connections": port.connections.now(),
        "max_connections": port.connections.most(),
        "accepted": port.accepted.load(Ordering::Relaxed),
    })
}

#[cfg(test)]
mod tests {
    use weir_wire::Method;

    use super::{OriginLoad, OriginLog, OriginLogEntry, Stats, Text};

    fn entry(n: u64) -> OriginLogEntry {
        OriginLogEntry {
            n,
            port: 0,
            method: Method::Get,
            target: Text::of(b"/1k"),
            id: Text::default(),
            arrived_ns: 0,
            began_ns: 0,
            ended_ns: 0,
            work_ns: 0,
            overlapped: false,
            status: 200,
            fault: None,
        }
    }

    #[test]
    fn the_log_keeps_the_last_entries_in_the_order_of_arrival_over_all_workers() {
        let stats = Stats {
            load: OriginLoad::new(None, 0, None),
            ports: Vec::new(),
            logs: vec![OriginLog::new(3), OriginLog::new(3)],
        };
        let shown = |count| {
            let json = stats.to_json(count);
            let log = json["log"].as_array().unwrap();
            let numbers: Vec<_> = log.iter().map(|entry| entry["n"].as_u64().unwrap()).collect();
            (numbers, json["log_dropped"].as_u64().unwrap())
        };
        for n in [0, 2, 4, 6, 8] {
            stats.logs[0].push(0, || entry(n));
        }
        stats.logs[1].push(0, || entry(5));
        assert_eq!(shown(usize::MAX), (vec![4, 5, 6, 8], 2));
        assert_eq!(shown(2), (vec![6, 8], 2));
        stats.forget();
        stats.logs[0].push(0, || entry(9));
        stats.logs[0].push(1, || entry(0));
        assert_eq!(shown(usize::MAX), (vec![0], 0));
    }
}
