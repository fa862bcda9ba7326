//! Dispatch and release allocate nothing, neither alone nor through the queue once its memory has
//! grown.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use weir_balance::{
    Arrival, Balancer, Member, PolicyKind, QueueSettings, Request, Settings, Slot, Ticket, Tried,
};

thread_local! {
    /// Counted per thread, so that concurrent tests do not count.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call goes to the system allocator with the arguments it came with.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: as above.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn pool(policy: PolicyKind, limit: Option<u32>) -> Arc<Balancer> {
    let queue = limit.map(|_| QueueSettings { max: 10_000, max_per_endpoint: None });
    let member = |_| Member {
        identity: 0,
        weight: 1,
        max_conn: limit,
        tier: 0,
        ejection: None,
        slow_start_us: 0,
        state: Arc::default(),
    };
    Balancer::new(Settings { queue, ..Settings::new(policy) }, (0..3).map(member).collect())
}

fn allocations(work: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.with(Cell::get);
    work();
    ALLOCATIONS.with(Cell::get) - before
}

#[test]
fn an_exchange_that_need_not_wait_allocates_nothing() {
    let tried = Tried::new();
    for &policy in PolicyKind::all() {
        for limit in [None, Some(2)] {
            let pool = pool(policy, limit);
            let count = allocations(|| {
                for random in 0..1_000 {
                    let request = Request::new(random, random << 48, &tried);
                    let Arrival::Dispatched(slot) = pool.arrive(&request) else { panic!() };
                    slot.finish(1);
                }
            });
            assert_eq!(count, 0, "{policy} with limit {limit:?}");
        }
    }
}

#[test]
fn the_queue_keeps_its_memory() {
    let tried = Tried::new();
    let pool = pool(PolicyKind::LeastConn, Some(1));
    let arrive = || pool.arrive(&Request::new(0, 0, &tried));
    let ticket = || {
        let Arrival::Queued(ticket) = arrive() else { panic!() };
        ticket
    };
    let slot = || {
        let Arrival::Dispatched(slot) = arrive() else { panic!() };
        slot
    };
    let mut running: VecDeque<Slot> = (0..3).map(|_| slot()).collect();
    let mut waiting: VecDeque<Ticket> = (0..1_000).map(|_| ticket()).collect();
    let context = &mut Context::from_waker(Waker::noop());
    let mut turn = || {
        let mut first = waiting.pop_front().unwrap();
        assert!(Pin::new(&mut first).poll(context).is_pending());
        running.pop_front();
        let Poll::Ready(Ok(slot)) = Pin::new(&mut first).poll(context) else { panic!() };
        running.push_back(slot);
        drop(first);
        waiting.push_back(ticket());
        waiting.pop_back();
        waiting.push_back(ticket());
    };
    (0..10).for_each(|_| turn());
    assert_eq!(allocations(|| (0..1_000).for_each(|_| turn())), 0);
}
