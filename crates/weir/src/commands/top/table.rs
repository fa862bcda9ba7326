//! The lines of a pool: its heading, one line for each endpoint, and the reason why an endpoint is
//! not up.

use clap::ValueEnum;
use weir_admin::humanize::{age_ms, count, rate, span_us};
use weir_admin::status::{EndpointStatus, OperationalState, PoolStatus};

use super::frame::{Style, StyledLine, left, right};

/// The order of the endpoints of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sort {
    /// As configured
    #[default]
    File,
    /// Servers that are not up first
    State,
    /// Most requests in flight first
    Load,
    /// Most requests per second first
    Rate,
    /// Slowest first, by p99
    Slow,
}

impl Sort {
    pub(super) fn next(self) -> Self {
        match self {
            Self::File => Self::State,
            Self::State => Self::Load,
            Self::Load => Self::Rate,
            Self::Rate => Self::Slow,
            Self::Slow => Self::File,
        }
    }

    pub(super) fn word(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::State => "state",
            Self::Load => "load",
            Self::Rate => "rate",
            Self::Slow => "slow",
        }
    }

    /// Returns the endpoints of a pool in this order.
    pub(super) fn sorted(self, pool: &PoolStatus) -> Vec<&EndpointStatus> {
        let mut endpoints: Vec<&EndpointStatus> = pool.endpoints.iter().collect();
        let high = std::cmp::Reverse::<u64>;
        match self {
            Self::File => {}
            Self::State => endpoints.sort_by_key(|one| one.state == OperationalState::Up),
            Self::Load => endpoints.sort_by_key(|one| high(u64::from(one.in_flight + one.queued))),
            Self::Rate => endpoints.sort_by_key(|one| high((one.traffic.per_second * 10.0) as u64)),
            Self::Slow => endpoints.sort_by_key(|one| {
                high(one.traffic.recent_of("total").map_or(0, |times| times.p99_us))
            }),
        }
        endpoints
    }
}

/// The time of the poll, in milliseconds since 1970.
pub(super) type Now = u64;

struct TableColumn {
    name: &'static str,
    width: usize,
    cell: fn(&EndpointStatus) -> String,
}

const fn column(
    name: &'static str,
    width: usize,
    cell: fn(&EndpointStatus) -> String,
) -> TableColumn {
    TableColumn { name, width, cell }
}

/// The columns after name and state. On a narrow screen the first ones are kept.
const COLUMNS: &[TableColumn] = &[
    column("in fl/max", 10, |one| {
        let limit = one.max_conn.map_or("-".to_owned(), |most| count(u64::from(most)));
        format!("{}/{limit}", count(u64::from(one.in_flight)))
    }),
    column("req/s", 7, |one| rate(one.traffic.per_second)),
    column("5xx", 6, |one| count(one.traffic.of_class("5xx"))),
    column("p50", 9, |one| time(one, |times| times.p50_us)),
    column("p99", 9, |one| time(one, |times| times.p99_us)),
    column("p99.9", 9, |one| time(one, |times| times.p999_us)),
    column("queue", 6, |one| count(u64::from(one.queued))),
    column("failed", 7, |one| count(one.failed())),
    column("total", 8, |one| count(one.traffic.requests)),
    column("weight", 7, |one| one.weight.to_string()),
    column("idle", 6, |one| count(u64::from(one.idle_connections))),
    column("check", 10, |one| one.health.clone()),
];

fn time(one: &EndpointStatus, of: fn(&weir_admin::status::PhaseTimes) -> u64) -> String {
    one.traffic.recent_of("total").map_or("-".to_owned(), |times| span_us(of(times)))
}

/// The widths of name and state, and the number of columns that fit.
struct Widths {
    name: usize,
    state: usize,
    columns: usize,
}

fn widths(columns: usize) -> Widths {
    let (mut name, state) = (13, 19);
    let mut left = columns.saturating_sub(2 + name + state);
    let mut shown = 0;
    for column in COLUMNS {
        if column.width > left {
            break;
        }
        left -= column.width;
        shown += 1;
    }
    name += left.min(27);
    Widths { name, state, columns: shown }
}

/// Returns the heading above all pools.
pub(super) fn header(columns: usize) -> StyledLine {
    let widths = widths(columns);
    let mut text = format!("  {}{}", left("server", widths.name), left("state", widths.state));
    for column in COLUMNS.iter().take(widths.columns) {
        text += &right(column.name, column.width);
    }
    StyledLine::of(Style::Faint, text)
}

/// Returns the line of a pool.
pub(super) fn pool_line(pool: &PoolStatus) -> StyledLine {
    let style = if pool.usable == 0 { Style::Trouble } else { Style::Strong };
    let mut line = StyledLine::of(style, pool.name.clone());
    let usable = format!("  {} of {} usable", pool.usable, pool.endpoints.len());
    line.push(if pool.usable == 0 { Style::Trouble } else { Style::Plain }, usable);
    line.push(Style::Plain, format!("  {}/s", rate(pool.traffic.per_second)));
    if let Some(queue) = pool.queue {
        let style = if queue.now > 0 { Style::Strong } else { Style::Plain };
        line.push(style, format!("  queue {}/{}", count(queue.now), count(queue.max)));
    }
    if let Some(times) = pool.traffic.recent_of("total") {
        let [p50, p99, p999] = [times.p50_us, times.p99_us, times.p999_us].map(span_us);
        line.push(Style::Plain, format!("  p50 {p50}  p99 {p99}  p99.9 {p999}"));
    }
    if pool.panicking {
        line.push(Style::Trouble, "  probe results ignored: too few servers up");
    }
    if pool.counters.balancer.violations > 0 {
        line.push(
            Style::Trouble,
            format!("  queue invariant violated {} times", pool.counters.balancer.violations),
        );
    }
    line.push(Style::Faint, format!("  {}", pool.policy));
    line
}

/// Returns the line of an endpoint.
pub(super) fn endpoint_line(one: &EndpointStatus, now: Now, columns: usize) -> StyledLine {
    let widths = widths(columns);
    let since = age_ms(now.saturating_sub(one.since_ms));
    let star = if one.overridden.is_empty() { " " } else { "*" };
    let mut line = StyledLine::of(Style::Plain, format!("{star} {}", left(&one.name, widths.name)));
    line.push(Style::Of(one.state), left(&format!("{} {since}", one.state.as_str()), widths.state));
    for column in COLUMNS.iter().take(widths.columns) {
        line.push(Style::Plain, right(&(column.cell)(one), column.width));
    }
    line
}

/// Returns the reason why an endpoint is not up; `None` when it is up or the reason is unknown.
pub(super) fn why_line(one: &EndpointStatus) -> Option<StyledLine> {
    let observed = matches!(
        one.state,
        OperationalState::Down | OperationalState::Ejected | OperationalState::Stalled
    );
    if !observed || one.reason.is_empty() {
        return None;
    }
    let mut line = StyledLine::of(Style::Faint, format!("    {}", one.reason));
    if !one.excerpt.is_empty() {
        line.push(Style::Faint, format!(" | {}", one.excerpt));
    }
    Some(line)
}
