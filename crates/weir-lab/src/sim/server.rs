//! A simulated server: it works on a number of requests at once, and queues the others in order of
//! arrival (its accept backlog). It knows nothing of the balancer.

use std::collections::VecDeque;

use super::agenda::AttemptToken;
use super::calendar::Calendar;
use super::credits::SimCreditAccount;
use super::ideal::scaled;
use super::plan::SimEndpoint;

/// One server of a run.
#[derive(Debug)]
pub(crate) struct SimServer<'a> {
    endpoint: &'a SimEndpoint,
    calendar: &'a Calendar,
    working: u32,
    door: VecDeque<AttemptToken>,
    /// Number of current outages in which it refuses connections.
    down: u32,
    credits: Option<SimCreditAccount>,
    /// Counters of the run.
    pub(crate) figures: ServerFigures,
}

/// Counters of a server in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ServerFigures {
    /// Requests that it completed.
    pub(crate) served: u64,
    /// Largest number of requests present at once.
    pub(crate) most: u32,
    /// Requests that arrived while all its places were busy.
    pub(crate) overlaps: u64,
    /// The time at which its processor credits ended, ns.
    pub(crate) credits_ended: Option<u64>,
}

/// The server's reaction to an arriving request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerReaction {
    /// It starts to work on the request.
    Works,
    /// It queues the request.
    Waits,
    /// It refuses the connection.
    Refused,
}

impl<'a> SimServer<'a> {
    pub(crate) fn new(endpoint: &'a SimEndpoint, calendar: &'a Calendar) -> Self {
        let figures = ServerFigures::default();
        let credits = endpoint.credits.map(SimCreditAccount::new);
        Self { endpoint, calendar, working: 0, door: VecDeque::new(), down: 0, credits, figures }
    }

    /// Adds a request.
    pub(crate) fn enter(&mut self, token: AttemptToken) -> ServerReaction {
        if self.down > 0 {
            return ServerReaction::Refused;
        }
        let free = self.endpoint.at_once.is_none_or(|most| self.working < most);
        if free {
            self.working += 1;
        } else {
            if self.endpoint.backlog.is_some_and(|most| self.door.len() >= most as usize) {
                return ServerReaction::Refused;
            }
            self.figures.overlaps += 1;
            self.door.push_back(token);
        }
        let present = self.working.saturating_add(self.door.len() as u32);
        self.figures.most = self.figures.most.max(present);
        if free { ServerReaction::Works } else { ServerReaction::Waits }
    }

    /// Completes a request and returns the next one of its queue, on which it works now.
    pub(crate) fn leave(&mut self) -> Option<AttemptToken> {
        self.figures.served += 1;
        let next = self.door.pop_front();
        if next.is_none() {
            self.working -= 1;
        }
        next
    }

    /// The end of work that begins now, ns.
    pub(crate) fn finish(&mut self, now: u64, work: u64) -> u64 {
        let mut work = scaled(work, self.endpoint.speed);
        if let Some(account) = &mut self.credits {
            work = account.work(now, work);
            self.figures.credits_ended = account.ended;
        }
        self.calendar.finish(now, work)
    }

    /// Refuses connections from now on and drops all requests.
    pub(crate) fn fail(&mut self) {
        self.down += 1;
        self.working = 0;
        self.door.clear();
    }

    /// Ends one outage.
    pub(crate) fn recover(&mut self) {
        self.down -= 1;
    }
}
