//! All figures of the process as one plain [`Report`], of which metrics and JSON are views. It
//! changes nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::UNIX_EPOCH;

use weir_balance::EndpointState as LiveState;
use weir_config::model;
use weir_control::admin_port::{restart_us, restarts};
use weir_proxy::incidents::Incidents;
use weir_proxy::process::Process;
use weir_proxy::snapshot::Listener;
use weir_proxy::upstream::{UpstreamEndpoint, UpstreamPool};
use weir_proxy::worker::WorkerLoad;
use weir_stats::exposition::{
    AdminReport, EndpointReport, IncidentReport, ListenerReport, LogReport, MemoryReport,
    PoolReport, ProcessReport, QueueReport, Report, WorkerReport,
};

use crate::status::live;
use crate::status::read_model::ReadModel;
use crate::status::sampler::SampledFigures;

impl ReadModel<'_> {
    /// The report, without the admin interface's own counts.
    pub(crate) fn report(self) -> Report {
        let (config, snapshot) = (self.served.live.clone(), self.served.snapshot.clone());
        let (machine, machine_before) = self.sources.sampler.machine();
        let process = self.served.process.clone();
        let started = self.sources.operations.started();
        let started = started.duration_since(UNIX_EPOCH).unwrap_or_default();
        let now_us = process.balance_clock(self.now);
        let limits = live::limits(&snapshot, process.limit_clock(self.now));
        let credits = self.sources.operations.credits().report();
        let SampledFigures { now, recent, .. } = self.into_look();
        let logs = config.logs.iter().zip(&snapshot.logs);
        Report {
            process: ProcessReport {
                version: env!("CARGO_PKG_VERSION").to_owned(),
                started_unix_us: started.as_micros() as u64,
                generation: snapshot.generation,
                connections: process.open_connections() as u64,
                max_connections: process.connections.cap() as u64,
                shortages: process.shortages.load(Ordering::Relaxed),
                refused_at_cap: process.refused_at_cap.load(Ordering::Relaxed),
                given_up_at_cap: process.given_up_at_cap.load(Ordering::Relaxed),
                incidents: incidents(&process.incidents),
                memory: memory(&process),
            },
            listeners: snapshot.listeners.iter().map(|one| listener(one)).collect(),
            pools: snapshot
                .pools
                .iter()
                .zip(&config.pools)
                .map(|(pool, settings)| pool_report(pool, settings, now_us))
                .collect(),
            workers: process.loads.iter().map(|load| worker(load)).collect(),
            logs: logs
                .map(|(log, own)| LogReport { name: log.name.clone(), dropped: own.sink.dropped() })
                .collect(),
            usage: machine.since(&machine_before, recent.figures.requests()),
            machine,
            credits,
            admin: AdminReport::default(),
            limits,
            slowest: process.numbers.slowest(None, now_us),
            figures: now,
            by_worker: Vec::new(),
            recent_us: recent.length_us,
            recent: recent.figures,
        }
    }
}

fn pool_report(pool: &UpstreamPool, settings: &model::Pool, now_us: u64) -> PoolReport {
    let balancer = &pool.balancer;
    let counters = balancer.counters();
    let endpoints = pool.endpoints.iter().enumerate();
    let endpoint = |(index, place): (usize, &Arc<UpstreamEndpoint>)| {
        let live = balancer.endpoint(index)?;
        Some(EndpointReport {
            name: place.name.to_string(),
            idle_connections: u64::from(place.idle.now()),
            connections_opened: place.opened.load(Ordering::Relaxed),
            idle_elsewhere: place.idle_elsewhere.load(Ordering::Relaxed),
            ..endpoint(live, now_us)
        })
    };
    let endpoints: Vec<EndpointReport> = endpoints.filter_map(endpoint).collect();
    let usable = |one: &&EndpointReport| live::is_usable(pool, one.state);
    PoolReport {
        name: pool.name.to_string(),
        usable: endpoints.iter().filter(usable).count() as u64,
        panicking: balancer.is_panicking(),
        in_flight: balancer.in_flight(),
        queue: settings.queue.as_ref().map(|queue| QueueReport {
            now: counters.waiting,
            max: u64::from(queue.max),
            longest: counters.longest_queue,
        }),
        counters: live::counters(pool),
        endpoints,
    }
}

/// The incidents of workers and of earlier serving processes.
pub(crate) fn incidents(incidents: &Incidents) -> IncidentReport {
    let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
    IncidentReport {
        restarts: restarts(),
        restart_us: restart_us(),
        hangs: read(&incidents.hangs),
        replaced: read(&incidents.replaced),
        panics: read(&incidents.panics),
        lost_connections: read(&incidents.lost_connections),
        lost_requests: read(&incidents.lost_exchanges),
    }
}

fn listener(listener: &Listener) -> ListenerReport {
    let open = listener.gate.open.load(Ordering::Relaxed);
    ListenerReport { name: listener.name.to_string(), connections: open as u64 }
}

fn worker(load: &WorkerLoad) -> WorkerReport {
    let read = |count: &AtomicUsize| count.load(Ordering::Relaxed) as u64;
    WorkerReport {
        connections: read(&load.open),
        requests_running: read(&load.busy),
        held: read(&load.held),
    }
}

fn endpoint(live: &LiveState, now_us: u64) -> EndpointReport {
    EndpointReport {
        name: String::new(),
        state: live::state(live, now_us),
        in_flight: u64::from(live.in_flight()),
        max_conn: live.max_conn().map(u64::from),
        queued: u64::from(live.queued()),
        passive_failures: live.failures(),
        picks: live.picks(),
        ejections: live.ejections(),
        ejections_refused: live.ejections_refused(),
        stalls: live.stalls(),
        ..EndpointReport::default()
    }
}

fn memory(process: &Process) -> MemoryReport {
    let figures = process.memory.figures();
    MemoryReport {
        used: figures.used as u64,
        max: figures.max.map(|max| max as u64),
        pressure: figures.pressure as u64,
        connections_refused: figures.refused,
        reads_paused: figures.paused,
        requests_given_up: figures.given_up,
    }
}
