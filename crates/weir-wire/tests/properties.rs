//! Properties over generated messages: the result does not depend on how the bytes are split,
//! encoded messages parse to the same values, and no input makes the parsers panic or stall.
//! Messages are valid ones with a few bytes changed, so that every rule is tested at its edge.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use weir_wire::{
    ChunkFault, ChunkedDecoder, Framing, HeadLimits, Method, RequestHead, ResponseHead, Scan, Step,
    Version, encode,
};

const REQUESTS: [&[u8]; 5] = [
    b"GET /a?b HTTP/1.1\r\nHost: a.example\r\nAccept: */*\r\n\r\n",
    b"POST http://b:80/a HTTP/1.1\r\nHost: b\r\nContent-Length: 12\r\nConnection: x, close\r\nX: y\r\n\r\nhello, world",
    b"\r\nPUT /a HTTP/1.1\r\nHost: [::1]:80\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n0\r\n\r\n",
    b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET / HTTP/1.0\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: a\r\nUpgrade: x\r\nConnection: upgrade\r\nY:\t\r\n\r\n",
];
const RESPONSES: [&[u8]; 4] = [
    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nServer: x\r\n\r\nhello",
    b"HTTP/1.1 404\r\nTransfer-Encoding: chunked\r\nConnection: close, y\r\nY: z\r\n\r\n",
    b"HTTP/1.0 200 Fine by me\r\nConnection: keep-alive\r\n\r\n",
    b"HTTP/1.1 304 \r\nETag: \"a\"\r\nContent-Length: 7\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
];
const BODIES: [&[u8]; 3] = [
    b"5\r\nhello\r\n0\r\n\r\n",
    b"a;x=y\r\n0123456789\r\n01\r\n\n\r\n0;z\r\nX: y\r\nHost: z\r\nW: v\r\n\r\nrest",
    b"2\r\n\r\n\r\n10\r\n0123456789abcdef\r\n0\r\n\r\n",
];
const NASTY: &[u8] = b"\r\n\r\n\r\n \t:,;#?/*[]@%0159axX\0\x01\x0b\x7f\x80\xff";

/// One change to a message.
#[derive(Debug, Clone)]
enum Change {
    Insert(Index, u8),
    Replace(Index, u8),
    Remove(Index),
    Repeat(Index, usize),
    Cut(Index),
}

fn change() -> impl Strategy<Value = Change> {
    let byte = prop_oneof![4 => select(NASTY), 1 => any::<u8>()];
    prop_oneof![
        4 => (any::<Index>(), byte.clone()).prop_map(|(at, byte)| Change::Insert(at, byte)),
        4 => (any::<Index>(), byte).prop_map(|(at, byte)| Change::Replace(at, byte)),
        4 => any::<Index>().prop_map(Change::Remove),
        2 => (any::<Index>(), 1_usize..40).prop_map(|(at, length)| Change::Repeat(at, length)),
        1 => any::<Index>().prop_map(Change::Cut),
    ]
}

fn changed(messages: &'static [&'static [u8]]) -> impl Strategy<Value = Vec<u8>> {
    (select(messages), vec(change(), 0..4)).prop_map(|(message, changes)| {
        let mut bytes = message.to_vec();
        for change in changes {
            apply(&mut bytes, &change);
        }
        bytes
    })
}

fn apply(bytes: &mut Vec<u8>, change: &Change) {
    if bytes.is_empty() {
        return;
    }
    match change {
        Change::Insert(at, byte) => bytes.insert(at.index(bytes.len()), *byte),
        Change::Replace(at, byte) => {
            let at = at.index(bytes.len());
            bytes[at] = *byte;
        }
        Change::Remove(at) => {
            bytes.remove(at.index(bytes.len()));
        }
        Change::Repeat(at, length) => {
            let at = at.index(bytes.len());
            let end = (at + length).min(bytes.len());
            let copy = bytes[at..end].to_vec();
            bytes.splice(end..end, copy);
        }
        Change::Cut(at) => bytes.truncate(at.index(bytes.len())),
    }
}

