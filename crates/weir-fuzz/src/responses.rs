//! Response heads, as responses to GET, HEAD and CONNECT. The result does not depend on how the
//! input is split and does not change with more bytes; all spans lie in the head; and the framing
//! is that of RFC 9112 section 6.3.

use weir_wire::{Framing, HeadLimits, Known, Method, ResponseHead, Scan, Span};

use crate::pieces::splits;

/// Limits that a short input can reach.
const TIGHT: HeadLimits = HeadLimits { head_bytes: 100, request_line_bytes: 100, headers: 3 };

const TAIL: &[u8] = b"\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

pub(crate) fn target(data: &[u8]) {
    for method in [Method::Get, Method::Head, Method::Connect] {
        for limits in [HeadLimits::default(), TIGHT] {
            let (whole, head) = parse(data, &[data.len()], &limits, method);
            for lengths in splits(data) {
                let (split, _) = parse(data, &lengths, &limits, method);
                assert_eq!(split, whole, "a response split at {lengths:?}");
            }
            if let Some(head) = head {
                check_head(data, &head, method);
            }
            if whole != "more" {
                let longer = [data, TAIL].concat();
                let (again, _) = parse(&longer, &[longer.len()], &limits, method);
                assert_eq!(again, whole, "bytes after a verdict changed it");
            }
        }
    }
}

/// Returns the result as text, for comparison, and the head if there is one.
fn parse(
    data: &[u8],
    lengths: &[usize],
    limits: &HeadLimits,
    method: Method,
) -> (String, Option<ResponseHead>) {
    let (mut head, mut scan) = (ResponseHead::default(), Scan::default());
    for &length in lengths {
        match head.parse(&data[..length], &mut scan, limits, method) {
            Ok(None) => assert!(length < limits.head_bytes),
            Ok(Some(used)) => return (format!("{used} {head:?}"), Some(head)),
            Err(fault) => return (format!("{fault:?}"), None),
        }
    }
    ("more".to_owned(), None)
}

fn check_head(data: &[u8], head: &ResponseHead, method: Method) {
    let used = head.head_bytes;
    assert!(used <= data.len() && data[..used].ends_with(b"\r\n\r\n"));
    let inside = |span: Span| assert!(span.start <= span.end && span.end as usize <= used);
    inside(head.reason);
    for (at, byte) in data[..used].iter().enumerate() {
        assert_eq!(*byte == b'\n', at > 0 && data[at - 1] == b'\r', "a stray line end at {at}");
    }
    for header in &head.headers {
        inside(header.name);
        inside(header.value);
    }
    assert!(data.starts_with(b"HTTP/1.") && data[9..12] == *head.status.to_string().as_bytes());
    let values = |name: &str| -> Vec<&[u8]> {
        let same = |header: &&weir_wire::Header| {
            header.name.of(data).eq_ignore_ascii_case(name.as_bytes())
        };
        head.headers.iter().filter(same).map(|header| header.value.of(data)).collect()
    };
    let (lengths, codings) = (values("content-length"), values("transfer-encoding"));
    assert!(lengths.len() + codings.len() <= 1, "an ambiguous length was accepted");
    let bodiless = method == Method::Head
        || matches!(head.status, 100..200 | 204 | 304)
        || (method == Method::Connect && (200..300).contains(&head.status));
    let expected = match (&*lengths, &*codings) {
        _ if bodiless => Framing::None,
        ([length], _) => {
            let length = str::from_utf8(length).ok().and_then(|text| text.parse().ok());
            Framing::Length(length.expect("an accepted length is a number"))
        }
        (_, [coding]) => {
            assert!(coding.eq_ignore_ascii_case(b"chunked") && data.starts_with(b"HTTP/1.1"));
            Framing::Chunked
        }
        _ => Framing::UntilClose,
    };
    assert_eq!(head.framing, expected);
    if head.keep_alive {
        let options = values("connection");
        let mut options = options.iter().flat_map(|value| value.split(|byte| *byte == b','));
        assert!(head.framing != Framing::UntilClose);
        assert!(!options.any(|option| option.trim_ascii().eq_ignore_ascii_case(b"close")));
    }
    for header in head.forwarded(data) {
        let known = header.known;
        assert!(!matches!(
            known,
            Known::Connection | Known::TransferEncoding | Known::ContentLength
        ));
    }
}
