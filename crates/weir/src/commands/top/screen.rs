//! The contents of the screen and the effects of keys. It uses no terminal and no socket.
//!
//! ```text
//! servers ──w──▶ waiting requests        d, r, m ──▶ confirmation ──y──▶ order sent
//!    ◀──w, Esc──┘                                    └──any other key──▶ cancelled
//! ```

use std::time::Instant;

use weir_admin::humanize::{age_ms, count, cpu_per_request, credits, rate, shortages, span_us};
use weir_admin::status::{EndpointStatus, OperationalState};

use super::frame::{ScreenFrame, ScreenSize, Style, StyledLine};
use super::keys::PressedKey;
use super::seen::{EndpointOrder, TopStatus};
use super::table::{Sort, endpoint_line, header, pool_line, why_line};
use super::what_if::what_if;
use crate::failure::CommandFailure;

/// The smallest number of events that are shown.
const LEAST_EVENTS: usize = 3;

/// The state of the screen.
pub(super) struct Screen {
    seen: TopStatus,
    /// The time since which polls have failed, and the reason.
    lost: Option<(Instant, String)>,
    sort: Sort,
    page: TopPage,
    /// The selected endpoint, by pool and name.
    chosen: Option<(String, String)>,
    /// The order that needs to be confirmed with `y`.
    asked: Option<EndpointOrder>,
    message: Option<StyledLine>,
    changed: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum TopPage {
    Servers,
    Waiting,
}

/// The consequence of a key.
pub(super) enum AfterKey {
    Stay,
    Leave,
    Order(EndpointOrder),
}

impl Screen {
    pub(super) fn new(seen: TopStatus, sort: Sort) -> Self {
        let page = TopPage::Servers;
        Self {
            seen,
            lost: None,
            sort,
            page,
            chosen: None,
            asked: None,
            message: None,
            changed: true,
        }
    }

    /// Takes the result of the latest poll.
    pub(super) fn saw(&mut self, seen: Result<TopStatus, CommandFailure>) {
        self.changed = true;
        match seen {
            Ok(seen) => {
                self.seen = seen;
                self.lost = None;
            }
            Err(failure) => {
                let since = self.lost.take().map_or_else(Instant::now, |(since, _)| since);
                self.lost = Some((since, failure.text()));
            }
        }
    }

    /// Returns true if something changed since the last call.
    pub(super) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// Handles a key.
    pub(super) fn press(&mut self, key: PressedKey) -> AfterKey {
        self.changed = true;
        self.message = None;
        if let Some(order) = self.asked.take() {
            if key == PressedKey::Character('y') {
                return AfterKey::Order(order);
            }
            self.message = Some(StyledLine::of(Style::Faint, "Cancelled."));
            return AfterKey::Stay;
        }
        match key {
            PressedKey::Character('q') => return AfterKey::Leave,
            PressedKey::Escape if self.page == TopPage::Servers => self.chosen = None,
            PressedKey::Escape => self.page = TopPage::Servers,
            PressedKey::Character('w') => {
                self.page =
                    if self.page == TopPage::Servers { TopPage::Waiting } else { TopPage::Servers };
            }
            PressedKey::Character('s') => self.sort = self.sort.next(),
            PressedKey::Up | PressedKey::Character('k') => self.choose(Movement::Back),
            PressedKey::Down | PressedKey::Character('j') => self.choose(Movement::On),
            PressedKey::Character('d') => self.ask("draining"),
            PressedKey::Character('r') => self.ask("ready"),
            PressedKey::Character('m') => self.ask("maintenance"),
            PressedKey::Character(_) | PressedKey::Enter => {}
        }
        AfterKey::Stay
    }

    /// Shows the result of an order.
    pub(super) fn ordered(&mut self, order: &EndpointOrder, done: Result<String, CommandFailure>) {
        self.changed = true;
        let name = format!("{}/{}", order.pool, order.endpoint);
        self.message = Some(match done {
            Ok(note) => StyledLine::of(Style::Strong, format!("{name}: {}: {note}", order.to)),
            Err(failure) => {
                StyledLine::of(Style::Trouble, format!("{name}: failed: {}", failure.text()))
            }
        });
    }

    /// Returns the whole contents, whatever their height.
    pub(super) fn whole(&self, columns: usize) -> ScreenFrame {
        let mut lines = self.top(columns);
        lines.extend(self.servers(columns).into_iter().map(|(line, _)| line));
        lines.extend(self.waiting().filter(|_| !self.seen.queues.is_empty()).into_iter().flatten());
        lines.extend(self.events());
        ScreenFrame { lines, columns }
    }

