//! The latest exchanges of a worker, each in two cache lines, so that one can be found by its
//! request id. Complete records of slow exchanges are kept in `slow.rs`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering, fence};

use super::tally::Outcome;
use crate::{Cause, Micros, Times};

/// The number of exchanges kept for each worker, 128 bytes each.
const KEPT: usize = 2_048;
/// The number of words of an entry, besides the version.
const WORDS: usize = NUMBERS + ABOUT;
/// The number of words that hold numbers.
const NUMBERS: usize = 9;
/// The number of words that hold the client and the request.
const ABOUT: usize = 6;

/// A number for a request id. Two ids collide with a probability of 2⁻⁶⁴, unless they are crafted
/// to.
#[inline]
pub fn id_number(id: &[u8]) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut number = id.len() as u64;
    let mut chunks = id.chunks_exact(8);
    for chunk in &mut chunks {
        let word = <[u8; 8]>::try_from(chunk).map_or(0, u64::from_le_bytes);
        number = (number.rotate_left(23) ^ word).wrapping_mul(FACTOR);
    }
    for byte in chunks.remainder() {
        number = (number.rotate_left(23) ^ u64::from(*byte)).wrapping_mul(FACTOR);
    }
    number ^ number >> 32
}

/// The client and the request of an exchange.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked<'a> {
    /// The client's address.
    pub client: Option<IpAddr>,
    /// The request from its first line on, with the bytes after it: more than is kept, so that a
    /// fixed number of bytes can be copied.
    pub request: &'a [u8],
    /// The length of the request line.
    pub line_bytes: usize,
}

/// The number of words for the request line besides an IPv4 address, and besides an IPv6 address.
const LINE: usize = ABOUT - 1;
const SHORT_LINE: usize = LINE - 2;

impl Asked<'_> {
    /// Packs the beginning of the request line, an IPv6 client address, then the length and a short
    /// address. The bytes after a short line are copied too: they are never shown, and cutting them
    /// off would cost more than the rest of this function.
    #[inline]
    fn pack(&self) -> [u64; ABOUT] {
        let short;
        let line = if let Some(line) = self.request.first_chunk() {
            line
        } else {
            short = self.padded();
            &short
        };
        let mut words = words_of(line);
        let len = (self.line_bytes.min(255) as u64) << 8;
        let [.., high, low, last] = &mut words;
        *last = len
            | match self.client {
                None => 0,
                Some(IpAddr::V4(client)) => u64::from(client.to_bits()) << 32 | 4,
                Some(IpAddr::V6(client)) => {
                    *high = (client.to_bits() >> 64) as u64;
                    *low = client.to_bits() as u64;
                    16
                }
            };
        words
    }

    /// Pads a request of a few bytes, one that was cut off.
    #[cold]
    fn padded(&self) -> [u8; LINE * 8] {
        let mut line = [0; LINE * 8];
        line.iter_mut().zip(self.request).for_each(|(place, byte)| *place = *byte);
        line
    }
}

#[inline]
fn words_of(line: &[u8; LINE * 8]) -> [u64; ABOUT] {
    let mut words = [0; ABOUT];
    for (word, bytes) in words.iter_mut().zip(line.as_chunks().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    words
}

/// The unpacked client and request of an exchange.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AskedText {
    pub(crate) client: Option<IpAddr>,
    pub(crate) method: String,
    /// The beginning of the target, with an ellipsis if it was longer.
    pub(crate) target: String,
}

impl AskedText {
    fn unpack(words: [u64; ABOUT]) -> Self {
        let [.., high, low, last] = words;
        let (client, kept) = match last & 0xff {
            4 => (Some(IpAddr::V4(Ipv4Addr::from_bits((last >> 32) as u32))), LINE),
            16 => {
                let client = u128::from(high) << 64 | u128::from(low);
                (Some(IpAddr::V6(Ipv6Addr::from_bits(client))), SHORT_LINE)
            }
            _ => (None, LINE),
        };
        let bytes: Vec<u8> = words.iter().take(kept).flat_map(|word| word.to_le_bytes()).collect();
        let len = (last >> 8 & 0xff) as usize;
        let line = String::from_utf8_lossy(bytes.get(..len).unwrap_or(&bytes)).into_owned();
        let (method, rest) = line.split_once(' ').unwrap_or((&line, ""));
        // The target is followed by the protocol, or by the beginning of it.
        let target = match rest.split_once(' ') {
            Some((target, _)) => target.to_owned(),
            None if len > bytes.len() => format!("{rest}…"),
            None => rest.to_owned(),
        };
        Self { client, method: method.to_owned(), target }
    }
}

