//! Histogram logs (`.hlog`): one line per series with its name as tag, its interval and its counts.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::serialization::interval_log::{
    IntervalLogIterator, IntervalLogWriterBuilder, LogEntry, Tag,
};
use hdrhistogram::serialization::{Deserializer, V2DeflateSerializer};

use super::{from_hdr, to_hdr};
use crate::metrics::{Distribution, Phase, PhaseDistributions, Subject};

/// A subject and a phase.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Series {
    /// The subject whose times these are.
    pub subject: Subject,
    /// The phase.
    pub phase: Phase,
}

/// The contents of a log, by series.
pub type Log = BTreeMap<Series, Distribution>;

/// The distributions with at least one count, as a log.
pub fn log_of(all: &BTreeMap<Subject, PhaseDistributions>) -> Log {
    let mut log = Log::new();
    for (subject, phases) in all {
        for (phase, times) in phases.counted() {
            log.insert(Series { subject: subject.clone(), phase }, times.clone());
        }
    }
    log
}

/// The interval that a log covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// The start.
    pub from: SystemTime,
    /// The duration.
    pub length: Duration,
}

/// A selection of series; it selects every listener if no name is set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The listener's name; with a route, that of the route's listener.
    pub listener: Option<String>,
    /// The route's name.
    pub route: Option<String>,
    /// The pool's name; with an endpoint, that of the endpoint's pool.
    pub pool: Option<String>,
    /// The endpoint's name.
    pub endpoint: Option<String>,
}

impl Interval {
    /// The interval from the earlier start to the later end.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let end = (self.from + self.length).max(other.from + other.length);
        let from = self.from.min(other.from);
        Self { from, length: end.duration_since(from).unwrap_or_default() }
    }
}

impl Wanted {
    /// The times of one phase summed over all selected subjects; `None` if no subject is selected.
    pub fn of(&self, log: &Log, phase: Phase) -> Option<Distribution> {
        let mut taken = log.iter().filter(|(series, _)| self.takes(&series.subject)).peekable();
        taken.peek()?;
        let mut sum = Distribution::default();
        taken.filter(|(series, _)| series.phase == phase).for_each(|(_, times)| sum.add(times));
        Some(sum)
    }

    /// Returns true if a subject is selected. No exchange is counted in two selected subjects.
    pub fn takes(&self, subject: &Subject) -> bool {
        let is = |wanted: &Option<String>, own: &String| wanted.as_ref().is_none_or(|it| it == own);
        match subject {
            Subject::Listener(listener) => {
                self.route.is_none()
                    && self.pool.is_none()
                    && self.endpoint.is_none()
                    && is(&self.listener, listener)
            }
            Subject::Route { listener, route } => {
                self.route.as_ref() == Some(route) && is(&self.listener, listener)
            }
            Subject::Pool(pool) => {
                self.route.is_none() && self.endpoint.is_none() && self.pool.as_ref() == Some(pool)
            }
            Subject::Endpoint { pool, endpoint } => {
                self.endpoint.as_ref() == Some(endpoint) && is(&self.pool, pool)
            }
        }
    }
}

impl Series {
    /// The tag in a log: `pool/app/total`. Bytes that a tag or a part of it must not contain are
    /// percent-encoded.
    pub fn tag(&self) -> String {
        let mut tag = String::new();
        let parts: [&str; 3] = match &self.subject {
            Subject::Listener(listener) => ["listener", listener, ""],
            Subject::Route { listener, route } => ["route", listener, route],
            Subject::Pool(pool) => ["pool", pool, ""],
            Subject::Endpoint { pool, endpoint } => ["endpoint", pool, endpoint],
        };
        let two = matches!(self.subject, Subject::Listener(_) | Subject::Pool(_));
        for part in parts.iter().take(if two { 2 } else { 3 }) {
            encode(part, &mut tag);
            tag.push('/');
        }
        tag + self.phase.as_str()
    }

