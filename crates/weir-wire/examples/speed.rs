//! Prints how long one head takes to parse and its lines to be written on, in nanoseconds: the best of several runs, each over many
//! heads. It asserts nothing.
//!
//! `cargo run --release -p weir-wire --example speed`

use std::hint::black_box;
use std::time::Instant;

use weir_wire::{ChunkedDecoder, HeadLimits, Method, RequestHead, ResponseHead, Step, encode};

const REQUEST: &[u8] = b"GET /catalogue/items?page=3&sort=price HTTP/1.1\r\n\
    Host: shop.example.com\r\n\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0\r\n\
    Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n\
    Accept-Language: en-US,en;q=0.5\r\n\
    Accept-Encoding: gzip, deflate, br\r\n\
    Referer: https://shop.example.com/catalogue\r\n\
    Connection: keep-alive\r\n\
    Cookie: session=9f1c2d3e4b5a69788796a5b4c3d2e1f0; beta=1\r\n\
    Upgrade-Insecure-Requests: 1\r\n\
    Cache-Control: max-age=0\r\n\r\n";
const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\n\
    Server: nginx/1.31.4\r\n\
    Date: Thu, 20 Nov 2025 19:15:00 GMT\r\n\
    Content-Type: application/octet-stream\r\n\
    Content-Length: 1024\r\n\
    Last-Modified: Thu, 20 Nov 2025 19:00:00 GMT\r\n\
    Connection: keep-alive\r\n\
    ETag: \"691f6a30-400\"\r\n\
    Accept-Ranges: bytes\r\n\r\n";
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
        let outcome = request.parse(black_box(REQUEST), &mut 0, &limits);
        assert_eq!(black_box(outcome), Ok(Some(REQUEST.len())));
    });
    println!(
        "request head, {} headers, {} bytes: {parse:.0} ns",
        request.headers.len(),
        REQUEST.len()
    );
    let halves = best(|| {
        let mut scanned = 0;
        let half = request.parse(black_box(&REQUEST[..300]), &mut scanned, &limits);
        assert_eq!(black_box(half), Ok(None));
        let outcome = request.parse(black_box(REQUEST), &mut scanned, &limits);
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
        let outcome = response.parse(black_box(RESPONSE), &mut 0, &limits, Method::Get);
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
