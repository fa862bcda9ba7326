//! The routes of the HTTP interface in one table, from which the router, the rights and
//! `openapi.json` are made. Handlers that change something are in `write.rs`.

use hyper::{Method, header};
use serde_json::json;
use weir_config::{Config, ValueSource, sourced};
use weir_control::admin_port::milliseconds;

use super::live;
use super::metrics;
use super::numbers;
use super::openapi;
use super::upgrade;
use super::write;
use crate::access::caller::Right;
use crate::dashboard::PAGES;
use crate::haproxy;
use crate::http::call::{ApiRoute, Call, Handler, Later};
use crate::http::error::ApiError;
use crate::http::query::decoded;
use crate::http::reply::HttpReply;
use crate::status::collect::status;
use crate::status::read_model::ReadModel;

const fn look(
    path: &'static str,
    summary: &'static str,
    answer: fn(&Call) -> Result<HttpReply, ApiError>,
) -> ApiRoute {
    ApiRoute {
        method: Method::GET,
        path,
        right: Right::Read,
        summary,
        answer: Handler::Now(answer),
    }
}

const fn change(
    method: Method,
    path: &'static str,
    summary: &'static str,
    answer: fn(Call) -> Later,
) -> ApiRoute {
    ApiRoute { method, path, right: Right::Admin, summary, answer: Handler::Later(answer) }
}

const fn operate(
    method: Method,
    path: &'static str,
    summary: &'static str,
    answer: fn(Call) -> Later,
) -> ApiRoute {
    ApiRoute { method, path, right: Right::Operate, summary, answer: Handler::Later(answer) }
}

/// The path of one pool.
const POOL: &str = "/v1/pools/{pool}";
/// The path of one endpoint.
pub(crate) const ENDPOINT: &str = "/v1/pools/{pool}/endpoints/{endpoint}";

