//! The queue, one behaviour per test: order, hand-over, leaving, changes by the operator and by
//! probes, bounds.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use weir_balance::{
    AdminState, AfterFailure, Arrival, Availability, Balancer, Health, Member, PassiveSettings,
    PolicyKind, QueueSettings, Rejection, Request, Seniority, Settings, Slot, Ticket, Tried,
};

const QUEUE: QueueSettings = QueueSettings { max: 100, max_per_endpoint: None };

fn settings() -> Settings {
    Settings { queue: Some(QUEUE), ..Settings::new(PolicyKind::LeastConn) }
}

fn member(limit: u32) -> Member {
    Member {
        identity: 0,
        weight: 1,
        max_conn: Some(limit),
        tier: 0,
        ejection: None,
        slow_start_us: 0,
        state: Arc::default(),
    }
}

/// A pool of endpoints with these limits.
fn pool(limits: &[u32]) -> Arc<Balancer> {
    Balancer::new(settings(), limits.iter().map(|limit| member(*limit)).collect())
}

/// A source of exchanges, with tags from 1.
struct Clients {
    pool: Arc<Balancer>,
    tag: u64,
    now_us: u64,
}

impl Clients {
    fn new(pool: &Arc<Balancer>) -> Self {
        Self { pool: Arc::clone(pool), tag: 0, now_us: 0 }
    }

    fn arrive(&mut self, bound: Option<usize>, tried: &[usize]) -> Arrival {
        self.tag += 1;
        let mut set = Tried::new();
        for index in tried {
            set.insert(*index);
        }
        let request = Request { bound, tag: self.tag, ..Request::new(self.now_us, self.tag, &set) };
        self.pool.arrive(&request)
    }

    fn slot(&mut self, bound: Option<usize>) -> Slot {
        let Arrival::Dispatched(slot) = self.arrive(bound, &[]) else { panic!("not dispatched") };
        slot
    }

    fn ticket(&mut self, bound: Option<usize>) -> Ticket {
        let Arrival::Queued(ticket) = self.arrive(bound, &[]) else { panic!("not queued") };
        ticket
    }

    fn rejection(&mut self, bound: Option<usize>) -> Rejection {
        let Arrival::Rejected(rejection) = self.arrive(bound, &[]) else { panic!("not rejected") };
        rejection
    }
}

fn poll(ticket: &mut Ticket) -> Poll<Result<Slot, Rejection>> {
    Pin::new(ticket).poll(&mut Context::from_waker(Waker::noop()))
}

fn served(ticket: &mut Ticket) -> Slot {
    let Poll::Ready(Ok(slot)) = poll(ticket) else { panic!("not served") };
    slot
}

fn tags(pool: &Balancer) -> Vec<u64> {
    pool.waiting().iter().map(|waiting| waiting.tag).collect()
}

#[derive(Default)]
struct Bell(AtomicU32);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn waiting_exchanges_are_served_in_the_order_of_arrival() {
    let pool = pool(&[1, 1]);
    let mut clients = Clients::new(&pool);
    let running = [clients.slot(None), clients.slot(None)];
    let mut tickets: Vec<Ticket> = (0..4).map(|_| clients.ticket(None)).collect();
    assert_eq!(tickets.iter().map(Ticket::position).collect::<Vec<_>>(), [0, 1, 2, 3]);
    let [first, second] = running;
    drop(second);
    let mut slot = served(&mut tickets[0]);
    assert_eq!(slot.index(), 1);
    assert!(poll(&mut tickets[1]).is_pending());
    for ticket in &mut tickets[1..] {
        drop(slot);
        slot = served(ticket);
    }
    drop((slot, first));
    assert_eq!(pool.in_flight(), 0);
    assert_eq!(pool.counters().queued, 4);
    assert_eq!(pool.queue_length().longest, 4);
}

#[test]
fn a_freed_slot_goes_to_the_next_in_line_and_no_newcomer_takes_it() {
    let pool = pool(&[1]);
    let mut clients = Clients::new(&pool);
    let running = clients.slot(None);
    let mut waiting = clients.ticket(None);
    drop(running);
    // Not polled yet: the slot is taken all the same.
    assert_eq!(pool.in_flight(), 1);
    let mut late = clients.ticket(None);
    assert!(poll(&mut late).is_pending());
    drop(served(&mut waiting));
    drop(served(&mut late));
}

