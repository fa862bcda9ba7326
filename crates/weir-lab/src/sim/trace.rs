//! Recorded traffic: arrival and service times of requests, from Weir's JSON access log or from
//! CSV. It resolves no names and sends nothing.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use jiff::Timestamp;
use serde::Deserialize;
use weir_balance::hash_key;

use super::time::SECOND;

/// Largest number of requests in a trace.
const MAX_REQUESTS: usize = 10_000_000;
/// Largest length of a line in bytes; a log line of Weir is bounded by its message limits.
const MAX_LINE: u64 = 1 << 20;

/// Recorded requests, the oldest first.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestTrace {
    name: String,
    entries: Vec<Recorded>,
    /// Set if every entry has a service time.
    timed: bool,
    /// Number of log lines for another pool, or for none.
    skipped: u64,
}

/// One recorded request.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Recorded {
    /// Arrival since the first request, ns.
    arrival: u64,
    /// Service time in ns.
    service: Option<u64>,
    /// A hash that identifies the client.
    key: u64,
}

/// The fields that are read from a line of the access log.
#[derive(Deserialize)]
struct TraceLine<'a> {
    #[serde(borrow)]
    time: Cow<'a, str>,
    #[serde(borrow, default)]
    pool: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    client: Option<Cow<'a, str>>,
    /// Microseconds.
    #[serde(default)]
    t_response: Option<u64>,
    /// Microseconds.
    #[serde(default)]
    t_data: Option<u64>,
}

impl RequestTrace {
    /// Reads a trace. Of an access log, only the lines of `pool` are used; without `pool` all lines
    /// must be of one pool.
    pub fn read(path: &Path, pool: Option<&str>) -> Result<Self, String> {
        let name = path.display().to_string();
        let file = std::fs::File::open(path)
            .map_err(|error| format!("cannot read the trace {name}: {error}"))?;
        Self::from_reader(&name, &mut BufReader::new(file), pool)
    }

    fn from_reader(
        name: &str,
        reader: &mut impl BufRead,
        pool: Option<&str>,
    ) -> Result<Self, String> {
        let mut lines = NumberedLines { name, reader, text: String::new(), number: 0 };
        let Some(first) = lines.next()? else {
            return Err(format!("the trace {name} is empty"));
        };
        let (mut entries, skipped) = if first.starts_with('{') {
            read_log(&mut lines, pool)?
        } else {
            (read_csv(&mut lines)?, 0)
        };
        if entries.is_empty() {
            return Err(format!(
                "the trace {name} has no requests{}",
                if skipped > 0 { " that went to a pool" } else { "" }
            ));
        }
        // Log lines are written when requests end.
        entries.sort_by_key(|entry| entry.arrival);
        let start = entries[0].arrival;
        for entry in &mut entries {
            entry.arrival -= start;
        }
        let timed = entries.iter().all(|entry| entry.service.is_some());
        Ok(Self { name: name.to_owned(), entries, timed, skipped })
    }

    /// Path of the trace's file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Number of requests.
    pub fn len(&self) -> u64 {
        self.entries.len() as u64
    }

    /// Returns true if there are no requests, which [`RequestTrace::read`] refuses.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns true if every request has a service time.
    pub fn is_timed(&self) -> bool {
        self.timed
    }

    /// Number of lines that do not belong to the pool.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Arrival of a request, ns since the first one.
    pub(crate) fn arrival(&self, number: u64) -> Option<u64> {
        self.entries.get(number as usize).map(|entry| entry.arrival)
    }

    /// Service time of a request, ns.
    pub(crate) fn service(&self, number: u64) -> Option<u64> {
        self.entries.get(number as usize).and_then(|entry| entry.service)
    }

    /// A hash that identifies the client of a request.
    pub(crate) fn key(&self, number: u64) -> Option<u64> {
        self.entries.get(number as usize).map(|entry| entry.key)
    }
}

/// The lines of a file with their numbers, one in memory at a time.
struct NumberedLines<'a, R> {
    name: &'a str,
    reader: &'a mut R,
    text: String,
    number: u64,
}

