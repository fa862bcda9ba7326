//! `Expect: 100-continue`, interim responses, and `Upgrade`.

use std::time::Duration;

use crate::peer::{End, Peer};
use crate::world::{World, app, play};
use crate::{GET, OK};

const ONE: &str = "server 10.0.1.1:80;";
const EXPECTING: &str =
    "PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n";

#[test]
fn a_client_that_expects_100_gets_it_from_weir_at_once() {
    for pool in [ONE, "server 10.0.1.1:80; buffer_request 1m;"] {
        play(&app(pool, ""), async |world| {
            let origin = world.origin(1);
            let mut client = world.client().await;
            client.send(EXPECTING).await;
            assert_eq!(client.head().await.first, "HTTP/1.1 100 Continue");
            client.send("hello").await;
            let mut upstream = origin.accept().await;
            let request = upstream.message().await;
            assert_eq!((request.header("expect"), request.text()), (None, "hello"));
            upstream.send(OK).await;
            assert_eq!(client.message().await.status(), 200);
        });
    }
}

#[test]
fn a_100_of_the_origin_is_not_forwarded_a_second_time() {
    play(&app(ONE, ""), async |world| {
        let origin = world.origin(1);
        let mut client = world.client().await;
        client.send(EXPECTING).await;
        client.head().await;
        client.send("hello").await;
        let mut upstream = origin.accept().await;
        upstream.message().await;
        upstream.send(format!("HTTP/1.1 100 Continue\r\n\r\n{OK}")).await;
        assert_eq!(client.message().await.status(), 200);
    });
}

#[test]
fn a_client_that_does_not_wait_for_its_100_is_served() {
    play(&app(ONE, ""), async |world| {
        world.origin(1).answers(OK);
        let mut client = world.client().await;
        client.send(format!("{EXPECTING}hello")).await;
        let mut response = client.message().await;
        if response.status() == 100 {
            response = client.message().await;
        }
        assert_eq!(response.status(), 200);
        client.send(GET).await;
        assert_eq!(client.message().await.status(), 200);
    });
}

#[test]
fn a_refused_request_gets_no_100() {
    let refusals = [
        (app(ONE, "limits body=4b;"), 413),
        (app(ONE, "limits body=9b; route -> respond 200 { limits body=4b; }"), 413),
        (app(ONE, "limits body=9b; route -> app { limits body=4b; deny all; }"), 413),
        (app(ONE, "deny all;"), 403),
        (app("server 10.0.1.1:80; buffer_request 4b;", ""), 413),
        ("listen 10.0.0.1:80 { route path /x -> respond 200; }".to_owned(), 404),
    ];
    for (text, status) in refusals {
        play(&text, async |world| {
            let mut client = world.client().await;
            client.send(EXPECTING).await;
            let response = client.message().await;
            assert_eq!((response.status(), response.header("connection")), (status, Some("close")));
            client.expect_closed().await;
        });
    }
}

#[test]
fn an_unknown_expectation_gets_417() {
    play(&app(ONE, ""), async |world| {
        let mut client = world.client().await;
        client.send("PUT / HTTP/1.1\r\nHost: a\r\nExpect: cake\r\nContent-Length: 5\r\n\r\n").await;
        assert_eq!(client.message().await.status(), 417);
    });
}

#[test]
fn early_hints_reach_http_1_1_clients_before_the_response_and_http_1_0_clients_never() {
    for (version, interim) in [("1.1", true), ("1.0", false)] {
        play(&app(ONE, ""), async |world| {
            let origin = world.origin(1);
            let mut client = world.client().await;
            client.send(format!("GET / HTTP/{version}\r\nHost: a\r\n\r\n")).await;
            let mut upstream = origin.accept().await;
            upstream.message().await;
            upstream.send("HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n").await;
            if interim {
                let hints = client.head().await;
                assert_eq!((hints.status(), hints.header("link")), (103, Some("</a.css>")));
            } else {
                client.expect_silence(Duration::from_secs(1)).await;
            }
            upstream.send(OK).await;
            assert_eq!(client.message().await.status(), 200);
            world.expect_logged("complete", Some(200)).await;
        });
    }
}

#[test]
fn early_hints_lack_the_lines_that_a_route_removes() {
    play(&app(ONE, "response_header remove X-Inner;"), async |world| {
        let origin = world.origin(1);
        let mut client = world.client().await;
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
        let mut upstream = origin.accept().await;
        upstream.message().await;
        upstream.send("HTTP/1.1 103 Early Hints\r\nX-Inner: 1\r\nLink: </a>\r\n\r\n").await;
        let hints = client.head().await;
        assert_eq!((hints.header("x-inner"), hints.header("link")), (None, Some("</a>")));
        upstream.send(OK).await;
        assert_eq!(client.message().await.status(), 200);
    });
}

#[test]
fn interim_responses_without_end_are_a_bad_response() {
    play(&app(ONE, ""), async |world| {
        let origin = world.origin(1);
        let mut client = world.client().await;
        client.send("GET / HTTP/1.0\r\nHost: a\r\n\r\n").await;
        let mut upstream = origin.accept().await;
        upstream.message().await;
        upstream.send("HTTP/1.1 103 Early Hints\r\n\r\n".repeat(100)).await;
        assert_eq!(client.message().await.status(), 502);
        upstream.expect_end().await;
        world.expect_logged("bad_response", Some(502)).await;
    });
}

const UPGRADE: &str =
    "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\r\n";