    /// Parses a tag; returns `None` for one of another program.
    pub fn read(tag: &str) -> Option<Self> {
        let (rest, phase) = tag.rsplit_once('/')?;
        let phase = Phase::named(phase)?;
        let parts: Vec<String> = rest.split('/').map(decode).collect::<Option<_>>()?;
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let own = |text: &str| text.to_owned();
        let subject = match parts.as_slice() {
            ["listener", listener] => Subject::Listener(own(listener)),
            ["route", listener, route] => {
                Subject::Route { listener: own(listener), route: own(route) }
            }
            ["pool", pool] => Subject::Pool(own(pool)),
            ["endpoint", pool, endpoint] => {
                Subject::Endpoint { pool: own(pool), endpoint: own(endpoint) }
            }
            _ => return None,
        };
        Some(Self { subject, phase })
    }
}

fn encode(text: &str, out: &mut String) {
    for byte in text.bytes() {
        if byte.is_ascii_graphic() && !b"/,%".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
}

fn decode(text: &str) -> Option<String> {
    let mut pieces = text.split('%');
    let mut bytes = pieces.next()?.as_bytes().to_vec();
    for piece in pieces {
        let (digits, rest) = piece.split_at_checked(2)?;
        // `from_str_radix` accepts a sign, too.
        if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        bytes.extend(rest.bytes());
    }
    String::from_utf8(bytes).ok()
}

/// Formats a log as text.
pub fn write_log(log: &Log, interval: Interval, host: &str) -> String {
    let mut out = Vec::new();
    // Writing to memory does not fail, and the counts of these histograms fit.
    let written = write(log, interval, host, &mut out);
    debug_assert!(written.is_ok(), "{written:?}");
    String::from_utf8_lossy(&out).into_owned()
}

fn write(
    log: &Log,
    interval: Interval,
    host: &str,
    out: &mut Vec<u8>,
) -> Result<(), Box<dyn std::error::Error>> {
    let mut serializer = V2DeflateSerializer::new();
    let mut writer = IntervalLogWriterBuilder::new()
        .add_comment("[Histogram log format version 1.3]")
        .add_comment(&format!("[Logged by Weir on {host}, in microseconds, longest in ms]"))
        .with_start_time(interval.from)
        .with_base_time(interval.from)
        .with_max_value_divisor(1e3)
        .begin_log_with(out, &mut serializer)?;
    for (series, times) in log {
        let tag = series.tag();
        writer.write_histogram(&to_hdr(times), Duration::ZERO, interval.length, Tag::new(&tag))?;
    }
    Ok(())
}

/// Adds the contents of a log to `sum`. Series of other programs are ignored.
///
/// # Returns
/// The interval of the log, if it has one.
///
/// # Errors
/// Returns one sentence; part of the log may have been added by then.
pub fn read_log(text: &str, sum: &mut Log) -> Result<Option<Interval>, String> {
    let mut reader = Deserializer::new();
    let (mut from, mut length) = (None, Duration::ZERO);
    for entry in IntervalLogIterator::new(text.as_bytes()) {
        let entry = entry.map_err(|error| format!("it is no log of histograms: {error:?}"))?;
        let line = match entry {
            LogEntry::Interval(line) => line,
            LogEntry::StartTime(since) => {
                from = SystemTime::UNIX_EPOCH.checked_add(since);
                continue;
            }
            LogEntry::BaseTime(_) => continue,
        };
        length = length.max(line.start_timestamp().saturating_add(line.duration()));
        let Some(series) = line.tag().and_then(|tag| Series::read(tag.as_str())) else { continue };
        let name = || series.tag();
        let bytes = STANDARD.decode(line.encoded_histogram());
        let bytes = bytes.map_err(|error| format!("{}: no base64: {error}", name()))?;
        let histogram = reader
            .deserialize::<u64, _>(&mut bytes.as_slice())
            .map_err(|error| format!("{}: no histogram: {error}", name()))?;
        let times = from_hdr(&histogram).map_err(|error| format!("{}: {error}", name()))?;
        sum.entry(series).or_default().add(&times);
    }
    Ok(from.map(|from| Interval { from, length }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(name: &str) -> Subject {
        Subject::Endpoint { pool: "app".to_owned(), endpoint: name.to_owned() }
    }

    #[test]
    fn names_of_any_kind_are_tags() {
        let check = |subject: Subject, phase, expected: &str| {
            let series = Series { subject, phase };
            assert_eq!(series.tag(), expected);
            assert!(Tag::new(expected).is_some());
            assert_eq!(Series::read(expected), Some(series));
        };
        check(Subject::Listener("front".to_owned()), Phase::Total, "listener/front/total");
        check(
            endpoint("unix:/run/a b,%"),
            Phase::Own,
            "endpoint/app/unix:%2Frun%2Fa%20b%2C%25/own",
        );
        let (listener, route) = ("l".to_owned(), String::new());
        check(Subject::Route { listener, route }, Phase::Data, "route/l//data");
        check(Subject::Pool("größe\n".to_owned()), Phase::Queue, "pool/gr%C3%B6%C3%9Fe%0A/queue");
        let none = ["", "total", "app/total", "pool/app/mean"];
        let no_text = ["pool/%4/total", "pool/%+F/total", "pool/%FF/total"];
        for other in none.into_iter().chain(no_text) {
            assert_eq!(Series::read(other), None, "{other}");
        }
    }

    #[test]
    fn what_is_asked_for_is_counted_once() {
        let route = |listener: &str, route: &str| Subject::Route {
            listener: listener.to_owned(),
            route: route.to_owned(),
        };
        let all = [
            Subject::Listener("a".to_owned()),
            Subject::Listener("b".to_owned()),
            route("a", "shop"),
            route("b", "shop"),
            Subject::Pool("app".to_owned()),
            endpoint("one"),
            endpoint("two"),
        ];
        let check = |wanted: Wanted, expected: &[usize]| {
            let taken = (0..all.len()).filter(|index| wanted.takes(&all[*index]));
            assert_eq!(taken.collect::<Vec<_>>(), expected, "{wanted:?}");
        };
        let named = |name: &str| Some(name.to_owned());
        check(Wanted::default(), &[0, 1]);
        check(Wanted { listener: named("b"), ..Wanted::default() }, &[1]);
        check(Wanted { route: named("shop"), ..Wanted::default() }, &[2, 3]);
        check(Wanted { route: named("shop"), listener: named("a"), ..Wanted::default() }, &[2]);
        check(Wanted { pool: named("app"), ..Wanted::default() }, &[4]);
        check(Wanted { endpoint: named("two"), pool: named("app"), ..Wanted::default() }, &[6]);
        check(Wanted { endpoint: named("two"), pool: named("web"), ..Wanted::default() }, &[]);
    }

    #[test]
    fn what_is_no_log_of_ours_is_said() {
        let mut sum = Log::new();
        read_log(
            "#[StartTime: 1.000 (seconds since epoch)]\nTag=theirs,0.000,1.000,1.0,AA==\n",
            &mut sum,
        )
        .unwrap();
        assert!(sum.is_empty());
        let check = |text: &str, expected: &str| {
            let error = read_log(text, &mut Log::new()).unwrap_err();
            assert!(error.contains(expected), "{error}");
        };
        check("Tag=pool/app/total,0.000,1.000,1.0,%%%\n", "pool/app/total: no base64");
        check("Tag=pool/app/total,0.000,1.000,1.0,AAAA\n", "pool/app/total: no histogram");
        let mut other = hdrhistogram::Histogram::<u64>::new_with_bounds(1, 1 << 20, 2).unwrap();
        other.record(5).unwrap();
        let mut out = Vec::new();
        let mut serializer = V2DeflateSerializer::new();
        IntervalLogWriterBuilder::new()
            .begin_log_with(&mut out, &mut serializer)
            .unwrap()
            .write_histogram(&other, Duration::ZERO, Duration::ZERO, Tag::new("pool/app/total"))
            .unwrap();
        check(
            &String::from_utf8(out).unwrap(),
            "pool/app/total: it is kept from 1 to 1048576 with 2",
        );
    }
}
