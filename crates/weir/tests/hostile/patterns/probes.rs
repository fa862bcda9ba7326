//! Tools of outcome checks: the responses to a few requests, sent once, and their form as text.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::arena::{Arena, Conn};

/// The timeout of a response.
pub(super) const ANSWER: Duration = Duration::from_millis(1500);

/// Returns every status in these bytes of a connection, in order.
pub(super) fn statuses(bytes: &[u8]) -> Vec<u16> {
    String::from_utf8_lossy(bytes)
        .split("HTTP/1.1 ")
        .skip(1)
        .filter_map(|rest| rest.get(..3)?.parse().ok())
        .collect()
}

/// Sends bytes and reads the response until the connection ends or no more bytes arrive. Returns
/// the bytes read, and true if the connection ended.
pub(super) fn ask(arena: &Arena, bytes: &[u8]) -> (Vec<u8>, bool) {
    let Some(mut conn) = patient(arena) else { return (Vec::new(), false) };
    if conn.write_within(bytes, ANSWER).is_none() {
        return (conn.until_over(Duration::from_millis(50)).0, true);
    }
    until_silent(&mut conn)
}

/// Opens a connection, even right after a flood.
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

/// Reads until the connection ends or, after a response, no more bytes arrive.
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

/// Formats the statuses of many responses as `400 ×12, 501 ×1`; no response is `none`.
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
