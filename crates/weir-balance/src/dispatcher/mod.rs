//! The queue's state machine, under the pool's lock: arrivals, releases, and exchanges that may no
//! longer wait. After each step the queue is work-conserving: no exchange waits while an endpoint
//! that it may use has a free slot.

pub(crate) mod abandon;
pub(crate) mod arrival;
pub(crate) mod audit;
pub(crate) mod balancer;
pub(crate) mod changes;
pub(crate) mod request;
pub(crate) mod settings;
pub(crate) mod slot;
pub(crate) mod succession;
pub(crate) mod ticker;
pub(crate) mod ticket;

#[cfg(all(test, not(feature = "shuttle")))]
mod tests;

use core::task::Waker;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::dispatcher::balancer::{Balancer, Books, PoolQueue, PoolWaiter};
use crate::dispatcher::request::Request;
use crate::dispatcher::settings::QueueSettings;
use crate::policy::picker::Picker;
use crate::policy::query::{Query, Stalls};
use crate::queue::waiter_info::{Ahead, WaiterInfo};
use crate::queue::{Id, Left, Standing, Wish};
use crate::state::decision::{ChosenBy, Rejection, Taken};
use crate::state::endpoint::EndpointState;
use crate::sync::{MutexGuard, Ordering};

/// The pool's lock while it is held. The tasks of served exchanges are woken when it is released,
/// not before.
pub(crate) struct Dispatcher<'a> {
    pub(crate) pool: &'a Balancer,
    // Fields are dropped in this order: first the lock, then the wakers.
    pub(crate) books: MutexGuard<'a, Books>,
    woken: Woken,
}

/// Wakers that are woken on drop.
#[derive(Default)]
struct Woken(SmallVec<[Waker; 4]>);

impl Drop for Woken {
    fn drop(&mut self) {
        for waker in self.0.drain(..) {
            waker.wake();
        }
    }
}

/// The endpoints that an exchange waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitsFor {
    /// A free slot at any endpoint.
    Any,
    /// A slot at the endpoint that the exchange's affinity names.
    Bound,
    /// A slot at the endpoint that the exchange's key leads to.
    Key,
}

/// A place in the queue.
#[derive(Clone, Copy)]
pub(crate) struct QueuePlace {
    pub(crate) id: Id,
    pub(crate) seq: i64,
    /// The time at which the exchange was queued, µs.
    pub(crate) since_us: u64,
    /// The number of exchanges before it.
    pub(crate) position: u32,
    pub(crate) waits_for: WaitsFor,
}

/// A slot that comes back, as the current balancer sees it.
pub(crate) struct Released {
    /// The endpoint's number in this balancer; `None` if the endpoint no longer belongs to the
    /// pool.
    pub(crate) index: Option<usize>,
    /// Set if the slot is counted in the books of this balancer.
    pub(crate) booked: bool,
}

/// The outcome of an arrival.
pub(crate) enum DispatchAnswer {
    Dispatched(Taken),
    Queued(QueuePlace),
    Rejected(Rejection),
}

impl<'a> Dispatcher<'a> {
    pub(crate) fn new(pool: &'a Balancer, books: MutexGuard<'a, Books>) -> Self {
        Self { pool, books, woken: Woken::default() }
    }

    /// Advances the clock of the books and applies what became due.
    pub(crate) fn advance(&mut self, now_us: u64) {
        self.books.clock_us = self.books.clock_us.max(now_us);
        if self.books.ejection_end_us <= self.books.clock_us {
            self.settle();
        } else if self.books.due_us <= self.books.clock_us {
            // A higher limit frees slots and changes no line.
            let risen = self.renew_limits();
            self.note_due();
            for index in risen {
                self.hand_on(index);
            }
        }
    }

