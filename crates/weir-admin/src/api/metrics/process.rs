//! Metrics of the process, its listeners, workers, logs and memory budget.

use weir_proxy::overload::Pressure;
use weir_stats::exposition::{Exposition, Family, MetricKind, MetricValue};

use crate::status::{AdminStatus, IncidentStatus, MemoryStatus, Status, WorkerStatus};

pub(super) fn write(status: &Status, histogram_bytes: usize, text: &mut Exposition) {
    let info = &status.info;
    let help = "Version of the program; always 1.";
    text.family(Family { name: "weir_build_info", kind: MetricKind::Gauge, help });
    text.sample(&[("version", &info.version)], MetricValue::Count(1));
    let help = "When the process started, seconds since 1970.";
    let started = MetricValue::Seconds(info.started_us);
    text.gauge("process_start_time_seconds", help, started);
    let help = "The number of the configuration that is served, from 1.";
    text.gauge("weir_generation", help, MetricValue::Count(info.generation));
    let connections = MetricValue::Count(info.connections as u64);
    text.gauge("weir_connections", "Client connections open now.", connections);
    let most = MetricValue::Count(info.max_connections as u64);
    text.gauge("weir_connections_max", "Most client connections open at once.", most);
    let help = "Connects to endpoints that failed because Weir had no descriptor, port or memory.";
    text.family(Family { name: "weir_connect_shortages", kind: MetricKind::Counter, help });
    text.sample(&[], MetricValue::Count(info.shortages));
    let help = "Connections refused, and requests and handshakes given up, of clients that held most of a cap on connections.";
    text.family(Family { name: "weir_connection_cap_losses", kind: MetricKind::Counter, help });
    text.sample(&[("what", "refused")], MetricValue::Count(info.refused_at_cap));
    text.sample(&[("what", "given_up")], MetricValue::Count(info.given_up_at_cap));
    let help = "Admin connections closed early: to make room, by a timeout, or refused.";
    text.family(Family { name: "weir_admin_connections_ended", kind: MetricKind::Counter, help });
    let AdminStatus { closed, late, refused } = status.admin;
    for (reason, count) in [("closed", closed), ("late", late), ("refused", refused)] {
        text.sample(&[("reason", reason)], MetricValue::Count(count));
    }
    write_incidents(&info.incidents, text);
    let help = "Client connections of a listener open now.";
    text.family(Family { name: "weir_listener_connections", kind: MetricKind::Gauge, help });
    for listener in &status.listeners {
        text.sample(
            &[("listener", &listener.name)],
            MetricValue::Count(listener.connections as u64),
        );
    }
    let help = "Client connections that a worker holds.";
    by_worker(&status.workers, text, "weir_worker_connections", help, |worker| worker.connections);
    let help = "Requests that run on a worker.";
    by_worker(&status.workers, text, "weir_worker_requests_running", help, |one| {
        one.requests_running
    });
    let help = "Bytes that the running requests of a worker hold in buffers.";
    by_worker(&status.workers, text, "weir_worker_held_bytes", help, |worker| worker.held);
    write_memory(&info.memory, text);
    let help = "Log lines that were not written because the writer could not keep up.";
    text.family(Family { name: "weir_log_lines_dropped", kind: MetricKind::Counter, help });
    for log in &status.logs {
        text.sample(&[("log", &log.name)], MetricValue::Count(log.dropped));
    }
    let help = "Memory of the histograms.";
    let bytes = MetricValue::Count(histogram_bytes as u64);
    text.gauge("weir_histogram_memory_bytes", help, bytes);
}

fn write_incidents(incidents: &IncidentStatus, text: &mut Exposition) {
    let counters = [
        ("weir_restarts", "Restarts of the process after its end.", incidents.restarts),
        ("weir_worker_hangs", "Times that a worker did not answer for a second.", incidents.hangs),
        (
            "weir_workers_replaced",
            "Workers that were replaced because they hung.",
            incidents.replaced,
        ),
        ("weir_worker_panics", "Panics of workers.", incidents.panics),
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
        text.family(Family { name, kind: MetricKind::Counter, help });
        text.sample(&[], MetricValue::Count(count));
    }
    if let Some(time) = incidents.restart_us {
        let help = "Time from the end of the previous process until this one served.";
        text.gauge("weir_restart_seconds", help, MetricValue::Seconds(time));
    }
}

fn write_memory(memory: &MemoryStatus, text: &mut Exposition) {
    let help = "Memory that the process has allocated.";
    text.gauge("weir_memory_bytes", help, MetricValue::Count(memory.used as u64));
    if let Some(max) = memory.max {
        let help = "The budget of memory, `memory max=`.";
        text.gauge("weir_memory_max_bytes", help, MetricValue::Count(max as u64));
    }
    let help = "Measures against a shortage of memory: 0 none, 1 idle connections are closed, 2 reads are paused too, 3 connections are refused too.";
    let level = Pressure::ALL.iter().position(|level| level.as_str() == memory.pressure);
    text.gauge("weir_memory_pressure", help, MetricValue::Count(level.unwrap_or_default() as u64));
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
        text.family(Family { name, kind: MetricKind::Counter, help });
        text.sample(&[], MetricValue::Count(count));
    }
}

fn by_worker(
    workers: &[WorkerStatus],
    text: &mut Exposition,
    name: &'static str,
    help: &'static str,
    of: impl Fn(&WorkerStatus) -> usize,
) {
    text.family(Family { name, kind: MetricKind::Gauge, help });
    for worker in workers {
        text.sample(
            &[("worker", &worker.number.to_string())],
            MetricValue::Count(of(worker) as u64),
        );
    }
}
