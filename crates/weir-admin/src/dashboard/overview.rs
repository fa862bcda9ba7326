//! The overview page: trouble, pools, listeners, workers, slow requests and events. Pages of single
//! endpoints are in `endpoint.rs`.

use crate::humanize::{age_ms, bytes, count, cpu_per_request, credits, rate, shortages, span_us};

use super::super::status::{
    EndpointStatus, IncidentStatus, MemoryStatus, PoolStatus, Status, WaitingStatus,
};
use super::html::Html;
use super::page;
use super::parts::{figure, is_trouble, link_to, of_limit, percentiles};
use super::sight::Sight;
use super::table;
use crate::status::history::{POOLS, parts};

/// The largest number of servers listed at the top of the page while they are out.
const TROUBLE: usize = 12;
/// The largest number of clients or keys listed for each limit.
const MOST_LIMITED: usize = 5;

/// The contents of `<main>`.
pub(super) fn main(sight: &Sight<'_>) -> Html {
    let mut html = Html::default();
    html.markup("<main id=\"main\" data-title=\"").text(page::title(sight)).markup("\">");
    summary(&mut html, sight.status);
    trouble(&mut html, sight);
    for (number, pool) in sight.status.pools.iter().enumerate() {
        pool_section(&mut html, sight, number, pool);
    }
    listeners(&mut html, sight.status);
    streams(&mut html, sight.status);
    limits(&mut html, sight.status);
    workers(&mut html, sight);
    slowest(&mut html, sight);
    events(&mut html, sight, None);
    html.markup("</main>");
    html
}

fn summary(html: &mut Html, status: &Status) {
    let info = &status.info;
    let listeners = || status.listeners.iter().map(|listener| &listener.traffic);
    let fact = |html: &mut Html, name: &'static str, text: String, more: String| {
        html.markup("<div><dt>").markup(name).markup("</dt><dd>").text(text);
        if !more.is_empty() {
            html.markup(" <small>").text(more).markup("</small>");
        }
        html.markup("</dd></div>");
    };
    html.markup("<dl class=\"summary\">");
    let state = if info.state == "running" { String::new() } else { info.state.clone() };
    fact(html, "up for", age_ms(info.uptime_s * 1_000), state);
    fact(
        html,
        "configuration",
        format!("no. {}", info.generation),
        match info.overrides {
            0 => String::new(),
            1 => "1 difference from the file".to_owned(),
            number => format!("{number} differences from the file"),
        },
    );
    fact(html, "requests/s", rate(listeners().map(|own| own.per_second).sum()), String::new());
    fact(html, "in flight", count(info.requests_running as u64), String::new());
    let waiting = status.pools.iter().filter_map(|pool| pool.queue).map(|queue| queue.now).sum();
    fact(html, "waiting", count(waiting), String::new());
    let most = format!("of {}", count(info.max_connections as u64));
    fact(html, "connections", count(info.connections as u64), most);
    let (used, max) = memory(&info.memory);
    fact(html, "memory", used, max);
    let failed = listeners().map(|own| own.of_class("5xx")).sum();
    fact(
        html,
        "5xx",
        count(failed),
        format!("of {}", count(listeners().map(|own| own.requests).sum())),
    );
    if let Some((number, what)) = incidents(&info.incidents) {
        fact(html, "incidents", number, what);
    }
    if let Some(own) = cpu_per_request(&status.machine) {
        fact(html, "cpu per request", own, String::new());
    }
    if let Some(own) = &status.credits {
        let (left, what) = credits(own);
        fact(html, "cpu credits", left, what);
    }
    html.markup("</dl>");
}

