//! The state that a pool keeps when another takes over, one property per test. The invariants under
//! all orders of events are tested in `machine` and `shuttle`.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use weir_balance::{
    AdminState, AfterFailure, Arrival, Balancer, EndpointState, Health, Member, PassiveSettings,
    PolicyKind, QueueSettings, Rejection, Request, Settings, Slot, Ticket, Tried,
};

fn settings() -> Settings {
    let queue = Some(QueueSettings { max: 10, max_per_endpoint: None });
    Settings { queue, ..Settings::new(PolicyKind::First) }
}

fn members(states: &[Arc<EndpointState>], limit: Option<u32>) -> Vec<Member> {
    let member = |(index, state): (usize, &Arc<EndpointState>)| Member {
        identity: index as u64,
        weight: 1,
        max_conn: limit,
        tier: 0,
        ejection: None,
        slow_start_us: 0,
        state: Arc::clone(state),
    };
    states.iter().enumerate().map(member).collect()
}

fn states(count: usize) -> Vec<Arc<EndpointState>> {
    (0..count).map(|_| Arc::default()).collect()
}

fn arrive(pool: &Arc<Balancer>) -> Arrival {
    pool.arrive(&Request::new(0, 0, &Tried::new()))
}

fn slot(pool: &Arc<Balancer>) -> Slot {
    match arrive(pool) {
        Arrival::Dispatched(slot) => slot,
        other => panic!("{other:?}"),
    }
}

fn ticket(pool: &Arc<Balancer>) -> Ticket {
    match arrive(pool) {
        Arrival::Queued(ticket) => ticket,
        other => panic!("{other:?}"),
    }
}

fn poll(ticket: &mut Ticket) -> Poll<Result<Slot, Rejection>> {
    Pin::new(ticket).poll(&mut Context::from_waker(Waker::noop()))
}

fn served(ticket: &mut Ticket) -> Slot {
    match poll(ticket) {
        Poll::Ready(Ok(slot)) => slot,
        other => panic!("{other:?}"),
    }
}

fn succeed(before: &Arc<Balancer>, settings: Settings, members: Vec<Member>) -> Arc<Balancer> {
    let orders = vec![AdminState::Ready; members.len()];
    let next = Balancer::prepared(before, settings, members);
    next.succeed(before, &orders, 0);
    next
}

#[test]
fn a_pool_that_was_only_prepared_has_changed_nothing() {
    let states = states(2);
    let pool = Balancer::new(settings(), members(&states, Some(1)));
    let held = [slot(&pool), slot(&pool)];
    let mut waiting = ticket(&pool);
    drop(Balancer::prepared(&pool, settings(), members(&states[..1], Some(5))));
    assert_eq!(states[0].max_conn(), Some(1));
    assert!(poll(&mut waiting).is_pending());
    drop(held);
    assert!(served(&mut waiting).is_of(&pool));
}

#[test]
fn a_waiting_exchange_is_served_by_an_endpoint_of_the_new_pool() {
    let states = states(2);
    let pool = Balancer::new(settings(), members(&states[..1], Some(1)));
    let held = slot(&pool);
    let (mut first, mut second) = (ticket(&pool), ticket(&pool));
    let next = succeed(&pool, settings(), members(&states, Some(1)));
    let got = served(&mut first);
    assert!(got.is_of(&next));
    assert_eq!((got.index(), next.waiting().len(), next.waiting()[0].seq), (1, 1, second.seq()));
    drop(held);
    assert_eq!(served(&mut second).index(), 0);
    assert_eq!(next.counters().queued, 2, "what was counted is kept");
}

#[test]
fn an_endpoint_that_was_removed_gets_no_exchange() {
    let states = states(2);
    let pool = Balancer::new(settings(), members(&states, Some(1)));
    let (kept, removed) = (slot(&pool), slot(&pool));
    let mut waiting = ticket(&pool);
    let next = succeed(&pool, settings(), members(&states[..1], Some(1)));
    drop(removed);
    assert!(poll(&mut waiting).is_pending());
    assert_eq!((states[1].in_flight(), next.audit(0)), (0, 0));
    drop(kept);
    assert_eq!(served(&mut waiting).index(), 0);
}

