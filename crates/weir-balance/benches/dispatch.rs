//! The cost of a slot, dispatch and release: alone, with limits, and with a thousand exchanges
//! waiting. Run by `make bench-balance`.

use std::collections::VecDeque;
use std::hint::black_box;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread;

use criterion::{Criterion, criterion_group, criterion_main};
use weir_balance::{
    Arrival, Balancer, Member, PolicyKind, QueueSettings, Request, Settings, Slot, StallSettings,
    Ticket, Tried,
};

const WAITING: usize = 1_000;

fn pool(policy: PolicyKind, limits: &[Option<u32>], queue: u32) -> Arc<Balancer> {
    let queue = (queue > 0).then_some(QueueSettings { max: queue, max_per_endpoint: None });
    let member = |limit: &Option<u32>| Member {
        identity: 0,
        weight: 1,
        max_conn: *limit,
        tier: 0,
        ejection: None,
        slow_start_us: 0,
        state: Arc::default(),
    };
    Balancer::new(Settings { queue, ..Settings::new(policy) }, limits.iter().map(member).collect())
}

fn arrive(pool: &Arc<Balancer>, tried: &Tried, random: u64) -> Arrival {
    pool.arrive(&Request::new(1, random, tried))
}

fn slot(pool: &Arc<Balancer>, tried: &Tried) -> Slot {
    let Arrival::Dispatched(slot) = arrive(pool, tried, 7) else { panic!("not dispatched") };
    slot
}

fn ticket(pool: &Arc<Balancer>, tried: &Tried) -> Ticket {
    let Arrival::Queued(ticket) = arrive(pool, tried, 7) else { panic!("not queued") };
    ticket
}

fn uncontended(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("uncontended");
    let tried = Tried::new();
    let kinds: [(&str, Option<u32>, u32); 3] = [
        ("no limit", None, 0),
        ("limit without queue", Some(9), 0),
        ("limit and queue", Some(9), 100),
    ];
    for (name, limit, queue) in kinds {
        for policy in [PolicyKind::RoundRobin, PolicyKind::LeastConn] {
            let pool = pool(policy, &[limit; 3], queue);
            group.bench_function(format!("{policy}, three endpoints, {name}"), |bencher| {
                bencher.iter(|| drop(black_box(slot(&pool, &tried))));
            });
        }
    }
    group.finish();
}

/// The cost of stall detection: the same exchange, sent and answered, without and with it.
fn watched_for_stalls(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("sent and answered");
    let tried = Tried::new();
    let watch = StallSettings { factor: 3, floor_us: 20_000 };
    for (name, stall) in [("not watched for stalls", None), ("watched for stalls", Some(watch))] {
        for policy in [PolicyKind::RoundRobin, PolicyKind::LeastConn] {
            let member = |_| Member {
                identity: 0,
                weight: 1,
                max_conn: None,
                tier: 0,
                ejection: None,
                slow_start_us: 0,
                state: Arc::default(),
            };
            let settings = Settings { stall, ..Settings::new(policy) };
            let pool = Balancer::new(settings, (0..3).map(member).collect());
            let mut now_us = 0;
            group.bench_function(format!("{policy}, three endpoints, {name}"), |bencher| {
                bencher.iter(|| {
                    now_us += 100;
                    let mut slot = black_box(slot(&pool, &tried));
                    slot.sent(now_us);
                    slot.answered(now_us + 90)
                });
            });
        }
    }
    group.finish();
}

/// In each iteration a slot is released, the oldest waiter collects it, and a new one queues up:
/// there are always a thousand.
fn thousand_waiting(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("1,000 waiting");
    let tried = Tried::new();
    let context = &mut Context::from_waker(Waker::noop());
    for endpoints in [1, 3] {
        let pool = pool(PolicyKind::LeastConn, &vec![Some(1); endpoints], u32::MAX);
        let mut running: VecDeque<Slot> = (0..endpoints).map(|_| slot(&pool, &tried)).collect();
        let mut line: VecDeque<Ticket> = (0..WAITING).map(|_| ticket(&pool, &tried)).collect();
        for ticket in &mut line {
            assert!(Pin::new(ticket).poll(context).is_pending());
        }
        let name = format!("leave, hand over, collect, queue up; {endpoints} endpoints");
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                running.pop_front();
                let mut next = line.pop_front().unwrap();
                let Poll::Ready(Ok(slot)) = Pin::new(&mut next).poll(context) else { panic!() };
                running.push_back(slot);
                let mut last = ticket(&pool, &tried);
                assert!(Pin::new(&mut last).poll(context).is_pending());
                line.push_back(last);
            });
        });
        group.bench_function(
            format!("one leaves the middle, one comes; {endpoints} endpoints"),
            |bencher| {
                bencher.iter(|| {
                    drop(line.swap_remove_back(WAITING / 2));
                    line.push_back(ticket(&pool, &tried));
                });
            },
        );
    }
    group.finish();
}

/// The cost of dispatch and release while another thread does the same without a pause.
fn contended(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("beside another thread");
    for (name, limit) in [("no limit", None), ("limit and queue", Some(9))] {
        let pool = pool(PolicyKind::LeastConn, &[limit; 3], 100);
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                let tried = Tried::new();
                while !stop.load(Ordering::Relaxed) {
                    drop(black_box(arrive(&pool, &tried, 7)));
                }
            });
            let tried = Tried::new();
            group.bench_function(format!("least_conn, three endpoints, {name}"), |bencher| {
                bencher.iter(|| drop(black_box(arrive(&pool, &tried, 7))));
            });
            stop.store(true, Ordering::Relaxed);
        });
    }
    group.finish();
}

criterion_group!(dispatch, uncontended, watched_for_stalls, thousand_waiting, contended);
criterion_main!(dispatch);
