//! Limits on clients and keys: they are exact over all workers and listeners, and are shown in
//! responses and counters.

use std::time::Duration;

use crate::peer::Peer;
use crate::world::{World, pass, play};
use crate::{GET, OK};

/// Returns a configuration with these directives in the listener and the route.
fn limited(top: &str, listener: &str, route: &str) -> String {
    format!(
        "{top} workers 3; pool app {{ server 10.0.1.1:80; }}
         listen 10.0.0.1:80 name=front {{ {listener} route path /app -> app {{ {route} }} default -> respond 204; }}"
    )
}

async fn ask(client: &mut Peer, request: &str) -> u16 {
    client.send(request).await;
    client.message().await.status()
}

/// Returns the status of a request for `/` from a new client of this address.
async fn status_of(world: &World, address: &str) -> u16 {
    ask(&mut world.client_from(address, "10.0.0.1:80").await, GET).await
}

/// Returns the number of `count` new clients of this address that get 204.
async fn passed(world: &World, address: &str, count: usize) -> usize {
    let mut passed = 0;
    for _ in 0..count {
        passed += usize::from(status_of(world, address).await == 204);
    }
    passed
}

/// Returns the number of requests that the limit of that name refused, delayed, and would have
/// refused.
fn counted(world: &World, bound: &str) -> (u64, u64, u64) {
    let all = world.snapshot().limiter.all();
    let counts = all.iter().find(|counts| counts.key.bound == bound).expect("a bound of that name");
    let figures = counts.figures();
    (figures.refused, figures.delayed, figures.dry_run)
}

#[test]
fn a_rate_holds_for_each_client_over_all_workers_and_refills() {
    play(&limited("", "limit client rate=10/s burst=19;", ""), async |world| {
        assert_eq!(passed(world, "192.0.2.1", 50).await, 20);
        assert_eq!(passed(world, "192.0.2.2", 50).await, 20);
        pass(500).await;
        assert_eq!(passed(world, "192.0.2.1", 50).await, 5);
        pass(60_000).await;
        assert_eq!(passed(world, "192.0.2.1", 50).await, 20);
        assert_eq!(counted(world, "client_rate"), (30 + 30 + 45 + 30, 0, 0));
        let all = world.snapshot().limiter.all();
        let top: Vec<_> = all[0].top().into_iter().map(|own| (own.key, own.count)).collect();
        assert_eq!(top, [(b"192.0.2.1"[..].into(), 105), (b"192.0.2.2"[..].into(), 30)]);
    });
}

#[test]
fn a_refused_request_gets_retry_after_and_the_connection_stays() {
    play(&limited("", "limit client rate=6/m burst=1;", ""), async |world| {
        let mut client = world.client().await;
        assert_eq!((ask(&mut client, GET).await, ask(&mut client, GET).await), (204, 204));
        pass(1000).await;
        client.send(GET).await;
        let refused = client.message().await;
        assert_eq!((refused.status(), refused.header("retry-after")), (429, Some("9")));
        assert_eq!(refused.header("ratelimit-policy"), Some("\"client\";q=2;w=20"));
        assert_eq!(refused.header("ratelimit"), Some("\"client\";r=0;t=9"));
        pass(9000).await;
        assert_eq!(ask(&mut client, GET).await, 204);
        let causes: Vec<String> = world.log().await.iter().map(|line| line.text("cause")).collect();
        assert_eq!(causes, ["local", "local", "rate_limited", "local"]);
    });
}

#[test]
fn addresses_of_one_ipv6_network_are_one_client_and_exceptions_have_no_limit() {
    let limit = "limit client rate=1/s burst=2 except=10.9.0.0/16,2001:db8:9::/48;";
    play(&limited("", limit, ""), async |world| {
        let mut passed_of_64 = 0;
        for number in 1..=9 {
            passed_of_64 += passed(world, &format!("2001:db8::{number}"), 1).await;
        }
        assert_eq!(passed_of_64, 3);
        assert_eq!(passed(world, "2001:db8:0:1::1", 5).await, 3);
        assert_eq!(passed(world, "2001:db8:9::1", 9).await, 9);
        assert_eq!(passed(world, "10.9.1.1", 9).await, 9);
    });
}