/// The kinds of Weir's own failures, with their numbers; `None` if there was none.
fn incidents(own: &IncidentStatus) -> Option<(String, String)> {
    let parts = [
        (own.restarts, "restart", "restarts"),
        (own.replaced, "worker replaced", "workers replaced"),
        // A worker that hangs is counted before it is replaced.
        (own.hangs.saturating_sub(own.replaced), "worker hung", "workers hung"),
        (own.panics, "worker panicked", "workers panicked"),
    ];
    let number: u64 = parts.iter().map(|(count, ..)| count).sum();
    if number == 0 {
        return None;
    }
    let parts = parts.iter().filter(|(count, ..)| *count > 0);
    let mut parts: Vec<String> = parts
        .map(|(number, one, more)| format!("{} {}", number, if *number == 1 { one } else { more }))
        .collect();
    if own.lost_requests > 0 {
        parts.push(format!("{} requests lost", count(own.lost_requests)));
    }
    Some((count(number), parts.join(", ")))
}

/// The allocated memory and its limit.
fn memory(memory: &MemoryStatus) -> (String, String) {
    let used = bytes(memory.used as u64);
    let Some(max) = memory.max else { return (used, String::new()) };
    let most = format!("of {}", bytes(max as u64));
    match memory.pressure.as_str() {
        "none" | "" => (used, most),
        pressure => (used, format!("{most}, short: {}", pressure.replace('_', " "))),
    }
}

/// The problems that need attention, at the top of the page.
fn trouble(html: &mut Html, sight: &Sight<'_>) {
    let mut notes = Html::default();
    let mut left = TROUBLE;
    for pool in &sight.status.pools {
        let note = |notes: &mut Html, text: String| {
            notes
                .markup("<li><a href=\"#")
                .text(&pool.name)
                .markup("\">")
                .text(&pool.name)
                .markup("</a>: ");
            notes.text(text).markup("</li>");
        };
        if pool.usable == 0 {
            note(&mut notes, "no server is available: requests are refused".to_owned());
        } else if pool.panicking {
            note(&mut notes, "too few servers are healthy: health checks are ignored".to_owned());
        }
        if pool.counters.balancer.violations > 0 {
            note(
                &mut notes,
                format!(
                    "the watchdog found {} violations of the queue's rules: this is a bug in Weir",
                    pool.counters.balancer.violations
                ),
            );
        }
        let troubled: Vec<&EndpointStatus> =
            pool.endpoints.iter().filter(|endpoint| is_trouble(endpoint.state)).collect();
        let told = troubled.len().min(left);
        left -= told;
        if told < troubled.len() {
            note(&mut notes, format!("{} more servers are out", troubled.len() - told));
        }
        for endpoint in troubled.into_iter().take(told) {
            notes.markup("<li><a href=\"");
            link_to(&mut notes, &pool.name, &endpoint.name);
            notes.markup("\">").text(&pool.name).markup("/").text(&endpoint.name).markup("</a>: ");
            notes.text(super::parts::why(endpoint, sight)).markup("</li>");
        }
    }
    for sentence in shortages(&sight.status.machine) {
        notes.markup("<li>The machine: ").text(sentence).markup("</li>");
    }
    if let Some(own) = sight.status.credits.as_ref().filter(|own| own.is_near) {
        let (left, what) = credits(own);
        notes.markup("<li>Processor credits: ").text(left).markup(", ").text(what).markup("</li>");
    }
    if sight.status.info.state != "running" {
        notes.markup("<li>Weir is stopping: it accepts no new connections</li>");
    }
    if !notes.is_empty() {
        html.markup("<ul class=\"trouble\" aria-label=\"Problems\">")
            .append(&notes)
            .markup("</ul>");
    }
}

