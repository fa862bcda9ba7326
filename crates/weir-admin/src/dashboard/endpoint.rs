//! The page of one endpoint: the reason of its state, its figures, the time of its requests by
//! phase, and its events. It changes nothing: its buttons post to `order.rs`.

use super::super::status::{EndpointStatus, PhaseTimes, PoolStatus};
use super::html::Html;
use super::overview::events;
use super::page;
use super::parts::{figure, orders, state, why};
use super::sight::Sight;
use crate::humanize::{age_ms, bytes, count, rate, span_us};

/// The contents of `<main>`; `None` if the endpoint does not exist.
pub(super) fn main(sight: &Sight<'_>, pool: &str, name: &str) -> Option<Html> {
    let pool = sight.status.pools.iter().find(|own| own.name == pool)?;
    let endpoint = pool.endpoints.iter().find(|own| own.name == name)?;
    let mut html = Html::default();
    html.markup("<main id=\"main\" data-title=\"").text(format_args!(
        "{} {}/{} – Weir",
        endpoint.state.as_str(),
        pool.name,
        endpoint.name
    ));
    html.markup("\"><nav><a href=\"/\">Overview</a> › <a href=\"/#")
        .text(&pool.name)
        .markup("\">")
        .text(&pool.name)
        .markup("</a></nav><h1>");
    html.text(&endpoint.name).markup(" ");
    state(&mut html, endpoint.state);
    html.markup(" <small>for ")
        .text(age_ms(sight.ago_ms(endpoint.since_ms)))
        .markup("</small></h1>");
    standing(&mut html, sight, endpoint);
    orders(&mut html, sight, pool, endpoint);
    facts(&mut html, sight, pool, endpoint);
    phases(&mut html, "Request time, last 10 s", &endpoint.traffic.recent);
    phases(&mut html, "Request time, since the counters were reset", &endpoint.traffic.times);
    counts(&mut html, endpoint);
    events(&mut html, sight, Some((&pool.name, &endpoint.name)));
    html.markup("</main>");
    Some(html)
}

/// The contents of `<main>` once the endpoint is no longer configured.
pub(super) fn gone() -> Html {
    let mut html = Html::default();
    html.markup(
        "<main id=\"main\" data-title=\"gone – Weir\"><nav><a href=\"/\">Overview</a></nav>\
         <p>The configuration that is served has this endpoint no more.</p></main>",
    );
    html
}

/// The reason of its state, and the result of its latest probe.
fn standing(html: &mut Html, sight: &Sight<'_>, endpoint: &EndpointStatus) {
    let why = why(endpoint, sight);
    if !why.is_empty() {
        html.markup("<div class=\"standing ")
            .text(endpoint.state.as_str())
            .markup("\"><p>")
            .text(why)
            .markup("</p>");
        if !endpoint.excerpt.is_empty() {
            html.markup("<p>The beginning of the response that showed it:</p><pre>")
                .text(&endpoint.excerpt)
                .markup("</pre>");
        }
        html.markup("</div>");
    }
    let Some(probe) = &endpoint.probe else {
        let sentence = if endpoint.health == "unchecked" {
            "No health check: the pool has no `check`, or the server has check=off."
        } else {
            "Not checked yet."
        };
        html.markup("<p class=\"noted\">").markup(sentence).markup("</p>");
        return;
    };
    html.markup("<p>Latest check: ");
    if probe.passed {
        html.markup("passed");
    } else {
        html.markup("<span class=\"bad\">failed</span>: ").text(&probe.reason);
    }
    html.markup(", in ").text(span_us(probe.took_us)).markup(", ");
    page::time(html, sight, probe.at_ms);
    html.markup(" ago (").text(&probe.kind).markup("). ").text(count(probe.failures));
    html.markup(" of ").text(count(probe.probes)).markup(" failed so far.</p>");
    if !probe.excerpt.is_empty() && probe.excerpt != endpoint.excerpt {
        html.markup("<p>The beginning of its response:</p><pre>")
            .text(&probe.excerpt)
            .markup("</pre>");
    }
}

