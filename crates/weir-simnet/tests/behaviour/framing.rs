//! Message framing on both sides: lengths, chunks, closes, pipelining, HTTP/1.0, and early
//! responses.

use std::time::Duration;

use crate::peer::{End, Message, Peer};
use crate::world::{World, app, play};
use crate::{GET, OK};

const ONE: &str = "server 10.0.1.1:80;";

/// Runs an exchange and returns the client's connection, the origin's connection, and the request
/// as the origin received it.
async fn answered(world: &World, request: &str, response: &str) -> (Peer, Peer, Message) {
    let origin = world.origin(1);
    let mut client = world.client().await;
    client.send(request).await;
    let mut upstream = origin.accept().await;
    let seen = upstream.message().await;
    upstream.send(response).await;
    (client, upstream, seen)
}

/// Checks that the connections of the client and of the origin carry another request.
async fn both_go_on(client: &mut Peer, upstream: &mut Peer) {
    client.send("GET /next HTTP/1.1\r\nHost: a\r\n\r\n").await;
    assert_eq!(upstream.message().await.first, "GET /next HTTP/1.1");
    upstream.send(OK).await;
    assert_eq!(client.message().await.text(), "ok");
}

#[test]
fn the_response_to_head_has_no_body_and_keeps_its_length() {
    for (framing, length) in [
        ("Content-Length: 1234", Some("1234")),
        ("Transfer-Encoding: chunked", None),
        ("X: y", None),
    ] {
        play(&app(ONE, ""), async |world| {
            let response = format!("HTTP/1.1 200 OK\r\n{framing}\r\n\r\n");
            let (mut client, mut upstream, _) =
                answered(world, "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n", &response).await;
            assert_eq!(client.head().await.header("content-length"), length);
            both_go_on(&mut client, &mut upstream).await;
        });
    }
}

#[test]
fn responses_without_a_body_get_none() {
    for response in [
        "HTTP/1.1 204 No Content\r\n\r\n",
        "HTTP/1.1 304 Not Modified\r\nETag: \"1\"\r\n\r\n",
        "HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    ] {
        play(&app(ONE, ""), async |world| {
            let (mut client, mut upstream, _) = answered(world, GET, response).await;
            let head = client.head().await;
            assert_eq!(head.first, response.split("\r\n").next().unwrap());
            if head.status() == 204 {
                assert_eq!(
                    (head.header("content-length"), head.header("transfer-encoding")),
                    (None, None)
                );
            }
            both_go_on(&mut client, &mut upstream).await;
        });
    }
}

#[test]
fn a_body_until_close_is_chunked_for_http_1_1_and_ends_with_a_close_for_http_1_0() {
    let response = "HTTP/1.1 200 OK\r\n\r\nhello";
    play(&app(ONE, ""), async |world| {
        let (mut client, upstream, _) = answered(world, GET, response).await;
        drop(upstream);
        let message = client.message().await;
        assert_eq!(
            (message.header("transfer-encoding"), message.text()),
            (Some("chunked"), "hello")
        );
        assert!(client.is_open().await);
    });
    play(&app(ONE, ""), async |world| {
        let request = "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n";
        let (mut client, upstream, _) = answered(world, request, response).await;
        drop(upstream);
        let message = client.message().await;
        assert_eq!(
            (message.header("transfer-encoding"), message.header("connection")),
            (None, Some("close"))
        );
        assert_eq!(message.text(), "hello");
    });
}

#[test]
fn a_chunked_body_ends_with_a_close_for_http_1_0() {
    play(&app(ONE, ""), async |world| {
        let response =
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
        let (mut client, _upstream, seen) =
            answered(world, "GET / HTTP/1.0\r\n\r\n", response).await;
        assert_eq!(
            seen.first, "GET / HTTP/1.1",
            "the request to the origin has Weir's own version"
        );
        let message = client.message().await;
        assert_eq!((message.header("transfer-encoding"), message.text()), (None, "hello"));
    });
}

