//! The turns of a connection's streams. They run in tasks of their own, and a client with many
//! streams at once would otherwise have as many turns in each round of the worker's loop as it has
//! streams.
//!
//! Rounds are not observed: after every [`HTTP2_TURN_POLLS`] polls of streams, however many rounds
//! they took, the next ones wait for the next round, in the order of their arrival.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use tokio::task::{spawn_local, yield_now};

use crate::limits::HTTP2_TURN_POLLS;

/// The turns of the streams of one connection.
#[derive(Debug)]
pub(crate) struct StreamTurns {
    /// The polls that are left before the next wait for a round.
    left: Cell<usize>,
    /// Streams that wait for a turn; those that have ended meanwhile, too.
    waiting: RefCell<VecDeque<Rc<StreamPlace>>>,
    /// Set while a task waits for the next round.
    is_renewed: Cell<bool>,
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

impl Default for StreamTurns {
    fn default() -> Self {
        Self {
            left: Cell::new(HTTP2_TURN_POLLS),
            waiting: RefCell::default(),
            is_renewed: Cell::default(),
        }
    }
}

impl StreamTurns {
    /// Ready if the stream may run now; otherwise it is woken when it may.
    pub(crate) fn poll_turn(
        self: &Rc<Self>,
        place: &Rc<StreamPlace>,
        context: &Context<'_>,
    ) -> Poll<()> {
        let left = self.left.get();
        match place.state.get() {
            PlaceState::Granted => {
                place.state.set(PlaceState::Outside);
                return Poll::Ready(());
            }
            PlaceState::Outside if left > 0 => {
                self.left.set(left - 1);
                return Poll::Ready(());
            }
            PlaceState::Outside => {
                place.state.set(PlaceState::Waiting);
                self.waiting.borrow_mut().push_back(Rc::clone(place));
                self.renew();
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

    /// Gives out turns in each of the next rounds, as long as streams wait for them.
    fn renew(self: &Rc<Self>) {
        if self.is_renewed.replace(true) {
            return;
        }
        let turns = Rc::clone(self);
        spawn_local(async move {
            loop {
                yield_now().await;
                if !turns.grant() {
                    return turns.is_renewed.set(false);
                }
            }
        });
    }

    /// Gives the turns of a round to the streams that have waited the longest. Returns true if
    /// others still wait.
    fn grant(&self) -> bool {
        let mut waiting = self.waiting.borrow_mut();
        let mut left = HTTP2_TURN_POLLS;
        while left > 0
            && let Some(place) = waiting.pop_front()
        {
            // Otherwise its stream has ended.
            if Rc::strong_count(&place) > 1 {
                left -= 1;
                place.state.set(PlaceState::Granted);
                place.waker.borrow_mut().take().into_iter().for_each(Waker::wake);
            }
        }
        self.left.set(left);
        !waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

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
                        if turns.poll_turn(&place, context).is_pending() {
                            return Poll::Pending;
                        }
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

    #[test]
    fn many_streams_have_no_more_of_a_round_than_one_turn() {
        let rounds = rounds(10 * HTTP2_TURN_POLLS, 2);
        assert!(rounds.iter().all(|round| round.len() <= HTTP2_TURN_POLLS), "{rounds:?}");
        assert_eq!(rounds.concat().len(), 20 * HTTP2_TURN_POLLS);
    }

    #[test]
    fn streams_take_turns_in_the_order_of_their_arrival() {
        let count = 3 * HTTP2_TURN_POLLS;
        let all = rounds(count, 2).concat();
        let mut first: Vec<usize> = Vec::new();
        for stream in all {
            if !first.contains(&stream) {
                first.push(stream);
            }
        }
        assert_eq!(first, (0..count).collect::<Vec<_>>());
    }

    #[test]
    fn streams_that_ended_use_up_no_turn() {
        runtime().block_on(async {
            let turns = Rc::new(StreamTurns::default());
            turns.left.set(0);
            let context = Context::from_waker(Waker::noop());
            let places: Vec<Rc<StreamPlace>> =
                (0..=HTTP2_TURN_POLLS).map(|_| Rc::default()).collect();
            for place in &places {
                assert!(turns.poll_turn(place, &context).is_pending());
            }
            let last = Rc::clone(places.last().unwrap());
            drop(places);
            assert!(!turns.grant());
            assert!(turns.poll_turn(&last, &context).is_ready());
            assert_eq!(turns.left.get(), HTTP2_TURN_POLLS - 1);
        });
    }
}
