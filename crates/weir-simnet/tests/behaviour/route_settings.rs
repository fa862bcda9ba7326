//! A route's own timeouts, retries and buffering: they hold for its requests, and the pool's for
//! all others, at the same servers.

use std::time::Duration;

use tokio::time::Instant;

use crate::OK;
use crate::world::{World, app, play};

const TWO: &str = "server 10.0.1.1:80; server 10.0.1.2:80;";

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")
}

/// A route for `/own` with these lines, before one for all other paths.
fn own(pool: &str, lines: &str) -> String {
    app(pool, &format!("route path /own -> app {{ {lines} }}"))
}

/// Sends a request that is not answered, and returns the time after which the client gets the 504.
async fn unanswered(world: &World, path: &str) -> Duration {
    let origin = world.origin(1);
    let mut client = world.client().await;
    client.send(get(path)).await;
    let mut upstream = origin.accept().await;
    upstream.message().await;
    let began = Instant::now();
    assert_eq!(client.message().await.status(), 504);
    let took = began.elapsed();
    upstream.expect_end().await;
    let lines = world.log().await;
    assert_eq!(lines.last().unwrap().text("cause"), "response_timeout");
    took
}

#[test]
fn a_response_is_awaited_for_as_long_as_its_route_says() {
    let text = own("server 10.0.1.1:80; timeout response=3s;", "timeout response=9s;");
    play(&text, async |world| {
        assert_eq!(unanswered(world, "/own").await, Duration::from_secs(9));
        assert_eq!(unanswered(world, "/").await, Duration::from_secs(3));
    });
}

#[test]
fn a_timeout_that_the_route_does_not_set_follows_the_pool_s_over_a_reload() {
    let text = |wait: &str| {
        own(&format!("server 10.0.1.1:80; timeout response={wait};"), "timeout read=1h;")
    };
    play(&text("3s"), async |world| {
        assert_eq!(unanswered(world, "/own").await, Duration::from_secs(3));
        world.reload(&text("5s")).await;
        assert_eq!(unanswered(world, "/own").await, Duration::from_secs(5));
    });
}

#[test]
fn a_body_and_a_tunnel_may_be_silent_for_as_long_as_the_route_says() {
    let text = own(
        "server 10.0.1.1:80; timeout read=3s tunnel=3s;",
        "timeout read=9s tunnel=8s; upgrade websocket;",
    );
    play(&text, async |world| {
        let origin = world.origin(1);
        let mut client = world.client().await;
        client.send(get("/own")).await;
        let mut upstream = origin.accept().await;
        upstream.message().await;
        upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc").await;
        let began = Instant::now();
        client.rest().await;
        assert_eq!(began.elapsed(), Duration::from_secs(9));
        drop(upstream);

        let mut client = world.client().await;
        let switch = "Connection: upgrade\r\nUpgrade: websocket\r\n\r\n";
        client.send(format!("GET /own HTTP/1.1\r\nHost: a\r\n{switch}")).await;
        let mut upstream = origin.accept().await;
        upstream.head().await;
        upstream.send(format!("HTTP/1.1 101 Switching Protocols\r\n{switch}")).await;
        client.head().await;
        let began = Instant::now();
        client.rest().await;
        assert_eq!(began.elapsed(), Duration::from_secs(8));
    });
}

#[test]
fn a_request_is_retried_as_its_route_says() {
    const BUSY: &str = "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n";
    let text = own(&format!("{TWO} retry off;"), "retry 1 on=503;");
    play(&text, async |world| {
        world.origin(1).answers(BUSY);
        world.origin(2).answers(OK);
        for (path, statuses) in [("/own", [200, 200]), ("/", [503, 200])] {
            let mut got = Vec::new();
            for _ in 0..2 {
                let mut client = world.client().await;
                client.send(get(path)).await;
                got.push(client.message().await.status());
            }
            got.sort_unstable_by(|one, other| other.cmp(one));
            assert_eq!(got, statuses, "{path}");
        }
        world.log().await;
    });
}

#[test]
fn a_request_is_read_whole_as_its_route_says() {
    let head = |path: &str| format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\n");
    for (pool, lines, whole) in [
        ("server 10.0.1.1:80;", "buffer_request 1m;", "/own"),
        ("server 10.0.1.1:80; buffer_request 1m;", "buffer_request off;", "/"),
    ] {
        play(&own(pool, lines), async |world| {
            for path in ["/own", "/"] {
                let origin = world.origin(1);
                let mut client = world.client().await;
                client.send(head(path) + "abc").await;
                if path == whole {
                    origin.expect_no_connection().await;
                    client.send("def").await;
                }
                let mut upstream = origin.accept().await;
                upstream.head().await;
                if path == whole {
                    upstream.expect("abcdef").await;
                } else {
                    upstream.expect("abc").await;
                    client.send("def").await;
                    upstream.expect("def").await;
                }
                upstream.send(OK).await;
                assert_eq!(client.message().await.status(), 200);
            }
            world.log().await;
        });
    }
}

#[test]
fn a_body_is_bounded_as_its_route_says() {
    let text =
        own("server 10.0.1.1:80;", "limits body=2b;").replace("route", "limits body=8b; route");
    play(&text, async |world| {
        let post = |path: &str, body: &str| {
            let head = format!("POST {path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked");
            format!("{head}\r\n\r\n{body}\r\n0\r\n\r\n")
        };
        let origin = world.origin(1);
        let mut client = world.client().await;
        client.send(post("/own", "3\r\nabc")).await;
        assert_eq!(client.message().await.status(), 413);
        origin.expect_no_connection().await;
        for (path, body) in [("/own", "2\r\nab"), ("/", "8\r\nabcdefgh")] {
            let mut client = world.client().await;
            client.send(post(path, body)).await;
            let mut upstream = origin.accept().await;
            assert_eq!(upstream.message().await.text().len(), body.len() - 3);
        }
    });
}
