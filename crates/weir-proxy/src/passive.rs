//! What traffic says of an endpoint: failures that count by the pool's `passive`, answers that clear it, stalls that picks found. What
//! follows of it is `weir-balance`'s to decide.

use tokio::time::Instant;
use weir_balance::AfterFailure;
use weir_config::model::PassiveCause;

use crate::conversation::Failure;
use crate::notice::{Notice, Noticed};
use crate::shared::Shared;
use crate::upstream::UpstreamPool;

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

impl Shared {
    /// An endpoint failed; `(pool, endpoint)`.
    pub(crate) fn endpoint_failed(&self, (number, endpoint): (usize, usize), cause: PassiveCause) {
        let Some(pool) = self.pools.get(number) else { return };
        if !pool.passive_on.contains(&cause) {
            return;
        }
        let now_us = self.balance_clock(Instant::now());
        if let AfterFailure::Ejected { until_us } = pool.balancer.connect_failed(endpoint, now_us) {
            let what = Noticed::Ejected { cause, until_us };
            self.notices.tell(Notice { pool: number, endpoint, what });
        }
    }

    /// Tells of endpoints of a pool that a pick has found stalled.
    pub(crate) fn tell_stalls(&self, number: usize, now_us: u64) {
        let Some(pool) = self.pools.get(number) else { return };
        for stall in pool.balancer.take_stalls() {
            let what = Noticed::Stalled {
                silent_us: now_us.saturating_sub(stall.silent_since_us),
                unanswered: stall.unanswered,
            };
            self.notices.tell(Notice { pool: number, endpoint: stall.index, what });
        }
    }

    /// An endpoint that was stalled has answered.
    pub(crate) fn endpoint_answers_again(&self, (pool, endpoint): (usize, usize)) {
        self.notices.tell(Notice { pool, endpoint, what: Noticed::Answers });
    }

    /// The head of a response came.
    pub(crate) fn endpoint_answered(&self, (number, endpoint): (usize, usize), status: u16) {
        let Some(pool) = self.pools.get(number) else { return };
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
