//! Comparisons that have a name.

use weir_balance::PolicyKind;

use super::plan::{Candidate, Load, MaxConn, Plan, Queue, QueueLimits, Scenario};
use super::service::Service;
use super::state::State;
use super::time::SECOND;

/// A comparison that has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// The experiment of June 2008 ("Comparing Nginx and HAProxy for web applications"): three Mongrels, which work on one
    /// request at a time, and `ab` with 1,000 requests of 3, 10 and 30 clients.
    Mongrel2008,
}

impl Preset {
    /// All of them, with their names.
    pub fn all() -> &'static [(&'static str, Self)] {
        &[("2008-mongrel", Self::Mongrel2008)]
    }

    /// What it runs.
    pub fn plan(self) -> Result<Plan, String> {
        match self {
            Self::Mongrel2008 => mongrel_2008(),
        }
    }
}

fn mongrel_2008() -> Result<Plan, String> {
    let services: Vec<Service> = ["constant:20ms", "mix:98%10ms+2%500ms"]
        .iter()
        .map(|text| text.parse())
        .collect::<Result<_, _>>()?;
    let loads = [3, 10, 30].map(Load::Closed);
    let candidate = |policy: &str, max_conn, queue| {
        let policy: PolicyKind =
            policy.parse().map_err(|error: weir_balance::UnknownPolicy| error.to_string())?;
        let (max_conn, state) = (MaxConn(vec![max_conn]), State::Shared);
        Ok::<_, String>(Candidate { policy, max_conn, queue, state })
    };
    Ok(Plan {
        title: "The experiment of 2008".to_owned(),
        requests: 1_000,
        seed: 2008,
        // Nobody wrote down the queue's timeout of 2008; the longest request that was seen took 47 s.
        queue: QueueLimits { timeout: Some(47 * SECOND), ..QueueLimits::default() },
        scenarios: Scenario::product(&loads, &services),
        candidates: vec![
            candidate("round_robin", None, Queue::On)?,
            candidate("hash", None, Queue::On)?,
            candidate("fair", None, Queue::On)?,
            candidate("least_conn", None, Queue::On)?,
            candidate("least_conn", Some(2), Queue::On)?,
            candidate("least_conn", Some(1), Queue::On)?,
            candidate("least_conn", Some(1), Queue::Buggy)?,
        ],
        // The policies as they were.
        stall: None,
        ..Plan::default()
    })
}
