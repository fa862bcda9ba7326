//! Limits the work that one connection's task does before the worker's other tasks run, and the
//! part of each round of the worker's loop that TLS handshakes use. A task that ends its turn runs
//! again after all tasks that are ready then, including those that the reactor reports next.
//! `work_time.rs` measures the duration of turns.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::{spawn_local, yield_now};

use crate::limits::{HANDSHAKE_STEPS, HANDSHAKE_TIME, TURN_BYTES, TURN_STEP_BYTES};
use crate::time::instant::Instant;

/// The most turns in a row that go to handshakes that have begun while others wait for their first:
/// clients that send theirs byte by byte would hold all others up.
const MOST_BEGUN_IN_A_ROW: u32 = 3;

/// Makes the runtime poll the current task again after it has asked the reactor for events and run
/// the tasks that are ready by then. The caller then returns [`Poll::Pending`].
pub(crate) fn end_turn(context: &mut Context<'_>) {
    // Waking the task directly would put it before the events that the reactor has not reported
    // yet.
    let _ = std::pin::pin!(yield_now()).poll(context);
}

/// The number of bytes that may still be transferred in a turn.
#[derive(Debug)]
pub(crate) struct ByteTurn {
    left: usize,
}

impl ByteTurn {
    pub(crate) fn new() -> Self {
        Self { left: TURN_BYTES }
    }

    /// Counts a step that transferred `moved` bytes. Returns `true` when the turn is over.
    #[must_use]
    pub(crate) fn is_over_after(&mut self, moved: usize) -> bool {
        self.left = self.left.saturating_sub(moved.max(TURN_STEP_BYTES));
        self.left == 0
    }
}

/// A worker's TLS handshakes: they take turns, and together use no more than a limited part of each
/// round of the worker's loop. A handshake that has begun goes before those that have not: its last
/// step is short, and a client whose handshake is complete has usually sent its request already.
/// Within either kind, turns go by arrival.
///
/// Rounds are not observed: after every [`HANDSHAKE_STEPS`] steps or [`HANDSHAKE_TIME`], however
/// many rounds they took, the next step waits for the next round.
pub(crate) struct HandshakeTurns {
    /// Set if no step runs or waits, and the round has room for one.
    is_free: Cell<bool>,
    begun: HandshakeQueue,
    new: HandshakeQueue,
    /// The turns in a row that went to handshakes that had begun.
    begun_in_a_row: Cell<u32>,
    /// The number of steps since the last wait for a round, and their total time.
    steps: Cell<u32>,
    spent: Cell<Duration>,
}

/// Handshakes that wait for a turn.
struct HandshakeQueue {
    /// Gets a permit for the first in the queue when it is its turn.
    turns: Semaphore,
    waiting: Cell<usize>,
}

impl Default for HandshakeQueue {
    fn default() -> Self {
        Self { turns: Semaphore::new(0), waiting: Cell::default() }
    }
}

impl Default for HandshakeTurns {
    fn default() -> Self {
        Self {
            is_free: Cell::new(true),
            begun: HandshakeQueue::default(),
            new: HandshakeQueue::default(),
            begun_in_a_row: Cell::default(),
            steps: Cell::default(),
            spent: Cell::default(),
        }
    }
}

impl HandshakeTurns {
    /// Runs a handshake, each of its steps in turn. `ended` is called when a step uses up the rest
    /// of a round.
    pub(crate) async fn run<F: Future + Unpin>(
        self: &Rc<Self>,
        mut handshake: F,
        ended: impl Fn(),
    ) -> F::Output {
        let mut queue = &self.new;
        loop {
            let turn = self.turn(queue).await;
            queue = &self.begun;
            let began = Instant::now();
            let step =
                |context: &mut Context<'_>| Poll::Ready(Pin::new(&mut handshake).poll(context));
            let polled = poll_fn(step).await;
            match self.note(began.elapsed()) {
                Round::GoesOn => drop(turn),
                Round::Ended => {
                    turn.keep();
                    self.open_next_round();
                    ended();
                }
            }
            if let Poll::Ready(output) = polled {
                return output;
            }
            woken().await;
        }
    }

    /// Waits for a turn.
    async fn turn<'a>(&'a self, queue: &'a HandshakeQueue) -> HandshakeTurn<'a> {
        if !self.is_free.replace(false) {
            let waiting = WaitingHandshake::new(self, queue);
            // The semaphore is never closed.
            if let Ok(turn) = queue.turns.acquire().await {
                turn.forget();
            }
            drop(waiting);
        }
        HandshakeTurn(self)
    }

    /// Gives the turn to the next handshake.
    fn pass_on(&self) {
        let (has_begun, has_new) = (self.begun.waiting.get() > 0, self.new.waiting.get() > 0);
        let in_a_row = self.begun_in_a_row.get();
        if has_begun && (!has_new || in_a_row < MOST_BEGUN_IN_A_ROW) {
            self.begun_in_a_row.set(in_a_row + 1);
            self.begun.turns.add_permits(1);
        } else if has_new {
            self.begun_in_a_row.set(0);
            self.new.turns.add_permits(1);
        } else {
            self.is_free.set(true);
        }
    }

