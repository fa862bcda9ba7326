//! Tests of pools of many endpoints: they pick the same endpoints as a pool that examines all of
//! them one by one, but examine only a few.

use std::sync::Arc;

use proptest::prelude::*;

use crate::dispatcher::balancer::Balancer;
use crate::policy::load_tree::{LoadKey, WantedLoad};
use crate::policy::looks;
use crate::{
    AdminState, Arrival, Availability, BalanceFactor, FairSettings, HashSettings, Health, Member,
    PassiveSettings, PolicyKind, QueueSettings, Request, Settings, Slot, Tried, WeightMode,
    hash_key,
};

fn member(number: usize, weight: u32, max_conn: Option<u32>) -> Member {
    let identity = hash_key(&number.to_le_bytes());
    Member {
        identity,
        weight,
        max_conn,
        tier: 0,
        ejection: None,
        slow_start_us: 0,
        state: Arc::default(),
    }
}

/// Makes a pool that keeps what a pick looks at.
fn many(settings: Settings, members: Vec<Member>, before: Option<&Arc<Balancer>>) -> Arc<Balancer> {
    match before {
        None => Balancer::new(settings, members),
        Some(before) => Balancer::prepared(before, settings, members),
    }
}

/// Makes a pool that looks at its endpoints one by one.
fn plain(
    settings: Settings,
    members: Vec<Member>,
    before: Option<&Arc<Balancer>>,
) -> Arc<Balancer> {
    let mut pool = Balancer::made(settings, members, before.map(|before| &**before));
    pool.picker.crowd = None;
    pool.picker.tiers.iter_mut().for_each(|tier| tier.loads = None);
    if before.is_none() {
        pool.picker.set_limits();
        pool.picker.refresh_panic();
    }
    Arc::new(pool)
}

/// A way to make a pool: with its settings, endpoints and predecessor.
type Make = fn(Settings, Vec<Member>, Option<&Arc<Balancer>>) -> Arc<Balancer>;

/// A step in the life of a pool. A number selects one of the existing slots or endpoints.
#[derive(Clone, Debug)]
enum Step {
    Arrive { tried: Option<usize> },
    Leave(usize),
    SetHealth(usize, bool),
    SetOrder(usize, AdminState),
    SetAddress(usize, bool),
    SetLimit(usize, Option<u32>),
    Eject(usize),
    Wait,
    Reload,
}

const ENDPOINTS: usize = 80;

fn step() -> impl Strategy<Value = Step> {
    let order = prop_oneof![
        Just(AdminState::Ready),
        Just(AdminState::Draining),
        Just(AdminState::Maintenance)
    ];
    let endpoint = 0..ENDPOINTS;
    prop_oneof![
        30 => prop::option::weighted(0.2, endpoint.clone()).prop_map(|tried| Step::Arrive { tried }),
        20 => any::<usize>().prop_map(Step::Leave),
        2 => (endpoint.clone(), any::<bool>()).prop_map(|(index, up)| Step::SetHealth(index, up)),
        1 => (endpoint.clone(), order).prop_map(|(index, order)| Step::SetOrder(index, order)),
        1 => (endpoint.clone(), any::<bool>()).prop_map(|(index, up)| Step::SetAddress(index, up)),
        2 => (endpoint.clone(), prop::option::of(0_u32..4)).prop_map(|(index, limit)| Step::SetLimit(index, limit)),
        2 => endpoint.prop_map(Step::Eject),
        2 => Just(Step::Wait),
        1 => Just(Step::Reload),
    ]
}

/// A pool with its exchanges.
struct Run {
    make: Make,
    settings: Settings,
    members: Vec<Member>,
    pool: Arc<Balancer>,
    slots: Vec<Slot>,
    now_us: u64,
    random: u64,
}

impl Run {
    fn new(make: Make, settings: Settings, members: Vec<Member>) -> Self {
        let pool = make(settings, members.clone(), None);
        Self { make, settings, members, pool, slots: Vec::new(), now_us: 0, random: 0 }
    }

    /// Another balancer takes over, with the endpoints in another order.
    fn reload(&mut self) {
        self.members.rotate_left(1);
        let pool = (self.make)(self.settings, self.members.clone(), Some(&self.pool));
        let states: Vec<AdminState> =
            self.members.iter().map(|member| member.state.admin_state()).collect();
        pool.succeed(&self.pool, &states, self.now_us);
        self.pool = pool;
    }

