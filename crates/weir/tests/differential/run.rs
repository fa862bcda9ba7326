//! One case: both programs, one after the other, and the comparison.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use rustix::process::Signal;

use super::case::{Case, Request, Sending, Step, unescape};
use super::checked::{CheckedServer, await_checks};
use super::client::{Answer, ClientSide};
use super::compare::{self, Observation};
use super::programs::{Reference, RefusedDirective, check_weir, start_weir, stop};
use super::stage::Stage;
use super::support::eventually;
use super::support::process::Process;

/// The outcome of a case.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// Both programs agree.
    Same,
    /// Weir refuses these directives, as the case says.
    RefusedAsExpected,
    /// The refused directives are not those of the case; with these it would be right.
    RefusedOthers(Vec<String>),
    Failed(String),
}

pub(crate) fn run_case(case: &Case, reference: Reference) -> Outcome {
    let (kind, text) = &case.configuration;
    let (mut stage, file) = Stage::set(case, &reference.file(kind, text));
    let path = stage.directory.file("configuration.conf", &file);
    if !case.unchecked
        && let Err(message) = reference.check(&path)
    {
        return Outcome::Failed(format!("  {} refuses it: {message}", reference.name()));
    }
    let show = std::env::var_os("WEIR_SHOW").is_some() && !case.unchecked;
    let theirs = show.then(|| observe_reference(&mut stage, case, reference, &path));
    if let Some(theirs) = &theirs {
        print_observations(case, reference, theirs);
    }
    match check_weir(reference, &path) {
        Err(message) => return Outcome::Failed(format!("  weir check: {message}")),
        Ok(refused) => {
            let expected = refused_as_expected(&mut stage, case, &refused);
            if let Err(why) = expected {
                return if std::env::var_os("WEIR_BLESS").is_some() {
                    Outcome::RefusedOthers(refused_texts(&stage, &refused))
                } else {
                    Outcome::Failed(why)
                };
            }
            if !refused.is_empty() {
                return Outcome::RefusedAsExpected;
            }
            assert!(!case.unchecked, "it cannot be compared: remove `unchecked`");
        }
    }
    let theirs = theirs.unwrap_or_else(|| observe_reference(&mut stage, case, reference, &path));
    let process = start_weir(&stage, reference, &path);
    let ours = observe(&mut stage, case, process, Signal::TERM);
    let (theirs, ours) = (masked(reference, theirs), masked(reference, ours));
    judge(case, reference, &theirs, &ours)
}

/// The observations of a program with all requests.
struct Observed {
    observations: Vec<Observation>,
    /// The lines of the logs.
    logs: Vec<String>,
    /// The bytes that health checks have sent.
    checks: Vec<String>,
}

fn observe_reference(
    stage: &mut Stage,
    case: &Case,
    reference: Reference,
    path: &Path,
) -> Observed {
    let process = reference.start(stage, path);
    observe(stage, case, process, reference.stop_signal())
}

/// Masks what differs from run to run in the lines of haproxy.
fn masked(reference: Reference, observed: Observed) -> Observed {
    let mask = |line: String| match reference {
        Reference::Nginx => Some(line),
        Reference::Haproxy => compare::masked_line(&line),
    };
    let logs = observed.logs.into_iter().filter_map(mask).collect();
    Observed { logs, ..observed }
}

/// Returns true if lines of logs are about connections: one may end after the next one has begun,
/// so that their order says nothing.
fn logs_connections(case: &Case) -> bool {
    let (kind, text) = &case.configuration;
    kind == "stream" || text.contains("stream {") || text.contains("mode tcp")
}

