//! `show stat`, `show servers state` and `show servers conn`: Weir's listeners are HAProxy's frontends, its pools backends, its
//! endpoints servers. What Weir does not count stays empty.

use std::fmt::Write;

use super::table::{Cell, Kind, Row};
use crate::admin::status::{
    EndpointStatus, ListenerStatus, PhaseTimes, PoolStatus, ProbeStatus, State, Status, Traffic,
};

/// The number of the first proxy, as HAProxy counts them.
const FIRST_PROXY: u64 = 2;

/// Which rows are asked for: `show stat [IID|NAME TYPE SID]`.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    /// A proxy's number; -1 is all.
    pub(super) proxy: i64,
    /// Bits of [`Kind::bit`]; -1 is all.
    pub(super) kinds: i64,
    /// A server's number; -1 is all.
    pub(super) server: i64,
    /// Only servers that are up.
    pub(super) up: bool,
    /// None in maintenance.
    pub(super) no_maintenance: bool,
}

impl Choice {
    pub(super) const ALL: Self =
        Self { proxy: -1, kinds: -1, server: -1, up: false, no_maintenance: false };

    fn takes(&self, row: &Row) -> bool {
        let is = |wanted: i64, own: u64| wanted < 0 || u64::try_from(wanted) == Ok(own);
        let status = match row.get("status") {
            Some(Cell::Text(text)) => text.as_str(),
            _ => "",
        };
        is(self.proxy, row.proxy)
            && (self.kinds < 0 || self.kinds & row.kind.bit() != 0)
            && is(self.server, row.server)
            && !(self.up && row.kind == Kind::Server && status != "UP" && status != "no check")
            && !(self.no_maintenance && status.starts_with("MAINT"))
    }
}

/// The number of a listener or pool of that name, a pool's first when both have it.
pub(super) fn proxy_number(status: &Status, name: &str) -> Option<u64> {
    let listeners = status.listeners.len() as u64;
    let pool = status.pools.iter().position(|pool| pool.name == name);
    let listener = status.listeners.iter().position(|listener| listener.name == name);
    let pool = pool.map(|index| FIRST_PROXY + listeners + index as u64);
    pool.or_else(|| listener.map(|index| FIRST_PROXY + index as u64))
}

/// Every row that is asked for.
pub(super) fn rows(status: &Status, choice: &Choice) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut number = FIRST_PROXY;
    for listener in &status.listeners {
        rows.push(frontend(status, listener, number));
        number += 1;
    }
    for pool in &status.pools {
        for (endpoint, server) in pool.endpoints.iter().zip(1..) {
            rows.push(server_row(status, pool, (endpoint, number, server)));
        }
        rows.push(backend(status, pool, number));
        number += 1;
    }
    rows.retain(|row| choice.takes(row));
    rows
}

fn frontend(status: &Status, listener: &ListenerStatus, number: u64) -> Row {
    let mut row = Row::new(Kind::Frontend, (number, 0), (&listener.name, "FRONTEND"));
    let limit = listener.max_connections.unwrap_or(status.info.max_connections);
    row.set("scur", listener.connections as u64);
    row.set("slim", limit as u64);
    let stopping = status.info.state == "stopping";
    row.set("status", if stopping { "STOP" } else { "OPEN" });
    traffic(&mut row, &listener.traffic);
    row.set("stot", listener.accepted);
    row.set("conn_tot", listener.accepted);
    row.set("req_tot", listener.traffic.requests);
    row.set("req_rate", listener.traffic.per_second as u64);
    let refused = ["bad_request", "bad_request_body", "request_timeout"];
    row.set("ereq", of_causes(&listener.traffic, &refused));
    row.set("dreq", of_causes(&listener.traffic, &["denied"]));
    row
}

