//! Workloads: levels, lengths, TLS, and what happens during a run.

use weir_config::syntax::tree::Directive;

use super::MOST_DURATION_NS;
use crate::experiment::directives::LabBlock;
use crate::experiment::level::{LoadLevel, MOST_LEVELS, RateShare, rates_of, share_of};
use crate::experiment::model::{
    LoadEvent, LoadEventAction, LoadPace, QuickWorkload, SoakLimits, Workload,
};
use crate::experiment::reader::BlockReader;
use crate::units::time_ns;

/// The signals that an event may send.
const SIGNALS: [&str; 7] = ["STOP", "CONT", "HUP", "TERM", "KILL", "USR1", "USR2"];
/// The largest number of events of a run, repetitions included.
const MOST_EVENTS: u64 = 1000;

pub(super) fn workload(reader: &mut BlockReader, directive: &Directive) -> Workload {
    let mut found = Workload {
        name: BlockReader::text(directive),
        path: "/1k".to_owned(),
        tls: None,
        streams: None,
        connections: 50,
        threads: 1,
        duration_ns: 10_000_000_000,
        warmup_ns: 1_000_000_000,
        timeout_ns: 2_000_000_000,
        is_poisson: false,
        pace: LoadPace::Levels(Vec::new()),
        requests: 1000,
        is_fresh: false,
        soak: None,
        events: Vec::new(),
        quick: QuickWorkload::default(),
    };
    let block =
        directive.block.as_ref().map(|block| block.directives.as_slice()).unwrap_or_default();
    let parts = reader.block(block, LabBlock::Workload);
    for part in &parts {
        read_part(reader, part, &mut found);
    }
    let paces: Vec<&&Directive> = parts
        .iter()
        .filter(|part| matches!(part.name.text.as_str(), "rates" | "concurrency"))
        .collect();
    match paces.as_slice() {
        [] => reader.report(
            directive.span(),
            format!("the workload `{}` has neither `rates` nor `concurrency`", found.name),
        ),
        [_] => {}
        [_, second, ..] => {
            reader.report(second.span(), "a workload has either `rates` or `concurrency`");
        }
    }
    if found.streams.is_some() && (found.tls.is_none() || found.is_fresh) {
        reader.report(
            directive.span(),
            format!(
                "the workload `{}` has `http2`, which needs `tls` and `keepalive on`",
                found.name
            ),
        );
    }
    if found.threads > found.connections {
        reader.report(
            directive.span(),
            format!("{} threads need as many connections", found.threads),
        );
    }
    found
}

fn read_part(reader: &mut BlockReader, part: &Directive, found: &mut Workload) {
    match part.name.text.as_str() {
        "path" => {
            let path = reader.value(part, |text| {
                let is_path =
                    text.starts_with('/') && text.bytes().all(|byte| byte.is_ascii_graphic());
                if is_path {
                    Ok(text.to_owned())
                } else {
                    Err(format!("`{text}` is no path: it begins with `/`"))
                }
            });
            found.path = path.unwrap_or_default();
        }
        "tls" => {
            let version = reader.choice(part, &[("1.2", "1.2"), ("1.3", "1.3")]);
            let suite = part.words.get(1).map(|word| word.text.clone()).unwrap_or_default();
            found.tls = version.map(|version| (version.to_owned(), suite));
        }
        "http2" => found.streams = reader.number(part, 1, 10_000).map(|number| number as u32),
        "threads" => found.threads = reader.number(part, 1, 256).map_or(1, |number| number as u32),
        "timeout" => found.timeout_ns = time(reader, part).unwrap_or(found.timeout_ns),
        "arrival" => {
            found.is_poisson =
                reader.choice(part, &[("constant", false), ("poisson", true)]).unwrap_or(false);
        }
        "keepalive" => {
            found.is_fresh = reader.choice(part, &[("on", false), ("off", true)]).unwrap_or(false);
        }
        "event" => found.events.extend(event(reader, part)),
        "soak" => found.soak = Some(soak(reader, part)),
        "quick" => {
            let block =
                part.block.as_ref().map(|block| block.directives.as_slice()).unwrap_or_default();
            for one in reader.block(block, LabBlock::QuickWorkload) {
                sized(reader, one, &mut found.quick);
            }
        }
        _ => {
            let mut size = QuickWorkload::default();
            sized(reader, part, &mut size);
            found.connections = size.connections.unwrap_or(found.connections);
            found.duration_ns = size.duration_ns.unwrap_or(found.duration_ns);
            found.warmup_ns = size.warmup_ns.unwrap_or(found.warmup_ns);
            found.requests = size.requests.unwrap_or(found.requests);
            if let Some(pace) = size.pace {
                found.pace = pace;
            }
        }
    }
}

