use weir_balance::PolicyKind;

use super::*;
use crate::sim::plan::{MaxConn, SimLoad, SimQueue};
use crate::sim::state::StateSharing;

/// The balancer's regret meter and the simulation count independently.
#[test]
fn the_regret_meter_counts_what_the_simulation_sees() {
    for policy in PolicyKind::all() {
        for max_conn in [None, Some(2)] {
            let scenario = Scenario {
                load: SimLoad::Poisson(110.0),
                service: "mix:98%10ms+2%500ms".parse().unwrap(),
            };
            let plan = SimPlan { requests: 3_000, ..SimPlan::default() };
            let candidate = SimCandidate {
                policy: *policy,
                max_conn: MaxConn(vec![max_conn]),
                queue: SimQueue::On,
                state: StateSharing::Shared,
            };
            let calendars = vec![Calendar::default(); 3];
            let run = run(&plan, &scenario, &candidate, &calendars).unwrap();
            let name = format!("{policy}, {max_conn:?}");
            assert_eq!(run.counters.inversions, run.inversions, "{name}");
            assert_eq!(run.counters.dispatched, 3_000, "{name}");
            assert_eq!(run.counters.violations, 0, "{name}");
        }
    }
}
