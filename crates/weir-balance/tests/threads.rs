//! A pool's invariants with real threads: in flight never exceeds `max_conn`, waiting exchanges are
//! served in order, and all slots are released.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

mod pool;

use pool::pick;
use weir_balance::{
    Arrival, Availability, Balancer, Member, PassiveSettings, PolicyKind, QueueSettings, Rejection,
    Request, Settings, Slot, Tried,
};

const THREADS: u64 = 16;
const PICKS: u64 = 4_000;
const LIMITS: [u32; 3] = [1, 3, 7];

const PASSIVE: PassiveSettings =
    PassiveSettings { errors: 2, window_us: 1_000, eject_us: 50, max_ejected_percent: 50 };

fn pool(policy: PolicyKind) -> Arc<Balancer> {
    let member = |limit| Member {
        identity: 0,
        weight: limit,
        max_conn: Some(limit),
        tier: 0,
        ejection: None,
        slow_start_us: 0,
        state: Arc::default(),
    };
    let settings = Settings { passive: PASSIVE, ..Settings::new(policy) };
    Balancer::new(settings, LIMITS.map(member).to_vec())
}

/// The view of the endpoints: each counts its exchanges, and a flag records if a limit was ever
/// exceeded.
#[derive(Default)]
struct Seen {
    now: [AtomicU32; 3],
    over: AtomicBool,
}

fn work(pool: &Arc<Balancer>, seen: &Seen, seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut held: Vec<Slot> = Vec::new();
    let leave = |slot: Slot| {
        seen.now[slot.index()].fetch_sub(1, Ordering::SeqCst);
        drop(slot);
    };
    for now_us in 0..PICKS {
        match pick(pool, now_us, random.u64(..), &Tried::new()) {
            Ok(slot) => {
                let now = seen.now[slot.index()].fetch_add(1, Ordering::SeqCst) + 1;
                if now > LIMITS[slot.index()] {
                    seen.over.store(true, Ordering::SeqCst);
                }
                held.push(slot);
            }
            Err(_) => thread::yield_now(),
        }
        if random.u8(..) < 160 && !held.is_empty() {
            leave(held.swap_remove(random.usize(..held.len())));
        }
        if random.u8(..) < 8 {
            pool.endpoint_failed(random.usize(..3), now_us, random.u64(..));
        }
    }
    held.into_iter().for_each(leave);
}

#[test]
fn the_limit_holds_at_every_instant_over_sixteen_threads() {
    for &policy in PolicyKind::all() {
        let (pool, seen) = (pool(policy), Seen::default());
        on_threads(THREADS, |seed| work(&pool, &seen, seed));
        assert!(!seen.over.load(Ordering::SeqCst), "{policy} passed a limit");
        assert_eq!(pool.in_flight(), 0, "{policy} kept a slot");
        let picks: u64 = (0..3).map(|index| pool.endpoint(index).unwrap().picks()).sum();
        assert!(picks > 0);
    }
}

#[test]
fn all_threads_together_get_exactly_the_slots_there_are() {
    for &policy in PolicyKind::all() {
        let pool = pool(policy);
        let mut held: Vec<Slot> = Vec::new();
        thread::scope(|scope| {
            let take = |seed: u64| {
                let mut random = fastrand::Rng::with_seed(seed);
                (0..4)
                    .filter_map(|_| pick(&pool, 0, random.u64(..), &Tried::new()).ok())
                    .collect::<Vec<_>>()
            };
            let threads: Vec<_> =
                (0..THREADS).map(|seed| scope.spawn(move || take(seed))).collect();
            held = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
        });
        assert_eq!(
            held.len() as u32,
            LIMITS.iter().sum::<u32>(),
            "{policy} left a free slot unused"
        );
        assert_eq!(pick(&pool, 0, 0, &Tried::new()).unwrap_err(), Rejection::Full);
    }
}

#[test]
fn round_robin_gives_exact_shares_over_all_threads() {
    let member = |weight| Member {
        identity: 0,
        weight,
        max_conn: None,
        tier: 0,
        ejection: None,
        slow_start_us: 0,
        state: Arc::default(),
    };
    let members = vec![member(5), member(1), member(2), member(9)];
    let pool = Balancer::new(Settings::new(PolicyKind::RoundRobin), members);
    pool.set_availability(3, Availability::Unavailable, 0);
    on_threads(THREADS, |_| {
        for _ in 0..1_000 {
            drop(pick(&pool, 0, 0, &Tried::new()).unwrap());
        }
    });
    let picks: Vec<u64> = (0..4).map(|index| pool.endpoint(index).unwrap().picks()).collect();
    assert_eq!(picks, [10_000, 2_000, 4_000, 0]);
}