#[test]
fn an_http_1_0_client_may_keep_its_connection() {
    play(&app(ONE, ""), async |world| {
        let request = "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n";
        let (mut client, mut upstream, _) = answered(world, request, OK).await;
        assert_eq!(client.message().await.header("connection"), Some("keep-alive"));
        client.send("GET / HTTP/1.0\r\n\r\n").await;
        upstream.message().await;
        upstream.send(OK).await;
        assert_eq!(client.message().await.header("connection"), Some("close"));
        client.expect_closed().await;
    });
}

#[test]
fn a_request_with_connection_close_ends_its_connection() {
    play(&app(ONE, ""), async |world| {
        let request = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        let (mut client, mut upstream, seen) = answered(world, request, OK).await;
        assert_eq!(
            seen.header("connection"),
            None,
            "the header concerns the client's connection only"
        );
        assert_eq!(client.message().await.header("connection"), Some("close"));
        client.expect_closed().await;
        assert!(upstream.is_open().await);
    });
}

#[test]
fn an_origin_that_closes_does_not_end_the_clients_connection() {
    play(&app(ONE, ""), async |world| {
        let response = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok";
        let (mut client, upstream, _) = answered(world, GET, response).await;
        drop(upstream);
        assert_eq!(client.message().await.header("connection"), None);
        assert!(client.is_open().await);
    });
}

#[test]
fn trailers_are_forwarded_and_chunk_extensions_are_not() {
    play(&app(ONE, ""), async |world| {
        let body = "5;a=b\r\nhello\r\n0;c\r\nX-Sum: 1\r\nX-More: 2\r\n\r\n";
        let request = format!(
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTE: trailers\r\nTrailer: X-Sum\r\n\r\n{body}"
        );
        let response = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{body}");
        let (mut client, mut upstream, seen) = answered(world, &request, &response).await;
        let received = client.message().await;
        for message in [&seen, &received] {
            assert_eq!(message.text(), "hello");
            assert_eq!(message.trailers, ["X-Sum: 1", "X-More: 2"]);
        }
        assert_eq!(seen.header("trailer"), Some("X-Sum"));
        both_go_on(&mut client, &mut upstream).await;
    });
}

#[test]
fn pipelined_requests_are_answered_in_their_order() {
    play(&app(ONE, ""), async |world| {
        let origin = world.origin(1);
        let mut client = world.client().await;
        client
            .send(
                "GET /1 HTTP/1.1\r\nHost: a\r\n\r\nPOST /2 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc\
                 POST /3 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nd\r\n0\r\n\r\n\
                 GET /4 HTTP/1.1\r\nHost: a\r\n\r\n",
            )
            .await;
        let mut upstream = origin.accept().await;
        for (number, body) in [(1, ""), (2, "abc"), (3, "d"), (4, "")] {
            let request = upstream.message().await;
            assert!(request.first.contains(&format!(" /{number} ")), "{}", request.first);
            assert_eq!(request.text(), body);
            assert!(upstream.is_open().await, "the next request waits for the answer");
            upstream.send(format!("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{number}")).await;
        }
        for number in ["1", "2", "3", "4"] {
            assert_eq!(client.message().await.text(), number);
        }
        assert!(world.log().await.iter().all(|line| line.text("cause") == "complete"));
    });
}

#[test]
fn a_hundred_pipelined_requests_that_fill_every_buffer_are_all_answered() {
    play(&app(ONE, ""), async |world| {
        let seen = world.origin(1).answers(OK);
        let mut client = world.client().await;
        let filler = "y".repeat(3_000);
        for number in 0..100 {
            client.send(format!("GET /{number} HTTP/1.1\r\nHost: a\r\nX: {filler}\r\n\r\n")).await;
        }
        for _ in 0..100 {
            assert_eq!(client.message().await.text(), "ok");
        }
        for (number, request) in seen.borrow().requests.iter().enumerate() {
            assert_eq!(request.first, format!("GET /{number} HTTP/1.1"));
        }
    });
}

#[test]
fn empty_lines_between_requests_are_ignored() {
    play(&app(ONE, ""), async |world| {
        world.origin(1).answers(OK);
        let mut client = world.client().await;
        client.send(format!("{GET}\r\n{GET}")).await;
        assert_eq!((client.message().await.status(), client.message().await.status()), (200, 200));
    });
}

