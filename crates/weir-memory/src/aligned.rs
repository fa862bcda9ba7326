//! Small blocks that are aligned to 128 bytes, without gaps between them: each connection has two,
//! its task and its socket in tokio's reactor. The system's allocator puts a header before each
//! block and so leaves 128 bytes between two of them.
//!
//! Blocks of one size lie in slabs. A slab belongs to the part of the pool whose threads made it;
//! any thread may free its blocks. A slab without blocks is returned to the system, except one of
//! each size and part, so that blocks that come and go at the edge of a slab do not cost a mapping
//! each. It serves no other alignment and no larger blocks.

use std::alloc::Layout;
use std::cell::Cell;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The alignment of the blocks, and the unit of their sizes.
const UNIT: usize = 128;
/// The number of sizes.
const SIZES: usize = 8;
/// The number of parts; a thread uses one of them, so that workers do not wait for each other.
const PARTS: usize = 16;
/// The size and alignment of a slab. Pages of it that no block has reached take no memory.
const SLAB: usize = 64 * 1024;

static POOL: [[Mutex<Size>; SIZES]; PARTS] =
    [const { [const { Mutex::new(Size { first: null_mut(), has_empty: false }) }; SIZES] }; PARTS];

/// The number of threads that have used the pool.
static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The part that the thread uses.
    static PART: Cell<Option<usize>> = const { Cell::new(None) };
}

/// The slabs of one size that have room.
struct Size {
    first: *mut Slab,
    /// Set if one of them has no block.
    has_empty: bool,
}

// SAFETY: slabs are only reached through the lock of their size.
unsafe impl Send for Size {}

/// The head of a slab; its blocks follow, from [`UNIT`] on.
struct Slab {
    before: *mut Self,
    after: *mut Self,
    /// The blocks that were freed.
    free: *mut Free,
    /// The offset of the first block that was never used.
    fresh: usize,
    /// The number of blocks in use.
    used: usize,
    part: usize,
}

/// A block that was freed.
struct Free {
    next: *mut Self,
}

/// Returns true if the pool serves blocks of this layout.
#[inline]
pub(crate) fn serves(layout: Layout) -> bool {
    layout.align() == UNIT && layout.size() > 0 && layout.size() <= SIZES * UNIT
}

/// The bytes of memory that a block of this layout takes.
pub(crate) fn cost(layout: Layout) -> usize {
    layout.size().next_multiple_of(UNIT)
}

/// Allocates a block; null if the system has no memory.
///
/// # Safety
/// The pool serves the layout.
pub(crate) unsafe fn alloc(layout: Layout) -> *mut u8 {
    let part = part();
    let bytes = cost(layout);
    let mut size = lock(part, bytes);
    if size.first.is_null() {
        let Some(slab) = map() else { return null_mut() };
        let made = Slab {
            before: null_mut(),
            after: null_mut(),
            free: null_mut(),
            fresh: UNIT,
            used: 0,
            part,
        };
        // SAFETY: the slab is new, large enough and aligned.
        unsafe { slab.as_ptr().write(made) };
        size.first = slab.as_ptr();
    }
    let first = size.first;
    // SAFETY: slabs on the list exist, and the lock is held.
    let slab = unsafe { &mut *first };
    if slab.used == 0 {
        size.has_empty = false;
    }
    slab.used += 1;
    let block = if slab.free.is_null() {
        let at = slab.fresh;
        slab.fresh += bytes;
        // SAFETY: a slab on the list has room.
        unsafe { first.cast::<u8>().add(at) }
    } else {
        let block = slab.free;
        // SAFETY: blocks on the list of free ones hold such an entry.
        slab.free = unsafe { (*block).next };
        block.cast::<u8>()
    };
    if slab.is_full(bytes) {
        // SAFETY: the slab is on the list, whose lock is held.
        unsafe { size.remove(first) };
    }
    block
}

