//! A sample status for the tests of the pages.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_balance::Counters;
use weir_stats::exposition::Usage;
use weir_stats::{ExchangeRecord, Micros, Times};

use super::super::status::{
    AdminStatus, EndpointStatus, Event, IncidentStatus, Info, ListenerStatus, OperationalState,
    PhaseTimes, PoolCounters, PoolStatus, ProbeStatus, QueueStatus, Status, StreamFigures, Traffic,
    WaitingStatus, WorkerStatus,
};
use super::sight::Sight;
use crate::access::caller::Right;

const NOW_MS: u64 = 1_795_000_000_000;

fn phase(phase: &str, count: u64, mean_us: u64) -> PhaseTimes {
    PhaseTimes {
        phase: phase.to_owned(),
        count,
        mean_us,
        p50_us: mean_us,
        p99_us: mean_us * 4,
        p999_us: mean_us * 5,
        ..PhaseTimes::default()
    }
}

fn traffic() -> Traffic {
    Traffic {
        requests: 12_345,
        per_second: 1_234.5,
        per_second_max: 2_000,
        last_s: Some(0),
        statuses: BTreeMap::from([("2xx".to_owned(), 12_338), ("5xx".to_owned(), 7)]),
        recent_s: 10,
        recent: vec![
            phase("request", 100, 100),
            phase("queue", 50, 4_000),
            phase("response", 100, 9_000),
            phase("data", 100, 500),
            phase("total", 100, 12_000),
        ],
        ..Traffic::default()
    }
}

fn endpoint(name: &str, address: &str) -> EndpointStatus {
    EndpointStatus {
        pool: "app".to_owned(),
        name: name.to_owned(),
        address: address.to_owned(),
        resolved: None,
        state: OperationalState::Up,
        since_ms: NOW_MS - 3_600_000,
        order: "ready".to_owned(),
        health: "up".to_owned(),
        reason: String::new(),
        excerpt: String::new(),
        probe: None,
        ejected_until_ms: None,
        in_flight: 5,
        most_in_flight: 7,
        max_conn: Some(8),
        max_conn_now: Some(8),
        queued: 0,
        most_queued: 2,
        weight: 2,
        tier: 0,
        backup: false,
        idle_connections: 3,
        connections_opened: 10,
        connections_reused: 90,
        idle_taken_over: 0,
        idle_elsewhere: 0,
        streams: StreamFigures { open: 3, opened: 9, reset: 2, connections_ended: 1 },
        picks: 100,
        passive_failures: 0,
        ejections: 0,
        ejections_refused: 0,
        stalls: 0,
        outages: 0,
        out_s: 0,
        max_idle: 100,
        traffic: traffic(),
        failed_attempts: 0,
        repeated: 0,
        redispatched: 0,
        overridden: Vec::new(),
    }
}

/// An endpoint that is down.
fn endpoint_down() -> EndpointStatus {
    let reply = "HTTP/1.1 503 Service Unavailable | no database";
    EndpointStatus {
        state: OperationalState::Down,
        since_ms: NOW_MS - 192_000,
        health: "down".to_owned(),
        reason: "status 503, expected 200-399".to_owned(),
        excerpt: reply.to_owned(),
        probe: Some(ProbeStatus {
            kind: "http".to_owned(),
            at_ms: NOW_MS - 1_000,
            took_us: 250,
            passed: false,
            reason: "connect refused".to_owned(),
            excerpt: String::new(),
            probes: 200,
            failures: 97,
            rise: 2,
            fall: 3,
        }),
        ..endpoint("app2", "10.0.0.2:80")
    }
}

fn incidents() -> IncidentStatus {
    IncidentStatus {
        restarts: 1,
        restart_us: Some(41_500),
        replaced: 2,
        hangs: 3,
        lost_requests: 9,
        ..IncidentStatus::default()
    }
}

fn worker(number: usize) -> WorkerStatus {
    WorkerStatus {
        number,
        connections: 6,
        requests_running: 2,
        held: 48 << 10,
        requests: 6_000,
        own_us: 700_000,
        lag: PhaseTimes::default(),
    }
}