#[test]
fn a_request_may_arrive_byte_by_byte() {
    play(&app(ONE, ""), async |world| {
        let origin = world.origin(1);
        let mut client = world.client().await;
        let request = "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5;e\r\nhello\r\n0\r\nT: u\r\n\r\n";
        let drip = async {
            for byte in request.as_bytes() {
                client.send([*byte]).await;
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let ((), mut upstream) = tokio::join!(drip, origin.accept());
        let seen = upstream.message().await;
        assert_eq!((seen.text(), &seen.trailers[..]), ("hello", &["T: u".to_owned()][..]));
        for byte in OK.as_bytes() {
            upstream.send([*byte]).await;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(client.message().await.text(), "ok");
        both_go_on(&mut client, &mut upstream).await;
    });
}

#[test]
fn an_early_response_reaches_the_client_and_ends_both_connections() {
    play(&app(ONE, ""), async |world| {
        let origin = world.origin(1);
        let mut client = world.client().await;
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n").await;
        client.send("x".repeat(1_000)).await;
        let mut upstream = origin.accept().await;
        upstream.head().await;
        upstream.send("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno").await;
        let response = client.message().await;
        assert_eq!((response.status(), response.header("connection")), (403, Some("close")));
        assert_eq!(response.text(), "no");
        client.send("x".repeat(100_000)).await;
        client.expect_closed().await;
        drop(client);
        assert_eq!(upstream.exactly(1_000).await.len(), 1_000);
        upstream.rest().await;
        world.expect_logged("complete", Some(403)).await;
    });
}

#[test]
fn an_early_response_reaches_the_client_when_the_origin_closes_at_once() {
    play(&app(ONE, ""), async |world| {
        let origin = world.origin(1);
        let mut client = world.client().await;
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n").await;
        client.send("x".repeat(1_000)).await;
        let mut upstream = origin.accept().await;
        upstream.head().await;
        upstream.exactly(1_000).await;
        upstream
            .send("HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno")
            .await;
        drop(upstream);
        client.send("x".repeat(100_000)).await;
        let response = client.message().await;
        assert_eq!((response.status(), response.text()), (413, "no"));
        client.expect_closed().await;
    });
}

#[test]
fn a_client_that_continues_to_send_after_a_refusal_still_receives_it() {
    play(&app(ONE, "limits body=10b;"), async |world| {
        let mut client = world.client().await;
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n").await;
        client.send("x".repeat(100_000)).await;
        assert_eq!(client.message().await.status(), 413);
        client.expect_closed().await;
    });
}

#[test]
fn a_client_that_half_closes_after_its_request_counts_as_gone() {
    play(&app(ONE, ""), async |world| {
        let origin = world.origin(1);
        let mut client = world.client().await;
        client.send(GET).await;
        let mut upstream = origin.accept().await;
        upstream.message().await;
        client.finish().await;
        assert_eq!(upstream.rest().await.1, End::Closed);
    });
}

#[test]
fn connect_is_refused_and_reaches_no_origin() {
    play(&app(ONE, ""), async |world| {
        let origin = world.origin(1);
        let mut client = world.client().await;
        client.send("CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example:443\r\n\r\n").await;
        assert_eq!(client.message().await.status(), 405);
        origin.expect_no_connection().await;
    });
}

#[test]
fn an_absolute_target_is_forwarded_as_a_path() {
    play(&app(ONE, ""), async |world| {
        let request = "GET http://b.example/x?y HTTP/1.1\r\nHost: b.example\r\n\r\n";
        let (mut client, _upstream, seen) = answered(world, request, OK).await;
        assert_eq!(
            (seen.first.as_str(), seen.header("host")),
            ("GET /x?y HTTP/1.1", Some("b.example"))
        );
        assert_eq!(client.message().await.status(), 200);
    });
}

#[test]
fn a_connection_serves_as_many_requests_as_the_listener_allows() {
    play(&app(ONE, "limits requests=2;"), async |world| {
        world.origin(1).answers(OK);
        let mut client = world.client().await;
        client.send([GET, GET, GET].concat()).await;
        assert_eq!(client.message().await.header("connection"), None);
        assert_eq!(client.message().await.header("connection"), Some("close"));
        client.expect_closed().await;
        assert_eq!(world.log().await.len(), 2);
    });
}

#[test]
fn a_body_that_head_or_304_must_not_have_is_not_taken_for_the_next_response() {
    let head = "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n";
    for (request, first, rest) in [
        (
            head,
            "HTTP/1.1 200 OK\r\nContent-Length: 38\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
            "",
        ),
        (
            head,
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        ),
        (GET, "HTTP/1.1 304 Not Modified\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
        (GET, OK, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
    ] {
        play(&app(ONE, ""), async |world| {
            let origin = world.origin(1);
            let mut client = world.client().await;
            client.send(request).await;
            let mut upstream = origin.accept().await;
            upstream.message().await;
            upstream.send(first).await;
            let response = client.head().await;
            if response.header("content-length").is_some() && request == GET {
                client.expect("ok").await;
            }
            upstream.send(rest).await;
            client.send("GET /next HTTP/1.1\r\nHost: a\r\n\r\n").await;
            let mut upstream = origin.accept().await;
            assert_eq!(upstream.message().await.first, "GET /next HTTP/1.1");
            upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nnext").await;
            assert_eq!(client.message().await.text(), "next");
        });
    }
}

#[test]
fn every_forwarded_request_has_a_host() {
    for (request, host) in [
        ("GET / HTTP/1.0\r\n\r\n", None),
        ("GET / HTTP/1.0\r\nHost: b\r\n\r\n", Some("b")),
        ("GET http://b:81/ HTTP/1.1\r\nHost: c\r\n\r\n", Some("b:81")),
        ("GET http://b/ HTTP/1.0\r\n\r\n", Some("b")),
    ] {
        play(&app(ONE, ""), async |world| {
            let (mut client, _upstream, seen) = answered(world, request, OK).await;
            let told = seen.header("host");
            assert!(told.is_some(), "{}", seen.raw_head);
            assert!(host.is_none() || told == host, "{}", seen.raw_head);
            assert_eq!(client.message().await.status(), 200);
        });
    }
}

#[test]
fn options_with_an_asterisk_is_forwarded() {
    play(&app(ONE, ""), async |world| {
        let (mut client, _upstream, seen) =
            answered(world, "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", OK).await;
        assert_eq!(seen.first, "OPTIONS * HTTP/1.1");
        assert_eq!(client.message().await.status(), 200);
    });
}

#[test]
fn a_large_request_head_is_forwarded_whole() {
    play(&app(ONE, ""), async |world| {
        let value = "y".repeat(30_000);
        let request = format!("GET / HTTP/1.1\r\nHost: a\r\nX: {value}\r\n\r\n");
        let (mut client, mut upstream, seen) = answered(world, &request, OK).await;
        assert_eq!(seen.header("x"), Some(value.as_str()));
        assert_eq!(client.message().await.status(), 200);
        both_go_on(&mut client, &mut upstream).await;
    });
}

#[test]
fn requests_that_arrive_during_a_long_response_are_served_after_it() {
    play(&app(ONE, ""), async |world| {
        let response = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n";
        let (mut client, mut upstream, _) = answered(world, GET, response).await;
        client.head().await;
        assert_eq!(client.chunk().await.as_deref(), Some("a"));
        let filler = "y".repeat(8_000);
        for number in 0..6 {
            client.send(format!("GET /{number} HTTP/1.1\r\nHost: a\r\nX: {filler}\r\n\r\n")).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
            upstream.send("1\r\nb\r\n").await;
            assert_eq!(client.chunk().await.as_deref(), Some("b"));
        }
        upstream.send("0\r\n\r\n").await;
        assert_eq!(client.chunk().await, None);
        client.trailers().await;
        for number in 0..6 {
            assert_eq!(upstream.message().await.first, format!("GET /{number} HTTP/1.1"));
            upstream.send(OK).await;
            assert_eq!(client.message().await.text(), "ok");
        }
    });
}

#[test]
fn the_refusal_of_a_head_request_has_no_body() {
    play("listen 10.0.0.1:80 { route path /x -> respond 200 x; }", async |world| {
        let mut client = world.client().await;
        client.send("HEAD / HTTP/1.1\r\nHost: a\r\n\r\nGET /x HTTP/1.1\r\nHost: a\r\n\r\n").await;
        assert_eq!(client.head().await.status(), 404);
        assert_eq!(client.message().await.text(), "x");
    });
}
