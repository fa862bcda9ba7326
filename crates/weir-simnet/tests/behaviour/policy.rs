//! The matched request is the forwarded one: protocols that a connection may switch to, headers
//! that are never forwarded, loops, and the requests that a strict origin gets.

use std::time::Duration;

use crate::peer::Peer;
use crate::world::{World, app, play};
use crate::{GET, OK};

const ONE: &str = "server 10.0.1.1:80;";

/// Returns a request that offers to switch to these protocols.
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

/// Offers `protocols`; returns the client, the origin's connection, and the offer that the origin
/// received.
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
fn an_upgrade_that_is_not_allowed_is_forwarded_as_an_ordinary_request() {
    for protocols in ["h2c", "h2c, TLS/1.0", "websocket2", "websocket/13"] {
        play(&app(ONE, ""), async |world| {
            let (mut client, mut upstream, offer) = offered(world, protocols).await;
            assert_eq!(offer, None, "{protocols}");
            upstream.send(OK).await;
            assert_eq!(client.message().await.status(), 200);
            client.send(GET).await;
            upstream.message().await;
            upstream.send(OK).await;
            assert_eq!(client.message().await.status(), 200, "the connection still carries HTTP");
        });
    }
}

#[test]
fn only_the_allowed_protocols_of_an_offer_are_forwarded() {
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
fn a_switch_to_a_protocol_that_was_not_offered_is_a_bad_response() {
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
fn connect_opens_no_tunnel_whatever_the_target_of_the_route_is() {
    let targets = ["respond 200 yes", "redirect 301 /x", "files /", "app"];
    for target in targets {
        let text = format!(
            "pool app {{ {ONE} }} listen 10.0.0.1:80 {{ route path /x -> app; default -> {target}; }}"
        );
        play(&text, async |world| {
            let origin = world.origin(1);
            let mut client = world.client().await;
            client.send("CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n").await;
            assert_eq!(client.message().await.status(), 405, "{target}");
            origin.expect_no_connection().await;
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
fn a_proxy_header_is_never_forwarded() {
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

/// A Weir whose only endpoint is itself.
#[test]
fn a_request_loop_ends_after_a_few_rounds() {
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
        assert_eq!(client.message().await.status(), 508, "the second of them refuses the request");
        drop(client);
        tokio::time::sleep(Duration::from_millis(1)).await;
    });
}

/// A route that denies clients `/admin`, and one that allows the rest.
const GUARDED: &str = "route path /admin/* -> respond 403; default -> app;";

/// Sends a request for each target; returns the statuses, and the targets that the origin received.
async fn asked(world: &World, targets: &[&str]) -> (Vec<u16>, Vec<String>) {
    let seen = world.origin(1).answers(OK);
    let mut statuses = Vec::new();
    for target in targets {
        let mut client = world.client().await;
        client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n")).await;
        statuses.push(client.message().await.status());
    }
    let targets = seen.borrow().targets().into_iter().map(str::to_owned).collect();
    (statuses, targets)
}

#[test]
fn no_spelling_of_a_path_gets_past_a_rule() {
    let attacks: [(&str, u16); 22] = [
        ("/admin", 403),
        ("/admin/", 403),
        ("/admin/x", 403),
        ("/admin/users/..%2f..%2fpublic", 400),
        ("/public/..%2fadmin/users", 400),
        ("/public/..%2F..%2Fadmin/users", 400),
        ("/public/%2e%2e/admin/x", 403),
        ("/public/.%2E/admin/x?a=/../", 403),
        ("/public/../admin", 403),
        ("/admin;x/users", 400),
        ("/admin/;x", 400),
        ("/public/..;/admin", 400),
        ("/admin\\x", 400),
        ("/public\\..\\admin/x", 400),
        ("/admin%5cx", 400),
        ("//admin/x", 403),
        ("/./admin/x", 403),
        ("/%61dmin/x", 403),
        ("/%61%64min", 403),
        ("/admin%00/x", 400),
        ("/%zz/../admin", 400),
        ("http://a//admin/./x", 403),
    ];
    play(&app(ONE, "").replace("default -> app;", GUARDED), async |world| {
        let targets: Vec<&str> = attacks.iter().map(|(target, _)| *target).collect();
        let (statuses, reached) = asked(world, &targets).await;
        for ((target, expected), status) in attacks.iter().zip(statuses) {
            assert_eq!(status, *expected, "{target}");
        }
        assert_eq!(reached, [""; 0], "not one of them reaches the origin");
    });
}

#[test]
fn the_matched_path_is_the_sent_path_and_the_log_shows_the_received_one() {
    let cases = [
        ("/admin/%2e%2e/x", "/x"),
        ("/admin/users/../../public?q=%2f/../;", "/public?q=%2f/../;"),
        ("/a//b/./c%7e%c3%a9", "/a/b/c~%C3%A9"),
        ("http://a/./x/../y?z", "/y?z"),
        ("/plain?%2e%2e", "/plain?%2e%2e"),
    ];
    play(&app(ONE, "").replace("default -> app;", GUARDED), async |world| {
        let targets: Vec<&str> = cases.iter().map(|(target, _)| *target).collect();
        let (statuses, reached) = asked(world, &targets).await;
        assert_eq!(statuses, [200; 5]);
        let expected: Vec<&str> = cases.iter().map(|(_, sent)| *sent).collect();
        assert_eq!(reached, expected);
        for (line, (target, _)) in world.log().await.iter().zip(cases) {
            assert_eq!(line.text("request"), format!("GET {target} HTTP/1.1"));
            assert_eq!(line.text("target"), target);
        }
    });
}

#[test]
fn escapes_that_the_configuration_keeps_are_matched_as_they_are_sent() {
    let rules = "path encoded_slash=keep backslash=keep parameters=keep nul=keep;";
    let cases = [
        ("/admin/users/..%2f..%2fpublic", 403, ""),
        ("/public/..%2fadmin/users", 200, "/public/..%2Fadmin/users"),
        ("/admin;x/users", 200, "/admin;x/users"),
        ("/admin/..;/x", 400, ""),
        ("/public%5cx\\y", 200, "/public%5Cx\\y"),
        ("/admin/%00", 403, ""),
    ];
    let text = app(ONE, rules).replace("default -> app;", GUARDED);
    play(&text, async |world| {
        let targets: Vec<&str> = cases.iter().map(|(target, ..)| *target).collect();
        let (statuses, reached) = asked(world, &targets).await;
        let expected: Vec<u16> = cases.iter().map(|(_, status, _)| *status).collect();
        assert_eq!(statuses, expected);
        let sent: Vec<&str> =
            cases.iter().map(|(.., sent)| *sent).filter(|sent| !sent.is_empty()).collect();
        assert_eq!(reached, sent);
    });
}

#[test]
fn a_path_that_is_not_normalised_is_forwarded_as_received() {
    let text = app(ONE, "path normalize=off;").replace("default -> app;", GUARDED);
    play(&text, async |world| {
        let (statuses, reached) =
            asked(world, &["/a/../b;x\\%2f%zz//c", "/b/%2e%2e/admin/x"]).await;
        assert_eq!(statuses, [200, 403]);
        assert_eq!(reached, ["/a/../b;x\\%2f%zz//c"]);
    });
}

#[test]
fn a_path_that_is_matched_as_received_is_neither_decoded_nor_resolved() {
    let rules = "path normalize=off match=received;
        route path /b/%2e%2e/admin* -> respond 401;
        route path *//* -> respond 402;";
    let text = app(ONE, rules).replace("default -> app;", GUARDED);
    play(&text, async |world| {
        let targets = ["/b/%2e%2e/admin/x", "/a//b", "/admin/x", "/a/../admin/x?q=//"];
        let (statuses, reached) = asked(world, &targets).await;
        assert_eq!(statuses, [401, 402, 403, 200]);
        assert_eq!(reached, ["/a/../admin/x?q=//"]);
    });
}

#[test]
fn a_refused_path_is_captured_for_the_operator_and_the_connection_stays() {
    play(&app(ONE, ""), async |world| {
        world.origin(1).answers(OK);
        let mut client = world.client().await;
        client.send("GET /a%2fb HTTP/1.1\r\nHost: a\r\n\r\n").await;
        assert_eq!(client.message().await.status(), 400);
        client.send(GET).await;
        assert_eq!(client.message().await.status(), 200);
        let (_, captured) = world.process.captures.read();
        assert!(captured[0].reason.contains("encoded slash"), "{}", captured[0].reason);
        assert_eq!(world.log().await.len(), 2);
    });
}

#[test]
fn variables_and_groups_show_the_path_that_is_sent() {
    let text = "listen 10.0.0.1:80 {
        route path ~^/user/(.*)$ -> respond 200 \"$1 $uri $request_uri\";
        default -> respond 404;
    }";
    play(text, async |world| {
        let mut client = world.client().await;
        client.send("GET /x/..//user/%61%20b?q HTTP/1.1\r\nHost: a\r\n\r\n").await;
        let body = client.message().await.text().to_owned();
        assert_eq!(body, "a%20b /user/a%20b /x/..//user/%61%20b?q");
    });
    let received = text.replace("{\n", "{ path normalize=off match=received;\n");
    play(&received, async |world| {
        let mut client = world.client().await;
        client.send("GET /user/..//%61%20b?q HTTP/1.1\r\nHost: a\r\n\r\n").await;
        let body = client.message().await.text().to_owned();
        assert_eq!(body, "..//%61%20b /user/..//%61%20b /user/..//%61%20b?q");
    });
}

/// Sends `lines` as trailers of a request and of a response; returns the trailers that the origin
/// received, and those that the client, which sends `te`, received.
async fn trailers(world: &World, te: &str, lines: &str) -> (Vec<String>, Vec<String>) {
    let body = format!("2\r\nok\r\n0\r\n{lines}\r\n");
    let origin = world.origin(1);
    let mut client = world.client().await;
    client
        .send(format!("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n{te}\r\n{body}"))
        .await;
    let mut upstream = origin.accept().await;
    let seen = upstream.message().await;
    upstream
        .send(format!(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: X-Hop\r\n\r\n{body}"
        ))
        .await;
    let received = client.message().await;
    assert_eq!((seen.text(), received.text()), ("ok", "ok"));
    (seen.trailers, received.trailers)
}

#[test]
fn trailers_are_sent_only_to_clients_that_accept_them() {
    for (te, expected) in [
        ("", false),
        ("TE: trailers\r\n", true),
        ("TE: gzip;q=0.5, Trailers\r\n", true),
        ("TE: gzip\r\n", false),
        ("Connection: TE\r\nTE: trailers\r\n", true),
    ] {
        play(&app(ONE, ""), async |world| {
            let (up, down) = trailers(world, te, "X-Sum: 1\r\n").await;
            assert_eq!(up, ["X-Sum: 1"], "{te}");
            assert_eq!(!down.is_empty(), expected, "{te}");
        });
    }
}

#[test]
fn header_edits_apply_to_trailers() {
    let rules = "header remove X-Secret; header set X-User me; response_header remove X-Internal; request_id X-Trace;";
    play(&app(ONE, rules), async |world| {
        let lines = "X-Secret: 1\r\nx_user: evil\r\nX-Internal: 2\r\nX-Trace: forged\r\n\
            X-Forwarded-For: 1.2.3.4\r\nX_Forwarded_For: 1.2.3.4\r\nX-Real-IP: 1.2.3.4\r\n\
            Forwarded: for=1.2.3.4\r\nX-Hop: 3\r\nHost: evil\r\nAuthorization: evil\r\nX-Sum: 4\r\n";
        let (up, down) = trailers(world, "TE: trailers\r\n", lines).await;
        assert_eq!(up, ["X-Internal: 2", "X-Hop: 3", "X-Sum: 4"]);
        assert_eq!(down, ["X-Secret: 1", "x_user: evil", "X-Sum: 4"]);
    });
}

#[test]
fn trailers_named_in_connection_are_not_forwarded() {
    play(&app(ONE, "header remove X-Secret;"), async |world| {
        let lines = "X-Secret: 1\r\nX-Sum: 1\r\nX: 2\r\n";
        let (up, _) = trailers(world, "Connection: X-Sum\r\n", lines).await;
        assert_eq!(up, ["X: 2"]);
    });
}

#[test]
fn a_path_that_names_a_served_directory_is_redirected_to_the_one_with_a_slash() {
    let text = "listen 10.0.0.1:80 { route path /static/* -> files / strip=/static; default -> respond 404; }";
    play(text, async |world| {
        for (target, status, location) in [
            ("/static", 301, Some("/static/")),
            ("/x/../static?a=b", 301, Some("/static/?a=b")),
            ("/statics", 404, None),
        ] {
            let mut client = world.client().await;
            client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n")).await;
            let response = client.message().await;
            assert_eq!((response.status(), response.header("location")), (status, location));
        }
    });
    // No target is the address of another site.
    let text = text.replacen('{', "{ path normalize=off;", 1);
    play(&text, async |world| {
        for start in ["//", "///", "/\\"] {
            let mut client = world.client().await;
            let target = format!("{start}b.example/%2e%2e/static");
            client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n")).await;
            let response = client.message().await;
            if response.status() == 301 {
                let location = response.header("location");
                assert_eq!(location, Some("/b.example/%2e%2e/static/"), "{target}");
            }
        }
    });
}

#[test]
fn headers_are_removed_or_refused_by_their_names() {
    let text = |rules: &str| app(ONE, rules);
    let request = "GET / HTTP/1.1\r\nHost: a\r\nX_Under: 1\r\nX.Dot: 2\r\nX-Dash: 3\r\n\r\n";
    let seen = async |world: &World| {
        let origin = world.origin(1);
        let mut client = world.client().await;
        client.send(request).await;
        let mut upstream = origin.accept().await;
        let seen = upstream.message().await;
        upstream.send(OK).await;
        assert_eq!(client.message().await.status(), 200);
        ["x_under", "x.dot", "x-dash"].map(|name| seen.header(name).map(str::to_owned))
    };
    let values = |values: [Option<&str>; 3]| values.map(|value| value.map(str::to_owned));
    play(&text("header_names underscores=remove unusual=remove;"), async |world| {
        assert_eq!(seen(world).await, values([None, None, Some("3")]));
    });
    play(&text("header_names unusual=remove;"), async |world| {
        assert_eq!(seen(world).await, values([Some("1"), None, Some("3")]));
    });
    play(&text("header_names unusual=refuse;"), async |world| {
        let mut client = world.client().await;
        client.send(request).await;
        assert_eq!(client.message().await.status(), 400);
        world.expect_logged("bad_request", Some(400)).await;
    });
}
