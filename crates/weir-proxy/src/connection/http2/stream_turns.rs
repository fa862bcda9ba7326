//! The turns of a connection's streams. They run in tasks of their own, and a client with many
//! streams at once would otherwise have as many turns in each round of the worker's loop as it has
//! streams.
//!
//! Rounds are not observed: after every [`HTTP2_TURN_POLLS`] polls of streams or [`TURN_TIME`],
//! however many rounds they took, the next poll waits for the next round. Streams that wait run in
//! the order of their arrival.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::task::{spawn_local, yield_now};

use crate::limits::{HTTP2_TURN_POLLS, TURN_TIME};
use crate::time::instant::Instant;

/// The turns of the streams of one connection.
#[derive(Debug, Default)]
pub(crate) struct StreamTurns {
    /// The polls since the last wait for a round, and their total time.
    polls: Cell<u32>,
    spent: Cell<Duration>,
    /// Streams that wait for a turn; those that have ended meanwhile, too.
    waiting: RefCell<VecDeque<Rc<StreamPlace>>>,
    /// Set while the first of the streams that wait has been woken, or a task waits for the next
    /// round to wake it.
    is_passed_on: Cell<bool>,
}

/// A stream's place among those that wait for a turn.
#[derive(Debug, Default)]
pub(crate) struct StreamPlace {
    state: Cell<PlaceState>,
    waker: RefCell<Option<Waker>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum PlaceState {
    #[default]
    Outside,
    Waiting,
    /// The next poll is this stream's turn.
    Granted,
}

impl StreamTurns {
    /// Returns the turn of the stream if it may run now; otherwise the stream is woken when it may.
    pub(crate) fn poll_turn(
        self: &Rc<Self>,
        place: &Rc<StreamPlace>,
        context: &Context<'_>,
    ) -> Poll<StreamTurn> {
        match place.state.get() {
            PlaceState::Outside if !self.is_passed_on.get() && self.has_room() => {
                return Poll::Ready(StreamTurn::begin(self));
            }
            PlaceState::Granted => {
                place.state.set(PlaceState::Outside);
                self.is_passed_on.set(false);
                return Poll::Ready(StreamTurn::begin(self));
            }
            PlaceState::Outside => {
                place.state.set(PlaceState::Waiting);
                self.waiting.borrow_mut().push_back(Rc::clone(place));
                self.pass_on();
            }
            PlaceState::Waiting => {}
        }
        let mut waker = place.waker.borrow_mut();
        match &mut *waker {
            Some(known) => known.clone_from(context.waker()),
            None => *waker = Some(context.waker().clone()),
        }
        Poll::Pending
    }

    fn has_room(&self) -> bool {
        self.polls.get() < HTTP2_TURN_POLLS && self.spent.get() < TURN_TIME
    }

    /// Gives the turn to the stream that has waited the longest, if one waits: now or, if the round
    /// has no room, in the next one.
    fn pass_on(self: &Rc<Self>) {
        if self.is_passed_on.get() {
            return;
        }
        if self.has_room() {
            return self.grant();
        }
        if self.waiting.borrow().is_empty() {
            return;
        }
        self.is_passed_on.set(true);
        let turns = Rc::clone(self);
        spawn_local(async move {
            yield_now().await;
            turns.is_passed_on.set(false);
            turns.polls.set(0);
            turns.spent.set(Duration::ZERO);
            turns.grant();
        });
    }

