//! Limits per client and per key as configured: `limit client`, `limit rate`, `limit bandwidth`.
//! Nothing is counted here.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use ipnet::IpNet;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use weir_stats::Template;

use crate::defaults;
use crate::units::size;
use crate::words;

/// The lowest bandwidth of a body, in bytes per second.
const LEAST_BANDWIDTH: u64 = 1024;

/// A number of events in a second, a minute or an hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventRate {
    /// The number of events.
    pub count: u32,
    /// The period.
    pub per: Duration,
}

/// The units of a rate.
const PERIODS: [(&str, Duration); 3] =
    [("s", Duration::from_secs(1)), ("m", Duration::from_mins(1)), ("h", Duration::from_hours(1))];
/// The highest rate: one event in a microsecond.
const MOST_PER_SECOND: u32 = 1_000_000;

impl EventRate {
    /// Returns the default of `burst`: one second's worth of events, less the one that the rate
    /// itself admits.
    pub fn burst(&self) -> u32 {
        let second = u64::from(self.count) / self.per.as_secs().max(1);
        u32::try_from(second).unwrap_or(u32::MAX).saturating_sub(1)
    }
}

impl FromStr for EventRate {
    type Err = String;

    /// Parses `10/s`, `600/m`, `5/h`, and nginx's `10r/s`.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not a rate: write `10/s`, `600/m` or `5/h`");
        let (count, unit) = text.split_once('/').ok_or_else(wrong)?;
        let count: u32 = count.strip_suffix('r').unwrap_or(count).parse().map_err(|_| wrong())?;
        let (_, per) = PERIODS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
        if count == 0 {
            return Err("a rate of 0 would refuse everything: write `deny` for that".into());
        }
        if u64::from(count) > u64::from(MOST_PER_SECOND) * per.as_secs() {
            return Err(format!("`{text}` is too large: at most {MOST_PER_SECOND}/s"));
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

/// The treatment of a request that exceeds a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitAction {
    /// It is answered with the limit's status.
    #[default]
    Answer,
    /// The connection is closed without an answer.
    Close,
}

/// The prefix lengths by which addresses are grouped into clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClientPrefix {
    /// The bits of an IPv4 address.
    pub ipv4: u8,
    /// The bits of an IPv6 address.
    pub ipv6: u8,
}

impl ClientPrefix {
    /// Returns the field that is invalid and the reason, if there is one.
    pub(super) fn objection(self) -> Option<(&'static str, &'static str)> {
        if !(1..=32).contains(&self.ipv4) {
            return Some(("ipv4", "a prefix of IPv4 has 1 to 32 bits"));
        }
        if !(1..=128).contains(&self.ipv6) {
            return Some(("ipv6", "a prefix of IPv6 has 1 to 128 bits"));
        }
        None
    }
}

impl Default for ClientPrefix {
    fn default() -> Self {
        Self { ipv4: 32, ipv6: 64 }
    }
}

/// The bounds on one client: `limit client`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClientLimit {
    /// Connections open at once.
    pub connections: Option<u32>,
    /// Requests in flight at once.
    pub in_flight: Option<u32>,
    /// The rate of requests.
    pub rate: Option<EventRate>,
    /// The requests beyond the rate that may arrive at once; `None` for one second's worth.
    pub burst: Option<u32>,
    /// The rate of new connections.
    pub new_connections: Option<EventRate>,
    /// The rate of TLS handshakes.
    pub handshakes: Option<EventRate>,
    /// The clients that are exempt.
    pub except: Vec<IpNet>,
    /// The prefix lengths that define one client.
    pub prefix: ClientPrefix,
    /// The status of the response to a request that exceeds a bound.
    pub status: u16,
    /// The treatment of a request that exceeds a bound. A connection that exceeds one is always
    /// closed.
    pub action: LimitAction,
    /// Set if nothing is refused, only counted.
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
    /// Returns the field that is invalid and the reason, if there is one.
    pub fn objection(&self) -> Option<(&'static str, &'static str)> {
        let bounds = [self.connections, self.in_flight];
        let rates = [self.rate, self.new_connections, self.handshakes];
        if bounds.iter().all(Option::is_none) && rates.iter().all(Option::is_none) {
            return Some((
                "",
                "this limit has no bound: add `connections=`, `rate=` or another option",
            ));
        }
        if bounds.contains(&Some(0)) {
            return Some(("", "a limit of 0 would refuse everything: write `deny` for that"));
        }
        if self.burst.is_some() && self.rate.is_none() {
            return Some(("burst", "`burst=` needs `rate=`"));
        }
        match self.prefix.objection() {
            Some(("ipv4", message)) => Some(("prefix.ipv4", message)),
            Some((_, message)) => Some(("prefix.ipv6", message)),
            None => None,
        }
    }
}

