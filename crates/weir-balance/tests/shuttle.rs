//! The shared state of a pool under schedules that a test controls: with at least two workers,
//! every lock and atomic is a point where another thread may run. A lost wake-up shows as a
//! deadlock. Needs the feature `shuttle`.
//!
//! Shuttle models only sequential consistency: weaker orderings are justified where they are used.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use shuttle::sync::Mutex;
use shuttle::sync::atomic::{AtomicU32, Ordering};
use shuttle::{future, thread};
use weir_balance::{
    Arrival, Balancer, EndpointState, Fault, Health, Member, PolicyKind, QueueSettings, Rejection,
    Request, Settings, Slot, Ticket, Tried,
};

/// The number of schedules of each kind: 10,000 by default.
fn schedules() -> usize {
    let number = std::env::var("WEIR_SCHEDULES").ok();
    number.map_or(10_000, |number| number.parse().expect("WEIR_SCHEDULES is a number"))
}

/// Runs `scenario` under random schedules, and under schedules that target bugs of few context
/// switches (PCT).
fn check(scenario: impl Fn() + Send + Sync + Clone + 'static) {
    shuttle::check_random(scenario.clone(), schedules());
    shuttle::check_pct(scenario, schedules(), 3);
}

fn pool(limits: &[Option<u32>], fault: Fault) -> Arc<Balancer> {
    let member = |limit: &Option<u32>| Member {
        identity: 0,
        weight: 1,
        max_conn: *limit,
        tier: 0,
        ejection: None,
        slow_start_us: 0,
        state: Arc::default(),
    };
    let queue = Some(QueueSettings { max: 100, max_per_endpoint: None });
    let settings = Settings { queue, fault, ..Settings::new(PolicyKind::LeastConn) };
    Balancer::new(settings, limits.iter().map(member).collect())
}

/// A pool over states that other pools share.
fn pool_of(states: &[Arc<EndpointState>], limit: Option<u32>) -> Arc<Balancer> {
    let member = |state: &Arc<EndpointState>| Member {
        identity: 0,
        weight: 1,
        max_conn: limit,
        tier: 0,
        ejection: None,
        slow_start_us: 0,
        state: Arc::clone(state),
    };
    let queue = limit.map(|_| QueueSettings { max: 100, max_per_endpoint: None });
    let settings = Settings { queue, ..Settings::new(PolicyKind::LeastConn) };
    Balancer::new(settings, states.iter().map(member).collect())
}

fn arrive(pool: &Arc<Balancer>, bound: Option<usize>) -> Arrival {
    let tried = Tried::new();
    pool.arrive(&Request { bound, ..Request::new(0, 0, &tried) })
}

/// Returns a slot, after waiting for as long as it takes.
fn slot(pool: &Arc<Balancer>, bound: Option<usize>) -> Result<Slot, Rejection> {
    match arrive(pool, bound) {
        Arrival::Dispatched(slot) => Ok(slot),
        Arrival::Queued(ticket) => future::block_on(ticket),
        Arrival::Rejected(rejection) => Err(rejection),
    }
}

fn poll(ticket: &mut Ticket) -> Poll<Result<Slot, Rejection>> {
    Pin::new(ticket).poll(&mut Context::from_waker(Waker::noop()))
}

/// The number of exchanges at each endpoint, as the endpoints see it.
#[derive(Default)]
struct Seen([AtomicU32; 2]);

impl Seen {
    fn serve(&self, slot: Slot, limit: u32) {
        let count = &self.0[slot.index()];
        let now = count.fetch_add(1, Ordering::SeqCst) + 1;
        assert!(now <= limit, "{now} at an endpoint that takes {limit}");
        thread::yield_now();
        count.fetch_sub(1, Ordering::SeqCst);
        drop(slot);
    }
}

fn join(threads: impl IntoIterator<Item = thread::JoinHandle<()>>) {
    for thread in threads {
        thread.join().unwrap();
    }
}

fn all_is_given_back(pool: &Balancer, dispatched: u64) {
    assert_eq!(pool.in_flight(), 0, "law 5");
    assert_eq!(pool.audit(0), 0);
    assert!(pool.waiting().is_empty());
    assert_eq!(pool.counters().dispatched, dispatched);
}

