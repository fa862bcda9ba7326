//! The event queue of a run: events in order of time, those of the same time in the order in which
//! they were planned. It handles no event.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// An exchange in one of its attempts. Events of an attempt that is over are ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AttemptToken {
    /// Index among the exchanges in the system.
    pub(crate) place: u32,
    /// Number of the attempt, over all attempts of the run.
    pub(crate) attempt: u64,
}

/// The kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SimEvent {
    /// This client of a closed loop sends its next request.
    Send(u32),
    /// A request reaches its server.
    Reach(AttemptToken),
    /// The proxy learns that the connection was refused.
    Refuse(AttemptToken),
    /// The server has finished the request.
    Finish(AttemptToken),
    /// The queue timeout of a later wait of the request expires.
    TimeOut(AttemptToken),
    /// The response reaches the proxy.
    Answer(AttemptToken),
    /// A stream ends.
    Close(AttemptToken),
    /// An outage begins.
    Fail(usize),
    /// An outage ends.
    Recover(usize),
    /// A timed state in the balancer ends.
    Tick,
}

/// The planned events.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    events: BinaryHeap<Reverse<(u64, u64, SimEvent)>>,
    planned: u64,
}

impl Agenda {
    pub(crate) fn plan(&mut self, time: u64, event: SimEvent) {
        self.planned += 1;
        self.events.push(Reverse((time, self.planned, event)));
    }

    /// The time of the next event.
    pub(crate) fn next_time(&self) -> Option<u64> {
        self.events.peek().map(|next| next.0.0)
    }

    pub(crate) fn pop(&mut self) -> Option<SimEvent> {
        self.events.pop().map(|next| next.0.2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_happen_in_order_of_time_and_then_of_planning() {
        let mut agenda = Agenda::default();
        agenda.plan(5, SimEvent::Tick);
        agenda.plan(3, SimEvent::Recover(1));
        agenda.plan(3, SimEvent::Fail(0));
        assert_eq!(agenda.next_time(), Some(3));
        let order: Vec<SimEvent> = std::iter::from_fn(|| agenda.pop()).collect();
        assert_eq!(order, [SimEvent::Recover(1), SimEvent::Fail(0), SimEvent::Tick]);
    }
}
