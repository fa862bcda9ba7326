//! The rules by which a failed attempt is followed by another one, as `retry` of the pool or the
//! route configures them. It waits for nothing; `dispatch.rs` applies the rules.

use std::time::Duration;

use weir_balance::{Permit, RetryBudget};
use weir_config::model::{Retry, RetryOn};
use weir_stats::{Cause, GrpcStatus, Setback};
use weir_wire::Method;

/// The number of times that the first back-off may be doubled.
const MOST_DOUBLINGS: u32 = 4;
/// The longest back-off, as a multiple of the first.
const LONGEST_BACKOFF: u32 = 10;

/// The failure of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The connect was refused.
    Refused,
    /// The endpoint did nothing for the request, as it said itself (`REFUSED_STREAM`, GOAWAY).
    Unprocessed,
    /// The endpoint takes no WebSockets over HTTP/2.
    NoWebSockets,
    /// No response, for this cause.
    Cause(Cause),
    /// A response of this status.
    Status(u16),
    /// A response of gRPC with this status in its head.
    Grpc(GrpcStatus),
}

impl Trouble {
    /// The cause with which the exchange ends if no other attempt follows. A response is no failure
    /// by itself: it has a cause only if it was discarded for another attempt and no endpoint was
    /// available for that.
    pub(crate) fn cause(self) -> Cause {
        match self {
            Self::Refused => Cause::ConnectFailed,
            Self::Unprocessed => Cause::UpstreamReset,
            Self::NoWebSockets => Cause::NoWebsocket,
            Self::Cause(cause) => cause,
            Self::Status(_) | Self::Grpc(_) => Cause::NoEndpoint,
        }
    }

    /// The failure as it is recorded.
    pub(crate) fn setback(self) -> Setback {
        match self {
            Self::Refused | Self::Unprocessed | Self::NoWebSockets | Self::Cause(_) => {
                Setback::Cause(self.cause())
            }
            Self::Status(status) => Setback::Status(status),
            Self::Grpc(status) => Setback::Grpc(status),
        }
    }

    /// Returns true if the endpoint did nothing for the request.
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the form of a filter")]
    pub(crate) fn is_unprocessed(&self) -> bool {
        *self == Self::Unprocessed
    }

    fn is(self, on: RetryOn) -> bool {
        match on {
            // Nothing was sent.
            RetryOn::Refused | RetryOn::Connect
                if matches!(self, Self::Unprocessed | Self::NoWebSockets) =>
            {
                true
            }
            RetryOn::Refused => self == Self::Refused,
            RetryOn::Connect => matches!(
                self.cause(),
                Cause::ConnectFailed | Cause::ConnectTimeout | Cause::UpstreamTls
            ),
            RetryOn::Reset => self.cause() == Cause::UpstreamReset,
            RetryOn::Timeout => matches!(
                self,
                Self::Cause(
                    Cause::ResponseTimeout | Cause::UpstreamSendTimeout | Cause::TryTimeout
                )
            ),
            RetryOn::Invalid => self == Self::Cause(Cause::BadResponse),
            RetryOn::Status(status) => self == Self::Status(status),
            RetryOn::Grpc(status) => self == Self::Grpc(status),
        }
    }
}

/// The rules for retries.
#[derive(Clone, Debug)]
pub(crate) struct RetryRules {
    /// The number of attempts after the first.
    attempts: u32,
    on: Box<[RetryOn]>,
    backoff: Option<Duration>,
    within: Option<Duration>,
    resends_all: bool,
}

impl RetryRules {
    /// Compiles the configured rules.
    pub(crate) fn new(retry: &Retry) -> Self {
        Self {
            attempts: retry.attempts,
            on: retry.on.as_slice().into(),
            backoff: retry.backoff,
            within: retry.within,
            resends_all: retry.non_idempotent,
        }
    }

    /// Returns true if this failure leads to another attempt, after `retries` earlier ones and
    /// `elapsed` time since the request.
    pub(crate) fn covers(&self, trouble: Trouble, retries: u32, elapsed: Duration) -> bool {
        retries < self.attempts
            && self.within.is_none_or(|within| elapsed <= within)
            && self.on.iter().any(|on| trouble.is(*on))
    }

    /// Returns true if a response of this status may lead to another attempt. It is called for
    /// every response, before any other check.
    pub(crate) fn minds_status(&self, status: u16) -> bool {
        status >= 400 && self.on.contains(&RetryOn::Status(status))
    }

    /// Returns true if a response of gRPC with this status may lead to another attempt.
    pub(crate) fn minds_grpc(&self, status: GrpcStatus) -> bool {
        self.on.contains(&RetryOn::Grpc(status))
    }

    /// Returns true if a request may be sent again after bytes of it were sent upstream (RFC 9110
    /// section 9.2.2).
    pub(crate) fn may_resend(&self, method: Method) -> bool {
        self.resends_all || method.is_idempotent()
    }

    /// Returns true if a status of gRPC may lead to another attempt.
    pub(crate) fn minds_any_grpc(&self) -> bool {
        self.on.iter().any(|on| matches!(on, RetryOn::Grpc(_)))
    }

