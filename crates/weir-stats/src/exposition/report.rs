//! The live state of a process as plain values, and its metrics.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::credits::CreditsReport;
use super::family::{Family, Kind, Value};
use super::limits::LimitsReport;
use super::machine::{MachineFigures, Usage};
use super::writer::Exposition;
use crate::ExchangeRecord;
use crate::metrics::Figures;

/// The complete state at one instant.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The process.
    pub process: ProcessReport,
    /// The admin interface.
    pub admin: AdminReport,
    /// The listeners, in the configuration's order.
    pub listeners: Vec<ListenerReport>,
    /// The pools, in the configuration's order.
    pub pools: Vec<PoolReport>,
    /// The workers, by number.
    pub workers: Vec<WorkerReport>,
    /// The access logs, in the configuration's order.
    pub logs: Vec<LogReport>,
    /// The process's use of the machine.
    pub machine: MachineFigures,
    /// The usage over the last ten seconds.
    pub usage: Usage,
    /// The machine's processor credits, if they are tracked.
    pub credits: Option<CreditsReport>,
    /// The limits on clients and keys, if there are any.
    pub limits: Option<LimitsReport>,
    /// All counts.
    pub figures: Arc<Figures>,
    /// The counts of each worker, by number, if they were requested; counters and histograms then
    /// have a label `worker`.
    pub by_worker: Vec<Figures>,
    /// The counts of the last ten seconds.
    pub recent: Figures,
    /// The length of that interval, µs.
    pub recent_us: u64,
    /// The slowest exchanges of the last 15 minutes, for exemplars.
    pub slowest: Vec<Arc<ExchangeRecord>>,
}

/// The process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProcessReport {
    /// Weir's version.
    pub version: String,
    /// The start time, µs since 1970.
    pub started_unix_us: u64,
    /// The number of the active configuration.
    pub generation: u64,
    /// Client connections open now.
    pub connections: u64,
    /// The maximum of client connections.
    pub max_connections: u64,
    /// Connects to endpoints that failed for lack of descriptors, ports or memory.
    #[serde(default)]
    pub shortages: u64,
    /// Connections closed at once because their clients held a large part of the cap.
    #[serde(default)]
    pub refused_at_cap: u64,
    /// Requests and handshakes of such clients that were aborted in favour of others.
    #[serde(default)]
    pub given_up_at_cap: u64,
    /// Incidents of the workers and of the previous processes.
    #[serde(default)]
    pub incidents: IncidentReport,
    /// The memory budget.
    #[serde(default)]
    pub memory: MemoryReport,
}

/// Connections to the admin interface that were closed early.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdminReport {
    /// Connections closed to make room for others.
    pub closed: u64,
    /// Connections closed because no request arrived in time.
    pub late: u64,
    /// Connections refused for lack of room.
    pub refused: u64,
}

/// Incidents of workers, and of the processes before this one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IncidentReport {
    /// The number of restarts of the serving process after it had died.
    pub restarts: u64,
    /// The duration of the latest restart, from the death to the time at which the next process
    /// served, µs.
    #[serde(default)]
    pub restart_us: Option<u64>,
    /// The number of times that a worker did not respond for a second.
    pub hangs: u64,
    /// Workers that were replaced because they hung.
    pub replaced: u64,
    /// Workers that panicked and were restarted.
    pub panics: u64,
    /// Client connections that ended with a worker.
    pub lost_connections: u64,
    /// Requests that ended with a worker.
    pub lost_requests: u64,
}

/// The memory budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryReport {
    /// The bytes that the process has allocated.
    pub used: u64,
    /// The maximum; `None` if there is none.
    pub max: Option<u64>,
    /// The level of measures against memory shortage, from 0 (none) to 3.
    pub pressure: u64,
    /// Connections that were closed at once because memory was short.
    pub connections_refused: u64,
    /// Requests whose bodies were not read for a while.
    pub reads_paused: u64,
    /// Requests that were aborted because they held the most memory.
    pub requests_given_up: u64,
}

/// A listener.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ListenerReport {
    /// The listener's name.
    pub name: String,
    /// Client connections open now.
    pub connections: u64,
}

/// A worker.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkerReport {
    /// Client connections on the worker.
    pub connections: u64,
    /// The number of those connections with a running request.
    pub requests_running: u64,
    /// The bytes that these requests hold in buffers.
    #[serde(default)]
    pub held: u64,
}

