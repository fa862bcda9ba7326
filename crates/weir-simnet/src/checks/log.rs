//! Compares the device's log with the records: every exchange has one line, with the status that
//! its client got and with a cause that the run explains.

use crate::checks::answered_early;
use crate::ledger::{ClientOutcome, Record, SeenResponse};
use crate::message::malformed::{self, Wrong};
use crate::plan::CarriedProtocol;
use crate::plan::behaviour::Misdeed;
use crate::world::World;

/// A line of a device's log.
#[derive(Clone, Debug)]
pub struct LogLine {
    /// The request's id, if its head was parsed.
    pub id: Option<u64>,
    /// The status sent; 0 if none was.
    pub status: u16,
    /// The cause of the exchange's end.
    pub cause: String,
}

/// Checks law 1 from the other side: the device logged each exchange once, with the response that
/// the client got.
pub(crate) fn check_log(world: &World, log: &[LogLine]) -> Vec<String> {
    let mut wrong = Vec::new();
    let book = world.ledger.book();
    for record in book.records.values() {
        let id = record.plan.id;
        let lines: Vec<&LogLine> = log.iter().filter(|line| line.id == Some(id)).collect();
        let understood =
            record.plan.malformed.is_none_or(|index| malformed::wrong(index) == Wrong::Body);
        let (least, most) = match &record.outcome {
            _ if !understood => (0, 0),
            ClientOutcome::Unsent => (0, 0),
            ClientOutcome::Answered(answer) if answer.status != 408 => (1, 1),
            _ => (usize::from(!record.arrivals.is_empty()), 1),
        };
        if !(least..=most).contains(&lines.len()) {
            wrong.push(format!(
                "law 1: request {id} is in the log {} times: {lines:?}",
                lines.len()
            ));
        }
        if let (ClientOutcome::Answered(answer), [line]) = (&record.outcome, lines.as_slice()) {
            wrong.extend(compare(world, record, answer, line));
        }
    }
    let internal = log.iter().filter(|line| line.cause == "internal");
    wrong.extend(internal.map(|line| format!("an internal error of the device: {line:?}")));
    wrong
}

fn compare(
    world: &World,
    record: &Record,
    answer: &SeenResponse,
    line: &LogLine,
) -> Option<String> {
    let id = record.plan.id;
    if let Some(missing) = unexplained(world, record, line) {
        return Some(format!("law 1: request {id} failed for {}, but {missing}", line.cause));
    }
    if line.status != answer.status {
        return Some(format!(
            "law 1: request {id} was answered with {}, the log says {}",
            answer.status, line.status
        ));
    }
    let complete = line.cause == "complete";
    if complete && answer.attempt.is_none() {
        return Some(format!("law 1: the log calls the proxy's own {} complete", answer.status));
    }
    if !complete && answer.attempt.is_some() && answer.broken.is_none() && !record.plan.old {
        return Some(format!(
            "law 1: request {id} was answered whole, the log says {}",
            line.cause
        ));
    }
    None
}

/// Returns the objection to the cause that the device gives for a failure, if there is one.
fn unexplained(world: &World, record: &Record, line: &LogLine) -> Option<&'static str> {
    let profile = &world.plan.profile;
    let network = &profile.faults.upstream;
    // An origin that responds early and closes may destroy its own response by a reset.
    let broken_network = network.resets > 0 || network.stalls > 0 || answered_early(record);
    let connects = network.refuses > 0 || network.hangs > 0;
    let misdeed = |kind: fn(&Misdeed) -> bool| {
        record.arrivals.iter().any(|arrival| arrival.behaviour.misdeed.as_ref().is_some_and(kind))
    };
    // A request that must not be repeated fails when its connection is closed under it.
    let not_repeatable = !record.plan.is_idempotent() || record.plan.body.bytes() > 0;
    // A hostile origin may break a connection that another request uses later.
    let spoils = ["bad_response", "response_timeout", "upstream_reset", "upstream_send_timeout"];
    if profile.origin_hostile > 0 && spoils.contains(&line.cause.as_str()) {
        return None;
    }
    if profile.protocol == CarriedProtocol::Http2
        && shared_connection_explains(world, record, &line.cause)
    {
        return None;
    }
    let (explained, missing) = match line.cause.as_str() {
        "connect_failed" => (network.refuses > 0, "no connect is refused"),
        "connect_timeout" => (network.hangs > 0, "no connect hangs"),
        "no_endpoint" => (connects, "every connect succeeds"),
        "upstream_reset" => (
            broken_network
                || network.closes_at_once > 0
                || misdeed(|one| {
                    matches!(
                        one,
                        Misdeed::ClosesSilently | Misdeed::ClosesInHead | Misdeed::Garbage(_)
                    )
                })
                || (profile.origin_idle_close && not_repeatable),
            "no connection was broken, and an idle one could be replaced",
        ),
        "response_timeout" => {
            (broken_network || misdeed(|one| *one == Misdeed::Hangs), "its origin did not hang")
        }
        "bad_response" => (
            misdeed(|one| {
                matches!(
                    one,
                    Misdeed::Garbage(_) | Misdeed::BadChunk(_) | Misdeed::ExcessiveFraming(_)
                )
            }),
            "its origin sent no garbage",
        ),
        "upstream_aborted" => (
            broken_network || misdeed(|one| matches!(one, Misdeed::Truncates(_))),
            "its origin sent the whole body",
        ),
        "upstream_read_timeout" => (
            broken_network || misdeed(|one| matches!(one, Misdeed::HangsInBody(_))),
            "its origin did not hang",
        ),
        "upstream_send_timeout" => (broken_network, "its origin reads"),
        "pool_full" | "queue_full" | "queue_timeout" => {
            (world.limits.borrow().any(), "no origin has a limit")
        }
        "denied" | "rate_limited" | "in_flight_limited" | "no_route" | "loop_detected"
        | "body_too_large" | "upstream_tls" | "shutdown" => {
            (false, "nothing was configured that could be the cause")
        }
        _ => (true, ""),
    };
    (!explained).then_some(missing)
}

/// Returns true if the cause is one that a connection to an origin gives to all of its streams.
fn shared_connection_explains(world: &World, record: &Record, cause: &str) -> bool {
    let profile = &world.plan.profile;
    let network = &profile.faults.upstream;
    let breaks = ["bad_response", "response_timeout", "upstream_reset", "upstream_send_timeout"];
    if breaks.contains(&cause) || cause == "upstream_aborted" {
        return profile.http2_trouble > 0 || profile.origin_faults > 0;
    }
    // An origin that refuses a stream and another one is one that no connect reaches, and one that
    // breaks off before its SETTINGS is no connection yet.
    ["connect_failed", "connect_timeout", "no_endpoint"].contains(&cause)
        && (profile.http2_trouble > 0
            || profile.origin_closes > 0
            || network.resets > 0
            || network.stalls > 0
            || network.closes_at_once > 0
            || answered_early(record))
}
