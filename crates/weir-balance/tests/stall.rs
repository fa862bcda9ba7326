//! Endpoints that take exchanges and do not answer, in virtual time: a frozen endpoint costs only
//! the exchanges in flight there, slow requests starve no other, and recovery works.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use proptest::prelude::*;
use weir_balance::{
    Arrival, Availability, Balancer, EndpointState, HashSettings, Member, PolicyKind,
    QueueSettings, Rejection, Request, Settings, Slot, StallSettings, Tried, hash_key,
};

const STALL: StallSettings = StallSettings { factor: 3, floor_us: 20_000 };
const SECOND: u64 = 1_000_000;

fn settings(policy: PolicyKind) -> Settings {
    Settings { stall: Some(STALL), ..Settings::new(policy) }
}

fn members(endpoints: usize) -> Vec<Member> {
    let member = |index: usize| Member {
        identity: hash_key(&index.to_le_bytes()),
        weight: 1,
        max_conn: None,
        tier: 0,
        ejection: None,
        slow_start_us: 0,
        state: Arc::new(EndpointState::default()),
    };
    (0..endpoints).map(member).collect()
}

fn balancer(policy: PolicyKind, endpoints: usize) -> Arc<Balancer> {
    Balancer::new(settings(policy), members(endpoints))
}

fn arrive(pool: &Arc<Balancer>, now_us: u64) -> Slot {
    let random = hash_key(&now_us.to_le_bytes());
    match pool.arrive(&Request::new(now_us, random, &Tried::new())) {
        Arrival::Dispatched(mut slot) => {
            slot.sent(now_us);
            slot
        }
        other => panic!("{other:?}"),
    }
}

/// Servers in virtual time: arrivals at an even rate, unlimited concurrency, optionally one
/// endpoint frozen for a while.
struct Play<'a> {
    pool: Arc<Balancer>,
    /// The interval between two arrivals, µs.
    gap_us: u64,
    /// The end of arrivals, µs.
    end_us: u64,
    /// The frozen endpoint, and the start and end of the freeze.
    frozen: Option<(usize, u64, u64)>,
    /// The service time of an exchange, by its number.
    service_us: &'a dyn Fn(u64) -> u64,
}

/// A finished exchange.
struct Done {
    endpoint: usize,
    arrived_us: u64,
    took_us: u64,
}

impl Play<'_> {
    fn run(&self) -> Vec<Done> {
        let mut running: BinaryHeap<Reverse<(u64, u64)>> = BinaryHeap::new();
        let mut slots: Vec<Option<(Slot, u64)>> = Vec::new();
        let mut done = Vec::new();
        let mut answer = |(now_us, number): (u64, u64), slots: &mut Vec<Option<(Slot, u64)>>| {
            let (mut slot, arrived_us) = slots[number as usize].take().unwrap();
            slot.answered(now_us);
            done.push(Done { endpoint: slot.index(), arrived_us, took_us: now_us - arrived_us });
        };
        for number in 0..self.end_us / self.gap_us {
            let now_us = number * self.gap_us;
            while let Some(Reverse(next)) =
                running.peek().copied().filter(|next| next.0.0 <= now_us)
            {
                running.pop();
                answer(next, &mut slots);
            }
            let slot = arrive(&self.pool, now_us);
            let mut ends_us = now_us + (self.service_us)(number);
            if let Some((endpoint, from_us, to_us)) = self.frozen
                && slot.index() == endpoint
                && ends_us > from_us
                && now_us < to_us
            {
                ends_us += to_us - from_us.max(now_us);
            }
            running.push(Reverse((ends_us, number)));
            slots.push(Some((slot, now_us)));
        }
        while let Some(Reverse(next)) = running.pop() {
            answer(next, &mut slots);
        }
        done
    }
}