#[test]
fn behind_a_trusted_proxy_clients_are_limited_by_their_own_address_and_the_proxy_is_not() {
    let lines = "trusted_proxies 10.8.0.0/16; limit client rate=1/s burst=1 connections=1;";
    play(&limited("", lines, ""), async |world| {
        let mut proxies = Vec::new();
        for _ in 0..5 {
            proxies.push(world.client_from("10.8.0.1", "10.0.0.1:80").await);
        }
        let mut seen = Vec::new();
        for client in ["1.1.1.1", "2.2.2.2", "1.1.1.1", "1.1.1.1", "2.2.2.2"] {
            let request = format!("GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: {client}\r\n\r\n");
            let proxy = proxies.last_mut().unwrap();
            seen.push(ask(proxy, &request).await);
            proxies.rotate_right(1);
        }
        assert_eq!(seen, [204, 204, 204, 429, 204]);
        assert_eq!(counted(world, "client_connections"), (0, 0, 0));
    });
}

#[test]
fn connections_over_the_bound_are_closed_whichever_workers_hold_the_others() {
    let top = "limit client connections=5;";
    let text = format!("{} listen 10.0.0.1:81 -> respond 204;", limited(top, "", ""));
    play(&text, async |world| {
        let mut held = Vec::new();
        for number in 0..5 {
            let at = ["10.0.0.1:80", "10.0.0.1:81"][number % 2];
            let mut client = world.client_from("192.0.2.1", at).await;
            assert_eq!(ask(&mut client, GET).await, 204);
            held.push(client);
        }
        for at in ["10.0.0.1:80", "10.0.0.1:81"] {
            world.client_from("192.0.2.1", at).await.expect_closed().await;
        }
        assert_eq!(status_of(world, "192.0.2.2").await, 204, "another client");
        held.pop();
        pass(10).await;
        assert_eq!(status_of(world, "192.0.2.1").await, 204);
        assert_eq!(counted(world, "client_connections"), (2, 0, 0));
    });
}

#[test]
fn new_connections_are_bounded_in_rate_and_requests_on_open_ones_are_not() {
    play(&limited("", "limit client new_connections=4/s;", ""), async |world| {
        let mut first = world.client().await;
        for _ in 0..50 {
            assert_eq!(ask(&mut first, GET).await, 204);
        }
        for _ in 0..3 {
            assert_eq!(status_of(world, "192.0.2.1").await, 204);
        }
        world.client().await.expect_closed().await;
        pass(250).await;
        assert_eq!(status_of(world, "192.0.2.1").await, 204);
        world.client().await.expect_closed().await;
    });
}

#[test]
fn requests_in_flight_are_bounded_over_all_workers_until_their_responses_have_ended() {
    play(&limited("", "limit client in_flight=2;", ""), async |world| {
        let origin = world.origin(1);
        let request = "GET /app HTTP/1.1\r\nHost: a\r\n\r\n";
        let mut running = Vec::new();
        for _ in 0..2 {
            let mut client = world.client().await;
            client.send(request).await;
            let mut upstream = origin.accept().await;
            upstream.message().await;
            running.push((client, upstream));
        }
        let mut third = world.client().await;
        assert_eq!(ask(&mut third, request).await, 429);
        world.expect_logged("in_flight_limited", Some(429)).await;
        let mut other = world.client_from("192.0.2.7", "10.0.0.1:80").await;
        assert_eq!(ask(&mut other, GET).await, 204);
        for (mut client, mut upstream) in running {
            upstream.send(OK).await;
            assert_eq!(client.message().await.status(), 200);
        }
        assert_eq!(ask(&mut third, GET).await, 204);
        assert_eq!(counted(world, "client_in_flight"), (1, 0, 0));
    });
}

