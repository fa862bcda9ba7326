//! `show stat`: Weir's listeners are HAProxy's frontends, its pools backends, its endpoints
//! servers. Fields of features that Weir lacks (agents, caches, compression, slow start) stay
//! empty, which tools read as unknown, or are 0 where HAProxy shows 0 without the feature.

use super::table::{Cell, RowKind, StatRow};
use crate::status::{
    EndpointStatus, ListenerStatus, OperationalState, PhaseTimes, PoolStatus, ProbeStatus, Status,
    Traffic,
};

/// The number of the first proxy, as HAProxy counts them.
pub(super) const FIRST_PROXY: u64 = 2;

/// The rows to show: `show stat [IID|NAME TYPE SID]`.
#[derive(Clone, Debug)]
pub(super) struct RowChoice {
    /// A proxy's number; -1 is all.
    pub(super) proxy: i64,
    /// Bits of [`RowKind::bit`]; -1 is all.
    pub(super) kinds: i64,
    /// A server's number; -1 is all.
    pub(super) server: i64,
    /// Set to show only servers that are up.
    pub(super) up: bool,
    /// Set to leave out servers in maintenance.
    pub(super) no_maintenance: bool,
}

impl RowChoice {
    pub(super) const ALL: Self =
        Self { proxy: -1, kinds: -1, server: -1, up: false, no_maintenance: false };

    fn takes(&self, row: &StatRow) -> bool {
        let is = |wanted: i64, own: u64| wanted < 0 || u64::try_from(wanted) == Ok(own);
        let status = match row.get("status") {
            Some(Cell::Text(text)) => text.as_str(),
            _ => "",
        };
        is(self.proxy, row.proxy)
            && (self.kinds < 0 || self.kinds & row.kind.bit() != 0)
            && is(self.server, row.server)
            && !(self.up && row.kind == RowKind::Server && status != "UP" && status != "no check")
            && !(self.no_maintenance && status.starts_with("MAINT"))
    }
}

/// The number of the listener or pool of that name; the pool's, if both have it.
pub(super) fn proxy_number(status: &Status, name: &str) -> Option<u64> {
    let listeners = status.listeners.len() as u64;
    let pool = status.pools.iter().position(|pool| pool.name == name);
    let listener = status.listeners.iter().position(|listener| listener.name == name);
    let pool = pool.map(|index| FIRST_PROXY + listeners + index as u64);
    pool.or_else(|| listener.map(|index| FIRST_PROXY + index as u64))
}

/// The number of a server in its pool.
pub(super) fn server_number(status: &Status, pool: &str, name: &str) -> Option<u64> {
    let pool = status.pools.iter().find(|own| own.name == pool)?;
    let index = pool.endpoints.iter().position(|own| own.name == name)?;
    Some(index as u64 + 1)
}

/// The rows that are selected.
pub(super) fn rows(status: &Status, choice: &RowChoice) -> Vec<StatRow> {
    let mut rows = Vec::new();
    let mut number = FIRST_PROXY;
    for listener in &status.listeners {
        rows.push(frontend(status, listener, number));
        number += 1;
    }
    for pool in &status.pools {
        for (endpoint, server) in pool.endpoints.iter().zip(1..) {
            rows.push(server_row(status, pool, endpoint, number, server));
        }
        rows.push(backend(status, pool, number));
        number += 1;
    }
    rows.retain(|row| choice.takes(row));
    rows
}

