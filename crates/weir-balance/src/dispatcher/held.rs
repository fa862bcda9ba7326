//! Counts of the slots that each holder has. A holder is a worker of the caller; if its thread is
//! lost, another thread gives back its slots and its places in the queue. Only the holder writes
//! its counts, so that an exchange costs a few plain stores and no cache line moves between cores.

use std::sync::{Arc, OnceLock};

use crate::dispatcher::slot::{Choice, Taken};
use crate::queue::{Ended, Standing};
use crate::sync::{AtomicU32, Ordering};
use crate::{Balancer, Decision};

/// A worker of the caller, whose slots and tickets can be given back for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The worker's number, from 0.
    pub number: u16,
    /// The number of holders; the same in all calls.
    pub of: u16,
}

/// The numbers of slots and tickets that were given back for a holder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Abandoned {
    /// Exchanges that ran at endpoints.
    pub slots: u64,
    /// Exchanges that waited in the queue.
    pub waiting: u64,
}

/// Slots at one endpoint of one holder. Only the holder changes the counts.
#[derive(Debug, Default)]
struct Counts {
    booked: AtomicU32,
    unbooked: AtomicU32,
    /// The slots of both kinds whose exchanges wait for an answer.
    sent: AtomicU32,
}

/// Slots of a balancer by holder and endpoint.
#[derive(Debug, Default)]
pub(crate) struct Held(OnceLock<Box<[Counts]>>);

/// A change of a count.
#[derive(Clone, Copy)]
pub(crate) enum Change {
    Up,
    Down,
}

impl Change {
    fn make(self, count: &AtomicU32) {
        let before = count.load(Ordering::Relaxed);
        let after = match self {
            Self::Up => before.wrapping_add(1),
            Self::Down => before.saturating_sub(1),
        };
        count.store(after, Ordering::Relaxed);
    }
}

impl Balancer {
    fn counts(&self, holder: Holder, index: usize) -> Option<&Counts> {
        let members = self.members.len();
        let all = self.held.0.get_or_init(|| {
            let counts = usize::from(holder.of) * members;
            (0..counts).map(|_| Counts::default()).collect()
        });
        all.get(usize::from(holder.number) * members + index)
    }

    /// Counts one slot more or one less of a holder.
    pub(crate) fn note_held(&self, holder: Option<Holder>, taken: &Taken, change: Change) {
        let Some(counts) = holder.and_then(|holder| self.counts(holder, taken.index)) else {
            return;
        };
        change.make(if taken.booked { &counts.booked } else { &counts.unbooked });
    }

    /// Counts one more or one less of a holder's slots that wait for an answer.
    pub(crate) fn note_sent(&self, holder: Option<Holder>, index: usize, change: Change) {
        if let Some(counts) = holder.and_then(|holder| self.counts(holder, index)) {
            change.make(&counts.sent);
        }
    }

    /// Gives back all slots and places in the queue that a holder has, here and at the balancers
    /// before this one. The holder's guards must never be used or dropped again: its thread stands
    /// still for good.
    pub fn abandon(self: &Arc<Self>, number: u16) -> Abandoned {
        let mut lost = Abandoned::default();
        let (waiting, ended) = self.with_dispatcher(|dispatcher| {
            let ids = dispatcher.books.queue.held_by(number);
            let mut left = |id: &u32| dispatcher.leave_line(*id, Standing::Vacant).is_some();
            let waiting = ids.iter().filter(|id| left(id)).count();
            let queue = &mut dispatcher.books.queue;
            let ended: Vec<Ended> = ids.into_iter().filter_map(|id| queue.vacate(id)).collect();
            (waiting, ended)
        });
        lost.waiting = waiting as u64;
        let mut line: Vec<Arc<Self>> = self.former_alive();
        line.push(Arc::clone(self));
        for Ended { standing, made_by, .. } in ended {
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
        let Some(all) = self.held.0.get() else { return 0 };
        let mut given_back = 0;
        for index in 0..self.members.len() {
            let place = usize::from(number) * self.members.len() + index;
            let Some(counts) = all.get(place) else { continue };
            if let Some(state) = self.endpoint(index) {
                let sent = counts.sent.swap(0, Ordering::AcqRel);
                (0..sent).for_each(|_| state.pulse().gave_up());
            }
            for (count, booked) in [(&counts.booked, true), (&counts.unbooked, false)] {
                for _ in 0..count.swap(0, Ordering::AcqRel) {
                    let decision = Decision::default();
                    self.release(Taken { index, choice: Choice::Busy, booked, decision });
                    given_back += 1;
                }
            }
        }
        given_back
    }

    /// A number that distinguishes the balancers of one pool while they live.
    pub(crate) fn identity(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
#[expect(clippy::panic, clippy::unwrap_used, reason = "helpers of tests")]
mod tests {
    use super::*;
    use crate::{
        Arrival, Member, PolicyKind, QueueSettings, Request, Settings, Slot, Ticket, Tried,
    };

    fn member(state: &Arc<crate::EndpointState>) -> Member {
        Member { identity: 0, weight: 1, max_conn: Some(2), tier: 0, state: state.clone() }
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
    fn what_a_lost_holder_has_goes_to_those_who_wait() {
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
