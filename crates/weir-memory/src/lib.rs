//! The system's allocator with a count of the allocated bytes, for the process and for each thread.
//! A program that needs the counts declares [`Counting`] as its global allocator; in other programs
//! they stay 0. The crate sets no limit; limits are enforced by the readers of the counts.
//!
//! A thread that allocates much can keep its change to itself up to [`BATCH`] bytes
//! ([`batch_here`]), so that threads do not write to the same cache line for every allocation. All
//! other threads write every change to the process's count at once.

mod aligned;
mod short_lived;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering, compiler_fence};

pub use short_lived::begin as begin_short_lived;

/// Largest change of a batching thread, in bytes, that is missing in the process's count.
pub const BATCH: usize = 256 * 1024;

/// The system's allocator with counting.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counting;

/// A value alone in its cache line.
#[repr(align(128))]
struct Apart<T>(T);

/// Allocated bytes that threads have reported.
static TOTAL: Apart<AtomicIsize> = Apart(AtomicIsize::new(0));
/// Largest value of [`TOTAL`] since [`reset_peak`].
static PEAK: Apart<AtomicUsize> = Apart(AtomicUsize::new(0));

struct Local {
    /// Change that was not added to [`TOTAL`] yet.
    untold: Cell<isize>,
    /// Largest change that may remain unreported.
    batch: Cell<isize>,
    /// All change since the thread began.
    own: Cell<isize>,
    /// Set while the thread is inside the allocator.
    at_work: Cell<bool>,
}

thread_local! {
    /// It has no destructor, so that it can be used as long as the thread runs.
    static LOCAL: Local =
        const {
            let (untold, batch, own) = (Cell::new(0), Cell::new(0), Cell::new(0));
            Local { untold, batch, own, at_work: Cell::new(false) }
        };
}

/// Bytes allocated in the process, the allocator's own bookkeeping included. Exact to within
/// [`BATCH`] bytes per batching thread.
pub fn allocated() -> usize {
    usize::try_from(TOTAL.0.load(Ordering::Relaxed)).unwrap_or(0)
}

/// Blocks of at least so many bytes are returned to the system when they are freed.
#[cfg(target_env = "gnu")]
const LARGE: libc::c_int = 256 * 1024;
/// Number of bytes that may stay free at the end of a heap.
#[cfg(target_env = "gnu")]
const SPARE: libc::c_int = 1024 * 1024;

/// Makes the system's allocator return large blocks as soon as they are freed, so that the
/// process's resident memory hardly exceeds what it allocated. By default glibc keeps ever larger
/// blocks for reuse, in fragments that no later allocation fits.
pub fn return_large_blocks() {
    #[cfg(target_env = "gnu")]
    for (parameter, value) in [(libc::M_MMAP_THRESHOLD, LARGE), (libc::M_TRIM_THRESHOLD, SPARE)] {
        // SAFETY: `mallopt` takes two numbers, and changes nothing if it refuses them.
        unsafe { libc::mallopt(parameter, value) };
    }
}

/// The largest number of bytes allocated at one time since the start or [`reset_peak`].
pub fn peak() -> usize {
    PEAK.0.load(Ordering::Relaxed).max(allocated())
}

/// Sets the peak to the bytes allocated now.
pub fn reset_peak() {
    PEAK.0.store(allocated(), Ordering::Relaxed);
}

/// Bytes that this thread allocated minus those that it freed; negative if it frees memory of other
/// threads.
pub fn of_this_thread() -> isize {
    LOCAL.try_with(|local| local.own.get()).unwrap_or(0)
}

/// Returns true while this thread is inside the allocator and may hold its lock. For signal
/// handlers.
pub fn is_at_work() -> bool {
    LOCAL.try_with(|local| local.at_work.get()).unwrap_or(false)
}

/// Calls the allocator with the thread marked as inside. A thread that is stopped for good in this
/// call would hold the allocator's lock for ever.
#[inline]
fn marked<T>(call: impl FnOnce() -> T) -> T {
    let mark = |at_work| {
        let _ = LOCAL.try_with(|local| local.at_work.set(at_work));
    };
    mark(true);
    // Compilers know that `malloc` does not read this mark and may drop the store; the fences keep
    // it.
    compiler_fence(Ordering::SeqCst);
    let done = call();
    compiler_fence(Ordering::SeqCst);
    mark(false);
    done
}

/// Lets this thread keep up to [`BATCH`] bytes of change to itself until the returned value is
/// dropped.
pub fn batch_here() -> Batching {
    let _ = LOCAL.try_with(|local| local.batch.set(BATCH as isize));
    Batching(std::marker::PhantomData)
}

/// The batching of a thread; dropping it reports the remaining change.
#[derive(Debug)]
pub struct Batching(std::marker::PhantomData<*const ()>);

impl Drop for Batching {
    fn drop(&mut self) {
        let _ = LOCAL.try_with(|local| {
            local.batch.set(0);
            tell(local.untold.replace(0));
        });
    }
}

/// Bytes that an allocation of `size` bytes takes from the heap: glibc adds eight bytes and rounds
/// up to a multiple of sixteen.
fn cost(layout: Layout) -> isize {
    if aligned::serves(layout) {
        return aligned::cost(layout) as isize;
    }
    (layout.size().saturating_add(8 + 15) & !15) as isize
}

