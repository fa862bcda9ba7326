//! The time for which clients may keep responses, as configured.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::units::duration;

/// The `Expires` and `Cache-Control` of a route's responses, in nginx's meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expires {
    /// They are fresh for this time.
    After(#[serde(with = "duration")] Duration),
    /// They went stale this long ago: `no-cache`.
    Before(#[serde(with = "duration")] Duration),
    /// They went stale in 1970: `no-cache`.
    Epoch,
    /// They are fresh until the end of 2037, for ten years.
    Max,
}

impl Expires {
    /// Parses `30d`, `-1s`, `0s`, `epoch` or `max`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        match (text, text.strip_prefix('-')) {
            ("epoch", _) => Ok(Self::Epoch),
            ("max", _) => Ok(Self::Max),
            (_, Some(time)) => duration::parse(time).map(Self::Before),
            _ => duration::parse(text).map(Self::After),
        }
    }
}
