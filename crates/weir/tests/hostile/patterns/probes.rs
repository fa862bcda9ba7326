//! Tools for outcomes: what is answered to a few requests sent once, and what the origin saw.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::arena::{Arena, Conn};

/// How long an answer is waited for.
pub(super) const ANSWER: Duration = Duration::from_millis(1500);

/// Every status in the responses on this connection, in order, until it ends or falls silent.
pub(super) fn statuses(bytes: &[u8]) -> Vec<u16> {
    String::from_utf8_lossy(bytes)
        .split("HTTP/1.1 ")
        .skip(1)
        .filter_map(|rest| rest.get(..3)?.parse().ok())
        .collect()
}

/// Sends this, says that nothing follows, and reads to the end.
pub(super) fn ask(arena: &Arena, bytes: &[u8]) -> (Vec<u8>, bool) {
    let Some(mut conn) = patient(arena) else { return (Vec::new(), false) };
    if conn.write_within(bytes, ANSWER).is_none() {
        return (conn.until_over(Duration::from_millis(50)).0, true);
    }
    until_silent(&mut conn)
}

/// A connection, even right after a flood.
pub(super) fn patient(arena: &Arena) -> Option<Conn> {
    let deadline = Instant::now() + ANSWER;
    loop {
        if let Some(conn) = arena.connect() {
            return Some(conn);
        }
        if Instant::now() > deadline {
            return None;
        }
    }
}

/// Reads until the connection ends or, an answer being there, nothing more comes.
pub(super) fn until_silent(conn: &mut Conn) -> (Vec<u8>, bool) {
    let deadline = Instant::now() + ANSWER;
    let mut all = Vec::new();
    loop {
        let (more, over) = conn.until_over(Duration::from_millis(40));
        let silent = more.is_empty();
        all.extend(more);
        if over || (silent && !all.is_empty()) || Instant::now() > deadline {
            return (all, over);
        }
    }
}

/// Statuses of many answers as `400 ×12, 501 ×1`. No answer is `none`.
pub(super) fn tally(answers: impl IntoIterator<Item = Vec<u16>>) -> String {
    let mut counts = BTreeMap::<String, usize>::new();
    for statuses in answers {
        let words: Vec<_> = statuses.iter().map(u16::to_string).collect();
        let words = if words.is_empty() { "none".to_owned() } else { words.join("+") };
        *counts.entry(words).or_default() += 1;
    }
    let words: Vec<_> = counts
        .iter()
        .map(|(words, &count)| if count == 1 { words.clone() } else { format!("{words} ×{count}") })
        .collect();
    words.join(", ")
}
