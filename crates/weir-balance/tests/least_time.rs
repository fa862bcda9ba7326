//! The policies by response time: shares, new endpoints, endpoints that were slow once.

use std::sync::Arc;

mod pool;

use pool::pick;
use weir_balance::{
    Balancer, ChosenBy, MeasuredTime, Member, PassiveSettings, PeakEwmaSettings, PolicyKind,
    Settings, Slot, Tried,
};

const MS: u64 = 1_000;
const SECOND: u64 = 1_000_000;
const LEAST_TIME: PolicyKind = PolicyKind::LeastTime(MeasuredTime::Header);
const PEAK: PolicyKind =
    PolicyKind::PeakEwma(PeakEwmaSettings { decay_us: PeakEwmaSettings::DECAY_US });

fn member(weight: u32) -> Member {
    Member {
        identity: 0,
        weight,
        max_conn: None,
        tier: 0,
        ejection: None,
        slow_start_us: 0,
        state: Arc::default(),
    }
}

fn pool(policy: PolicyKind, weights: &[u32]) -> Arc<Balancer> {
    Balancer::new(Settings::new(policy), weights.iter().map(|weight| member(*weight)).collect())
}

/// Sends `count` exchanges at a fixed rate to servers that answer the n-th after the time that
/// `takes` says, however many they work on; returns the picks of each.
fn serve(
    pool: &Arc<Balancer>,
    (from_us, every_us, count): (u64, u64, u64),
    takes: impl Fn(usize, u64) -> u64,
) -> Vec<u64> {
    let mut counts = vec![0; pool.len()];
    let mut running: Vec<(u64, u64, Slot)> = Vec::new();
    let mut random = fastrand::Rng::with_seed(11);
    for number in 0..count {
        let now_us = from_us + number * every_us;
        running.sort_by_key(|(end_us, ..)| *end_us);
        let ended = running.partition_point(|(end_us, ..)| *end_us <= now_us);
        for (end_us, took_us, mut slot) in running.drain(..ended) {
            slot.answered(end_us);
            slot.finish(took_us);
        }
        let mut slot = pick(pool, now_us, random.u64(..), &Tried::new()).expect("an endpoint");
        counts[slot.index()] += 1;
        let took_us = takes(slot.index(), now_us);
        slot.sent(now_us);
        running.push((now_us + took_us, took_us, slot));
    }
    counts
}

#[test]
fn the_slower_of_two_servers_gets_less() {
    for policy in [LEAST_TIME, PolicyKind::LeastTime(MeasuredTime::LastByte), PEAK] {
        let pool = pool(policy, &[1, 1]);
        // Scores are alike at a load three times as high, so at a rate nine times as high.
        let takes = |index: usize, _| [40 * MS, 120 * MS][index];
        let counts = serve(&pool, (0, MS, 60_000), takes);
        let ratio = counts[0] as f64 / counts[1] as f64;
        assert!((6.0..14.0).contains(&ratio), "{policy}: {counts:?}");
    }
}

#[test]
fn servers_that_are_equally_fast_share_by_weight() {
    for policy in [LEAST_TIME, PEAK] {
        let pool = pool(policy, &[3, 1]);
        let counts = serve(&pool, (0, MS, 20_000), |_, _| 40 * MS);
        assert!((14_500..15_500).contains(&counts[0]), "{policy}: {counts:?}");
    }
}

#[test]
fn before_the_first_response_it_is_least_conn() {
    for policy in [LEAST_TIME, PEAK] {
        let pool = pool(policy, &[1, 1, 1]);
        let slots: Vec<Slot> = (0..9).map(|_| pick(&pool, 0, 0, &Tried::new()).unwrap()).collect();
        assert!((0..3).all(|index| pool.endpoint(index).unwrap().in_flight() == 3));
        assert!(slots[0].decision().chosen_by == ChosenBy::Turn);
    }
}

#[test]
fn a_new_server_gets_the_share_of_the_fastest_until_it_responds() {
    for policy in [LEAST_TIME, PEAK] {
        let pool = pool(policy, &[1, 1, 1]);
        let sample = |index: usize, took_us: u64| {
            let mut slot = loop {
                let slot = pick(&pool, 0, 0, &Tried::new()).unwrap();
                if slot.index() == index {
                    break slot;
                }
            };
            slot.sent(0);
            slot.answered(took_us);
        };
        sample(0, 10 * MS);
        sample(1, 40 * MS);
        let slots: Vec<Slot> =
            (0..9).map(|_| pick(&pool, 40 * MS, 0, &Tried::new()).unwrap()).collect();
        let loads: Vec<u32> =
            (0..3).map(|index| pool.endpoint(index).unwrap().in_flight()).collect();
        assert_eq!(loads, [4, 1, 4], "{policy}");
        drop(slots);
    }
}

