//! Retries as configured: their number, conditions and bounds. It retries nothing.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use weir_stats::GrpcStatus;

use crate::units::{duration, percent};

/// The largest number of retries that a configuration may set.
pub const MOST_RETRIES: u32 = 100;
/// The percentage of `auto` where requests that were sent may be retried.
pub const AUTO_BUDGET_PERCENT: u8 = 20;

/// The retries after a failed attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Retry {
    /// The largest number of retries of a request; 0 for none.
    pub attempts: u32,
    /// The failures that are retried.
    pub on: Vec<RetryOn>,
    /// The bound on the retries of the whole pool.
    pub budget: Budget,
    /// The first wait before the same endpoint is tried again when no other is left; `None` if no
    /// endpoint is tried twice.
    #[serde(with = "duration::option")]
    pub backoff: Option<Duration>,
    /// The time after a request's arrival at which its last retry may begin; `None` for no bound.
    #[serde(with = "duration::option")]
    pub within: Option<Duration>,
    /// Set to retry also requests that may have had an effect (POST, PATCH) although bytes of them
    /// were sent.
    pub non_idempotent: bool,
}

impl Retry {
    /// Returns the percentage of the requests that may be retried; `None` for no bound.
    pub fn budget_percent(&self) -> Option<u8> {
        match self.budget {
            Budget::Percent(percent) => Some(percent),
            Budget::Off => None,
            Budget::Auto => {
                let sent = |on: &RetryOn| !matches!(on, RetryOn::Connect | RetryOn::Refused);
                self.on.iter().any(sent).then_some(AUTO_BUDGET_PERCENT)
            }
        }
    }
}

/// A failure that is retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RetryOn {
    /// No connection for any reason: refused, unreachable, TLS or timeout.
    Connect,
    /// The connection was refused.
    Refused,
    /// The connection ended before the head of a response.
    Reset,
    /// The request was not accepted, or not answered, in time.
    Timeout,
    /// The response was not HTTP.
    Invalid,
    /// A response of this status, 400..=599.
    Status(u16),
    /// A response of gRPC with this status, not OK.
    Grpc(GrpcStatus),
}

impl RetryOn {
    /// Every condition that has a word.
    pub const WORDS: [(&str, Self); 5] = [
        ("connect", Self::Connect),
        ("refused", Self::Refused),
        ("reset", Self::Reset),
        ("timeout", Self::Timeout),
        ("invalid", Self::Invalid),
    ];
}

/// The status of gRPC that a word such as `grpc-unavailable` names; `None` if it names none.
pub(super) fn grpc_failure(text: &str) -> Option<Result<GrpcStatus, String>> {
    let status = GrpcStatus::named(text.strip_prefix("grpc-")?);
    let failure = status.filter(|status| *status != GrpcStatus::OK);
    Some(failure.ok_or_else(|| {
        format!("`{text}` is no failure of gRPC: write one such as `grpc-unavailable`")
    }))
}

impl fmt::Display for RetryOn {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => return write!(formatter, "{status}"),
            Self::Grpc(status) => return write!(formatter, "grpc-{}", status.as_str()),
            _ => {}
        }
        let word = Self::WORDS.iter().find(|(_, on)| on == self).map_or("", |(word, _)| word);
        formatter.write_str(word)
    }
}

impl FromStr for RetryOn {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some((_, on)) = Self::WORDS.iter().find(|(word, _)| *word == text) {
            return Ok(*on);
        }
        if let Some(status) = grpc_failure(text) {
            return Ok(Self::Grpc(status?));
        }
        match text.parse() {
            Ok(status @ 400..=599) => Ok(Self::Status(status)),
            Ok(_) => Err(format!("`{text}` is not an error status: 400 to 599")),
            Err(_) => {
                let words: Vec<&str> = Self::WORDS.iter().map(|(word, _)| *word).collect();
                Err(format!(
                    "`{text}` is not a failure to retry: write `{}`, a status or a \
                     status of gRPC such as `grpc-unavailable`, separated by commas",
                    words.join("`, `")
                ))
            }
        }
    }
}

impl Serialize for RetryOn {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for RetryOn {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// The bound on the retries of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Budget {
    /// [`AUTO_BUDGET_PERCENT`] where requests that were sent may be retried. No bound where only
    /// failed connects are: they put no load on the other endpoints.
    Auto,
    /// No bound.
    Off,
    /// This percentage of the recent requests.
    Percent(u8),
}

impl fmt::Display for Budget {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => formatter.write_str("auto"),
            Self::Off => formatter.write_str("off"),
            Self::Percent(share) => formatter.write_str(&percent::format(*share)),
        }
    }
}

impl FromStr for Budget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "off" => Ok(Self::Off),
            _ if text.starts_with(|first: char| first.is_ascii_digit()) => {
                percent::parse(text).map(Self::Percent)
            }
            _ => Err(format!(
                "`{text}` is not a budget: write a share such as `10%`, `auto` or `off`"
            )),
        }
    }
}

impl Serialize for Budget {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Budget {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}
