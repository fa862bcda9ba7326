//! The latest malformed message of each listener's clients and of each pool's endpoints, with its
//! bytes: HAProxy's `show errors`. It is bounded: one message of 4 KiB for each listener and pool,
//! and a few per name and second. It parses nothing; the parser reports what is wrong and where.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use crate::limits::{CAPTURED_BYTES, CAPTURES, CAPTURES_PER_SECOND};

/// The side that sent the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// A client's request.
    Request,
    /// An endpoint's response.
    Response,
}

/// A malformed message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Captured {
    /// Its number in the process, from 0.
    pub number: u64,
    /// The time of its arrival, on the wall clock.
    pub at: SystemTime,
    /// The side that sent it.
    pub side: Side,
    /// The listener's name.
    pub listener: Arc<str>,
    /// The names of pool and endpoint, for a response.
    pub endpoint: Option<(Arc<str>, Arc<str>)>,
    /// The address of the client connection's peer; `None` on a Unix socket.
    pub peer: Option<SocketAddr>,
    /// The fault, in one clause.
    pub reason: &'static str,
    /// The offset of the line that breaks the rule; the end of the bytes if no single line does.
    pub position: usize,
    /// The beginning of the message.
    pub bytes: Vec<u8>,
    /// The number of bytes that were received.
    pub length: usize,
}

/// The latest malformed message of each listener and pool.
#[derive(Debug, Default)]
pub struct CapturedMessages {
    count: AtomicU64,
    latest: Mutex<HashMap<(Side, Arc<str>), LatestMessage>>,
}

/// The latest message of one name, and the rate at which its messages are kept.
#[derive(Debug)]
struct LatestMessage {
    captured: Captured,
    /// The beginning of the second in which `kept` messages were kept.
    since: SystemTime,
    kept: u32,
}

/// A message that is refused because it is malformed.
pub(crate) struct Malformed<'a> {
    pub(crate) listener: &'a Arc<str>,
    /// The names of pool and endpoint, for a response.
    pub(crate) endpoint: Option<(&'a Arc<str>, &'a Arc<str>)>,
    pub(crate) peer: Option<SocketAddr>,
    /// The time on the wall clock.
    pub(crate) at: SystemTime,
    pub(crate) reason: &'static str,
    pub(crate) position: usize,
    pub(crate) bytes: &'a [u8],
}

impl CapturedMessages {
    /// The number of messages so far, and the latest kept message of each listener and pool, newest
    /// first.
    pub fn read(&self) -> (u64, Vec<Captured>) {
        // A panic under the lock is a bug of its own; the data stays consistent.
        let latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let mut list: Vec<Captured> = latest.values().map(|one| one.captured.clone()).collect();
        list.sort_by_key(|one| std::cmp::Reverse(one.number));
        (self.count.load(Ordering::Relaxed), list)
    }

    /// Counts a message, and keeps it unless many of its name were kept within the current second
    /// or another thread holds the lock: a worker never waits for it.
    pub(crate) fn keep(&self, message: &Malformed<'_>) {
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let Ok(mut latest) = self.latest.try_lock() else { return };
        let (side, name) = match message.endpoint {
            Some((pool, _)) => (Side::Response, pool),
            None => (Side::Request, message.listener),
        };
        let key = (side, Arc::clone(name));
        let one = latest.entry(key).or_insert_with(|| LatestMessage::new(side, message));
        if one.may_keep(message.at) {
            one.captured.take(number, message);
        }
        if latest.len() > CAPTURES {
            let oldest = latest.values().map(|one| one.captured.number).min();
            latest.retain(|_, one| Some(one.captured.number) != oldest);
        }
    }
}

impl LatestMessage {
    fn new(side: Side, message: &Malformed<'_>) -> Self {
        let captured = Captured {
            number: 0,
            at: message.at,
            side,
            listener: Arc::clone(message.listener),
            endpoint: None,
            peer: None,
            reason: message.reason,
            position: 0,
            bytes: Vec::new(),
            length: 0,
        };
        Self { captured, since: message.at, kept: 0 }
    }

