//! Runs the vector files under `tests/vectors`. Their format:
//!
//! ```text
//! # a comment
//! [name of the case] option=value ...
//! input bytes, with \r \n \t \0 \s (space) \\ and \xHH; lines are joined without a line end
//! => outcome
//! ```
//! Options: `head=` and `headers=` set limits (requests, responses); `method=` is the request's
//! method (responses).
//!
//! Outcomes: `more`; `fault NAME` (requests: `fault NAME STATUS`), followed by ` at=OFFSET` if the
//! position is compared too; or, for heads, `ok key=value ...`, where only the named keys are
//! compared and values are escaped as in the input. For chunked bodies: `ok data=TEXT trailers=TEXT
//! rest=TEXT`.
//!
//! Every case runs whole, byte by byte, and split in two at every position; all runs must have the
//! same outcome.

use weir_wire::{
    ChunkedDecoder, HeadLimits, Header, Located, Method, RequestHead, ResponseHead, Scan, Span,
    Step,
};

struct Case {
    file: &'static str,
    name: String,
    options: Vec<(String, String)>,
    input: Vec<u8>,
    expected: String,
}

impl Case {
    fn limits(&self) -> HeadLimits {
        let number = |key: &str, default: usize| {
            self.option(key).map_or(default, |text| text.parse().unwrap())
        };
        HeadLimits {
            head_bytes: number("head", 32 * 1024),
            request_line_bytes: number("line", 8 * 1024),
            headers: number("headers", 100),
        }
    }

    fn option(&self, key: &str) -> Option<&str> {
        self.options.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }
}

#[test]
fn request_vectors() {
    check_file("requests.txt", include_str!("vectors/requests.txt"), request, 180);
}

#[test]
fn response_vectors() {
    check_file("responses.txt", include_str!("vectors/responses.txt"), response, 60);
}

#[test]
fn chunked_vectors() {
    check_file("chunked.txt", include_str!("vectors/chunked.txt"), |_, pieces| chunked(pieces), 30);
}

