//! Limits on what a client, or whatever a key names, may ask for: `limit client`, `limit rate`, `limit bandwidth`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use ipnet::IpNet;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use weir_stats::Template;

use crate::defaults;
use crate::units::size;
use crate::words;

/// Least bytes in a second that a body may be held to.
const LEAST_BANDWIDTH: u64 = 1024;

/// So many in a second, a minute or an hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventRate {
    /// How many.
    pub count: u32,
    /// In this time.
    pub per: Duration,
}

/// Units of a rate.
const PERIODS: [(&str, Duration); 3] =
    [("s", Duration::from_secs(1)), ("m", Duration::from_mins(1)), ("h", Duration::from_hours(1))];
/// Most events of a rate: one in a microsecond.
const MOST_PER_SECOND: u32 = 1_000_000;

impl EventRate {
    /// How many are let through at once when nothing else is said: those of a second, and one at least.
    pub fn burst(&self) -> u32 {
        let second = u64::from(self.count) / self.per.as_secs().max(1);
        u32::try_from(second).unwrap_or(u32::MAX).saturating_sub(1)
    }
}

impl FromStr for EventRate {
    type Err = String;

    /// Reads `10/s`, `600/m`, `5/h`, and nginx's `10r/s`.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not a rate: write `10/s`, `600/m` or `5/h`");
        let (count, unit) = text.split_once('/').ok_or_else(wrong)?;
        let count: u32 = count.strip_suffix('r').unwrap_or(count).parse().map_err(|_| wrong())?;
        let (_, per) = PERIODS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
        if count == 0 {
            return Err("a rate of 0 would let nothing through: `deny` does that".into());
        }
        if u64::from(count) > u64::from(MOST_PER_SECOND) * per.as_secs() {
            return Err(format!("`{text}` is too much: at most {MOST_PER_SECOND}/s"));
        }
        Ok(Self { count, per: *per })
    }
}

impl fmt::Display for EventRate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = PERIODS.iter().find(|(_, per)| *per == self.per).map_or("s", |(name, _)| name);
        write!(formatter, "{}/{unit}", self.count)
    }
}

impl Serialize for EventRate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for EventRate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// What happens to what is over a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitAction {
    /// It is answered with the limit's status.
    Answer,
    /// The connection is closed without an answer.
    Close,
}

/// How addresses are put together to clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClientPrefix {
    /// Bits of an IPv4 address.
    pub ipv4: u8,
    /// Bits of an IPv6 address.
    pub ipv6: u8,
}

impl Default for ClientPrefix {
    fn default() -> Self {
        Self { ipv4: 32, ipv6: 64 }
    }
}

/// Bounds on one client: `limit client`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClientLimit {
    /// Connections open at once.
    pub connections: Option<u32>,
    /// Requests in flight at once.
    pub in_flight: Option<u32>,
    /// Requests.
    pub rate: Option<EventRate>,
    /// Requests beyond the rate that may come at once; `None`: those of a second.
    pub burst: Option<u32>,
    /// New connections.
    pub new_connections: Option<EventRate>,
    /// TLS handshakes.
    pub handshakes: Option<EventRate>,
    /// Clients without these bounds.
    pub except: Vec<IpNet>,
    /// What one client is.
    pub prefix: ClientPrefix,
    /// Status of the answer to a request over a bound.
    pub status: u16,
    /// What happens to a request over a bound. Connections over one are always closed.
    pub action: LimitAction,
    /// Whether nothing is refused, only counted.
    pub dry_run: bool,
}

impl Default for ClientLimit {
    fn default() -> Self {
        Self {
            connections: None,
            in_flight: None,
            rate: None,
            burst: None,
            new_connections: None,
            handshakes: None,
            except: Vec::new(),
            prefix: ClientPrefix::default(),
            status: defaults::LIMIT_STATUS,
            action: LimitAction::Answer,
            dry_run: false,
        }
    }
}

