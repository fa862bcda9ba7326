//! Passive ejection: windows, probation and the cap.

use std::sync::Arc;

mod pool;

use pool::pick;
use weir_balance::{
    AfterFailure, Balancer, EjectionRule, Member, PassiveSettings, PolicyKind, Rejection, Settings,
    Tried,
};

const SECOND: u64 = 1_000_000;

fn pool(endpoints: usize, errors: u32, max_ejected_percent: u8) -> Arc<Balancer> {
    let passive = PassiveSettings {
        errors,
        window_us: 10 * SECOND,
        eject_us: 30 * SECOND,
        max_ejected_percent,
    };
    let member = |_| Member {
        identity: 0,
        weight: 1,
        max_conn: None,
        tier: 0,
        ejection: None,
        slow_start_us: 0,
        state: Arc::default(),
    };
    let settings = Settings { passive, ..Settings::new(PolicyKind::RoundRobin) };
    Balancer::new(settings, (0..endpoints).map(member).collect())
}

fn ejected_at(now_us: u64) -> AfterFailure {
    AfterFailure::Ejected { until_us: now_us + 30 * SECOND }
}

fn fail(pool: &Arc<Balancer>, index: usize, times: u32, now_us: u64) -> AfterFailure {
    (0..times).fold(AfterFailure::Counted, |_, _| pool.endpoint_failed(index, now_us, 0))
}

fn picked(pool: &Arc<Balancer>, now_us: u64) -> Vec<usize> {
    let mut seen: Vec<usize> =
        (0..8).filter_map(|_| Some(pick(pool, now_us, 0, &Tried::new()).ok()?.index())).collect();
    seen.sort_unstable();
    seen.dedup();
    seen
}

#[test]
fn errors_within_the_window_eject_for_the_time_set() {
    let pool = pool(2, 3, 50);
    assert_eq!(fail(&pool, 0, 2, SECOND), AfterFailure::Counted);
    assert_eq!(fail(&pool, 0, 1, 12 * SECOND), AfterFailure::Counted);
    assert_eq!(fail(&pool, 0, 1, 13 * SECOND), AfterFailure::Counted);
    assert_eq!(fail(&pool, 0, 1, 14 * SECOND), ejected_at(14 * SECOND));
    assert_eq!(picked(&pool, 14 * SECOND), [1]);
    assert_eq!(picked(&pool, 44 * SECOND - 1), [1]);
    assert_eq!(picked(&pool, 44 * SECOND), [0, 1]);
    assert_eq!(pool.endpoint(0).unwrap().ejections(), 1);
    assert_eq!(pool.endpoint(0).unwrap().failures(), 5);
}

#[test]
fn failures_that_were_under_way_do_not_prolong_an_ejection() {
    let pool = pool(2, 1, 50);
    assert_eq!(fail(&pool, 0, 1, 0), ejected_at(0));
    assert_eq!(fail(&pool, 0, 5, 29 * SECOND), AfterFailure::Counted);
    assert_eq!(picked(&pool, 30 * SECOND), [0, 1]);
}

#[test]
fn the_first_failure_after_an_ejection_ejects_again_and_a_success_ends_that() {
    let pool = pool(2, 3, 50);
    assert_eq!(fail(&pool, 0, 3, 0), ejected_at(0));
    assert_eq!(fail(&pool, 0, 1, 100 * SECOND), ejected_at(100 * SECOND));
    pool.endpoint_succeeded(0);
    assert_eq!(fail(&pool, 0, 2, 200 * SECOND), AfterFailure::Counted);
    assert_eq!(fail(&pool, 0, 1, 200 * SECOND), ejected_at(200 * SECOND));
}

#[test]
fn a_success_between_does_not_forget_failures() {
    let pool = pool(2, 3, 50);
    fail(&pool, 0, 2, 0);
    pool.endpoint_succeeded(0);
    assert_eq!(fail(&pool, 0, 1, 0), ejected_at(0));
}

#[test]
fn no_more_are_out_than_the_cap_allows() {
    let pool = pool(4, 1, 50);
    let outcomes: Vec<_> = (0..4).map(|index| fail(&pool, index, 1, 0)).collect();
    assert_eq!(
        outcomes,
        [ejected_at(0), ejected_at(0), AfterFailure::Refused, AfterFailure::Refused]
    );
    assert_eq!(picked(&pool, 0), [2, 3]);
    assert_eq!(pool.endpoint(3).unwrap().ejections_refused(), 1);
    // Ejected endpoints come back, which leaves room under the cap.
    assert_eq!(fail(&pool, 2, 1, 30 * SECOND), ejected_at(30 * SECOND));
}