/// The responses that carry `RateLimit` and `RateLimit-Policy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitHeaders {
    /// None.
    Off,
    /// Responses to refused requests.
    #[default]
    Refused,
    /// All.
    All,
}

/// A bound on the requests with the same key: `limit rate`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateLimit {
    /// The name in statistics and headers. Limits of one name count together.
    pub name: String,
    /// The key. A request whose key is empty is not limited.
    #[serde(with = "words::template")]
    pub key: Template,
    /// The rate of requests.
    pub rate: EventRate,
    /// The requests beyond the rate that may arrive at once; `None` for one second's worth.
    #[serde(default)]
    pub burst: Option<u32>,
    /// The number of burst requests that pass at once; the others wait until the rate allows them.
    /// `None` if none waits.
    #[serde(default)]
    pub delay: Option<u32>,
    /// The status of the response to a refused request.
    #[serde(default = "defaults::limit_status")]
    pub status: u16,
    /// The treatment of a refused request.
    #[serde(default)]
    pub action: LimitAction,
    /// The responses that carry the limit's headers.
    #[serde(default)]
    pub headers: LimitHeaders,
    /// Set if nothing is refused or delayed, only counted.
    #[serde(default)]
    pub dry_run: bool,
}

impl RateLimit {
    /// Returns the field that is invalid and the reason, if there is one.
    pub fn objection(&self) -> Option<(&'static str, String)> {
        if let Some(objection) = key_objection(&self.key) {
            return Some(objection);
        }
        let burst = self.burst.unwrap_or_else(|| self.rate.burst());
        if self.delay.is_some_and(|delay| delay > burst) {
            return Some((
                "delay",
                "`delay=` is larger than `burst=`: no request would wait".into(),
            ));
        }
        None
    }
}

/// A bound on the requests with the same key that are in flight: `limit in_flight`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InFlightLimit {
    /// The name in statistics. Limits of one name count together.
    pub name: String,
    /// The key. A request whose key is empty is not limited.
    #[serde(with = "words::template")]
    pub key: Template,
    /// The number of requests in flight at once.
    pub max: u32,
    /// The status of the response to a refused request.
    #[serde(default = "defaults::limit_status")]
    pub status: u16,
    /// The treatment of a refused request.
    #[serde(default)]
    pub action: LimitAction,
    /// Set if nothing is refused, only counted.
    #[serde(default)]
    pub dry_run: bool,
}

impl InFlightLimit {
    /// Returns the field that is invalid and the reason, if there is one.
    pub fn objection(&self) -> Option<(&'static str, String)> {
        if self.max == 0 {
            return Some(("max", "a limit of 0 would refuse everything: write `deny`".into()));
        }
        key_objection(&self.key)
    }
}

/// Returns the objection to the key of a limit.
fn key_objection(key: &Template) -> Option<(&'static str, String)> {
    if key.constant() == Some(b"") {
        return Some(("key", "an empty key limits nothing".into()));
    }
    let later = key.variables().find(|one| !one.is_known_before_pick())?;
    Some(("key", format!("`{later}` is not known when a request is limited")))
}

/// A bound on the bytes of bodies: `limit bandwidth`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bandwidth {
    /// The name in statistics.
    pub name: String,
    /// The key of the messages that share the bandwidth; `None` if each connection has its own.
    #[serde(default, with = "words::template::option")]
    pub key: Option<Template>,
    /// The bandwidth to the client, in bytes per second.
    #[serde(default, with = "size::option")]
    pub down: Option<u64>,
    /// The bandwidth from the client, in bytes per second.
    #[serde(default, with = "size::option")]
    pub up: Option<u64>,
    /// The first bytes of a message that are not limited.
    #[serde(default, with = "size")]
    pub after: usize,
}

impl Bandwidth {
    /// Returns the field that is invalid and the reason, if there is one.
    pub fn objection(&self) -> Option<(&'static str, String)> {
        if self.down.is_none() && self.up.is_none() {
            return Some(("down", "this limit has no bound: add `down=` or `up=`".into()));
        }
        if self.down.into_iter().chain(self.up).any(|rate| rate < LEAST_BANDWIDTH) {
            return Some(("down", "a bandwidth must be at least `1k` (per second)".into()));
        }
        let key = self.key.as_ref()?;
        let later = key.variables().find(|one| !one.is_known_before_pick())?;
        Some(("key", format!("`{later}` is not known when a request is limited")))
    }
}