    /// Returns the contents that fit on a screen.
    pub(super) fn frame(&self, size: ScreenSize) -> ScreenFrame {
        let ScreenSize { columns, rows } = size;
        let mut lines = self.top(columns);
        let bottom = self.bottom();
        let room = rows.saturating_sub(lines.len() + 1);
        let (body, chosen) = match self.page {
            TopPage::Servers => {
                let body = self.servers(columns);
                let chosen = body.iter().position(|(_, chosen)| *chosen);
                (body.into_iter().map(|(line, _)| line).collect(), chosen)
            }
            TopPage::Waiting => (self.waiting().unwrap_or_default(), None),
        };
        let events = self.events();
        let for_events = room.saturating_sub(body.len()).max(LEAST_EVENTS + 1).min(events.len());
        let for_body = room.saturating_sub(for_events);
        let all = body.len();
        // The view scrolls so that the selected endpoint is visible.
        let from = chosen.map_or(0, |place| (place + 2).saturating_sub(for_body));
        let shown: Vec<StyledLine> = body.into_iter().skip(from).take(for_body).collect();
        let hidden = all - from - shown.len();
        let fill = for_body - shown.len();
        lines.extend(shown);
        if hidden > 0 && for_body > 0 {
            lines.pop();
            lines.push(StyledLine::of(
                Style::Faint,
                format!("  … {} more lines (j, k)", hidden + 1),
            ));
        }
        lines.extend((0..fill).map(|_| StyledLine::new()));
        lines.extend(events.into_iter().take(for_events));
        lines.truncate(rows.saturating_sub(1));
        lines.push(bottom);
        ScreenFrame { lines, columns }
    }

    fn top(&self, columns: usize) -> Vec<StyledLine> {
        let status = &self.seen.status;
        let info = &status.info;
        let per_second = status.listeners.iter().map(|listener| listener.traffic.per_second).sum();
        let waiting =
            status.pools.iter().filter_map(|pool| pool.queue).map(|queue| queue.now).sum();
        let mut first = StyledLine::of(Style::Strong, format!("weir {}", info.host));
        first.push(Style::Plain, format!("  up {}", age_ms(info.uptime_s * 1_000)));
        first.push(Style::Plain, format!("  {} req/s", rate(per_second)));
        first.push(Style::Plain, format!("  in flight {}", count(info.requests_running as u64)));
        first.push(Style::Plain, format!("  waiting {}", count(waiting)));
        let (open, most) = (count(info.connections as u64), count(info.max_connections as u64));
        first.push(Style::Plain, format!("  connections {open}/{most}"));
        if info.state != "running" {
            first.push(Style::Trouble, format!("  {}", info.state));
        }
        let second = match &self.lost {
            Some((since, why)) => {
                let silent = since.elapsed().as_millis() as u64;
                StyledLine::of(Style::Trouble, format!("no response for {}: {why}", age_ms(silent)))
            }
            None => self.workers(),
        };
        vec![first, second, header(columns)]
    }

    fn workers(&self) -> StyledLine {
        let status = &self.seen.status;
        let all: u64 = status.workers.iter().map(|worker| worker.requests).sum();
        let mut line =
            StyledLine::of(Style::Faint, format!("configuration {}", status.info.generation));
        if status.info.overrides > 0 {
            line.push(Style::Strong, format!(", {} changed at run time", status.info.overrides));
        }
        line.push(Style::Faint, "  requests by worker");
        for worker in &status.workers {
            let share = worker.requests as f64 * 100.0 / all.max(1) as f64;
            line.push(Style::Plain, format!(" {share:.0}%"));
        }
        let late = status.workers.iter().map(|worker| worker.lag.p99_us).max().unwrap_or(0);
        line.push(Style::Faint, format!("  lag p99 {}", span_us(late)));
        if let Some(own) = cpu_per_request(&status.machine) {
            line.push(Style::Plain, format!("  cpu/request {own}"));
        }
        for sentence in shortages(&status.machine) {
            line.push(Style::Trouble, format!("  {sentence}"));
        }
        if let Some(own) = &status.credits {
            let (left, what) = credits(own);
            let style = if own.is_near { Style::Trouble } else { Style::Plain };
            line.push(style, format!("  cpu credits {left} {what}"));
        }
        line
    }

    /// Returns the lines of pools and endpoints, each with a flag that is set for the selected
    /// endpoint.
    fn servers(&self, columns: usize) -> Vec<(StyledLine, bool)> {
        let mut lines = Vec::new();
        for pool in &self.seen.status.pools {
            lines.push((pool_line(pool), false));
            for one in self.sort.sorted(pool) {
                let chosen = self.is_chosen(one);
                let line = endpoint_line(one, self.seen.status.at_ms, columns);
                lines.push((if chosen { line.chosen() } else { line }, chosen));
                lines.extend(why_line(one).map(|line| (line, false)));
            }
        }
        lines
    }

