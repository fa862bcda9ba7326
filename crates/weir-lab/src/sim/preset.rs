//! Named comparisons. They can be run but not changed.

use weir_balance::PolicyKind;

use super::credits::SimCredits;
use super::plan::{
    MaxConn, QueueLimits, Scenario, SimCandidate, SimEndpoint, SimLoad, SimPlan, SimQueue,
};
use super::service::ServiceSource;
use super::state::StateSharing;
use super::time::SECOND;

/// A named comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// The experiment of June 2008 ("Comparing Nginx and HAProxy for web applications"): three
    /// Mongrels, which work on one request at a time, and `ab` with 1,000 requests of 3, 10 and 30
    /// clients.
    Mongrel2008,
    /// The machine with processor credits of the comparison of 2019 ("Comparing Avi Vantage and the
    /// NGINX Application Platform"): a t2.medium under the load of its twenty consecutive runs of
    /// three minutes, at a tenth of the rate with requests that take ten times as long.
    Credits2019,
}

impl Preset {
    /// All presets with their names.
    pub fn all() -> &'static [(&'static str, Self)] {
        &[("2008-mongrel", Self::Mongrel2008), ("2019-credits", Self::Credits2019)]
    }

    /// The plan of the preset.
    pub fn plan(self) -> Result<SimPlan, String> {
        match self {
            Self::Mongrel2008 => mongrel_2008(),
            Self::Credits2019 => credits_2019(),
        }
    }
}

fn credits_2019() -> Result<SimPlan, String> {
    /// Twenty runs of 180 s.
    const SECONDS: u64 = 3_600;
    let core_minutes = 60.0 * SECOND as f64;
    // Two cores, 40 % of one of them earned, and the 60 credits with which such a machine starts.
    let credits = SimCredits {
        baseline: 0.4,
        cores: 2,
        start: 60.0 * core_minutes,
        max: 576.0 * core_minutes,
    };
    let policy: PolicyKind =
        "least_conn".parse().map_err(|error: weir_balance::UnknownPolicy| error.to_string())?;
    let at_once = Some(credits.cores);
    Ok(SimPlan {
        title: "The machine with processor credits of 2019".to_owned(),
        requests: 250 * SECONDS,
        seed: 2019,
        endpoints: vec![SimEndpoint { at_once, credits: Some(credits), ..SimEndpoint::default() }],
        // 2,500 requests per second used 1.6 cores.
        scenarios: Scenario::product(&[SimLoad::Poisson(250.0)], &["constant:6.4ms".parse()?]),
        candidates: vec![SimCandidate {
            policy,
            max_conn: MaxConn(vec![None]),
            queue: SimQueue::On,
            state: StateSharing::Shared,
        }],
        stall: None,
        ..SimPlan::default()
    })
}

fn mongrel_2008() -> Result<SimPlan, String> {
    let services: Vec<ServiceSource> = ["constant:20ms", "mix:98%10ms+2%500ms"]
        .iter()
        .map(|text| text.parse())
        .collect::<Result<_, _>>()?;
    let loads = [3, 10, 30].map(SimLoad::Closed);
    let candidate = |policy: &str, max_conn, queue| {
        let policy: PolicyKind =
            policy.parse().map_err(|error: weir_balance::UnknownPolicy| error.to_string())?;
        let (max_conn, state) = (MaxConn(vec![max_conn]), StateSharing::Shared);
        Ok::<_, String>(SimCandidate { policy, max_conn, queue, state })
    };
    Ok(SimPlan {
        title: "The experiment of 2008".to_owned(),
        requests: 1_000,
        seed: 2008,
        // The queue timeout of 2008 was not recorded; the longest request took 47 s.
        queue: QueueLimits { timeout: Some(47 * SECOND), ..QueueLimits::default() },
        scenarios: Scenario::product(&loads, &services),
        candidates: vec![
            candidate("round_robin", None, SimQueue::On)?,
            candidate("hash", None, SimQueue::On)?,
            candidate("fair", None, SimQueue::On)?,
            candidate("least_conn", None, SimQueue::On)?,
            candidate("least_conn", Some(2), SimQueue::On)?,
            candidate("least_conn", Some(1), SimQueue::On)?,
            candidate("least_conn", Some(1), SimQueue::Buggy)?,
        ],
        // The policies of that time had no stall detection.
        stall: None,
        ..SimPlan::default()
    })
}
