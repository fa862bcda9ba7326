//! A place in the queue, as the exchange that waits holds it.

use core::pin::Pin;
use core::task::{Context, Poll};
use std::fmt;
use std::sync::Arc;

use crate::floor::Place;
use crate::held::Holder;
use crate::queue::{Ended, Id, Standing};
use crate::slot::Slot;
use crate::{Ahead, Balancer, Rejection};

/// A place in the queue. As a future it ends with the slot that was handed over, or with the reason why nobody may
/// serve the exchange any more. Dropping it leaves the queue at once; a slot that was handed over and not taken
/// goes to the next in line. It knows no deadline: whoever has one calls [`Ticket::time_out`] then.
#[must_use = "dropping a ticket leaves the queue"]
pub struct Ticket {
    pool: Arc<Balancer>,
    id: Id,
    seq: i64,
    since_us: u64,
    position: u32,
    waits_for: WaitsFor,
    holder: Option<Holder>,
    /// Whether its place in the slab is still its own.
    open: bool,
}

/// What somebody waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitsFor {
    /// A free place at any endpoint.
    Any,
    /// One at the endpoint that his affinity names.
    Bound,
    /// One at the endpoint that his key leads to.
    Key,
}

/// How a ticket stopped waiting.
#[derive(Clone, Copy)]
enum Leaving {
    /// Its holder went away.
    Cancelled,
    /// Its deadline came.
    TimedOut,
    /// It goes on waiting elsewhere.
    Moved,
}

impl Ticket {
    pub(crate) fn new(pool: &Arc<Balancer>, place: Place, holder: Option<Holder>) -> Self {
        let Place { id, seq, since_us, position, waits_for } = place;
        let pool = Arc::clone(pool);
        Self { pool, id, seq, since_us, position, waits_for, holder, open: true }
    }

    /// How many were ahead at arrival: everybody who waited, or, for an exchange bound to an endpoint, those who waited
    /// for that endpoint or for any.
    pub fn position(&self) -> u32 {
        self.position
    }

    /// The names of the first of those, at most [`crate::AHEAD`]. None once it has ended.
    pub fn ahead(&self) -> Ahead {
        let books = self.pool.common.lock();
        let waiter = books.queue.get(self.id).filter(|_| self.open);
        waiter.map(|waiter| waiter.wish.ahead.clone()).unwrap_or_default()
    }

    /// What it waited for at arrival.
    pub fn waits_for(&self) -> WaitsFor {
        self.waits_for
    }

    /// Its number in the pool's order of arrival, as in [`crate::Waiting`].
    pub fn seq(&self) -> i64 {
        self.seq
    }

    /// When it was given, µs. Of two tickets of a pool the one with the higher number was given later, or in the same microsecond.
    pub fn since_us(&self) -> u64 {
        self.since_us
    }

    /// Leaves the queue because the deadline came. A slot that was handed over in the same moment is returned:
    /// nobody has to be turned away who was just served.
    pub fn time_out(mut self) -> Option<Slot> {
        self.close(Leaving::TimedOut)
    }

    /// Leaves the queue to wait elsewhere. A slot that was handed over in the same moment is returned: there is nothing to wait for
    /// any more.
    pub fn withdraw(mut self) -> Option<Slot> {
        self.close(Leaving::Moved)
    }

    /// Frees its place; a slot that was handed over and not taken is returned.
    fn close(&mut self, leaving: Leaving) -> Option<Slot> {
        self.open = false;
        let id = self.id;
        // What a waker drops may hold tickets of this pool: not under its lock.
        let (left, ended) = self.pool.at_floor(|floor| {
            let left = floor.leave_line(id, Standing::Vacant);
            (left, floor.books.queue.vacate(id))
        });
        let figures = &self.pool.common.figures;
        match (left, leaving) {
            (None, _) | (Some(_), Leaving::Moved) => {}
            (Some(_), Leaving::Cancelled) => figures.cancelled.add(),
            (Some(_), Leaving::TimedOut) => figures.timed_out.add(),
        }
        ended.and_then(|ended| self.outcome(ended)?.ok())
    }

    /// What came of waiting; `None` where nothing did.
    fn outcome(&self, Ended { standing, server, .. }: Ended) -> Option<Result<Slot, Rejection>> {
        match standing {
            Standing::Waiting | Standing::Vacant => None,
            Standing::Handed(taken) => {
                let pool = server.as_ref().unwrap_or(&self.pool);
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
        // Cloned before the lock and the old one dropped after it: what a waker does is not ours to know.
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
        let Some(outcome) = ended.and_then(|ended| self.outcome(ended)) else {
            return Poll::Pending;
        };
        self.open = false;
        Poll::Ready(outcome)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.open
            && let Some(slot) = self.close(Leaving::Cancelled)
        {
            self.pool.common.figures.cancelled.add();
            // As a slot it goes the way of all slots: to the next in line.
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
