//! Exchanges bound to endpoints and exchanges that any endpoint may serve, mixed and more than the
//! pool can take, in virtual time. The oldest exchange goes first, so that neither kind starves the
//! other. The older rule of HAProxy (an endpoint's own line always before the pool's) allowed
//! starvation.

use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::collections::BTreeMap;
use std::sync::Arc;

use weir_balance::{
    Arrival, Balancer, EndpointState, Member, PolicyKind, QueueSettings, Request, Settings, Slot,
    Ticket, Tried,
};

const ENDPOINTS: usize = 3;
/// The time for which an exchange holds its slot, µs.
const SERVICE_US: u64 = 10_000;

/// An exchange to come.
#[derive(Clone, Copy)]
struct Planned {
    at_us: u64,
    bound: Option<usize>,
}

/// An exchange that was served.
#[derive(Clone, Copy, Debug)]
struct Served {
    arrived_us: u64,
    began_us: u64,
    bound: Option<usize>,
    endpoint: usize,
}

impl Served {
    fn waited_us(&self) -> u64 {
        self.began_us - self.arrived_us
    }
}

/// Exchanges of one kind, evenly spaced.
fn every(interval_us: u64, bound: Option<usize>, until_us: u64) -> Vec<Planned> {
    (0..until_us / interval_us).map(|turn| Planned { at_us: turn * interval_us, bound }).collect()
}

/// Plays the arrivals until all are served; returns the exchanges in order of service.
fn play(mut arrivals: Vec<Planned>) -> Vec<Served> {
    arrivals.sort_by_key(|planned| planned.at_us);
    let member = |index: usize| Member {
        identity: index as u64,
        weight: 1,
        max_conn: Some(1),
        tier: 0,
        ejection: None,
        slow_start_us: 0,
        state: Arc::new(EndpointState::default()),
    };
    let queue = Some(QueueSettings { max: u32::MAX, max_per_endpoint: None });
    let settings = Settings { queue, ..Settings::new(PolicyKind::LeastConn) };
    let pool = Balancer::new(settings, (0..ENDPOINTS).map(member).collect());
    let mut running: BTreeMap<(u64, usize), Slot> = BTreeMap::new();
    let mut waiting: Vec<(Planned, Ticket)> = Vec::new();
    let mut served = Vec::new();
    let mut arrivals = arrivals.into_iter().peekable();
    loop {
        let ends = running.keys().next().map(|(ends_us, _)| *ends_us);
        let comes = arrivals.peek().map(|planned| planned.at_us);
        let now_us = match (ends, comes) {
            (None, None) => break,
            (ends, comes) => ends.unwrap_or(u64::MAX).min(comes.unwrap_or(u64::MAX)),
        };
        let mut began = Vec::new();
        if ends == Some(now_us) {
            let (_, slot) = running.pop_first().unwrap();
            slot.finish(SERVICE_US);
        } else if let Some(planned) = arrivals.next() {
            let tried = Tried::new();
            let request = Request { bound: planned.bound, ..Request::new(now_us, 7, &tried) };
            match pool.arrive(&request) {
                Arrival::Dispatched(slot) => began.push((planned, slot)),
                Arrival::Queued(ticket) => waiting.push((planned, ticket)),
                Arrival::Rejected(rejection) => panic!("{rejection:?}"),
            }
        }
        waiting.retain_mut(|(planned, ticket)| {
            let context = &mut Context::from_waker(Waker::noop());
            match Pin::new(ticket).poll(context) {
                Poll::Pending => true,
                Poll::Ready(slot) => {
                    began.push((*planned, slot.unwrap()));
                    false
                }
            }
        });
        for (Planned { at_us, bound }, slot) in began {
            let endpoint = slot.index();
            served.push(Served { arrived_us: at_us, began_us: now_us, bound, endpoint });
            running.insert((now_us + SERVICE_US, endpoint), slot);
        }
    }
    assert!(waiting.is_empty(), "{} were forgotten", waiting.len());
    assert_eq!(pool.audit(u64::MAX / 2), 0);
    served
}

/// Checks that no exchange was served at an endpoint while an older one waited that could use it.
fn check_order(served: &[Served]) {
    for (at, one) in served.iter().enumerate() {
        assert!(one.bound.is_none_or(|bound| bound == one.endpoint), "{one:?}");
        for later in &served[at + 1..] {
            let may = later.bound.is_none_or(|bound| bound == one.endpoint);
            assert!(!may || later.arrived_us >= one.arrived_us, "{one:?} overtook {later:?}");
        }
    }
}

fn longest_wait_us(served: &[Served], kind: impl Fn(&Served) -> bool) -> u64 {
    served.iter().filter(|one| kind(one)).map(Served::waited_us).max().unwrap()
}

#[test]
fn an_unbound_exchange_is_not_starved_by_floods_bound_to_every_endpoint() {
    let until_us = 2_000_000;
    // Exchanges bound to an endpoint make up 110 % of its capacity.
    let mut arrivals: Vec<Planned> = (0..ENDPOINTS)
        .flat_map(|index| every(SERVICE_US * 10 / 11, Some(index), until_us))
        .collect();
    arrivals.extend(every(100_000, None, until_us));
    let served = play(arrivals);
    check_order(&served);
    // By the end 200 ms of work are queued at each endpoint: if an endpoint's line always went
    // first, unbound exchanges would wait for all of it.
    let free = longest_wait_us(&served, |one| one.bound.is_none());
    let bound = longest_wait_us(&served, |one| one.bound.is_some());
    assert!(free <= bound, "{free} {bound}");
    let last = served.iter().rposition(|one| one.bound.is_none()).unwrap();
    let behind = served[last..].iter().filter(|one| one.bound.is_some()).count();
    assert!(behind > 0, "those who are free came last");
}

#[test]
fn a_bound_exchange_is_not_starved_by_a_flood_of_unbound_ones() {
    let until_us = 2_000_000;
    let flood = SERVICE_US / ENDPOINTS as u64 * 10 / 12;
    let mut arrivals = every(flood, None, until_us);
    arrivals.extend(every(100_000, Some(1), until_us));
    let served = play(arrivals);
    check_order(&served);
    let free = longest_wait_us(&served, |one| one.bound.is_none());
    let bound = longest_wait_us(&served, |one| one.bound.is_some());
    // A bound exchange has one endpoint where others have three: one exchange of another kind there
    // may delay it.
    assert!(bound <= free + SERVICE_US, "{bound} {free}");
}

#[test]
fn one_hot_endpoint_delays_no_exchange_that_may_go_elsewhere() {
    let until_us = 2_000_000;
    let mut arrivals = every(SERVICE_US / 2, Some(0), until_us);
    arrivals.extend(every(SERVICE_US * 2, None, until_us));
    let served = play(arrivals);
    check_order(&served);
    assert_eq!(longest_wait_us(&served, |one| one.bound.is_none()), 0);
    assert!(longest_wait_us(&served, |one| one.bound.is_some()) > until_us / 2);
}
