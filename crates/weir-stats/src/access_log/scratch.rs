//! Buffers of a thread for values that are on their way into a text.

use std::cell::RefCell;

thread_local! {
    /// Buffers that are not in use.
    static FREE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// A buffer of the thread, so that an evaluation allocates nothing once it has grown.
pub(crate) struct Scratch(pub(crate) Vec<u8>);

/// A larger buffer is given back to the allocator.
const KEPT_BYTES: usize = 16 * 1024;

impl Scratch {
    pub(crate) fn take() -> Self {
        Self(FREE.with_borrow_mut(Vec::pop).unwrap_or_default())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let mut buffer = std::mem::take(&mut self.0);
        if buffer.capacity() <= KEPT_BYTES {
            buffer.clear();
            // At the end of the thread there is no list any more.
            let _ = FREE.try_with(|free| free.borrow_mut().push(buffer));
        }
    }
}
