//! Formats the responses of the admin interface as tables. It sends no request.

use std::fmt::Write;

use serde::de::DeserializeOwned;
use serde_json::Value;
use weir_admin::humanize::age_ms;
use weir_admin::status::{EndpointStatus, LimitsStatus, PoolStatus, Status, Traffic};

use crate::config_file::value_line;
use crate::failure::CommandFailure;

fn read<T: DeserializeOwned>(body: &str) -> Result<T, CommandFailure> {
    serde_json::from_str(body)
        .map_err(|error| CommandFailure::RunTime(format!("the response cannot be read: {error}")))
}

/// Formats rows below a heading, each column as wide as its widest cell.
pub(super) fn table(heading: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.max().unwrap_or(0).max(heading.get(column).map_or(0, |name| name.len()))
    };
    let widths: Vec<usize> = (0..heading.len()).map(width).collect();
    let mut text = String::new();
    let heading: Vec<String> = heading.iter().map(|name| name.to_uppercase()).collect();
    for row in std::iter::once(&heading).chain(rows) {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            let _ = write!(line, "{cell:<width$}  ");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Formats microseconds with a suitable unit.
pub(super) fn time(us: u64) -> String {
    match us {
        0..1_000 => format!("{us}us"),
        1_000..1_000_000 => format!("{:.1}ms", us as f64 / 1e3),
        _ => format!("{:.2}s", us as f64 / 1e6),
    }
}

fn now_ms() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.unwrap_or_default().as_millis() as u64
}

fn quantile(traffic: &Traffic, pick: fn(&weir_admin::status::PhaseTimes) -> u64) -> String {
    let times = if traffic.recent.is_empty() { &traffic.times } else { &traffic.recent };
    let total = times.iter().find(|times| times.phase == "total");
    total.map_or("-".to_owned(), |times| time(pick(times)))
}

#[expect(clippy::unnecessary_wraps, reason = "all views have one form")]
pub(super) fn as_it_is(body: &str) -> Result<String, CommandFailure> {
    Ok(body.to_owned())
}

pub(super) fn status(body: &str) -> Result<String, CommandFailure> {
    let status: Status = read(body)?;
    let info = &status.info;
    let mut text = format!(
        "Weir {} on {}, pid {}, {} for {}, generation {}\n",
        info.version,
        info.host,
        info.pid,
        info.state,
        age_ms(info.uptime_s * 1000),
        info.generation
    );
    let _ = writeln!(
        text,
        "{} of {} connections, {} requests running",
        info.connections, info.max_connections, info.requests_running
    );
    if let Some(max) = info.memory.max {
        let (used, max) = (info.memory.used >> 20, max >> 20);
        let _ = write!(text, "{used} of {max} MB of memory");
        let _ = match info.memory.pressure.as_str() {
            "none" | "" => writeln!(text),
            pressure => writeln!(text, ", short: {}", pressure.replace('_', " ")),
        };
    }
    let limited = |limits: &LimitsStatus| {
        let all = limits.limits.iter();
        all.fold((0, 0), |(refused, delayed), own| (refused + own.refused, delayed + own.delayed))
    };
    if let Some((refused, delayed)) = status.limits.as_ref().map(limited) {
        let _ = writeln!(text, "limits refused {refused} and delayed {delayed}: weir ctl limits");
    }
    if info.overrides > 0 {
        let _ = writeln!(text, "{} things differ from the file: weir ctl diff", info.overrides);
    }
    let rows = status.listeners.iter().map(|listener| {
        let limit = listener.max_connections.map_or("-".to_owned(), |limit| limit.to_string());
        let traffic = &listener.traffic;
        vec![
            listener.name.clone(),
            listener.addresses.join(" "),
            format!("{}/{limit}", listener.connections),
            traffic.requests.to_string(),
            traffic.per_second.to_string(),
            traffic.statuses.get("5xx").copied().unwrap_or_default().to_string(),
            quantile(traffic, |times| times.p50_us),
            quantile(traffic, |times| times.p99_us),
        ]
    });
    let heading =
        ["listener", "addresses", "connections", "requests", "per second", "5xx", "p50", "p99"];
    text.push('\n');
    text.push_str(&table(&heading, &rows.collect::<Vec<_>>()));
    let rows = status.workers.iter().map(|worker| {
        vec![
            worker.number.to_string(),
            worker.connections.to_string(),
            worker.requests_running.to_string(),
            worker.requests.to_string(),
            time(worker.lag.p99_us),
        ]
    });
    text.push('\n');
    let heading = ["worker", "connections", "running", "requests", "lag p99"];
    text.push_str(&table(&heading, &rows.collect::<Vec<_>>()));
    text.push('\n');
    text.push_str(&servers(&status.pools));
    Ok(text)
}

