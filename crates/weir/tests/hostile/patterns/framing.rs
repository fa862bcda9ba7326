//! Requests that two programs could frame differently. Each hides a request for a path that the
//! proxy denies: if that request reaches the origin, it was smuggled past the rules.

use super::pattern;
use super::probes::{ask, statuses, tally};
use crate::arena::Arena;
use crate::judge::{Outcome, Pattern};

/// The request that must not arrive at the origin.
const HIDDEN: &str = "GET /denied/probe-hidden HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// Returns a POST with these header lines and this body.
fn post(headers: &str, body: &str) -> Vec<u8> {
    format!("POST /probe-outer HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n{body}").into_bytes()
}

/// Returns a complete chunked body with the hidden request behind its end, and the number of its
/// bytes.
fn ended_early() -> (String, usize) {
    let body = format!("0\r\n\r\n{HIDDEN}");
    let length = body.len();
    (body, length)
}

/// Returns the hidden request in one chunk.
fn within_a_chunk() -> String {
    format!("{:x}\r\n{HIDDEN}\r\n0\r\n\r\n", HIDDEN.len())
}

/// Returns requests with both framings, where the length covers everything.
fn cl_te_vectors() -> Vec<Vec<u8>> {
    let (body, length) = ended_early();
    let both = [
        format!("Content-Length: {length}\r\nTransfer-Encoding: chunked\r\n"),
        format!("Transfer-Encoding: chunked\r\nContent-Length: {length}\r\n"),
        format!("Content-Length: {length}\r\nTransfer-Encoding : chunked\r\n"),
        format!("Content-Length: {length}\r\nTransfer_Encoding: chunked\r\n"),
    ];
    both.iter().map(|headers| post(headers, &body)).collect()
}

/// Returns requests with both framings, where the length covers the chunk's size line only.
fn te_cl_vectors() -> Vec<Vec<u8>> {
    let body = within_a_chunk();
    let first = body.find("\r\n").unwrap_or_default() + 2;
    let both = [
        format!("Content-Length: {first}\r\nTransfer-Encoding: chunked\r\n"),
        format!("Transfer-Encoding: chunked\r\nContent-Length: {first}\r\n"),
    ];
    both.iter().map(|headers| post(headers, &body)).collect()
}

/// Returns spellings of Transfer-Encoding that only one of two programs may understand.
fn te_te_vectors() -> Vec<Vec<u8>> {
    let (body, length) = ended_early();
    [
        "Transfer-Encoding: xchunked",
        "Transfer-Encoding: \x0bchunked",
        "Transfer-Encoding: chunked, identity",
        "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding:\r\n chunked",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: x",
        "X: x\nTransfer-Encoding: chunked",
        "Transfer-Encoding\t: chunked",
        "Transfer-Encoding: \"chunked\"",
        "transfer-encoding: chunked;x=1",
    ]
    .iter()
    .flat_map(|line| {
        let alone = post(&format!("{line}\r\n"), &body);
        let with_length = post(&format!("{line}\r\nContent-Length: {length}\r\n"), &body);
        [alone, with_length]
    })
    .collect()
}

/// Returns lengths that one program ignores and the other takes for a body, on methods that rarely
/// have one.
fn cl_0_vectors() -> Vec<Vec<u8>> {
    ["GET", "HEAD", "OPTIONS", "DELETE"]
        .iter()
        .flat_map(|method| {
            [
                format!("Content-Length: {}", HIDDEN.len()),
                format!("Content-Length: \t{}", HIDDEN.len()),
            ]
            .map(|line| {
                format!(
                    "{method} /probe-outer HTTP/1.1\r\nHost: localhost\r\n{line}\r\n\r\n{HIDDEN}"
                )
                .into_bytes()
            })
        })
        .collect()
}

/// Returns requests with two lengths, and with invalid ones.
fn length_vectors() -> Vec<Vec<u8>> {
    let length = HIDDEN.len();
    [
        format!("Content-Length: 0\r\nContent-Length: {length}\r\n"),
        format!("Content-Length: {length}\r\nContent-Length: 0\r\n"),
        format!("Content-Length: 0, {length}\r\n"),
        format!("Content-Length: +{length}\r\n"),
        format!("Content-Length: -{length}\r\n"),
        format!("Content-Length: 0{length:o}\r\n"),
        format!("Content-Length: 0x{length:x}\r\n"),
        format!("Content-Length: {length}.0\r\n"),
        "Content-Length:\r\n".to_owned(),
        "Content-Length: 18446744073709551616\r\n".to_owned(),
        "Content-Length: 99999999999999999999999\r\n".to_owned(),
        // HAProxy's CVE-2021-40346: the length of a header name overflowed.
        format!("Content-Length0{}: \r\nContent-Length: {length}\r\n", "a".repeat(254)),
    ]
    .iter()
    .map(|headers| post(headers, HIDDEN))
    .collect()
}

