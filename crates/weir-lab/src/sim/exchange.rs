//! A request in the system, and the wakers of tickets. It is moved by `engine.rs`.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::Wake;

use weir_balance::{Slot, Ticket, Tried};

use super::agenda::AttemptToken;
use super::watch::Stand;

/// A request in the system.
#[derive(Debug)]
pub(crate) struct SimExchange {
    /// Index among the outcomes.
    pub(crate) request: usize,
    pub(crate) attempt: u64,
    /// Number in the order in which requests asked the balancer.
    pub(crate) seq: u64,
    /// Time at which it asked.
    pub(crate) asked: u64,
    /// Time at which it reached its server.
    pub(crate) reached: u64,
    pub(crate) bound: Option<usize>,
    /// Its client in a closed loop.
    pub(crate) client: Option<u32>,
    /// The worker whose balancer it asks.
    pub(crate) worker: usize,
    pub(crate) tried: Tried,
    pub(crate) holds: Holds,
}

/// The ticket or slot that a request holds.
#[derive(Debug)]
pub(crate) enum Holds {
    Nothing,
    Ticket(Ticket),
    Slot(Slot),
}

/// Requests whose tickets were woken.
#[derive(Debug, Default)]
pub(crate) struct WokenTickets(Mutex<Vec<AttemptToken>>);

impl WokenTickets {
    pub(crate) fn take(&self, into: &mut Vec<AttemptToken>) {
        std::mem::swap(into, &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

pub(crate) struct WakeOne {
    pub(crate) woken: Arc<WokenTickets>,
    pub(crate) token: AttemptToken,
}

impl Wake for WakeOne {
    fn wake(self: Arc<Self>) {
        self.woken.0.lock().unwrap_or_else(PoisonError::into_inner).push(self.token);
    }
}

/// A slot that a request gets.
#[derive(Clone, Copy)]
pub(crate) struct TakenSlot {
    pub(crate) endpoint: usize,
    /// Set if only requests bound to the endpoint get a slot there.
    pub(crate) stalled: bool,
}

/// The state of a queued request, with regard to `place` if one is given.
pub(crate) fn stand(
    present: &[Option<SimExchange>],
    token: AttemptToken,
    place: Option<TakenSlot>,
) -> Stand {
    let exchange = present.get(token.place as usize).and_then(Option::as_ref);
    let Some(exchange) = exchange.filter(|exchange| exchange.attempt == token.attempt) else {
        return Stand::Gone;
    };
    let wants = |place: TakenSlot| {
        let may = !place.stalled || exchange.bound == Some(place.endpoint);
        may && !exchange.tried.contains(place.endpoint)
    };
    match exchange.holds {
        Holds::Ticket(_) if place.is_none_or(wants) => Stand::Waits,
        Holds::Ticket(_) => Stand::WaitsForAnother,
        Holds::Nothing | Holds::Slot(_) => Stand::Gone,
    }
}
