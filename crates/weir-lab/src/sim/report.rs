//! Runs all candidates of a comparison in all scenarios and collects the results. Formats are in
//! `text.rs` and `json.rs`.

use super::calendar::Calendar;
use super::draw::{Draws, RandomPurpose};
use super::engine;
use super::outcome::RequestOutcome;
use super::plan::{Scenario, SimCandidate, SimPlan};
use super::summary::{FigureBounds, Summary};

/// The result of a comparison.
#[derive(Clone, Debug)]
pub struct ComparisonReport {
    /// The subject of the comparison.
    pub title: String,
    /// Seed of all random numbers.
    pub seed: u64,
    /// The results by scenario.
    pub scenarios: Vec<ScenarioReport>,
}

/// All candidates in one scenario.
#[derive(Clone, Debug)]
pub struct ScenarioReport {
    /// Load and service times.
    pub scenario: Scenario,
    /// Requests of each run.
    pub requests: u64,
    /// Figures that hold for all candidates.
    pub bounds: FigureBounds,
    /// The candidates.
    pub rows: Vec<Row>,
}

/// One candidate in one scenario.
#[derive(Clone, Debug)]
pub struct Row {
    /// Policy, limit and queue.
    pub candidate: SimCandidate,
    /// Its figures.
    pub summary: Summary,
}

/// Runs every candidate in every scenario, one after the other. `points` is called with the
/// requests of each run in order of arrival; an error of it ends the comparison.
pub fn run(
    plan: &SimPlan,
    mut points: impl FnMut(&Scenario, &SimCandidate, &[RequestOutcome]) -> Result<(), String>,
) -> Result<ComparisonReport, String> {
    plan.check()?;
    let calendars = calendars(plan);
    let mut scenarios = Vec::new();
    for scenario in &plan.scenarios {
        let bounds = FigureBounds::new(plan, scenario, &calendars)?;
        let mut rows = Vec::new();
        for candidate in &plan.candidates {
            let run = engine::run(plan, scenario, candidate, &calendars)?;
            points(scenario, candidate, &run.outcomes)?;
            let summary = Summary::new(&run, &bounds);
            rows.push(Row { candidate: candidate.clone(), summary });
        }
        let scenario = scenario.clone();
        scenarios.push(ScenarioReport { scenario, requests: plan.requests, bounds, rows });
    }
    let title = match plan.title.as_str() {
        "" => plan.describe(),
        name => format!("{name}: {}", plan.describe()),
    };
    Ok(ComparisonReport { title, seed: plan.seed, scenarios })
}

/// The times at which each server does not work: its outages, and each pause with a random phase.
fn calendars(plan: &SimPlan) -> Vec<Calendar> {
    let draws = Draws::new(plan.seed, RandomPurpose::Pause);
    let calendar = |endpoint: usize| {
        let first = |(number, pause): (usize, &super::calendar::PeriodicPause)| {
            let draw = (endpoint * plan.pauses.len() + number) as u64;
            (*pause, draws.below(draw, pause.every))
        };
        let own = plan.outages.iter().filter(|outage| outage.endpoint == endpoint);
        Calendar::new(
            plan.pauses.iter().enumerate().map(first).collect(),
            own.map(|outage| (outage.from, outage.until)).collect(),
        )
    };
    (0..plan.endpoints.len()).map(calendar).collect()
}
