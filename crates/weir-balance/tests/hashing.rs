//! The policies that hash, through a whole pool: stable keys, bounded loads, tiers, limits and
//! queue.

use std::sync::Arc;

use proptest::prelude::*;
use weir_balance::{
    AdminState, Arrival, Availability, BalanceFactor, Balancer, HashSettings, Member, PolicyKind,
    QueueSettings, Rejection, Request, Settings, Slot, Tried, hash_key,
};

fn policies(balance_factor: Option<BalanceFactor>) -> [PolicyKind; 3] {
    let settings = HashSettings { balance_factor };
    [PolicyKind::Hash(settings), PolicyKind::RingHash(settings), PolicyKind::Maglev(settings)]
}

fn member(name: &str, weight: u32) -> Member {
    let identity = hash_key(name.as_bytes());
    Member {
        identity,
        weight,
        max_conn: None,
        tier: 0,
        ejection: None,
        slow_start_us: 0,
        state: Arc::default(),
    }
}

fn named(names: &[&str]) -> Vec<Member> {
    names.iter().map(|name| member(name, 1)).collect()
}

fn arrive(pool: &Arc<Balancer>, key: u64) -> Arrival {
    let tried = Tried::new();
    pool.arrive(&Request { key, ..Request::new(0, 0, &tried) })
}

fn slot(pool: &Arc<Balancer>, key: u64) -> Slot {
    match arrive(pool, key) {
        Arrival::Dispatched(slot) => slot,
        other => panic!("{other:?}"),
    }
}

fn owner(pool: &Arc<Balancer>, key: u64) -> usize {
    slot(pool, key).index()
}

fn keys(count: u64) -> impl Iterator<Item = u64> {
    (0..count).map(|number| hash_key(&number.to_le_bytes()))
}

#[test]
fn a_key_keeps_its_endpoint_whatever_the_order_of_the_file() {
    let names = ["a", "b", "c", "d", "e"];
    let shuffled = ["d", "a", "e", "c", "b"];
    for policy in policies(None) {
        let one = Balancer::new(Settings::new(policy), named(&names));
        let other = Balancer::new(Settings::new(policy), named(&shuffled));
        for key in keys(2_000) {
            assert_eq!(names[owner(&one, key)], shuffled[owner(&other, key)], "{policy}");
        }
    }
}

#[test]
fn keys_of_an_endpoint_that_is_out_move_and_come_back_and_no_others() {
    for policy in policies(None) {
        let pool = Balancer::new(Settings::new(policy), named(&["a", "b", "c", "d"]));
        let before: Vec<usize> = keys(4_000).map(|key| owner(&pool, key)).collect();
        pool.set_availability(2, Availability::Unavailable, 0);
        let mut heirs = [0; 4];
        for (key, before) in keys(4_000).zip(&before) {
            let now = owner(&pool, key);
            assert!(*before == 2 || now == *before, "{policy}");
            if *before == 2 {
                heirs[now] += 1;
            }
        }
        // The three others share its keys.
        assert!(heirs[2] == 0 && [0, 1, 3].iter().all(|index| heirs[*index] > 200), "{heirs:?}");
        pool.set_availability(2, Availability::Available, 0);
        assert!(keys(4_000).zip(before).all(|(key, before)| owner(&pool, key) == before));
    }
}

#[test]
fn a_key_whose_endpoint_is_full_goes_to_the_same_next_one_when_there_is_no_queue() {
    for policy in policies(None) {
        let limited = |name| Member { max_conn: Some(1), ..member(name, 1) };
        let pool = Balancer::new(Settings::new(policy), ["a", "b", "c"].map(limited).into());
        for key in keys(100) {
            let order = |pool: &Arc<Balancer>| -> Vec<usize> {
                let slots: Vec<Slot> = (0..3).map(|_| slot(pool, key)).collect();
                assert!(matches!(arrive(pool, key), Arrival::Rejected(Rejection::Full)));
                slots.iter().map(Slot::index).collect()
            };
            let first = order(&pool);
            assert_eq!(order(&pool), first);
            assert_eq!(owner(&pool, key), first[0]);
        }
    }
}

fn with_queue(policy: PolicyKind, max_per_endpoint: Option<u32>) -> Arc<Balancer> {
    let queue = Some(QueueSettings { max: 10, max_per_endpoint });
    let limited = |name| Member { max_conn: Some(1), ..member(name, 1) };
    Balancer::new(Settings { queue, ..Settings::new(policy) }, ["a", "b", "c"].map(limited).into())
}

#[test]
fn with_a_queue_a_key_waits_for_its_own_endpoint() {
    for policy in policies(None) {
        let pool = with_queue(policy, None);
        let key = 7;
        let first = slot(&pool, key);
        let home = first.index();
        let Arrival::Queued(ticket) = arrive(&pool, key) else { panic!("{policy}: not queued") };
        assert_eq!(pool.endpoint(home).unwrap().queued(), 1);
        drop(first);
        // Handed over: the slot is not free for another exchange.
        assert_eq!(pool.endpoint(home).unwrap().in_flight(), 1);
        drop(ticket);
        assert_eq!(pool.in_flight(), 0);
        assert_eq!(pool.audit(0), 0);
    }
}

#[test]
fn a_key_that_waits_goes_elsewhere_when_its_endpoint_goes() {
    for policy in policies(None) {
        let pool = with_queue(policy, None);
        let first = slot(&pool, 7);
        let Arrival::Queued(ticket) = arrive(&pool, 7) else { panic!("{policy}: not queued") };
        pool.set_admin_state(first.index(), AdminState::Maintenance, 0);
        assert_eq!(pool.in_flight(), 2, "{policy}: who waited was not served by another");
        assert_eq!(pool.audit(0), 0);
        drop((first, ticket));
        assert_eq!(pool.in_flight(), 0);
    }
}