fn frontend(status: &Status, listener: &ListenerStatus, number: u64) -> StatRow {
    let mut row = StatRow::new(RowKind::Frontend, number, 0, &listener.name, "FRONTEND");
    let limit = listener.max_connections.unwrap_or(status.info.max_connections);
    let (own, accepted_now) = (&listener.traffic, listener.accepted_per_second as u64);
    row.set("mode", listener.protocol.as_str());
    row.set("scur", listener.connections as u64);
    row.set("smax", listener.most_connections as u64);
    row.set("slim", limit as u64);
    let stopping = status.info.state == "stopping";
    row.set("status", if stopping { "STOP" } else { "OPEN" });
    traffic(&mut row, own);
    for (name, count) in [
        ("stot", listener.accepted),
        ("conn_tot", listener.accepted),
        ("rate", accepted_now),
        ("conn_rate", accepted_now),
        ("rate_max", listener.accepted_per_second_max.max(accepted_now)),
        ("conn_rate_max", listener.accepted_per_second_max.max(accepted_now)),
        ("req_tot", own.requests),
        ("req_rate", own.per_second as u64),
        ("req_rate_max", own.per_second_max.max(own.per_second as u64)),
        ("ereq", of_causes(own, &["bad_request", "bad_request_body", "request_timeout"])),
        ("dreq", of_causes(own, &["denied"])),
        ("intercepted", own.answered_here),
        ("ssl_sess", listener.handshakes.iter().take(2).sum()),
        ("ssl_reused_sess", listener.handshakes[1]),
        ("ssl_failed_handshake", listener.handshakes[2]),
        ("h1_open_connections", listener.connections as u64),
        ("h1_total_connections", listener.accepted),
        ("h1_total_streams", own.requests),
        ("h1_bytes_in", own.bytes_received),
        ("h1_bytes_out", own.bytes_sent),
    ] {
        row.set(name, count);
    }
    // HAProxy shows 0 for these where the feature is not used.
    for name in ["rate_lim", "dresp", "dcon", "dses"] {
        row.set(name, 0_u64);
    }
    row
}

/// Sets the counters of requests that ended.
fn traffic(row: &mut StatRow, traffic: &Traffic) {
    row.set("bin", traffic.bytes_received);
    row.set("bout", traffic.bytes_sent);
    for class in ["1xx", "2xx", "3xx", "4xx", "5xx"] {
        let count = traffic.statuses.get(class).copied().unwrap_or_default();
        row.set(&format!("hrsp_{class}"), count);
    }
    row.set("hrsp_other", traffic.codes.get("none").copied().unwrap_or_default());
    row.set("eint", of_causes(traffic, &["internal"]));
    for name in ["wrew", "comp_in", "comp_out", "comp_byp", "comp_rsp"] {
        row.set(name, 0_u64);
    }
}

/// Sets the fields that HAProxy has for backends and servers only.
fn upstream(row: &mut StatRow, traffic: &Traffic) {
    let now = traffic.per_second as u64;
    row.set("rate", now);
    row.set("rate_max", traffic.per_second_max.max(now));
    row.set("req_tot", traffic.requests);
    row.set("dresp", 0);
    row.set("eresp", of_causes(traffic, &["upstream_reset", "response_timeout", "bad_response"]));
    row.set("cli_abrt", of_causes(traffic, &["client_gone"]));
    row.set("srv_abrt", of_causes(traffic, &["upstream_aborted"]));
    let last = traffic.last_s.map_or(-1, |seconds| i64::try_from(seconds).unwrap_or(i64::MAX));
    row.set("lastsess", Cell::Number(last));
    // HAProxy's values are means of the last 1,024 requests, in milliseconds.
    let times = if traffic.recent.is_empty() { &traffic.times } else { &traffic.recent };
    for (phase, mean, most) in [
        ("queue", "qtime", "qtime_max"),
        ("connect", "ctime", "ctime_max"),
        ("response", "rtime", "rtime_max"),
        ("total", "ttime", "ttime_max"),
    ] {
        let of = |times: &[PhaseTimes]| times.iter().find(|own| own.phase == phase).cloned();
        row.set(mean, of(times).map_or(0, |own| own.mean_us / 1000));
        row.set(most, of(&traffic.times).map_or(0, |own| own.max_us / 1000));
    }
}

fn of_causes(traffic: &Traffic, causes: &[&str]) -> u64 {
    causes.iter().filter_map(|cause| traffic.causes.get(*cause)).sum()
}