#[test]
fn a_key_has_its_own_rate_and_a_request_without_one_is_not_limited() {
    let limit = "limit rate $http_x_key rate=1/s burst=2 name=keys status=503;";
    play(&limited("", "", limit), async |world| {
        world.origin(1).answers(OK);
        let request = |key: &str| format!("GET /app HTTP/1.1\r\nHost: a\r\n{key}\r\n");
        let mut client = world.client().await;
        for (key, expected) in [
            ("X-Key: secret-a\r\n", [200, 200, 200, 503]),
            ("X-Key: secret-b\r\n", [200, 200, 200, 503]),
            ("", [200; 4]),
        ] {
            for status in expected {
                assert_eq!(ask(&mut client, &request(key)).await, status, "{key}");
            }
        }
        assert_eq!(ask(&mut client, GET).await, 204, "another route");
        let all = world.snapshot().limiter.all();
        let top = all[0].top();
        let text = String::from_utf8(top[0].key.to_vec()).unwrap();
        assert!(text.starts_with("secr…") && !text.contains("secret"), "{text}");
        assert_eq!((&*all[0].key.limit, top.len()), ("keys", 2));
    });
}

#[test]
fn a_leaky_bucket_delays_requests_above_the_rate_and_forgets_clients_that_leave() {
    let limit = "limit rate $remote_addr rate=10/s burst=3 delay=1;";
    play(&limited("", limit, ""), async |world| {
        let start = tokio::time::Instant::now();
        let mut clients = Vec::new();
        for _ in 0..6 {
            let mut client = world.client().await;
            client.send(GET).await;
            clients.push(client);
            pass(1).await;
        }
        let mut seen = Vec::new();
        for client in &mut clients {
            let status = client.message().await.status();
            seen.push((status, start.elapsed().as_millis() / 10 * 10));
        }
        assert_eq!(seen, [(204, 0), (204, 0), (204, 100), (204, 200), (429, 200), (429, 200)]);
        assert_eq!(counted(world, "rate"), (2, 2, 0));
        pass(60_000).await;
        world.log().await;
        for _ in 0..3 {
            clients[0].send(GET).await;
        }
        let mut leaving = world.client().await;
        leaving.send(GET).await;
        pass(1).await;
        drop(leaving);
        for _ in 0..3 {
            assert_eq!(clients[0].message().await.status(), 204);
        }
        let causes: Vec<String> = world.log().await.iter().map(|line| line.text("cause")).collect();
        assert!(causes.contains(&"client_gone".to_owned()), "{causes:?}");
    });
}

#[test]
fn a_dry_run_counts_and_refuses_nothing() {
    let top = "limit client rate=1/s burst=1 connections=1 in_flight=1 dry_run;";
    let limit = "limit rate $remote_addr rate=1/s burst=3 delay=1 dry_run;";
    play(&limited(top, limit, ""), async |world| {
        let mut clients = Vec::new();
        for _ in 0..8 {
            let mut client = world.client().await;
            assert_eq!(ask(&mut client, GET).await, 204);
            clients.push(client);
        }
        assert_eq!(counted(world, "client_rate"), (0, 0, 6));
        assert_eq!(counted(world, "client_connections"), (0, 0, 7));
        assert_eq!(counted(world, "rate"), (0, 0, 2 + 4));
    });
}

#[test]
fn a_client_over_the_limit_can_be_closed_without_a_response() {
    play(&limited("", "limit client rate=1/s burst=1 action=close;", ""), async |world| {
        let mut client = world.client().await;
        assert_eq!((ask(&mut client, GET).await, ask(&mut client, GET).await), (204, 204));
        client.send(GET).await;
        client.expect_closed().await;
        let line = world.log().await.pop().unwrap();
        assert_eq!((line.text("cause").as_str(), line.number("status")), ("rate_limited", None));
    });
}

