//! Numbers of seconds since 1970 as texts.

use jiff::Timestamp;
use jiff::fmt::strtime;
use jiff::tz::TimeZone;

use super::number;

/// The form of `Date` and `Expires` (RFC 9110 section 5.6.7).
const HTTP_DATE: &str = "%a, %d %b %Y %H:%M:%S GMT";

/// The form of a time.
#[derive(Debug)]
pub(super) struct TimeForm {
    format: Box<str>,
    zone: TimeZone,
    /// The seconds that are added before.
    offset: i64,
}

impl TimeForm {
    /// Parses a form; `None` for another converter.
    pub(super) fn parse(name: &str, arguments: &[&str]) -> Result<Option<Self>, String> {
        let argument = |at: usize| arguments.get(at).copied().unwrap_or_default();
        let (format, zone, offset) = match name {
            "http_date" => (HTTP_DATE, TimeZone::UTC, argument(0)),
            "utime" => (argument(0), TimeZone::UTC, argument(1)),
            "ltime" => (argument(0), TimeZone::system(), argument(1)),
            _ => return Ok(None),
        };
        let offset = if offset.is_empty() { 0 } else { number::parse(offset)? };
        let form = Self { format: format.into(), zone, offset };
        let mut sample = b"0".to_vec();
        if !form.apply(&mut sample) {
            return Err(format!("`{format}` is no form of a time: write fields as `%Y-%m-%d`"));
        }
        Ok(Some(form))
    }

    /// Writes a time in the place of its number. Returns false if there is no such time.
    pub(super) fn apply(&self, value: &mut Vec<u8>) -> bool {
        let seconds = number::read(value).and_then(|seconds| seconds.checked_add(self.offset));
        let Some(time) = seconds.and_then(|seconds| Timestamp::from_second(seconds).ok()) else {
            return false;
        };
        let Ok(text) = strtime::format(self.format.as_bytes(), &time.to_zoned(self.zone.clone()))
        else {
            return false;
        };
        value.clear();
        value.extend_from_slice(text.as_bytes());
        true
    }
}
