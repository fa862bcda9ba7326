//! Streaming: bytes are forwarded at once in both directions; none are held back to fill a buffer,
//! and a side that does not read slows the other down. With `buffer_request`, requests are read
//! whole first.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::peer::Peer;
use crate::world::{World, app, play};
use crate::{GET, OK};

const ONE: &str = "server 10.0.1.1:80;";

/// Returns a client whose GET has reached the origin, and the origin's connection.
async fn asked(world: &World, request: &str) -> (Peer, Peer) {
    let origin = world.origin(1);
    let mut client = world.client().await;
    client.send(request).await;
    let mut upstream = origin.accept().await;
    upstream.message().await;
    (client, upstream)
}

#[test]
fn each_event_of_a_chunked_stream_reaches_the_client_before_the_next_is_sent() {
    play(&app(ONE, ""), async |world| {
        let (mut client, mut upstream) = asked(world, GET).await;
        let start = Instant::now();
        upstream.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n").await;
        assert_eq!(client.head().await.header("content-type"), Some("text/event-stream"));
        for event in ["data: 1\n\n", "data: 22\n\n", "data: 333\n\n"] {
            upstream.send(format!("{:x}\r\n{event}\r\n", event.len())).await;
            assert_eq!(client.chunk().await.as_deref(), Some(event));
        }
        assert_eq!(start.elapsed(), Duration::ZERO);
        upstream.send("0\r\n\r\n").await;
        assert_eq!((client.chunk().await, client.trailers().await.len()), (None, 0));
    });
}

#[test]
fn each_event_of_a_stream_until_close_reaches_the_client_before_the_next_is_sent() {
    for version in ["1.0", "1.1"] {
        play(&app(ONE, ""), async |world| {
            let (mut client, mut upstream) = asked(world, GET).await;
            upstream
                .send(format!("HTTP/{version} 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"))
                .await;
            assert_eq!(client.head().await.header("transfer-encoding"), Some("chunked"));
            for event in ["data: 1\n\n", "data: 22\n\n"] {
                upstream.send(event).await;
                assert_eq!(client.chunk().await.as_deref(), Some(event));
            }
            drop(upstream);
            assert_eq!(client.chunk().await, None);
        });
    }
}

#[test]
fn the_times_that_the_clients_of_a_stream_wait_are_counted_for_its_route() {
    play(&app(ONE, ""), async |world| {
        let (mut client, mut upstream) = asked(world, GET).await;
        sleep(Duration::from_millis(5)).await;
        upstream.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n").await;
        client.head().await;
        for pause in [20, 30, 400] {
            sleep(Duration::from_millis(pause)).await;
            upstream.send("data: 1\n\n").await;
            client.chunk().await;
            assert_eq!(world.in_flight(), 1, "a stream keeps its slot");
        }
        drop(upstream);
        client.chunk().await;
        world.log_line().await;
        assert_eq!(world.in_flight(), 0);
        let read = world.process.numbers.read();
        let of_route = read.routes.iter().find(|route| !route.route.is_empty()).unwrap();
        let (first, gaps) = (&of_route.streams.first, &of_route.streams.gaps);
        assert_eq!((first.count(), first.max_us() / 1_000), (1, 25));
        assert_eq!((gaps.count(), gaps.sum_us() / 1_000), (2, 430));
    });
    // Responses of a known length, and of other types, are none.
    for kind in ["Content-Type: text/event-stream\r\nContent-Length: 2", "Content-Type: text/html"]
    {
        play(&app(ONE, ""), async |world| {
            let (mut client, mut upstream) = asked(world, GET).await;
            upstream.send(format!("HTTP/1.1 200 OK\r\n{kind}\r\n\r\n")).await;
            sleep(Duration::from_millis(20)).await;
            upstream.send("ok").await;
            drop(upstream);
            client.message().await;
            world.log_line().await;
            assert!(world.process.numbers.read().routes.iter().all(|own| own.streams.is_empty()));
        });
    }
}

