//! The watchdog: checks the invariants of the pool, counts violations and repairs them. Also the
//! list of waiting exchanges.

use crate::dispatcher::balancer::{Balancer, PoolWaiter};
use crate::dispatcher::settings::Fault;
use crate::queue::waiter_info::WaiterInfo;

/// The tolerated delay between the end of an ejection and the `tick` that applies it, because
/// timers are not exact; a longer delay counts as a violation.
const GRACE_US: u64 = 100_000;

/// A waiting exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuedExchange {
    /// The number in the order of arrival; below 0 for an exchange that waited in another process
    /// before.
    pub seq: i64,
    /// The caller's number of the exchange.
    pub tag: u64,
    /// The time at which the exchange arrived, µs.
    pub since_us: u64,
    /// The endpoint that the exchange waits for, if no other will do.
    pub bound: Option<usize>,
    /// The description that the exchange arrived with.
    pub about: WaiterInfo,
    /// The number of exchanges before this one, over all lines.
    pub position: u32,
}

impl Balancer {
    /// The waiting exchanges, the oldest first.
    pub fn waiting(&self) -> Vec<QueuedExchange> {
        let one = |waiter: &PoolWaiter| QueuedExchange {
            seq: waiter.seq,
            tag: waiter.wish.tag,
            since_us: waiter.wish.since_us,
            bound: waiter.home,
            about: waiter.wish.about.clone(),
            position: 0,
        };
        // Copied under the lock, sorted after it: the list may be long, and exchanges queue up
        // meanwhile.
        let mut list: Vec<QueuedExchange> = self.common.lock().queue.all().map(one).collect();
        list.sort_unstable_by_key(|waiting| waiting.seq);
        for (position, waiting) in (0..).zip(&mut list) {
            waiting.position = position;
        }
        list
    }

    /// Checks the pool's invariants and returns the number of violations: a free slot while an
    /// exchange waits for it, more in flight than the limit, or books of slots and waiters that
    /// disagree. Adds the number to [`crate::Counters::violations`] and dispatches exchanges that
    /// were forgotten. To be called periodically; the result must be 0.
    pub fn audit(&self, now_us: u64) -> u64 {
        if self.fault == Fault::ForgetsPoolQueueUnwatched {
            return 0;
        }
        self.with_dispatcher(|dispatcher| {
            let pool = dispatcher.pool;
            dispatcher.books.clock_us =
                dispatcher.books.clock_us.max(now_us.saturating_sub(GRACE_US));
            let awaited = |index: usize| {
                let free =
                    pool.picker.members.get(index).is_some_and(|member| member.state.is_free());
                free && dispatcher.is_awaited(index)
            };
            let mut found =
                (0..pool.picker.members.len()).filter(|index| awaited(*index)).count() as u64;
            found += dispatcher.excesses();
            found += u64::from(!dispatcher.books.queue.is_sound());
            found += u64::from(dispatcher.books.slots > pool.picker.in_flight());
            pool.picker.note_all();
            dispatcher.advance(now_us);
            if found > 0 {
                dispatcher.settle();
            }
            pool.common.figures.violations.add_many(found);
            found
        })
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{Arrival, Member, PolicyKind, QueueSettings, Request, Settings, Tried};

    fn pool() -> Arc<Balancer> {
        let queue = Some(QueueSettings { max: 9, max_per_endpoint: None });
        let member = Member {
            identity: 0,
            weight: 1,
            max_conn: Some(2),
            tier: 0,
            ejection: None,
            slow_start_us: 0,
            state: Arc::default(),
        };
        Balancer::new(Settings { queue, ..Settings::new(PolicyKind::First) }, vec![member])
    }

    #[test]
    fn more_in_flight_than_the_limit_is_found() {
        let pool = pool();
        let state = &pool.picker.members[0].state;
        state.set_max_conn(None);
        assert!((0..3).all(|_| state.enter().is_some()));
        state.set_max_conn(Some(2));
        assert_eq!(pool.audit(0), 1);
        state.leave();
        assert_eq!(pool.audit(0), 0);
    }

    #[test]
    fn a_place_that_was_given_back_twice_is_found() {
        let pool = pool();
        let tried = Tried::new();
        let Arrival::Dispatched(slot) = pool.arrive(&Request::new(0, 0, &tried)) else { panic!() };
        pool.picker.members[0].state.leave();
        assert_eq!(pool.audit(0), 1);
        assert!(pool.picker.members[0].state.enter().is_some());
        assert_eq!(pool.audit(0), 0);
        drop(slot);
    }
}