    /// Notes the time of the next timed change, and wakes the ticker if it is earlier than before.
    fn note_due(&mut self) {
        let (pool, clock_us) = (self.pool, self.books.clock_us);
        self.books.ejection_end_us = pool.picker.next_change_us(clock_us).unwrap_or(u64::MAX);
        let due_us = pool.next_change_us(clock_us).unwrap_or(u64::MAX);
        if due_us < std::mem::replace(&mut self.books.due_us, due_us) {
            self.woken.0.extend(self.books.ticker.waker.take());
        }
    }

    /// Takes in an arriving exchange, at the time in its request.
    pub(crate) fn receive(&mut self, request: &Request<'_>) -> DispatchAnswer {
        self.advance(request.now_us);
        let answer = match self.pool.queue {
            Some(queue) => self.arrive(request, queue),
            // Without a queue nothing is enqueued. The exchanges that still wait came before the
            // queue was removed.
            None => match self.pool.pick_without_waiting(request) {
                Ok(taken) => DispatchAnswer::Dispatched(self.book(taken)),
                Err(rejection) => DispatchAnswer::Rejected(rejection),
            },
        };
        self.settle_stalls();
        answer
    }

    /// Dispatches, queues or rejects an arriving exchange.
    fn arrive(&mut self, request: &Request<'_>, settings: QueueSettings) -> DispatchAnswer {
        let picker = &self.pool.picker;
        let query = request.query(self.books.clock_us, picker.is_panicking(), Stalls::Heeded);
        let mut query = picker.minding_stalls(query);
        let mut home = picker.home(query);
        let taken = home.and_then(|index| picker.take_home(index, query));
        if taken.is_none()
            && home.is_some()
            && settings.max_per_endpoint.is_some_and(|max| self.books.queue.len(home) >= max)
        {
            query.overflowed = true;
            home = None;
        }
        // This passes over no waiting exchange: those that wait could use none of the free slots.
        let taken =
            taken.or_else(|| if home.is_none() { picker.pick_in_active_tier(query) } else { None });
        if let Some(taken) = taken {
            return DispatchAnswer::Dispatched(self.book(taken));
        }
        if home.is_none() && picker.active_tier(query).is_none() {
            // The exchange could only wait in its endpoint's line, and that was full.
            let overflowed = query.overflowed;
            return DispatchAnswer::Rejected(if overflowed {
                Rejection::QueueFull
            } else {
                Rejection::Unavailable
            });
        }
        // An exchange with seniority was let into the queue before.
        if self.books.queue.waiting() >= settings.max && request.seniority.is_none() {
            return DispatchAnswer::Rejected(Rejection::QueueFull);
        }
        self.enqueue(request, home, query.overflowed)
    }

    /// Releases a slot.
    pub(crate) fn release(&mut self, state: &EndpointState, Released { index, booked }: Released) {
        state.leave();
        if booked {
            self.books.slots = self.books.slots.saturating_sub(1);
        }
        if let Some(index) = index {
            self.pool.picker.note(index);
            self.hand_on(index);
        }
    }

    /// Hands the free slots of an endpoint to the next exchanges in line for it.
    pub(crate) fn hand_on(&mut self, index: usize) {
        while self.books.queue.waiting() > 0
            && self.pool.picker.members.get(index).is_some_and(|member| member.state.is_free())
        {
            let Some((id, home)) = self.next_for(index) else { return };
            let picker = &self.pool.picker;
            let clock_us = self.books.clock_us;
            let taken = self.books.queue.get(id).and_then(|waiter| {
                let query = query(picker, waiter, clock_us);
                if home {
                    picker.take_home(index, query)
                } else {
                    picker.take_chosen(index, query, ChosenBy::Freed)
                }
            });
            let Some(taken) = taken else { return };
            self.hand(id, taken);
        }
    }

