//! One run: one candidate in one scenario, event by event in virtual time, with the balancer that
//! the proxy uses. Figures are computed in `summary.rs`.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use weir_balance::{
    AdminState, AfterFailure, Arrival, Availability, Balancer, EndpointState, Rejection, Request,
    Slot, Tried, hash_key,
};

use super::agenda::{Agenda, AttemptToken, SimEvent};
use super::arrivals::Arrivals;
use super::calendar::Calendar;
use super::draw::{Draws, RandomPurpose};
use super::exchange::{Holds, SimExchange, TakenSlot, WakeOne, WokenTickets, stand};
use super::outcome::{RequestEnd, RequestOutcome, RunOutcomes};
use super::plan::{OutageKind, Scenario, SimCandidate, SimPlan};
use super::server::{ServerReaction, SimServer};
use super::state::{Pools, WeightShares};
use super::time::micros;
use super::watch::{OrderWatch, Stand};

/// Largest number of requests in the system at once; each takes about 300 bytes.
const MAX_PRESENT: usize = 1_000_000;

struct Engine<'a> {
    plan: &'a SimPlan,
    scenario: &'a Scenario,
    queue_timeout: Option<u64>,
    max_attempts: u16,
    now: u64,
    pools: Pools,
    servers: Vec<SimServer<'a>>,
    /// Occupied slots of each endpoint, as counted by the simulation.
    taken: Vec<u32>,
    shares: WeightShares,
    agenda: Agenda,
    arrivals: Arrivals<'a>,
    next_arrival: Option<u64>,
    present: Vec<Option<SimExchange>>,
    vacant: Vec<u32>,
    /// Deadlines of first waits. All have the same timeout, so they are in order.
    deadlines: VecDeque<(u64, AttemptToken)>,
    woken: Arc<WokenTickets>,
    order: OrderWatch,
    inversions: u64,
    attempts: u64,
    asked: u64,
    balancer_draws: Draws,
    keys: Draws,
    ejections: Draws,
    /// Number of failed connects, over all endpoints.
    failures: u64,
    sticky: Draws,
    streams: Draws,
    outcomes: Vec<RequestOutcome>,
}

/// Runs a candidate in a scenario. It fails only if too many requests are in the system at once.
pub(crate) fn run(
    plan: &SimPlan,
    scenario: &Scenario,
    candidate: &SimCandidate,
    calendars: &[Calendar],
) -> Result<RunOutcomes, String> {
    let mut engine = Engine::new(plan, scenario, candidate, calendars);
    engine.run()?;
    Ok(RunOutcomes {
        inversions: engine.inversions,
        order_violations: engine.order.violations(),
        servers: engine.servers.iter().map(|server| server.figures).collect(),
        counters: engine.pools.counters(),
        longest_queue: engine.pools.longest_queue(),
        most_ahead: engine.shares.most_ahead(),
        outcomes: engine.outcomes,
    })
}

impl<'a> Engine<'a> {
    fn new(
        plan: &'a SimPlan,
        scenario: &'a Scenario,
        candidate: &SimCandidate,
        calendars: &'a [Calendar],
    ) -> Self {
        let endpoints = plan.endpoints.len();
        let draws = |purpose| Draws::new(plan.seed, purpose);
        let servers = plan
            .endpoints
            .iter()
            .zip(calendars)
            .map(|(endpoint, calendar)| SimServer::new(endpoint, calendar));
        Self {
            plan,
            scenario,
            queue_timeout: plan.queue.timeout,
            max_attempts: plan.retries.saturating_add(1),
            now: 0,
            pools: Pools::new(plan, candidate),
            servers: servers.collect(),
            taken: vec![0; endpoints],
            shares: WeightShares::new(plan),
            agenda: Agenda::default(),
            arrivals: Arrivals::new(plan, scenario.load),
            next_arrival: None,
            present: Vec::new(),
            vacant: Vec::new(),
            deadlines: VecDeque::new(),
            woken: Arc::default(),
            order: order_watch(plan, candidate),
            inversions: 0,
            attempts: 0,
            asked: 0,
            balancer_draws: draws(RandomPurpose::Balancer),
            keys: draws(RandomPurpose::Key),
            ejections: draws(RandomPurpose::Ejection),
            failures: 0,
            sticky: draws(RandomPurpose::Sticky),
            streams: draws(RandomPurpose::Stream),
            outcomes: Vec::with_capacity(plan.requests as usize),
        }
    }