/// Frees a block.
///
/// # Safety
/// It was allocated by [`alloc`] with this layout.
pub(crate) unsafe fn dealloc(block: *mut u8, layout: Layout) {
    let bytes = cost(layout);
    let head = slab_of(block);
    // SAFETY: the slab exists as long as it has a block; its part never changes.
    let part = unsafe { (*head).part };
    let mut size = lock(part, bytes);
    // SAFETY: as above, and the lock is held.
    let slab = unsafe { &mut *head };
    let was_full = slab.is_full(bytes);
    let freed = free_entry(block);
    // SAFETY: the block is large enough and aligned, and is not used any more.
    unsafe { freed.write(Free { next: slab.free }) };
    slab.free = freed;
    slab.used -= 1;
    if was_full {
        // SAFETY: a full slab is on no list.
        unsafe { size.add(head) };
    }
    if slab.used == 0 && !std::mem::replace(&mut size.has_empty, true) {
        return;
    }
    if slab.used == 0 {
        // SAFETY: the slab is on the list; it has no block, so nothing refers to it afterwards.
        unsafe {
            size.remove(head);
            libc::munmap(head.cast(), SLAB);
        }
    }
}

/// The slab of a block: slabs are aligned to their size.
fn slab_of(block: *mut u8) -> *mut Slab {
    block.map_addr(|address| address & !(SLAB - 1)).cast()
}

fn free_entry(block: *mut u8) -> *mut Free {
    block.cast()
}

impl Slab {
    fn is_full(&self, bytes: usize) -> bool {
        self.free.is_null() && self.fresh + bytes > SLAB
    }
}

impl Size {
    /// # Safety
    /// The slab exists and is on no list.
    unsafe fn add(&mut self, slab: *mut Slab) {
        // SAFETY: the caller guarantees that the slab exists, and slabs on the list do.
        unsafe {
            ((*slab).before, (*slab).after) = (null_mut(), self.first);
            if !self.first.is_null() {
                (*self.first).before = slab;
            }
        }
        self.first = slab;
    }

    /// # Safety
    /// The slab is on this list.
    unsafe fn remove(&mut self, slab: *mut Slab) {
        // SAFETY: slabs on the list exist.
        unsafe {
            let (before, after) = ((*slab).before, (*slab).after);
            if before.is_null() {
                self.first = after;
            } else {
                (*before).after = after;
            }
            if !after.is_null() {
                (*after).before = before;
            }
        }
    }
}

fn part() -> usize {
    let next = || THREADS.fetch_add(1, Ordering::Relaxed) % PARTS;
    let part = PART.try_with(|part| {
        let own = part.get().unwrap_or_else(next);
        part.set(Some(own));
        own
    });
    part.unwrap_or(0)
}

fn lock(part: usize, bytes: usize) -> MutexGuard<'static, Size> {
    POOL[part % PARTS][(bytes / UNIT - 1) % SIZES].lock().unwrap_or_else(PoisonError::into_inner)
}

/// Maps a new slab. The system usually puts it beside the latest one, so that both are one mapping;
/// the number of mappings of a process is limited.
fn map() -> Option<NonNull<Slab>> {
    let found = map_bytes(SLAB)?;
    if found.addr() % SLAB == 0 {
        return NonNull::new(found.cast());
    }
    // SAFETY: the mapping is new, and no reference to it exists.
    unsafe { libc::munmap(found, SLAB) };
    let found = map_bytes(2 * SLAB)?;
    let before = found.addr().next_multiple_of(SLAB) - found.addr();
    let slab = found.wrapping_byte_add(before);
    // SAFETY: both pieces are unused parts of the mapping.
    unsafe {
        if before > 0 {
            libc::munmap(found, before);
        }
        libc::munmap(slab.wrapping_byte_add(SLAB), SLAB - before);
    }
    NonNull::new(slab.cast())
}