/// Increasing lengths of the received bytes, ending with the whole input.
fn lengths(cuts: &[Index], total: usize) -> Vec<usize> {
    let mut lengths: Vec<usize> = cuts.iter().map(|cut| cut.index(total + 1)).collect();
    lengths.push(total);
    lengths.sort_unstable();
    lengths
}

fn limits() -> impl Strategy<Value = HeadLimits> {
    prop_oneof![
        3 => Just(HeadLimits::default()),
        1 => (0_usize..120, 0_usize..60, 0_usize..6).prop_map(|(head_bytes, request_line_bytes, headers)| {
            HeadLimits { head_bytes, request_line_bytes, headers }
        }),
    ]
}

fn request(bytes: &[u8], lengths: &[usize], limits: &HeadLimits) -> String {
    let (mut head, mut scan) = (RequestHead::default(), Scan::default());
    for &length in lengths {
        match head.parse(&bytes[..length], &mut scan, limits) {
            Ok(None) => {}
            Ok(Some(used)) => return format!("{used} {head:?}"),
            Err(fault) => return format!("{fault:?}"),
        }
    }
    "more".into()
}

fn response(bytes: &[u8], lengths: &[usize], limits: &HeadLimits, method: Method) -> String {
    let (mut head, mut scan) = (ResponseHead::default(), Scan::default());
    for &length in lengths {
        match head.parse(&bytes[..length], &mut scan, limits, method) {
            Ok(None) => {}
            Ok(Some(used)) => return format!("{used} {head:?}"),
            Err(fault) => return format!("{fault:?}"),
        }
    }
    "more".into()
}

/// The result of decoding a chunked body: data, trailers, and its length if it ended.
#[derive(Debug, PartialEq)]
struct Decoded {
    data: Vec<u8>,
    trailers: Vec<u8>,
    ended_at: Option<usize>,
    fault: Option<ChunkFault>,
}

fn decode(bytes: &[u8], lengths: &[usize]) -> Decoded {
    let mut decoder = ChunkedDecoder::new();
    let mut decoded =
        Decoded { data: Vec::new(), trailers: Vec::new(), ended_at: None, fault: None };
    let mut at = 0;
    for &length in lengths {
        loop {
            let rest = &bytes[at..length];
            match decoder.step(rest) {
                Err(fault) => return Decoded { fault: Some(fault), ..decoded },
                Ok((used, Step::Data(range))) => {
                    assert!(
                        !range.is_empty() && range.end == used,
                        "a step with data makes progress"
                    );
                    decoded.data.extend_from_slice(&rest[range]);
                    at += used;
                }
                Ok((used, Step::More)) => {
                    assert_eq!(used, rest.len());
                    at = length;
                    break;
                }
                Ok((used, Step::End)) => {
                    decoded.trailers = decoder.trailers().to_vec();
                    return Decoded { ended_at: Some(at + used), ..decoded };
                }
            }
        }
    }
    decoded
}

fn token() -> impl Strategy<Value = String> {
    "[A-Za-z0-9!#$%&'*+.^_`|~-]{1,12}"
}

/// Names without rules, so that every line is passed on.
fn header_name() -> impl Strategy<Value = String> {
    token().prop_map(|name| format!("X-Q-{name}"))
}

fn header_value() -> impl Strategy<Value = Vec<u8>> {
    let visible = prop_oneof![0x21_u8..0x7f, 0x80_u8..=0xff];
    let inside = prop_oneof![4 => visible.clone(), 1 => select(b" \t".as_slice())];
    (vec(visible.clone(), 0..2), vec(inside, 0..20), vec(visible, 1..2)).prop_map(
        |(first, middle, last)| {
            if first.is_empty() { Vec::new() } else { [first, middle, last].concat() }
        },
    )
}