fn observe(stage: &mut Stage, case: &Case, mut process: Process, signal: Signal) -> Observed {
    for origin in stage.origins.values() {
        origin.reset();
    }
    await_checks(&stage.checked);
    // Requests that were held in the program before may have come to an origin at its end.
    stage.take_seen();
    let mut observations = Vec::new();
    let mut held = Vec::new();
    for request in &case.requests {
        assert!(process.ended().is_none(), "it has ended: {}", process.said());
        observations.push(match request.sending {
            Sending::Release => {
                held.clear();
                Observation::default()
            }
            Sending::Until(status) => eventually(&request.label, || {
                let seen = send(stage, request, &mut held);
                let last = seen.answers.last();
                let is_it = matches!(last, Some(Answer::Response(one)) if one.status == status);
                is_it.then_some(seen)
            }),
            Sending::Answered | Sending::Held | Sending::Queued => send(stage, request, &mut held),
        });
    }
    // Those that wait go before those that hold a place.
    while held.pop().is_some() {}
    let checks = stage.heard_checks();
    stop(process, signal);
    stage.checked.values().for_each(CheckedServer::reset);
    let mut logs = stage.take_logs();
    if logs_connections(case) {
        logs.sort_unstable();
    }
    Observed { observations, logs, checks }
}

/// Sends a request. The connection of one that is held is kept in the list.
fn send(stage: &mut Stage, request: &Request, held: &mut Vec<ClientSide>) -> Observation {
    let to = match &request.to {
        Some(to) => stage.listener(to),
        None => stage.listeners[0].1,
    };
    let to = match to.ip() {
        ip if ip.is_unspecified() && ip.is_ipv4() => {
            (IpAddr::from([127, 0, 0, 1]), to.port()).into()
        }
        _ => to,
    };
    let mut seen = Observation::default();
    let Some(times) = request.times else {
        let from = request.from.as_deref().map(|from| from.parse().unwrap());
        let client = match ClientSide::connect(from, to) {
            Ok(client) => client,
            Err(error) => {
                seen.answers.push(Answer::End(format!("no connection: {error}")));
                return seen;
            }
        };
        let client = exchange(stage, request, client, &mut seen);
        match request.sending {
            Sending::Held => {
                held.extend(client);
                seen.seen = eventually(&request.label, || {
                    Some(stage.take_seen()).filter(|seen| !seen.is_empty())
                });
            }
            Sending::Queued => held.extend(client),
            _ => seen.seen = stage.take_seen(),
        }
        return seen;
    };
    let mut counts = BTreeMap::new();
    let mut open = None;
    for index in 0..times.count {
        let number = (index % 250).to_string();
        let from = request.from.as_deref().map(|from| from.replace('*', &number));
        let from = from.map(|from| from.parse().unwrap());
        // Thousands of connections would fill the kernel's tables.
        let client = open.take().unwrap_or_else(|| ClientSide::connect(from, to).unwrap());
        let mut one = Observation::default();
        let client = exchange(stage, &numbered(request, index), client, &mut one);
        let key = match one.answers.last() {
            Some(Answer::Response(response)) => {
                let again = from.is_none() && request.tls.is_none() && response.stays_open();
                open = client.filter(|_| again);
                let origin = response.header("x-origin").map(str::to_owned);
                origin.unwrap_or_else(|| response.status.to_string())
            }
            other => format!("{other:?}"),
        };
        *counts.entry(key).or_insert(0) += 1;
    }
    stage.take_seen();
    seen.counts = counts;
    seen
}

/// Returns the request with `{n}` replaced by its number among many.
fn numbered(request: &Request, index: usize) -> Request {
    let mut request = request.clone();
    for step in &mut request.steps {
        if let Step::Send(text) = step {
            *text = text.replace("{n}", &index.to_string());
        }
    }
    request
}

/// Sends a request and reads what comes; returns the connection.
fn exchange(
    stage: &mut Stage,
    request: &Request,
    client: ClientSide,
    seen: &mut Observation,
) -> Option<ClientSide> {
    let own = request.client.as_deref().map(|name| stage.client_certificate(name));
    let mut client = match &request.tls {
        None => client,
        Some(tls) => match client.handshake(tls, own.as_ref()) {
            Ok((client, done)) => {
                let name = stage.name_of(&done.certificate);
                seen.handshake = Some(format!("{} with the certificate {name}", done.version));
                client
            }
            Err(alert) => {
                seen.handshake = Some(format!("no handshake: {alert}"));
                return None;
            }
        },
    };
    for step in &request.steps {
        match step {
            Step::Send(text) => client.send(&unescape(&stage.fill(text))),
            Step::FinishSending => client.finish_sending(),
            Step::ReadOne { head } => seen.answers.push(client.response(*head)),
            Step::ReadFinal { head } => loop {
                let answer = client.response(*head);
                let interim = matches!(&answer, Answer::Response(one) if one.status < 200);
                seen.answers.push(answer);
                if !interim {
                    break;
                }
            },
            Step::ReadToEnd => loop {
                let answer = client.response(false);
                let more = matches!(answer, Answer::Response(_));
                seen.answers.push(answer);
                if !more {
                    break;
                }
            },
        }
    }
    Some(client)
}

