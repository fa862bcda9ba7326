//! Counted figures for programs: metrics for Prometheus, histograms that can be merged, and the
//! process's use of the machine. It counts nothing itself.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hyper::header;
use serde_json::{Map, Value, json};
use weir_control::admin_port::agent_line;
use weir_stats::exposition::{Format, Report, expose, lines_by_worker};
use weir_stats::interchange::{self, Interval, Wanted};
use weir_stats::metrics::{Distribution, Figures, Phase, PhaseDistributions};

use super::write::yes;
use crate::http::call::Call;
use crate::http::error::ApiError;
use crate::http::reply::HttpReply;
use crate::status::collect::host_name;

/// The most lines of metrics with separate workers; some 40 MB.
const MAX_LINES_BY_WORKER: usize = 250_000;

/// All metrics for Prometheus; on request with separate counts for each worker.
pub(crate) fn metrics(call: &Call) -> Result<HttpReply, ApiError> {
    let accept = call.headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    let format = Format::accepted(accept.unwrap_or_default());
    let mut report = call.context.report();
    if yes(call, "per_worker")? {
        let figures = call.context.operations().served().process.numbers.read_by_worker();
        report.by_worker = bounded(figures, MAX_LINES_BY_WORKER)?;
    }
    Ok(HttpReply::new(format.content_type(), expose(&report, format)))
}

fn bounded(by_worker: Vec<Figures>, most: usize) -> Result<Vec<Figures>, ApiError> {
    let lines = lines_by_worker(&by_worker);
    if lines <= most {
        return Ok(by_worker);
    }
    let message = format!(
        "{} workers with what each counted are some {lines} lines, and at most {most} are told: leave it out, sums over all workers \
        and `weir_worker_…` are there without it",
        by_worker.len()
    );
    Err(ApiError::field("per_worker", message))
}

/// The span of time that is asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FiguresWindow {
    Start,
    Recent,
}

impl FiguresWindow {
    fn of(call: &Call) -> Result<Self, ApiError> {
        match call.query("window") {
            None | Some("start") => Ok(Self::Start),
            Some("recent") => Ok(Self::Recent),
            Some(other) => {
                let message = format!("`{other}` is neither start nor recent");
                Err(ApiError::field("window", message))
            }
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Recent => "recent",
        }
    }

    fn figures(self, report: &Report) -> &Figures {
        match self {
            Self::Start => &report.figures,
            Self::Recent => &report.recent,
        }
    }

    fn interval(self, report: &Report) -> Interval {
        let now = SystemTime::now();
        let from = match self {
            Self::Start => UNIX_EPOCH + Duration::from_micros(report.process.started_unix_us),
            Self::Recent => now - Duration::from_micros(report.recent_us),
        };
        Interval { from, length: now.duration_since(from).unwrap_or_default() }
    }
}

/// Histograms as a HdrHistogram log, so that those of several instances can be added up.
pub(crate) fn hlog(call: &Call) -> Result<HttpReply, ApiError> {
    let window = FiguresWindow::of(call)?;
    let report = call.context.report();
    let log = interchange::log_of(&window.figures(&report).by_subject());
    let text = interchange::write_log(&log, window.interval(&report), &host_name());
    Ok(HttpReply::new("text/plain; charset=utf-8", text))
}

