//! The system's allocator with a count of the bytes that are allocated: by the process, and by each thread. A program that wants the
//! figures makes [`Counting`] its global allocator; in any other they stay 0. It sets no bound itself: who looks at the figures does.
//!
//! A thread that allocates much keeps its change to itself until it is [`BATCH`] bytes ([`batch_here`]), so that threads do not
//! write to the same cache line for every allocation. All others write through.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering, compiler_fence};

/// The most by which a thread that batches differs from what the process counts, bytes.
pub const BATCH: usize = 256 * 1024;

/// The system's allocator, counted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counting;

/// A counter that shares its cache line with nothing.
#[repr(align(128))]
struct Apart<T>(T);

/// Bytes that threads have told of.
static TOTAL: Apart<AtomicIsize> = Apart(AtomicIsize::new(0));
/// The most that [`TOTAL`] was since [`reset_peak`].
static PEAK: Apart<AtomicUsize> = Apart(AtomicUsize::new(0));

struct Local {
    /// Change that [`TOTAL`] does not know of.
    untold: Cell<isize>,
    /// How much of it may be kept.
    batch: Cell<isize>,
    /// All change since the thread began.
    own: Cell<isize>,
    /// Whether it is inside of the allocator.
    at_work: Cell<bool>,
}

thread_local! {
    /// Without a destructor, so that it can be used as long as the thread runs.
    static LOCAL: Local =
        const {
            let (untold, batch, own) = (Cell::new(0), Cell::new(0), Cell::new(0));
            Local { untold, batch, own, at_work: Cell::new(false) }
        };
}

/// Bytes allocated in the process, with what the allocator needs to keep account of them. It is exact but for [`BATCH`] bytes per thread that
/// batches.
pub fn allocated() -> usize {
    usize::try_from(TOTAL.0.load(Ordering::Relaxed)).unwrap_or(0)
}

/// Blocks of so many bytes and more go back to the system when they are freed.
#[cfg(target_env = "gnu")]
const LARGE: libc::c_int = 256 * 1024;
/// The free end of a heap may have so many bytes.
#[cfg(target_env = "gnu")]
const SPARE: libc::c_int = 1024 * 1024;

/// Has the system's allocator give large blocks back as soon as they are freed, so that what the process has of the machine is hardly more
/// than what it allocated. Left alone, glibc keeps ever larger ones for reuse, in pieces that fit nothing.
pub fn return_large_blocks() {
    #[cfg(target_env = "gnu")]
    for (parameter, value) in [(libc::M_MMAP_THRESHOLD, LARGE), (libc::M_TRIM_THRESHOLD, SPARE)] {
        // SAFETY: it takes two numbers, and keeps things as they are if it refuses them.
        unsafe { libc::mallopt(parameter, value) };
    }
}

/// The most that was allocated at once since the start or [`reset_peak`].
pub fn peak() -> usize {
    PEAK.0.load(Ordering::Relaxed).max(allocated())
}

/// Makes what is allocated now the peak.
pub fn reset_peak() {
    PEAK.0.store(allocated(), Ordering::Relaxed);
}

/// Bytes that this thread allocated less those that it freed; negative when it frees what others allocated.
pub fn of_this_thread() -> isize {
    LOCAL.try_with(|local| local.own.get()).unwrap_or(0)
}

/// Whether this thread is inside of the allocator, and may hold its lock. For signal handlers.
pub fn is_at_work() -> bool {
    LOCAL.try_with(|local| local.at_work.get()).unwrap_or(false)
}

/// Calls the allocator. A thread that is stopped for good meanwhile would hold its lock for ever.
#[inline]
fn marked<T>(call: impl FnOnce() -> T) -> T {
    let mark = |at_work| {
        let _ = LOCAL.try_with(|local| local.at_work.set(at_work));
    };
    mark(true);
    // The compiler knows what `malloc` reads: not this mark.
    compiler_fence(Ordering::SeqCst);
    let done = call();
    compiler_fence(Ordering::SeqCst);
    mark(false);
    done
}

/// Lets this thread keep its change to itself up to [`BATCH`] bytes, until what is returned is dropped.
pub fn batch_here() -> Batching {
    let _ = LOCAL.try_with(|local| local.batch.set(BATCH as isize));
    Batching(std::marker::PhantomData)
}

/// A thread that batches; dropping it tells the rest.
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

/// What an allocation of `size` bytes takes from the heap: glibc keeps eight bytes with each and rounds to sixteen.
fn cost(size: usize) -> isize {
    (size.saturating_add(8 + 15) & !15) as isize
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

// SAFETY: every call goes to the system's allocator with the arguments that it came with; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        let pointer = marked(|| unsafe { System.alloc(layout) });
        if !pointer.is_null() {
            note(cost(layout.size()));
        }
        pointer
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        let pointer = marked(|| unsafe { System.alloc_zeroed(layout) });
        if !pointer.is_null() {
            note(cost(layout.size()));
        }
        pointer
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        marked(|| unsafe { System.dealloc(pointer, layout) });
        note(-cost(layout.size()));
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's promise.
        let moved = marked(|| unsafe { System.realloc(pointer, layout, size) });
        if !moved.is_null() {
            note(cost(size) - cost(layout.size()));
        }
        moved
    }
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;
    use std::sync::Mutex;

    use super::*;

    #[global_allocator]
    static COUNTING: Counting = Counting;

    /// One at a time: the process's count is looked at.
    static ALONE: Mutex<()> = Mutex::new(());

    #[test]
    fn what_a_thread_allocates_and_frees_is_counted_for_it_and_the_process() {
        let _alone = ALONE.lock().unwrap();
        std::thread::spawn(|| {
            let (own, all) = (of_this_thread(), allocated());
            let mut held: Vec<u8> = black_box(Vec::with_capacity(10 << 20));
            assert!((10 << 20..11 << 20).contains(&(of_this_thread() - own)));
            assert!(allocated() - all >= 10 << 20 && peak() >= all + (10 << 20));
            held.reserve_exact(20 << 20);
            assert!((20 << 20..21 << 20).contains(&(of_this_thread() - own)));
            drop(black_box(held));
            assert!((of_this_thread() - own).abs() < 1 << 20);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_thread_that_batches_tells_of_its_change_when_it_is_large_and_at_its_end() {
        let _alone = ALONE.lock().unwrap();
        let about = |bytes: usize, expected: usize| bytes.abs_diff(expected) < 64 << 10;
        let before = allocated();
        let held = std::thread::spawn(move || {
            let batching = batch_here();
            let small: Vec<u8> = black_box(Vec::with_capacity(BATCH - 4096));
            assert!(about(allocated(), before));
            let more: Vec<u8> = black_box(Vec::with_capacity(8192));
            assert!(about(allocated(), before + BATCH));
            let rest: Vec<u8> = black_box(Vec::with_capacity(BATCH / 2));
            assert!(about(allocated(), before + BATCH));
            drop(batching);
            assert!(about(allocated(), before + BATCH + BATCH / 2));
            [small, more, rest]
        })
        .join()
        .unwrap();
        drop(held);
        assert!(about(allocated(), before));
    }
}