fn map_bytes(bytes: usize) -> Option<*mut libc::c_void> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping overlaps nothing.
    let found = unsafe { libc::mmap(null_mut(), bytes, access, kind, -1, 0) };
    (found != libc::MAP_FAILED).then_some(found)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::mpsc::channel;

    use super::*;
    use crate::tests::alone;

    fn layout(size: usize) -> Layout {
        Layout::from_size_align(size, UNIT).unwrap()
    }

    /// A block, filled with its number.
    struct Block {
        at: usize,
        layout: Layout,
        number: u8,
    }

    impl Block {
        fn new(size: usize, number: u8) -> Self {
            let layout = layout(size);
            assert!(serves(layout));
            // SAFETY: the pool serves the layout.
            let block = unsafe { alloc(layout) };
            assert!(!block.is_null() && block.addr() % UNIT == 0);
            // SAFETY: the block is that large.
            unsafe { block.write_bytes(number, size) };
            Self { at: block.expose_provenance(), layout, number }
        }
    }

    impl Drop for Block {
        fn drop(&mut self) {
            let block = std::ptr::with_exposed_provenance_mut::<u8>(self.at);
            for at in 0..self.layout.size() {
                // SAFETY: the block is that large.
                assert_eq!(unsafe { block.add(at).read() }, self.number);
            }
            // SAFETY: the block was allocated with this layout.
            unsafe { dealloc(block, self.layout) };
        }
    }

    #[test]
    fn blocks_keep_their_bytes_while_others_come_and_go_on_many_threads() {
        let _alone = alone();
        let (sender, receiver) = channel::<Block>();
        let threads: Vec<_> = (0..4_u64)
            .map(|seed| {
                let sender = sender.clone();
                std::thread::spawn(move || {
                    let (mut random, mut own) = (seed * 7919 + 1, BTreeMap::new());
                    for number in 0..20_000_usize {
                        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                        let size = (random >> 33) as usize % (SIZES * UNIT) + 1;
                        own.insert(random >> 40, Block::new(size, number as u8));
                        if own.len() > 700 {
                            own.pop_first();
                        }
                        // Some blocks are freed by another thread.
                        if number % 3 == 0 {
                            sender.send(own.pop_last().unwrap().1).unwrap();
                        }
                    }
                })
            })
            .collect();
        drop(sender);
        receiver.into_iter().for_each(drop);
        for thread in threads {
            thread.join().unwrap();
        }
    }

    #[test]
    fn blocks_of_one_size_follow_each_other_without_a_gap() {
        let _alone = alone();
        let blocks: Vec<_> = (0..40).map(|_| Block::new(640, 1)).collect();
        let apart = blocks.windows(2).filter(|two| two[1].at != two[0].at + 640).count();
        assert!(apart <= 1, "{apart} gaps");
    }

    #[test]
    fn slabs_without_blocks_are_returned() {
        let _alone = alone();
        std::thread::spawn(|| {
            let blocks: Vec<_> = (0..1000).map(|_| Block::new(1024, 1)).collect();
            drop(blocks);
            let size = lock(part(), 1024);
            // SAFETY: slabs on the list exist, and the lock is held.
            let (used, after) = unsafe { ((*size.first).used, (*size.first).after) };
            assert_eq!((used, after.is_null()), (0, true));
        })
        .join()
        .unwrap();
    }

    #[test]
    fn an_empty_slab_is_kept_for_blocks_at_the_edge_of_a_full_one() {
        let _alone = alone();
        std::thread::spawn(|| {
            let mut blocks: Vec<_> = (0..(SLAB - UNIT) / 896).map(|_| Block::new(896, 1)).collect();
            let over = Block::new(896, 1);
            blocks.pop();
            drop(over);
            let size = lock(part(), 896);
            // SAFETY: slabs on the list exist, and the lock is held.
            let on_list = unsafe { [size.first, (*size.first).after] };
            assert!(!on_list.contains(&null_mut()), "the empty slab was returned");
        })
        .join()
        .unwrap();
    }

    #[test]
    fn only_small_blocks_of_this_alignment_are_served() {
        assert!(serves(layout(1)) && serves(layout(1024)));
        assert!(!serves(layout(1025)) && !serves(layout(0)));
        assert!(!serves(Layout::from_size_align(128, 64).unwrap()));
        assert!(!serves(Layout::from_size_align(256, 256).unwrap()));
    }
}
