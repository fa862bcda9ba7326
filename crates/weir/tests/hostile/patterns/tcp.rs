//! Clients of listeners that pass on bytes, that look for a name in them, and that expect a header
//! of the PROXY protocol. The other programs are not set up for these.

use std::net::SocketAddr;
use std::time::Duration;

use super::pattern;
use super::probes::statuses;
use crate::arena::{Arena, Ending};
use crate::judge::{Outcome, Pattern};

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
const LARGE: &[u8] = b"GET /hostile/100k HTTP/1.1\r\nHost: localhost\r\n\r\n";
/// The beginning of a `ClientHello` of 500 bytes.
const HELLO: &[u8] = b"\x16\x03\x01\x01\xf4\x01\0\x01\xf0\x03\x03";
const HEADER: &[u8] = b"PROXY TCP4 192.0.2.1 ";

/// Silent connections, which hold a connection to an endpoint each.
pub(crate) fn tcp_squatting() -> Pattern {
    pattern("tcp_squatting", "silent TCP connections", |arena| {
        hold(arena, tcp(arena), 100, b"", b"");
    })
    .outcome(|arena| passes(arena, tcp(arena), b""))
}

/// Large responses through small windows that are never read.
pub(crate) fn tcp_never_reading() -> Pattern {
    pattern("tcp_never_reading", "memory exhaustion by bytes that are not read", |arena| {
        let Some(address) = tcp(arena) else { return };
        let requests = LARGE.repeat(20);
        arena.hold(60, b"", || {
            let mut conn = arena.open(address, Some(4096))?;
            conn.write_some(&requests).map(|_| conn)
        });
    })
    .outcome(|arena| passes(arena, tcp(arena), b""))
}

/// Connections that are reset or half-closed at once.
pub(crate) fn tcp_reset_flood() -> Pattern {
    pattern("tcp_reset_flood", "TCP connections reset at once", |arena| {
        let Some(address) = tcp(arena) else { return };
        while arena.is_running() {
            for (bytes, ending) in
                [(b"".as_slice(), Ending::Reset), (GET, Ending::Reset), (GET, Ending::Half)]
            {
                if let Some(mut conn) = arena.open(address, None) {
                    conn.write_some(bytes);
                    conn.finish(ending);
                }
            }
        }
    })
    .outcome(|arena| passes(arena, tcp(arena), b""))
}

/// The first message of TLS clients whose TLS is passed on, byte by byte.
pub(crate) fn sni_slow_hello() -> Pattern {
    pattern("sni_slow_hello", "Slowloris in a ClientHello that is passed on", |arena| {
        hold(arena, named(arena), 200, HELLO, b"abcdefgh");
    })
    .outcome(|arena| passes(arena, named(arena), b""))
}

/// Beginnings of connections that are no handshake, or one over its limits.
pub(crate) fn sni_garbage() -> Pattern {
    pattern("sni_garbage", "garbage where a ClientHello may begin", |arena| {
        let Some(address) = named(arena) else { return };
        let long = [&b"\x16\x03\x01\x40\0\x01\0\xff\xff"[..], &[7; 16_384]].concat();
        let tiny = b"\x16\x03\x01\0\x01\x01".repeat(2_000);
        while arena.is_running() {
            for bytes in [&long[..], &tiny, b"\x16\x03\x01\0\0", b"\0\0\0\0", b"\x16"] {
                if let Some(mut conn) = arena.open(address, None) {
                    conn.write_some(bytes);
                    conn.finish(Ending::Close);
                }
            }
        }
    })
    .outcome(|arena| passes(arena, named(arena), b""))
}

/// Headers of the PROXY protocol that never end, byte by byte.
pub(crate) fn proxy_header_slow() -> Pattern {
    pattern("proxy_header_slow", "Slowloris in a PROXY header", |arena| {
        hold(arena, proxied(arena), 200, HEADER, b"1");
    })
    .outcome(|arena| passes(arena, proxied(arena), b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n"))
}

/// Headers of the PROXY protocol that are malformed, too long or absent.
pub(crate) fn proxy_header_garbage() -> Pattern {
    pattern("proxy_header_garbage", "malformed PROXY headers", |arena| {
        let Some(address) = proxied(arena) else { return };
        while arena.is_running() {
            for bytes in malformed() {
                if let Some(mut conn) = arena.open(address, None) {
                    conn.write_some(&bytes);
                    conn.finish(Ending::Close);
                }
            }
        }
    })
    .outcome(|arena| {
        let Some(address) = proxied(arena) else { return Outcome::absent() };
        let closed = malformed().into_iter().all(|bytes| {
            let Some(mut conn) = arena.open(address, None) else { return false };
            conn.write_some(&[&bytes, GET].concat());
            let (answer, over) = conn.until_over(Duration::from_secs(1));
            over && answer.is_empty()
        });
        Outcome::of(closed, if closed { "closed without an answer" } else { "answered" })
    })
}

fn malformed() -> Vec<Vec<u8>> {
    let long = [&b"\r\n\r\n\0\r\nQUIT\n\x21\x11\xff\xff"[..], &[0; 8_192]].concat();
    let unfit = [&b"\r\n\r\n\0\r\nQUIT\n\x21\x21\0\x0c"[..], &[0; 12]].concat();
    let line = [b"PROXY UNKNOWN ", "x".repeat(200).as_bytes()].concat();
    vec![long, unfit, line, b"PROXY TCP4 1 2 3 4\r\n".to_vec(), GET.to_vec()]
}

fn tcp(arena: &Arena) -> Option<SocketAddr> {
    arena.proxy.of_bytes.map(|[tcp, _, _]| tcp)
}

fn named(arena: &Arena) -> Option<SocketAddr> {
    arena.proxy.of_bytes.map(|[_, named, _]| named)
}

fn proxied(arena: &Arena) -> Option<SocketAddr> {
    arena.proxy.of_bytes.map(|[_, _, proxied]| proxied)
}

fn hold(arena: &Arena, address: Option<SocketAddr>, count: usize, opening: &[u8], drip: &[u8]) {
    let Some(address) = address else { return };
    arena.hold(count, drip, || {
        let mut conn = arena.open(address, None)?;
        conn.write_some(opening).map(|_| conn)
    });
}

/// Checks that a request still passes through the listener, behind these bytes.
fn passes(arena: &Arena, address: Option<SocketAddr>, before: &[u8]) -> Outcome {
    let Some(address) = address else { return Outcome::absent() };
    let mut answer = Vec::new();
    if let Some(mut conn) = arena.open(address, None) {
        conn.write_some(&[before, GET].concat());
        answer = conn.until_over(Duration::from_secs(5)).0;
    }
    let passed = statuses(&answer) == [200];
    Outcome::of(passed, if passed { "served on" } else { "not served" })
}
