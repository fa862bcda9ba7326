//! `rewrite` and `query`: the endpoint gets another target than the client sent, routes and logs
//! still have the received one.

use crate::OK;
use crate::peer::Message;
use crate::world::{World, play};

/// Returns a configuration whose only route has these lines, and a header with all targets.
fn rewriting(listener: &str, when: &str, lines: &str) -> String {
    format!(
        "pool app {{ server 10.0.1.1:80; retry 1 on=503; }}
        listen 10.0.0.1:80 {{
            header set X-Targets \"$request_uri $uri $upstream_uri\";
            {listener} route {when} -> app {{ {lines} }}
        }}"
    )
}

/// Sends a request for `target` and returns the one that the origin gets.
async fn sent(world: &World, target: &str) -> Message {
    let origin = world.origin(1);
    let mut client = world.client().await;
    client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\nX-To: x y\r\n\r\n")).await;
    let mut upstream = origin.accept().await;
    let seen = upstream.message().await;
    upstream.send(OK).await;
    assert_eq!(client.message().await.status(), 200);
    seen
}

fn check(when: &str, lines: &str, target: &str, expected: &str) {
    play(&rewriting("", when, lines), async |world| {
        let seen = sent(world, target).await;
        assert_eq!(seen.first, format!("GET {expected} HTTP/1.1"), "{lines}");
    });
}

#[test]
fn the_endpoint_gets_the_rewritten_target() {
    check("path /api/*", "rewrite strip_prefix /api;", "/api/x?y=1", "/x?y=1");
    check("path /api/*", "rewrite prefix /api/ /v2/;", "//api/%7Ex", "/v2/~x");
    check("path ~^/u/([0-9]+)$", "rewrite path /users?id=$1;", "/u/7?a=b", "/users?id=7&a=b");
    check("", "rewrite regex ~*^/U/(.*)$ /users/$1; query remove a;", "/u/%2b?a=b", "/users/%2B");
    check("", "rewrite path /$http_x_to; query set c $remote_addr;", "/", "/x%20y?c=192.0.2.1");
}

#[test]
fn path_and_query_are_replaced_together() {
    let regex = "rewrite target_regex \"~^/both/([^?]*)[?](.*)$\" /pq/$1?got=$2;";
    check("", regex, "/both/x%20y?q=%3F?", "/pq/x%20y?got=q=%3F?");
    check("", regex, "/both/x", "/both/x");
    check("", "rewrite target /x?$args;", "/a", "/x?");
    check("", "rewrite target $request_uri&z=$http_x_to;", "/a?b", "/a?b&z=x%20y");
    check("", "rewrite target /new;", "/a?b", "/new");
    check("", "rewrite query c; rewrite target_regex ~^(.*)c$ $1d;", "/a?b", "/a?d");
}

#[test]
fn a_new_path_has_variables_of_the_configuration() {
    let text = "convert $uri $low { lower; } convert $args $first { field 1 &; }
        pool app { server 10.0.1.1:80; }
        listen 10.0.0.1:80 { route -> app { rewrite path /v$low?$first&z?; } }";
    play(text, async |world| {
        let seen = sent(world, "/A?B&c").await;
        assert_eq!(seen.first, "GET /v/a?B&z HTTP/1.1");
    });
}

#[test]
fn servers_get_the_method_of_the_route_and_heads_keep_theirs() {
    let lines = "request_method PUT; request_method $http_x_m if=$http_x_m;";
    play(&rewriting("", "", lines), async |world| {
        let origin = world.origin(1);
        let mut client = world.client().await;
        let mut upstream = None;
        for (asked, headers, expected) in [
            ("GET /a", "", "PUT /a"),
            ("POST http://a/b", "", "PUT /b"),
            ("GET /c", "X-M: PURGE\r\n", "PURGE /c"),
            ("GET /d", "X-M: a b\r\n", "PUT /d"),
            ("GET /e", "X-M: CONNECT\r\n", "PUT /e"),
            ("HEAD /f", "", "HEAD /f"),
        ] {
            client.send(format!("{asked} HTTP/1.1\r\nHost: a\r\n{headers}\r\n")).await;
            if upstream.is_none() {
                upstream = Some(origin.accept().await);
            }
            let upstream = upstream.as_mut().unwrap();
            assert_eq!(upstream.message().await.first, format!("{expected} HTTP/1.1"), "{asked}");
            if asked.starts_with("HEAD") {
                break;
            }
            upstream.send(OK).await;
            assert_eq!(client.message().await.status(), 200);
        }
    });
}