fn pool_section(html: &mut Html, sight: &Sight<'_>, number: usize, pool: &PoolStatus) {
    html.markup("<section class=\"pool ").text(&pool.state).markup("\" id=\"").text(&pool.name);
    html.markup("\" data-find=\"").text(&pool.name).markup("\"><h2>").text(&pool.name);
    html.markup(" <small>").text(&pool.policy);
    if let Some(queue) = pool.queue {
        html.markup(" · queue of ")
            .text(count(queue.max))
            .markup(", at most ")
            .text(span_us(queue.timeout_ms * 1_000));
        html.markup("; longest so far ").text(count(queue.longest));
    }
    html.markup("</small></h2>");
    table::pool(html, sight, pool);
    settings(html, sight, pool);
    if number < POOLS {
        charts(html, pool, number);
    }
    turned_away(html, pool);
    if let Some((_, waiting)) = sight.queues.iter().find(|(name, _)| *name == pool.name) {
        queue(html, pool, waiting);
    }
    html.markup("</section>");
}

/// The settings of a pool: fields, if the viewer may change them.
fn settings(html: &mut Html, sight: &Sight<'_>, pool: &PoolStatus) {
    let idle: u32 = pool.endpoints.iter().map(|endpoint| endpoint.idle_connections).sum();
    if !sight.may_write() {
        html.markup("<p class=\"noted\">").text(count(u64::from(idle)));
        html.markup(" idle connections to servers, at most ").text(pool.keepalive_idle);
        html.markup(" to each.</p>");
        return;
    }
    html.markup("<form method=\"post\" class=\"settings\" action=\"/pools/").path_part(&pool.name);
    html.markup("\" data-api=\"/v1/pools/").path_part(&pool.name);
    html.markup("\" data-name=\"").text(&pool.name).markup("\"><label>");
    html.text(count(u64::from(idle))).markup(" idle connections to servers, at most ");
    html.markup("<input type=\"number\" name=\"keepalive_idle\" min=\"0\" max=\"4294967295\" required value=\"");
    html.text(pool.keepalive_idle)
        .markup("\"> to each</label> <button aria-label=\"set the idle connections of ");
    html.text(&pool.name).markup("\">set</button></form>");
}

/// The places in which the script draws charts and, without the script, the parts of a request's
/// time as text.
fn charts(html: &mut Html, pool: &PoolStatus, number: usize) {
    // The charts of the first two pools are open from the beginning.
    html.markup("<details class=\"charts script\" data-keep");
    html.markup(if number < 2 { " open>" } else { ">" });
    html.markup("<summary>Last minutes</summary><div class=\"row\">");
    let kinds = [
        ("latency", "Request time"),
        ("parts", "Mean request time by phase"),
        ("queue", "In flight and waiting"),
        ("rate", "Requests and failures per second"),
    ];
    for (kind, title) in kinds {
        html.markup("<figure data-chart=\"")
            .markup(kind)
            .markup("\" data-pool=\"")
            .text(&pool.name);
        html.markup("\"><figcaption>").markup(title).markup("</figcaption></figure>");
    }
    html.markup("</div></details>");
    let times = parts(&pool.traffic);
    let total: u64 = times.iter().sum();
    if total == 0 {
        return;
    }
    html.markup("<p class=\"noted no-script\">Of the mean request of the last 10 s (")
        .text(span_us(total))
        .markup("): ");
    for (us, name) in times.iter().zip(["head", "queue", "connect", "server", "body"]) {
        html.markup(name)
            .markup(" ")
            .text(span_us(*us))
            .markup(" (")
            .text(us * 100 / total)
            .markup(" %) ");
    }
    html.markup("</p>");
}

/// The counts of requests of a pool that waited, failed or were retried, if there are any.
fn turned_away(html: &mut Html, pool: &PoolStatus) {
    let counters = &pool.counters.balancer;
    let kinds = [
        ("waited", counters.queued),
        ("timed out in the queue", counters.timed_out),
        ("refused, queue full", counters.queue_full),
        ("refused, all servers full", counters.full),
        ("refused, no server available", counters.unavailable + counters.gave_up),
        ("left the queue, client gone", counters.cancelled),
        ("sent to a busy server while an idle one was available", counters.inversions),
        ("retried at another server", pool.redispatched),
        ("retried at the same server", pool.repeated),
    ];
    if kinds.iter().all(|(_, number)| *number == 0) {
        return;
    }
    html.markup("<p class=\"noted\">Since the start: ").text(count(counters.dispatched));
    html.markup(" dispatched");
    for (what, number) in kinds.iter().filter(|(_, number)| *number > 0) {
        html.markup(" · ").text(count(*number)).markup(" ").markup(what);
    }
    html.markup(".</p>");
}

