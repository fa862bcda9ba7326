//! Metrics of pools and endpoints.

use weir_stats::exposition::{Exposition, Family, MetricKind, MetricValue};

use crate::status::{EndpointStatus, OperationalState, PoolStatus};

pub(super) fn write(pools: &[PoolStatus], text: &mut Exposition) {
    write_pools(pools, text);
    write_queues(pools, text);
    write_endpoints(pools, text);
    write_states(pools, text);
}

/// A metric of pools: its name, help, and value for a pool, if it has one.
type PoolColumn = (&'static str, &'static str, fn(&PoolStatus) -> Option<MetricValue>);

fn write_pools(pools: &[PoolStatus], text: &mut Exposition) {
    let columns: [PoolColumn; 5] = [
        ("weir_pool_endpoints", "Endpoints of a pool.", |pool| {
            Some(MetricValue::Count(pool.endpoints.len() as u64))
        }),
        ("weir_pool_endpoints_usable", "Available endpoints of a pool.", |pool| {
            Some(MetricValue::Count(pool.usable as u64))
        }),
        (
            "weir_pool_panicking",
            "1 while probes are ignored because too few endpoints are healthy.",
            |pool| Some(MetricValue::Count(u64::from(pool.panicking))),
        ),
        ("weir_pool_in_flight", "Requests in flight.", |pool| {
            Some(MetricValue::Count(pool.in_flight))
        }),
        ("weir_pool_queue", "Requests that wait in the queue.", |pool| {
            pool.queue.map(|queue| MetricValue::Count(queue.now))
        }),
    ];
    pool_columns(pools, MetricKind::Gauge, &columns, text);
}

fn write_queues(pools: &[PoolStatus], text: &mut Exposition) {
    let gauges: [PoolColumn; 2] = [
        ("weir_pool_queue_max", "Most requests that may wait.", |pool| {
            pool.queue.map(|queue| MetricValue::Count(queue.max))
        }),
        ("weir_pool_queue_longest", "Most requests that waited at once.", |pool| {
            pool.queue.map(|queue| MetricValue::Count(queue.longest))
        }),
    ];
    pool_columns(pools, MetricKind::Gauge, &gauges, text);
    let counters: [PoolColumn; 6] = [
        ("weir_pool_dispatched", "Requests that got an endpoint.", |pool| {
            Some(MetricValue::Count(pool.counters.balancer.dispatched))
        }),
        ("weir_pool_queued", "Requests that had to wait.", |pool| {
            Some(MetricValue::Count(pool.counters.balancer.queued))
        }),
        (
            "weir_pool_inversions",
            "Requests sent to a busy endpoint while an idle one was available.",
            |pool| Some(MetricValue::Count(pool.counters.balancer.inversions)),
        ),
        (
            "weir_pool_regret_seconds",
            "Time lost by requests that were sent to a busy endpoint while an idle one was available.",
            |pool| Some(MetricValue::Seconds(pool.counters.balancer.regret_us)),
        ),
        ("weir_pool_retries_refused", "Retries that the budget did not grant.", |pool| {
            Some(MetricValue::Count(pool.counters.retries_refused))
        }),
        (
            "weir_pool_law_violations",
            "Violations of the queue's rules that the watchdog found; must be 0.",
            |pool| Some(MetricValue::Count(pool.counters.balancer.violations)),
        ),
    ];
    pool_columns(pools, MetricKind::Counter, &counters, text);
    let help = "Requests that got no endpoint, by reason.";
    text.family(Family { name: "weir_pool_turned_away", kind: MetricKind::Counter, help });
    for pool in pools {
        let counters = &pool.counters.balancer;
        for (reason, count) in [
            ("queue_full", counters.queue_full),
            ("full", counters.full),
            ("unavailable", counters.unavailable + counters.gave_up),
            ("timed_out", counters.timed_out),
            ("client_left", counters.cancelled),
        ] {
            text.sample(&[("pool", &pool.name), ("reason", reason)], MetricValue::Count(count));
        }
    }
}