#[test]
fn a_request_is_repeated_by_the_method_that_it_was_sent_with() {
    for (line, repeated) in [("", true), ("request_method POST;", false)] {
        let text = format!(
            "pool app {{
                server 10.0.1.1:80; server 10.0.1.2:80; passive off; retry 2 on=connect,reset;
            }}
            listen 10.0.0.1:80 {{ route -> app {{ {line} }} }}"
        );
        play(&text, async |world| {
            let origins = [world.origin(1), world.origin(2)];
            let mut client = world.client().await;
            client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
            let mut upstream = origins[0].accept().await;
            upstream.message().await;
            drop(upstream);
            if repeated {
                let mut upstream = origins[1].accept().await;
                upstream.message().await;
                upstream.send(OK).await;
                assert_eq!(client.message().await.status(), 200);
            } else {
                assert_eq!(client.message().await.status(), 502);
                origins[1].expect_no_connection().await;
            }
            world.log().await;
        });
    }
}

#[test]
fn an_absolute_target_is_rewritten_too() {
    check("", "rewrite strip_prefix /api;", "http://a/api/x?y", "/x?y");
    check("", "rewrite strip_prefix /api;", "http://a", "/");
}

#[test]
fn a_target_without_a_path_stays() {
    play(&rewriting("", "", "rewrite path /x;"), async |world| {
        let origin = world.origin(1);
        let mut client = world.client().await;
        client.send("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n").await;
        let mut upstream = origin.accept().await;
        assert_eq!(upstream.message().await.first, "OPTIONS * HTTP/1.1");
        upstream.send(OK).await;
        assert_eq!(client.message().await.status(), 200);
    });
}

#[test]
fn routes_and_logs_have_the_received_target() {
    let lines = "rewrite strip_prefix /api;";
    for (lines, target, expected) in [
        (lines, "/api//x%20y?q", "/api//x%20y?q /api/x%20y /x%20y?q"),
        ("", "/a/../api/x?q", "/a/../api/x?q /api/x /api/x?q"),
        ("", "http://a/api/x?q", "/api/x?q /api/x /api/x?q"),
    ] {
        play(&rewriting("", "path /api/*", lines), async |world| {
            let seen = sent(world, target).await;
            assert_eq!(seen.header("x-targets"), Some(expected), "{target}");
            assert_eq!(world.log_line().await.text("target"), target);
        });
    }
}

#[test]
fn a_retry_sends_the_rewritten_target_again_and_the_next_request_its_own() {
    let text = rewriting("", "", "rewrite regex ~^/a$ /b;");
    let text = text.replace("server 10.0.1.1:80;", "server 10.0.1.1:80; server 10.0.1.2:80;");
    play(&text, async |world| {
        let (first, second) = (world.origin(1), world.origin(2));
        let mut client = world.client().await;
        client.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n").await;
        let mut failing = first.accept().await;
        assert_eq!(failing.message().await.first, "GET /b HTTP/1.1");
        failing.send("HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n").await;
        let mut upstream = second.accept().await;
        assert_eq!(upstream.message().await.first, "GET /b HTTP/1.1");
        upstream.send(OK).await;
        assert_eq!(client.message().await.status(), 200);
        client.send("GET /c HTTP/1.1\r\nHost: a\r\n\r\n").await;
        assert_eq!(failing.message().await.first, "GET /c HTTP/1.1");
        failing.send(OK).await;
        assert_eq!(client.message().await.status(), 200);
    });
}

#[test]
fn no_value_gets_an_ambiguous_path_to_an_endpoint() {
    for (listener, target) in [
        ("", "/?to=%2e%2e%2fadmin"),
        ("", "/?to=a%00"),
        ("", "/?to=..;%2fadmin"),
        ("path normalize=off invalid=refuse;", "/?to=%2e%2e"),
        ("path normalize=off invalid=refuse;", "/?to=../../admin"),
    ] {
        play(&rewriting(listener, "", "rewrite path /d/$arg_to?;"), async |world| {
            let mut client = world.client().await;
            client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n")).await;
            assert_eq!(client.message().await.status(), 400, "{target}");
        });
    }
}
