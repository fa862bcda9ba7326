//! What is seen of a request, and what counts as the same. `cases/README.md` lists what is not
//! compared, with the reasons.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::case::Case;
use super::client::{Answer, Framing, ResponseSeen};
use super::origin::SeenRequest;
use super::programs::Reference;

/// The result of one request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Observation {
    /// The certificate and version of the handshake, or its failure.
    pub(crate) handshake: Option<String>,
    pub(crate) answers: Vec<Answer>,
    pub(crate) seen: Vec<SeenRequest>,
    /// The numbers of responses by origin or status, of a repeated request.
    pub(crate) counts: BTreeMap<String, usize>,
}

/// Returns both observations as lines that may be compared.
pub(crate) fn lines(
    case: &Case,
    reference: Reference,
    theirs: &Observation,
    ours: &Observation,
) -> (Vec<String>, Vec<String>) {
    let mut lines = (Vec::new(), Vec::new());
    lines.0.extend(theirs.handshake.clone());
    lines.1.extend(ours.handshake.clone());
    for index in 0..theirs.answers.len().max(ours.answers.len()) {
        let (theirs, ours) = (theirs.answers.get(index), ours.answers.get(index));
        let own_page = theirs.is_some_and(|answer| is_own_page(reference, answer));
        lines.0.extend(theirs.iter().flat_map(|answer| answer_lines(case, answer, own_page)));
        lines.1.extend(ours.iter().flat_map(|answer| answer_lines(case, answer, own_page)));
    }
    for index in 0..theirs.seen.len().max(ours.seen.len()) {
        let (theirs, ours) = (theirs.seen.get(index), ours.seen.get(index));
        // Weir speaks HTTP/1.1 to every origin; a reference that does must be matched.
        let version = theirs.is_some_and(|seen| seen.version == "HTTP/1.1");
        lines.0.extend(theirs.iter().flat_map(|seen| seen_lines(case, seen, version)));
        lines.1.extend(ours.iter().flat_map(|seen| seen_lines(case, seen, version)));
    }
    lines
}

/// Returns true if the body is an error page of the program's own.
fn is_own_page(reference: Reference, answer: &Answer) -> bool {
    let Answer::Response(response) = answer else { return false };
    let body = String::from_utf8_lossy(&response.body);
    match reference {
        Reference::Nginx => {
            response.status >= 300
                && (body.contains("<hr><center>nginx")
                    || (response.body.is_empty() && is_page_head(response)))
        }
        Reference::Haproxy => {
            body.starts_with("<html><body><h1>")
                || (response.status >= 300
                    && body.is_empty()
                    && response.header("x-origin").is_none())
        }
    }
}

/// Returns true if this may be the head of an error page, which HEAD asked for.
fn is_page_head(response: &ResponseSeen) -> bool {
    response.header("x-origin").is_none()
        && response.header("content-type") == Some("text/html")
        && matches!(&response.framing, Framing::Length(length) if length != "0")
}

fn answer_lines(case: &Case, answer: &Answer, own_page: bool) -> Vec<String> {
    let response = match answer {
        Answer::Response(response) => response,
        Answer::End(how) => return vec![format!("end: {how}")],
        Answer::Other(bytes) => return vec![format!("no response: {}", shown(bytes))],
    };
    let mut ignored = vec!["date", "server", "connection", "keep-alive", "content-length"];
    ignored.push("transfer-encoding");
    if own_page {
        ignored.extend(["content-type", "cache-control"]);
    }
    let mut headers: Vec<String> = response
        .headers
        .iter()
        .filter(|(name, _)| !ignored.contains(&name.as_str()))
        .filter(|(name, _)| !case.ignored_headers.contains(name))
        .map(|(name, value)| match name.as_str() {
            "set-cookie" => format!("  {name}: {}", cookie_line(value)),
            _ => format!("  {name}: {value}"),
        })
        .collect();
    headers.sort();
    let mut lines = vec![format!("{} {}", response.version, response.status)];
    lines.append(&mut headers);
    if response.status >= 200 {
        // nginx closes after some of its own pages.
        let own_way = own_page && matches!(response.status, 400 | 413 | 414 | 500 | 501);
        if !own_way && !case.ignored_headers.iter().any(|name| name == "connection") {
            let open = if response.stays_open() { "stays open" } else { "closes" };
            lines.push(format!("  connection {open}"));
        }
        if !own_page && !case.ignored_headers.iter().any(|name| name == "content-length") {
            lines.push(format!("  framing {:?}", response.framing));
        }
    }
    if !own_page && !case.ignored_headers.iter().any(|name| name == "body") {
        lines.push(format!("  body {}", shown(&response.body)));
    }
    lines
}