/// A short word, or the facts found in the order in which they are named.
#[derive(Debug, PartialEq, Clone)]
enum Outcome {
    More,
    /// The name of the fault, and its offset.
    Fault(String, usize),
    Found(Vec<(&'static str, String)>),
}

fn check_file(
    file: &'static str,
    text: &str,
    run: fn(&Case, &Pieces<'_>) -> Outcome,
    at_least: usize,
) {
    let cases = read_cases(file, text);
    assert!(cases.len() >= at_least, "{file} lost cases: {}", cases.len());
    let wrong: Vec<String> = cases.iter().filter_map(|case| check(case, run).err()).collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// The input, and the prefix lengths that the parser sees.
struct Pieces<'a> {
    input: &'a [u8],
    lengths: Vec<usize>,
}

fn check(case: &Case, run: fn(&Case, &Pieces<'_>) -> Outcome) -> Result<(), String> {
    let input = case.input.as_slice();
    let whole = run(case, &Pieces { input, lengths: vec![input.len()] });
    let place = format!("{} [{}]", case.file, case.name);
    compare(&whole, &case.expected).map_err(|why| format!("{place}: {why}"))?;
    let bytewise = run(case, &Pieces { input, lengths: (0..=input.len()).collect() });
    if bytewise != whole {
        return Err(format!("{place}: byte by byte {bytewise:?}, whole {whole:?}"));
    }
    for at in 0..input.len() {
        let halves = run(case, &Pieces { input, lengths: vec![at, input.len()] });
        if halves != whole {
            return Err(format!("{place}: split at {at} {halves:?}, whole {whole:?}"));
        }
    }
    Ok(())
}

fn compare(outcome: &Outcome, expected: &str) -> Result<(), String> {
    let facts = match (outcome, expected.strip_prefix("ok")) {
        (Outcome::Found(facts), Some(wanted)) => (facts, wanted),
        (Outcome::More, None) if expected == "more" => return Ok(()),
        (Outcome::Fault(fault, at), None)
            if expected == format!("fault {fault}")
                || expected == format!("fault {fault} at={at}") =>
        {
            return Ok(());
        }
        _ => return Err(format!("expected {expected}, found {outcome:?}")),
    };
    for pair in facts.1.split_whitespace() {
        let (key, value) = pair.split_once('=').ok_or_else(|| format!("no = in {pair}"))?;
        let wanted = String::from_utf8_lossy(&unescape(value)).into_owned();
        match facts.0.iter().find(|(name, _)| *name == key) {
            None => return Err(format!("no fact named {key}")),
            Some((_, found)) if *found != wanted => {
                return Err(format!("{key}: expected {wanted:?}, found {found:?}"));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

fn request(case: &Case, pieces: &Pieces<'_>) -> Outcome {
    let mut head = RequestHead::default();
    let mut scan = Scan::default();
    for &length in &pieces.lengths {
        let bytes = &pieces.input[..length];
        match head.parse(bytes, &mut scan, &case.limits()) {
            Ok(None) => {}
            Ok(Some(used)) => return Outcome::Found(request_facts(&head, bytes, used)),
            Err(Located { fault, at }) => {
                let name = format!("{} {}", name_of(&format!("{fault:?}")), fault.status());
                return Outcome::Fault(name, at);
            }
        }
    }
    Outcome::More
}

fn request_facts(head: &RequestHead, bytes: &[u8], used: usize) -> Vec<(&'static str, String)> {
    assert_eq!(used, head.head_bytes);
    let text = |span: Span| String::from_utf8_lossy(span.of(bytes)).into_owned();
    vec![
        ("used", used.to_string()),
        ("line", text(head.request_line)),
        ("method", format!("{:?}", head.method)),
        ("token", text(head.method_span)),
        ("target", text(head.target)),
        ("form", format!("{:?}", head.form)),
        ("path", text(head.path)),
        ("path_text", String::from_utf8_lossy(head.path_text(bytes)).into_owned()),
        ("query", head.query.map_or("none".into(), text)),
        ("host", text(head.host)),
        ("version", head.version.as_str().to_string()),
        ("framing", format!("{:?}", head.framing)),
        ("keep_alive", head.keep_alive.to_string()),
        ("continue", head.expect_continue.to_string()),
        ("upgrade", head.upgrade.to_string()),
        ("hops", head.hops.to_string()),
        ("headers", lines(bytes, head.headers.iter())),
        ("forwarded", lines(bytes, head.forwarded(bytes))),
    ]
}

fn response(case: &Case, pieces: &Pieces<'_>) -> Outcome {
    let method = Method::of(case.option("method").unwrap_or("GET").as_bytes());
    let mut head = ResponseHead::default();
    let mut scan = Scan::default();
    for &length in &pieces.lengths {
        let bytes = &pieces.input[..length];
        match head.parse(bytes, &mut scan, &case.limits(), method) {
            Ok(None) => {}
            Ok(Some(used)) => return Outcome::Found(response_facts(&head, bytes, used)),
            Err(Located { fault, at }) => {
                return Outcome::Fault(name_of(&format!("{fault:?}")), at);
            }
        }
    }
    Outcome::More
}

fn response_facts(head: &ResponseHead, bytes: &[u8], used: usize) -> Vec<(&'static str, String)> {
    assert_eq!(used, head.head_bytes);
    vec![
        ("used", used.to_string()),
        ("status", head.status.to_string()),
        ("reason", String::from_utf8_lossy(head.reason.of(bytes)).into_owned()),
        ("version", head.version.as_str().to_string()),
        ("framing", format!("{:?}", head.framing)),
        ("length", head.content_length.map_or("none".into(), |length| length.to_string())),
        ("keep_alive", head.keep_alive.to_string()),
        ("upgrade", head.upgrade.to_string()),
        ("headers", lines(bytes, head.headers.iter())),
        ("forwarded", lines(bytes, head.forwarded(bytes))),
    ]
}

fn chunked(pieces: &Pieces<'_>) -> Outcome {
    let mut decoder = ChunkedDecoder::new();
    let mut data = Vec::new();
    let mut at = 0;
    for &length in &pieces.lengths {
        loop {
            let rest = &pieces.input[at..length];
            let (used, step) = match decoder.step(rest) {
                Ok(found) => found,
                Err(fault) => {
                    assert_eq!(decoder.step(b"0\r\n\r\n"), Err(fault), "a fault is final");
                    return Outcome::Fault(format!("{fault:?}"), 0);
                }
            };
            at += used;
            match step {
                Step::Data(range) => data.extend_from_slice(&rest[range]),
                Step::More => break,
                Step::End => {
                    return Outcome::Found(chunked_facts(&decoder, &data, &pieces.input[at..]));
                }
            }
        }
    }
    Outcome::More
}

fn chunked_facts(
    decoder: &ChunkedDecoder,
    data: &[u8],
    rest: &[u8],
) -> Vec<(&'static str, String)> {
    assert!(decoder.is_at_end());
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    vec![("data", text(data)), ("trailers", text(decoder.trailers())), ("rest", text(rest))]
}

/// `Name:value` of each line, joined by `|`.
fn lines<'a>(bytes: &[u8], headers: impl Iterator<Item = &'a Header>) -> String {
    let one = |header: &Header| [header.name.of(bytes), b":", header.value.of(bytes)].concat();
    let all: Vec<Vec<u8>> = headers.map(one).collect();
    String::from_utf8_lossy(&all.join(&b'|')).into_owned()
}

/// The innermost name: `Field(BareLineFeed)` becomes `BareLineFeed`.
fn name_of(debug: &str) -> String {
    debug.trim_start_matches("Field(").trim_end_matches(')').to_string()
}

fn read_cases(file: &'static str, text: &str) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(rest) = line.strip_prefix('[') {
            let (name, options) = rest.split_once(']').unwrap();
            assert!(cases.iter().all(|case| case.name != name), "{file}: two cases named {name}");
            assert!(
                cases.last().is_none_or(|case| !case.expected.is_empty()),
                "{file}: no outcome before {name}"
            );
            let pair = |option: &str| {
                option.split_once('=').map(|(key, value)| (key.into(), value.into())).unwrap()
            };
            let options = options.split_whitespace().map(pair).collect();
            cases.push(Case {
                file,
                name: name.into(),
                options,
                input: Vec::new(),
                expected: String::new(),
            });
            continue;
        }
        let case = cases.last_mut().unwrap();
        match line.strip_prefix("=> ") {
            Some(expected) => case.expected = expected.trim_end().into(),
            None => case.input.extend(unescape(line)),
        }
    }
    cases
}

fn unescape(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        out.push(match bytes.next().unwrap() {
            b'r' => b'\r',
            b'n' => b'\n',
            b't' => b'\t',
            b's' => b' ',
            b'0' => 0,
            b'\\' => b'\\',
            b'x' => {
                let mut digit = || char::from(bytes.next().unwrap()).to_digit(16).unwrap() as u8;
                digit() << 4 | digit()
            }
            other => panic!("unknown escape {other}"),
        });
    }
    out
}
