//! Random pools and random events: shrinking cases by proptest, and as many seeds as
//! `WEIR_SCHEDULES` says.

use proptest::prelude::*;
use weir_balance::{AdminState, BalanceFactor, Fault, HashSettings, PolicyKind, QueueSettings};

use crate::world::{Change, Plan, Step, World};

/// The policies, hashing ones with and without bounded loads; those that the reference checks most
/// closely occur more often. `maglev` is left out: it waits as the other hashing policies do, and
/// building its table takes longer than a schedule.
fn policies() -> Vec<PolicyKind> {
    let bounded = HashSettings { balance_factor: BalanceFactor::from_percent(125) };
    let mut policies = PolicyKind::all().to_vec();
    policies.retain(|policy| !matches!(policy, PolicyKind::Maglev(_)));
    policies.extend([PolicyKind::Hash(bounded), PolicyKind::First, PolicyKind::LeastConn]);
    policies
}

fn run(plan: &Plan, steps: &[Step], seed: u64) -> Result<(), String> {
    let mut world = World::new(plan, seed);
    for (number, step) in steps.iter().enumerate() {
        world.step(*step).map_err(|wrong| format!("step {number}, {step:?}: {wrong}"))?;
    }
    world.end().map_err(|wrong| format!("at the end: {wrong}"))
}

fn order(number: u8) -> AdminState {
    match number {
        0..=2 => AdminState::Ready,
        3 => AdminState::Draining,
        _ => AdminState::Maintenance,
    }
}

fn plan() -> impl Strategy<Value = Plan> {
    let queue = (0_u32..6, proptest::option::of(0_u32..3))
        .prop_map(|(max, max_per_endpoint)| QueueSettings { max, max_per_endpoint });
    let endpoint = (proptest::option::weighted(0.8, 0_u32..3), 0_u8..2);
    (
        proptest::sample::select(policies()),
        proptest::option::weighted(0.9, queue),
        proptest::sample::select(vec![0_u8, 50]),
        proptest::collection::vec(endpoint, 1..5),
    )
        .prop_map(|(policy, queue, panic_percent, endpoints)| Plan {
            policy,
            queue,
            panic_percent,
            endpoints,
            fault: Fault::None,
        })
}

fn step(endpoints: usize) -> impl Strategy<Value = Step> {
    let index = || 0..endpoints;
    let one = || proptest::option::weighted(0.3, 0..endpoints);
    prop_oneof![
        8 => (one(), one()).prop_map(|(bound, tried)| Step::Arrive { bound, tried }),
        6 => any::<usize>().prop_map(Step::Finish),
        2 => any::<usize>().prop_map(Step::Cancel),
        1 => any::<usize>().prop_map(Step::TimeOut),
        3 => any::<usize>().prop_map(Step::Collect),
        1 => (index(), any::<bool>()).prop_map(|(index, up)| Step::Available(index, up)),
        1 => (index(), any::<bool>()).prop_map(|(index, up)| Step::Healthy(index, up)),
        1 => (index(), 0_u8..5).prop_map(|(index, number)| Step::AdminState(index, order(number))),
        1 => (index(), proptest::option::weighted(0.9, 0_u32..4))
            .prop_map(|(index, limit)| Step::Limit(index, limit)),
        1 => index().prop_map(Step::EndpointFails),
        1 => (0_u64..1_500).prop_map(Step::Later),
        1 => Just(Step::Audit),
        2 => change(endpoints).prop_map(Step::Succeed),
    ]
}

fn change(endpoints: usize) -> impl Strategy<Value = Change> {
    let limit = || proptest::option::weighted(0.8, 0_u32..3);
    let queue = (0_u32..6, proptest::option::of(0_u32..3))
        .prop_map(|(max, max_per_endpoint)| QueueSettings { max, max_per_endpoint });
    prop_oneof![
        2 => (0..endpoints).prop_map(Change::Remove),
        2 => limit().prop_map(Change::Add),
        2 => (0..endpoints, limit()).prop_map(|(index, limit)| Change::Limit(index, limit)),
        1 => (0..endpoints, 0_u8..2).prop_map(|(index, tier)| Change::Tier(index, tier)),
        1 => proptest::option::weighted(0.8, queue).prop_map(Change::Queue),
        1 => Just(Change::Turn),
    ]
}

