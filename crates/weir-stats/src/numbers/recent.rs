//! The last exchanges of a worker, each in two cache lines, so that one can be found by its request id (row NEW-03). What was slow is kept
//! whole in `slow.rs`.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use super::tally::Outcome;
use crate::{Cause, Micros, Times};

/// Exchanges kept for each worker: 128 bytes each.
const KEPT: usize = 4_096;
/// Beside the version.
const WORDS: usize = NUMBERS + ABOUT;
/// Those that are numbers.
const NUMBERS: usize = 9;
/// Those that say who asked for what.
const ABOUT: usize = 6;
const ABOUT_BYTES: usize = ABOUT * 8;

/// A number for a request id. Two ids of the same number are one in 2⁶⁴, unless somebody wants them to be.
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

/// Who asked for what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked<'a> {
    /// The client's address.
    pub client: Option<IpAddr>,
    /// Method.
    pub method: &'a [u8],
    /// Target as received.
    pub target: &'a [u8],
}

impl Asked<'_> {
    /// The client's address behind its length, then the length of method and target, of which there is as much as there is room for.
    #[inline]
    fn pack(&self) -> [u8; ABOUT_BYTES] {
        let mut bytes = [0; ABOUT_BYTES];
        let mut put = |at: usize, more: &[u8]| {
            let room = bytes.get_mut(at..).unwrap_or_default();
            let count = more.len().min(room.len());
            if let (Some(room), Some(more)) = (room.get_mut(..count), more.get(..count)) {
                room.copy_from_slice(more);
            }
            at + count
        };
        let at = match self.client {
            None => put(2, &[]),
            Some(IpAddr::V4(client)) => put(2, &client.octets()),
            Some(IpAddr::V6(client)) => put(2, &client.octets()),
        };
        let text = at;
        let method = self.method.get(..METHOD_BYTES).unwrap_or(self.method);
        let at = put(text, method);
        let at = put(at, b" ");
        put(at, self.target);
        let len = method.len() + 1 + self.target.len();
        put(0, &[(text - 2) as u8, len.min(255) as u8]);
        bytes
    }
}

/// Bytes of a method that are kept.
const METHOD_BYTES: usize = 16;

/// The same as it was kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AskedText {
    pub(crate) client: Option<IpAddr>,
    pub(crate) method: String,
    /// Its beginning, with an ellipsis where there is more.
    pub(crate) target: String,
}

impl AskedText {
    fn unpack(bytes: &[u8; ABOUT_BYTES]) -> Self {
        let [address, len, rest @ ..] = bytes;
        let (client, text) = rest.split_at_checked(usize::from(*address)).unwrap_or_default();
        let v4 = || <[u8; 4]>::try_from(client).ok().map(IpAddr::from);
        let v6 = || <[u8; 16]>::try_from(client).ok().map(IpAddr::from);
        let len = usize::from(*len);
        let cut = len > text.len();
        let text = String::from_utf8_lossy(text.get(..len).unwrap_or(text));
        let (method, target) = text.split_once(' ').unwrap_or_default();
        let target = if cut { format!("{target}…") } else { target.to_owned() };
        Self { client: v4().or_else(v6), method: method.to_owned(), target }
    }
}

/// One exchange, as far as a few words say it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RecentExchange {
    /// [`id_number`] of its request id.
    pub id: u64,
    /// When it ended, on the process's clock, µs.
    pub ended_us: u64,
    /// Number of its route's series.
    pub route: u32,
    /// Number of its endpoint's series; 0 is none.
    pub endpoint: u32,
    /// Its time split; each at most 71 minutes. Handshake and idle time are not in it.
    pub times: Times,
    /// What was counted of it; of bytes received at most 4 GiB.
    pub outcome: Outcome,
}

/// A ring with one writer. A reader that meets the writer at an exchange reads it again or goes on without it.
pub(crate) struct Recent {
    entries: Box<[Entry]>,
    /// Written so far.
    written: AtomicU64,
}

