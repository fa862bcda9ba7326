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
    /// They are fresh for this time after their last change, or after now if they do not tell it.
    AfterChange(#[serde(with = "duration")] Duration),
    /// They went stale this long before their last change: `no-cache`.
    BeforeChange(#[serde(with = "duration")] Duration),
    /// They are fresh until this time of the day, here the time since midnight.
    Until(#[serde(with = "duration")] Duration),
    /// They went stale in 1970: `no-cache`.
    Epoch,
    /// They are fresh until the end of 2037, for ten years.
    Max,
    /// They are fresh as the value of a variable says, in one of the other forms or `off`.
    By(#[serde(with = "words::template")] Template),
}

impl Expires {
    /// Parses `30d`, `-1s`, `0s`, `@930m`, `epoch` or `max`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let of_day = text.strip_prefix('@');
        match (text, text.strip_prefix('-').or(of_day)) {
            ("epoch", _) => Ok(Self::Epoch),
            ("max", _) => Ok(Self::Max),
            (_, Some(time)) if of_day.is_some() => {
                let time = duration::parse(time)?;
                Self::time_of_day(time)?;
                Ok(Self::Until(time))
            }
            (_, Some(time)) => duration::parse(time).map(Self::Before),
            _ => duration::parse(text).map(Self::After),
        }
    }

    /// Counts the time from the last change of the response.
    ///
    /// # Errors
    /// It is not counted from now.
    pub(crate) fn since_change(self) -> Result<Self, String> {
        match self {
            Self::After(time) => Ok(Self::AfterChange(time)),
            Self::Before(time) => Ok(Self::BeforeChange(time)),
            _ => Err("with `modified`, write a time such as `30d` or `-1h`".into()),
        }
    }

    /// Checks a time of the day.
    pub(crate) fn time_of_day(time: Duration) -> Result<(), String> {
        if time > Duration::from_hours(24) || time.subsec_nanos() > 0 {
            return Err("a time of the day is at most `@24h`, in whole seconds".into());
        }
        Ok(())
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
            _ => None,
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
        let of_day = Duration::from_mins(15 * 60 + 30);
        assert_eq!(Expires::of_value("@930m"), Ok(Some(Expires::Until(of_day))));
        assert!(Expires::of_value("@24h").is_ok());
        for text in ["@1441m", "@1ms", "@", "@-1h", "-@1h", "@epoch"] {
            assert!(Expires::of_value(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times_from_now_can_be_counted_from_the_last_change() {
        let hour = Duration::from_hours(1);
        assert_eq!(Expires::After(hour).since_change(), Ok(Expires::AfterChange(hour)));
        assert_eq!(Expires::Before(hour).since_change(), Ok(Expires::BeforeChange(hour)));
        assert!(
            Expires::Until(hour).since_change().is_err() && Expires::Max.since_change().is_err()
        );
    }
}
