//! Slow start: the share and the limit of an endpoint that returns.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};

mod pool;

use pool::pick;
use weir_balance::{
    AdminState, AfterFailure, Arrival, Availability, BalanceFactor, Balancer, EndpointState,
    HashSettings, Health, Member, PassiveSettings, PolicyKind, QueueSettings, Request, Settings,
    Slot, Ticket, Tried,
};

const SECOND: u64 = 1_000_000;

/// An endpoint of weight 1 whose slow start lasts 100 seconds.
fn member(state: &Arc<EndpointState>) -> Member {
    Member {
        identity: 0,
        weight: 1,
        max_conn: None,
        tier: 0,
        ejection: None,
        slow_start_us: 100 * SECOND,
        state: Arc::clone(state),
    }
}

fn members(count: usize) -> Vec<Member> {
    (0..count).map(|_| member(&Arc::default())).collect()
}

fn pool(policy: PolicyKind, count: usize) -> Arc<Balancer> {
    Balancer::new(Settings::new(policy), members(count))
}

/// The endpoint goes down and comes back at `now_us`.
fn returns(pool: &Balancer, index: usize, now_us: u64) {
    pool.set_health(index, Health::Unhealthy, now_us);
    pool.set_health(index, Health::Healthy, now_us);
}

/// How often each endpoint is picked in `picks` picks at one moment; each slot is given back at
/// once.
fn picks(pool: &Arc<Balancer>, now_us: u64, picks: usize) -> Vec<usize> {
    let mut random = fastrand::Rng::with_seed(7);
    let mut counts = vec![0; pool.len()];
    for _ in 0..picks {
        let slot = pick(pool, now_us, random.u64(..), &Tried::new()).expect("an endpoint");
        counts[slot.index()] += 1;
    }
    counts
}

/// The numbers agree, but for the part of a turn that is saved up at the end.
#[track_caller]
fn assert_shares(counts: &[usize], expected: &[usize]) {
    let near = |(one, other): (&usize, &usize)| one.abs_diff(*other) <= 2;
    assert!(counts.iter().zip(expected).all(near), "{counts:?}, not {expected:?}");
}

#[test]
fn the_share_of_an_endpoint_that_returns_grows_linearly() {
    let pool = pool(PolicyKind::RoundRobin, 2);
    assert_eq!(picks(&pool, 0, 1000), [500, 500], "not at the start");
    returns(&pool, 0, SECOND);
    let at = |seconds: u64| picks(&pool, SECOND + seconds * SECOND, 12_000)[0];
    let mut before = 0;
    for (seconds, share) in [(0, 0.0098), (1, 0.0098), (25, 0.25), (50, 0.5), (75, 0.75)] {
        let expected = 12_000.0 * share / (1.0 + share);
        let own = at(seconds);
        assert!((own as f64 - expected).abs() < 4.0, "{own}, {expected} after {seconds} s");
        assert!(own >= before);
        before = own;
    }
    assert_eq!([at(100), at(1000)], [6_000, 6_000]);
}

#[test]
fn turns_of_a_slow_endpoint_are_evenly_spread() {
    let pool = pool(PolicyKind::RoundRobin, 2);
    returns(&pool, 0, 0);
    let order: String = (0..18)
        .map(|_| pick(&pool, 50 * SECOND, 0, &Tried::new()).unwrap().index().to_string())
        .collect();
    assert_eq!(order, "110110110110110110");
}

#[test]
fn draws_follow_the_share() {
    for policy in [PolicyKind::Random, PolicyKind::Random2] {
        let pool = pool(policy, 2);
        returns(&pool, 0, 0);
        let own = picks(&pool, 25 * SECOND, 20_000)[0];
        // Drawn first in one case of five. Of two idle endpoints the first drawn is taken.
        assert!((3_800..4_200).contains(&own), "{policy}: {own}");
    }
}

#[test]
fn least_conn_compares_with_the_reduced_weight() {
    let pool = pool(PolicyKind::LeastConn, 2);
    returns(&pool, 0, 0);
    let slots: Vec<Slot> =
        (0..50).map(|_| pick(&pool, 25 * SECOND, 0, &Tried::new()).unwrap()).collect();
    let own = slots.iter().filter(|slot| slot.index() == 0).count();
    assert_eq!(own, 10);
    drop(slots);
    let slots: Vec<Slot> =
        (0..50).map(|_| pick(&pool, 100 * SECOND, 0, &Tried::new()).unwrap()).collect();
    assert_eq!(slots.iter().filter(|slot| slot.index() == 0).count(), 25);
}