/// Reads what a workload has and its quick form changes.
fn sized(reader: &mut BlockReader, part: &Directive, found: &mut QuickWorkload) {
    match part.name.text.as_str() {
        "connections" => {
            found.connections = reader.number(part, 1, 100_000).map(|number| number as u32);
        }
        "requests" => found.requests = reader.number(part, 1, 100_000_000),
        "duration" => {
            found.duration_ns = time(reader, part);
            if found.duration_ns == Some(0) {
                reader.report(part.span(), "a duration is longer than nothing");
            }
        }
        "warmup" => found.warmup_ns = time(reader, part),
        "rates" => found.pace = Some(rates(reader, part)),
        _ => {
            let mut levels = Vec::new();
            for word in &part.words {
                let connections = reader.word(word, |text| match text.parse::<u32>() {
                    Ok(connections @ 1..=100_000) => Ok(connections),
                    _ => Err(format!("`{text}` is no number of connections")),
                });
                levels.extend(connections.map(LoadLevel::Concurrency));
            }
            found.pace = Some(ascending(levels));
        }
    }
}

fn time(reader: &mut BlockReader, part: &Directive) -> Option<u64> {
    reader.value(part, |text| match time_ns(text)? {
        time if time > MOST_DURATION_NS => Err(format!("`{text}` is too long: at most 24h")),
        time => Ok(time),
    })
}

fn rates(reader: &mut BlockReader, part: &Directive) -> LoadPace {
    let at = part.words.iter().position(|word| word.is("of"));
    let Some(at) = at else {
        let mut levels = Vec::new();
        for word in &part.words {
            levels.extend(
                reader.word(word, rates_of).unwrap_or_default().into_iter().map(LoadLevel::Rate),
            );
        }
        if levels.len() > MOST_LEVELS {
            reader.report(
                part.span(),
                format!("{} rates are too many: at most {MOST_LEVELS}", levels.len()),
            );
        }
        return ascending(levels);
    };
    let (shares, names) = part.words.split_at(at);
    let mut found = Vec::new();
    for word in shares {
        found.extend(reader.word(word, share_of).map(RateShare));
    }
    let names: Vec<String> = names.iter().skip(1).map(|word| word.text.clone()).collect();
    if found.is_empty() || names.is_empty() {
        reader
            .report(part.span(), "write shares and names, as in `rates 50% 100% of nginx haproxy`");
    }
    found.sort_by(|one, other| one.0.total_cmp(&other.0));
    LoadPace::Shares(found, names)
}

/// The levels from the lowest to the highest, each once.
fn ascending(mut levels: Vec<LoadLevel>) -> LoadPace {
    levels.sort_by(|one, other| one.number().total_cmp(&other.number()));
    levels.dedup();
    LoadPace::Levels(levels)
}

/// Reads the limits of a long run.
fn soak(reader: &mut BlockReader, part: &Directive) -> SoakLimits {
    let mut found = SoakLimits::default();
    for word in &part.words {
        let limit = reader.word(word, |text| {
            let (name, limit) = text.split_once("<=").ok_or_else(|| {
                format!("`{text}` is no limit: write `memory<=2%`, `files<=5`, `threads<=1` or `p99<=10%`")
            })?;
            let value = match name {
                "memory" | "p99" => share_of(limit)?,
                "files" | "threads" => f64::from(
                    limit.parse::<u32>().map_err(|_| format!("`{limit}` is no whole number"))?,
                ),
                _ => return Err(format!("`{name}` is not watched: use memory, files, threads or p99")),
            };
            Ok((name.to_owned(), value))
        });
        match limit {
            Some((name, value)) if name == "memory" => found.memory = value,
            Some((name, value)) if name == "files" => found.files = value,
            Some((name, value)) if name == "threads" => found.threads = value,
            Some((_, value)) => found.latency = value,
            None => {}
        }
    }
    found
}

fn event(reader: &mut BlockReader, part: &Directive) -> Option<LoadEvent> {
    let mut words = part.words.iter().peekable();
    let at_ns = reader.word(words.next()?, time_ns)?;
    let (mut every, mut until) = (None, None);
    while let Some((key, start)) = words.peek().and_then(|word| word.option()) {
        let place = match key {
            "every" => &mut every,
            "until" => &mut until,
            _ => break,
        };
        let word = words.next()?;
        *place = reader.word(word, |text| time_ns(text.get(start..).unwrap_or_default()));
    }
    let every_ns = match (every, until) {
        (None, None) => None,
        (Some(every @ 1..), Some(until)) if (until.saturating_sub(at_ns)) / every < MOST_EVENTS => {
            Some((every, until))
        }
        (Some(_), Some(_)) => {
            reader.report(part.span(), format!("an event happens at most {MOST_EVENTS} times"));
            return None;
        }
        _ => {
            reader.report(part.span(), "`every=` and `until=` belong together");
            return None;
        }
    };
    let kind = words.next();
    let rest: Vec<String> = words.map(|word| word.text.clone()).collect();
    let action = match (kind.map(|word| word.text.as_str()), rest.as_slice()) {
        (Some("signal"), [role, signal]) if SIGNALS.contains(&signal.as_str()) => {
            LoadEventAction::Signal(role.clone(), signal.clone())
        }
        (Some("signal"), [_, signal]) => {
            reader.report(
                part.span(),
                format!("`{signal}` is no signal: use {}", SIGNALS.join(", ")),
            );
            return None;
        }
        (Some("run"), [_, ..]) => LoadEventAction::Run(rest),
        _ => {
            reader.report(part.span(), "an event is `signal ROLE SIGNAL` or `run COMMAND`");
            return None;
        }
    };
    Some(LoadEvent { at_ns, every_ns, action })
}
