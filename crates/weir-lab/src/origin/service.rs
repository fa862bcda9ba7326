//! The order of service: arrivals, queues and counters. Each port is a server of its own with its
//! own queue. The service time of the n-th request does not depend on its port. Nothing is read or
//! sent here.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use super::pause::OriginPause;
use crate::service_time::ServiceTime;
use crate::timer::now_ns;

/// State shared by all ports.
pub(super) struct OriginLoad {
    pub(super) service: Option<ServiceTime>,
    pub(super) seed: u64,
    pub(super) pause: Option<OriginPause>,
    /// Start of the origin on the monotonic clock.
    pub(super) started_ns: u64,
    /// Incremented when the counters are reset, so that earlier arrivals are not logged afterwards.
    pub(super) generation: AtomicU32,
    pub(super) gauge: Gauge,
    next: AtomicU64,
}

/// A current number and its maximum.
#[derive(Default)]
pub(super) struct Gauge {
    now: AtomicU64,
    most: AtomicU64,
}

/// One address, and the counters of its requests.
pub(super) struct Port {
    pub(super) address: SocketAddr,
    /// Index among the ports.
    pub(super) number: u16,
    pub(super) tls: bool,
    /// Requests that have arrived and are not complete.
    pub(super) gauge: Gauge,
    pub(super) requests: AtomicU64,
    /// Requests that arrived while another one was in service at this port.
    pub(super) overlapping: AtomicU64,
    /// Heads and bodies that were refused; they do not count as requests.
    pub(super) refused: AtomicU64,
    /// Responses that the client did not read completely, although no fault was requested.
    pub(super) broken: AtomicU64,
    pub(super) connections: Gauge,
    pub(super) accepted: AtomicU64,
    line: Option<PortQueue>,
}

/// The queue of a port with a concurrency limit.
struct PortQueue {
    limit: usize,
    state: Mutex<LineState>,
}

#[derive(Default)]
struct LineState {
    in_service: usize,
    most_in_service: usize,
    /// Waiting requests in order of arrival.
    waiting: VecDeque<Arc<PortTicket>>,
}

#[derive(Default)]
struct PortTicket {
    is_called: AtomicBool,
    /// Time at which the previous request ended.
    free_ns: AtomicU64,
    waker: Mutex<Option<Waker>>,
}

/// A request that has arrived.
pub(super) struct ArrivedRequest<'a> {
    /// Its number, from 0, over all ports.
    pub(super) n: u64,
    /// Set if another request was in service at its port.
    pub(super) overlapped: bool,
    pub(super) generation: u32,
    pub(super) turn: ServiceTurn<'a>,
}

/// A place in a port's queue or in service. When it is dropped, the next request is served.
pub(super) struct ServiceTurn<'a> {
    load: &'a OriginLoad,
    port: &'a Port,
    arrived_ns: u64,
    state: TurnState,
}

enum TurnState {
    Held,
    Waiting(Arc<PortTicket>),
    Over,
}

impl Gauge {
    /// Adds one and returns the number before.
    #[inline]
    pub(super) fn enter(&self) -> u64 {
        let before = self.now.fetch_add(1, Ordering::AcqRel);
        if before >= self.most.load(Ordering::Relaxed) {
            self.most.fetch_max(before + 1, Ordering::AcqRel);
        }
        before
    }

    #[inline]
    pub(super) fn leave(&self) {
        self.now.fetch_sub(1, Ordering::AcqRel);
    }

    pub(super) fn now(&self) -> u64 {
        self.now.load(Ordering::Acquire)
    }

    pub(super) fn most(&self) -> u64 {
        self.most.load(Ordering::Acquire)
    }

    pub(super) fn forget(&self) {
        self.most.store(self.now(), Ordering::Release);
    }
}

impl OriginLoad {
    pub(super) fn new(service: Option<ServiceTime>, seed: u64, pause: Option<OriginPause>) -> Self {
        Self {
            service,
            seed,
            pause,
            started_ns: now_ns(),
            generation: AtomicU32::new(0),
            gauge: Gauge::default(),
            next: AtomicU64::new(0),
        }
    }

    /// The service time of request `n`, in nanoseconds.
    pub(super) fn work_ns(&self, n: u64) -> u64 {
        self.service.as_ref().map_or(0, |service| service.draw_ns(self.seed, n))
    }

    /// The end of work of this length that begins at `begin_ns`; without work and pauses, the same
    /// time.
    pub(super) fn finish_ns(&self, begin_ns: u64, work_ns: u64) -> u64 {
        match self.pause {
            None => begin_ns + work_ns,
            Some(pause) => {
                self.started_ns + pause.finish_ns(begin_ns.saturating_sub(self.started_ns), work_ns)
            }
        }
    }

