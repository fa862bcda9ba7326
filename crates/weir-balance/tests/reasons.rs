//! The recorded reasons of choices, and the exchanges ahead of one that has to wait.

mod pool;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use pool::pick;
use weir_balance::{
    Arrival, Balancer, ChosenBy, ExchangeInfo, FairSettings, HashSettings, Member, PolicyKind,
    QueueSettings, Request, RunnerUp, Settings, Slot, Ticket, Tried, WaitsFor, hash_key,
};

fn member(index: u64, weight: u32, max_conn: Option<u32>) -> Member {
    let identity = hash_key(&index.to_le_bytes());
    Member {
        identity,
        weight,
        max_conn,
        tier: 0,
        ejection: None,
        slow_start_us: 0,
        state: Arc::default(),
    }
}

fn pool(policy: PolicyKind, weights: &[u32]) -> Arc<Balancer> {
    let members = (0..).zip(weights).map(|(index, weight)| member(index, *weight, None));
    Balancer::new(Settings::new(policy), members.collect())
}

fn take(pool: &Arc<Balancer>) -> Slot {
    pick(pool, 0, 7, &Tried::new()).unwrap()
}

/// Slots at these endpoints, one for each time that an endpoint is named.
fn busy(pool: &Arc<Balancer>, indexes: &[usize]) -> Vec<Slot> {
    let tried = Tried::new();
    let bound = |index: &usize| {
        let request = Request { bound: Some(*index), ..Request::new(0, 0, &tried) };
        let Arrival::Dispatched(slot) = pool.arrive(&request) else { panic!("not dispatched") };
        assert_eq!(slot.decision().chosen_by, ChosenBy::Sticky);
        slot
    };
    indexes.iter().map(bound).collect()
}

/// Checks the endpoint, the reason, the load and the runner-up.
fn check(slot: &Slot, expected: (usize, ChosenBy, u32), runner_up: Option<(u32, Option<u32>)>) {
    let decision = slot.decision();
    assert_eq!((slot.index(), decision.chosen_by, decision.load), expected);
    let runner_up = runner_up.map(|(index, load)| RunnerUp { index, load });
    assert_eq!(decision.runner_up(), runner_up);
}

#[test]
fn least_conn_tells_the_next_best_and_what_both_had() {
    let pool = pool(PolicyKind::LeastConn, &[1, 1, 4]);
    let _busy = busy(&pool, &[0, 0, 0, 1, 2, 2, 2]);
    // 3/1, 1/1, 3/4: the third is least loaded for its weight, the second next.
    check(&take(&pool), (2, ChosenBy::Better, 3), Some((1, Some(1))));
}

#[test]
fn equals_go_in_turn_and_the_other_one_is_told() {
    let pool = pool(PolicyKind::LeastConn, &[1, 1]);
    let first = take(&pool);
    check(&first, (0, ChosenBy::Turn, 0), Some((1, Some(0))));
    drop(first);
    check(&take(&pool), (1, ChosenBy::Turn, 0), Some((0, Some(0))));
}

#[test]
fn alone_there_is_no_other() {
    for policy in [PolicyKind::LeastConn, PolicyKind::RoundRobin, PolicyKind::Random2] {
        assert_eq!(take(&pool(policy, &[1])).decision().runner_up(), None, "{policy}");
    }
}

#[test]
fn round_robin_tells_whose_turn_is_next() {
    let pool = pool(PolicyKind::RoundRobin, &[2, 1]);
    let slots = [take(&pool), take(&pool), take(&pool)];
    // The order is a b a: the next in the cycle, regardless of the exchanges in flight there.
    check(&slots[0], (0, ChosenBy::Turn, 0), Some((1, None)));
    check(&slots[1], (1, ChosenBy::Turn, 0), Some((0, None)));
    check(&slots[2], (0, ChosenBy::Turn, 1), None);
}

#[test]
fn of_two_drawn_the_loser_is_told() {
    let pool = pool(PolicyKind::Random2, &[1, 1]);
    let _busy = busy(&pool, &[0, 0]);
    check(&take(&pool), (1, ChosenBy::Better, 0), Some((0, Some(2))));
}

