//! What traffic says of an endpoint: failures that count by the pool's `passive`, answers that clear it, stalls that picks found. What
//! follows of it is `weir-balance`'s to decide.

use tokio::time::Instant;
use weir_balance::{AfterFailure, Slot};
use weir_config::model::PassiveCause;

use crate::conversation::Failure;
use crate::net::Net;
use crate::notice::{Notice, Noticed};
use crate::upstream::UpstreamPool;
use crate::worker::Worker;

/// What a talk that brought no response says of the endpoint; `None` when it was not at fault, or may not have been.
pub(crate) fn cause_of(failure: Failure) -> Option<PassiveCause> {
    match failure {
        Failure::Silent | Failure::Cut => Some(PassiveCause::Reset),
        Failure::ResponseTimeout => Some(PassiveCause::Timeout),
        Failure::BadResponse
        | Failure::Body(_)
        | Failure::BodyTimeout
        | Failure::SendTimeout
        | Failure::ClientGone => None,
    }
}

impl<N: Net> Worker<N> {
    /// An endpoint failed; `(pool, endpoint)`.
    pub(crate) fn endpoint_failed(&self, (number, endpoint): (usize, usize), cause: PassiveCause) {
        let Some(pool) = self.shared.pools.get(number) else { return };
        if !pool.passive_on.contains(&cause) {
            return;
        }
        let now_us = self.balance_clock(Instant::now());
        if let AfterFailure::Ejected { until_us } = pool.balancer.connect_failed(endpoint, now_us) {
            let what = Noticed::Ejected { endpoint, cause, until_us };
            self.shared.notices.tell(Notice { pool: number, what });
            self.tick_at(&pool.balancer, until_us);
        }
    }

    /// Tells of endpoints of a pool that a pick has found stalled.
    pub(crate) fn tell_stalls(&self, number: usize, now_us: u64) {
        let Some(pool) = self.shared.pools.get(number) else { return };
        for stall in pool.balancer.take_stalls() {
            let what = Noticed::Stalled {
                endpoint: stall.index,
                silent_us: now_us.saturating_sub(stall.silent_since_us),
                unanswered: stall.unanswered,
            };
            self.shared.notices.tell(Notice { pool: number, what });
        }
    }

    /// The endpoint that a slot is for has answered; when it was stalled, that is told.
    pub(crate) fn slot_answered(
        &self,
        slot: Option<&mut Slot>,
        (pool, endpoint): (usize, usize),
        heard: Instant,
    ) {
        if slot.is_some_and(|slot| slot.answered(self.balance_clock(heard)).is_some()) {
            self.shared.notices.tell(Notice { pool, what: Noticed::Answers { endpoint } });
        }
    }

    /// The head of a response came.
    pub(crate) fn endpoint_answered(&self, (number, endpoint): (usize, usize), status: u16) {
        let Some(pool) = self.shared.pools.get(number) else { return };
        if matches!(*pool.passive_on, [PassiveCause::Connect]) {
            return;
        }
        if matches!(status, 502..=504) && pool.passive_on.contains(&PassiveCause::Status) {
            self.endpoint_failed((number, endpoint), PassiveCause::Status);
        } else {
            pool.balancer.connect_succeeded(endpoint);
        }
    }
}

impl UpstreamPool {
    /// A connection came about: where nothing else is a failure, that clears an endpoint.
    pub(crate) fn endpoint_connected(&self, endpoint: usize) {
        if matches!(*self.passive_on, [PassiveCause::Connect]) {
            self.balancer.connect_succeeded(endpoint);
        }
    }
}