    /// Resets the counters; numbers and draws restart from 0.
    pub(super) fn forget(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
        self.next.store(0, Ordering::Release);
        self.gauge.forget();
    }
}

impl Port {
    pub(super) fn new(number: u16, address: SocketAddr, tls: bool, limit: Option<usize>) -> Self {
        let line = limit.map(|limit| PortQueue { limit, state: Mutex::default() });
        Self {
            address,
            number,
            tls,
            gauge: Gauge::default(),
            requests: AtomicU64::new(0),
            overlapping: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            broken: AtomicU64::new(0),
            connections: Gauge::default(),
            accepted: AtomicU64::new(0),
            line,
        }
    }

    /// Registers a complete request.
    #[inline]
    pub(super) fn arrive<'a>(
        &'a self,
        load: &'a OriginLoad,
        arrived_ns: u64,
    ) -> ArrivedRequest<'a> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        load.gauge.enter();
        let (n, overlapped, state) = if let Some(line) = &self.line {
            self.gauge.enter();
            line.join(load)
        } else {
            let overlapped = self.gauge.enter() > 0;
            (load.next.fetch_add(1, Ordering::Relaxed), overlapped, TurnState::Held)
        };
        if overlapped {
            self.overlapping.fetch_add(1, Ordering::Relaxed);
        }
        let generation = load.generation.load(Ordering::Acquire);
        let turn = ServiceTurn { load, port: self, arrived_ns, state };
        ArrivedRequest { n, overlapped, generation, turn }
    }

    /// The number of waiting requests, and the largest number that was in service at once.
    pub(super) fn line_now(&self) -> (usize, Option<usize>) {
        self.line.as_ref().map_or((0, None), |line| {
            let state = line.lock();
            (state.waiting.len(), Some(state.most_in_service))
        })
    }

    pub(super) fn forget(&self) {
        for counter in
            [&self.requests, &self.overlapping, &self.refused, &self.broken, &self.accepted]
        {
            counter.store(0, Ordering::Relaxed);
        }
        self.gauge.forget();
        self.connections.forget();
        if let Some(line) = &self.line {
            let mut state = line.lock();
            state.most_in_service = state.in_service;
        }
    }
}

impl PortQueue {
    fn lock(&self) -> MutexGuard<'_, LineState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a request. Its number is assigned under the same lock, so that the queue is in order of
    /// numbers.
    fn join(&self, load: &OriginLoad) -> (u64, bool, TurnState) {
        let mut line = self.lock();
        let n = load.next.fetch_add(1, Ordering::Relaxed);
        let overlapped = line.in_service > 0;
        if line.in_service < self.limit {
            line.in_service += 1;
            line.most_in_service = line.most_in_service.max(line.in_service);
            return (n, overlapped, TurnState::Held);
        }
        let ticket = Arc::new(PortTicket::default());
        line.waiting.push_back(ticket.clone());
        (n, overlapped, TurnState::Waiting(ticket))
    }