/// Formats the report of limits.
pub(super) fn limits(body: &str) -> Result<String, CommandFailure> {
    let report: LimitsStatus = read(body)?;
    let mut text = format!(
        "{} of {} clients and keys tracked, {} evicted, {} untracked\n\n",
        report.tracked, report.tracked_max, report.evicted, report.untracked
    );
    let rows = report.limits.iter().map(|limit| {
        vec![
            limit.limit.clone(),
            limit.bound.clone(),
            limit.refused.to_string(),
            limit.delayed.to_string(),
            limit.dry_run.to_string(),
        ]
    });
    let heading = ["limit", "bound", "refused", "delayed", "dry run"];
    text.push_str(&table(&heading, &rows.collect::<Vec<_>>()));
    let keys = report.limits.iter().flat_map(|limit| {
        limit.top.iter().map(|own| {
            let ago = age_ms(own.last_s * 1000);
            vec![limit.limit.clone(), own.key.clone(), own.count.to_string(), ago]
        })
    });
    let keys: Vec<_> = keys.collect();
    if !keys.is_empty() {
        text.push('\n');
        text.push_str(&table(&["limit", "key", "limited", "last"], &keys));
    }
    Ok(text)
}

pub(super) fn pools(body: &str) -> Result<String, CommandFailure> {
    let mut value: Value = read(body)?;
    let pools: Vec<PoolStatus> =
        serde_json::from_value(value["pools"].take()).map_err(|error| {
            CommandFailure::RunTime(format!("the response cannot be read: {error}"))
        })?;
    Ok(servers(&pools))
}

/// Returns a row for each server, and one for the pool as a whole.
fn servers(pools: &[PoolStatus]) -> String {
    let mut rows = Vec::new();
    for pool in pools {
        rows.extend(pool.endpoints.iter().map(server));
        let queue =
            pool.queue.map_or("-".to_owned(), |queue| format!("{}/{}", queue.now, queue.max));
        let state = if pool.panicking { "panic" } else { &pool.state };
        rows.push(vec![
            pool.name.clone(),
            format!("({})", pool.policy),
            state.to_owned(),
            String::new(),
            pool.in_flight.to_string(),
            queue,
            String::new(),
            pool.traffic.per_second.to_string(),
            pool.traffic.statuses.get("5xx").copied().unwrap_or_default().to_string(),
            quantile(&pool.traffic, |times| times.p50_us),
            quantile(&pool.traffic, |times| times.p99_us),
            quantile(&pool.traffic, |times| times.p999_us),
        ]);
    }
    let heading = [
        "pool",
        "server",
        "state",
        "since",
        "in flight",
        "queue",
        "weight",
        "per second",
        "5xx",
        "p50",
        "p99",
        "p99.9",
        "overridden",
    ];
    table(&heading, &rows)
}

fn server(endpoint: &EndpointStatus) -> Vec<String> {
    let limit = endpoint.max_conn.map_or(String::new(), |limit| format!("/{limit}"));
    vec![
        endpoint.pool.clone(),
        endpoint.name.clone(),
        endpoint.state.as_str().to_owned(),
        age_ms(now_ms().saturating_sub(endpoint.since_ms)),
        format!("{}{limit}", endpoint.in_flight),
        endpoint.queued.to_string(),
        endpoint.weight.to_string(),
        endpoint.traffic.per_second.to_string(),
        endpoint.traffic.statuses.get("5xx").copied().unwrap_or_default().to_string(),
        quantile(&endpoint.traffic, |times| times.p50_us),
        quantile(&endpoint.traffic, |times| times.p99_us),
        quantile(&endpoint.traffic, |times| times.p999_us),
        endpoint.overridden.join(" "),
    ]
}

