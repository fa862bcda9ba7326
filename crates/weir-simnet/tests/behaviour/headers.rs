//! Headers: changes in both directions, forwarding headers and trusted peers, request ids.
//! Hop-by-hop headers are not forwarded.

use crate::peer::Message;
use crate::world::{World, app, play};

const ONE: &str = "server 10.0.1.1:80;";

/// Sends header lines from `source` and returns the request as the origin received it, and the
/// response as the client received it.
async fn through(
    world: &World,
    source: &str,
    lines: &str,
    response_lines: &str,
) -> (Message, Message) {
    let origin = world.origin(1);
    let mut client = world.client_from(source, "10.0.0.1:80").await;
    client.send(format!("GET /p?q HTTP/1.1\r\nHost: shop.test:81\r\n{lines}\r\n")).await;
    let mut upstream = origin.accept().await;
    let seen = upstream.message().await;
    upstream.send(format!("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n{response_lines}\r\nok")).await;
    (seen, client.message().await)
}

#[test]
fn header_lines_are_forwarded_in_order_and_as_written() {
    play(&app(ONE, "forwarded x_forwarded=off; request_id off; limits hops=off;"), async |world| {
        let lines =
            "X-B: 1\r\nx-a:  2 \r\nX-B: 3\r\nX-Empty:\r\nCookie: a=b; c=d\r\nX-High: caf\u{e9}\r\n";
        let (seen, response) = through(
            world,
            "192.0.2.1",
            lines,
            "X-C: 1\r\nSet-Cookie: a\r\nSet-Cookie: b\r\nServer: s\r\n",
        )
        .await;
        let sent: Vec<(&str, &str)> =
            seen.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(
            sent,
            [
                ("host", "shop.test:81"),
                ("x-b", "1"),
                ("x-a", "2"),
                ("x-b", "3"),
                ("x-empty", ""),
                ("cookie", "a=b; c=d"),
                ("x-high", "caf\u{e9}"),
            ]
        );
        assert!(seen.raw_head.contains("\r\nX-B: 1\r\nx-a:"), "{}", seen.raw_head);
        assert_eq!(response.all("set-cookie"), ["a", "b"]);
        assert_eq!((response.header("server"), response.header("x-c")), (Some("s"), Some("1")));
    });
}

#[test]
fn hop_by_hop_headers_are_not_forwarded() {
    play(&app(ONE, ""), async |world| {
        let hop = "Connection: keep-alive, X-Own\r\nKeep-Alive: 5\r\nX-Own: 1\r\nTE: trailers\r\nProxy-Connection: x\r\nUpgrade: h2c\r\nX-Kept: 2\r\n";
        let (seen, response) = through(world, "192.0.2.1", hop, hop).await;
        for message in [&seen, &response] {
            for name in ["keep-alive", "x-own", "te", "proxy-connection", "upgrade", "connection"] {
                assert_eq!(message.header(name), None, "{name} of {}", message.raw_head);
            }
            assert_eq!(message.header("x-kept"), Some("2"));
        }
    });
}

#[test]
fn header_edits_of_the_route_follow_those_of_the_listener_in_both_directions() {
    let text = r#"pool app { server 10.0.1.1:80; }
        listen 10.0.0.1:80 {
            header set X-One listener; header set X-Two listener; header remove X-Gone;
            response_header set X-From listener; response_header remove Server; response_header add X-More 1;
            route -> app { header set X-Two "$http_x_in $arg_n-$request_method"; header add X-In again; response_header set X-From "$endpoint $sent_http_x_out"; };
        }"#;
    play(text, async |world| {
        let (seen, response) = through(
            world,
            "192.0.2.1",
            "X-One: client\r\nX-In: in\r\nX-Gone: 1\r\n",
            "Server: s\r\nX-Out: out\r\nX-More: 0\r\n",
        )
        .await;
        assert_eq!(seen.all("x-one"), ["listener"]);
        assert_eq!(seen.all("x-two"), ["in -GET"]);
        assert_eq!((seen.all("x-in"), seen.header("x-gone")), (vec!["in", "again"], None));
        assert_eq!(
            (response.header("x-from"), response.header("server")),
            (Some("10.0.1.1:80 out"), None)
        );
        assert_eq!(response.all("x-more"), ["0", "1"]);
    });
}