#[test]
fn fair_tells_an_idle_one_in_turn_and_scores_else() {
    let pool = pool(PolicyKind::Fair(FairSettings::default()), &[1, 1]);
    let first = take(&pool);
    check(&first, (0, ChosenBy::Turn, 0), None);
    let _busy = busy(&pool, &[0, 1]);
    check(&take(&pool), (1, ChosenBy::Better, 1), Some((0, Some(2))));
}

#[test]
fn a_key_has_a_second_choice() {
    let pool = pool(PolicyKind::Hash(HashSettings::default()), &[1, 1, 1]);
    for key in 0..20 {
        let tried = Tried::new();
        let ask = |tried: &Tried| {
            let key = hash_key(&u64::to_le_bytes(key));
            let request = Request { key, ..Request::new(0, 0, tried) };
            let Arrival::Dispatched(slot) = pool.arrive(&request) else { panic!() };
            assert_eq!(slot.decision().chosen_by, ChosenBy::Key);
            slot.index()
        };
        let first = ask(&tried);
        let second = pool.second_choice(first, hash_key(&u64::to_le_bytes(key)), 0);
        let mut tried = Tried::new();
        tried.insert(first);
        assert_eq!(
            second,
            Some(ask(&tried)),
            "it is where the key goes when the first is not there"
        );
    }
    assert_eq!(self::pool(PolicyKind::LeastConn, &[1, 1]).second_choice(0, 7, 0), None);
}

/// The exchanges of a pool with two endpoints of one slot each, named by numbers.
struct Crowd(Arc<Balancer>);

impl Crowd {
    fn new() -> Self {
        let queue = Some(QueueSettings { max: 100, max_per_endpoint: None });
        let settings = Settings { queue, ..Settings::new(PolicyKind::LeastConn) };
        let members = (0..2).map(|index| member(index, 1, Some(1))).collect();
        Self(Balancer::new(settings, members))
    }

    fn arrive(&self, number: u32, bound: Option<usize>) -> Arrival {
        let name = number.to_string();
        let about = ExchangeInfo {
            name: name.as_bytes(),
            client: &[192, 0, 2, 7],
            method: b"GET",
            target: b"/a",
        };
        let tried = Tried::new();
        self.0.arrive(&Request { bound, about, ..Request::new(0, 0, &tried) })
    }

    fn queue(&self, number: u32, bound: Option<usize>) -> Ticket {
        let Arrival::Queued(ticket) = self.arrive(number, bound) else { panic!("not queued") };
        ticket
    }
}

fn names(ticket: &Ticket) -> Vec<String> {
    let ahead = ticket.ahead();
    ahead.iter().map(|name| String::from_utf8(name.to_vec()).unwrap()).collect()
}

#[test]
fn a_waiting_exchange_learns_which_were_ahead() {
    let crowd = Crowd::new();
    let slots = [crowd.arrive(1, None), crowd.arrive(2, None)];
    let mut first = crowd.queue(3, None);
    assert_eq!((names(&first).len(), first.waits_for()), (0, WaitsFor::Any));
    // Bound to one endpoint: exchanges bound to the other are not ahead of it.
    let second = crowd.queue(4, Some(1));
    assert_eq!((names(&second), second.waits_for()), (vec!["3".to_owned()], WaitsFor::Bound));
    let third = crowd.queue(5, Some(0));
    assert_eq!((names(&third), third.position()), (vec!["3".to_owned()], 1));
    let fourth = crowd.queue(6, None);
    assert_eq!(names(&fourth), ["3", "4", "5"]);
    let others: Vec<Ticket> = (7..10).map(|number| crowd.queue(number, None)).collect();
    let last = others.last().unwrap();
    assert_eq!(
        (names(last), last.position()),
        (["3", "4", "5", "6"].map(String::from).to_vec(), 6)
    );
    let waiting = crowd.0.waiting();
    assert_eq!((&*waiting[3].about.name, &*waiting[3].about.wish), (&b"6"[..], &b"GET /a"[..]));
    assert_eq!((&*waiting[3].about.client, waiting[3].about.cut), (&[192, 0, 2, 7][..], false));
    drop(slots);
    let Poll::Ready(Ok(slot)) = Pin::new(&mut first).poll(&mut Context::from_waker(Waker::noop()))
    else {
        panic!("not served")
    };
    assert_eq!(slot.decision().chosen_by, ChosenBy::Freed);
}
