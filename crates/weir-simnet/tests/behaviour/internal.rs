//! Internal redirects: a request is served again with another path or under a name, and what its
//! routes, its endpoint and its log see of that.

use std::time::Duration;

use tokio::time::Instant;

use crate::OK;
use crate::peer::Message;
use crate::world::{World, play};

fn routes(routes: &str) -> String {
    format!(
        "pool app {{ server 10.0.1.1:80; }}
        listen 10.0.0.1:80 {{
            header set X-Seen \"$request_uri|$uri|$args|$arg_a|$upstream_uri\";
            {routes}
        }}"
    )
}

/// Sends a request and returns what the origin gets.
async fn sent(world: &World, line: &str) -> Message {
    let origin = world.origin(1);
    let mut client = world.client().await;
    client.send(format!("{line} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n")).await;
    let mut upstream = origin.accept().await;
    let seen = upstream.message().await;
    upstream.send(OK).await;
    assert_eq!(client.message().await.status(), 200);
    seen
}

/// Sends a request that Weir answers, and returns the response.
async fn answered(world: &World, line: &str) -> Message {
    let mut client = world.client().await;
    client.send(format!("{line} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n")).await;
    client.message().await
}

#[test]
fn the_request_takes_the_route_of_its_new_path() {
    let text = routes(
        "route path ~^/old/(.*)$ -> internal /new/$1?a=b;
         route path /new/* -> app;
         default -> respond 404;",
    );
    play(&text, async |world| {
        let seen = sent(world, "POST /old/x%20y?q=1").await;
        assert_eq!(seen.first, "POST /new/x%20y?a=b&q=1 HTTP/1.1");
        let expected = "/old/x%20y?q=1|/new/x%20y|a=b&q=1|b|/new/x%20y?a=b&q=1";
        assert_eq!(seen.header("x-seen"), Some(expected));
        let line = world.log_line().await;
        assert_eq!(line.text("target"), "/old/x%20y?q=1");
        assert_eq!(line.text("route"), "10.0.0.1:80/default/2");
    });
}

#[test]
fn conditions_and_rewrites_have_the_new_target() {
    let text = routes(
        "route path /a -> internal /b?kind=2;
         route path /b query kind=1 -> respond 400;
         route path ~^/(b)$ query kind=2 -> app { rewrite path /$1/$arg_kind?; }",
    );
    play(&text, async |world| {
        assert_eq!(sent(world, "GET /a").await.first, "GET /b/2 HTTP/1.1");
    });
}

#[test]
fn clients_do_not_reach_routes_for_internal_redirects() {
    let text = routes(
        "route internal @named -> respond 200 named;
         route internal path /inside -> respond 200 inside;
         route path /inside -> respond 404;
         route path /to/path -> internal /inside;
         route path /to/name -> internal @named;
         default -> respond 403;",
    );
    play(&text, async |world| {
        assert_eq!(answered(world, "GET /inside").await.status(), 404);
        assert_eq!(answered(world, "GET /to/path").await.text(), "inside");
        assert_eq!(answered(world, "GET /to/name").await.text(), "named");
        assert_eq!(answered(world, "GET /@named").await.status(), 403);
    });
}

#[test]
fn a_name_keeps_the_path() {
    let text = routes("route internal @app -> app; default -> internal @app;");
    play(&text, async |world| {
        assert_eq!(sent(world, "GET /x%20?y").await.first, "GET /x%20?y HTTP/1.1");
    });
}

#[test]
fn ten_internal_redirects_are_followed_and_an_endless_chain_gets_500() {
    let text = routes(
        "route path /aaaaaaaaaaa -> respond 200 end;
         route path ~^/(a*)$ -> internal /a$1;
         default -> internal $uri;",
    );
    play(&text, async |world| {
        assert_eq!(answered(world, "GET /a").await.text(), "end");
        world.expect_logged("local", Some(200)).await;
        assert_eq!(answered(world, "GET /").await.status(), 500);
        world.expect_logged("loop_detected", Some(500)).await;
        assert_eq!(answered(world, "GET /x").await.status(), 500);
        world.log().await;
        let mut client = world.client().await;
        for path in ["/aaaaaaaaaaa", "/aaaaaaaaa", "/aaaaaaaaaaa"] {
            client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")).await;
            assert_eq!(client.message().await.text(), "end");
        }
    });
}

#[test]
fn access_and_limits_of_the_new_route_apply() {
    let text = routes(
        "route path /a -> internal /b;
         route path /b -> respond 200 { deny all; }
         route path /none -> internal /nowhere;",
    );
    play(&text, async |world| {
        assert_eq!(answered(world, "GET /a").await.status(), 403);
        assert_eq!(answered(world, "GET /none").await.status(), 404);
    });
}

#[test]
fn the_total_time_is_that_of_the_last_route_or_of_its_listener() {
    let text = routes(
        "timeout request=9s;
         route internal @app -> app;
         route path /off -> internal @app { timeout request=off; }
         route path /short -> internal @app { timeout request=1s; }",
    );
    for path in ["/off", "/short"] {
        play(&text, async |world| {
            let origin = world.origin(1);
            let mut client = world.client().await;
            client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")).await;
            let mut upstream = origin.accept().await;
            upstream.message().await;
            let began = Instant::now();
            assert_eq!(client.message().await.status(), 504, "{path}");
            assert_eq!(began.elapsed(), Duration::from_secs(9), "{path}");
            upstream.expect_end().await;
            world.log().await;
        });
    }
}

#[test]
fn requests_that_are_refused_take_no_turn_in_a_split() {
    let text = "pool one { server 10.0.1.1:80; } pool two { server 10.0.1.2:80; }
        listen 10.0.0.1:80 { route -> 50% one, 50% two; }";
    play(text, async |world| {
        let seen = [world.origin(1).answers(OK), world.origin(2).answers(OK)];
        for _ in 0..4 {
            assert_eq!(answered(world, "CONNECT a:80").await.status(), 405);
            assert_eq!(answered(world, "GET /").await.status(), 200);
        }
        assert_eq!(seen.map(|one| one.borrow().requests.len()), [2, 2]);
        world.log().await;
    });
}

#[test]
fn an_ambiguous_path_is_refused() {
    play(&routes("default -> internal /x/$arg_to?;"), async |world| {
        assert_eq!(answered(world, "GET /?to=%2e%2e%2fa").await.status(), 400);
    });
}

#[test]
fn a_missing_file_leads_to_the_fallback() {
    let text = routes(
        "route internal @app -> app;
         route path /f/* -> files / strip=/f fallback=@app;
         route path /g/* -> files / strip=/g fallback=/index?from=$uri;
         route path /index -> respond 200 \"$uri $args\";",
    );
    play(&text, async |world| {
        // The kernel has this answer in its cache, so that no thread has to wait for it.
        std::fs::read("/etc/passwd").unwrap();
        let missing = "etc/passwd/none";
        let expected = format!("POST /f/{missing} HTTP/1.1");
        assert_eq!(sent(world, &format!("POST /f/{missing}")).await.first, expected);
        let response = answered(world, &format!("GET /g/{missing}?x")).await;
        assert_eq!(response.text(), format!("/index from=/g/{missing}&x"));
        assert_eq!(answered(world, "POST /f/etc/passwd").await.status(), 405);
        assert_eq!(answered(world, "POST /f").await.status(), 301);
        assert_eq!(answered(world, "PUT /f").await.status(), 405);
        assert_eq!(answered(world, "GET /f").await.status(), 301);
        assert_eq!(answered(world, "GET /f/etc/passwd").await.status(), 200);
    });
}

/// Otherwise a listener's limit would switch off that of a route behind a redirect.
#[test]
fn limits_of_the_new_route_hold_and_those_of_the_listener_count_once() {
    let text = routes(
        "limit rate $remote_addr rate=1/m burst=2 status=429;
         route path /a -> internal /b;
         route path /b -> respond 200 { limit rate $remote_addr rate=1/m burst=1 status=403; }",
    );
    play(&text, async |world| {
        let mut statuses = Vec::new();
        for _ in 0..4 {
            statuses.push(answered(world, "GET /a").await.status());
        }
        assert_eq!(statuses, [200, 200, 403, 429]);
        world.log().await;
    });
}