    fn run(&mut self) -> Result<(), String> {
        for (index, outage) in self.plan.outages.iter().enumerate() {
            if outage.kind == OutageKind::Down {
                self.agenda.plan(outage.from, SimEvent::Fail(index));
                self.agenda.plan(outage.until, SimEvent::Recover(index));
            }
        }
        for (client, time) in (0..).zip(self.arrivals.initial()) {
            self.agenda.plan(time, SimEvent::Send(client));
        }
        self.next_arrival = self.arrivals.next();
        let mut woken = Vec::new();
        while !self.is_over() && self.step() {
            loop {
                self.woken.take(&mut woken);
                if woken.is_empty() {
                    break;
                }
                woken.drain(..).for_each(|token| self.hear(token));
            }
            if self.present.len() - self.vacant.len() > MAX_PRESENT {
                return Err(format!(
                    "{} exceeds the capacity of the servers: {MAX_PRESENT} requests are present at once. Lower the rate, or \
                    limit the waiting requests with --max-conn and --queue-max or with --backlog",
                    self.scenario.load
                ));
            }
        }
        self.forget_the_rest();
        Ok(())
    }

    /// Returns true once all requests have ended; recoveries and other events may still be planned.
    fn is_over(&self) -> bool {
        self.outcomes.len() as u64 == self.plan.requests && self.present.len() == self.vacant.len()
    }

    /// Handles the next event. At equal times planned events come first, then deadlines, then
    /// arrivals. Returns false if nothing is left.
    fn step(&mut self) -> bool {
        while self.deadlines.front().is_some_and(|(_, token)| !self.waits(*token)) {
            self.deadlines.pop_front();
        }
        let times = [
            self.agenda.next_time(),
            self.deadlines.front().map(|(time, _)| *time),
            self.next_arrival,
        ];
        let first = (0..times.len()).filter_map(|kind| Some((times[kind]?, kind))).min();
        let Some((time, kind)) = first else { return false };
        self.now = time;
        match kind {
            0 => {
                if let Some(event) = self.agenda.pop() {
                    self.happen(event);
                }
            }
            1 => {
                if let Some((_, token)) = self.deadlines.pop_front() {
                    self.time_out(token);
                }
            }
            _ => {
                self.next_arrival = self.arrivals.next();
                self.come(None);
            }
        }
        true
    }

    fn happen(&mut self, event: SimEvent) {
        match event {
            SimEvent::Send(client) => self.come(Some(client)),
            SimEvent::Reach(token) => self.reach(token),
            SimEvent::Refuse(token) => self.refused(token),
            SimEvent::Finish(token) => self.finish(token),
            SimEvent::TimeOut(token) => self.time_out(token),
            SimEvent::Answer(token) => self.answer(token),
            SimEvent::Close(token) => self.close(token),
            SimEvent::Fail(outage) => self.fail(outage),
            SimEvent::Recover(outage) => {
                self.servers[self.plan.outages[outage].endpoint].recover();
            }
            SimEvent::Tick => self.pools.tick(micros(self.now)),
        }
    }

    /// Adds a new request, of the given client in a closed loop.
    fn come(&mut self, client: Option<u32>) {
        let number = self.outcomes.len() as u64;
        if number >= self.plan.requests {
            return;
        }
        self.outcomes.push(RequestOutcome {
            arrived: self.now,
            response: 0,
            queue: 0,
            door: 0,
            position: 0,
            endpoint: None,
            attempts: 0,
            end: RequestEnd::Forgotten,
        });
        let sticks = self.plan.sticky > 0.0 && self.sticky.unit(number) < self.plan.sticky;
        let connection = client.map_or_else(|| self.key(number), u64::from);
        let exchange = SimExchange {
            request: number as usize,
            attempt: 0,
            seq: 0,
            asked: 0,
            reached: 0,
            bound: sticks.then(|| (self.key(number) % self.servers.len() as u64) as usize),
            client,
            worker: self.pools.worker_of(number, connection),
            tried: Tried::new(),
            holds: Holds::Nothing,
        };
        let place = if let Some(place) = self.vacant.pop() {
            self.present[place as usize] = Some(exchange);
            place
        } else {
            self.present.push(Some(exchange));
            (self.present.len() - 1) as u32
        };
        self.ask(place);
    }

    fn key(&self, number: u64) -> u64 {
        let recorded = self.plan.trace.as_ref().and_then(|trace| trace.key(number));
        recorded.unwrap_or_else(|| hash_key(&self.keys.below(number, self.plan.keys).to_le_bytes()))
    }