fn two_workers_share_two_places(fault: Fault) {
    let pool = pool(&[Some(1), Some(1)], fault);
    let seen = Arc::<Seen>::default();
    let workers: Vec<_> = (0..2)
        .map(|worker| {
            let (pool, seen) = (Arc::clone(&pool), Arc::clone(&seen));
            thread::spawn(move || {
                let exchanges = [None, (worker == 0).then_some(0)].map(|bound| {
                    let (pool, seen) = (Arc::clone(&pool), Arc::clone(&seen));
                    thread::spawn(move || seen.serve(slot(&pool, bound).unwrap(), 1))
                });
                join(exchanges);
            })
        })
        .collect();
    join(workers);
    all_is_given_back(&pool, 4);
}

#[test]
fn every_exchange_is_served_and_the_limit_holds() {
    check(|| two_workers_share_two_places(Fault::None));
}

#[test]
fn the_canary_is_found() {
    let broken = || two_workers_share_two_places(Fault::ForgetsPoolQueue);
    let found = std::panic::catch_unwind(|| shuttle::check_random(broken, 1_000));
    let message = *found.unwrap_err().downcast::<String>().unwrap();
    assert!(message.contains("deadlock"), "{message}");
}

/// Three workers that wait in a pool, and the tickets in order of service.
fn three_wait(pool: &Arc<Balancer>) -> (Arc<Mutex<Vec<i64>>>, Vec<thread::JoinHandle<()>>) {
    let order = Arc::new(Mutex::new(Vec::new()));
    let worker = |_| {
        let (pool, order) = (Arc::clone(pool), Arc::clone(&order));
        thread::spawn(move || {
            let Arrival::Queued(ticket) = arrive(&pool, None) else { return };
            let seq = ticket.seq();
            let slot = future::block_on(ticket).unwrap();
            order.lock().unwrap().push(seq);
            drop(slot);
        })
    };
    let workers = (0..3).map(worker).collect();
    (order, workers)
}

#[test]
fn waiting_requests_are_served_in_the_order_of_arrival() {
    check(|| {
        let pool = pool(&[Some(1)], Fault::None);
        let first = slot(&pool, None).unwrap();
        let (order, workers) = three_wait(&pool);
        drop(first);
        join(workers);
        assert!(order.lock().unwrap().is_sorted());
        assert_eq!(pool.in_flight(), 0);
    });
}

#[test]
fn a_ticket_dropped_while_its_slot_comes_passes_it_on() {
    check(|| {
        let pool = pool(&[Some(1)], Fault::None);
        let first = slot(&pool, None).unwrap();
        let Arrival::Queued(mut leaving) = arrive(&pool, None) else { panic!("not queued") };
        let Arrival::Queued(staying) = arrive(&pool, None) else { panic!("not queued") };
        let worker = thread::spawn(move || drop(first));
        let leaver = thread::spawn(move || {
            // Served, woken and not yet served, or still waiting: each is possible.
            drop(poll(&mut leaving));
            drop(leaving);
        });
        drop(future::block_on(staying).unwrap());
        worker.join().unwrap();
        leaver.join().unwrap();
        assert_eq!(pool.in_flight(), 0);
        assert_eq!(pool.audit(0), 0);
    });
}

#[test]
fn a_deadline_in_the_moment_of_the_hand_over_loses_no_slot() {
    check(|| {
        let pool = pool(&[Some(1)], Fault::None);
        let first = slot(&pool, None).unwrap();
        let Arrival::Queued(late) = arrive(&pool, None) else { panic!("not queued") };
        let Arrival::Queued(staying) = arrive(&pool, None) else { panic!("not queued") };
        let worker = thread::spawn(move || drop(first));
        let timer = thread::spawn(move || late.time_out().is_some());
        drop(future::block_on(staying).unwrap());
        worker.join().unwrap();
        let served = timer.join().unwrap();
        assert_eq!(pool.counters().timed_out, u64::from(!served));
        assert_eq!(pool.in_flight(), 0);
    });
}