    /// Returns true if requests may be repeated that were sent, so that a body is to be kept.
    pub(crate) fn repeats_sent(&self) -> bool {
        let is_sent = |on: &RetryOn| !matches!(on, RetryOn::Connect | RetryOn::Refused);
        self.attempts > 0 && self.on.iter().any(is_sent)
    }

    /// Returns true if an endpoint may be tried a second time, after a back-off.
    pub(crate) fn asks_again(&self) -> bool {
        self.backoff.is_some()
    }

    /// The back-off after `earlier` ones: "full jitter", a random time up to a limit that doubles.
    /// `random` has 64 random bits.
    pub(crate) fn backoff(&self, earlier: u32, random: u64) -> Duration {
        let first = self.backoff.unwrap_or_default();
        let longest = first * (1 << earlier.min(MOST_DOUBLINGS)).min(LONGEST_BACKOFF);
        let longest_us = longest.as_micros().min(u128::from(u64::MAX));
        Duration::from_micros(((longest_us * u128::from(random)) >> 64) as u64)
    }
}

/// The bound on the retries of all requests to a pool.
#[derive(Debug)]
pub struct PoolRetryBudget(Option<RetryBudget>);

impl PoolRetryBudget {
    pub(crate) fn new(retry: &Retry) -> Self {
        Self(retry.budget_percent().map(RetryBudget::new))
    }

    /// Reports the beginning of an exchange.
    pub(crate) fn note_request(&self, now_us: u64) {
        if let Some(budget) = &self.0 {
            budget.note_request(now_us);
        }
    }

    /// Requests one retry.
    pub(crate) fn ask(&self, now_us: u64) -> Permit {
        self.0.as_ref().map_or(Permit::Granted, |budget| budget.ask(now_us))
    }

    /// The number of retries that were refused.
    pub fn refused(&self) -> u64 {
        self.0.as_ref().map_or(0, RetryBudget::refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(on: &[RetryOn]) -> RetryRules {
        RetryRules::new(&Retry { on: on.to_vec(), ..Retry::default() })
    }

    #[test]
    fn each_retry_condition_covers_its_failures_and_no_others() {
        let all = [
            Trouble::Refused,
            Trouble::Cause(Cause::ConnectFailed),
            Trouble::Cause(Cause::ConnectTimeout),
            Trouble::Cause(Cause::UpstreamTls),
            Trouble::Cause(Cause::UpstreamReset),
            Trouble::Cause(Cause::ResponseTimeout),
            Trouble::Cause(Cause::UpstreamSendTimeout),
            Trouble::Cause(Cause::BadResponse),
            Trouble::Status(502),
            Trouble::Status(503),
            Trouble::Grpc(GrpcStatus::UNAVAILABLE),
            Trouble::Grpc(GrpcStatus::UNKNOWN),
            Trouble::Unprocessed,
        ];
        let check = |on: RetryOn, expected: &[usize]| {
            let policy = policy(&[on]);
            let covered = |trouble: &Trouble| policy.covers(*trouble, 0, Duration::ZERO);
            let covered: Vec<usize> = (0..all.len()).filter(|at| covered(&all[*at])).collect();
            assert_eq!(covered, expected, "{on}");
        };
        check(RetryOn::Connect, &[0, 1, 2, 3, 12]);
        check(RetryOn::Refused, &[0, 12]);
        check(RetryOn::Reset, &[4, 12]);
        check(RetryOn::Timeout, &[5, 6]);
        check(RetryOn::Invalid, &[7]);
        check(RetryOn::Status(503), &[9]);
        check(RetryOn::Grpc(GrpcStatus::UNAVAILABLE), &[10]);
    }

    #[test]
    fn retries_are_bounded_in_number_and_time() {
        let retry = Retry { within: Some(Duration::from_secs(1)), ..Retry::default() };
        let policy = RetryRules::new(&retry);
        let covers = |retries, millis| {
            policy.covers(Trouble::Refused, retries, Duration::from_millis(millis))
        };
        assert!(covers(0, 0) && covers(1, 1_000));
        assert!(!covers(2, 0) && !covers(0, 1_001));
    }

    #[test]
    fn the_limit_of_the_random_back_off_doubles_up_to_ten_times_the_first() {
        let backoff = Some(Duration::from_millis(100));
        let policy = RetryRules::new(&Retry { backoff, ..Retry::default() });
        let longest = |earlier| policy.backoff(earlier, u64::MAX).as_micros().div_ceil(1_000);
        assert_eq!([0, 1, 2, 3, 4, 5, 99].map(longest), [100, 200, 400, 800, 1_000, 1_000, 1_000]);
        assert_eq!(policy.backoff(3, 0), Duration::ZERO);
        assert_eq!(policy.backoff(0, u64::MAX / 2).as_micros(), 49_999);
    }

    #[test]
    fn only_configured_statuses_lead_to_another_attempt() {
        let policy = policy(&[RetryOn::Connect, RetryOn::Status(404), RetryOn::Status(503)]);
        assert!(policy.minds_status(503) && policy.minds_status(404));
        assert!(!policy.minds_status(200) && !policy.minds_status(502));
    }
}