/// One exchange in a few words.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RecentExchange {
    /// [`id_number`] of the request id.
    pub id: u64,
    /// The end of the exchange on the process's clock, µs.
    pub ended_us: u64,
    /// The number of the route's series.
    pub route: u32,
    /// The number of the endpoint's series; 0 is none.
    pub endpoint: u32,
    /// The time split; each time is at most 71 minutes. Handshake and idle time are not included.
    pub times: Times,
    /// The counted properties; bytes received are at most 4 GiB.
    pub outcome: Outcome,
}

/// A ring with one writer. A reader that collides with the writer at an entry skips that entry.
pub(crate) struct RecentRing {
    entries: Box<[RingEntry]>,
    /// The number of exchanges written so far.
    written: AtomicU64,
}

/// An entry. The version counts up before and after the words change; it is odd in between.
#[repr(align(64))]
struct RingEntry {
    version: AtomicU64,
    words: [AtomicU64; WORDS],
}

impl std::fmt::Debug for RecentRing {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("RecentRing").field("written", &self.written).finish_non_exhaustive()
    }
}

impl RecentRing {
    pub(crate) fn new() -> Self {
        let entry = || RingEntry {
            version: AtomicU64::new(0),
            words: [const { AtomicU64::new(0) }; WORDS],
        };
        Self { entries: (0..KEPT).map(|_| entry()).collect(), written: AtomicU64::new(0) }
    }

    #[inline]
    pub(crate) fn write(&self, elapsed_us: u64, exchange: &RecentExchange, asked: &Asked<'_>) {
        let turn = self.written.load(Ordering::Relaxed);
        let Some(entry) = self.entries.get(turn as usize % KEPT) else { return };
        // The version grows by two for each round of the ring, so that the entry, which is no
        // longer in a near cache, need not be read.
        let version = turn / KEPT as u64 * 2;
        entry.version.store(version + 1, Ordering::Relaxed);
        fence(Ordering::Release);
        let (numbers, about) = entry.words.split_at(NUMBERS);
        for (place, word) in numbers.iter().zip(pack(elapsed_us, exchange)) {
            place.store(word, Ordering::Relaxed);
        }
        for (place, word) in about.iter().zip(asked.pack()) {
            place.store(word, Ordering::Relaxed);
        }
        entry.version.store(version + 2, Ordering::Release);
        self.written.store(turn + 1, Ordering::Relaxed);
    }

    /// The latest exchange with this id.
    pub(crate) fn find(&self, id: u64) -> Option<(RecentExchange, AskedText)> {
        let written = self.written.load(Ordering::Relaxed) as usize;
        let latest_first = (0..KEPT.min(written)).map(|back| (written - 1 - back) % KEPT);
        latest_first
            .filter_map(|place| self.entries.get(place))
            .filter(|entry| {
                entry.words.first().map(|word| word.load(Ordering::Relaxed)) == Some(id)
            })
            .find_map(|entry| read(entry).filter(|(exchange, _)| exchange.id == id))
    }
}

fn read(entry: &RingEntry) -> Option<(RecentExchange, AskedText)> {
    let before = entry.version.load(Ordering::Acquire);
    let words: [u64; WORDS] = std::array::from_fn(|at| {
        entry.words.get(at).map_or(0, |word| word.load(Ordering::Relaxed))
    });
    fence(Ordering::Acquire);
    let after = entry.version.load(Ordering::Relaxed);
    if before != after || !before.is_multiple_of(2) {
        return None;
    }
    let (numbers, about) = words.split_first_chunk::<NUMBERS>()?;
    Some((unpack(numbers), AskedText::unpack(*about.first_chunk()?)))
}

/// The value of a phase that was not reached.
const NEVER: u64 = u32::MAX as u64;

#[inline]
fn pack(elapsed_us: u64, exchange: &RecentExchange) -> [u64; NUMBERS] {
    let RecentExchange { id, ended_us, route, endpoint, times, outcome } = exchange;
    let both = |high: Micros, low: Micros| {
        let word = |time: Micros| time.reached().map_or(NEVER, |us| us.min(NEVER - 1));
        word(high) << 32 | word(low)
    };
    let small = u64::from(outcome.status)
        | (outcome.cause as u64) << 16
        | u64::from(outcome.attempts.min(255)) << 24
        | u64::from(outcome.queue_position.min(0x7fff_ffff)) << 32
        | u64::from(outcome.reused) << 63;
    [
        *id,
        *ended_us,
        u64::from(*route) << 32 | u64::from(*endpoint),
        both(times.request, times.queue),
        both(times.connect, times.response),
        both(times.data, Micros(elapsed_us as i64)),
        both(times.own, Micros(outcome.bytes_received as i64)),
        small,
        outcome.bytes_sent,
    ]
}