#[test]
fn a_frozen_endpoint_costs_what_was_in_flight_there() {
    for policy in [PolicyKind::RoundRobin, PolicyKind::LeastConn, PolicyKind::Random2] {
        for endpoints in [2, 5] {
            let pool = balancer(policy, endpoints);
            let (from_us, to_us) = (2 * SECOND, 8 * SECOND);
            let done = Play {
                pool: pool.clone(),
                gap_us: 1000,
                end_us: 12 * SECOND,
                frozen: Some((1, from_us, to_us)),
                service_us: &|_| 1500,
            }
            .run();
            let held: Vec<_> = done.iter().filter(|one| one.took_us > 2000).collect();
            // Arrivals there until its silence is long enough: its share of 1,000 a second for 20
            // ms.
            assert!(held.len() <= 20_usize.div_ceil(endpoints) + 4, "{policy:?} {}", held.len());
            // Policies that compare exchanges in flight may take longer to send it the second
            // unanswered exchange, which is the evidence.
            let late_us = if policy == PolicyKind::RoundRobin { 30_000 } else { 500_000 };
            assert!(held.iter().all(|one| one.endpoint == 1 && one.arrived_us < from_us + late_us));
            let share = |from_us: u64| {
                let late = done.iter().filter(|one| one.arrived_us >= from_us);
                let own = late.clone().filter(|one| one.endpoint == 1).count();
                own as f64 / late.count() as f64 * endpoints as f64
            };
            assert!((0.8..1.2).contains(&share(9 * SECOND)), "{policy:?} {}", share(9 * SECOND));
            // Other policies may avoid the endpoint without a stall, by its exchanges in flight.
            let stalls = pool.endpoint(1).unwrap().stalls();
            assert!(stalls == 1 || policy != PolicyKind::RoundRobin && stalls == 0, "{policy:?}");
            assert!((0..endpoints).all(|index| !pool.endpoint(index).unwrap().is_stalled()));
        }
    }
}

#[test]
fn slow_requests_among_fast_ones_starve_no_request() {
    let mut random = fastrand::Rng::with_seed(7);
    let draws: Vec<f64> = (0..60_000).map(|_| random.f64()).collect();
    for slow in [0.002, 0.01, 0.02, 0.1, 0.5] {
        for rate in [5, 50, 500] {
            for endpoints in [2, 3] {
                let pool = balancer(PolicyKind::RoundRobin, endpoints);
                let exchanges = 10_000.min(rate * 1000);
                let service = |number: u64| {
                    if draws[number as usize] < slow { 500_000 } else { 1000 }
                };
                let done = Play {
                    pool,
                    gap_us: SECOND / rate,
                    end_us: exchanges * SECOND / rate,
                    frozen: None,
                    service_us: &service,
                }
                .run();
                for index in 0..endpoints {
                    let own = done.iter().filter(|one| one.endpoint == index).count();
                    let share = own as f64 / done.len() as f64 * endpoints as f64;
                    assert!(
                        (0.9..1.1).contains(&share),
                        "{slow} slow, {rate}/s: {share} of {endpoints}"
                    );
                }
            }
        }
    }
}

/// Runs clients that send the next request as soon as the last is answered. `service_us` gives the
/// service time by endpoint and a number from 0 to 1. Returns the finished exchanges: start,
/// duration, endpoint.
fn closed_loop(
    pool: &Arc<Balancer>,
    clients: u64,
    end_us: u64,
    frozen: Option<(usize, u64, u64)>,
    service_us: &dyn Fn(usize, f64) -> u64,
) -> Vec<Done> {
    let mut random = fastrand::Rng::with_seed(11);
    let mut running: BinaryHeap<Reverse<(u64, u64)>> =
        (0..clients).map(|n| Reverse((n * 10, n))).collect();
    let mut slots: Vec<Option<(Slot, u64)>> = (0..clients).map(|_| None).collect();
    let mut done = Vec::new();
    while let Some(Reverse((now_us, client))) = running.pop() {
        if let Some((mut slot, arrived_us)) = slots[client as usize].take() {
            slot.answered(now_us);
            done.push(Done { endpoint: slot.index(), arrived_us, took_us: now_us - arrived_us });
        }
        if now_us >= end_us {
            continue;
        }
        let slot = arrive(pool, now_us);
        let mut ends_us = now_us + service_us(slot.index(), random.f64());
        if let Some((endpoint, from_us, to_us)) = frozen
            && slot.index() == endpoint
            && ends_us > from_us
            && now_us < to_us
        {
            ends_us += to_us - from_us.max(now_us);
        }
        running.push(Reverse((ends_us, client)));
        slots[client as usize] = Some((slot, now_us));
    }
    done
}