    /// Asks the balancer for an endpoint.
    fn ask(&mut self, place: u32) {
        self.attempts += 1;
        let attempt = self.attempts;
        self.asked += 1;
        let (seq, now) = (self.asked, self.now);
        let Some(exchange) = &mut self.present[place as usize] else { return };
        exchange.attempt = attempt;
        exchange.seq = seq;
        exchange.asked = now;
        let request = exchange.request;
        let key = self.key(request as u64);
        let Some(exchange) = &self.present[place as usize] else { return };
        let arrival = self.pools.of(exchange.worker).arrive(&Request {
            key,
            bound: exchange.bound,
            tag: request as u64,
            ..Request::new(micros(now), self.balancer_draws.bits(attempt), &exchange.tried)
        });
        let token = AttemptToken { place, attempt };
        match arrival {
            Arrival::Dispatched(slot) => self.dispatch(token, slot),
            Arrival::Rejected(rejection) => self.reject(token, rejection),
            Arrival::Queued(ticket) => {
                self.outcomes[request].position = ticket.position();
                let bound = exchange.bound;
                self.pools.note_queue();
                self.order.join(seq, token, bound);
                self.set_deadline(token, request);
                self.hold(token, Holds::Ticket(ticket));
                // The first poll registers the waker of the ticket.
                self.hear(token);
            }
        }
    }

    /// Sets the deadline of a wait. The timeout covers all waits of the request together.
    fn set_deadline(&mut self, token: AttemptToken, request: usize) {
        let Some(timeout) = self.queue_timeout else { return };
        match self.outcomes[request].queue {
            0 => self.deadlines.push_back((self.now + timeout, token)),
            waited => {
                let deadline = self.now + timeout.saturating_sub(waited);
                self.agenda.plan(deadline, SimEvent::TimeOut(token));
            }
        }
    }

    fn exchange(&mut self, token: AttemptToken) -> Option<&mut SimExchange> {
        let exchange = self.present.get_mut(token.place as usize)?.as_mut();
        exchange.filter(|exchange| exchange.attempt == token.attempt)
    }

    fn hold(&mut self, token: AttemptToken, holds: Holds) {
        if let Some(exchange) = self.exchange(token) {
            exchange.holds = holds;
        }
    }

    fn waits(&self, token: AttemptToken) -> bool {
        stand(&self.present, token, None) != Stand::Gone
    }

    /// Polls the ticket of a request.
    fn hear(&mut self, token: AttemptToken) {
        let waker = Waker::from(Arc::new(WakeOne { woken: Arc::clone(&self.woken), token }));
        let Some(exchange) = self.exchange(token) else { return };
        let Holds::Ticket(ticket) = &mut exchange.holds else { return };
        match Pin::new(ticket).poll(&mut Context::from_waker(&waker)) {
            Poll::Pending => {}
            Poll::Ready(answer) => {
                exchange.holds = Holds::Nothing;
                self.note_queue_time(token);
                match answer {
                    Ok(slot) => self.dispatch(token, slot),
                    Err(rejection) => self.reject(token, rejection),
                }
            }
        }
    }

    fn note_queue_time(&mut self, token: AttemptToken) {
        let now = self.now;
        let Some(exchange) = self.exchange(token) else { return };
        let (request, waited) = (exchange.request, now - exchange.asked);
        self.outcomes[request].queue += waited;
    }

    fn time_out(&mut self, token: AttemptToken) {
        if !self.waits(token) {
            return;
        }
        self.note_queue_time(token);
        let Some(exchange) = self.exchange(token) else { return };
        let Holds::Ticket(ticket) = std::mem::replace(&mut exchange.holds, Holds::Nothing) else {
            return;
        };
        match ticket.time_out() {
            Some(slot) => self.dispatch(token, slot),
            None => self.end(token, RequestEnd::TimedOut),
        }
    }

    /// Sends a request that got a slot to its endpoint.
    fn dispatch(&mut self, token: AttemptToken, slot: Slot) {
        let index = slot.index();
        let Some(exchange) = self.exchange(token) else { return };
        exchange.holds = Holds::Slot(slot);
        let (request, seq, bound) = (exchange.request, exchange.seq, exchange.bound);
        let (tried, worker) = (exchange.tried.clone(), exchange.worker);
        let pool = self.pools.of(worker);
        let stalled = pool.endpoint(index).is_some_and(EndpointState::is_stalled);
        let place = TakenSlot { endpoint: index, stalled };
        let present = &self.present;
        self.order.dispatched(seq, index, |other| stand(present, other, Some(place)));
        let busy = bound != Some(index) && self.taken[index] > 0;
        if busy && self.has_idle_beside(index, pool, &tried) {
            self.inversions += 1;
        }
        self.taken[index] += 1;
        self.shares.dispatched(index);
        let outcome = &mut self.outcomes[request];
        outcome.endpoint = Some(index as u16);
        outcome.attempts += 1;
        self.after_latency(SimEvent::Reach(token));
    }