impl ClientLimit {
    /// Why this is no limit: the field, and a sentence.
    pub fn objection(&self) -> Option<(&'static str, &'static str)> {
        let bounds = [self.connections, self.in_flight];
        let rates = [self.rate, self.new_connections, self.handshakes];
        if bounds.iter().all(Option::is_none) && rates.iter().all(Option::is_none) {
            return Some(("", "this limits nothing: give it `connections=`, `rate=` or another"));
        }
        if bounds.contains(&Some(0)) {
            return Some(("", "a limit of 0 would let nobody in: `deny` does that"));
        }
        if self.burst.is_some() && self.rate.is_none() {
            return Some(("burst", "`burst=` needs `rate=`"));
        }
        if !(1..=32).contains(&self.prefix.ipv4) {
            return Some(("prefix.ipv4", "a prefix of IPv4 has 1 to 32 bits"));
        }
        if !(1..=128).contains(&self.prefix.ipv6) {
            return Some(("prefix.ipv6", "a prefix of IPv6 has 1 to 128 bits"));
        }
        None
    }
}

/// When responses tell a limit in `RateLimit` and `RateLimit-Policy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitHeaders {
    /// Never.
    Off,
    /// When it refuses.
    Refused,
    /// Always.
    All,
}

/// A bound on the requests with one key: `limit rate`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateLimit {
    /// Its name in figures and headers.
    pub name: String,
    /// What tells requests apart. A request for which it comes to nothing is not limited.
    #[serde(with = "words::template")]
    pub key: Template,
    /// Requests.
    pub rate: EventRate,
    /// Requests beyond the rate that may come at once; `None`: those of a second.
    #[serde(default)]
    pub burst: Option<u32>,
    /// Of these, so many go through at once and the others wait until the rate allows them; `None`: none waits.
    #[serde(default)]
    pub delay: Option<u32>,
    /// Status of the answer to what is refused.
    #[serde(default = "defaults::limit_status")]
    pub status: u16,
    /// What happens to what is refused.
    #[serde(default = "defaults::limit_action")]
    pub action: LimitAction,
    /// When responses tell the limit.
    #[serde(default = "defaults::limit_headers")]
    pub headers: LimitHeaders,
    /// Whether nothing is refused or delayed, only counted.
    #[serde(default)]
    pub dry_run: bool,
}

impl RateLimit {
    /// Why this is no limit: the field, and a sentence.
    pub fn objection(&self) -> Option<(&'static str, String)> {
        if self.key.constant() == Some(b"") {
            return Some(("key", "an empty key limits nothing".into()));
        }
        if let Some(later) = self.key.variables().find(|one| !one.is_known_before_pick()) {
            return Some(("key", format!("`{later}` is not known when a request is limited")));
        }
        let burst = self.burst.unwrap_or_else(|| self.rate.burst());
        if self.delay.is_some_and(|delay| delay > burst) {
            return Some(("delay", "`delay=` is larger than `burst=`: nothing would wait".into()));
        }
        None
    }
}

/// A bound on the bytes of bodies: `limit bandwidth`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bandwidth {
    /// Its name in figures.
    pub name: String,
    /// What shares it; `None`: each connection has its own.
    #[serde(default, with = "words::template::option")]
    pub key: Option<Template>,
    /// To the client, bytes a second.
    #[serde(default, with = "size::option")]
    pub down: Option<u64>,
    /// From the client, bytes a second.
    #[serde(default, with = "size::option")]
    pub up: Option<u64>,
    /// Bytes of a message that go unlimited.
    #[serde(default, with = "size")]
    pub after: usize,
}

impl Bandwidth {
    /// Why this is no limit: the field, and a sentence.
    pub fn objection(&self) -> Option<(&'static str, String)> {
        if self.down.is_none() && self.up.is_none() {
            return Some(("down", "this limits nothing: give it `down=` or `up=`".into()));
        }
        if self.down.into_iter().chain(self.up).any(|rate| rate < LEAST_BANDWIDTH) {
            return Some(("down", "a bandwidth is `1k` (a second) at least".into()));
        }
        let key = self.key.as_ref()?;
        let later = key.variables().find(|one| !one.is_known_before_pick())?;
        Some(("key", format!("`{later}` is not known when a request is limited")))
    }
}
