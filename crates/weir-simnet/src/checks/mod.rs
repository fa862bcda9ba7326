//! The checkers: after a run, the records are compared with the laws that the crate's documentation
//! lists. A failure needs an excuse in the records: an injected fault of the network, a fault of an
//! origin, or a client that left.

pub(crate) mod log;
pub(crate) mod tcp;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::ledger::{Book, ClientOutcome, Record, SeenResponse};
use crate::message::frames::{self, CONTINUATION, END_HEADERS, HEADERS};
use crate::message::hpack::HpackTable;
use crate::message::http::Broken;
use crate::message::malformed::{self, MARKER, Wrong};
use crate::plan::behaviour::Misdeed;
use crate::plan::http2::PeerAct;
use crate::world::World;

/// The behaviour that the device under test promises.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// It passes bytes on unchanged (or there is no device): it refuses nothing and sends no
    /// responses of its own.
    pub transparent: bool,
    /// It treats a client's half-close before the end of the response as the end of the client, as
    /// nginx does (499).
    pub half_close_leaves: bool,
    /// It closes idle connections to make room for new ones, so that a request may reach a
    /// connection that is being closed.
    pub gives_up_idle: bool,
    /// The largest number of attempts for a request that may be repeated.
    pub attempts: usize,
    /// The time after a stop for which an idle connection may still send one more request.
    pub stop_grace: Duration,
    /// The largest number of body bytes of one request, or of its response, in transit: buffers and
    /// both windows.
    pub held_bytes: i64,
    /// The time, in virtual seconds, after which everything must have ended.
    pub settle_seconds: u64,
    /// The idle time, in virtual seconds, after which nothing may be left open.
    pub idle_seconds: u64,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            transparent: false,
            half_close_leaves: false,
            gives_up_idle: false,
            attempts: 8,
            stop_grace: Duration::from_millis(1_900),
            held_bytes: 512 * 1024,
            settle_seconds: 1_200,
            idle_seconds: 400,
        }
    }
}

/// Returns every violation of the run.
pub(crate) fn check(world: &World, rules: &Rules) -> Vec<String> {
    let book = world.ledger.book();
    let mut wrong = book.violations.clone();
    for record in book.records.values() {
        if let Some(what) = judge(world, rules, record) {
            wrong.push(format!(
                "law 1: request {} ({}): {what}",
                record.plan.id, record.plan.method
            ));
        }
        for (what, held) in [("response", record.held_most), ("request", record.request_held_most)]
        {
            // A hostile client does not tell which response it reads; law 12 bounds them together.
            if held > rules.held_bytes && !(record.plan.hostile && what == "response") {
                wrong.push(format!(
                    "law 9: {held} bytes of the {what} body {} were held at once",
                    record.plan.id
                ));
            }
        }
    }
    if !rules.transparent && !rules.gives_up_idle {
        wrong.extend(connections(world, &book));
    }
    wrong.extend(http2_connections(world, &book));
    wrong.extend(tcp::check_tcp(world, &book));
    wrong.extend(bytes_upstream(world, rules, &book));
    wrong
}

/// Returns true if a fault of an origin in this attempt, or of the network, explains a broken
/// exchange.
fn attempt_failed(record: &Record, attempt: Option<u32>) -> bool {
    let concerned = record
        .arrivals
        .iter()
        .enumerate()
        .filter(|(index, _)| attempt.is_none_or(|one| one as usize == *index));
    concerned
        .into_iter()
        .any(|(_, arrival)| arrival.behaviour.misdeed.is_some() || arrival.link.faulted())
}

/// Returns true if an origin or the network broke off the body of a response.
fn body_broke(record: &Record) -> bool {
    record.arrivals.iter().any(|arrival| {
        let misdeed = arrival.behaviour.misdeed.as_ref();
        arrival.link.faulted()
            || misdeed.is_some_and(|one| {
                matches!(
                    one,
                    Misdeed::Truncates(_)
                        | Misdeed::BadChunk(_)
                        | Misdeed::ExcessiveFraming(_)
                        | Misdeed::HangsInBody(_)
                )
            })
    })
}

/// Returns true if an origin responded before it had the whole body, so that the rest may have met
/// a closed connection.
pub(crate) fn answered_early(record: &Record) -> bool {
    record.plan.body.bytes() > 0
        && record.arrivals.iter().any(|arrival| arrival.behaviour.early.is_some())
}

/// Returns true if the device was told to stop before the request was sent, or so soon before it
/// that an idle connection may be closed.
fn stopped(world: &World, rules: &Rules, record: &Record) -> bool {
    let Some(stop_ms) = world.plan.profile.stop_ms else { return false };
    let last = world.start + Duration::from_millis(stop_ms) + rules.stop_grace;
    let accepted = record.link.as_ref().is_some_and(crate::network::stream::LinkWatch::accepted);
    !accepted || record.sent_at.is_none_or(|sent_at| sent_at >= last)
}

