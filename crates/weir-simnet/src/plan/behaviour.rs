//! The behaviour of an origin for one attempt of a request. It is derived from the seed, the
//! request's id and the number of the attempt alone, so that timing cannot change it.

use fastrand::Rng;

use crate::message::http::{MessageEnd, PeerPace};
use crate::network::faults::{happens, log_uniform};
use crate::plan::Profile;

/// A fault of an origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Misdeed {
    /// Closes before it has sent a byte.
    ClosesSilently,
    /// Never answers.
    Hangs,
    /// Closes in the middle of its head.
    ClosesInHead,
    /// Sends one of [`GARBAGE`].
    Garbage(usize),
    /// Closes after this many bytes of a longer body.
    Truncates(u64),
    /// Stops sending after this many bytes of its body and keeps the connection open.
    HangsInBody(u64),
    /// Sends this much of a chunked body, then bytes that are not a chunk.
    BadChunk(u64),
    /// Sends this much of a chunked body, then trailers or a chunk extension beyond any bound.
    ExcessiveFraming(u64),
    /// Never reads the request's body, and never answers.
    NeverReads,
    /// Sends its head a byte at a time, with pauses of this many milliseconds.
    Dribbles(u64),
    /// Sends more interim responses than a proxy accepts.
    Interims(usize),
    /// Sends unrequested bytes after a response and keeps the connection open.
    Babbles,
}

/// The response of an origin.
#[derive(Clone, Debug)]
pub(crate) struct Behaviour {
    pub(crate) status: u16,
    pub(crate) bytes: u64,
    pub(crate) framing: MessageEnd,
    pub(crate) chunk: usize,
    pub(crate) trailer: bool,
    pub(crate) interim: Option<u16>,
    pub(crate) delay_ms: u64,
    pub(crate) pace: PeerPace,
    /// Responds after this many bytes of the request's body.
    pub(crate) early: Option<u64>,
    pub(crate) close: bool,
    pub(crate) idle_close_ms: Option<u64>,
    pub(crate) misdeed: Option<Misdeed>,
}

impl Behaviour {
    pub(crate) fn draw(seed: u64, id: u64, attempt: u32, profile: &Profile, method: &str) -> Self {
        let mixed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (id << 8) ^ u64::from(attempt);
        let random = &mut Rng::with_seed(mixed);
        let status = [200, 200, 200, 200, 200, 201, 404, 500, 204, 304][random.usize(0..10)];
        let bodiless = method == "HEAD" || status == 204 || status == 304;
        let most = if profile.bulk { 2_000_000 } else { 150_000 };
        let bytes = if bodiless { 0 } else { log_uniform(random, &(0..=most)) };
        let framing = match random.u32(0..10) {
            _ if bodiless => MessageEnd::Empty,
            0 => MessageEnd::UntilClose,
            1..=4 => MessageEnd::Chunked,
            _ => MessageEnd::Length(bytes),
        };
        let slow = happens(random, profile.origin_slow);
        let mut behaviour = Self {
            status,
            bytes,
            framing,
            chunk: 1 + bytes as usize / 100 + log_uniform(random, &(0..=30_000)) as usize,
            trailer: random.u32(0..4) == 0,
            interim: [None, None, None, None, Some(102), Some(103)][random.usize(0..6)],
            delay_ms: if slow { random.u64(0..3_000) } else { random.u64(0..20) },
            pace: if slow {
                PeerPace { bytes: random.usize(500..8_000), pause_ms: random.u64(1..50) }
            } else {
                PeerPace::FULL
            },
            early: happens(random, profile.origin_early)
                .then(|| log_uniform(random, &(0..=100_000))),
            close: framing == MessageEnd::UntilClose || happens(random, profile.origin_closes),
            idle_close_ms: profile.origin_idle_close.then(|| log_uniform(random, &(0..=3_000))),
            misdeed: None,
        };
        if happens(random, profile.origin_faults) {
            behaviour.misdeed = Some(misdeed(random, &behaviour));
        }
        if happens(random, profile.origin_hostile) {
            behaviour.misdeed = Some(hostile_misdeed(random, &behaviour));
        }
        behaviour
    }
}

