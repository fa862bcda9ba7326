//! Counted figures for programs: histograms that can be merged, and the process's use of the
//! machine. It counts nothing itself.

use std::time::{Duration, SystemTime};

use serde_json::{Map, Value, json};
use weir_control::admin_port::agent_line;
use weir_stats::interchange::{self, Interval, Wanted};
use weir_stats::metrics::{Distribution, Figures, Phase, PhaseDistributions};

use super::write::yes;
use crate::http::call::Call;
use crate::http::error::ApiError;
use crate::http::reply::HttpReply;
use crate::status::collect::host_name;
use crate::status::read_model::ReadModel;
use crate::status::sampler::SampledFigures;

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

    fn figures(self, look: &SampledFigures) -> &Figures {
        match self {
            Self::Start => &look.now,
            Self::Recent => &look.recent.figures,
        }
    }

    fn interval(self, call: &Call, look: &SampledFigures) -> Interval {
        let now = SystemTime::now();
        let from = match self {
            Self::Start => call.context.operations().started(),
            Self::Recent => now - Duration::from_micros(look.recent.length_us),
        };
        Interval { from, length: now.duration_since(from).unwrap_or_default() }
    }
}

/// Histograms as a HdrHistogram log, so that those of several instances can be added up.
pub(crate) fn hlog(call: &Call) -> Result<HttpReply, ApiError> {
    let window = FiguresWindow::of(call)?;
    let look = call.context.sources.sampler.look();
    let log = interchange::log_of(&window.figures(&look).by_subject());
    let text = interchange::write_log(&log, window.interval(call, &look), &host_name());
    Ok(HttpReply::new("text/plain; charset=utf-8", text))
}

/// One distribution in the format of HdrHistogram's plotter.
pub(crate) fn hgrm(call: &Call) -> Result<HttpReply, ApiError> {
    let window = FiguresWindow::of(call)?;
    let phase = call.query("phase").unwrap_or(Phase::Total.as_str());
    let phase = Phase::named(phase).ok_or_else(|| {
        let known = Phase::ALL.map(Phase::as_str).join(", ");
        ApiError::field("phase", format!("there is no phase `{phase}`; known are {known}"))
    })?;
    let named = |name| call.query(name).map(str::to_owned);
    let wanted = Wanted {
        listener: named("listener"),
        route: named("route"),
        pool: named("pool"),
        endpoint: named("endpoint"),
    };
    if wanted.endpoint.is_some() && wanted.pool.is_none() {
        return Err(ApiError::field("pool", "an endpoint needs its pool"));
    }
    let model = ReadModel::new(&call.context.sources);
    let log = interchange::log_of(&window.figures(model.look()).by_subject());
    let times = wanted.of(&log, phase);
    // A subject without requests is not in the log.
    let times = times.or_else(|| is_there(&wanted, &model).then(Distribution::default));
    let times = times.ok_or_else(|| {
        let names = [&wanted.endpoint, &wanted.route, &wanted.pool, &wanted.listener];
        let name = names.into_iter().flatten().next().cloned().unwrap_or_default();
        ApiError::unknown("name", &name)
    })?;
    let text = interchange::spectrum(&interchange::to_hdr(&times), 1e3);
    Ok(HttpReply::new("text/plain; charset=utf-8", text))
}

/// Returns true if the configuration has the subject, or no subject is asked for.
fn is_there(wanted: &Wanted, model: &ReadModel<'_>) -> bool {
    let Wanted { listener, route, pool, endpoint } = wanted;
    let snapshot = model.snapshot();
    let has_pool = |name: &String| match endpoint {
        None => snapshot.pool(name).is_some(),
        Some(endpoint) => snapshot.endpoint(name, endpoint).is_some(),
    };
    let has_route = |name: &String| model.look().now.routes.iter().any(|one| one.route == *name);
    pool.as_ref().is_none_or(has_pool)
        && listener.as_ref().is_none_or(|name| snapshot.listener(name).is_some())
        && route.as_ref().is_none_or(has_route)
}

/// Percentiles by listener, route, pool and endpoint.
pub(crate) fn distributions(call: &Call) -> Result<HttpReply, ApiError> {
    let window = FiguresWindow::of(call)?;
    let model = ReadModel::new(&call.context.sources);
    let (snapshot, look) = (model.snapshot(), model.look());
    let figures = window.figures(look);
    let detail = if yes(call, "counts")? { Detail::Counts } else { Detail::Figures };
    let named = |names: &[(&str, &str)], phases: &PhaseDistributions| {
        let mut value = phases_json(phases, detail);
        for (name, text) in names {
            value[*name] = json!(text);
        }
        value
    };
    let listeners = snapshot
        .listeners
        .iter()
        .map(|one| named(&[("listener", &one.name)], &figures.phases_of_listener(&one.name)));
    let pools = snapshot.pools.iter();
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
        "window_s": window.interval(call, look).length.as_secs_f64(),
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
    let model = ReadModel::new(&call.context.sources);
    let (look, machine) = (model.look(), model.machine());
    let workers = look.now.workers.iter().zip(&machine.figures.workers).zip(model.workers());
    let workers = workers.map(|((counted, cpu), worker)| {
        json!({
            "connections": worker.connections,
            "requests_running": worker.requests_running,
            "requests": worker.requests,
            "busy_us": worker.own_us,
            "cpu": cpu,
            "lag": times_json(&counted.lag, Detail::Figures),
        })
    });
    let mut told = json!({
        "machine": machine.figures,
        "recent": machine.recent,
        "histogram_bytes": look.now.histogram_bytes,
        "workers": workers.collect::<Vec<_>>(),
    });
    if let Some(credits) = call.context.operations().credits().report() {
        told["credits"] = json!(credits);
    }
    HttpReply::json(&told)
}

/// The share of its weight that this instance asks for, as `agent` sends it.
pub(crate) fn weight(call: &Call) -> HttpReply {
    let process = call.context.operations().served().process;
    HttpReply::new("text/plain", agent_line(call.context.operations().credits(), &process))
}