/// All routes but those of the dashboard.
pub(crate) const ROUTES: &[ApiRoute] = &[
    look("/v1", "The list of paths", |_| {
        let list = ROUTES.iter().map(|route| {
            json!({
                "method": route.method.as_str(), "path": route.path, "summary": route.summary,
                "right": route.right.as_str(),
            })
        });
        Ok(HttpReply::json(&json!({"routes": list.collect::<Vec<_>>()})))
    }),
    look("/v1/status", "The whole status in one response, read at one moment", |call| {
        Ok(HttpReply::json(&status(&call.context.sources)))
    }),
    look("/v1/info", "The process, with the failures of its workers (`incidents`)", |call| {
        Ok(HttpReply::json(&ReadModel::new(&call.context.sources).info()))
    }),
    look("/v1/pools", "Every pool with its endpoints", |call| {
        Ok(HttpReply::json(&json!({"pools": ReadModel::new(&call.context.sources).pools()})))
    }),
    look(POOL, "One pool with its endpoints", |call| {
        let name = call.parameter(0);
        let pool = ReadModel::new(&call.context.sources).pool_named(name);
        pool.map(|pool| HttpReply::json(&pool)).ok_or_else(|| ApiError::unknown("pool", name))
    }),
    look(
        "/v1/pools/{pool}/queue",
        "The requests that wait in a pool's queue, oldest first",
        |call| {
            let name = call.parameter(0);
            let queue = ReadModel::new(&call.context.sources).queue(name);
            let queue = queue.ok_or_else(|| ApiError::unknown("pool", name))?;
            Ok(HttpReply::json(&json!({"pool": name, "waiting": queue})))
        },
    ),
    look("/v1/queues", "The waiting requests of every pool", |call| {
        let model = ReadModel::new(&call.context.sources);
        let queues =
            model.queues().map(|(pool, waiting)| json!({"pool": pool, "waiting": waiting}));
        Ok(HttpReply::json(&json!({"queues": queues.collect::<Vec<_>>()})))
    }),
    look(ENDPOINT, "One endpoint; its `ETag` is for `If-Match`", |call| {
        let endpoint =
            write::endpoint(&call.context.sources, call.parameter(0), call.parameter(1))?;
        let tag = write::tag(&endpoint);
        Ok(HttpReply::json(&endpoint).header(header::ETAG, tag))
    }),
    look("/v1/listeners", "Every listener", |call| {
        Ok(HttpReply::json(
            &json!({"listeners": ReadModel::new(&call.context.sources).listeners()}),
        ))
    }),
    look(
        "/v1/limits",
        "The effects of limits on clients and keys, and the clients and keys limited most",
        |call| {
            Ok(HttpReply::json(&ReadModel::new(&call.context.sources).limits().unwrap_or_default()))
        },
    ),
    look("/v1/routes", "Every route that had a request", |call| {
        Ok(HttpReply::json(&json!({"routes": ReadModel::new(&call.context.sources).routes()})))
    }),
    look(
        "/v1/slow",
        "The slowest requests of the last 15 minutes; `?route=NAME`, `?limit=NUMBER`",
        slow,
    ),
    look("/v1/why/{id}", "The explanation of one request's duration, by its id", |call| {
        let id = call.parameter(0);
        let record = ReadModel::new(&call.context.sources).why(id);
        let record = record.ok_or_else(|| ApiError::unknown("request", id))?;
        Ok(HttpReply::json(&json!({"explanation": record.explain(), "request": record})))
    }),
    look("/v1/workers", "Every worker", |call| {
        Ok(HttpReply::json(&json!({"workers": ReadModel::new(&call.context.sources).workers()})))
    }),
    look("/v1/events", "Events, oldest first; `?after=NUMBER` returns only later ones", events),
    look(
        "/v1/config",
        "The configuration in effect, runtime changes included; `?file=true` leaves them out, `?sources=true` lists each value with the line, change or default that it comes from",
        |call| {
            let served = call.context.operations().served();
            let file = write::yes(call, "file")?;
            let config = if file { &served.file } else { &served.config };
            if write::yes(call, "sources")? {
                return Ok(sources(call, config, &served.file));
            }
            Ok(HttpReply::new("application/json", weir_config::to_json(&config.without_secrets())))
        },
    ),
    look(
        "/v1/overrides",
        "Runtime changes: values, differences from the file, and the lines that would put them into the file",
        |call| {
            let (served, overrides) =
                (call.context.operations().served(), call.context.operations().overrides());
            Ok(HttpReply::json(&json!({
                "overrides": overrides,
                "differences": overrides.differences(&served.file),
                "lines": overrides.lines(&served.file),
            })))
        },
    ),
    look(
        "/metrics",
        "All metrics, for Prometheus: as text, as OpenMetrics, or as protocol buffers with native histograms; sums over all workers, or with `?per_worker=true` each worker apart, with a label `worker`",
        metrics::metrics,
    ),
    look(
        "/v1/distributions",
        "Percentiles of every phase with their samples; `?window=recent` of the last ten seconds, `?counts=true` with HdrHistogram's counts",
        numbers::distributions,
    ),
    look(
        "/v1/distributions.hlog",
        "All histograms as a HdrHistogram log, which can be merged with those of other instances; `?window=recent`",
        numbers::hlog,
    ),
    look(
        "/v1/distributions.hgrm",
        "One percentile distribution for HdrHistogram's plotter: of all listeners or of a `listener`, `route`, `pool`, or `endpoint` of a pool; `phase`, by default total; `?window=recent`",
        numbers::hgrm,
    ),
    look(
        "/v1/machine",
        "Processor time, steal, throttling, credits, open files, workers",
        |call| Ok(numbers::machine(call)),
    ),
    look(
        "/v1/weight",
        "The share of its weight that this instance asks for, in the form of `agent`",
        |call| Ok(numbers::weight(call)),
    ),
    look("/openapi.json", "This description of the interface (OpenAPI)", |_| {
        Ok(HttpReply::new("application/json", openapi::TEXT))
    }),
    ApiRoute {
        method: Method::GET,
        path: "/v1/stream",
        right: Right::Read,
        summary: "The status once a second, as server-sent events",
        answer: Handler::Later(live::stream),
    },
    operate(
        Method::PATCH,
        "/v1/info",
        "Changes the process: `max_connections`",
        write::patch_process,
    ),
    operate(
        Method::PATCH,
        POOL,
        "Changes a pool: `keepalive_idle`, the largest number of idle connections kept to each endpoint",
        write::patch_pool,
    ),
    operate(
        Method::PATCH,
        "/v1/listeners/{listener}",
        "Changes a listener: `max_connections`",
        write::patch_listener,
    ),
    change(
        Method::POST,
        "/v1/pools/{pool}/endpoints",
        "Adds an endpoint: `address`, and optionally `name`, `weight`, `max_conn`, `priority`, `backup`, `order`",
        write::add,
    ),
    change(
        Method::DELETE,
        ENDPOINT,
        "Removes an endpoint; its running requests finish",
        write::remove,
    ),
    change(
        Method::POST,
        "/v1/reload",
        "Reloads the configuration file and waits for the result",
        write::reload,
    ),
    change(
        Method::POST,
        "/v1/upgrade",
        "Upgrades to a new process and waits until it serves: `binary`, by default the program of this process; `timeout_s`, by default 30",
        upgrade::upgrade,
    ),
    operate(
        Method::POST,
        "/v1/overrides/revert",
        "Reverts runtime changes to the file: all of them, those of a `pool`, or of an `endpoint` in it",
        write::revert,
    ),
    operate(
        Method::POST,
        "/v1/overrides/adopt",
        "The lines that put the runtime changes into the configuration file",
        write::adopt,
    ),
    operate(Method::POST, "/v1/counters/clear", "Resets the counters to 0", write::clear_counters),
    change(Method::POST, "/v1/stop", "Stops gracefully, as the signal TERM does", write::stop),
    operate(
        Method::PATCH,
        ENDPOINT,
        "Changes an endpoint: `order`, `weight`, `max_conn`",
        write::patch,
    ),
];