#[test]
fn the_only_endpoint_stays_at_fifty_percent_and_goes_at_a_hundred() {
    assert_eq!(fail(&pool(1, 1, 50), 0, 3, 0), AfterFailure::Refused);
    let all = pool(1, 1, 100);
    assert_eq!(fail(&all, 0, 1, 0), ejected_at(0));
    assert_eq!(pick(&all, 0, 0, &Tried::new()).unwrap_err(), Rejection::Unavailable);
}

#[test]
fn zero_errors_never_eject() {
    assert_eq!(fail(&pool(2, 0, 100), 0, 1000, 0), AfterFailure::Counted);
}

/// The number of uses of an endpoint that works only in the second half of each 30 seconds, is
/// ejected for 30 seconds, and is always tried as soon as possible.
fn uses_of_one_that_flaps(mut random: impl FnMut() -> u64) -> usize {
    let passive = PassiveSettings {
        errors: 1,
        window_us: SECOND,
        eject_us: 30 * SECOND,
        max_ejected_percent: 50,
    };
    let member = |_| Member {
        identity: 0,
        weight: 1,
        max_conn: None,
        tier: 0,
        ejection: None,
        slow_start_us: 0,
        state: Arc::default(),
    };
    let settings = Settings { passive, ..Settings::new(PolicyKind::First) };
    let pool = Balancer::new(settings, (0..2).map(member).collect());
    let mut uses = 0;
    for now_us in (0..3_000 * SECOND).step_by(SECOND as usize / 2) {
        let index = pick(&pool, now_us, 0, &Tried::new()).unwrap().index();
        if index == 0 && now_us % (30 * SECOND) < 15 * SECOND {
            pool.endpoint_failed(0, now_us, random());
        } else if index == 0 {
            pool.endpoint_succeeded(0);
            uses += 1;
        }
    }
    uses
}

#[test]
fn an_endpoint_that_flaps_with_the_period_of_its_ejections_is_used() {
    assert_eq!(uses_of_one_that_flaps(|| 0), 0, "without a spread it is met in its bad half only");
    for seed in 0..50 {
        let mut random = fastrand::Rng::with_seed(seed);
        let uses = uses_of_one_that_flaps(|| random.u64(..));
        assert!(uses > 100, "{uses} of 3,000 with seed {seed}");
    }
}

#[test]
fn several_balancers_do_not_come_back_at_the_same_instant() {
    let mut random = fastrand::Rng::with_seed(7);
    let mut ends: Vec<AfterFailure> =
        (0..20).map(|_| pool(2, 1, 50).endpoint_failed(0, 0, random.u64(..))).collect();
    ends.sort_by_key(|end| match end {
        AfterFailure::Ejected { until_us } => *until_us,
        other => panic!("{other:?}"),
    });
    ends.dedup();
    assert_eq!(ends.len(), 20);
}

#[test]
fn an_endpoint_has_a_rule_of_its_own() {
    let rule = |errors, window_us, eject_us| EjectionRule { errors, window_us, eject_us };
    let member = |ejection| Member {
        identity: 0,
        weight: 1,
        max_conn: None,
        tier: 0,
        ejection,
        slow_start_us: 0,
        state: Arc::default(),
    };
    let passive = PassiveSettings {
        errors: 1,
        window_us: SECOND,
        eject_us: 30 * SECOND,
        max_ejected_percent: 100,
    };
    let settings = Settings { passive, ..Settings::new(PolicyKind::RoundRobin) };
    let rules = [None, Some(rule(2, 5 * SECOND, 60 * SECOND)), Some(rule(0, SECOND, SECOND))];
    let pool = Balancer::new(settings, rules.map(member).to_vec());
    assert_eq!(fail(&pool, 0, 1, SECOND), ejected_at(SECOND));
    assert_eq!(fail(&pool, 1, 1, SECOND), AfterFailure::Counted);
    assert_eq!(fail(&pool, 1, 1, 7 * SECOND), AfterFailure::Counted, "outside its window");
    let until_us = 68 * SECOND;
    assert_eq!(fail(&pool, 1, 1, 8 * SECOND), AfterFailure::Ejected { until_us });
    assert_eq!(fail(&pool, 2, 100, 8 * SECOND), AfterFailure::Counted);
    assert_eq!(picked(&pool, 8 * SECOND), [2]);
    assert_eq!(picked(&pool, 40 * SECOND), [0, 2]);
    assert_eq!(picked(&pool, until_us), [0, 1, 2]);
}