/// Returns a `Set-Cookie` with its attributes in order; their names are in lower case, and a domain
/// has no dot in front, which browsers ignore (RFC 6265 section 5.2.3).
fn cookie_line(value: &str) -> String {
    let mut parts = value.split(';').map(str::trim);
    let pair = parts.next().unwrap_or_default().to_owned();
    let mut attributes: Vec<String> = parts
        .map(|part| match part.split_once('=') {
            Some((name, value)) => {
                let name = name.to_ascii_lowercase();
                let value = if name == "domain" { value.trim_start_matches('.') } else { value };
                format!("{name}={value}")
            }
            None => part.to_ascii_lowercase(),
        })
        .collect();
    attributes.sort();
    format!("{pair}; {}", attributes.join("; "))
}

fn seen_lines(case: &Case, seen: &SeenRequest, version: bool) -> Vec<String> {
    let version = if version { seen.version.as_str() } else { "" };
    let mut lines = vec![format!("origin {} saw {} {version}", seen.origin, seen.line)];
    for (name, value) in forwarding_joined(&seen.headers) {
        let is_compared = name != "connection" || value.trim().is_empty();
        if is_compared && !case.ignored_origin_headers.contains(&name) {
            lines.push(format!("  {name}: {value}"));
        }
    }
    if !seen.body.is_empty() {
        lines.push(format!("  body {}", shown(&seen.body)));
    }
    lines
}

/// Returns what a health check has sent. Of a request the order of headers is not compared.
pub(crate) fn check_lines(name: &str, bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let name = if name.is_empty() { "main" } else { name };
    let head = text.split_once("\r\n\r\n").filter(|(head, _)| head.contains(" HTTP/1."));
    let Some((head, body)) = head else { return format!("check of {name} sent {}", shown(bytes)) };
    let mut lines = head.split("\r\n");
    let first = lines.next().unwrap_or_default();
    let headers = lines.map(|line| line.split_once(':').unwrap_or((line, "")));
    let headers = headers.map(|(name, value)| format!("{}:{value}", name.to_ascii_lowercase()));
    let mut headers: Vec<String> = headers.collect();
    headers.sort();
    format!("check of {name} sent {first:?} {headers:?} {body:?}")
}

/// Joins the lines of `X-Forwarded-For`, which are a list in one line or in several.
fn forwarding_joined(headers: &[(String, String)]) -> Vec<(String, String)> {
    let mut joined: Vec<(String, String)> = Vec::new();
    for (name, value) in headers {
        match joined.last_mut() {
            Some((last, list)) if last == name && name == "x-forwarded-for" => {
                *list = format!("{list}, {value}");
            }
            _ => joined.push((name.clone(), value.clone())),
        }
    }
    joined
}

/// Returns bytes as text, shortened.
fn shown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    if bytes.len() <= 600 {
        return format!("{text:?}");
    }
    let sum =
        bytes.iter().fold(0_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)));
    format!("{} bytes, checksum {sum:x}", bytes.len())
}