#[test]
fn response_header_edits_apply_to_local_replies() {
    let text =
        "listen 10.0.0.1:80 { response_header set X-From weir; route path /x -> respond 200; }";
    play(text, async |world| {
        let mut client = world.client().await;
        for path in ["/x", "/y"] {
            client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")).await;
            assert_eq!(client.message().await.header("x-from"), Some("weir"), "{path}");
        }
    });
}

#[test]
fn forwarding_headers_of_an_untrusted_client_are_replaced() {
    play(&app(ONE, "forwarded forwarded=on;"), async |world| {
        let lines = "X-Forwarded-For: 1.2.3.4\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: evil\r\n\
            X-Forwarded-Port: 1\r\nX-Real-IP: 1.2.3.4\r\nForwarded: for=1.2.3.4\r\n";
        let (seen, _) = through(world, "203.0.113.5", lines, "").await;
        assert_eq!(seen.all("x-forwarded-for"), ["203.0.113.5"]);
        assert_eq!(seen.all("x-forwarded-proto"), ["http"]);
        assert_eq!(seen.all("x-forwarded-host"), ["shop.test:81"]);
        assert_eq!((seen.header("x-forwarded-port"), seen.header("x-real-ip")), (None, None));
        let forwarded = seen.header("forwarded").unwrap();
        assert!(forwarded.contains("203.0.113.5") && !forwarded.contains("1.2.3.4"), "{forwarded}");
        assert_eq!(world.log_line().await.text("client"), "203.0.113.5");
    });
}

#[test]
fn the_address_that_a_trusted_proxy_forwards_is_the_clients() {
    play(&app(ONE, "trusted_proxies 10.0.0.0/8;"), async |world| {
        let lines = "X-Forwarded-For: 6.6.6.6, 203.0.113.5, 10.9.9.9\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: front.test\r\n";
        let (seen, _) = through(world, "10.1.2.3", lines, "").await;
        assert_eq!(
            seen.all("x-forwarded-for").join(", "),
            "6.6.6.6, 203.0.113.5, 10.9.9.9, 10.1.2.3"
        );
        assert_eq!(seen.all("x-forwarded-proto"), ["https"]);
        assert_eq!(seen.all("x-forwarded-host"), ["front.test"]);
        let line = world.log_line().await;
        assert_eq!(line.text("client"), "203.0.113.5", "the last address that is not trusted");
        assert!(line.text("peer").starts_with("10.1.2.3:"));
    });
}

#[test]
fn rules_about_clients_follow_trusted_proxies_only() {
    let listener = "trusted_proxies 10.0.0.0/8; deny 203.0.113.5;";
    play(&app(ONE, listener), async |world| {
        world.origin(1).answers(crate::OK);
        for (source, told, status) in [
            ("10.1.2.3", "203.0.113.5", 403),
            ("10.1.2.3", "203.0.113.6", 200),
            ("192.0.2.1", "203.0.113.5", 200),
            ("203.0.113.5", "192.0.2.1", 403),
        ] {
            let mut client = world.client_from(source, "10.0.0.1:80").await;
            client
                .send(format!("GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: {told}\r\n\r\n"))
                .await;
            assert_eq!(client.message().await.status(), status, "{source} {told}");
        }
    });
}

