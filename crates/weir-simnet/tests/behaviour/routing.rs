//! Routing: hosts, paths, headers and client addresses select the route; the first match decides.
//! Also redirects, fixed responses and access rules.

use std::time::Duration;

use tokio::time::Instant;

use crate::OK;
use crate::peer::{Message, Peer};
use crate::world::{World, app, play};

async fn ask(client: &mut Peer, request: &str) -> Message {
    client.send(request).await;
    client.message().await
}

/// Sends a request for each case (host, target, header lines) and compares the body.
async fn check(world: &World, cases: &[(&str, &str, &str, &str)]) {
    let mut client = world.client().await;
    for (host, target, lines, expected) in cases {
        let request = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n{lines}\r\n");
        assert_eq!(ask(&mut client, &request).await.text(), *expected, "{request}");
    }
}

#[test]
fn the_host_selects_the_host_block_and_other_hosts_the_default_routes() {
    let text = r"listen 10.0.0.1:80 {
        host shop.example.com { route -> respond 200 exact; }
        host *.example.com { route -> respond 200 wildcard; }
        host ~^app[0-9]+\.test$ { route -> respond 200 regex; }
        default -> respond 200 default;
    }";
    play(text, async |world| {
        check(
            world,
            &[
                ("shop.example.com", "/", "", "exact"),
                ("SHOP.Example.com:8080", "/", "", "exact"),
                ("a.b.example.com", "/", "", "wildcard"),
                ("example.com", "/", "", "default"),
                ("app12.test", "/", "", "regex"),
                ("app.test", "/", "", "default"),
                ("10.0.0.1", "/", "", "default"),
                ("other", "http://shop.example.com/", "", "exact"),
            ],
        )
        .await;
    });
}