impl<R: BufRead> NumberedLines<'_, R> {
    /// The next line that is not empty.
    fn next(&mut self) -> Result<Option<&str>, String> {
        loop {
            self.text.clear();
            self.number += 1;
            let read = (&mut *self.reader).take(MAX_LINE).read_line(&mut self.text);
            match read {
                Ok(0) => return Ok(None),
                Ok(read) if read as u64 == MAX_LINE => {
                    return Err(self.wrong("the line is longer than 1 MiB"));
                }
                Ok(_) if self.text.trim().is_empty() => {}
                Ok(_) => return Ok(Some(self.text.trim_end())),
                Err(error) => return Err(self.wrong(&error.to_string())),
            }
        }
    }

    fn current(&self) -> &str {
        self.text.trim_end()
    }

    fn wrong(&self, what: &str) -> String {
        format!("{}:{}: {what}", self.name, self.number)
    }

    fn check_count(&self, count: usize) -> Result<(), String> {
        if count < MAX_REQUESTS {
            return Ok(());
        }
        Err(format!(
            "{} has more than {MAX_REQUESTS} requests: cut it, with `head` or `split`",
            self.name
        ))
    }
}

/// Reads an access log, beginning with the current line.
fn read_log<R: BufRead>(
    lines: &mut NumberedLines<'_, R>,
    pool: Option<&str>,
) -> Result<(Vec<Recorded>, u64), String> {
    let mut entries = Vec::new();
    let mut skipped = 0;
    let mut pools = BTreeSet::new();
    loop {
        lines.check_count(entries.len())?;
        let line: TraceLine<'_> = serde_json::from_str(lines.current())
            .map_err(|error| lines.wrong(&format!("not a line of Weir's `json` log: {error}")))?;
        let wanted = match (&line.pool, pool) {
            (Some(own), Some(wanted)) => own == wanted,
            (Some(_), None) => true,
            (None, _) => false,
        };
        if let Some(own) = &line.pool
            && !pools.contains(&**own)
        {
            pools.insert(own.clone().into_owned());
        }
        if wanted {
            let entry = line.recorded().map_err(|what| lines.wrong(&what))?;
            entries.push(entry);
        } else {
            skipped += 1;
        }
        if lines.next()?.is_none() {
            break;
        }
    }
    let all: Vec<&str> = pools.iter().map(String::as_str).collect();
    match pool {
        None if all.len() > 1 => Err(format!(
            "{} has requests of the pools {}: choose one with --pool",
            lines.name,
            all.join(", ")
        )),
        Some(wanted) if entries.is_empty() => Err(format!(
            "{} has no request of the pool `{wanted}`; it has {}",
            lines.name,
            if all.is_empty() { "none".to_owned() } else { all.join(", ") }
        )),
        _ => Ok((entries, skipped)),
    }
}

impl TraceLine<'_> {
    fn recorded(&self) -> Result<Recorded, String> {
        let time: Timestamp = self.time.parse().map_err(|_| {
            format!("`{}` is not a time as in 2026-11-20T19:15:00.123456+00:00", self.time)
        })?;
        let arrival = u64::try_from(time.as_nanosecond())
            .map_err(|_| format!("the time {} is before 1970", self.time))?;
        let service = self
            .t_response
            .map(|response| (response + self.t_data.unwrap_or(0)).saturating_mul(1_000));
        let key = self.client.as_ref().map_or(0, |client| hash_key(client.as_bytes()));
        Ok(Recorded { arrival, service, key })
    }
}

/// The indexes of the columns, with the factors of their units.
struct Columns {
    arrival: (usize, f64),
    service: Option<(usize, f64)>,
    key: Option<usize>,
}

impl Columns {
    fn read(header: &str) -> Option<Self> {
        let names: Vec<&str> = header.split(',').map(str::trim).collect();
        let time = |what: &str| {
            let unit = |name: &&str| match name.strip_prefix(what)? {
                "_s" => Some(1e9),
                "_ms" => Some(1e6),
                "_us" => Some(1e3),
                _ => None,
            };
            names.iter().enumerate().find_map(|(index, name)| Some((index, unit(name)?)))
        };
        Some(Self {
            arrival: time("arrival")?,
            service: time("service"),
            key: names.iter().position(|name| *name == "key"),
        })
    }

    fn recorded(&self, line: &str) -> Result<Recorded, String> {
        let cells: Vec<&str> = line.split(',').map(str::trim).collect();
        let time = |(index, factor): (usize, f64)| {
            let cell = cells.get(index).copied().unwrap_or_default();
            match cell.parse::<f64>() {
                Ok(number) if number >= 0.0 && number * factor < 1e6 * SECOND as f64 * 1e4 => {
                    Ok((number * factor).round() as u64)
                }
                _ => Err(format!("`{cell}` is not a time: a number of 0 or more")),
            }
        };
        let key =
            self.key.and_then(|index| cells.get(index)).map_or(0, |cell| hash_key(cell.as_bytes()));
        let service = self.service.map(time).transpose()?;
        Ok(Recorded { arrival: time(self.arrival)?, service, key })
    }
}