pub(super) fn pool(body: &str) -> Result<String, CommandFailure> {
    let pool: PoolStatus = read(body)?;
    let mut text = servers(std::slice::from_ref(&pool));
    let counters = &pool.counters.balancer;
    let _ = writeln!(
        text,
        "\n{} dispatched, {} of them queued; refused: {} queue full, {} queue timeout, {} no server, {} all servers full",
        counters.dispatched,
        counters.queued,
        counters.queue_full,
        counters.timed_out,
        counters.unavailable + counters.gave_up,
        counters.full,
    );
    let idle: u32 = pool.endpoints.iter().map(|endpoint| endpoint.idle_connections).sum();
    let _ = writeln!(
        text,
        "{idle} idle connections to servers, at most {} to each",
        pool.keepalive_idle
    );
    text.push_str(&phases(&pool.traffic));
    Ok(text)
}

/// Formats the durations of requests, phase by phase.
fn phases(traffic: &Traffic) -> String {
    if traffic.times.is_empty() {
        return String::new();
    }
    let rows = traffic.times.iter().map(|times| {
        let quantiles =
            [times.p50_us, times.p90_us, times.p99_us, times.p999_us, times.p9999_us, times.max_us];
        let mut row = vec![times.phase.clone(), times.count.to_string(), time(times.mean_us)];
        row.extend(quantiles.map(time));
        row
    });
    let heading = ["phase", "requests", "mean", "p50", "p90", "p99", "p99.9", "p99.99", "max"];
    format!("\n{}", table(&heading, &rows.collect::<Vec<_>>()))
}

pub(super) fn endpoint(body: &str) -> Result<String, CommandFailure> {
    let endpoint: EndpointStatus = read(body)?;
    let limit = endpoint.max_conn.map_or("none".to_owned(), |limit| limit.to_string());
    let mut lines = vec![
        ("server", format!("{}/{}", endpoint.pool, endpoint.name)),
        ("address", endpoint.resolved.clone().unwrap_or_else(|| endpoint.address.clone())),
        ("state", endpoint.state.as_str().to_owned()),
        ("since", age_ms(now_ms().saturating_sub(endpoint.since_ms))),
        ("order", endpoint.order.clone()),
        ("health", endpoint.health.clone()),
        ("in flight", endpoint.in_flight.to_string()),
        ("max_conn", limit),
        ("weight", endpoint.weight.to_string()),
        ("picked", endpoint.picks.to_string()),
        ("passive failures", endpoint.passive_failures.to_string()),
        ("attempts failed", endpoint.failed_attempts.to_string()),
        ("redispatched", endpoint.redispatched.to_string()),
        ("idle connections", endpoint.idle_connections.to_string()),
    ];
    if let Some(probe) = &endpoint.probe {
        let ago = age_ms(now_ms().saturating_sub(probe.at_ms));
        let end = if probe.passed { "passed" } else { &probe.reason };
        let took = time(probe.took_us);
        lines.push(("last probe", format!("{} {ago} ago, took {took}: {end}", probe.kind)));
        lines.push(("probes", format!("{}, {} failed", probe.probes, probe.failures)));
        if !probe.excerpt.is_empty() {
            lines.push(("its reply", probe.excerpt.clone()));
        }
    }
    if !endpoint.reason.is_empty() {
        lines.push(("last change", endpoint.reason.clone()));
    }
    if !endpoint.excerpt.is_empty() {
        lines.push(("reply", endpoint.excerpt.clone()));
    }
    if !endpoint.overridden.is_empty() {
        lines.push(("overridden", endpoint.overridden.join(", ")));
    }
    let mut text = lines.iter().fold(String::new(), |mut text, (name, value)| {
        let _ = writeln!(text, "{name:<17} {value}");
        text
    });
    text.push_str(&phases(&endpoint.traffic));
    Ok(text)
}

