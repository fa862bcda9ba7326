//! Arrivals: an exchange that wants an endpoint gets a slot, a place in the queue, or the reason
//! for neither.

use std::sync::Arc;

use crate::dispatcher::DispatchAnswer;
use crate::dispatcher::balancer::Balancer;
use crate::dispatcher::request::Request;
use crate::dispatcher::slot::Slot;
use crate::dispatcher::ticket::Ticket;
use crate::state::decision::Rejection;
use crate::state::member::Tried;

/// The outcome of an exchange's arrival.
#[derive(Debug)]
#[must_use = "dropping it gives up the slot or the place in the queue"]
pub enum Arrival {
    /// The exchange has a slot.
    Dispatched(Slot),
    /// The exchange waits.
    Queued(Ticket),
    /// The exchange is rejected.
    Rejected(Rejection),
}

impl Balancer {
    /// Takes in an exchange that wants an endpoint. The policy dispatches it if an endpoint may be
    /// picked and no waiting exchange could use that endpoint. Otherwise it is queued if there is a
    /// queue with room, or rejected. If this pool has a successor, the successor decides, and the
    /// slot belongs to the successor.
    pub fn arrive(self: &Arc<Self>, request: &Request<'_>) -> Arrival {
        self.picker.note_arrival(request.tried);
        if !self.is_gated() {
            match self.pick_without_waiting(request) {
                Ok(taken) => {
                    return Arrival::Dispatched(Slot::new(self, taken, request.holder));
                }
                // A limit or a successor was set in the meantime.
                Err(Rejection::Full) if self.is_gated() || self.queue.is_some() => {}
                Err(rejection) => return self.rejected(rejection),
            }
        }
        let answer = match self.dispatcher() {
            Ok(mut dispatcher) => dispatcher.receive(request),
            Err(successor) => return self.arrive_at(&successor, request),
        };
        match answer {
            DispatchAnswer::Dispatched(taken) => {
                Arrival::Dispatched(Slot::new(self, taken, request.holder))
            }
            DispatchAnswer::Queued(place) => {
                self.common.figures.queued.add();
                Arrival::Queued(Ticket::new(self, place, request.holder))
            }
            DispatchAnswer::Rejected(rejection) => self.rejected(rejection),
        }
    }

    /// Returns true if an untried endpoint may be picked, limits aside.
    pub fn has_untried(&self, now_us: u64, tried: &Tried) -> bool {
        if let Some(latest) = self.successor() {
            return latest.has_untried(now_us, &latest.tried_from(self, tried));
        }
        let panic = self.picker.is_panicking();
        let mut members = self.picker.members.iter().enumerate();
        members
            .any(|(index, member)| member.state.is_usable(now_us, panic) && !tried.contains(index))
    }

    fn rejected(&self, rejection: Rejection) -> Arrival {
        match rejection {
            Rejection::Unavailable => self.common.figures.unavailable.add(),
            Rejection::QueueFull => self.common.figures.queue_full.add(),
            Rejection::Full => self.common.figures.full.add(),
        }
        Arrival::Rejected(rejection)
    }

    /// Passes an exchange that arrived here on to the successor.
    #[cold]
    fn arrive_at(&self, successor: &Arc<Self>, request: &Request<'_>) -> Arrival {
        let tried = successor.tried_from(self, request.tried);
        let bound = request.bound.and_then(|index| successor.index_from(self, index));
        successor.arrive(&Request { bound, tried: &tried, ..*request })
    }
}