/// Reads CSV; the current line is the header.
fn read_csv<R: BufRead>(lines: &mut NumberedLines<'_, R>) -> Result<Vec<Recorded>, String> {
    let Some(columns) = Columns::read(lines.current()) else {
        return Err(lines.wrong(
            "a trace is Weir's `json` log, or CSV whose first line names the columns: arrival_ms and optionally \
            service_ms and key (units: _s, _ms or _us)",
        ));
    };
    let mut entries = Vec::new();
    while lines.next()?.is_some() {
        lines.check_count(entries.len())?;
        let entry = columns.recorded(lines.current()).map_err(|what| lines.wrong(&what))?;
        entries.push(entry);
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, pool: Option<&str>) -> Result<RequestTrace, String> {
        RequestTrace::from_reader("t.log", &mut text.as_bytes(), pool)
    }

    fn log_line(time: &str, pool: &str, response: &str) -> String {
        format!(
            "{{\"time\":\"2026-11-20T12:00:{time}+01:00\",\"client\":\"192.0.2.1\",\"pool\":{pool},\
            \"status\":200,\"t_response\":{response},\"t_data\":500}}\n"
        )
    }

    #[test]
    fn a_log_is_put_in_order_of_arrival() {
        let text = log_line("01.500000", "\"app\"", "2000")
            + &log_line("01.000000", "\"app\"", "1000")
            + &log_line("01.000000", "null", "null");
        let trace = read(&text, None).unwrap();
        assert_eq!((trace.len(), trace.skipped(), trace.is_timed()), (2, 1, true));
        assert_eq!((trace.arrival(0), trace.service(0)), (Some(0), Some(1_500_000)));
        assert_eq!((trace.arrival(1), trace.service(1)), (Some(500_000_000), Some(2_500_000)));
        assert_eq!(trace.key(0), trace.key(1));
    }

    #[test]
    fn csv_says_its_units_in_its_first_line() {
        let trace = read("key,service_us,arrival_s\na,700,10.5\nb,800,10\n", None).unwrap();
        assert_eq!((trace.arrival(1), trace.service(1)), (Some(500_000_000), Some(700_000)));
        assert_ne!(trace.key(0), trace.key(1));
        let trace = read("arrival_ms\n0\n3\n", None).unwrap();
        assert_eq!((trace.arrival(1), trace.is_timed()), (Some(3_000_000), false));
    }

    #[test]
    fn a_wrong_trace_says_where_and_what_to_do() {
        let two = log_line("01.000000", "\"app\"", "1") + &log_line("02.000000", "\"web\"", "1");
        for (text, pool, part) in [
            ("", None, "empty"),
            ("1,2\n", None, "arrival_ms"),
            ("arrival_ms\nsoon\n", None, "t.log:2: `soon` is not a time"),
            ("arrival_ms\n", None, "no requests"),
            ("{\"time\":1}\n", None, "t.log:1: not a line"),
            ("{\"time\":\"noon\",\"pool\":\"app\"}\n", None, "`noon` is not a time"),
            (&log_line("01.000000", "null", "null"), None, "no requests that went to a pool"),
            (&two, None, "pools app, web: choose one with --pool"),
            (&two, Some("db"), "no request of the pool `db`; it has app, web"),
        ] {
            let message = read(text, pool).unwrap_err();
            assert!(message.contains(part), "{text}: {message}");
        }
        assert_eq!(read(&two, Some("web")).unwrap().len(), 1);
    }

    #[test]
    fn the_access_log_that_weir_writes_is_read() {
        let mut out = Vec::new();
        let mut clock = weir_stats::Clock::utc();
        let started = std::time::UNIX_EPOCH + std::time::Duration::from_millis(1_700_000_000_123);
        clock.append_iso_micros(started, &mut out);
        let time = String::from_utf8(out).unwrap();
        let trace = read(
            &format!(
                "{{\"time\":\"{time}\",\"pool\":\"app\",\"t_response\":null,\"t_data\":null}}"
            ),
            None,
        );
        assert!(!trace.unwrap().is_timed());
    }
}
