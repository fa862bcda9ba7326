//! The byte counts of the log: bytes received and sent are those on the wire, heads and framing
//! included.

use crate::GET;
use crate::access_log::Line;
use crate::world::{World, app, play};

const ONE: &str = "server 10.0.1.1:80;";

/// Returns the log's byte counts: received, sent, body sent.
fn bytes(line: &Line) -> [u64; 3] {
    ["bytes_received", "bytes_sent", "body_bytes_sent"].map(|name| line.number(name).unwrap())
}

/// Runs an exchange and returns the number of bytes that the client received, and the log line.
async fn exchanged(world: &World, request: &str, response: &str) -> (u64, Line) {
    let origin = world.origin(1);
    let mut client = world.client().await;
    client.send(request).await;
    let mut upstream = origin.accept().await;
    upstream.message().await;
    upstream.send(response).await;
    drop(upstream);
    let line = world.log_line().await;
    (client.waiting().await, line)
}

#[test]
fn bytes_are_counted_as_they_are_on_the_wire() {
    let chunked =
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
    let cases = [
        (GET, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", GET.len(), 5),
        (GET, "HTTP/1.1 204 No Content\r\n\r\n", GET.len(), 0),
        (
            GET,
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
            GET.len(),
            3,
        ),
        (GET, "HTTP/1.1 200 OK\r\n\r\nabcd", GET.len(), 4),
        (
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi",
            "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
            49,
            0,
        ),
        (
            chunked,
            "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
            chunked.len() - "5\r\n\r\n0\r\n\r\n".len(),
            0,
        ),
    ];
    for (request, response, received, body) in cases {
        play(&app(ONE, ""), async |world| {
            let (arrived, line) = exchanged(world, request, response).await;
            assert_eq!(bytes(&line), [received as u64, arrived, body], "{request:?} {response:?}");
        });
    }
}

#[test]
fn the_bytes_of_a_failed_upload_are_counted() {
    let request = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabcdef";
    let head = request.len() as u64 - 6;
    play(&app(ONE, "timeout body=3s;"), async |world| {
        let _origin = world.origin(1);
        let mut client = world.client().await;
        client.send(request).await;
        assert_eq!(client.message().await.status(), 408);
        assert_eq!(bytes(&world.log_line().await)[0], head + 6);
        let mut client = world.client().await;
        client.send(request).await;
        drop(client);
        assert_eq!(bytes(&world.log_line().await)[0], head + 6);
    });
}

#[test]
fn the_bytes_of_a_body_that_no_server_received_are_counted() {
    let cases = [
        // No server to connect to: with the whole body, a part of it, a chunked one.
        ("", "Content-Length: 6\r\n\r\nabcdef", "connect_failed", 6),
        ("", "Content-Length: 9\r\n\r\nabcdef", "connect_failed", 6),
        ("", "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", "connect_failed", 3),
        ("buffer_request 1k;", "Content-Length: 6\r\n\r\nabcdef", "connect_failed", 6),
        // The body is buffered before a server is picked, and it does not arrive.
        ("buffer_request 1k;", "Content-Length: 9\r\n\r\nabcdef", "body_timeout", 6),
        ("buffer_request 4b;", "Content-Length: 5\r\n\r\nabcde", "body_too_large", 5),
    ];
    for (pool, rest, cause, body) in cases {
        play(&app(&format!("{ONE} {pool}"), "timeout body=3s;"), async |world| {
            let mut client = world.client().await;
            let start = "POST / HTTP/1.1\r\nHost: a\r\n";
            client.send(format!("{start}{rest}")).await;
            client.message().await;
            let line = world.log_line().await;
            let head = start.len() + rest.find("\r\n\r\n").unwrap() + 4;
            assert_eq!(line.text("cause"), cause, "{pool} {rest:?}");
            assert_eq!(bytes(&line)[0], (head + body) as u64, "{pool} {rest:?}");
        });
    }
}

#[test]
fn a_truncated_response_is_counted_up_to_where_it_ended() {
    play(&app(ONE, ""), async |world| {
        let (arrived, line) =
            exchanged(world, GET, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello").await;
        assert_eq!(line.text("cause"), "upstream_aborted");
        assert_eq!(bytes(&line), [GET.len() as u64, arrived, 5]);
    });
}

#[test]
fn the_bytes_of_local_replies_are_counted() {
    play("listen 10.0.0.1:80 { route path / -> respond 200 hello; }", async |world| {
        let mut client = world.client().await;
        for (request, body) in [
            (GET, Some(5)),
            ("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n", Some(0)),
            ("GET /x HTTP/1.1\r\nHost: a\r\n\r\n", None),
        ] {
            client.send(request).await;
            let line = world.log_line().await;
            let [received, sent, body_sent] = bytes(&line);
            assert_eq!((received, sent), (request.len() as u64, client.waiting().await));
            assert!(body.is_none_or(|body| body == body_sent), "{line:?}");
        }
    });
}

#[test]
fn the_bytes_of_a_tunnel_are_counted() {
    play(&app(ONE, ""), async |world| {
        let origin = world.origin(1);
        let mut client = world.client().await;
        let request =
            "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
        client.send(format!("{request}early")).await;
        let mut upstream = origin.accept().await;
        upstream.head().await;
        upstream
            .send("HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\nwelcome")
            .await;
        upstream.expect("early").await;
        client.send("more").await;
        upstream.expect("more").await;
        client.finish().await;
        drop(upstream);
        let line = world.log_line().await;
        assert_eq!(bytes(&line), [request.len() as u64 + 9, client.waiting().await, 7]);
    });
}
