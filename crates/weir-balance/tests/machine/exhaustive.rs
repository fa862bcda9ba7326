//! All orders of events in small pools. Since a pool cannot be copied, a state is reached again by
//! repeating the events that led to it. Each distinguishable state is expanded once; or, in case
//! the pool hides state, every sequence is tried up to a length.

use std::collections::HashSet;

use weir_balance::{AdminState, Fault, PolicyKind, QueueSettings};

use crate::world::{Change, Plan, Step, World};

/// A small pool, with bounds on the exploration.
#[derive(Clone)]
struct Small {
    plan: Plan,
    /// The number of exchanges that arrive, each bound to one of `bounds`.
    exchanges: u64,
    bounds: Vec<Option<usize>>,
    /// The maximum number of endpoint changes; without a bound no exploration ends.
    changes: usize,
    /// Set if pools succeed each other, instead of endpoints changing.
    succeeds: bool,
    /// Set if a state seen before is not expanded again.
    prunes: bool,
    /// The maximum number of events.
    length: usize,
}

/// Three exchanges and two endpoints with one slot each.
fn small() -> Small {
    let queue = Some(QueueSettings { max: 2, max_per_endpoint: Some(1) });
    let plan = Plan {
        policy: PolicyKind::First,
        queue,
        panic_percent: 0,
        endpoints: vec![(Some(1), 0); 2],
        fault: Fault::None,
    };
    let bounds = vec![None, Some(0)];
    Small {
        plan,
        exchanges: 3,
        bounds,
        changes: 3,
        succeeds: false,
        prunes: true,
        length: usize::MAX,
    }
}

struct Explorer {
    small: Small,
    seen: HashSet<String>,
    sequences: u64,
}

impl Explorer {
    /// Explores all events that can follow `path`, recursively.
    fn explore(&mut self, path: &mut Vec<Step>, changes: usize) -> Result<(), String> {
        self.sequences += 1;
        let world = self.replay(path)?;
        let key = format!("{changes} {}", world.key());
        let steps = self.possible(&world, changes);
        world.end().map_err(|wrong| format!("{path:?}, then all leave: {wrong}"))?;
        if !self.seen.insert(key) && self.small.prunes || path.len() == self.small.length {
            return Ok(());
        }
        for (step, changes) in steps {
            path.push(step);
            self.explore(path, changes)?;
            path.pop();
        }
        Ok(())
    }

    fn replay(&self, path: &[Step]) -> Result<World, String> {
        let mut world = World::new(&self.small.plan, 1);
        for step in path {
            world.step(*step).map_err(|wrong| format!("{path:?}: {wrong}"))?;
        }
        Ok(world)
    }

    /// The events that can happen next, each with the number of changes left after it.
    fn possible(&self, world: &World, changes: usize) -> Vec<(Step, usize)> {
        let mut steps = Vec::new();
        if world.arrived() < self.small.exchanges {
            let arrive = |bound: &Option<usize>| Step::Arrive { bound: *bound, tried: None };
            steps.extend(self.small.bounds.iter().map(arrive));
        }
        steps.extend((0..world.running()).map(Step::Finish));
        for at in 0..world.pending() {
            steps.extend([Step::Cancel(at), Step::Collect(at)]);
        }
        let mut steps: Vec<_> = steps.into_iter().map(|step| (step, changes)).collect();
        if changes > 0 {
            let indexes = 0..world.reference.endpoints.len();
            let next = indexes.flat_map(|index| {
                if self.small.succeeds { successors(index) } else { other_states(world, index) }
            });
            steps.extend(next.map(|step| (step, changes - 1)));
        }
        steps
    }
}

/// The possible changes of an endpoint: down and up, one limit more or less, draining, maintenance
/// and back.
fn other_states(world: &World, index: usize) -> Vec<Step> {
    let now = &world.reference.endpoints[index];
    let limits = [0, 1, 2].into_iter().filter(|limit| now.limit != Some(*limit));
    let orders = [AdminState::Ready, AdminState::Draining, AdminState::Maintenance].into_iter();
    let mut steps = vec![Step::Healthy(index, !now.healthy)];
    steps.extend(limits.map(|limit| Step::Limit(index, Some(limit))));
    steps.extend(
        orders.filter(|order| now.order != *order).map(|order| Step::AdminState(index, order)),
    );
    steps
}

/// The successor pools that differ from the current one in one endpoint.
fn successors(index: usize) -> Vec<Step> {
    let mut changes =
        vec![Change::Remove(index), Change::Limit(index, Some(0)), Change::Limit(index, Some(2))];
    if index == 0 {
        changes.extend([Change::Add(Some(1)), Change::Turn, Change::Queue(None)]);
    }
    changes.into_iter().map(Step::Succeed).collect()
}

/// The numbers of states and of sequences explored.
fn explored(small: Small) -> Result<(usize, u64), String> {
    let changes = small.changes;
    let mut explorer = Explorer { small, seen: HashSet::new(), sequences: 0 };
    explorer.explore(&mut Vec::new(), changes)?;
    Ok((explorer.seen.len(), explorer.sequences))
}

#[test]
fn three_exchanges_and_two_endpoints_in_all_orders() {
    let (states, sequences) = explored(small()).unwrap();
    println!("{states} states, {sequences} sequences");
    assert!(states > 2_000, "{states}");
}

#[test]
fn an_ordinary_endpoint_and_a_backup_in_all_orders() {
    let mut small = small();
    small.plan.endpoints = vec![(Some(1), 0), (Some(1), 1)];
    let (states, sequences) = explored(small).unwrap();
    println!("{states} states, {sequences} sequences");
    assert!(states > 1_000, "{states}");
}

#[test]
fn pools_that_succeed_each_other_in_all_orders() {
    let (states, sequences) = explored(Small { succeeds: true, changes: 2, ..small() }).unwrap();
    println!("{states} states, {sequences} sequences");
    assert!(states > 2_000, "{states}");
}

#[test]
fn every_sequence_of_four_events() {
    let (states, sequences) = explored(Small { prunes: false, length: 4, ..small() }).unwrap();
    println!("{states} states, {sequences} sequences");
    assert!(sequences > 5_000, "{sequences}");
}

#[test]
#[ignore = "minutes: make test-long"]
fn four_exchanges_in_all_orders_and_every_sequence_of_seven_events() {
    let bounds = vec![None, Some(0), Some(1)];
    let (states, sequences) =
        explored(Small { exchanges: 4, changes: 4, bounds, ..small() }).unwrap();
    println!("{states} states, {sequences} sequences");
    assert!(states > 50_000, "{states}");
    let (states, sequences) = explored(Small { prunes: false, length: 7, ..small() }).unwrap();
    println!("{states} states, {sequences} sequences");
    assert!(sequences > 1_000_000, "{sequences}");
}

#[test]
fn the_canary_is_found() {
    let mut small = Small { changes: 0, bounds: vec![None], ..small() };
    small.plan.fault = Fault::ForgetsPoolQueue;
    let wrong = explored(small).unwrap_err();
    assert!(wrong.contains("waiting are [(3, None)], should be []"), "{wrong}");
}