#[test]
fn ties_of_least_conn_go_to_a_slow_endpoint_seldom() {
    let pool = pool(PolicyKind::LeastConn, 2);
    returns(&pool, 0, 0);
    assert_shares(&picks(&pool, 25 * SECOND, 1_000), &[200, 800]);
}

#[test]
fn a_bounded_load_is_bounded_by_the_reduced_weight() {
    let factor = BalanceFactor::from_percent(100);
    let pool = pool(PolicyKind::Hash(HashSettings { balance_factor: factor }), 2);
    returns(&pool, 0, 0);
    let take = |_| pick(&pool, 25 * SECOND, 0, &Tried::new()).unwrap();
    let slots: Vec<Slot> = (0..50).map(take).collect();
    assert_eq!(slots.iter().filter(|slot| slot.index() == 0).count(), 10);
}

#[test]
fn endpoints_that_return_at_once_take_turns_as_always() {
    for count in [1, 2, 3] {
        let pool = pool(PolicyKind::RoundRobin, count);
        (0..count).for_each(|index| returns(&pool, index, 0));
        for seconds in [0, 30] {
            let counts = picks(&pool, seconds * SECOND, 600);
            assert_eq!(counts, vec![600 / count; count], "after {seconds} s");
        }
    }
    let pool = pool(PolicyKind::Random, 2);
    (0..2).for_each(|index| returns(&pool, index, 0));
    assert!((450..550).contains(&picks(&pool, SECOND, 1000)[0]));
}

#[test]
fn a_slow_start_begins_again_if_the_endpoint_fails_midway() {
    let pool = pool(PolicyKind::LeastConn, 2);
    returns(&pool, 0, 0);
    assert_shares(&picks(&pool, 50 * SECOND, 300), &[100, 200]);
    pool.set_health(0, Health::Unhealthy, 60 * SECOND);
    assert_shares(&picks(&pool, 70 * SECOND, 300), &[0, 300]);
    pool.set_health(0, Health::Healthy, 80 * SECOND);
    assert_shares(&picks(&pool, 105 * SECOND, 1_000), &[200, 800]);
    assert_shares(&picks(&pool, 180 * SECOND, 300), &[150, 150]);
}

#[test]
fn every_kind_of_return_begins_a_slow_start_but_not_the_first_resolution() {
    let check = |name: &str, change: &dyn Fn(&Arc<Balancer>), expected: usize| {
        let pool = pool(PolicyKind::RoundRobin, 2);
        change(&pool);
        let own = picks(&pool, 25 * SECOND, 1_000)[0];
        assert!(own.abs_diff(expected) <= 2, "{name}: {own}, not {expected}");
    };
    check("probes", &|pool| returns(pool, 0, 0), 200);
    check(
        "maintenance",
        &|pool| {
            pool.set_admin_state(0, AdminState::Maintenance, 0);
            pool.set_admin_state(0, AdminState::Ready, 0);
        },
        200,
    );
    check(
        "draining keeps the endpoint warm",
        &|pool| {
            pool.set_admin_state(0, AdminState::Draining, 0);
            pool.set_admin_state(0, AdminState::Ready, 0);
        },
        500,
    );
    check(
        "its name resolves again",
        &|pool| {
            pool.set_availability(0, Availability::Unavailable, 0);
            pool.set_availability(0, Availability::Available, 0);
        },
        200,
    );
    check(
        "healthy again while in maintenance, which ends later",
        &|pool| {
            pool.set_admin_state(0, AdminState::Maintenance, 0);
            returns(pool, 0, 0);
            pool.set_admin_state(0, AdminState::Ready, 0);
        },
        200,
    );
    let unknown = Arc::new(EndpointState::new(Availability::Unavailable));
    let pool = Balancer::new(
        Settings::new(PolicyKind::RoundRobin),
        vec![member(&unknown), member(&Arc::default())],
    );
    pool.set_availability(0, Availability::Available, SECOND);
    assert_shares(&picks(&pool, 2 * SECOND, 100), &[50, 50]);
}

#[test]
fn the_end_of_an_ejection_begins_a_slow_start() {
    let passive = PassiveSettings {
        errors: 1,
        window_us: SECOND,
        eject_us: 10 * SECOND,
        max_ejected_percent: 50,
    };
    let settings = Settings { passive, ..Settings::new(PolicyKind::RoundRobin) };
    let pool = Balancer::new(settings, members(2));
    let until_us = 10 * SECOND;
    assert_eq!(pool.endpoint_failed(0, 0, 0), AfterFailure::Ejected { until_us });
    assert_shares(&picks(&pool, 9 * SECOND, 100), &[0, 100]);
    assert_shares(&picks(&pool, 35 * SECOND, 1_000), &[200, 800]);
    assert_shares(&picks(&pool, 110 * SECOND, 100), &[50, 50]);
}

