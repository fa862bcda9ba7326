//! Retries as the model has them: how often, after what, and within which bounds. It retries nothing.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::units::{duration, percent};

/// Most attempts after the first that a configuration may ask for.
pub const MOST_RETRIES: u32 = 100;
/// The share of `auto` where requests that were sent may be retried, percent.
pub const AUTO_BUDGET_PERCENT: u8 = 20;

/// Further attempts after one that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Retry {
    /// How many; 0 never retries.
    pub attempts: u32,
    /// After what.
    pub on: Vec<RetryOn>,
    /// How many of a pool's requests at most.
    pub budget: Budget,
    /// The first wait before an endpoint is asked again when no other is left; `None`: none is asked twice.
    #[serde(with = "duration::option")]
    pub backoff: Option<Duration>,
    /// No retry begins later than this after the request came; `None`: whenever.
    #[serde(with = "duration::option")]
    pub within: Option<Duration>,
    /// Also requests that may have had an effect (POST, PATCH) although bytes of them were sent.
    pub non_idempotent: bool,
}

impl Retry {
    /// The share of the requests that may be retried, percent; `None` is without a bound.
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

/// What leads to a retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RetryOn {
    /// No connection, for whatever reason: refused, unreachable, TLS, too late.
    Connect,
    /// The connection was refused.
    Refused,
    /// The connection ended before the head of a response.
    Reset,
    /// The request was not taken, or not answered, in time.
    Timeout,
    /// The response was not HTTP.
    Invalid,
    /// A response of this status, 400..=599.
    Status(u16),
}

impl RetryOn {
    /// Every one that is a word.
    pub const WORDS: [(&str, Self); 5] = [
        ("connect", Self::Connect),
        ("refused", Self::Refused),
        ("reset", Self::Reset),
        ("timeout", Self::Timeout),
        ("invalid", Self::Invalid),
    ];
}

impl fmt::Display for RetryOn {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Self::Status(status) = self {
            return write!(formatter, "{status}");
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
        match text.parse() {
            Ok(status @ 400..=599) => Ok(Self::Status(status)),
            Ok(_) => Err(format!("`{text}` is no status of a failure: 400 to 599")),
            Err(_) => {
                let words: Vec<&str> = Self::WORDS.iter().map(|(word, _)| *word).collect();
                Err(format!(
                    "`{text}` is nothing to retry: `{}` or a status, with commas between",
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

/// How many of a pool's requests may be retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Budget {
    /// [`AUTO_BUDGET_PERCENT`] where requests that were sent may be retried. Without a bound where only failed connects are: they
    /// cost the other endpoints nothing.
    Auto,
    /// Any number.
    Off,
    /// This share of the recent requests.
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
            _ => Err(format!("`{text}` is no budget: a share such as `10%`, `auto` or `off`")),
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