    /// Returns true if another endpoint of the same tier has no exchange of any worker, and is
    /// available by this balancer's knowledge.
    fn has_idle_beside(&self, chosen: usize, pool: &Balancer, tried: &Tried) -> bool {
        let endpoints = &self.plan.endpoints;
        self.taken.iter().enumerate().any(|(index, taken)| {
            let usable = pool.endpoint(index).is_some_and(|endpoint| {
                endpoint.availability() == Availability::Available
                    && endpoint.admin_state() == AdminState::Ready
                    && !endpoint.is_ejected(micros(self.now))
            });
            let alike = endpoints[index].tier == endpoints[chosen].tier;
            *taken == 0 && usable && alike && !tried.contains(index)
        })
    }

    /// Handles an event after the network latency, or at once if there is none.
    fn after_latency(&mut self, event: SimEvent) {
        if self.plan.latency == 0 {
            self.happen(event);
        } else {
            self.agenda.plan(self.now + self.plan.latency, event);
        }
    }

    /// The request reaches its server.
    fn reach(&mut self, token: AttemptToken) {
        let now = self.now;
        let Some(exchange) = self.exchange(token) else { return };
        let Holds::Slot(slot) = &mut exchange.holds else { return };
        let index = slot.index();
        exchange.reached = now;
        let worker = exchange.worker;
        let entry = self.servers[index].enter(token);
        if entry == ServerReaction::Refused {
            self.after_latency(SimEvent::Refuse(token));
            return;
        }
        if let Some(SimExchange { holds: Holds::Slot(slot), .. }) = self.exchange(token) {
            slot.sent(micros(now));
        }
        self.pools.of(worker).endpoint_succeeded(index);
        if entry == ServerReaction::Works {
            self.work(token, index);
        }
    }

    /// The server starts to work on the request.
    fn work(&mut self, token: AttemptToken, index: usize) {
        let now = self.now;
        let Some(exchange) = self.exchange(token) else { return };
        let (request, waited) = (exchange.request, now - exchange.reached);
        self.outcomes[request].door += waited;
        let plan = self.plan;
        let work = self.scenario.service.time(plan.seed, request as u64, plan.trace.as_deref());
        let end = self.servers[index].finish(now, work);
        self.agenda.plan(end, SimEvent::Finish(token));
    }

    fn finish(&mut self, token: AttemptToken) {
        let Some(exchange) = self.exchange(token) else { return };
        let Holds::Slot(slot) = &exchange.holds else { return };
        let index = slot.index();
        if let Some(next) = self.servers[index].leave() {
            self.work(next, index);
        }
        self.after_latency(SimEvent::Answer(token));
    }

    fn answer(&mut self, token: AttemptToken) {
        let now = self.now;
        let Some(exchange) = self.exchange(token) else { return };
        let (request, reached) = (exchange.request, exchange.reached);
        if let Some(held) = self.stream_time(request as u64) {
            let Some(exchange) = self.exchange(token) else { return };
            let Holds::Slot(slot) = &mut exchange.holds else { return };
            slot.answered(micros(now));
            let outcome = &mut self.outcomes[request];
            outcome.response = now - outcome.arrived;
            outcome.end = RequestEnd::Answered;
            self.agenda.plan(now + held, SimEvent::Close(token));
            return;
        }
        let held = micros(now - reached);
        if let Some(mut slot) = self.take_slot(token) {
            self.end(token, RequestEnd::Answered);
            slot.answered(micros(now));
            slot.finish(held);
        }
    }

    /// The time for which a request keeps its slot behind its response, if it is a stream.
    fn stream_time(&self, request: u64) -> Option<u64> {
        let streams = self.plan.streams.as_ref()?;
        let seed = Draws::new(self.plan.seed, RandomPurpose::StreamTime).bits(0);
        (self.streams.unit(request) < streams.share).then(|| streams.held.time(seed, request, None))
    }

    /// A stream ends. Policies that measure whole responses note its whole time.
    fn close(&mut self, token: AttemptToken) {
        let now = self.now;
        let Some(exchange) = self.exchange(token) else { return };
        let held = micros(now - exchange.reached);
        if let Some(slot) = self.take_slot(token) {
            self.leave(token);
            slot.finish(held);
        }
    }

    fn take_slot(&mut self, token: AttemptToken) -> Option<Slot> {
        let exchange = self.exchange(token)?;
        match std::mem::replace(&mut exchange.holds, Holds::Nothing) {
            Holds::Slot(slot) => {
                self.taken[slot.index()] -= 1;
                Some(slot)
            }
            Holds::Nothing | Holds::Ticket(_) => None,
        }
    }