/// Every value of a configuration with its source.
fn sources(call: &Call, config: &Config, file: &Config) -> HttpReply {
    let operations = call.context.operations();
    let (config, file) = (config.without_secrets(), file.without_secrets());
    let values = sourced(&config, &file, &operations.origins()).into_iter().map(|one| {
        let source = match one.source {
            ValueSource::Line { file, line } => {
                json!({"kind": "file", "file": &*file, "line": line})
            }
            ValueSource::CommandLine => json!({"kind": "command_line"}),
            ValueSource::Default => json!({"kind": "default"}),
            ValueSource::RunTime { pool, name, field } => {
                let by = operations.changed_by(pool.as_deref(), name.as_deref(), &field);
                let (who, at) = by.unzip();
                json!({"kind": "run_time", "who": who, "at_ms": at.map(milliseconds)})
            }
        };
        json!({"path": one.path, "value": one.value, "source": source})
    });
    HttpReply::json(&json!({"values": values.collect::<Vec<_>>()}))
}

/// The number of slowest requests listed by default.
const SLOW_TOLD: usize = 20;

fn slow(call: &Call) -> Result<HttpReply, ApiError> {
    let limit = match call.query("limit") {
        None => SLOW_TOLD,
        Some(text) => text
            .parse()
            .map_err(|_| ApiError::field("limit", format!("`{text}` is not a whole number")))?,
    };
    let slow = ReadModel::new(&call.context.sources).slowest(call.query("route"), limit);
    let slow: Vec<_> = slow
        .iter()
        .map(|record| json!({"explanation": record.explain(), "request": &**record}))
        .collect();
    Ok(HttpReply::json(&json!({"slow": slow})))
}

fn events(call: &Call) -> Result<HttpReply, ApiError> {
    let after = match call.query("after") {
        None => 0,
        Some(text) => text
            .parse()
            .map_err(|_| ApiError::field("after", format!("`{text}` is not an event's number")))?,
    };
    let mut events = call.context.operations().events();
    events.retain(|event| event.number > after);
    Ok(HttpReply::json(&json!({"events": events})))
}

/// The result of a look-up.
pub(crate) enum RouteMatch {
    /// The route, with the values of the braces in its path.
    Route(&'static ApiRoute, Vec<String>),
    /// The path exists, but only for these methods.
    OtherMethods(Vec<&'static str>),
    /// The path does not exist.
    Nothing,
}

/// Looks a request's route up. HEAD counts as GET.
pub(crate) fn find(method: &Method, path: &str) -> RouteMatch {
    let method = if *method == Method::HEAD { &Method::GET } else { method };
    let mut others = Vec::new();
    for route in ROUTES.iter().chain(PAGES).chain(haproxy::PAGES) {
        let Some(parameters) = parameters(route.path, path) else { continue };
        if route.method == *method {
            return RouteMatch::Route(route, parameters);
        }
        others.push(route.method.as_str());
    }
    if others.is_empty() { RouteMatch::Nothing } else { RouteMatch::OtherMethods(others) }
}

/// The values of the braces in `pattern`, if `path` matches it.
fn parameters(pattern: &str, path: &str) -> Option<Vec<String>> {
    let mut found = Vec::new();
    let (mut wanted, mut there) = (pattern.split('/'), path.split('/'));
    loop {
        match (wanted.next(), there.next()) {
            (None, None) => return Some(found),
            (Some(wanted), Some(there)) if wanted.starts_with('{') && !there.is_empty() => {
                found.push(decoded(there));
            }
            (Some(wanted), Some(there)) if wanted == there => {}
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(method: &Method, path: &str, expected: &str) {
        let found = match find(method, path) {
            RouteMatch::Route(route, parameters) => {
                format!("{} {}", route.path, parameters.join(" "))
            }
            RouteMatch::OtherMethods(methods) => methods.join(", "),
            RouteMatch::Nothing => "nothing".to_owned(),
        };
        assert_eq!(found.trim_end(), expected, "{method} {path}");
    }

    #[test]
    fn paths_lead_to_routes() {
        check(&Method::GET, "/v1/info", "/v1/info");
        check(&Method::HEAD, "/v1/info", "/v1/info");
        check(&Method::POST, "/v1/info", "GET, PATCH");
        check(&Method::GET, "/v1/info/", "nothing");
        check(&Method::GET, "/v1/pools/app", "/v1/pools/{pool} app");
        check(&Method::GET, "/v1/pools//queue", "nothing");
        let socket = "/v1/pools/app/endpoints/unix:%2Frun%2Fapp.sock";
        check(&Method::GET, socket, "/v1/pools/{pool}/endpoints/{endpoint} app unix:/run/app.sock");
        check(&Method::GET, "/v1/pools/app/endpoints", "POST");
        check(&Method::GET, "/", "/");
        check(&Method::GET, "/pools/app/a%2Fb", "/pools/{pool}/{endpoint} app a/b");
    }

    #[test]
    fn nothing_is_changed_by_looking() {
        for route in ROUTES.iter().chain(PAGES).chain(haproxy::PAGES) {
            assert_eq!(route.method == Method::GET, route.right == Right::Read, "{}", route.path);
        }
    }
}
