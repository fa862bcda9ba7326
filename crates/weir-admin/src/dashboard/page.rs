//! The frame that all pages have in common. The contents of `<main>`
//! are made in `overview.rs` and `endpoint.rs`.

use std::time::{Duration, UNIX_EPOCH};

use weir_stats::Clock;

use super::html::Html;
use super::parts::is_trouble;
use super::sight::Sight;
use crate::humanize::age_ms;

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
        "\"><a class=\"skip\" href=\"#main\">Skip to the tables</a>\
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
        .markup("</p><p><a href=\"/\">Back to the overview</a></p></main></body></html>\n");
    html.into_string()
}

/// The title of the browser's tab, which begins with any trouble.
pub(super) fn title(sight: &Sight<'_>) -> String {
    let endpoints = sight.status.pools.iter().flat_map(|pool| &pool.endpoints);
    let out = endpoints.filter(|endpoint| is_trouble(endpoint.state)).count();
    let host = &sight.status.info.host;
    match out {
        0 => format!("{host} – Weir"),
        1 => format!("! 1 server out – {host} – Weir"),
        out => format!("! {out} servers out – {host} – Weir"),
    }
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
    html.text(age_ms(sight.ago_ms(at_ms))).markup("</time>");
}
