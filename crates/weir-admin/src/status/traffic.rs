//! The status's view of counted figures (`weir-stats`): totals since the start or since they were
//! cleared, rates of the last second, and times of the recent window beside those of the whole
//! time. It counts nothing itself.

use std::collections::HashMap;
use std::time::Duration;

use weir_stats::Cause;
use weir_stats::metrics::{
    CellFigures, Distribution, EndpointFigures, Figures, GivenUp, PhaseDistributions, TallyFigures,
};

use crate::status::sampler::{Marked, SampledFigures};
use crate::status::{PhaseTimes, Traffic};

/// The shortest span that gives a rate, µs.
const SETTLED_US: u64 = 500_000;

/// A rate with one digit.
pub(crate) fn per_second(count: u64, length_us: u64) -> f64 {
    match length_us {
        0..SETTLED_US => 0.0,
        _ => (count as f64 * 1e7 / length_us as f64).round() / 10.0,
    }
}

/// The subject whose exchanges are counted.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Of<'a> {
    Listener(&'a str),
    Pool(&'a str),
    Endpoint(&'a str, &'a str),
    Route { listener: &'a str, route: &'a str },
}

impl Of<'_> {
    /// The subject's key, if its busiest second is recorded.
    fn marked(self) -> Option<Marked> {
        match self {
            Self::Listener(name) => Some(Marked::Listener(name.to_owned())),
            Self::Pool(name) => Some(Marked::Pool(name.to_owned())),
            Self::Endpoint(pool, name) => Some(Marked::Endpoint(pool.to_owned(), name.to_owned())),
            Self::Route { .. } => None,
        }
    }
}

/// Counters by subject, indexed once: there may be a thousand endpoints with a handful of counters
/// each.
struct Cells<'a>(HashMap<Of<'a>, Vec<&'a CellFigures>>);

impl<'a> Cells<'a> {
    fn of(figures: &'a Figures) -> Self {
        let mut cells: HashMap<Of<'a>, Vec<&'a CellFigures>> = HashMap::new();
        for cell in &figures.cells {
            let CellFigures { listener, route, pool, endpoint, .. } = cell;
            let owners = [
                Of::Listener(listener),
                Of::Route { listener, route },
                Of::Pool(pool),
                Of::Endpoint(pool, endpoint),
            ];
            for owner in owners {
                cells.entry(owner).or_default().push(cell);
            }
        }
        Self(cells)
    }

    fn each<'own>(&'own self, of: Of<'own>) -> &'own [&'a CellFigures] {
        self.0.get(&of).map_or(&[], Vec::as_slice)
    }

    fn tally(&self, of: Of<'_>) -> TallyFigures {
        self.each(of).iter().fold(TallyFigures::default(), |mut sum, cell| {
            sum.add(&cell.tally);
            sum
        })
    }

    /// The number of requests that a route without a pool answered.
    fn answered_here(&self, of: Of<'_>) -> u64 {
        let own = |cell: &&&CellFigures| cell.pool.is_empty() && !cell.route.is_empty();
        match of {
            Of::Listener(_) => {
                self.each(of).iter().filter(own).map(|cell| cell.tally.requests()).sum()
            }
            Of::Pool(_) | Of::Endpoint(..) | Of::Route { .. } => 0,
        }
    }
}

/// The times by subject.
struct TimesBySubject<'a> {
    figures: &'a Figures,
    endpoints: HashMap<(&'a str, &'a str), &'a EndpointFigures>,
}

impl<'a> TimesBySubject<'a> {
    fn of(figures: &'a Figures) -> Self {
        let key = |one: &'a EndpointFigures| ((&*one.pool, &*one.endpoint), one);
        Self { figures, endpoints: figures.endpoints.iter().map(key).collect() }
    }

