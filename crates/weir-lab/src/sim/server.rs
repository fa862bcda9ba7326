//! A server: it works on so many requests at once, and lets the others wait at its door in the order in which they came.

use std::collections::VecDeque;

use super::agenda::Token;
use super::calendar::Calendar;
use super::ideal::scaled;
use super::plan::Endpoint;

/// One server of a run.
#[derive(Debug)]
pub(crate) struct Server<'a> {
    endpoint: &'a Endpoint,
    calendar: &'a Calendar,
    working: u32,
    door: VecDeque<Token>,
    /// Outages that hold now in which it refuses connections.
    down: u32,
    /// What it did.
    pub(crate) figures: ServerFigures,
}

/// What a server did in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ServerFigures {
    /// Requests that it worked on to the end.
    pub(crate) served: u64,
    /// Most requests that were there at once.
    pub(crate) most: u32,
    /// Requests that came while it worked on as many as it can.
    pub(crate) overlaps: u64,
}

/// What a server does with a request that reaches it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// It works on it.
    Works,
    /// It lets it wait.
    Waits,
    /// It refuses the connection.
    Refused,
}

impl<'a> Server<'a> {
    pub(crate) fn new(endpoint: &'a Endpoint, calendar: &'a Calendar) -> Self {
        let figures = ServerFigures::default();
        Self { endpoint, calendar, working: 0, door: VecDeque::new(), down: 0, figures }
    }

    /// A request comes.
    pub(crate) fn enter(&mut self, token: Token) -> Entry {
        if self.down > 0 {
            return Entry::Refused;
        }
        let free = self.endpoint.at_once.is_none_or(|most| self.working < most);
        if free {
            self.working += 1;
        } else {
            if self.endpoint.backlog.is_some_and(|most| self.door.len() >= most as usize) {
                return Entry::Refused;
            }
            self.figures.overlaps += 1;
            self.door.push_back(token);
        }
        let present = self.working.saturating_add(self.door.len() as u32);
        self.figures.most = self.figures.most.max(present);
        if free { Entry::Works } else { Entry::Waits }
    }

    /// It is done with one, and works on the next at its door.
    pub(crate) fn leave(&mut self) -> Option<Token> {
        self.figures.served += 1;
        let next = self.door.pop_front();
        if next.is_none() {
            self.working -= 1;
        }
        next
    }

    /// When it is done with work that it begins now, ns.
    pub(crate) fn finish(&self, now: u64, work: u64) -> u64 {
        self.calendar.finish(now, scaled(work, self.endpoint.speed))
    }

    /// It refuses connections from now on; what was there is lost.
    pub(crate) fn fail(&mut self) {
        self.down += 1;
        self.working = 0;
        self.door.clear();
    }

    /// One outage is over.
    pub(crate) fn recover(&mut self) {
        self.down -= 1;
    }
}
