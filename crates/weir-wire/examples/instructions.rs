//! Prints the number of instructions that one head takes, as `valgrind --tool=callgrind` counts
//! them. The count is the same on every run of one build, however busy the machine is. The program
//! runs itself under valgrind with few and with many repetitions of one piece of work; the
//! difference is the cost of the work. It asserts no figure.
//!
//! `cargo run --profile bench-release -p weir-wire --example instructions`

mod heads;

use std::hint::black_box;
use std::process::Command;

use weir_wire::{HeadLimits, Known, Method, RequestHead, ResponseHead, Scan, Version, encode};

use heads::{REQUEST, RESPONSE};

/// A request head as wrk sends it.
const PLAIN_REQUEST: &[u8] = b"GET /1k HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n";
const NAMES: [&[u8]; 10] = [
    b"Host",
    b"Server",
    b"Date",
    b"Content-Type",
    b"Content-Length",
    b"Last-Modified",
    b"Connection",
    b"ETag",
    b"Accept-Ranges",
    b"X-Other",
];

/// A name, and the function that repeats the work.
type Work = (&'static str, fn(u32));
const WORKS: [Work; 9] = [
    ("request head, wrk's", |times| parse_request(PLAIN_REQUEST, times)),
    ("request head, a browser's", |times| parse_request(REQUEST, times)),
    ("of it httparse, wrk's", |times| tokenise_request(PLAIN_REQUEST, times)),
    ("of it httparse, a browser's", |times| tokenise_request(REQUEST, times)),
    ("response head, nginx's", parse_response),
    ("of it httparse", tokenise_response),
    ("ten names", names),
    ("status line", status_line),
    ("status line as received", parsed_status_line),
];
const FEW: u32 = 1_000;
const MANY: u32 = 2_000;

fn main() {
    let mut arguments = std::env::args().skip(1);
    if let (Some(work), Some(times)) = (arguments.next(), arguments.next()) {
        let work = WORKS.iter().find(|(name, _)| *name == work).expect("the name of a work");
        work.1(times.parse().expect("a number"));
        return;
    }
    for (name, _) in WORKS {
        let each = (counted(name, MANY) - counted(name, FEW)) / u64::from(MANY - FEW);
        println!("{name}: {each}");
    }
}

/// The number of instructions in one whole run of this program under callgrind.
fn counted(work: &str, times: u32) -> u64 {
    let own = std::env::current_exe().expect("the path of this program");
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(own)
        .args([work, &times.to_string()])
        .output()
        .expect("valgrind is installed");
    let said = String::from_utf8_lossy(&output.stderr);
    let count = said.lines().find_map(|line| line.split_once("Collected : "));
    count.and_then(|(_, count)| count.trim().parse().ok()).unwrap_or_else(|| panic!("{said}"))
}

fn parse_request(bytes: &[u8], times: u32) {
    let (mut head, limits) = (RequestHead::default(), HeadLimits::default());
    for _ in 0..times {
        let outcome = head.parse(black_box(bytes), &mut Scan::default(), &limits);
        assert_eq!(black_box(outcome), Ok(Some(bytes.len())));
    }
}

fn parse_response(times: u32) {
    let (mut head, limits) = (ResponseHead::default(), HeadLimits::default());
    for _ in 0..times {
        let outcome = head.parse(black_box(RESPONSE), &mut Scan::default(), &limits, Method::Get);
        assert_eq!(black_box(outcome), Ok(Some(RESPONSE.len())));
    }
}

fn tokenise_request(bytes: &[u8], times: u32) {
    let mut slots = [const { std::mem::MaybeUninit::uninit() }; 16];
    for _ in 0..times {
        let mut request = httparse::Request::new(&mut []);
        black_box(request.parse_with_uninit_headers(black_box(bytes), &mut slots)).expect("sound");
        black_box(request);
    }
}

fn tokenise_response(times: u32) {
    let mut slots = [const { std::mem::MaybeUninit::uninit() }; 16];
    let config = httparse::ParserConfig::default();
    for _ in 0..times {
        let mut response = httparse::Response::new(&mut []);
        let bytes = black_box(RESPONSE);
        black_box(config.parse_response_with_uninit_headers(&mut response, bytes, &mut slots))
            .expect("sound");
        black_box(response);
    }
}

fn names(times: u32) {
    for _ in 0..times {
        for name in NAMES {
            black_box(Known::of(black_box(name)));
        }
    }
}

fn status_line(times: u32) {
    let mut out = Vec::with_capacity(64);
    for _ in 0..times {
        out.clear();
        encode::status_line_as(&mut out, Version::Http11, black_box(200), black_box(b"OK"));
        black_box(&out);
    }
}

fn parsed_status_line(times: u32) {
    let mut head = ResponseHead::default();
    let parsed = head.parse(RESPONSE, &mut Scan::default(), &HeadLimits::default(), Method::Get);
    assert_eq!(parsed, Ok(Some(RESPONSE.len())));
    let mut out = Vec::with_capacity(64);
    for _ in 0..times {
        out.clear();
        encode::parsed_status_line(&mut out, black_box(RESPONSE), black_box(&head));
        black_box(&out);
    }
}
