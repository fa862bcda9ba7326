//! Small parts of the pages: state marks, meters, cells, buttons. They do not decide which figures
//! a page shows.

use std::fmt::{Display, Write as _};

use super::super::status::{EndpointStatus, OperationalState, PoolStatus, Traffic};
use super::html::Html;
use super::sight::Sight;
use crate::humanize::{age_ms, count, span_us};

/// Returns true if an endpoint in this state needs attention.
pub(super) fn is_trouble(state: OperationalState) -> bool {
    match state {
        OperationalState::Down
        | OperationalState::Ejected
        | OperationalState::Stalled
        | OperationalState::Unresolved => true,
        OperationalState::Up | OperationalState::Draining | OperationalState::Maintenance => false,
    }
}

/// A state's name after a mark of a distinct shape, so that it is readable without colours.
pub(super) fn state(html: &mut Html, state: OperationalState) {
    html.markup("<span class=\"state ")
        .text(state.as_str())
        .markup("\"><svg viewBox=\"0 0 10 10\" aria-hidden=\"true\">");
    html.markup(match state {
        OperationalState::Up => "<circle cx=\"5\" cy=\"5\" r=\"4\"/>",
        OperationalState::Draining => "<circle cx=\"5\" cy=\"5\" r=\"3.3\" class=\"hollow\"/><path d=\"M5 1.7a3.3 3.3 0 0 1 0 6.6z\"/>",
        OperationalState::Maintenance => "<rect x=\"1.5\" y=\"1.5\" width=\"7\" height=\"7\"/>",
        OperationalState::Down => "<path d=\"M1.5 1.5 8.5 8.5M8.5 1.5 1.5 8.5\" class=\"hollow\"/>",
        OperationalState::Ejected => "<path d=\"M5 1 9.2 8.5H.8z\"/>",
        OperationalState::Stalled => "<path d=\"M2.2 1.5h2v7h-2zM5.8 1.5h2v7h-2z\"/>",
        OperationalState::Unresolved => "<circle cx=\"5\" cy=\"5\" r=\"3.5\" class=\"hollow\"/>",
    });
    html.markup("</svg>").text(state.as_str()).markup("</span>");
}

/// A cell with a figure; `label` is the title of its column, for narrow screens.
pub(super) fn figure(html: &mut Html, label: &'static str, figure: impl Display) {
    let text = figure.to_string();
    let class = if matches!(text.as_str(), "0" | "–" | "0 B") { "n none" } else { "n" };
    html.markup("<td class=\"").text(class).markup("\" data-label=\"").markup(label).markup("\">");
    html.text(text).markup("</td>");
}

/// A cell with a value, its limit and a bar.
pub(super) fn of_limit(
    html: &mut Html,
    label: &'static str,
    now: u64,
    most: u64,
    limit: Option<u64>,
) {
    html.markup("<td class=\"n load\" data-label=\"").markup(label);
    html.markup("\" title=\"most so far: ").text(count(most)).markup("\">");
    html.text(count(now)).markup("<span class=\"of\">/");
    match limit {
        None => {
            html.markup("∞</span>");
        }
        Some(limit) => {
            html.text(count(limit)).markup("</span>");
            meter(html, now as f64 / limit.max(1) as f64);
        }
    }
    html.markup("</td>");
}

/// A bar for a share, 0 to 1.
pub(super) fn meter(html: &mut Html, share: f64) {
    let percent = (share.clamp(0.0, 1.0) * 100.0).round();
    let class = if percent >= 90.0 { "bar high" } else { "bar" };
    html.markup("<svg class=\"").text(class).markup(
        "\" viewBox=\"0 0 100 4\" preserveAspectRatio=\"none\" aria-hidden=\"true\"><rect width=\"",
    );
    html.text(percent).markup("\" height=\"4\"/></svg>");
}

/// The cells of the percentiles in the recent window.
pub(super) fn percentiles(html: &mut Html, traffic: &Traffic) {
    let total = traffic.recent_of("total");
    let cell = |html: &mut Html, label: &'static str, us: Option<u64>| {
        figure(html, label, us.map_or_else(|| "–".to_owned(), span_us));
    };
    cell(html, "p50", total.map(|times| times.p50_us));
    cell(html, "p99", total.map(|times| times.p99_us));
    cell(html, "p99.9", total.map(|times| times.p999_us));
}

/// The reason that an endpoint is not up, in one line; empty if it is up.
pub(super) fn why(endpoint: &EndpointStatus, sight: &Sight<'_>) -> String {
    let since = age_ms(sight.ago_ms(endpoint.since_ms));
    let mut text = match endpoint.state {
        OperationalState::Up => return String::new(),
        OperationalState::Down => format!("Down for {since}: {}", or_unknown(&endpoint.reason)),
        OperationalState::Ejected => format!("Out for {since}: {}", or_unknown(&endpoint.reason)),
        OperationalState::Stalled => {
            format!("Stalled for {since}: {}", or_unknown(&endpoint.reason))
        }
        OperationalState::Draining => {
            format!("Draining for {since} by order: {} in flight", endpoint.in_flight)
        }
        OperationalState::Maintenance => {
            format!("In maintenance for {since} by order: {} in flight", endpoint.in_flight)
        }
        OperationalState::Unresolved => "Its name cannot be resolved".to_owned(),
    };
    if let Some(until) =
        endpoint.ejected_until_ms.filter(|_| endpoint.state == OperationalState::Ejected)
    {
        let left = age_ms(until.saturating_sub(sight.status.at_ms));
        let _ = write!(text, ", for another {left}");
    }
    text
}

fn or_unknown(reason: &str) -> &str {
    if reason.is_empty() { "no reason was given" } else { reason }
}

/// The path of an endpoint's page.
pub(super) fn link_to(html: &mut Html, pool: &str, endpoint: &str) {
    html.markup("/pools/").path_part(pool).markup("/").path_part(endpoint);
}

/// The buttons that change an endpoint's order, if the viewer may do so.
pub(super) fn orders(
    html: &mut Html,
    sight: &Sight<'_>,
    pool: &PoolStatus,
    endpoint: &EndpointStatus,
) {
    if !sight.may_write() {
        return;
    }
    let last = pool.usable == 1 && endpoint.state == OperationalState::Up;
    html.markup("<form method=\"post\" class=\"orders\" action=\"");
    link_to(html, &endpoint.pool, &endpoint.name);
    html.markup("\" data-api=\"/v1/pools/").path_part(&endpoint.pool).markup("/endpoints/");
    html.path_part(&endpoint.name)
        .markup("\" data-name=\"")
        .text(&endpoint.pool)
        .markup("/")
        .text(&endpoint.name);
    html.markup(if last { "\" data-last>" } else { "\">" });
    let buttons = [
        ("ready", "ready", "takes new requests"),
        ("draining", "drain", "takes only requests bound to it by affinity"),
        ("maintenance", "maint", "takes no requests"),
    ];
    for (order, word, meaning) in buttons {
        html.markup("<button name=\"order\" value=\"").markup(order).markup("\" title=\"");
        html.markup(order).markup(": ").markup(meaning).markup("\"");
        if endpoint.order == order {
            html.markup(" aria-pressed=\"true\" disabled");
        }
        html.markup(" aria-label=\"").markup(order).markup(" ").text(&endpoint.name).markup("\">");
        html.markup(word).markup("</button>");
    }
    html.markup("</form>");
}