#[inline]
fn note(change: isize) {
    let kept = LOCAL.try_with(|local| {
        local.own.set(local.own.get().wrapping_add(change));
        let untold = local.untold.get().wrapping_add(change);
        if untold.unsigned_abs() <= local.batch.get().unsigned_abs() {
            local.untold.set(untold);
        } else {
            local.untold.set(0);
            tell(untold);
        }
    });
    if kept.is_err() {
        tell(change);
    }
}

#[cold]
fn tell(change: isize) {
    let total = TOTAL.0.fetch_add(change, Ordering::Relaxed).wrapping_add(change);
    let total = usize::try_from(total).unwrap_or(0);
    if change > 0 && total > PEAK.0.load(Ordering::Relaxed) {
        PEAK.0.fetch_max(total, Ordering::Relaxed);
    }
}

// SAFETY: every call goes to the system's allocator or to the pool of aligned blocks, depending on
// the layout alone, or for small blocks of short-lived commands to theirs, whose addresses tell
// them from all others; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if short_lived::serves(layout) {
            // SAFETY: it serves the layout.
            let block = unsafe { short_lived::alloc(layout) };
            if !block.is_null() {
                return block;
            }
        }
        let pointer = if aligned::serves(layout) {
            // SAFETY: the pool serves the layout.
            marked(|| unsafe { aligned::alloc(layout) })
        } else {
            // SAFETY: guaranteed by the caller.
            marked(|| unsafe { System.alloc(layout) })
        };
        if !pointer.is_null() {
            note(cost(layout));
        }
        pointer
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if aligned::serves(layout) || short_lived::serves(layout) {
            // SAFETY: guaranteed by the caller.
            let pointer = unsafe { self.alloc(layout) };
            if !pointer.is_null() {
                // SAFETY: the block is that large.
                unsafe { pointer.write_bytes(0, layout.size()) };
            }
            return pointer;
        }
        // SAFETY: guaranteed by the caller.
        let pointer = marked(|| unsafe { System.alloc_zeroed(layout) });
        if !pointer.is_null() {
            note(cost(layout));
        }
        pointer
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        if short_lived::owns(pointer) {
            // SAFETY: the block is one of those, with this layout.
            unsafe { short_lived::dealloc(pointer, layout) };
            return;
        }
        if aligned::serves(layout) {
            // SAFETY: such blocks come from the pool.
            marked(|| unsafe { aligned::dealloc(pointer, layout) });
        } else {
            // SAFETY: guaranteed by the caller.
            marked(|| unsafe { System.dealloc(pointer, layout) });
        }
        note(-cost(layout));
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: guaranteed by the caller.
        let grown = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        if short_lived::owns(pointer) && short_lived::same_size(layout, grown) {
            return pointer;
        }
        let moves = short_lived::owns(pointer) || short_lived::serves(grown);
        if moves || aligned::serves(layout) || aligned::serves(grown) {
            // SAFETY: guaranteed by the caller; both blocks have the bytes that are copied.
            unsafe {
                let moved = self.alloc(grown);
                if !moved.is_null() {
                    moved.copy_from_nonoverlapping(pointer, size.min(layout.size()));
                    self.dealloc(pointer, layout);
                }
                return moved;
            }
        }
        // SAFETY: guaranteed by the caller.
        let moved = marked(|| unsafe { System.realloc(pointer, layout, size) });
        if !moved.is_null() {
            note(cost(grown) - cost(layout));
        }
        moved
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::hint::black_box;
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use super::*;

    #[global_allocator]
    static COUNTING: Counting = Counting;

    /// Serialises the tests that read the count of the whole process, and those that allocate much.
    pub(crate) fn alone() -> MutexGuard<'static, ()> {
        static ALONE: Mutex<()> = Mutex::new(());
        ALONE.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if two counts of the whole process agree, up to the bytes that the test harness
    /// allocates and frees meanwhile.
    fn agree(bytes: usize, expected: usize) -> bool {
        bytes.abs_diff(expected) < 64 << 10
    }

    #[test]
    fn allocations_of_a_thread_are_counted_for_it_and_the_process() {
        let _alone = alone();
        std::thread::spawn(|| {
            let (own, all) = (of_this_thread(), allocated());
            let mut held: Vec<u8> = black_box(Vec::with_capacity(10 << 20));
            assert!((10 << 20..11 << 20).contains(&(of_this_thread() - own)));
            let total = allocated();
            assert!(agree(total, all + (10 << 20)), "{all}, then {total}");
            assert!(peak() >= total, "peak {}, total {total}", peak());
            held.reserve_exact(20 << 20);
            assert!((20 << 20..21 << 20).contains(&(of_this_thread() - own)));
            drop(black_box(held));
            assert!((of_this_thread() - own).abs() < 1 << 20);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_batching_thread_reports_its_change_when_it_is_large_and_at_its_end() {
        let _alone = alone();
        let before = allocated();
        let held = std::thread::spawn(move || {
            let batching = batch_here();
            let small: Vec<u8> = black_box(Vec::with_capacity(BATCH - 4096));
            assert!(agree(allocated(), before));
            let more: Vec<u8> = black_box(Vec::with_capacity(8192));
            assert!(agree(allocated(), before + BATCH));
            let rest: Vec<u8> = black_box(Vec::with_capacity(BATCH / 2));
            assert!(agree(allocated(), before + BATCH));
            drop(batching);
            assert!(agree(allocated(), before + BATCH + BATCH / 2));
            [small, more, rest]
        })
        .join()
        .unwrap();
        drop(held);
        assert!(agree(allocated(), before));
    }
}