/// An access log.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LogReport {
    /// The log's name.
    pub name: String,
    /// Lines that were not written because the writer could not keep up.
    pub dropped: u64,
}

/// A pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PoolReport {
    /// The pool's name.
    pub name: String,
    /// Endpoints that can be picked.
    pub usable: u64,
    /// Set while probes are ignored because too few endpoints are healthy.
    pub panicking: bool,
    /// Requests in flight.
    pub in_flight: u64,
    /// The queue; `None` if there is none.
    pub queue: Option<QueueReport>,
    /// The pool's counters.
    pub counters: PoolCounters,
    /// The endpoints, in the configuration's order.
    pub endpoints: Vec<EndpointReport>,
}

/// A pool's queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct QueueReport {
    /// Requests that wait now.
    pub now: u64,
    /// The maximum of waiting requests.
    pub max: u64,
    /// The highest number that ever waited at once.
    pub longest: u64,
}

/// The counters of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PoolCounters {
    /// Requests that got an endpoint.
    pub dispatched: u64,
    /// Requests that had to wait.
    pub queued: u64,
    /// Requests rejected because the queue was full.
    pub queue_full: u64,
    /// Requests rejected because all endpoints were full and there is no queue.
    pub full: u64,
    /// Requests rejected because no endpoint could be picked.
    pub unavailable: u64,
    /// Requests rejected for that reason after they had waited.
    pub gave_up: u64,
    /// Requests that left the queue of their own accord.
    pub cancelled: u64,
    /// Requests that waited too long.
    pub timed_out: u64,
    /// Requests sent to a busy endpoint while an idle one could be picked.
    pub inversions: u64,
    /// The time that those requests lost, µs.
    pub regret_us: u64,
    /// Retries that the budget refused.
    pub retries_refused: u64,
    /// Violations of the queue's invariants that the watchdog found; must be 0.
    pub violations: u64,
}

/// An endpoint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EndpointReport {
    /// The endpoint's name.
    pub name: String,
    /// The state.
    pub state: EndpointState,
    /// Requests in flight.
    pub in_flight: u64,
    /// The limit of requests in flight; `None` if there is none.
    pub max_conn: Option<u64>,
    /// Requests that wait for this endpoint and no other.
    pub queued: u64,
    /// Idle connections to the endpoint.
    pub idle_connections: u64,
    /// Connections opened to the endpoint.
    pub connections_opened: u64,
    /// Exchanges whose worker had no idle connection while another worker had one.
    pub idle_elsewhere: u64,
    /// Failures in traffic that count for the pool's `passive`.
    pub passive_failures: u64,
    /// Number of times the endpoint was picked.
    pub picks: u64,
    /// Number of ejections.
    pub ejections: u64,
    /// Number of ejections that were refused because too many other endpoints were ejected.
    pub ejections_refused: u64,
    /// Number of times the endpoint was found stalled.
    pub stalls: u64,
}

/// An endpoint's state: the reason that keeps it from taking requests. The operator's orders take
/// precedence over all other reasons.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndpointState {
    /// The endpoint takes requests.
    #[default]
    Up,
    /// The operator is draining the endpoint; it takes only requests that are bound to it.
    Draining,
    /// The operator put the endpoint into maintenance; it takes no requests.
    Maintenance,
    /// The endpoint's probes fail.
    Down,
    /// The endpoint is ejected for failures seen in traffic.
    Ejected,
    /// The endpoint does not answer while others do.
    Stalled,
    /// The endpoint's name does not resolve.
    Unresolved,
}

impl EndpointState {
    /// Every state, in order of declaration.
    pub const ALL: [Self; 7] = [
        Self::Up,
        Self::Draining,
        Self::Maintenance,
        Self::Down,
        Self::Ejected,
        Self::Stalled,
        Self::Unresolved,
    ];

    /// The state as one word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Draining => "draining",
            Self::Maintenance => "maintenance",
            Self::Down => "down",
            Self::Ejected => "ejected",
            Self::Stalled => "stalled",
            Self::Unresolved => "unresolved",
        }
    }
}

