//! The `Date` header's value (RFC 9110 section 5.6.7), formatted once a second per worker. The time
//! is an argument.

use std::time::{SystemTime, UNIX_EPOCH};

const DAYS: [&[u8; 3]; 7] = [b"Thu", b"Fri", b"Sat", b"Sun", b"Mon", b"Tue", b"Wed"];
const MONTHS: [&[u8; 3]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];

/// A date such as `Sun, 06 Nov 1994 08:49:37 GMT`, kept until the second changes.
#[derive(Clone, Debug)]
pub(crate) struct HttpDate {
    second: u64,
    text: [u8; 29],
}

impl Default for HttpDate {
    fn default() -> Self {
        Self { second: 0, text: format(0) }
    }
}

impl HttpDate {
    /// The date of `now`. Times before 1970 become the first second of 1970, times after the year
    /// 9999 its last second.
    pub(crate) fn at(&mut self, now: SystemTime) -> &[u8; 29] {
        let second = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        if second != self.second {
            self.second = second;
            self.text = format(second.min(253_402_300_799));
        }
        &self.text
    }
}

/// The date of a moment, within the same bounds.
pub(crate) fn date_of(moment: SystemTime) -> [u8; 29] {
    *HttpDate::default().at(moment)
}

fn format(second: u64) -> [u8; 29] {
    let (days, time) = (second / 86400, second % 86400);
    let (year, month, day) = civil(days);
    let name = |names: &[&'static [u8; 3]], number: u64| {
        names.get(number as usize).copied().unwrap_or(b"???")
    };
    let [d1, d2, d3] = *name(&DAYS, days % 7);
    let [m1, m2, m3] = *name(&MONTHS, month - 1);
    let [day_tens, day_ones] = two(day);
    let ([century_tens, century_ones], [year_tens, year_ones]) = (two(year / 100), two(year % 100));
    let [[h1, h2], [n1, n2], [s1, s2]] = [two(time / 3600), two(time / 60 % 60), two(time % 60)];
    [
        d1,
        d2,
        d3,
        b',',
        b' ',
        day_tens,
        day_ones,
        b' ',
        m1,
        m2,
        m3,
        b' ',
        century_tens,
        century_ones,
        year_tens,
        year_ones,
        b' ',
        h1,
        h2,
        b':',
        n1,
        n2,
        b':',
        s1,
        s2,
        b' ',
        b'G',
        b'M',
        b'T',
    ]
}

fn two(number: u64) -> [u8; 2] {
    [b'0' + (number / 10 % 10) as u8, b'0' + (number % 10) as u8]
}

/// Year, month and day of a day counted from 1970-01-01. The calculation uses years that start in
/// March, so that leap days come last (Howard Hinnant, "chrono-Compatible Low-Level Date
/// Algorithms").
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn check(date: &mut HttpDate, second: u64, expected: &str) {
        let text = date.at(UNIX_EPOCH + Duration::from_millis(second * 1000 + 999));
        assert_eq!(std::str::from_utf8(text).unwrap(), expected);
    }

    #[test]
    fn dates_are_written_as_rfc_9110_says() {
        let mut date = HttpDate::default();
        check(&mut date, 0, "Thu, 01 Jan 1970 00:00:00 GMT");
        check(&mut date, 784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT");
        check(&mut date, 951_782_399, "Mon, 28 Feb 2000 23:59:59 GMT");
        check(&mut date, 951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT");
        check(&mut date, 951_868_800, "Wed, 01 Mar 2000 00:00:00 GMT");
        check(&mut date, 1_798_761_599, "Thu, 31 Dec 2026 23:59:59 GMT");
        check(&mut date, 4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT");
        check(&mut date, 253_402_300_799, "Fri, 31 Dec 9999 23:59:59 GMT");
        check(&mut date, 253_402_300_800, "Fri, 31 Dec 9999 23:59:59 GMT");
        check(&mut date, 784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT");
    }
}