    /// Returns true if one more message may be kept now. A clock that was set back starts a new
    /// second.
    fn may_keep(&mut self, now: SystemTime) -> bool {
        let passed = now.duration_since(self.since).unwrap_or(Duration::MAX);
        if passed >= Duration::from_secs(1) {
            (self.since, self.kept) = (now, 0);
        }
        self.kept = self.kept.saturating_add(1);
        self.kept <= CAPTURES_PER_SECOND
    }
}

impl Captured {
    /// Overwrites itself with this message; the buffer for its bytes is reused.
    fn take(&mut self, number: u64, message: &Malformed<'_>) {
        let bytes = message.bytes;
        self.number = number;
        self.at = message.at;
        self.listener = Arc::clone(message.listener);
        self.endpoint = message.endpoint.map(|(pool, own)| (Arc::clone(pool), Arc::clone(own)));
        self.peer = message.peer;
        self.reason = message.reason;
        self.position = message.position.min(bytes.len());
        self.bytes.clear();
        self.bytes.extend_from_slice(bytes.get(..CAPTURED_BYTES).unwrap_or(bytes));
        self.length = bytes.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keep(
        captures: &CapturedMessages,
        name: &str,
        pool: Option<&str>,
        bytes: &[u8],
        second: u64,
    ) {
        let (listener, one): (Arc<str>, Arc<str>) = (name.into(), "one".into());
        let pool = pool.map(Arc::from);
        captures.keep(&Malformed {
            listener: &listener,
            endpoint: pool.as_ref().map(|pool| (pool, &one)),
            peer: None,
            at: SystemTime::UNIX_EPOCH + Duration::from_secs(second),
            reason: "why",
            position: 17,
            bytes,
        });
    }

    #[test]
    fn the_latest_message_of_each_listener_and_pool_is_kept_within_a_bound() {
        let captures = CapturedMessages::default();
        let large = [b'x'; 2 * CAPTURED_BYTES];
        keep(&captures, "front", None, &large, 0);
        keep(&captures, "front", None, b"second", 0);
        keep(&captures, "front", Some("app"), b"HTTP/1.1 200 OK\r\nBad\x01: x\r\n\r\n", 0);
        let (count, list) = captures.read();
        assert_eq!((count, list.len()), (3, 2));
        assert_eq!((list[0].side, list[0].position), (Side::Response, 17));
        assert_eq!(list[0].endpoint.as_ref().map(|(pool, _)| &**pool), Some("app"));
        assert_eq!((list[1].bytes.as_slice(), list[1].number), (&b"second"[..], 1));
        assert_eq!(list[1].position, 6, "no position is beyond the bytes");
        for number in 0..2 * CAPTURES {
            keep(&captures, &number.to_string(), None, &large, 0);
        }
        let (_, list) = captures.read();
        assert_eq!(list.len(), CAPTURES);
        assert_eq!((list[0].bytes.len(), list[0].length), (CAPTURED_BYTES, 2 * CAPTURED_BYTES));
    }

    #[test]
    fn all_messages_are_counted_and_a_few_are_kept_each_second() {
        let captures = CapturedMessages::default();
        for number in 0..100 {
            keep(&captures, "front", None, format!("{number}").as_bytes(), 7);
        }
        keep(&captures, "other", None, b"of another listener", 7);
        let (count, list) = captures.read();
        assert_eq!((count, list.len()), (101, 2));
        assert_eq!(list[0].bytes, b"of another listener");
        assert_eq!(list[1].number, u64::from(CAPTURES_PER_SECOND) - 1);
        keep(&captures, "front", None, b"a second later", 8);
        assert_eq!(captures.read().1[0].bytes, b"a second later");
        keep(&captures, "front", None, b"before", 2);
        assert_eq!(captures.read().1[0].bytes, b"before", "the clock was set back");
    }
}
