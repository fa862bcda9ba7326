//! The statistics page: the rows of `show stat` as a table that is whole without another file or a
//! script, so that a route of a listener can lead to it (HAProxy's `stats uri`). It changes
//! nothing.

use hyper::header;

use super::stat::{RowChoice, rows};
use super::table::{Cell, RowKind, StatRow, csv, stat_json};
use crate::access::caller::Right;
use crate::dashboard::html::Html;
use crate::http::call::{ApiRoute, Call, Handler};
use crate::http::reply::HttpReply;
use crate::humanize::{age_ms, bytes};
use crate::status::Status;
use crate::status::collect::status;

/// The routes of the page.
pub(crate) const PAGES: &[ApiRoute] = &[
    look(
        "/statistics",
        "The table of `show stat`; `?refresh=SECONDS` loads it again, `?scope=NAME,NAME` shows some of it",
        Handler::Now(|call| Ok(page(call))),
    ),
    look(
        "/statistics.csv",
        "The same as HAProxy's `;csv`",
        Handler::Now(|call| {
            let rows = rows_in_scope(&status(&call.context.sources), call.query("scope"));
            Ok(HttpReply::new("text/plain", csv(&rows)))
        }),
    ),
    look(
        "/statistics.json",
        "The same as HAProxy's `;json`",
        Handler::Now(|call| {
            let rows = rows_in_scope(&status(&call.context.sources), call.query("scope"));
            Ok(HttpReply::new("application/json", stat_json(&rows)))
        }),
    ),
];

const fn look(path: &'static str, summary: &'static str, answer: Handler) -> ApiRoute {
    ApiRoute { method: hyper::Method::GET, path, right: Right::Read, summary, answer }
}

/// The content security policy: the style is in the page, and nothing else is loaded or run.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; form-action 'none'; \
                      base-uri 'none'; frame-ancestors 'none'";
/// The longest time after which a page loads itself again.
const LONGEST_REFRESH_S: u32 = 86_400;

const STYLE: &str = "body{font:14px/1.4 system-ui,sans-serif;margin:1.5em;color-scheme:light dark}\
table{border-collapse:collapse;margin:0 0 1.5em}caption{text-align:left;font-weight:600;padding:.3em 0}\
th,td{padding:.15em .5em;border:1px solid #8885;text-align:right;white-space:nowrap}\
th:first-child,td:first-child,td.word{text-align:left}\
tr.up td.word{color:#2a7a2a}tr.down td.word{color:#c22}tr.drain td.word{color:#a60}";

/// A column: its group, its name, and the field of `show stat`.
struct PageColumn {
    group: &'static str,
    name: &'static str,
    field: &'static str,
    unit: PageUnit,
}

/// The form of a value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PageUnit {
    Plain,
    Bytes,
    /// Seconds.
    Age,
    Word,
}

const fn column(
    group: &'static str,
    name: &'static str,
    field: &'static str,
    unit: PageUnit,
) -> PageColumn {
    PageColumn { group, name, field, unit }
}

/// The columns in the order of HAProxy's page; those of one group are neighbours.
const COLUMNS: &[PageColumn] = &[
    column("Queue", "now", "qcur", PageUnit::Plain),
    column("Queue", "most", "qmax", PageUnit::Plain),
    column("Queue", "limit", "qlimit", PageUnit::Plain),
    column("Rate", "now", "rate", PageUnit::Plain),
    column("Rate", "most", "rate_max", PageUnit::Plain),
    column("Sessions", "now", "scur", PageUnit::Plain),
    column("Sessions", "most", "smax", PageUnit::Plain),
    column("Sessions", "limit", "slim", PageUnit::Plain),
    column("Sessions", "total", "stot", PageUnit::Plain),
    column("Bytes", "in", "bin", PageUnit::Bytes),
    column("Bytes", "out", "bout", PageUnit::Bytes),
    column("Denied", "requests", "dreq", PageUnit::Plain),
    column("Errors", "requests", "ereq", PageUnit::Plain),
    column("Errors", "connections", "econ", PageUnit::Plain),
    column("Errors", "responses", "eresp", PageUnit::Plain),
    column("Warnings", "retries", "wretr", PageUnit::Plain),
    column("Warnings", "redispatches", "wredis", PageUnit::Plain),
    column("Server", "status", "status", PageUnit::Word),
    column("Server", "since", "lastchg", PageUnit::Age),
    column("Server", "last check", "last_chk", PageUnit::Word),
    column("Server", "weight", "weight", PageUnit::Plain),
    column("Server", "active", "act", PageUnit::Plain),
    column("Server", "backup", "bck", PageUnit::Plain),
    column("Server", "failed checks", "chkfail", PageUnit::Plain),
    column("Server", "outages", "chkdown", PageUnit::Plain),
    column("Server", "out for", "downtime", PageUnit::Age),
];

fn page(call: &Call) -> HttpReply {
    let refresh = call.query("refresh").and_then(|text| text.parse::<u32>().ok());
    let refresh = refresh.filter(|seconds| (1..=LONGEST_REFRESH_S).contains(seconds));
    let scope = call.query("scope");
    let text = whole(&status(&call.context.sources), refresh, scope);
    let reply = HttpReply::new("text/html; charset=utf-8", text);
    reply
        .header(header::CONTENT_SECURITY_POLICY, POLICY.to_owned())
        .header(header::REFERRER_POLICY, "no-referrer".to_owned())
}

/// The rows of the listeners and pools of these names, or of all.
fn rows_in_scope(status: &Status, scope: Option<&str>) -> Vec<StatRow> {
    let mut rows = rows(status, &RowChoice::ALL);
    if let Some(scope) = scope {
        let is_in = |row: &StatRow| match row.get("pxname") {
            Some(Cell::Text(name)) => scope.split(',').any(|one| one == name),
            _ => false,
        };
        rows.retain(is_in);
    }
    rows
}