    /// Restores the invariants after any change of endpoints' state: moves every waiting exchange
    /// into the line where it belongs, rejects exchanges that no endpoint may serve, and gives free
    /// slots to the oldest.
    pub(crate) fn settle(&mut self) {
        let picker = &self.pool.picker;
        picker.refresh_panic();
        self.renew_limits();
        self.note_due();
        if self.books.queue.waiting() == 0 {
            return;
        }
        self.form_lines();
        for id in self.books.queue.order() {
            let Some(waiter) = self.books.queue.waiter(id) else { continue };
            let query = query(picker, waiter, self.books.clock_us);
            let taken = match waiter.home {
                Some(index) => picker.take_home(index, query),
                None if picker.active_tier(query).is_none() => {
                    self.reject(id, Rejection::Unavailable);
                    continue;
                }
                None => picker.pick_in_active_tier(query),
            };
            if let Some(taken) = taken {
                self.hand(id, taken);
            }
        }
    }

    /// Settles if a stall was found, or if a trial began or may begin: exchanges whose key leads to
    /// that endpoint then wait elsewhere.
    pub(crate) fn settle_stalls(&mut self) {
        let unsettled = &self.pool.picker.stall_unsettled;
        if unsettled.load(Ordering::Relaxed) && unsettled.swap(false, Ordering::AcqRel) {
            self.settle();
        }
    }

    /// Takes an exchange out of its line; returns `None` if it was in none.
    pub(crate) fn leave_line(&mut self, id: Id, standing: Standing) -> Option<Left> {
        let left = self.books.queue.leave(id, standing)?;
        if let Some(index) = left.home
            && let Some(member) = self.pool.picker.members.get(index)
        {
            member.state.remove_queued();
            self.pool.picker.note(index);
        }
        Some(left)
    }

    /// Sets the limits that slow starts reduce to their current values, and returns the endpoints
    /// whose limits changed. Without a queue they stay whole: exchanges would be rejected that the
    /// endpoint has room for.
    fn renew_limits(&mut self) -> Vec<usize> {
        let mut changed = Vec::new();
        let pool = self.pool;
        let picker = &pool.picker;
        if pool.queue.is_none() || !picker.had_slow_starts() {
            return changed;
        }
        for (index, member) in picker.members.iter().enumerate() {
            let limit = member.reduced_limit(self.books.clock_us);
            if limit != member.state.max_conn() {
                member.state.reduce_max_conn(limit);
                picker.note(index);
                self.note_ceiling(index);
                changed.push(index);
            }
        }
        changed
    }

    /// Records the number in flight at an endpoint whose limit was just changed.
    pub(crate) fn note_ceiling(&mut self, index: usize) {
        let in_flight = self.pool.picker.members.get(index).map(|member| member.state.in_flight());
        if let (Some(in_flight), Some(ceiling)) = (in_flight, self.books.ceilings.get_mut(index)) {
            *ceiling = in_flight;
        }
    }

    /// Counts endpoints with more in flight than their limit, except those that still drain to a
    /// lowered limit.
    pub(crate) fn excesses(&mut self) -> u64 {
        let mut found = 0;
        for (member, ceiling) in self.pool.picker.members.iter().zip(&mut self.books.ceilings) {
            let in_flight = member.state.in_flight();
            let limit = member.state.max_conn().unwrap_or(u32::MAX);
            found += u64::from(in_flight > limit.max(*ceiling));
            // Above the limit the number can only fall.
            *ceiling = (*ceiling).min(in_flight);
        }
        found
    }

    /// Returns true if an exchange waits that may have a slot at this endpoint, at the time of the
    /// books.
    pub(crate) fn is_awaited(&self, index: usize) -> bool {
        self.own_next(index).or_else(|| self.pool_next(index)).is_some()
    }

