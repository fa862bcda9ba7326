//! One timer per connection for all its deadlines. Moving a deadline later costs nothing: the timer
//! fires early once and is set again. It decides no policy; callers pass the deadline that applies
//! now.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use tokio::task::unconstrained;
use tokio::time::{Sleep, sleep_until};

use crate::time::instant::Instant;

/// A lazily re-armed timer, polled by only one task.
#[derive(Default)]
pub(crate) struct DeadlineTimer(Option<SleepTimer>);

struct SleepTimer {
    sleep: Pin<Box<Sleep>>,
    deadline: Instant,
}

impl SleepTimer {
    fn new(deadline: Instant) -> Self {
        Self { sleep: Box::pin(sleep_until(deadline.into())), deadline }
    }

    /// Polls the timer outside the task's budget. With the budget used up, tokio would neither fire
    /// nor arm it, and it would never fire: [`DeadlineTimer`] does not poll a pending timer again.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        pin!(unconstrained(self.sleep.as_mut())).poll(context)
    }

    fn reset(&mut self, deadline: Instant) {
        self.sleep.as_mut().reset(deadline.into());
        self.deadline = deadline;
    }
}

impl DeadlineTimer {
    /// Returns `Ready` once `deadline` has passed; otherwise the task is woken at `deadline` at the
    /// latest.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>, deadline: Instant) -> Poll<()> {
        let timer = match &mut self.0 {
            Some(timer) if timer.deadline > deadline => {
                timer.reset(deadline);
                timer
            }
            // The latest poll found it pending, so it will wake the task.
            Some(timer) if !timer.sleep.is_elapsed() => return Poll::Pending,
            Some(timer) => timer,
            none => none.insert(SleepTimer::new(deadline)),
        };
        loop {
            if timer.poll(context).is_pending() {
                return Poll::Pending;
            }
            if timer.deadline >= deadline || Instant::now() >= deadline {
                return Poll::Ready(());
            }
            timer.reset(deadline);
        }
    }
}

/// Returns `Ready` once `deadline` has passed. If `look` is set, the task is also polled again at
/// `look`.
pub(crate) fn poll_either(
    timer: &mut DeadlineTimer,
    context: &mut Context<'_>,
    deadline: Instant,
    look: Option<Instant>,
) -> Poll<()> {
    match look.filter(|look| *look < deadline) {
        None => timer.poll(context, deadline),
        Some(look) => {
            if timer.poll(context, look).is_ready() {
                context.waker().wake_by_ref();
            }
            Poll::Pending
        }
    }
}

/// Error: the deadline passed first.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Elapsed;

/// Runs `future` until `deadline`, on the connection's one timer.
pub(crate) async fn before<F: Future>(
    timer: &mut DeadlineTimer,
    deadline: Instant,
    future: F,
) -> Result<F::Output, Elapsed> {
    let mut future = std::pin::pin!(future);
    std::future::poll_fn(|context| {
        if let Poll::Ready(output) = future.as_mut().poll(context) {
            return Poll::Ready(Ok(output));
        }
        timer.poll(context, deadline).map(|()| Err(Elapsed))
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::task::coop::{consume_budget, has_budget_remaining};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_timer_fires_though_it_was_set_when_the_budget_of_the_task_was_used_up() {
        let deadline = Instant::now() + Duration::from_secs(5);
        let mut timer = DeadlineTimer::default();
        let mut is_first = true;
        let fired = std::future::poll_fn(|context| {
            if std::mem::take(&mut is_first) {
                while has_budget_remaining() {
                    assert!(pin!(consume_budget()).poll(context).is_ready());
                }
                assert!(timer.poll(context, deadline).is_pending());
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            timer.poll(context, deadline)
        });
        tokio::time::timeout(Duration::from_mins(1), fired).await.expect("it fires");
    }

    #[tokio::test(start_paused = true)]
    async fn a_timer_fires_at_the_current_deadline_whether_moved_earlier_or_later() {
        let start = Instant::now();
        let mut timer = DeadlineTimer::default();
        for (seconds, expected) in [(60, 60), (1, 61), (5, 66), (5, 71), (2, 73)] {
            let deadline = Instant::now() + Duration::from_secs(seconds);
            let outcome = before(&mut timer, deadline, std::future::pending::<()>()).await;
            assert_eq!(outcome, Err(Elapsed));
            assert_eq!((Instant::now() - start).as_secs(), expected);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_deadline_moved_later_does_not_fire_at_the_old_one() {
        let start = Instant::now();
        let mut timer = DeadlineTimer::default();
        let early = start + Duration::from_secs(1);
        let ready = before(&mut timer, early, std::future::ready(7)).await;
        assert_eq!(ready, Ok(7));
        let late = start + Duration::from_secs(9);
        assert_eq!(before(&mut timer, early, std::future::ready(7)).await, Ok(7));
        assert_eq!(before(&mut timer, late, std::future::pending::<()>()).await, Err(Elapsed));
        assert_eq!(Instant::now(), late);
    }
}
