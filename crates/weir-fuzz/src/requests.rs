//! Request heads. The result does not depend on how the input is split and does not change with
//! more bytes; all spans lie in the head; the parser accepts the heads that a slow reference of RFC
//! 9112 accepts, with the same meaning; and an accepted head that is encoded again reads the same.

pub(crate) mod reference;

use weir_wire::{Framing, HeadLimits, Method, RequestHead, Scan, Span, TargetForm, encode};

use crate::pieces::splits;

/// Limits that a short input can reach.
const TIGHT: HeadLimits = HeadLimits { head_bytes: 120, request_line_bytes: 50, headers: 4 };
const ROOMY: HeadLimits =
    HeadLimits { head_bytes: 64 * 1024, request_line_bytes: 64 * 1024, headers: 400 };

/// Bytes that complete most incomplete heads.
const TAIL: &[u8] = b"\r\n\r\nGET / HTTP/1.1\r\nHost: tail\r\n\r\n";

pub(crate) fn target(data: &[u8]) {
    for limits in [HeadLimits::default(), TIGHT] {
        let (whole, head) = parse(data, &[data.len()], &limits);
        for lengths in splits(data) {
            let (split, _) = parse(data, &lengths, &limits);
            assert_eq!(split, whole, "a request split at {lengths:?}");
        }
        check_final(data, &whole, &limits);
        if let (ParseOutcome::Head(used, _), Some(head)) = (&whole, &head) {
            check_spans(data, *used, head);
            check_written_again(data, head);
        }
        if limits == HeadLimits::default() {
            compare(data, &whole, head.as_ref());
        }
    }
}

/// The result of parsing, with the head as text for comparison.
#[derive(Debug, PartialEq)]
enum ParseOutcome {
    More,
    Head(usize, String),
    Refused(String),
}

fn parse(
    data: &[u8],
    lengths: &[usize],
    limits: &HeadLimits,
) -> (ParseOutcome, Option<RequestHead>) {
    let (mut head, mut scan) = (RequestHead::default(), Scan::default());
    for &length in lengths {
        match head.parse(&data[..length], &mut scan, limits) {
            Ok(None) => {
                assert!(length < limits.head_bytes, "no verdict at the limit of bytes");
            }
            Ok(Some(used)) => return (ParseOutcome::Head(used, format!("{head:?}")), Some(head)),
            Err(fault) => return (ParseOutcome::Refused(format!("{fault:?}")), None),
        }
    }
    (ParseOutcome::More, None)
}

/// Checks that more bytes change no result, and that a complete head has one.
fn check_final(data: &[u8], whole: &ParseOutcome, limits: &HeadLimits) {
    if *whole == ParseOutcome::More {
        let after = data.strip_prefix(b"\r\n").unwrap_or(data);
        assert!(!after.windows(4).any(|window| window == b"\r\n\r\n"), "a head without a verdict");
        return;
    }
    let longer = [data, TAIL].concat();
    let (again, _) = parse(&longer, &[longer.len()], limits);
    assert_eq!(again, *whole, "bytes after a verdict changed it");
}

fn check_spans(data: &[u8], used: usize, head: &RequestHead) {
    assert!(used <= data.len() && head.head_bytes == used, "the head's length");
    let inside = |span: Span| assert!(span.start <= span.end && span.end as usize <= used);
    for span in [head.method_span, head.target, head.path, head.host, head.request_line] {
        inside(span);
    }
    head.query.into_iter().for_each(inside);
    for header in &head.headers {
        inside(header.name);
        inside(header.value);
    }
}

/// Encodes the head as it would be forwarded, and reads it again.
fn check_written_again(data: &[u8], head: &RequestHead) {
    let mut written = Vec::new();
    encode::request_line(&mut written, head.method_span.of(data), head.target.of(data));
    let host = head.host.of(data);
    encode::header(&mut written, b"Host", if host.is_empty() { b"unnamed" } else { host });
    for header in head.forwarded(data) {
        encode::parsed_header(&mut written, data, header);
    }
    match head.framing {
        Framing::Length(length) => encode::content_length(&mut written, length),
        Framing::Chunked => encode::transfer_chunked(&mut written),
        Framing::None | Framing::UntilClose => {}
    }
    written.extend_from_slice(encode::HEAD_END);
    let mut again = RequestHead::default();
    let read = again.parse(&written, &mut Scan::default(), &ROOMY);
    assert_eq!(read, Ok(Some(written.len())), "{}", String::from_utf8_lossy(&written));
    assert_eq!(again.method_span.of(&written), head.method_span.of(data));
    assert_eq!(again.target.of(&written), head.target.of(data));
    assert_eq!(again.framing, head.framing);
    if !host.is_empty() {
        assert_eq!(again.host.of(&written), host);
    }
    let lines = |head: &RequestHead, bytes: &[u8]| -> Vec<(Vec<u8>, Vec<u8>)> {
        let line = |header: &weir_wire::Header| {
            (header.name.of(bytes).to_vec(), header.value.of(bytes).to_vec())
        };
        head.forwarded(bytes).map(line).collect()
    };
    assert_eq!(lines(&again, &written), lines(head, data));
}

/// Checks that the parser accepts what the reference accepts, with the same meaning, and nothing
/// else.
fn compare(data: &[u8], whole: &ParseOutcome, head: Option<&RequestHead>) {
    let expected = reference::read(data);
    let (Some(expected), Some(head)) = (&expected, head) else {
        assert!(
            expected.is_none() && head.is_none(),
            "the reference says {expected:?}, the parser {whole:?}"
        );
        return;
    };
    assert_eq!(head.head_bytes, expected.used);
    assert_eq!(head.method_span.of(data), expected.method);
    assert_eq!(head.target.of(data), expected.target);
    assert_eq!(head.host.of(data), expected.host);
    assert_eq!(head.version.as_str().as_bytes(), expected.version);
    assert_eq!(head.framing, expected.framing);
    let lines: Vec<(&[u8], &[u8])> =
        head.headers.iter().map(|header| (header.name.of(data), header.value.of(data))).collect();
    assert_eq!(lines, expected.lines);
    if matches!(head.form, TargetForm::Origin | TargetForm::Absolute) {
        let (path, query) = reference::path_and_query(expected.target);
        assert_eq!((head.path.of(data), head.query.map(|span| span.of(data))), (path, query));
    }
    assert_eq!(head.method == Method::Connect, head.form == TargetForm::Authority);
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    const PLAIN: &[u8] = b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n";

    /// Returns true if the comparison fails for a parser that returns the head of `parsed` for the
    /// bytes `sent`.
    fn is_found(sent: &[u8], parsed: &[u8]) -> bool {
        catch_unwind(|| {
            let (whole, head) = parse(parsed, &[parsed.len()], &HeadLimits::default());
            compare(sent, &whole, head.as_ref());
        })
        .is_err()
    }

    #[test]
    fn a_parser_that_reads_a_head_differently_is_found() {
        assert!(!is_found(PLAIN, PLAIN));
        // A parser that accepts a head that the reference refuses, and the other way round.
        assert!(is_found(b"GET /a HTTP/1.1\nHost: a\r\n\r\n", PLAIN));
        assert!(is_found(PLAIN, b"GET /a HTTP/1.1\nHost: a\r\n\r\n"));
        // A parser that returns another framing, or another host.
        let long = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n";
        assert!(is_found(long, b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n"));
        assert!(is_found(PLAIN, b"GET /a HTTP/1.1\r\nHost: bb\r\n\r\n"));
    }
}