#[test]
fn clients_that_ask_again_and_again_are_not_all_caught_by_a_frozen_endpoint() {
    for policy in [PolicyKind::RoundRobin, PolicyKind::LeastConn, PolicyKind::Random] {
        let (from_us, to_us) = (2 * SECOND, 8 * SECOND);
        let service = |_, draw: f64| 500 + (draw * 1000.0) as u64;
        let pool = balancer(policy, 2);
        let done = closed_loop(&pool, 50, 9 * SECOND, Some((1, from_us, to_us)), &service);
        let held = done.iter().filter(|one| one.took_us > 5000).count();
        assert!(held < 45, "{policy:?}: {held} of 50 clients wait");
        assert!(done.iter().all(|one| one.took_us <= 5000 || one.arrived_us < from_us + 5000));
    }
}

#[test]
fn a_slower_endpoint_keeps_its_turn() {
    for slower in [1, 3, 20] {
        let service = |endpoint, draw: f64| {
            (500 + (draw * 1000.0) as u64) * if endpoint == 1 { slower } else { 1 }
        };
        let pool = balancer(PolicyKind::RoundRobin, 2);
        let done = closed_loop(&pool, 50, 5 * SECOND, None, &service);
        let own = done.iter().filter(|one| one.endpoint == 1).count();
        let share = own as f64 / done.len() as f64;
        assert!((0.49..0.51).contains(&share), "{slower} times slower: {share}");
    }
}

/// Lets each endpoint answer twenty times, after a millisecond each; returns the time.
fn warmed(pool: &Arc<Balancer>) -> u64 {
    let mut now_us = 0;
    for _ in 0..20 * pool.len() {
        let mut slot = arrive(pool, now_us);
        now_us += 1000;
        slot.answered(now_us);
    }
    now_us
}

/// A pool in which endpoint 1 is stalled, the slots in flight there, and the time.
fn stalled(policy: PolicyKind, endpoints: usize) -> (Arc<Balancer>, Vec<Slot>, u64) {
    let pool = balancer(policy, endpoints);
    let mut now_us = warmed(&pool);
    let mut stuck = Vec::new();
    while !pool.endpoint(1).unwrap().is_stalled() {
        now_us += 1000;
        let mut slot = arrive(&pool, now_us);
        if slot.index() == 1 {
            stuck.push(slot);
        } else {
            slot.answered(now_us + 500);
        }
    }
    (pool, stuck, now_us)
}

/// The endpoints of the next `number` exchanges, one per millisecond, each answered after 0.5 ms.
fn places(pool: &Arc<Balancer>, now_us: &mut u64, number: usize) -> Vec<usize> {
    let mut place = || {
        *now_us += 1000;
        let mut slot = arrive(pool, *now_us);
        slot.answered(*now_us + 500);
        slot.index()
    };
    (0..number).map(|_| place()).collect()
}

#[test]
fn any_answer_ends_a_stall() {
    let (pool, mut stuck, mut now_us) = stalled(PolicyKind::RoundRobin, 2);
    assert!(stuck.len() >= 2);
    assert_eq!(places(&pool, &mut now_us, 10), [0; 10]);
    let lasted_us = stuck.pop().unwrap().answered(now_us + 1000);
    assert!(
        lasted_us.is_some_and(|lasted_us| (10_000..15_000).contains(&lasted_us)),
        "{lasted_us:?}"
    );
    now_us += 1000;
    let places = places(&pool, &mut now_us, 10);
    assert_eq!(places.iter().filter(|place| **place == 1).count(), 5);
    assert_eq!(stuck.pop().unwrap().answered(now_us), None);
}

#[test]
fn a_stall_is_told_once() {
    let (pool, stuck, _) = stalled(PolicyKind::RoundRobin, 2);
    let told = pool.take_stalls();
    assert_eq!((told.len(), told[0].index, told[0].unanswered as usize), (1, 1, stuck.len()));
    assert!(pool.take_stalls().is_empty());
}

