//! The policies against a naive reference, over sequences of picks, returns, failures and
//! recoveries.

use std::collections::HashMap;
use std::sync::Arc;

use proptest::prelude::*;
mod pool;

use pool::pick;
use weir_balance::{
    Availability, Balancer, Member, PolicyKind, Rejection, Settings, Slot, Tried, hash_key,
};

fn member(weight: u32, max_conn: Option<u32>, backup: bool) -> Member {
    Member {
        identity: 0,
        weight,
        max_conn,
        tier: u8::from(backup),
        ejection: None,
        slow_start_us: 0,
        state: Arc::default(),
    }
}

fn balancer(policy: PolicyKind, weights: &[u32]) -> Arc<Balancer> {
    let members = weights.iter().map(|weight| member(*weight, None, false)).collect();
    Balancer::new(Settings::new(policy), members)
}

fn picks(pool: &Arc<Balancer>, count: u64) -> Vec<usize> {
    let mut random = fastrand::Rng::with_seed(count);
    (0..count).map(|_| pick(pool, 0, random.u64(..), &Tried::new()).unwrap().index()).collect()
}

fn shares(balancer: &Arc<Balancer>, count: u64) -> Vec<u64> {
    let mut shares = vec![0; balancer.len()];
    for index in picks(balancer, count) {
        shares[index] += 1;
    }
    shares
}

#[test]
fn round_robin_without_an_ineligible_neighbour_stays_fair() {
    let pool = balancer(PolicyKind::RoundRobin, &[1, 1, 1]);
    pool.set_availability(1, Availability::Unavailable, 0);
    assert_eq!(picks(&pool, 6), [0, 2, 0, 2, 0, 2]);
    let pool = balancer(PolicyKind::RoundRobin, &[5, 1, 1]);
    assert_eq!(picks(&pool, 7), [0, 0, 1, 0, 2, 0, 0]);
    pool.set_availability(0, Availability::Unavailable, 0);
    assert_eq!(picks(&pool, 4), [1, 2, 1, 2]);
}

#[test]
fn round_robin_shares_the_rest_when_most_of_the_weight_is_out() {
    let pool = balancer(PolicyKind::RoundRobin, &[60_000, 2, 1]);
    pool.set_availability(0, Availability::Unavailable, 0);
    let shares = shares(&pool, 30_000);
    assert_eq!(shares[0], 0);
    assert!((18_500..21_500).contains(&shares[1]), "{shares:?}");
}

#[test]
fn least_conn_of_an_idle_pool_goes_by_weight() {
    let pool = balancer(PolicyKind::LeastConn, &[3, 1]);
    assert_eq!(shares(&pool, 400), [300, 100]);
}

#[test]
fn least_conn_fills_in_proportion() {
    let pool = balancer(PolicyKind::LeastConn, &[3, 1]);
    let slots: Vec<Slot> = (0..40).map(|_| pick(&pool, 0, 0, &Tried::new()).unwrap()).collect();
    assert_eq!(
        (pool.endpoint(0).unwrap().in_flight(), pool.endpoint(1).unwrap().in_flight()),
        (30, 10)
    );
    drop(slots);
    assert_eq!(pool.in_flight(), 0);
}

#[test]
fn random_draws_by_weight_whatever_is_in_flight() {
    let pool = balancer(PolicyKind::Random, &[3, 1, 1]);
    let mut others = Tried::new();
    others.insert(1);
    others.insert(2);
    let _busy: Vec<Slot> = (0..50).map(|_| pick(&pool, 0, 0, &others).unwrap()).collect();
    let three_to_one = shares(&pool, 30_000);
    assert!((17_000..19_000).contains(&three_to_one[0]), "{three_to_one:?}");
    assert!((5_500..6_500).contains(&three_to_one[1]), "{three_to_one:?}");
    pool.set_availability(0, Availability::Unavailable, 0);
    let one_to_one = shares(&pool, 30_000);
    assert_eq!(one_to_one[0], 0);
    assert!((14_000..16_000).contains(&one_to_one[1]), "{one_to_one:?}");
}

#[test]
fn random2_draws_by_weight_and_never_takes_the_busiest() {
    let pool = balancer(PolicyKind::Random2, &[1, 1, 1]);
    let shares_idle = shares(&pool, 30_000);
    assert!(shares_idle.iter().all(|share| (9_000..11_000).contains(share)), "{shares_idle:?}");
    let mut others = Tried::new();
    others.insert(1);
    others.insert(2);
    let _busy = pick(&pool, 0, 0, &others).unwrap();
    assert_eq!(shares(&pool, 1_000)[0], 0);
}