fn queue(html: &mut Html, pool: &PoolStatus, waiting: &[WaitingStatus]) {
    html.markup("<details class=\"queue\" data-keep-open><summary>Waiting requests</summary><div class=\"wide\"><table><thead><tr>\
        <th scope=\"col\">ahead</th><th scope=\"col\">waiting for</th><th scope=\"col\">time left</th>\
        <th scope=\"col\">client</th><th scope=\"col\">request</th><th scope=\"col\">pool or server</th></tr></thead><tbody>");
    for one in waiting {
        html.markup("<tr>");
        figure(html, "ahead", one.position);
        figure(html, "waiting for", span_us(one.waited_us));
        figure(html, "time left", span_us(one.left_us));
        html.markup("<td data-label=\"client\">").text(&one.client);
        html.markup("</td><td class=\"what\" data-label=\"request\">")
            .text(&one.method)
            .markup(" ")
            .text(&one.target)
            .markup("<br><small><code>")
            .text(&one.request_id)
            .markup("</code></small></td><td data-label=\"pool or server\">");
        html.text(one.waits_for()).markup("</td></tr>");
    }
    html.markup("</tbody></table></div>");
    let more = pool.queue.map_or(0, |queue| queue.now).saturating_sub(waiting.len() as u64);
    if more > 0 {
        html.markup("<p class=\"noted\">and ").text(count(more)).markup(" more</p>");
    }
    html.markup("</details>");
}

fn listeners(html: &mut Html, status: &Status) {
    html.markup("<section data-key=\"listeners\"><h2>Listeners</h2><div class=\"wide\"><table><thead><tr><th scope=\"col\">listener</th>\
        <th scope=\"col\">addresses</th><th scope=\"col\">connections</th><th scope=\"col\">accepted</th>\
        <th scope=\"col\" title=\"idle connections closed to make room for others\">idle closed</th>\
        <th scope=\"col\" title=\"TLS handshakes: new sessions, resumed, failed\">TLS new / resumed / failed</th>\
        <th scope=\"col\">req/s</th><th scope=\"col\">total</th><th scope=\"col\">2xx</th><th scope=\"col\">3xx</th>\
        <th scope=\"col\">4xx</th><th scope=\"col\">5xx</th><th scope=\"col\">in</th><th scope=\"col\">out</th>\
        <th scope=\"col\">p50</th><th scope=\"col\">p99</th><th scope=\"col\">p99.9</th></tr></thead><tbody>");
    for listener in &status.listeners {
        html.markup("<tr class=\"line\" data-find=\"")
            .text(&listener.name)
            .markup("\"><th scope=\"row\">")
            .text(&listener.name);
        html.markup(if listener.protocol == "tcp" {
            " <span class=\"mark\">TCP</span>"
        } else {
            ""
        });
        html.markup(if listener.tls { " <span class=\"mark\">TLS</span>" } else { "" });
        html.markup("</th><td data-label=\"addresses\">")
            .text(listener.addresses.join(" "))
            .markup("</td>");
        of_limit(
            html,
            "connections",
            listener.connections as u64,
            listener.most_connections as u64,
            listener.max_connections.map(|most| most as u64),
        );
        figure(html, "accepted", count(listener.accepted));
        figure(html, "idle closed", count(listener.idle_closed));
        figure(
            html,
            "TLS",
            if listener.tls {
                listener.handshakes.map(count).join(" / ")
            } else {
                "–".to_owned()
            },
        );
        let traffic = &listener.traffic;
        figure(html, "req/s", rate(traffic.per_second));
        figure(html, "total", count(traffic.requests));
        for (label, class) in [("2xx", "2xx"), ("3xx", "3xx"), ("4xx", "4xx"), ("5xx", "5xx")] {
            figure(html, label, count(traffic.of_class(class)));
        }
        figure(html, "in", bytes(traffic.bytes_received));
        figure(html, "out", bytes(traffic.bytes_sent));
        percentiles(html, traffic);
        html.markup("</tr>");
    }
    html.markup("</tbody></table></div></section>");
}

