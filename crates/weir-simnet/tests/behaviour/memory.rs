//! Bytes: what a connection may have Weir hold is bounded, whatever it sends and however fast (issue 12, rows A1 and B1).

use crate::OK;
use crate::world::{app, play};

const SERVER: &str = "server 10.0.1.1:80;";

/// The most that the scenario allocated beyond what it held at first, while one connection sends `request` so often without waiting for
/// answers, which are as long as `answer`.
fn growth(pool: &str, (request, times): (&str, usize), answer: &str) -> isize {
    let mut growth = 0;
    play(&app(pool, ""), async |world| {
        let seen = world.origin(1).answers(answer);
        let mut client = world.client().await;
        let bytes = request.repeat(times);
        // Once round, so that what is made once is not counted.
        client.send(request).await;
        let head = client.head().await;
        let length: usize = head.header("content-length").unwrap().parse().unwrap();
        client.exactly(length).await;
        let answers = (head.raw_head.len() + length) * times;
        let before = weir_memory::of_this_thread();
        let look = || {
            seen.borrow_mut().requests.clear();
            growth = growth.max(weir_memory::of_this_thread() - before);
        };
        client.flood(bytes.as_bytes(), answers, look).await;
    });
    growth
}

#[test]
fn pipelined_requests_are_held_in_bounded_memory() {
    let requests = [
        "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc",
    ];
    for request in requests {
        for pool in [SERVER, "server 10.0.1.1:80; buffer_request 1m;"] {
            let growth = growth(pool, (request, 2_000), OK);
            // The scenario keeps a trace, what came to the origin, and the log: some 3 MB.
            assert!(growth < 8 << 20, "{growth} bytes more for {request:?} with {pool}");
        }
    }
}
