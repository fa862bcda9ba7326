//! Time stamps of logs, in the system's time zone. The text of the current second is cached, so
//! that the lines of one second format only their milliseconds.

use std::io::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

use crate::access_log::format;

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Formats time stamps; one per worker, reused for every line.
#[derive(Debug)]
pub struct Clock {
    zone: TimeZone,
    second: Option<i64>,
    common: Vec<u8>,
    iso: Vec<u8>,
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock {
    /// A clock in the system's time zone (`TZ`, `/etc/localtime`).
    pub fn new() -> Self {
        Self::in_zone(TimeZone::system())
    }

    /// A clock in UTC.
    pub fn utc() -> Self {
        Self::in_zone(TimeZone::UTC)
    }

    fn in_zone(zone: TimeZone) -> Self {
        Self { zone, second: None, common: Vec::new(), iso: Vec::new() }
    }

    /// Appends nginx's `$time_local`: `20/Nov/2026:19:15:00 +0000`.
    pub fn append_common(&mut self, time: SystemTime, out: &mut Vec<u8>) {
        self.turn_to(time);
        out.extend_from_slice(&self.common);
    }

    /// Appends HAProxy's `%tr` without its brackets: `20/Nov/2026:19:15:00.007`.
    pub fn append_haproxy(&mut self, time: SystemTime, out: &mut Vec<u8>) {
        let milliseconds = self.turn_to(time) / 1000;
        // Everything but the offset, such as ` +0000`, which is always six bytes.
        out.extend_from_slice(&self.common[..self.common.len().saturating_sub(6)]);
        out.push(b'.');
        format::append_three(u64::from(milliseconds), out);
    }

    /// Appends the time stamp of RFC 3164 section 4.1.2: `Nov 20 19:15:00`, a day below 10 with a
    /// space.
    pub fn append_syslog(&mut self, time: SystemTime, out: &mut Vec<u8>) {
        self.turn_to(time);
        let (day, month, clock) = (&self.common[..2], &self.common[3..6], &self.common[12..20]);
        out.extend_from_slice(month);
        out.extend_from_slice(if day[0] == b'0' { b"  " } else { b" " });
        out.extend_from_slice(day.strip_prefix(b"0").unwrap_or(day));
        out.push(b' ');
        out.extend_from_slice(clock);
    }

    /// Appends nginx's `$time_iso8601`: `2026-11-20T19:15:00+00:00`.
    pub fn append_iso(&mut self, time: SystemTime, out: &mut Vec<u8>) {
        self.turn_to(time);
        out.extend_from_slice(&self.iso);
    }

    /// Appends ISO 8601 with microseconds: `2026-11-20T19:15:00.000007+00:00`.
    pub fn append_iso_micros(&mut self, time: SystemTime, out: &mut Vec<u8>) {
        let microseconds = self.turn_to(time);
        let (second, offset) = self.iso.split_at(self.iso.len().saturating_sub(6));
        out.extend_from_slice(second);
        out.push(b'.');
        format::append_three(u64::from(microseconds / 1000), out);
        format::append_three(u64::from(microseconds % 1000), out);
        out.extend_from_slice(offset);
    }

    /// Returns the moment after `now` at which the zone has a time of the day, which is given as
    /// the time since midnight, up to 24 hours.
    pub fn next_time_of_day(&self, now: SystemTime, time: Duration) -> SystemTime {
        let Ok(timestamp) = Timestamp::try_from(now) else { return now };
        let today = timestamp.to_zoned(self.zone.clone()).date();
        let at = |date: Date| -> Option<SystemTime> {
            let moment = date.to_datetime(Time::midnight()).checked_add(time).ok()?;
            Some(moment.to_zoned(self.zone.clone()).ok()?.timestamp().into())
        };
        let next = at(today).filter(|moment| *moment > now);
        next.or_else(|| at(today.tomorrow().ok()?)).unwrap_or(now)
    }

    /// Sets the cached texts to those of `time`'s second; returns the microseconds within it.
    fn turn_to(&mut self, time: SystemTime) -> u32 {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        let second = since.as_secs() as i64;
        if self.second != Some(second) {
            self.second = Some(second);
            let timestamp = Timestamp::from_second(second).unwrap_or_default();
            self.format(&timestamp.to_zoned(self.zone.clone()));
        }
        since.subsec_micros()
    }

    fn format(&mut self, now: &Zoned) {
        let (year, month, day) = (now.year(), now.month(), now.day());
        let (hour, minute, second) = (now.hour(), now.minute(), now.second());
        let month_name = MONTHS.get(month.unsigned_abs() as usize - 1).copied().unwrap_or_default();
        let offset = now.offset().seconds();
        let sign = if offset < 0 { '-' } else { '+' };
        let minutes = offset.unsigned_abs() / 60;
        let (east, odd) = (minutes / 60, minutes % 60);
        self.common.clear();
        self.iso.clear();
        // Writing to a `Vec` cannot fail.
        let _ = write!(
            self.common,
            "{day:02}/{month_name}/{year:04}:{hour:02}:{minute:02}:{second:02} {sign}{east:02}{odd:02}"
        );
        let _ = write!(
            self.iso,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{sign}{east:02}:{odd:02}"
        );
    }
}

/// Appends HAProxy's `%T`: `20/Nov/2026:19:15:00 +0000`, in UTC whatever the zone is.
pub(crate) fn append_universal(time: SystemTime, out: &mut Vec<u8>) {
    Clock::utc().append_common(time, out);
}

/// Appends a time as OpenSSL writes those of certificates: `Nov  5 19:15:00 2026 GMT`.
pub(crate) fn append_openssl(seconds: i64, out: &mut Vec<u8>) {
    let time = Timestamp::from_second(seconds).unwrap_or_default().to_zoned(TimeZone::UTC);
    let month = MONTHS.get(time.month().unsigned_abs() as usize - 1).copied().unwrap_or_default();
    let (day, hour, minute, second) = (time.day(), time.hour(), time.minute(), time.second());
    let year = time.year();
    // Writing to a `Vec` cannot fail.
    let _ = write!(out, "{month} {day:2} {hour:02}:{minute:02}:{second:02} {year} GMT");
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::tz::{Offset, TimeZone};

    use super::*;

    fn check(clock: &mut Clock, microseconds: u64, expected: [&str; 4]) {
        let time = UNIX_EPOCH + Duration::from_micros(microseconds);
        let mut texts: [Vec<u8>; 4] = Default::default();
        clock.append_common(time, &mut texts[0]);
        clock.append_haproxy(time, &mut texts[1]);
        clock.append_iso(time, &mut texts[2]);
        clock.append_iso_micros(time, &mut texts[3]);
        assert_eq!(texts.map(|text| String::from_utf8(text).unwrap()), expected);
    }

    #[test]
    fn writes_the_formats_of_nginx_and_haproxy() {
        let mut clock = Clock::utc();
        let expected = [
            "13/Feb/2009:23:31:30 +0000",
            "13/Feb/2009:23:31:30.007",
            "2009-02-13T23:31:30+00:00",
            "2009-02-13T23:31:30.007009+00:00",
        ];
        check(&mut clock, 1_234_567_890_007_009, expected);
        let earlier = [
            "13/Feb/2009:23:31:29 +0000",
            "13/Feb/2009:23:31:29.999",
            "2009-02-13T23:31:29+00:00",
            "2009-02-13T23:31:29.999999+00:00",
        ];
        check(&mut clock, 1_234_567_889_999_999, earlier);
    }

    #[test]
    fn writes_the_syslog_stamp_with_a_padded_day() {
        let check = |seconds: u64, expected: &str| {
            let mut out = Vec::new();
            Clock::utc().append_syslog(UNIX_EPOCH + Duration::from_secs(seconds), &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        };
        check(1_234_567_890, "Feb 13 23:31:30");
        check(1_233_567_890, "Feb  2 09:44:50");
    }

    #[test]
    fn a_time_of_the_day_comes_today_or_tomorrow() {
        let minutes = Duration::from_mins;
        let check = |clock: &Clock, now: Duration, time: Duration, after: Duration| {
            let next = clock.next_time_of_day(UNIX_EPOCH + now, time);
            assert_eq!(next, UNIX_EPOCH + now + after);
        };
        let utc = Clock::utc();
        check(&utc, minutes(60), minutes(90), minutes(30));
        check(&utc, minutes(60), minutes(60), minutes(24 * 60));
        check(&utc, minutes(60), minutes(30), minutes(23 * 60 + 30));
        check(&utc, minutes(60), minutes(24 * 60), minutes(23 * 60));
        check(&utc, minutes(60), minutes(0), minutes(23 * 60));
        let east = Clock::in_zone(TimeZone::fixed(Offset::constant(5)));
        check(&east, minutes(60), minutes(7 * 60), minutes(60));
        // In the night of 29 March 2026 an hour is left out, and 02:30 is 03:30.
        let paris = Clock::in_zone(TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap());
        let midnight = Duration::from_hours(492_983);
        check(&paris, midnight, minutes(150), minutes(150));
        check(&paris, midnight, minutes(300), minutes(240));
    }

    #[test]
    fn writes_times_of_certificates() {
        let check = |seconds: i64, expected: &str| {
            let mut out = Vec::new();
            append_openssl(seconds, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        };
        check(1_234_567_890, "Feb 13 23:31:30 2009 GMT");
        check(1_233_567_890, "Feb  2 09:44:50 2009 GMT");
        check(-1, "Dec 31 23:59:59 1969 GMT");
    }

    #[test]
    fn writes_offsets_west_and_odd() {
        let offset = Offset::from_seconds(-(3 * 3600 + 30 * 60)).unwrap();
        let mut clock = Clock::in_zone(TimeZone::fixed(offset));
        let expected = [
            "13/Feb/2009:20:01:30 -0330",
            "13/Feb/2009:20:01:30.000",
            "2009-02-13T20:01:30-03:30",
            "2009-02-13T20:01:30.000000-03:30",
        ];
        check(&mut clock, 1_234_567_890_000_000, expected);
    }
}