const SWITCHING: &str =
    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";

/// Opens a tunnel and returns both ends; the client sent `early` with its request, the origin
/// `late` with its response.
pub(crate) async fn tunnel(world: &World, early: &str, late: &str) -> (Peer, Peer) {
    let origin = world.origin(1);
    let mut client = world.client().await;
    client.send(format!("{UPGRADE}{early}")).await;
    let mut upstream = origin.accept().await;
    let request = upstream.head().await;
    assert_eq!(
        (request.header("connection"), request.header("upgrade")),
        (Some("Upgrade"), Some("websocket"))
    );
    upstream.send(format!("{SWITCHING}{late}")).await;
    let response = client.head().await;
    assert_eq!(
        (response.header("connection"), response.header("upgrade")),
        (Some("Upgrade"), Some("websocket"))
    );
    (client, upstream)
}

#[test]
fn an_upgraded_connection_carries_bytes_both_ways() {
    play(&app(ONE, ""), async |world| {
        let (mut client, mut upstream) = tunnel(world, "", "").await;
        for turn in 0..3 {
            client.send(format!("\0ping {turn}\r\n\r\n")).await;
            upstream.expect(&format!("\0ping {turn}\r\n\r\n")).await;
            upstream.send("pong").await;
            client.expect("pong").await;
        }
        drop(client);
        upstream.expect_end().await;
        drop(upstream);
        let line = world.log_line().await;
        assert_eq!(
            (line.text("cause").as_str(), line.number("status")),
            ("tunnel_closed", Some(101))
        );
    });
}

#[test]
fn bytes_sent_early_belong_to_the_tunnel() {
    play(&app(ONE, ""), async |world| {
        let (mut client, mut upstream) = tunnel(world, "early", "late").await;
        upstream.expect("early").await;
        client.expect("late").await;
        client.send("more").await;
        upstream.expect("more").await;
    });
}

#[test]
fn each_direction_of_a_tunnel_ends_by_itself() {
    play(&app(ONE, ""), async |world| {
        let (mut client, mut upstream) = tunnel(world, "", "").await;
        client.send("last").await;
        client.finish().await;
        assert_eq!(upstream.rest().await, (b"last".to_vec(), End::Closed));
        upstream.send("answer").await;
        client.expect("answer").await;
        drop(upstream);
        client.expect_closed().await;
    });
}

#[test]
fn an_upgrade_that_the_origin_does_not_accept_is_an_ordinary_exchange() {
    play(&app(ONE, ""), async |world| {
        let origin = world.origin(1);
        let mut client = world.client().await;
        client.send(UPGRADE).await;
        let mut upstream = origin.accept().await;
        upstream.message().await;
        upstream.send(OK).await;
        let response = client.message().await;
        assert_eq!((response.status(), response.header("upgrade")), (200, None));
        client.send(GET).await;
        assert_eq!(upstream.message().await.first, "GET / HTTP/1.1");
        upstream.send(OK).await;
        assert_eq!(client.message().await.status(), 200);
    });
}

#[test]
fn a_switch_that_was_not_requested_is_a_bad_response() {
    play(&app(ONE, ""), async |world| {
        let origin = world.origin(1);
        let mut client = world.client().await;
        client.send(GET).await;
        let mut upstream = origin.accept().await;
        upstream.message().await;
        upstream.send(SWITCHING).await;
        assert_eq!(client.message().await.status(), 502);
        upstream.expect_end().await;
        world.expect_logged("bad_response", Some(502)).await;
    });
}

#[test]
fn an_upgrade_with_a_body_forwards_the_body_once() {
    for framing in [
        "Content-Length: 5\r\n\r\nhello",
        "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    ] {
        play(&app(ONE, ""), async |world| {
            let origin = world.origin(1);
            let mut client = world.client().await;
            let head =
                "POST / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n";
            client.send(format!("{head}{framing}early")).await;
            let mut upstream = origin.accept().await;
            assert_eq!(upstream.message().await.text(), "hello");
            upstream
                .send("HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n")
                .await;
            assert_eq!(client.head().await.status(), 101);
            upstream.expect("early").await;
            client.send("more").await;
            upstream.expect("more").await;
            assert!(upstream.is_open().await);
        });
    }
}

#[test]
fn a_switch_before_the_end_of_the_body_is_a_bad_response() {
    play(&app(ONE, ""), async |world| {
        let origin = world.origin(1);
        let mut client = world.client().await;
        client.send("POST / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\nContent-Length: 9\r\n\r\nhello").await;
        let mut upstream = origin.accept().await;
        upstream.head().await;
        upstream
            .send("HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n")
            .await;
        let response = client.message().await;
        assert_eq!((response.status(), response.header("connection")), (502, Some("close")));
        upstream.rest().await;
        world.expect_logged("bad_response", Some(502)).await;
    });
}

#[test]
fn a_blocked_direction_of_a_tunnel_does_not_block_the_other() {
    play(&app(ONE, ""), async |world| {
        let (mut client, mut upstream) = tunnel(world, "", "").await;
        let taken = upstream.send_what_fits(5_000_000).await;
        assert!(taken < 300_000, "{taken} bytes were taken from the origin");
        for _ in 0..3 {
            client.send("ping").await;
            upstream.expect("ping").await;
        }
        assert_eq!(client.exactly(taken).await.len(), taken);
        upstream.send("end").await;
        client.expect("end").await;
    });
}
