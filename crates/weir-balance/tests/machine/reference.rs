//! The reference queue: a list of waiters that is scanned from the oldest after every event. Slow,
//! without indexes, and without a line of the product's code.

use std::rc::Rc;

use weir_balance::{AdminState, QueueSettings, Rejection};

/// An endpoint as the reference sees it.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    pub(crate) limit: Option<u32>,
    pub(crate) tier: u8,
    pub(crate) available: bool,
    pub(crate) healthy: bool,
    pub(crate) order: AdminState,
    pub(crate) ejected_until: u64,
    pub(crate) in_flight: u32,
    /// Waiters for this endpoint and no other.
    pub(crate) queued: u32,
}

impl Endpoint {
    /// A usable endpoint without a limit.
    pub(crate) fn up() -> Self {
        Self {
            limit: None,
            tier: 0,
            available: true,
            healthy: true,
            order: AdminState::Ready,
            ejected_until: 0,
            in_flight: 0,
            queued: 0,
        }
    }
}

/// A waiting exchange.
#[derive(Clone, Debug)]
pub(crate) struct Waiter {
    pub(crate) tag: u64,
    pub(crate) key: u64,
    pub(crate) bound: Option<usize>,
    pub(crate) tried: Option<usize>,
    pub(crate) overflowed: bool,
    /// The endpoint that the exchange waits for, if no other will do.
    pub(crate) home: Option<usize>,
}

/// The outcome of an arrival or a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Dispatched(usize),
    Queued(u32),
    Rejected(Rejection),
}

/// Chooses one of the correct endpoints for an exchange; returns an error if the pool's choice was
/// wrong.
pub(crate) type Choose<'a> = dyn FnMut(u64, &[usize], &[Endpoint]) -> Result<usize, String> + 'a;

/// The endpoint among these that a key leads to, for policies that hash. The policies' own choices
/// are tested in `tests/hashing.rs`.
pub(crate) type Lead = dyn Fn(u64, &[usize]) -> usize;

#[derive(Clone)]
pub(crate) struct Reference {
    pub(crate) lead: Option<Rc<Lead>>,
    pub(crate) endpoints: Vec<Endpoint>,
    pub(crate) waiting: Vec<Waiter>,
    pub(crate) queue: Option<QueueSettings>,
    pub(crate) panic_percent: usize,
    pub(crate) now_us: u64,
}

impl Reference {
    fn panics(&self) -> bool {
        let first = self.tiers().next();
        let ready = self.endpoints.iter().filter(|endpoint| endpoint.order == AdminState::Ready);
        let (own, later): (Vec<_>, Vec<_>) =
            ready.partition(|endpoint| Some(endpoint.tier) == first);
        let healthy = own.iter().filter(|endpoint| endpoint.healthy).count();
        healthy * 100 < own.len() * self.panic_percent
            && later.iter().all(|endpoint| !endpoint.healthy)
    }

    fn is_up(&self, index: usize) -> bool {
        let endpoint = &self.endpoints[index];
        endpoint.available
            && (endpoint.healthy || self.panics())
            && endpoint.order != AdminState::Maintenance
            && endpoint.ejected_until <= self.now_us
    }

    fn is_free(&self, index: usize) -> bool {
        self.endpoints[index].limit.is_none_or(|limit| self.endpoints[index].in_flight < limit)
    }

    /// The bound endpoint, if it may be picked.
    fn bound(&self, waiter: &Waiter) -> Option<usize> {
        waiter.bound.filter(|index| self.is_up(*index) && waiter.tried != Some(*index))
    }

    /// The endpoints of a tier that an unbound exchange may be sent to, full or not.
    fn usable(&self, waiter: &Waiter, tier: u8) -> Vec<usize> {
        let fits = |index: &usize| {
            let endpoint = &self.endpoints[*index];
            endpoint.tier == tier
                && endpoint.order == AdminState::Ready
                && self.is_up(*index)
                && waiter.tried != Some(*index)
        };
        (0..self.endpoints.len()).filter(fits).collect()
    }

    fn tiers(&self) -> impl Iterator<Item = u8> + use<> {
        let tiers: std::collections::BTreeSet<u8> =
            self.endpoints.iter().map(|endpoint| endpoint.tier).collect();
        tiers.into_iter()
    }

    /// The endpoints of the first tier that has any.
    fn may_serve(&self, waiter: &Waiter) -> Vec<usize> {
        let tiers = self.tiers().map(|tier| self.usable(waiter, tier));
        tiers.into_iter().find(|tier| !tier.is_empty()).unwrap_or_default()
    }

    fn free(&self, indexes: Vec<usize>) -> Vec<usize> {
        indexes.into_iter().filter(|index| self.is_free(*index)).collect()
    }

    fn bound_to(&self, home: usize) -> u32 {
        self.waiting.iter().filter(|other| other.home == Some(home)).count() as u32
    }

    /// The only endpoint that the exchange would be sent to, full or not: the bound one, or the one
    /// its key leads to.
    fn home(&self, waiter: &Waiter) -> Option<usize> {
        let led = |lead: &Rc<Lead>| match self.may_serve(waiter).as_slice() {
            [] => None,
            usable => Some(lead(waiter.key, usable)),
        };
        self.bound(waiter).or_else(|| self.lead.as_ref().and_then(led))
    }

