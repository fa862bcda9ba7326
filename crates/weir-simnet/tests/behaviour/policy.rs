//! What is matched is what is sent: protocols that a connection may switch to, headers that pass nobody, loops, and what a strict
//! origin gets of all that.

use std::time::Duration;

use crate::peer::Peer;
use crate::world::{World, app, play};
use crate::{GET, OK};

const ONE: &str = "server 10.0.1.1:80;";

/// A request that offers to switch to these protocols.
fn offer(protocols: &str) -> String {
    format!(
        "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\n\
         Upgrade: {protocols}\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n"
    )
}

fn switching(protocols: &str) -> String {
    format!(
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: {protocols}\r\n\r\n"
    )
}

/// Offers `protocols`; the client, the origin's side, and what the origin was offered.
async fn offered(world: &World, protocols: &str) -> (Peer, Peer, Option<String>) {
    let origin = world.origin(1);
    let mut client = world.client().await;
    client.send(offer(protocols)).await;
    let mut upstream = origin.accept().await;
    let seen = upstream.message().await;
    assert_eq!(seen.header("http2-settings"), None, "{}", seen.raw_head);
    let offer = seen.header("upgrade").map(str::to_owned);
    assert_eq!(seen.header("connection").is_some(), offer.is_some(), "{}", seen.raw_head);
    (client, upstream, offer)
}

#[test]
fn an_upgrade_that_is_not_allowed_goes_on_as_an_ordinary_request() {
    for protocols in ["h2c", "h2c, TLS/1.0", "websocket2", "websocket/13"] {
        play(&app(ONE, ""), async |world| {
            let (mut client, mut upstream, offer) = offered(world, protocols).await;
            assert_eq!(offer, None, "{protocols}");
            upstream.send(OK).await;
            assert_eq!(client.message().await.status(), 200);
            client.send(GET).await;
            upstream.message().await;
            upstream.send(OK).await;
            assert_eq!(client.message().await.status(), 200, "the connection is one of HTTP still");
        });
    }
}

#[test]
fn of_an_offer_only_what_is_allowed_goes_on() {
    play(&app(ONE, ""), async |world| {
        let (mut client, mut upstream, offer) = offered(world, "h2c, WebSocket").await;
        assert_eq!(offer.as_deref(), Some("WebSocket"));
        upstream.send(switching("websocket")).await;
        assert_eq!(client.head().await.status(), 101);
        client.send("ping").await;
        upstream.expect("ping").await;
    });
}

#[test]
fn a_switch_to_what_was_not_offered_is_a_bad_response() {
    for (protocols, taken) in
        [("h2c", "h2c"), ("websocket, h2c", "h2c"), ("websocket", "websocket, h2c")]
    {
        play(&app(ONE, ""), async |world| {
            let (mut client, mut upstream, _) = offered(world, protocols).await;
            upstream.send(switching(taken)).await;
            upstream.try_send(b"tunnelled").await.unwrap();
            let response = client.message().await;
            assert_eq!(response.status(), 502, "{protocols} {taken}");
            upstream.expect_end().await;
            world.expect_logged("bad_response", Some(502)).await;
            let (count, captured) = world.process.captures.read();
            assert_eq!(
                (count, captured[0].reason),
                (1, "a 101 to a protocol that was not offered")
            );
        });
    }
}

#[test]
fn a_switch_that_names_no_protocol_is_a_bad_response() {
    play(&app(ONE, ""), async |world| {
        let (mut client, mut upstream, offer) = offered(world, "websocket").await;
        assert_eq!(offer.as_deref(), Some("websocket"));
        upstream.send("HTTP/1.1 101 Switching Protocols\r\n\r\n").await;
        assert_eq!(client.message().await.status(), 502);
        upstream.expect_end().await;
        world.expect_logged("bad_response", Some(502)).await;
    });
}