/// The page; it is loaded again after these seconds.
fn whole(status: &Status, refresh: Option<u32>, scope: Option<&str>) -> String {
    let mut html = Html::default();
    html.markup("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">");
    if let Some(seconds) = refresh {
        html.markup("<meta http-equiv=\"refresh\" content=\"").text(seconds).markup("\">");
    }
    html.markup("<title>Statistics of ").text(&status.info.host).markup("</title><style>");
    html.markup(STYLE).markup("</style></head><body><h1>Statistics of ");
    html.text(&status.info.host).markup("</h1><p>up for ");
    html.text(age_ms(status.info.uptime_s * 1_000)).markup("</p>");
    let rows = rows_in_scope(status, scope);
    for proxy in rows.chunk_by(|one, other| one.proxy == other.proxy) {
        table(&mut html, proxy);
    }
    html.markup("</body></html>\n");
    html.into_string()
}

/// The table of a listener or of a pool.
fn table(html: &mut Html, rows: &[StatRow]) {
    let Some(Cell::Text(name)) = rows.first().and_then(|row| row.get("pxname")) else { return };
    html.markup("<table><caption>")
        .text(name)
        .markup("</caption><thead><tr><th rowspan=\"2\"></th>");
    for group in COLUMNS.chunk_by(|one, other| one.group == other.group) {
        html.markup("<th colspan=\"").text(group.len()).markup("\">");
        html.markup(group[0].group).markup("</th>");
    }
    html.markup("</tr><tr>");
    for column in COLUMNS {
        html.markup("<th>").markup(column.name).markup("</th>");
    }
    html.markup("</tr></thead><tbody>");
    for row in rows {
        line(html, row);
    }
    html.markup("</tbody></table>");
}

/// The line of a listener, a server, or a pool as a whole.
fn line(html: &mut Html, row: &StatRow) {
    let word = match row.get("status") {
        Some(Cell::Text(status)) => status.as_str(),
        _ => "",
    };
    html.markup(match word {
        "UP" | "OPEN" => "<tr class=\"up\"><td>",
        "DOWN" => "<tr class=\"down\"><td>",
        "DRAIN" | "NOLB" | "MAINT" => "<tr class=\"drain\"><td>",
        _ => "<tr><td>",
    });
    match (row.kind, row.get("svname")) {
        (RowKind::Frontend, _) => html.markup("Frontend"),
        (RowKind::Backend, _) => html.markup("Backend"),
        (RowKind::Server, Some(Cell::Text(name))) => html.text(name),
        (RowKind::Server, _) => html.markup(""),
    };
    html.markup("</td>");
    for column in COLUMNS {
        html.markup(if column.unit == PageUnit::Word { "<td class=\"word\">" } else { "<td>" });
        match (row.get(column.field), column.unit) {
            (Some(Cell::Number(number)), PageUnit::Bytes) => {
                html.text(bytes(u64::try_from(*number).unwrap_or_default()));
            }
            (Some(Cell::Number(number)), PageUnit::Age) => {
                html.text(age_ms(u64::try_from(*number).unwrap_or_default().saturating_mul(1_000)));
            }
            (Some(Cell::Number(number)), _) => {
                html.text(number);
            }
            (Some(Cell::Text(text)), _) => {
                html.text(text);
            }
            (None, _) => {}
        }
        html.markup("</td>");
    }
    html.markup("</tr>");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dashboard::sample;

    #[test]
    fn the_page_has_every_row_and_loads_nothing() {
        let mut status = sample::status();
        status.pools[0].endpoints[0].name = "<b>a".to_owned();
        let page = whole(&status, Some(10), None);
        assert!(page.contains("<meta http-equiv=\"refresh\" content=\"10\">"), "{page}");
        assert_eq!(page.matches("<table>").count(), status.listeners.len() + status.pools.len());
        let servers: usize = status.pools.iter().map(|pool| pool.endpoints.len()).sum();
        let lines = status.listeners.len() + status.pools.len() + servers;
        assert_eq!(page.matches("<tr class=").count() + page.matches("<tr><td>").count(), lines);
        assert!(page.contains("&lt;b&gt;a"), "{page}");
        assert!(!page.contains("src=") && !page.contains("href=") && !page.contains("<script"));
        assert!(!whole(&status, None, None).contains("http-equiv"));
    }

    #[test]
    fn a_scope_shows_what_it_names_and_nothing_else() {
        let status = sample::status();
        let (listener, pool) = (&status.listeners[0].name, &status.pools[0].name);
        let names = |scope: &str| -> Vec<String> {
            let rows = rows_in_scope(&status, Some(scope));
            let mut names: Vec<String> = rows
                .iter()
                .filter_map(|row| match row.get("pxname") {
                    Some(Cell::Text(name)) => Some(name.clone()),
                    _ => None,
                })
                .collect();
            names.dedup();
            names
        };
        assert_eq!(names(&format!("{pool},{listener}")), [listener.clone(), pool.clone()]);
        assert!(names("").is_empty() && names(&pool[1..]).is_empty());
        let page = whole(&status, None, Some(pool));
        assert_eq!(page.matches("<table>").count(), 1);
    }

    #[test]
    fn every_field_is_a_column_of_show_stat() {
        let rows = rows(&sample::status(), &RowChoice::ALL);
        for column in COLUMNS {
            assert!(
                super::super::columns::COLUMNS.iter().any(|known| known.name == column.field),
                "{}",
                column.field
            );
            assert!(rows.iter().any(|row| row.get(column.field).is_some()), "{}", column.field);
        }
    }
}