#[test]
fn a_request_id_is_made_or_taken_over_from_a_trusted_proxy() {
    let listener = "trusted_proxies 10.0.0.0/8; request_id X-Trace respond;";
    for (source, taken) in [("192.0.2.1", false), ("10.1.2.3", true)] {
        play(&app(ONE, listener), async |world| {
            let (seen, response) =
                through(world, source, "X-Trace: given-1\r\n", "X-Trace: theirs\r\n").await;
            let id = seen.header("x-trace").unwrap();
            assert_eq!(id == "given-1", taken, "{id}");
            assert!(taken || id.len() >= 16, "{id}");
            assert_eq!(response.header("x-trace"), Some(id));
            assert_eq!(world.log_line().await.text("request_id"), id);
        });
    }
}

#[test]
fn every_request_has_an_id_of_its_own() {
    play(&app("server 10.0.1.1:80; server 10.0.1.2:80;", ""), async |world| {
        let seen = world.origin(1).answers(crate::OK);
        let mut client = world.client().await;
        for _ in 0..20 {
            client.send(crate::GET).await;
            assert_eq!(client.message().await.status(), 200);
        }
        let lines = world.log().await;
        let seen = seen.borrow();
        let sent: Vec<&str> =
            seen.requests.iter().map(|request| request.header("x-request-id").unwrap()).collect();
        let logged: Vec<String> = lines.iter().map(|line| line.text("request_id")).collect();
        assert_eq!(sent, logged);
        let distinct: std::collections::BTreeSet<&str> = sent.iter().copied().collect();
        assert_eq!(distinct.len(), 20);
    });
}

#[test]
fn a_request_keeps_its_id_over_attempts() {
    let pool = "server 10.0.1.1:80; server 10.0.1.2:80; retry 1 on=reset;";
    for (source, lines, given) in
        [("192.0.2.1", "", None), ("10.1.2.3", "X-Request-Id: given-1\r\n", Some("given-1"))]
    {
        play(&app(pool, "trusted_proxies 10.0.0.0/8; request_id respond;"), async |world| {
            let (first, second) = (world.origin(1), world.origin(2));
            let mut client = world.client_from(source, "10.0.0.1:80").await;
            client.send(format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n")).await;
            let mut upstream = first.accept().await;
            let failed = upstream.message().await;
            drop(upstream);
            let mut upstream = second.accept().await;
            let repeated = upstream.message().await;
            upstream.send(crate::OK).await;
            let response = client.message().await;
            let id = failed.header("x-request-id").unwrap();
            assert!(given.is_none_or(|given| given == id), "{id}");
            assert_eq!(repeated.header("x-request-id"), Some(id));
            assert_eq!(response.header("x-request-id"), Some(id));
            let line = world.log_line().await;
            assert_eq!((line.text("request_id").as_str(), line.number("attempts")), (id, Some(2)));
        });
    }
}

#[test]
fn values_of_received_headers_are_replaced_by_regex() {
    let edits = r#"
        header replace X-Path "~^/old/(.*)$" "/new/$1 $host";
        response_header replace Location "~^http://app(/.*)$" "https://$host$1";
        response_header replace Set-Cookie "~^(.*; path=)/r(.*)$" "$1/given$2";
        response_header replace Set-Cookie "~*^(.*; domain=)a(;.*)?$" "$1b$2";
        response_header replace X-Internal "*" "";
    "#;
    play(&app(ONE, edits), async |world| {
        let (seen, response) = through(
            world,
            "192.0.2.1",
            "X-Path: /old/x\r\nX-Path: /other\r\n",
            "Location: http://app/y\r\nSet-Cookie: s=1; path=/r/x; Domain=a\r\n\
             Set-Cookie: t=2; path=/q\r\nX-Internal: 1\r\nX-Other: http://app/y\r\n",
        )
        .await;
        assert_eq!(seen.all("x-path"), ["/new/x shop.test", "/other"]);
        assert_eq!(response.header("location"), Some("https://shop.test/y"));
        let cookies = ["s=1; path=/given/x; Domain=b", "t=2; path=/q"];
        assert_eq!(response.all("set-cookie"), cookies);
        assert_eq!(response.header("x-internal"), None);
        assert_eq!(response.header("x-other"), Some("http://app/y"));
    });
}
