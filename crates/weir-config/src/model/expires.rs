//! The time for which clients may keep responses, as configured.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_stats::Template;

use crate::units::duration;
use crate::words;

/// The `Expires` and `Cache-Control` of a route's responses, in nginx's meaning.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
    /// They are fresh as the value of a variable says, in one of the other forms or `off`.
    By(#[serde(with = "words::template")] Template),
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

    /// Returns the time that a value of a variable means; `None` for `off` and for no value.
    ///
    /// # Errors
    /// The value is no time.
    pub fn of_value(value: &str) -> Result<Option<Self>, String> {
        if matches!(value, "" | "off") { Ok(None) } else { Self::parse(value).map(Some) }
    }

    /// Returns the text with variables.
    pub fn template(&self) -> Option<&Template> {
        match self {
            Self::By(text) => Some(text),
            Self::After(_) | Self::Before(_) | Self::Epoch | Self::Max => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_times_or_none() {
        assert_eq!(Expires::of_value(""), Ok(None));
        assert_eq!(Expires::of_value("off"), Ok(None));
        assert_eq!(Expires::of_value("max"), Ok(Some(Expires::Max)));
        let hour = Duration::from_hours(1);
        assert_eq!(Expires::of_value("-1h"), Ok(Some(Expires::Before(hour))));
        assert!(Expires::of_value("soon").is_err());
    }
}