fn server_row(
    status: &Status,
    pool: &PoolStatus,
    endpoint: &EndpointStatus,
    number: u64,
    server: u64,
) -> StatRow {
    let mut row = StatRow::new(RowKind::Server, number, server, &pool.name, &endpoint.name);
    traffic(&mut row, &endpoint.traffic);
    upstream(&mut row, &endpoint.traffic);
    let active = !endpoint.backup && endpoint.tier == 0;
    for (name, count) in [
        ("qcur", u64::from(endpoint.queued)),
        ("qmax", u64::from(endpoint.most_queued)),
        ("scur", u64::from(endpoint.in_flight)),
        ("smax", u64::from(endpoint.most_in_flight)),
        ("stot", endpoint.picks),
        ("lbtot", endpoint.picks),
        ("econ", endpoint.passive_failures),
        ("wretr", endpoint.repeated),
        ("wredis", endpoint.redispatched),
        ("weight", u64::from(endpoint.weight)),
        ("uweight", u64::from(endpoint.weight)),
        ("act", u64::from(active)),
        ("bck", u64::from(!active)),
        ("lastchg", age(status, endpoint)),
        ("connect", endpoint.connections_opened),
        ("reuse", endpoint.connections_reused),
        ("srv_icur", u64::from(endpoint.idle_connections)),
        ("src_ilim", u64::from(endpoint.max_idle)),
        // Any idle connection may serve any client's request.
        ("idle_conn_cur", 0),
        ("safe_conn_cur", u64::from(endpoint.idle_connections)),
        ("used_conn_cur", u64::from(endpoint.in_flight)),
        ("need_conn_est", u64::from(endpoint.in_flight)),
    ] {
        row.set(name, count);
    }
    if let Some(limit) = endpoint.max_conn {
        row.set("slim", u64::from(limit));
    }
    row.set("status", status_word(endpoint));
    row.set("addr", endpoint.resolved.as_deref().unwrap_or(&endpoint.address));
    if endpoint.health != "unchecked" || endpoint.outages > 0 {
        row.set("chkdown", endpoint.outages);
        row.set("downtime", endpoint.out_s);
    }
    row.set("hanafail", endpoint.ejections);
    if let Some(probe) = &endpoint.probe {
        checks(&mut row, endpoint, probe);
    }
    row
}

/// Sets the results of a server's checks.
fn checks(row: &mut StatRow, endpoint: &EndpointStatus, probe: &ProbeStatus) {
    let status = check_status(probe);
    row.set("check_status", status);
    row.set("check_desc", check_description(status));
    if let Some(code) = code_of(probe) {
        row.set("check_code", code);
    }
    row.set("check_duration", probe.took_us / 1000);
    row.set("chkfail", probe.failures);
    row.set("last_chk", probe.reason.as_str());
    row.set("check_rise", u64::from(probe.rise));
    row.set("check_fall", u64::from(probe.fall));
    row.set("check_health", u64::from(check_health(endpoint)));
}

/// HAProxy's health counter of a server: from 0, when all checks fail, to the sum of rise and fall
/// less one.
pub(super) fn check_health(endpoint: &EndpointStatus) -> u32 {
    let Some(probe) = &endpoint.probe else { return 0 };
    match (endpoint.health.as_str(), probe.passed) {
        // Each failure in a row subtracts one; only the latest is known.
        ("up", false) => (probe.rise + probe.fall).saturating_sub(2).max(probe.rise),
        ("up", true) => (probe.rise + probe.fall).saturating_sub(1),
        (_, true) => 1.min(probe.rise.saturating_sub(1)),
        (_, false) => 0,
    }
}

fn backend(status: &Status, pool: &PoolStatus, number: u64) -> StatRow {
    let mut row = StatRow::new(RowKind::Backend, number, 0, &pool.name, "BACKEND");
    if let Some(queue) = pool.queue {
        row.set("qcur", queue.now);
        row.set("qmax", queue.longest);
        row.set("qlimit", queue.max);
    }
    let limits = pool.endpoints.iter().map(|endpoint| endpoint.max_conn.map(u64::from));
    if let Some(limit) = limits.sum::<Option<u64>>() {
        row.set("slim", limit);
    }
    row.set("scur", pool.in_flight);
    row.set("smax", pool.most_in_flight);
    row.set("stot", pool.counters.balancer.dispatched);
    row.set("lbtot", pool.counters.balancer.dispatched);
    row.set("econ", pool.endpoints.iter().map(|endpoint| endpoint.passive_failures).sum::<u64>());
    traffic(&mut row, &pool.traffic);
    upstream(&mut row, &pool.traffic);
    let sum = |of: fn(&EndpointStatus) -> u64| pool.endpoints.iter().map(of).sum::<u64>();
    for (name, count) in [
        ("dreq", 0),
        ("wretr", pool.repeated),
        ("wredis", pool.redispatched),
        ("connect", sum(|one| one.connections_opened)),
        ("reuse", sum(|one| one.connections_reused)),
        // The time without any usable server is not counted: the minimum over the pool's servers
        // stands for it.
        ("downtime", pool.endpoints.iter().map(|one| one.out_s).min().unwrap_or_default()),
        ("chkdown", pool.endpoints.iter().map(|one| one.outages).min().unwrap_or_default()),
        ("h1_open_streams", pool.in_flight),
        ("h1_open_connections", pool.in_flight + sum(|one| u64::from(one.idle_connections))),
        ("h1_total_connections", sum(|one| one.connections_opened)),
        ("h1_total_streams", pool.traffic.attempts),
    ] {
        row.set(name, count);
    }
    row.set("status", if pool.usable > 0 { "UP" } else { "DOWN" });
    let takes = |endpoint: &&EndpointStatus| {
        matches!(endpoint.state, OperationalState::Up | OperationalState::Stalled)
    };
    let is_active = |endpoint: &&EndpointStatus| !endpoint.backup && endpoint.tier == 0;
    let up = || pool.endpoints.iter().filter(takes);
    row.set("act", up().filter(is_active).count() as u64);
    row.set("bck", up().filter(|endpoint| !is_active(endpoint)).count() as u64);
    let weight: u64 = up().map(|endpoint| u64::from(endpoint.weight)).sum();
    row.set("weight", weight);
    row.set("uweight", weight);
    row.set("algo", algorithm(&pool.policy));
    let ages = pool.endpoints.iter().map(|endpoint| age(status, endpoint));
    row.set("lastchg", ages.min().unwrap_or_default());
    row
}