/// A table of the routes with streams, if there are any: times in the recent window.
fn streams(html: &mut Html, status: &Status) {
    if status.streams.is_empty() {
        return;
    }
    html.markup("<section data-key=\"streams\"><h2>Streams</h2><div class=\"wide\"><table><thead>\
        <tr class=\"groups\"><th colspan=\"3\"></th>\
        <th colspan=\"3\" scope=\"colgroup\" title=\"from the request to the first byte of the body\">first byte, last 10 s</th>\
        <th colspan=\"3\" scope=\"colgroup\" title=\"from one piece of the body to the next\">between pieces, last 10 s</th></tr>\
        <tr><th scope=\"col\">route</th><th scope=\"col\">streams</th><th scope=\"col\">pieces</th>\
        <th scope=\"col\">p50</th><th scope=\"col\">p99</th><th scope=\"col\">max</th>\
        <th scope=\"col\">p50</th><th scope=\"col\">p99</th><th scope=\"col\">max</th></tr></thead><tbody>");
    for stream in &status.streams {
        html.markup("<tr class=\"line\" data-find=\"").text(&stream.route);
        html.markup("\"><th scope=\"row\">").text(&stream.route).markup("</th>");
        figure(html, "streams", count(stream.first.count));
        figure(html, "pieces", count(stream.first.count + stream.gap.count));
        for (labels, times) in [
            (["first p50", "first p99", "first max"], &stream.recent_first),
            (["between p50", "between p99", "between max"], &stream.recent_gap),
        ] {
            for (label, us) in labels.into_iter().zip([times.p50_us, times.p99_us, times.max_us]) {
                let text = if times.count == 0 { "–".to_owned() } else { span_us(us) };
                figure(html, label, text);
            }
        }
        html.markup("</tr>");
    }
    html.markup("</tbody></table></div></section>");
}

/// A table of the limits that took effect, if any did.
fn limits(html: &mut Html, status: &Status) {
    let Some(report) = &status.limits else { return };
    let acted = report.limits.iter().filter(|one| one.refused + one.delayed + one.dry_run > 0);
    let acted: Vec<_> = acted.collect();
    if acted.is_empty() {
        return;
    }
    html.markup("<section data-key=\"limits\"><h2>Limits</h2><div class=\"wide\"><table class=\"limits\"><thead><tr><th scope=\"col\">limit</th>\
        <th scope=\"col\">bound</th><th scope=\"col\">refused</th><th scope=\"col\">delayed</th>\
        <th scope=\"col\">dry run</th><th scope=\"col\">limited most</th></tr></thead><tbody>");
    for limit in acted {
        // The global limit has no name of its own.
        let name = if limit.limit == "*" { "all listeners" } else { limit.limit.as_str() };
        html.markup("<tr class=\"line\" data-find=\"")
            .text(name)
            .markup("\"><th scope=\"row\">")
            .text(name)
            .markup("</th><td data-label=\"bound\">")
            .text(&limit.bound)
            .markup("</td>");
        figure(html, "refused", count(limit.refused));
        figure(html, "delayed", count(limit.delayed));
        figure(html, "dry run", count(limit.dry_run));
        let most = limit.top.iter().take(MOST_LIMITED);
        let most = most.map(|own| format!("{} ({})", own.key, count(own.count)));
        html.markup("<td data-label=\"limited most\">")
            .text(most.collect::<Vec<_>>().join(", "))
            .markup("</td></tr>");
    }
    html.markup("</tbody></table></div></section>");
}