    /// The next exchange in line for an endpoint, and true if it is in the endpoint's own line. The
    /// older of the first in the endpoint's line and the first in the pool's line goes first.
    fn next_for(&self, index: usize) -> Option<(Id, bool)> {
        let own = self.own_next(index);
        if self.pool.fault.forgets_pool_queue() {
            return own.map(|(id, _)| (id, true));
        }
        match (own, self.pool_next(index)) {
            (Some((id, seq)), Some((_, other))) if seq < other => Some((id, true)),
            (_, Some((id, _))) => Some((id, false)),
            (own, None) => own.map(|(id, _)| (id, true)),
        }
    }

    /// The oldest exchange bound to an endpoint, with its number.
    fn own_next(&self, index: usize) -> Option<(Id, i64)> {
        let (id, waiter) = self.books.queue.line(Some(index)).next()?;
        let query = query(&self.pool.picker, waiter, self.books.clock_us);
        (self.pool.picker.home(query) == Some(index)).then_some((id, waiter.seq))
    }

    /// The oldest exchange of the pool's line that may have a slot at an endpoint, with its number.
    fn pool_next(&self, index: usize) -> Option<(Id, i64)> {
        let member = self.pool.picker.members.get(index)?;
        if !member.state.is_usable(self.books.clock_us, self.pool.picker.is_panicking()) {
            return None;
        }
        let mut line = self.books.queue.line(None);
        let fits = |waiter: &PoolWaiter| {
            self.pool
                .picker
                .is_eligible(index, query(&self.pool.picker, waiter, self.books.clock_us))
        };
        line.find(|(_, waiter)| fits(waiter)).map(|(id, waiter)| (id, waiter.seq))
    }

    fn enqueue(
        &mut self,
        request: &Request<'_>,
        home: Option<usize>,
        overflowed: bool,
    ) -> DispatchAnswer {
        let queue = &mut self.books.queue;
        let position = match home {
            Some(_) => queue.len(home) + queue.len(None),
            None => queue.waiting(),
        };
        let number = request.seniority.map(|one| one.number);
        let wish = Wish {
            tag: request.tag,
            holder: request.holder,
            since_us: request.seniority.map_or(request.now_us, |one| one.since_us),
            random: request.random,
            key: request.key,
            bound: request.bound,
            overflowed,
            tried: request.tried.clone(),
            about: WaiterInfo::of(&request.about),
            ahead: if position == 0 { Ahead::new() } else { queue.ahead(home, number) },
        };
        let waits_for = match home {
            None => WaitsFor::Any,
            Some(_) if home == request.bound => WaitsFor::Bound,
            Some(_) => WaitsFor::Key,
        };
        let id = queue.push(wish, home, number);
        let seq = queue.get(id).map_or(0, |waiter| waiter.seq);
        self.pool.common.figures.longest.raise_to(u64::from(queue.waiting()));
        if let Some(index) = home
            && let Some(member) = self.pool.picker.members.get(index)
        {
            member.state.add_queued();
            self.pool.picker.note(index);
        }
        let since_us = self.books.clock_us;
        DispatchAnswer::Queued(QueuePlace { id, seq, since_us, position, waits_for })
    }

    /// Moves every waiting exchange into the line where it belongs now.
    fn form_lines(&mut self) {
        let picker = &self.pool.picker;
        let clock_us = self.books.clock_us;
        let queue = &mut self.books.queue;
        let lens = |queue: &PoolQueue| -> Vec<u32> {
            (0..picker.members.len()).map(|index| queue.len(Some(index))).collect()
        };
        let before = lens(queue);
        let max = self.pool.queue.and_then(|settings| settings.max_per_endpoint);
        queue.form(|waiter, lens| {
            let home = picker.home(query(picker, waiter, clock_us))?;
            if max.is_some_and(|max| lens.get(home).is_some_and(|len| *len >= max)) {
                waiter.wish.overflowed = true;
                return None;
            }
            Some(home)
        });
        let after = lens(queue);
        let members = picker.members.iter().enumerate();
        for (((index, member), before), after) in members.zip(before).zip(after) {
            (before..after).for_each(|_| member.state.add_queued());
            (after..before).for_each(|_| member.state.remove_queued());
            if before != after {
                picker.note(index);
            }
        }
    }

