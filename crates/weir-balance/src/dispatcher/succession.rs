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

use crate::dispatcher::balancer::{Balancer, Request, Tried};
use crate::dispatcher::{Books, Dispatcher};
use crate::queue::Waiter;
use crate::state::counters::Figures;
use crate::state::regret::Regret;
use crate::sync::{AtomicBool, Mutex, MutexGuard, Ordering};
use crate::{AdminState, Arrival, EndpointState, Member, Settings};

/// The state that the balancers of one pool share, from the first to the current one.
#[derive(Debug)]
pub(crate) struct Common {
    books: Mutex<Books>,
    pub(crate) figures: Figures,
    pub(crate) regret: Regret,
}

impl Common {
    pub(crate) fn new(members: &[Member]) -> Self {
        let books = Mutex::new(Books::new(members));
        Self { books, figures: Figures::new(), regret: Regret::new() }
    }

    /// Locks the books.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Books> {
        // A panic under the lock is a bug that one exchange already paid for; the order of writes
        // keeps the books consistent.
        self.books.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// A balancer's links to its successor and to its predecessors.
#[derive(Debug)]
pub(crate) struct Succession {
    /// Set if there is a successor. Set under the lock of the books, and never cleared.
    is_former: AtomicBool,
    /// The current balancer of the pool, regardless of how many came in between. Locked after the
    /// books, if both are.
    current: Mutex<Option<Arc<Balancer>>>,
    /// The earlier balancers, which may still have slots and tickets.
    former: Mutex<Vec<Weak<Balancer>>>,
}

impl Succession {
    pub(crate) fn new() -> Self {
        Self {
            is_former: AtomicBool::new(false),
            current: Mutex::new(None),
            former: Mutex::new(Vec::new()),
        }
    }

    fn current(&self) -> MutexGuard<'_, Option<Arc<Balancer>>> {
        self.current.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn former(&self) -> MutexGuard<'_, Vec<Weak<Balancer>>> {
        self.former.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

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
            if let Some(member) = waiter.home.and_then(|index| before.members.get(index)) {
                member.state.remove_queued();
            }
        }
        books.queue.begin_anew(self.members.len(), |waiter: &mut Waiter| {
            waiter.wish.bound = waiter.wish.bound.and_then(|index| self.index_from(before, index));
            waiter.wish.tried = self.tried_from(before, &waiter.wish.tried);
            waiter.server = Some(Arc::clone(self));
        });
        self.set_limits();
        for (member, state) in self.members.iter().zip(states) {
            member.state.set_admin_state(*state);
        }
        books.begin_anew(&self.members);
        let mut dispatcher = Dispatcher::new(self, books);
        dispatcher.advance(now_us);
        dispatcher.settle();
        if dispatcher.books.queue.waiting() == 0 {
            // No exchange waits, so the gate can return to its initial value.
            self.gated.store(is_gated, Ordering::SeqCst);
        }
    }

    /// The balancer that serves arrivals now: this one, if it has no successor.
    pub fn latest(self: &Arc<Self>) -> Arc<Self> {
        self.successor().unwrap_or_else(|| Arc::clone(self))
    }

    /// Returns true if this balancer has no successor.
    pub fn is_latest(&self) -> bool {
        self.successor().is_none()
    }

    /// The current balancer, if it is another one. Costs one load if it is not.
    pub(crate) fn successor(&self) -> Option<Arc<Self>> {
        let former = self.succession.is_former.load(Ordering::Acquire);
        if former { self.succession.current().clone() } else { None }
    }

    /// The position of another balancer's endpoint in this one.
    pub fn index_from(&self, other: &Self, index: usize) -> Option<usize> {
        if std::ptr::eq(self, other) {
            return Some(index);
        }
        self.position(&other.members.get(index)?.state)
    }

    /// The tried endpoints of another balancer, as this one numbers them.
    pub fn tried_from(&self, other: &Self, tried: &Tried) -> Tried {
        let mut known = Tried::new();
        for index in tried.indexes().filter_map(|index| self.index_from(other, index)) {
            known.insert(index);
        }
        known
    }

    /// The earlier balancers that still have slots.
    pub(crate) fn former_alive(&self) -> Vec<Arc<Self>> {
        self.succession.former().iter().filter_map(Weak::upgrade).collect()
    }

    pub(crate) fn position(&self, state: &Arc<EndpointState>) -> Option<usize> {
        self.members.iter().position(|member| Arc::ptr_eq(&member.state, state))
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

    /// Takes the pool's lock and never releases it, for tests of a thread that hangs with the lock.
    #[doc(hidden)]
    pub fn hang_with_lock(&self) -> ! {
        let _books = self.common.lock();
        loop {
            std::hint::spin_loop();
        }
    }

    /// Calls `act` under the lock as the current balancer.
    pub(crate) fn with_dispatcher<R>(&self, act: impl FnOnce(&mut Dispatcher<'_>) -> R) -> R {
        match self.dispatcher() {
            Ok(mut dispatcher) => act(&mut dispatcher),
            Err(current) => current.with_dispatcher(act),
        }
    }

    /// Passes an exchange that arrived here on to the successor.
    #[cold]
    pub(crate) fn arrive_at(&self, successor: &Arc<Self>, request: &Request<'_>) -> Arrival {
        let tried = successor.tried_from(self, request.tried);
        let bound = request.bound.and_then(|index| successor.index_from(self, index));
        successor.arrive(&Request { bound, tried: &tried, ..*request })
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
