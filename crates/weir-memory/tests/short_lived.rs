//! The blocks of short-lived commands: they keep their bytes until any thread frees them, and freed
//! ones are used again.

use std::alloc::{GlobalAlloc, Layout};
use std::collections::BTreeSet;
use std::sync::mpsc::channel;

use weir_memory::{Counting, begin_short_lived, of_this_thread};

#[global_allocator]
static COUNTING: Counting = Counting;

fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, 8).unwrap()
}

/// A block, filled with its number.
struct Block {
    at: usize,
    size: usize,
    number: u8,
}

impl Block {
    fn new(size: usize, number: u8) -> Self {
        // SAFETY: the size is not 0.
        let block = unsafe { COUNTING.alloc(layout(size)) };
        assert!(!block.is_null() && block.addr() % 8 == 0);
        // SAFETY: the block is that large.
        unsafe { block.write_bytes(number, size) };
        Self { at: block.expose_provenance(), size, number }
    }

    fn resize(&mut self, size: usize) {
        let block = std::ptr::with_exposed_provenance_mut::<u8>(self.at);
        // SAFETY: the block has this layout, and the new size is not 0.
        let block = unsafe { COUNTING.realloc(block, layout(self.size), size) };
        for at in self.size..size {
            // SAFETY: the block is that large.
            unsafe { block.add(at).write(self.number) };
        }
        (self.at, self.size) = (block.expose_provenance(), size);
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let block = std::ptr::with_exposed_provenance_mut::<u8>(self.at);
        for at in 0..self.size {
            // SAFETY: the block is that large.
            assert_eq!(unsafe { block.add(at).read() }, self.number);
        }
        // SAFETY: the block was allocated with this layout.
        unsafe { COUNTING.dealloc(block, layout(self.size)) };
    }
}

#[test]
fn blocks_keep_their_bytes_while_others_come_and_go_on_many_threads() {
    // Blocks of before are freed after.
    let early: Vec<Block> = (1..2_000).map(|size| Block::new(size, size as u8)).collect();
    begin_short_lived();
    begin_short_lived();
    let (sender, receiver) = channel::<Block>();
    let threads: Vec<_> = (0..4_u64)
        .map(|seed| {
            let sender = sender.clone();
            std::thread::spawn(move || {
                let (mut random, mut own) = (seed * 7919 + 1, Vec::new());
                for number in 0..30_000_usize {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let size = (random >> 33) as usize % 700 + 1;
                    own.push(Block::new(size, number as u8));
                    let at = (random >> 40) as usize % own.len();
                    own[at].resize((random >> 45) as usize % 1_200 + 1);
                    if own.len() > 700 {
                        drop(own.swap_remove(at));
                    }
                    // Some blocks are freed by another thread.
                    if number % 3 == 0
                        && let Some(block) = own.pop()
                    {
                        sender.send(block).unwrap();
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
    drop(early);
}

#[test]
fn freed_blocks_are_used_again_and_zeroed_ones_are_zero() {
    begin_short_lived();
    let held = of_this_thread();
    let mut places = BTreeSet::new();
    for number in 0..10_000_usize {
        let blocks: Vec<Block> =
            (0..4).map(|size| Block::new(100 + size * 16, number as u8)).collect();
        places.extend(blocks.iter().map(|block| block.at));
    }
    assert!(places.len() <= 8, "{} places for 4 blocks", places.len());
    // SAFETY: the size is not 0, and the block is freed with its layout.
    unsafe {
        let block = COUNTING.alloc_zeroed(layout(100));
        assert!((0..100).all(|at| block.add(at).read() == 0));
        COUNTING.dealloc(block, layout(100));
    }
    drop(places);
    assert!((of_this_thread() - held).abs() < 64 << 10, "the count is wrong");
}