/// What requests that ended counted.
fn traffic(row: &mut Row, traffic: &Traffic) {
    row.set("bin", traffic.bytes_received);
    row.set("bout", traffic.bytes_sent);
    row.set("rate", traffic.per_second as u64);
    for class in ["1xx", "2xx", "3xx", "4xx", "5xx"] {
        let count = traffic.statuses.get(class).copied().unwrap_or_default();
        row.set(&format!("hrsp_{class}"), count);
    }
    row.set("hrsp_other", traffic.codes.get("none").copied().unwrap_or_default());
    row.set("eresp", of_causes(traffic, &["upstream_reset", "response_timeout", "bad_response"]));
    row.set("cli_abrt", of_causes(traffic, &["client_gone"]));
    row.set("srv_abrt", of_causes(traffic, &["upstream_aborted"]));
    row.set("wretr", traffic.attempts.saturating_sub(traffic.requests.min(traffic.attempts)));
    row.set("wredis", traffic.retried);
    // HAProxy's are means of the last 1,024 requests, in milliseconds.
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
    (endpoint, number, server): (&EndpointStatus, u64, u64),
) -> Row {
    let mut row = Row::new(Kind::Server, (number, server), (&pool.name, &endpoint.name));
    row.set("qcur", u64::from(endpoint.queued));
    row.set("scur", u64::from(endpoint.in_flight));
    if let Some(limit) = endpoint.max_conn {
        row.set("slim", u64::from(limit));
    }
    row.set("stot", endpoint.picks);
    row.set("lbtot", endpoint.picks);
    row.set("econ", endpoint.connect_failures);
    traffic(&mut row, &endpoint.traffic);
    row.set("wretr", endpoint.failed_attempts);
    row.set("req_tot", endpoint.traffic.requests);
    row.set("status", status_word(endpoint));
    row.set("weight", u64::from(endpoint.weight));
    row.set("uweight", u64::from(endpoint.weight));
    let active = !endpoint.backup && endpoint.tier == 0;
    row.set("act", u64::from(active));
    row.set("bck", u64::from(!active));
    row.set("lastchg", age(status, endpoint));
    row.set("addr", endpoint.resolved.as_deref().unwrap_or(&endpoint.address));
    if endpoint.health != "unchecked" {
        row.set("chkdown", endpoint.ejections);
    }
    if let Some(probe) = &endpoint.probe {
        row.set("check_status", check_status(probe));
        if let Some(code) = code_of(probe) {
            row.set("check_code", code);
        }
        row.set("check_duration", probe.took_us / 1000);
        row.set("chkfail", probe.failures);
        row.set("last_chk", probe.reason.as_str());
    }
    row.set("connect", endpoint.connections_opened);
    row.set("reuse", endpoint.connections_reused);
    row.set("srv_icur", u64::from(endpoint.idle_connections));
    row.set("idle_conn_cur", u64::from(endpoint.idle_connections));
    row.set("used_conn_cur", u64::from(endpoint.in_flight));
    row
}

fn backend(status: &Status, pool: &PoolStatus, number: u64) -> Row {
    let mut row = Row::new(Kind::Backend, (number, 0), (&pool.name, "BACKEND"));
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
    row.set("stot", pool.counters.dispatched);
    row.set("lbtot", pool.counters.dispatched);
    row.set("econ", pool.endpoints.iter().map(|endpoint| endpoint.connect_failures).sum::<u64>());
    traffic(&mut row, &pool.traffic);
    row.set("req_tot", pool.traffic.requests);
    row.set("status", if pool.usable > 0 { "UP" } else { "DOWN" });
    let takes = |endpoint: &&EndpointStatus| matches!(endpoint.state, State::Up | State::Stalled);
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
fn age(status: &Status, endpoint: &EndpointStatus) -> u64 {
    status.at_ms.saturating_sub(endpoint.since_ms) / 1000
}

/// An endpoint's state in HAProxy's words.
fn status_word(endpoint: &EndpointStatus) -> &'static str {
    match endpoint.state {
        State::Maintenance => "MAINT",
        State::Unresolved => "MAINT (resolution)",
        State::Down | State::Ejected => "DOWN",
        State::Draining => "DRAIN",
        State::Stalled => "NOLB",
        State::Up if endpoint.health == "unchecked" => "no check",
        State::Up => "UP",
    }
}

/// A probe's end in HAProxy's words: the layer that it came to, and how.
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

/// The status that a probe was answered with.
fn code_of(probe: &ProbeStatus) -> Option<u64> {
    let rest = probe.reason.strip_prefix("status ")?;
    rest.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok()
}

/// A policy in HAProxy's words, where it has one.
fn algorithm(policy: &str) -> &str {
    match policy {
        "round_robin" => "roundrobin",
        "least_conn" => "leastconn",
        other => other,
    }
}

