//! Turns: how much one connection's task does before the other tasks of its worker run, and how much of each round of the worker's
//! loop TLS handshakes take. A task that ends its turn goes behind all that is ready then, what the reactor reports next
//! included. How long a turn took is measured in `work_time.rs`.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::{spawn_local, yield_now};

use crate::instant::Instant;
use crate::limits::{HANDSHAKE_STEPS, HANDSHAKE_TIME, TURN_BYTES, TURN_STEP_BYTES};

/// Has the current task polled again after the reactor was asked for events and the tasks that are ready by then have run. To be
/// followed by returning [`Poll::Pending`].
pub(crate) fn end_turn(context: &mut Context<'_>) {
    // Waking the task right here would put it in front of what the reactor has not reported yet.
    let _ = std::pin::pin!(yield_now()).poll(context);
}

/// The bytes that may still be moved in a turn.
#[derive(Debug)]
pub(crate) struct ByteTurn {
    left: usize,
}

impl ByteTurn {
    pub(crate) fn new() -> Self {
        Self { left: TURN_BYTES }
    }

    /// Counts a step that moved so many bytes. `true` when the turn is over.
    #[must_use]
    pub(crate) fn is_over_after(&mut self, moved: usize) -> bool {
        self.left = self.left.saturating_sub(moved.max(TURN_STEP_BYTES));
        self.left == 0
    }
}

/// A worker's TLS handshakes: they take turns in the order in which they came, and together no more than a bounded part of each round
/// of the worker's loop.
pub(crate) struct HandshakeTurns {
    /// One permit, which the step that runs has; between rounds nobody has it.
    turn: Semaphore,
    /// Whether the permit is kept back until the next round.
    closed: Cell<bool>,
    /// Steps of this round, and their time.
    steps: Cell<u32>,
    spent: Cell<Duration>,
    /// Whether a task waits for the next round.
    scheduled: Cell<bool>,
}

impl Default for HandshakeTurns {
    fn default() -> Self {
        Self {
            turn: Semaphore::new(1),
            closed: Cell::default(),
            steps: Cell::default(),
            spent: Cell::default(),
            scheduled: Cell::default(),
        }
    }
}

impl HandshakeTurns {
    /// Runs a handshake, each step of it in its turn. `ended` is called when a step uses up what is left of a round.
    pub(crate) async fn run<F: Future + Unpin>(
        self: &Rc<Self>,
        mut handshake: F,
        ended: impl Fn(),
    ) -> F::Output {
        loop {
            // It is never closed. Held by the guard, so that a step that panics passes it on.
            let turn = self.turn.acquire().await.ok();
            let began = Instant::now();
            let step =
                |context: &mut Context<'_>| Poll::Ready(Pin::new(&mut handshake).poll(context));
            let polled = poll_fn(step).await;
            if let Some(turn) = turn {
                turn.forget();
            }
            if self.note(began.elapsed()) == Round::Ended {
                ended();
            }
            if let Poll::Ready(output) = polled {
                return output;
            }
            woken().await;
        }
    }

    /// Counts a step and lets the next one go, in this round or the next.
    fn note(self: &Rc<Self>, took: Duration) -> Round {
        self.spent.set(self.spent.get() + took);
        self.steps.set(self.steps.get() + 1);
        if !self.scheduled.replace(true) {
            let turns = Rc::clone(self);
            spawn_local(async move {
                yield_now().await;
                turns.next_round();
            });
        }
        if self.spent.get() < HANDSHAKE_TIME && self.steps.get() < HANDSHAKE_STEPS {
            self.turn.add_permits(1);
            return Round::GoesOn;
        }
        self.closed.set(true);
        Round::Ended
    }

    fn next_round(&self) {
        self.scheduled.set(false);
        self.steps.set(0);
        self.spent.set(Duration::ZERO);
        if self.closed.replace(false) {
            self.turn.add_permits(1);
        }
    }
}

/// What a step leaves of a round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Round {
    GoesOn,
    Ended,
}

/// Ready when the task is polled the next time.
async fn woken() {
    let mut waited = false;
    poll_fn(|_| if std::mem::replace(&mut waited, true) { Poll::Ready(()) } else { Poll::Pending })
        .await;
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use tokio::task::LocalSet;

    use super::*;

    #[test]
    fn a_turn_ends_after_so_many_bytes_or_steps() {
        let steps = |moved: usize| {
            let mut turn = ByteTurn::new();
            (1..=TURN_BYTES).find(|_| turn.is_over_after(moved)).unwrap()
        };
        assert_eq!(steps(usize::MAX), 1);
        assert_eq!(steps(128 * 1024), 4);
        assert_eq!(steps(0), TURN_BYTES / TURN_STEP_BYTES);
    }

    /// A handshake whose steps find their bytes there always, and what is left of them.
    struct Busy {
        left: u32,
        number: usize,
        log: Rc<RefCell<Vec<usize>>>,
    }

    impl Future for Busy {
        type Output = ();

        fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
            self.log.borrow_mut().push(self.number);
            if self.left == 0 {
                return Poll::Ready(());
            }
            self.left -= 1;
            context.waker().wake_by_ref();
            Poll::Pending
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_handshake_that_panics_leaves_its_turn_to_the_next() {
        let local = LocalSet::new();
        let turns = Rc::new(HandshakeTurns::default());
        let own = Rc::clone(&turns);
        let broken = local.spawn_local(async move {
            let step = std::future::poll_fn(|_| -> Poll<()> { panic!("a bug in a handshake") });
            own.run(step, || {}).await;
        });
        let next = local.spawn_local(async move { turns.run(std::future::ready(7), || {}).await });
        local.await;
        assert!(broken.await.unwrap_err().is_panic());
        assert_eq!(next.await.unwrap(), 7);
    }

    /// Others are those that are ready again and again, as connections with requests are.
    const OTHERS: usize = usize::MAX;

    #[tokio::test(start_paused = true)]
    async fn handshakes_and_other_tasks_take_turns() {
        let local = LocalSet::new();
        let log = Rc::new(RefCell::new(Vec::new()));
        let turns = Rc::new(HandshakeTurns::default());
        for number in 0..40 {
            let (turns, log) = (Rc::clone(&turns), Rc::clone(&log));
            local.spawn_local(async move { turns.run(Busy { left: 1, number, log }, || {}).await });
        }
        let told = Rc::clone(&log);
        local.spawn_local(async move {
            for _ in 0..100 {
                told.borrow_mut().push(OTHERS);
                yield_now().await;
            }
        });
        local.await;
        let log = log.borrow();
        for number in 0..40 {
            assert_eq!(log.iter().filter(|one| **one == number).count(), 2, "{number}");
        }
        let last = log.iter().rposition(|one| *one != OTHERS).unwrap();
        let in_a_row = log[..last].split(|one| *one == OTHERS).map(<[usize]>::len).max();
        assert!(in_a_row.unwrap() <= 2 * HANDSHAKE_STEPS as usize, "{in_a_row:?}");
        let first_of = |number| log.iter().position(|one| *one == number);
        assert!((1..40).all(|number| first_of(number - 1) < first_of(number)), "{log:?}");
    }
}