    /// Makes a step and returns its outcome.
    fn step(&mut self, step: &Step) -> String {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.now_us += 10;
        let (pool, now_us) = (Arc::clone(&self.pool), self.now_us);
        match *step {
            Step::Arrive { tried } => {
                let mut done = Tried::new();
                if let Some(index) = tried {
                    done.insert(index);
                }
                match pool.arrive(&Request::new(now_us, self.random, &done)) {
                    Arrival::Dispatched(slot) => {
                        let picked = format!("{} {:?}", slot.index(), slot.decision().chosen_by);
                        self.slots.push(slot);
                        return picked;
                    }
                    other => return format!("{other:?}"),
                }
            }
            Step::Leave(number) => {
                if !self.slots.is_empty() {
                    drop(self.slots.swap_remove(number % self.slots.len()));
                }
            }
            Step::SetHealth(index, up) => {
                pool.set_health(
                    index,
                    if up { Health::Healthy } else { Health::Unhealthy },
                    now_us,
                );
            }
            Step::SetOrder(index, order) => pool.set_admin_state(index, order, now_us),
            Step::SetAddress(index, known) => {
                let known = if known { Availability::Available } else { Availability::Unavailable };
                pool.set_availability(index, known, now_us);
            }
            Step::SetLimit(index, limit) => pool.set_max_conn(index, limit, now_us),
            Step::Eject(index) => return format!("{:?}", pool.endpoint_failed(index, now_us, 0)),
            Step::Wait => self.now_us += 400,
            Step::Reload => self.reload(),
        }
        format!("{}", self.pool.in_flight())
    }
}

fn policies() -> impl Strategy<Value = PolicyKind> {
    let fair = |no_rr, weight_mode| PolicyKind::Fair(FairSettings { no_rr, weight_mode });
    prop::sample::select(vec![
        PolicyKind::LeastConn,
        PolicyKind::RoundRobin,
        PolicyKind::First,
        fair(false, WeightMode::Default),
        fair(true, WeightMode::Default),
        fair(false, WeightMode::Idle),
        fair(true, WeightMode::Idle),
        fair(false, WeightMode::Peak),
    ])
}

proptest! {
    #[test]
    fn many_endpoints_are_picked_as_one_by_one(
        policy in policies(),
        weights in prop_oneof![Just(vec![1]), prop::collection::vec(1_u32..4, 1..7)],
        limit in prop::option::of(1_u32..3),
        panic_percent in prop::sample::select(vec![0, 50]),
        few in any::<bool>(),
        steps in prop::collection::vec(step(), 1..400),
    ) {
        let passive = PassiveSettings { errors: 1, window_us: 1_000, eject_us: 1_000, max_ejected_percent: 50 };
        let settings = Settings { passive, panic_percent, ..Settings::new(policy) };
        let members = || -> Vec<Member> {
            let weight = |number: usize| weights[number % weights.len()];
            (0..ENDPOINTS).map(|number| member(number, weight(number), limit)).collect()
        };
        let mut many = Run::new(many, settings, members());
        let mut one_by_one = Run::new(plain, settings, members());
        prop_assert!(many.pool.picker.crowd.is_some());
        if few {
            // Most are out, so that turns are skipped.
            for index in (0..ENDPOINTS).filter(|index| index % 9 != 0) {
                many.pool.set_admin_state(index, AdminState::Maintenance, 0);
                one_by_one.pool.set_admin_state(index, AdminState::Maintenance, 0);
            }
        }
        for step in &steps {
            prop_assert_eq!(many.step(step), one_by_one.step(step), "{:?}", step);
        }
        prop_assert_eq!(many.pool.in_flight(), many.slots.len() as u64);
    }
}