#[test]
fn the_next_in_line_is_woken_once_and_no_other() {
    let pool = pool(&[1]);
    let mut clients = Clients::new(&pool);
    let running = clients.slot(None);
    let mut tickets = [clients.ticket(None), clients.ticket(None)];
    let bells = [Arc::<Bell>::default(), Arc::<Bell>::default()];
    for (ticket, bell) in tickets.iter_mut().zip(&bells) {
        let waker = Waker::from(Arc::clone(bell));
        assert!(Pin::new(ticket).poll(&mut Context::from_waker(&waker)).is_pending());
    }
    drop(running);
    assert_eq!(bells.each_ref().map(|bell| bell.0.load(Ordering::SeqCst)), [1, 0]);
    drop(served(&mut tickets[0]));
    assert_eq!(bells.each_ref().map(|bell| bell.0.load(Ordering::SeqCst)), [1, 1]);
}

#[test]
fn an_exchange_that_leaves_is_out_at_once_and_those_behind_move_up() {
    let pool = pool(&[1]);
    let mut clients = Clients::new(&pool);
    let running = clients.slot(None);
    let first = clients.ticket(None);
    let mut second = clients.ticket(None);
    assert_eq!(tags(&pool), [2, 3]);
    drop(first);
    assert_eq!(tags(&pool), [3]);
    drop(running);
    drop(served(&mut second));
    assert_eq!((pool.counters().cancelled, pool.counters().timed_out), (1, 0));
}

#[test]
fn a_slot_that_was_handed_over_and_not_taken_goes_on() {
    let pool = pool(&[1]);
    let mut clients = Clients::new(&pool);
    let running = clients.slot(None);
    let first = clients.ticket(None);
    let mut second = clients.ticket(None);
    drop(running);
    drop(first);
    drop(served(&mut second));
    assert_eq!(pool.in_flight(), 0);
    assert_eq!(pool.counters().cancelled, 1);
}

#[test]
fn a_deadline_counts_apart_and_a_slot_of_the_same_moment_is_not_lost() {
    let pool = pool(&[1]);
    let mut clients = Clients::new(&pool);
    let running = clients.slot(None);
    let tickets = [clients.ticket(None), clients.ticket(None)];
    drop(running);
    let [first, second] = tickets;
    let slot = first.time_out().expect("it was handed over");
    assert!(second.time_out().is_none());
    assert_eq!((pool.counters().cancelled, pool.counters().timed_out), (0, 1));
    drop(slot);
    assert_eq!(pool.in_flight(), 0);
}

#[test]
fn of_the_endpoint_s_line_and_the_pool_s_the_older_goes_first() {
    let pool = pool(&[1, 1]);
    let mut clients = Clients::new(&pool);
    let mut slots = [clients.slot(Some(0)), clients.slot(Some(1))];
    let mut bound = clients.ticket(Some(0));
    let mut any = clients.ticket(None);
    let mut bound_later = clients.ticket(Some(0));
    assert_eq!(bound_later.position(), 2, "one bound, one for any");
    assert_eq!(pool.endpoint(0).unwrap().queued(), 2);
    for ticket in [&mut bound, &mut any, &mut bound_later] {
        let [zero, one] = slots;
        drop(zero);
        slots = [served(ticket), one];
        assert_eq!(slots[0].index(), 0);
    }
    assert_eq!(pool.endpoint(0).unwrap().queued(), 0);
}

#[test]
fn a_bound_exchange_waits_although_another_endpoint_is_free() {
    let pool = pool(&[1, 1]);
    let mut clients = Clients::new(&pool);
    let running = clients.slot(Some(0));
    let mut bound = clients.ticket(Some(0));
    assert_eq!(clients.slot(None).index(), 1);
    assert!(poll(&mut bound).is_pending());
    assert_eq!(pool.audit(0), 0, "the free one is not for him");
    drop(running);
    assert_eq!(served(&mut bound).index(), 0);
}

#[test]
fn an_exchange_bound_to_an_endpoint_that_goes_down_takes_any_other() {
    let pool = pool(&[1, 1]);
    let mut clients = Clients::new(&pool);
    let slots = [clients.slot(Some(0)), clients.slot(Some(1))];
    let mut any = clients.ticket(None);
    let mut bound = clients.ticket(Some(0));
    let mut last = clients.ticket(None);
    pool.set_health(0, Health::Unhealthy, 1);
    assert_eq!(pool.waiting()[1].bound, None);
    let [zero, one] = slots;
    drop(zero);
    assert!(poll(&mut any).is_pending(), "a slot of an endpoint that is down is nobody's");
    drop(one);
    assert_eq!(served(&mut any).index(), 1);
    assert_eq!(served(&mut bound).index(), 1);
    assert_eq!(served(&mut last).index(), 1);
}