#[test]
fn a_reload_keeps_slow_starts_and_begins_those_of_new_endpoints() {
    let states: Vec<Arc<EndpointState>> = (0..3).map(|_| Arc::default()).collect();
    let settings = Settings::new(PolicyKind::RoundRobin);
    let before = Balancer::new(settings, states[..2].iter().map(member).collect());
    returns(&before, 0, 0);
    let heavy = Member { weight: 3, ..member(&states[0]) };
    let after = Balancer::prepared(&before, settings, vec![heavy, member(&states[1])]);
    after.succeed(&before, &[AdminState::Ready; 2], 10 * SECOND);
    // Three times the weight at half the share.
    assert_shares(&picks(&after, 50 * SECOND, 1_000), &[600, 400]);
    assert_shares(&picks(&after, 100 * SECOND, 1_000), &[750, 250]);

    let last = Balancer::prepared(&after, settings, states.iter().map(member).collect());
    last.succeed(&after, &[AdminState::Ready; 3], 200 * SECOND);
    assert_shares(&picks(&last, 225 * SECOND, 900), &[400, 400, 100]);

    // A pool of which no endpoint stays begins like a new one.
    let other = Balancer::prepared(&last, settings, members(2));
    other.succeed(&last, &[AdminState::Ready; 2], 400 * SECOND);
    assert_shares(&picks(&other, 400 * SECOND, 100), &[50, 50]);
}

#[test]
fn maintenance_that_a_reload_ends_begins_a_slow_start() {
    let states: Vec<Arc<EndpointState>> = (0..2).map(|_| Arc::default()).collect();
    let settings = Settings::new(PolicyKind::RoundRobin);
    let list = || states.iter().map(member).collect::<Vec<_>>();
    let before = Balancer::new(settings, list());
    before.set_admin_state(0, AdminState::Maintenance, 0);
    let after = Balancer::prepared(&before, settings, list());
    after.succeed(&before, &[AdminState::Ready; 2], 10 * SECOND);
    assert_shares(&picks(&after, 35 * SECOND, 1_000), &[200, 800]);
}

#[test]
fn a_slow_start_of_another_process_continues() {
    let pool = pool(PolicyKind::RoundRobin, 2);
    pool.continue_slow_start(0, 25 * SECOND, 5);
    assert_shares(&picks(&pool, 5, 1_000), &[200, 800]);
    assert_eq!(pool.slow_for_us(0, 5), Some(25 * SECOND));
    assert_shares(&picks(&pool, 75 * SECOND + 5, 1_000), &[500, 500]);
    assert_eq!(pool.slow_for_us(0, 75 * SECOND + 5), None);
}

/// A successor whose endpoints have slow starts of `seconds`.
fn with_slow_starts(
    before: &Arc<Balancer>,
    state: &Arc<EndpointState>,
    seconds: u64,
) -> Arc<Balancer> {
    let slow_start_us = seconds * SECOND;
    let first = Member { max_conn: Some(10), slow_start_us, ..member(state) };
    Balancer::prepared(before, queued(), vec![first])
}

#[test]
fn a_slow_start_that_began_long_before_the_clock_ends() {
    let state = Arc::default();
    let before = Balancer::new(queued(), vec![Member { max_conn: Some(10), ..member(&state) }]);
    before.continue_slow_start(0, 45 * SECOND, 200_000);
    assert!(before.next_change_us(200_000).is_some());
    let after = with_slow_starts(&before, &state, 30);
    after.succeed(&before, &[AdminState::Ready], 200_000);
    assert_eq!((after.slow_for_us(0, 200_000), state.max_conn()), (None, Some(10)));
    assert_eq!(after.next_change_us(200_000), None);
    // Shorter in the new process at once.
    let pool = limited(10);
    pool.continue_slow_start(0, 145 * SECOND, 200_000);
    assert_eq!((pool.slow_for_us(0, 200_000), pool.next_change_us(200_000)), (None, None));
}

#[test]
fn a_slow_start_that_begins_while_a_reload_is_prepared_goes_on() {
    let state = Arc::default();
    let before = Balancer::new(queued(), vec![Member { max_conn: Some(10), ..member(&state) }]);
    let after = with_slow_starts(&before, &state, 100);
    returns(&before, 0, SECOND);
    after.succeed(&before, &[AdminState::Ready], 2 * SECOND);
    assert_eq!(state.max_conn(), Some(1));
    assert_eq!(after.next_change_us(2 * SECOND), Some(21 * SECOND));
}