    /// Counts a step.
    fn note(&self, took: Duration) -> Round {
        self.spent.set(self.spent.get() + took);
        self.steps.set(self.steps.get() + 1);
        if self.spent.get() < HANDSHAKE_TIME && self.steps.get() < HANDSHAKE_STEPS {
            return Round::GoesOn;
        }
        self.steps.set(0);
        self.spent.set(Duration::ZERO);
        Round::Ended
    }

    /// Lets the next step run in the next round.
    fn open_next_round(self: &Rc<Self>) {
        let turns = Rc::clone(self);
        spawn_local(async move {
            yield_now().await;
            turns.pass_on();
        });
    }
}

/// The turn of one handshake. It passes on when this value is dropped, so also after a panic.
struct HandshakeTurn<'a>(&'a HandshakeTurns);

impl HandshakeTurn<'_> {
    /// Does not pass the turn on.
    fn keep(self) {
        std::mem::forget(self);
    }
}

impl Drop for HandshakeTurn<'_> {
    fn drop(&mut self) {
        self.0.pass_on();
    }
}

/// A handshake in a queue. One that gives up passes on a turn that it has just been given.
struct WaitingHandshake<'a> {
    turns: &'a HandshakeTurns,
    queue: &'a HandshakeQueue,
}

impl<'a> WaitingHandshake<'a> {
    fn new(turns: &'a HandshakeTurns, queue: &'a HandshakeQueue) -> Self {
        queue.waiting.set(queue.waiting.get() + 1);
        Self { turns, queue }
    }
}

impl Drop for WaitingHandshake<'_> {
    fn drop(&mut self) {
        self.queue.waiting.set(self.queue.waiting.get() - 1);
        // Left by a handshake that was given the turn and did not take it.
        if self.queue.turns.forget_permits(1) > 0 {
            self.turns.pass_on();
        }
    }
}

/// The state of a round after a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Round {
    GoesOn,
    Ended,
}

/// Completes when the task is polled the next time.
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
    fn a_turn_ends_after_a_number_of_bytes_or_steps() {
        let steps = |moved: usize| {
            let mut turn = ByteTurn::new();
            (1..=TURN_BYTES).find(|_| turn.is_over_after(moved)).unwrap()
        };
        assert_eq!(steps(usize::MAX), 1);
        assert_eq!(steps(128 * 1024), 4);
        assert_eq!(steps(0), TURN_BYTES / TURN_STEP_BYTES);
    }

    /// A handshake whose steps never have to wait.
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

    /// The log entry of another task, which is always ready, like connections with requests.
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

    #[tokio::test(start_paused = true)]
    async fn a_handshake_that_has_begun_goes_before_new_ones() {
        let local = LocalSet::new();
        let log = Rc::new(RefCell::new(Vec::new()));
        let turns = Rc::new(HandshakeTurns::default());
        for number in 0..100 {
            let (turns, log) = (Rc::clone(&turns), Rc::clone(&log));
            local.spawn_local(async move { turns.run(Busy { left: 1, number, log }, || {}).await });
        }
        local.await;
        let log = log.borrow();
        let last_of = |number| log.iter().rposition(|one| *one == number).unwrap();
        let first_of = |number| log.iter().position(|one| *one == number).unwrap();
        assert!(last_of(0) < first_of(50), "the first had to wait for all others: {log:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn handshakes_that_never_end_leave_turns_to_new_ones() {
        let local = LocalSet::new();
        let log = Rc::new(RefCell::new(Vec::new()));
        let turns = Rc::new(HandshakeTurns::default());
        let endless: Vec<_> = (0..20)
            .map(|number| {
                let (turns, log) = (Rc::clone(&turns), Rc::clone(&log));
                let busy = Busy { left: u32::MAX, number, log };
                local.spawn_local(async move { turns.run(busy, || {}).await })
            })
            .collect();
        let honest = local.spawn_local({
            let (turns, log) = (Rc::clone(&turns), Rc::clone(&log));
            async move {
                // The others have begun.
                for _ in 0..50 {
                    yield_now().await;
                }
                let before = log.borrow().len();
                turns.run(Busy { left: 0, number: OTHERS, log: Rc::clone(&log) }, || {}).await;
                log.borrow().len() - before
            }
        });
        let waited = local.run_until(honest).await.unwrap();
        assert!(waited <= 2 * MOST_BEGUN_IN_A_ROW as usize + 2, "after {waited} steps of others");
        endless.iter().for_each(tokio::task::JoinHandle::abort);
    }

    #[tokio::test(start_paused = true)]
    async fn a_handshake_that_gives_up_leaves_its_turn_to_the_next() {
        let local = LocalSet::new();
        let turns = Rc::new(HandshakeTurns::default());
        let first = turns.turn(&turns.new).await;
        let (one, two) = (Rc::clone(&turns), Rc::clone(&turns));
        let gives_up =
            local.spawn_local(async move { one.run(std::future::ready(1), || {}).await });
        let stays = local.spawn_local(async move { two.run(std::future::ready(2), || {}).await });
        local.run_until(yield_now()).await;
        assert_eq!(turns.new.waiting.get(), 2);
        // It is given the turn, and ends before it runs.
        drop(first);
        gives_up.abort();
        local.await;
        assert!(gives_up.await.unwrap_err().is_cancelled());
        assert_eq!(stays.await.unwrap(), 2);
        assert!(turns.is_free.get());
    }
}
