//! From counted numbers (`weir-stats`) to what the status tells of them: totals since the start or since they were cleared, rates of
//! the last second, and times of the last moments beside those of all the time.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval};
use weir_stats::numbers::{Distribution, Figures, PhaseDistributions, TallyFigures};

use super::context::Context;
use super::status::{PhaseTimes, Traffic};

/// How often rates are taken.
const SAMPLE: Duration = Duration::from_secs(1);
/// Samples kept: what "recent" means.
const WINDOW: usize = 10;

/// What was counted a moment ago and since when counting is told.
#[derive(Default)]
pub(crate) struct Past {
    samples: Mutex<VecDeque<(Instant, Arc<Figures>)>>,
    cleared: Mutex<Option<Arc<Figures>>>,
}

impl Past {
    /// Takes a sample.
    fn sample(&self, figures: Figures) {
        let mut samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        if samples.len() == WINDOW {
            samples.pop_front();
        }
        samples.push_back((Instant::now(), Arc::new(figures)));
    }

    /// From now on counters begin at what they are.
    pub(crate) fn clear(&self, figures: Figures) {
        let mut cleared = self.cleared.lock().unwrap_or_else(PoisonError::into_inner);
        *cleared = Some(Arc::new(figures));
    }
}

/// Takes samples, and has the state file follow, for as long as the admin interface is there.
pub(crate) async fn sample(context: Arc<Context>) {
    let mut ticks = interval(SAMPLE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        context.past.sample(context.served().process.numbers.read());
        // A reload by signal may have given runtime changes up. When the file cannot be written, the next change says so.
        let _ = context.keep_state();
    }
}

/// Everything counted until now, beside what was counted before.
pub(crate) struct Counted {
    pub(crate) now: Figures,
    cleared: Option<Arc<Figures>>,
    /// The latest sample that is at least half a second old, and how old it is.
    before: Option<(Duration, Arc<Figures>)>,
    /// The oldest sample.
    recent: Option<(Duration, Arc<Figures>)>,
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

impl Counted {
    pub(crate) fn read(past: &Past, now: Figures) -> Self {
        let samples = past.samples.lock().unwrap_or_else(PoisonError::into_inner);
        let aged = |(at, figures): &(Instant, Arc<Figures>)| (at.elapsed(), Arc::clone(figures));
        let settled = |(age, _): &(Duration, Arc<Figures>)| *age >= SAMPLE / 2;
        let before = samples.iter().rev().map(aged).find(settled);
        let recent = samples.front().map(aged).filter(settled);
        let cleared = past.cleared.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Self { now, cleared, before, recent }
    }

    /// What is told of these exchanges.
    pub(crate) fn traffic(&self, of: Of<'_>) -> Traffic {
        let all = of.tally(&self.now);
        let mut tally = all.clone();
        let mut phases = of.phases(&self.now);
        if let Some(cleared) = &self.cleared {
            tally = tally.since(&of.tally(cleared));
            phases = phases.since(&of.phases(cleared));
        }
        let per_second = self.before.as_ref().map_or(0.0, |(age, figures)| {
            let more = all.requests().saturating_sub(of.tally(figures).requests());
            more as f64 / age.as_secs_f64()
        });
        let recent = self
            .recent
            .as_ref()
            .map(|(age, figures)| (age.as_secs(), of.phases(&self.now).since(&of.phases(figures))));
        let (recent_s, recent) =
            recent.map_or((0, Vec::new()), |(seconds, phases)| (seconds, times(&phases)));
        let mut statuses: BTreeMap<String, u64> = BTreeMap::new();
        for class in 1..=5 {
            statuses.insert(format!("{class}xx"), tally.of_class(class));
        }
        Traffic {
            requests: tally.requests(),
            per_second: (per_second * 10.0).round() / 10.0,
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
            times: times(&phases),
            recent_s,
            recent,
        }
    }
}

/// Every phase that has a sample.
fn times(phases: &PhaseDistributions) -> Vec<PhaseTimes> {
    let seen = phases.each().filter(|(_, distribution)| distribution.count() > 0);
    seen.map(|(phase, distribution)| phase_times(phase.as_str(), distribution)).collect()
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