/// The header of `show servers state`.
const STATE_HEADER: &str = "# be_id be_name srv_id srv_name srv_addr srv_op_state srv_admin_state srv_uweight srv_iweight \
    srv_time_since_last_change srv_check_status srv_check_result srv_check_health srv_check_state srv_agent_state \
    bk_f_forced_id srv_f_forced_id srv_fqdn srv_port srvrecord srv_use_ssl srv_check_port srv_check_addr srv_agent_addr \
    srv_agent_port";

/// Pools with their numbers, one or all; `None` when there is none of that name.
fn pools<'status>(
    status: &'status Status,
    name: Option<&str>,
) -> Option<Vec<(u64, &'status PoolStatus)>> {
    let first = FIRST_PROXY + status.listeners.len() as u64;
    let mut pools: Vec<(u64, &PoolStatus)> = (first..).zip(&status.pools).collect();
    if let Some(name) = name {
        pools.retain(|(_, pool)| pool.name == name);
        if pools.is_empty() {
            return None;
        }
    }
    Some(pools)
}

/// `show servers state [POOL]`.
pub(super) fn servers_state(status: &Status, name: Option<&str>) -> Option<String> {
    let mut text = format!("1\n{STATE_HEADER}\n");
    for (number, pool) in pools(status, name)? {
        for (server, endpoint) in (1..).zip(&pool.endpoints) {
            let (address, port, host) = place(endpoint);
            // 0 stopped, 1 starting, 2 running, 3 stopping.
            let operating = match endpoint.state {
                State::Up | State::Stalled => 2,
                State::Draining => 3,
                State::Maintenance | State::Down | State::Ejected | State::Unresolved => 0,
            };
            // Bits: 1 forced maintenance, 8 forced drain, 32 no address.
            let ordered = match endpoint.order.as_str() {
                "maintenance" => 1,
                "draining" => 8,
                _ if endpoint.state == State::Unresolved => 32,
                _ => 0,
            };
            let (check, result, health, checking) = match endpoint.health.as_str() {
                "up" => (6, 3, 4, 6),
                "down" => (8, 2, 0, 6),
                _ => (1, 0, 0, 0),
            };
            let _ = writeln!(
                text,
                "{number} {} {server} {} {address} {operating} {ordered} {weight} {weight} {} {check} {result} {health} \
                 {checking} 0 0 0 {host} {port} - 0 0 - - 0",
                pool.name,
                endpoint.name,
                age(status, endpoint),
                weight = endpoint.weight,
            );
        }
    }
    Some(text)
}

/// `show servers conn [POOL]`.
pub(super) fn servers_conn(status: &Status, name: Option<&str>) -> Option<String> {
    let mut text = "# bkname/svname bkid/svid addr port - purge_delay used_cur used_max need_est unsafe_nb safe_nb idle_lim \
                    idle_cur idle_per_thr[1]\n"
        .to_owned();
    for (number, pool) in pools(status, name)? {
        for (server, endpoint) in (1..).zip(&pool.endpoints) {
            let (address, port, _) = place(endpoint);
            let idle = endpoint.idle_connections;
            let _ = writeln!(
                text,
                "{}/{} {number}/{server} {address} {port} - 0 {} 0 0 0 {idle} -1 {idle} {idle}",
                pool.name, endpoint.name, endpoint.in_flight,
            );
        }
    }
    Some(text)
}

/// Address, port and name, `-` where there is none.
fn place(endpoint: &EndpointStatus) -> (String, String, String) {
    let address = endpoint.resolved.as_deref().unwrap_or(&endpoint.address);
    let named = endpoint.address.parse::<std::net::SocketAddr>().is_err();
    let host = if named && !endpoint.address.starts_with("unix:") {
        endpoint.address.rsplit_once(':').map_or("-", |(host, _)| host)
    } else {
        "-"
    };
    match address.parse::<std::net::SocketAddr>() {
        Ok(address) => (address.ip().to_string(), address.port().to_string(), host.to_owned()),
        Err(_) if address.starts_with("unix:") => {
            (address.to_owned(), "0".to_owned(), "-".to_owned())
        }
        Err(_) => {
            let port = address.rsplit_once(':').map_or("0", |(_, port)| port);
            ("-".to_owned(), port.to_owned(), host.to_owned())
        }
    }
}