/// Returns requests with folded header lines.
fn folding_vectors() -> Vec<Vec<u8>> {
    let (body, length) = ended_early();
    [
        format!("X: 1\r\n Transfer-Encoding: chunked\r\nContent-Length: {length}\r\n"),
        format!("X: 1\r\n\tTransfer-Encoding: chunked\r\nContent-Length: {length}\r\n"),
        format!("Transfer-Encoding:\r\n chunked\r\nContent-Length: {length}\r\n"),
        format!(" Transfer-Encoding: chunked\r\nContent-Length: {length}\r\n"),
    ]
    .iter()
    .map(|headers| post(headers, &body))
    .collect()
}

/// Returns requests with lines that do not end with CRLF.
fn bare_line_end_vectors() -> Vec<Vec<u8>> {
    let (body, length) = ended_early();
    let mut vectors = vec![
        format!("GET /probe-outer HTTP/1.1\nHost: localhost\n\n{HIDDEN}").into_bytes(),
        format!("GET /probe-outer HTTP/1.1\rHost: localhost\r\r{HIDDEN}").into_bytes(),
    ];
    for headers in [
        format!("X: 1\nTransfer-Encoding: chunked\r\nContent-Length: {length}\r\n"),
        format!("X: 1\rTransfer-Encoding: chunked\r\nContent-Length: {length}\r\n"),
        format!("X: 1\r\rTransfer-Encoding: chunked\r\nContent-Length: {length}\r\n"),
    ] {
        vectors.push(post(&headers, &body));
    }
    vectors
}

/// Returns chunks with an invalid size, extension or end.
fn chunk_vectors() -> Vec<Vec<u8>> {
    let length = HIDDEN.len();
    [
        format!("10000000000000000\r\n{HIDDEN}\r\n0\r\n\r\n"),
        format!("fffffffffffffffff\r\n{HIDDEN}\r\n0\r\n\r\n"),
        format!("100000000{length:08x}\r\n{HIDDEN}\r\n0\r\n\r\n"),
        format!("0x{length:x}\r\n{HIDDEN}\r\n0\r\n\r\n"),
        format!("+{length:x}\r\n{HIDDEN}\r\n0\r\n\r\n"),
        format!("-1\r\n{HIDDEN}\r\n0\r\n\r\n"),
        format!(" {length:x}\r\n{HIDDEN}\r\n0\r\n\r\n"),
        format!("{length:x}\n{HIDDEN}\n0\n\n"),
        format!("{length:x};a\nb\r\n{HIDDEN}\r\n0\r\n\r\n"),
        format!("2;\nxx\r\n{:x}\r\n0\r\n\r\n{HIDDEN}", 2),
        format!("1\r\nxX\r\n{HIDDEN}"),
        format!("\r\n{length:x}\r\n{HIDDEN}\r\n0\r\n\r\n"),
    ]
    .iter()
    .map(|body| post("Transfer-Encoding: chunked\r\n", body))
    .collect()
}

/// Returns header lines with bytes that are not allowed there.
fn header_byte_vectors() -> Vec<Vec<u8>> {
    [
        "X: a\0b",
        "X\0: a",
        "X : a",
        "X y: a",
        "X\x7f: a",
        ": a",
        "X",
        "X: a\x01b",
        "X\u{e9}: a",
        "(X): a",
        "X: a\x0bb",
    ]
    .iter()
    .map(|line| {
        format!("GET /probe-bytes HTTP/1.1\r\nHost: localhost\r\n{line}\r\n\r\n").into_bytes()
    })
    .collect()
}

/// Sends each vector and checks that the hidden request did not arrive.
fn smuggled(arena: &Arena, vectors: &[Vec<u8>]) -> Outcome {
    arena.origin.forget();
    let answers: Vec<_> = vectors.iter().map(|vector| statuses(&ask(arena, vector).0)).collect();
    let hidden = arena.origin.heads_with("GET /denied/probe-hidden").len();
    let shown = format!("{hidden} smuggled; {}", tally(answers));
    Outcome::of(hidden == 0, shown)
}

/// The CL.TE variant.
pub(crate) fn smuggling_cl_te() -> Pattern {
    pattern("smuggling_cl_te", "request smuggling CL.TE (CVE-2026-2835)", |arena| {
        arena.volleys(&cl_te_vectors());
    })
    .outcome(|arena| smuggled(arena, &cl_te_vectors()))
}

/// The TE.CL variant.
pub(crate) fn smuggling_te_cl() -> Pattern {
    pattern("smuggling_te_cl", "request smuggling TE.CL", |arena| arena.volleys(&te_cl_vectors()))
        .outcome(|arena| smuggled(arena, &te_cl_vectors()))
}

