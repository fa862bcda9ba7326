//! The time split of an exchange (DESIGN section 8): where its time went, in microseconds.

use serde::{Deserialize, Serialize};

/// A span of time in whole microseconds; [`Micros::NEVER`] says that this phase was not reached.
///
/// In JSON a number, or `null` for [`Micros::NEVER`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "Option<u64>", into = "Option<u64>")]
pub struct Micros(pub i64);

impl Micros {
    /// The phase was not reached.
    pub const NEVER: Self = Self(-1);
    /// Reached, and took no time.
    pub const ZERO: Self = Self(0);

    /// Microseconds, or `None` when the phase was not reached.
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
    /// `t_handshake`: accept to end of the TLS handshake; on a connection's first request, else zero.
    pub handshake: Micros,
    /// `t_idle`: end of handshake or of the previous response to the first byte of this request.
    pub idle: Micros,
    /// `t_request`: first byte to end of the head.
    pub request: Micros,
    /// `t_queue`: waited for a slot, over all attempts.
    pub queue: Micros,
    /// `t_connect`: slot to a connected endpoint (zero when a connection was reused).
    pub connect: Micros,
    /// `t_response`: request sent to response head.
    pub response: Micros,
    /// `t_data`: response head to its last byte.
    pub data: Micros,
    /// `t_total`: accept, or end of the previous response, to the end.
    pub total: Micros,
    /// `t_own`: what Weir itself adds (row O-09): the time in which it worked at this exchange, from the first byte of the request on,
    /// summed over every time that its task ran. Reading, parsing, choosing, TLS, copying and the system calls for them are in it.
    /// Waiting is not: for the client, the endpoint, a slot, a file. Neither is what lies outside the task: the handshake, and the
    /// time that bytes lie in the kernel while the worker serves somebody else, which the worker's lag shows.
    pub own: Micros,
}

impl Times {
    /// `t_active`: request + queue + connect + response + data, of what was reached.
    pub fn active(&self) -> Micros {
        let parts = [self.request, self.queue, self.connect, self.response, self.data];
        Micros(parts.iter().filter_map(|part| part.reached()).sum::<u64>() as i64)
    }

    /// First byte of the request to the end, µs: what nginx calls `$request_time` and HAProxy `%Ta`. Unlike
    /// [`Times::active`] it counts a phase that was begun and never ended; before the end it is `active`.
    pub fn elapsed(&self) -> u64 {
        let Some(total) = self.total.reached() else { return self.active().reached().unwrap_or(0) };
        let before = self.handshake.reached().unwrap_or(0) + self.idle.reached().unwrap_or(0);
        total.saturating_sub(before)
    }
}