#[test]
fn a_slot_can_be_carried_to_the_pool_of_its_time() {
    let states = states(2);
    let pool = Balancer::new(settings(), members(&states, Some(1)));
    let (first, second) = (slot(&pool), slot(&pool));
    let next = succeed(&pool, settings(), members(&states[1..], Some(1)));
    let first = first.moved_to(&next).unwrap_err();
    let second = second.moved_to(&next).unwrap();
    assert_eq!((second.index(), second.is_of(&next), first.is_of(&pool)), (0, true, true));
    let mut waiting = ticket(&pool);
    drop(second);
    drop(served(&mut waiting));
    drop(first);
    assert_eq!((next.in_flight(), states[0].in_flight(), next.audit(0)), (0, 0, 0));
}

#[test]
fn a_request_that_waits_in_a_pool_that_lost_its_queue_is_still_served() {
    let states = states(1);
    let pool = Balancer::new(settings(), members(&states, Some(1)));
    let held = slot(&pool);
    let mut waiting = ticket(&pool);
    let next = succeed(&pool, Settings::new(PolicyKind::First), members(&states, Some(1)));
    assert!(matches!(arrive(&next), Arrival::Rejected(Rejection::Full)));
    drop(held);
    let got = served(&mut waiting);
    assert!(matches!(arrive(&next), Arrival::Rejected(Rejection::Full)));
    drop(got);
    assert_eq!(slot(&next).index(), 0);
}

#[test]
fn an_exchange_that_waited_and_is_served_by_a_pool_without_limits_leaves_sound_books() {
    let states = states(1);
    let old = Balancer::new(settings(), members(&states, Some(0)));
    let mut waits = ticket(&old);
    let new = succeed(&old, settings(), members(&states, None));
    drop(served(&mut waits));
    new.set_max_conn(0, Some(1), 0);
    assert_eq!(new.audit(0), 0);
}

#[test]
fn health_ejections_and_the_failures_towards_one_are_kept() {
    let passive =
        PassiveSettings { errors: 2, window_us: 100, eject_us: 50, max_ejected_percent: 100 };
    let settings = Settings { passive, ..settings() };
    let states = states(3);
    let pool = Balancer::new(settings, members(&states, None));
    pool.set_health(0, Health::Unhealthy, 0);
    assert_eq!(pool.endpoint_failed(1, 10, 0), AfterFailure::Counted);
    let turned = [states[2].clone(), states[1].clone(), states[0].clone()];
    let next = succeed(&pool, settings, members(&turned, None));
    assert_eq!(next.endpoint(2).unwrap().health(), Health::Unhealthy);
    assert_eq!(next.endpoint_failed(1, 20, 0), AfterFailure::Ejected { until_us: 70 });
    let third = succeed(&next, settings, members(&turned, None));
    assert!(third.endpoint(1).unwrap().is_ejected(60));
    assert_eq!(third.next_change_us(20), Some(70));
}

#[test]
fn whatever_is_told_to_a_former_pool_is_told_to_the_current_one() {
    let states = states(1);
    let pool = Balancer::new(settings(), members(&states, Some(1)));
    pool.set_health(0, Health::Unhealthy, 0);
    let next = succeed(&pool, settings(), members(&states, Some(1)));
    assert!(matches!(arrive(&pool), Arrival::Rejected(Rejection::Unavailable)));
    pool.set_health(0, Health::Healthy, 1);
    let held = slot(&pool);
    assert!(held.is_of(&next));
    let mut waiting = ticket(&pool);
    pool.set_admin_state(0, AdminState::Maintenance, 2);
    assert!(matches!(poll(&mut waiting), Poll::Ready(Err(Rejection::Unavailable))));
    assert_eq!(pool.audit(3), 0);
}

#[test]
fn a_former_pool_keeps_nothing_alive_but_the_current_one() {
    let states = states(1);
    let first = Balancer::new(settings(), members(&states, Some(1)));
    let old = slot(&first);
    let mut waiting = ticket(&first);
    let mut current = Arc::clone(&first);
    let mut between = Vec::new();
    for _ in 0..20 {
        current = succeed(&current, settings(), members(&states, Some(1)));
        between.push(Arc::downgrade(&current));
    }
    let alive = between.iter().filter(|pool| pool.strong_count() > 0).count();
    assert_eq!(alive, 1, "balancers of configurations long gone");
    drop(old);
    assert!(served(&mut waiting).is_of(&current));
    let last = Arc::downgrade(&current);
    drop((waiting, current, first));
    assert_eq!(last.strong_count(), 0);
}
