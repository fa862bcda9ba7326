//! Active health checks as configured: the probe, the expected reply and the timing. It sends no
//! probe.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::EndpointAddress;
use crate::pattern::{ContentPattern, TextPattern};
use crate::units::{duration, percent};

pub use crate::pattern::REPLY_BYTES;

/// The active health check of a pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Check {
    /// The probe and the expected reply.
    pub probe: Probe,
    /// The time from the start of one probe of an endpoint to the start of the next.
    #[serde(with = "duration")]
    pub interval: Duration,
    /// The timeout of a whole probe: connect, TLS handshake and reply.
    #[serde(with = "duration")]
    pub timeout: Duration,
    /// The number of passed probes in a row after which an endpoint is up.
    pub rise: u32,
    /// The number of failed probes in a row after which an endpoint is down.
    pub fall: u32,
    /// The interval while the latest results contradict the endpoint's state; `None` for
    /// `interval`.
    #[serde(with = "duration::option")]
    pub fast: Option<Duration>,
    /// The interval while the endpoint is down; `None` for `interval`.
    #[serde(with = "duration::option")]
    pub down: Option<Duration>,
    /// The largest random deviation of each wait, in percent of the interval, at most 50.
    #[serde(rename = "spread", with = "percent")]
    pub spread_percent: u8,
    /// If the share of endpoints that are up falls below this, probe results are ignored; 0 for
    /// never.
    #[serde(rename = "panic", with = "percent")]
    pub panic_percent: u8,
    /// The port to probe; `None` for the endpoint's own.
    pub port: Option<u16>,
    /// The statuses for which an endpoint that is up drains instead of failing its probe; `None`
    /// for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drain_on: Option<Statuses>,
}

/// The kind of probe.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Probe {
    /// A request and its response.
    Http(Box<HttpProbe>),
    /// A TCP connection, optionally with bytes sent and expected.
    Tcp(TcpProbe),
    /// A TLS handshake with the pool's settings.
    Tls,
    /// A call of `grpc.health.v1.Health/Check` over HTTP/2.
    Grpc(GrpcProbe),
}

/// The longest name of a service in a probe, bytes.
pub const MOST_SERVICE_NAME: usize = 127;

/// A call that asks a server of gRPC for its health.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GrpcProbe {
    /// The service; `None` for the server as a whole.
    pub service: Option<String>,
}

/// An HTTP request and the expected response.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HttpProbe {
    /// The method.
    pub method: String,
    /// The path and query.
    pub path: String,
    /// The `Host` header; `None` for the endpoint's own name or address, or none if `bare`.
    pub host: Option<String>,
    /// The version of the request.
    pub version: ProbeVersion,
    /// Sends no `Host`, `User-Agent` and `Accept` but those that are given.
    pub bare: bool,
    /// Further headers of the request.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<ProbeHeader>,
    /// The body of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub send: Option<String>,
    /// The statuses that pass.
    pub expect: Statuses,
    /// A header that the response must have.
    pub header: Option<HeaderExpectation>,
    /// A pattern that the first [`REPLY_BYTES`] of the body must contain.
    pub body: Option<ContentPattern>,
    /// A header that the response must not have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_header: Option<HeaderExpectation>,
    /// A pattern that the first [`REPLY_BYTES`] of the body must not contain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_body: Option<ContentPattern>,
    /// Set to use TLS, with the pool's settings, or not; `None` for the same as the pool.
    pub tls: Option<bool>,
    /// The port; `None` for that of the check.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Further requests, each on a connection of its own, which have to pass too.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub then: Vec<HttpProbe>,
}

/// The HTTP version of a probe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProbeVersion {
    /// HTTP/1.0, after which the server closes the connection anyway.
    #[serde(rename = "1.0")]
    Http10,
    /// HTTP/1.1, with `Connection: close`.
    #[default]
    #[serde(rename = "1.1")]
    Http11,
}