fn workers(html: &mut Html, sight: &Sight<'_>) {
    html.markup("<section data-key=\"workers\"><h2>Workers <small>one thread each; look for one with more than its share</small></h2>\
        <div class=\"wide\"><table class=\"narrow\"><thead><tr><th scope=\"col\">worker</th><th scope=\"col\">connections</th>\
        <th scope=\"col\">in flight</th><th scope=\"col\">req/s</th><th scope=\"col\">requests</th><th scope=\"col\">share</th>\
        <th scope=\"col\" title=\"share of the last second in which it worked on requests\">busy</th>\
        <th scope=\"col\" title=\"delay of its timer: p50 and p99 since the start\">late p50</th>\
        <th scope=\"col\">late p99</th></tr></thead><tbody>");
    let all: u64 = sight.status.workers.iter().map(|worker| worker.requests).sum();
    for worker in &sight.status.workers {
        let point = sight
            .point
            .as_ref()
            .and_then(|point| point.workers.get(worker.number).copied())
            .unwrap_or_default();
        html.markup("<tr class=\"line\"><th scope=\"row\">").text(worker.number).markup("</th>");
        figure(html, "connections", count(worker.connections as u64));
        figure(html, "in flight", count(worker.requests_running as u64));
        figure(html, "req/s", rate(point.per_second));
        figure(html, "requests", count(worker.requests));
        figure(
            html,
            "share",
            format!("{:.1} %", worker.requests as f64 * 100.0 / all.max(1) as f64),
        );
        html.markup("<td class=\"n load\" data-label=\"busy\">")
            .text(format_args!("{:.1} %", point.busy * 100.0));
        super::parts::meter(html, point.busy);
        html.markup("</td>");
        figure(html, "late p50", span_us(worker.lag.p50_us));
        figure(html, "late p99", span_us(worker.lag.p99_us));
        html.markup("</tr>");
    }
    html.markup("</tbody></table></div><div class=\"row script\" data-keep><figure data-chart=\"workers\">\
        <figcaption>Share of its time that each worker worked at requests</figcaption></figure></div></section>");
}

fn slowest(html: &mut Html, sight: &Sight<'_>) {
    html.markup("<section data-key=\"slowest\"><h2>Slowest requests <small>of the last 15 minutes</small></h2>");
    if sight.slowest.is_empty() {
        html.markup("<p class=\"noted\">None yet.</p></section>");
        return;
    }
    html.markup("<div class=\"wide\"><table class=\"slow\"><thead><tr><th scope=\"col\">took</th><th scope=\"col\">request</th>\
        <th scope=\"col\">where</th><th scope=\"col\">status</th><th scope=\"col\">why</th></tr></thead><tbody>");
    for record in &sight.slowest {
        html.markup("<tr class=\"line\" data-key=\"slow ").text(&record.request_id).markup("\">");
        figure(html, "took", span_us(record.elapsed_us()));
        html.markup("<td class=\"what\" data-label=\"request\">")
            .text(&record.method)
            .markup(" ")
            .text(&record.target)
            .markup("<br><small>");
        if record.started_unix_us > 0 {
            page::time(html, sight, record.started_unix_us / 1_000);
            html.markup(" ago, ");
        }
        html.markup("<a href=\"/v1/why/")
            .path_part(&record.request_id)
            .markup("\"><code>")
            .text(&record.request_id);
        html.markup("</code></a></small></td><td data-label=\"where\">").text(&record.pool);
        if !record.endpoint.is_empty() {
            html.markup("/").text(&record.endpoint);
        }
        html.markup("</td><td data-label=\"status\" class=\"n\">")
            .text(record.status)
            .markup("</td><td class=\"what\" data-label=\"why\">");
        html.text(record.explain()).markup("</td></tr>");
    }
    html.markup("</tbody></table></div></section>");
}

