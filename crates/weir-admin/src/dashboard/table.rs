//! The table of a pool: a row for each endpoint, and one for all of them. Tables of listeners and
//! workers are in `overview.rs`.

use super::super::status::{EndpointStatus, OperationalState, PoolStatus, Traffic};
use super::html::Html;
use super::parts::{figure, is_trouble, link_to, of_limit, orders, percentiles, state, why};
use super::sight::Sight;
use crate::humanize::{age_ms, bytes, count, rate, span_us};

/// The number of columns, without the buttons.
const COLUMNS: u8 = 17;

/// The table of a pool.
pub(super) fn pool(html: &mut Html, sight: &Sight<'_>, pool: &PoolStatus) {
    html.markup(
        "<div class=\"wide\"><table class=\"pool\"><caption class=\"unseen\">Servers of pool ",
    )
    .text(&pool.name);
    html.markup("</caption>");
    head(html, sight);
    html.markup("<tbody>");
    for endpoint in &pool.endpoints {
        line(html, sight, pool, endpoint);
    }
    html.markup("</tbody><tfoot>");
    sum(html, sight, pool);
    html.markup("</tfoot></table></div>");
}

fn head(html: &mut Html, sight: &Sight<'_>) {
    html.markup(
        "<thead><tr class=\"groups\"><th colspan=\"2\"></th><th colspan=\"2\" scope=\"colgroup\">now</th>\
         <th colspan=\"5\" scope=\"colgroup\">requests</th><th colspan=\"2\" scope=\"colgroup\">bytes</th>\
         <th colspan=\"2\" scope=\"colgroup\">connections</th><th scope=\"colgroup\">check</th>\
         <th colspan=\"3\" scope=\"colgroup\">time, last 10 s</th>",
    );
    if sight.may_write() {
        html.markup("<th></th>");
    }
    html.markup(
        "</tr><tr><th scope=\"col\">server</th><th scope=\"col\">state</th>\
         <th scope=\"col\" title=\"requests in flight, and the limit\">in flight</th>\
         <th scope=\"col\" title=\"waiting requests; of a server: those that can only go there\">queue</th>\
         <th scope=\"col\" title=\"requests per second\">req/s</th><th scope=\"col\">total</th>\
         <th scope=\"col\">4xx</th><th scope=\"col\">5xx</th>\
         <th scope=\"col\" title=\"failed attempts: connects that failed, and attempts that were retried\">failed</th>\
         <th scope=\"col\">in</th><th scope=\"col\">out</th>\
         <th scope=\"col\" title=\"idle connections kept open\">idle</th>\
         <th scope=\"col\" title=\"requests over a reused connection\">reuse</th>\
         <th scope=\"col\">last</th>\
         <th scope=\"col\">p50</th><th scope=\"col\">p99</th><th scope=\"col\">p99.9</th>",
    );
    if sight.may_write() {
        html.markup("<th scope=\"col\" class=\"unseen-text\">actions</th>");
    }
    html.markup("</tr></thead>");
}

fn line(html: &mut Html, sight: &Sight<'_>, pool: &PoolStatus, endpoint: &EndpointStatus) {
    let word = endpoint.state.as_str();
    html.markup("<tr class=\"line ").text(word).markup("\" data-key=\"line ").text(&endpoint.name);
    html.markup("\" data-find=\"").text(&endpoint.name).markup(" ");
    html.text(&endpoint.address).markup(" ").text(word).markup("\"");
    html.markup(if endpoint.state == OperationalState::Up { ">" } else { " data-out>" });
    html.markup("<th scope=\"row\"><a href=\"");
    link_to(html, &endpoint.pool, &endpoint.name);
    html.markup("\">").text(&endpoint.name).markup("</a>");
    marks(html, endpoint);
    html.markup("</th><td class=\"s\" data-label=\"state\">");
    state(html, endpoint.state);
    html.markup("<span class=\"since\">")
        .text(age_ms(sight.ago_ms(endpoint.since_ms)))
        .markup("</span></td>");
    let (now, most) = (u64::from(endpoint.in_flight), u64::from(endpoint.most_in_flight));
    of_limit(html, "in flight", now, most, endpoint.max_conn.map(u64::from));
    figure(html, "queue", count(u64::from(endpoint.queued)));
    requests(html, &endpoint.traffic, endpoint.failed());
    figure(html, "idle", count(u64::from(endpoint.idle_connections)));
    figure(html, "reuse", share(endpoint.connections_reused, endpoint.picks));
    check(html, sight, endpoint);
    percentiles(html, &endpoint.traffic);
    if sight.may_write() {
        html.markup("<td class=\"o\">");
        orders(html, sight, pool, endpoint);
        html.markup("</td>");
    }
    html.markup("</tr>");
    reason(html, sight, endpoint);
}