fn header_lines() -> impl Strategy<Value = Vec<(String, Vec<u8>)>> {
    // Sometimes more lines than the stack array of the tokeniser holds.
    prop_oneof![9 => vec((header_name(), header_value()), 0..12), 1 => vec((header_name(), header_value()), 120..150)]
}

fn framing() -> impl Strategy<Value = Framing> {
    prop_oneof![
        Just(Framing::None),
        (0..=i64::MAX as u64).prop_map(Framing::Length),
        Just(Framing::Chunked)
    ]
}

fn write_framing(out: &mut Vec<u8>, framing: Framing) {
    match framing {
        Framing::Length(length) => encode::content_length(out, length),
        Framing::Chunked => encode::transfer_chunked(out),
        Framing::None | Framing::UntilClose => {}
    }
}

const ROOMY: HeadLimits =
    HeadLimits { head_bytes: 64 * 1024, request_line_bytes: 64 * 1024, headers: 200 };

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_request_ends_the_same_however_it_is_split(
        bytes in changed(&REQUESTS), cuts in vec(any::<Index>(), 0..6), limits in limits(),
    ) {
        let whole = request(&bytes, &[bytes.len()], &limits);
        prop_assert_eq!(&request(&bytes, &lengths(&cuts, bytes.len()), &limits), &whole);
        let every: Vec<usize> = (0..=bytes.len()).collect();
        prop_assert_eq!(&request(&bytes, &every, &limits), &whole);
    }

    #[test]
    fn a_response_ends_the_same_however_it_is_split(
        bytes in changed(&RESPONSES), cuts in vec(any::<Index>(), 0..6), limits in limits(),
        method in select([Method::Get, Method::Head, Method::Connect].as_slice()),
    ) {
        let whole = response(&bytes, &[bytes.len()], &limits, method);
        prop_assert_eq!(&response(&bytes, &lengths(&cuts, bytes.len()), &limits, method), &whole);
        let every: Vec<usize> = (0..=bytes.len()).collect();
        prop_assert_eq!(&response(&bytes, &every, &limits, method), &whole);
    }

    #[test]
    fn a_chunked_body_ends_the_same_however_it_is_split(
        bytes in changed(&BODIES), cuts in vec(any::<Index>(), 0..6),
    ) {
        let whole = decode(&bytes, &[bytes.len()]);
        prop_assert_eq!(&decode(&bytes, &lengths(&cuts, bytes.len())), &whole);
        let every: Vec<usize> = (0..=bytes.len()).collect();
        prop_assert_eq!(&decode(&bytes, &every), &whole);
    }

    #[test]
    fn no_bytes_make_a_parser_panic_or_stand_still(bytes in vec(any::<u8>(), 0..300), text in "[ -~\r\n]{0,200}") {
        for bytes in [bytes.as_slice(), text.as_bytes()] {
            let whole = [bytes.len()];
            request(bytes, &whole, &HeadLimits::default());
            response(bytes, &whole, &HeadLimits::default(), Method::Get);
            decode(bytes, &whole);
            decode(&[b"5\r\nhello\r\n0\r\n", bytes].concat(), &[13 + bytes.len()]);
        }
    }

    #[test]
    fn an_accepted_head_holds_no_stray_line_end(bytes in changed(&REQUESTS)) {
        let mut head = RequestHead::default();
        if let Ok(Some(used)) = head.parse(&bytes, &mut Scan::default(), &HeadLimits::default()) {
            let text = &bytes[..used];
            for (at, byte) in text.iter().enumerate() {
                prop_assert_eq!(*byte == b'\n', at > 0 && text[at - 1] == b'\r');
            }
            for header in &head.headers {
                let value = header.value.of(&bytes);
                prop_assert!(value.iter().all(|byte| *byte == b'\t' || (*byte >= b' ' && *byte != 0x7f)));
                prop_assert!(!header.name.is_empty() && header.name.of(&bytes).iter().all(u8::is_ascii_graphic));
            }
        }
    }

    #[test]
    fn a_request_written_is_read_back(
        method in token(), path in "/[!-\"$->@-~]{0,30}", query in proptest::option::of("[!-\"$-~]{0,20}"),
        lines in header_lines(), framing in framing(),
    ) {
        let query_part = query.as_ref().map_or(String::new(), |query| format!("?{query}"));
        let mut bytes = Vec::new();
        encode::request_line(&mut bytes, method.as_bytes(), format!("{path}{query_part}").as_bytes());
        encode::header(&mut bytes, b"Host", b"a.example:81");
        for (name, value) in &lines {
            encode::header(&mut bytes, name.as_bytes(), value);
        }
        write_framing(&mut bytes, framing);
        bytes.extend_from_slice(encode::HEAD_END);
        let mut head = RequestHead::default();
        prop_assume!(method != "CONNECT");
        prop_assert_eq!(head.parse(&bytes, &mut Scan::default(), &ROOMY), Ok(Some(bytes.len())));
        prop_assert_eq!(head.method_span.of(&bytes), method.as_bytes());
        prop_assert_eq!(head.path.of(&bytes), path.as_bytes());
        prop_assert_eq!(head.query.map(|span| span.of(&bytes)), query.as_ref().map(String::as_bytes));
        prop_assert_eq!(head.host.of(&bytes), b"a.example:81");
        prop_assert_eq!(head.framing, framing);
        let read: Vec<(&[u8], &[u8])> =
            head.forwarded(&bytes).map(|line| (line.name.of(&bytes), line.value.of(&bytes))).collect();
        let written: Vec<(&[u8], &[u8])> = lines.iter().map(|(name, value)| (name.as_bytes(), &value[..])).collect();
        prop_assert_eq!(read, written);
        prop_assert_eq!(again(&head, &bytes), bytes);
    }

    #[test]
    fn a_response_written_is_read_back(
        status in 200_u16..600, reason in "[ -~]{0,20}", lines in header_lines(), framing in framing(),
    ) {
        prop_assume!(!matches!(status, 204 | 304));
        let mut bytes = Vec::new();
        encode::status_line_as(&mut bytes, Version::Http11, status, reason.as_bytes());
        for (name, value) in &lines {
            encode::header(&mut bytes, name.as_bytes(), value);
        }
        write_framing(&mut bytes, framing);
        bytes.extend_from_slice(encode::HEAD_END);
        let mut head = ResponseHead::default();
        prop_assert_eq!(head.parse(&bytes, &mut Scan::default(), &ROOMY, Method::Get), Ok(Some(bytes.len())));
        prop_assert_eq!(head.status, status);
        prop_assert_eq!(head.reason.of(&bytes), reason.as_bytes());
        let expected = if framing == Framing::None { Framing::UntilClose } else { framing };
        prop_assert_eq!(head.framing, expected);
        let read: Vec<(&[u8], &[u8])> =
            head.forwarded(&bytes).map(|line| (line.name.of(&bytes), line.value.of(&bytes))).collect();
        let written: Vec<(&[u8], &[u8])> = lines.iter().map(|(name, value)| (name.as_bytes(), &value[..])).collect();
        prop_assert_eq!(read, written);
    }

    #[test]
    fn a_chunked_body_written_is_read_back(
        chunks in vec(vec(any::<u8>(), 1..600), 0..6), trailers in vec((header_name(), header_value()), 0..4),
        after in vec(any::<u8>(), 0..20), cuts in vec(any::<Index>(), 0..6),
    ) {
        let mut bytes = Vec::new();
        for chunk in &chunks {
            encode::chunk_header(chunk.len(), &mut bytes);
            bytes.extend_from_slice(chunk);
            bytes.extend_from_slice(encode::CHUNK_END);
        }
        bytes.extend_from_slice(encode::LAST_CHUNK);
        let mut trailer_lines = Vec::new();
        for (name, value) in &trailers {
            encode::header(&mut trailer_lines, name.as_bytes(), value);
        }
        bytes.extend_from_slice(&trailer_lines);
        bytes.extend_from_slice(encode::HEAD_END);
        let ended_at = Some(bytes.len());
        bytes.extend_from_slice(&after);
        let decoded = decode(&bytes, &lengths(&cuts, bytes.len()));
        prop_assert_eq!(decoded, Decoded { data: chunks.concat(), trailers: trailer_lines, ended_at, fault: None });
    }
}

