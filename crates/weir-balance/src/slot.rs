//! Permission to have one exchange in flight at an endpoint. It cannot leak: it is counted in when it is made and
//! counted out when it is dropped, and the next in line gets its place in the same moment.

use std::fmt;
use std::sync::Arc;

use crate::held::{Change, Holder};
use crate::{Balancer, Decision, EndpointState};

/// Permission to have one exchange in flight at an endpoint; dropping it gives the place to the next in line.
#[must_use = "dropping a slot gives it back at once"]
pub struct Slot {
    /// The one count it holds: a second one, of the endpoint, would cost as much as the place itself.
    pool: Arc<Balancer>,
    taken: Taken,
    /// When what stands without an answer was sent, µs.
    sent_us: Option<u64>,
    /// The holder that gives it back when its worker is replaced.
    holder: Option<Holder>,
}

/// A place that was counted in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    /// The endpoint.
    pub(crate) index: usize,
    /// How good the choice was.
    pub(crate) choice: Choice,
    /// Whether it was taken under the pool's lock, and so is in its books.
    pub(crate) booked: bool,
    /// Why it is this one.
    pub(crate) decision: Decision,
}

/// What the regret meter says of a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// The endpoint was idle.
    Idle,
    /// It was busy, as all others were that could be had.
    Busy,
    /// It was busy, and another was idle.
    Inversion,
}

impl Slot {
    pub(crate) fn new(pool: &Arc<Balancer>, taken: Taken, holder: Option<Holder>) -> Self {
        pool.note_held(holder, &taken, Change::Up);
        Self { pool: Arc::clone(pool), taken, sent_us: None, holder }
    }

    /// Whether it is one of this pool's: where an exchange arrived at a pool that has a successor, its slot is of that one.
    pub fn is_of(&self, pool: &Arc<Balancer>) -> bool {
        Arc::ptr_eq(&self.pool, pool)
    }

    /// The same place as a slot of another balancer that has the endpoint.
    ///
    /// # Errors
    /// The slot as it was, when that one has no such endpoint.
    pub fn moved_to(mut self, pool: &Arc<Balancer>) -> Result<Self, Self> {
        let Some(index) = pool.index_from(&self.pool, self.taken.index) else { return Err(self) };
        if !self.is_of(pool) {
            // What the books of one say is not counted out of the other's.
            let decision = self.taken.decision;
            let decision = decision.renumbered(|rival| pool.index_from(&self.pool, rival));
            self.pool.note_held(self.holder, &self.taken, Change::Down);
            self.taken = Taken { index, booked: false, decision, ..self.taken };
            pool.note_held(self.holder, &self.taken, Change::Up);
            self.pool = Arc::clone(pool);
        }
        Ok(self)
    }

    /// The endpoint's number in its pool.
    pub fn index(&self) -> usize {
        self.taken.index
    }

    /// Why it is this endpoint.
    pub fn decision(&self) -> Decision {
        self.taken.decision
    }

    /// The endpoint's live state; never `None` for a slot that a pool gave.
    pub fn endpoint(&self) -> Option<&EndpointState> {
        self.pool.endpoint(self.taken.index)
    }

    /// The exchange waits for an answer from now on. To be called when nothing but the endpoint can hold the answer up; calls
    /// that follow change nothing.
    pub fn sent(&mut self, now_us: u64) {
        if self.pool.stall.is_none() || self.sent_us.is_some() {
            return;
        }
        self.sent_us = Some(now_us);
        self.pool.note_sent(self.holder, self.taken.index, Change::Up);
        if let Some(state) = self.endpoint() {
            state.pulse().sent(now_us, state.in_flight() <= 1);
        }
    }

    /// The exchange does not wait for the endpoint any more: nothing was sent to it.
    pub fn not_sent(&mut self) {
        if self.sent_us.take().is_none() {
            return;
        }
        self.pool.note_sent(self.holder, self.taken.index, Change::Down);
        if let Some(state) = self.endpoint() {
            state.pulse().gave_up();
        }
    }

    /// The endpoint answered. When it was stalled until now, returns for how long, µs.
    pub fn answered(&mut self, now_us: u64) -> Option<u64> {
        self.pool.stall?;
        let sent_us = self.sent_us.take();
        if sent_us.is_some() {
            self.pool.note_sent(self.holder, self.taken.index, Change::Down);
        }
        let state = self.endpoint()?;
        state.pulse().answered(now_us, sent_us);
        if state.is_stalled() { self.pool.end_stall(state, now_us) } else { None }
    }

    /// Gives the place back and tells the regret meter how long the exchange had it, µs. Plain dropping tells it nothing,
    /// which is right when the endpoint was not what ended the exchange.
    pub fn finish(self, held_us: u64) {
        self.pool.common.regret.note(self.taken.choice, held_us);
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if self.sent_us.is_some() {
            self.pool.note_sent(self.holder, self.taken.index, Change::Down);
            if let Some(state) = self.endpoint() {
                state.pulse().gave_up();
            }
        }
        self.pool.note_held(self.holder, &self.taken, Change::Down);
        self.pool.release(self.taken);
    }
}

impl Balancer {
    /// Counts in an exchange that runs at an endpoint without having asked here, whatever the limit is. `None` when there is no such
    /// endpoint any more.
    pub fn occupy(self: &Arc<Self>, index: usize) -> Option<Slot> {
        let mut floor = match self.floor() {
            Ok(floor) => floor,
            Err(successor) => return successor.occupy(successor.index_from(self, index)?),
        };
        self.members.get(index)?.state.enter_beyond_limit();
        floor.books.slots += 1;
        // More than the limit is sound here.
        floor.note_ceiling(index);
        drop(floor);
        Some(Slot::new(
            self,
            Taken { index, choice: Choice::Busy, booked: true, decision: Decision::default() },
            None,
        ))
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Slot").field("index", &self.index()).finish_non_exhaustive()
    }
}
