//! The data of an exchange, as far as they are known, in three parts by the stages that write them:
//! reading the request, dispatching it, answering it. `record.rs` reads all at the end.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use smallvec::SmallVec;
use weir_balance::{Ahead, Decision, Slot, WaitsFor};
use weir_stats::{Cause, Delays, GrpcStatus, HTTP2, Setback, Times, WaitedFor};

use crate::http::client_address::PeerTrust;
use crate::http::request_id::RequestId;
use crate::http::trailers::TrailerRules;
use crate::limiting::Told;
use crate::limiting::table::OpenPlace;
use crate::time::instant::Instant;
use crate::upstream::UpstreamPool;
use crate::upstream::affinity::Claim;
use crate::worker::migration::WaitingRequest;

/// The state of the queue at an exchange's arrival.
pub(crate) struct Wait {
    pub(crate) waited_for: WaitedFor,
    /// The ids of the first exchanges ahead of it.
    pub(crate) ahead: Ahead,
}

impl Wait {
    pub(crate) fn new(waits_for: WaitsFor, ahead: Ahead) -> Self {
        let waited_for = match waits_for {
            WaitsFor::Any => WaitedFor::AnyEndpoint,
            WaitsFor::Bound => WaitedFor::Sticky,
            WaitsFor::Key => WaitedFor::Key,
        };
        Self { waited_for, ahead }
    }
}

/// A request as it arrived: its times, its client, and the amount that was read.
pub(crate) struct RequestArrival {
    pub(crate) first_byte: Instant,
    /// The time of the first byte on the wall clock, µs since 1970: half the size of a
    /// `SystemTime`.
    started_us: u64,
    /// The time at which the request head was complete.
    pub(crate) head_end: Instant,
    /// Set if `Heads::request` holds this exchange's head.
    pub(crate) has_head: bool,
    pub(crate) client: Option<IpAddr>,
    /// The trust in the peer's forwarding headers.
    pub(crate) trust: PeerTrust,
    pub(crate) request_id: RequestId,
    /// The number in the process.
    pub(crate) number: u64,
    /// The exchange's places in the counts of its client's exchanges in flight.
    pub(crate) places: Vec<OpenPlace>,
    /// The limit headers of its response.
    pub(crate) told: Option<Box<Told>>,
    /// The number of limits by key that were asked about its present route, in their order; at most
    /// 255.
    pub(crate) limits_asked: u8,
    /// The queue position that it had in another process.
    pub(crate) waiting: Option<Box<WaitingRequest>>,
    /// The rules for trailers of the request; `None` if there are none.
    pub(crate) trailers: Option<Arc<TrailerRules>>,
    /// Set once the beginning of the body, if there is one, was taken from the client.
    pub(crate) body_begun: bool,
    /// Set once the body was read completely, so that the bytes after it are the next request.
    pub(crate) body_read: bool,
    pub(crate) bytes_received: u64,
}

impl RequestArrival {
    pub(crate) fn new(first_byte: Instant, started: SystemTime, number: u64) -> Self {
        let since = started.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            first_byte,
            started_us: since.as_micros() as u64,
            head_end: first_byte,
            has_head: false,
            client: None,
            trust: PeerTrust::Untrusted,
            request_id: RequestId::default(),
            number,
            places: Vec::new(),
            told: None,
            limits_asked: 0,
            waiting: None,
            trailers: None,
            body_begun: false,
            body_read: false,
            bytes_received: 0,
        }
    }

    /// The time of the first byte on the wall clock, in whole microseconds.
    pub(crate) fn started(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_micros(self.started_us)
    }
}

/// A pool of the exchange's generation.
#[derive(Clone, Copy)]
pub(crate) struct PoolRef<'a> {
    pub(crate) pool: &'a Arc<UpstreamPool>,
    /// Its number in the generation.
    pub(crate) number: usize,
}

/// The pool and the endpoint that serve a request, and the wait for them.
pub(crate) struct Placement<'a> {
    pub(crate) pool: Option<PoolRef<'a>>,
    /// The exchange's place in the pool's count of exchanges in flight, and the one in its count of
    /// retries.
    pub(crate) pool_place: Option<OpenPlace>,
    pub(crate) retry_place: Option<OpenPlace>,
    /// The result of evaluating the client's sticky cookie.
    pub(crate) claim: Claim,
    pub(crate) slot: Option<Slot>,
    /// The time at which the slot was obtained.
    pub(crate) slot_since: Instant,
    /// The position in the queue at the first arrival there, from 1; 0 if it did not have to wait.
    pub(crate) queue_position: u32,
    /// The state of the queue at that arrival; `None` without one.
    pub(crate) wait: Option<Box<Wait>>,
    /// The reason for the latest choice of an endpoint.
    pub(crate) decision: Decision,
    /// The hashed key of that choice.
    pub(crate) key: u64,
    pub(crate) endpoint: Option<usize>,
    pub(crate) attempts: u32,
    /// Failed attempts that were followed by another one: the endpoint and the reason.
    pub(crate) failed: SmallVec<[(usize, Setback); 2]>,
    pub(crate) reused: bool,
    /// The protocol of the latest connection.
    pub(crate) spoken: Option<SpokenProtocol>,
}

/// A protocol that is spoken with an endpoint.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum SpokenProtocol {
    Http1,
    Http2,
}

impl SpokenProtocol {
    /// The name of the protocol in logs, as that of a client's.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Http1 => "HTTP/1.1",
            Self::Http2 => HTTP2,
        }
    }
}

impl<'a> Placement<'a> {
    pub(crate) fn new(first_byte: Instant) -> Self {
        Self {
            pool: None,
            pool_place: None,
            retry_place: None,
            claim: Claim::None,
            slot: None,
            slot_since: first_byte,
            queue_position: 0,
            wait: None,
            decision: Decision::default(),
            key: 0,
            endpoint: None,
            attempts: 0,
            failed: SmallVec::new(),
            reused: false,
            spoken: None,
        }
    }

    /// The pool, once the exchange was assigned to one.
    pub(crate) fn pool(&self) -> Option<&'a Arc<UpstreamPool>> {
        Some(self.pool?.pool)
    }

    /// Gives the slot back, because the endpoint has done its part. The time that it took is
    /// reported to the regret meter.
    pub(crate) fn finish_slot(&mut self, now: Instant) {
        (self.pool_place, self.retry_place) = (None, None);
        if let Some(slot) = self.slot.take() {
            slot.finish(now.micros_since(self.slot_since));
        }
    }
}

/// The response and the end of an exchange, as far as they are known.
pub(crate) struct ExchangeOutcome {
    pub(crate) cause: Cause,
    /// The status sent to the client; 0 before that.
    pub(crate) status: u16,
    /// The status of the call, once the response has told it, if the request is one of gRPC.
    pub(crate) grpc_status: Option<GrpcStatus>,
    /// The time at which the response was sent completely, once that is known.
    pub(crate) ended: Option<Instant>,
    pub(crate) times: Times,
    /// Waits inside the phases.
    pub(crate) delays: Delays,
    pub(crate) bytes_sent: u64,
    pub(crate) body_bytes_sent: u64,
    /// Set if its bytes are counted as they pass: it is a tunnel.
    pub(crate) is_counted: bool,
}

impl Default for ExchangeOutcome {
    fn default() -> Self {
        Self {
            cause: Cause::Complete,
            status: 0,
            grpc_status: None,
            ended: None,
            times: Times::default(),
            delays: Delays::default(),
            bytes_sent: 0,
            body_bytes_sent: 0,
            is_counted: false,
        }
    }
}
