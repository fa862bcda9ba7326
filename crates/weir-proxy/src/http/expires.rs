//! The lines that say how long a client may keep a response, as nginx's `expires` writes them.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use weir_config::model::Expires;
use weir_stats::{Clock, Entry, Escape, Template, Variable};
use weir_wire::encode;

use crate::http::edits::Edits;
use crate::time::http_date::date_of;

/// nginx's end of time for `expires max`, and its time: ten years.
const MAX_DATE: &[u8; 29] = b"Thu, 31 Dec 2037 23:55:55 GMT";
const MAX_AGE: u64 = 315_360_000;
const EPOCH_DATE: &[u8; 29] = b"Thu, 01 Jan 1970 00:00:01 GMT";

/// The most values of a variable whose times are kept, in each route. Those of further ones are
/// parsed for each response.
const MOST_TIMES: usize = 64;

/// `expires` of a route.
#[derive(Clone, Debug)]
pub(crate) enum CompiledExpires {
    /// The same for all responses.
    Always(Expires),
    /// That of the value of a variable.
    By(ExpiresByValue),
}

/// The times of the values of a variable.
#[derive(Clone, Debug)]
pub(crate) struct ExpiresByValue {
    text: Template,
    /// The values in their order; no time is `off`.
    times: Box<[ValueTime]>,
}

#[derive(Clone, Debug)]
struct ValueTime {
    value: Box<[u8]>,
    time: Option<Expires>,
}

impl CompiledExpires {
    /// Parses the values of the variable.
    pub(crate) fn compile(expires: &Expires) -> Self {
        match expires.template() {
            Some(text) => Self::By(ExpiresByValue::of(text)),
            None => Self::Always(expires.clone()),
        }
    }

    /// Returns true if a response decides on the time, by its headers or by a variable.
    pub(crate) fn needs_entry(&self) -> bool {
        matches!(
            self,
            Self::By(_) | Self::Always(Expires::AfterChange(_) | Expires::BeforeChange(_))
        )
    }

    /// Returns the lines of a response with this status; the entry has what it decides by.
    pub(crate) fn lines(
        &self,
        status: u16,
        now: CurrentTime<'_>,
        entry: Option<&Entry<'_>>,
    ) -> Option<ExpiresLines> {
        match self {
            Self::Always(expires) => ExpiresLines::of(expires, status, now, entry),
            Self::By(by) => {
                let entry = entry?;
                by.with_time(entry, |time| ExpiresLines::of(time?, status, now, Some(entry)))
            }
        }
    }
}

/// The time of a response.
#[derive(Clone, Copy)]
pub(crate) struct CurrentTime<'a> {
    pub(crate) now: SystemTime,
    /// The clock with the time zone.
    pub(crate) clock: &'a Clock,
}

impl ExpiresByValue {
    fn of(text: &Template) -> Self {
        let constants = text.lone_variable().and_then(Variable::constants);
        let known: BTreeMap<&[u8], Option<Expires>> = constants
            .unwrap_or_default()
            .into_iter()
            .filter_map(|value| Some((value, time_of(value).ok()?)))
            .take(MOST_TIMES)
            .collect();
        let one = |(value, time): (&[u8], _)| ValueTime { value: value.into(), time };
        Self { text: text.clone(), times: known.into_iter().map(one).collect() }
    }

    /// Calls a function with the time of a response; no time is `off`. It allocates nothing for a
    /// value whose time is known.
    fn with_time<T>(&self, entry: &Entry<'_>, then: impl FnOnce(Option<&Expires>) -> T) -> T {
        thread_local! {
            static VALUE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
        }
        let mut value = VALUE.take();
        value.clear();
        self.text.append(entry, Escape::None, &mut value);
        let done = match self.times.binary_search_by(|one| (*one.value).cmp(&value)) {
            Ok(at) => then(self.times.get(at).and_then(|one| one.time.as_ref())),
            Err(_) => then(time_of(&value).ok().flatten().as_ref()),
        };
        VALUE.set(value);
        done
    }
}

/// Returns the time of a value; `None` for `off`. All values were checked when the configuration
/// was loaded.
fn time_of(value: &[u8]) -> Result<Option<Expires>, String> {
    let text = std::str::from_utf8(value).map_err(|error| error.to_string())?;
    Expires::of_value(text)
}

/// The `Expires` and `Cache-Control` of a response, which replace received ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpiresLines {
    date: [u8; 29],
    /// Seconds; `None` for `no-cache`.
    max_age: Option<u64>,
}

