//! The violations that audits find and repair, and the counts of the regret meter.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use proptest::prelude::*;
use weir_balance::{
    Arrival, Balancer, Fault, Member, PassiveSettings, PolicyKind, QueueSettings, Request,
    Settings, Slot, Ticket, Tried,
};

fn pool(policy: PolicyKind, limits: &[Option<u32>], fault: Fault) -> Arc<Balancer> {
    let passive =
        PassiveSettings { errors: 1, window_us: 1, eject_us: 1_000_000, max_ejected_percent: 50 };
    let queue = Some(QueueSettings { max: 10, max_per_endpoint: None });
    let member = |limit: &Option<u32>| Member {
        identity: 0,
        weight: 1,
        max_conn: *limit,
        tier: 0,
        ejection: None,
        slow_start_us: 0,
        state: Arc::default(),
    };
    let settings = Settings { passive, queue, fault, ..Settings::new(policy) };
    Balancer::new(settings, limits.iter().map(member).collect())
}

fn arrive(pool: &Arc<Balancer>, bound: Option<usize>) -> Arrival {
    let tried = Tried::new();
    pool.arrive(&Request { bound, ..Request::new(0, 0, &tried) })
}

fn slot(pool: &Arc<Balancer>, bound: Option<usize>) -> Slot {
    let Arrival::Dispatched(slot) = arrive(pool, bound) else { panic!("not dispatched") };
    slot
}

fn ticket(pool: &Arc<Balancer>) -> Ticket {
    let Arrival::Queued(ticket) = arrive(pool, None) else { panic!("not queued") };
    ticket
}

fn is_served(ticket: &mut Ticket) -> bool {
    let polled = Pin::new(ticket).poll(&mut Context::from_waker(Waker::noop()));
    matches!(polled, Poll::Ready(Ok(_)))
}

#[test]
fn an_audit_finds_forgotten_exchanges_and_serves_them() {
    let pool = pool(PolicyKind::LeastConn, &[Some(1)], Fault::ForgetsPoolQueue);
    let running = slot(&pool, None);
    let mut forgotten = ticket(&pool);
    assert_eq!(pool.audit(0), 0, "he has to wait");
    drop(running);
    assert!(!is_served(&mut forgotten));
    assert_eq!(pool.audit(1), 1);
    assert!(is_served(&mut forgotten));
    assert_eq!(pool.audit(2), 0);
    assert_eq!(pool.counters().violations, 1);
}

#[test]
fn an_ejection_whose_end_was_not_announced_is_found_after_a_moment_of_grace() {
    let pool = pool(PolicyKind::LeastConn, &[Some(1), Some(1)], Fault::None);
    let _busy = slot(&pool, Some(1));
    pool.endpoint_failed(0, 0, 0);
    let mut waiting = ticket(&pool);
    assert_eq!(pool.audit(999_999), 0);
    assert_eq!(pool.audit(1_500_000), 1);
    assert!(is_served(&mut waiting));
}

#[test]
fn a_timer_that_is_a_little_late_is_no_violation() {
    let pool = pool(PolicyKind::LeastConn, &[Some(1), Some(1)], Fault::None);
    let _busy = slot(&pool, Some(1));
    pool.endpoint_failed(0, 0, 0);
    let mut waiting = ticket(&pool);
    assert_eq!(pool.audit(1_020_000), 0);
    assert!(is_served(&mut waiting), "served all the same");
}

#[test]
fn round_robin_regrets_to_have_chosen_a_busy_endpoint() {
    let pool = pool(PolicyKind::RoundRobin, &[None, None], Fault::None);
    let slow = slot(&pool, None);
    slot(&pool, None).finish(100);
    let behind = slot(&pool, None);
    assert_eq!((behind.index(), pool.counters().inversions), (0, 1));
    behind.finish(750);
    assert_eq!(pool.counters().regret_us, 650);
    slow.finish(5_000);
    assert_eq!(pool.counters().regret_us, 650, "the slow one itself was sent to an idle endpoint");
}

#[test]
fn a_slot_that_is_dropped_tells_the_meter_nothing() {
    let pool = pool(PolicyKind::RoundRobin, &[None, None], Fault::None);
    let _slow = slot(&pool, None);
    slot(&pool, None).finish(100);
    drop(slot(&pool, None));
    assert_eq!((pool.counters().inversions, pool.counters().regret_us), (1, 0));
}

#[test]
fn affinity_is_no_inversion() {
    let pool = pool(PolicyKind::LeastConn, &[Some(2), Some(2)], Fault::None);
    let _slots = [slot(&pool, Some(0)), slot(&pool, Some(0))];
    assert_eq!(pool.counters().inversions, 0);
}

#[test]
fn an_endpoint_that_takes_nothing_is_not_idle() {
    let pool = pool(PolicyKind::RoundRobin, &[Some(2), Some(0)], Fault::None);
    let _slots = [slot(&pool, None), slot(&pool, None)];
    assert_eq!(pool.counters().inversions, 0);
}

proptest! {
    #[test]
    fn least_conn_never_chooses_a_busy_endpoint_while_one_is_idle(
        limits in proptest::collection::vec(proptest::option::of(1_u32..4), 1..5),
        steps in proptest::collection::vec(proptest::option::of(any::<usize>()), 1..80),
    ) {
        let pool = pool(PolicyKind::LeastConn, &limits, Fault::None);
        let mut slots = Vec::new();
        for step in steps {
            match (step, arrive(&pool, None)) {
                (None, Arrival::Dispatched(slot)) => slots.push(slot),
                (Some(at), _) if !slots.is_empty() => {
                    drop(slots.swap_remove(at % slots.len()));
                }
                _ => {}
            }
        }
        prop_assert_eq!(pool.counters().inversions, 0);
    }
}