#[test]
fn a_server_that_was_slow_once_comes_back() {
    for policy in [LEAST_TIME, PEAK] {
        let pool = pool(policy, &[1, 1]);
        let takes = |index: usize, now_us: u64| {
            if index == 0 && (10 * SECOND..10 * SECOND + 50 * MS).contains(&now_us) {
                20 * SECOND
            } else {
                10 * MS
            }
        };
        let counts = serve(&pool, (0, 5 * MS, 2_000), takes);
        assert!((900..1_100).contains(&counts[0]), "{policy}: {counts:?}");
        // While the slow answers last, their number in flight alone drives others away.
        serve(&pool, (10 * SECOND, 5 * MS, 4_200), takes);
        let counts = serve(&pool, (31 * SECOND, 5 * MS, 1_000), takes);
        assert!(counts[0] < 300, "{policy}: {counts:?}");
        let counts = serve(&pool, (131 * SECOND, 5 * MS, 20_000), takes);
        assert!(counts[0] > 8_000, "{policy}: {counts:?}");
    }
}

#[test]
fn a_peak_turns_away_from_a_server_that_becomes_slow_sooner_than_an_average() {
    let slow = |policy| {
        let pool = pool(policy, &[1, 1]);
        serve(&pool, (0, MS, 20_000), |_, _| 10 * MS);
        serve(&pool, (20 * SECOND, MS, 1_000), |index, _| [100 * MS, 10 * MS][index])[0]
    };
    let (average, peak) = (slow(LEAST_TIME), slow(PEAK));
    assert!(peak < average, "{peak} and {average}");
}

#[test]
fn a_server_that_fails_fast_is_not_the_best_one() {
    let passive = PassiveSettings {
        errors: 0,
        window_us: SECOND,
        eject_us: SECOND,
        max_ejected_percent: 100,
    };
    for policy in [LEAST_TIME, PEAK] {
        let settings = Settings { passive, ..Settings::new(policy) };
        let pool = Balancer::new(settings, vec![member(1), member(1)]);
        serve(&pool, (0, MS, 1_000), |_, _| 10 * MS);
        let mut failures = 0;
        for number in 0..1_000 {
            let now_us = SECOND + number * MS;
            let mut slot = pick(&pool, now_us, 0, &Tried::new()).unwrap();
            if slot.index() == 0 {
                failures += 1;
                pool.endpoint_failed(0, now_us, 0);
            } else {
                slot.sent(now_us);
                slot.answered(now_us + 10 * MS);
            }
        }
        assert!(failures < 20, "{policy}: {failures}");
    }
}

#[test]
fn of_many_the_better_of_two_drawn_ones_is_taken() {
    for policy in [LEAST_TIME, PEAK] {
        let pool = pool(policy, &[1; 100]);
        let takes = |index: usize, _| if index < 50 { 10 * MS } else { 100 * MS };
        let counts = serve(&pool, (0, MS, 50_000), takes);
        let fast: u64 = counts[..50].iter().sum();
        // Two slow ones are drawn in a quarter of the picks.
        assert!((35_000..40_000).contains(&fast), "{policy}: {fast}");
    }
}

#[test]
fn averages_survive_a_reload() {
    let members = [member(1), member(1)];
    let settings = Settings::new(LEAST_TIME);
    let before = Balancer::new(settings, members.to_vec());
    serve(&before, (0, MS, 10_000), |index, _| [10 * MS, 200 * MS][index]);
    let after = Balancer::prepared(&before, settings, members.to_vec());
    after.succeed(&before, &[], 10 * SECOND);
    let picks: Vec<usize> =
        (0..5).map(|_| pick(&after, 10 * SECOND, 0, &Tried::new()).unwrap().index()).collect();
    assert_eq!(picks, [0; 5]);
    let slot = pick(&after, 10 * SECOND, 0, &Tried::new()).unwrap();
    assert_eq!(slot.decision().chosen_by, ChosenBy::Better);
    assert_eq!(slot.decision().runner_up().unwrap().index, 1);
}

#[test]
fn threads_that_pick_and_answer_at_once_keep_the_counts() {
    let pool = pool(PEAK, &[1, 1, 1]);
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let pool = &pool;
            scope.spawn(move || {
                for number in 0..5_000 {
                    let now_us = number * 100 + thread;
                    let mut slot = pick(pool, now_us, number, &Tried::new()).unwrap();
                    slot.sent(now_us);
                    slot.answered(now_us + 100 + 900 * slot.index() as u64);
                    slot.finish(100);
                }
            });
        }
    });
    assert_eq!(pool.in_flight(), 0);
    let picks: Vec<u64> = (0..3).map(|index| pool.endpoint(index).unwrap().picks()).collect();
    assert_eq!(picks.iter().sum::<u64>(), 20_000);
    assert!(picks[0] > picks[1] + picks[2], "{picks:?}");
}