fn facts(html: &mut Html, sight: &Sight<'_>, pool: &PoolStatus, endpoint: &EndpointStatus) {
    let traffic = &endpoint.traffic;
    let limit = match (endpoint.max_conn, endpoint.max_conn_now) {
        (Some(most), Some(now)) if now < most => format!("at most {most}, for now {now}"),
        (_, Some(most)) => format!("at most {most}"),
        (_, None) => "no limit".to_owned(),
    };
    let place = match (endpoint.backup, endpoint.tier) {
        (true, _) => "backup".to_owned(),
        (false, 0) => "first tier".to_owned(),
        (false, tier) => format!("tier {tier}"),
    };
    let facts = [
        (
            "address",
            match &endpoint.resolved {
                Some(resolved) => format!("{} → {resolved}", endpoint.address),
                None => endpoint.address.clone(),
            },
        ),
        ("order", endpoint.order.clone()),
        ("weight", format!("{} ({place}, {})", endpoint.weight, pool.policy)),
        (
            "in flight",
            format!("{} ({limit}), {} at most", endpoint.in_flight, endpoint.most_in_flight),
        ),
        (
            "waiting for this server",
            format!(
                "{}, {} at most",
                count(u64::from(endpoint.queued)),
                count(u64::from(endpoint.most_queued))
            ),
        ),
        ("requests", format!("{} ({}/s)", count(traffic.requests), rate(traffic.per_second))),
        (
            "bytes",
            format!("{} in, {} out", bytes(traffic.bytes_received), bytes(traffic.bytes_sent)),
        ),
        ("retried", count(traffic.retried)),
        (
            "connections",
            format!(
                "{} idle; {} opened; {} requests over a reused connection",
                count(u64::from(endpoint.idle_connections)),
                count(endpoint.connections_opened),
                count(endpoint.connections_reused)
            ),
        ),
        (
            "differs from the file",
            match endpoint.overridden.as_slice() {
                [] => "nothing".to_owned(),
                fields => fields.join(", "),
            },
        ),
    ];
    html.markup("<dl class=\"facts\">");
    for (name, text) in facts.into_iter().chain(failures(endpoint)) {
        html.markup("<div><dt>").markup(name).markup("</dt><dd>").text(text).markup("</dd></div>");
    }
    html.markup("<div><dt>in this state since</dt><dd>")
        .text(page::moment(endpoint.since_ms))
        .markup("</dd></div></dl>");
    if !sight.may_write() {
        html.markup("<p class=\"noted\">This address is read_only: it allows no changes.</p>");
    }
}

/// The counts of failures at the endpoint.
fn failures(endpoint: &EndpointStatus) -> [(&'static str, String); 5] {
    [
        ("passive failures", count(endpoint.passive_failures)),
        (
            "failed attempts",
            format!(
                "{}; {} retried at another server, {} at this one",
                count(endpoint.failed_attempts),
                count(endpoint.redispatched),
                count(endpoint.repeated)
            ),
        ),
        (
            "times unavailable",
            format!("{}, {} in all", count(endpoint.outages), age_ms(endpoint.out_s * 1_000)),
        ),
        ("times ejected", count(endpoint.ejections)),
        ("times stalled", count(endpoint.stalls)),
    ]
}

fn phases(html: &mut Html, title: &'static str, times: &[PhaseTimes]) {
    if times.is_empty() {
        return;
    }
    html.markup("<section><h2>").markup(title).markup("</h2><div class=\"wide\"><table class=\"narrow\"><thead><tr>\
        <th scope=\"col\">phase</th><th scope=\"col\">samples</th><th scope=\"col\">mean</th><th scope=\"col\">p50</th>\
        <th scope=\"col\">p90</th><th scope=\"col\">p99</th><th scope=\"col\">p99.9</th><th scope=\"col\">p99.99</th>\
        <th scope=\"col\">p99.9999</th><th scope=\"col\">longest</th></tr></thead><tbody>");
    for phase in times {
        html.markup("<tr class=\"line\"><th scope=\"row\">").text(&phase.phase).markup("</th>");
        figure(html, "samples", count(phase.count));
        for (label, us) in [
            ("mean", phase.mean_us),
            ("p50", phase.p50_us),
            ("p90", phase.p90_us),
            ("p99", phase.p99_us),
            ("p99.9", phase.p999_us),
            ("p99.99", phase.p9999_us),
            ("p99.9999", phase.p999999_us),
            ("longest", phase.max_us),
        ] {
            figure(html, label, span_us(us));
        }
        html.markup("</tr>");
    }
    html.markup("</tbody></table></div></section>");
}

/// The counts of statuses and of the causes by which requests ended.
fn counts(html: &mut Html, endpoint: &EndpointStatus) {
    let traffic = &endpoint.traffic;
    if traffic.codes.is_empty() {
        return;
    }
    html.markup("<section><h2>Requests by outcome</h2><dl class=\"facts\">");
    for (name, number) in traffic.codes.iter().chain(&traffic.causes) {
        html.markup("<div><dt>")
            .text(name)
            .markup("</dt><dd>")
            .text(count(*number))
            .markup("</dd></div>");
    }
    html.markup("</dl></section>");
}

#[cfg(test)]
mod tests {
    use super::super::sample::{sight, status};
    use super::*;
    use crate::access::caller::Right;

    #[test]
    fn an_endpoint_that_is_down_says_why() {
        let status = status();
        let sight = sight(&status, Right::Operate);
        let html = main(&sight, "app", "app2").unwrap().into_string();
        for expected in [
            "Down for 3m 12s: status 503, expected 200-399",
            "<pre>HTTP/1.1 503 Service Unavailable | no database</pre>",
            "<span class=\"bad\">failed</span>: connect refused, in 250 µs",
            "app/app2 up -&gt; down",
            "data-api=\"/v1/pools/app/endpoints/app2\"",
        ] {
            assert!(html.contains(expected), "no {expected} in {html}");
        }
        assert!(!html.contains("front"), "events of others are elsewhere");
        assert!(main(&sight, "app", "app3").is_none() && main(&sight, "api", "app2").is_none());
    }
}