#[test]
fn first_overflows_in_order_and_then_to_the_backup() {
    let members =
        vec![member(1, Some(1), true), member(1, Some(2), false), member(1, Some(1), false)];
    let pool = Balancer::new(Settings::new(PolicyKind::First), members);
    let pick = || pick(&pool, 0, 0, &Tried::new());
    let mut slots: Vec<Slot> = (0..4).map(|_| pick().unwrap()).collect();
    assert_eq!(slots.iter().map(Slot::index).collect::<Vec<_>>(), [1, 1, 2, 0]);
    assert_eq!(pick().unwrap_err(), Rejection::Full);
    drop(slots.remove(1));
    assert_eq!(pick().unwrap().index(), 1);
}

#[test]
fn what_was_tried_is_left_out() {
    let pool = balancer(PolicyKind::RoundRobin, &[1, 1]);
    let mut tried = Tried::new();
    tried.insert(0);
    assert!((0..4).all(|_| pick(&pool, 0, 0, &tried).unwrap().index() == 1));
    tried.insert(1);
    assert_eq!(pick(&pool, 0, 0, &tried).unwrap_err(), Rejection::Unavailable);
}

#[test]
fn an_empty_pool_has_nothing() {
    for &policy in PolicyKind::all() {
        let pool = Balancer::new(Settings::new(policy), Vec::new());
        assert_eq!(pick(&pool, 0, 0, &Tried::new()).unwrap_err(), Rejection::Unavailable);
    }
}

#[test]
fn a_reload_keeps_the_count_of_what_is_in_flight() {
    let state = Arc::default();
    let members = |limit| {
        vec![Member {
            identity: 0,
            weight: 1,
            max_conn: Some(limit),
            tier: 0,
            ejection: None,
            slow_start_us: 0,
            state: Arc::clone(&state),
        }]
    };
    let before = Balancer::new(Settings::new(PolicyKind::First), members(2));
    let slots = [(); 2].map(|()| pick(&before, 0, 0, &Tried::new()).unwrap());
    let after = Balancer::new(Settings::new(PolicyKind::First), members(1));
    drop(before);
    assert_eq!(pick(&after, 0, 0, &Tried::new()).unwrap_err(), Rejection::Full);
    let [one, two] = slots;
    drop(one);
    assert_eq!(pick(&after, 0, 0, &Tried::new()).unwrap_err(), Rejection::Full);
    drop(two);
    assert!(pick(&after, 0, 0, &Tried::new()).is_ok());
}

/// One event.
#[derive(Clone, Debug)]
enum Step {
    Pick { random: u64, tried: Option<usize> },
    Return(usize),
    Toggle(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (any::<u64>(), proptest::option::of(0_usize..5))
            .prop_map(|(random, tried)| Step::Pick { random, tried }),
        3 => (0_usize..64).prop_map(Step::Return),
        1 => (0_usize..5).prop_map(Step::Toggle),
    ]
}

/// The expected state of the balancer, computed the slow way.
struct Reference {
    members: Vec<(u32, Option<u32>, bool)>,
    in_flight: Vec<u32>,
    available: Vec<bool>,
    /// nginx's running credits of the two ranks.
    credits: Vec<i64>,
    /// The endpoint that got the one key of all picks, by the set of eligible endpoints.
    owners: HashMap<Vec<usize>, usize>,
}

impl Reference {
    fn eligible(&self, backup: bool, tried: Option<usize>) -> Vec<usize> {
        let fits = |index: &usize| {
            let (_, limit, is_backup) = self.members[*index];
            let free = limit.is_none_or(|limit| self.in_flight[*index] < limit);
            is_backup == backup && free && self.available[*index] && tried != Some(*index)
        };
        (0..self.members.len()).filter(fits).collect()
    }

    /// nginx's smooth round robin: one step over all members of the rank.
    fn turn(&mut self, backup: bool) -> Option<usize> {
        let rank: Vec<usize> =
            (0..self.members.len()).filter(|index| self.members[*index].2 == backup).collect();
        let sum: u32 = rank.iter().map(|index| self.members[*index].0).sum();
        let mut best: Option<usize> = None;
        for index in rank {
            self.credits[index] += i64::from(self.members[index].0);
            if best.is_none_or(|best| self.credits[index] > self.credits[best]) {
                best = Some(index);
            }
        }
        self.credits[best?] -= i64::from(sum);
        best
    }

    fn load(&self, index: usize) -> f64 {
        f64::from(self.in_flight[index]) / f64::from(self.members[index].0)
    }