/// One distribution in the format of HdrHistogram's plotter.
pub(crate) fn hgrm(call: &Call) -> Result<HttpReply, ApiError> {
    let window = FiguresWindow::of(call)?;
    let phase = call.query("phase").unwrap_or(Phase::Total.as_str());
    let phase = Phase::named(phase).ok_or_else(|| {
        let known = Phase::ALL.map(Phase::as_str).join(", ");
        ApiError::field("phase", format!("`{phase}` is none: there are {known}"))
    })?;
    let named = |name| call.query(name).map(str::to_owned);
    let wanted = Wanted {
        listener: named("listener"),
        route: named("route"),
        pool: named("pool"),
        endpoint: named("endpoint"),
    };
    if wanted.endpoint.is_some() && wanted.pool.is_none() {
        return Err(ApiError::field("pool", "an endpoint is named with its pool"));
    }
    let report = call.context.report();
    let log = interchange::log_of(&window.figures(&report).by_subject());
    let times = wanted.of(&log, phase);
    // A subject without requests is not in the log.
    let times = times.or_else(|| is_there(&wanted, &report).then(Distribution::default));
    let times = times.ok_or_else(|| {
        let names = [&wanted.endpoint, &wanted.route, &wanted.pool, &wanted.listener];
        let name = names.into_iter().flatten().next().cloned().unwrap_or_default();
        ApiError::unknown("name", &name)
    })?;
    let text = interchange::spectrum(&interchange::to_hdr(&times), 1e3);
    Ok(HttpReply::new("text/plain; charset=utf-8", text))
}

/// Returns true if the configuration has the subject, or no subject is asked for.
fn is_there(wanted: &Wanted, report: &Report) -> bool {
    let Wanted { listener, route, pool, endpoint } = wanted;
    let has_pool = |name: &String| {
        let pool = report.pools.iter().find(|pool| pool.name == *name);
        pool.is_some_and(|pool| {
            let own = |name: &String| pool.endpoints.iter().any(|one| one.name == *name);
            endpoint.as_ref().is_none_or(own)
        })
    };
    let has_listener = |name: &String| report.listeners.iter().any(|one| one.name == *name);
    let has_route = |name: &String| report.figures.routes.iter().any(|one| one.route == *name);
    pool.as_ref().is_none_or(has_pool)
        && listener.as_ref().is_none_or(has_listener)
        && route.as_ref().is_none_or(has_route)
}

/// Percentiles by listener, route, pool and endpoint.
pub(crate) fn distributions(call: &Call) -> Result<HttpReply, ApiError> {
    let window = FiguresWindow::of(call)?;
    let report = call.context.report();
    let figures = window.figures(&report);
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
    Ok(HttpReply::json(&json!({
        "window": window.as_str(),
        "window_s": window.interval(&report).length.as_secs_f64(),
        "listeners": listeners.collect::<Vec<_>>(),
        "routes": routes.collect::<Vec<_>>(),
        "pools": pools.collect::<Vec<_>>(),
        "endpoints": endpoints.collect::<Vec<_>>(),
    })))
}

/// The level of detail of a distribution.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Detail {
    /// Summary figures only.
    Figures,
    /// The counts too, so that they can be merged with those of other processes.
    Counts,
}

fn phases_json(phases: &PhaseDistributions, detail: Detail) -> Value {
    let each = phases
        .counted()
        .map(|(phase, times)| (phase.as_str().to_owned(), times_json(times, detail)));
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

/// The process's use of the machine, and the time that the machine withholds from it.
pub(crate) fn machine(call: &Call) -> HttpReply {
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
    HttpReply::json(&told)
}

/// The share of its weight that this instance asks for, as `agent` sends it.
pub(crate) fn weight(call: &Call) -> HttpReply {
    let process = call.context.operations().served().process;
    HttpReply::new("text/plain", agent_line(call.context.operations().credits(), &process))
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_stats::metrics::MetricsRegistry;

    #[test]
    fn metrics_of_each_worker_are_bounded() {
        let numbers = MetricsRegistry::new(4);
        let listener = numbers.listener("web");
        for worker in 0..4 {
            listener.accepted(worker);
        }
        let figures = numbers.read_by_worker();
        let lines = lines_by_worker(&figures);
        assert!(lines >= 4, "{lines}");
        assert_eq!(bounded(figures.clone(), lines).unwrap().len(), 4);
        let refused = bounded(figures, lines - 1).unwrap_err();
        assert_eq!(refused.field.as_deref(), Some("per_worker"));
        assert!(refused.message.contains("4 workers"), "{}", refused.message);
    }
}