pub(super) fn outcome(body: &str) -> Result<String, CommandFailure> {
    let value: Value = read(body)?;
    let mut text = String::new();
    let empty = Vec::new();
    let dry = value["dry_run"] == true;
    for one in value["changed"].as_array().unwrap_or(&empty) {
        let word = |name: &str| one[name].as_str().unwrap_or("none").to_owned();
        let place: Vec<&str> =
            ["pool", "endpoint", "listener"].iter().filter_map(|name| one[name].as_str()).collect();
        let _ = writeln!(
            text,
            "{}{} {}: {} -> {}",
            if dry { "would change: " } else { "" },
            place.join("/"),
            word("field"),
            word("before"),
            word("after")
        );
    }
    if text.is_empty() {
        text.push_str("nothing changed: these are the present values\n");
    } else if !dry {
        let note = value["lasts"]["note"].as_str().unwrap_or_default();
        let _ = writeln!(text, "for all {} workers; {note}", value["workers"]);
    }
    Ok(text)
}

pub(super) fn queue(body: &str) -> Result<String, CommandFailure> {
    let value: Value = read(body)?;
    Ok(waiting(std::slice::from_ref(&value)))
}

pub(super) fn queues(body: &str) -> Result<String, CommandFailure> {
    let value: Value = read(body)?;
    Ok(waiting(value["queues"].as_array().map_or(&[], Vec::as_slice)))
}

fn waiting(queues: &[Value]) -> String {
    let mut rows = Vec::new();
    for queue in queues {
        for one in queue["waiting"].as_array().map_or(&[] as &[Value], Vec::as_slice) {
            let text = |name: &str| one[name].as_str().unwrap_or_default();
            let endpoint = one["endpoint"].as_str().unwrap_or("any");
            rows.push(vec![
                format!("{}/{endpoint}", text("pool")),
                one["position"].to_string(),
                time(one["waited_us"].as_u64().unwrap_or_default()),
                time(one["left_us"].as_u64().unwrap_or_default()),
                text("request_id").to_owned(),
                text("client").to_owned(),
                format!("{} {}", text("method"), text("target")),
            ]);
        }
    }
    if rows.is_empty() {
        return "no request is waiting\n".to_owned();
    }
    table(&["for", "ahead", "waited", "left", "id", "client", "request"], &rows)
}

pub(super) fn events(body: &str) -> Result<String, CommandFailure> {
    let value: Value = read(body)?;
    let now = now_ms();
    let events = value["events"].as_array().map_or(&[] as &[Value], Vec::as_slice);
    let lines = events.iter().map(|event| {
        let ago = now.saturating_sub(event["at_ms"].as_u64().unwrap_or(now));
        let who = event["who"].as_str().map(|who| format!(", by {who}")).unwrap_or_default();
        let text = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
        let what = text("what");
        let mut lines = format!(
            "{:>5} {:>9} ago  {}: {what}{who}\n",
            event["number"].to_string(),
            age_ms(ago),
            text("kind"),
        );
        let details = event["details"].as_array().map_or(&[] as &[Value], Vec::as_slice);
        // A line about health already quotes the reply.
        let details = details.iter().filter_map(Value::as_str).filter(|line| !what.contains(*line));
        for line in details.flat_map(str::lines) {
            let _ = writeln!(lines, "{:22}{line}", "");
        }
        lines
    });
    Ok(lines.collect())
}

pub(super) fn slow(body: &str) -> Result<String, CommandFailure> {
    let value: Value = read(body)?;
    let slow = value["slow"].as_array().map_or(&[] as &[Value], Vec::as_slice);
    if slow.is_empty() {
        return Ok("no request in the last 15 minutes\n".to_owned());
    }
    Ok(slow.iter().map(explained).collect::<Vec<_>>().join("\n"))
}

pub(super) fn why(body: &str) -> Result<String, CommandFailure> {
    Ok(explained(&read::<Value>(body)?))
}

fn explained(record: &Value) -> String {
    let request = &record["request"];
    let text = |name: &str| request[name].as_str().unwrap_or_default();
    let explanation = record["explanation"].as_str().unwrap_or_default().trim_end();
    let (method, target) = (text("method"), text("target"));
    format!("{} {method} {target}\n{explanation}\n", text("request_id"))
}

