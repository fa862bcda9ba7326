//! Prints the time in nanoseconds that it takes to parse one head and to write its lines: the best
//! of several runs, each over many heads. It asserts nothing.
//!
//! `cargo run --release -p weir-wire --example speed`

mod heads;

use std::hint::black_box;
use std::time::Instant;

use weir_wire::{
    ChunkedDecoder, HeadLimits, Method, RequestHead, ResponseHead, Scan, Step, encode,
};

use heads::{REQUEST, RESPONSE};

const ROUNDS: u32 = 9;
const PER_ROUND: u32 = 100_000;

fn best(mut work: impl FnMut()) -> f64 {
    let mut best = f64::MAX;
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        for _ in 0..PER_ROUND {
            work();
        }
        best = best.min(begun.elapsed().as_secs_f64() * 1e9 / f64::from(PER_ROUND));
    }
    best
}

fn main() {
    let limits = HeadLimits::default();
    let mut request = RequestHead::default();
    let parse = best(|| {
        let outcome = request.parse(black_box(REQUEST), &mut Scan::default(), &limits);
        assert_eq!(black_box(outcome), Ok(Some(REQUEST.len())));
    });
    println!(
        "request head, {} headers, {} bytes: {parse:.0} ns",
        request.headers.len(),
        REQUEST.len()
    );
    let halves = best(|| {
        let mut scan = Scan::default();
        let half = request.parse(black_box(&REQUEST[..300]), &mut scan, &limits);
        assert_eq!(black_box(half), Ok(None));
        let outcome = request.parse(black_box(REQUEST), &mut scan, &limits);
        assert_eq!(black_box(outcome), Ok(Some(REQUEST.len())));
    });
    println!("the same in two pieces: {halves:.0} ns");
    let mut out = Vec::new();
    let write = best(|| {
        out.clear();
        encode::request_line(&mut out, request.method_span.of(REQUEST), request.target.of(REQUEST));
        encode::header(&mut out, b"Host", request.host.of(REQUEST));
        for header in request.forwarded(REQUEST) {
            encode::parsed_header(&mut out, REQUEST, header);
        }
        out.extend_from_slice(encode::HEAD_END);
        black_box(&out);
    });
    println!("written on: {write:.0} ns");
    let mut response = ResponseHead::default();
    let parse = best(|| {
        let outcome =
            response.parse(black_box(RESPONSE), &mut Scan::default(), &limits, Method::Get);
        assert_eq!(black_box(outcome), Ok(Some(RESPONSE.len())));
    });
    println!(
        "response head, {} headers, {} bytes: {parse:.0} ns",
        response.headers.len(),
        RESPONSE.len()
    );
    println!("chunked body, 4 chunks of 4 KiB: {:.0} ns", chunked());
}

fn chunked() -> f64 {
    let mut body = Vec::new();
    for _ in 0..4 {
        encode::chunk_header(4096, &mut body);
        body.extend_from_slice(&[b'x'; 4096]);
        body.extend_from_slice(encode::CHUNK_END);
    }
    body.extend_from_slice(encode::LAST_CHUNK);
    body.extend_from_slice(encode::HEAD_END);
    best(|| {
        let mut decoder = ChunkedDecoder::new();
        let mut rest = body.as_slice();
        loop {
            let (used, step) = decoder.step(black_box(rest)).expect("a well-formed body");
            if step == Step::End {
                break;
            }
            rest = &rest[used..];
        }
    })
}
