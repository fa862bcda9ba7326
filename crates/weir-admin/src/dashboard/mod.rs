//! The dashboard: pages that are complete without a script; the script keeps them current and draws
//! charts. They are views of `status.rs`, and make changes as the API does. Nothing is loaded from
//! another address, and no page contains inline scripts.

mod endpoint;
pub(crate) mod html;
mod live;
mod order;
mod overview;
mod page;
mod parts;
mod response;
#[cfg(test)]
pub(crate) mod sample;
mod sight;
mod table;

use std::sync::Arc;
use std::time::Duration;

use hyper::header;
use hyper::{Method, StatusCode};
use tokio::time::{MissedTickBehavior, interval};

use super::context::AdminContext;
use crate::access::caller::Right;
use crate::http::call::{ApiRoute, Call, Handler};
use crate::http::error::ApiError;
use crate::http::query::encoded;
use crate::http::reply::HttpReply;
use crate::status::collect::status;

use response::{POLICY, html_reply, sorry};
use sight::Sight;

/// The interval between two points of the charts.
const PERIOD: Duration = Duration::from_secs(1);
/// The routes of the pages.
pub(crate) const PAGES: &[ApiRoute] = &[
    page("/", "Everything at a glance", Handler::Now(|call| Ok(overview(call)))),
    page("/pools/{pool}/{endpoint}", "One endpoint", Handler::Now(|call| Ok(one_endpoint(call)))),
    page("/live", "A page and its charts once a second", Handler::Later(live::stream)),
    page("/assets/{file}", "Style, script and icon", Handler::Now(asset)),
    ApiRoute {
        method: Method::POST,
        path: "/pools/{pool}/{endpoint}",
        right: Right::Operate,
        summary: "The buttons of a page, where no script is",
        answer: Handler::Later(order::take),
    },
    ApiRoute {
        method: Method::POST,
        path: "/pools/{pool}",
        right: Right::Operate,
        summary: "The settings of a pool, where no script is",
        answer: Handler::Later(order::take_pool),
    },
];

const fn page(path: &'static str, summary: &'static str, answer: Handler) -> ApiRoute {
    ApiRoute { method: Method::GET, path, right: Right::Read, summary, answer }
}

/// Adds a point to the charts once a second, as long as the admin interface exists.
pub(crate) async fn sample(context: Arc<AdminContext>) {
    let mut ticks = interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        context.history.take(status(&context.sources));
    }
}

fn overview(call: &Call) -> HttpReply {
    let status = status(&call.context.sources);
    let sight = Sight::of(&call.context, &status, call.caller.right);
    html_reply(page::whole(&sight, "/live", &overview::main(&sight)))
}

fn one_endpoint(call: &Call) -> HttpReply {
    let status = status(&call.context.sources);
    let sight = Sight::of(&call.context, &status, call.caller.right);
    let (pool, name) = (call.parameter(0), call.parameter(1));
    let Some(main) = endpoint::main(&sight, pool, name) else {
        let sentence = format!(
            "There is no endpoint “{name}” in a pool “{pool}” of the configuration that is served."
        );
        return sorry(StatusCode::NOT_FOUND, &sentence);
    };
    let live = format!("/live?pool={}&endpoint={}", encoded(pool), encoded(name));
    html_reply(page::whole(&sight, &live, &main))
}

fn asset(call: &Call) -> Result<HttpReply, ApiError> {
    let (content_type, body) = match call.parameter(0) {
        "weir.css" => ("text/css; charset=utf-8", include_str!("../../assets/weir.css")),
        "weir.js" => ("text/javascript; charset=utf-8", include_str!("../../assets/weir.js")),
        "charts.js" => ("text/javascript; charset=utf-8", include_str!("../../assets/charts.js")),
        "weir.svg" => ("image/svg+xml", include_str!("../../assets/weir.svg")),
        other => return Err(ApiError::unknown("file", other)),
    };
    // The files are small and belong to this process's version, so a browser fetches them again
    // each time.
    Ok(HttpReply::new(content_type, body)
        .header(header::CONTENT_SECURITY_POLICY, POLICY.to_owned()))
}
