//! The resolver for the names of servers, as configured. It sends no query.

use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::units::duration;

/// The shortest time between two look-ups of a name that resolves.
pub const SHORTEST_TTL: Duration = Duration::from_millis(100);

/// The DNS servers and the validity of their answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Resolver {
    /// The DNS servers; empty for `/etc/hosts` and the servers of `/etc/resolv.conf`.
    pub servers: Vec<SocketAddr>,
    /// The validity of an answer, whatever its TTL; `None` for the TTL.
    #[serde(with = "duration::option")]
    pub valid: Option<Duration>,
    /// The lower bound of a TTL.
    #[serde(with = "duration")]
    pub min_ttl: Duration,
    /// The upper bound of a TTL.
    #[serde(with = "duration")]
    pub max_ttl: Duration,
    /// The timeout of a whole look-up, all tries included.
    #[serde(with = "duration")]
    pub timeout: Duration,
    /// Set to ask for IPv4 addresses.
    pub ipv4: bool,
    /// Set to ask for IPv6 addresses, which are used if there is no IPv4 address.
    pub ipv6: bool,
}

impl Resolver {
    /// Returns the validity of an answer with this TTL.
    pub fn holds(&self, ttl: Duration) -> Duration {
        self.valid.unwrap_or_else(|| ttl.max(self.min_ttl).min(self.max_ttl))
    }

    /// Returns the field that is invalid and the reason, if there is one.
    pub(crate) fn objection(&self) -> Option<(&'static str, String)> {
        let short = |time: Duration| time < SHORTEST_TTL;
        let too_short = |field| {
            Some((
                field,
                "the shortest time is `100ms`: names are resolved at most every `100ms`".into(),
            ))
        };
        if self.valid.is_some_and(short) {
            return too_short("valid");
        }
        if short(self.min_ttl) {
            return too_short("min_ttl");
        }
        if self.min_ttl > self.max_ttl {
            return Some(("min_ttl", "`min_ttl` is above `max_ttl`".into()));
        }
        if self.timeout.is_zero() {
            return Some(("timeout", "a time of 0 would end every lookup at once".into()));
        }
        if !self.ipv4 && !self.ipv6 {
            return Some(("ipv6", "with `ipv4` and `ipv6` off no name could be resolved".into()));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ttl_is_kept_within_bounds_unless_a_time_is_given() {
        let seconds = Duration::from_secs;
        let mut resolver = Resolver::default();
        let holds =
            |resolver: &Resolver| [0, 60, 86_400].map(|ttl| resolver.holds(seconds(ttl)).as_secs());
        assert_eq!(holds(&resolver), [1, 60, 3600]);
        resolver.valid = Some(seconds(7));
        assert_eq!(holds(&resolver), [7, 7, 7]);
    }
}