#[test]
fn a_full_line_of_an_endpoint_overflows_to_any() {
    for policy in policies(None) {
        let pool = with_queue(policy, Some(1));
        let first = slot(&pool, 7);
        let Arrival::Queued(_ticket) = arrive(&pool, 7) else { panic!("{policy}: not queued") };
        assert_ne!(slot(&pool, 7).index(), first.index());
    }
}

#[test]
fn bounded_loads_go_on_to_the_next_rather_than_wait() {
    for policy in policies(BalanceFactor::from_percent(125)) {
        let pool = with_queue(policy, None);
        let slots: Vec<Slot> = (0..3).map(|_| slot(&pool, 7)).collect();
        assert!(matches!(arrive(&pool, 7), Arrival::Queued(_)));
        assert_eq!(slots.len(), 3);
    }
}

#[test]
fn a_hot_key_is_spread_when_loads_are_bounded_and_only_then() {
    for (bounded, unbounded) in
        policies(BalanceFactor::from_percent(150)).into_iter().zip(policies(None))
    {
        let most = |policy| {
            let pool = Balancer::new(Settings::new(policy), named(&["a", "b", "c", "d"]));
            let slots: Vec<Slot> = (0..100).map(|_| slot(&pool, 7)).collect();
            let load = |index| slots.iter().filter(|slot| slot.index() == index).count();
            (0..4).map(load).max().unwrap()
        };
        // 1.5 × 100 ÷ 4 = 37.5.
        assert_eq!((most(bounded), most(unbounded)), (38, 100), "{bounded}");
    }
}

#[test]
fn exchanges_that_wait_for_an_endpoint_count_as_its_load() {
    for policy in policies(BalanceFactor::from_percent(100)) {
        let queue = Some(QueueSettings { max: 10, max_per_endpoint: None });
        let mut members = named(&["a", "b", "c"]);
        members[0].max_conn = Some(1);
        let pool = Balancer::new(Settings { queue, ..Settings::new(policy) }, members);
        let key = keys(100).find(|key| owner(&pool, *key) == 1).unwrap();
        let tried = Tried::new();
        let bound = Request { bound: Some(0), ..Request::new(0, 0, &tried) };
        let at_a: Vec<Arrival> = (0..4).map(|_| pool.arrive(&bound)).collect();
        assert_eq!(pool.endpoint(0).unwrap().queued(), 3);
        // Four at the first endpoint, so the fair share of six is two; by exchanges in flight alone
        // it would be one of three.
        let slots = [(); 2].map(|()| slot(&pool, key));
        assert_eq!(slots.map(|slot| slot.index()), [1, 1], "{policy}");
        drop(at_a);
    }
}

#[test]
fn a_lower_tier_takes_part_only_when_no_higher_one_can() {
    let all = PolicyKind::all().iter().copied();
    for policy in all {
        let tiers = [3, 0, 1, 0, 1];
        let members = tiers.iter().zip(["a", "b", "c", "d", "e"]);
        let members = members.map(|(tier, name)| Member { tier: *tier, ..member(name, 1) });
        let pool = Balancer::new(Settings::new(policy), members.collect());
        let used = || -> Vec<usize> {
            let mut used: Vec<usize> = keys(64).map(|key| owner(&pool, key)).collect();
            used.sort_unstable();
            used.dedup();
            used
        };
        let expect = |expected: &[usize]| {
            let used = used();
            // `first` and the policies that draw need not use all endpoints of a tier here, but no
            // others.
            assert!(used.iter().all(|index| expected.contains(index)), "{policy}: {used:?}");
        };
        expect(&[1, 3]);
        pool.set_availability(1, Availability::Unavailable, 0);
        expect(&[3]);
        pool.set_admin_state(3, AdminState::Draining, 0);
        expect(&[2, 4]);
        pool.set_availability(2, Availability::Unavailable, 0);
        pool.set_availability(4, Availability::Unavailable, 0);
        expect(&[0]);
        pool.set_availability(1, Availability::Available, 0);
        expect(&[1]);
    }
}

proptest! {
    #[test]
    fn no_endpoint_exceeds_its_bound(
        weights in proptest::collection::vec(1_u32..6, 1..8),
        percent in 100_u32..300,
        kind in 0_usize..3,
        steps in proptest::collection::vec((any::<u8>(), any::<bool>()), 1..80),
    ) {
        let policy = policies(BalanceFactor::from_percent(percent))[kind];
        let named = |(number, weight): (usize, &u32)| member(&format!("app{number}"), *weight);
        let members = weights.iter().enumerate().map(named).collect();
        let pool = Balancer::new(Settings::new(policy), members);
        let sum: u32 = weights.iter().sum();
        let mut slots: Vec<Slot> = Vec::new();
        for (number, leaves) in steps {
            if leaves && !slots.is_empty() {
                drop(slots.swap_remove(usize::from(number) % slots.len()));
                continue;
            }
            // Few keys, so that they are hot.
            let taken = slot(&pool, hash_key(&[number % 4]));
            let index = taken.index();
            slots.push(taken);
            let most = (u64::from(percent) * slots.len() as u64 * u64::from(weights[index]))
                .div_ceil(100 * u64::from(sum));
            prop_assert!(u64::from(pool.endpoint(index).unwrap().in_flight()) <= most);
        }
    }
}