fn listener() -> ListenerStatus {
    ListenerStatus {
        name: "front".to_owned(),
        addresses: vec!["0.0.0.0:80".to_owned()],
        protocol: "http".to_owned(),
        tls: false,
        connections: 12,
        max_connections: None,
        most_connections: 40,
        accepted: 100,
        accepted_per_second: 1.0,
        accepted_per_second_max: 9,
        idle_closed: 0,
        handshakes: [0; 3],
        traffic: traffic(),
    }
}

/// Two endpoints, one of them down.
pub(crate) fn status() -> Status {
    Status {
        at_ms: NOW_MS,
        info: Info {
            name: "Weir".to_owned(),
            version: "0.1.0".to_owned(),
            pid: 7,
            host: "lb1".to_owned(),
            started_ms: NOW_MS - 3_600_000,
            uptime_s: 3_600,
            generation: 1,
            state: "running".to_owned(),
            workers: 2,
            connections: 12,
            max_connections: 10_000,
            memory: crate::status::MemoryStatus {
                used: 412 << 20,
                max: Some(2 << 30),
                pressure: "none".to_owned(),
                ..Default::default()
            },
            incidents: incidents(),
            requests_running: 5,
            configuration: None,
            state_file: None,
            overrides: 0,
            open_files_limit: 1_024,
            started_us: (NOW_MS - 3_600_000) * 1_000,
            shortages: 0,
            refused_at_cap: 0,
            given_up_at_cap: 0,
        },
        listeners: vec![listener()],
        pools: vec![PoolStatus {
            name: "app".to_owned(),
            policy: "least_conn".to_owned(),
            state: "up".to_owned(),
            panicking: false,
            usable: 1,
            keepalive_idle: 100,
            in_flight: 5,
            most_in_flight: 7,
            queue: Some(QueueStatus { now: 3, max: 1_024, longest: 17, timeout_ms: 5_000 }),
            counters: PoolCounters {
                balancer: Counters { dispatched: 12_345, queued: 40, ..Counters::default() },
                ..PoolCounters::default()
            },
            repeated: 1,
            redispatched: 2,
            traffic: traffic(),
            endpoints: vec![endpoint("app1", "10.0.0.1:80"), endpoint_down()],
        }],
        workers: (0..2).map(worker).collect(),
        machine: Usage::default(),
        credits: None,
        streams: Vec::new(),
        limits: None,
        logs: Vec::new(),
        admin: AdminStatus::default(),
    }
}

/// The data of a page beside its status.
pub(super) fn sight(status: &Status, right: Right) -> Sight<'_> {
    let event = |number, endpoint: &str, what: &str| Event {
        number,
        at_ms: NOW_MS - 192_000,
        kind: "health".to_owned(),
        pool: Some("app".to_owned()),
        endpoint: Some(endpoint.to_owned()),
        who: None,
        what: what.to_owned(),
        details: Vec::new(),
    };
    let slow = ExchangeRecord {
        request_id: "deadbeef".to_owned(),
        method: "GET".to_owned(),
        target: "/slow".to_owned(),
        pool: "app".to_owned(),
        endpoint: "app1".to_owned(),
        times: Times { total: Micros(4_210_000), ..Times::default() },
        started_unix_us: (NOW_MS - 60_000) * 1_000,
        status: 200,
        ..ExchangeRecord::default()
    };
    let waiting = WaitingStatus {
        position: 0,
        waited_us: 1_500,
        left_us: 4_998_500,
        since_ms: 1_795_000_000_000,
        request_id: "cafe0001cafe0001cafe0001cafe0001".to_owned(),
        client: "192.0.2.77".to_owned(),
        method: "GET".to_owned(),
        target: "/cart?item=7".to_owned(),
        pool: "app".to_owned(),
        endpoint: None,
    };
    Sight {
        status,
        point: None,
        events: vec![event(2, "app2", "app/app2 up -> down"), event(1, "app1", "app/app1 front")],
        slowest: vec![Arc::new(slow)],
        queues: vec![("app".to_owned(), vec![waiting])],
        right,
    }
}