#[test]
fn a_response_is_held_back_unless_the_client_leaves() {
    let text = "listen 10.0.0.1:80 { route path /slow -> respond 429 \"wait\" cause=denied delay=5s; \
            route path /end -> respond 444 delay=1s; default -> respond 200 default; }";
    play(text, async |world| {
        let began = Instant::now();
        let mut client = world.client().await;
        let message = ask(&mut client, "GET /slow HTTP/1.1\r\nHost: a\r\n\r\n").await;
        assert_eq!((message.status(), message.text()), (429, "wait"));
        assert_eq!(began.elapsed(), Duration::from_secs(5));
        let line = world.log_line().await;
        assert_eq!(line.text("cause"), "denied");
        line.expect_times(&[("t_queue", 5_000), ("t_total", 5_000)]);
        // The connection is open for other requests.
        assert_eq!(ask(&mut client, "GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.status(), 200);
        world.log_line().await;
        client.send("GET /end HTTP/1.1\r\nHost: a\r\n\r\n").await;
        client.expect_silence(Duration::from_millis(900)).await;
        client.expect_closed().await;
        world.log_line().await;
        let mut leaver = world.client().await;
        leaver.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n").await;
        leaver.expect_silence(Duration::from_secs(1)).await;
        leaver.reset();
        world.expect_logged("client_gone", Some(499)).await;
    });
}

#[test]
fn the_first_route_that_matches_wins() {
    let text = r#"listen 10.0.0.1:80 {
        route path /exact -> respond 200 exact;
        route path /a/*/b -> respond 200 glob;
        route path /a/* -> respond 200 prefix;
        route path *.css -> respond 200 suffix;
        route path ~^/n/([0-9]+)$ -> respond 200 "number $1";
        route path /x method POST PUT -> respond 200 method;
        route header X-Channel=canary -> respond 200 header;
        route cookie beta=1 -> respond 200 cookie;
        route query debug -> respond 200 query;
        default -> respond 200 default;
    }"#;
    play(text, async |world| {
        check(
            world,
            &[
                ("a", "/exact", "", "exact"),
                ("a", "/exact?x", "", "exact"),
                ("a", "/exact/", "", "default"),
                ("a", "/a/1/b", "", "glob"),
                ("a", "/a/1/c", "", "prefix"),
                ("a", "/x/y.css", "", "suffix"),
                ("a", "/n/42", "", "number 42"),
                ("a", "/n/x", "", "default"),
                ("a", "/x", "", "default"),
                ("a", "/", "X-Channel: canary\r\n", "header"),
                ("a", "/", "X-Channel: none\r\n", "default"),
                ("a", "/", "Cookie: a=b; beta=1\r\n", "cookie"),
                ("a", "/", "Cookie: beta=2\r\n", "default"),
                ("a", "/?a=b&debug=1", "", "query"),
                ("a", "/exact?debug", "X-Channel: canary\r\n", "exact"),
            ],
        )
        .await;
        let mut client = world.client().await;
        assert_eq!(ask(&mut client, "PUT /x HTTP/1.1\r\nHost: a\r\n\r\n").await.text(), "method");
    });
}

#[test]
fn expressions_and_named_rules_combine() {
    let text = r"rule staff { client 192.0.2.0/24 or header X-Staff=yes }
        listen 10.0.0.1:80 {
        route path /admin/* not rule staff -> respond 403;
        route path /admin/* -> respond 200 admin;
        route ( path /a or path /b ) header X -> respond 200 both;
        default -> respond 200 default;
    }";
    play(text, async |world| {
        let get = |path: &str, line: &str| format!("GET {path} HTTP/1.1\r\nHost: a\r\n{line}\r\n");
        let mut inside = world.client_from("192.0.2.9", "10.0.0.1:80").await;
        let mut outside = world.client_from("198.51.100.9", "10.0.0.1:80").await;
        assert_eq!(ask(&mut inside, &get("/admin/x", "")).await.text(), "admin");
        assert_eq!(ask(&mut outside, &get("/admin/x", "X-Staff: yes\r\n")).await.text(), "admin");
        assert_eq!(ask(&mut outside, &get("/b", "X: 1\r\n")).await.text(), "both");
        assert_eq!(ask(&mut outside, &get("/b", "")).await.text(), "default");
        assert_eq!(ask(&mut outside, &get("/admin/x", "")).await.status(), 403);
    });
}

#[test]
fn routes_lead_to_their_pools() {
    let text = "pool one { server 10.0.1.1:80; } pool two { server 10.0.1.2:80; }
        listen 10.0.0.1:80 { route path /two/* -> two; default -> one; }";
    play(text, async |world| {
        world.origin(1).answers("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\none");
        world.origin(2).answers("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\ntwo");
        check(
            world,
            &[("a", "/two/x", "", "two"), ("a", "/", "", "one"), ("a", "/two/y", "", "two")],
        )
        .await;
        let pools: Vec<String> = world.log().await.iter().map(|line| line.text("pool")).collect();
        assert_eq!(pools, ["two", "one", "two"]);
    });
}

#[test]
fn a_request_without_a_route_gets_404_and_its_connection_stays() {
    let text = "listen 10.0.0.1:80 { host a { route path /x -> respond 200 x; } }";
    play(text, async |world| {
        let mut client = world.client().await;
        for request in ["GET / HTTP/1.1\r\nHost: a\r\n\r\n", "GET /x HTTP/1.1\r\nHost: b\r\n\r\n"] {
            assert_eq!(ask(&mut client, request).await.status(), 404);
            world.expect_logged("no_route", Some(404)).await;
        }
        assert_eq!(ask(&mut client, "GET /x HTTP/1.1\r\nHost: a\r\n\r\n").await.text(), "x");
        world.expect_logged("local", Some(200)).await;
    });
}

#[test]
fn redirects_contain_groups_and_the_configured_parts_of_the_url() {
    let text = r"listen 10.0.0.1:80 {
        route path ~^/old/(.*)$ -> redirect 308 https://new.test/$1?$args;
        route path /see -> redirect 303 /seen;
        default -> redirect https 301;
    }";
    play(text, async |world| {
        let cases = [
            ("/a/b?c=d", 301, "https://shop.test/a/b?c=d"),
            ("/see", 303, "/seen"),
            ("/old/x/y?z", 308, "https://new.test/x/y?z"),
        ];
        let mut client = world.client().await;
        for (target, status, location) in cases {
            let request = format!("GET {target} HTTP/1.1\r\nHost: shop.test:80\r\n\r\n");
            let response = ask(&mut client, &request).await;
            assert_eq!((response.status(), response.header("location")), (status, Some(location)));
        }
    });
}

#[test]
fn a_redirect_to_the_host_of_a_request_without_a_host_is_400() {
    play("listen 10.0.0.1:80 { redirect https; }", async |world| {
        let mut client = world.client().await;
        let response = ask(&mut client, "GET /a HTTP/1.0\r\n\r\n").await;
        assert_eq!((response.status(), response.header("location")), (400, None));
        world.expect_logged("bad_request", Some(400)).await;
        let mut client = world.client().await;
        let response = ask(&mut client, "GET http://shop.test/a HTTP/1.0\r\n\r\n").await;
        assert_eq!(response.header("location"), Some("https://shop.test/a"));
    });
}

#[test]
fn a_fixed_response_discards_the_request_body_or_closes() {
    let text =
        r#"listen 10.0.0.1:80 { default -> respond 200 "for $remote_addr" type=text/html; }"#;
    play(text, async |world| {
        let mut client = world.client().await;
        let post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello";
        let response = ask(&mut client, post).await;
        assert_eq!(
            (response.text(), response.header("content-type")),
            ("for 192.0.2.1", Some("text/html"))
        );
        assert_eq!(ask(&mut client, post).await.status(), 200);
        let rest = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 50\r\n\r\nhello";
        assert_eq!(ask(&mut client, rest).await.header("connection"), Some("close"));
        client.expect_closed().await;
        let mut client = world.client().await;
        client.send("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n").await;
        assert_eq!(client.head().await.header("content-length"), Some("13"));
        assert!(client.is_open().await);
    });
}

#[test]
fn groups_of_a_path_are_logged_although_nothing_else_uses_them() {
    play(&app("server 10.0.1.1:80;", "route path ~^/user/([a-z]+)/(.*)$ -> app;"), async |world| {
        world.origin(1).answers(OK);
        let mut client = world.client().await;
        client.send("GET /user/jo/x HTTP/1.1\r\nHost: a\r\n\r\n").await;
        assert_eq!(client.message().await.status(), 200);
        let line = format!("{:?}", world.log_line().await);
        assert!(line.contains(r#""captures":["jo","x""#), "{line}");
    });
}

#[test]
fn error_pages_replace_local_replies_and_not_responses_of_an_origin() {
    let text = "pool app { server 10.0.1.1:80; } pool none { server 10.0.1.9:80; }
        listen 10.0.0.1:80 { error_page 404 502 sorry.html; route path /a -> app; route path /none -> none; }";
    play(text, async |world| {
        world.origin(1).answers("HTTP/1.1 404 Not Found\r\nContent-Length: 6\r\n\r\ntheirs");
        let mut client = world.client().await;
        for (path, status, ours) in [("/none", 502, true), ("/b", 404, true), ("/a", 404, false)] {
            let response =
                ask(&mut client, &format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")).await;
            assert_eq!(response.status(), status);
            assert_eq!(response.text().contains("the page"), ours, "{}", response.text());
        }
    });
}

#[test]
fn a_denied_client_gets_403_and_reaches_no_origin() {
    let text = "pool app { server 10.0.1.1:80; }
        listen 10.0.0.1:80 {
            deny 198.51.100.7; allow 198.51.100.0/24 192.0.2.0/24; deny all;
            route path /inner -> app { allow 192.0.2.0/24; deny all; };
            default -> app;
        }";
    play(text, async |world| {
        let origin = world.origin(1);
        let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
        for (source, path) in
            [("198.51.100.7", "/"), ("203.0.113.1", "/"), ("198.51.100.8", "/inner")]
        {
            let mut client = world.client_from(source, "10.0.0.1:80").await;
            assert_eq!(ask(&mut client, &get(path)).await.status(), 403, "{source} {path}");
            world.expect_logged("denied", Some(403)).await;
        }
        origin.expect_no_connection().await;
        origin.answers(OK);
        for (source, path) in [("198.51.100.8", "/"), ("192.0.2.1", "/inner")] {
            let mut client = world.client_from(source, "10.0.0.1:80").await;
            assert_eq!(ask(&mut client, &get(path)).await.status(), 200, "{source} {path}");
        }
    });
}

#[test]
fn a_map_decides_on_routes_headers_and_answers() {
    let text = r#"
    map $host $tenant hosts { *.shop.test shop; ~^(?<name>[a-z]+)\.test$ "plain $name"; default none; }
    map $tenant$http_x_beta $beta { ~1$ yes; }
    map $server_port $port { 80 usual; default other; }
    split "$arg_user" $variant { 50% a; * b; }
    listen 10.0.0.1:80 {
        route variable $beta=yes -> respond 200 "beta $tenant";
        route variable $tenant=shop variable $port=usual -> respond 200 "$tenant $variant $1";
        route -> redirect 302 https://x/$tenant;
    }"#;
    play(text, async |world| {
        check(
            world,
            &[
                ("a.SHOP.test", "/", "", "shop a "),
                ("a.shop.test", "/?user=c", "", "shop a "),
                ("a.shop.test", "/?user=d", "", "shop b "),
                ("a.shop.test", "/", "X-Beta: 1\r\n", "beta shop"),
                ("plain.test", "/", "X-Beta: 1\r\n", "beta plain plain"),
            ],
        )
        .await;
        let mut client = world.client().await;
        let moved = ask(&mut client, "GET / HTTP/1.1\r\nHost: x\r\n\r\n").await;
        assert_eq!(moved.header("location"), Some("https://x/none"));
    });
}

const TWO_POOLS: &str = "pool a { server 10.0.1.1:80; } pool b { server 10.0.1.2:80; }";

#[test]
fn a_variable_names_the_pool() {
    let text = format!(
        "{TWO_POOLS} map $http_x_pool $pool_name {{ b b; default a; }}
        listen 10.0.0.1:80 {{ response_header set X-Pool $pool; route -> $pool_name; }}"
    );
    play(&text, async |world| {
        let mut client = world.client().await;
        for (line, pool) in [("", "a"), ("X-Pool: b\r\n", "b"), ("X-Pool: c\r\n", "a")] {
            let request = format!("GET / HTTP/1.1\r\nHost: a\r\n{line}\r\n");
            assert_eq!(ask(&mut client, &request).await.header("x-pool"), Some(pool), "{line}");
        }
    });
}

#[test]
fn pools_share_the_requests_exactly_and_a_key_keeps_its_pool() {
    let text = format!(
        "{TWO_POOLS} listen 10.0.0.1:80 {{
            response_header set X-Pool $pool;
            route path /in-turn -> 75% a, 25% b;
            route -> 50% a, * b key=$cookie_id;
        }}"
    );
    play(&text, async |world| {
        let mut counts = [0; 2];
        let mut clients = [world.client().await, world.client().await];
        for turn in 0..40 {
            let request = "GET /in-turn HTTP/1.1\r\nHost: a\r\n\r\n";
            let response = ask(&mut clients[turn % 2], request).await;
            counts[usize::from(response.header("x-pool") == Some("b"))] += 1;
        }
        assert_eq!(counts, [30, 10]);
        let mut seen = std::collections::HashSet::new();
        for id in 0..20 {
            let request = format!("GET / HTTP/1.1\r\nHost: a\r\nCookie: id={id}\r\n\r\n");
            let first = ask(&mut clients[0], &request).await;
            let again = ask(&mut clients[1], &request).await;
            assert_eq!(first.header("x-pool"), again.header("x-pool"));
            seen.insert(first.header("x-pool").map(str::to_owned));
        }
        assert_eq!(seen.len(), 2);
    });
}

#[test]
fn the_status_444_closes_the_connection_without_a_response() {
    let text = "listen 10.0.0.1:80 { error_page 444 -> internal /page;
        route path /end -> respond 444; route path /denied -> respond 444 cause=denied;
        default -> respond 200 page; }";
    play(text, async |world| {
        for (path, cause) in [("/end", "local"), ("/denied", "denied")] {
            let mut client = world.client().await;
            client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")).await;
            client.expect_closed().await;
            world.expect_logged(cause, Some(444)).await;
        }
    });
}
