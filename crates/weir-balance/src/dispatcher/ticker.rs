//! The ticker of a pool: while exchanges wait and no other arrives, it applies what becomes due,
//! such as the next step of a limit that a slow start reduces. It has no timer; its caller does.

use core::task::Waker;
use std::sync::Arc;

use crate::dispatcher::balancer::Balancer;

/// The permission to tick for a pool, which only one task has at a time. Its end gives it back.
#[derive(Debug)]
pub struct Ticker {
    pool: Arc<Balancer>,
    /// Cleared once the permission was given back.
    is_live: bool,
}

/// The state of a pool's ticker.
#[derive(Debug, Default)]
pub(crate) struct TickerState {
    /// Set while there is a ticker.
    runs: bool,
    /// Woken when something becomes due earlier than its task knows.
    pub(crate) waker: Option<Waker>,
}

impl Balancer {
    /// The pool's ticker, if endpoints have slow starts and no task has it. To be called when an
    /// exchange was queued. Costs one branch without slow starts.
    pub fn ticker(self: &Arc<Self>) -> Option<Ticker> {
        if !self.picker.has_slow_starts {
            return None;
        }
        let runs = std::mem::replace(&mut self.common.lock().ticker.runs, true);
        (!runs).then(|| Ticker { pool: Arc::clone(self), is_live: true })
    }
}

impl Ticker {
    /// Applies what is due at `now_us`, and returns the time at which to call this next, µs, or
    /// `None` if no exchange waits any more: the ticker has then ended. `waker` is woken when it is
    /// to be called earlier.
    pub fn tick(&mut self, now_us: u64, waker: &Waker) -> Option<u64> {
        self.pool = self.pool.latest();
        let mut waker = Some(waker.clone());
        let (due_us, former) = self.pool.with_dispatcher(|dispatcher| {
            // Taken before: the changes that are applied here wake nothing.
            let former = dispatcher.books.ticker.waker.take();
            dispatcher.advance(now_us);
            let books = &mut *dispatcher.books;
            books.ticker.runs = books.queue.waiting() > 0;
            if books.ticker.runs {
                books.ticker.waker = waker.take();
            }
            (books.ticker.runs.then_some(books.due_us), former)
        });
        // After the release of the lock: a waker may run arbitrary code.
        drop(former);
        self.is_live = due_us.is_some();
        due_us
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        if self.is_live {
            let state = std::mem::take(&mut self.pool.common.lock().ticker);
            drop(state);
        }
    }
}