/// Encodes a parsed request again.
fn again(head: &RequestHead, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    encode::request_line(&mut out, head.method_span.of(bytes), head.target.of(bytes));
    encode::header(&mut out, b"Host", head.host.of(bytes));
    for header in head.forwarded(bytes) {
        encode::parsed_header(&mut out, bytes, header);
    }
    write_framing(&mut out, head.framing);
    out.extend_from_slice(encode::HEAD_END);
    out
}

fn check_bound(body: &[u8], expected: Option<ChunkFault>) {
    assert_eq!(decode(body, &[body.len()]).fault, expected);
}

#[test]
fn extensions_and_trailers_are_bounded() {
    let extension = |length: usize| [b"1;".as_slice(), &vec![b'x'; length], b"\r\na\r\n"].concat();
    check_bound(&extension(1024), None);
    check_bound(&extension(1025), Some(ChunkFault::ExtensionTooLong));
    // The bound is per chunk: a long body may have an extension in every chunk.
    check_bound(&[extension(1024), extension(1024)].concat(), None);
    let trailer = |name: &str, length: usize| {
        [b"0\r\n", name.as_bytes(), b": ", &vec![b'x'; length], b"\r\n\r\n"].concat()
    };
    check_bound(&trailer("X", 8 * 1024 - 3), None);
    check_bound(&trailer("X", 8 * 1024 - 2), Some(ChunkFault::TrailersTooLong));
    let dropped = [b"0\r\n".as_slice(), &b"Host: x\r\n".repeat(1000)].concat();
    check_bound(&dropped, Some(ChunkFault::TrailersTooLong));
}