#[test]
fn a_longer_slow_start_does_not_revive_one_that_has_ended() {
    let state = Arc::default();
    let before = Balancer::new(queued(), vec![Member { max_conn: Some(10), ..member(&state) }]);
    returns(&before, 0, SECOND);
    let after = with_slow_starts(&before, &state, 1_000);
    after.succeed(&before, &[AdminState::Ready], 102 * SECOND);
    assert_eq!((after.slow_for_us(0, 102 * SECOND), state.max_conn()), (None, Some(10)));
    // One that has not ended is prolonged.
    returns(&after, 0, 200 * SECOND);
    let last = with_slow_starts(&after, &state, 2_000);
    last.succeed(&after, &[AdminState::Ready], 1_199 * SECOND);
    assert_eq!(last.slow_for_us(0, 1_201 * SECOND), Some(1_001 * SECOND));
}

#[test]
fn steps_of_limits_are_taken_together() {
    let states: Vec<Arc<EndpointState>> = (0..50).map(|_| Arc::default()).collect();
    let one = |state| Member { max_conn: Some(100), ..member(state) };
    let pool = Balancer::new(queued(), states.iter().map(one).collect());
    (0..50).for_each(|index| returns(&pool, index, SECOND + index as u64));
    let due = std::iter::successors(Some(SECOND), |at| pool.next_change_us(*at));
    let due: Vec<u64> = due.take_while(|at| *at < 11 * SECOND).collect();
    assert!(due.windows(2).all(|pair| pair[1] - pair[0] >= 10_000), "{due:?}");
}

/// Counts how often it is woken.
#[derive(Default)]
struct Alarm(AtomicUsize);

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn the_ticker_is_woken_when_a_slow_start_begins_and_ends_with_the_queue() {
    let pool = limited(2);
    let alarm = Arc::<Alarm>::default();
    let waker = Waker::from(Arc::clone(&alarm));
    let slots = [arrive(&pool, 0).expect("a slot"), arrive(&pool, 0).expect("a slot")];
    let tickets = [arrive(&pool, 0).expect_err("it is full"), arrive(&pool, 0).expect_err("it is")];
    let mut ticker = pool.ticker().expect("none runs");
    assert!(pool.ticker().is_none(), "one runs");
    assert_eq!(ticker.tick(0, &waker), Some(u64::MAX));
    let unknown = Availability::Unavailable;
    pool.set_availability(0, unknown, SECOND);
    drop(tickets);
    pool.set_availability(0, Availability::Available, SECOND);
    let tickets = [arrive(&pool, SECOND).expect_err("1"), arrive(&pool, SECOND).expect_err("2")];
    assert_eq!(alarm.0.load(Ordering::Relaxed), 1);
    assert_eq!(ticker.tick(SECOND, &waker), Some(101 * SECOND));
    drop(slots);
    let state = pool.endpoint(0).unwrap();
    assert_eq!((state.max_conn(), state.in_flight()), (Some(1), 1));
    assert_eq!(ticker.tick(101 * SECOND, &waker), None);
    assert_eq!((state.max_conn(), state.in_flight()), (Some(2), 2));
    assert_eq!(alarm.0.load(Ordering::Relaxed), 1);
    drop(tickets);
    let other = pool.ticker().expect("none runs");
    drop(ticker);
    assert!(pool.ticker().is_none(), "its end takes nothing from the next one");
    drop(other);
    assert!(pool.ticker().is_some());
}

#[test]
fn a_slow_endpoint_that_is_passed_over_is_no_inversion() {
    let pool = pool(PolicyKind::RoundRobin, 2);
    returns(&pool, 0, 0);
    let slots: Vec<Slot> = (0..4).map(|_| pick(&pool, SECOND, 0, &Tried::new()).unwrap()).collect();
    assert!(slots.iter().all(|slot| slot.index() == 1));
    assert_eq!(pool.counters().inversions, 0);
}

fn queued() -> Settings {
    let queue = Some(QueueSettings { max: 1000, max_per_endpoint: None });
    Settings { queue, ..Settings::new(PolicyKind::RoundRobin) }
}

fn limited(max_conn: u32) -> Arc<Balancer> {
    Balancer::new(queued(), vec![Member { max_conn: Some(max_conn), ..member(&Arc::default()) }])
}