#[test]
fn each_event_reaches_an_http_1_0_client_before_the_next_is_sent() {
    play(&app(ONE, ""), async |world| {
        let (mut client, mut upstream) = asked(world, "GET / HTTP/1.0\r\nHost: a\r\n\r\n").await;
        upstream.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").await;
        client.head().await;
        for event in ["data: 1\n\n", "data: 22\n\n"] {
            upstream.send(format!("{:x}\r\n{event}\r\n", event.len())).await;
            client.expect(event).await;
        }
        upstream.send("0\r\n\r\n").await;
        client.expect_closed().await;
    });
}

#[test]
fn part_of_a_chunk_reaches_the_client_before_the_rest_is_sent() {
    play(&app(ONE, ""), async |world| {
        let (mut client, mut upstream) = asked(world, GET).await;
        upstream.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\nhello").await;
        client.head().await;
        assert_eq!(client.chunk().await.as_deref(), Some("hello"));
        upstream.send("world\r\n0\r\n\r\n").await;
        assert_eq!(client.chunk().await.as_deref(), Some("world"));
        assert_eq!(client.chunk().await, None);
    });
}

#[test]
fn an_upload_reaches_the_origin_part_by_part() {
    play(&app(ONE, ""), async |world| {
        let origin = world.origin(1);
        let mut client = world.client().await;
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n").await;
        let mut upstream = origin.accept().await;
        assert_eq!(upstream.head().await.header("content-length"), Some("10"));
        for part in ["he", "llo", "world"] {
            client.send(part).await;
            upstream.expect(part).await;
        }
        upstream.send(OK).await;
        assert_eq!(client.message().await.status(), 200);
    });
}

#[test]
fn a_chunked_upload_reaches_the_origin_chunk_by_chunk() {
    play(&app(ONE, ""), async |world| {
        let origin = world.origin(1);
        let mut client = world.client().await;
        client
            .send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n")
            .await;
        let mut upstream = origin.accept().await;
        assert_eq!(upstream.head().await.header("transfer-encoding"), Some("chunked"));
        assert_eq!(upstream.chunk().await.as_deref(), Some("a"));
        client.send("2\r\nbc\r\n").await;
        assert_eq!(upstream.chunk().await.as_deref(), Some("bc"));
        client.send("0\r\n\r\n").await;
        assert_eq!((upstream.chunk().await, upstream.trailers().await.len()), (None, 0));
        upstream.send(OK).await;
        assert_eq!(client.message().await.status(), 200);
    });
}

#[test]
fn both_directions_stream_at_once() {
    play(&app(ONE, ""), async |world| {
        let origin = world.origin(1);
        let mut client = world.client().await;
        client
            .send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n")
            .await;
        let mut upstream = origin.accept().await;
        upstream.head().await;
        assert_eq!(upstream.chunk().await.as_deref(), Some("a"));
        upstream.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").await;
        client.head().await;
        for part in ["b", "cc", "ddd"] {
            client.send(format!("{:x}\r\n{part}\r\n", part.len())).await;
            assert_eq!(upstream.chunk().await.as_deref(), Some(part));
            upstream.send(format!("{:x}\r\n{part}\r\n", part.len())).await;
            assert_eq!(client.chunk().await.as_deref(), Some(part));
        }
        client.send("0\r\n\r\n").await;
        assert_eq!(upstream.chunk().await, None);
        upstream.trailers().await;
        upstream.send("0\r\n\r\n").await;
        assert_eq!(client.chunk().await, None);
        world.expect_logged("complete", Some(200)).await;
    });
}

#[test]
fn a_client_that_does_not_read_blocks_the_origin_and_loses_nothing() {
    play(&app("server 10.0.1.1:80;", "timeout send=1h;"), async |world| {
        let (mut client, mut upstream) = asked(world, GET).await;
        upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 5000000\r\n\r\n").await;
        let taken = upstream.send_what_fits(5_000_000).await;
        assert!(taken < 300_000, "{taken} bytes were taken from the origin");
        sleep(Duration::from_secs(30)).await;
        let ((), body) = tokio::join!(upstream.send("x".repeat(5_000_000 - taken)), async {
            client.head().await;
            client.exactly(5_000_000).await
        });
        assert!(body.iter().all(|byte| *byte == b'x'));
        world.expect_logged("complete", Some(200)).await;
    });
}

