//! Ambiguous and invalid requests are refused and the connection is closed; no byte of them reaches
//! an origin, whether they arrive whole or byte by byte.

use std::time::Duration;

use tokio::time::sleep;

use crate::OK;
use crate::peer::Peer;
use crate::world::{Connects, app, pass, play};

const ONE: &str = "server 10.0.1.1:80;";

/// A request and the status of its refusal.
const REFUSED: &[(&str, u16)] = &[
    ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello", 400),
    ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\ncontent-length: 5\r\n\r\nhello", 400),
    ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5, 5\r\n\r\nhello", 400),
    ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +5\r\n\r\nhello", 400),
    ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x5\r\n\r\nhello", 400),
    (
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        400,
    ),
    (
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
        400,
    ),
    ("POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501),
    ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n", 400),
    ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n", 400),
    ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 400),
    ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n", 400),
    ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n", 400),
    ("POST / HTTP/1.1\r\nHost: a\r\n Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a\r\nX: y\r\n folded: z\r\n\r\n", 400),
    ("GET / HTTP/1.1\nHost: a\n\n", 400),
    ("GET / HTTP/1.1\r\nHost: a\r\nX: y\nTransfer-Encoding: chunked\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a\r\nX: y\rz\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a\r\nX: y\0z\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a\r\n: x\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a\r\nX y: z\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400),
    ("GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505),
    ("GET / HTTP/1.2x\r\nHost: a\r\n\r\n", 400),
    ("\x16\x03\x01\x02\0\x01\0\x01\r\n\r\n", 400),
];

/// Chunked bodies with an error at their beginning.
const BROKEN_CHUNKS: &[&str] = &[
    "g\r\n",
    "-1\r\n",
    "0x5\r\nhello\r\n",
    " 5\r\nhello\r\n",
    "5 \r\nhello\r\n",
    "5\nhello\n",
    "5;a\nb\r\nhello\r\n",
    "ffffffffffffffff1\r\nhello",
    "\r\n",
    "0\r\nX : y\r\n\r\n",
    "0\r\nX: y\nZ: w\r\n\r\n",
];

async fn dribble(client: &mut Peer, request: &str) {
    for byte in request.as_bytes() {
        if client.try_send(&[*byte]).await.is_err() {
            return;
        }
        sleep(Duration::from_millis(1)).await;
    }
}

fn check(request: &str, expected: u16) {
    for whole in [true, false] {
        play(&app(ONE, "timeout head=1h;"), async |world| {
            let origin = world.origin(1);
            let mut client = world.client().await;
            // The bytes that could be a second request must not be served either.
            let sent = format!("{request}GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n");
            if whole {
                client.send(sent).await;
            } else {
                dribble(&mut client, &sent).await;
            }
            let response = client.message().await;
            assert_eq!(response.status(), expected, "{request:?}");
            assert_eq!(response.header("connection"), Some("close"), "{request:?}");
            client.expect_end().await;
            origin.expect_no_connection().await;
            let line = world.log_line().await;
            assert_eq!(line.number("status"), Some(u64::from(expected)));
            assert!(line.text("cause").starts_with("bad_request"), "{line:?}");
        });
    }
}

#[test]
fn ambiguous_requests_are_refused_and_reach_no_origin() {
    for (request, status) in REFUSED {
        check(request, *status);
    }
}

/// In HTTP/0.9 no header lines follow, so the refusal must not wait for any.
#[test]
fn a_request_line_without_a_version_is_refused_at_its_end() {
    for line in ["GET /\r\n", "GET / \r\n", "quit\r\n", "GET / HTTP/2.0\r\n"] {
        play(&app(ONE, "timeout head=1h;"), async |world| {
            let origin = world.origin(1);
            let mut client = world.client().await;
            let began = tokio::time::Instant::now();
            dribble(&mut client, line).await;
            let expected = if line.contains("2.0") { 505 } else { 400 };
            assert_eq!(client.message().await.status(), expected, "{line:?}");
            assert!(began.elapsed() < Duration::from_secs(1), "{line:?}");
            client.expect_end().await;
            origin.expect_no_connection().await;
            assert!(world.log_line().await.text("cause").starts_with("bad_request"));
        });
    }
}

#[test]
fn broken_chunks_are_refused_and_reach_no_origin() {
    for chunks in BROKEN_CHUNKS {
        check(
            &format!("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}"),
            400,
        );
    }
}

#[test]
fn a_chunk_that_breaks_later_ends_the_request_without_an_end_for_the_origin() {
    for broken in ["5\r\nhelloX\r\n0\r\n\r\n", "z\r\n", "0\r\nX y\r\n\r\n", "5\r\nhello\n0\r\n\r\n"]
    {
        play(&app(ONE, ""), async |world| {
            let origin = world.origin(1);
            let mut client = world.client().await;
            client
                .send(
                    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
                )
                .await;
            let mut upstream = origin.accept().await;
            upstream.head().await;
            assert_eq!(upstream.chunk().await.as_deref(), Some("abc"));
            client.send(broken).await;
            let response = client.message().await;
            assert_eq!(
                (response.status(), response.header("connection")),
                (400, Some("close")),
                "{broken:?}"
            );
            let (rest, _) = upstream.rest().await;
            assert!(!String::from_utf8(rest).unwrap().contains("0\r\n\r\n"), "{broken:?}");
            world.expect_logged("bad_request_body", Some(400)).await;
        });
    }
}

#[test]
fn a_good_request_before_a_bad_one_is_served() {
    play(&app(ONE, ""), async |world| {
        let seen = world.origin(1).answers(crate::OK);
        let mut client = world.client().await;
        client
            .send(format!(
                "{}GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n{}",
                crate::GET,
                crate::GET
            ))
            .await;
        assert_eq!((client.message().await.status(), client.message().await.status()), (200, 400));
        client.expect_closed().await;
        assert_eq!(seen.borrow().requests.len(), 1);
    });
}

#[test]
fn heads_beyond_their_limits_get_431_or_414() {
    let line = "X: y\r\n";
    let refused = [
        (format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "y".repeat(5_000)), 431),
        (format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}", "y".repeat(5_000)), 431),
        (format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", line.repeat(20)), 431),
        (format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(5_000)), 414),
        (format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(1_100)), 414),
        (format!("GET /{}", "x".repeat(1_100)), 414),
    ];
    for (request, status) in refused {
        play(&app(ONE, "limits head=4k request_line=1k headers=20;"), async |world| {
            let origin = world.origin(1);
            let mut client = world.client().await;
            client.send(&request).await;
            let response = client.message().await;
            assert_eq!((response.status(), response.header("connection")), (status, Some("close")));
            client.expect_closed().await;
            origin.expect_no_connection().await;
        });
    }
}

#[test]
fn bytes_behind_a_body_stay_in_order_while_its_request_waits_for_a_server() {
    play(&app("server 10.0.1.1:80;", ""), async |world| {
        let origin = world.origin(1);
        world.connects(1, Some(Connects::After(Duration::from_millis(100))));
        let mut client = world.client().await;
        client.send("PUT /1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n").await;
        pass(10).await;
        // The end of the body comes together with the beginning of the next request.
        client.send("5\r\nhello\r\n0\r\n\r\nPUT /").await;
        pass(10).await;
        client.send("2 HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi").await;
        let mut upstream = origin.accept().await;
        let request = upstream.message().await;
        assert_eq!((request.first.as_str(), request.text()), ("PUT /1 HTTP/1.1", "hello"));
        upstream.send(OK).await;
        assert_eq!(client.message().await.status(), 200);
        let request = upstream.message().await;
        assert_eq!((request.first.as_str(), request.text()), ("PUT /2 HTTP/1.1", "hi"));
        upstream.send(OK).await;
        assert_eq!(client.message().await.status(), 200);
    });
}