#[test]
fn malformed_requests_are_limited_as_well() {
    play(&limited("", "limit client rate=1/s burst=2;", ""), async |world| {
        let mut seen = Vec::new();
        for _ in 0..5 {
            seen.push(ask(&mut world.client().await, "nonsense\r\n\r\n").await);
        }
        assert_eq!(seen, [400, 400, 400, 429, 429]);
    });
}

#[test]
fn responses_carry_the_limit_if_configured() {
    let limit = "limit rate $remote_addr rate=10/s burst=9 headers=all;";
    play(&limited("", "", limit), async |world| {
        world.origin(1).answers(OK);
        let mut client = world.client().await;
        client.send("GET /app HTTP/1.1\r\nHost: a\r\n\r\n").await;
        let response = client.message().await;
        assert_eq!(response.header("ratelimit"), Some("\"front/default/1\";r=9;t=1"));
        assert_eq!(response.header("ratelimit-policy"), Some("\"front/default/1\";q=10;w=1"));
    });
}

#[test]
fn a_reload_keeps_the_counts_of_clients_and_applies_the_new_limits() {
    let text = |bounds: &str| limited(&format!("limit client {bounds};"), "", "");
    play(&text("rate=1/m burst=4 connections=30"), async |world| {
        let mut held = vec![world.client().await, world.client().await];
        assert_eq!(ask(&mut held[0], GET).await, 204);
        assert_eq!(passed(world, "192.0.2.1", 9).await, 4);
        world.reload(&format!("limit_table 1m; {}", text("rate=1/m burst=4 connections=30"))).await;
        assert_eq!(ask(&mut held[0], GET).await, 429, "it was used up before");
        pass(10).await;
        world.reload(&text("connections=2")).await;
        assert_eq!(ask(&mut held[0], GET).await, 204, "no rate any more");
        world.client().await.expect_closed().await;
        held.pop();
        pass(10).await;
        held.push(world.client().await);
        assert_eq!(ask(held.last_mut().unwrap(), GET).await, 204);
        world.reload(&limited("", "", "")).await;
        held.push(world.client().await);
        assert_eq!(ask(held.last_mut().unwrap(), GET).await, 204);
    });
}

#[test]
fn a_client_over_its_limit_costs_no_other_client_a_connection() {
    let text = format!("max_connections 3; {}", limited("limit client connections=2;", "", ""));
    play(&text, async |world| {
        let mut honest = world.client_from("192.0.2.9", "10.0.0.1:80").await;
        assert_eq!(ask(&mut honest, GET).await, 204);
        let mut greedy = vec![world.client().await, world.client().await];
        for client in &mut greedy {
            assert_eq!(ask(client, GET).await, 204);
        }
        pass(1000).await;
        for _ in 0..20 {
            world.client().await.expect_closed().await;
        }
        pass(Duration::from_secs(1).as_millis() as u64).await;
        assert_eq!(ask(&mut honest, GET).await, 204);
    });
}

/// Returns the size of the response body and its duration in milliseconds.
async fn time_of(client: &mut Peer) -> (usize, u128) {
    let start = tokio::time::Instant::now();
    let body = client.message().await.body.len();
    (body, start.elapsed().as_millis())
}

/// Returns a response with a body of this size.
fn answer(bytes: usize) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\n\r\n{}", "x".repeat(bytes))
}

const APP: &str = "GET /app HTTP/1.1\r\nHost: a\r\n\r\n";

#[test]
fn a_response_moves_at_its_rate_and_its_server_is_free_once_it_was_read() {
    play(&limited("", "", "limit bandwidth down=10k after=5k;"), async |world| {
        world.origin(1).answers(&answer(30 * 1024));
        let mut client = world.client().await;
        client.send(APP).await;
        pass(1300).await;
        // The rest of the response is in a buffer, and the client still has a good part of it to
        // receive.
        assert_eq!(world.in_flight(), 0);
        let (bytes, took) = time_of(&mut client).await;
        assert_eq!(bytes, 30 * 1024);
        assert!((1050..=1250).contains(&took), "{took} ms after 1300");
        // The next response starts with a new allowance.
        client.send(APP).await;
        let (_, took) = time_of(&mut client).await;
        assert!((2350..=2550).contains(&took), "{took} ms");
    });
}