#[test]
fn threads_that_eject_at_once_never_pass_the_cap() {
    let member = |_| Member {
        identity: 0,
        weight: 1,
        max_conn: None,
        tier: 0,
        ejection: None,
        slow_start_us: 0,
        state: Arc::default(),
    };
    let passive =
        PassiveSettings { errors: 1, window_us: 1, eject_us: 1_000, max_ejected_percent: 50 };
    let settings = Settings { passive, ..Settings::new(PolicyKind::RoundRobin) };
    for _ in 0..200 {
        let pool = Balancer::new(settings, (0..4).map(member).collect());
        on_threads(4, |index| {
            for _ in 0..3 {
                pool.endpoint_failed(index as usize, 0, 0);
            }
        });
        let out = (0..4).filter(|index| pool.endpoint(*index).unwrap().is_ejected(0)).count();
        assert!(out <= 2, "{out} of 4 are out");
    }
}

/// A waker that unparks a thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Returns a slot, and the number in the order of arrival if the exchange had to wait. A deadline
/// of a minute makes a lost wake-up a failure instead of a hang.
fn wait(pool: &Arc<Balancer>, random: u64) -> (Slot, Option<i64>) {
    let tried = Tried::new();
    let mut ticket = match pool.arrive(&Request::new(0, random, &tried)) {
        Arrival::Dispatched(slot) => return (slot, None),
        Arrival::Queued(ticket) => ticket,
        Arrival::Rejected(rejection) => panic!("{rejection:?}"),
    };
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let began = Instant::now();
    loop {
        if let Poll::Ready(slot) = Pin::new(&mut ticket).poll(&mut Context::from_waker(&waker)) {
            return (slot.unwrap(), Some(ticket.seq()));
        }
        thread::park_timeout(Duration::from_mins(1));
        assert!(began.elapsed() < Duration::from_mins(1), "forgotten in the queue");
    }
}

fn queued_pool(policy: PolicyKind, limits: &[u32]) -> Arc<Balancer> {
    let queue = Some(QueueSettings { max: 1_000, max_per_endpoint: None });
    let member = |limit: &u32| Member {
        identity: 0,
        weight: 1,
        max_conn: Some(*limit),
        tier: 0,
        ejection: None,
        slow_start_us: 0,
        state: Arc::default(),
    };
    Balancer::new(Settings { queue, ..Settings::new(policy) }, limits.iter().map(member).collect())
}

#[test]
fn sixteen_threads_are_all_served_and_the_limit_holds_at_every_instant() {
    for &policy in PolicyKind::all() {
        let (pool, seen) = (queued_pool(policy, &LIMITS), Seen::default());
        on_threads(THREADS, |seed| {
            let mut random = fastrand::Rng::with_seed(seed);
            for _ in 0..1_000 {
                let (slot, _) = wait(&pool, random.u64(..));
                let now = seen.now[slot.index()].fetch_add(1, Ordering::SeqCst) + 1;
                assert!(now <= LIMITS[slot.index()], "{policy} passed a limit");
                if random.u8(..) < 128 {
                    thread::yield_now();
                }
                seen.now[slot.index()].fetch_sub(1, Ordering::SeqCst);
            }
        });
        assert_eq!((pool.in_flight(), pool.audit(0)), (0, 0), "{policy}");
        assert_eq!(pool.counters().dispatched, THREADS * 1_000, "{policy}");
    }
}

#[test]
fn the_endpoint_sees_waiting_exchanges_in_the_order_of_arrival() {
    let pool = queued_pool(PolicyKind::LeastConn, &[1]);
    let order = Mutex::new(Vec::new());
    on_threads(THREADS, |seed| {
        for number in 0..500 {
            let (slot, seq) = wait(&pool, seed + number);
            order.lock().unwrap().extend(seq);
            drop(slot);
        }
    });
    let order = order.into_inner().unwrap();
    assert!(order.is_sorted());
    assert_eq!(order.len() as u64, pool.counters().queued);
}

#[test]
fn threads_that_give_up_while_they_are_served_leave_nothing_behind() {
    let pool = queued_pool(PolicyKind::RoundRobin, &[1, 2]);
    on_threads(THREADS, |seed| {
        let mut random = fastrand::Rng::with_seed(seed);
        let tried = Tried::new();
        for _ in 0..2_000 {
            let bound = random.bool().then(|| random.usize(..2));
            let request = Request { bound, ..Request::new(0, random.u64(..), &tried) };
            match pool.arrive(&request) {
                Arrival::Dispatched(slot) => {
                    thread::yield_now();
                    drop(slot);
                }
                Arrival::Queued(ticket) if random.bool() => drop(ticket.time_out()),
                Arrival::Queued(ticket) => {
                    thread::yield_now();
                    drop(ticket);
                }
                Arrival::Rejected(rejection) => panic!("{rejection:?}"),
            }
        }
    });
    assert_eq!((pool.in_flight(), pool.audit(0)), (0, 0));
    assert!(pool.waiting().is_empty());
    let queued = [0, 1].map(|index| pool.endpoint(index).unwrap().queued());
    assert_eq!(queued, [0, 0]);
}

/// Runs `work` with the numbers 0, 1, … on `threads` threads at once.
fn on_threads(threads: u64, work: impl Fn(u64) + Sync) {
    let work = &work;
    thread::scope(|scope| {
        for number in 0..threads {
            scope.spawn(move || work(number));
        }
    });
}