fn misdeed(random: &mut Rng, behaviour: &Behaviour) -> Misdeed {
    let within = if behaviour.bytes == 0 { 0 } else { random.u64(0..behaviour.bytes) };
    let in_body = behaviour.bytes > 0 && behaviour.framing != MessageEnd::UntilClose;
    match random.u32(0..7) {
        0 => Misdeed::ClosesSilently,
        1 => Misdeed::Hangs,
        2 => Misdeed::ClosesInHead,
        3 if in_body => Misdeed::Truncates(within),
        4 if in_body => Misdeed::HangsInBody(within),
        5 if in_body && behaviour.framing == MessageEnd::Chunked => Misdeed::BadChunk(within),
        _ => Misdeed::Garbage(random.usize(0..GARBAGE.len())),
    }
}

fn hostile_misdeed(random: &mut Rng, behaviour: &Behaviour) -> Misdeed {
    let chunked = behaviour.framing == MessageEnd::Chunked && behaviour.bytes > 0;
    match random.u32(0..6) {
        0 => Misdeed::NeverReads,
        1 => Misdeed::Dribbles(log_uniform(random, &(1..=3_000))),
        2 => Misdeed::Interims(log_uniform(random, &(2..=400)) as usize),
        3 if !behaviour.close => Misdeed::Babbles,
        4 if chunked => Misdeed::ExcessiveFraming(random.u64(0..behaviour.bytes)),
        _ => Misdeed::Garbage(GARBAGE.len() + random.usize(0..HOSTILE)),
    }
}

/// The number of messages that [`garbage`] has in addition to [`GARBAGE`].
const HOSTILE: usize = 4;

/// The index of the message that switches to a protocol that no route allows.
pub(crate) const SWITCHES: usize = GARBAGE.len() + 2;

/// Returns a message that must become a 502.
pub(crate) fn garbage(index: usize) -> String {
    if let Some(text) = GARBAGE.get(index) {
        return (*text).to_owned();
    }
    match index - GARBAGE.len() {
        0 => format!("HTTP/1.1 200 OK\r\nX-Sim-Garbage: {}\r\n\r\n", "x".repeat(200_000)),
        1 => format!("HTTP/1.1 200 OK\r\n{}\r\n", "X-Sim-Garbage: 1\r\n".repeat(3_000)),
        2 => "HTTP/1.1 101 Switching Protocols\r\nX-Sim-Garbage: 1\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n".to_owned(),
        _ => format!("HTTP/1.1 200 {}\r\nX-Sim-Garbage: 1\r\n\r\n", "OK ".repeat(60_000)),
    }
}

/// A header that no correct proxy passes on.
pub(crate) const GARBAGE_MARKER: &str = "X-Sim-Garbage";

/// Responses that must become a 502.
pub(crate) const GARBAGE: &[&str] = &[
    "HELLO\r\nX-Sim-Garbage: 1\r\n\r\n",
    "HTTP/1.1 200 OK\nX-Sim-Garbage: 1\nContent-Length: 0\n\n",
    "HTTP/1.1 2x0 OK\r\nX-Sim-Garbage: 1\r\n\r\n",
    "HTTP/1.1 20 OK\r\nX-Sim-Garbage: 1\r\n\r\n",
    "HTTP/2.0 200 OK\r\nX-Sim-Garbage: 1\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nX-Sim-Garbage: 1\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
    "HTTP/1.1 200 OK\r\nX-Sim-Garbage: 1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nX-Sim-Garbage: 1\r\nTransfer-Encoding: gzip, chunked, gzip\r\n\r\n0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nX-Sim-Garbage : 1\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nX-Sim-Garbage: 1\r\n folded: yes\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nX-Sim-Garbage: a\0b\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nX-Sim-Garbage: 1\r\nContent-Length: +0\r\n\r\n",
    "\0\0\0\0\0\0\r\n\r\n",
];
