//! Active health checks as the model has them: what is asked, what has to come back, and when. It probes nothing.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::EndpointAddress;
use crate::pattern::{ContentPattern, TextPattern};
use crate::units::{duration, percent};

/// Bytes of a reply in which a pattern is looked for.
pub const REPLY_BYTES: usize = 64 * 1024;

/// How the endpoints of a pool are probed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Check {
    /// What is asked and what has to come back.
    pub probe: Probe,
    /// From the start of one probe of an endpoint to the start of the next.
    #[serde(with = "duration")]
    pub interval: Duration,
    /// For all of a probe: connect, TLS handshake, reply.
    #[serde(with = "duration")]
    pub timeout: Duration,
    /// Passed probes in a row that bring an endpoint back.
    pub rise: u32,
    /// Failed probes in a row that take it out.
    pub fall: u32,
    /// The interval while the latest results contradict the verdict; `None`: as ever.
    #[serde(with = "duration::option")]
    pub fast: Option<Duration>,
    /// The interval while the endpoint is down; `None`: as ever.
    #[serde(with = "duration::option")]
    pub down: Option<Duration>,
    /// By how much of the interval each wait is drawn shorter or longer, percent, at most 50.
    #[serde(rename = "spread", with = "percent")]
    pub spread_percent: u8,
    /// With a smaller share of the endpoints up, probes do not count; 0 is never.
    #[serde(rename = "panic", with = "percent")]
    pub panic_percent: u8,
    /// Port to probe; `None`: the endpoint's own.
    pub port: Option<u16>,
}

/// What is asked of an endpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Probe {
    /// A request and its response.
    Http(HttpProbe),
    /// A TCP connection, perhaps with a line said and heard.
    Tcp(TcpProbe),
    /// A TLS handshake by the pool's settings.
    Tls,
}

/// An HTTP request and what its response has to be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HttpProbe {
    /// The method.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// The `Host` header; `None`: the endpoint's own name or address.
    pub host: Option<String>,
    /// Statuses that pass.
    pub expect: Statuses,
    /// A header that has to be there, and its value.
    pub header: Option<HeaderExpectation>,
    /// What the body has to hold within its first [`REPLY_BYTES`].
    pub body: Option<ContentPattern>,
    /// Whether TLS is spoken, by the pool's settings; `None`: as the pool does.
    pub tls: Option<bool>,
}

/// A TCP connection that may say something and wait for an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TcpProbe {
    /// Sent once connected.
    pub send: Option<String>,
    /// What has to come back within the first [`REPLY_BYTES`].
    pub expect: Option<ContentPattern>,
}

/// A header that a response has to have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeaderExpectation {
    /// Its name.
    pub name: String,
    /// Its value; `None`: any.
    #[serde(default)]
    pub value: Option<TextPattern>,
}

/// Whether and where one endpoint is probed, when its pool has a check.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndpointCheck {
    /// At its own address, at the check's port if it has one.
    #[default]
    Own,
    /// At another address.
    At(EndpointAddress),
    /// Not at all: it counts as up.
    Off,
}

/// Statuses of final responses, as `200-399` or `200,204,301-303`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statuses(Vec<RangeInclusive<u16>>);

impl Statuses {
    /// Whether the status is one of them.
    pub fn contains(&self, status: u16) -> bool {
        self.0.iter().any(|range| range.contains(&status))
    }

    /// Whether every response with one of these statuses is without a body.
    pub fn are_bodiless(&self) -> bool {
        self.0.iter().cloned().flatten().all(|status| matches!(status, 204 | 304))
    }
}

impl Default for Statuses {
    fn default() -> Self {
        Self(vec![200..=399])
    }
}

impl FromStr for Statuses {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.split(',').map(range).collect::<Result<_, _>>().map(Self)
    }
}

fn range(text: &str) -> Result<RangeInclusive<u16>, String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let status = |part: &str| {
        let number = part.parse::<u16>().ok().filter(|_| part.len() == 3);
        number.ok_or_else(|| format!("`{text}` is no status: write `200`, `200-399` or `200,204`"))
    };
    let (first, last) = (status(first)?, status(last)?);
    if first > last {
        return Err(format!("`{text}` runs backwards: did you mean `{last}-{first}`?"));
    }
    if first < 200 || last > 599 {
        return Err(format!(
            "`{text}`: a probe ends with a status of 200 to 599; the check could never pass with another"
        ));
    }
    Ok(first..=last)
}

impl fmt::Display for Statuses {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, range) in self.0.iter().enumerate() {
            if index > 0 {
                formatter.write_str(",")?;
            }
            write!(formatter, "{}", range.start())?;
            if range.start() < range.end() {
                write!(formatter, "-{}", range.end())?;
            }
        }
        Ok(())
    }
}

impl Serialize for Statuses {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Statuses {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_read_and_written() {
        let check = |text: &str, inside: &[u16], outside: &[u16]| {
            let statuses: Statuses = text.parse().unwrap();
            assert_eq!(statuses.to_string(), text);
            assert!(inside.iter().all(|status| statuses.contains(*status)), "{text}");
            assert!(!outside.iter().any(|status| statuses.contains(*status)), "{text}");
        };
        check("200-399", &[200, 399], &[199, 400]);
        check("204,301-303", &[204, 301, 302, 303], &[200, 300, 304]);
        for wrong in ["", "20", "200-", "399-200", "100-199", "500-600", "2xx", "200;204", "0200"] {
            assert!(wrong.parse::<Statuses>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn bodiless_statuses_are_known() {
        assert!("204,304".parse::<Statuses>().unwrap().are_bodiless());
        assert!(!Statuses::default().are_bodiless());
    }
}