/// The row with the reason that an endpoint is not up.
fn reason(html: &mut Html, sight: &Sight<'_>, endpoint: &EndpointStatus) {
    let why = why(endpoint, sight);
    if why.is_empty() {
        return;
    }
    let columns = COLUMNS + u8::from(sight.may_write());
    html.markup("<tr class=\"why ")
        .text(endpoint.state.as_str())
        .markup("\" data-key=\"why ")
        .text(&endpoint.name);
    html.markup("\"><td colspan=\"").text(columns);
    html.markup("\">").text(why);
    if is_trouble(endpoint.state) && !endpoint.excerpt.is_empty() {
        html.markup(" <q>").text(&endpoint.excerpt).markup("</q>");
    }
    html.markup("</td></tr>");
}

/// The special properties of an endpoint, shown beside its name.
fn marks(html: &mut Html, endpoint: &EndpointStatus) {
    if endpoint.address != endpoint.name {
        html.markup(" <span class=\"address\">").text(&endpoint.address).markup("</span>");
    }
    if endpoint.weight != 1 {
        html.markup(" <span class=\"mark\" title=\"weight\">×")
            .text(endpoint.weight)
            .markup("</span>");
    }
    if endpoint.backup {
        html.markup(" <span class=\"mark\">backup</span>");
    } else if endpoint.tier > 0 {
        html.markup(" <span class=\"mark\" title=\"priority\">tier ")
            .text(endpoint.tier)
            .markup("</span>");
    }
    if !endpoint.overridden.is_empty() {
        html.markup(
            " <span class=\"mark changed\" title=\"differs from the configuration file\">changed: ",
        );
        html.text(endpoint.overridden.join(", ")).markup("</span>");
    }
}

fn requests(html: &mut Html, traffic: &Traffic, failed: u64) {
    figure(html, "req/s", rate(traffic.per_second));
    figure(html, "total", count(traffic.requests));
    figure(html, "4xx", count(traffic.of_class("4xx")));
    figure(html, "5xx", count(traffic.of_class("5xx")));
    figure(html, "failed", count(failed));
    figure(html, "in", bytes(traffic.bytes_received));
    figure(html, "out", bytes(traffic.bytes_sent));
}

fn check(html: &mut Html, sight: &Sight<'_>, endpoint: &EndpointStatus) {
    let Some(probe) = &endpoint.probe else {
        figure(html, "check", "–");
        return;
    };
    html.markup("<td class=\"n\" data-label=\"check\" title=\"");
    html.text(&probe.kind).markup(", ").text(age_ms(sight.ago_ms(probe.at_ms))).markup(" ago; ");
    html.text(probe.failures).markup(" of ").text(probe.probes).markup(" failed so far; ");
    if probe.passed {
        html.markup("passed\">").text(span_us(probe.took_us));
    } else {
        html.text(&probe.reason).markup("\"><span class=\"bad\">failed</span>");
    }
    html.markup("</td>");
}

/// The row with the totals of all endpoints.
fn sum(html: &mut Html, sight: &Sight<'_>, pool: &PoolStatus) {
    html.markup(
        "<tr class=\"line sum\"><th scope=\"row\">all</th><td class=\"s\" data-label=\"state\">",
    );
    html.text(pool.usable).markup(" of ").text(pool.endpoints.len()).markup(" usable</td>");
    let limit = pool
        .endpoints
        .iter()
        .filter(|one| one.state == OperationalState::Up)
        .map(|one| one.max_conn.map(u64::from));
    of_limit(
        html,
        "in flight",
        pool.in_flight,
        pool.most_in_flight,
        limit.sum::<Option<u64>>().filter(|limit| *limit > 0),
    );
    match pool.queue {
        None => figure(html, "queue", "–"),
        Some(queue) => of_limit(html, "queue", queue.now, queue.longest, Some(queue.max)),
    }
    let failed = pool.endpoints.iter().map(EndpointStatus::failed).sum();
    requests(html, &pool.traffic, failed);
    let idle = pool.endpoints.iter().map(|one| u64::from(one.idle_connections)).sum();
    figure(html, "idle", count(idle));
    let reused = pool.endpoints.iter().map(|one| one.connections_reused).sum();
    figure(html, "reuse", share(reused, pool.endpoints.iter().map(|one| one.picks).sum()));
    html.markup("<td class=\"n none\"></td>");
    percentiles(html, &pool.traffic);
    if sight.may_write() {
        html.markup("<td class=\"o\"></td>");
    }
    html.markup("</tr>");
}

fn share(part: u64, whole: u64) -> String {
    let percent = (part.min(whole) * 100).checked_div(whole);
    percent.map_or_else(|| "–".to_owned(), |percent| format!("{percent} %"))
}
