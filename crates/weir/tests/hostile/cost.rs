//! The processor time that attacks over HTTP/2 cost, beside that of honest connections that move as
//! many bytes. Each attack stays just within its budget, so that Weir reads all of it: what comes
//! after `ENHANCE_YOUR_CALM` costs less.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use crate::ALONE;
use crate::arena::{Arena, Conn, Ending};
use crate::judge::wait_until_served;
use crate::origin::Origin;
use crate::patterns::http2::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, PING, PRIORITY, RST_STREAM, SETTINGS,
    WHOLE, WINDOW_UPDATE, frame, get, opening, post, streams,
};
use crate::proxies::{Kind, Proxy, Setting, leave_the_proxys_processor};

/// The streams that the honest client has open at once.
const AT_ONCE: u32 = 10;
/// The longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// The content of the PING at the end of a connection.
const LAST: [u8; 8] = *b"the last";

/// The rounds of a comparison, of which the median counts.
const ROUNDS: usize = 3;
/// The bytes that the connections of a round move.
const ROUND_BYTES: usize = 20_000;

/// An attack: its name, and the frames of one connection, the second part of which is sent when
/// the first has been read.
type Attack = (&'static str, Vec<Vec<u8>>, Vec<Vec<u8>>);

fn attacks() -> Vec<Attack> {
    let many = |count: usize, frame: Vec<u8>| vec![frame; count];
    let behind = |head: Vec<u8>, rest: Vec<Vec<u8>>| [vec![head], rest].concat();
    let open = |stream, path: &[u8]| frame(HEADERS, END_HEADERS, stream, &post(path));
    let whole = |stream, path: &[u8]| frame(HEADERS, WHOLE, stream, &get(path));
    let bomb = [get(b"/"), [&b"\x40\x01x\x7f\xa1\x1e"[..], &[b'y'; 4_000]].concat()].concat();
    let reset = |stream| frame(RST_STREAM, 0, stream, &8u32.to_be_bytes());
    let overflow = |stream| frame(WINDOW_UPDATE, 0, stream, &0x7fff_ffffu32.to_be_bytes());
    let part = frame(CONTINUATION, 0, 1, b"\x00\x01x\x01y");
    let at_once: Vec<_> = vec![
        ("resets", streams(250).flat_map(|id| [whole(id, b"/hostile/r"), reset(id)]).collect()),
        (
            "provoked resets",
            streams(500).flat_map(|id| [whole(id, b"/hostile/r"), overflow(id)]).collect(),
        ),
        ("continuations", behind(frame(HEADERS, END_STREAM, 1, &get(b"/")), many(2_000, part))),
        ("header bomb", vec![frame(HEADERS, WHOLE, 1, &[bomb, vec![0xbe; 12_000]].concat())]),
        ("pings", many(126, frame(PING, 0, 0, &[1; 8]))),
        ("settings", many(30, frame(SETTINGS, 0, 0, &[]))),
        ("priorities", many(250, frame(PRIORITY, 0, 1, &[0, 0, 0, 0, 9]))),
        ("window updates", many(500, frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1]))),
        ("empty data", behind(open(1, b"/hostile/up"), many(62, frame(DATA, 0, 1, b"")))),
        ("data of one byte", behind(open(1, b"/hostile/up"), many(8_000, frame(DATA, 0, 1, b"x")))),
        ("unknown frames", many(62, frame(0xbe, 0, 0, b""))),
        ("half-open streams", streams(100).map(|id| open(id, b"/slow")).collect()),
    ];
    let mut all: Vec<Attack> = at_once.into_iter().map(|(name, all)| (name, all, vec![])).collect();
    let asked = streams(90).map(|id| whole(id, b"/never")).collect();
    all.push(("resets of requests that the server has", asked, streams(90).map(reset).collect()));
    all
}

/// The frames of a connection that has been read so far.
#[derive(Default)]
struct Reading {
    bytes: Vec<u8>,
    all: usize,
    ended_streams: u32,
    /// The answers to the PING [`LAST`].
    answers: usize,
    is_over: bool,
}