fn pool_columns(
    pools: &[PoolStatus],
    kind: MetricKind,
    columns: &[PoolColumn],
    text: &mut Exposition,
) {
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
type EndpointColumn = (&'static str, MetricKind, &'static str, fn(&EndpointStatus) -> Option<u64>);

fn write_endpoints(pools: &[PoolStatus], text: &mut Exposition) {
    let (gauge, counter) = (MetricKind::Gauge, MetricKind::Counter);
    let columns: [EndpointColumn; 14] = [
        ("weir_endpoint_up", gauge, "1 while the endpoint takes requests.", |one| {
            Some(u64::from(one.state == OperationalState::Up))
        }),
        ("weir_endpoint_in_flight", gauge, "Requests in flight.", |one| {
            Some(u64::from(one.in_flight))
        }),
        ("weir_endpoint_max_conn", gauge, "Most requests in flight.", |one| {
            one.max_conn.map(u64::from)
        }),
        ("weir_endpoint_queued", gauge, "Requests that wait for this endpoint only.", |one| {
            Some(u64::from(one.queued))
        }),
        ("weir_endpoint_idle_connections", gauge, "Idle connections kept.", |one| {
            Some(u64::from(one.idle_connections))
        }),
        ("weir_endpoint_connections_opened", counter, "Connections opened.", |one| {
            Some(one.connections_opened)
        }),
        (
            "weir_endpoint_idle_taken_over",
            counter,
            "Requests that took over an idle connection of another worker.",
            |one| Some(one.idle_taken_over),
        ),
        (
            "weir_endpoint_idle_elsewhere",
            counter,
            "Requests that found no idle connection while another worker kept one.",
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
            |one| Some(u64::from(one.state == OperationalState::Stalled)),
        ),
    ];
    endpoint_columns(pools, &columns, text);
    endpoint_columns(pools, &OF_STREAMS, text);
}

/// The metrics of HTTP/2 streams.
const OF_STREAMS: [EndpointColumn; 4] = [
    ("weir_endpoint_streams", MetricKind::Gauge, "HTTP/2 streams that are open.", |one| {
        Some(one.streams.open)
    }),
    ("weir_endpoint_streams_opened", MetricKind::Counter, "HTTP/2 streams opened.", |one| {
        Some(one.streams.opened)
    }),
    (
        "weir_endpoint_streams_reset",
        MetricKind::Counter,
        "HTTP/2 streams that either side reset, or that ended with their connection.",
        |one| Some(one.streams.reset),
    ),
    (
        "weir_endpoint_http2_connections_ended",
        MetricKind::Counter,
        "HTTP/2 connections ended because of the frames that the endpoint sent.",
        |one| Some(one.streams.connections_ended),
    ),
];

fn endpoint_columns(pools: &[PoolStatus], columns: &[EndpointColumn], text: &mut Exposition) {
    for (name, kind, help, of) in columns {
        text.family(Family { name, kind: *kind, help });
        for (pool, endpoint) in each_endpoint(pools) {
            if let Some(value) = of(endpoint) {
                let labels = [("pool", pool), ("endpoint", &endpoint.name)];
                text.sample(&labels, MetricValue::Count(value));
            }
        }
    }
}

fn write_states(pools: &[PoolStatus], text: &mut Exposition) {
    let help = "1 for the state that an endpoint is in.";
    text.family(Family { name: "weir_endpoint_state", kind: MetricKind::Gauge, help });
    for (pool, endpoint) in each_endpoint(pools) {
        for state in OperationalState::ALL {
            let labels = [("pool", pool), ("endpoint", &endpoint.name), ("state", state.as_str())];
            text.sample(&labels, MetricValue::Count(u64::from(endpoint.state == state)));
        }
    }
}

fn each_endpoint(pools: &[PoolStatus]) -> impl Iterator<Item = (&str, &EndpointStatus)> {
    pools.iter().flat_map(|pool| pool.endpoints.iter().map(|one| (pool.name.as_str(), one)))
}