#[test]
fn a_key_shares_its_bandwidth_over_workers_and_others_have_their_own() {
    play(&limited("", "limit bandwidth $remote_addr down=20k;", ""), async |world| {
        world.origin(1).answers(&answer(20 * 1024));
        let mut clients = Vec::new();
        for address in ["192.0.2.1", "192.0.2.1", "192.0.2.1", "192.0.2.9"] {
            let mut client = world.client_from(address, "10.0.0.1:80").await;
            client.send(APP).await;
            clients.push(client);
        }
        let start = tokio::time::Instant::now();
        let mut own = clients.pop().unwrap();
        assert_eq!(own.message().await.body.len(), 20 * 1024);
        let alone = start.elapsed().as_millis();
        assert!((850..=1050).contains(&alone), "{alone} ms");
        for client in &mut clients {
            assert_eq!(client.message().await.body.len(), 20 * 1024);
        }
        let together = start.elapsed().as_millis();
        assert!((2800..=3100).contains(&together), "{together} ms");
    });
}

#[test]
fn a_request_body_moves_at_its_rate() {
    play(&limited("", "", "limit bandwidth up=10k;"), async |world| {
        let origin = world.origin(1);
        let mut client = world.client().await;
        let body = "x".repeat(30 * 1024);
        let head = "POST /app HTTP/1.1\r\nHost: a\r\nContent-Length: 30720\r\n\r\n";
        let start = tokio::time::Instant::now();
        client.send(head).await;
        client.send(&body).await;
        let mut upstream = origin.accept().await;
        assert_eq!(upstream.message().await.body.len(), 30 * 1024);
        let took = start.elapsed().as_millis();
        assert!((2850..=3050).contains(&took), "{took} ms");
        upstream.send(OK).await;
        assert_eq!(client.message().await.status(), 200);
    });
}

#[test]
fn buffered_and_repeated_request_bodies_move_at_their_rate() {
    let front = "listen 10.0.0.1:80 name=front { route -> app { limit bandwidth up=10k; } }";
    let servers = "server 10.0.1.1:80; server 10.0.1.2:80";
    let held =
        format!("pool app {{ {servers}; buffer_request 1m; retry 1 on=refused,503; }} {front}");
    let passed_on = format!("pool app {{ {servers}; retry 1 on=refused,503; }} {front}");
    for (config, refuses) in [(&held, false), (&held, true), (&passed_on, true)] {
        play(config, async |world| {
            let origins = [world.origin(1), world.origin(2)];
            let mut client = world.client().await;
            let body = "x".repeat(5 * 1024);
            client.send("PUT /app HTTP/1.1\r\nHost: a\r\nContent-Length: 5120\r\n\r\n").await;
            client.send(&body).await;
            let mut upstream = tokio::select! {
                upstream = origins[0].accept() => upstream,
                upstream = origins[1].accept() => upstream,
            };
            if refuses {
                upstream.head().await;
                upstream.send("HTTP/1.1 503 Full\r\nContent-Length: 0\r\n\r\n").await;
                upstream = tokio::select! {
                    upstream = origins[0].accept() => upstream,
                    upstream = origins[1].accept() => upstream,
                };
            }
            let start = tokio::time::Instant::now();
            assert_eq!(upstream.message().await.body.len(), body.len());
            let took = start.elapsed().as_millis();
            assert!((350..=550).contains(&took), "{refuses} {took} ms");
            upstream.send(OK).await;
            assert_eq!(client.message().await.status(), 200);
        });
    }
}