    fn book(&mut self, taken: Taken) -> Taken {
        self.books.slots += 1;
        Taken { booked: true, ..taken }
    }

    fn hand(&mut self, id: Id, taken: Taken) {
        let taken = self.book(taken);
        let made_by = self.pool.identity();
        if let Some(waiter) = self.books.queue.get_mut(id) {
            waiter.made_by = made_by;
        }
        if let Some(left) = self.leave_line(id, Standing::Handed(taken)) {
            self.woken.0.extend(left.waker);
        }
    }

    fn reject(&mut self, id: Id, rejection: Rejection) {
        if let Some(left) = self.leave_line(id, Standing::Rejected(rejection)) {
            self.pool.common.figures.gave_up.add();
            self.woken.0.extend(left.waker);
        }
    }
}

impl Balancer {
    /// Takes a slot for an exchange that does not wait.
    pub(crate) fn pick_without_waiting(&self, request: &Request<'_>) -> Result<Taken, Rejection> {
        let panic = self.picker.is_panicking();
        self.picker.pick_without_waiting(request.query(request.now_us, panic, Stalls::Tried))
    }

    /// Takes the lock; returns the successor instead if there is one.
    pub(crate) fn dispatcher(&self) -> Result<Dispatcher<'_>, Arc<Self>> {
        let books = self.common.lock();
        if self.succession.is_former.load(Ordering::Relaxed)
            && let Some(current) = &*self.succession.current()
        {
            return Err(Arc::clone(current));
        }
        Ok(Dispatcher::new(self, books))
    }

    /// Calls `act` under the lock as the current balancer.
    pub(crate) fn with_dispatcher<R>(&self, act: impl FnOnce(&mut Dispatcher<'_>) -> R) -> R {
        match self.dispatcher() {
            Ok(mut dispatcher) => act(&mut dispatcher),
            Err(current) => current.with_dispatcher(act),
        }
    }

    /// Releases a slot that was dropped.
    pub(crate) fn release(&self, taken: Taken) {
        let Some(member) = self.picker.members.get(taken.index) else { return };
        // A waiting exchange may have been served by a successor without limits: its slot is in the
        // books all the same.
        if self.is_gated() || taken.booked {
            self.with_dispatcher(|dispatcher| {
                let index = dispatcher.pool.index_from(self, taken.index);
                let booked = taken.booked && std::ptr::eq(dispatcher.pool, self);
                dispatcher.release(&member.state, Released { index, booked });
                if member.state.is_stalled() && member.state.in_flight() == 0 {
                    // One exchange may try the endpoint now: exchanges whose key leads to it may
                    // wait for it again.
                    dispatcher.pool.picker.stall_unsettled.store(true, Ordering::Release);
                }
                dispatcher.settle_stalls();
            });
            return;
        }
        member.state.leave();
        self.picker.note(taken.index);
        // Another thread that set the first limit, or a successor that took over, in the meantime
        // may have queued an exchange for this slot. `leave` and setting the limit change the same
        // word, so either the other thread saw the release, or this one sees the gate.
        if self.is_gated() {
            self.with_dispatcher(|dispatcher| {
                if let Some(index) = dispatcher.pool.index_from(self, taken.index) {
                    dispatcher.pool.picker.note(index);
                    dispatcher.hand_on(index);
                }
            });
        }
    }
}

/// The query of a waiting exchange at `now_us`.
fn query<'a>(picker: &Picker, waiter: &'a PoolWaiter, now_us: u64) -> Query<'a> {
    let Wish { random, key, bound, overflowed, ref tried, .. } = waiter.wish;
    let panic = picker.is_panicking();
    picker.minding_stalls(Query {
        now_us,
        random,
        key,
        bound,
        overflowed,
        tried,
        panic,
        stalls: Stalls::Heeded,
    })
}
