//! Permission to have one exchange in flight at an endpoint. It cannot leak: it is counted in when
//! it is made and counted out when it is dropped, and the next exchange in line gets it at that
//! moment.

use std::fmt;
use std::sync::Arc;

use crate::dispatcher::balancer::Balancer;
use crate::policy::MeasuredTime;
use crate::state::decision::{Choice, Decision, Taken};
use crate::state::endpoint::EndpointState;
use crate::state::held::{CountChange, Holder};

/// Permission to have one exchange in flight at an endpoint; dropping it hands the slot to the next
/// exchange in line.
#[must_use = "dropping a slot gives it back at once"]
pub struct Slot {
    /// The only reference count that the slot holds: a second one, of the endpoint, would cost as
    /// much as counting the slot itself.
    pool: Arc<Balancer>,
    taken: Taken,
    /// The time at which the request that has no answer yet was sent, µs.
    sent_us: Option<u64>,
    /// The time at which the request was sent, µs, if the policy averages the time to the end of
    /// the response.
    timed_from_us: Option<u64>,
    /// The worker for which the slot can be given back if it is lost.
    holder: Option<Holder>,
}

impl Slot {
    pub(crate) fn new(pool: &Arc<Balancer>, taken: Taken, holder: Option<Holder>) -> Self {
        pool.held.note_slot(holder, &taken, CountChange::Up);
        Self { pool: Arc::clone(pool), taken, sent_us: None, timed_from_us: None, holder }
    }

    /// Returns true if the slot belongs to this pool. An exchange that arrives at a pool with a
    /// successor gets a slot of the successor.
    pub fn is_of(&self, pool: &Arc<Balancer>) -> bool {
        Arc::ptr_eq(&self.pool, pool)
    }

    /// Moves the slot to another balancer that has the same endpoint.
    ///
    /// # Errors
    /// Returns the slot unchanged if the other balancer has no such endpoint.
    pub fn moved_to(mut self, pool: &Arc<Balancer>) -> Result<Self, Self> {
        let Some(index) = pool.index_from(&self.pool, self.taken.index) else { return Err(self) };
        if !self.is_of(pool) {
            // A slot that is counted in the books of one balancer is not counted out of those of
            // the other.
            let decision = self.taken.decision;
            let decision = decision.renumbered(|rival| pool.index_from(&self.pool, rival));
            self.pool.held.note_slot(self.holder, &self.taken, CountChange::Down);
            self.taken = Taken { index, booked: false, decision, ..self.taken };
            pool.held.note_slot(self.holder, &self.taken, CountChange::Up);
            self.pool = Arc::clone(pool);
        }
        Ok(self)
    }

    /// The endpoint's number in its pool.
    pub fn index(&self) -> usize {
        self.taken.index
    }

    /// The reason for the choice of this endpoint.
    pub fn decision(&self) -> Decision {
        self.taken.decision
    }

    /// The endpoint's live state; never `None` for a slot that a pool gave.
    pub fn endpoint(&self) -> Option<&EndpointState> {
        self.pool.endpoint(self.taken.index)
    }

    /// Returns true if the time of an answer matters: for the detection of stalls, or for the
    /// policy.
    fn is_watched(&self) -> bool {
        self.pool.picker.stall.is_some() || self.pool.picker.averaging.is_some()
    }

    /// Notes that the exchange waits for an answer from now on. Call it when only the endpoint can
    /// delay the answer; repeated calls change nothing.
    pub fn sent(&mut self, now_us: u64) {
        if !self.is_watched() || self.sent_us.is_some() {
            return;
        }
        self.sent_us = Some(now_us);
        if self.pool.picker.policy.measures() == Some(MeasuredTime::LastByte) {
            self.timed_from_us = Some(now_us);
        }
        self.pool.held.note_sent(self.holder, self.taken.index, CountChange::Up);
        if let Some(state) = self.endpoint() {
            state.pulse().sent(now_us, state.in_flight() <= 1);
        }
    }

    /// Notes that the exchange no longer waits for the endpoint, because nothing was sent to it.
    pub fn not_sent(&mut self) {
        self.timed_from_us = None;
        if self.sent_us.take().is_none() {
            return;
        }
        self.pool.held.note_sent(self.holder, self.taken.index, CountChange::Down);
        if let Some(state) = self.endpoint() {
            state.pulse().gave_up();
        }
    }

    /// Notes that the endpoint answered. If it was stalled until now, returns the duration of the
    /// stall, µs.
    pub fn answered(&mut self, now_us: u64) -> Option<u64> {
        if !self.is_watched() {
            return None;
        }
        let sent_us = self.sent_us.take();
        if sent_us.is_some() {
            self.pool.held.note_sent(self.holder, self.taken.index, CountChange::Down);
        }
        let picker = &self.pool.picker;
        let state = self.endpoint()?;
        state.pulse().answered(now_us, sent_us);
        if let (Some(rule), Some(sent_us)) = (picker.averaging, sent_us)
            && self.timed_from_us.is_none()
        {
            state.response_time().note(now_us.saturating_sub(sent_us), now_us, rule);
        }
        if state.is_stalled() { self.pool.end_stall(state, now_us) } else { None }
    }

    /// Gives the slot back and tells the regret meter how long the exchange held it, µs. Plain
    /// dropping tells the meter nothing, which is right if something else than the endpoint ended
    /// the exchange.
    pub fn finish(self, held_us: u64) {
        if let (Some(rule), Some(from_us)) = (self.pool.picker.averaging, self.timed_from_us)
            && let Some(state) = self.endpoint()
        {
            state.response_time().note(held_us, from_us.saturating_add(held_us), rule);
        }
        self.pool.picker.regret.note(self.taken.choice, held_us);
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if self.sent_us.is_some() {
            self.pool.held.note_sent(self.holder, self.taken.index, CountChange::Down);
            if let Some(state) = self.endpoint() {
                state.pulse().gave_up();
            }
        }
        self.pool.held.note_slot(self.holder, &self.taken, CountChange::Down);
        self.pool.release(self.taken);
    }
}

impl Balancer {
    /// Counts in an exchange that runs at an endpoint without having been dispatched by this pool,
    /// regardless of the limit. Returns `None` if the endpoint no longer exists.
    pub fn occupy(self: &Arc<Self>, index: usize) -> Option<Slot> {
        let mut dispatcher = match self.dispatcher() {
            Ok(dispatcher) => dispatcher,
            Err(successor) => return successor.occupy(successor.index_from(self, index)?),
        };
        self.picker.members.get(index)?.state.enter_beyond_limit();
        self.picker.note(index);
        dispatcher.books.slots += 1;
        // From here on the endpoint may be above its limit without a violation.
        dispatcher.note_ceiling(index);
        drop(dispatcher);
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