/// A header of the request of a probe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProbeHeader {
    /// The name.
    pub name: String,
    /// The value.
    pub value: String,
}

/// A TCP connection over which bytes may be sent and expected.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TcpProbe {
    /// The bytes to send after connecting.
    pub send: Option<String>,
    /// A pattern that the first [`REPLY_BYTES`] received must contain.
    pub expect: Option<ContentPattern>,
    /// A conversation, instead of both.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<ProbeStep>,
}

/// A step of the conversation of a TCP probe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbeStep {
    /// Opens a connection, in place of the one before. Without it as the first step the
    /// conversation begins on one to the check's port, without TLS.
    Connect(ProbeConnect),
    /// Sends this text.
    Send(String),
    /// Sends these bytes.
    SendHex(HexBytes),
    /// Judges what came since the latest sending.
    Expect(ReplyExpectation),
}

/// The expectation of a step. Without a verdict it waits for more, up to the end of the reply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplyExpectation {
    /// A pattern that the reply contains.
    pub text: ContentPattern,
    /// Set if the reply must not contain it.
    #[serde(default)]
    pub absent: bool,
    /// The number of bytes in which the pattern is found or is not in the reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_bytes: Option<u32>,
}

/// The connection of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProbeConnect {
    /// The port; `None` for that of the check.
    pub port: Option<u16>,
    /// Set for TLS with the pool's settings.
    pub tls: bool,
    /// Set if it begins with a PROXY header, of the pool's version or else the first one.
    pub send_proxy: bool,
}

/// Bytes that are written as hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HexBytes(Vec<u8>);

impl HexBytes {
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl FromStr for HexBytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let pairs = text.as_bytes().chunks(2).map(|pair| {
            let digits = std::str::from_utf8(pair).ok().filter(|pair| pair.len() == 2);
            let digits = digits.filter(|pair| pair.bytes().all(|byte| byte.is_ascii_hexdigit()));
            u8::from_str_radix(digits?, 16).ok()
        });
        let bytes: Option<Vec<u8>> = pairs.collect();
        let bytes = bytes.filter(|bytes| !bytes.is_empty());
        bytes.map(Self).ok_or_else(|| {
            format!("`{text}` is not a row of bytes: write two hexadecimal digits for each, as in `0d0a`")
        })
    }
}

impl fmt::Display for HexBytes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

impl TryFrom<String> for HexBytes {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<HexBytes> for String {
    fn from(bytes: HexBytes) -> Self {
        bytes.to_string()
    }
}

/// A header that a response has to have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeaderExpectation {
    /// The name.
    pub name: String,
    /// The value; `None` for any.
    #[serde(default)]
    pub value: Option<TextPattern>,
}

/// The probing of one endpoint when its pool has a check.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndpointCheck {
    /// Probed at its own address, with the check's port if it has one.
    #[default]
    Own,
    /// Probed at another address.
    At(EndpointAddress),
    /// Not probed: the endpoint counts as up.
    Off,
}

impl EndpointCheck {
    /// Returns true for the usual, which needs no word.
    pub(super) fn is_own(&self) -> bool {
        *self == Self::Own
    }
}

/// Statuses of final responses, as `200-399` or `200,204,301-303`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statuses(Vec<RangeInclusive<u16>>);

impl Statuses {
    /// Returns true if the list contains the status.
    pub fn contains(&self, status: u16) -> bool {
        self.0.iter().any(|range| range.contains(&status))
    }

    /// Returns true if responses with these statuses never have a body.
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
        number
            .ok_or_else(|| format!("`{text}` is not a status: write `200`, `200-399` or `200,204`"))
    };
    let (first, last) = (status(first)?, status(last)?);
    if first > last {
        return Err(format!("`{text}` is in the wrong order: did you mean `{last}-{first}`?"));
    }
    if first < 200 || last > 599 {
        return Err(format!(
            "`{text}`: the status must be from 200 to 599; a check for another one could never pass"
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
