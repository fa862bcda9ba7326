//! Slow clients: they hold connections with as few bytes as possible.

use std::time::Duration;

use super::pattern;
use super::probes::{ANSWER, patient, statuses};
use crate::arena::{Arena, Ending};
use crate::judge::{Outcome, Pattern};

const POST: &[u8] = b"POST /slow HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n";
const EXPECT: &[u8] = b"POST /slow HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\
    Expect: 100-continue\r\n\r\n";
const LARGE: &[u8] = b"GET /hostile/100k HTTP/1.1\r\nHost: localhost\r\n\r\n";
const GET: &[u8] = b"GET /held HTTP/1.1\r\nHost: localhost\r\n\r\n";
const WEBSOCKET: &[u8] = b"GET /hostile/upgrade HTTP/1.1\r\nHost: localhost\r\n\
    Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

/// Heads that never end, one byte at a time.
pub(crate) fn slowloris_heads() -> Pattern {
    pattern("slowloris_heads", "Slowloris (CVE-2007-6750)", |arena| {
        arena.squat(300, b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ", b"abcdefgh");
    })
    .outcome(|arena| ends_on_its_own(arena, b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ", b"a"))
}

/// Bodies that never end, one byte at a time.
pub(crate) fn slow_bodies() -> Pattern {
    pattern("slow_bodies", "R.U.D.Y. (slow bodies)", |arena| arena.squat(200, POST, b"x"))
}

/// Bodies of which no byte arrives.
pub(crate) fn silent_bodies() -> Pattern {
    pattern("silent_bodies", "R.U.D.Y. (slow bodies)", |arena| arena.squat(200, POST, b""))
        .outcome(|arena| ends_on_its_own(arena, POST, b""))
}

/// Clients that announce a body, get `100 Continue`, and send nothing.
pub(crate) fn expect_continue_squatting() -> Pattern {
    pattern(
        "expect_continue_squatting",
        "100-continue squatting (CVE-2024-24791, CVE-2024-56202)",
        |arena| {
            arena.squat(200, EXPECT, b"");
        },
    )
    .outcome(|arena| ends_on_its_own(arena, EXPECT, b""))
}

/// Large responses that are read a little at a time through a small window.
pub(crate) fn slow_readers() -> Pattern {
    pattern("slow_readers", "slow read", |arena| {
        let requests = LARGE.repeat(4);
        let mut pool = Vec::new();
        while arena.is_running() {
            if pool.len() < 60 {
                if let Some(mut conn) = arena.connect_with_small_window() {
                    conn.write_some(&requests);
                    pool.push(conn);
                }
                continue;
            }
            for conn in &mut pool {
                let mut few = [0; 64];
                let _ = std::io::Read::read(&mut conn.stream, &mut few);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    })
}

/// Many pipelined requests for large responses, none of which is read.
pub(crate) fn never_reading_pipelined() -> Pattern {
    pattern("never_reading_pipelined", "memory exhaustion by unread responses", |arena| {
        arena.flood_unread(40, LARGE);
    })
}

/// Connections that are kept after one request and never used again.
pub(crate) fn idle_squatting() -> Pattern {
    pattern("idle_squatting", "idle connection exhaustion", |arena| arena.squat(300, GET, b""))
}

/// Tunnels without traffic.
pub(crate) fn websocket_squatting() -> Pattern {
    pattern("websocket_squatting", "tunnel exhaustion", |arena| {
        arena.squat(100, WEBSOCKET, b"");
    })
    .outcome(|arena| {
        let left = released(arena);
        Outcome::of(left == 0, format!("{left} tunnels left behind"))
    })
}

/// Requests that the endpoint never answers, with others pipelined behind them, from clients that
/// leave.
pub(crate) fn unanswered_with_more_behind() -> Pattern {
    pattern(
        "unanswered_with_more_behind",
        "endpoint connections squatted by clients gone",
        |arena| {
            let never = b"GET /hostile/never HTTP/1.1\r\nHost: localhost\r\n\r\n";
            let behind = b"GET /behind HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(400);
            arena.squat(40, &[never.as_slice(), &behind].concat(), b"");
        },
    )
    .outcome(|arena| {
        let left = released(arena);
        Outcome::of(left == 0, format!("{left} requests left at the endpoint"))
    })
}

/// Uploads to an endpoint that never reads, from clients that leave.
pub(crate) fn uploads_never_read() -> Pattern {
    pattern("uploads_never_read", "endpoint connections squatted by clients gone", |arena| {
        let head = b"POST /hostile/noread HTTP/1.1\r\nHost: localhost\r\n\
                     Content-Length: 100000000\r\n\r\n";
        let mut pool: Vec<_> = (0..20).filter_map(|_| arena.connect()).collect();
        for conn in &mut pool {
            conn.write_some(head);
        }
        let body = b"x".repeat(65_536);
        while arena.is_running() {
            for conn in &mut pool {
                conn.write_some(&body);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        // A FIN would stay behind the bytes that the proxy does not read.
        for conn in pool {
            conn.finish(Ending::Reset);
        }
    })
    .outcome(|arena| {
        // The endpoint does not see the end behind bytes that it does not read, so the proxy's open
        // descriptors are checked. At most 8 kept connections per pool are allowed.
        let began = std::time::Instant::now();
        let left = loop {
            let left = arena.proxy.descriptors().saturating_sub(arena.descriptors + 16);
            if left == 0 || began.elapsed() > Duration::from_secs(2) {
                break left;
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        Outcome::of(left == 0, format!("{left} connections left behind"))
    })
}

/// Returns the number of endpoint connections that are still held some time after their clients
/// have left.
fn released(arena: &Arena) -> usize {
    let began = std::time::Instant::now();
    while arena.origin.held() > 0 && began.elapsed() < Duration::from_secs(2) {
        std::thread::sleep(Duration::from_millis(5));
    }
    arena.origin.held()
}

/// Checks that the connection of a client that sends too slowly is closed: the configuration sets a
/// timeout of one second for a head and for the pause within a body.
fn ends_on_its_own(arena: &Arena, opening: &[u8], drip: &[u8]) -> Outcome {
    let Some(mut conn) = patient(arena) else { return Outcome::of(false, "no connection") };
    if conn.write_within(opening, ANSWER).is_none() {
        return Outcome::of(false, "no connection");
    }
    let began = std::time::Instant::now();
    let mut answer = Vec::new();
    while began.elapsed() < 4 * ANSWER {
        let (more, over) = conn.until_over(Duration::from_millis(50));
        answer.extend(more);
        if over || conn.write_some(drip).is_none() {
            let told: Vec<_> = statuses(&answer).iter().map(u16::to_string).collect();
            let told = if told.is_empty() { "closed".to_owned() } else { told.join("+") };
            return Outcome::of(true, told);
        }
    }
    Outcome::of(false, "kept")
}