    fn dispatch(&mut self, index: usize) -> Outcome {
        self.endpoints[index].in_flight += 1;
        Outcome::Dispatched(index)
    }

    /// Releases a slot at this endpoint, if the endpoint still exists.
    pub(crate) fn leave(&mut self, at: Option<usize>) {
        if let Some(index) = at {
            self.endpoints[index].in_flight -= 1;
        }
    }

    /// Renumbers endpoints, some of which may be gone; no waiter loses its place by that.
    pub(crate) fn renumber(&mut self, to: &dyn Fn(usize) -> Option<usize>) {
        for waiter in &mut self.waiting {
            waiter.bound = waiter.bound.and_then(to);
            waiter.tried = waiter.tried.and_then(to);
            waiter.home = None;
        }
    }

    pub(crate) fn arrive(
        &mut self,
        mut waiter: Waiter,
        choose: &mut Choose<'_>,
    ) -> Result<Outcome, String> {
        let Some(queue) = self.queue else { return self.arrive_without_queue(&waiter, choose) };
        waiter.home = self.home(&waiter);
        if let Some(home) = waiter.home {
            if self.is_free(home) {
                return Ok(self.dispatch(home));
            }
            if queue.max_per_endpoint.is_some_and(|max| self.bound_to(home) >= max) {
                waiter.overflowed = true;
                waiter.home = None;
            }
        }
        self.count_queued();
        if waiter.home.is_none() {
            let may_serve = self.may_serve(&waiter);
            if may_serve.is_empty() {
                let full = waiter.overflowed;
                return Ok(Outcome::Rejected(if full {
                    Rejection::QueueFull
                } else {
                    Rejection::Unavailable
                }));
            }
            let free = self.free(may_serve);
            if !free.is_empty() {
                let index = choose(waiter.tag, &free, &self.endpoints)?;
                return Ok(self.dispatch(index));
            }
        }
        if self.waiting.len() >= queue.max as usize {
            return Ok(Outcome::Rejected(Rejection::QueueFull));
        }
        let ahead = self.waiting.iter().filter(|other| {
            waiter.home.is_none() || other.home.is_none() || other.home == waiter.home
        });
        let position = ahead.count() as u32;
        self.waiting.push(waiter);
        Ok(Outcome::Queued(position))
    }

    fn arrive_without_queue(
        &mut self,
        waiter: &Waiter,
        choose: &mut Choose<'_>,
    ) -> Result<Outcome, String> {
        let bound = self.bound(waiter);
        if let Some(index) = bound.filter(|index| self.is_free(*index)) {
            return Ok(self.dispatch(index));
        }
        let mut rejection = if bound.is_some() { Rejection::Full } else { Rejection::Unavailable };
        for tier in self.tiers() {
            let usable = self.usable(waiter, tier);
            if usable.is_empty() {
                continue;
            }
            rejection = Rejection::Full;
            let free = self.free(usable);
            if !free.is_empty() {
                let index = choose(waiter.tag, &free, &self.endpoints)?;
                return Ok(self.dispatch(index));
            }
        }
        Ok(Outcome::Rejected(rejection))
    }

    /// Settles after any event: every waiter, in order of arrival, gets a slot if one is free for
    /// it, or is rejected if no endpoint may serve it.
    pub(crate) fn settle(
        &mut self,
        choose: &mut Choose<'_>,
    ) -> Result<Vec<(u64, Outcome)>, String> {
        self.find_homes();
        self.count_queued();
        let mut outcomes = Vec::new();
        for waiter in std::mem::take(&mut self.waiting) {
            let candidates = match waiter.home {
                Some(home) => vec![home],
                None => self.may_serve(&waiter),
            };
            if candidates.is_empty() {
                outcomes.push((waiter.tag, Outcome::Rejected(Rejection::Unavailable)));
                continue;
            }
            let free = self.free(candidates);
            if free.is_empty() {
                self.waiting.push(waiter);
                continue;
            }
            let index = choose(waiter.tag, &free, &self.endpoints)?;
            if let Some(home) = waiter.home {
                self.endpoints[home].queued -= 1;
            }
            outcomes.push((waiter.tag, self.dispatch(index)));
        }
        Ok(outcomes)
    }

    fn count_queued(&mut self) {
        for index in 0..self.endpoints.len() {
            self.endpoints[index].queued = self.bound_to(index);
        }
    }

    fn find_homes(&mut self) {
        let mut waiting = std::mem::take(&mut self.waiting);
        let max = self.queue.and_then(|queue| queue.max_per_endpoint);
        for at in 0..waiting.len() {
            let home = if waiting[at].overflowed { None } else { self.home(&waiting[at]) };
            let ahead = waiting[..at].iter().filter(|other| other.home == home).count() as u32;
            let full = home.is_some() && max.is_some_and(|max| ahead >= max);
            waiting[at].overflowed |= full;
            waiting[at].home = home.filter(|_| !full);
        }
        self.waiting = waiting;
    }
}