#[test]
fn a_bound_exchange_finds_its_line_again_when_the_endpoint_comes_back() {
    let pool = pool(&[1, 1]);
    let mut clients = Clients::new(&pool);
    let slots = [clients.slot(Some(0)), clients.slot(Some(1))];
    let mut bound = clients.ticket(Some(0));
    pool.set_admin_state(0, AdminState::Maintenance, 1);
    pool.set_admin_state(0, AdminState::Ready, 2);
    assert_eq!(pool.waiting()[0].bound, Some(0));
    let [zero, one] = slots;
    drop(one);
    assert!(poll(&mut bound).is_pending());
    drop(zero);
    assert_eq!(served(&mut bound).index(), 0);
}

#[test]
fn a_draining_endpoint_takes_bound_exchanges_and_no_others() {
    let pool = pool(&[1, 1]);
    let mut clients = Clients::new(&pool);
    pool.set_admin_state(0, AdminState::Draining, 0);
    let bound = clients.slot(Some(0));
    let other = clients.slot(None);
    assert_eq!((bound.index(), other.index()), (0, 1));
    let mut any = clients.ticket(None);
    let mut bound_later = clients.ticket(Some(0));
    drop(bound);
    assert!(poll(&mut any).is_pending());
    assert_eq!(served(&mut bound_later).index(), 0);
    drop(other);
    assert_eq!(served(&mut any).index(), 1);
}

#[test]
fn maintenance_takes_nothing_and_its_end_serves_waiting_requests() {
    let pool = pool(&[2, 1]);
    let mut clients = Clients::new(&pool);
    pool.set_admin_state(0, AdminState::Maintenance, 0);
    assert_eq!(clients.slot(Some(0)).index(), 1, "bound to it counts as not bound");
    let running = clients.slot(None);
    let mut tickets = [clients.ticket(None), clients.ticket(None), clients.ticket(None)];
    pool.set_admin_state(0, AdminState::Ready, 5);
    assert_eq!(served(&mut tickets[0]).index(), 0);
    drop(running);
    assert!(tickets[1..].iter_mut().all(|ticket| poll(ticket).is_ready()));
}

#[test]
fn a_raised_limit_serves_waiting_requests_and_a_lowered_one_lets_those_in_flight_finish() {
    let pool = pool(&[1]);
    let mut clients = Clients::new(&pool);
    let running = clients.slot(None);
    let mut tickets: Vec<Ticket> = (0..3).map(|_| clients.ticket(None)).collect();
    pool.set_max_conn(0, Some(3), 1);
    let more = [served(&mut tickets[0]), served(&mut tickets[1])];
    assert!(poll(&mut tickets[2]).is_pending());
    pool.set_max_conn(0, Some(1), 2);
    assert_eq!(pool.audit(2), 0, "three in flight were allowed when they went");
    drop(more);
    assert!(poll(&mut tickets[2]).is_pending());
    drop(running);
    let last = served(&mut tickets[2]);
    assert_eq!(pool.in_flight(), 1);
    drop(last);
}

#[test]
fn a_limit_that_comes_later_makes_the_next_wait() {
    let pool = Balancer::new(settings(), vec![Member { max_conn: None, ..member(1) }]);
    let mut clients = Clients::new(&pool);
    let slots = [clients.slot(None), clients.slot(None)];
    pool.set_max_conn(0, Some(1), 1);
    let mut waiting = clients.ticket(None);
    let [one, two] = slots;
    drop(one);
    assert!(poll(&mut waiting).is_pending());
    drop(two);
    drop(served(&mut waiting));
    pool.set_max_conn(0, None, 2);
    drop([clients.slot(None), clients.slot(None)]);
    assert_eq!(pool.in_flight(), 0);
}

