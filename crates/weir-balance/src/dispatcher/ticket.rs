//! A place in the queue, held by the exchange that waits.

use core::pin::Pin;
use core::task::{Context, Poll};
use std::fmt;
use std::sync::Arc;

use crate::dispatcher::balancer::Balancer;
use crate::dispatcher::slot::Slot;
use crate::dispatcher::{QueuePlace, WaitsFor};
use crate::queue::waiter_info::Ahead;
use crate::queue::{EndedWaiter, Id, Standing};
use crate::state::decision::Rejection;
use crate::state::held::Holder;

/// A place in the queue. As a future it resolves to the slot that was handed over, or to the reason
/// why no endpoint may serve the exchange any more. Dropping it leaves the queue at once; a slot
/// that was handed over and not taken goes to the next exchange in line. It has no deadline of its
/// own: a caller with a deadline calls [`Ticket::time_out`] when it passes.
#[must_use = "dropping a ticket leaves the queue"]
pub struct Ticket {
    pool: Arc<Balancer>,
    id: Id,
    seq: i64,
    since_us: u64,
    position: u32,
    waits_for: WaitsFor,
    holder: Option<Holder>,
    /// Set while the place in the slab belongs to this ticket.
    open: bool,
}

/// The reason why a ticket stopped waiting.
#[derive(Clone, Copy)]
enum TicketEnd {
    /// The exchange was abandoned.
    Cancelled,
    /// The deadline passed.
    TimedOut,
    /// The exchange goes on waiting elsewhere.
    Moved,
}

impl Ticket {
    pub(crate) fn new(pool: &Arc<Balancer>, place: QueuePlace, holder: Option<Holder>) -> Self {
        let QueuePlace { id, seq, since_us, position, waits_for } = place;
        let pool = Arc::clone(pool);
        Self { pool, id, seq, since_us, position, waits_for, holder, open: true }
    }

    /// The number of exchanges ahead at arrival: all that waited, or, for an exchange bound to an
    /// endpoint, those that waited for that endpoint or for any.
    pub fn position(&self) -> u32 {
        self.position
    }

    /// The names of the first of those exchanges, at most [`crate::AHEAD`]. Empty once the ticket
    /// has ended.
    pub fn ahead(&self) -> Ahead {
        let books = self.pool.common.lock();
        let waiter = books.queue.get(self.id).filter(|_| self.open);
        waiter.map(|waiter| waiter.wish.ahead.clone()).unwrap_or_default()
    }

    /// The endpoints that the exchange waited for at arrival.
    pub fn waits_for(&self) -> WaitsFor {
        self.waits_for
    }

    /// The number in the pool's order of arrival, as in [`crate::Waiting`].
    pub fn seq(&self) -> i64 {
        self.seq
    }

    /// The time at which the ticket was issued, µs. Of two tickets of a pool the one with the
    /// higher number was issued later, or in the same microsecond.
    pub fn since_us(&self) -> u64 {
        self.since_us
    }

    /// Leaves the queue because the deadline passed. A slot that was handed over at the same moment
    /// is returned, so that an exchange that was just served is not rejected.
    pub fn time_out(mut self) -> Option<Slot> {
        self.close(TicketEnd::TimedOut)
    }

    /// Leaves the queue to wait elsewhere. A slot that was handed over at the same moment is
    /// returned: the wait is over.
    pub fn withdraw(mut self) -> Option<Slot> {
        self.close(TicketEnd::Moved)
    }

    /// Frees the place in the queue; returns a slot that was handed over and not taken.
    fn close(&mut self, leaving: TicketEnd) -> Option<Slot> {
        self.open = false;
        let id = self.id;
        // Dropping a waker may drop tickets of this pool, so it must not happen under the lock.
        let (left, ended) = self.pool.with_dispatcher(|dispatcher| {
            let left = dispatcher.leave_line(id, Standing::Vacant);
            (left, dispatcher.books.queue.vacate(id))
        });
        let figures = &self.pool.common.figures;
        match (left, leaving) {
            (None, _) | (Some(_), TicketEnd::Moved) => {}
            (Some(_), TicketEnd::Cancelled) => figures.cancelled.add(),
            (Some(_), TicketEnd::TimedOut) => figures.timed_out.add(),
        }
        ended.and_then(|ended| self.outcome(&ended)?.ok())
    }

    /// The outcome of the wait; `None` if there is none.
    fn outcome(&self, ended: &EndedWaiter<Arc<Balancer>>) -> Option<Result<Slot, Rejection>> {
        match ended.standing {
            Standing::Waiting | Standing::Vacant => None,
            Standing::Handed(taken) => {
                let pool = ended.server.as_ref().unwrap_or(&self.pool);
                Some(Ok(Slot::new(pool, taken, self.holder)))
            }
            Standing::Rejected(rejection) => Some(Err(rejection)),
        }
    }
}

impl Future for Ticket {
    type Output = Result<Slot, Rejection>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if !self.open {
            return Poll::Pending;
        }
        // Cloned before the lock is taken, and the old one dropped after its release: a waker may
        // run arbitrary code.
        let mut waker = Some(context.waker().clone());
        let ended = {
            let mut books = self.pool.common.lock();
            let Some(waiter) = books.queue.get_mut(self.id) else { return Poll::Pending };
            if matches!(waiter.standing, Standing::Waiting) {
                std::mem::swap(&mut waiter.waker, &mut waker);
                None
            } else {
                books.queue.vacate(self.id)
            }
        };
        drop(waker);
        let Some(outcome) = ended.and_then(|ended| self.outcome(&ended)) else {
            return Poll::Pending;
        };
        self.open = false;
        Poll::Ready(outcome)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.open
            && let Some(slot) = self.close(TicketEnd::Cancelled)
        {
            self.pool.common.figures.cancelled.add();
            // Dropping the slot gives it to the next exchange in line.
            drop(slot);
        }
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Ticket")
            .field("seq", &self.seq)
            .field("position", &self.position)
            .finish_non_exhaustive()
    }
}