fn unpack(words: &[u64; NUMBERS]) -> RecentExchange {
    let [id, ended_us, series, first, second, third, fourth, small, bytes_sent] = *words;
    let half = |word: u64| {
        let half = word & NEVER;
        if half == NEVER { Micros::NEVER } else { Micros(half as i64) }
    };
    RecentExchange {
        id,
        ended_us,
        route: (series >> 32) as u32,
        endpoint: series as u32,
        times: Times {
            request: half(first >> 32),
            queue: half(first),
            connect: half(second >> 32),
            response: half(second),
            data: half(third >> 32),
            total: half(third),
            own: half(fourth >> 32),
            ..Times::default()
        },
        outcome: Outcome {
            status: small as u16,
            cause: Cause::ALL.get((small >> 16) as usize & 0xff).copied().unwrap_or_default(),
            attempts: (small >> 24) as u32 & 0xff,
            queue_position: (small >> 32) as u32 & 0x7fff_ffff,
            reused: small >> 63 == 1,
            bytes_received: half(fourth).reached().unwrap_or(0),
            bytes_sent,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exchange(id: u64) -> RecentExchange {
        RecentExchange {
            id,
            ended_us: id,
            route: 3,
            endpoint: 4,
            times: Times {
                request: Micros(0),
                queue: Micros(7),
                response: Micros(id as i64 % 1_000),
                total: Micros(5_000),
                own: Micros(40),
                ..Times::default()
            },
            outcome: Outcome {
                status: 503,
                cause: Cause::QueueTimeout,
                bytes_received: id,
                bytes_sent: id,
                attempts: 2,
                reused: true,
                queue_position: 9,
            },
        }
    }

    const REQUEST: &[u8] = b"GET /a HTTP/1.1\r\nHost: a\r\nCookie: secret=secret\r\n\r\n";

    fn asked() -> Asked<'static> {
        Asked { client: None, request: REQUEST, line_bytes: 15 }
    }

    #[test]
    fn client_and_target_are_kept_as_far_as_there_is_room() {
        let check = |client: &str, line: &str, expected: (&str, &str)| {
            let client = client.parse().ok();
            for behind in ["", "\r\nHost: a\r\nCookie: secret-secret-secret-secret-secret\r\n\r\n"]
            {
                let request = format!("{line}{behind}");
                let asked = Asked { client, request: request.as_bytes(), line_bytes: line.len() };
                let words = asked.pack();
                let kept = AskedText::unpack(words);
                assert_eq!(
                    (kept.client, &*kept.method, &*kept.target),
                    (client, expected.0, expected.1)
                );
            }
        };
        check("", "", ("", ""));
        check("192.0.2.7", "GET /a?b=c HTTP/1.1", ("GET", "/a?b=c"));
        check("2001:db8::7", "DELETE / HTTP/1.0", ("DELETE", "/"));
        let path = "/0123456789".repeat(30);
        let line = format!("GET {path} HTTP/1.1");
        check("192.0.2.7", &line, ("GET", &format!("{}…", &path[..36])));
        check("2001:db8::7", &line, ("GET", &format!("{}…", &path[..20])));
        let line = format!("GET {} HTTP/1.1", &path[..35]);
        check("192.0.2.7", &line, ("GET", &path[..35]));
        check("", "nonsense", ("nonsense", ""));
    }

    #[test]
    fn the_last_ones_are_found_as_they_were() {
        let ring = RecentRing::new();
        (1..=10_000).for_each(|id| ring.write(5_000, &exchange(id), &asked()));
        assert_eq!(ring.find(10_000).map(|(found, _)| found), Some(exchange(10_000)));
        assert_eq!(ring.find(10_000 - KEPT as u64 + 1).map(|(one, _)| one.ended_us), Some(7_953));
        assert_eq!(ring.find(10_000 - KEPT as u64), None);
        assert_eq!(ring.find(77), None);
        assert_eq!(RecentRing::new().find(0), None);
    }

    #[test]
    fn a_reader_never_sees_two_exchanges_in_one() {
        let ring = RecentRing::new();
        let stop = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for turn in 0..2_000_000_u64 {
                    ring.write(5_000, &exchange(1 + turn % 5_000), &asked());
                }
                stop.store(true, Ordering::Relaxed);
            });
            while !stop.load(Ordering::Relaxed) {
                for id in 1..40 {
                    if let Some((found, asked)) = ring.find(id) {
                        assert_eq!((found, &*asked.target), (exchange(id), "/a"));
                    }
                }
            }
        });
    }

    #[test]
    fn ids_have_numbers_of_their_own() {
        let mut numbers: Vec<u64> = (0..100_000_u64)
            .map(|id| id_number(format!("{:032x}", id.wrapping_mul(7)).as_bytes()))
            .collect();
        numbers.extend(["", "a", "b", "ab", "ba"].map(|id| id_number(id.as_bytes())));
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), 100_005);
    }
}
