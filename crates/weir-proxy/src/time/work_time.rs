//! Measures the time that a task worked on an exchange, without its waiting: the time that Weir
//! itself adds to a request. It also says when a task's turn is over.

use std::cell::Cell;
use std::pin::Pin;
use std::task::{Context, Poll};
use weir_stats::Micros;

use crate::limits::{TURN_EXCHANGES, TURN_TIME};
use crate::time::instant::Instant;

/// The turn that a worker's thread gives to one exchange: from the poll of its future until it
/// waits again. It keeps readings of the clock, so that other code need not read it again.
pub(crate) struct Turn {
    began: Cell<Instant>,
    /// A reading of the clock just before the turn ends.
    ends: Cell<Option<Instant>>,
    /// The time of the first poll of an exchange since the connection's task was polled.
    task_began: Cell<Option<Instant>>,
    /// The number of exchanges of the task that ended since then.
    exchanges: Cell<u32>,
}

impl Turn {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            began: Cell::new(now),
            ends: Cell::new(None),
            task_began: Cell::new(None),
            exchanges: Cell::new(0),
        }
    }

    /// Notes that a connection's task is polled.
    pub(crate) fn begin_task(&self) {
        self.task_began.set(None);
        self.exchanges.set(0);
    }

    /// Notes that the task is polled again at `now`, after it ended its turn while a buffered
    /// request was waiting.
    pub(crate) fn resume_task(&self, now: Instant) {
        self.task_began.set(Some(now));
    }

    /// The time at which the work on an exchange begins; its first byte came at `first_byte`.
    pub(crate) fn work_begins(&self, first_byte: Instant) -> Instant {
        self.task_began.get().map_or(first_byte, |began| began.max(first_byte))
    }

    /// Counts an exchange that ended at `now`. Returns [`Share::Left`] if another one may begin in
    /// this turn of the task.
    pub(crate) fn end_exchange(&self, now: Instant) -> Share {
        let exchanges = self.exchanges.get() + 1;
        self.exchanges.set(exchanges);
        let began = self.task_began.get().unwrap_or(now);
        if exchanges >= TURN_EXCHANGES || now >= began + TURN_TIME {
            Share::UsedUp
        } else {
            Share::Left
        }
    }

    /// The beginning of the turn.
    pub(crate) fn began(&self) -> Instant {
        self.began.get()
    }

    /// Reads the clock; the caller waits next and does hardly any more work in this turn.
    pub(crate) fn look_at_end(&self) -> Instant {
        let now = Instant::now();
        self.ends.set(Some(now));
        now
    }

    /// Discards the reading of [`Turn::look_at_end`]: there is more work to do.
    pub(crate) fn goes_on(&self) {
        self.ends.set(None);
    }
}

/// The rest of a task's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Share {
    Left,
    UsedUp,
}

/// The total time that polls of an exchange's futures took.
pub(crate) struct WorkTime {
    /// The beginning of the current work; `None` while the exchange waits.
    since: Option<Instant>,
    before_ns: u64,
}

impl WorkTime {
    /// The time of an exchange whose work began at `since`.
    pub(crate) fn begun(since: Instant) -> Self {
        Self { since: Some(since), before_ns: 0 }
    }

    /// Polls one future of the exchange.
    pub(crate) fn poll<F: Future>(
        &mut self,
        turn: &Turn,
        future: Pin<&mut F>,
        context: &mut Context<'_>,
    ) -> Poll<F::Output> {
        let since = *self.since.get_or_insert_with(Instant::now);
        turn.began.set(since);
        turn.ends.set(None);
        if turn.task_began.get().is_none() {
            turn.task_began.set(Some(since));
        }
        let polled = future.poll(context);
        if polled.is_pending() {
            let end = turn.ends.get().unwrap_or_else(Instant::now);
            self.before_ns += end.nanos_since(since);
            self.since = None;
        }
        polled
    }

    /// The total time up to `now`.
    pub(crate) fn until(&self, now: Instant) -> Micros {
        let last_ns = self.since.map_or(0, |since| now.nanos_since(since));
        Micros(((self.before_ns + last_ns) / 1_000) as i64)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::{advance, sleep};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_turn_ends_after_a_number_of_exchanges_or_a_time() {
        let began = Instant::now();
        let turn = Turn::new(began);
        let poll = |since| {
            let mut done = std::pin::pin!(std::future::ready(()));
            let context = &mut Context::from_waker(std::task::Waker::noop());
            let _ = WorkTime::begun(since).poll(&turn, done.as_mut(), context);
        };
        turn.begin_task();
        poll(began);
        for _ in 1..TURN_EXCHANGES {
            assert_eq!(turn.end_exchange(began), Share::Left);
        }
        assert_eq!(turn.end_exchange(began), Share::UsedUp);
        turn.begin_task();
        turn.resume_task(began + TURN_TIME);
        assert_eq!(turn.work_begins(began), began + TURN_TIME, "waiting for a turn is no work");
        poll(turn.work_begins(began));
        assert_eq!(turn.end_exchange(began + TURN_TIME), Share::Left);
        assert_eq!(turn.end_exchange(began + 2 * TURN_TIME), Share::UsedUp);
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_is_not_counted_as_work() {
        let began = Instant::now();
        let mut work = WorkTime::begun(began);
        advance(Duration::from_micros(30)).await;
        let mut future = std::pin::pin!(async {
            sleep(Duration::from_secs(1)).await;
            sleep(Duration::from_secs(2)).await;
        });
        let turn = Turn::new(began);
        std::future::poll_fn(|context| work.poll(&turn, future.as_mut(), context)).await;
        assert_eq!(work.until(Instant::now()), Micros(30));
        advance(Duration::from_micros(5)).await;
        assert_eq!(work.until(Instant::now()), Micros(35));
        assert_eq!(work.until(began), Micros(30), "an earlier time takes nothing away");
    }
}