pub(super) fn write(report: &Report, text: &mut Exposition) {
    write_process(report, text);
    write_pools(&report.pools, text);
    write_queues(&report.pools, text);
    write_endpoints(&report.pools, text);
    write_states(&report.pools, text);
}

fn write_process(report: &Report, text: &mut Exposition) {
    let process = &report.process;
    let help = "Version of the program; always 1.";
    text.family(Family { name: "weir_build_info", kind: Kind::Gauge, help });
    text.sample(&[("version", &process.version)], Value::Count(1));
    let help = "When the process started, seconds since 1970.";
    let started = Value::Seconds(process.started_unix_us);
    text.gauge("process_start_time_seconds", help, started);
    let help = "The number of the configuration that is served, from 1.";
    text.gauge("weir_generation", help, Value::Count(process.generation));
    let connections = Value::Count(process.connections);
    text.gauge("weir_connections", "Client connections open now.", connections);
    let most = Value::Count(process.max_connections);
    text.gauge("weir_connections_max", "Most client connections open at once.", most);
    let help = "Connects to endpoints that failed because Weir had no descriptor, port or memory.";
    text.family(Family { name: "weir_connect_shortages", kind: Kind::Counter, help });
    text.sample(&[], Value::Count(process.shortages));
    let help = "Connections refused, and requests and handshakes given up, of clients that held most of a cap on connections.";
    text.family(Family { name: "weir_connection_cap_losses", kind: Kind::Counter, help });
    text.sample(&[("what", "refused")], Value::Count(process.refused_at_cap));
    text.sample(&[("what", "given_up")], Value::Count(process.given_up_at_cap));
    let help = "Admin connections closed early: to make room, by a timeout, or refused.";
    text.family(Family { name: "weir_admin_connections_ended", kind: Kind::Counter, help });
    let AdminReport { closed, late, refused } = report.admin;
    for (reason, count) in [("closed", closed), ("late", late), ("refused", refused)] {
        text.sample(&[("reason", reason)], Value::Count(count));
    }
    write_incidents(&process.incidents, text);
    let help = "Client connections of a listener open now.";
    text.family(Family { name: "weir_listener_connections", kind: Kind::Gauge, help });
    for listener in &report.listeners {
        text.sample(&[("listener", &listener.name)], Value::Count(listener.connections));
    }
    let help = "Client connections that a worker holds.";
    by_worker(report, text, "weir_worker_connections", help, |worker| worker.connections);
    let help = "Requests that run on a worker.";
    by_worker(report, text, "weir_worker_requests_running", help, |one| one.requests_running);
    let help = "Bytes that the running requests of a worker hold in buffers.";
    by_worker(report, text, "weir_worker_held_bytes", help, |worker| worker.held);
    write_memory(&process.memory, text);
    let help = "Log lines that were not written because the writer could not keep up.";
    text.family(Family { name: "weir_log_lines_dropped", kind: Kind::Counter, help });
    for log in &report.logs {
        text.sample(&[("log", &log.name)], Value::Count(log.dropped));
    }
    let help = "Memory of the histograms.";
    let bytes = Value::Count(report.figures.histogram_bytes as u64);
    text.gauge("weir_histogram_memory_bytes", help, bytes);
}

fn write_incidents(incidents: &IncidentReport, text: &mut Exposition) {
    let counters = [
        ("weir_restarts", "Restarts of the process after its end.", incidents.restarts),
        ("weir_worker_hangs", "Times that a worker did not answer for a second.", incidents.hangs),
        (
            "weir_workers_replaced",
            "Workers that were replaced because they hung.",
            incidents.replaced,
        ),
        ("weir_worker_panics", "Workers that panicked and were restarted.", incidents.panics),
        (
            "weir_worker_lost_connections",
            "Client connections that ended because their worker hung or panicked.",
            incidents.lost_connections,
        ),
        (
            "weir_worker_lost_requests",
            "Requests that ended because their worker hung or panicked.",
            incidents.lost_requests,
        ),
    ];
    for (name, help, count) in counters {
        text.family(Family { name, kind: Kind::Counter, help });
        text.sample(&[], Value::Count(count));
    }
    if let Some(time) = incidents.restart_us {
        let help = "Time from the end of the previous process until this one served.";
        text.gauge("weir_restart_seconds", help, Value::Seconds(time));
    }
}