/// The events of one endpoint or of all.
pub(super) fn events(html: &mut Html, sight: &Sight<'_>, of: Option<(&str, &str)>) {
    html.markup("<section data-key=\"events\"><h2>Events <small>the latest first</small></h2>");
    let mut events = sight.events_of(of).peekable();
    if events.peek().is_none() {
        html.markup("<p class=\"noted\">Nothing has happened yet.</p></section>");
        return;
    }
    html.markup("<ol class=\"events\">");
    for event in events {
        html.markup("<li class=\"")
            .text(&event.kind)
            .markup("\" data-key=\"event ")
            .text(event.number)
            .markup("\">");
        page::time(html, sight, event.at_ms);
        html.markup(" <span class=\"mark\">")
            .text(&event.kind)
            .markup("</span> ")
            .text(&event.what);
        if let Some(who) = &event.who {
            html.markup(" <small>by ").text(who).markup("</small>");
        }
        // A health event's line already contains the reply.
        for detail in event.details.iter().filter(|detail| !event.what.contains(detail.as_str())) {
            html.markup("<br><q>").text(detail).markup("</q>");
        }
        html.markup("</li>");
    }
    html.markup("</ol></section>");
}

#[cfg(test)]
mod tests {
    use weir_stats::exposition::{CreditsReport, CreditsState};

    use super::super::super::status::{OperationalState, PhaseTimes, StreamStatus};
    use super::super::sample::{sight, status};
    use super::*;
    use crate::access::caller::Right;

    fn drawn(status: &Status, right: Right) -> String {
        main(&sight(status, right)).into_string()
    }

    #[test]
    fn everything_stands_in_the_page_itself() {
        let status = status();
        let html = drawn(&status, Right::Read);
        for expected in [
            "<section class=\"pool up\" id=\"app\"",
            "href=\"/pools/app/app2\"",
            "Down for 3m 12s: status 503, expected 200-399",
            "<q>HTTP/1.1 503 Service Unavailable | no database</q>",
            "1 of 2 usable",
            "48.0 ms",
            "<code>deadbeef</code>",
            "front",
            "health</span> app/app2 up -&gt; down",
            "2 retried at another server",
            "data-label=\"in flight\" title=\"most so far: 7\"",
            "1 restart, 2 workers replaced, 1 worker hung, 9 requests lost",
            "data-label=\"connections\" title=\"most so far: 40\"",
        ] {
            assert!(html.contains(expected), "no {expected} in {html}");
        }
        assert!(
            ["<script", " style=", " onclick=", " onload=", "http://"]
                .iter()
                .all(|forbidden| !html.contains(forbidden)),
            "{html}"
        );
    }

    #[test]
    fn buttons_are_for_callers_with_the_right_to_change() {
        let status = status();
        assert!(!drawn(&status, Right::Read).contains("<form"));
        let html = drawn(&status, Right::Operate);
        assert!(
            html.contains("<form method=\"post\" class=\"orders\" action=\"/pools/app/app1\""),
            "{html}"
        );
        assert!(html.contains("data-last"), "the last one that is up asks first");
        assert_eq!(html.matches(" aria-pressed=\"true\" disabled").count(), 2);
    }