#[test]
fn the_end_of_an_ejection_serves_waiting_requests() {
    let passive =
        PassiveSettings { errors: 1, window_us: 10, eject_us: 1_000, max_ejected_percent: 50 };
    let pool = Balancer::new(Settings { passive, ..settings() }, vec![member(1), member(1)]);
    let mut clients = Clients::new(&pool);
    let _busy = clients.slot(Some(1));
    assert_eq!(pool.endpoint_failed(0, 100, 0), AfterFailure::Ejected { until_us: 1_100 });
    clients.now_us = 101;
    let mut waiting = clients.ticket(None);
    assert_eq!(pool.next_change_us(101), Some(1_100));
    pool.tick(1_099);
    assert!(poll(&mut waiting).is_pending());
    pool.tick(1_100);
    assert_eq!(served(&mut waiting).index(), 0);
    assert_eq!(pool.next_change_us(1_100), None);
}

#[test]
fn an_arrival_after_an_ejection_ended_does_not_overtake() {
    let passive =
        PassiveSettings { errors: 1, window_us: 10, eject_us: 1_000, max_ejected_percent: 50 };
    let pool = Balancer::new(Settings { passive, ..settings() }, vec![member(1), member(1)]);
    let mut clients = Clients::new(&pool);
    let _busy = clients.slot(Some(1));
    pool.endpoint_failed(0, 0, 0);
    let mut waiting = clients.ticket(None);
    clients.now_us = 2_000;
    let _later = clients.ticket(None);
    assert_eq!(served(&mut waiting).index(), 0);
}

#[test]
fn when_all_are_down_arrivals_and_waiting_exchanges_are_refused() {
    let pool = pool(&[1, 1]);
    let mut clients = Clients::new(&pool);
    let slots = [clients.slot(None), clients.slot(None)];
    let mut tickets = [clients.ticket(None), clients.ticket(Some(0))];
    let bell = Arc::<Bell>::default();
    let waker = Waker::from(Arc::clone(&bell));
    let polled = Pin::new(&mut tickets[0]).poll(&mut Context::from_waker(&waker));
    assert!(polled.is_pending());
    pool.set_availability(0, Availability::Unavailable, 1);
    assert!(poll(&mut tickets[1]).is_pending());
    pool.set_health(1, Health::Unhealthy, 2);
    assert_eq!(bell.0.load(Ordering::SeqCst), 1);
    for ticket in &mut tickets {
        let Poll::Ready(Err(rejection)) = poll(ticket) else { panic!("not told") };
        assert_eq!(rejection, Rejection::Unavailable);
    }
    assert_eq!(clients.rejection(None), Rejection::Unavailable);
    drop(slots);
    assert_eq!((pool.in_flight(), pool.counters().gave_up), (0, 2));
}

#[test]
fn an_exchange_that_tried_all_is_refused_and_one_that_tried_some_waits_for_the_rest() {
    let pool = pool(&[1, 1]);
    let mut clients = Clients::new(&pool);
    let [zero, one] = [clients.slot(Some(0)), clients.slot(Some(1))];
    assert!(matches!(clients.arrive(None, &[0, 1]), Arrival::Rejected(Rejection::Unavailable)));
    let Arrival::Queued(mut tried) = clients.arrive(None, &[0]) else { panic!("not queued") };
    let mut second = clients.ticket(None);
    drop(zero);
    assert!(poll(&mut tried).is_pending());
    assert_eq!(served(&mut second).index(), 0);
    drop(one);
    assert_eq!(served(&mut tried).index(), 1);
}

#[test]
fn a_full_queue_refuses_and_a_full_line_sends_to_the_pool_s() {
    let queue = Some(QueueSettings { max: 3, max_per_endpoint: Some(1) });
    let pool = Balancer::new(Settings { queue, ..settings() }, vec![member(1), member(1)]);
    let mut clients = Clients::new(&pool);
    let [_zero, one] = [clients.slot(Some(0)), clients.slot(Some(1))];
    let bound = clients.ticket(Some(0));
    let mut overflowed = clients.ticket(Some(0));
    let _third = clients.ticket(Some(1));
    assert_eq!(clients.rejection(None), Rejection::QueueFull);
    assert_eq!(clients.rejection(Some(1)), Rejection::QueueFull);
    assert_eq!(pool.counters().queue_full, 2);
    drop(one);
    assert_eq!(served(&mut overflowed).index(), 1, "he is older than who is bound to 1");
    drop(bound);
}