    /// The connection was refused: tries another endpoint if retries are left.
    fn refused(&mut self, token: AttemptToken) {
        let Some(worker) = self.exchange(token).map(|exchange| exchange.worker) else { return };
        let Some(slot) = self.take_slot(token) else { return };
        let index = slot.index();
        let random = self.ejections.bits(self.failures);
        self.failures += 1;
        let after = self.pools.of(worker).endpoint_failed(index, micros(self.now), random);
        if let AfterFailure::Ejected { until_us } = after {
            self.agenda.plan(until_us.saturating_mul(1_000), SimEvent::Tick);
        }
        drop(slot);
        let max_attempts = self.max_attempts;
        let Some(exchange) = self.exchange(token) else { return };
        exchange.tried.insert(index);
        let request = exchange.request;
        if self.outcomes[request].attempts < max_attempts {
            self.ask(token.place);
        } else {
            self.end(token, RequestEnd::Unreachable);
        }
    }

    fn reject(&mut self, token: AttemptToken, rejection: Rejection) {
        let Some(exchange) = self.exchange(token) else { return };
        let request = exchange.request;
        let end = match rejection {
            Rejection::QueueFull => RequestEnd::QueueFull,
            Rejection::Full => RequestEnd::Full,
            Rejection::Unavailable if self.outcomes[request].attempts > 0 => {
                RequestEnd::Unreachable
            }
            Rejection::Unavailable => RequestEnd::Unavailable,
        };
        self.end(token, end);
    }

    /// A server goes down: its requests are lost.
    fn fail(&mut self, outage: usize) {
        let index = self.plan.outages[outage].endpoint;
        self.servers[index].fail();
        let at_server = |(place, exchange): (usize, &Option<SimExchange>)| {
            let exchange = exchange.as_ref()?;
            let Holds::Slot(slot) = &exchange.holds else { return None };
            let token = AttemptToken { place: place as u32, attempt: exchange.attempt };
            (slot.index() == index && exchange.reached >= exchange.asked).then_some(token)
        };
        let lost: Vec<AttemptToken> =
            self.present.iter().enumerate().filter_map(at_server).collect();
        for token in lost {
            if let Some(slot) = self.take_slot(token) {
                self.break_off(token);
                drop(slot);
            }
        }
    }

    /// Ends the request whose server went down. A stream that was answered keeps the time of its
    /// first response.
    fn break_off(&mut self, token: AttemptToken) {
        let Some(request) = self.exchange(token).map(|exchange| exchange.request) else { return };
        let outcome = &mut self.outcomes[request];
        if outcome.end == RequestEnd::Answered {
            outcome.end = RequestEnd::Reset;
            self.leave(token);
        } else {
            self.end(token, RequestEnd::Reset);
        }
    }

    /// Ends the request. A client of a closed loop sends its next one after its think time.
    fn end(&mut self, token: AttemptToken, end: RequestEnd) {
        let Some(exchange) = self.exchange(token) else { return };
        let request = exchange.request;
        let outcome = &mut self.outcomes[request];
        outcome.response = self.now - outcome.arrived;
        outcome.end = end;
        self.leave(token);
    }

    /// Takes a request whose outcome is known out of the system.
    fn leave(&mut self, token: AttemptToken) {
        let Some(exchange) = self.exchange(token) else { return };
        let client = exchange.client;
        self.present[token.place as usize] = None;
        self.vacant.push(token.place);
        if let Some(client) = client {
            self.agenda.plan(self.now + self.plan.think, SimEvent::Send(client));
        }
    }

    /// Ends the requests that still wait when no event is left.
    fn forget_the_rest(&mut self) {
        for place in 0..self.present.len() {
            let Some(exchange) = self.present[place].take() else { continue };
            let outcome = &mut self.outcomes[exchange.request];
            outcome.response = self.now - outcome.arrived;
            outcome.queue += self.now - exchange.asked;
        }
    }
}

fn order_watch(plan: &SimPlan, candidate: &SimCandidate) -> OrderWatch {
    let endpoints = plan.endpoints.len();
    let keyed = candidate.policy.hashes().is_some();
    if plan.queue.max_per_endpoint.is_some() && (keyed || plan.sticky > 0.0) {
        // A request that finds its endpoint's queue full waits in another one, and only the
        // balancer knows which.
        OrderWatch::off()
    } else if !keyed {
        OrderWatch::by_line(endpoints)
    } else if plan.outages.is_empty() && plan.stall.is_none() {
        OrderWatch::by_endpoint(endpoints)
    } else {
        OrderWatch::off()
    }
}

#[cfg(test)]
mod tests;