#[test]
fn a_head_is_reused_without_traces_of_the_one_before() {
    let mut head = RequestHead::default();
    let first = b"PUT http://b/x?y HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\nX: 1\r\n\
        Connection: close, X, upgrade\r\nUpgrade: z\r\n\r\n";
    assert!(
        head.parse(first, &mut Scan::default(), &HeadLimits::default())
            .is_ok_and(|end| end == Some(first.len()))
    );
    let second = b"GET / HTTP/1.1\r\nHost: a\r\nX: 1\r\n\r\n";
    assert!(
        head.parse(second, &mut Scan::default(), &HeadLimits::default())
            .is_ok_and(|end| end == Some(second.len()))
    );
    let mut fresh = RequestHead::default();
    assert!(fresh.parse(second, &mut Scan::default(), &HeadLimits::default()).is_ok());
    assert_eq!(format!("{head:?}"), format!("{fresh:?}"));
}

#[test]
fn more_headers_than_fit_the_stack_are_still_bounded() {
    let head = |count: usize| {
        [b"GET / HTTP/1.1\r\nHost: a\r\n".as_slice(), &b"X: y\r\n".repeat(count - 1), b"\r\n"]
            .concat()
    };
    for (headers, count, fits) in
        [(128, 128, true), (128, 129, false), (300, 300, true), (300, 301, false)]
    {
        let limits = HeadLimits { headers, ..HeadLimits::default() };
        let bytes = head(count);
        let mut parsed = RequestHead::default();
        match parsed.parse(&bytes, &mut Scan::default(), &limits) {
            Ok(end) => assert!(fits && end == Some(bytes.len()) && parsed.headers.len() == count),
            Err(fault) => {
                assert!(!fits && fault.fault.status() == 431, "{headers} {count} {fault:?}");
            }
        }
    }
}