    fn grant(&self) {
        let mut waiting = self.waiting.borrow_mut();
        while let Some(place) = waiting.pop_front() {
            // Otherwise its stream has ended.
            if Rc::strong_count(&place) > 1 {
                place.state.set(PlaceState::Granted);
                self.is_passed_on.set(true);
                return place.waker.borrow_mut().take().into_iter().for_each(Waker::wake);
            }
        }
    }
}

/// The turn of one stream. It passes on when this value is dropped, so also after a panic.
pub(crate) struct StreamTurn {
    turns: Rc<StreamTurns>,
    began: Instant,
}

impl StreamTurn {
    fn begin(turns: &Rc<StreamTurns>) -> Self {
        Self { turns: Rc::clone(turns), began: Instant::now() }
    }
}

impl Drop for StreamTurn {
    fn drop(&mut self) {
        let Self { turns, began } = self;
        turns.polls.set(turns.polls.get() + 1);
        turns.spent.set(turns.spent.get() + began.elapsed());
        turns.pass_on();
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::task::ready;

    use tokio::runtime::{Builder, LocalOptions, LocalRuntime};

    use super::*;

    fn runtime() -> LocalRuntime {
        Builder::new_current_thread().build_local(LocalOptions::default()).unwrap()
    }

    /// Runs streams that want this many polls each, all ready at once, beside a task that counts
    /// the rounds. Returns the streams' numbers by round.
    fn rounds(streams: usize, polls: usize) -> Vec<Vec<usize>> {
        runtime().block_on(async {
            let turns = Rc::new(StreamTurns::default());
            let log: Rc<RefCell<Vec<Vec<usize>>>> = Rc::new(RefCell::new(vec![Vec::new()]));
            let tasks: Vec<_> = (0..streams)
                .map(|number| {
                    let (turns, log) = (Rc::clone(&turns), Rc::clone(&log));
                    let (place, mut left) = (Rc::default(), polls);
                    spawn_local(poll_fn(move |context| {
                        let _turn = ready!(turns.poll_turn(&place, context));
                        log.borrow_mut().last_mut().unwrap().push(number);
                        left -= 1;
                        if left == 0 {
                            return Poll::Ready(());
                        }
                        context.waker().wake_by_ref();
                        Poll::Pending
                    }))
                })
                .collect();
            let counted = Rc::clone(&log);
            let counter = spawn_local(async move {
                loop {
                    yield_now().await;
                    counted.borrow_mut().push(Vec::new());
                }
            });
            for task in tasks {
                task.await.unwrap();
            }
            counter.abort();
            let _ = counter.await;
            log.take()
        })
    }

    const MOST: usize = HTTP2_TURN_POLLS as usize;

    #[test]
    fn many_streams_have_no_more_of_a_round_than_one_turn() {
        let rounds = rounds(10 * MOST, 2);
        assert!(rounds.iter().all(|round| round.len() <= MOST), "{rounds:?}");
        assert_eq!(rounds.concat().len(), 20 * MOST);
    }

    #[test]
    fn streams_take_turns_in_the_order_of_their_arrival() {
        let count = 3 * MOST;
        let mut first: Vec<usize> = Vec::new();
        for stream in rounds(count, 2).concat() {
            if !first.contains(&stream) {
                first.push(stream);
            }
        }
        assert_eq!(first, (0..count).collect::<Vec<_>>());
    }

    #[test]
    fn long_polls_end_a_round_early() {
        runtime().block_on(async {
            let (turns, place) = (Rc::new(StreamTurns::default()), Rc::default());
            let context = Context::from_waker(Waker::noop());
            assert!(turns.poll_turn(&place, &context).is_ready());
            assert!(turns.poll_turn(&place, &context).is_ready());
            turns.spent.set(TURN_TIME);
            assert!(turns.poll_turn(&place, &context).is_pending());
        });
    }

    #[test]
    fn streams_that_ended_use_up_no_turn() {
        runtime().block_on(async {
            let turns = Rc::new(StreamTurns::default());
            turns.polls.set(HTTP2_TURN_POLLS);
            let places: Vec<Rc<StreamPlace>> = (0..=MOST).map(|_| Rc::default()).collect();
            let context = Context::from_waker(Waker::noop());
            for place in &places {
                assert!(turns.poll_turn(place, &context).is_pending());
            }
            let last = Rc::clone(places.last().unwrap());
            drop(places);
            poll_fn(|context| turns.poll_turn(&last, context)).await;
            assert_eq!(turns.polls.get(), 1);
        });
    }
}