fn judge(world: &World, rules: &Rules, record: &Record) -> Option<String> {
    let link_faulted = record.link.as_ref().is_some_and(crate::network::stream::LinkWatch::faulted);
    match &record.outcome {
        ClientOutcome::Unsent | ClientOutcome::Left | ClientOutcome::AfterClose => None,
        ClientOutcome::Refused => (!record.arrivals.is_empty())
            .then(|| "law 7: refused as unprocessed, but an origin has it".to_owned()),
        ClientOutcome::Unanswered(Some(Broken::Malformed(what))) => {
            let excused = rules.transparent && attempt_failed(record, None);
            (!excused).then(|| format!("a malformed response: {what}"))
        }
        ClientOutcome::Unanswered(broken) => {
            let excused = link_faulted
                || record.plan.malformed.is_some()
                || answered_early(record)
                || (rules.half_close_leaves && record.plan.half_closes)
                || (rules.gives_up_idle && record.arrivals.is_empty())
                // A body that breaks off closes the connection at once; with unread requests even
                // its beginning may be lost.
                || body_broke(record)
                || stopped(world, rules, record)
                // Without a device, origins close as they like and do not linger.
                || rules.transparent;
            (!excused).then(|| format!("no response and no cause ({broken:?})"))
        }
        ClientOutcome::Answered(answer) if answer.attempt.is_some() => {
            judge_relayed(rules, record, answer, link_faulted)
        }
        ClientOutcome::Answered(answer) => judge_own(world, record, answer, link_faulted),
    }
}

/// Checks a response that an origin sent.
fn judge_relayed(
    rules: &Rules,
    record: &Record,
    answer: &SeenResponse,
    link_faulted: bool,
) -> Option<String> {
    let arrival = record.arrivals.get(answer.attempt? as usize)?;
    if record.plan.malformed.is_some_and(|index| malformed::wrong(index) == Wrong::Head) {
        return Some("a malformed head was answered by an origin".into());
    }
    let failed = attempt_failed(record, answer.attempt);
    match &answer.broken {
        Some(Broken::Malformed(what)) if !(rules.transparent && failed) => {
            Some(format!("a malformed response body: {what}"))
        }
        Some(broken) => {
            let excused = failed
                || link_faulted
                || answered_early(record)
                || record.plan.malformed.is_some()
                || (rules.half_close_leaves && record.plan.half_closes)
                // Without a device, origins close as they like and do not linger.
                || rules.transparent;
            (!excused).then(|| format!("a broken response body without a cause ({broken:?})"))
        }
        // An HTTP/1.0 client cannot detect that a body of unknown length is truncated.
        None if answer.until_close
            && (rules.transparent
                || (record.plan.old && (failed || link_faulted || answered_early(record)))) =>
        {
            None
        }
        None if answer.bytes != arrival.behaviour.bytes => {
            let (got, sent) = (answer.bytes, arrival.behaviour.bytes);
            Some(format!("law 8: a body of {sent} bytes ended after {got} as if it were whole"))
        }
        None if !arrival.response_whole && !answered_early(record) => {
            Some("a whole response that no origin finished".into())
        }
        None => None,
    }
}

/// Checks a response of the proxy's own.
fn judge_own(
    world: &World,
    record: &Record,
    answer: &SeenResponse,
    link_faulted: bool,
) -> Option<String> {
    let status = answer.status;
    let trouble = world.plan.profile.upstream_trouble();
    let fits = match status {
        502 | 504 => trouble,
        503 => trouble || world.limits.borrow().any(),
        400 | 414 | 431 | 501 | 505 => record.plan.malformed.is_some(),
        408 => link_faulted,
        _ => false,
    };
    if !fits {
        return Some(format!("answered with {status} without a cause"));
    }
    let excused = link_faulted || record.plan.malformed.is_some() || record.plan.body.bytes() > 0;
    match &answer.broken {
        Some(broken) if !excused => {
            Some(format!("the proxy's own {status} broke off ({broken:?})"))
        }
        _ => None,
    }
}

/// Checks that no connection ended before the end of its plan without a cause.
fn connections(world: &World, book: &Book) -> Vec<String> {
    let mut wrong = Vec::new();
    let connections = world.plan.clients.iter().flat_map(|client| &client.connections);
    for connection in connections.filter(|connection| connection.http2.is_none()) {
        let records: BTreeMap<u64, &Record> = connection
            .requests
            .iter()
            .filter_map(|plan| Some((plan.id, book.records.get(&plan.id)?)))
            .collect();
        let cut = records.values().find(|record| {
            matches!(record.outcome, ClientOutcome::Unsent | ClientOutcome::AfterClose)
        });
        let Some(cut) = cut else { continue };
        let trouble = connection.leaves_after_ms.is_some()
            || world.plan.profile.stop_ms.is_some()
            || records.values().any(|record| {
                let relayed_whole =
                    matches!(&record.outcome, ClientOutcome::Answered(answer) if answer.attempt.is_some() && answer.broken.is_none() && !answer.until_close);
                let pending = matches!(record.outcome, ClientOutcome::Unsent | ClientOutcome::AfterClose);
                (!relayed_whole && !pending)
                    || record.plan.old
                    || record.plan.expects
                    || answered_early(record)
                    || record.link.as_ref().is_some_and(crate::network::stream::LinkWatch::faulted)
            });
        if !trouble {
            wrong.push(format!(
                "law 1: the connection ended before request {} without a cause",
                cut.plan.id
            ));
        }
    }
    wrong
}