#[test]
fn a_tunnel_moves_at_its_rate_both_ways() {
    play(&limited("", "", "limit bandwidth down=10k up=20k;"), async |world| {
        let origin = world.origin(1);
        let mut client = world.client().await;
        let upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
        client.send(format!("GET /app HTTP/1.1\r\nHost: a\r\n{upgrade}")).await;
        let mut upstream = origin.accept().await;
        upstream.head().await;
        upstream.send(format!("HTTP/1.1 101 Switching Protocols\r\n{upgrade}")).await;
        assert_eq!(client.head().await.status(), 101);
        let text = "x".repeat(30 * 1024);
        let start = tokio::time::Instant::now();
        upstream.send(&text).await;
        client.send(&text).await;
        upstream.exactly(text.len()).await;
        let up = start.elapsed().as_millis();
        assert!((1350..=1550).contains(&up), "{up} ms");
        client.exactly(text.len()).await;
        let down = start.elapsed().as_millis();
        assert!((2850..=3050).contains(&down), "{down} ms");
    });
}

#[test]
fn a_file_moves_at_its_rate() {
    let own = format!("{}/bandwidth-{}", env!("CARGO_TARGET_TMPDIR"), std::process::id());
    std::fs::create_dir_all(&own).unwrap();
    for (name, bytes) in [("small", 20 * 1024), ("large", 300 * 1024)] {
        std::fs::write(format!("{own}/{name}"), vec![b'x'; bytes]).unwrap();
        let text =
            format!("listen 10.0.0.1:80 {{ limit bandwidth down=100k; default -> files {own}; }}");
        play(&text, async |world| {
            let mut client = world.client().await;
            client.send(format!("GET /{name} HTTP/1.1\r\nHost: a\r\n\r\n")).await;
            let (read, took) = time_of(&mut client).await;
            assert_eq!(read, bytes);
            let whole = bytes as u128 * 1000 / (100 * 1024);
            assert!((whole - 110..=whole + 50).contains(&took), "{name}: {took} ms");
        });
    }
    std::fs::remove_dir_all(&own).unwrap();
}

#[test]
fn a_pool_takes_no_more_requests_at_once_than_its_limit_allows() {
    let text = "pool app { server 10.0.1.1:80 max_conn=1; limits max_in_flight=3; }
        listen 10.0.0.1:80 -> app;";
    play(text, async |world| {
        let origin = world.origin(1);
        let mut clients = Vec::new();
        for _ in 0..3 {
            let mut client = world.client().await;
            client.send(GET).await;
            clients.push(client);
            pass(1).await;
        }
        assert_eq!((world.in_flight(), world.waiting()), (1, 2));
        let mut surplus = world.client().await;
        assert_eq!(ask(&mut surplus, GET).await, 503);
        world.expect_logged("pool_full", Some(503)).await;
        let mut upstream = origin.accept().await;
        for client in &mut clients {
            upstream.message().await;
            upstream.send(OK).await;
            assert_eq!(client.message().await.status(), 200);
        }
        surplus.send(GET).await;
        upstream.message().await;
        upstream.send(OK).await;
        assert_eq!(surplus.message().await.status(), 200);
        assert_eq!(counted(world, "pool_in_flight"), (1, 0, 0));
    });
}

#[test]
fn retries_in_flight_do_not_exceed_the_limit_of_the_pool() {
    let text = "pool app {
            server 10.0.1.1:80; server 10.0.1.2:80; balance first; passive off;
            limits max_retries=1; retry 1 on=reset budget=off;
        }
        listen 10.0.0.1:80 -> app;";
    play(text, async |world| {
        let (one, two) = (world.origin(1), world.origin(2));
        let mut clients = Vec::new();
        for _ in 0..2 {
            let mut client = world.client().await;
            client.send(GET).await;
            drop(one.accept().await);
            clients.push(client);
        }
        assert_eq!(clients[1].message().await.status(), 502);
        let mut upstream = two.accept().await;
        upstream.message().await;
        upstream.send(OK).await;
        assert_eq!(clients[0].message().await.status(), 200);
        assert_eq!(counted(world, "pool_retries"), (1, 0, 0));
    });
}