proptest! {
    #[test]
    fn the_queue_does_what_the_reference_does(
        (plan, steps) in plan().prop_flat_map(|plan| {
            let steps = proptest::collection::vec(step(plan.endpoints.len()), 1..100);
            (Just(plan), steps)
        })
    ) {
        run(&plan, &steps, 1).map_err(TestCaseError::fail)?;
    }
}

/// A random pool with a queue and limits.
fn drawn_plan(random: &mut fastrand::Rng, fault: Fault) -> Plan {
    let endpoints = random.usize(1..5);
    let policies = policies();
    let policy = policies[random.usize(..policies.len())];
    Plan {
        policy,
        queue: Some(QueueSettings {
            max: random.u32(1..12),
            max_per_endpoint: random.bool().then(|| random.u32(1..3)),
        }),
        panic_percent: [0, 50][random.usize(..2)],
        endpoints: (0..endpoints)
            .map(|_| (Some(random.u32(1..3)), u8::from(random.u8(..4) == 0)))
            .collect(),
        fault,
    }
}

fn drawn_step(random: &mut fastrand::Rng, endpoints: usize) -> Step {
    let index = random.usize(..endpoints);
    let one = |random: &mut fastrand::Rng| (random.u8(..4) == 0).then_some(index);
    match random.u8(..34) {
        0..=9 => Step::Arrive { bound: one(random), tried: one(random) },
        10..=17 => Step::Finish(random.usize(..)),
        18..=19 => Step::Cancel(random.usize(..)),
        20 => Step::TimeOut(random.usize(..)),
        21..=24 => Step::Collect(random.usize(..)),
        25 => Step::Available(index, random.u8(..3) > 0),
        26 => Step::Healthy(index, random.u8(..3) > 0),
        27 => Step::AdminState(index, order(random.u8(..5))),
        28 => Step::Limit(index, Some(random.u32(..4))),
        29 => Step::EndpointFails(index),
        30 => Step::Later(random.u64(..1_500)),
        31..=32 => Step::Succeed(drawn_change(random)),
        _ => Step::Audit,
    }
}

fn drawn_change(random: &mut fastrand::Rng) -> Change {
    let index = random.usize(..);
    match random.u8(..8) {
        0..=1 => Change::Remove(index),
        2..=3 => Change::Add(Some(random.u32(1..3))),
        4 => Change::Limit(index, Some(random.u32(..3))),
        5 => Change::Tier(index, random.u8(..2)),
        6 => Change::Turn,
        _ => Change::Queue((random.u8(..4) > 0).then(|| QueueSettings {
            max: random.u32(1..12),
            max_per_endpoint: random.bool().then(|| random.u32(1..3)),
        })),
    }
}

fn schedule(seed: u64, fault: Fault) -> Result<(), String> {
    let mut random = fastrand::Rng::with_seed(seed);
    let plan = drawn_plan(&mut random, fault);
    let steps: Vec<Step> =
        (0..random.usize(10..60)).map(|_| drawn_step(&mut random, plan.endpoints.len())).collect();
    run(&plan, &steps, seed)
}

/// The number of schedules: 10,000 by default.
fn schedules() -> u64 {
    let number = std::env::var("WEIR_SCHEDULES").ok();
    number.map_or(10_000, |number| number.parse().expect("WEIR_SCHEDULES is a number"))
}

#[test]
fn very_many_random_schedules_do_what_the_reference_does() {
    let schedules = schedules();
    let wrong = std::sync::Mutex::new(Vec::new());
    let workers = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    std::thread::scope(|scope| {
        for worker in 0..workers {
            let wrong = &wrong;
            scope.spawn(move || {
                for seed in (worker..schedules).step_by(workers as usize) {
                    if let Err(problem) = schedule(seed, Fault::None) {
                        wrong.lock().unwrap().push(format!("seed {seed}: {problem}"));
                        return;
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{wrong:#?}");
    println!("{schedules} schedules");
}

#[test]
fn the_canary_is_found_by_most_schedules_with_a_queue() {
    let found = (0..200).filter(|seed| schedule(*seed, Fault::ForgetsPoolQueue).is_err()).count();
    assert!(found > 60, "only {found} of 200 schedules found it");
}