    /// Panics unless `policy` may pick `index` among `eligible`.
    fn check(&mut self, policy: PolicyKind, eligible: &[usize], index: usize, backup: bool) {
        assert!(eligible.contains(&index), "{index} is none of {eligible:?}");
        let loads = eligible.iter().map(|other| self.load(*other));
        match policy {
            PolicyKind::RoundRobin => {
                let mut turns = std::iter::repeat_with(|| self.turn(backup).unwrap());
                let expected = turns.find(|next| eligible.contains(next)).unwrap();
                assert_eq!(index, expected);
            }
            PolicyKind::LeastConn => assert!(loads.fold(f64::MAX, f64::min) >= self.load(index)),
            PolicyKind::Random2 => {
                let heavier = loads.filter(|load| *load >= self.load(index)).count();
                assert!(eligible.len() == 1 || heavier >= 2, "took the busiest of several");
            }
            // No endpoint responds here: all count as equally fast. Other properties are tested in
            // `least_time.rs`.
            PolicyKind::LeastTime(_) | PolicyKind::PeakEwma(_) => {
                let score = |other: &usize| {
                    let (weight, ..) = self.members[*other];
                    f64::from(self.in_flight[*other] + 1) / f64::from(weight)
                };
                let lowest = eligible.iter().map(score).fold(f64::MAX, f64::min);
                assert!(score(&index) <= lowest, "took a busier one");
            }
            PolicyKind::First => assert_eq!(Some(&index), eligible.first()),
            // Any endpoint is correct; shares by weight show only over many picks.
            PolicyKind::Random => {}
            // Other properties are tested in `fair.rs`.
            PolicyKind::Fair(_) => {
                let idle = |other: &usize| self.in_flight[*other] == 0;
                assert!(idle(&index) || !eligible.iter().any(idle), "took a busy one");
            }
            // All picks have the same key: the same eligible endpoints give the same choice. Other
            // properties are tested in `hashing.rs`.
            PolicyKind::Hash(_) | PolicyKind::RingHash(_) | PolicyKind::Maglev(_) => {
                let owner = *self.owners.entry(eligible.to_vec()).or_insert(index);
                assert_eq!(index, owner, "{eligible:?}");
            }
        }
    }

    fn pick(&mut self, policy: PolicyKind, tried: Option<usize>, picked: Result<usize, Rejection>) {
        for backup in [false, true] {
            let eligible = self.eligible(backup, tried);
            if let (false, Ok(index)) = (eligible.is_empty(), picked) {
                self.check(policy, &eligible, index, backup);
                self.in_flight[index] += 1;
                return;
            }
            assert!(eligible.is_empty(), "{picked:?} though there were {eligible:?}");
            if policy == PolicyKind::RoundRobin {
                // The balancer looks at one entry before it knows that no endpoint can be picked.
                self.turn(backup);
            }
        }
        let usable =
            (0..self.members.len()).any(|index| self.available[index] && tried != Some(index));
        let reason = if usable { Rejection::Full } else { Rejection::Unavailable };
        assert_eq!(picked, Err(reason));
    }
}

fn run(policy: PolicyKind, members: Vec<(u32, Option<u32>, bool)>, steps: Vec<Step>) {
    let len = members.len();
    let named = |(number, (weight, limit, backup)): (usize, &(u32, Option<u32>, bool))| Member {
        identity: hash_key(&[number as u8]),
        ..member(*weight, *limit, *backup)
    };
    let own = members.iter().enumerate().map(named).collect();
    let pool = Balancer::new(Settings::new(policy), own);
    let mut reference = Reference {
        members,
        in_flight: vec![0; len],
        available: vec![true; len],
        credits: vec![0; len],
        owners: HashMap::new(),
    };
    let mut slots: Vec<Slot> = Vec::new();
    for step in steps {
        match step {
            Step::Pick { random, tried } => {
                let mut set = Tried::new();
                if let Some(index) = tried {
                    set.insert(index);
                }
                let picked = pick(&pool, 0, random, &set);
                reference.pick(
                    policy,
                    tried,
                    picked.as_ref().map(Slot::index).map_err(|reason| *reason),
                );
                slots.extend(picked);
            }
            Step::Return(at) if !slots.is_empty() => {
                let slot = slots.swap_remove(at % slots.len());
                reference.in_flight[slot.index()] -= 1;
            }
            Step::Toggle(index) if index < len => {
                reference.available[index] ^= true;
                let now = if reference.available[index] {
                    Availability::Available
                } else {
                    Availability::Unavailable
                };
                pool.set_availability(index, now, 0);
            }
            Step::Return(_) | Step::Toggle(_) => {}
        }
        for (index, in_flight) in reference.in_flight.iter().enumerate() {
            assert_eq!(pool.endpoint(index).unwrap().in_flight(), *in_flight);
        }
    }
    drop(slots);
    assert_eq!(pool.in_flight(), 0);
}

proptest! {
    #[test]
    fn decisions_are_the_reference_s(
        members in proptest::collection::vec((1_u32..5, proptest::option::of(0_u32..4), any::<bool>()), 1..5),
        steps in proptest::collection::vec(step(), 1..80),
    ) {
        for &policy in PolicyKind::all() {
            run(policy, members.clone(), steps.clone());
        }
    }
}
