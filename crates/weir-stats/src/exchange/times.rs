//! The time split of an exchange: the duration of each phase, in microseconds.

use serde::{Deserialize, Serialize};

/// A span of time in whole microseconds; [`Micros::NEVER`] means that the phase was not reached.
///
/// In JSON a number, or `null` for [`Micros::NEVER`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "Option<u64>", into = "Option<u64>")]
pub struct Micros(pub i64);

impl Micros {
    /// The phase was not reached.
    pub const NEVER: Self = Self(-1);
    /// The phase was reached and took no time.
    pub const ZERO: Self = Self(0);

    /// The span in microseconds, or `None` if the phase was not reached.
    pub fn reached(self) -> Option<u64> {
        u64::try_from(self.0).ok()
    }
}

impl Default for Micros {
    fn default() -> Self {
        Self::NEVER
    }
}

impl From<Micros> for Option<u64> {
    fn from(micros: Micros) -> Self {
        micros.reached()
    }
}

impl From<Option<u64>> for Micros {
    fn from(us: Option<u64>) -> Self {
        us.map_or(Self::NEVER, |us| Self(i64::try_from(us).unwrap_or(i64::MAX)))
    }
}

impl From<std::time::Duration> for Micros {
    fn from(duration: std::time::Duration) -> Self {
        Self(i64::try_from(duration.as_micros()).unwrap_or(i64::MAX))
    }
}

/// HAProxy's `Th Ti TR Tw Tc Tr Td Ta Tt`, each [`Micros::NEVER`] until its phase has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Times {
    /// `t_handshake`: accept to end of the TLS handshake; on a connection's first request, else
    /// zero.
    pub handshake: Micros,
    /// `t_idle`: end of handshake or of the previous response to the first byte of this request.
    pub idle: Micros,
    /// `t_request`: first byte to end of the head.
    pub request: Micros,
    /// `t_queue`: the wait for a slot, over all attempts.
    pub queue: Micros,
    /// `t_connect`: slot to a connected endpoint (zero if a connection was reused).
    pub connect: Micros,
    /// `t_response`: request sent to response head.
    pub response: Micros,
    /// `t_data`: response head to its last byte.
    pub data: Micros,
    /// `t_total`: accept, or end of the previous response, to the end.
    pub total: Micros,
    /// `t_own`: the time that Weir itself adds: the run time of the exchange's task from the first
    /// byte of the request on, summed over all its turns. It includes reading, parsing, choosing,
    /// TLS, copying and the system calls for them. It excludes waits for the client, the endpoint,
    /// a slot or a file. It also excludes time outside the task: the handshake, and the time that
    /// bytes stay in the kernel while the worker serves other exchanges, which the worker's lag
    /// shows.
    pub own: Micros,
}

impl Times {
    /// `t_active`: request + queue + connect + response + data, of the phases reached.
    pub fn active(&self) -> Micros {
        let parts = [self.request, self.queue, self.connect, self.response, self.data];
        Micros(parts.iter().filter_map(|part| part.reached()).sum::<u64>() as i64)
    }

    /// The time from the first byte of the request to the end, µs: nginx's `$request_time` and
    /// HAProxy's `%Ta`. Unlike [`Times::active`] it counts a phase that began and never ended;
    /// before the end it equals `active`.
    pub fn elapsed(&self) -> u64 {
        let Some(total) = self.total.reached() else { return self.active().reached().unwrap_or(0) };
        let before = self.handshake.reached().unwrap_or(0) + self.idle.reached().unwrap_or(0);
        total.saturating_sub(before)
    }
}
