//! A pool: its endpoints, its policy and its queue behind one type, and the state that the
//! balancers of one pool share. The operations are in the other files of this folder: arrivals,
//! changes of endpoints, succession. Nothing here does I/O or reads a clock.

use std::cmp;
use std::sync::{Arc, Weak};

use crate::dispatcher::settings::{Fault, QueueSettings, Settings};
use crate::dispatcher::ticker::TickerState;
use crate::policy::PolicyKind;
use crate::policy::picker::Picker;
use crate::policy::stall::Stall;
use crate::queue::{Waiter, WaiterQueue};
use crate::state::counters::{Counters, PoolFigures, QueueLength};
use crate::state::endpoint::EndpointState;
use crate::state::held::Held;
use crate::state::member::{Member, Tried};
use crate::sync::{AtomicBool, Mutex, MutexGuard, Ordering};

/// A pool: endpoints, policy, queue.
#[derive(Debug)]
pub struct Balancer {
    /// The endpoints and the policy that picks among them.
    pub(crate) picker: Picker,
    pub(crate) queue: Option<QueueSettings>,
    /// Counts of slots by holder.
    pub(crate) held: Held,
    pub(crate) fault: Fault,
    /// State shared with the balancers before and after this one.
    pub(crate) common: Arc<Common>,
    /// The balancer that follows this one, if any.
    pub(crate) succession: Succession,
    /// Set if an exchange may ever have to wait: there is a queue, and a limit was set. Never
    /// cleared again. While it is clear, dispatch and release take no lock.
    pub(crate) gated: AtomicBool,
}

impl Balancer {
    /// Creates a pool. Its endpoints are known by their position in `members` from then on. Their
    /// limits apply at once, also to other balancers that share the same states.
    pub fn new(settings: Settings, members: Vec<Member>) -> Arc<Self> {
        let pool = Arc::new(Self::made(settings, members, None));
        pool.picker.set_limits();
        pool.picker.refresh_panic();
        pool.picker.note_all();
        pool
    }

    /// Creates a pool without setting the limits of its endpoints. With `before`, it shares that
    /// balancer's books.
    pub(crate) fn made(settings: Settings, members: Vec<Member>, before: Option<&Self>) -> Self {
        let picker = Picker::new(settings.of_picks(), members, before.map(|before| &before.picker));
        let is_gated = picker.is_limited() && settings.queue.is_some();
        Self {
            queue: settings.queue,
            held: Held::new(picker.members.len()),
            fault: settings.fault,
            common: before.map_or_else(
                || Arc::new(Common::new(&picker.members)),
                |before| Arc::clone(&before.common),
            ),
            succession: Succession::new(),
            gated: AtomicBool::new(is_gated),
            picker,
        }
    }

    /// The pool's policy.
    pub fn policy(&self) -> PolicyKind {
        self.picker.policy
    }

    /// The number of endpoints, usable or not.
    pub fn len(&self) -> usize {
        self.picker.members.len()
    }

    /// Returns true if the pool has no endpoints.
    pub fn is_empty(&self) -> bool {
        self.picker.members.is_empty()
    }

    /// The live state of an endpoint; `None` if the pool has none of that number.
    pub fn endpoint(&self, index: usize) -> Option<&EndpointState> {
        self.picker.members.get(index).map(|member| &*member.state)
    }

    /// The number of endpoints that are up and ready, of the first tier that has any. Ejections do
    /// not count.
    pub fn ready_endpoints(&self) -> u32 {
        let ready = self.picker.members.iter().filter(|member| member.state.is_ready());
        let counted =
            ready.fold((u8::MAX, 0), |(tier, count), member| match member.tier.cmp(&tier) {
                cmp::Ordering::Less => (member.tier, 1),
                cmp::Ordering::Equal => (tier, count + 1),
                cmp::Ordering::Greater => (tier, count),
            });
        counted.1
    }

    /// The tier of an endpoint, 0 first.
    pub fn tier(&self, index: usize) -> Option<u8> {
        self.picker.members.get(index).map(|member| member.tier)
    }

    /// The weight of an endpoint.
    pub fn weight(&self, index: usize) -> Option<u32> {
        self.picker.members.get(index).map(|member| member.weight)
    }

    /// Returns true if an exchange that is bound to the endpoint may be sent to it now, limits
    /// aside.
    pub fn takes_bound(&self, index: usize, now_us: u64) -> bool {
        let panic = self.picker.is_panicking();
        let member = self.picker.members.get(index);
        member.is_some_and(|member| member.state.is_usable_if_bound(now_us, panic))
    }

    /// Exchanges in flight over all endpoints.
    pub fn in_flight(&self) -> u64 {
        self.picker.in_flight_noted()
    }

    /// Returns true if probes are ignored because too few endpoints are healthy.
    pub fn is_panicking(&self) -> bool {
        self.picker.is_panicking()
    }