fn arrive(pool: &Arc<Balancer>, now_us: u64) -> Result<Slot, Ticket> {
    match pool.arrive(&Request::new(now_us, 0, &Tried::new())) {
        Arrival::Dispatched(slot) => Ok(slot),
        Arrival::Queued(ticket) => Err(ticket),
        Arrival::Rejected(rejection) => panic!("{rejection:?}"),
    }
}

#[test]
fn with_a_queue_the_limit_grows_and_waiting_exchanges_get_the_new_slots() {
    let pool = limited(10);
    let state = pool.endpoint(0).unwrap();
    assert_eq!(state.max_conn(), Some(10));
    returns(&pool, 0, SECOND);
    assert_eq!(state.max_conn(), Some(1));
    let (slots, tickets): (Vec<_>, Vec<_>) =
        (0..20).map(|_| arrive(&pool, SECOND)).partition(Result::is_ok);
    assert_eq!((slots.len(), tickets.len()), (1, 19));
    let mut now_us = SECOND;
    for limit in 2..=10 {
        let due_us = pool.next_change_us(now_us).expect("a step");
        assert_eq!(due_us, SECOND + u64::from(limit) * 10 * SECOND);
        pool.tick(due_us - 1);
        assert_eq!(state.in_flight(), limit - 1);
        pool.tick(due_us);
        assert_eq!((state.max_conn(), state.in_flight()), (Some(limit), limit));
        assert_eq!(pool.audit(due_us), 0);
        now_us = due_us;
    }
    assert_eq!(pool.next_change_us(now_us), None);
}

#[test]
fn a_limit_that_falls_under_running_exchanges_is_no_violation() {
    let pool = limited(10);
    let slots: Vec<Slot> = (0..10).map(|_| arrive(&pool, 0).expect("a slot")).collect();
    returns(&pool, 0, SECOND);
    assert_eq!((pool.endpoint(0).unwrap().max_conn(), pool.audit(SECOND)), (Some(1), 0));
    drop(slots);
    assert_eq!(pool.audit(SECOND), 0);
    let own = arrive(&pool, SECOND).expect("a slot");
    drop(arrive(&pool, SECOND).expect_err("the limit is 1"));
    drop(own);
}

#[test]
fn a_limit_set_at_run_time_grows_too() {
    let pool = limited(10);
    returns(&pool, 0, SECOND);
    pool.set_max_conn(0, Some(100), SECOND);
    let state = pool.endpoint(0).unwrap();
    assert_eq!(state.max_conn(), Some(1));
    pool.tick(51 * SECOND);
    assert_eq!(state.max_conn(), Some(50));
    pool.set_max_conn(0, None, 60 * SECOND);
    assert_eq!(state.max_conn(), None);
    pool.set_max_conn(0, Some(100), 101 * SECOND);
    assert_eq!(state.max_conn(), Some(100));
}

#[test]
fn without_a_queue_the_limit_is_whole() {
    let settings = Settings::new(PolicyKind::RoundRobin);
    let pool =
        Balancer::new(settings, vec![Member { max_conn: Some(10), ..member(&Arc::default()) }]);
    returns(&pool, 0, 0);
    let slots: Vec<_> = (0..11).map(|_| pick(&pool, SECOND, 0, &Tried::new())).collect();
    assert_eq!(slots.iter().filter(|slot| slot.is_ok()).count(), 10);
}

#[test]
fn pools_of_many_endpoints_keep_the_shares() {
    for policy in [PolicyKind::RoundRobin, PolicyKind::Random, PolicyKind::LeastConn] {
        let pool = pool(policy, 100);
        returns(&pool, 3, 0);
        let counts = picks(&pool, 50 * SECOND, 39_800);
        let own = counts[3];
        assert!((150..250).contains(&own), "{policy}: {own}");
        assert!(counts.iter().enumerate().all(|(index, count)| index == 3 || *count > 300));
        (0..100).for_each(|index| returns(&pool, index, 100 * SECOND));
        let counts = picks(&pool, 101 * SECOND, 20_000);
        assert!(counts.iter().all(|count| (120..280).contains(count)), "{policy}: {counts:?}");
    }
}

#[test]
fn threads_that_pick_at_once_keep_the_share() {
    let pool = pool(PolicyKind::RoundRobin, 2);
    returns(&pool, 0, 0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| picks(&pool, 25 * SECOND, 5_000));
        }
    });
    let own = pool.endpoint(0).unwrap().picks();
    assert!((3_800..=4_200).contains(&own), "{own}");
}