impl ExpiresLines {
    /// The lines of a response with this status; `None` for errors. The entry has the time of its
    /// last change.
    fn of(
        expires: &Expires,
        status: u16,
        CurrentTime { now, clock }: CurrentTime<'_>,
        entry: Option<&Entry<'_>>,
    ) -> Option<Self> {
        if !matches!(status, 200 | 201 | 204 | 206 | 301 | 302 | 303 | 304 | 307 | 308) {
            return None;
        }
        let changed = || entry.and_then(last_change).unwrap_or(now);
        let (date, max_age) = match expires {
            Expires::After(time) => (date_of(after(now, *time)), Some(time.as_secs())),
            Expires::Before(time) => (date_of(before(now, *time)), None),
            Expires::AfterChange(time) => {
                let end = after(changed(), *time);
                (date_of(end), seconds_between(now, end))
            }
            Expires::BeforeChange(time) => (date_of(before(changed(), *time)), None),
            Expires::Until(time) => {
                let end = clock.next_time_of_day(now, *time);
                (date_of(end), seconds_between(now, end))
            }
            Expires::Epoch => (*EPOCH_DATE, None),
            Expires::Max => (*MAX_DATE, Some(MAX_AGE)),
            // `ExpiresByValue` knows it.
            Expires::By(_) => return None,
        };
        Some(Self { date, max_age })
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

fn after(moment: SystemTime, time: Duration) -> SystemTime {
    moment.checked_add(time).unwrap_or(moment)
}

fn before(moment: SystemTime, time: Duration) -> SystemTime {
    moment.checked_sub(time).unwrap_or(moment)
}

/// The number of whole seconds from `now` to the end, which dates show without fractions; `None` if
/// the end has passed.
fn seconds_between(now: SystemTime, end: SystemTime) -> Option<u64> {
    let second =
        |moment: SystemTime| moment.duration_since(UNIX_EPOCH).map_or(0, |at| at.as_secs());
    second(end).checked_sub(second(now))
}

/// The time of the last change of a response, as it tells it.
fn last_change(entry: &Entry<'_>) -> Option<SystemTime> {
    let value = entry.response_headers.value("last-modified")?;
    httpdate::parse_http_date(std::str::from_utf8(value).ok()?.trim()).ok()
}

#[cfg(test)]
mod tests {
    use weir_config::model::HeaderEdit;
    use weir_stats::Template;

    use super::*;
    use crate::exchange::record::ResponseView;
    use crate::http::edits::EditedMessage;
    use crate::http::sample::{SampleRequest, blank_entry, response};

    #[test]
    fn the_lines_are_those_of_nginx() {
        let now = UNIX_EPOCH + Duration::from_hours(24);
        let check = |expires, status, expected: &str| {
            let mut out = Vec::new();
            let now = CurrentTime { now, clock: &Clock::utc() };
            if let Some(lines) = ExpiresLines::of(&expires, status, now, None) {
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
        check(
            Expires::Until(hour),
            200,
            "Expires: Fri, 02 Jan 1970 01:00:00 GMT\r\nCache-Control: max-age=3600\r\n",
        );
        check(
            Expires::AfterChange(hour),
            200,
            "Expires: Fri, 02 Jan 1970 01:00:00 GMT\r\nCache-Control: max-age=3600\r\n",
        );
    }

    /// Further values than are kept are parsed, with the same outcome.
    #[test]
    fn every_value_of_a_variable_has_its_time() {
        const VALUES: usize = MOST_TIMES + 10;
        let entries: Vec<String> = (1..=VALUES).map(|age| format!("/{age} {age}s;")).collect();
        let entries = entries.join(" ");
        let text = format!(
            "map $uri $age {{ {entries} /never off; /always max; default -1s; }}
             listen 127.0.0.1:1 {{ route -> respond 200 {{ expires $age; }} }}"
        );
        let checked = weir_config::parse_str("weir.conf", &text).unwrap();
        let expires = checked.config.listeners[0].default[0].expires.as_ref().unwrap();
        let compiled = CompiledExpires::compile(expires);
        let CompiledExpires::By(by) = &compiled else { panic!("{compiled:?}") };
        assert!(by.times.len() <= MOST_TIMES && by.times.len() > MOST_TIMES / 2);
        let max_age = |path: &str| {
            let request = SampleRequest::new(&format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
            let view = request.view();
            let now = CurrentTime { now: UNIX_EPOCH, clock: &Clock::utc() };
            let lines = compiled.lines(200, now, Some(&request.entry(&view, &())));
            lines.map(|lines| lines.max_age)
        };
        for age in 1..=VALUES {
            assert_eq!(max_age(&format!("/{age}")), Some(Some(age as u64)));
        }
        assert_eq!(max_age("/never"), None);
        assert_eq!(max_age("/always"), Some(Some(MAX_AGE)));
        assert_eq!(max_age("/other"), Some(None));
    }

    #[test]
    fn a_time_is_counted_from_the_last_change() {
        let now = UNIX_EPOCH + Duration::from_hours(24);
        let day = Duration::from_hours(24);
        let check = |expires: Expires, changed: &str, date: &str, max_age| {
            let head = response(
                &format!("HTTP/1.1 200 OK\r\nLast-Modified: {changed}\r\n\r\n"),
                weir_wire::Method::Get,
            );
            let bytes = format!("HTTP/1.1 200 OK\r\nLast-Modified: {changed}\r\n\r\n");
            let view = ResponseView { head: &head, bytes: bytes.as_bytes() };
            let entry = Entry { response_headers: &view, ..blank_entry() };
            let now = CurrentTime { now, clock: &Clock::utc() };
            let compiled = CompiledExpires::compile(&expires);
            assert!(compiled.needs_entry());
            let lines = compiled.lines(200, now, Some(&entry)).unwrap();
            assert_eq!(std::str::from_utf8(&lines.date), Ok(date));
            assert_eq!(lines.max_age, max_age);
        };
        let changed = "Thu, 01 Jan 1970 10:00:00 GMT";
        let after = Expires::AfterChange(day);
        check(after.clone(), changed, "Fri, 02 Jan 1970 10:00:00 GMT", Some(10 * 3600));
        // It has passed.
        let passed = Expires::AfterChange(day / 24);
        check(passed, changed, "Thu, 01 Jan 1970 11:00:00 GMT", None);
        let before = Expires::BeforeChange(day / 24);
        check(before, changed, "Thu, 01 Jan 1970 09:00:00 GMT", None);
        check(after, "yesterday", "Sat, 03 Jan 1970 00:00:00 GMT", Some(24 * 3600));
    }

    #[test]
    fn a_line_that_is_set_is_written_once() {
        let edits = [HeaderEdit::Set("cache-control".into(), Template::parse("public").unwrap())];
        let edits = Edits::compile(EditedMessage::Response, &edits).unwrap();
        let now = CurrentTime { now: UNIX_EPOCH, clock: &Clock::utc() };
        let lines = ExpiresLines::of(&Expires::Epoch, 200, now, None).unwrap();
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