    /// Calls the next request, or leaves the place empty.
    fn leave(&self, now_ns: u64) {
        let mut line = self.lock();
        let Some(ticket) = line.waiting.pop_front() else {
            line.in_service = line.in_service.saturating_sub(1);
            return;
        };
        drop(line);
        ticket.free_ns.store(now_ns, Ordering::Release);
        ticket.is_called.store(true, Ordering::Release);
        let waker = ticket.waker.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Removes a waiting request that was abandoned.
    fn give_up(&self, ticket: &Arc<PortTicket>) {
        let mut line = self.lock();
        let before = line.waiting.len();
        line.waiting.retain(|waiting| !Arc::ptr_eq(waiting, ticket));
        let was_waiting = line.waiting.len() < before;
        drop(line);
        if !was_waiting {
            self.leave(now_ns());
        }
    }
}

impl ServiceTurn<'_> {
    /// Waits for the request's turn and returns the time at which it began.
    pub(super) async fn begin_ns(&mut self) -> u64 {
        let TurnState::Waiting(ticket) = &self.state else { return self.arrived_ns };
        poll_fn(|context| {
            if ticket.is_called.load(Ordering::Acquire) {
                return Poll::Ready(());
            }
            let mut waker = ticket.waker.lock().unwrap_or_else(PoisonError::into_inner);
            *waker = Some(context.waker().clone());
            drop(waker);
            // It may have been called between the first check and the registration of the waker.
            if ticket.is_called.load(Ordering::Acquire) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        let free_ns = ticket.free_ns.load(Ordering::Acquire);
        self.state = TurnState::Held;
        free_ns.max(self.arrived_ns)
    }

    /// Ends service at this time. For timed service this is the planned end, so that a late timer
    /// does not delay the next request.
    #[inline]
    pub(super) fn end(mut self, ended_ns: u64) {
        self.leave(ended_ns);
    }

    fn leave(&mut self, ended_ns: u64) {
        match std::mem::replace(&mut self.state, TurnState::Over) {
            TurnState::Over => {}
            TurnState::Held => {
                self.port.gauge.leave();
                self.load.gauge.leave();
                if let Some(line) = &self.port.line {
                    line.leave(ended_ns);
                }
            }
            TurnState::Waiting(ticket) => {
                self.port.gauge.leave();
                self.load.gauge.leave();
                if let Some(line) = &self.port.line {
                    line.give_up(&ticket);
                }
            }
        }
    }
}

impl Drop for ServiceTurn<'_> {
    fn drop(&mut self) {
        if !matches!(self.state, TurnState::Over) {
            self.leave(now_ns());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::sync::atomic::Ordering;
    use std::task::{Context, Poll, Waker};

    use super::{ArrivedRequest, OriginLoad, Port};

    fn port(limit: Option<usize>) -> (OriginLoad, Port) {
        let address = "127.0.0.1:1".parse().unwrap();
        (OriginLoad::new(None, 0, None), Port::new(0, address, false, limit))
    }

    /// The start of service, if it has started.
    fn begun(arrival: &mut ArrivedRequest<'_>) -> Option<u64> {
        let mut context = Context::from_waker(Waker::noop());
        match pin!(arrival.turn.begin_ns()).poll(&mut context) {
            Poll::Ready(began) => Some(began),
            Poll::Pending => None,
        }
    }

    #[test]
    fn one_at_a_time_in_the_order_of_arrival() {
        let (load, port) = port(Some(1));
        let mut arrivals: Vec<_> = (0..4).map(|at| port.arrive(&load, at)).collect();
        let numbers: Vec<_> = arrivals.iter().map(|arrival| arrival.n).collect();
        let overlaps: Vec<_> = arrivals.iter().map(|arrival| arrival.overlapped).collect();
        assert_eq!((numbers, overlaps), (vec![0, 1, 2, 3], vec![false, true, true, true]));
        for turn in 0..4 {
            let began: Vec<_> =
                arrivals.iter_mut().map(|arrival| begun(arrival).is_some()).collect();
            let expected: Vec<_> = (0..arrivals.len()).map(|place| place == 0).collect();
            assert_eq!(began, expected);
            arrivals.remove(0).turn.end(100 * (turn + 1));
        }
        assert_eq!((port.gauge.now(), port.gauge.most(), port.line_now()), (0, 4, (0, Some(1))));
        assert_eq!(port.overlapping.load(Ordering::Relaxed), 3);
        let free = port.arrive(&load, 1000);
        assert!(!free.overlapped && free.n == 4);
    }

    #[test]
    fn a_turn_begins_when_the_one_before_was_to_end() {
        let (load, port) = port(Some(1));
        let (first, mut second, mut third) =
            (port.arrive(&load, 0), port.arrive(&load, 10), port.arrive(&load, 500));
        first.turn.end(300);
        assert_eq!(begun(&mut second), Some(300));
        second.turn.end(400);
        // It arrived after that time.
        assert_eq!(begun(&mut third), Some(500));
    }

    #[test]
    fn a_client_that_leaves_delays_no_other() {
        let (load, port) = port(Some(2));
        let mut arrivals: Vec<_> = (0..5).map(|at| port.arrive(&load, at)).collect();
        assert_eq!(port.line_now(), (3, Some(2)));
        // One that waits, then one in service.
        drop(arrivals.remove(2));
        drop(arrivals.remove(0));
        let began: Vec<_> = arrivals.iter_mut().map(|arrival| begun(arrival).is_some()).collect();
        assert_eq!(began, [true, true, false]);
        // One that was called but not polled since: its place is passed on.
        arrivals.remove(0).turn.end(0);
        drop(arrivals.remove(1));
        drop(arrivals);
        assert_eq!((port.gauge.now(), load.gauge.now(), port.line_now()), (0, 0, (0, Some(2))));
        assert!(!port.arrive(&load, 9).overlapped);
    }

    #[test]
    fn without_a_limit_all_are_in_service_and_overlap_is_counted() {
        let (load, port) = port(None);
        let first = port.arrive(&load, 0);
        let second = port.arrive(&load, 0);
        first.turn.end(0);
        second.turn.end(0);
        let third = port.arrive(&load, 0);
        assert_eq!((first_overlap(&port), third.overlapped, port.gauge.most()), (1, false, 2));
        load.forget();
        port.forget();
        assert_eq!((first_overlap(&port), port.gauge.most(), port.gauge.now()), (0, 1, 1));
        assert_eq!(port.arrive(&load, 0).n, 0);
    }

    fn first_overlap(port: &Port) -> u64 {
        port.overlapping.load(Ordering::Relaxed)
    }
}
