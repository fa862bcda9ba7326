//! How long a task worked at an exchange, and how long it only waited: what Weir itself adds to a request's time (row O-09).

use std::cell::Cell;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::Instant;

/// From one look at the clock to a later one. Mostly they are one and the same, and that costs no arithmetic.
#[inline]
pub(crate) fn between(earlier: Instant, later: Instant) -> Duration {
    if earlier == later { Duration::ZERO } else { later.saturating_duration_since(earlier) }
}

/// The turn that a worker's thread gives to one exchange: from when its future is polled to when it waits again. Who looks at the clock
/// within it saves others a look.
pub(crate) struct Turn {
    began: Cell<Instant>,
    /// A look just before it ends.
    ends: Cell<Option<Instant>>,
}

impl Turn {
    pub(crate) fn new(now: Instant) -> Self {
        Self { began: Cell::new(now), ends: Cell::new(None) }
    }

    /// When it began.
    pub(crate) fn began(&self) -> Instant {
        self.began.get()
    }

    /// The time, from one who waits next and does hardly anything more.
    pub(crate) fn look_at_end(&self) -> Instant {
        let now = Instant::now();
        self.ends.set(Some(now));
        now
    }

    /// Takes that back: there is more to do.
    pub(crate) fn goes_on(&self) {
        self.ends.set(None);
    }
}

/// Adds up the times in which the futures of an exchange were polled.
pub(crate) struct WorkTime {
    /// Since when it works; `None` while it waits.
    since: Option<Instant>,
    before: Duration,
}

impl WorkTime {
    /// Work that began at `since`.
    pub(crate) fn begun(since: Instant) -> Self {
        Self { since: Some(since), before: Duration::ZERO }
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
        let polled = future.poll(context);
        if polled.is_pending() {
            let end = turn.ends.get().unwrap_or_else(Instant::now);
            self.before += end.saturating_duration_since(since);
            self.since = None;
        }
        polled
    }

    /// All of it until `now`.
    pub(crate) fn until(&self, now: Instant) -> Duration {
        let last = self.since.map(|since| now.saturating_duration_since(since));
        self.before + last.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::{advance, sleep};

    #[tokio::test(start_paused = true)]
    async fn waiting_is_no_work() {
        let began = Instant::now();
        let mut work = WorkTime::begun(began);
        advance(Duration::from_micros(30)).await;
        let mut future = std::pin::pin!(async {
            sleep(Duration::from_secs(1)).await;
            sleep(Duration::from_secs(2)).await;
        });
        let turn = Turn::new(began);
        std::future::poll_fn(|context| work.poll(&turn, future.as_mut(), context)).await;
        assert_eq!(work.until(Instant::now()), Duration::from_micros(30));
        advance(Duration::from_micros(5)).await;
        assert_eq!(work.until(Instant::now()), Duration::from_micros(35));
        assert_eq!(
            work.until(began),
            Duration::from_micros(30),
            "a look at the past takes nothing away"
        );
    }
}
