//! The lines that say how long a client may keep a response, as nginx's `expires` writes them.

use std::time::SystemTime;

use weir_config::model::Expires;
use weir_stats::{Entry, Escape, Template};
use weir_wire::encode;

use crate::http::edits::Edits;
use crate::time::http_date::date_of;

/// nginx's end of time for `expires max`, and its time: ten years.
const MAX_DATE: &[u8; 29] = b"Thu, 31 Dec 2037 23:55:55 GMT";
const MAX_AGE: u64 = 315_360_000;
const EPOCH_DATE: &[u8; 29] = b"Thu, 01 Jan 1970 00:00:01 GMT";

/// The `Expires` and `Cache-Control` of a response, which replace received ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpiresLines {
    date: [u8; 29],
    /// Seconds; `None` for `no-cache`.
    max_age: Option<u64>,
}

impl ExpiresLines {
    /// The lines of a response with this status at this time; `None` for errors.
    pub(crate) fn of(expires: &Expires, status: u16, now: SystemTime) -> Option<Self> {
        if !matches!(status, 200 | 201 | 204 | 206 | 301 | 302 | 303 | 304 | 307 | 308) {
            return None;
        }
        let (date, max_age) = match expires {
            Expires::After(time) => {
                (date_of(now.checked_add(*time).unwrap_or(now)), Some(time.as_secs()))
            }
            Expires::Before(time) => (date_of(now.checked_sub(*time).unwrap_or(now)), None),
            Expires::Epoch => (*EPOCH_DATE, None),
            Expires::Max => (*MAX_DATE, Some(MAX_AGE)),
            // `value_of` knows it.
            Expires::By(_) => return None,
        };
        Some(Self { date, max_age })
    }

    /// Returns the time that the variable of `expires` has for a response; `None` for none.
    pub(crate) fn value_of(text: &Template, entry: &Entry<'_>) -> Option<Expires> {
        let mut value = Vec::new();
        text.append(entry, Escape::None, &mut value);
        // All values were checked when the configuration was loaded.
        Expires::of_value(std::str::from_utf8(&value).ok()?).ok()?
    }

    /// Returns true if a received line of this name is left out.
    pub(crate) fn replaces(name: &[u8]) -> bool {
        name.eq_ignore_ascii_case(b"expires") || name.eq_ignore_ascii_case(b"cache-control")
    }

    /// Appends the lines, except those that edits set.
    pub(crate) fn write(&self, edits: &Edits, out: &mut Vec<u8>) {
        if !edits.sets(b"Expires") {
            encode::header(out, b"Expires", &self.date);
        }
        if edits.sets(b"Cache-Control") {
            return;
        }
        match self.max_age {
            Some(seconds) => {
                out.extend_from_slice(b"Cache-Control: max-age=");
                encode::decimal(out, seconds);
                out.extend_from_slice(b"\r\n");
            }
            None => out.extend_from_slice(b"Cache-Control: no-cache\r\n"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use weir_config::model::HeaderEdit;
    use weir_stats::Template;

    use super::*;
    use crate::http::edits::EditedMessage;

    #[test]
    fn the_lines_are_those_of_nginx() {
        let now = UNIX_EPOCH + Duration::from_hours(24);
        let check = |expires, status, expected: &str| {
            let mut out = Vec::new();
            if let Some(lines) = ExpiresLines::of(&expires, status, now) {
                lines.write(&Edits::default(), &mut out);
            }
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        };
        let hour = Duration::from_hours(1);
        check(
            Expires::After(hour),
            200,
            "Expires: Fri, 02 Jan 1970 01:00:00 GMT\r\nCache-Control: max-age=3600\r\n",
        );
        check(
            Expires::Before(hour),
            304,
            "Expires: Thu, 01 Jan 1970 23:00:00 GMT\r\nCache-Control: no-cache\r\n",
        );
        check(
            Expires::Epoch,
            206,
            "Expires: Thu, 01 Jan 1970 00:00:01 GMT\r\nCache-Control: no-cache\r\n",
        );
        check(
            Expires::Max,
            301,
            "Expires: Thu, 31 Dec 2037 23:55:55 GMT\r\nCache-Control: max-age=315360000\r\n",
        );
        check(Expires::Max, 404, "");
    }

    #[test]
    fn a_line_that_is_set_is_written_once() {
        let edits = [HeaderEdit::Set("cache-control".into(), Template::parse("public").unwrap())];
        let edits = Edits::compile(EditedMessage::Response, &edits).unwrap();
        let lines = ExpiresLines::of(&Expires::Epoch, 200, UNIX_EPOCH).unwrap();
        let mut out = Vec::new();
        lines.write(&edits, &mut out);
        assert_eq!(out, b"Expires: Thu, 01 Jan 1970 00:00:01 GMT\r\n");
        // A received line that is removed makes room for the line of `expires`.
        let removed = [HeaderEdit::Remove("Cache-Control".into())];
        let removed = Edits::compile(EditedMessage::Response, &removed).unwrap();
        out.clear();
        lines.write(&removed, &mut out);
        assert!(out.ends_with(b"Cache-Control: no-cache\r\n"));
    }
}
