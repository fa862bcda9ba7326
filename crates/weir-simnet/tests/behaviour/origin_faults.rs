//! Origins that close too early or send bytes that are not HTTP: the client gets an error, and that
//! connection is not reused.

use crate::GET;
use crate::OK;
use crate::peer::{End, Peer};
use crate::world::{World, app, play};

const ONE: &str = "server 10.0.1.1:80;";

async fn asked(world: &World) -> (Peer, Peer, crate::origin::Origin) {
    let origin = world.origin(1);
    let mut client = world.client().await;
    client.send(GET).await;
    let mut upstream = origin.accept().await;
    upstream.message().await;
    (client, upstream, origin)
}

#[test]
fn a_truncated_body_is_truncated_for_the_client_too() {
    let cuts = [
        "Content-Length: 100\r\n\r\nhello",
        "Transfer-Encoding: chunked\r\n\r\n64\r\nhello",
        "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n",
        "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX: y\r\n",
    ];
    for rest in cuts {
        play(&app(ONE, ""), async |world| {
            let (mut client, mut upstream, _origin) = asked(world).await;
            upstream.send(format!("HTTP/1.1 200 OK\r\n{rest}")).await;
            let head = client.head().await;
            drop(upstream);
            let (body, _) = client.rest().await;
            let body = String::from_utf8(body).unwrap();
            assert!(body.contains("hello") && !body.contains("0\r\n\r\n"), "{rest:?}: {body:?}");
            assert!(head.header("content-length") != Some("5"));
            world.expect_logged("upstream_aborted", Some(200)).await;
        });
    }
}

#[test]
fn a_broken_chunk_after_the_head_breaks_the_body() {
    for rest in ["g\r\n", "5\r\nhelloX", "-1\r\n", "5 \r\n", "1\nx", "ffffffffffffffffff\r\n"] {
        play(&app(ONE, ""), async |world| {
            let (mut client, mut upstream, _origin) = asked(world).await;
            upstream
                .send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
                .await;
            client.head().await;
            assert_eq!(client.chunk().await.as_deref(), Some("abc"));
            upstream.send(rest).await;
            let (body, _) = client.rest().await;
            assert!(!String::from_utf8(body).unwrap().contains("0\r\n\r\n"), "{rest:?}");
            upstream.expect_end().await;
            world.expect_logged("bad_response", Some(200)).await;
        });
    }
}

#[test]
fn a_response_that_is_not_http_gets_502_and_its_connection_is_closed() {
    let responses = [
        "garbage\r\n\r\n",
        "HTTP/2.0 200 OK\r\n\r\n",
        "HTTP/1.1 20 OK\r\n\r\n",
        "HTTP/1.1 200 OK\nContent-Length: 0\n\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\nX: y\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX: a\0b\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\n: x\r\nContent-Length: 0\r\n\r\n",
    ];
    for response in responses {
        play(&app(ONE, ""), async |world| {
            let (mut client, mut upstream, origin) = asked(world).await;
            upstream.send(response).await;
            assert_eq!(client.message().await.status(), 502, "{response:?}");
            let (rest, _) = upstream.rest().await;
            assert!(rest.is_empty());
            world.expect_logged("bad_response", Some(502)).await;
            client.send(GET).await;
            let mut upstream = origin.accept().await;
            upstream.message().await;
            upstream.send(OK).await;
            assert_eq!(client.message().await.status(), 200);
        });
    }
}

#[test]
fn a_response_head_that_is_too_large_gets_502() {
    let large = [format!("X: {}", "y".repeat(70_000)), "X: y\r\n".repeat(300) + "\r\n"];
    for lines in large {
        play(&app(ONE, ""), async |world| {
            let (mut client, mut upstream, _origin) = asked(world).await;
            upstream.send(format!("HTTP/1.1 200 OK\r\n{lines}")).await;
            assert_eq!(client.message().await.status(), 502);
            upstream.rest().await;
            world.expect_logged("bad_response", Some(502)).await;
        });
    }
}

#[test]
fn a_large_response_head_is_forwarded_whole() {
    play(&app(ONE, ""), async |world| {
        let (mut client, mut upstream, _origin) = asked(world).await;
        let value = "y".repeat(60_000);
        upstream
            .send(format!("HTTP/1.1 200 OK\r\nX: {value}\r\nContent-Length: 2\r\n\r\nok"))
            .await;
        let response = client.message().await;
        assert_eq!((response.header("x"), response.text()), (Some(value.as_str()), "ok"));
    });
}

#[test]
fn an_origin_that_closes_inside_its_head_gets_502() {
    play(&app(ONE, ""), async |world| {
        let (mut client, mut upstream, _origin) = asked(world).await;
        upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n").await;
        drop(upstream);
        assert_eq!(client.message().await.status(), 502);
        world.expect_logged("upstream_reset", Some(502)).await;
    });
}

#[test]
fn a_body_that_breaks_with_its_first_bytes_is_a_502_or_a_broken_body_but_never_a_whole_one() {
    play(&app(ONE, ""), async |world| {
        let (mut client, mut upstream, _origin) = asked(world).await;
        upstream.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n").await;
        let head = client.head().await;
        let (body, end) = client.rest().await;
        let text = String::from_utf8(body).unwrap();
        assert!(head.status() == 502 || !text.contains("0\r\n\r\n"), "{head:?} {text:?} {end:?}");
        assert!(matches!(end, End::Closed | End::Reset));
        upstream.expect_end().await;
        assert_eq!(world.log_line().await.text("cause"), "bad_response");
    });
}
