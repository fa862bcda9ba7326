//! What happens next: events in order of time, those of one instant in the order in which they were planned.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// An exchange at one of its attempts. What is planned for an attempt that is over does not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Token {
    /// Its place among those in the system.
    pub(crate) place: u32,
    /// The attempt's number, of all attempts of the run.
    pub(crate) attempt: u64,
}

/// What may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    /// This client of a closed loop sends its next request.
    Send(u32),
    /// A request reaches its server.
    Reach(Token),
    /// Its connection was refused, and the proxy knows.
    Refuse(Token),
    /// Its server is done.
    Finish(Token),
    /// It waited long enough, not for the first time.
    TimeOut(Token),
    /// The proxy has the answer.
    Answer(Token),
    /// An outage begins.
    Fail(usize),
    /// An outage ends.
    Recover(usize),
    /// Something timed ends in the balancer.
    Tick,
}

/// The events to come.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    planned: u64,
}

impl Agenda {
    pub(crate) fn plan(&mut self, time: u64, event: Event) {
        self.planned += 1;
        self.events.push(Reverse((time, self.planned, event)));
    }

    /// When the next one happens.
    pub(crate) fn next_time(&self) -> Option<u64> {
        self.events.peek().map(|next| next.0.0)
    }

    pub(crate) fn pop(&mut self) -> Option<Event> {
        self.events.pop().map(|next| next.0.2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_happen_in_order_of_time_and_then_of_planning() {
        let mut agenda = Agenda::default();
        agenda.plan(5, Event::Tick);
        agenda.plan(3, Event::Recover(1));
        agenda.plan(3, Event::Fail(0));
        assert_eq!(agenda.next_time(), Some(3));
        let order: Vec<Event> = std::iter::from_fn(|| agenda.pop()).collect();
        assert_eq!(order, [Event::Recover(1), Event::Fail(0), Event::Tick]);
    }
}