pub(super) fn differences(body: &str) -> Result<String, CommandFailure> {
    let value: Value = read(body)?;
    let list = value["differences"].as_array().map_or(&[] as &[Value], Vec::as_slice);
    if list.is_empty() {
        return Ok("no differences from the configuration file\n".to_owned());
    }
    let row = |one: &Value| {
        let text = |name: &str| one[name].as_str().unwrap_or("none").to_owned();
        let place: Vec<&str> =
            ["pool", "name"].iter().filter_map(|name| one[name].as_str()).collect();
        vec![place.join("/"), text("field"), text("file"), text("now")]
    };
    Ok(table(&["what", "field", "file", "now"], &list.iter().map(row).collect::<Vec<_>>()))
}

/// Formats the values of a configuration with their sources.
pub(super) fn sources(body: &str) -> Result<String, CommandFailure> {
    let value: Value = read(body)?;
    let now = now_ms();
    let list = value["values"].as_array().map_or(&[] as &[Value], Vec::as_slice);
    let line = |one: &Value| {
        let source = &one["source"];
        let text = |name: &str| source[name].as_str().unwrap_or_default();
        let source = match text("kind") {
            "file" => format!("{}:{}", text("file"), source["line"]),
            "command_line" => "command line".to_owned(),
            "run_time" => match source["at_ms"].as_u64() {
                Some(at) => {
                    let ago = age_ms(now.saturating_sub(at));
                    format!("run time ({}, {ago} ago)", text("who"))
                }
                None => "run time (from the state file)".to_owned(),
            },
            kind => kind.to_owned(),
        };
        value_line(&source, one["path"].as_str().unwrap_or_default(), &one["value"])
    };
    Ok(list.iter().map(line).collect())
}

pub(super) fn lines(body: &str) -> Result<String, CommandFailure> {
    let value: Value = read(body)?;
    let list = value["lines"].as_array().map_or(&[] as &[Value], Vec::as_slice);
    if list.is_empty() {
        return Ok("no differences from the configuration file\n".to_owned());
    }
    let mut text = String::new();
    let mut last = None;
    for line in list {
        let place = line["place"].as_str().unwrap_or_default();
        if last != Some(place) {
            let _ =
                writeln!(text, "# {}", if place.is_empty() { "at the top level" } else { place });
            last = Some(place);
        }
        for (sign, name) in [('-', "instead_of"), ('+', "write")] {
            if let Some(words) = line[name].as_str() {
                let _ = writeln!(text, "{sign} {words}");
            }
        }
    }
    Ok(text + "# then: weir reload\n")
}

pub(super) fn reloaded(body: &str) -> Result<String, CommandFailure> {
    let value: Value = read(body)?;
    let mut text = String::new();
    let lines = |name: &str| value[name].as_array().cloned().unwrap_or_default();
    for line in lines("changed") {
        let _ = writeln!(text, "{}", line.as_str().unwrap_or_default());
    }
    for line in lines("warnings") {
        let _ = writeln!(text, "warning: {}", line.as_str().unwrap_or_default());
    }
    let _ = writeln!(text, "serving generation {}", value["generation"]);
    Ok(text)
}

pub(super) fn upgraded(body: &str) -> Result<String, CommandFailure> {
    let value: Value = read(body)?;
    Ok(format!("process {} serves\n", value["process"]))
}

pub(super) fn stopping(body: &str) -> Result<String, CommandFailure> {
    let value: Value = read(body)?;
    Ok(format!("stopping; {} requests are still running\n", value["requests_running"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_they_have_to_be() {
        let rows = [vec!["a".to_owned(), "long".to_owned()], vec!["bcd".to_owned(), String::new()]];
        assert_eq!(table(&["x", "y"], &rows), "X    Y\na    long\nbcd\n");
    }

    #[test]
    fn times_are_in_the_unit_that_fits() {
        assert_eq!([time(999), time(1_500), time(2_340_000)], ["999us", "1.5ms", "2.34s"]);
    }
}
