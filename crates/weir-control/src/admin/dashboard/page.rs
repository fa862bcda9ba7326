//! The common parts of all pages: the frame, and the data that they show. The contents of `<main>`
//! are made in `overview.rs` and `endpoint.rs`.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use weir_stats::{Clock, ExchangeRecord};

use super::super::context::Context;
use super::super::status::{Event, Status, WaitingStatus};
use super::html::Html;
use crate::admin::access::caller::Right;
use crate::admin::status::gather::View;
use crate::admin::status::history::Point;

/// The most events and slow requests on a page.
const EVENTS: usize = 60;
const SLOWEST: usize = 15;
/// The most waiting requests shown of each queue.
const WAITING: usize = 20;

/// The data of a page.
pub(super) struct Sight<'a> {
    pub(super) status: &'a Status,
    pub(super) point: Option<Point>,
    /// The events, latest first.
    pub(super) events: Vec<Event>,
    /// The slow requests, slowest first.
    pub(super) slowest: Vec<Arc<ExchangeRecord>>,
    /// The first waiting requests of each pool.
    pub(super) queues: Vec<(String, Vec<WaitingStatus>)>,
    /// The right of the viewer.
    pub(super) right: Right,
}

impl<'a> Sight<'a> {
    pub(super) fn of(context: &Context, status: &'a Status, right: Right) -> Self {
        let view = View::new(context);
        let busy = |pool: &&super::super::status::PoolStatus| {
            pool.queue.is_some_and(|queue| queue.now > 0)
        };
        let queue = |pool: &super::super::status::PoolStatus| {
            let mut waiting = view.queue(&pool.name)?;
            waiting.truncate(WAITING);
            Some((pool.name.clone(), waiting))
        };
        Self {
            status,
            point: context.history.latest_point(),
            events: context.events().into_iter().rev().collect(),
            slowest: view.slowest(None, SLOWEST),
            queues: status.pools.iter().filter(busy).filter_map(queue).collect(),
            right,
        }
    }

    /// The latest events, of one endpoint or of all.
    pub(super) fn events_of(&self, endpoint: Option<(&str, &str)>) -> impl Iterator<Item = &Event> {
        let wanted = move |event: &&Event| match endpoint {
            None => true,
            Some((pool, name)) => {
                event.pool.as_deref() == Some(pool) && event.endpoint.as_deref() == Some(name)
            }
        };
        self.events.iter().filter(wanted).take(EVENTS)
    }

    /// The time since a moment, milliseconds.
    pub(super) fn ago_ms(&self, at_ms: u64) -> u64 {
        self.status.at_ms.saturating_sub(at_ms)
    }

    pub(super) fn may_write(&self) -> bool {
        self.right >= Right::Operate
    }
}

/// The whole page; `live` is the address of its updates.
pub(super) fn whole(sight: &Sight<'_>, live: &str, main: &Html) -> String {
    let info = &sight.status.info;
    let mut html = Html::default();
    html.markup(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\"><title>",
    );
    html.text(title(sight)).markup(
        "</title><link rel=\"icon\" href=\"/assets/weir.svg\"><link rel=\"stylesheet\" href=\"/assets/weir.css\">\
         <noscript><meta http-equiv=\"refresh\" content=\"5\"></noscript>\
         <script src=\"/assets/charts.js\" defer></script><script src=\"/assets/weir.js\" defer></script></head>",
    );
    html.markup("<body data-live=\"").text(live).markup(
        "\"><a class=\"skip\" href=\"#main\">To the tables</a>\
         <header><a class=\"brand\" href=\"/\"><img src=\"/assets/weir.svg\" alt=\"\" width=\"22\" height=\"22\">Weir</a><span class=\"host\">",
    );
    html.text(&info.host).markup(
        "</span><span id=\"pulse\" role=\"status\" class=\"script\"></span>\
         <noscript><span class=\"pulse\">every 5 s, without script</span></noscript>\
         <label class=\"script filter\">Filter <input id=\"filter\" type=\"search\" placeholder=\"name, address or state ( / )\" autocomplete=\"off\"></label>\
         </header>",
    );
    html.append(main);
    html.markup("<div id=\"said\" role=\"status\" aria-live=\"polite\"></div><footer>Weir ");
    html.text(&info.version).markup(
        " · <a href=\"/v1\">API</a> · <a href=\"/v1/status\">status as JSON</a> · <a href=\"/openapi.json\">OpenAPI</a> · \
         <span class=\"script\">keys: <kbd>/</kbd> filter, <kbd>t</kbd> only trouble, <kbd>p</kbd> pause</span></footer></body></html>\n",
    );
    html.into_string()
}

/// A page with a single sentence.
pub(super) fn sentence(sentence: &str) -> String {
    let mut html = Html::default();
    html.markup(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><title>Weir</title>\
         <link rel=\"icon\" href=\"/assets/weir.svg\"><link rel=\"stylesheet\" href=\"/assets/weir.css\"></head><body><main class=\"alone\"><p>",
    );
    html.text(sentence)
        .markup("</p><p><a href=\"/\">Back to everything</a></p></main></body></html>\n");
    html.into_string()
}

/// The title of the browser's tab, which begins with any trouble.
pub(super) fn title(sight: &Sight<'_>) -> String {
    let endpoints = sight.status.pools.iter().flat_map(|pool| &pool.endpoints);
    let out = endpoints.filter(|endpoint| super::parts::is_trouble(endpoint.state)).count();
    let host = &sight.status.info.host;
    match out {
        0 => format!("{host} – Weir"),
        1 => format!("! 1 server out – {host} – Weir"),
        out => format!("! {out} servers out – {host} – Weir"),
    }
}

/// A name encoded for a query parameter or a path segment.
pub(super) fn encoded(name: &str) -> String {
    let mut html = Html::default();
    html.path_part(name);
    html.into_string()
}

/// A time in the system's zone: `2026-11-20T19:15:00+00:00`.
pub(super) fn moment(at_ms: u64) -> String {
    let mut text = Vec::new();
    Clock::new().append_iso(UNIX_EPOCH + Duration::from_millis(at_ms), &mut text);
    String::from_utf8(text).unwrap_or_default()
}

/// A time, shown as its age.
pub(super) fn time(html: &mut Html, sight: &Sight<'_>, at_ms: u64) {
    let moment = moment(at_ms);
    html.markup("<time datetime=\"")
        .text(&moment)
        .markup("\" title=\"")
        .text(&moment)
        .markup("\">");
    html.text(super::super::figures::age_ms(sight.ago_ms(at_ms))).markup("</time>");
}
