//! What traffic says of an endpoint: failures that count by the pool's `passive`, and answers that clear it. When that ejects an endpoint is
//! `weir-balance`'s to decide.

use tokio::time::Instant;
use weir_balance::AfterFailure;
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