    /// The endpoint that `key` would lead to without endpoint `index`: the hashing policy's second
    /// choice among those usable at `now_us`. `None` if the policy hashes nothing or no other
    /// endpoint is left.
    pub fn second_choice(&self, index: usize, key: u64, now_us: u64) -> Option<usize> {
        self.picker.second_choice(index, key, now_us)
    }

    /// The stalls found since the last call. Costs one load if there are none.
    pub fn take_stalls(&self) -> Vec<Stall> {
        self.picker.take_stalls()
    }

    /// The pool's counters, including what the balancers before this one counted.
    pub fn counters(&self) -> Counters {
        let (figures, regret) = (&self.common.figures, &self.picker.regret);
        Counters {
            dispatched: self.picker.members.iter().map(|member| member.state.picks()).sum(),
            queued: figures.queued.read(),
            queue_full: figures.queue_full.read(),
            full: figures.full.read(),
            unavailable: figures.unavailable.read(),
            gave_up: figures.gave_up.read(),
            cancelled: figures.cancelled.read(),
            timed_out: figures.timed_out.read(),
            inversions: regret.inversions(),
            regret_us: regret.lost_us(),
            violations: figures.violations.read(),
        }
    }

    /// The length of the queue, with that of the balancers before this one.
    pub fn queue_length(&self) -> QueueLength {
        QueueLength {
            now: u64::from(self.common.lock().queue.waiting()),
            longest: self.common.figures.longest.read(),
        }
    }

    /// The number of exchanges that wait. It takes the lock only where one may have to.
    pub fn queued(&self) -> u64 {
        if self.is_gated() { self.queue_length().now } else { 0 }
    }

    /// Returns true if an exchange may have to wait: dispatch and release then take the lock.
    pub(crate) fn is_gated(&self) -> bool {
        self.gated.load(Ordering::SeqCst)
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
        self.picker.position(&other.picker.members.get(index)?.state)
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

    /// A number that distinguishes the balancers of one pool while they live.
    pub(crate) fn identity(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Takes the pool's lock and never releases it, for tests of a thread that hangs with the lock.
    #[doc(hidden)]
    pub fn hang_with_lock(&self) -> ! {
        let _books = self.common.lock();
        loop {
            std::hint::spin_loop();
        }
    }
}

/// The state that the balancers of one pool share, from the first to the current one.
#[derive(Debug)]
pub(crate) struct Common {
    books: Mutex<Books>,
    pub(crate) figures: PoolFigures,
}

impl Common {
    pub(crate) fn new(members: &[Member]) -> Self {
        let books = Mutex::new(Books::new(members));
        Self { books, figures: PoolFigures::new() }
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
    pub(crate) is_former: AtomicBool,
    /// The current balancer of the pool, however many successions ago this one was replaced. Locked
    /// after the books, if both are.
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

    /// Locks the link to the current balancer.
    pub(crate) fn current(&self) -> MutexGuard<'_, Option<Arc<Balancer>>> {
        self.current.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Locks the links to the earlier balancers.
    pub(crate) fn former(&self) -> MutexGuard<'_, Vec<Weak<Balancer>>> {
        self.former.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// The queue of a pool. A waiting exchange may be served by a successor of the balancer at which it
/// arrived.
pub(crate) type PoolQueue = WaiterQueue<Arc<Balancer>>;
/// A waiting exchange of a pool.
pub(crate) type PoolWaiter = Waiter<Arc<Balancer>>;

/// The data that the lock guards.
#[derive(Debug)]
pub(crate) struct Books {
    pub(crate) queue: PoolQueue,
    /// The latest time that any caller gave, µs. It never goes back.
    pub(crate) clock_us: u64,
    /// The time of the next timed change, µs.
    pub(crate) due_us: u64,
    /// The end of the next ejection, µs. Other timed changes are steps of limits.
    pub(crate) ejection_end_us: u64,
    /// Slots taken under the lock and not given back.
    pub(crate) slots: u64,
    /// The number in flight at each endpoint when its limit was last changed. A number above the
    /// limit is no violation up to this one.
    pub(crate) ceilings: Box<[u32]>,
    pub(crate) ticker: TickerState,
}

impl Books {
    pub(crate) fn new(members: &[Member]) -> Self {
        let queue = WaiterQueue::new(members.len());
        Self {
            queue,
            clock_us: 0,
            due_us: u64::MAX,
            ejection_end_us: u64::MAX,
            slots: 0,
            ceilings: ceilings(members),
            ticker: TickerState::default(),
        }
    }

    /// Resets the books for other endpoints. Slots of the former endpoints are not counted out when
    /// they come back.
    pub(crate) fn begin_anew(&mut self, members: &[Member]) {
        self.slots = 0;
        self.ceilings = ceilings(members);
    }
}

fn ceilings(members: &[Member]) -> Box<[u32]> {
    members.iter().map(|member| member.state.in_flight()).collect()
}