/// The first word counts up, before and after the others change; odd is in between.
#[repr(align(64))]
struct Entry {
    version: AtomicU64,
    words: [AtomicU64; WORDS],
}

impl std::fmt::Debug for Recent {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Recent").field("written", &self.written).finish_non_exhaustive()
    }
}

impl Recent {
    pub(crate) fn new() -> Self {
        let entry =
            || Entry { version: AtomicU64::new(0), words: [const { AtomicU64::new(0) }; WORDS] };
        Self { entries: (0..KEPT).map(|_| entry()).collect(), written: AtomicU64::new(0) }
    }

    #[inline]
    pub(crate) fn write(&self, elapsed_us: u64, exchange: &RecentExchange, asked: &Asked<'_>) {
        let turn = self.written.load(Ordering::Relaxed);
        let Some(entry) = self.entries.get(turn as usize % KEPT) else { return };
        let version = entry.version.load(Ordering::Relaxed);
        entry.version.store(version.wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
        let (numbers, about) = entry.words.split_at(NUMBERS);
        for (place, word) in numbers.iter().zip(pack(elapsed_us, exchange)) {
            place.store(word, Ordering::Relaxed);
        }
        let packed = asked.pack();
        for (place, word) in about.iter().zip(packed.chunks_exact(8)) {
            let word = <[u8; 8]>::try_from(word).map_or(0, u64::from_le_bytes);
            place.store(word, Ordering::Relaxed);
        }
        entry.version.store(version.wrapping_add(2), Ordering::Release);
        self.written.store(turn + 1, Ordering::Relaxed);
    }

    /// The latest of this id.
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

fn read(entry: &Entry) -> Option<(RecentExchange, AskedText)> {
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
    let mut bytes = [0; ABOUT_BYTES];
    for (place, word) in bytes.chunks_exact_mut(8).zip(about) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    Some((unpack(numbers), AskedText::unpack(&bytes)))
}

/// What stands for a phase that was not reached.
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

    fn asked() -> Asked<'static> {
        Asked { client: None, method: b"GET", target: b"/a" }
    }

    #[test]
    fn who_asked_for_what_is_kept_as_far_as_there_is_room() {
        let check = |client: &str, method: &str, target: &str, expected: (&str, &str)| {
            let client = client.parse().ok();
            let asked = Asked { client, method: method.as_bytes(), target: target.as_bytes() };
            let kept = AskedText::unpack(&asked.pack());
            assert_eq!(
                (kept.client, &*kept.method, &*kept.target),
                (client, expected.0, expected.1)
            );
        };
        check("", "", "", ("", ""));
        check("192.0.2.7", "GET", "/a?b=c", ("GET", "/a?b=c"));
        check("2001:db8::7", "DELETE", "/", ("DELETE", "/"));
        let long = "/0123456789".repeat(30);
        check("192.0.2.7", "GET", &long, ("GET", &format!("{}…", &long[..38])));
        check("2001:db8::7", "GET", &long, ("GET", &format!("{}…", &long[..26])));
        check("", "GET", &long[..42], ("GET", &long[..42]));
        check("", "GET", &long[..43], ("GET", &format!("{}…", &long[..42])));
        check("192.0.2.7", "ABCDEFGHIJKLMNOPQ", "/a", ("ABCDEFGHIJKLMNOP", "/a"));
    }

    #[test]
    fn the_last_ones_are_found_as_they_were() {
        let ring = Recent::new();
        (1..=10_000).for_each(|id| ring.write(5_000, &exchange(id), &asked()));
        assert_eq!(ring.find(10_000).map(|(found, _)| found), Some(exchange(10_000)));
        assert_eq!(ring.find(10_000 - KEPT as u64 + 1).map(|(one, _)| one.ended_us), Some(5_905));
        assert_eq!(ring.find(10_000 - KEPT as u64), None);
        assert_eq!(ring.find(77), None);
        assert_eq!(Recent::new().find(0), None);
    }

    #[test]
    fn a_reader_never_sees_two_exchanges_in_one() {
        let ring = Recent::new();
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
