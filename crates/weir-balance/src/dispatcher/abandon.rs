//! Gives back the slots and places in the queue of a holder whose thread is lost.

use std::sync::Arc;

use crate::dispatcher::balancer::Balancer;
use crate::queue::{EndedWaiter, Standing};
use crate::state::decision::{Choice, Decision, Taken};

/// The numbers of slots and tickets that were given back for a holder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Abandoned {
    /// Exchanges that ran at endpoints.
    pub slots: u64,
    /// Exchanges that waited in the queue.
    pub waiting: u64,
}

impl Balancer {
    /// Gives back all slots and places in the queue that a holder has, here and at the balancers
    /// before this one. The holder's guards must never be used or dropped again: its thread stands
    /// still for good.
    pub fn abandon(self: &Arc<Self>, number: u16) -> Abandoned {
        let mut lost = Abandoned::default();
        let (waiting, ended, ticker) = self.with_dispatcher(|dispatcher| {
            // The ticker may be on that thread. One on another is woken, and takes it up again.
            let ticker = std::mem::take(&mut dispatcher.books.ticker);
            let ids = dispatcher.books.queue.held_by(number);
            let mut left = |id: &u32| dispatcher.leave_line(*id, Standing::Vacant).is_some();
            let waiting = ids.iter().filter(|id| left(id)).count();
            let queue = &mut dispatcher.books.queue;
            let ended: Vec<EndedWaiter<Arc<Self>>> =
                ids.into_iter().filter_map(|id| queue.vacate(id)).collect();
            (waiting, ended, ticker)
        });
        if let Some(waker) = ticker.waker {
            waker.wake();
        }
        lost.waiting = waiting as u64;
        let mut line: Vec<Arc<Self>> = self.former_alive();
        line.push(Arc::clone(self));
        for EndedWaiter { standing, made_by, .. } in ended {
            // A slot that was handed over and that no [`Slot`](crate::Slot) was made of.
            let maker = line.iter().find(|one| one.identity() == made_by);
            if let (Standing::Handed(taken), Some(maker)) = (standing, maker) {
                maker.release(taken);
                lost.slots += 1;
            }
        }
        for balancer in &line {
            lost.slots += balancer.give_back(number);
        }
        lost
    }

    fn give_back(&self, number: u16) -> u64 {
        let mut given_back = 0;
        for lost in self.held.take(number) {
            if let Some(state) = self.endpoint(lost.index) {
                (0..lost.sent).for_each(|_| state.pulse().gave_up());
            }
            for (count, booked) in [(lost.booked, true), (lost.unbooked, false)] {
                for _ in 0..count {
                    let decision = Decision::default();
                    let choice = Choice::Busy;
                    self.release(Taken { index: lost.index, choice, booked, decision });
                    given_back += 1;
                }
            }
        }
        given_back
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
#[expect(clippy::panic, clippy::unwrap_used, reason = "helpers of tests")]
mod tests {
    use super::*;
    use crate::{
        Arrival, Holder, Member, PolicyKind, QueueSettings, Request, Settings, Slot, Ticket, Tried,
    };

    fn member(state: &Arc<crate::EndpointState>) -> Member {
        Member {
            identity: 0,
            weight: 1,
            max_conn: Some(2),
            tier: 0,
            ejection: None,
            slow_start_us: 0,
            state: state.clone(),
        }
    }

    fn settings() -> Settings {
        let queue = Some(QueueSettings { max: 9, max_per_endpoint: None });
        Settings { queue, ..Settings::new(PolicyKind::First) }
    }

    fn arrive(pool: &Arc<Balancer>, number: u16) -> Arrival {
        let holder = Some(Holder { number, of: 2 });
        pool.arrive(&Request { holder, ..Request::new(0, 0, &Tried::new()) })
    }

    fn slot(pool: &Arc<Balancer>, number: u16) -> Slot {
        let Arrival::Dispatched(slot) = arrive(pool, number) else { panic!("no slot") };
        slot
    }

    fn ticket(pool: &Arc<Balancer>, number: u16) -> Ticket {
        let Arrival::Queued(ticket) = arrive(pool, number) else { panic!("no ticket") };
        ticket
    }

    fn now(ticket: &mut Ticket) -> Option<Slot> {
        let mut context = core::task::Context::from_waker(core::task::Waker::noop());
        match core::pin::Pin::new(ticket).poll(&mut context) {
            core::task::Poll::Ready(slot) => Some(slot.unwrap()),
            core::task::Poll::Pending => None,
        }
    }

    /// Worker 0 is lost with a slot, a slot that was handed over to it, and a place in the line:
    /// the other workers get all of them, in their order, and the books are right.
    #[test]
    fn the_slots_of_a_lost_holder_go_to_waiting_exchanges() {
        let state = Arc::default();
        let pool = Balancer::new(settings(), vec![member(&state)]);
        let (lost, other) = (slot(&pool, 0), slot(&pool, 1));
        let (handed, mut first) = (ticket(&pool, 0), ticket(&pool, 1));
        let (waits, mut second) = (ticket(&pool, 0), ticket(&pool, 1));
        drop(other);
        assert_eq!(pool.abandon(0), Abandoned { slots: 2, waiting: 1 });
        std::mem::forget((lost, handed, waits));
        let slots = (now(&mut first).unwrap(), now(&mut second).unwrap());
        assert_eq!((pool.in_flight(), pool.audit(0)), (2, 0));
        drop(slots);
        assert_eq!((pool.in_flight(), pool.audit(0)), (0, 0));
        assert_eq!(pool.abandon(0), Abandoned::default());
    }

    #[test]
    fn slots_of_balancers_before_a_reload_are_given_back_too() {
        let state = Arc::default();
        let before = Balancer::new(settings(), vec![member(&state)]);
        let (old, handed) = (slot(&before, 0), slot(&before, 1));
        let waits = ticket(&before, 0);
        drop(handed);
        let pool = Balancer::prepared(&before, settings(), vec![member(&state)]);
        pool.succeed(&before, &[], 0);
        assert_eq!(pool.abandon(0), Abandoned { slots: 2, waiting: 0 });
        std::mem::forget(old);
        std::mem::forget(waits);
        assert_eq!((pool.in_flight(), pool.audit(0)), (0, 0));
    }

    #[test]
    fn the_ticker_of_a_lost_holder_is_given_to_another() {
        let state = Arc::default();
        let pool = Balancer::new(settings(), vec![Member { slow_start_us: 1, ..member(&state) }]);
        std::mem::forget(pool.ticker().unwrap());
        assert!(pool.ticker().is_none(), "there is one");
        pool.abandon(0);
        assert!(pool.ticker().is_some());
    }

    #[test]
    fn a_holder_that_gave_its_slots_back_itself_has_none() {
        let state = Arc::default();
        let pool = Balancer::new(settings(), vec![member(&state)]);
        let mut kept = slot(&pool, 0);
        kept.sent(5);
        drop(kept);
        assert_eq!(pool.abandon(0), Abandoned::default());
        assert_eq!(pool.audit(0), 0);
    }
}
