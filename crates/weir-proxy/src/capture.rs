//! The last message of each listener's clients and of each pool's endpoints that was no HTTP, with its bytes: HAProxy's `show errors`.
//! Bounded: one for each name that a configuration has, 4 KiB each.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use weir_wire::{HeadLimits, Method, RequestHead, ResponseHead};

use crate::limits::{CAPTURED_BYTES, CAPTURES};

/// Whose message it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// A client's request.
    Request,
    /// An endpoint's response.
    Response,
}

/// A message that was no HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Captured {
    /// Its number in the process, from 0.
    pub number: u64,
    /// When.
    pub at: SystemTime,
    /// Whose.
    pub side: Side,
    /// The listener's name.
    pub listener: Arc<str>,
    /// Pool and endpoint, of a response.
    pub endpoint: Option<(Arc<str>, Arc<str>)>,
    /// Who is on the other end of the client's connection; `None` on a Unix socket.
    pub peer: Option<SocketAddr>,
    /// What is wrong, in one clause.
    pub reason: &'static str,
    /// Where the line begins that breaks the rule; the end of the bytes where it is none alone.
    pub position: usize,
    /// How it began.
    pub bytes: Vec<u8>,
    /// How many bytes there were.
    pub length: usize,
}

/// The latest of each.
#[derive(Debug, Default)]
pub struct Captures(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    count: u64,
    latest: HashMap<(Side, Arc<str>), Captured>,
}

/// Where a message came in.
pub(crate) struct Place {
    pub(crate) listener: Arc<str>,
    /// Pool and endpoint, of a response.
    pub(crate) endpoint: Option<(Arc<str>, Arc<str>)>,
    pub(crate) peer: Option<SocketAddr>,
}

impl Captures {
    /// How many there were, and the latest of each listener and pool, the latest first.
    pub fn read(&self) -> (u64, Vec<Captured>) {
        let kept = self.kept();
        let mut list: Vec<Captured> = kept.latest.values().cloned().collect();
        list.sort_by_key(|one| std::cmp::Reverse(one.number));
        (kept.count, list)
    }

    /// Keeps a request that was refused for the way it is written.
    pub(crate) fn request(&self, place: Place, bytes: &[u8], reason: &'static str) {
        let fails = |bytes: &[u8]| {
            RequestHead::default().parse(bytes, &mut 0, &HeadLimits::default()).is_err()
        };
        self.keep(place, (Side::Request, reason), bytes, position(bytes, fails));
    }

    /// The same of a response to a request of that method.
    pub(crate) fn response(&self, place: Place, bytes: &[u8], method: Method) {
        let parse = |bytes: &[u8]| {
            ResponseHead::default().parse(bytes, &mut 0, &HeadLimits::default(), method)
        };
        let reason = match parse(bytes) {
            Err(fault) => fault.reason(),
            Ok(_) => "more interim responses than the limit",
        };
        let position = position(bytes, |bytes| parse(bytes).is_err());
        self.keep(place, (Side::Response, reason), bytes, position);
    }

    fn keep(
        &self,
        place: Place,
        (side, reason): (Side, &'static str),
        bytes: &[u8],
        position: usize,
    ) {
        let Place { listener, endpoint, peer } = place;
        let name = match &endpoint {
            Some((pool, _)) => Arc::clone(pool),
            None => Arc::clone(&listener),
        };
        let kept = &mut *self.kept();
        let number = kept.count;
        kept.count += 1;
        let captured = Captured {
            number,
            at: SystemTime::now(),
            side,
            listener,
            endpoint,
            peer,
            reason,
            position: position.min(bytes.len()),
            bytes: bytes.get(..CAPTURED_BYTES).unwrap_or(bytes).to_vec(),
            length: bytes.len(),
        };
        kept.latest.insert((side, name), captured);
        if kept.latest.len() > CAPTURES {
            let oldest = kept.latest.values().map(|one| one.number).min();
            kept.latest.retain(|_, one| Some(one.number) != oldest);
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        // Whoever panicked under it is a bug of its own; what is there is whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where the first line begins with which, and an end put behind it, the head is at fault. A head that ends there lacks what comes
/// later, so only what fails with all lines as well counts from the first line on which it fails for good.
fn position(bytes: &[u8], fails: impl Fn(&[u8]) -> bool) -> usize {
    let bytes = bytes.get(..CAPTURED_BYTES).unwrap_or(bytes);
    let ends: Vec<usize> = bytes
        .iter()
        .enumerate()
        .filter(|(_, byte)| **byte == b'\n')
        .map(|(at, _)| at + 1)
        .collect();
    let with_end = |end: usize| {
        let mut head = bytes.get(..end).unwrap_or_default().to_vec();
        head.extend_from_slice(b"\r\n");
        head
    };
    // The longest beginning that is sound is followed by what is not.
    let sound = ends.iter().rev().find(|end| !fails(&with_end(**end)));
    sound.copied().unwrap_or(if ends.is_empty() { bytes.len() } else { 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(listener: &str, pool: Option<&str>) -> Place {
        let endpoint = pool.map(|pool| (pool.into(), "one".into()));
        Place { listener: listener.into(), endpoint, peer: None }
    }

    #[test]
    fn the_line_at_fault_is_found() {
        let check = |bytes: &[u8], position: usize| {
            let captures = Captures::default();
            captures.request(place("front", None), bytes, "why");
            assert_eq!(captures.read().1[0].position, position, "{}", bytes.escape_ascii());
        };
        check(b"GET / HTTP/1.1\r\nHost: a\r\nBad Header: x\r\nOther: y\r\n\r\n", 25);
        check(b"GET\x00 / HTTP/1.1\r\nHost: a\r\n\r\n", 0);
        check(b"no line", 7);
    }

    #[test]
    fn the_latest_of_each_is_kept_and_no_more_than_a_bound() {
        let captures = Captures::default();
        captures.request(place("front", None), &[b'x'; 2 * CAPTURED_BYTES], "why");
        captures.request(place("front", None), b"second", "why");
        captures.response(
            place("front", Some("app")),
            b"HTTP/1.1 200 OK\r\nBad\x01: x\r\n\r\n",
            Method::Get,
        );
        let (count, list) = captures.read();
        assert_eq!((count, list.len()), (3, 2));
        assert_eq!((list[0].side, list[0].position), (Side::Response, 17));
        assert_eq!(list[0].reason, "a malformed header name");
        assert_eq!((list[1].bytes.as_slice(), list[1].number), (&b"second"[..], 1));
        for number in 0..2 * CAPTURES {
            captures.request(place(&number.to_string(), None), &[b'x'; 2 * CAPTURED_BYTES], "why");
        }
        let (_, list) = captures.read();
        assert_eq!(list.len(), CAPTURES);
        assert_eq!((list[0].bytes.len(), list[0].length), (CAPTURED_BYTES, 2 * CAPTURED_BYTES));
    }
}