    fn phases(&self, of: Of<'_>) -> PhaseDistributions {
        match of {
            Of::Listener(name) => self.figures.phases_of_listener(name),
            Of::Pool(name) => self.figures.phases_of_pool(name),
            Of::Route { listener, route } => {
                self.figures.phases(|own| own.listener == listener && own.route == route)
            }
            Of::Endpoint(pool, name) => {
                let found = self.endpoints.get(&(pool, name));
                found.map(|one| one.phases.clone()).unwrap_or_default()
            }
        }
    }

    fn given_up(&self, pool: &str, endpoint: Option<&str>) -> GivenUp {
        match endpoint {
            None => self.figures.given_up(|own| own.pool == pool),
            Some(name) => {
                self.endpoints.get(&(pool, name)).map(|one| one.given_up).unwrap_or_default()
            }
        }
    }
}

/// The counted figures, indexed for queries about all subjects.
pub(crate) struct CountedTraffic<'a> {
    look: &'a SampledFigures,
    now: (Cells<'a>, TimesBySubject<'a>),
    /// The figures when an operator last cleared the counters, if one did.
    cleared: Option<(Cells<'a>, TimesBySubject<'a>)>,
    recent: TimesBySubject<'a>,
    moment: Cells<'a>,
}

impl<'a> CountedTraffic<'a> {
    pub(crate) fn of(look: &'a SampledFigures) -> Self {
        let both = |figures: &'a Figures| (Cells::of(figures), TimesBySubject::of(figures));
        Self {
            look,
            now: both(&look.now),
            cleared: look.cleared.as_deref().map(both),
            recent: TimesBySubject::of(&look.recent.figures),
            moment: Cells::of(&look.moment.figures),
        }
    }

    /// The traffic of this subject.
    pub(crate) fn traffic(&self, of: Of<'_>) -> Traffic {
        let (cells, all) = &self.now;
        let (mut tally, mut phases) = (cells.tally(of), all.phases(of));
        let mut answered_here = cells.answered_here(of);
        if let Some((cells, all)) = &self.cleared {
            tally = tally.since(&cells.tally(of));
            phases = phases.since(&all.phases(of));
            answered_here = answered_here.saturating_sub(cells.answered_here(of));
        }
        let (recent_s, recent) = match self.look.recent.length_us {
            0..SETTLED_US => (0, Vec::new()),
            length_us => (length_us / 1_000_000, times(&self.recent.phases(of))),
        };
        let just_now = self.moment.tally(of).requests();
        let mark = of.marked().map(|who| self.look.marks.of(&who)).unwrap_or_default();
        let last = mark.last.map(|at| at.elapsed());
        let last = if just_now > 0 { Some(Duration::ZERO) } else { last };
        let class = |class: u16| (format!("{class}xx"), tally.of_class(class));
        let cause = |(cause, count): (Cause, u64)| (cause.as_str().to_owned(), count);
        Traffic {
            requests: tally.requests(),
            per_second: per_second(just_now, self.look.moment.length_us),
            per_second_max: mark.requests,
            last_s: last.map(|age| age.as_secs()),
            statuses: (1..=5).map(class).collect(),
            codes: tally.codes().collect(),
            causes: tally.causes().map(cause).collect(),
            bytes_received: tally.bytes_received,
            bytes_sent: tally.bytes_sent,
            attempts: tally.attempts,
            retried: tally.retried,
            reused: tally.reused,
            queued: tally.queued,
            answered_here,
            times: times(&phases),
            recent_s,
            recent,
        }
    }

    /// The abandoned attempts at an endpoint, or in a whole pool.
    pub(crate) fn given_up(&self, pool: &str, endpoint: Option<&str>) -> GivenUp {
        let all = self.now.1.given_up(pool, endpoint);
        let cleared = self.cleared.as_ref().map(|(_, cleared)| cleared.given_up(pool, endpoint));
        all.since(cleared.unwrap_or_default())
    }
}

/// The times of every phase that has a sample.
fn times(phases: &PhaseDistributions) -> Vec<PhaseTimes> {
    phases
        .counted()
        .map(|(phase, distribution)| phase_times(phase.as_str(), distribution))
        .collect()
}

/// The figures of one distribution.
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
