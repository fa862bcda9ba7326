//! Floods of small messages over few connections, without a pause.

use super::pattern;
use super::probes::{ask, statuses};
use crate::arena::Arena;
use crate::judge::{Outcome, Pattern};

/// Pipelined requests.
pub(crate) fn pipelined_gets() -> Pattern {
    pattern("pipelined_gets", "pipelining flood", |arena| {
        arena.flood(20, b"GET /flood HTTP/1.1\r\nHost: localhost\r\n\r\n");
    })
}

/// Pipelined uploads with an empty chunked body.
pub(crate) fn pipelined_empty_chunked() -> Pattern {
    pattern("pipelined_empty_chunked", "memory exhaustion by pipelining", |arena| {
        arena.flood(
            4,
            b"POST /flood HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n\
              0\r\n\r\n",
        );
    })
}

/// Pipelined requests that the proxy answers itself.
pub(crate) fn pipelined_refusals() -> Pattern {
    pattern("pipelined_refusals", "worker monopolised by local answers", |arena| {
        arena.flood(20, b"GET /denied/flood HTTP/1.1\r\nHost: localhost\r\n\r\n");
    })
}

/// Heads with an error after 4 KB.
pub(crate) fn malformed_heads() -> Pattern {
    pattern("malformed_heads", "superlinear parsing of malformed heads", |arena| {
        let head =
            format!("GET / HTTP/1.1\r\nHost: localhost\r\nX: {}\0\r\n\r\n", "a".repeat(4000));
        arena.volleys(&[head.into_bytes()]);
    })
    .threads(2)
    .outcome(|arena| refused(arena, b"GET / HTTP/1.1\r\nHost: localhost\r\nX: a\0\r\n\r\n"))
}

/// Heads of 2,000 tiny headers.
pub(crate) fn tiny_headers() -> Pattern {
    pattern("tiny_headers", "superlinear parsing of header lists", |arena| {
        arena.volleys(&[many_headers(2000)]);
    })
    .threads(2)
    .outcome(|arena| refused(arena, &many_headers(2000)))
}

/// Heads with far more headers than any server accepts.
pub(crate) fn huge_number_of_headers() -> Pattern {
    pattern("huge_number_of_headers", "number of headers", |arena| {
        arena.volleys(&[many_headers(100_000)]);
    })
    .outcome(|arena| refused(arena, &many_headers(100_000)))
}

/// A header of a megabyte.
pub(crate) fn huge_header() -> Pattern {
    fn head() -> Vec<u8> {
        format!("GET / HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "a".repeat(1 << 20))
            .into_bytes()
    }
    pattern("huge_header", "header size (CVE-2018-12121)", |arena| arena.volleys(&[head()]))
        .outcome(|arena| refused(arena, &head()))
}

/// A target of a megabyte.
pub(crate) fn huge_target() -> Pattern {
    fn head() -> Vec<u8> {
        format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "a".repeat(1 << 20)).into_bytes()
    }
    pattern("huge_target", "request line size", |arena| arena.volleys(&[head()]))
        .outcome(|arena| refused(arena, &head()))
}

/// An endless sequence of empty lines before a request.
pub(crate) fn empty_lines() -> Pattern {
    pattern("empty_lines", "leading empty lines", |arena| arena.flood(10, b"\r\n"))
}

/// Uploads in chunks of one byte.
pub(crate) fn one_byte_chunks() -> Pattern {
    pattern("one_byte_chunks", "framing overhead of tiny chunks", |arena| {
        let chunks = "1\r\nx\r\n".repeat(5000);
        let request = format!(
            "POST /flood HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}0\r\n\r\n"
        );
        arena.flood(10, request.as_bytes());
    })
}

/// Chunks of one byte with extensions of a kilobyte.
pub(crate) fn chunk_extensions() -> Pattern {
    pattern("chunk_extensions", "chunk extension flood (CVE-2023-39326, CVE-2024-22019)", |arena| {
        // The longest extension that Weir accepts for one chunk; nginx and haproxy accept longer
        // ones.
        let extension = "e".repeat(1000);
        let chunks = format!("1;{extension}\r\nx\r\n").repeat(200);
        let request = format!(
            "POST /flood HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}0\r\n\r\n"
        );
        arena.flood(10, request.as_bytes());
    })
}

/// A request for very many ranges of one file.
pub(crate) fn range_bomb() -> Pattern {
    fn request() -> Vec<u8> {
        let ranges: Vec<_> = (0..1300).map(|first| format!("{first}-")).collect();
        format!(
            "GET /static/large HTTP/1.1\r\nHost: localhost\r\nRange: bytes={}\r\n\r\n",
            ranges.join(",")
        )
        .into_bytes()
    }
    pattern("range_bomb", "range bomb (CVE-2011-3192, CVE-2017-7529)", |arena| {
        arena.flood(4, &request());
    })
    .outcome(|arena| {
        let (answer, _) = ask(arena, &request());
        let told = statuses(&answer);
        let shown = format!("{told:?} with {} KB of a 64 KB file", answer.len() >> 10);
        if told == [404] || told == [503] {
            return Outcome::absent();
        }
        Outcome::of(answer.len() < 2 * 64 * 1024, shown)
    })
}

/// Paths for which a backtracking matcher of `^/(a+)+$` takes exponential time.
pub(crate) fn regex_backtracking() -> Pattern {
    fn request() -> Vec<u8> {
        format!("GET /{}! HTTP/1.1\r\nHost: localhost\r\n\r\n", "a".repeat(40)).into_bytes()
    }
    pattern("regex_backtracking", "ReDoS", |arena| {
        arena.flood(10, &request());
    })
    .outcome(|arena| {
        let told = statuses(&ask(arena, &request()).0);
        Outcome::of(told == [200], format!("{told:?}"))
    })
}

/// Checks that a request is refused and its connection closed without a request to the origin.
fn refused(arena: &Arena, request: &[u8]) -> Outcome {
    let before = arena.origin.requests("/");
    let (answer, over) = ask(arena, request);
    let told = statuses(&answer);
    let shown = match (told.first(), over) {
        (Some(status), _) => status.to_string(),
        (None, true) => "closed".to_owned(),
        (None, false) => "no answer".to_owned(),
    };
    let refused = told.iter().all(|status| (400..600).contains(status)) && over;
    Outcome::of(refused && arena.origin.requests("/") == before, shown)
}

fn many_headers(count: usize) -> Vec<u8> {
    let lines = "a:\r\n".repeat(count);
    format!("GET / HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n").into_bytes()
}
