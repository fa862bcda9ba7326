//! The surroundings of an exchange: its worker, its configuration, its listener and its deadline.

use std::cell::Cell;
use std::ops::Deref;
use std::rc::Rc;

use weir_stats::Cause;

use crate::exchange::client_side::ConnectionFacts;
use crate::net::Net;
use crate::snapshot::CompiledListener;
use crate::snapshot::generation::{Generation, Leaving, Seat};
use crate::snapshot::series::ListenerCounts;
use crate::time::instant::Instant;
use crate::time::pace::MinRate;
use crate::worker::Worker;
use crate::worker::sessions::SessionKey;

/// The worker, the configuration and the listener of one exchange. The parts are behind one
/// reference, because nearly all functions of an exchange pass them on.
pub(crate) struct Scope<'a, N: Net>(pub(crate) &'a ScopeParts<'a, N>);

/// The parts of a scope.
pub(crate) struct ScopeParts<'a, N: Net> {
    pub(crate) worker: &'a Rc<Worker<N>>,
    pub(crate) generation: &'a Rc<Generation>,
    pub(crate) listener: &'a CompiledListener,
    /// The counters of exchanges of this listener.
    pub(crate) counts: &'a ListenerCounts,
    /// The listener's number in the generation.
    pub(crate) number: usize,
    /// The deadline of the exchange as a whole.
    deadline: &'a Cell<Option<Instant>>,
    leaving: Leaving,
    /// Set if another process may continue the connection.
    may_part: bool,
}

impl<'a, N: Net> Deref for Scope<'a, N> {
    type Target = ScopeParts<'a, N>;

    fn deref(&self) -> &Self::Target {
        self.0
    }
}

impl<'a, N: Net> ScopeParts<'a, N> {
    pub(crate) fn new(
        worker: &'a Rc<Worker<N>>,
        seat: &'a Seat,
        deadline: &'a Cell<Option<Instant>>,
        facts: &ConnectionFacts,
    ) -> Option<Self> {
        let Seat { generation, listener, number, .. } = seat;
        // The listener may have gained or lost TLS in a reload since this connection was accepted.
        let fits = facts.tls.is_some() == listener.tls.is_some();
        let leaving = if fits { seat.leaving } else { Leaving::Yes };
        let may_part = leaving == Leaving::No && facts.may_part;
        Some(Self {
            worker,
            generation,
            listener,
            counts: seat.counts()?,
            number: *number,
            deadline,
            leaving,
            may_part,
        })
    }
}

impl<N: Net> Scope<'_, N> {
    /// Records the bytes that a running exchange holds in buffers.
    #[inline]
    pub(crate) fn holds(self, session: SessionKey, bytes: usize) {
        self.worker.sessions.holds(session, bytes);
    }

    /// The cause for which the running exchange has to end at once, if there is one.
    #[inline]
    pub(crate) fn ends_now(self, session: SessionKey) -> Option<Cause> {
        if self.worker.is_cut() {
            return Some(Cause::Shutdown);
        }
        self.worker.sessions.given_up(session)
    }

    /// Returns true if the connection closes after this response.
    pub(crate) fn is_last(self) -> bool {
        self.leaving == Leaving::Yes || self.worker.is_stopping() && !self.is_parting()
    }

    /// The deadline of the exchange as a whole, as far as it is known.
    pub(crate) fn deadline(self) -> Option<Instant> {
        self.deadline.get()
    }

    /// Sets the deadline of the exchange as a whole; `None` if it has none.
    pub(crate) fn set_deadline(self, deadline: Option<Instant>) {
        self.deadline.set(deadline);
    }

    /// The minimum rate of a client that sends a body or receives a response; `limited` is set
    /// while its exchange holds a slot of an endpoint with a limit.
    pub(crate) fn client_rate(self, limited: bool) -> Option<MinRate> {
        let timeouts = &self.listener.timeouts;
        let in_slot = timeouts.slot_min_rate.filter(|_| limited);
        let bytes = timeouts.min_rate.max(in_slot)?;
        Some(MinRate { bytes, after: timeouts.after })
    }

    /// Returns true if the connection is to be handed to another process as soon as possible.
    pub(crate) fn is_parting(self) -> bool {
        self.worker.is_parting() && self.may_part
    }
}

#[expect(
    clippy::expl_impl_clone_on_copy,
    reason = "a derived one would require `N: Clone`, though `N` is only borrowed"
)]
impl<N: Net> Clone for Scope<'_, N> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<N: Net> Copy for Scope<'_, N> {}
