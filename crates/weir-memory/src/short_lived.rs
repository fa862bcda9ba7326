//! Small blocks of commands that end soon, such as `weir check`: each thread takes them from pages
//! of its own and keeps freed ones for blocks of the same size. It takes a few instructions for a
//! block where the system's allocator merges and splits free memory, and a block has no header.
//!
//! No memory returns to the system, nothing is merged, and the blocks are not counted: it is not
//! for programs that serve. It is off until [`begin`], and for all blocks of more than [`LARGEST`]
//! bytes.
//!
//! A command that needs much gets its memory ahead of use from a thread of its own: page faults
//! were a seventh of the time of `weir check` on a long file.

use std::alloc::Layout;
use std::cell::Cell;
use std::ptr::null_mut;
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// The largest block, in bytes.
const LARGEST: usize = 512;
/// The unit of the sizes, and the alignment of all blocks.
const UNIT: usize = 16;
const SIZES: usize = LARGEST / UNIT;
/// The addresses that blocks may have. Those that no block has reached take no memory.
const RANGE: usize = 16 << 30;
/// The bytes that a thread takes from the range at once.
const CHUNK: usize = 1024 * 1024;

/// Once blocks take so many bytes, memory is prepared ahead of them.
const LONG: usize = 4 << 20;
/// The number of bytes that are prepared ahead.
const AHEAD: usize = 16 << 20;
/// The number of bytes that are prepared at once.
const STEP: usize = 2 << 20;
/// The interval at which the need is looked at. `weir check` takes about 0.4 MB in it.
const LOOK_INTERVAL: Duration = Duration::from_millis(1);

/// The first address of the range; [`OFF`] before [`begin`], so that no address lies in it.
static FIRST: AtomicUsize = AtomicUsize::new(OFF);
const OFF: usize = usize::MAX - RANGE;
/// The bytes of the range that threads have taken.
static TAKEN: AtomicUsize = AtomicUsize::new(0);

/// A block that was freed.
struct FreeBlock {
    next: *mut Self,
}

/// The memory of a thread.
struct ThreadMemory {
    /// The freed blocks of each size.
    free: [Cell<*mut FreeBlock>; SIZES],
    /// The part of the latest chunk that no block has reached.
    fresh: Cell<*mut u8>,
    left: Cell<usize>,
}

thread_local! {
    /// It has no destructor, so that it can be used as long as the thread runs.
    static OWN: ThreadMemory = const {
        let free = [const { Cell::new(null_mut()) }; SIZES];
        ThreadMemory { free, fresh: Cell::new(null_mut()), left: Cell::new(0) }
    };
}

/// Serves the small blocks of this process from now on, until it ends. Where the system does not
/// give the addresses, its allocator goes on.
pub fn begin() {
    static BEGUN: Once = Once::new();
    BEGUN.call_once(|| {
        // Addresses without access count for no limit of the system.
        let access = libc::PROT_NONE;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping overlaps nothing.
        let found = unsafe { libc::mmap(null_mut(), RANGE, access, kind, -1, 0) };
        if found != libc::MAP_FAILED {
            let first = found.expose_provenance();
            FIRST.store(first, Ordering::Release);
            // Without the thread the pages come one by one.
            let _ = thread::Builder::new().spawn(move || prepare(first));
        }
    });
}

/// Allows reading and writing of a part of the range; false if the system refuses it.
fn open(at: usize, bytes: usize) -> bool {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: the callers name parts of the range, which only this module uses.
    unsafe { libc::mprotect(std::ptr::with_exposed_provenance_mut(at), bytes, access) == 0 }
}

/// Has the kernel give memory to the addresses ahead of the blocks until the process ends.
fn prepare(first: usize) {
    let mut prepared = 0;
    loop {
        let taken = TAKEN.load(Ordering::Relaxed);
        if taken < LONG || prepared >= taken + AHEAD {
            thread::sleep(LOOK_INTERVAL);
            continue;
        }
        prepared = prepared.max(taken);
        if prepared > RANGE - STEP {
            return;
        }
        let at = std::ptr::with_exposed_provenance_mut(first + prepared);
        // SAFETY: the bytes are part of the range, whose contents this does not change.
        let populated = open(first + prepared, STEP)
            && unsafe { libc::madvise(at, STEP, libc::MADV_POPULATE_WRITE) } == 0;
        if !populated {
            // The kernel is older than 5.14, or has no memory; the blocks find out themselves.
            return;
        }
        prepared += STEP;
    }
}

/// Returns true if blocks of this layout are served now.
#[inline]
pub(crate) fn serves(layout: Layout) -> bool {
    FIRST.load(Ordering::Relaxed) != OFF && fits(layout)
}

#[inline]
fn fits(layout: Layout) -> bool {
    layout.size() <= LARGEST && layout.align() <= UNIT && layout.size() > 0
}

/// Returns true if the block was allocated here.
#[inline]
pub(crate) fn owns(block: *mut u8) -> bool {
    block.addr().wrapping_sub(FIRST.load(Ordering::Relaxed)) < RANGE
}

/// Returns true if a block of one layout has room for the other.
#[inline]
pub(crate) fn same_size(one: Layout, other: Layout) -> bool {
    fits(one) && fits(other) && index(one) == index(other)
}

#[inline]
fn index(layout: Layout) -> usize {
    (layout.size() - 1) / UNIT
}

/// Allocates a block; null if the range is used up.
///
/// # Safety
/// The layout [`fits`], and [`serves`] was true.
#[inline]
pub(crate) unsafe fn alloc(layout: Layout) -> *mut u8 {
    let index = index(layout);
    OWN.try_with(|own| {
        let Some(list) = own.free.get(index) else { return null_mut() };
        let block = list.get();
        if block.is_null() {
            return own.new_block((index + 1) * UNIT);
        }
        // SAFETY: blocks on the list hold such an entry.
        list.set(unsafe { (*block).next });
        block.cast()
    })
    .unwrap_or(null_mut())
}

/// Frees a block, for the thread that calls.
///
/// # Safety
/// The block was allocated here with a layout of the same size class, and is not used any more.
#[inline]
#[expect(clippy::cast_ptr_alignment, reason = "all blocks are aligned to `UNIT`")]
pub(crate) unsafe fn dealloc(block: *mut u8, layout: Layout) {
    // A thread that has none any more leaves the block behind.
    let _ = OWN.try_with(|own| {
        if let Some(list) = own.free.get(index(layout)) {
            let block = block.cast::<FreeBlock>();
            // SAFETY: a block is large enough and aligned.
            unsafe { block.write(FreeBlock { next: list.get() }) };
            list.set(block);
        }
    });
}

impl ThreadMemory {
    fn new_block(&self, bytes: usize) -> *mut u8 {
        if self.left.get() < bytes && !self.take() {
            return null_mut();
        }
        let block = self.fresh.get();
        self.fresh.set(block.wrapping_add(bytes));
        self.left.set(self.left.get() - bytes);
        block
    }

    /// Takes a chunk; what is left of the one before stays unused.
    #[cold]
    fn take(&self) -> bool {
        let at = TAKEN.fetch_add(CHUNK, Ordering::Relaxed);
        if at >= RANGE {
            // It must not come round.
            TAKEN.store(RANGE, Ordering::Relaxed);
            return false;
        }
        let first = FIRST.load(Ordering::Acquire);
        if !open(first + at, CHUNK) {
            return false;
        }
        self.fresh.set(std::ptr::with_exposed_provenance_mut(first + at));
        self.left.set(CHUNK);
        true
    }
}