#[test]
fn with_a_queue_full_means_wait_and_the_backup_takes_over_when_the_rest_is_down() {
    let members = vec![member(1), Member { tier: 1, ..member(1) }];
    let pool = Balancer::new(settings(), members);
    let mut clients = Clients::new(&pool);
    let running = clients.slot(None);
    let mut waiting = [clients.ticket(None), clients.ticket(None)];
    assert_eq!(pool.audit(0), 0, "a free backup is nobody's while an ordinary one is up");
    pool.set_health(0, Health::Unhealthy, 1);
    let backup = served(&mut waiting[0]);
    assert_eq!(backup.index(), 1);
    drop(running);
    assert!(poll(&mut waiting[1]).is_pending());
    pool.set_health(0, Health::Healthy, 2);
    assert_eq!(served(&mut waiting[1]).index(), 0);
}

#[test]
fn without_a_queue_full_ordinary_endpoints_overflow_to_the_backup() {
    let members = vec![member(1), Member { tier: 1, ..member(1) }];
    let pool = Balancer::new(Settings { queue: None, ..settings() }, members);
    let mut clients = Clients::new(&pool);
    let slots = [clients.slot(None), clients.slot(None)];
    assert_eq!(slots.each_ref().map(Slot::index), [0, 1]);
    assert_eq!(clients.rejection(None), Rejection::Full);
    drop(slots);
    let bound = [clients.slot(Some(0)), clients.slot(Some(0))];
    assert_eq!(bound.each_ref().map(Slot::index), [0, 1], "nobody can wait for the bound one");
}

#[test]
fn probes_are_ignored_while_too_few_are_healthy_but_the_operator_is_not() {
    let members = vec![member(9), member(9), member(9), member(9)];
    let pool = Balancer::new(Settings { panic_percent: 50, ..settings() }, members);
    let mut clients = Clients::new(&pool);
    pool.set_admin_state(3, AdminState::Maintenance, 0);
    pool.set_health(0, Health::Unhealthy, 1);
    assert!(!pool.is_panicking());
    let seen = |clients: &mut Clients| -> Vec<usize> {
        let mut seen: Vec<usize> = (0..8).map(|_| clients.slot(None).index()).collect();
        seen.sort_unstable();
        seen.dedup();
        seen
    };
    assert_eq!(seen(&mut clients), [1, 2]);
    pool.set_health(1, Health::Unhealthy, 2);
    assert!(pool.is_panicking());
    assert_eq!(seen(&mut clients), [0, 1, 2]);
    pool.set_health(1, Health::Healthy, 3);
    assert_eq!(seen(&mut clients), [1, 2]);
}

#[test]
fn a_limit_of_zero_takes_nothing_until_it_is_raised() {
    let pool = pool(&[0]);
    let mut clients = Clients::new(&pool);
    let mut waiting = clients.ticket(None);
    pool.set_max_conn(0, Some(1), 1);
    drop(served(&mut waiting));
}

#[test]
fn time_that_jumps_back_changes_nothing() {
    let pool = pool(&[1]);
    let mut clients = Clients::new(&pool);
    clients.now_us = 1_000_000;
    let running = clients.slot(None);
    clients.now_us = 5;
    let mut waiting = clients.ticket(None);
    pool.tick(0);
    drop(running);
    drop(served(&mut waiting));
    assert_eq!(pool.audit(0), 0);
}

#[test]
fn the_list_of_waiting_exchanges_has_their_age_and_what_they_wait_for() {
    let pool = pool(&[1, 1]);
    let mut clients = Clients::new(&pool);
    let _slots = [clients.slot(Some(0)), clients.slot(Some(1))];
    clients.now_us = 70;
    let _tickets = [clients.ticket(None), clients.ticket(Some(1))];
    let list = pool.waiting();
    let seen: Vec<_> = list.iter().map(|one| (one.tag, one.since_us, one.bound)).collect();
    assert_eq!(seen, [(3, 70, None), (4, 70, Some(1))]);
    assert_eq!(
        list.iter().map(|one| (one.seq, one.position)).collect::<Vec<_>>(),
        [(0, 0), (1, 1)]
    );
}

/// Arrival of an exchange that waited elsewhere before, with this number in the order of arrival.
fn elder(pool: &Arc<Balancer>, number: i64, bound: Option<usize>) -> Arrival {
    let tried = Tried::new();
    let tag = number.unsigned_abs();
    let seniority = Some(Seniority { number, since_us: 7 });
    let request = Request::new(0, tag, &tried);
    pool.arrive(&Request { bound, tag, seniority, ..request })
}