/// After the exchanges of several threads have ended, the state that picks look at has no trace of
/// them.
#[test]
fn what_is_kept_of_many_endpoints_is_right_after_a_race() {
    for policy in [PolicyKind::LeastConn, PolicyKind::RoundRobin] {
        let pool = pool(policy, Some(2), false, 100);
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                let pool = &pool;
                scope.spawn(move || {
                    let tried = Tried::new();
                    let mut slots = Vec::new();
                    for turn in 0..3_000 {
                        match pool.arrive(&Request::new(1, turn * 4 + thread, &tried)) {
                            Arrival::Dispatched(slot) => slots.push(slot),
                            _ => slots.clear(),
                        }
                    }
                });
            }
        });
        assert_eq!((pool.in_flight(), pool.picker.in_flight()), (0, 0));
        let loads = pool.picker.tiers[0].loads.as_ref().unwrap();
        let idle = WantedLoad::AtMost(LoadKey::new(0, 1));
        assert!((0..100).all(|index| loads.next(index, idle) == Some(index)));
    }
}

/// The largest number of looks that one exchange takes, over several in a row whose keys were seen
/// before.
fn looks_of(pool: &Arc<Balancer>) -> u64 {
    let tried = Tried::new();
    let look = |number: u64| {
        looks::take();
        let random = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let request = Request { key: random, ..Request::new(1, random, &tried) };
        drop(pool.arrive(&request));
        looks::take()
    };
    (1..50).map(look).for_each(drop);
    (1..50).map(look).max().unwrap_or(u64::MAX)
}

fn pool(policy: PolicyKind, limit: Option<u32>, queue: bool, endpoints: usize) -> Arc<Balancer> {
    let queue = queue.then_some(QueueSettings { max: 10, max_per_endpoint: None });
    let settings = Settings { queue, ..Settings::new(policy) };
    Balancer::new(settings, (0..endpoints).map(|number| member(number, 1, limit)).collect())
}

/// Fills every endpoint but these from the end.
fn fill(pool: &Arc<Balancer>, free: usize) -> Vec<Slot> {
    (0..pool.len() - free).filter_map(|index| pool.occupy(index)).collect()
}

/// The number of endpoints, and nodes above them, that an exchange looks at is the same for a
/// thousand endpoints as for ten thousand.
#[test]
fn the_looks_of_a_pick_do_not_grow_with_the_pool() {
    let bounded = HashSettings { balance_factor: BalanceFactor::from_percent(125) };
    let all = PolicyKind::all().iter().copied();
    for policy in all.chain([PolicyKind::Maglev(bounded), PolicyKind::RingHash(bounded)]) {
        let check = |state: &str, limit: Option<u32>, queue: bool, free: Option<usize>| {
            let pool = pool(policy, limit, queue, 10_000);
            let _slots = free.map(|free| fill(&pool, free));
            let looks = looks_of(&pool);
            assert!(looks <= 800, "{policy}, {state}: {looks}");
        };
        check("idle", None, false, None);
        check("idle with a queue", Some(1), true, None);
        let by_score = matches!(policy, PolicyKind::Fair(_));
        let by_bound = policy.hashes() == Some(bounded);
        if !by_score && !by_bound {
            // `fair` compares the scores of all if none is idle, and bounded loads are summed up.
            check("all busy", None, false, Some(0));
        }
        check("all full", Some(1), false, Some(0));
        check("all full, with a queue", Some(1), true, Some(0));
        if policy.hashes().is_none() {
            check("one free", Some(1), false, Some(1));
            check("two free, with a queue", Some(1), true, Some(2));
        }
        // The best seat for a key may be full, and all are drawn for then.
        let by_draw_for_keys = matches!(policy, PolicyKind::Hash(_));
        if !by_bound && !by_draw_for_keys {
            check("a tenth free", Some(1), false, Some(1_000));
        }
    }
}

/// An exchange that joins the pool's line does not look at the line of each endpoint.
#[test]
fn the_looks_of_joining_a_queue_do_not_grow_with_the_pool() {
    let pool = pool(PolicyKind::LeastConn, Some(1), true, 10_000);
    let _slots = fill(&pool, 0);
    let tried = Tried::new();
    let bound = Request { bound: Some(7), ..Request::new(1, 1, &tried) };
    let Arrival::Queued(_first) = pool.arrive(&bound) else { panic!("its endpoint is full") };
    looks::take();
    let arrival = pool.arrive(&Request::new(1, 2, &tried));
    let looks = looks::take();
    let Arrival::Queued(second) = arrival else { panic!("all are full") };
    assert_eq!((second.position(), second.ahead().len()), (1, 1));
    assert!(looks <= 500, "{looks}");
}

