//! Passive health: failures in traffic that count by the pool's `passive`, responses that clear
//! them, and stalls that picks found. `weir-balance` decides the consequences.

use std::sync::Arc;

use weir_balance::{AfterFailure, Slot};
use weir_config::model::PassiveCause;
use weir_stats::GrpcStatus;

use crate::exchange::attempt::Failure;
use crate::exchange::scope::Scope;
use crate::net::Net;
use crate::time::instant::Instant;
use crate::upstream::connect_trouble::{Announce, ConnectFailure};
use crate::upstream::notice::{Notice, NoticeSent, Noticed};
use crate::upstream::{EndpointRef, UpstreamPool};

/// The passive cause of an attempt without a response; `None` when the endpoint was not, or
/// possibly not, at fault.
pub(crate) fn cause_of(failure: Failure) -> Option<PassiveCause> {
    match failure {
        Failure::Silent | Failure::Cut => Some(PassiveCause::Reset),
        Failure::ResponseTimeout | Failure::TryTimeout => Some(PassiveCause::Timeout),
        Failure::BadResponse => Some(PassiveCause::Invalid),
        // Only after repeats on its connections: it takes no requests, as one that takes no
        // connection.
        Failure::Unprocessed => Some(PassiveCause::Connect),
        Failure::Body(_)
        | Failure::BodyTimeout
        | Failure::BodyTooSlow
        | Failure::SendTimeout
        | Failure::ClientGone => None,
    }
}

impl<N: Net> Scope<'_, N> {
    /// Records a failure of an endpoint.
    pub(crate) fn endpoint_failed(self, at: EndpointRef<'_>, cause: PassiveCause) {
        if at.pool.passive_on.contains(&cause) {
            self.count_failure(at, cause);
        }
    }

    fn count_failure(self, at: EndpointRef<'_>, cause: PassiveCause) {
        let EndpointRef { pool, index, .. } = at;
        let now_us = self.worker.balance_clock(Instant::now());
        let random = self.worker.random.borrow_mut().u64(..);
        let after = pool.balancer.endpoint_failed(index, now_us, random);
        if let AfterFailure::Ejected { until_us } = after {
            let what = Noticed::Ejected { endpoint: index, cause, until_us };
            self.tell(pool, what);
            self.worker.tick_at(&pool.balancer, until_us);
        }
    }

    /// Sends notices about endpoints of a pool that a pick has found stalled.
    pub(crate) fn tell_stalls(self, pool: &Arc<UpstreamPool>, now_us: u64) {
        for stall in pool.balancer.take_stalls() {
            let what = Noticed::Stalled {
                endpoint: stall.index,
                silent_us: now_us.saturating_sub(stall.silent_since_us),
                unanswered: stall.unanswered,
            };
            self.tell(pool, what);
        }
    }

    /// Records that the endpoint of a slot has answered; if it was stalled, sends a notice.
    pub(crate) fn slot_answered(
        self,
        slot: Option<&mut Slot>,
        at: EndpointRef<'_>,
        heard: Instant,
    ) {
        let heard_us = self.worker.balance_clock(heard);
        if slot.is_some_and(|slot| slot.answered(heard_us).is_some()) {
            self.tell(at.pool, Noticed::Answers { endpoint: at.index });
        }
    }

    /// Records a failed connect.
    pub(crate) fn connect_failed(self, at: EndpointRef<'_>, failure: ConnectFailure) {
        let Some(one) = at.pool.endpoints.get(at.index) else { return };
        if one.trouble.note(failure) == Announce::Yes
            && self.tell(at.pool, Noticed::ConnectFailed { endpoint: at.index }) == NoticeSent::No
        {
            one.trouble.was_not_announced();
        }
    }

    fn tell(self, pool: &Arc<UpstreamPool>, what: Noticed) -> NoticeSent {
        self.worker.process.notices.tell(Notice { pool: Arc::clone(pool), what })
    }

    /// Records the head of a response.
    pub(crate) fn endpoint_answered(self, at: EndpointRef<'_>, status: u16, judged_by: JudgedBy) {
        if matches!(*at.pool.passive_on, [PassiveCause::Connect]) {
            return;
        }
        let on = &at.pool.passive_on;
        let gateway = matches!(status, 502..=504) && on.contains(&PassiveCause::GatewayStatus);
        if gateway || status >= 400 && on.contains(&PassiveCause::Status(status)) {
            self.count_failure(at, PassiveCause::Status(status));
        } else if judged_by == JudgedBy::Status {
            at.pool.balancer.endpoint_succeeded(at.index);
        }
    }

    /// Records the status of a call of gRPC, at a pool where such statuses count.
    pub(crate) fn call_ended(self, at: EndpointRef<'_>, status: GrpcStatus) {
        if at.pool.counts_calls() {
            if status == GrpcStatus::OK || !at.pool.passive_on.contains(&PassiveCause::Grpc(status))
            {
                at.pool.balancer.endpoint_succeeded(at.index);
            } else {
                self.count_failure(at, PassiveCause::Grpc(status));
            }
        }
    }
}

/// The part of a response that says if its endpoint succeeded.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum JudgedBy {
    /// The status.
    Status,
    /// The status of a call of gRPC, which may follow in the trailers, unless the response's own is
    /// a failure.
    GrpcStatus,
}

impl UpstreamPool {
    /// Returns true if a status of gRPC counts as a failure.
    pub(crate) fn counts_calls(&self) -> bool {
        self.passive_on.iter().any(|cause| matches!(cause, PassiveCause::Grpc(_)))
    }

    /// Records an established connection; it clears the endpoint's failures if only failed connects
    /// count.
    pub(crate) fn endpoint_connected(&self, endpoint: usize) {
        if matches!(*self.passive_on, [PassiveCause::Connect]) {
            self.balancer.endpoint_succeeded(endpoint);
        }
    }
}