/// Returns the differing counts of a repeated request.
pub(crate) fn count_differences(
    times: super::case::Times,
    theirs: &BTreeMap<String, usize>,
    ours: &BTreeMap<String, usize>,
) -> Option<String> {
    let pairs: Vec<(usize, usize)> = if times.sorted {
        let sorted = |counts: &BTreeMap<String, usize>| {
            let mut counts: Vec<usize> = counts.values().copied().collect();
            counts.sort_by_key(|count| std::cmp::Reverse(*count));
            counts
        };
        let (theirs, ours) = (sorted(theirs), sorted(ours));
        let at = |counts: &[usize], index: usize| counts.get(index).copied().unwrap_or(0);
        let length = theirs.len().max(ours.len());
        (0..length).map(|index| (at(&theirs, index), at(&ours, index))).collect()
    } else {
        let mut names: Vec<&String> = theirs.keys().chain(ours.keys()).collect();
        names.sort();
        names.dedup();
        let at = |counts: &BTreeMap<String, usize>, name: &String| {
            counts.get(name).copied().unwrap_or(0)
        };
        names.into_iter().map(|name| (at(theirs, name), at(ours, name))).collect()
    };
    let same = pairs.iter().all(|(theirs, ours)| theirs.abs_diff(*ours) <= times.within);
    (!same).then(|| format!("  - {theirs:?}\n  + {ours:?}\n"))
}

/// Masks the client's port, dates, durations, the number of bytes and the numbers of client
/// connections in a line of haproxy's log. A duration of -1 says how far a request came, and
/// stays. The lines at the end of the process are left out, and those of Weir's own log.
pub(crate) fn masked_line(line: &str) -> Option<String> {
    if line.contains(" stopped (cumulated conns: ") || line.contains(": weir: ") {
        return None;
    }
    let mut timers = false;
    let mut behind_timers = 0;
    let words = line.split(' ').map(|word| {
        if word.starts_with('[') && word.ends_with(']') && word.contains('/') {
            return "[DATE]".to_owned();
        }
        // A zone follows.
        if word.starts_with('[') && word.contains('/') && word.contains(':') {
            return "[DATE".to_owned();
        }
        let numbers: Vec<&str> = word.split('/').collect();
        let number = |text: &&str| text.trim_start_matches(['-', '+']).parse::<u64>().is_ok();
        if timers && numbers.len() == 5 && numbers.iter().all(number) {
            // A connection that the client has closed may still be counted.
            return format!("n/n/{}", numbers[2..].join("/"));
        }
        if numbers.len() == 5 && numbers.iter().all(number) {
            timers = true;
            let masked = numbers.iter().map(|number| if *number == "-1" { "-1" } else { "t" });
            return masked.collect::<Vec<_>>().join("/");
        }
        behind_timers += usize::from(timers);
        match word.split_once(':') {
            // haproxy counts a head in a form of its own.
            _ if behind_timers == 2 => "BYTES".to_owned(),
            Some(("127.0.0.1", port)) if port.parse::<u16>().is_ok() => "127.0.0.1:PORT".to_owned(),
            _ => word.to_owned(),
        }
    });
    Some(words.collect::<Vec<_>>().join(" "))
}

#[test]
fn lines_of_haproxy_are_masked() {
    let line = "127.0.0.1:4711 [23/Nov/2026:14:00:00.123] f b/s 0/0/-1/-1/+12 503 217 - - SC-- \
                1/1/0/0/2 0/0 \"GET /\"";
    let masked =
        "127.0.0.1:PORT [DATE] f b/s t/t/-1/-1/t 503 BYTES - - SC-- n/n/0/0/2 0/0 \"GET /\"";
    assert_eq!(masked_line(line).as_deref(), Some(masked));
    let with_zone = masked_line("a [23/Nov/2026:14:00:00 +0000] b");
    assert_eq!(with_zone.as_deref(), Some("a [DATE +0000] b"));
}

/// Returns the lines that only one side has, or nothing if both are the same.
pub(crate) fn difference(theirs: &[String], ours: &[String]) -> Option<String> {
    if theirs == ours {
        return None;
    }
    let mut text = String::new();
    let mut rest: Vec<&String> = ours.iter().collect();
    for line in theirs {
        if let Some(at) = rest.iter().position(|other| *other == line) {
            rest.remove(at);
        } else {
            let _ = writeln!(text, "  - {line}");
        }
    }
    for line in rest {
        let _ = writeln!(text, "  + {line}");
    }
    if text.is_empty() {
        text.push_str("  the order differs\n");
    }
    Some(text)
}
