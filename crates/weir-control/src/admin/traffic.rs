//! From counted numbers (`weir-stats`) to what the status tells of them: totals since the start or since they were cleared, rates of
//! the last second, and times of the last moments beside those of all the time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};
use weir_stats::numbers::{
    CellFigures, Distribution, EndpointFigures, Figures, GivenUp, PhaseDistributions, TallyFigures,
};

use super::context::Context;
use super::status::{PhaseTimes, Traffic};
use crate::past::{Look, Marked, SAMPLE};

/// What has hardly begun says nothing, µs.
const SETTLED_US: u64 = 500_000;

/// A rate with one digit.
pub(crate) fn per_second(count: u64, length_us: u64) -> f64 {
    match length_us {
        0..SETTLED_US => 0.0,
        _ => (count as f64 * 1e7 / length_us as f64).round() / 10.0,
    }
}

/// Takes samples, and has the state file follow, for as long as the admin interface is there.
pub(crate) async fn sample(context: Arc<Context>) {
    let mut ticks = interval(SAMPLE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        context.past.sample();
        // A reload by signal may have given runtime changes up. When the file cannot be written, the next change says so.
        let _ = context.keep_state();
    }
}

/// Whose exchanges.
#[derive(Clone, Copy)]
pub(crate) enum Of<'a> {
    Listener(&'a str),
    Pool(&'a str),
    Endpoint(&'a str, &'a str),
    Route { listener: &'a str, route: &'a str },
}

impl Of<'_> {
    /// Whose busiest second is known.
    fn marked(self) -> Option<Marked> {
        match self {
            Self::Listener(name) => Some(Marked::Listener(name.to_owned())),
            Self::Pool(name) => Some(Marked::Pool(name.to_owned())),
            Self::Endpoint(pool, name) => Some(Marked::Endpoint(pool.to_owned(), name.to_owned())),
            Self::Route { .. } => None,
        }
    }

    fn tally(self, figures: &Figures) -> TallyFigures {
        match self {
            Self::Listener(name) => figures.tally_of_listener(name),
            Self::Pool(name) => figures.tally_of_pool(name),
            Self::Endpoint(pool, name) => figures.tally_of_endpoint(pool, name),
            Self::Route { listener, route } => {
                figures.tally(|cell| cell.listener == listener && cell.route == route)
            }
        }
    }

    fn phases(self, figures: &Figures) -> PhaseDistributions {
        match self {
            Self::Listener(name) => figures.phases_of_listener(name),
            Self::Pool(name) => figures.phases_of_pool(name),
            Self::Endpoint(pool, name) => figures.phases_of_endpoint(pool, name),
            Self::Route { listener, route } => {
                figures.phases(|own| own.listener == listener && own.route == route)
            }
        }
    }
}

impl Look {
    /// What is told of these exchanges.
    pub(crate) fn traffic(&self, of: Of<'_>) -> Traffic {
        let all = of.tally(&self.now);
        let mut tally = all.clone();
        let mut phases = of.phases(&self.now);
        if let Some(cleared) = &self.cleared {
            tally = tally.since(&of.tally(cleared));
            phases = phases.since(&of.phases(cleared));
        }
        let (recent_s, recent) = match self.recent.length_us {
            0..SETTLED_US => (0, Vec::new()),
            length_us => (length_us / 1_000_000, times(&of.phases(&self.recent.figures))),
        };
        let just_now = of.tally(&self.moment.figures).requests();
        let mark = of.marked().map(|who| self.marks.of(&who)).unwrap_or_default();
        let last = mark.last.map(|at| at.elapsed());
        let last = if just_now > 0 { Some(Duration::ZERO) } else { last };
        let mut statuses: BTreeMap<String, u64> = BTreeMap::new();
        for class in 1..=5 {
            statuses.insert(format!("{class}xx"), tally.of_class(class));
        }
        Traffic {
            requests: tally.requests(),
            per_second: per_second(just_now, self.moment.length_us),
            per_second_max: mark.requests,
            last_s: last.map(|age| age.as_secs()),
            statuses,
            codes: tally.codes().collect(),
            causes: tally
                .causes()
                .map(|(cause, count)| (cause.as_str().to_owned(), count))
                .collect(),
            bytes_received: tally.bytes_received,
            bytes_sent: tally.bytes_sent,
            attempts: tally.attempts,
            retried: tally.retried,
            reused: tally.reused,
            queued: tally.queued,
            answered_here: self.answered_here(of),
            times: times(&phases),
            recent_s,
            recent,
        }
    }
}

impl Look {
    /// Requests that a route without a pool answered.
    fn answered_here(&self, of: Of<'_>) -> u64 {
        let Of::Listener(name) = of else { return 0 };
        let own = |cell: &CellFigures| {
            cell.listener == name && cell.pool.is_empty() && !cell.route.is_empty()
        };
        let before = self.cleared.as_ref().map_or(0, |cleared| cleared.tally(own).requests());
        self.now.tally(own).requests().saturating_sub(before)
    }

    /// Attempts given up at an endpoint, or at all of a pool.
    pub(crate) fn given_up(&self, pool: &str, endpoint: Option<&str>) -> GivenUp {
        let wanted = |own: &EndpointFigures| {
            own.pool == pool && endpoint.is_none_or(|it| it == own.endpoint)
        };
        let all = self.now.given_up(wanted);
        let cleared = self.cleared.as_ref().map(|cleared| cleared.given_up(wanted));
        all.since(cleared.unwrap_or_default())
    }
}

/// Every phase that has a sample.
fn times(phases: &PhaseDistributions) -> Vec<PhaseTimes> {
    phases
        .counted()
        .map(|(phase, distribution)| phase_times(phase.as_str(), distribution))
        .collect()
}

/// One distribution in a line.
pub(crate) fn phase_times(phase: &str, distribution: &Distribution) -> PhaseTimes {
    PhaseTimes {
        phase: phase.to_owned(),
        count: distribution.count(),
        mean_us: distribution.mean_us().round() as u64,
        p50_us: distribution.at_quantile(0.5),
        p90_us: distribution.at_quantile(0.9),
        p99_us: distribution.at_quantile(0.99),
        p999_us: distribution.at_quantile(0.999),
        p9999_us: distribution.at_quantile(0.9999),
        p999999_us: distribution.at_quantile(0.999_999),
        max_us: distribution.max_us(),
    }
}