fn write_memory(memory: &MemoryReport, text: &mut Exposition) {
    let help = "Memory that the process has allocated.";
    text.gauge("weir_memory_bytes", help, Value::Count(memory.used));
    if let Some(max) = memory.max {
        let help = "The budget of memory, `memory max=`.";
        text.gauge("weir_memory_max_bytes", help, Value::Count(max));
    }
    let help = "Measures against a shortage of memory: 0 none, 1 idle connections are closed, 2 reads are paused too, 3 connections are refused too.";
    text.gauge("weir_memory_pressure", help, Value::Count(memory.pressure));
    for (name, help, count) in [
        (
            "weir_memory_connections_refused",
            "Client connections closed on arrival because memory was short.",
            memory.connections_refused,
        ),
        (
            "weir_memory_reads_paused",
            "Requests whose bodies were paused because memory was short.",
            memory.reads_paused,
        ),
        (
            "weir_memory_requests_given_up",
            "Requests ended because memory was short and they held the most.",
            memory.requests_given_up,
        ),
    ] {
        text.family(Family { name, kind: Kind::Counter, help });
        text.sample(&[], Value::Count(count));
    }
}

fn by_worker(
    report: &Report,
    text: &mut Exposition,
    name: &'static str,
    help: &'static str,
    of: impl Fn(&WorkerReport) -> u64,
) {
    text.family(Family { name, kind: Kind::Gauge, help });
    for (number, worker) in report.workers.iter().enumerate() {
        text.sample(&[("worker", &number.to_string())], Value::Count(of(worker)));
    }
}

/// A metric of pools: its name, help, and value for a pool, if it has one.
type PoolColumn = (&'static str, &'static str, fn(&PoolReport) -> Option<Value>);

fn write_pools(pools: &[PoolReport], text: &mut Exposition) {
    let columns: [PoolColumn; 5] = [
        ("weir_pool_endpoints", "Endpoints of a pool.", |pool| {
            Some(Value::Count(pool.endpoints.len() as u64))
        }),
        ("weir_pool_endpoints_usable", "Available endpoints of a pool.", |pool| {
            Some(Value::Count(pool.usable))
        }),
        (
            "weir_pool_panicking",
            "1 while probes are ignored because too few endpoints are healthy.",
            |pool| Some(Value::Count(u64::from(pool.panicking))),
        ),
        ("weir_pool_in_flight", "Requests in flight.", |pool| Some(Value::Count(pool.in_flight))),
        ("weir_pool_queue", "Requests that wait in the queue.", |pool| {
            pool.queue.map(|queue| Value::Count(queue.now))
        }),
    ];
    pool_columns(pools, Kind::Gauge, &columns, text);
}

fn write_queues(pools: &[PoolReport], text: &mut Exposition) {
    let gauges: [PoolColumn; 2] = [
        ("weir_pool_queue_max", "Most requests that may wait.", |pool| {
            pool.queue.map(|queue| Value::Count(queue.max))
        }),
        ("weir_pool_queue_longest", "Most requests that waited at once.", |pool| {
            pool.queue.map(|queue| Value::Count(queue.longest))
        }),
    ];
    pool_columns(pools, Kind::Gauge, &gauges, text);
    let counters: [PoolColumn; 6] = [
        ("weir_pool_dispatched", "Requests that got an endpoint.", |pool| {
            Some(Value::Count(pool.counters.dispatched))
        }),
        ("weir_pool_queued", "Requests that had to wait.", |pool| {
            Some(Value::Count(pool.counters.queued))
        }),
        (
            "weir_pool_inversions",
            "Requests sent to a busy endpoint while an idle one was available.",
            |pool| Some(Value::Count(pool.counters.inversions)),
        ),
        (
            "weir_pool_regret_seconds",
            "Time lost by requests that were sent to a busy endpoint while an idle one was available.",
            |pool| Some(Value::Seconds(pool.counters.regret_us)),
        ),
        ("weir_pool_retries_refused", "Retries that the budget did not grant.", |pool| {
            Some(Value::Count(pool.counters.retries_refused))
        }),
        (
            "weir_pool_law_violations",
            "Violations of the queue's rules that the watchdog found; must be 0.",
            |pool| Some(Value::Count(pool.counters.violations)),
        ),
    ];
    pool_columns(pools, Kind::Counter, &counters, text);
    let help = "Requests that got no endpoint, by reason.";
    text.family(Family { name: "weir_pool_turned_away", kind: Kind::Counter, help });
    for pool in pools {
        let counters = &pool.counters;
        for (reason, count) in [
            ("queue_full", counters.queue_full),
            ("full", counters.full),
            ("unavailable", counters.unavailable + counters.gave_up),
            ("timed_out", counters.timed_out),
            ("client_left", counters.cancelled),
        ] {
            text.sample(&[("pool", &pool.name), ("reason", reason)], Value::Count(count));
        }
    }
}