#[test]
fn when_what_was_in_flight_there_is_gone_one_exchange_at_a_time_tries_it() {
    let (pool, stuck, mut now_us) = stalled(PolicyKind::RoundRobin, 2);
    drop(stuck);
    assert!(pool.endpoint(1).unwrap().is_stalled());
    let mut slots: Vec<Slot> = (0..10).map(|_| arrive(&pool, now_us)).collect();
    let tried = |slots: &[Slot]| slots.iter().filter(|slot| slot.index() == 1).count();
    assert_eq!(tried(&slots), 1);
    let at = slots.iter().position(|slot| slot.index() == 1).unwrap();
    drop(slots.remove(at));
    slots.extend((0..10).map(|_| arrive(&pool, now_us)));
    assert_eq!(tried(&slots), 1);
    now_us += 1000;
    for slot in slots.iter_mut().filter(|slot| slot.index() == 1) {
        assert!(slot.answered(now_us).is_some());
    }
    slots.extend((0..10).map(|_| arrive(&pool, now_us)));
    assert_eq!(tried(&slots), 6);
}

#[test]
fn an_endpoint_that_stays_silent_is_tried_once_in_a_while() {
    let (pool, stuck, now_us) = stalled(PolicyKind::RoundRobin, 2);
    let tried: Vec<u64> = (0..35)
        .filter(|second| {
            let mut now_us = now_us + second * SECOND;
            let places = places(&pool, &mut now_us, 20);
            places.contains(&1)
        })
        .collect();
    // Ten seconds after the stall began one exchange tries the endpoint; `places` answers it, which
    // ends the stall.
    assert_eq!(tried.first(), Some(&10));
    assert!(!pool.endpoint(1).unwrap().is_stalled());
    drop(stuck);
}

#[test]
fn at_most_half_count_as_stalled() {
    let pool = balancer(PolicyKind::RoundRobin, 4);
    let mut now_us = warmed(&pool);
    let mut stuck = Vec::new();
    // Three of four freeze; the last still answers.
    for _ in 0..400 {
        now_us += 1000;
        let mut slot = arrive(&pool, now_us);
        if slot.index() == 0 {
            slot.answered(now_us + 500);
        } else {
            stuck.push(slot);
        }
    }
    let stalled = (0..4).filter(|index| pool.endpoint(*index).unwrap().is_stalled()).count();
    assert_eq!(stalled, 2);
}

#[test]
fn silence_of_all_is_nobodys_stall() {
    let pool = balancer(PolicyKind::RoundRobin, 2);
    let mut now_us = warmed(&pool);
    let mut stuck = Vec::new();
    for _ in 0..1000 {
        now_us += 1000;
        stuck.push(arrive(&pool, now_us));
    }
    assert_eq!(stuck.iter().filter(|slot| slot.index() == 1).count(), 500);
    // A pool of one endpoint has no other.
    let pool = balancer(PolicyKind::RoundRobin, 1);
    let mut now_us = warmed(&pool);
    let slots: Vec<Slot> = (0..100)
        .map(|_| {
            now_us += 1000;
            arrive(&pool, now_us)
        })
        .collect();
    assert_eq!(slots.len(), 100);
}

#[test]
fn a_stalled_endpoint_is_better_than_none() {
    let (pool, _stuck, now_us) = stalled(PolicyKind::RoundRobin, 2);
    // This exchange already tried the other endpoint.
    let mut tried = Tried::new();
    tried.insert(0);
    let arrival = pool.arrive(&Request::new(now_us, 0, &tried));
    assert!(matches!(arrival, Arrival::Dispatched(slot) if slot.index() == 1));
    // The other endpoint no longer has an address.
    pool.set_availability(0, Availability::Unavailable, now_us);
    assert_eq!(arrive(&pool, now_us).index(), 1);
    tried.insert(1);
    let arrival = pool.arrive(&Request::new(now_us, 0, &tried));
    assert!(matches!(arrival, Arrival::Rejected(Rejection::Unavailable)));
}

