//! The laws of TCP connections: what one side reads is what the other one sent, in order; an end in
//! order comes only behind all of it, and a reset only where something broke.

use std::collections::BTreeMap;

use crate::checks::log::LogLine;
use crate::ledger::Book;
use crate::ledger::tcp::{TcpRecord, TcpSeenEnd};
use crate::world::World;

/// Checks the records of all connections.
pub(crate) fn check_tcp(world: &World, book: &Book) -> Vec<String> {
    let by_tag: BTreeMap<u64, &TcpRecord> =
        book.tcp.iter().map(|record| (record.side.tag, record)).collect();
    let mut pairs: BTreeMap<u64, u64> = BTreeMap::new();
    let mut wrong = Vec::new();
    for record in &book.tcp {
        let tag = record.side.tag;
        let Some(other) = record.other() else { continue };
        if !by_tag.get(&other).is_some_and(|other| other.at != record.at) {
            wrong.push(format!("law 8: {tag:x} read the bytes of {other:x}"));
            continue;
        }
        for (one, partner) in [(tag, other), (other, tag)] {
            let known = *pairs.entry(one).or_insert(partner);
            if known != partner {
                wrong.push(format!("law 8: {one:x} is joined with {known:x} and {partner:x}"));
            }
        }
    }
    for record in &book.tcp {
        let other = pairs.get(&record.side.tag).and_then(|tag| by_tag.get(tag)).copied();
        if let Some(what) = judge(world, record, other) {
            wrong.push(format!("law 8: connection {:x}: {what}", record.side.tag));
        }
    }
    wrong
}

/// Checks the end of what a side has read.
fn judge(world: &World, record: &TcpRecord, other: Option<&TcpRecord>) -> Option<String> {
    if let Some(offset) = record.checked.as_ref().and_then(|checked| checked.wrong_at) {
        return Some(format!("byte {offset} is wrong"));
    }
    let Some(other) = other else { return alone(world, record) };
    let (received, sent) = (record.received, other.sent);
    if received > sent {
        return Some(format!("{received} of {sent} bytes were read"));
    }
    let broke = record.link.faulted()
        || other.link.faulted()
        || record.link.was_reset()
        || other.link.was_reset()
        || record.dropped
        || other.dropped;
    match record.end {
        Some(TcpSeenEnd::Closed) if received < sent => {
            Some(format!("{received} of {sent} bytes ended as if they were all"))
        }
        Some(TcpSeenEnd::Closed) if !other.finished && !other.dropped => {
            Some("an end of the other side that it did not make".to_owned())
        }
        Some(TcpSeenEnd::Reset) if !broke => Some("a reset without a cause".to_owned()),
        None if !record.dropped => Some("no end".to_owned()),
        _ => None,
    }
}

/// Checks a side whose bytes, and whose reading, met no other side.
fn alone(world: &World, record: &TcpRecord) -> Option<String> {
    let trouble = world.plan.profile.upstream_trouble()
        || world.plan.profile.downstream_trouble()
        || world.plan.profile.stop_ms.is_some()
        || world.limits.borrow().any();
    (!trouble && !record.link.faulted()).then(|| "it met no other side".to_owned())
}

/// Checks that each connection is in the log once.
pub(crate) fn check_tcp_log(world: &World, log: &[LogLine]) -> Vec<String> {
    let book = world.ledger.book();
    let accepted = |record: &&TcpRecord| record.origin.is_none() && record.link.accepted();
    let connections = book.tcp.iter().filter(accepted).count();
    let mut wrong = Vec::new();
    // A stop closes what was accepted and not begun.
    let fits = connections == log.len()
        || (world.plan.profile.stop_ms.is_some() && log.len() < connections);
    if !fits {
        wrong.push(format!("law 1: {} lines for {connections} connections", log.len()));
    }
    let internal = log.iter().filter(|line| line.cause == "internal");
    wrong.extend(internal.map(|line| format!("an internal error of the device: {line:?}")));
    wrong
}