#[test]
fn exchanges_that_waited_elsewhere_come_first_in_their_old_order() {
    let pool = pool(&[1, 1]);
    let mut clients = Clients::new(&pool);
    let slots = [clients.slot(Some(0)), clients.slot(Some(1))];
    let own = [clients.ticket(None), clients.ticket(Some(0))];
    let mut elders: Vec<Ticket> = Vec::new();
    for (seniority, bound) in [(-20, None), (-30, Some(0)), (-10, None), (-25, None)] {
        let Arrival::Queued(ticket) = elder(&pool, seniority, bound) else { panic!("not queued") };
        elders.push(ticket);
    }
    assert_eq!(tags(&pool), [30, 25, 20, 10, 3, 4]);
    assert_eq!(pool.waiting()[0].since_us, 7);
    assert_eq!(pool.audit(0), 0);
    // Endpoint 0 goes to the exchange bound to it, which is the oldest; endpoint 1 to the oldest of
    // the others.
    drop(slots);
    assert_eq!((served(&mut elders[1]).index(), served(&mut elders[3]).index()), (0, 1));
    drop((elders, own));
    assert_eq!((pool.waiting(), pool.in_flight(), pool.audit(0)), (Vec::new(), 0, 0));
}

#[test]
fn an_exchange_that_was_away_has_its_place_again() {
    let pool = pool(&[1]);
    let mut clients = Clients::new(&pool);
    let running = clients.slot(None);
    let [first, away, _last] = [(); 3].map(|()| clients.ticket(None));
    let number = away.seq();
    assert!(away.withdraw().is_none());
    let _later = clients.ticket(None);
    let Arrival::Queued(mut back) = elder(&pool, number, None) else { panic!("not queued") };
    assert_eq!(tags(&pool), [2, number.unsigned_abs(), 4, 5]);
    drop((first, running));
    drop(served(&mut back));
}

#[test]
fn an_exchange_that_waited_elsewhere_is_not_rejected_by_a_full_queue() {
    let queue = Some(QueueSettings { max: 1, max_per_endpoint: None });
    let pool = Balancer::new(Settings { queue, ..settings() }, vec![member(1)]);
    let mut clients = Clients::new(&pool);
    let running = clients.slot(None);
    let _own = clients.ticket(None);
    assert_eq!(clients.rejection(None), Rejection::QueueFull);
    let Arrival::Queued(mut first) = elder(&pool, -1, None) else { panic!("not queued") };
    assert_eq!(clients.rejection(None), Rejection::QueueFull);
    drop(running);
    drop(served(&mut first));
}

#[test]
fn a_place_that_is_given_up_to_wait_elsewhere_is_no_cancelled_wait() {
    let pool = pool(&[1]);
    let mut clients = Clients::new(&pool);
    let running = clients.slot(None);
    clients.now_us = 40;
    let (moves, late) = (clients.ticket(None), clients.ticket(None));
    assert_eq!((moves.since_us(), moves.seq()), (40, 0));
    assert!(moves.withdraw().is_none());
    assert_eq!((tags(&pool), pool.counters().cancelled), (vec![3], 0));
    drop(running);
    // The slot was handed over at the same moment, so the wait is over.
    assert!(late.withdraw().is_some());
    assert_eq!((pool.in_flight(), pool.counters().cancelled), (0, 0));
}

#[test]
fn what_runs_without_having_asked_here_counts_in() {
    let pool = pool(&[2]);
    let mut clients = Clients::new(&pool);
    let mut elsewhere: Vec<Slot> = (0..3).map(|_| pool.occupy(0).unwrap()).collect();
    assert!(pool.occupy(1).is_none());
    assert_eq!((pool.in_flight(), pool.audit(0)), (3, 0), "more than the limit is no bug");
    let mut waits = [clients.ticket(None), clients.ticket(None)];
    elsewhere.pop();
    assert!(poll(&mut waits[0]).is_pending());
    elsewhere.pop();
    let first = served(&mut waits[0]);
    assert!(poll(&mut waits[1]).is_pending());
    elsewhere.pop();
    let second = served(&mut waits[1]);
    assert_eq!((pool.in_flight(), pool.audit(0)), (2, 0));
    drop((first, second));
    assert_eq!((pool.in_flight(), pool.audit(0)), (0, 0));
}