    /// Returns the lines of waiting requests, with an estimate for more places; `None` if no pool
    /// has a queue.
    fn waiting(&self) -> Option<Vec<StyledLine>> {
        let mut lines = Vec::new();
        let status = &self.seen.status;
        for pool in status.pools.iter().filter(|pool| pool.queue.is_some()) {
            let queue = pool.queue?;
            let text = format!(
                "{}: {} waiting, at most {} for {}; longest queue {}; timed out {}",
                pool.name,
                count(queue.now),
                count(queue.max),
                span_us(queue.timeout_ms * 1_000),
                count(queue.longest),
                count(pool.counters.balancer.timed_out)
            );
            lines.push(StyledLine::of(Style::Strong, text));
            if let Some(guess) = what_if(pool) {
                let wait = |seconds: Option<f64>| {
                    let us =
                        |seconds: f64| format!("mean wait {}", span_us((seconds * 1e6) as u64));
                    seconds.map_or("the queue grows".to_owned(), us)
                };
                let text = format!(
                    "  {} slots: {}; one more per server: {} (estimate: Erlang C, present service times)",
                    guess.places,
                    wait(guess.now_s),
                    wait(guess.more_s)
                );
                lines.push(StyledLine::of(Style::Faint, text));
            }
            let waiting = self.seen.queues.iter().find(|(name, _)| *name == pool.name);
            for one in waiting.map(|(_, waiting)| waiting.as_slice()).unwrap_or_default() {
                let text = format!(
                    "  {:>5} ahead  waited {:>8}  {:>8} left  {:15}  for {}",
                    one.position,
                    span_us(one.waited_us),
                    span_us(one.left_us),
                    one.client,
                    one.waits_for()
                );
                lines.push(StyledLine::of(Style::Plain, text));
                let text = format!("        id {}  {} {}", one.request_id, one.method, one.target);
                lines.push(StyledLine::of(Style::Faint, text));
            }
        }
        (!lines.is_empty()).then_some(lines)
    }

    fn events(&self) -> Vec<StyledLine> {
        let now = self.seen.status.at_ms;
        let mut lines = vec![StyledLine::of(Style::Strong, "events")];
        if self.seen.events.is_empty() {
            lines.push(StyledLine::of(Style::Faint, "  no events yet"));
        }
        lines.extend(self.seen.events.iter().take(200).map(|event| {
            let age = age_ms(now.saturating_sub(event.at_ms));
            let mut line = StyledLine::of(Style::Faint, format!("{age:>8}  "));
            line.push(Style::Plain, event.what.clone());
            if let Some(who) = &event.who {
                line.push(Style::Faint, format!(", by {who}"));
            }
            line
        }));
        lines
    }

    fn bottom(&self) -> StyledLine {
        if let Some(EndpointOrder { pool, endpoint, to }) = &self.asked {
            let last = if self.is_last(pool, endpoint) && *to != "ready" {
                " It is the last usable server of its pool!"
            } else {
                ""
            };
            return StyledLine::of(Style::Strong, format!("{pool}/{endpoint}: {to}?{last} y / n"));
        }
        if let Some(message) = &self.message {
            return message.clone();
        }
        let sort = self.sort.word();
        let keys = match self.page {
            TopPage::Servers => {
                format!(
                    "q quit  s sort: {sort}  j k select  d drain  r ready  m maintenance  w queue"
                )
            }
            TopPage::Waiting => "q quit  w or Esc back to servers".to_owned(),
        };
        StyledLine::of(Style::Faint, keys)
    }

    fn is_chosen(&self, one: &EndpointStatus) -> bool {
        self.chosen.as_ref().is_some_and(|(pool, name)| *pool == one.pool && *name == one.name)
    }

    fn is_last(&self, pool: &str, endpoint: &str) -> bool {
        let pool = self.seen.status.pools.iter().find(|own| own.name == pool);
        let own = |pool: &&weir_admin::status::PoolStatus| {
            pool.endpoints
                .iter()
                .any(|one| one.name == endpoint && one.state == OperationalState::Up)
        };
        pool.filter(own).is_some_and(|pool| pool.usable == 1)
    }

    fn choose(&mut self, step: Movement) {
        let pools = self.seen.status.pools.iter();
        let all: Vec<&EndpointStatus> = pools.flat_map(|pool| self.sort.sorted(pool)).collect();
        let place = all.iter().position(|one| self.is_chosen(one));
        let next = match (place, step) {
            (None, Movement::On) => 0,
            (None, Movement::Back) => all.len().saturating_sub(1),
            (Some(place), Movement::On) => (place + 1).min(all.len() - 1),
            (Some(place), Movement::Back) => place.saturating_sub(1),
        };
        self.chosen = all.get(next).map(|one| (one.pool.clone(), one.name.clone()));
    }

    fn ask(&mut self, to: &'static str) {
        let Some((pool, endpoint)) = self.chosen.clone() else {
            self.message = Some(StyledLine::of(Style::Strong, "Select a server first: j and k."));
            return;
        };
        self.asked = Some(EndpointOrder { pool, endpoint, to });
    }
}

#[derive(Clone, Copy)]
enum Movement {
    On,
    Back,
}