#[test]
fn routes_allow_other_protocols_or_none() {
    let text = "pool app { server 10.0.1.1:80; }
        listen 10.0.0.1:80 {
            upgrade h2c;
            route header X-None -> app { upgrade off; }
            route header X-Other -> app { upgrade postgres websocket; }
            default -> app;
        }";
    for (line, offer, expected) in [
        ("", "h2c, websocket", Some("h2c")),
        ("X-None: 1\r\n", "h2c, websocket", None),
        ("X-Other: 1\r\n", "h2c, websocket, Postgres", Some("websocket, Postgres")),
    ] {
        play(text, async |world| {
            let origin = world.origin(1);
            let mut client = world.client().await;
            let head = "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\n";
            client.send(format!("{head}Upgrade: {offer}\r\n{line}\r\n")).await;
            let mut upstream = origin.accept().await;
            assert_eq!(upstream.message().await.header("upgrade"), expected, "{line}");
            upstream.send(OK).await;
            assert_eq!(client.message().await.status(), 200);
        });
    }
}

#[test]
fn connect_opens_no_tunnel_whatever_the_route_leads_to() {
    let targets = ["respond 200 yes", "redirect 301 /x", "files /nonexistent", "app"];
    for target in targets {
        let text = format!(
            "pool app {{ {ONE} }} listen 10.0.0.1:80 {{ route path /x -> app; default -> {target}; }}"
        );
        play(&text, async |world| {
            let origin = world.origin(1);
            let mut client = world.client().await;
            client.send("CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n").await;
            assert_eq!(client.message().await.status(), 405, "{target}");
            origin.expect_nobody().await;
        });
    }
}

#[test]
fn a_status_beyond_the_classes_is_a_bad_response() {
    for status in [600, 999] {
        play(&app(ONE, ""), async |world| {
            let origin = world.origin(1);
            let mut client = world.client().await;
            client.send(GET).await;
            let mut upstream = origin.accept().await;
            upstream.message().await;
            upstream.send(format!("HTTP/1.1 {status} No\r\nContent-Length: 0\r\n\r\n")).await;
            assert_eq!(client.message().await.status(), 502);
            world.expect_logged("bad_response", Some(502)).await;
        });
    }
}

#[test]
fn a_proxy_line_passes_nobody() {
    play(&app(ONE, ""), async |world| {
        let seen = world.origin(1).answers(OK);
        let mut client = world.client().await;
        client.send("GET / HTTP/1.1\r\nHost: a\r\nProxy: http://evil:80\r\nX: 1\r\n\r\n").await;
        assert_eq!(client.message().await.status(), 200);
        let seen = seen.borrow();
        assert_eq!(seen.requests[0].header("proxy"), None);
        assert_eq!(seen.requests[0].header("x"), Some("1"));
    });
}

/// A Weir whose pool is itself.
#[test]
fn a_loop_ends_after_a_few_rounds() {
    let text = "pool app { server 10.0.0.1:80; } listen 10.0.0.1:80 { default -> app; }";
    play(text, async |world| {
        let mut client = world.client().await;
        client.send(GET).await;
        assert_eq!(client.message().await.status(), 508);
        let lines = world.log().await;
        assert_eq!(
            lines.len(),
            12,
            "ten that may pass, the first one, and the one that is refused"
        );
        let found = lines.iter().filter(|line| line.text("cause") == "loop_detected").count();
        assert_eq!(found, 1);
        drop(client);
    });
}

#[test]
fn two_weirs_behind_each_other_are_no_loop() {
    let text = "pool app { server 10.0.1.1:80; } pool inner { server 10.0.0.2:80; }
        listen 10.0.0.1:80 { limits hops=1; default -> inner; }
        listen 10.0.0.2:80 { limits hops=1; default -> app; }";
    play(text, async |world| {
        let seen = world.origin(1).answers(OK);
        let mut client = world.client().await;
        client.send(GET).await;
        assert_eq!(client.message().await.status(), 200);
        assert_eq!(seen.borrow().requests[0].header("weir-hops"), Some("2"));
        client.send("GET / HTTP/1.1\r\nHost: a\r\nWeir-Hops: 1\r\n\r\n").await;
        assert_eq!(client.message().await.status(), 508, "the second of them has had enough");
        drop(client);
        tokio::time::sleep(Duration::from_millis(1)).await;
    });
}
