//! Parses endpoints, outages, limits and queues of the command line into values of the plan.
//! Contradictions between them are found by the plan's check.

use std::str::FromStr;

use super::calendar::PeriodicPause;
use super::plan::{MaxConn, Outage, OutageKind, SimQueue};
use super::time;
use crate::units::time_ns;

/// Reads `every=5s,for=200ms`.
impl FromStr for PeriodicPause {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (mut every, mut length) = (None, None);
        for part in text.split(',') {
            match part.split_once('=') {
                Some(("every", value)) => every = Some(time_ns(value)?),
                Some(("for", value)) => length = Some(time_ns(value)?),
                _ => return Err(format!("`{part}`: a pause is written every=5s,for=200ms")),
            }
        }
        match (every, length) {
            (Some(every), Some(length)) => Ok(Self { every, length }),
            _ => Err(format!("`{text}` is incomplete: a pause is written every=5s,for=200ms")),
        }
    }
}

/// Reads `down:2:10s..20s` or `frozen:1:5s..11s`; `down` may have no end.
impl FromStr for Outage {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "`{text}` is not a failure: write down:2:10s..20s or frozen:1:5s..11s (kind, endpoint, from..until)"
            )
        };
        let mut parts = text.splitn(3, ':');
        let kind = match parts.next() {
            Some("down") => OutageKind::Down,
            Some("frozen") => OutageKind::Frozen,
            _ => return Err(wrong()),
        };
        let number: usize = parts.next().and_then(|part| part.parse().ok()).ok_or_else(wrong)?;
        let endpoint = number
            .checked_sub(1)
            .ok_or_else(|| format!("`{text}`: endpoints are numbered from 1"))?;
        let (from, until) =
            parts.next().and_then(|part| part.split_once("..")).ok_or_else(wrong)?;
        let until = if until.is_empty() { time::NEVER } else { time_ns(until)? };
        Ok(Self { endpoint, kind, from: time_ns(from)?, until })
    }
}

/// Reads `1`, `none` or `1/2/4`.
impl FromStr for MaxConn {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        each(text, |part| count_or(part, "none")).map(Self)
    }
}

impl FromStr for SimQueue {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "on" => Ok(Self::On),
            "off" => Ok(Self::Off),
            "buggy" => Ok(Self::Buggy),
            _ => Err(format!("`{text}` is not a queue setting: use on, off or buggy")),
        }
    }
}

/// Reads one value for all, or one for each, separated by slashes.
pub fn each<T>(text: &str, read: impl Fn(&str) -> Result<T, String>) -> Result<Vec<T>, String> {
    text.split('/').map(read).collect()
}

/// Reads a number, or the word `none` in its given form.
pub fn count_or(text: &str, none: &str) -> Result<Option<u32>, String> {
    if text == none {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| format!("`{text}` is neither a number nor `{none}`"))
}

/// Reads `100` or `100/s`.
pub fn rate(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix("/s").unwrap_or(text);
    let wrong = || format!("`{text}` is not a rate: write requests per second, as in 100 or 100/s");
    number.parse::<f64>().ok().filter(|rate| rate.is_finite()).ok_or_else(wrong)
}

/// Reads `20%` as a share of 1.
pub fn share(text: &str) -> Result<f64, String> {
    let wrong = || format!("`{text}` is not a share: write a percentage, as in 20%");
    let percent: f64 =
        text.strip_suffix('%').and_then(|text| text.parse().ok()).ok_or_else(wrong)?;
    if (0.0..=100.0).contains(&percent) { Ok(percent / 100.0) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::time::SECOND;

    #[test]
    fn specifications_are_read() {
        assert_eq!(
            "every=5s,for=200ms".parse(),
            Ok(PeriodicPause { every: 5 * SECOND, length: SECOND / 5 })
        );
        let outage =
            Outage { endpoint: 1, kind: OutageKind::Down, from: 10 * SECOND, until: 20 * SECOND };
        assert_eq!("down:2:10s..20s".parse(), Ok(outage));
        assert_eq!("down:2:10s..".parse(), Ok(Outage { until: time::NEVER, ..outage }));
        assert_eq!("1/none/4".parse(), Ok(MaxConn(vec![Some(1), None, Some(4)])));
        assert_eq!("1/none/4".parse::<MaxConn>().unwrap().to_string(), "1/none/4");
        assert_eq!("buggy".parse(), Ok(SimQueue::Buggy));
        assert_eq!((rate("100/s"), rate("0.5")), (Ok(100.0), Ok(0.5)));
        assert_eq!(share("20%"), Ok(0.2));
    }

    #[test]
    fn what_is_wrong_says_what_to_write() {
        let check = |found: Result<(), String>, part: &str| {
            let message = found.unwrap_err();
            assert!(message.contains(part), "{message}");
        };
        check("every=5s".parse::<PeriodicPause>().map(drop), "every=5s,for=200ms");
        check("every=5s,length=1s".parse::<PeriodicPause>().map(drop), "every=5s,for=200ms");
        check("down:0:1s..2s".parse::<Outage>().map(drop), "numbered from 1");
        check("slow:1:1s..2s".parse::<Outage>().map(drop), "frozen:1:5s..11s");
        check("down:1:1s".parse::<Outage>().map(drop), "down:2:10s..20s");
        check("1/two".parse::<MaxConn>().map(drop), "neither a number nor `none`");
        check("perhaps".parse::<SimQueue>().map(drop), "on, off or buggy");
        check(rate("fast").map(drop), "requests per second");
        check(rate("inf").map(drop), "requests per second");
        check(share("20").map(drop), "percent");
        check(share("200%").map(drop), "percent");
    }
}