#[test]
fn no_client_fills_a_queue_with_a_limit_per_client() {
    let text = "pool app { server 10.0.1.1:80 max_conn=1; queue max=10 per_client=2 timeout=1m; }
        listen 10.0.0.1:80 -> app;";
    play(text, async |world| {
        let origin = world.origin(1);
        let mut clients = Vec::new();
        for _ in 0..3 {
            let mut client = world.client().await;
            client.send(GET).await;
            clients.push(client);
            pass(1).await;
        }
        for _ in 0..5 {
            assert_eq!(ask(&mut world.client().await, GET).await, 503);
        }
        let mut other = world.client_from("192.0.2.9", "10.0.0.1:80").await;
        other.send(GET).await;
        clients.push(other);
        pass(1).await;
        assert_eq!(world.waiting(), 3);
        let mut upstream = origin.accept().await;
        for client in &mut clients {
            upstream.message().await;
            upstream.send(OK).await;
            assert_eq!(client.message().await.status(), 200);
        }
        assert_eq!(counted(world, "queue_per_client"), (5, 0, 0));
    });
}

#[test]
fn requests_in_flight_with_one_key_are_bounded_over_all_workers() {
    let limit = "limit in_flight $http_x_key max=2 name=keys status=503;";
    play(&limited("", "", limit), async |world| {
        let origin = world.origin(1);
        let request = |key: &str| format!("GET /app HTTP/1.1\r\nHost: a\r\n{key}\r\n");
        let mut running = Vec::new();
        for key in ["X-Key: a\r\n", "X-Key: a\r\n", "X-Key: b\r\n", "", "", ""] {
            let mut client = world.client().await;
            client.send(request(key)).await;
            let mut upstream = origin.accept().await;
            upstream.message().await;
            running.push((client, upstream));
        }
        let mut third = world.client().await;
        assert_eq!(ask(&mut third, &request("X-Key: a\r\n")).await, 503);
        world.expect_logged("in_flight_limited", Some(503)).await;
        assert_eq!(ask(&mut third, GET).await, 204, "another route");
        let (mut client, mut upstream) = running.remove(0);
        upstream.send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n").await;
        assert_eq!(client.message().await.status(), 200);
        third.send(request("X-Key: a\r\n")).await;
        let mut upstream = origin.accept().await;
        upstream.message().await;
        running.push((third, upstream));
        for (mut client, mut upstream) in running {
            upstream.send(OK).await;
            assert_eq!(client.message().await.status(), 200);
        }
        assert_eq!(counted(world, "in_flight"), (1, 0, 0));
    });
}

#[test]
fn limits_of_one_name_count_together_and_each_request_once() {
    let text = "pool app { server 10.0.1.1:80; }
        listen 10.0.0.1:80 {
            route internal @second -> app {
                limit rate $remote_addr rate=1/m burst=4 name=one;
                limit in_flight $remote_addr max=1 name=one;
            }
            route path /first -> internal @second {
                limit rate $remote_addr rate=1/m burst=4 name=one;
                limit in_flight $remote_addr max=1 name=one;
            }
            route path /other -> respond 204 { limit rate $remote_addr rate=1/m burst=1 name=one; }
        }";
    play(text, async |world| {
        world.origin(1).answers(OK);
        let mut client = world.client().await;
        let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
        let mut statuses = Vec::new();
        for path in ["/first", "/other", "/other", "/first", "/first", "/first", "/first"] {
            statuses.push(ask(&mut client, &get(path)).await);
        }
        assert_eq!(statuses, [200, 204, 429, 200, 200, 200, 429]);
        assert_eq!(counted(world, "in_flight"), (0, 0, 0));
    });
}