/// Seconds since the last change of state.
pub(super) fn age(status: &Status, endpoint: &EndpointStatus) -> u64 {
    status.at_ms.saturating_sub(endpoint.since_ms) / 1000
}

/// An endpoint's state in HAProxy's terms.
fn status_word(endpoint: &EndpointStatus) -> &'static str {
    match endpoint.state {
        OperationalState::Maintenance => "MAINT",
        OperationalState::Unresolved => "MAINT (resolution)",
        OperationalState::Down | OperationalState::Ejected => "DOWN",
        OperationalState::Draining => "DRAIN",
        OperationalState::Stalled => "NOLB",
        OperationalState::Up if endpoint.health == "unchecked" => "no check",
        OperationalState::Up => "UP",
    }
}

/// A probe's result in HAProxy's terms: the layer that it reached, and the outcome.
fn check_status(probe: &ProbeStatus) -> &'static str {
    let reason = probe.reason.as_str();
    match (probe.kind.as_str(), probe.passed) {
        ("http", true) => "L7OK",
        ("tls", true) => "L6OK",
        (_, true) => "L4OK",
        _ if reason.starts_with("connect") => "L4CON",
        _ if reason.contains("connecting") => "L4TOUT",
        _ if reason.starts_with("TLS") => "L6RSP",
        _ if reason.contains("TLS handshake") => "L6TOUT",
        _ if reason.starts_with("timeout") => "L7TOUT",
        _ if reason.starts_with("status") => "L7STS",
        _ => "L7RSP",
    }
}

/// The description that HAProxy gives for a check's status.
fn check_description(status: &str) -> &'static str {
    match status {
        "L4OK" => "Layer4 check passed",
        "L4TOUT" => "Layer4 timeout",
        "L4CON" => "Layer4 connection problem",
        "L6OK" => "Layer6 check passed",
        "L6TOUT" => "Layer6 timeout",
        "L6RSP" => "Layer6 invalid response",
        "L7OK" => "Layer7 check passed",
        "L7TOUT" => "Layer7 timeout",
        "L7STS" => "Layer7 wrong status",
        _ => "Layer7 invalid response",
    }
}

/// HAProxy's number for the check's status.
pub(super) fn check_number(probe: &ProbeStatus) -> u64 {
    match check_status(probe) {
        "L4OK" => 6,
        "L4TOUT" => 7,
        "L4CON" => 8,
        "L6OK" => 9,
        "L6TOUT" => 10,
        "L6RSP" => 11,
        "L7TOUT" => 12,
        "L7RSP" => 13,
        "L7OK" => 14,
        _ => 16,
    }
}

/// The status code in a probe's reply.
fn code_of(probe: &ProbeStatus) -> Option<u64> {
    let rest = probe.reason.strip_prefix("status ")?;
    rest.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok()
}

/// A policy under HAProxy's name, if it has one.
fn algorithm(policy: &str) -> &str {
    match policy {
        "round_robin" => "roundrobin",
        "least_conn" => "leastconn",
        other => other,
    }
}
