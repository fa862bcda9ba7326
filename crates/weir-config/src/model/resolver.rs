//! How names of servers are looked up. It asks nobody.

use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::units::duration;

/// Shortest pause between two looks at a name that resolves.
pub const SHORTEST_TTL: Duration = Duration::from_millis(100);

/// Whom to ask for the addresses of names, and for how long an answer holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Resolver {
    /// DNS servers; none: `/etc/hosts` and those of `/etc/resolv.conf`.
    pub servers: Vec<SocketAddr>,
    /// How long an answer holds, whatever its TTL.
    #[serde(with = "duration::option")]
    pub valid: Option<Duration>,
    /// A shorter TTL counts as this.
    #[serde(with = "duration")]
    pub min_ttl: Duration,
    /// A longer TTL counts as this.
    #[serde(with = "duration")]
    pub max_ttl: Duration,
    /// For a whole look-up, all tries included.
    #[serde(with = "duration")]
    pub timeout: Duration,
    /// Whether to ask for IPv4 addresses.
    pub ipv4: bool,
    /// Whether to ask for IPv6 addresses, which are used when there are none of IPv4.
    pub ipv6: bool,
}

impl Resolver {
    /// How long an answer with this TTL holds.
    pub fn holds(&self, ttl: Duration) -> Duration {
        self.valid.unwrap_or_else(|| ttl.max(self.min_ttl).min(self.max_ttl))
    }

    /// What is wrong with it, if anything: the field and one sentence.
    pub(crate) fn objection(&self) -> Option<(&'static str, String)> {
        let short = |time: Duration| time < SHORTEST_TTL;
        let too_short = |field| Some((field, "names are looked at every `100ms` at most".into()));
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
            return Some(("timeout", "a time of 0 would end every look-up at once".into()));
        }
        if !self.ipv4 && !self.ipv6 {
            return Some(("ipv6", "with `ipv4` and `ipv6` off no name has an address".into()));
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
