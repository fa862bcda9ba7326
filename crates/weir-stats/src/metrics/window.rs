//! The window of recent counts: it is the only definition of "recent" in the metrics, in JSON, on
//! the dashboard and in `weir top`. Once a second the counts of that second are stored, for the
//! last ten seconds; series without recent counts are not stored. The cost thus depends on recent
//! requests, however long the process has been counting.

use std::collections::VecDeque;
use std::sync::Arc;

use super::figures::Figures;

/// The number of seconds that are kept.
pub const WINDOW_STEPS: usize = 10;
/// The minimum length of the current step for a rate, µs; a shorter one says little.
const SETTLED_US: u64 = 500_000;

/// The counts of the last seconds.
#[derive(Debug)]
pub struct Window {
    /// The time of the latest step, µs, and the total counts at that time.
    latest: (u64, Arc<Figures>),
    /// The counts of each step, and the time at which it began, µs.
    steps: VecDeque<(u64, Figures)>,
}

/// The counts between two instants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recent {
    /// The counts; series without any are left out.
    pub figures: Figures,
    /// The length of the interval, µs.
    pub length_us: u64,
}

impl Window {
    /// Creates a window that begins with this reading at `now_us`.
    pub fn new(first: Arc<Figures>, now_us: u64) -> Self {
        Self { latest: (now_us, first), steps: VecDeque::new() }
    }

    /// Makes a step; to be called once a second. Returns the counts of the step.
    pub fn step(&mut self, now: &Arc<Figures>, now_us: u64) -> &Figures {
        let (before_us, more) = (self.latest.0, self.since_latest(now));
        if self.steps.len() == WINDOW_STEPS {
            self.steps.pop_front();
        }
        self.latest = (now_us, Arc::clone(now));
        &self.steps.push_back_mut((before_us, more)).1
    }

    /// The counts of the stored steps and since then; and the counts of the latest moment, for
    /// rates.
    pub fn look(&self, now: &Figures, now_us: u64) -> (Recent, Recent) {
        let settled = now_us.saturating_sub(self.latest.0) >= SETTLED_US;
        let later = self.since_latest(now);
        let moment = self.with(later.clone(), now_us, usize::from(!settled));
        (self.with(later, now_us, self.steps.len()), moment)
    }

    /// The counts of the last `steps` steps and after them.
    fn with(&self, later: Figures, now_us: u64, steps: usize) -> Recent {
        let mut figures = later;
        let mut from_us = self.latest.0;
        for (since_us, more) in self.steps.iter().rev().take(steps) {
            figures.add(more);
            from_us = *since_us;
        }
        Recent { figures, length_us: now_us.saturating_sub(from_us) }
    }

    fn since_latest(&self, now: &Figures) -> Figures {
        let mut more = now.since(&self.latest.1);
        more.drop_unused();
        more
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{Asked, Done, MetricsRegistry, Outcome, Phase, TransferredBytes};
    use crate::{Micros, Times};

    const SECOND: u64 = 1_000_000;

    fn ask(numbers: &MetricsRegistry, route: &str, us: i64) {
        let route = numbers.route("web", route, "app");
        let endpoint = numbers.endpoint("app", "one");
        let times = Times { total: Micros(us), response: Micros(us), ..Times::default() };
        let outcome = Outcome { status: 200, attempts: 1, ..Outcome::default() };
        let done = Done {
            request_id: b"",
            asked: Asked::default(),
            ended_us: 0,
            times: &times,
            outcome,
            counted: TransferredBytes::default(),
        };
        let _ = numbers.record(0, &route, Some(&endpoint), &done);
    }

    #[test]
    fn recent_is_what_came_in_the_last_ten_seconds() {
        let numbers = MetricsRegistry::new(1);
        let mut window = Window::new(Arc::new(numbers.read()), 0);
        for second in 1..=60_u64 {
            ask(&numbers, "often", 1_000 * second as i64);
            if second == 30 {
                ask(&numbers, "once", 77);
            }
            window.step(&Arc::new(numbers.read()), second * SECOND);
            ask(&numbers, "often", 5);
            let now = numbers.read();
            let (recent, _) = window.look(&now, second * SECOND + SECOND / 4);
            assert_eq!(recent.length_us, second.min(10) * SECOND + SECOND / 4);
            let times = recent.figures.phases_of_pool("app");
            // One exchange before each step and one after it, which belongs to the next step; the
            // rare one for as long as its second is kept.
            let rare = u64::from((30..40).contains(&second));
            let all = second.min(10) * 2 + u64::from(second > 10) + rare;
            assert_eq!(times.of(Phase::Response).count(), all, "{second}");
            assert_eq!(recent.figures.requests(), all);
            assert_eq!(recent.figures.routes.len(), 1 + rare as usize);
            assert_eq!(recent.figures.tally_of_endpoint("app", "one").requests(), all);
            let longest = times.of(Phase::Response).max_us();
            assert!(longest >= 1_000 * second && longest <= 1_010 * second, "{longest}");
        }
    }

    #[test]
    fn a_rate_is_of_half_a_second_at_least() {
        let numbers = MetricsRegistry::new(1);
        let mut window = Window::new(Arc::new(numbers.read()), 0);
        ask(&numbers, "a", 5);
        window.step(&Arc::new(numbers.read()), SECOND);
        ask(&numbers, "a", 5);
        let check = |now_us: u64, requests: u64, length_us: u64| {
            let (_, moment) = window.look(&numbers.read(), now_us);
            assert_eq!((moment.figures.requests(), moment.length_us), (requests, length_us));
        };
        check(SECOND + SECOND / 4, 2, SECOND + SECOND / 4);
        check(SECOND + SECOND / 2, 1, SECOND / 2);
    }

    #[test]
    fn what_a_second_did_not_use_costs_nothing() {
        let numbers = MetricsRegistry::new(1);
        (0..500).for_each(|turn| ask(&numbers, &format!("route {turn}"), turn * 977));
        let mut window = Window::new(Arc::new(numbers.read()), 0);
        for second in 1..=20 {
            ask(&numbers, "route 7", 3);
            window.step(&Arc::new(numbers.read()), second * SECOND);
        }
        assert_eq!(window.steps.len(), WINDOW_STEPS);
        for (_, more) in &window.steps {
            assert_eq!((more.routes.len(), more.cells.len(), more.endpoints.len()), (1, 1, 1));
            let counts: usize =
                more.routes[0].phases.each().map(|(_, one)| one.counts().len()).sum();
            assert!(counts <= Phase::ALL.len(), "{counts}");
        }
    }
}