#[test]
fn the_first_limit_of_a_pool_misses_no_release() {
    check(|| {
        let pool = pool(&[None], Fault::None);
        let held = slot(&pool, None).unwrap();
        let leaver = thread::spawn(move || drop(held));
        let other = Arc::clone(&pool);
        let arriver = thread::spawn(move || drop(slot(&other, None).unwrap()));
        pool.set_max_conn(0, Some(1), 0);
        drop(slot(&pool, None).unwrap());
        leaver.join().unwrap();
        arriver.join().unwrap();
        all_is_given_back(&pool, 3);
    });
}

#[test]
fn endpoints_that_go_and_come_back_leave_no_exchange_waiting() {
    check(|| {
        let pool = pool(&[Some(1), Some(1)], Fault::None);
        let workers: Vec<_> = [None, Some(0), None]
            .into_iter()
            .map(|bound| {
                let pool = Arc::clone(&pool);
                thread::spawn(move || drop(slot(&pool, bound)))
            })
            .collect();
        pool.set_health(0, Health::Unhealthy, 1);
        pool.set_health(1, Health::Unhealthy, 2);
        pool.set_health(0, Health::Healthy, 3);
        join(workers);
        assert_eq!(pool.in_flight(), 0);
        assert_eq!(pool.audit(3), 0);
    });
}

/// A pool of these endpoints that can take over.
fn successor(before: &Arc<Balancer>, states: &[Arc<EndpointState>], limit: u32) -> Arc<Balancer> {
    let member = |state: &Arc<EndpointState>| Member {
        identity: 0,
        weight: 1,
        max_conn: Some(limit),
        tier: 0,
        ejection: None,
        slow_start_us: 0,
        state: Arc::clone(state),
    };
    let queue = Some(QueueSettings { max: 100, max_per_endpoint: None });
    let settings = Settings { queue, ..Settings::new(PolicyKind::LeastConn) };
    Balancer::prepared(before, settings, states.iter().map(member).collect())
}

#[test]
fn pools_that_take_over_lose_no_exchange_and_exceed_no_limit() {
    for gated in [true, false] {
        check(move || {
            let states: [Arc<EndpointState>; 2] = Default::default();
            let first = pool_of(&states, gated.then_some(1));
            let workers: Vec<_> = [None, Some(0), None]
                .into_iter()
                .map(|bound| {
                    let pool = Arc::clone(&first);
                    thread::spawn(move || drop(slot(&pool, bound).unwrap()))
                })
                .collect();
            let leaver = {
                let pool = Arc::clone(&first);
                thread::spawn(move || {
                    if let Arrival::Queued(mut ticket) = arrive(&pool, None) {
                        drop(poll(&mut ticket));
                    }
                })
            };
            // The second endpoint is removed and added again.
            let second = successor(&first, &states[..1], 1);
            second.succeed(&first, &[], 1);
            assert_eq!(second.audit(1), 0);
            let third = successor(&second, &states, 1);
            third.succeed(&second, &[], 2);
            drop((first, second));
            drop(slot(&third, None).unwrap());
            join(workers);
            join([leaver]);
            assert_eq!(third.in_flight(), 0, "law 5");
            assert_eq!(third.audit(2), 0);
            assert!(third.waiting().is_empty());
            assert!(states.iter().all(|state| state.max_conn() == Some(1)));
        });
    }
}

#[test]
fn the_first_to_wait_is_served_first_by_the_pool_that_took_over() {
    check(|| {
        let states: [Arc<EndpointState>; 1] = Default::default();
        let first = pool_of(&states, Some(1));
        let held = slot(&first, None).unwrap();
        let (order, workers) = three_wait(&first);
        let giver = thread::spawn(move || drop(held));
        let second = successor(&first, &states, 1);
        second.succeed(&first, &[], 1);
        join(workers);
        join([giver]);
        assert!(order.lock().unwrap().is_sorted());
        assert_eq!((second.in_flight(), second.audit(1)), (0, 0));
    });
}

#[test]
fn a_limit_that_falls_and_rises_under_load_leaves_no_request_waiting() {
    check(|| {
        let pool = pool(&[Some(2)], Fault::None);
        let workers: Vec<_> = (0..3)
            .map(|_| {
                let pool = Arc::clone(&pool);
                thread::spawn(move || drop(slot(&pool, None).unwrap()))
            })
            .collect();
        pool.set_max_conn(0, Some(0), 1);
        pool.set_max_conn(0, Some(1), 2);
        join(workers);
        all_is_given_back(&pool, 3);
    });
}
