//! Reload: one balancer takes over from another when the configuration of its pool changes. It has
//! the same books, so no waiting exchange loses its place, and endpoints that stay have the same
//! states, so no limit is exceeded.
//!
//! ```text
//! prepared ──succeed──▶ current ──another succeeds──▶ former: leads to the current one
//! ```
//! Limits, order and work conservation hold across a reload, because every change of them happens
//! under the lock of the books, which all balancers of a pool share, and is decided by the current
//! one. A former balancer keeps nothing alive but the current one.

use std::sync::{Arc, Weak};

use crate::dispatcher::Dispatcher;
use crate::dispatcher::balancer::{Balancer, PoolWaiter};
use crate::dispatcher::settings::Settings;
use crate::state::endpoint::AdminState;
use crate::state::member::Member;
use crate::sync::Ordering;

impl Balancer {
    /// Creates a balancer that can take over from `before`. Endpoints with the same state stay.
    /// Nothing changes until [`Balancer::succeed`] is called; if it is never called, the balancer
    /// can be dropped without effect.
    pub fn prepared(before: &Arc<Self>, settings: Settings, members: Vec<Member>) -> Arc<Self> {
        Arc::new(Self::made(settings, members, Some(before)))
    }

    /// Takes over from the balancer that this one was [prepared](Balancer::prepared) for, with the
    /// admin states of its endpoints. Exchanges that wait there wait here from now on, in the
    /// same order and with the same numbers, and get a slot of this balancer. Slots released there
    /// serve exchanges that wait here, and exchanges that arrive there arrive here.
    pub fn succeed(self: &Arc<Self>, before: &Arc<Self>, states: &[AdminState], now_us: u64) {
        let mut books = self.common.lock();
        let has_its_books = Arc::ptr_eq(&self.common, &before.common);
        debug_assert!(has_its_books, "it was prepared for another one");
        if !has_its_books || before.succession.is_former.load(Ordering::Relaxed) {
            return;
        }
        // Set before the limits: a release at the former balancer that finds the new limit must
        // also see that it has to come here.
        before.gated.store(true, Ordering::SeqCst);
        let is_gated = self.gated.load(Ordering::SeqCst);
        self.gated.store(true, Ordering::SeqCst);
        self.follow(before);
        for waiter in books.queue.all() {
            if let Some(member) = waiter.home.and_then(|index| before.picker.members.get(index)) {
                member.state.remove_queued();
            }
        }
        books.queue.begin_anew(self.picker.members.len(), |waiter: &mut PoolWaiter| {
            waiter.wish.bound = waiter.wish.bound.and_then(|index| self.index_from(before, index));
            waiter.wish.tried = self.tried_from(before, &waiter.wish.tried);
            waiter.server = Some(Arc::clone(self));
        });
        self.picker.set_limits();
        self.picker.take_over_slow_starts(&before.picker, now_us);
        self.begin_slow_starts(before, states, now_us);
        for (member, state) in self.picker.members.iter().zip(states) {
            member.state.set_admin_state(*state);
        }
        self.picker.note_all();
        books.begin_anew(&self.picker.members);
        let mut dispatcher = Dispatcher::new(self, books);
        dispatcher.advance(now_us);
        dispatcher.settle();
        if dispatcher.books.queue.waiting() == 0 {
            // No exchange waits, so the gate can return to its initial value.
            self.gated.store(is_gated, Ordering::SeqCst);
        }
    }

    /// Begins the slow starts of endpoints that are new in the pool, or whose maintenance ends. If
    /// no endpoint stays, the pool is a new one, and begins like the first.
    fn begin_slow_starts(&self, before: &Self, states: &[AdminState], now_us: u64) {
        let members = &self.picker.members;
        if !self.picker.has_slow_starts {
            return;
        }
        let is_new = |member: &Member| before.picker.position(&member.state).is_none();
        let any_stays = members.iter().any(|member| !is_new(member));
        for (index, member) in members.iter().enumerate() {
            let ready = states.get(index).is_none_or(|state| *state != AdminState::Maintenance);
            let returns = member.state.admin_state() == AdminState::Maintenance && ready;
            let joins = any_stays && is_new(member);
            if joins {
                member.state.note_in_use();
            }
            if joins || returns {
                self.picker.begin_slow_start(index, now_us);
            }
        }
    }

    /// Makes all earlier balancers lead to this one.
    fn follow(self: &Arc<Self>, before: &Arc<Self>) {
        let mut former = std::mem::take(&mut *before.succession.former());
        former.retain(|one| one.strong_count() > 0);
        former.push(Arc::downgrade(before));
        // Dropped after the locks: it may be the last reference to a balancer in between.
        let mut replaced = Vec::new();
        for one in former.iter().filter_map(Weak::upgrade) {
            replaced.extend(one.succession.current().replace(Arc::clone(self)));
            one.succession.is_former.store(true, Ordering::Release);
            replaced.push(one);
        }
        *self.succession.former() = former;
        drop(replaced);
    }
}