fn pool_columns(pools: &[PoolReport], kind: Kind, columns: &[PoolColumn], text: &mut Exposition) {
    for (name, help, of) in columns {
        text.family(Family { name, kind, help });
        for pool in pools {
            if let Some(value) = of(pool) {
                text.sample(&[("pool", &pool.name)], value);
            }
        }
    }
}

/// A metric of endpoints: its name, kind, help, and value for an endpoint, if it has one.
type EndpointColumn = (&'static str, Kind, &'static str, fn(&EndpointReport) -> Option<u64>);

fn write_endpoints(pools: &[PoolReport], text: &mut Exposition) {
    let (gauge, counter) = (Kind::Gauge, Kind::Counter);
    let columns: [EndpointColumn; 13] = [
        ("weir_endpoint_up", gauge, "1 while the endpoint takes requests.", |one| {
            Some(u64::from(one.state == EndpointState::Up))
        }),
        ("weir_endpoint_in_flight", gauge, "Requests in flight.", |one| Some(one.in_flight)),
        ("weir_endpoint_max_conn", gauge, "Most requests in flight.", |one| one.max_conn),
        ("weir_endpoint_queued", gauge, "Requests that wait for this endpoint only.", |one| {
            Some(one.queued)
        }),
        ("weir_endpoint_idle_connections", gauge, "Idle connections kept.", |one| {
            Some(one.idle_connections)
        }),
        ("weir_endpoint_connections_opened", counter, "Connections opened.", |one| {
            Some(one.connections_opened)
        }),
        (
            "weir_endpoint_idle_elsewhere",
            counter,
            "Requests whose worker had no idle connection while another worker had one.",
            |one| Some(one.idle_elsewhere),
        ),
        (
            "weir_endpoint_passive_failures",
            counter,
            "Failures in traffic that count for the pool's `passive`.",
            |one| Some(one.passive_failures),
        ),
        ("weir_endpoint_picks", counter, "Times the endpoint was picked.", |one| Some(one.picks)),
        ("weir_endpoint_ejections", counter, "Times the endpoint was ejected.", |one| {
            Some(one.ejections)
        }),
        (
            "weir_endpoint_ejections_refused",
            counter,
            "Ejections that did not happen because too many endpoints were out.",
            |one| Some(one.ejections_refused),
        ),
        ("weir_endpoint_stalls", counter, "Times the endpoint was found stalled.", |one| {
            Some(one.stalls)
        }),
        (
            "weir_endpoint_stalled",
            gauge,
            "1 while the endpoint is stalled: it does not answer while others do.",
            |one| Some(u64::from(one.state == EndpointState::Stalled)),
        ),
    ];
    for (name, kind, help, of) in columns {
        text.family(Family { name, kind, help });
        for (pool, endpoint) in each_endpoint(pools) {
            if let Some(value) = of(endpoint) {
                let labels = [("pool", pool), ("endpoint", &endpoint.name)];
                text.sample(&labels, Value::Count(value));
            }
        }
    }
}

fn write_states(pools: &[PoolReport], text: &mut Exposition) {
    let help = "1 for the state that an endpoint is in.";
    text.family(Family { name: "weir_endpoint_state", kind: Kind::Gauge, help });
    for (pool, endpoint) in each_endpoint(pools) {
        for state in EndpointState::ALL {
            let labels = [("pool", pool), ("endpoint", &endpoint.name), ("state", state.as_str())];
            text.sample(&labels, Value::Count(u64::from(endpoint.state == state)));
        }
    }
}

fn each_endpoint(pools: &[PoolReport]) -> impl Iterator<Item = (&str, &EndpointReport)> {
    pools.iter().flat_map(|pool| pool.endpoints.iter().map(|one| (pool.name.as_str(), one)))
}