    #[test]
    fn no_name_request_or_reply_becomes_markup() {
        let mut status = status();
        let evil = "<img src=x onerror=alert(1)>\"'";
        let pool = &mut status.pools[0];
        evil.clone_into(&mut pool.name);
        for endpoint in &mut pool.endpoints {
            for text in [
                &mut endpoint.pool,
                &mut endpoint.name,
                &mut endpoint.address,
                &mut endpoint.reason,
                &mut endpoint.excerpt,
            ] {
                evil.clone_into(text);
            }
        }
        evil.clone_into(&mut status.listeners[0].name);
        let mut sight = sight(&status, Right::Operate);
        for event in &mut sight.events {
            evil.clone_into(&mut event.what);
            event.who = Some(evil.to_owned());
            event.details = vec![evil.to_owned()];
        }
        for record in &mut sight.slowest {
            let record = std::sync::Arc::make_mut(record);
            for text in
                [&mut record.target, &mut record.method, &mut record.request_id, &mut record.pool]
            {
                evil.clone_into(text);
            }
        }
        let html = page::whole(&sight, "/live", &main(&sight));
        assert!(html.contains("&lt;img src=x onerror=alert(1)&gt;&quot;&#39;"), "{html}");
        assert!(!html.contains("<img src=x"), "{html}");
        // In a link's path the name is one segment.
        assert!(
            html.contains("/pools/%3Cimg%20src%3Dx%20onerror%3Dalert%281%29%3E%22%27/"),
            "{html}"
        );
    }

    #[test]
    fn credits_are_shown_where_there_are_books_and_told_first_when_they_run_out() {
        let mut status = status();
        assert!(!drawn(&status, Right::Read).contains("credits"));
        let mut credits = CreditsReport {
            state: CreditsState::RunningOut,
            exhausted_in_s: Some(3_600),
            balance: 60.0,
            max: 576.0,
            weight_percent: 100,
            ..CreditsReport::default()
        };
        status.credits = Some(credits.clone());
        let html = drawn(&status, Right::Read);
        assert!(html.contains("60.0 of 576 <small>exhausted in 1h 0m</small>"), "{html}");
        assert!(!html.contains("Processor credits"), "{html}");
        (credits.is_near, credits.exhausted_in_s, credits.weight_percent) = (true, Some(663), 40);
        status.credits = Some(credits);
        let html = drawn(&status, Right::Read);
        let told = "Processor credits: 60.0 of 576, exhausted in 11m 3s, weight 40 %";
        assert!(html.find(told).unwrap() < html.find("<section").unwrap());
    }

    #[test]
    fn what_the_machine_withholds_is_told_first() {
        let mut status = status();
        assert!(!drawn(&status, Right::Read).contains("The machine"));
        status.machine.network = Some(0.97);
        status.machine.user_us_per_request = Some(20.0);
        status.machine.system_us_per_request = Some(60.0);
        let html = drawn(&status, Right::Read);
        let told = "The machine: a network interface carries 97 % of its speed";
        assert!(html.find(told).unwrap() < html.find("<section").unwrap());
        assert!(html.contains("<dt>cpu per request</dt><dd>80 µs</dd>"), "{html}");
    }

    #[test]
    fn streams_are_shown_with_the_times_that_their_clients_wait() {
        let mut status = status();
        assert!(!drawn(&status, Right::Read).contains("Streams"));
        let times = |count, p50_us| PhaseTimes { count, p50_us, ..PhaseTimes::default() };
        status.streams = vec![StreamStatus {
            route: "front/answers".to_owned(),
            first: times(40, 0),
            gap: times(2_000, 0),
            recent_first: times(4, 287_000),
            ..StreamStatus::default()
        }];
        let html = drawn(&status, Right::Read);
        let row = &html[html.find("front/answers").unwrap()..];
        let told =
            |label: &str, text: &str| row.contains(&format!("data-label=\"{label}\">{text}</td>"));
        assert!(told("streams", "40") && told("pieces", "2,040"), "{row}");
        assert!(told("first p50", "287 ms") && told("between p50", "–"), "{row}");
    }

    #[test]
    fn a_pool_that_is_out_is_told_first() {
        let mut status = status();
        status.pools[0].usable = 0;
        status.pools[0].endpoints[0].state = OperationalState::Maintenance;
        let html = drawn(&status, Right::Read);
        assert!(html.contains("no server is available"), "{html}");
        assert!(html.find("class=\"trouble\"").unwrap() < html.find("<section").unwrap());
    }
}