/// Counts the requests that were sent as streams of HTTP/2, without those that their origin
/// declared unprocessed.
fn requests_of_streams(book: &Book, taps: &[(u32, Vec<u8>)]) -> BTreeMap<u64, usize> {
    let mut sent = BTreeMap::new();
    for (link, tap) in taps {
        let Some(written) = frames::written(tap) else { continue };
        let mut table = HpackTable::default();
        let mut block = Vec::new();
        for frame in &written.frames {
            match frame.kind {
                HEADERS => {
                    let priority = if frame.has(0x20) { 5 } else { 0 };
                    block = frame.payload.get(priority..).unwrap_or_default().to_vec();
                }
                CONTINUATION => block.extend_from_slice(&frame.payload),
                _ => continue,
            }
            if !frame.has(END_HEADERS) {
                continue;
            }
            let fields = table.decode(&block).unwrap_or_default();
            let path = fields.iter().find(|(name, _)| name == ":path");
            let id = path.and_then(|(_, path)| path.strip_prefix("/r/")?.parse().ok());
            let declined = book.declined.contains(&(*link, frame.stream))
                || book.left.iter().any(|(left, last)| left == link && frame.stream > *last);
            if let Some(id) = id.filter(|_| !declined) {
                *sent.entry(id).or_default() += 1;
            }
        }
    }
    sent
}

/// Checks that no connection of HTTP/2 ended before its requests without a cause.
fn http2_connections(world: &World, book: &Book) -> Vec<String> {
    let mut wrong = Vec::new();
    for connection in world.plan.clients.iter().flat_map(|client| &client.connections) {
        let Some(http2) = &connection.http2 else { continue };
        let excused = connection.leaves_after_ms.is_some()
            || world.plan.profile.stop_ms.is_some()
            || http2.acts.iter().any(|(_, act)| matches!(act, PeerAct::Leave));
        let records = connection.requests.iter().filter_map(|plan| book.records.get(&plan.id));
        let cut = records.into_iter().find(|record| {
            let link = record.link.as_ref();
            matches!(record.outcome, ClientOutcome::Unsent)
                && link.is_some_and(|link| link.accepted() && !link.faulted())
        });
        if let (Some(cut), false) = (cut, excused) {
            let id = cut.plan.id;
            wrong.push(format!("law 1: the connection ended before stream {id} without a cause"));
        }
    }
    wrong
}

fn count(haystack: &[u8], needle: &[u8]) -> usize {
    haystack.windows(needle.len()).filter(|window| *window == needle).count()
}

/// Checks the bytes sent to endpoints, whether or not an origin read them.
fn bytes_upstream(world: &World, rules: &Rules, book: &Book) -> Vec<String> {
    let mut wrong = Vec::new();
    let taps = world.net.taps();
    let streams = requests_of_streams(book, &taps);
    let taps: Vec<Vec<u8>> = taps.into_iter().map(|(_, tap)| tap).collect();
    let all: Vec<u8> = taps.join(&b'\n');
    if count(&all, MARKER) > 0 {
        let at = all.windows(MARKER.len()).position(|window| window == MARKER).unwrap_or(0);
        let near = String::from_utf8_lossy(&all[at.saturating_sub(200)..(at + 60).min(all.len())])
            .into_owned();
        wrong.push(format!("law 8: bytes of a malformed request went to an endpoint: {near:?}"));
    }
    let lines = request_lines(&all);
    for record in book.records.values() {
        let (method, id) = (record.plan.method, record.plan.id);
        let sent = lines.get(&(method.as_bytes(), id)).copied().unwrap_or(0);
        let sent = sent + streams.get(&id).copied().unwrap_or(0);
        let sent = sent.max(record.arrivals.len());
        let most = if record.plan.is_idempotent() { rules.attempts } else { 1 };
        if sent > most {
            wrong.push(format!("law 7: {method} /r/{id} HTTP/ was sent {sent} times"));
        }
    }
    wrong
}

/// Counts each request line `METHOD /r/ID HTTP/` in these bytes.
fn request_lines(all: &[u8]) -> BTreeMap<(&[u8], u64), usize> {
    const TARGET: &[u8] = b" /r/";
    let mut lines = BTreeMap::new();
    for at in (0..all.len()).filter(|at| all[*at..].starts_with(TARGET)) {
        let before = &all[..at];
        let start =
            before.iter().rposition(|byte| !byte.is_ascii_uppercase()).map_or(0, |at| at + 1);
        let rest = &all[at + TARGET.len()..];
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let id = str::from_utf8(&rest[..digits]).ok().and_then(|text| text.parse().ok());
        if let Some(id) = id.filter(|_| rest[digits..].starts_with(b" HTTP/")) {
            *lines.entry((&before[start..], id)).or_default() += 1;
        }
    }
    lines
}