impl Reading {
    /// Reads what has come.
    fn advance(&mut self, conn: &mut Conn) {
        let (more, over) = conn.until_over(Duration::from_micros(200));
        self.all += more.len();
        self.is_over |= over;
        self.bytes.extend(more);
        let mut rest = &self.bytes[..];
        while let [high, middle, low, kind, flags, _, _, _, _, behind @ ..] = rest {
            let length = u32::from_be_bytes([0, *high, *middle, *low]) as usize;
            let Some(payload) = behind.get(..length) else { break };
            self.ended_streams +=
                u32::from([DATA, HEADERS].contains(kind) && flags & END_STREAM > 0);
            self.answers += usize::from((*kind, flags & 1) == (PING, 1) && payload == LAST);
            rest = &behind[length..];
        }
        self.bytes = rest.to_vec();
    }
}

/// Sends these parts on a connection, each with a PING whose answer or the end is awaited. Returns
/// the bytes that were moved both ways.
fn attack_once(arena: &Arena, parts: &[Vec<u8>]) -> usize {
    let Some(mut conn) = arena.connect() else { return 0 };
    let mut reading = Reading::default();
    let deadline = Instant::now() + PATIENCE;
    let mut sent = 0;
    for (number, part) in parts.iter().enumerate() {
        let script = [&part[..], &frame(PING, 0, 0, &LAST)].concat();
        let _ = conn.write_within(&script, PATIENCE);
        sent += script.len();
        while reading.answers <= number && !reading.is_over && Instant::now() < deadline {
            reading.advance(&mut conn);
        }
    }
    conn.finish(Ending::Close);
    sent + reading.all
}

/// Sends requests on a connection, a few at once, until so many bytes have been moved both ways.
/// Returns their number.
fn ask_honestly(arena: &Arena, bytes: usize) -> usize {
    let Some(mut conn) = arena.connect() else { return 0 };
    let mut reading = Reading::default();
    let mut written = opening(&[]);
    let mut sent = written.len();
    let mut asked = 0;
    let deadline = Instant::now() + PATIENCE;
    while sent + reading.all < bytes && !reading.is_over && Instant::now() < deadline {
        while asked < reading.ended_streams + AT_ONCE {
            written.extend(frame(HEADERS, WHOLE, 2 * asked + 1, &get(b"/honest")));
            asked += 1;
        }
        sent += written.len();
        let _ = conn.write_within(&written, PATIENCE);
        written.clear();
        reading.advance(&mut conn);
    }
    conn.finish(Ending::Close);
    sent + reading.all
}

/// The processor time for a byte of some connections, in nanoseconds, and the bytes of one.
fn cost(arena: &Arena, connections: usize, one: impl Fn() -> usize) -> (f64, usize) {
    let before = arena.proxy.running_time();
    let bytes: usize = (0..connections).map(|_| one()).sum();
    let time = arena.proxy.running_time().saturating_sub(before);
    assert!(bytes > 0, "nothing was moved");
    (time.as_nanos() as f64 / bytes as f64, bytes / connections)
}

/// The ratios of an attack's processor time to that of honest connections with as many bytes each.
fn ratios(arena: &Arena, parts: &[Vec<u8>]) -> Vec<f64> {
    let (_, bytes) = cost(arena, 1, || attack_once(arena, parts));
    let connections = ROUND_BYTES.div_ceil(bytes);
    let mut ratios: Vec<_> = (0..ROUNDS)
        .map(|_| {
            let (attack, _) = cost(arena, connections, || attack_once(arena, parts));
            let (honest, _) = cost(arena, connections, || ask_honestly(arena, bytes));
            attack / honest
        })
        .collect();
    ratios.sort_by(f64::total_cmp);
    ratios
}

#[test]
fn an_attack_over_http2_costs_no_more_than_an_honest_connection_that_moves_as_many_bytes() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    leave_the_proxys_processor();
    let origin = Origin::start();
    let arena = Arena::new(Proxy::start(Kind::Weir, Setting::Ordinary, &origin), origin);
    wait_until_served(&arena);
    arena.begin();
    for (name, first, second) in attacks() {
        let parts = [[opening(&[]), first.concat()].concat(), second.concat()];
        let parts = &parts[..if second.is_empty() { 1 } else { 2 }];
        let ratios = ratios(&arena, parts);
        println!("{name}: {ratios:.3?} of an honest connection");
        assert!(ratios[ROUNDS / 2] < 1.0, "{name}: {ratios:.2?} times an honest connection");
    }
}