/// A step of a limit gives the new slot to the oldest in line, and looks at no other.
#[test]
fn the_looks_of_a_step_of_a_limit_do_not_grow_with_the_queue() {
    let looks_of_step = |waiting: usize| {
        let queue = Some(QueueSettings { max: 10_000, max_per_endpoint: None });
        let settings = Settings { queue, ..Settings::new(PolicyKind::LeastConn) };
        let member = Member { slow_start_us: 100_000_000, ..member(0, 1, Some(10)) };
        let pool = Balancer::new(settings, vec![member]);
        pool.set_health(0, Health::Unhealthy, 1);
        pool.set_health(0, Health::Healthy, 1);
        let tried = Tried::new();
        let arrive = |_| pool.arrive(&Request::new(1, 1, &tried));
        let arrivals: Vec<Arrival> = (0..waiting).map(arrive).collect();
        let due_us = pool.next_change_us(1).expect("a step");
        looks::take();
        pool.tick(due_us);
        let looks = looks::take();
        assert_eq!(pool.in_flight(), 2, "of {} arrivals", arrivals.len());
        looks
    };
    assert_eq!(looks_of_step(5_000), looks_of_step(10));
}

#[test]
fn the_verdict_of_an_agent_holds_beside_that_of_the_probes() {
    let pool = pool(PolicyKind::RoundRobin, None, false, 2);
    let picks_first = || {
        let tried = Tried::new();
        let picks = |_| match pool.arrive(&Request::new(1, 1, &tried)) {
            Arrival::Dispatched(slot) => slot.index() == 0,
            _ => panic!("one is always usable"),
        };
        (0..4).any(picks)
    };
    let health = || pool.endpoint(0).unwrap().health();
    pool.set_agent_health(0, Health::Unhealthy, 1);
    assert_eq!((picks_first(), health()), (false, Health::Unhealthy));
    pool.set_health(0, Health::Unhealthy, 1);
    pool.set_agent_health(0, Health::Healthy, 1);
    assert_eq!((picks_first(), health()), (false, Health::Unhealthy));
    pool.set_health(0, Health::Healthy, 1);
    assert_eq!((picks_first(), health()), (true, Health::Healthy));
}

#[test]
fn endpoints_that_are_out_by_their_own_word_neither_begin_nor_prevent_panic() {
    // Five of ten are out by their agents, and one of the others fails its probes.
    let settings = Settings { panic_percent: 50, ..Settings::new(PolicyKind::RoundRobin) };
    let pool = Balancer::new(settings, (0..10).map(|number| member(number, 1, None)).collect());
    for index in 0..5 {
        pool.set_agent_health(index, Health::Unhealthy, 1);
    }
    pool.set_health(9, Health::Unhealthy, 1);
    assert!(!pool.is_panicking());
    // One by one the rest fail, and the last drains by its own word.
    for index in 5..8 {
        pool.set_health(index, Health::Unhealthy, 1);
    }
    pool.set_agent_draining(8, true, 1);
    assert!(pool.is_panicking());
    let tried = Tried::new();
    for _ in 0..8 {
        let Arrival::Dispatched(slot) = pool.arrive(&Request::new(1, 1, &tried)) else {
            panic!("probes are ignored")
        };
        assert!(!(0..5).contains(&slot.index()) && slot.index() != 8, "{}", slot.index());
    }
}

#[test]
fn an_endpoint_that_drains_for_its_probes_takes_only_what_is_bound_to_it() {
    let pool = pool(PolicyKind::RoundRobin, None, false, 2);
    assert!(pool.set_probe_draining(0, true, 1) && !pool.set_probe_draining(0, true, 1));
    let tried = Tried::new();
    let picked = |bound: Option<usize>| {
        let request = Request { bound, ..Request::new(1, 1, &tried) };
        let Arrival::Dispatched(slot) = pool.arrive(&request) else { panic!("none is usable") };
        slot.index()
    };
    assert_eq!([picked(None), picked(None), picked(None)], [1, 1, 1]);
    assert_eq!(picked(Some(0)), 0);
    assert_eq!(pool.endpoint(0).unwrap().admin_state(), AdminState::Ready);
    assert!(pool.set_probe_draining(0, false, 1));
    assert!([picked(None), picked(None)].contains(&0));
}