#[test]
fn an_origin_that_does_not_read_blocks_the_client_and_loses_nothing() {
    play(&app("server 10.0.1.1:80; timeout send=1h;", ""), async |world| {
        let origin = world.origin(1);
        let mut client = world.client().await;
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5000000\r\n\r\n").await;
        let mut upstream = origin.accept().await;
        let taken = client.send_what_fits(5_000_000).await;
        assert!(taken < 300_000, "{taken} bytes were taken from the client");
        sleep(Duration::from_secs(30)).await;
        let ((), body) = tokio::join!(client.send("x".repeat(5_000_000 - taken)), async {
            upstream.head().await;
            upstream.exactly(5_000_000).await
        });
        assert!(body.iter().all(|byte| *byte == b'x'));
        upstream.send(OK).await;
        assert_eq!(client.message().await.status(), 200);
    });
}

const BUFFERED: &str = "server 10.0.1.1:80; buffer_request 10b;";

#[test]
fn a_buffered_request_reaches_no_origin_before_it_is_complete() {
    let bodies = [
        ("Content-Length: 10", vec!["he", "llowor", "ld"]),
        ("Transfer-Encoding: chunked", vec!["5\r\nhel", "lo\r\n5\r\nworld\r\n", "0\r\n\r\n"]),
    ];
    for (framing, parts) in bodies {
        play(&app(BUFFERED, ""), async |world| {
            let origin = world.origin(1);
            let mut client = world.client().await;
            client.send(format!("POST / HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n")).await;
            for part in parts {
                origin.expect_no_connection().await;
                client.send(part).await;
            }
            let mut upstream = origin.accept().await;
            assert_eq!(upstream.message().await.text(), "helloworld");
            upstream.send(OK).await;
            assert_eq!(client.message().await.status(), 200);
            client.send(GET).await;
            upstream.message().await;
            upstream.send(OK).await;
            assert_eq!(client.message().await.status(), 200);
        });
    }
}

#[test]
fn a_buffered_request_that_is_too_large_gets_413_and_reaches_no_origin() {
    let bodies = [
        "Content-Length: 11\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\n6\r\nhello \r\n5\r\nworld\r\n",
    ];
    for rest in bodies {
        play(&app(BUFFERED, ""), async |world| {
            let origin = world.origin(1);
            let mut client = world.client().await;
            client.send(format!("POST / HTTP/1.1\r\nHost: a\r\n{rest}")).await;
            let response = client.message().await;
            assert_eq!((response.status(), response.header("connection")), (413, Some("close")));
            client.expect_closed().await;
            origin.expect_no_connection().await;
            world.expect_logged("body_too_large", Some(413)).await;
        });
    }
}

#[test]
fn a_body_over_the_listeners_limit_gets_413() {
    play(&app(ONE, "limits body=10b;"), async |world| {
        let origin = world.origin(1);
        let mut client = world.client().await;
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\nhello").await;
        assert_eq!(client.message().await.status(), 413);
        origin.expect_no_connection().await;
        world.expect_logged("body_too_large", Some(413)).await;
        let mut client = world.client().await;
        client
            .send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nhello \r\n")
            .await;
        let mut upstream = origin.accept().await;
        upstream.head().await;
        client.send("5\r\nworld\r\n").await;
        assert_eq!(client.message().await.status(), 413);
        let (body, _) = upstream.rest().await;
        assert_eq!(String::from_utf8(body).unwrap(), "6\r\nhello \r\n", "the origin sees no end");
        world.expect_logged("body_too_large", Some(413)).await;
    });
}

#[test]
fn a_slow_sender_holds_a_slot_only_while_it_streams() {
    for (pool, held) in [
        ("server 10.0.1.1:80 max_conn=1; buffer_request 1m;", 0),
        ("server 10.0.1.1:80 max_conn=1;", 1),
    ] {
        play(&app(pool, ""), async |world| {
            let _origin = world.origin(1);
            let mut client = world.client().await;
            client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello").await;
            sleep(Duration::from_secs(1)).await;
            assert_eq!(world.in_flight(), held);
        });
    }
}
