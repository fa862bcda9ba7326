//! What was counted, for programs: metrics for Prometheus, histograms that others can merge, and what the process takes of the machine.

use hyper::header;
use serde_json::{Map, Value, json};
use weir_stats::exposition::{Format, expose};
use weir_stats::numbers::{Distribution, PhaseDistributions};

use super::error::ApiError;
use super::http::Call;
use super::reply::Reply;
use super::write::yes;
use crate::credits::agent;

/// Everything, for Prometheus.
pub(crate) fn metrics(call: &Call) -> Reply {
    let accept = call.headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    let format = Format::accepted(accept.unwrap_or_default());
    Reply::new(format.content_type(), expose(&call.context.report(), format))
}

/// Percentiles by listener, route, pool and endpoint.
pub(crate) fn distributions(call: &Call) -> Result<Reply, ApiError> {
    let report = call.context.report();
    let (window, figures) = match call.query("window") {
        None | Some("start") => ("start", &*report.figures),
        Some("recent") => ("recent", &report.recent),
        Some(other) => {
            let message = format!("`{other}` is neither start nor recent");
            return Err(ApiError::field("window", message));
        }
    };
    let detail = if yes(call, "counts")? { Detail::Counts } else { Detail::Figures };
    let named = |names: &[(&str, &str)], phases: &PhaseDistributions| {
        let mut value = phases_json(phases, detail);
        for (name, text) in names {
            value[*name] = json!(text);
        }
        value
    };
    let listeners = report
        .listeners
        .iter()
        .map(|one| named(&[("listener", &one.name)], &figures.phases_of_listener(&one.name)));
    let pools = report.pools.iter();
    let pools = pools.map(|one| named(&[("pool", &one.name)], &figures.phases_of_pool(&one.name)));
    let routes = figures.routes.iter().map(|one| {
        let names = [("listener", &*one.listener), ("route", &one.route), ("pool", &one.pool)];
        named(&names, &one.phases)
    });
    let endpoints = figures
        .endpoints
        .iter()
        .map(|one| named(&[("pool", &one.pool), ("endpoint", &one.endpoint)], &one.phases));
    Ok(Reply::json(&json!({
        "window": window,
        "listeners": listeners.collect::<Vec<_>>(),
        "routes": routes.collect::<Vec<_>>(),
        "pools": pools.collect::<Vec<_>>(),
        "endpoints": endpoints.collect::<Vec<_>>(),
    })))
}

/// What is shown of a distribution.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Detail {
    /// Its figures.
    Figures,
    /// Its counts too, for whoever merges them with those of other processes.
    Counts,
}

fn phases_json(phases: &PhaseDistributions, detail: Detail) -> Value {
    let each = phases.each().filter(|(_, times)| times.count() > 0);
    let each = each.map(|(phase, times)| (phase.as_str().to_owned(), times_json(times, detail)));
    json!({"phases": each.collect::<Map<_, _>>()})
}

fn times_json(times: &Distribution, detail: Detail) -> Value {
    let mut value = json!({
        "count": times.count(),
        "mean_us": times.mean_us(),
        "min_us": times.min_us(),
        "max_us": times.max_us(),
        "quantiles": times.quantiles(),
    });
    if times.coarse() > 0 {
        value["coarse"] = json!(times.coarse());
    }
    if detail == Detail::Counts {
        value["counts"] = json!(times.counts());
    }
    value
}

/// What the process takes of the machine, and what the machine takes from it.
pub(crate) fn machine(call: &Call) -> Reply {
    let report = call.context.report();
    let workers = report.figures.workers.iter().zip(&report.machine.workers).zip(&report.workers);
    let workers = workers.map(|((counted, cpu), load)| {
        json!({
            "connections": load.connections,
            "requests_running": load.requests_running,
            "requests": counted.exchanges,
            "busy_us": counted.own_us,
            "cpu": cpu,
            "lag": times_json(&counted.lag, Detail::Figures),
        })
    });
    let mut told = json!({
        "machine": report.machine,
        "recent": report.usage,
        "histogram_bytes": report.figures.histogram_bytes,
        "workers": workers.collect::<Vec<_>>(),
    });
    if let Some(credits) = &report.credits {
        told["credits"] = json!(credits);
    }
    Reply::json(&told)
}

/// How much of its weight this instance asks for, as `agent` tells it.
pub(crate) fn weight(call: &Call) -> Reply {
    let process = call.context.served().process;
    Reply::new("text/plain", agent::line(call.context.credits(), &process))
}