#[test]
fn without_settings_nothing_is_ever_stalled() {
    let pool = Balancer::new(Settings::new(PolicyKind::RoundRobin), members(2));
    let slots: Vec<Slot> = (0..100).map(|second| arrive(&pool, second * SECOND)).collect();
    assert_eq!(slots.iter().filter(|slot| slot.index() == 1).count(), 50);
}

#[test]
fn a_waiting_exchange_gets_the_stalled_endpoint_when_it_answers_and_not_before() {
    let queue = Some(QueueSettings { max: 10, max_per_endpoint: None });
    let mut members = members(2);
    for member in &mut members {
        member.max_conn = Some(4);
    }
    let pool = Balancer::new(Settings { queue, ..settings(PolicyKind::RoundRobin) }, members);
    let mut now_us = warmed(&pool);
    // Two are stuck at one endpoint while the other answers.
    let mut stuck = Vec::new();
    while !pool.endpoint(1).unwrap().is_stalled() {
        now_us += 50_000;
        let mut slot = arrive(&pool, now_us);
        if slot.index() == 1 && stuck.len() < 2 {
            stuck.push(slot);
        } else {
            slot.answered(now_us + 500);
        }
    }
    let busy: Vec<Slot> = (0..4).map(|_| arrive(&pool, now_us)).collect();
    assert!(busy.iter().all(|slot| slot.index() == 0));
    let Arrival::Queued(mut ticket) = pool.arrive(&Request::new(now_us, 0, &Tried::new())) else {
        panic!("two places at the stalled endpoint were taken")
    };
    let mut context = Context::from_waker(Waker::noop());
    assert!(std::pin::Pin::new(&mut ticket).poll(&mut context).is_pending());
    assert_eq!(pool.audit(now_us), 0);
    stuck[0].answered(now_us);
    let Poll::Ready(Ok(slot)) = std::pin::Pin::new(&mut ticket).poll(&mut context) else {
        panic!("a waiting request was forgotten")
    };
    assert_eq!(slot.index(), 1);
    assert_eq!(pool.audit(now_us), 0);
}

#[test]
fn whose_key_leads_to_an_endpoint_that_stalls_goes_elsewhere_also_from_its_line() {
    let queue = Some(QueueSettings { max: 10, max_per_endpoint: None });
    let mut members = members(2);
    for member in &mut members {
        member.max_conn = Some(2);
    }
    let policy = PolicyKind::Hash(HashSettings::default());
    let pool = Balancer::new(Settings { queue, ..settings(policy) }, members);
    let tried = Tried::new();
    let ask = |now_us, key| pool.arrive(&Request { key, ..Request::new(now_us, 0, &tried) });
    let mut exchange = |now_us, key| match ask(now_us, key) {
        Arrival::Dispatched(mut slot) => {
            slot.sent(now_us);
            slot
        }
        other => panic!("{other:?}"),
    };
    let key_of = |index: usize, exchange: &mut dyn FnMut(u64, u64) -> Slot| {
        (0..1000)
            .map(|number: u64| hash_key(&number.to_le_bytes()))
            .find(|key| exchange(0, *key).index() == index)
    };
    let keys = [0, 1].map(|index| key_of(index, &mut exchange).unwrap());
    for number in 0..40 {
        exchange(number * 1000, keys[number as usize % 2]).answered(number * 1000 + 500);
    }
    let stuck: Vec<Slot> = (0..2).map(|_| exchange(100_000, keys[1])).collect();
    let Arrival::Queued(mut ticket) = ask(101_000, keys[1]) else { panic!("it is full") };
    let mut context = Context::from_waker(Waker::noop());
    assert!(std::pin::Pin::new(&mut ticket).poll(&mut context).is_pending());
    // The other endpoint answers, and another exchange whose key leads to the stalled one arrives:
    // both go to the other.
    exchange(110_000, keys[0]).answered(110_500);
    assert_eq!(exchange(130_000, keys[1]).index(), 0);
    let Poll::Ready(Ok(slot)) = std::pin::Pin::new(&mut ticket).poll(&mut context) else {
        panic!("a waiting request was forgotten")
    };
    assert_eq!(slot.index(), 0);
    assert_eq!(stuck.iter().filter(|slot| slot.index() == 1).count(), 2);
}

