//! The memory budget as configured. It measures nothing.

use std::fmt;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::defaults::MEMORY_PERCENT;
use crate::units::{percent, size};

/// The smallest budget, in bytes. With less, a proxy without clients would already exceed it.
pub const LEAST_MEMORY: u64 = 32 << 20;

/// The memory that the process may have allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryLimit {
    /// A percentage of the control group's limit or the machine's memory, whichever is less.
    Percent(u8),
    /// A number of bytes.
    Bytes(u64),
    /// No bound.
    Off,
}

impl MemoryLimit {
    /// Returns the budget in bytes if `available` bytes are available; `None` for no bound, or if
    /// the percentage of an unknown amount is configured.
    pub fn bytes(self, available: Option<u64>) -> Option<u64> {
        match self {
            Self::Percent(share) => {
                available.map(|all| (all / 100 * u64::from(share)).max(LEAST_MEMORY))
            }
            Self::Bytes(bytes) => Some(bytes),
            Self::Off => None,
        }
    }

    pub(crate) fn objection(self) -> Option<&'static str> {
        match self {
            Self::Percent(0) => Some("a budget of 0% would allow no memory"),
            Self::Bytes(bytes) if bytes < LEAST_MEMORY => {
                Some("a budget below `32m` would be used up without any client")
            }
            Self::Percent(_) | Self::Bytes(_) | Self::Off => None,
        }
    }
}

impl Default for MemoryLimit {
    fn default() -> Self {
        Self::Percent(MEMORY_PERCENT)
    }
}

impl fmt::Display for MemoryLimit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Percent(share) => formatter.write_str(&percent::format(*share)),
            Self::Bytes(bytes) => formatter.write_str(&size::format(*bytes)),
            Self::Off => formatter.write_str("off"),
        }
    }
}

impl FromStr for MemoryLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let limit = match text {
            "off" => Self::Off,
            _ if text.ends_with('%') => Self::Percent(percent::parse(text)?),
            _ => Self::Bytes(size::parse(text)?),
        };
        limit.objection().map_or(Ok(limit), |objection| Err(objection.to_owned()))
    }
}

impl Serialize for MemoryLimit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for MemoryLimit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_a_size_a_share_or_none() {
        let check = |text: &str, available: Option<u64>, expected: Option<u64>| {
            let limit: MemoryLimit = text.parse().unwrap();
            assert_eq!((limit.to_string().as_str(), limit.bytes(available)), (text, expected));
        };
        check("60%", Some(1_000 << 20), Some((1_000 << 20) / 100 * 60));
        check("60%", Some(1 << 20), Some(LEAST_MEMORY));
        check("60%", None, None);
        check("512m", Some(1 << 20), Some(512 << 20));
        check("off", Some(1 << 20), None);
        for wrong in ["0%", "101%", "1m", "512", "half", ""] {
            assert!(wrong.parse::<MemoryLimit>().is_err(), "{wrong}");
        }
    }
}