fn judge(case: &Case, reference: Reference, theirs: &Observed, ours: &Observed) -> Outcome {
    let mut text = String::new();
    for ((request, theirs), ours) in
        case.requests.iter().zip(&theirs.observations).zip(&ours.observations)
    {
        let difference = if let Some(times) = request.times {
            compare::count_differences(times, &theirs.counts, &ours.counts)
        } else {
            let (theirs, ours) = compare::lines(case, reference, theirs, ours);
            compare::difference(&theirs, &ours)
        };
        match (difference, &request.differs) {
            (Some(difference), None) => {
                let _ = write!(text, "  {}\n{difference}", request.label);
            }
            (None, Some(reason)) => {
                let _ = writeln!(
                    text,
                    "  {}\n  is the same: remove `differs: {reason}`",
                    request.label
                );
            }
            _ => {}
        }
    }
    let whole = [
        // Each request has a connection of its own, and with it a worker: their lines have no
        // order.
        ("log", sorted(&theirs.logs), sorted(&ours.logs), &case.log_differs),
        ("checks", theirs.checks.clone(), ours.checks.clone(), &case.checks_differ),
    ];
    for (what, theirs, ours, differs) in whole {
        match (compare::difference(&theirs, &ours), differs) {
            (Some(difference), None) => {
                let _ = write!(text, "  {what}\n{difference}");
            }
            (None, Some(reason)) => {
                let same = "is the same: remove";
                let _ = writeln!(text, "  {what}\n  {same} `differs-{what}: {reason}`");
            }
            _ => {}
        }
    }
    if text.is_empty() { Outcome::Same } else { Outcome::Failed(text) }
}

/// Fails if the refused directives are not those of the case.
fn refused_as_expected(
    stage: &mut Stage,
    case: &Case,
    refused: &[RefusedDirective],
) -> Result<(), String> {
    let all: Vec<String> = case.refused.iter().map(|text| stage.fill(text)).collect();
    let mut text = String::new();
    let matches = |expected: &String, directive: &str| {
        directive.strip_prefix(expected.as_str()).is_some_and(|rest| !rest.starts_with(is_word))
    };
    for RefusedDirective { directive, reason } in refused {
        if !all.iter().any(|expected| matches(expected, directive)) {
            let _ = writeln!(text, "  weir refuses {directive}: {reason}");
        }
    }
    for expected in &all {
        if !refused.iter().any(|found| matches(expected, &found.directive)) {
            let _ = writeln!(text, "  weir does not refuse it: remove `refused: {expected}`");
        }
    }
    if text.is_empty() { Ok(()) } else { Err(text) }
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// Returns the lines for a case with these refused directives.
fn refused_texts(stage: &Stage, refused: &[RefusedDirective]) -> Vec<String> {
    let mut texts: Vec<String> =
        refused.iter().map(|found| stage.unfilled(&found.directive)).collect();
    texts.sort();
    texts.dedup();
    texts
}

fn print_observations(case: &Case, reference: Reference, observed: &Observed) {
    println!("=== {}", case.name);
    for (request, observation) in case.requests.iter().zip(&observed.observations) {
        println!("{}", request.label);
        if request.times.is_some() {
            println!("  {:?}", observation.counts);
        }
        let (lines, _) = compare::lines(case, reference, observation, &Observation::default());
        for line in lines {
            println!("  {line}");
        }
    }
    for line in observed.logs.iter().chain(&observed.checks) {
        println!("{line}");
    }
}

/// Returns the folder of the repository.
pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn sorted(lines: &[String]) -> Vec<String> {
    let mut lines = lines.to_vec();
    lines.sort();
    lines
}