/// One event in a pool of three endpoints with limits and a queue.
#[derive(Clone, Debug)]
enum Step {
    Arrive,
    /// The running exchange at this position is answered, and goes on.
    Answer(usize),
    /// The running exchange at this position ends, answered or not.
    End(usize),
    /// The waiter at this position leaves.
    Leave(usize),
    Wait(u64),
    Available(usize, bool),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => Just(Step::Arrive),
        4 => any::<usize>().prop_map(Step::Answer),
        4 => any::<usize>().prop_map(Step::End),
        1 => any::<usize>().prop_map(Step::Leave),
        3 => (1..60_000_u64).prop_map(Step::Wait),
        1 => (0..3_usize, any::<bool>()).prop_map(|(index, up)| Step::Available(index, up)),
    ]
}

/// A pool of three endpoints with a limit of four each, and all exchanges in it.
struct Crowd {
    pool: Arc<Balancer>,
    now_us: u64,
    running: Vec<Slot>,
    waiting: Vec<weir_balance::Ticket>,
}

impl Crowd {
    fn new(policy: PolicyKind) -> Self {
        let queue = Some(QueueSettings { max: 40, max_per_endpoint: None });
        let mut members = members(3);
        for member in &mut members {
            member.max_conn = Some(4);
        }
        let pool = Balancer::new(Settings { queue, ..settings(policy) }, members);
        let now_us = warmed(&pool);
        Self { pool, now_us, running: Vec::new(), waiting: Vec::new() }
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Arrive => {
                let tried = Tried::new();
                let key = hash_key(&self.now_us.to_le_bytes());
                let request = Request { key, ..Request::new(self.now_us, key, &tried) };
                match self.pool.arrive(&request) {
                    Arrival::Dispatched(slot) => self.runs(slot),
                    Arrival::Queued(ticket) => self.waiting.push(ticket),
                    Arrival::Rejected(_) => {}
                }
            }
            Step::Answer(at) | Step::End(at) if !self.running.is_empty() => {
                let at = at % self.running.len();
                match step {
                    Step::Answer(_) => drop(self.running[at].answered(self.now_us)),
                    _ => drop(self.running.swap_remove(at)),
                }
            }
            Step::Leave(at) if !self.waiting.is_empty() => {
                drop(self.waiting.remove(at % self.waiting.len()));
            }
            Step::Answer(_) | Step::End(_) | Step::Leave(_) => {}
            Step::Wait(us) => self.now_us += us,
            Step::Available(index, up) => {
                let availability =
                    if up { Availability::Available } else { Availability::Unavailable };
                self.pool.set_availability(index, availability, self.now_us);
            }
        }
        let mut context = Context::from_waker(Waker::noop());
        for mut ticket in std::mem::take(&mut self.waiting) {
            match std::pin::Pin::new(&mut ticket).poll(&mut context) {
                Poll::Pending => self.waiting.push(ticket),
                Poll::Ready(Ok(slot)) => self.runs(slot),
                Poll::Ready(Err(_)) => {}
            }
        }
    }

    fn runs(&mut self, mut slot: Slot) {
        slot.sent(self.now_us);
        self.running.push(slot);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn whatever_stalls_no_exchange_is_forgotten(
        steps in prop::collection::vec(step(), 1..150), hashes in any::<bool>()
    ) {
        let hash = PolicyKind::Hash(HashSettings::default());
        let mut crowd = Crowd::new(if hashes { hash } else { PolicyKind::RoundRobin });
        for step in &steps {
            crowd.step(step);
            prop_assert_eq!(crowd.pool.audit(crowd.now_us), 0, "after {:?}", step);
            let stalled = (0..3).filter(|index| crowd.pool.endpoint(*index).unwrap().is_stalled());
            prop_assert!(stalled.count() <= 1);
        }
        for index in 0..3 {
            crowd.step(&Step::Available(index, true));
        }
        // A stalled endpoint comes back once the exchanges in flight there end, answered or not.
        while !crowd.running.is_empty() {
            crowd.step(&Step::End(0));
        }
        prop_assert_eq!((crowd.waiting.len(), crowd.pool.in_flight()), (0, 0));
    }
}