/// The TE.TE variant.
pub(crate) fn smuggling_te_te() -> Pattern {
    pattern("smuggling_te_te", "request smuggling TE.TE (CVE-2019-18277)", |arena| {
        arena.volleys(&te_te_vectors());
    })
    .outcome(|arena| smuggled(arena, &te_te_vectors()))
}

/// The CL.0 variant.
pub(crate) fn smuggling_cl_0() -> Pattern {
    pattern("smuggling_cl_0", "request smuggling CL.0", |arena| arena.volleys(&cl_0_vectors()))
        .outcome(|arena| smuggled(arena, &cl_0_vectors()))
}

/// Repeated and invalid lengths.
pub(crate) fn ambiguous_lengths() -> Pattern {
    pattern(
        "ambiguous_lengths",
        "Content-Length twice, empty, overflowing (CVE-2021-40346, CVE-2023-40225)",
        |arena| {
            arena.volleys(&length_vectors());
        },
    )
    .outcome(|arena| smuggled(arena, &length_vectors()))
}

/// Folded header lines.
pub(crate) fn folded_headers() -> Pattern {
    pattern("folded_headers", "obsolete line folding", |arena| arena.volleys(&folding_vectors()))
        .outcome(|arena| smuggled(arena, &folding_vectors()))
}

/// Bare LF and CR.
pub(crate) fn bare_line_ends() -> Pattern {
    pattern("bare_line_ends", "bare LF and CR as line ends (CVE-2025-22871)", |arena| {
        arena.volleys(&bare_line_end_vectors());
    })
    .outcome(|arena| smuggled(arena, &bare_line_end_vectors()))
}

/// Malformed chunks.
pub(crate) fn malformed_chunks() -> Pattern {
    pattern(
        "malformed_chunks",
        "chunk sizes, extensions and ends (CVE-2013-2028, CVE-2025-55315)",
        |arena| {
            arena.volleys(&chunk_vectors());
        },
    )
    .outcome(|arena| smuggled(arena, &chunk_vectors()))
}

/// Null bytes, spaces and other bytes that are not allowed in headers.
pub(crate) fn forbidden_header_bytes() -> Pattern {
    pattern(
        "forbidden_header_bytes",
        "null bytes, spaces, empty names in headers (CVE-2023-25725)",
        |arena| {
            arena.volleys(&header_byte_vectors());
        },
    )
    .outcome(|arena| {
        arena.origin.forget();
        let vectors = header_byte_vectors();
        let answers: Vec<_> =
            vectors.iter().map(|vector| statuses(&ask(arena, vector).0)).collect();
        let passed = arena.origin.heads_with("/probe-bytes");
        let dirty = passed.iter().filter(|head| has_forbidden_line(head)).count();
        let shown = format!("{dirty} passed on as they were; {}", tally(answers));
        Outcome::of(dirty == 0, shown)
    })
}

/// Returns true if a head has a line that is no header line according to RFC 9112.
fn has_forbidden_line(head: &str) -> bool {
    head.trim_end().split("\r\n").skip(1).any(|line| {
        let Some((name, value)) = line.split_once(':') else { return true };
        let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        let forbidden = |byte: u8| byte != b'\t' && byte.is_ascii_control();
        name.is_empty() || !name.bytes().all(token) || value.bytes().any(forbidden)
    })
}

/// Requests with invalid versions, or of HTTP/0.9, which has no head.
pub(crate) fn unknown_versions() -> Pattern {
    fn vectors() -> Vec<Vec<u8>> {
        ["GET /probe-version\r\n", "GET /probe-version\r\n\r\n"]
            .iter()
            .map(|line| (*line).to_owned())
            .chain(
                ["HTTP/0.9", "HTTP/1.2", "HTTP/1.10", "HTTP/2.0", "http/1.1", "HTTP/9"].iter().map(
                    |version| format!("GET /probe-version {version}\r\nHost: localhost\r\n\r\n"),
                ),
            )
            .map(String::into_bytes)
            .collect()
    }
    pattern("unknown_versions", "HTTP/0.9 and unknown versions", |arena| arena.volleys(&vectors()))
        .outcome(|arena| {
            arena.origin.forget();
            let answers: Vec<_> =
                vectors().iter().map(|vector| statuses(&ask(arena, vector).0)).collect();
            let arrived = arena.origin.heads_with("/probe-version").len();
            let answered = answers.iter().all(|answer| matches!(answer[..], [400 | 505]));
            let shown = format!("{arrived} reached the origin; {}", tally(answers));
            Outcome::of(arrived == 0 && answered, shown)
        })
}
